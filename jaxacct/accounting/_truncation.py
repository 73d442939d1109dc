"""How much epsilon and delta grow for runs that differ, with a small probability, from what was described.

Run both with the same randomness: on either of two neighbours they differ with a probability of at most tau =
`overflow`. So delta(epsilon) grows by at most (1 + e^epsilon) tau, and falls by no more: see `Batches.excess_delta`.
"""

import math
from collections.abc import Callable

from jaxacct.special import grown

_SHARES = (2.0**-40, 2.0**-20, 2.0**-14, 2.0**-10, 2.0**-8, 2.0**-6, 2.0**-4, 0.25, 0.5, 0.75)  # of delta, for cuts
_ROUND_DOWN = 1.0 - 2.0**-48  # a sum and three products
_ROUND_UP = 1.0 + 2.0**-50  # a product of two doubles, and a sum of two


def excess(overflow: float, epsilon: float) -> float:
    """(1 + e^epsilon) times `overflow`, rounded up; 1 at most."""
    return min(1.0, (overflow + grown(overflow, epsilon, 16)) * _ROUND_UP) if overflow else 0.0


def sum_up(value: float, more: float) -> float:
    """The sum of two probabilities, rounded up; 1 at most."""
    return min(1.0, (value + more) * _ROUND_UP) if more else value


def epsilon_within(
    epsilon_at: Callable[[float], float], target_delta: float, overflow: float
) -> tuple[float, float | None]:
    """(upper bound on epsilon at `target_delta`, the delta used for the described run); (inf, None) if there is none.

    A share of delta, the smallest of those tried that is enough, is kept for the excess.
    """
    if not overflow:
        return epsilon_at(target_delta), target_delta
    for share in (share for share in _SHARES if overflow <= share * target_delta):
        left = math.nextafter(target_delta * (1.0 - share), 0.0)
        found = epsilon_at(left)
        if excess(overflow, found) <= share * target_delta * _ROUND_DOWN:
            return found, left
    return math.inf, None
