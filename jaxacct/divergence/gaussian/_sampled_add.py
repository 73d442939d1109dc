"""Renyi divergences of N(0, sigma^2) from (1-q) N(0, sigma^2) + q N(1, sigma^2): one Poisson-sampled step, add.

Y = exp(z/sigma - 1/(2 sigma^2)), z standard normal, is the likelihood ratio under N(0, sigma^2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxacct._jax import jax
from jaxacct.special import (
    ULP,
    log1mexp,
    log1p,
    log_normal_tail,
    log_sum_exp,
    map_rows,
    one_minus_exp,
    series_of_excess,
    softplus,
    up,
)
from jaxacct.special._namespace import stop_gradient, xp

# They affect speed and tightness: the errors of the step and of the window are added. The bound on rounding covers sums
# of up to 2^9 terms.
_NUM_NODES = 512  # nodes in z
_TAIL_SDS = 9.5  # standard deviations to which the window extends
_AT_ONCE = 64  # orders that NumPy processes at once
_LOG_TAIL = math.log(0.5 * math.erfc(_TAIL_SDS / math.sqrt(2.0)))  # log of the normal mass beyond, on one side
_TURNS = math.pi * np.array([0.25, 0.5, 0.6, 0.7, 0.8, 0.9])  # half widths of the strip in z, in units of sigma
_FURTHEST, _HALVINGS = 40.0, 12  # limit of the window's beginning, and bisection steps that find it
_MOST_LOG = 300.0  # largest log of q Y, so that its square is a double


def sampled_gaussian_add_rdp(
    noise_multiplier: jax.Array, sampling_prob: jax.Array, *, orders: Sequence[float]
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: of N(0, sigma^2) from the mixture (add direction), real `orders` > 1.

    With b = a - 1 and x = q(Y - 1), E x = 0, the divergence is log(1 + E f) / b, f = (1+x)^-b - 1 + b x >= 0. E f is
    computed by the trapezoid rule in z, with N nodes of step k on [-9.5 - m, 9.5 + 2/sigma], m from `_mode`. The
    following errors are added:

    * step. On |Im z| <= d, d/sigma < pi, |1 + y x| >= (1-q) c for 0 <= y <= 1, c = 1 or, beyond pi/2, sin(d/sigma). By
      Taylor's theorem |f| is at most b(b+1)/2 |x|^2 ((1-q)c)^(-b-2), and at most b|x| (1 + ((1-q)c)^(-b-1)); their
      means follow from |x| <= q(Y + 1). The rule errs by 2 e^{d^2/2} / (e^{2 pi d/k} - 1) times either.
    * right of the window f is at most b(b+1)/2 q^2 Y^2, and at most b q Y; left of it at most b(b+1)/2 q^2
      (1-q)^(-b-2), and at most (1+x)^-b, whose logarithm is concave in z, hence below its tangent at the edge -w: with
      slope -r there, its mean beyond is (1+x)^-b e^(-r w + r^2/2) Phi(r - w).
    * rounding: (1 + b) (2^-43 + 2^-49 of the exponents), relative: in each form f's terms are of the size of f up to a
      factor 40, with a series for (b + 1)|x| < 0.05.

    Args:
      noise_multiplier: float64 [L], sigma, > 0.
      sampling_prob: float64 [L], q in (0, 1]. At q = 1 the bound is inf.
      orders: static, A of them.
    """
    s, q = 1.0 / noise_multiplier, sampling_prob
    high, low = _TAIL_SDS + 2.0 * s, _TAIL_SDS + _mode(s, q, max(orders, default=2.0) - 1.0)
    k = (high + low) / (_NUM_NODES - 1)
    z = -low + k * xp.arange(_NUM_NODES, dtype=xp.float64)[:, None]
    log_y = s * z - 0.5 * s * s
    log_q, log_rest, log_left = xp.log(q), log1p(-q), log_normal_tail(low)
    big, huge = log_y > 0.5 * _MOST_LOG, log_q + log_y > _MOST_LOG
    grown = xp.exp(xp.where(huge, _MOST_LOG, log_q + log_y))
    x = xp.where(big, grown, q * xp.expm1(xp.where(big, 0.0, log_y)))
    far = log_sum_exp(xp.stack([xp.broadcast_to(log_rest, log_y.shape), log_q + log_y]))
    near = xp.abs(x) < 0.5
    log_ratio = xp.abs(xp.where(near, log1p(xp.where(near, x, 0.0)), far))
    log_weight = -0.5 * z * z
    # an upper bound on the slope of -log(1+x) in -z at the left edge
    edge_slope = s * xp.exp(xp.minimum(log_q + log_y[0] - far[0], 0.0)) * (1.0 + 2.0**-40)
    turns = xp.asarray(_TURNS)[:, None]
    log_c = log_rest + xp.log(xp.where(turns > 0.5 * math.pi, xp.sin(turns), 1.0))
    d = xp.minimum(turns * noise_multiplier, 2.0 * xp.pi / k)
    fall = 2.0 * xp.pi * d / k
    log_rule = math.log(2.0) + 0.5 * d * d - fall - log1mexp(-fall)

    def row(b: jax.Array) -> jax.Array:
        small = xp.abs(x) * (b + 1.0) < 0.05
        xs = xp.where(small, x, 0.0)
        t = b * log_ratio
        fallen = xp.exp(-t)
        decay = one_minus_exp(t, fallen)
        rising = x < 0.0
        # a factor (1+x)^-b is taken out where it exceeds 1
        other = xp.where(rising, decay + b * x * fallen, b * x - decay)
        half_square = 0.5 * b * (b + 1.0)
        value = xp.maximum(xp.where(small, half_square * xs * xs * series_of_excess(-b, xs), other), 1e-300)
        exponent = log_weight + xp.where(rising & ~small, t, 0.0)
        # f <= b x there, whose factor x may be no double
        value, exponent = xp.where(huge, b, value), xp.where(huge, log_weight + log_q + log_y, exponent)
        level = stop_gradient(xp.max(exponent, axis=0))
        log_sum = xp.log(xp.sum(value * xp.exp(exponent - level), axis=0)) + level
        log_sum = log_sum + xp.log(k) - 0.5 * math.log(2.0 * math.pi)
        log_sum = log_sum + (1.0 + b) * (2.0**-43 + 2.0**-49 * (s * (xp.maximum(high, low) + s)))
        by_square, by_one = xp.log(half_square) + 2.0 * log_q, xp.log(b) + log_q
        right = xp.minimum(by_square + s * s + _LOG_TAIL, by_one + log_normal_tail(high - s))
        left = by_square - (b + 2.0) * log_rest + log_left
        slope = b * edge_slope
        tangent = b * log_ratio[0] - slope * low + 0.5 * slope * slope + log_normal_tail(low - slope)
        tangent = tangent + 2.0**-44 * (1.0 + b * log_ratio[0] + (low + slope) ** 2)  # 512 ULP; the tail errs by 32
        left = xp.minimum(left, xp.where(x[0] < 0.0, tangent, xp.inf))
        square = by_square + log_sum_exp(xp.stack([s * s, xp.full_like(s, math.log(3.0))])) - (b + 2.0) * log_c
        plain = by_one + math.log(2.0) + softplus(-(b + 1.0) * log_c)
        step = xp.min(log_rule + xp.minimum(square, plain), axis=0)
        excess = log_sum_exp(xp.stack([log_sum, right, left, step]))
        bound = xp.minimum(up(softplus(excess) / b, 128), up(-log_rest, 16))  # 1 + x > 1 - q
        return xp.where(xp.isnan(bound) | (q >= 1.0), xp.inf, bound)

    powers = xp.asarray(np.asarray(orders, np.float64) - 1.0, xp.float64)
    return map_rows(row, powers, lanes=q, at_once=_AT_ONCE)


def _mode(s: jax.Array, q: jax.Array, b: float) -> jax.Array:
    """About how far left of 0 (1+x)^-b has most weight: m = b s p, p = qY / (1 + x) at z = -m. Tightness only."""
    s, q = stop_gradient(s), stop_gradient(q)
    log_odds = xp.log(q) - log1p(-xp.minimum(q, 1.0 - ULP))
    low, high = xp.zeros_like(s + q), xp.minimum(b * s, _FURTHEST) + 0.0 * q
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        posterior = 1.0 / (1.0 + xp.exp(xp.clip(s * middle + 0.5 * s * s - log_odds, -_MOST_LOG, _MOST_LOG)))
        is_below = middle < b * s * posterior
        low, high = xp.where(is_below, middle, low), xp.where(is_below, high, middle)
    return high
