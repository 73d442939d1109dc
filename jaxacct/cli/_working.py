"""What a user sees during long work, and how Ctrl-C ends it."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO

INTERRUPTED = 130  # exit status
_QUIET = 2.0  # seconds without output
_GRACE = 1.0  # seconds in which the running code may handle Ctrl-C by itself
_AGAIN = 0.01  # seconds after which a Ctrl-C that was lost is raised again


def text_width() -> int:
    """Columns for text: those of the terminal, but at most 80; 80 without a terminal."""
    return max(40, min(80, shutil.get_terminal_size().columns))


@contextlib.contextmanager
def shown_working() -> Iterator[None]:
    """Shows on a terminal, on one line of standard error, how long the work has taken, and erases it at the end."""
    if not sys.stderr.isatty():
        yield
        return
    done, begun = threading.Event(), time.monotonic()

    def show() -> None:
        pause = _QUIET
        while not done.wait(pause):
            pause = 1.0
            print(f"\rworking: {time.monotonic() - begun:.0f} s", end="", file=sys.stderr, flush=True)

    clock = threading.Thread(target=show, daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()
        if time.monotonic() - begun > _QUIET:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def noted(kind: type[Warning]) -> Iterator[list[Any]]:
    """Collects the warnings of a kind that are raised inside; all others are shown at once."""
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        show = warnings.showwarning

        def note(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, kind):
                found.append(message)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = note
        yield found


def show_warnings_plainly() -> None:
    """Shows this package's warnings as one line each, as errors are shown: without a place in the code."""
    usual = warnings.formatwarning

    def shown(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        is_own = category.__module__.partition(".")[0] == "jaxacct"
        return f"jaxacct: {message}\n" if is_own else usual(message, category, filename, lineno, line)

    warnings.formatwarning = shown


def end_at_once(status: int) -> None:
    """Ends this process without waiting for other threads: compiler threads crash if Python exits first."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def watch_interrupts() -> None:
    """Lets Ctrl-C end this process even while a compiler runs, which Python's own handler would wait for.

    Python raises KeyboardInterrupt as always. If that is not handled within a second, the process ends with one line
    and status 130; if a callback or a finalizer swallows it, it is raised again. Call it in the main thread of a
    process that runs only the command line.
    """
    seen = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        seen.set()
        signal.default_int_handler(number, frame)

    def lost(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            sys.__unraisablehook__(unraisable)

    signal.signal(signal.SIGINT, handle)
    sys.unraisablehook = lost
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        while received := ours.recv(1):
            if received[0] == signal.SIGINT and not seen.wait(_GRACE):
                print("jaxacct: interrupted", file=sys.stderr, flush=True)
                end_at_once(INTERRUPTED)
            seen.clear()

    threading.Thread(target=watch, daemon=True).start()
    _KEPT.append(theirs)


_KEPT: list[socket.socket] = []  # the interpreter writes to its descriptor until the end
