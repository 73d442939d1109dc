"""Tables of log factorials and log binomials, made on the host when a kernel is traced."""

import functools
import math

import numpy as np


@functools.cache
def _log_factorials(size: int) -> tuple[float, ...]:
    """log n! for n below `size`."""
    return tuple(math.lgamma(n + 1.0) for n in range(size))


def log_factorial_table(max_n: int) -> np.ndarray:
    """float64 [max_n + 1]: log n! for n = 0..max_n, each to a few ulp."""
    return np.asarray(_log_factorials(max_n + 1), np.float64)


def log_binomial_table(max_n: int) -> np.ndarray:
    """float64 [max_n + 1, max_n + 1]: log C(n, j), -inf for j > n."""
    lf = log_factorial_table(max_n)
    n, j = np.arange(max_n + 1)[:, None], np.arange(max_n + 1)[None, :]
    return np.where(j <= n, lf[n] - lf[j] - lf[np.maximum(n - j, 0)], -np.inf)
