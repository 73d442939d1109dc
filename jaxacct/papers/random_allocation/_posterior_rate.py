"""NOT A BOUND: the probability with which random allocation uses a record in the next step, exactly (RA-S6).

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", Definition B.1.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import check_at_most, check_count


def posterior_rate(num_steps: int, log_ratios: Sequence[float] | NDArray[Any], *, num_selected: int = 1) -> float:
    """The probability that step i + 1 is one of a record's steps, given the outputs of the first i, exactly (RA-S6).

    With e_m the elementary symmetric polynomials of the likelihood ratios e^l_1, .., e^l_i seen so far,

        sum_m e_m C(t-i-1, k-m-1) / sum_m e_m C(t-i, k-m),    for k = 1:  1 / (t - i + sum_j e^l_j).

    Random allocation is the scheme that uses the record with this probability in each step (Definition B.1). Not a
    bound: accurate to some 1e-13.

    Args:
      num_steps: t, whole number >= 1, steps in all.
      log_ratios: float [i], i < t, log dP/dQ of the outputs.
      num_selected: k, whole number in 1..t.

    Returns:
      float in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import random_allocation
    >>> random_allocation.posterior_rate(5, [0.0, 0.0])
    0.2
    """
    check_count("num_steps", num_steps)
    check_count("num_selected", num_selected)
    check_at_most("num_selected", num_selected, "num_steps", num_steps)
    ratios = np.asarray(log_ratios, np.float64)
    left = num_steps - ratios.shape[0]
    if left < 1:
        raise ValueError(f"log_ratios has {ratios.shape[0]} values: it must have fewer than num_steps={num_steps}")
    if num_selected == 1:
        top = max(0.0, float(ratios.max(initial=0.0)))
        return math.exp(-top) / (left * math.exp(-top) + float(np.exp(ratios - top).sum()))
    log_e = np.concatenate([[0.0], np.full(num_selected, -np.inf)])  # log e_m, m = 0..k
    for ratio in ratios:
        log_e[1:] = np.logaddexp(log_e[1:], log_e[:-1] + ratio)
    m = range(num_selected + 1)
    log_next = np.asarray([_log_choose(left - 1, num_selected - j - 1) for j in m]) + log_e
    log_all = np.asarray([_log_choose(left, num_selected - j) for j in m]) + log_e
    return float(np.exp(np.logaddexp.reduce(log_next) - np.logaddexp.reduce(log_all)))


def _log_choose(n: int, j: int) -> float:
    return math.log(math.comb(n, j)) if 0 <= j <= n else -math.inf
