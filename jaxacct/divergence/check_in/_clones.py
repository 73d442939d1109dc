"""Upper bounds on the divergence of the clones pair at many numbers of reports and thresholds at once.

Feldman, McMillan & Talwar 2021, Theorem 3.2: with C ~ Bin(k - 1, p) clones, m = C + 1 and h_m the pair's divergence
given m, D_k(eps) = E h_m(eps). h_m decreases in m (more clones are post-processing), so that on a block of counts its
value at the first bounds all others: work and memory do not grow with k. `jaxacct.divergence.clones._profile` is
tighter for one k, and twenty times slower for many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct.divergence.check_in._blocks import BlockLayout, binomial_blocks
from jaxacct.divergence.clones._profile import MAX_EPSILON
from jaxacct.special import ULP, log1mexp, log_sum_exp, softplus
from jaxacct.special._fair_coins import SMALL_TOSSES, log_fair_pmf, small_tails, tail_ratios
from jaxacct.special._namespace import cond, lane_map, stop_gradient, xp

_CELLS = 8192  # counts that are computed together on the host: memory only
_CHUNK = 16  # numbers of reports, times lanes, that are computed together: memory only


class CountLaw(NamedTuple):
    """Values of m and log weights, each [M, R, L] for R numbers of reports: upper bounds on blocks of m."""

    counts: jax.Array
    log_weights: jax.Array


class UpperPoint(NamedTuple):
    """Log D_k(epsilon), rounded up, and approximate log Q[loss > epsilon], each [R, L]; the latter guides searches."""

    log_delta: jax.Array
    log_tail: jax.Array


def count_law(num_reports: jax.Array, clone_prob: jax.Array, layout: BlockLayout) -> CountLaw:
    """The law of m, [M, R, L], for reports [R, L] and clone probability [L]: blocks of C at their first counts."""
    rows, lanes = num_reports.shape
    rest = (num_reports - 1.0).reshape(-1)
    p = xp.broadcast_to(clone_prob, (rows, lanes)).reshape(-1)
    blocks = binomial_blocks(xp.maximum(rest, 1.0), p, layout)
    none = xp.where(rest > 0, rest * xp.log1p(-xp.minimum(p, 1.0 - 1e-300)), 0.0)  # P[C = 0]
    none = none + 2.0**-50 * (1.0 + xp.abs(none))
    log_mass = xp.where(rest > 0, log_sum_exp(xp.stack([blocks.log_low, blocks.log_high])), -xp.inf)
    counts = xp.concatenate([xp.ones_like(rest)[None], blocks.first + 1.0])
    weights = xp.concatenate([none[None], log_mass])
    return CountLaw(*(x.reshape(-1, rows, lanes) for x in (counts, weights)))


def clones_upper(epsilon: jax.Array, local_epsilon: jax.Array, law: CountLaw) -> UpperPoint:
    """Upper bounds [R, L] on log D_k(epsilon), the clones pair's divergence, at `epsilon` [R, L] >= 0, one law per row.

        h_m = (1 + e^eps) s (2/m) P[a = j] (f r0 + r1),   s = tanh(local/2),   u = tanh(eps/2)/s,

    Feldman, McMillan & Talwar 2021, Theorem 3.2, replace-one adjacency, both directions. Here a ~ Bin(m, 1/2), j is the
    least count above m (1 + u)/2, f its distance from that, and r0 and r1 are the tail and the excess beyond j over
    P[a = j]. `local_epsilon` is [L]; from that epsilon on the divergence is zero. The rounding error is added.
    """
    rows, lanes = epsilon.shape
    chunk = max(1, min(rows, _CHUNK // lanes))
    short = -rows % chunk

    def rows_first(x: jax.Array) -> jax.Array:
        padded = xp.pad(x, ((0, 0),) * (x.ndim - 2) + ((0, short), (0, 0)), mode="edge")
        return xp.moveaxis(padded.reshape(*x.shape[:-2], -1, chunk, lanes), -3, 0)

    found = lane_map(
        lambda args: _part(args[0], local_epsilon, CountLaw(*args[1:])), tuple(map(rows_first, (epsilon, *law)))
    )
    return UpperPoint(*(x.reshape(-1, lanes)[:rows] for x in found))


def clones_of_counts(
    growth: NDArray[Any], local_epsilon: float, counts: NDArray[Any], sign: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(log P[a = j], h_m and about Q[loss > eps] as multiples of P), [N], at e^eps = 1 + `growth`, m = `counts` [N].

    The formula of `clones_upper` by quotients only: tanh(eps/2) = x/(2 + x), x the growth, and
    (1 - u)/2 = (X - x)/(X (2 + x)), X = e^local - 1, x < X <= e^300. The result is an upper bound (`sign` 1) or a lower
    one (-1), except for the errors of the tails and some roundings: X is raised or lowered by its error, and the effect
    of rounding a threshold is added or subtracted.
    """
    found = [
        _of_counts(growth[i : i + _CELLS], local_epsilon, counts[i : i + _CELLS], sign)
        for i in range(0, len(counts), _CELLS)
    ]
    if not found:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    log_pmf, value, tail = (np.concatenate(x) for x in zip(*found, strict=True))
    return log_pmf, value, tail


