"""The clones pair at many numbers of reports and thresholds at once, from above.

Feldman, McMillan & Talwar 2021, Theorem 3.2: with C ~ Bin(k - 1, p) clones, m = C + 1 and h_m the pair's divergence
given m, D_k(eps) = E h_m(eps). h_m falls with m (more clones are post-processing), so that on a block of counts its
value at the first bounds all: work and memory do not grow with k. `jaxacct.divergence.clones._profile` is sharper for
one k, and twenty times slower for many.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.check_in._blocks import Layout, binomial_blocks
from jaxacct.divergence.clones._profile import MAX_EPSILON
from jaxacct.special import log1mexp, log_sum_exp, softplus
from jaxacct.special._fair_coins import SMALL_TOSSES, log_fair_pmf, tail_ratios

_CHUNK = 16  # numbers of reports, times lanes, that are computed together: memory only


class CountLaw(NamedTuple):
    """Values of m and log weights, each [M, R, L] for R numbers of reports: upper bounds on blocks of m."""

    counts: jax.Array
    log_weights: jax.Array


class UpperPoint(NamedTuple):
    """Log D_k(epsilon), rounded up, and the log of about Q[loss > epsilon], each [R, L]; the latter only steers."""

    log_delta: jax.Array
    log_tail: jax.Array


def count_law(num_reports: jax.Array, clone_prob: jax.Array, layout: Layout) -> CountLaw:
    """The law of m, [M, R, L], for reports [R, L] and clone probability [L]: blocks of C at their first counts."""
    rows, lanes = num_reports.shape
    rest = (num_reports - 1.0).reshape(-1)
    p = jnp.broadcast_to(clone_prob, (rows, lanes)).reshape(-1)
    blocks = binomial_blocks(jnp.maximum(rest, 1.0), p, layout)
    none = jnp.where(rest > 0, rest * jnp.log1p(-jnp.minimum(p, 1.0 - 1e-300)), 0.0)  # P[C = 0]
    none = none + 2.0**-50 * (1.0 + jnp.abs(none))
    log_mass = jnp.where(rest > 0, log_sum_exp(jnp.stack([blocks.log_low, blocks.log_high])), -jnp.inf)
    counts = jnp.concatenate([jnp.ones_like(rest)[None], blocks.first + 1.0])
    weights = jnp.concatenate([none[None], log_mass])
    return CountLaw(*(x.reshape(-1, rows, lanes) for x in (counts, weights)))


def clones_upper(epsilon: jax.Array, local_epsilon: jax.Array, law: CountLaw) -> UpperPoint:
    """Upper bounds [R, L] on log D_k(epsilon), the clones pair's divergence, at `epsilon` [R, L] >= 0, a law a row.

        h_m = (1 + e^eps) s (2/m) P[a = j] (f r0 + r1),   s = tanh(local/2),   u = tanh(eps/2)/s,

    Feldman, McMillan & Talwar 2021, Theorem 3.2, replace-one adjacency, both directions. Here a ~ Bin(m, 1/2), j is the
    least count above m (1 + u)/2, f its distance from that, and r0 and r1 are the tail and the excess beyond j over
    P[a = j]. `local_epsilon` is [L]; the divergence is zero from there on. Relative rounding, added: 2e-12 + 1e-14
    |log D|.
    """
    rows, lanes = epsilon.shape
    chunk = max(1, min(rows, _CHUNK // lanes))
    short = -rows % chunk

    def rows_first(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, ((0, 0),) * (x.ndim - 2) + ((0, short), (0, 0)), mode="edge")
        return jnp.moveaxis(padded.reshape(*x.shape[:-2], -1, chunk, lanes), -3, 0)

    found = jax.lax.map(
        lambda args: _part(args[0], local_epsilon, CountLaw(*args[1:])), tuple(map(rows_first, (epsilon, *law)))
    )
    return UpperPoint(*(x.reshape(-1, lanes)[:rows] for x in found))


def _part(epsilon: jax.Array, local_epsilon: jax.Array, law: CountLaw) -> UpperPoint:
    positive = epsilon < local_epsilon
    eps = jnp.minimum(jnp.where(positive, epsilon, 0.0), MAX_EPSILON)
    local = jnp.where(positive, local_epsilon, 1.0)
    contrast = jnp.tanh(0.5 * local)
    threshold = jnp.tanh(0.5 * eps) / contrast
    log_sum = softplus(eps)
    half_gap = jnp.expm1(eps - local) / jnp.expm1(-local) * jnp.exp(-log_sum)
    m = law.counts
    # either way of finding j keeps the digits of the smaller part; a tie lost to rounding contributes nothing
    wide = threshold < 0.5
    j = jnp.where(wide, jnp.floor(0.5 * (m + threshold * m)) + 1.0, m - jnp.maximum(jnp.ceil(m * half_gap) - 1.0, 0.0))
    j = jnp.minimum(j, m)
    above = jnp.where(wide, 0.5 * ((2.0 * j - m) - m * threshold), m * half_gap - (m - j))
    log_pmf, tail, excess = _fair_tails(j, m)
    logs = law.log_weights + log_pmf
    top = jax.lax.stop_gradient(jnp.max(logs, axis=0))
    mass = jnp.exp(logs - top)
    delta = 2.0 * jnp.sum(mass * (jnp.maximum(above, 0.0) * tail + excess) / m, axis=0)
    share = j / m
    one_minus_contrast = 2.0 * jnp.exp(-softplus(local))
    q_tail = jnp.sum(mass * jnp.maximum(tail - share + one_minus_contrast * share, 0.0), axis=0)
    log_delta = jnp.log(jnp.maximum(delta, 1e-300)) + top + log_sum + jnp.log(contrast)
    log_delta = log_delta + 2e-12 + 1e-14 * jnp.abs(log_delta)
    log_first = log1mexp(eps - local) - jnp.log1p(jnp.exp(-local)) + 2.0**-48  # without any clone
    log_delta = jnp.where(log_delta <= log_first, log_delta, log_first)
    log_tail = jnp.log(jnp.maximum(q_tail, 1e-300)) + top
    return UpperPoint(jnp.where(positive, log_delta, -jnp.inf), jnp.where(positive, log_tail, -jnp.inf))


def _fair_tails(j: jax.Array, m: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log P[a = j], P[a >= j] / P[a = j], E[(a - j)_+] / P[a = j]), shaped as j; a ~ Bin(m, 1/2), m/2 < j <= m."""
    small = m < SMALL_TOSSES
    size = float(SMALL_TOSSES)
    at = (jnp.where(small, m, 1.0) * size + jnp.where(small, j, 1.0)).astype(jnp.int32)
    near = [jnp.take(jnp.asarray(table, jnp.float64), at) for table in _small_tails()]
    far_m, far_j = jnp.where(small, 4.0 * size, m), jnp.where(small, 3.0 * size, j)

    def far() -> tuple[jax.Array, jax.Array, jax.Array]:
        return (log_fair_pmf(far_j, far_m), *tail_ratios(far_j, far_m))

    def none() -> tuple[jax.Array, jax.Array, jax.Array]:
        return jnp.zeros_like(m), jnp.ones_like(m), jnp.zeros_like(m)

    beyond = jax.lax.cond(jnp.all(small), none, far)
    log_pmf, tail, excess = (jnp.where(small, x, y) for x, y in zip(near, beyond, strict=True))
    return log_pmf, tail, excess


@functools.cache
def _small_tails() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `_fair_tails` returns for small m, at index m * SMALL_TOSSES + j: three tables; every term positive."""
    size = SMALL_TOSSES
    m = np.arange(size, dtype=np.float64)[:, None]
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, size)))])
    j = np.arange(size)
    rest = np.maximum(m.astype(int) - j, 0)
    log_pmf = log_factorials[:, None] - log_factorials[j] - log_factorials[rest] - m * np.log(2.0)
    tail, excess = np.ones((size, size)), np.zeros((size, size))
    for at in range(size - 2, -1, -1):
        ratio = np.maximum(m[:, 0] - at, 0.0) / (at + 1.0)
        tail[:, at] = 1.0 + ratio * tail[:, at + 1]
        excess[:, at] = ratio * (excess[:, at + 1] + tail[:, at + 1])
    return log_pmf.reshape(-1), tail.reshape(-1), excess.reshape(-1)
