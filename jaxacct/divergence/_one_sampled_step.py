"""The profile of one Poisson-sampled step of a symmetric pair: the best test is a threshold on the pair's own ratio.

With Y the likelihood ratio of the pair that is sampled, R = 1 - q + q Y that of the step, and H_k the hockey-stick
divergence of the pair at k, the same in both directions,

    remove:  E_Q[(R - e^eps)_+] = q H_k,     k = 1 + (e^eps - 1) / q,
    add:     E_Q[(1 - e^eps R)_+] = c H_k,   k = e^eps q / c,   c = 1 - e^eps (1 - q); 0 where c <= 0.

The first is Balle, Barthe & Gaboardi 2018, Theorem 2 ("advanced joint convexity") with equality.
"""

import math
from collections.abc import Callable
from typing import Protocol

from jaxacct._types import Direction, Ends
from jaxacct.special import bisect, down, first_doubling, product_outward

_MOST_EPSILON = 600.0  # nats: e^eps is computed up to here; beyond, the ends are trivial
_NUM_HALVINGS = 60  # bisection steps for epsilon, each of which keeps the safe end of the bracket


class Profile(Protocol):
    """H_k of the pair at ``log k >= 0``, rounded up or down; ``log k`` may have a relative error of 2^-48."""

    def __call__(self, log_threshold: float, *, is_upper: bool) -> float: ...


def one_step_delta(profile: Profile, prob: float, direction: Direction, epsilon: float) -> Ends[float]:
    """Two floats, the certified ends of delta at `epsilon` >= 0, for 0 < `prob` <= 1, by the module's formulas."""
    if epsilon > _MOST_EPSILON:
        return Ends(0.0, 1.0)
    grown = math.expm1(epsilon)
    if direction is Direction.REMOVE:
        if epsilon < 1.0:
            log_threshold = math.log1p(grown / prob)
        else:  # the quotient may be no double
            log_threshold = epsilon - math.log(prob) + math.log1p((prob - 1.0) * math.exp(-epsilon))
        return Ends(
            down(prob * profile(log_threshold, is_upper=False), 8),
            product_outward(prob, profile(log_threshold, is_upper=True), up=True),
        )
    # c, in which delta increases, and the rounding error of its two terms
    kept, error = prob - grown * (1.0 - prob), 2.0**-50 * (prob + grown)
    ends = []
    for sign in (-1.0, 1.0):
        c = kept + sign * error
        if c <= 0.0:
            ends.append(0.0)
            continue
        log_threshold = max(math.log((1.0 + grown) * prob / c), 0.0)
        ends.append(product_outward(c, profile(log_threshold, is_upper=sign > 0.0), up=sign > 0.0))
    return Ends(*ends)


def one_step_epsilon(profile: Profile, prob: float, direction: Direction, delta: float) -> Ends[float]:
    """Two floats, the certified lower and upper end of epsilon at `delta` in (0, 1): `one_step_delta` bisected."""
    return inverted(lambda epsilon: one_step_delta(profile, prob, direction, epsilon), delta)


def inverted(delta_at: Callable[[float], Ends[float]], delta: float) -> Ends[float]:
    """Two floats, the certified ends of epsilon at `delta` in (0, 1), by bisection on the ends of delta, `delta_at`."""

    def fits(epsilon: float) -> bool:
        return delta_at(epsilon).upper <= delta

    def holds(epsilon: float) -> bool:
        return delta_at(epsilon).lower >= delta

    if fits(0.0):
        return Ends(0.0, 0.0)
    upper = first_doubling(fits, limit=_MOST_EPSILON).upper
    if math.isinf(upper):
        return Ends(0.0, math.inf)
    upper = bisect(fits, upper, 0.0, num_steps=_NUM_HALVINGS)
    return Ends(bisect(holds, 0.0, upper, num_steps=_NUM_HALVINGS), upper)
