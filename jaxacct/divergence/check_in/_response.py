"""Shuffled check-ins of binary randomized response, one record among equal ones: a lower bound on the profile.

There are k reports, k ~ Bin(n, q), and c ones among them, c ~ Bin(k, r) when all records hold 0; r = 1/(E+1),
E = e^local_epsilon. The likelihood ratio of one record being 1 is then 1 + (2 sinh(local_epsilon)/n) (c - k r). Hence

    delta(eps) = E[(a (c - k r) - (e^eps - 1))_+],   a = 2 sinh(local_epsilon)/n,

in the direction "mixture first", exactly (CI-S21, CI-S23 for this pair). This is a lower bound on the profile by any
method that covers binary randomized response; replace-one adjacency.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.check_in._both_ends import highest_above
from jaxacct.divergence.check_in._positive_part import order_of
from jaxacct.divergence.check_in._response_line import guessed, response_line
from jaxacct.special import bisect_lanes, down, log_down, log_sum_exp, up
from jaxacct.special._binomial_blocks import binomial_blocks_below
from jaxacct.special._namespace import is_jax, lane_map, stop_gradient, xp

_LARGEST = 700.0  # local epsilon beyond which its exponential overflows: no bound is given there
_NUM_HALVINGS = 28  # of `_LOG_RANGE`: epsilon is found to 1e-7, relatively; only tightness
_LOG_RANGE = 30.0  # nats: epsilon is sought down to e^-30 of the local epsilon, and is 0 below
_DEVIATIONS = 8.0  # standard deviations about a mean that are summed; truncation only lowers a lower bound
# Of the host's search: how far above the target a root is sought, in log delta; the width of log delta up to which the
# integral is accepted, since blocks are hardly tighter; the number of guesses of where the summed ones begin, and how
# many ones further the root may be, where they are counted one by one and where they are in blocks.
_AIM, _SHARP, _PASSES, _SPARE, _EXACTLY = 1e-12, 1e-4, 8, 2.0, 1e-4


class _Setting(NamedTuple):
    """The numbers of one lane, each [1]: users, the probability q of a report, r, 1 - r, and a, rounded down."""

    num_users: jax.Array
    prob: jax.Array
    ones: jax.Array
    zeros: jax.Array
    slope: jax.Array

    def distance(self, epsilon: jax.Array) -> jax.Array:
        """(e^eps - 1)/a [1], rounded up: the threshold of c - k r."""
        return up(xp.expm1(epsilon) / xp.where(self.slope > 0, self.slope, 1.0), 128)


def _setting(num_users: jax.Array, prob: jax.Array, local_epsilon: jax.Array) -> _Setting:
    local = xp.minimum(local_epsilon, _LARGEST)
    growth = xp.exp(local)
    slope = down(2.0 * xp.sinh(local) / num_users, 32)
    return _Setting(num_users, prob, 1.0 / (1.0 + growth), growth / (1.0 + growth), slope)


def _numbers_of_reports(of: _Setting, window: int) -> tuple[jax.Array, jax.Array]:
    """(first counts of blocks of k, log masses), each [W, 1]; masses are -inf beyond the last count."""
    mean = of.num_users * of.prob
    reach = _DEVIATIONS * xp.sqrt(mean * (1.0 - of.prob)) + 16.0
    low = stop_gradient(xp.maximum(xp.floor(mean - reach), 1.0))
    high = xp.minimum(xp.ceil(mean + reach), of.num_users)
    stride = xp.maximum(xp.ceil(stop_gradient(high - low + 1.0) / window), 1.0)
    mass, _ = binomial_blocks_below(of.num_users, of.prob, 1.0 - of.prob, low, stride, sign=1.0, window=window)
    counts = low + stride * xp.arange(window, dtype=xp.int32).astype(xp.float64)[:, None]
    return xp.minimum(counts, of.num_users), xp.where(counts <= of.num_users, mass, -xp.inf)


class _Ones(NamedTuple):
    """Blocks of the ones among k [L]: log masses and means of c - k r, [W, L], rounded down, and their lengths [L]."""

    log_mass: jax.Array
    reach: jax.Array
    length: jax.Array


def _ones(k: jax.Array, near: jax.Array, of: _Setting, window: int) -> _Ones:
    """Blocks of ones among `k` [L], from where c - k r is above `near`."""
    centre = k * of.ones
    first = xp.floor(stop_gradient(centre + near)) + 1.0
    width = xp.minimum(_DEVIATIONS * xp.sqrt(centre * of.zeros) + 24.0, k)
    step = xp.maximum(xp.ceil(stop_gradient(width) / window), 1.0)
    first = xp.where(xp.isfinite(first), first, -1.0)
    mass, ones = binomial_blocks_below(k, of.ones, of.zeros, first, step, sign=1.0, window=window)
    return _Ones(mass, (ones - centre) - 2.0**-50 * (centre + step), step)


def _floats(of: _Setting) -> tuple[float, ...]:
    """n, q, r and 1 - r."""
    return tuple(float(x[0]) for x in of[:4])


def _by_line_at(distance: float, of: _Setting) -> float:
    """A lower bound on log E(c - k r - d)_+, d = `distance`, on the host, by one contour integral."""
    n, q, r, rest = _floats(of)
    line = response_line(order_of(math.sqrt(max(n * q * r * rest, 1e-300)), distance), distance, n, q, r, rest)
    return -math.inf if line is None else line.point(distance).log_lower


def response_floor_log_delta(
    epsilon: jax.Array, num_users: jax.Array, prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Log delta [1] at `epsilon`, rounded down, by the module's formula; -inf where delta is 0 or there is no bound.

    Given k, the expectation grows with k (c - k r is a martingale). On a block of k its value at the first count is
    therefore used, with a mass below the true one. Of the ones, `window` (static) blocks above the threshold are
    summed, whose mass and mean are below the binomial law's. Both are exact while blocks are single counts. There is no
    bound outside num_users >= 1, prob > 0, epsilon >= 0 and local_epsilon <= 700. On the host the integral of
    `_response_line` is used too.
    """
    of = _setting(num_users, prob, local_epsilon)
    distance = of.distance(epsilon)
    counts, log_mass = _numbers_of_reports(of, window)

    def given(k: jax.Array) -> jax.Array:
        """log E[(c - k r - distance)_+ | k]."""
        mass, reach, _ = _ones(k, distance, of, window)
        gap = reach - distance
        inside = (mass > -xp.inf) & (gap > 0)
        return log_sum_exp(xp.where(inside, mass + xp.log(xp.where(inside, gap, 1.0)), -xp.inf))

    # on the host all numbers of reports at once, as lanes
    rows = lane_map(given, counts) if is_jax(counts) else given(counts[:, 0])[:, None]
    usable = (log_mass > -xp.inf) & (rows > -xp.inf)
    total = log_sum_exp(xp.where(usable, log_mass + xp.where(usable, rows, 0.0), -xp.inf))
    # two sums of `window` terms, logarithms of gaps and masses
    log_value = log_down(total, 512.0 + 2.0 * window)
    if not is_jax(log_value):
        log_value = np.maximum(log_value, _by_line_at(float(distance[0]), of))
    log_slope = xp.log(xp.where(of.slope > 0, of.slope, 1.0))
    log_delta = log_value + log_down(log_slope, 16)
    valid = (epsilon >= 0) & (local_epsilon > epsilon) & (local_epsilon <= _LARGEST) & (prob > 0) & (num_users >= 1)
    return xp.where(valid, xp.minimum(log_delta, 0.0), -xp.inf)


