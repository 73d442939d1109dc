"""Renyi divergences of shuffled binary randomized response, one record in n, between certified ends.

All other records hold 0; k ~ Bin(n, p), p = 1/(E + 1), E = e^local_epsilon, is the number of ones if the differing
record holds 0 too, and 1 + x, x = 2 sinh(local_epsilon) (k - n p)/n, is the likelihood ratio of its holding 1 (Girgis
et al. 2021, section 8; equation (11) at real orders). E x = 0, so that for every power a > 1 or a < 0

    E (1 + x)^a - 1 = E[(1 + x)^a - 1 - a x]

is a sum of positive terms: a = order is the forward divergence (1 against 0), a = 1 - order the reverse one. Every h-th
count is summed (`_lattice_comb`): a few dozen nodes for any n. That needs (1 + x)^a to be a mixture of the kind named
there, and it is one up to t0, ``(1+x)^a = int t^(f-1) e^(-t(1+x)) dt / Gamma(f) (1+x)^K``, K = ceil(a) (0 for a < 0),
f = K - a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.divergence.response._lattice_comb import (
    EXPONENT,
    gamma_reach,
    left_reach,
    log_aliases,
    right_reach,
    stride,
)
from jaxacct.special import ULP, log1p, map_rows, one_minus_exp, series_of_excess, sinh, softplus
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf, pmf_rounding, product_error
from jaxacct.special._namespace import stop_gradient, xp

LARGEST = 300.0  # local epsilon beyond which no bound is given
_NUM_HALVINGS = 16  # for the integrand's peak, which only determines where the nodes end: the part beyond is bounded
_MAX_WINDOW = 2**15  # largest number of nodes that are summed; fewer are certified too, only looser


class _Layout(NamedTuple):
    """Nodes first, first + step, .. up to `last`, and the least variance of the mixture's tilted laws; each [L]."""

    first: Any
    step: Any
    last: Any
    variance: Any


def _layout(n: Any, local_epsilon: Any, top: float) -> _Layout:
    """The nodes [L] used for all powers from 1 (or 0) to `top`."""
    size = abs(top)
    odds = xp.exp(-local_epsilon)
    mean = n * odds / (1.0 + odds)
    slope = 2.0 * xp.sinh(local_epsilon) / n
    if top > 0:
        margin, reach, degree = EXPONENT, EXPONENT, np.ceil(size)
        # the integrand's peak solves k = n / (1 + exp(local_epsilon - a slope / (1 + x))), the right side falling in k
        low, high = mean, n / (1.0 + xp.exp(xp.minimum(local_epsilon - size * slope, 700.0)))
        for _ in range(_NUM_HALVINGS):
            middle = xp.sqrt(low * high)
            tilt = xp.minimum(local_epsilon - size * slope / (odds + slope * middle), 700.0)
            below = n / (1.0 + xp.exp(tilt)) > middle
            low, high = xp.where(below, middle, low), xp.where(below, high, middle)
    else:
        margin, reach, degree = EXPONENT + size * local_epsilon, gamma_reach(size), 1.0
        high = mean
    first = xp.maximum(xp.floor(mean - left_reach(mean, margin)), 0.0)
    tilted = odds * xp.exp(-xp.minimum(slope * reach / (odds + slope * first), 700.0))
    variance = xp.maximum(n - degree, 0.0) * tilted / ((1.0 + tilted) * (1.0 + tilted))
    last = xp.minimum(xp.ceil(high + right_reach(high, EXPONENT)), n)
    return _Layout(first, stride(variance), last, variance)


def _usable(num_reports: Any, local_epsilon: Any) -> Any:
    return (num_reports >= 1) & (num_reports < xp.inf) & (local_epsilon > 0) & (local_epsilon <= LARGEST)


def response_window(num_reports: Any, local_epsilon: Any, top: float, *, max_window: int = _MAX_WINDOW) -> int:
    """A static int, a power of two: the number of nodes that the powers to `top` (the order, or 1 - order) need.

    For concrete arrays of pairs. A smaller window is certified too, only looser.
    """
    n, local = (np.asarray(v, np.float64) for v in np.broadcast_arrays(num_reports, local_epsilon))
    usable = _usable(n, local)
    at = _layout(np.where(usable, n, 1.0), np.where(usable, local, 1.0), top)
    needed = min(float(np.max((at.last - at.first) / at.step)) + 2.0, max_window)
    return 1 << max(4, int(np.ceil(np.log2(needed))))


