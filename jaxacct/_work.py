"""How much work loss distributions are: counted as they are made, for those who choose how fine the next ones will be.

The unit is a pair of lattice points whose masses are multiplied, some 1.5 nanoseconds.
"""

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Iterator

from jaxacct._patience import say_long

# Measured; they steer running time, and where a refinement ends.
_CONVOLVED = 0.45  # of two laws that are added, for each pair of their points
_NEAR, _SINGLE = 1.1, 0.5  # and for each pair of points so near to each other, nats, that their cells are their own
_PER_DISTANCE = 9000.0  # and for each distance of such points
_PER_CELL = 600.0  # of the law of one release
_PER_TRANSFORMED_POINT = 230.0  # of a composed distribution, for each tilt
_LONG = 4e9  # some six seconds
_LONG_SUMS = 2e9  # some three of one law, of which there are two at least, from above and from below
_KNOWN_SIZE, _AT_LAST = 1024, 4  # points from which on it is seen how many there will be; sums of about so many


@dataclasses.dataclass
class Work:
    """What was done so far: a part that grows with the square of the number of points, and one that grows with it.

    `again` is how much of both had been done for another question before.
    """

    square: float = 0.0
    linear: float = 0.0
    again: float = 0.0

    def at(self, finer: float) -> float:
        """What the same takes on lattices that are `finer` times finer; 1 for what it took."""
        return self.square * finer**2 + self.linear * finer

    def growth(self, work: float) -> float:
        """How many times finer the same may be to take at most so much `work` (to rounding); inf for no limit."""
        if work <= 0.0 or self.at(1.0) <= 0.0:
            return 0.0 if work <= 0.0 else math.inf
        return 2.0 * work / (self.linear + math.sqrt(self.linear**2 + 4.0 * self.square * work)) * (1.0 - 2.0**-40)


_counting: contextvars.ContextVar[Work | None] = contextvars.ContextVar("jaxacct_work", default=None)


@contextlib.contextmanager
def counted() -> Iterator[Work]:
    """The `Work` that is done inside of the block, by this thread."""
    work = Work()
    before = _counting.set(work)
    try:
        yield work
    finally:
        _counting.reset(before)


def count_cells(size: int) -> None:
    """Counts the law of one release on `size` cells, and says so in words where what is made of it takes long."""
    _count(0.0, _PER_CELL * size)
    if 4.0 * _PER_CELL * size > _LONG:  # four are looked at: of two directions, from above and from below
        say_long(f"the loss distribution of one release has {size} points")


def _of_sum(size: int, step: float) -> tuple[float, float]:
    """The work of a sum of two laws of `size` points that are `step` apart, nats: its square and its linear part."""
    near = min(float(size), _NEAR / step)
    return _CONVOLVED * size * size + _SINGLE * size * near, _PER_DISTANCE * near


def count_sum(size: int, step: float, *, same: bool) -> None:
    """Counts a sum of two laws of `size` points each, `step` apart; `same` if they are one."""
    share = 0.5 if same else 1.0
    square, linear = _of_sum(size, step)
    _count(share * square, share * linear)


def count_transforms(size: int, number: int) -> None:
    """Counts `number` compositions of `size` points, and says so in words where they take long."""
    _count(0.0, _PER_TRANSFORMED_POINT * size * number)
    if _PER_TRANSFORMED_POINT * size * number > _LONG:
        say_long(f"a composed loss distribution has {size} points")


def expect_sums(size: int, step: float, number: int, finest: float) -> None:
    """Says in words where `number` sums of two laws take long, of `size` points now and as many more as steps fall.

    Args:
      step, finest: between points now, and in the end.
    """
    if finest < step:
        if size < _KNOWN_SIZE:  # the first laws have more points than their spread asks for
            return
        size, number = int(size * step / finest), min(number, _AT_LAST)
    if 0.75 * number * sum(_of_sum(size, finest)) > _LONG_SUMS:
        say_long(f"averages are built of {number} sums of laws of {size} points")


def count_made(work: Work, *, again: bool) -> None:
    """Counts what was made by `work`, all of it `again` where another question had made it before."""
    here = _counting.get()
    if here is not None:
        here.square += work.square
        here.linear += work.linear
        here.again += work.at(1.0) if again else work.again


def _count(square: float, linear: float) -> None:
    work = _counting.get()
    if work is not None:
        work.square += square
        work.linear += linear
