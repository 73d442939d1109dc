"""Binomial weights on the host, at the counts that matter, for more trials than tables of factorials can hold."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special._binomial import stirling_error
from jaxacct.special._rounding import ULP


def binomial_window(num_trials: int, first: float, second: float, log_tail: float) -> NDArray[Any]:
    """Counts [N], ascending, that hold all but 2 e^-log_tail of C(n, k) first^k second^(n-k).

    By Chernoff's bound, sum over k >= x > n first of these <= e^{-n KL(x/n || first)}, and likewise below; `first` and
    `second` add up to 1 within 1e-9, which the margin of one part in 16 of `log_tail` covers for n up to 10^10.

    >>> from jaxacct.special import binomial_window
    >>> counts = binomial_window(10**8, 1e-8, 1.0 - 1e-8, 100.0)
    >>> int(counts[0]), int(counts[-1])
    (0, 40)
    """
    wanted, mean = 1.0625 * log_tail + 1e-9 * num_trials, num_trials * first

    def rate(x: float) -> float:
        rest = num_trials - x
        own = x * math.log(x / mean) if x > 0 else 0.0
        other = rest * math.log(rest / (num_trials * second)) if rest > 0 else 0.0
        return own + other if x > 0 or rest > 0 else 0.0

    def edge(low: int, high: int) -> int:  # from inside, where the rate is small, to outside
        while abs(high - low) > 1:
            middle = (low + high) // 2
            if rate(float(middle)) < wanted:
                low = middle
            else:
                high = middle
        return high

    centre = min(num_trials, max(0, round(mean)))
    if first == 0.0 or second == 0.0:
        return np.array([0.0 if first == 0.0 else float(num_trials)])
    return np.arange(max(0, edge(centre, -1)), min(num_trials, edge(centre, num_trials + 1)) + 1, dtype=np.float64)


def log_binomial_weights(
    num_trials: int, first: float, second: float, counts: NDArray[Any]
) -> tuple[NDArray[Any], float]:
    """log C(n, k) + k log `first` + (n - k) log `second` at the `counts` k [N], and a bound on its error.

    Loader 2000, for two factors > 0 that add up to 1 only roughly: with D(x, m) = x log(x/m) - (x - m) it is

        e(n) - e(k) - e(n-k) + log(n / (2 pi k (n-k))) / 2 - D(k, n first) - D(n-k, n second) - n (1 - first - second),

    e the `stirling_error`, three of which err by 3e-15 together. D is formed as x log1p((x - m)/m) - (x - m). Its error
    is 5 ULP of |x log(x/m)| from the logarithm (4) and the product; 4 ULP of |x - m| from the quotient, the difference
    and, by dD/dm = -(x - m)/m, the product that forms m; and one of D. 8 ULP of these sizes are taken. The half
    logarithm errs by 4 ULP of itself and 4 of 1/2, the sums by one of each part, the last product by 2.
    """
    n, rest = float(num_trials), num_trials - counts
    inside = (counts > 0) & (rest > 0)
    parts: Any = np.where(inside, counts, 1.0), np.where(inside, rest, 1.0), np.where(inside, n, 2.0)
    k, r, whole = parts
    stirling = stirling_error(whole) - stirling_error(k) - stirling_error(r)
    stirling = stirling + 0.5 * np.log(whole / (2.0 * math.pi * k * r))

    def deviance(x: NDArray[Any], mean: float) -> tuple[NDArray[Any], NDArray[Any]]:
        difference = x - mean
        log = np.log1p(np.where(x > 0, difference / mean, 0.0))
        return x * log - difference, np.abs(difference) + np.abs(x * log) + mean * np.abs(difference / mean)

    own, own_size = deviance(counts, n * first)
    other, other_size = deviance(rest, n * second)
    lacks = n * math.fsum((1.0, -first, -second))
    size = 8.0 * float((own_size + other_size).max()) + 4.0 * float((np.abs(own + other) + np.abs(stirling)).max())
    error = 3e-15 + ULP * (size + 8.0 + 4.0 * abs(lacks))
    return np.where(inside, stirling, 0.0) - own - other - lacks, error
