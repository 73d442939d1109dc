"""Shuffled binary randomized response, one record in n: lower bounds for every general amplification bound.

Feldman, McMillan & Talwar 2021, Appendix G and section 6.1 (CL-S16 to CL-S18). All other records hold 0, so that the
number of ones is c^0 ~ Bin(n, r) when the differing record holds 0, r = 1/(E+1), E = e^local_epsilon. If it holds 1,
the number of ones is c^1, whose likelihood ratio against c^0 is linear in the count c:

    L(c) = 1 + 2 sinh(local_epsilon) (c - n r) / n.

They are lower bounds on every valid epsilon, delta or Renyi divergence of "any local_epsilon-DP randomizer, shuffled",
replace-one adjacency. (Even for binary randomized response itself the data set of zeros is not always the worst one.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.response._single_counts import LARGEST, response_epsilon, response_log_delta
from jaxacct.special import down, log_down, log_sum_exp, solve_decreasing
from jaxacct.special._binomial_blocks import binomial_blocks_below
from jaxacct.special._namespace import is_jax, stop_gradient, xp

_LARGEST_WINDOW = 2**15  # blocks of counts that are summed at most: fewer are certified too, only looser
_MOST_VARIANCE = 2.0**36  # of the count, up to which single counts are summed for one question: two million of them
_TAIL_SDS = 9.5  # standard deviations beyond the mean where a sum ends; truncation only lowers a lower bound


def binary_response_window(num_reports: float) -> int:
    """A static int, a power of two: the number of blocks of counts to sum; up to n = 4e7 each is a single count."""
    size = min(num_reports + 1.0, 0.5 * _TAIL_SDS * math.sqrt(num_reports) + 64.0, _LARGEST_WINDOW)
    return 1 << max(0, math.ceil(size) - 1).bit_length()


class _Setting(NamedTuple):
    """The numbers of each lane, [L]: n, the probability r of a one, 1 - r, and the slope of L in the count."""

    size: jax.Array
    prob: jax.Array
    rest: jax.Array
    slope: jax.Array

    @property
    def mean(self) -> jax.Array:
        return self.size * self.prob


def _setting(num_reports: jax.Array, local_epsilon: jax.Array) -> _Setting:
    growth = xp.exp(xp.minimum(local_epsilon, LARGEST))
    slope = 2.0 * xp.sinh(xp.minimum(local_epsilon, LARGEST)) / num_reports
    return _Setting(num_reports, 1.0 / (1.0 + growth), growth / (1.0 + growth), slope)


def _stride(width: jax.Array, window: int) -> jax.Array:
    return xp.maximum(xp.ceil(stop_gradient(width) / window), 1.0)


def _profile(
    epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array, window: int
) -> tuple[jax.Array, jax.Array]:
    """(log delta, d log delta / d epsilon), each [L], the larger of both directions; the slope only guides a search.

    The former is rounded down.
    """
    setting = _setting(num_reports, local_epsilon)
    mean, slope = setting.mean, setting.slope
    stride = _stride(xp.minimum(_TAIL_SDS * xp.sqrt(mean * setting.rest) + 40.0, num_reports), window)

    def direction(sign: float) -> tuple[jax.Array, jax.Array]:
        # c^1 against c^0 sums L - e^eps over the counts above where it is 0; c^0 against c^1 sums 1 - e^eps L below
        distance = sign * xp.expm1(sign * epsilon) / slope
        threshold = stop_gradient(mean + sign * distance)
        first = xp.floor(threshold) + 1.0 if sign > 0 else xp.ceil(threshold) - 1.0
        first = xp.where(xp.isfinite(first), first, -1.0)
        mass, count = binomial_blocks_below(*setting[:3], first, stride, sign=sign, window=window)
        # linear in the count: a block's mean suffices, to 1e-14 of its size. The rounding is subtracted; that of the
        # distance is from exp, expm1 and sinh
        gap = sign * (count - mean) - distance - 2.0**-50 * mean - 2.0**-45 * (stride - 1.0) - 2.0**-47 * distance
        inside = (mass > -xp.inf) & (gap > 0)
        mass = xp.where(inside, mass, -xp.inf)
        terms = xp.where(inside, mass + xp.log(xp.where(inside, gap, 1.0)), -xp.inf)
        scale = xp.log(xp.where(slope > 0, slope, 1.0)) + (0.0 if sign > 0 else epsilon)
        log_delta = log_down(log_sum_exp(terms), 64.0 + terms.shape[0]) + log_down(scale, 16)
        # d delta / d eps is -e^eps P_0[above] or delta - P_0[below]
        drop = xp.exp(xp.clip(log_sum_exp(mass) - log_delta, -700.0, 700.0))
        return log_delta, -xp.exp(epsilon) * drop if sign > 0 else 1.0 - drop

    (up, up_slope), (down, down_slope) = direction(1.0), direction(-1.0)
    log_delta = xp.minimum(xp.maximum(up, down), 0.0)
    valid = (epsilon >= 0) & (local_epsilon > epsilon) & (local_epsilon <= LARGEST) & (num_reports >= 1)
    return xp.where(valid, log_delta, -xp.inf), xp.where(up > down, up_slope, down_slope)


def binary_response_log_delta(
    epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Log delta [L], rounded down: the larger divergence of c^0 and c^1 at `epsilon` >= 0; -inf where it is 0.

    Feldman, McMillan & Talwar 2021, Appendix G (CL-S16). It is a lower bound on every valid delta, replace-one
    adjacency: one binomial tail for each direction, from the threshold outward, with positive terms only. With
    `binary_response_window` the logarithm is within 3e-11 |log delta| of the truth while blocks are single counts (n to
    4e7), and within 1e-7 beyond; the error is larger where epsilon is near the local epsilon, by the rounding of their
    difference. The result is -inf outside num_reports >= 1, 0 <= local_epsilon <= 700.
    """
    if _is_one_on_host(epsilon, num_reports, local_epsilon):
        return _on_host(response_log_delta, epsilon, num_reports, local_epsilon)
    return _profile(epsilon, num_reports, local_epsilon, window)[0]


def binary_response_epsilon(
    log_delta: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Epsilon [L] at which delta still exceeds exp(log_delta), the largest that was found; 0 if there is none.

    It is a lower bound on every valid epsilon at that delta, replace-one adjacency (CL-S16):
    `binary_response_log_delta` was evaluated at the answer.
    """
    if _is_one_on_host(log_delta, num_reports, local_epsilon):
        return _on_host(response_epsilon, log_delta, num_reports, local_epsilon)

    def shortfall(
        steps: jax.Array, target: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        epsilon = xp.exp(-steps)  # f decreases in -log epsilon: at the end that is found delta >= target
        value, slope = _profile(epsilon, num_reports, local_epsilon, window)
        return target - value, epsilon * slope

    top = -xp.log(xp.clip(local_epsilon, 1e-300, LARGEST))
    steps = solve_decreasing(shortfall, top, top + 60.0, log_delta, num_reports, local_epsilon)
    return down(xp.exp(-steps), 8)


def _is_one_on_host(at: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> bool:
    """Whether this is a single question for NumPy, with few enough reports for a sum over single counts."""
    if is_jax(at, num_reports, local_epsilon) or any(np.size(x) > 1 for x in (at, num_reports, local_epsilon)):
        return False
    return not num_reports[0] * np.exp(-local_epsilon[0]) > _MOST_VARIANCE


def _on_host(function: Callable[[float, float, float], float], *arguments: jax.Array) -> Any:
    """The value of a function of floats for arrays of one entry."""
    return np.array([function(*(float(x[0]) for x in arguments))])