def _masses_beyond(near: float, of: _Setting, window: int) -> tuple[Callable[[float], tuple[float, float]], float]:
    """A function of d, on the host: a lower bound on log E(c - k r - d)_+, and its slope; and the most ones in a block.

    It uses the masses that `response_floor_log_delta` sums where d is `near`; they are valid for any larger d.
    """
    counts, log_rows = _numbers_of_reports(of, window)
    at: Any = np.full(1, near)
    ones = _ones(counts[:, 0], at, of, window)
    log_mass = ones.log_mass + log_rows[:, 0]
    some = (log_mass > -np.inf) & (ones.reach > 0.0)
    log_mass, reach = log_mass[some], ones.reach[some]
    top = float(np.max(log_mass, initial=-1e300))
    shares = np.exp(log_mass - top)

    def profile(distance: float) -> tuple[float, float]:
        above = reach > distance
        total = float(np.sum(shares[above] * (reach[above] - distance)))
        if not total > 0.0:
            return -math.inf, -1.0
        # gaps, exponentials of at most 745, which err by that, and a sum in pairs
        return float(log_down(math.log(total) + top, 2.0**11)), -float(np.sum(shares[above])) / total

    return profile, float(np.max(ones.length))


def _by_masses(log_value: float, high: float, guess: float, of: _Setting, window: int) -> float:
    """On the host, the largest d <= `high` found at which log E(c - k r - d)_+ is above `log_value`."""
    best, found = 0.0, guess - 1.0
    for _ in range(_PASSES):
        near = found
        profile, length = _masses_beyond(near, of, window)
        found = highest_above(profile, log_value, high, max(near, 0.0), _AIM)
        best = max(best, found)
        if best >= high:
            break
        if profile(found)[0] > log_value + _EXACTLY:  # what is beyond is by itself
            found = found * (1.0 + 1e-9) + 1e-9
        elif near <= found <= near + (_SPARE if length == 1.0 else _EXACTLY):
            break
    return best