def _of_counts(x: Any, local_epsilon: float, m: Any, sign: float) -> tuple[Any, Any, Any]:
    contrast, most = np.tanh(0.5 * local_epsilon), np.expm1(local_epsilon) * (1.0 + sign * 16.0 * ULP)
    threshold = x / ((2.0 + x) * contrast)
    half_gap = np.maximum(most - x, 0.0) / (most * (2.0 + x))
    wide = threshold < 0.5
    j = np.where(wide, np.floor(0.5 * (m + threshold * m)) + 1.0, m - np.maximum(np.ceil(m * half_gap) - 1.0, 0.0))
    j = np.minimum(j, m)
    above = np.where(wide, 0.5 * ((2.0 * j - m) - m * threshold), m * half_gap - (m - j))
    log_pmf, tail, excess = _fair_tails_of(j, m)
    reach = np.where(wide, 7.0 * threshold, 18.0 * half_gap)
    value = np.maximum(np.maximum(above, 0.0) * tail + excess + sign * ULP * m * reach * tail, 0.0)
    return log_pmf, 2.0 * contrast * (2.0 + x) / m * value, np.maximum(tail - contrast * j / m, 0.0)


def _fair_tails_of(j: Any, m: Any) -> tuple[Any, Any, Any]:
    """`_fair_tails` [N] on the host, each pair of counts once."""
    small = m < SMALL_TOSSES
    at = (np.where(small, m, 1.0) * SMALL_TOSSES + np.where(small, j, 1.0)).astype(np.int64)
    log_pmf, tail, excess = (np.take(x, at) for x in small_tails())
    far = np.flatnonzero(~small)
    if far.size:
        of_j, of_m, at = _different(j[far], m[far])
        log_pmf[far] = log_fair_pmf(of_j, of_m)[at]
        tail[far], excess[far] = (x[at] for x in tail_ratios(of_j, of_m))
    return log_pmf, tail, excess


def _different(j: Any, m: Any) -> tuple[Any, Any, Any]:
    """The distinct pairs of counts, as two arrays, and the place of each of `j`, `m` [N] among them."""
    beyond, least = 2.0 * j - m, float(m.min())
    first, width = float(beyond.min()), float(np.ptp(beyond)) + 1.0
    keys = (m - least) * width + (beyond - first)
    size = float(keys.max()) + 1.0
    if size > 32.0 * len(keys):  # pairs hardly ever repeat
        return j, m, slice(None)
    keys = keys.astype(np.int64)
    known = np.zeros(int(size), bool)
    known[keys] = True
    pairs = np.flatnonzero(known)
    of_m = np.floor(pairs / width) + least
    return 0.5 * (of_m + (pairs - (of_m - least) * width) + first), of_m, (np.cumsum(known) - 1)[keys]


