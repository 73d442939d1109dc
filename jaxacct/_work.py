"""The work that loss distributions take, counted as they are made, to choose how fine the next ones will be.

The unit is a pair of lattice points whose masses are multiplied, about 1.5 nanoseconds.
"""

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Iterator

from jaxacct._patience import say_long

# Measured; they steer running time, and where a refinement ends.
_CONVOLVED = 0.45  # for each pair of points of two laws that are added
_NEAR, _SINGLE = 1.1, 0.5  # nats within which a pair of points has cells of its own; for each such pair
_PER_DISTANCE = 9000.0  # and for each distance of such points
_PER_CELL = 600.0  # for each cell of the law of one release
_PER_TRANSFORMED_POINT = 230.0  # for each point of a composed distribution, and each tilt
_LONG = 4e9  # about six seconds
_LARGE_RELEASE = 7e5  # cells of one release: with what is composed of it, about as long
_LONG_SUMS = 2e9  # about three for one law; there are at least two, from above and from below
_KNOWN_SIZE, _AT_LAST = 1024, 4  # points from which the final number can be told; number of sums of about that many


@dataclasses.dataclass
class Work:
    """The work done so far: a part quadratic in the number of points, and a part linear in it.

    `again` is how much of both had been done before, for another question.
    """

    square: float = 0.0
    linear: float = 0.0
    again: float = 0.0

    def at(self, finer: float) -> float:
        """The work of the same computation on lattices `finer` times finer; at 1, the work that it took."""
        return self.square * finer**2 + self.linear * finer

    def growth(self, work: float) -> float:
        """How many times finer the lattices may be for at most this much `work` (up to rounding); inf for no limit."""
        if work <= 0.0 or self.at(1.0) <= 0.0:
            return 0.0 if work <= 0.0 else math.inf
        return 2.0 * work / (self.linear + math.sqrt(self.linear**2 + 4.0 * self.square * work)) * (1.0 - 2.0**-40)


_counting: contextvars.ContextVar[Work | None] = contextvars.ContextVar("jaxacct_work", default=None)


@contextlib.contextmanager
def counted() -> Iterator[Work]:
    """The `Work` that this thread does inside the block."""
    work = Work()
    before = _counting.set(work)
    try:
        yield work
    finally:
        _counting.reset(before)


def count_cells(size: int) -> None:
    """Counts the law of one release on `size` cells, and warns if what is made of it takes long."""
    _count(0.0, _PER_CELL * size)
    if size > _LARGE_RELEASE:  # there are four: two directions, each from above and from below
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
    """Counts `number` compositions of `size` points, and warns if they take long."""
    _count(0.0, _PER_TRANSFORMED_POINT * size * number)
    if _PER_TRANSFORMED_POINT * size * number > _LONG:
        say_long(f"a composed loss distribution has {size} points")


def expect_sums(size: int, step: float, number: int, finest: float) -> None:
    """Warns if `number` sums of two laws take long, of `size` points now and more in proportion as the step falls.

    Args:
      step, finest: distance between points now, and in the end.
    """
    if finest < step:
        if size < _KNOWN_SIZE:  # the first laws have more points than their spread asks for
            return
        size, number = int(size * step / finest), min(number, _AT_LAST)
    if 0.75 * number * sum(_of_sum(size, finest)) > _LONG_SUMS:
        say_long(f"averages are built of {number} sums of laws of {size} points")


def count_made(work: Work, *, again: bool) -> None:
    """Adds `work` to the count, all of it as `again` if it had been done before, for another question."""
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
