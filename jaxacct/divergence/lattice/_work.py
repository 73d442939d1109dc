"""How much work sums of laws are: counted as they are made, for those who choose how fine the next ones will be."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator

_PER_POINT = 6000.0  # pairs of points whose products take as long as what is done once for each point, measured


@dataclasses.dataclass
class Work:
    """What the sums made so far took, in pairs of points that were multiplied: a billion of them some 1.5 seconds."""

    pairs: float = 0.0
    points: float = 0.0

    def at(self, finer: float) -> float:
        """What the same sums take on lattices that are `finer` times finer; 1 for what they took."""
        return self.pairs * finer**2 + _PER_POINT * self.points * finer


_counting: contextvars.ContextVar[Work | None] = contextvars.ContextVar("jaxacct_lattice_work", default=None)


@contextlib.contextmanager
def counted() -> Iterator[Work]:
    """The `Work` of the sums that are made inside of the block, by this thread."""
    work = Work()
    before = _counting.set(work)
    try:
        yield work
    finally:
        _counting.reset(before)


def count_sum(size: int, *, same: bool) -> None:
    """Counts a sum of two laws of `size` points each; `same` if they are one."""
    work = _counting.get()
    if work is not None:
        share = 0.5 if same else 1.0
        work.pairs += share * size * size
        work.points += share * size