def response_log_excess(
    num_reports: jax.Array, local_epsilon: jax.Array, *, powers: Sequence[float], window: int
) -> Ends[jax.Array]:
    """Lower and upper ends [A, L] of log(E (1+x)^a - 1) for each power a; all of them above 1, or all below 0.

    Girgis et al. 2021, equation (11), at real orders. Both ends are certified. Their error is 1e-13 relative plus the
    rounding of the exponents involved, some 2^-50 times their size; 4e-12 in all at n = 1e9. Outside num_reports >= 1,
    0 < local_epsilon <= 300 they are (-inf, inf); at local_epsilon = 0 (-inf, -inf).

    Args:
      num_reports, local_epsilon: float64 [L].
      powers: static.
      window: static, from `response_window` at the power furthest from 0; if too small the ends are further apart.
    """
    top = max(powers, key=abs)
    usable = _usable(num_reports, local_epsilon)
    n, local = xp.where(usable, num_reports, 1.0), xp.where(usable, local_epsilon, 1.0)
    at = _Layout(*stop_gradient(_layout(n, local, top)))
    odds = xp.exp(-local)
    prob, rest = odds / (1.0 + odds), 1.0 / (1.0 + odds)
    slope = 2.0 * sinh(local) / n
    index = xp.arange(window, dtype=xp.int32).astype(xp.float64)[:, None]
    count = at.first + at.step * index
    inside = count <= n
    count = xp.where(inside, count, 0.0)
    log_mass = log_binomial_pmf(count, n, prob, rest)
    # x from the rounded p, of which the sum is a smooth function: what its last digit moves, it moves in both
    distance = (count - n * prob) - product_error(n, prob)
    x, ratio = slope * distance, odds + slope * count
    near = xp.abs(x) < 0.25
    log_ratio = xp.where(near, log1p(xp.clip(x, -0.25, 0.25)), xp.log(ratio))
    error = 2.0**-50 * 16.0 + pmf_rounding(log_mass) + xp.where(near, 0.0, 2.0**-51 * xp.abs(distance))
    log_mass = xp.where(inside, log_mass + xp.log(at.step), -xp.inf)
    outside = _Outside(
        log_left=xp.where(at.first > 0, -binomial_rate(xp.maximum(at.first - 1.0, 0.0), n, prob, rest), -xp.inf),
        last=xp.minimum(at.first + at.step * (window - 1.0), n),
        log_aliases=log_aliases(at.variance, at.step),
    )
    setting = _Setting(n, local, prob, rest, slope)

    def row(power: jax.Array) -> jax.Array:
        value, high, value_error = power_excess(power, x, log_ratio)
        level = stop_gradient(xp.max(log_mass + high, axis=0))
        terms = xp.exp(log_mass + high - level) * value
        total = xp.sum(terms, axis=0)
        log_total = level + xp.log(total)
        spread = xp.sum(terms * (error + value_error), axis=0) / total
        spread = spread + 2.0**-46 + ULP * window + 2.0**-51 * (xp.abs(level) + xp.abs(log_total) + xp.abs(power))
        log_error = _log_outside(setting, at, outside, power, softplus(log_total + spread), forward=top > 0)
        upper = xp.logaddexp(log_total + spread, log_error)
        missing = xp.where(at.step > 1.0, log_error - log_total + spread, -xp.inf)
        lower = log_total - spread + log1p(-xp.exp(xp.minimum(missing, -0.1)))
        lower = xp.where(usable & (total > 0) & (missing < -0.1), lower, -xp.inf)
        return xp.stack([lower, xp.where(usable, upper, xp.where(local_epsilon == 0, -xp.inf, xp.inf))])

    both = map_rows(row, np.asarray(powers, np.float64), lanes=x)
    return Ends(both[:, 0], both[:, 1])


class _Setting(NamedTuple):
    """The numbers of each lane, [L]: n, local epsilon, p, 1 - p, and the slope of x in the count."""

    num_reports: jax.Array
    local_epsilon: jax.Array
    prob: jax.Array
    rest: jax.Array
    slope: jax.Array