def _part(epsilon: jax.Array, local_epsilon: jax.Array, law: CountLaw) -> UpperPoint:
    positive = epsilon < local_epsilon
    eps = xp.minimum(xp.where(positive, epsilon, 0.0), MAX_EPSILON)
    local = xp.where(positive, local_epsilon, 1.0)
    contrast = xp.tanh(0.5 * local)
    threshold = xp.tanh(0.5 * eps) / contrast
    log_sum = softplus(eps)
    half_gap = xp.expm1(eps - local) / xp.expm1(-local) * xp.exp(-log_sum)
    m = law.counts
    # each way of computing j preserves the digits of the smaller part; a tie lost to rounding contributes nothing
    wide = threshold < 0.5
    j = xp.where(wide, xp.floor(0.5 * (m + threshold * m)) + 1.0, m - xp.maximum(xp.ceil(m * half_gap) - 1.0, 0.0))
    j = xp.minimum(j, m)
    above = xp.where(wide, 0.5 * ((2.0 * j - m) - m * threshold), m * half_gap - (m - j))
    log_pmf, tail, excess = _fair_tails(j, m)
    logs = law.log_weights + log_pmf
    top = stop_gradient(xp.max(logs, axis=0))
    mass = xp.exp(logs - top)
    delta = 2.0 * xp.sum(mass * (xp.maximum(above, 0.0) * tail + excess) / m, axis=0)
    # as in `jaxacct.divergence.clones._pair`: how far thresholds that round move it, and one ULP for each addition
    reach = xp.where(wide, 7.0 * threshold, (18.0 + 9.0 * log_sum) * half_gap)
    delta = delta + ULP * (2.0 * reach * xp.sum(mass * tail, axis=0) + m.shape[0] * delta)
    share = j / m
    one_minus_contrast = 2.0 * xp.exp(-softplus(local))
    q_tail = xp.sum(mass * xp.maximum(tail - share + one_minus_contrast * share, 0.0), axis=0)
    log_delta = xp.log(xp.maximum(delta, 1e-300)) + top
    # docs/numerics/clones.md, "Sums over clones"
    slack = ULP * (2048.0 + 96.0 * xp.abs(log_delta) + 10.0 * log_sum)
    log_delta = log_delta + log_sum + xp.log(contrast) + slack
    log_first = log1mexp(eps - local) - xp.log1p(xp.exp(-local)) + 2.0**-48  # without any clone
    log_delta = xp.where(log_delta <= log_first, log_delta, log_first)
    log_tail = xp.log(xp.maximum(q_tail, 1e-300)) + top
    return UpperPoint(xp.where(positive, log_delta, -xp.inf), xp.where(positive, log_tail, -xp.inf))


def _fair_tails(j: jax.Array, m: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log P[a = j], P[a >= j] / P[a = j], E[(a - j)_+] / P[a = j]), shaped as j; a ~ Bin(m, 1/2), m/2 < j <= m."""
    small = m < SMALL_TOSSES
    size = float(SMALL_TOSSES)
    at = (xp.where(small, m, 1.0) * size + xp.where(small, j, 1.0)).astype(xp.int32)
    near = [xp.take(xp.asarray(table, xp.float64), at) for table in small_tails()]
    far_m, far_j = xp.where(small, 4.0 * size, m), xp.where(small, 3.0 * size, j)

    def far() -> tuple[jax.Array, jax.Array, jax.Array]:
        return (log_fair_pmf(far_j, far_m), *tail_ratios(far_j, far_m))

    def none() -> tuple[jax.Array, jax.Array, jax.Array]:
        return xp.zeros_like(m), xp.ones_like(m), xp.zeros_like(m)

    beyond = cond(xp.all(small), none, far)
    log_pmf, tail, excess = (xp.where(small, x, y) for x, y in zip(near, beyond, strict=True))
    return log_pmf, tail, excess
