"""Moments of X = (1/t) sum Y_i where the steps' noise differs, and where some steps are still to come.

The t steps of an epoch come in phases of n_j steps of noise multiplier sigma_j. Steps not yet done reveal nothing:
their Y_i is 1, a phase without noise in X, left out of the sums; so t may exceed the sum of the n_j.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.allocation._laplace import _log_laplace_difference, _right_end, bracketed_rdp, left_end
from jaxacct.special import log1mexp, log_factorial_table, log_sum_exp, logexpm1, softplus

_V_MIN = -25.0  # the grid in v = log s begins here, or further left; any value is valid


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
        return functools.reduce(jnp.add, parts) / self.num_steps


def scheduled_log_excess(phases: Phases, *, max_order: int) -> jax.Array:
    """log(E_Q[X^a] - 1) [A - 1, L] for orders a = 2..A (`max_order`, static), Gaussian pairs of different noise.

    The recursions of `jaxacct.divergence.allocation._powers.gaussian_log_excess` with the cumulants of X added over the
    steps,

        kappa_k = (1/t) sum_j n_j ((q_j - 1)/t)^(k-1) J_k(q_j),   q_j = exp(1/sigma_j^2),

    positive terms throughout. `relative_slack` of that file is taken to cover the rounding here too. The cost is
    O(A^2) for each phase.
    """
    size, t = max_order + 1, phases.num_steps
    s2 = jnp.stack([1.0 / (s * s) for s in phases.noise_multipliers])  # [J, L]
    log_share = jnp.stack([jnp.log(n / t) for n in phases.counts])
    log_v = logexpm1(s2)
    k = jnp.arange(size + 1, dtype=jnp.float64)[:, None, None]
    log_bracket = jnp.where(k > 0, logexpm1(jnp.maximum(k, 1.0) * s2) - log_v, -jnp.inf)
    log_x = math.log(max_order) - 1.0  # as there: logarithms of size A/e
    log_power = jnp.where(k > 1, (k - 1.0) * (log_v - jnp.log(t)) + log_share + k * log_x, -jnp.inf)
    log_scale = jnp.asarray(log_factorial_table(max_order) - log_x * np.arange(size), jnp.float64)

    def step(state: Any, n: jax.Array) -> tuple[Any, jax.Array]:
        brackets, trees, cumulants, moments, d = state
        log_n = jnp.log(n.astype(jnp.float64))
        j = log_sum_exp(brackets + jax.lax.dynamic_slice_in_dim(trees, max_order - n, size)) - log_n
        total = log_sum_exp(cumulants + jax.lax.dynamic_slice_in_dim(moments, max_order - n, size))
        d = log_sum_exp(jnp.stack([total, d + log_x])) - log_n
        h = log_sum_exp(jnp.stack([d, jnp.full_like(d, -log_scale[n])]))
        row = j + jax.lax.dynamic_index_in_dim(log_bracket, n + 1, keepdims=False)
        cumulant = log_sum_exp(j + jax.lax.dynamic_index_in_dim(log_power, n + 1, keepdims=False))
        update = functools.partial(jax.lax.dynamic_update_index_in_dim, axis=0)
        brackets, cumulants = update(brackets, row, n + 1), update(cumulants, cumulant, n + 1)
        return (brackets, update(trees, j, max_order - n), cumulants, update(moments, h, max_order - n), d), d

    # reversed behind -inf: entry A + 1 - k holds log j_k, or log H_{k-1}
    start = (
        jnp.full((size, *s2.shape), -jnp.inf).at[1].set(0.0),
        jnp.full((2 * size, *s2.shape), -jnp.inf).at[max_order].set(0.0),
        jnp.full((size, *t.shape), -jnp.inf),
        jnp.full((2 * size, *t.shape), -jnp.inf).at[max_order].set(0.0),
        jnp.full(t.shape, -jnp.inf),
    )
    _, rows = jax.lax.scan(step, start, jnp.arange(1, max_order + 1, dtype=jnp.int32))
    return rows[1:] + log_scale[2:, None]


def scheduled_laplace_rdp(phases: Phases, *, exponents: Sequence[float], num_nodes: int) -> jax.Array:
    """Renyi divergences [P, L], rounded up: of order 1 + p (add direction, p > 0) or -p (remove, -2 < p < -1).

    One row for each of the P `exponents` p (static). As `jaxacct.divergence.allocation._laplace.laplace_rdp`, whose
    error bounds hold word for word, with

        B(s) = sum_j n_j log1p(E[e^{-u W_j} - 1 + u W_j]),   u = s/t,

    Var X = (1/t^2) sum n_j (e^{1/sigma_j^2} - 1), and the mean of 1/sigma^2 over all t steps behind the geometric mean
    that X is never below.
    """
    p = jnp.asarray(exponents, jnp.float64)[:, None]
    log_gamma = jnp.asarray([math.lgamma(x) for x in exponents], jnp.float64)[:, None]
    t, p_max = phases.num_steps, max(exponents)
    pairs = list(zip(phases.noise_multipliers, phases.counts, strict=True))
    log_variance = log_sum_exp(jnp.stack([logexpm1(1.0 / (s * s)) + jnp.log(n) for s, n in pairs])) - 2.0 * jnp.log(t)

    v_max, right = _right_end(p_max, p, log_gamma, log_variance, 1.0 / jnp.sqrt(phases.mean_precision), t)
    v_min = left_end(exponents, log_variance, functools.reduce(jnp.minimum, phases.noise_multipliers))
    h = (v_max - v_min) / (num_nodes - 1)
    v = v_min + h * jnp.arange(num_nodes, dtype=jnp.float64)[:, None]
    log_difference = _log_difference(v, pairs, t)

    return bracketed_rdp(exponents, v_min, h, log_difference, log_variance, right)


def _log_difference(v: jax.Array, pairs: Sequence[tuple[jax.Array, jax.Array]], t: jax.Array) -> jax.Array:
    """Upper bounds [N, L] on log(E e^{-sX} - e^{-s}) at s = e^v, `v` [N, L].

    From each phase's own d_j = log(psi_j^{n_j} - e^{-u n_j}), the lesser of two: by the sum of
    B_j = log1p(e^{d_j + u n_j}), in which nothing cancels, and, where s is too large for that, by the sum of the
    n_j log psi_j.
    """
    s = jnp.exp(v)
    near, log_phi, done = jnp.zeros_like(v), jnp.zeros_like(v), jnp.zeros_like(t)
    for sigma, count in pairs:
        d = _log_laplace_difference(v + jnp.log(count / t), sigma, count)
        part = s * (count / t)
        near = near + softplus(d + part + 2.0**-50 * (16.0 + part))
        log_phi = log_phi + log_sum_exp(jnp.stack([d, -part]))
        done = done + count / t
    log_phi = log_phi - s * jnp.maximum(1.0 - done, 0.0)
    log_phi = log_phi + 2.0**-50 * (64.0 + 8.0 * jnp.abs(log_phi))
    gap = s + log_phi + 2.0**-50 * (16.0 + 2.0 * s)
    far = log_phi + log1mexp(-jnp.maximum(gap, 2.0**-60))
    return jnp.minimum(far, logexpm1(near) - s + 2.0**-50 * (64.0 + 8.0 * near + s))
