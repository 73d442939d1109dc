"""Renyi divergences of (1-q) N(0, sigma^2) + q N(1, sigma^2) from N(0, sigma^2): one Poisson-sampled step, remove.

Y = exp(z/sigma - 1/(2 sigma^2)), z standard normal, is the likelihood ratio under N(0, sigma^2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct.special import (
    ULP,
    at_real_orders,
    log1p,
    log_binomial_table,
    log_normal_tail,
    log_sum_exp,
    logexpm1,
    map_rows,
    one_minus_exp,
    series_of_excess,
    softplus,
    up,
)
from jaxacct.special._namespace import row_at, stop_gradient, with_rows, xp

# The quadrature for real orders. These affect speed and tightness: the errors of the step and the window are added. The
# bound on rounding does not depend on _NUM_NODES: check it before raising that.
_MOST_WHOLE = 2048  # up to this order the integer orders are all computed; beyond, the triangle inequality is used
_NUM_NODES = 512  # nodes in z
_TAIL_SDS = 9.5  # standard deviations to which the window extends
_AT_ONCE = 2**15  # numbers in one NumPy array, which is used for several orders at once
_LOG_TAIL = math.log(0.5 * math.erfc(_TAIL_SDS / math.sqrt(2.0)))  # log of the normal mass beyond, on one side


def sampled_gaussian_rdp(
    noise_multiplier: jax.Array, sampling_prob: jax.Array, *, orders: Sequence[float]
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: of the mixture from N(0, sigma^2) (remove direction), real `orders` > 1.

    At integer orders they are found by the binomial sum of Mironov, Talwar & Zhang 2019, section 3.3, less its leading
    1; at other orders by quadrature (`_real_log_moment`; their section 3.3 uses two alternating series). Where the
    quadrature's error bound is not tight, the chord between integer orders is used (`at_real_orders`); for an order
    above `_MOST_WHOLE`, integer or not, the triangle inequality (`_by_the_triangle`).

    Args:
      noise_multiplier: float64 [L], sigma, > 0.
      sampling_prob: float64 [L], q in (0, 1].
      orders: static, A of them.
    """
    wanted = np.asarray(orders, np.float64)
    whole = wanted == np.floor(wanted)
    far = wanted > _MOST_WHOLE
    top = int(np.ceil(wanted[~far].max(initial=2.0)))
    table = _integer_log_excess(noise_multiplier, sampling_prob, max_order=top)
    known = range(2, top + 1)
    curve = up(softplus(table), 32) / (xp.asarray(known, xp.float64)[:, None] - 1.0)
    curve = at_real_orders(curve, known, orders)
    if far.any():
        at = np.flatnonzero(far)
        curve = with_rows(curve, at, _by_the_triangle(wanted[at], noise_multiplier, sampling_prob))
    at = np.flatnonzero(~whole | far)
    if not at.size:
        return curve
    exact = _real_log_moment(wanted[at], noise_multiplier, sampling_prob)
    exact = exact / xp.asarray(wanted[at] - 1.0, xp.float64)[:, None]
    return with_rows(curve, at, xp.minimum(curve[at], exact))


def _by_the_triangle(orders: NDArray[Any], noise_multiplier: jax.Array, sampling_prob: jax.Array) -> jax.Array:
    """Renyi divergences [A, L], rounded up, at `orders` [A] whose sums would have too many terms.

    By the triangle inequality of the norm (E|.|^a)^(1/a), which the largest term of the sum attains as a grows:

        R_a <= a/(a-1) log(1 - q + q (E Y^a)^(1/a)),    (E Y^a)^(1/a) = e^x,  x = (a-1) / (2 sigma^2).

    x errs by 4 ULP, the logarithms by 2 of their size each and their sum by 4; above x = 1 all of this is added.
    """
    a, q = xp.asarray(orders, xp.float64)[:, None], sampling_prob
    x = up((a - 1.0) / (2.0 * noise_multiplier * noise_multiplier), 8)
    small, log_q = xp.minimum(x, 1.0), xp.log(q)
    large = xp.logaddexp(log1p(-q), log_q + x) + 8.0 * ULP * (1.0 + x + xp.abs(log_q))
    found = xp.where(x < 1.0, log1p(q * xp.expm1(small)), large)
    return up(a / (a - 1.0) * found, 32)


def _integer_log_excess(noise_multiplier: jax.Array, sampling_prob: jax.Array, *, max_order: int) -> jax.Array:
    """log(E[(1-q+qY)^a] - 1) [A - 1, L], rounded up, for a = 2..A:

    log sum_{j>=2} C(a,j) (1-q)^(a-j) q^j (e^y - 1),   y = j(j-1)/(2 sigma^2).

    y errs by 3 ULP, log(e^y - 1) by 8 + 7 y + 5 times its size.
    """
    j = xp.arange(2, max_order + 1, dtype=xp.float64)[:, None]
    exponent = 0.5 * j * (j - 1.0) / (noise_multiplier * noise_multiplier)
    return binomial_log_excess(logexpm1(exponent), sampling_prob, 7.0 * exponent)


