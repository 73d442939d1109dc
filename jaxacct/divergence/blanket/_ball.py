"""The blanket of vectors in a ball of known dimension with Gaussian noise, spread out in the convex order.

docs/papers/blanket.md, BL-4: the worst pair is antipodal. In standard deviations of the noise, w ~ N(0, I_d), u its
component along the pair and z the length of the rest, the measure that all reports have in common is e^-l N(0) with
l = a sqrt(u^2 + z^2) + a^2 / 2; and with y = e^(a u - a^2/2), y' = e^(-a u - a^2/2) one report's L is e^l (y - c y'):
the law of `jaxacct.divergence.batches._replaced`, with a chi law of d - 1 degrees of freedom for z.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence.batches._blanket import FARTHEST, MOST_LOSS, cells_of_rest, quantile
from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.divergence.batches._replaced import ReplacedLaw, law_beside
from jaxacct.special import ULP, log_normal_tail

MOST_DIMENSIONS = 4000  # of data: beyond it the sums for a tail are long, and reports have little in common
_MOST_LOG = 170.0  # nats, of e^l: up to it the margin added to masses covers its rounding (docs/numerics/clones.md)
_BELOW = 8.0  # standard deviations below the middle of a chi law where cells begin: z below is rounded up


class BallLaw(NamedTuple):
    """The law of e^l (y - c y') under e^-l N(0): see class `ReplacedLaw`."""

    law: ReplacedLaw

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0, its values rounded up."""
        value, mass = self.law.atoms(epsilon, Direction.REMOVE)
        return StepLaw(value, mass, self.law.least_mass, self.law.cut)


@functools.lru_cache(maxsize=16)
def ball_law(a: float, dimension: int, cut: float) -> BallLaw | None:
    """NamedTuple: the law of reports of `dimension` >= 2 dimensions; None where the noise or `cut` is too small.

    Args:
      a: 1 / noise multiplier.
      dimension: the dimension of the data.
      cut: about how much may be left out of E (L)_+, a probability.
    """
    reach, rest = quantile(0.25 * cut) + a, dimension - 1
    if not (a <= MOST_LOSS and reach <= FARTHEST and dimension <= MOST_DIMENSIONS):
        return None
    middle = math.sqrt(rest)
    last = middle + quantile(0.125 * cut)  # approximately: P(z > E z + x) <= e^(-x^2 / 2)
    if a * math.hypot(reach + 1.0, last + 1.0) > _MOST_LOG:
        return None
    return BallLaw(law_beside(a, reach, cells_of_rest(lambda x: chi_tail(rest, x), max(middle - _BELOW, 0.0), last)))


def chi_tail(degrees: int, x: Any) -> Any:
    """P(z > x) [N] for x >= 0, rounded up, z the length of a normal vector of m = `degrees` components.

    With y = x^2 / 2, e^-y sum_{j < m/2} y^j / j! for even m, and 2 Q(x) + sqrt(2/pi) e^-y sum_{0 < j <= (m-1)/2}
    x^(2 j - 1) / (1 3 .. (2 j - 1)) for odd m: positive terms.
    """
    y = 0.5 * x * x
    with np.errstate(divide="ignore"):
        log = np.log(y)
    terms = degrees // 2
    if degrees % 2:
        j = np.arange(1, terms + 1)
        # x^(2 j - 1) / (1 3 .. (2 j - 1)) sqrt(2 / pi) = y^(j - 1/2) / Gamma(j + 1/2)
        powers, scale = j - 0.5, np.array([math.lgamma(i + 0.5) for i in j])
        found = 2.0 * np.exp(log_normal_tail(x))
    else:
        j = np.arange(terms)
        powers, scale = j + 0.0, np.array([math.lgamma(i + 1.0) for i in j])
        found = np.zeros_like(x)
    for power, size in zip(powers, scale, strict=True):
        found = found + np.exp((power * log if power else 0.0) - size - y)
    # errors of exponents: two roundings of their parts, the logarithm's and lgamma's own errors; then the sum
    size = y + (terms + 1.0) * (np.where(y > 0.0, np.abs(log), 0.0) + math.log(terms + 2.0))
    return np.minimum(found * (1.0 + ULP * (64.0 * (1.0 + x * x) + 16.0 * size + terms)), 1.0)
