"""Warns that an answer takes long, and why, while much of the work is still ahead."""

import contextvars
import sys
import time
import types
import warnings
from collections.abc import Callable, Generator, Iterable

from jaxacct._types import Piece, SlowWarning

LONG = 4.0  # seconds still ahead from which a warning is given; or that a first piece took
_FEW = 2  # pieces after which the time of one counts as known: the first may compile programs

_seconds = time.thread_time  # of this thread's own work: what else runs on the machine does not count

_outer: contextvars.ContextVar["_Loop | None"] = contextvars.ContextVar("jaxacct_outer_loop", default=None)


class _Loop:
    """One loop over pieces of an answer, and whether it, or a loop inside it, has warned that it takes long.

    `of` says what the pieces are; `ahead` is how many come after the current one.
    """

    of, ahead = "", 0
    has_said = inner_has_said = False

    def warn(self, each: float, outer: "_Loop | None") -> None:
        """Warns that `ahead` pieces of about `each` seconds are still to come."""
        self.has_said = True
        _say(f"this takes long: {self.ahead} more {self.of}, about {each:.1g} seconds each", outer)


def with_slow_warning(
    pieces: Iterable[Piece], of: str, count: int, known_after: int = _FEW
) -> Generator[Piece, None, None]:
    """Yields the `pieces` of an answer, with a `SlowWarning` if about `count` of them take long.

    The warning comes once, after the first few pieces. A loop inside another one does not warn once either of them has.
    If the outer loop's pieces are long because of this one, the outer loop warns as soon as this one knows its time.

    Args:
      of: what the pieces are, in the plural.
      known_after: pieces after which the time of one counts as known, the least of these.
    """
    outer, loop = _outer.get(), _Loop()
    loop.of = of
    if outer is None:
        _outer.set(loop)
    try:
        took: list[float] = []
        for piece in pieces:
            loop.ahead = count - len(took) - 1
            start = _seconds()
            yield piece
            took.append(_seconds() - start)
            each = min(took[-known_after:])
            is_known = len(took) >= known_after or each > LONG
            if not is_known or loop.has_said:
                continue
            if outer is not None and outer.ahead * count * each > LONG and not outer.has_said:
                outer.warn(count * each, None)
            if loop.ahead * each > LONG:
                loop.warn(each, outer)
    finally:
        if outer is None:
            _outer.set(None)


def timed(ask: Callable[[], Piece]) -> tuple[Piece, float]:
    """What `ask` returns, and how many seconds of this thread's work it took."""
    start = _seconds()
    return ask(), _seconds() - start


def tried(ask: Callable[[], Piece], of: str, count: int) -> Piece:
    """What `ask` returns, with a `SlowWarning` if about `count` such pieces of an answer, named `of`, take long."""
    found, each = timed(ask)
    if count * each > LONG:
        say_long(f"{count} {of}, about {each:.1g} seconds each")
    return found


def pieces() -> int:
    """The number of pieces still to come in the enclosing `with_slow_warning` loop, with this one; 1 outside one."""
    outer = _outer.get()
    return 1 if outer is None else 1 + max(outer.ahead, 0)


def say_long(why: str) -> None:
    """Warns (`SlowWarning`) that the answer takes long, and `why`; only once inside a `with_slow_warning` loop."""
    _say(f"this takes long: {why}", _outer.get())


def _say(message: str, outer: _Loop | None) -> None:
    if outer is not None:
        if outer.has_said or outer.inner_has_said:
            return
        outer.inner_has_said = True
    warnings.warn(message, SlowWarning, stacklevel=_caller())


def _caller() -> int:
    """The stack level, as `warnings.warn` in `_say` counts, of the outside code that called the package."""
    frame: types.FrameType | None = sys._getframe(1)
    number = last = 1
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == __package__:
            last = number
        frame, number = frame.f_back, number + 1
    return last + 1
