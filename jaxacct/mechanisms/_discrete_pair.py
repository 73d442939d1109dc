"""A mechanism given by two distributions on a finite set."""

import math
from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct._validate import checked_array, checked_number
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import fixed
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP

_MOST_EPSILON = 300.0  # the largest of a staircase: its odds are then a double
_SLACK = 2.0**-44  # of exponentials, quotients and a difference: about ten roundings, and that of epsilon


@description
class DiscretePair(Release):
    """One release whose worst-case outputs are distributed by `p` with the record and by `q` without it.

    This is for randomized response and other mechanisms on a finite set, or for any mechanism through a discrete
    dominating pair. Adjacency: add or remove one record.

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

    @classmethod
    def staircase(cls, epsilon: float, gamma: float | None = None) -> "DiscretePair":
        """The staircase mechanism: its noise density falls by e^-epsilon once per sensitivity, after a share `gamma`.

        With sensitivity 1, its density at |x| in [k, k + gamma) is a e^(-k E), and in [k + gamma, k + 1) it is a
        e^(-(k+1) E), where a = (1 - e^-E) / (2 (gamma + e^-E (1 - gamma))) (Geng & Viswanath 2014, "The optimal
        mechanism in differential privacy"). Its losses are E, 0 and -E. If the noise is shifted by d <= 1, the outputs
        of loss E have the mass a e^-E min(d, 2 gamma) + sum over k >= 1 of a e^(-(k+1) E) d. This grows with d, so that
        the whole shift is the worst case at every epsilon. There are then three outputs; the one of loss 0 has the mass
        |1 - 2 gamma| a, times e^-E where gamma < 1/2. Masses are rounded towards more loss.

        Args:
          epsilon: float > 0 and at most 300, E.
          gamma: float in [0, 1]; if not given, 1 / (1 + e^(E/2)), which has the least mean absolute error.

        Raises:
          ValueError: if an argument is out of range.

        >>> import jaxacct as ja
        >>> pair = ja.DiscretePair.staircase(1.0)
        >>> round(ja.delta(pair, 0.5), 4), round(ja.delta(ja.EpsilonDelta(1.0), 0.5), 4)
        (0.2741, 0.2876)
        """
        top = checked_number("epsilon", epsilon)
        if not 0.0 < top <= _MOST_EPSILON:
            raise ValueError(f"epsilon={top} must be > 0 and at most {_MOST_EPSILON:g}")
        share = 1.0 / (1.0 + math.exp(0.5 * top)) if gamma is None else checked_number("gamma", gamma)
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"gamma={share} must be in [0, 1]")
        fall = math.exp(-top)
        height = -math.expm1(-top) / (2.0 * (share + fall * (1.0 - share)))
        same = abs(1.0 - 2.0 * share) * height * (fall if share < 0.5 else 1.0)
        same = max(0.0, min(1.0, same) * (1.0 - _SLACK) - _SLACK * height)
        odds = math.exp(-top * (1.0 + _SLACK)) * (1.0 - _SLACK)
        told = (1.0 - same) / (1.0 + odds)
        return cls((told, odds * told, same), (odds * told, told, same))

    def describe(self) -> str:
        return f"one of {len(self.p)} outputs, by its probabilities p with the record and q without"

    def assumptions(self) -> tuple[str, ...]:
        telling = "each step's outputs with the record are no easier to tell from those without it than p from q"
        return (f"{telling}; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.p == self.q)
