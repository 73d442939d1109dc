"""Tables of log factorials and log binomial coefficients, made on the host when a kernel is traced."""

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


@functools.cache
def _log_factorials(size: int) -> tuple[float, ...]:
    """log n! for n below `size`, each the logarithm of the exact integer."""
    found, factorial = [], 1
    for n in range(size):
        factorial *= max(n, 1)
        found.append(math.log(factorial))
    return tuple(found)


def log_factorial_table(max_n: int) -> NDArray[Any]:
    """float64 [max_n + 1]: log n! for n = 0..max_n, each within 4 ULP of itself."""
    return np.asarray(_log_factorials(max_n + 1), np.float64)


@functools.lru_cache(maxsize=4)
def log_binomial_table(max_n: int) -> NDArray[Any]:
    """float64 [max_n + 1, max_n + 1]: log C(n, j), each within 4 ULP of itself; -inf for j > n."""
    table = np.full((max_n + 1, max_n + 1), -np.inf)
    row = [1]
    for n in range(max_n + 1):
        half = [math.log(c) for c in row[: n // 2 + 1]]
        table[n, : n + 1] = [*half, *half[: n - n // 2][::-1]]
        row = [1, *map(int.__add__, row, row[1:]), 1]
    table.flags.writeable = False
    return table


def binomial_masses(size: int, prob: float) -> tuple[float, ...]:
    """The probabilities of 0, .., size heads among `size` coins: rational numbers, rounded once."""
    heads, tails = Fraction(prob), 1 - Fraction(prob)
    return tuple(float(math.comb(size, k) * heads**k * tails ** (size - k)) for k in range(size + 1))