class _Outside(NamedTuple):
    """The part that the nodes leave out, each [L]."""

    log_left: jax.Array  # log of Chernoff's bound on the mass below the first node
    last: jax.Array  # the last node
    log_aliases: jax.Array


def _log_outside(
    setting: _Setting, at: _Layout, outside: _Outside, power: jax.Array, log_moment: jax.Array, *, forward: bool
) -> jax.Array:
    """Log of a bound on the error of the nodes' sum, [L], where E (1+x)^a <= exp(log_moment).

    Left of the nodes 1 + |a x| + (1+x)^a is at most 2 + a, or 2 - a + e^(-a local_epsilon). Right of them it is at most
    c (1+x)^b, (b, c) = (a, 2) or (1, 2 - a), a log-concave multiple of the masses: a geometric series. Where only every
    h-th count is summed, the nodes outside are weighted by h. The aliases are then added, those of 1 and of a x
    (|E x e^(iwk)| is at most twice that of e^(iwk)), and the part of the mixture beyond t0.
    """
    n, local, prob, rest, slope = setting
    size = xp.abs(power)
    log_left = outside.log_left + (xp.log(2.0 + size) if forward else size * local + xp.log(3.0 + size))
    b, c = (power, xp.full_like(power, 2.0)) if forward else (xp.ones_like(power), 2.0 + size)
    last = outside.last
    ratio = xp.exp(-local) + slope * last
    decay = (n - last) / (last + 1.0) * xp.exp(-local + b * log1p(slope / ratio))
    ends = last >= n
    falling = (decay < 0.999) & (last > n * prob)
    decay = xp.where(falling & ~ends, decay, 0.5)
    log_right = xp.log(c) + log_binomial_pmf(last, n, prob, rest) + b * xp.log(ratio) + xp.log(decay / (1.0 - decay))
    log_right = xp.where(ends, -xp.inf, xp.where(falling, log_right + 2.0**-20, xp.inf))
    log_tails = xp.logaddexp(log_left, log_right)
    comb = xp.logaddexp(outside.log_aliases + xp.log(2.0 + 2.0 * size), xp.log(3.0) - EXPONENT) + log_moment
    return xp.where(at.step > 1.0, xp.logaddexp(log_tails + log1p(at.step), comb), log_tails)


def power_excess(power: jax.Array, x: jax.Array, log_ratio: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Three arrays [.., L], v, h and the relative error of v: (1+x)^a - 1 - a x = v e^h, for a > 1 or a < 0 and x > -1.

    `log_ratio` is log(1+x). A series is used where the terms would cancel; elsewhere w (e^(b log_ratio) - 1) - b x,
    where w = 1+x, b = a - 1 for a > 1 and w = 1, b = a for a < 0, so that every term vanishes with b. There both terms
    err by 24 ULP and 8 of their exponent at most, and add up to 160 times their difference at most. `log_ratio` is that
    of x.
    """
    small = (1.0 + xp.abs(power)) * xp.abs(x) < 0.05
    y = xp.where(small, x, 0.0)
    series = series_of_excess(power, y)
    y = xp.where(small, 1.0, x)
    weight, slope = xp.where(power > 0, 1.0 + y, 1.0), xp.where(power > 0, power - 1.0, power)
    exponent = slope * xp.where(small, xp.log(2.0), log_ratio)
    size = xp.abs(exponent)
    fallen = xp.exp(-size)  # a factor e^max(exponent, 0) is taken out, since it may overflow
    growth = weight * -one_minus_exp(size, fallen)
    rising = exponent > 0
    far = xp.where(rising, -growth - fallen * slope * y, growth - slope * y)
    value = xp.where(small, 0.5 * power * (power - 1.0) * x * x * series, xp.maximum(far, 0.0))
    parts = xp.abs(growth) + xp.abs(slope * y) * xp.where(rising, fallen, 1.0)
    cancelled = ULP * (24.0 + 8.0 * size) * xp.minimum(parts / xp.maximum(far, 1e-300), 160.0)
    error = stop_gradient(xp.where(small, 2.0**-47, cancelled))
    return value, xp.where(small | ~rising, 0.0, size), error
