"""Keeps what several questions about one mechanism need: the splits of a replaced record ask a dozen questions."""

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from jaxacct._types import Piece
from jaxacct._work import Work, count_made, counted

# What was made for a smaller tail is used for a larger one. It is also used for a somewhat smaller one, where the error
# is too small to be seen: a tail is about 1e-7 of delta.
_SMALLER, _LARGER = 2.0**-8, 8.0


class _Shared:
    """What was made, by its key, as (tail, value, work); and the numbers that were noted."""

    def __init__(self) -> None:
        self.made: dict[Hashable, list[tuple[float, Any, Work]]] = {}
        self.noted: dict[Hashable, float] = {}


_shared: contextvars.ContextVar[_Shared | None] = contextvars.ContextVar("jaxacct_shared", default=None)


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Inside the block this thread keeps what it makes by `once`; a nested block is part of the outer one."""
    before = _shared.get()
    token = _shared.set(before or _Shared())
    try:
        yield
    finally:
        _shared.reset(token)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Inside the block nothing is taken from `shared` blocks around it: for what a cache keeps for other questions."""
    token = _shared.set(_Shared())
    try:
        yield
    finally:
        _shared.reset(token)


def once(key: Hashable, tail: float, make: Callable[[], Piece]) -> Piece:
    """What `make` returns; inside `shared`, what it returned before for this key and about this `tail`.

    Its work is counted each time, to predict how much the next finer one will take.
    """
    here = _shared.get()
    if here is None:
        return make()
    known = here.made.setdefault(key, [])
    for of, value, work in known:
        if _SMALLER * tail <= of <= _LARGER * tail:
            count_made(work, again=True)
            found: Piece = value
            return found
    with counted() as work:
        found = make()
    known.append((tail, found, work))
    count_made(work, again=False)
    return found


def noted(key: Hashable, otherwise: float) -> float:
    """The number last noted for `key` inside `shared`, or `otherwise` if there is none."""
    here = _shared.get()
    return otherwise if here is None else here.noted.get(key, otherwise)


def note(key: Hashable, value: float) -> None:
    """Keeps a number for `noted`; does nothing outside `shared`."""
    here = _shared.get()
    if here is not None:
        here.noted[key] = value
