"""Delta and epsilon of Poisson-sampled steps at one point, for the theorems that compare a scheme with them.

For Gaussian and Laplace noise they come from the contour integral of `jaxacct.bounds._host_line`; where its ends are
far apart, and for any other release, from the loss distribution of `jaxacct.bounds.poisson._profile`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from jaxacct._method import Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds._host_line import host_ends, is_within_reach
from jaxacct.bounds.poisson._profile import PoissonSteps, poisson_pld
from jaxacct.curves import Pld
from jaxacct.mechanisms import Composed, PoissonSampled

_WIDTH = 1e-6  # relative width at which the contour aims
_WIDE = 1e-4  # relative width of its ends beyond which the loss distribution is used too
_FEWEST_DIGITS = -300  # least log10 of the delta at which a loss distribution is made sharp, however small the target


def poisson_delta(base: Any, steps: tuple[PoissonSteps, ...], direction: Direction, epsilon: float) -> float:
    """float: delta at `epsilon` >= 0 of Poisson-sampled steps of `base`, upper bound in one direction.

    Zhu, Dong & Wang 2022, Theorem 11.
    """
    return _upper(
        _contour(base, steps, Query.DELTA, epsilon, direction),
        lambda: poisson_pld(base, steps, direction, epsilon=epsilon).delta(epsilon),
    )


def poisson_epsilon(base: Any, steps: tuple[PoissonSteps, ...], direction: Direction, delta: float) -> float:
    """float: epsilon at `delta` of Poisson-sampled steps of `base`, upper bound in one direction, or inf.

    Zhu, Dong & Wang 2022, Theorem 11. inf where `delta` is 0, as a share of a tiny delta may be.
    """
    if not delta > 0.0:
        return math.inf
    digits = max(math.floor(math.log10(delta)), _FEWEST_DIGITS)
    return _upper(
        _contour(base, steps, Query.EPSILON, delta, direction),
        lambda: _pld_near(base, steps, direction, digits).epsilon(delta),
    )


@functools.lru_cache(maxsize=8)
def _pld_near(base: Any, steps: tuple[PoissonSteps, ...], direction: Direction, digits: int) -> Pld:
    """A loss distribution that is sharp at deltas of about 10^`digits`, shared by all questions near each other."""
    return poisson_pld(base, steps, direction, delta=10.0**digits)


def _contour(
    base: Any, steps: tuple[PoissonSteps, ...], query: Query, target: float, direction: Direction
) -> Ends[float]:
    run = Composed(tuple(PoissonSampled(base, *s) for s in steps))
    if not is_within_reach(run):
        return Ends(0.0, math.inf)
    return host_ends(run, query, target, direction, _WIDTH)


def _upper(ends: Ends[float], otherwise: Callable[[], float]) -> float:
    """The upper end or, where the two ends are far apart, the lesser of it and another upper bound."""
    if ends.upper < math.inf and ends.upper - ends.lower <= _WIDE * ends.upper:
        return ends.upper
    return min(ends.upper, otherwise())