def binomial_log_excess(log_excess: jax.Array, sampling_prob: jax.Array, ulps: jax.Array | float = 0.0) -> jax.Array:
    """log(E[(1-q+qY)^a] - 1) [A - 1, L], rounded up, for a = 2..A, from log(E[Y^a] - 1) [A - 1, L] of any pair:

    log sum_{j>=2} C(a,j) (1-q)^(a-j) q^j (E[Y^j] - 1).

    `log_excess` is rounded up, except for `ulps` ULP (of the shape of `log_excess`), 8 ULP, and 5 ULP of its size. The
    other logarithms, their multiples and the sums err by less than 10 ULP of each part. The error of the sum's
    logarithm is the mean of its terms', each weighted by its share, 11 for exponentials (sum of w |log w| <=
    log A + 1), one for each addition and 5 of the result.
    """
    max_order = log_excess.shape[0] + 1
    j = xp.arange(2, max_order + 1, dtype=xp.float64)[:, None]
    log_power = j * xp.log(sampling_prob)
    in_terms, sizes = log_excess + log_power, 0.1 * ulps + xp.abs(log_excess) + xp.abs(log_power)
    log_rest = log1p(-sampling_prob)
    table = log_binomial_table(max_order)[2:, 2:]

    def row(a: jax.Array, log_binomial: jax.Array) -> jax.Array:
        log_binomial = log_binomial.reshape(max_order - 1, -1)
        rest = xp.where(j < a, (a - j) * log_rest, 0.0)  # (1-q)^0 = 1 also at q = 1
        terms = xp.where(j <= a, log_binomial + in_terms + rest, -xp.inf)
        found = log_sum_exp(terms)
        shares, parts = stop_gradient((xp.exp(terms - found), log_binomial + sizes - rest))
        error = ULP * (max_order + 32.0 + 5.0 * xp.abs(found) + 10.0 * _weighted(shares, parts))
        return found + stop_gradient(xp.where(xp.isfinite(found), error, 0.0))

    at_once = max(1, _AT_ONCE // max_order)
    return map_rows(row, np.arange(2.0, max_order + 1.0), table, lanes=log_rest, at_once=at_once)


def _weighted(shares: jax.Array, parts: jax.Array) -> jax.Array:
    """Sum over the first axis of shares times parts, where a share is not 0; [L]."""
    return xp.sum(xp.where(shares > 0, shares * xp.where(shares > 0, parts, 0.0), 0.0), axis=0)


class _Grid(NamedTuple):
    """The values at the N nodes z of the trapezoid rule, computed once for all orders: [G, N, L] for G windows."""

    step: jax.Array  # [G, L]
    x: jax.Array  # q (Y - 1)
    other: jax.Array  # x / (1 + x) for x > 0, else 1 + x
    log_ratio: jax.Array  # log(1 + x)
    log_weight: jax.Array  # -z^2/2


def _grids(tops: NDArray[Any], noise_multiplier: jax.Array, sampling_prob: jax.Array) -> _Grid:
    """The grids on the windows [-9.5, 9.5 + top/sigma], one for each of `tops` [G], the largest order that uses it."""
    s, q = 1.0 / noise_multiplier, sampling_prob
    length = 2.0 * _TAIL_SDS + xp.asarray(tops, xp.float64)[:, None] * s
    step = length / (_NUM_NODES - 1)
    z = -_TAIL_SDS + step[:, None] * xp.arange(_NUM_NODES, dtype=xp.int32).astype(xp.float64)[:, None]
    log_y = s * z - 0.5 * s * s
    # where x is large it matters only in x / (1 + x), and neither x^2 nor a derivative may overflow
    big = log_y > 250.0
    x = xp.where(big, xp.exp(xp.minimum(xp.log(q) + log_y, 300.0)), q * xp.expm1(xp.where(big, 0.0, log_y)))
    far = xp.logaddexp(log1p(-q), xp.log(q) + log_y)
    near = log1p(xp.clip(x, -1.0 + 2.0**-53, 1.0))
    other = xp.where(x > 0, x / (1.0 + xp.maximum(x, 0.0)), 1.0 + x)
    return _Grid(step, x, other, xp.where(x > 1.0, far, near), -0.5 * z * z)


def _real_log_moment(orders: NDArray[Any], noise_multiplier: jax.Array, sampling_prob: jax.Array) -> jax.Array:
    """Upper bound on log E[(1-q+qY)^a], real a > 1, [A, L].

    E[(1+x)^a - 1 - a x], x = q(Y-1), has a non-negative integrand, to which the trapezoid rule in z is applied, with N
    nodes of step h on [-9.5, 9.5 + b/sigma], b the largest of the orders that share a grid, those between the same
    powers of 2. The following errors are added on the safe side:

    * discretisation: |1-q+qY(z+iy)| <= 1-q+qY(z) for |y| < pi sigma, so the error is at most
      2 e^{d^2/2 - 2 pi d/h} / (1 - e^{-2 pi d/h}) (E[(1-q+qY)^a] + 1 + 2 a q), any d <= pi sigma;
    * right tail: (u + v)^a <= (1-w)^(1-a) u^a + w^(1-a) v^a for any w in (0, 1), with u = 1 - q and v = qY, whose
      tails are normal tails; w is the share of v at the window's end, where the two sides are equal;
    * left tail: the integrand is at most q^2 max(a-1, a(a-1)/2) there;
    * summation and function rounding: 2^-43 (1 + a) relative, and 2^-49 of the largest exponent. No term is large
      relative to the integrand: with b = a - 1 it is (1+x)^a (1 - e^-t - b x/(1+x) e^-t) for x > 0, else b |x| - (1+x)
      (1 - e^-t), t = b |log(1+x)|; a series for a |x| < 0.05 (docs/numerics/contour.md, "Real orders of one sampled
      step").
    """
    octaves, group = np.unique(np.ceil(np.log2(orders)), return_inverse=True)
    tops = np.asarray([orders[group == i].max() for i in range(len(octaves))])
    grids = _grids(tops, noise_multiplier, sampling_prob)
    s, q = 1.0 / noise_multiplier, sampling_prob

    def row(a: jax.Array, group: jax.Array) -> jax.Array:
        x, other, log_ratio, log_weight = (row_at(v, group) for v in grids[1:])
        small = xp.abs(x) * a < 0.05
        xs = xp.where(small, x, 0.0)
        t = (a - 1.0) * xp.abs(log_ratio)
        fallen = xp.exp(-t)
        decay = one_minus_exp(t, fallen)
        rising = x > 0
        # a factor (1+x)^a is taken out where it may overflow
        far = xp.where(rising, decay - (a - 1.0) * other * fallen, (a - 1.0) * xp.abs(x) - other * decay)
        value = xp.maximum(xp.where(small, 0.5 * a * (a - 1.0) * xs * xs * series_of_excess(a, xs), far), 1e-300)
        exponent = log_weight + xp.where(rising & ~small, a * log_ratio, 0.0)
        level = stop_gradient(xp.max(exponent, axis=0))
        return xp.log(xp.sum(value * xp.exp(exponent - level), axis=0)) + level

    rows = xp.asarray(orders, xp.float64), xp.asarray(group, xp.int32)
    sums = map_rows(row, *rows, lanes=q, at_once=_AT_ONCE // _NUM_NODES)
    a, h = xp.asarray(orders, xp.float64)[:, None], grids.step[group]
    largest = a * s * (h * (_NUM_NODES - 1) - _TAIL_SDS)
    log_sum = sums + xp.log(h) - 0.5 * xp.log(2.0 * xp.pi) + 2.0**-43 * (1.0 + a) + 2.0**-49 * largest
    right = _log_right_tail(a, h * (_NUM_NODES - 1) - _TAIL_SDS, s, q)
    left = 2.0 * xp.log(q) + xp.log(xp.maximum(a - 1.0, 0.5 * a * (a - 1.0))) + _LOG_TAIL
    d = xp.minimum(xp.pi * noise_multiplier, 2.0 * xp.pi / h)
    fall = 2.0 * xp.pi * d / h
    error = xp.log(2.0) + 0.5 * d * d - fall - xp.log(-xp.expm1(-fall))
    error = error + xp.logaddexp(softplus(log_sum), xp.log(1.0 + 2.0 * a * q))
    excess = log_sum_exp(xp.stack([log_sum, *right, left, error + 1e-3]))
    # The discretisation bound is relative to the true moment, itself at most sum + errors: the 1e-3 covers this
    # circularity while the errors stay below it; otherwise the certificate fails closed.
    return xp.where(error < xp.log(5e-4) + softplus(log_sum), softplus(excess), xp.inf)


def _log_right_tail(a: jax.Array, end: jax.Array, s: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logs, rounded up, of two numbers [L] that add up to at least E[(1-q+qY)^a; z > end] (`_real_log_moment`)."""
    is_whole, is_none = q >= 1.0, q <= 0.0
    log_q, log_rest = xp.log(xp.where(is_none, 0.5, q)), log1p(-xp.where(is_whole, 0.5, q))
    t = log_q + s * end - 0.5 * s * s - log_rest  # log of w / (1 - w)
    of_rest = a * log_rest + (a - 1.0) * softplus(t) + log_normal_tail(end)
    of_power = a * log_q + 0.5 * a * (a - 1.0) * s * s + log_normal_tail(end - a * s)
    of_power = of_power + xp.where(is_whole, 0.0, (a - 1.0) * softplus(-t))
    # each logarithm errs by a few ULP of its size, and the two weights add to 1 up to a few
    slack = 2.0**-47 * (a * (1.0 + xp.abs(log_q) + xp.abs(log_rest) + xp.abs(t) + a * s * s) + end * end)
    return xp.where(is_whole | is_none, -xp.inf, of_rest + slack), xp.where(is_none, -xp.inf, of_power + slack)
