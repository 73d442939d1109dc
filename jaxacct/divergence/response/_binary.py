"""Shuffled binary randomized response, one record in n: what no general amplification bound can beat.

Feldman, McMillan & Talwar 2021, Appendix G and section 6.1 (CL-S16 to CL-S18). All other records hold 0, so that the
number of ones is c^0 ~ Bin(n, r) when the differing record holds 0, r = 1/(E+1), E = e^local_epsilon. If it holds 1,
the number of ones is c^1, whose likelihood ratio against c^0 is linear in the count c:

    L(c) = 1 + 2 sinh(local_epsilon) (c - n r) / n.

Lower bounds on every valid epsilon, delta or Renyi divergence of "any local_epsilon-DP randomizer, shuffled",
replace-one adjacency. (Even for binary randomized response itself all zeros are not always the worst data set.)
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxacct.special import down, log_sum_exp, solve_decreasing
from jaxacct.special._binomial import log_binomial_pmf

_LARGEST = 700.0  # local epsilon beyond which its exponential overflows: nothing is claimed there
_LARGEST_WINDOW = 2**15  # blocks of counts that are summed at most: fewer are certified too, only looser
_TAIL_SDS = 9.5  # standard deviations beyond the mean where a sum ends; what is left out only lowers a lower bound


def binary_response_window(num_reports: float) -> int:
    """A static int, a power of two: how many blocks of counts to sum; up to n = 4e7 each block is a single count."""
    size = min(num_reports + 1.0, 0.5 * _TAIL_SDS * math.sqrt(num_reports) + 64.0, _LARGEST_WINDOW)
    return 1 << max(0, math.ceil(size) - 1).bit_length()


class _Setting(NamedTuple):
    """Of one lane, each [L]: n, the probability r of a one, 1 - r, and the slope of L in the count."""

    size: jax.Array
    prob: jax.Array
    rest: jax.Array
    slope: jax.Array

    @property
    def mean(self) -> jax.Array:
        return self.size * self.prob


def _setting(num_reports: jax.Array, local_epsilon: jax.Array) -> _Setting:
    growth = jnp.exp(jnp.minimum(local_epsilon, _LARGEST))
    slope = 2.0 * jnp.sinh(jnp.minimum(local_epsilon, _LARGEST)) / num_reports
    return _Setting(num_reports, 1.0 / (1.0 + growth), growth / (1.0 + growth), slope)


def _stride(width: jax.Array, window: int) -> jax.Array:
    return jnp.maximum(jnp.ceil(jax.lax.stop_gradient(width) / window), 1.0)


def _blocks(
    setting: _Setting, first: jax.Array, stride: jax.Array, sign: float, window: int
) -> tuple[jax.Array, jax.Array]:
    """(log mass, mean count), each [W, L], of laws that lie below Bin(n, r) on disjoint blocks of `stride` counts.

    Block i starts at `first` + sign i stride. The log pmf is concave, so that it lies above its chords between
    the blocks' first counts: on a block the law is geometric, with closed mass and mean. The last block before the
    end of the support, or of the window, is its first count only. With a stride of 1 the law is the pmf itself.

    Subtracted: the pmf's error, that of its evaluation and that of r, whose last digit moves it by c - n r.
    """
    index = jnp.arange(window, dtype=jnp.int32).astype(jnp.float64)[:, None]
    count = first + sign * stride * index
    inside = (count >= 0) & (count <= setting.size)
    value = log_binomial_pmf(jnp.where(inside, count, 0.0), setting.size, setting.prob, setting.rest)
    value = value - 2.0**-50 * (16.0 + jnp.abs(value) + jnp.abs(count - setting.mean))
    start = jnp.where(inside, value, -jnp.inf)
    whole = inside[:-1] & inside[1:]
    rise = jnp.concatenate([jnp.where(whole, value[1:] - value[:-1], 0.0), jnp.zeros_like(value[:1])])
    whole = jnp.concatenate([whole, jnp.zeros_like(whole[:1])])
    # a lower end than the true one only lowers the law
    rise = jnp.where(jnp.abs(rise) > 1e-12, jnp.minimum(rise, 700.0), -1e-12)
    step = rise / stride
    mass = start + jnp.where(whole, jnp.log(jnp.expm1(rise) / jnp.expm1(step)), 0.0) - 2.0**-48
    offset = 0.5 * (stride - 1.0 + stride * _langevin(0.5 * rise) - _langevin(0.5 * step))
    return mass, count + sign * jnp.where(whole, offset, 0.0)


def _langevin(z: jax.Array) -> jax.Array:
    """coth z - 1/z, of the shape of z, with absolute error 1e-15."""
    small = jnp.abs(z) < 0.1
    x = jnp.where(small, z, 0.0)
    y = x * x
    series = x * (1.0 / 3.0 - y * (1.0 / 45.0 - y * (2.0 / 945.0 - y * (1.0 / 4725.0 - y * 2.0 / 93555.0))))
    far = jnp.where(small, 1.0, z)
    return jnp.where(small, series, 1.0 / jnp.tanh(far) - 1.0 / far)


def _profile(
    epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array, window: int
) -> tuple[jax.Array, jax.Array]:
    """(log delta, d log delta / d epsilon), each [L], the former rounded down; the slope only steers a search."""
    setting = _setting(num_reports, local_epsilon)
    mean, slope = setting.mean, setting.slope
    stride = _stride(jnp.minimum(_TAIL_SDS * jnp.sqrt(mean * setting.rest) + 40.0, num_reports), window)

    def direction(sign: float) -> tuple[jax.Array, jax.Array]:
        # c^1 against c^0 sums L - e^eps over the counts above where it is 0; c^0 against c^1 sums 1 - e^eps L below
        distance = sign * jnp.expm1(sign * epsilon) / slope
        threshold = jax.lax.stop_gradient(mean + sign * distance)
        first = jnp.floor(threshold) + 1.0 if sign > 0 else jnp.ceil(threshold) - 1.0
        mass, count = _blocks(setting, jnp.where(jnp.isfinite(first), first, -1.0), stride, sign, window)
        # linear in the count: a block's mean is enough. Subtracted is the rounding, in the distance that of exp, expm1
        # and sinh
        gap = sign * (count - mean) - distance - 2.0**-50 * (mean + stride - 1.0) - 2.0**-47 * distance
        inside = (mass > -jnp.inf) & (gap > 0)
        mass = jnp.where(inside, mass, -jnp.inf)
        terms = jnp.where(inside, mass + jnp.log(jnp.where(inside, gap, 1.0)), -jnp.inf)
        scale = jnp.log(jnp.where(slope > 0, slope, 1.0)) + (0.0 if sign > 0 else epsilon)
        log_delta = log_sum_exp(terms) + scale - 2.0**-46
        # d delta / d eps is -e^eps P_0[above] or delta - P_0[below]
        drop = jnp.exp(jnp.clip(log_sum_exp(mass) - log_delta, -700.0, 700.0))
        return log_delta, -jnp.exp(epsilon) * drop if sign > 0 else 1.0 - drop

    up, up_slope = direction(1.0)
    down, down_slope = direction(-1.0)
    log_delta = jnp.minimum(jnp.maximum(up, down), 0.0)
    valid = (epsilon >= 0) & (local_epsilon > epsilon) & (local_epsilon <= _LARGEST) & (num_reports >= 1)
    return jnp.where(valid, log_delta, -jnp.inf), jnp.where(up > down, up_slope, down_slope)


def binary_response_log_delta(
    epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Log delta [L], rounded down: the larger divergence of c^0 and c^1 at `epsilon` >= 0; -inf where it is 0.

    Feldman, McMillan & Talwar 2021, Appendix G (CL-S16). Lower bound on every valid delta, replace-one adjacency. One
    binomial tail for each direction, from the threshold outward, all terms positive. With `binary_response_window`:
    within 3e-11 |log delta| of the truth, in the logarithm, while blocks are single counts (n to 4e7), and 1e-7 beyond;
    more where epsilon nearly meets the local epsilon, by the rounding of their difference. -inf outside
    num_reports >= 1, 0 <= local_epsilon <= 700.
    """
    return _profile(epsilon, num_reports, local_epsilon, window)[0]


def binary_response_epsilon(
    log_delta: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Epsilon [L] at which delta still exceeds exp(log_delta), the largest that was found; 0 if there is none.

    Lower bound on every valid epsilon at that delta, replace-one adjacency (CL-S16): `binary_response_log_delta` was
    evaluated at the answer.
    """

    def shortfall(
        steps: jax.Array, target: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        epsilon = jnp.exp(-steps)  # f decreases in -log epsilon: the end that is found is one where delta >= target
        value, slope = _profile(epsilon, num_reports, local_epsilon, window)
        return target - value, epsilon * slope

    top = -jnp.log(jnp.clip(local_epsilon, 1e-300, _LARGEST))
    steps = solve_decreasing(shortfall, top, top + 60.0, log_delta, num_reports, local_epsilon)
    return down(jnp.exp(-steps), 8)
