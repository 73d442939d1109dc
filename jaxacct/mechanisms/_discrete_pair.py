"""A mechanism given by two distributions on a finite set."""

from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct._validate import checked_array
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import fixed
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class DiscretePair(Release):
    """One release whose worst-case outputs are distributed by `p` with the record and by `q` without it.

    Randomized response and other mechanisms on a finite set, or any mechanism through a discrete dominating pair.
    Adjacency: add or remove one record.

    Args:
      p, q: probabilities, of the same length, each summing to 1 within 1e-9. Static: not differentiated through.

    Raises:
      ValueError: if they are not probabilities of the same length.

    >>> from jaxacct import DiscretePair
    >>> len(DiscretePair(p=(0.75, 0.25), q=(0.25, 0.75)).p)
    2
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "pair of distributions"
    released = EVERY_STEP
    reduction = None

    p: Any = fixed()
    q: Any = fixed()

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            values = checked_array(name, getattr(self, name)).astype(np.float64)
            if values.ndim != 1 or not (np.all(values >= 0) and abs(values.sum() - 1.0) <= 1e-9):
                raise ValueError(f"{name}={getattr(self, name)!r} must be probabilities that sum to 1")
            object.__setattr__(self, name, tuple(values.tolist()))
        if len(self.p) != len(self.q):
            raise ValueError(f"q has {len(self.q)} entries; must have as many as p, {len(self.p)}")

    def describe(self) -> str:
        return f"one of {len(self.p)} outputs, by its probabilities p with the record and q without"

    def assumptions(self) -> tuple[str, ...]:
        telling = "each step's outputs with the record are no easier to tell from those without it than p from q"
        return (f"{telling}; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.p == self.q)
