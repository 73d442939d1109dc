"""BOUND, from above: Renyi divergences of check-ins by the number of reports, Theorem 2 and its parts.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Theorem 2 and Lemma 2 (CI-S4, CI-S9,
CI-S10). Given K = k, those who report are a uniform k-subset, so that with A_k = E_Q[(P/Q)^a] and rate k/n

    e^((a-1) R_a) <= sum_k w_k A_k,   A_0 = 1,
    A_k <= 1 + sum_{j=2..a} C(a,j) (k/n)^j zeta_k(j)^j   and   A_k <= 1 + (k/n) (e^((a-1) rho_k(a)) - 1),

where zeta is the ternary moment of the mechanism with k reports, and rho its Renyi curve; the second bound follows from
joint convexity. Upper bounds, replace-one adjacency, whole orders; `jaxacct.special.at_real_orders` interpolates. Each
logarithm is moved up by the rounding error of its own operations (docs/numerics/clones.md, "Check-ins by their
moments").
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import Array, jax, jnp
from jaxacct.divergence.kernels import Blocks, log_mixture, single_log_cap
from jaxacct.special import (
    ULP,
    finite_size,
    log1mexp,
    log_binomial_table,
    log_sum_of_many,
    log_sum_outward,
    log_up,
    logexpm1,
    softplus,
    up,
)

_ULPS = 12  # of a divergence made from the log of its excess: softplus 9, and a quotient
_LOG_2, _LOG_4 = math.log(2.0), math.log(4.0)  # numbers


class BaseMoments(NamedTuple):
    """Moments of the mechanism with k reports, rows for j = 0..A (0 and 1 unused), each [A + 1, ..].

    Attributes:
      log_ternary: log of a bound on zeta(j)^j.
      log_excess: log(e^((j-1) rho(j)) - 1).
    """

    log_ternary: jax.Array
    log_excess: jax.Array


# From numbers of reports [..] to their moments [A + 1, ..]; neither may increase with the number.
Base = Callable[[Array], BaseMoments]


def log_ternary_moments(rdp: jax.Array, highest: jax.Array, *, sharper: bool = True) -> jax.Array:
    """Logs of upper bounds [A + 1, ..] on sup E_R |(P - Q)/R|^j for three neighbours, rows j = 0..A of `rdp` (Lemma 2).

        zeta(2)^2 <= min{4 (e^rho(2) - 1), e^rho(2) min{2, (e^h - 1)^2}},
        zeta(j)^j <= e^((j-1) rho(j)) min{2, (e^h - 1)^j},   j >= 3,

    h = `highest` the Renyi divergence of infinite order, inf if unknown. The paper prints e^(h-1) for e^h - 1.
    `sharper` (static) adds 2 (1 - e^-h)^j, since P - Q <= (1 - e^-h) P where it is positive. Rounded up.
    """
    j = _whole(rdp)
    known = jnp.isfinite(highest)
    h = jnp.where(known, highest, 1.0)
    factor = jnp.minimum(_LOG_2, j * jnp.where(known, log_up(logexpm1(jnp.minimum(h, 700.0)), 10.0), jnp.inf))
    if sharper:
        factor = jnp.minimum(factor, _LOG_2 + j * jnp.where(known, log_up(log1mexp(-h), 8.0), 0.0))
    excess = (j - 1.0) * rdp
    general = excess + factor
    general = general + ULP * (4.0 + 4.0 * (finite_size(excess) + finite_size(factor)))
    pairs = jnp.minimum(log_up(_LOG_4 + logexpm1(jnp.maximum(rdp, 0.0)), 18.0), general)
    return jnp.where(j == 2.0, pairs, general)


def _whole(rows: jax.Array) -> jax.Array:
    j = jnp.arange(rows.shape[0], dtype=jnp.int32).astype(jnp.float64)
    return j.reshape((-1,) + (1,) * (rows.ndim - 1))


def base_from_rdp(rdp: jax.Array, highest: jax.Array, *, sharper: bool = True) -> BaseMoments:
    """Moments [A + 1, ..] of any mechanism, by its Renyi curve at whole orders, rows j = 0..A (0 and 1 unused).

    Rounded up.
    """
    j = _whole(rdp)
    excess = up((j - 1.0) * rdp, 4)
    some = excess > 0
    log_excess = jnp.where(some, log_up(logexpm1(jnp.where(some, excess, 1.0)), 10.0), -jnp.inf)
    return BaseMoments(log_ternary_moments(rdp, highest, sharper=sharper), log_excess)


def log_response_excess(local_epsilon: jax.Array, orders: jax.Array) -> jax.Array:
    """Log of e^((a-1) D_a) - 1, broadcast, for binary randomized response, rounded up; -inf at local epsilon 0."""
    some = local_epsilon > 0
    return jnp.where(some, single_log_cap(jnp.where(some, local_epsilon, 1.0), orders), -jnp.inf)


def response_rdp(local_epsilon: jax.Array, orders: jax.Array) -> jax.Array:
    """Renyi divergences, broadcast, of binary randomized response, rounded up: the largest of all pure randomizers."""
    return up(softplus(log_response_excess(local_epsilon, orders)) / (orders - 1.0), _ULPS)


def gaussian_base(gap: jax.Array, *, max_order: int) -> BaseMoments:
    """Moments [A + 1, ..] of Gaussians `gap` [..] standard deviations apart, by their Renyi curve j gap^2 / 2."""
    j = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)
    rdp = up(0.5 * j.reshape((-1,) + (1,) * gap.ndim) * gap * gap, 4)
    return base_from_rdp(rdp, jnp.full_like(gap, jnp.inf))


def log_sampled_excess(
    base: BaseMoments, log_rate: jax.Array, order: jax.Array, log_choose: jax.Array, *, capped: bool = True
) -> jax.Array:
    """Upper bounds on log(A - 1), of the shape [..] of `base`, at one whole order for a uniform subset (CI-S10).

    The rate is at most e^log_rate; A is E_Q[(P/Q)^a].
    """
    j = _whole(base.log_ternary)
    use = (j >= 2.0) & (j <= order) & (base.log_ternary > -jnp.inf) & (log_rate > -jnp.inf)
    ternary = _log_moments(
        log_choose.reshape(j.shape), j * jnp.where(use, log_rate, 0.0), base.log_ternary, use=use, order=order
    )
    if not capped:
        return ternary
    cap = jax.lax.dynamic_index_in_dim(base.log_excess, order.astype(jnp.int32), keepdims=False) + log_rate
    return jnp.minimum(ternary, log_up(cap, 2.0))


def _log_moments(
    log_choose: jax.Array, log_power: jax.Array, log_ternary: jax.Array, *, use: jax.Array, order: jax.Array
) -> jax.Array:
    """log of the sum over j of C(a,j) x_j zeta(j)^j where `use`, at most `order` terms, rounded up.

    The binomials' logarithms err by 4 ULP, `log_power` by one of itself; the others are bounds.
    """
    sizes = 2.0 * log_choose + finite_size(log_power) + finite_size(log_ternary)
    terms = log_choose + log_power + log_ternary + ULP * (4.0 + 4.0 * sizes)
    return log_sum_outward(jnp.where(use, terms, -jnp.inf), order, upward=True)


def _each_order(row: Callable[[jax.Array, jax.Array], jax.Array], max_order: int) -> jax.Array:
    """Renyi divergences [A - 1, L] of whole orders 2..A, rounded up, from upper bounds on log(A - 1) of each."""
    chosen = jnp.asarray(log_binomial_table(max_order)[2:], jnp.float64)
    orders = jnp.arange(2, max_order + 1, dtype=jnp.int32).astype(jnp.float64)
    log_excess = jax.lax.map(lambda args: row(*args), (orders, chosen))
    return up(softplus(log_excess) / (orders[:, None] - 1.0), _ULPS)


def subset_rdp(rate: jax.Array, base: BaseMoments, *, capped: bool = True) -> jax.Array:
    """Renyi divergences [A - 1, L] of orders 2..A for a uniform m of n users, rate m/n [L], rounded up (CI-S10).

    Upper bound; `base` is [A + 1, L], the mechanism on m users.
    """
    log_rate = log_up(jnp.log(jnp.maximum(rate, 1e-300)), 2.0)

    def row(order: jax.Array, chosen: jax.Array) -> jax.Array:
        return log_sampled_excess(base, log_rate, order, chosen, capped=capped)

    return _each_order(row, base.log_ternary.shape[0] - 1)


def mixture_rdp(
    num_users: jax.Array, blocks: Blocks, base: Base, *, capped: bool = True, log_scale: jax.Array | None = None
) -> jax.Array:
    """Renyi divergences [A - 1, L] of orders 2..A of check-ins, rounded up: Theorem 2 over blocks of counts (CI-S9).

    Upper bound for any base. On a block the base is that of its first count; both bounds on A_k are then convex in k,
    and the block takes the lesser of their chords. e^`log_scale` [L] multiplies the weights, such as 1 / P[K >= k_lo]
    if fewer reports count as failures; where it is inf, nothing is claimed.
    """
    found = base(blocks.first)
    scale = jnp.zeros_like(num_users) if log_scale is None else log_scale

    def row(order: jax.Array, chosen: jax.Array) -> jax.Array:
        def at(log_rate: jax.Array, *, cap: bool) -> jax.Array:
            if cap:
                index = order.astype(jnp.int32)
                return log_up(jax.lax.dynamic_index_in_dim(found.log_excess, index, keepdims=False) + log_rate, 2.0)
            return log_sampled_excess(found, log_rate, order, chosen, capped=False)

        ends = [log_up(jnp.log(x / num_users), 4.0) for x in (blocks.first, blocks.last)]
        kinds = (False, True) if capped else (False,)
        sums = [_chords(blocks, *(at(x, cap=cap) for x in ends)) for cap in kinds]
        total = log_sum_of_many(functools.reduce(jnp.minimum, sums))
        return jnp.where(scale < jnp.inf, log_up(total + jnp.where(scale < jnp.inf, scale, 0.0), 2.0), jnp.inf)

    return _each_order(row, found.log_ternary.shape[0] - 1)


def _chords(blocks: Blocks, at_first: jax.Array, at_last: jax.Array) -> jax.Array:
    """Upper bounds [B, L], one for each block, from the logs at its first and its last count."""
    return jax.vmap(lambda b, x, y: log_mixture(Blocks(*(v[None] for v in b)), x[None], y[None]))(
        blocks, at_first, at_last
    )


def constant_base_rdp(num_users: jax.Array, prob: jax.Array, base: BaseMoments) -> jax.Array:
    """Renyi divergences [A - 1, L] of orders 2..A, rounded up: Theorem 2 with one base for all numbers of reports.

    Upper bound, without the cap (CI-S9). Only moments of the binomial law are needed, by Stirling numbers of the second
    kind:

        E (K/n)^j = n^-j sum_i S(j,i) n (n-1) .. (n-i+1) q^i.
    """
    max_order = base.log_ternary.shape[0] - 1
    i = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    log_n = jnp.log(num_users)
    shares = jnp.cumprod((num_users - i[:-1]) / num_users, axis=0)  # three roundings each, and nothing cancels
    shares = log_up(jnp.log(jnp.maximum(jnp.concatenate([jnp.ones_like(log_n)[None], shares]), 1e-300)), 3.0 * i + 2.0)
    powers = i * jnp.log(jnp.maximum(prob, 1e-300))

    def moment(args: tuple[jax.Array, jax.Array]) -> jax.Array:
        j, log_stirling = args
        chosen, scale = log_stirling[:, None], (j - i) * log_n
        error = ULP * (4.0 + 8.0 * (finite_size(chosen) - powers + jnp.abs(scale)) + 4.0 * finite_size(shares))
        terms = chosen + shares + powers - scale + jax.lax.stop_gradient(error)
        return log_sum_outward(jnp.where(i <= num_users, terms, -jnp.inf), j + 1.0, upward=True)

    tables = jnp.asarray(_log_stirling(max_order), jnp.float64)
    moments = jax.lax.map(moment, (i[:, 0], tables))

    def row(order: jax.Array, chosen: jax.Array) -> jax.Array:
        use = (i >= 2.0) & (i <= order) & (base.log_ternary > -jnp.inf)
        return _log_moments(chosen[:, None], moments, base.log_ternary, use=use, order=order)

    return jnp.where(prob > 0, _each_order(row, max_order), 0.0)


@functools.cache
def _log_stirling(max_order: int) -> NDArray[Any]:
    """log S(j, i) [A + 1, A + 1], Stirling numbers of the second kind."""
    rows = [[1] + [0] * max_order]
    for _ in range(max_order):
        last = rows[-1]
        rows.append([0] + [last[i - 1] + i * last[i] for i in range(1, max_order + 1)])
    return np.asarray([[math.log(v) if v else -np.inf for v in row] for row in rows])