def _by_line(log_value: float, high: float, of: _Setting) -> tuple[float | None, float]:
    """The d of `_by_masses` by one contour integral, on the host, None where that is not sharp; and a guess of it."""
    order, guess = guessed(log_value, *_floats(of))
    guess = min(guess, high)
    line = response_line(order, guess, *_floats(of))
    if line is None or line.point(guess).log_lower == -math.inf:
        return None, guess
    if line.point(0.0).log_upper <= log_value:
        return 0.0, guess
    found = highest_above(lambda distance: line.point(distance)[::2], log_value, high, guess, _AIM)
    point = line.point(found)
    return found if point.log_upper - point.log_lower <= _SHARP else None, guess


def _epsilon_on_host(target: float, local_epsilon: float, of: _Setting, window: int) -> float:
    """The largest epsilon found at which delta is above exp(`target`), at least 0."""
    slope = float(of.slope[0])
    log_value = target - float(log_down(math.log(slope), 16))
    largest: Any = np.full(1, 0.999999 * local_epsilon)
    high = float(of.distance(largest)[0])
    found, guess = _by_line(log_value, high, of)
    if found is None:
        found = _by_masses(log_value, high, guess, of, window)
    return float(down(math.log1p(slope * found), 64))  # e^x - 1 falls by no less a share than x


def response_floor_epsilon(
    log_delta: jax.Array, num_users: jax.Array, prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Epsilon [1] at which delta still exceeds exp(log_delta), to about 1e-7, and closer on the host; 0 if none is.

    It is a lower bound on every valid epsilon at that delta; arguments as for `response_floor_log_delta`.
    """
    top = xp.where((local_epsilon > 0) & (prob > 0), xp.minimum(local_epsilon, _LARGEST), 0.0)
    if not is_jax(log_delta, num_users, prob, local_epsilon):
        usable = top[0] > 0.0 and local_epsilon[0] <= _LARGEST and num_users[0] >= 1.0
        of = _setting(num_users, prob, local_epsilon)
        return np.full_like(top, _epsilon_on_host(float(log_delta[0]), float(top[0]), of, window) if usable else 0.0)

    def above(log_fall: jax.Array) -> jax.Array:
        epsilon = top * xp.exp(-log_fall)
        return response_floor_log_delta(epsilon, num_users, prob, local_epsilon, window=window) > log_delta

    log_fall = bisect_lanes(above, xp.full_like(top, _LOG_RANGE), xp.zeros_like(top), num_steps=_NUM_HALVINGS)
    # the exponential is computed again, and another program may round it differently: 4 ulp, and two products
    return xp.where(log_fall < _LOG_RANGE, down(top * xp.exp(-log_fall), 8), 0.0)
