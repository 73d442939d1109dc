"""BOUND, from both sides: shuffled reports of a finite randomizer on known data, every histogram (GI-S1).

The shuffled reports are their histogram h, whose law is Poisson-multinomial and is built one report after another:

    F_i(h) = sum_j p_ij F_{i-1}(h - e_j).

On the host, for few values and reports: for tests, and for one mechanism on one pair of data sets.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Ends
from jaxacct.special import ULP

MOST_CELLS = 2**22  # histograms of one law, 32 MiB; larger ones are refused


def histogram_law(reports: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities [n + 1, .., n + 1] of the counts of all values but the last, each to 2 n ulp relative unless tiny.

    Args:
      reports: float64 [n, B], the law of each report.

    Raises:
      ValueError: if there are more than 2^22 cells.
    """
    n, num_values = reports.shape
    if (n + 1) ** (num_values - 1) > MOST_CELLS:
        raise ValueError(f"reports: {n} on {num_values} values make more than {MOST_CELLS} histograms")
    law = np.zeros((n + 1,) * (num_values - 1))
    law[(0,) * law.ndim] = 1.0
    for report in reports:
        grown = law * report[-1]
        for axis in range(law.ndim):
            upper, lower = ([slice(None)] * law.ndim for _ in range(2))
            upper[axis], lower[axis] = slice(1, None), slice(None, -1)
            grown[tuple(upper)] += report[axis] * law[tuple(lower)]
        law = grown
    return law


def histogram_rdp(
    first: NDArray[np.float64], second: NDArray[np.float64], *, orders: Sequence[float]
) -> list[Ends[float]]:
    """Lower and upper ends, one for each real order > 1, of D_a(first || second) between two histograms.

    `first` and `second` are the laws [n, B] of the reports. One direction of one pair of data sets: from below, a lower
    bound for the mechanism. The rounding of (a - 1) D = log sum P^a Q^(1-a), 2^-50 a (n B + |log r|) or so, is added;
    it is absolute, so that small divergences lose digits. inf where an outcome is possible under the first only.
    """
    p, q = histogram_law(first).ravel(), histogram_law(second).ravel()
    seen = p > 0
    p, q = p[seen], q[seen]
    if np.any(q == 0):
        return [Ends(math.inf, math.inf)] * len(orders)
    log_p, log_q = np.log(p), np.log(q)
    log_ratio, sizes = log_p - log_q, np.abs(log_p) + np.abs(log_q)
    found = []
    for order in orders:
        exponent = (order - 1.0) * log_ratio
        top = float(exponent.max())
        terms = p * np.exp(exponent - top)
        total = math.fsum(terms)
        value = top + math.log(total)
        # n steps of B products and sums in both laws, to powers of a in all; logarithms by 4 ULP, each by its share
        by_logs = 8.0 * (order - 1.0) * float(terms @ sizes) / total
        slack = ULP * (8.0 * order * first.size + 16.0 + by_logs + 8.0 * (abs(top) + abs(value)))
        found.append(Ends(max(0.0, (value - slack) / (order - 1.0)), (value + slack) / (order - 1.0)))
    return found
