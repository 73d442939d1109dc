"""Saying in words, while there is much to come, that an answer takes long, and why."""

import contextvars
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator

from jaxacct._types import Piece, SlowWarning

_LONG = 4.0  # seconds to come from which on it is said; or that a first piece took
_FEW = 2  # pieces after which it is known how long one takes: the first may compile programs

_seconds = time.thread_time  # of this thread's own work: what else runs on the machine does not count

_outer: contextvars.ContextVar["_Loop | None"] = contextvars.ContextVar("jaxacct_outer_loop", default=None)


class _Loop:
    """One loop over pieces of an answer, and whether it has been said that it, or one inside of it, takes long.

    `of` says what the pieces are, `ahead` is how many come after the one that is made just now.
    """

    of, ahead = "", 0
    has_said = inner_has_said = False

    def warn(self, each: float, outer: "_Loop | None") -> None:
        """Says how many pieces are ahead, of so many seconds `each`."""
        self.has_said = True
        _say(f"this takes long: {self.ahead} more {self.of}, about {each:.1g} seconds each", outer)


def told(pieces: Iterable[Piece], of: str, count: int) -> Iterator[Piece]:
    """The `pieces` of an answer, one after the other; a `SlowWarning` where about `count` of them take long.

    It is said once, after the first few. Inside of another such loop it is not said again once either has; and where
    the pieces of the other are long since this one is, that is said as soon as it is known of this one.

    Args:
      of: what they are, in the plural.
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
            each = min(took[-_FEW:])
            is_known = len(took) >= _FEW or each > _LONG
            if not is_known or loop.has_said:
                continue
            if outer is not None and outer.ahead * count * each > _LONG and not outer.has_said:
                outer.warn(count * each, None)
            if loop.ahead * each > _LONG:
                loop.warn(each, outer)
    finally:
        if outer is None:
            _outer.set(None)


def tried(ask: Callable[[], Piece], of: str, count: int) -> Piece:
    """What `ask` returns; a `SlowWarning` where about `count` such pieces of an answer, `of` that name, take long."""
    start = _seconds()
    found = ask()
    each = _seconds() - start
    if count * each > _LONG:
        say_long(f"{count} {of}, about {each:.1g} seconds each")
    return found


def pieces() -> int:
    """How many pieces the loop of `told` that this is in has still to make, this one included; 1 outside of any."""
    outer = _outer.get()
    return 1 if outer is None else 1 + max(outer.ahead, 0)


def say_long(why: str) -> None:
    """Warns (`SlowWarning`) that the answer takes long, and `why`; once inside of a loop of `told`."""
    _say(f"this takes long: {why}", _outer.get())


def _say(message: str, outer: _Loop | None) -> None:
    if outer is not None:
        if outer.has_said or outer.inner_has_said:
            return
        outer.inner_has_said = True
    warnings.warn(message, SlowWarning, stacklevel=_caller())


def _caller() -> int:
    """The number of the frame, as `warnings.warn` in `_say` counts, of who called the package from outside."""
    frame: types.FrameType | None = sys._getframe(1)
    number = last = 1
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == __package__:
            last = number
        frame, number = frame.f_back, number + 1
    return last + 1
