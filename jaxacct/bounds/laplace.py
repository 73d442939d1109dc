"""One release of the Laplace mechanism: its profile in closed form, the same in both directions."""

import math
from collections.abc import Mapping

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Query
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import loss_distribution, of_one_release
from jaxacct.bounds.bases import BASES, spread
from jaxacct.mechanisms import Laplace
from jaxacct.special import down, up


def _largest(mechanism: Laplace) -> float:
    """1/b: the largest loss, at which the release is purely epsilon-DP; inf where the quotient is no double."""
    scale = float(mechanism.noise_multiplier)
    return 1.0 / scale if scale > 1e-300 else math.inf


def laplace_delta(mechanism: Laplace, epsilon: float) -> Ends[float]:
    """Two floats, the certified lower and upper end of delta at `epsilon` >= 0, for noise of scale b:

        delta(epsilon) = 1 - e^((epsilon - 1/b) / 2) for epsilon < 1/b, and 0 from there on.

    Balle, Barthe & Gaboardi 2018, Theorem 3. The same in both directions. Relative width 1e-14, more within some ulp
    of 1/b.
    """
    largest = _largest(mechanism)
    if math.isinf(largest):  # 1/b is at least 1e300
        return Ends(1.0 - 2.0**-50 if epsilon < 1e299 else 0.0, 1.0)
    gap = largest - epsilon
    error = 2.0**-51 * largest  # of 1/b, and of the difference
    lower, upper = (-math.expm1(-0.5 * max(gap + side * error, 0.0)) for side in (-1.0, 1.0))
    upper = 0.0 if gap < -error else upper
    upper = min(1.0, math.nextafter(up(upper, 8), 2.0)) if upper > 0.0 else 0.0  # subnormal numbers too
    return Ends(max(0.0, math.nextafter(down(lower, 8), -1.0)), upper)


def laplace_epsilon(mechanism: Laplace, delta: float) -> Ends[float]:
    """Two floats, the certified lower and upper end of epsilon at `delta` in (0, 1), for noise of scale b:

        epsilon(delta) = 1/b + 2 log(1 - delta), and at least 0.

    The inverse of `laplace_delta`; the same in both directions.
    """
    largest, fall = _largest(mechanism), 2.0 * math.log1p(-delta)
    error = 2.0**-50 * (largest - fall)
    upper = min(up(largest, 8), largest + fall + error)
    lower = max(0.0, math.nextafter(largest + fall - error, -1.0)) if largest < math.inf else 0.0
    return Ends(lower, max(0.0, math.nextafter(upper, math.inf)))


def _bracket(mechanism: Laplace, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction asked: equal, since swapping the two distributions mirrors the loss."""
    answer = laplace_delta if query is Query.DELTA else laplace_epsilon
    return dict.fromkeys(at.known, answer(mechanism, target))


EXACT = BracketMethod(
    name="exact",
    name_below="exact, from below",
    theorem="Balle, Barthe & Gaboardi 2018, Theorem 3",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MICROSECONDS,
    cold=Cost.MICROSECONDS,
    bracket=_bracket,
    reduction=lambda mechanism: False,
    named_width=1e-9,
)
DISTRIBUTION = of_one_release(BASES[Laplace], "the pair's own loss distribution", spread)

METHODS = {(Laplace,): (EXACT, loss_distribution(DISTRIBUTION))}
