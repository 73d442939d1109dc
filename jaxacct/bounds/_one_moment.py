"""Upper ends of the add direction from one real moment: good enough where the remove direction is known to be worse.

Renyi accounting of a composition of allocation rounds, at orders 1 + p with the moments E X^-p of
`jaxacct.divergence.allocation._negative_moments`, converted to delta (see `jaxacct.divergence._inversion`):

    delta <= e^{log M(a) - (a - 1) eps} (1 - 1/a)^(a-1) / a.

Shapes: [L] lanes; [R] rounds, of which a lane has one or more; [P] orders.
"""

from typing import Any

import numpy as np

from jaxacct._method import Query
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._negative_moments import log_negative_moments

# They steer running time only.
_POWERS = np.geomspace(0.6, 12.0, 10)  # orders a - 1 tried, times the standard deviation of the composed loss
_GAIN = 0.8  # of the epsilon of a Gaussian mechanism of the same variance: above, remove is likely to be far worse
_HEAVY = 1.5  # 1/sigma^2 beyond which the variance is no guide
_BLOCK = 32  # rounds computed at once


def is_likely_enough(sigma: Real, steps: Real, times: Real, lane: Any, query: Query, target: Real, enough: Real) -> Any:
    """Where `added_upper` is likely to be at most `enough` [L], bool [L]; the other arguments are the same.

    Judged by the variance of the likelihood ratios of all rounds of a lane.
    """
    epsilon, delta = (enough, target) if query is Query.EPSILON else (target, enough)
    square = np.bincount(lane, times * np.expm1(np.minimum(sigma**-2.0, _HEAVY)) / steps, len(target))
    with np.errstate(divide="ignore", invalid="ignore"):
        return epsilon > _GAIN * (0.5 * square + np.sqrt(-2.0 * square * np.log(delta)))


def added_upper(sigma: Real, steps: Real, times: Real, lane: Any, query: Query, target: Real) -> Real:
    """Upper ends [L] of the add direction for compositions of rounds [R] of `steps` steps.

    `sigma` [R] are the noise multipliers of the rounds, `times` [R] their numbers of runs, `lane` [R] their lanes;
    `target` [L] is delta or epsilon.
    """
    scale = np.sqrt(np.bincount(lane, times / (steps * sigma**2), len(target)))
    powers = _POWERS / scale[:, None]
    total = np.zeros_like(powers)
    for start in range(0, len(lane), _BLOCK):
        at = slice(start, start + _BLOCK)
        found = log_negative_moments(sigma[at], steps[at], powers[lane[at]])
        np.add.at(total, lane[at], times[at, None] * found)
    return from_moments(total, powers, query, target)


def from_moments(log_moments: Real, powers: Real, query: Query, target: Real) -> Real:
    """Upper ends [L] at `target` [L] from upper bounds on log M at orders 1 + `powers` [L, P], of any composition."""
    # (1 - 1/a)^(a-1) / a is p^p / a^a
    terms: list[Any] = [log_moments, powers * np.log(powers), -(1.0 + powers) * np.log1p(powers)]
    at_target = np.log(target)[:, None] if query is Query.EPSILON else powers * target[:, None]
    terms.append(-at_target)
    bound = sum(terms) + 2.0**-46 * (1.0 + sum(np.abs(x) for x in terms))
    if query is Query.EPSILON:
        return np.maximum((bound / powers).min(1), 0.0) * (1.0 + 2.0**-50)
    return np.exp(np.minimum(bound.min(1), 0.0)) * (1.0 + 2.0**-45)
