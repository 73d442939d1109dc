"""How far normal variables are followed where the law of a ratio is made of them, and what lies beyond."""

import math
from typing import NamedTuple

from jaxacct.bounds.bases._base import SMALLEST

SURE_Z = 36.0  # up to this z a cell's mass under Q is a normal double: phi(36) is 1e-282
_Z_RANGE = 10.0  # standard deviations that are followed from the outermost means, or further
_OUTSIDE = 1e-23  # > Phi(-10), what lies outside under Q or under P: counted at 0 and at infinity


class Reach(NamedTuple):
    """How many standard deviations are followed from the outermost means, and an upper bound on the mass beyond."""

    z_range: float
    outside: float


def reach_for(tail: float) -> Reach:
    """The `Reach` (NamedTuple) of a law from whose ends the mass `tail` each may be taken off the grid.

    Phi(-z) <= e^{-z^2/2}/2: what lies outside is below the tail that may be cut off anyway.
    """
    if tail <= 0.0:
        return Reach(_Z_RANGE, _OUTSIDE)
    return Reach(max(_Z_RANGE, math.sqrt(-2.0 * math.log(tail))), max(min(_OUTSIDE, tail), SMALLEST))
