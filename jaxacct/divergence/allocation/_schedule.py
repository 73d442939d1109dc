"""Moments of X = (1/t) sum Y_i where the steps' noise differs, and where some steps are still to come.

The t steps of an epoch come in phases of n_j steps of noise multiplier sigma_j. Steps not yet done reveal nothing:
their Y_i is 1, a phase without noise in X, left out of the sums; so t may exceed the sum of the n_j.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.allocation._laplace import _log_laplace_difference, _right_end, bracketed_rdp, left_end
from jaxacct.divergence.allocation._powers import (
    bracket_above,
    excess_rounding,
    falling_factorials,
    power_above,
    tree_rounding,
)
from jaxacct.special import ULP, finite_size, log1mexp, log_sum_exp, logexpm1, softplus, up
from jaxacct.special._namespace import rows_from, scan, with_rows, xp


class Phases(NamedTuple):
    """What an epoch whose noise changes is made of: phases of equal noise, each with its steps done, for L lanes."""

    noise_multipliers: tuple[jax.Array, ...]  # [L] for each phase: sigma_j
    counts: tuple[jax.Array, ...]  # [L] for each phase: n_j, steps done with that noise
    num_steps: jax.Array  # [L]: t, steps of the whole epoch

    @property
    def mean_precision(self) -> jax.Array:
        """Mean [L] of 1/sigma^2 over the epoch's t steps, with 0 for those not done.

        The geometric mean of all t ratios has the logarithm -mean/2 on average.
        """
        parts = (n / (s * s) for s, n in zip(self.noise_multipliers, self.counts, strict=True))
        return functools.reduce(xp.add, parts) / self.num_steps


def scheduled_log_excess(phases: Phases, *, max_order: int) -> jax.Array:
    """log(E_Q[X^a] - 1) [A - 1, L], rounded up, a = 2..A (`max_order`, static), Gaussian pairs of different noise.

    The recursions of `jaxacct.divergence.allocation._powers.gaussian_log_excess` with the cumulants of X added over the
    steps,

        kappa_k = (1/t) sum_j n_j ((q_j - 1)/t)^(k-1) J_k(q_j),   q_j = exp(1/sigma_j^2),

    positive terms throughout, rounded up as there. The cost is O(A^2) for each phase.
    """
    size, t = max_order + 1, phases.num_steps
    s2 = xp.stack([up(1.0 / (s * s), 4) for s in phases.noise_multipliers])  # [J, L]
    log_share = xp.stack([xp.log(n / t) for n in phases.counts])
    log_share = log_share + ULP * (2.0 + 8.0 * finite_size(log_share))  # a quotient, a logarithm, three sums
    k = xp.arange(size + 1, dtype=xp.float64)[:, None, None]
    log_bracket = xp.where(k > 0, bracket_above(s2, xp.maximum(k, 1.0)), -xp.inf)
    log_power = xp.where(k > 1, power_above(logexpm1(s2), xp.log(t), k) + log_share, -xp.inf)
    falling = falling_factorials(max_order)

    def step(state: Any, n: jax.Array) -> tuple[Any, jax.Array]:
        brackets, trees, cumulants, moments, d = state
        number = n.astype(np.float64)
        j = log_sum_exp(brackets + rows_from(trees, max_order - n, size))
        j = j - xp.log(number) + tree_rounding(j, number)
        total = log_sum_exp(cumulants + rows_from(moments, max_order - n, size) + falling(n, size)[:, None])
        d = log_sum_exp(xp.stack([total, d]))
        d = d + excess_rounding(d, number)
        row = j + rows_from(log_bracket, n + 1, 1)[0]
        cumulant = log_sum_exp(j + rows_from(log_power, n + 1, 1)[0])
        cumulant = cumulant + excess_rounding(cumulant, float(len(phases.counts)))
        following = xp.minimum(n + 1, max_order)  # the last one is not read
        brackets, cumulants = with_rows(brackets, following, row), with_rows(cumulants, following, cumulant)
        trees = with_rows(trees, max_order - n, j)
        moments = with_rows(moments, max_order - n, up(softplus(d), 16))
        return (brackets, trees, cumulants, moments, d), d

    # reversed behind -inf: entry A + 1 - k holds log j_k, or log M_{k-1}
    start = (
        with_rows(xp.full_like(s2, -xp.inf, shape=(size, *s2.shape)), 1, 0.0),
        with_rows(xp.full_like(s2, -xp.inf, shape=(2 * size, *s2.shape)), max_order, 0.0),
        xp.full_like(t, -xp.inf, shape=(size, *t.shape)),
        with_rows(xp.full_like(t, -xp.inf, shape=(2 * size, *t.shape)), max_order, 0.0),
        xp.full_like(t, -xp.inf),
    )
    _, rows = scan(step, start, np.arange(1, max_order + 1, dtype=np.int32))
    return rows[1:]


def scheduled_laplace_rdp(phases: Phases, *, exponents: Sequence[float], num_nodes: int) -> jax.Array:
    """Renyi divergences [P, L], rounded up: of order 1 + p (add direction, p > 0) or -p (remove, -2 < p < -1).

    One row for each of the P `exponents` p (static). As `jaxacct.divergence.allocation._laplace.laplace_rdp`, whose
    error bounds hold word for word, with

        B(s) = sum_j n_j log1p(E[e^{-u W_j} - 1 + u W_j]),   u = s/t,

    Var X = (1/t^2) sum n_j (e^{1/sigma_j^2} - 1), and the mean of 1/sigma^2 over all t steps behind the geometric mean
    that X is never below.
    """
    p = xp.asarray(exponents, xp.float64)[:, None]
    log_gamma = xp.asarray([math.lgamma(x) for x in exponents], xp.float64)[:, None]
    t, p_max = phases.num_steps, max(exponents)
    pairs = list(zip(phases.noise_multipliers, phases.counts, strict=True))
    log_variance = log_sum_exp(xp.stack([logexpm1(1.0 / (s * s)) + xp.log(n) for s, n in pairs])) - 2.0 * xp.log(t)

    v_max, right = _right_end(p_max, p, log_gamma, log_variance, 1.0 / xp.sqrt(phases.mean_precision), t)
    v_min = left_end(exponents, log_variance, functools.reduce(xp.minimum, phases.noise_multipliers))
    h = (v_max - v_min) / (num_nodes - 1)
    v = v_min + h * xp.arange(num_nodes, dtype=xp.float64)[:, None]
    log_difference = _log_difference(v, pairs, t)

    return bracketed_rdp(exponents, v_min, h, log_difference, log_variance, right)


def _log_difference(v: jax.Array, pairs: Sequence[tuple[jax.Array, jax.Array]], t: jax.Array) -> jax.Array:
    """Upper bounds [N, L] on log(E e^{-sX} - e^{-s}) at s = e^v, `v` [N, L].

    From each phase's own d_j = log(psi_j^{n_j} - e^{-u n_j}), the lesser of two: by the sum of
    B_j = log1p(e^{d_j + u n_j}), in which nothing cancels, and, where s is too large for that, by the sum of the
    n_j log psi_j.
    """
    s = xp.exp(v)
    near, log_phi, done = xp.zeros_like(v), xp.zeros_like(v), xp.zeros_like(t)
    for sigma, count in pairs:
        d = _log_laplace_difference(v + xp.log(count / t), sigma, count)
        part = s * (count / t)
        near = near + softplus(d + part + 2.0**-50 * (16.0 + part))
        log_phi = log_phi + log_sum_exp(xp.stack([d, -part]))
        done = done + count / t
    log_phi = log_phi - s * xp.maximum(1.0 - done, 0.0)
    log_phi = log_phi + 2.0**-50 * (64.0 + 8.0 * xp.abs(log_phi))
    gap = s + log_phi + 2.0**-50 * (16.0 + 2.0 * s)
    far = log_phi + log1mexp(-xp.maximum(gap, 2.0**-60))
    return xp.minimum(far, logexpm1(near) - s + 2.0**-50 * (64.0 + 8.0 * near + s))
