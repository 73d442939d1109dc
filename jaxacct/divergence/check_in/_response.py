"""Shuffled check-ins of binary randomized response, one record among equal ones: a profile from below.

There are k reports, k ~ Bin(n, q), and c ones among them, c ~ Bin(k, r) when all records hold 0; r = 1/(E+1),
E = e^local_epsilon. The likelihood ratio of one record being 1 is then 1 + (2 sinh(local_epsilon)/n) (c - k r). Hence

    delta(eps) = E[(a (c - k r) - (e^eps - 1))_+],   a = 2 sinh(local_epsilon)/n,

in the direction "mixture first", exactly (CI-S21, CI-S23 for this pair). A lower bound on the profile of any method
that covers binary randomized response; replace-one adjacency.
"""

import jax
import numpy as np

from jaxacct.divergence.check_in._both_ends import highest_above
from jaxacct.divergence.gaussian._pair import rough_gaussian_epsilon
from jaxacct.divergence.response._binary import _blocks, _Setting
from jaxacct.special import bisect_lanes, down, log_down, log_sum_exp, up
from jaxacct.special._namespace import is_jax, lane_map, stop_gradient, xp

_LARGEST = 700.0  # local epsilon beyond which its exponential overflows: nothing is claimed there
_NUM_HALVINGS = 28  # of `_LOG_RANGE`: epsilon is found to 1e-7, relatively; only tightness
_LOG_RANGE = 30.0  # nats: epsilon is sought down to e^-30 of the local epsilon, and is 0 below
_DEVIATIONS = 8.0  # standard deviations about a mean that are summed; what is left out only lowers a lower bound


def response_floor_log_delta(
    epsilon: jax.Array, num_users: jax.Array, prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Log delta [1] at `epsilon`, rounded down; -inf where delta is 0 or nothing is claimed. Lower bound, the module's.

    Given k, the expectation grows with k (c - k r is a martingale). On a block of k its value at the first count
    therefore serves, with a mass below the true one. Of the ones, `window` (static) blocks above the threshold are
    summed, whose mass and mean are below the binomial law's. Both are exact while blocks are single counts. Nothing is
    claimed outside num_users >= 1, prob > 0, epsilon >= 0 and local_epsilon <= 700.
    """
    local = xp.minimum(local_epsilon, _LARGEST)
    growth = xp.exp(local)
    r, rest = 1.0 / (1.0 + growth), growth / (1.0 + growth)
    slope = down(2.0 * xp.sinh(local) / num_users, 32)
    mean = num_users * prob
    reach = _DEVIATIONS * xp.sqrt(mean * (1.0 - prob)) + 16.0
    low = xp.maximum(xp.floor(mean - reach), 1.0)
    high = xp.minimum(xp.ceil(mean + reach), num_users)
    stride = xp.maximum(xp.ceil(stop_gradient(high - low + 1.0) / window), 1.0)
    visible = _Setting(num_users, prob, 1.0 - prob, slope)
    log_mass, _ = _blocks(visible, stop_gradient(low), stride, 1.0, window)
    counts = stop_gradient(low) + stride * xp.arange(window, dtype=xp.int32).astype(xp.float64)[:, None]
    distance = up(xp.expm1(epsilon) / xp.where(slope > 0, slope, 1.0), 128)

    def given(k: jax.Array) -> jax.Array:
        """log E[(c - k r - distance)_+ | k]."""
        centre = k * r
        first = xp.floor(stop_gradient(centre + distance)) + 1.0
        width = xp.minimum(_DEVIATIONS * xp.sqrt(centre * rest) + 24.0, k)
        step = xp.maximum(xp.ceil(stop_gradient(width) / window), 1.0)
        first = xp.where(xp.isfinite(first), first, -1.0)
        mass, ones = _blocks(_Setting(k, r, rest, slope), first, step, 1.0, window)
        gap = (ones - centre) - distance - 2.0**-50 * (centre + step) - 2.0**-48 * distance
        inside = (mass > -xp.inf) & (gap > 0)
        return log_sum_exp(xp.where(inside, mass + xp.log(xp.where(inside, gap, 1.0)), -xp.inf))

    every = xp.minimum(counts, num_users)
    # on the host all numbers of reports at once, as lanes
    rows = lane_map(given, every) if is_jax(every) else given(every[:, 0])[:, None]
    usable = (log_mass > -xp.inf) & (rows > -xp.inf) & (counts <= num_users)
    total = log_sum_exp(xp.where(usable, log_mass + xp.where(usable, rows, 0.0), -xp.inf))
    # two sums of `window` terms, logarithms of gaps and masses
    log_slope = xp.log(xp.where(slope > 0, slope, 1.0))
    log_delta = log_down(total, 512.0 + 2.0 * window) + log_down(log_slope, 16)
    valid = (epsilon >= 0) & (local_epsilon > epsilon) & (local_epsilon <= _LARGEST) & (prob > 0) & (num_users >= 1)
    return xp.where(valid, xp.minimum(log_delta, 0.0), -xp.inf)


def response_floor_epsilon(
    log_delta: jax.Array, num_users: jax.Array, prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Epsilon [1] at which delta still exceeds exp(log_delta), found to about 1e-7; 0 if none is.

    Lower bound on every valid epsilon at that delta; arguments as for `response_floor_log_delta`.
    """

    top = xp.where((local_epsilon > 0) & (prob > 0), xp.minimum(local_epsilon, _LARGEST), 0.0)

    if not is_jax(log_delta, num_users, prob, local_epsilon):
        r = 1.0 / (1.0 + np.exp(top))
        mu = 2.0 * np.sinh(top) / num_users * np.sqrt(num_users * prob * r * (1.0 - r))
        start = float(rough_gaussian_epsilon(log_delta, mu)[0])

        def profile(epsilon: float) -> tuple[float, float]:
            at = np.full_like(top, epsilon)
            found = response_floor_log_delta(at, num_users, prob, local_epsilon, window=window)
            return float(found[0]), np.nan

        return np.full_like(top, highest_above(profile, float(log_delta[0]), 0.999999 * float(top[0]), start))

    def above(log_fall: jax.Array) -> jax.Array:
        epsilon = top * xp.exp(-log_fall)
        return response_floor_log_delta(epsilon, num_users, prob, local_epsilon, window=window) > log_delta

    log_fall = bisect_lanes(above, xp.full_like(top, _LOG_RANGE), xp.zeros_like(top), num_steps=_NUM_HALVINGS)
    # the exponential is computed once more, and another program may round it otherwise: 4 ulp, and two products
    return xp.where(log_fall < _LOG_RANGE, down(top * xp.exp(-log_fall), 8), 0.0)
