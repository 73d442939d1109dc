"""Upper tails of binomial laws on the host, rounded up."""

import math

import numpy as np

from jaxacct.special._binomial_window import log_binomial_weights
from jaxacct.special._rounding import LEAST_NORMAL

_ROUND_UP = 1.0 + 2.0**-16  # prob itself is rounded, and its power is up to 2^32; 1 - r keeps 20 bits or more


def binomial_tail(num_trials: int, prob: float, above: int) -> float:
    """P(X > `above`) for X ~ Binomial(`num_trials`, `prob`) with num_trials < 2^32, rounded up; 1 up to the mean.

    0 only where the tail is exactly 0; a positive tail below `LEAST_NORMAL` is rounded up to that.

    From k = above + 1 on each weight is at most r = (n - k) p / ((k + 1) (1 - p)) times the one before, so that

        P(X >= k) <= P(X = k) / (1 - r).

    >>> import math
    >>> from jaxacct.special import binomial_tail
    >>> f"{binomial_tail(10**6, 0.001, 1300):.2e}"
    '5.09e-20'
    >>> round(binomial_tail(4, 0.5, 2), 3), sum(math.comb(4, k) for k in (3, 4)) / 16
    (0.333, 0.3125)
    """
    least = above + 1
    if above >= num_trials or prob == 0.0:
        return 0.0
    if prob == 1.0 or least <= num_trials * prob:
        return 1.0
    rest = 1.0 - prob
    if least == num_trials:
        return min(1.0, max(math.exp(least * math.log(prob)) * _ROUND_UP, LEAST_NORMAL))
    log_weight, error = log_binomial_weights(num_trials, prob, rest, np.array([float(least)]))
    ratio = (num_trials - least) * prob / ((least + 1) * rest)
    return min(1.0, max(math.exp(float(log_weight[0]) + error) / (1.0 - ratio) * _ROUND_UP, LEAST_NORMAL))
