"""The visible number of check-ins, Bin(n, q), in blocks of consecutive counts with certified weights.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins" (CI-S9). Every count 1..n lies in one of
a static number of blocks. No count is cut off, since a divergence may be dominated by rare small counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.special import ULP, log1mexp, log_sum_exp, log_up
from jaxacct.special._binomial import log_binomial_pmf, pmf_rounding
from jaxacct.special._binomial_blocks import langevin
from jaxacct.special._namespace import stop_gradient, xp

# Standard deviations about the mean: the central blocks are even to 3, then they grow, and end at 40. Only tightness.
_SPREAD, _REACH = 3.0, 40.0
# Slopes of the log pmf, in nats per count, are moved at least this far from 0; the effect is added to the weights.
_LEAST_STEP = 1e-12


class BlockLayout(NamedTuple):
    """Static numbers of blocks: those at 1, 2, 3, .., those on a geometric grid of 1..n, and those about the mean."""

    singles: int
    geometric: int
    central: int


class Blocks(NamedTuple):
    """Blocks [B, L] of counts first..last and log weights on their two ends.

    For a function convex in the count on each block, sum_k w_k f(k) <= sum_B low f(first) + high f(last), k = 1..n.
    An empty block has weights -inf.
    """

    first: jax.Array
    last: jax.Array
    log_low: jax.Array
    log_high: jax.Array


def binomial_blocks(num_users: jax.Array, prob: jax.Array, layout: BlockLayout) -> Blocks:
    """The blocks [B, L] of Bin(n, q) without the count 0, with weights that are upper bounds.

    The log pmf is concave, hence below each of its tangents: on a block the law is bounded by a geometric one, whose
    mass and mean have closed forms. The tangent is at the block's middle, or, in blocks wider than half a standard
    deviation, where the pmf is largest. The mass of a central block is overestimated by about (width / sd)^2 / 24,
    relatively: 1e-3 with 128 central blocks, and not at all where blocks are single counts.
    """
    n, q = num_users, xp.clip(prob, 1e-300, 1.0)
    rest = xp.maximum(1.0 - q, 1e-300)
    mean = stop_gradient(n * q)
    scale = xp.sqrt(mean * xp.minimum(rest, 1.0)) + 1.0
    first = stop_gradient(_starts(n, mean, scale, layout))
    last = xp.concatenate([first[1:] - 1.0, n[None]])
    size = last - first + 1.0
    filled = size >= 1.0
    size = xp.maximum(size, 1.0)
    mode = xp.clip(xp.floor((n + 1.0) * stop_gradient(q)), first, xp.maximum(last, first))
    at = xp.where(size <= 0.5 * scale, xp.floor(0.5 * (first + last)), mode)
    at = xp.where(filled, at, first)
    single = size == 1.0
    log_odds = xp.log(q) - xp.log(rest)
    # a slope between log w(at + 1)/w(at) and log w(at)/w(at - 1), at both ends of 1..n on the open side
    inner = xp.minimum(at, n - 1.0)
    slope = xp.log(xp.maximum(n - inner, 1.0) / (inner + 1.0)) + log_odds
    slope = xp.where(xp.abs(slope) < _LEAST_STEP, _LEAST_STEP, slope)
    slope = xp.where(single, 1.0, slope)
    down = slope < 0
    steep = xp.abs(slope)
    # sum_j e^{slope j} for j = 0..size-1, from its larger end
    log_sum = log1mexp(-steep * size) - log1mexp(-steep)
    end = xp.where(down, first - at, last - at)
    value = log_binomial_pmf(at, n, q, rest)
    # Rounding of the pmf, and three sums. Of wide blocks besides, over their size: the slope's, 10 ULP, 9 of the
    # log-odds and 5 of itself, two sums of multiples of it, and what it was moved off 0; by 2^-40 the two logarithms of
    # 1 - e^x, at most 28 of 10 ULP each.
    slack = pmf_rounding(value) + 8.0 * ULP * xp.abs(value)
    wide = 2.0**-40 + size * (8.0 * ULP * (2.0 + 2.0 * xp.abs(log_odds) + steep) + 2.0 * _LEAST_STEP)
    log_mass = xp.where(single, value, value + slope * end + log_sum + wide) + slack
    log_mass = xp.minimum(log_mass, 2.0**-40)
    # mean of the geometric law, as a share of the way from first to last, each share to its own relative accuracy:
    # 2e-14
    reach = 0.5 * (size - 1.0)
    tilt = 0.5 * (size * langevin(0.5 * slope * size) - langevin(0.5 * slope))
    span = xp.maximum(size - 1.0, 1.0)
    high, low = xp.clip((reach + tilt) / span, 0.0, 1.0) + 1e-13, xp.clip((reach - tilt) / span, 0.0, 1.0) + 1e-13
    log_mass = xp.where(filled & (prob > 0), log_mass, -xp.inf)
    return Blocks(
        first=first,
        last=xp.maximum(last, first),
        log_low=log_mass + xp.where(single, 0.0, xp.log(low)),
        log_high=xp.where(single, -xp.inf, log_mass + xp.log(high)),
    )


def _starts(n: jax.Array, mean: jax.Array, scale: jax.Array, layout: BlockLayout) -> jax.Array:
    """First counts [B, L], increasing, repeated where blocks are empty; the least is 1."""
    singles = xp.arange(1, layout.singles + 1, dtype=xp.int32).astype(xp.float64)[:, None] + 0.0 * n
    steps = np.arange(layout.geometric) / max(layout.geometric, 1)
    geometric = xp.exp(xp.asarray(steps, xp.float64)[:, None] * xp.log(n))
    turns = np.linspace(-1.0, 1.0, layout.central) * np.arcsinh(_REACH / _SPREAD)
    central = mean + scale * xp.asarray(_SPREAD * np.sinh(turns), xp.float64)[:, None]
    starts = xp.floor(xp.concatenate([xp.ones_like(n)[None], singles, geometric, central]))
    return xp.sort(xp.clip(starts, 1.0, n), axis=0)


def log_mixture(blocks: Blocks, log_at_first: jax.Array, log_at_last: jax.Array) -> jax.Array:
    """Upper bounds [L] on log sum_k w_k f(k), from log f at both ends of the blocks, each [B, L]; rounded up."""
    low = xp.where(blocks.log_low > -xp.inf, log_at_first + blocks.log_low, -xp.inf)
    high = xp.where(blocks.log_high > -xp.inf, log_at_last + blocks.log_high, -xp.inf)
    num = 2 * low.shape[0]
    # additions, exponentials, and differences from the largest, as for `log_sum_outward`, whose terms are sums of two
    return log_up(log_sum_exp(xp.concatenate([low, high])), num + 6.0 * math.log(num) + 9.0)
