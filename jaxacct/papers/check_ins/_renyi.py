"""BOUND, from above: Renyi divergences of check-ins by the number of reports, Theorem 2 and what it is made of.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Theorem 2 and Lemma 2 (CI-S4, CI-S9,
CI-S10). Given K = k, those who report are a uniform k-subset, so that with A_k = E_Q[(P/Q)^a] and rate k/n

    e^((a-1) R_a) <= sum_k w_k A_k,   A_0 = 1,
    A_k <= 1 + sum_{j=2..a} C(a,j) (k/n)^j zeta_k(j)^j   and   A_k <= 1 + (k/n) (e^((a-1) rho_k(a)) - 1),

zeta the ternary moment of the mechanism with k reports, rho its Renyi curve; the second is joint convexity. Upper
bounds, replace-one adjacency, whole orders; `jaxacct.special.at_real_orders` interpolates.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.check_in._blocks import Blocks, log_mixture
from jaxacct.special import log1mexp, log_binomial_table, log_sum_exp, logexpm1, softplus, up

_ULPS = 512  # rounding of a divergence made from the log of its excess, whose own absolute error is some 2^-45
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
Base = Callable[[jax.Array], BaseMoments]


def log_ternary_moments(rdp: jax.Array, highest: jax.Array, *, sharper: bool = True) -> jax.Array:
    """Logs of upper bounds [A + 1, ..] on sup E_R |(P - Q)/R|^j for three neighbours, rows j = 0..A of `rdp` (Lemma 2).

        zeta(2)^2 <= min{4 (e^rho(2) - 1), e^rho(2) min{2, (e^h - 1)^2}},
        zeta(j)^j <= e^((j-1) rho(j)) min{2, (e^h - 1)^j},   j >= 3,

    h = `highest` the Renyi divergence of infinite order, inf if unknown. The paper prints e^(h-1) for e^h - 1.
    `sharper` (static) adds 2 (1 - e^-h)^j, since P - Q <= (1 - e^-h) P where it is positive.
    """
    j = _whole(rdp)
    known = jnp.isfinite(highest)
    h = jnp.where(known, highest, 1.0)
    factor = jnp.minimum(_LOG_2, j * jnp.where(known, logexpm1(jnp.minimum(h, 700.0)), jnp.inf))
    if sharper:
        factor = jnp.minimum(factor, _LOG_2 + j * jnp.where(known, log1mexp(-h), 0.0))
    general = (j - 1.0) * rdp + factor
    pairs = jnp.minimum(_LOG_4 + logexpm1(jnp.maximum(rdp, 0.0)), general)
    return jnp.where(j == 2.0, pairs, general)


def _whole(rows: jax.Array) -> jax.Array:
    j = jnp.arange(rows.shape[0], dtype=jnp.int32).astype(jnp.float64)
    return j.reshape((-1,) + (1,) * (rows.ndim - 1))


def base_from_rdp(rdp: jax.Array, highest: jax.Array, *, sharper: bool = True) -> BaseMoments:
    """Moments [A + 1, ..] of any mechanism, by its Renyi curve at whole orders, rows j = 0..A (0 and 1 unused)."""
    j = _whole(rdp)
    excess = (j - 1.0) * rdp
    some = excess > 0
    log_excess = jnp.where(some, logexpm1(jnp.where(some, excess, 1.0)), -jnp.inf)
    return BaseMoments(log_ternary_moments(rdp, highest, sharper=sharper), log_excess)


def log_response_excess(local_epsilon: jax.Array, orders: jax.Array) -> jax.Array:
    """Log of e^((a-1) D_a) - 1, broadcast, for binary randomized response of epsilon e, order a:

    (e^(a e) + e^((1-a) e))/(1 + e^e) - 1 = (e^((a-1) e) - 1)(e^e - e^((1-a) e))/(1 + e^e).
    """
    some = local_epsilon > 0
    local = jnp.where(some, local_epsilon, 1.0)
    rise = (orders - 1.0) * local
    value = logexpm1(rise) + local + log1mexp(-rise - local) - softplus(local)
    return jnp.where(some, value, -jnp.inf)


def response_rdp(local_epsilon: jax.Array, orders: jax.Array) -> jax.Array:
    """Renyi divergences, broadcast, of binary randomized response, rounded up: the most of all pure randomizers."""
    return up(softplus(log_response_excess(local_epsilon, orders)) / (orders - 1.0), _ULPS)


def gaussian_base(gap: jax.Array, *, max_order: int) -> BaseMoments:
    """Moments [A + 1, ..] of Gaussians `gap` [..] standard deviations apart, by their Renyi curve j gap^2 / 2."""
    j = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)
    return base_from_rdp(0.5 * j.reshape((-1,) + (1,) * gap.ndim) * gap * gap, jnp.full_like(gap, jnp.inf))


@functools.cache
def _log_binomials(max_order: int) -> np.ndarray:
    return log_binomial_table(max_order)


def log_sampled_excess(
    base: BaseMoments, log_rate: jax.Array, order: jax.Array, log_choose: jax.Array, *, capped: bool = True
) -> jax.Array:
    """Upper bounds on log(A - 1), of the shape [..] of `base`, at one whole order for a uniform subset (CI-S10).

    The rate is e^log_rate; A is E_Q[(P/Q)^a].
    """
    j = _whole(base.log_ternary)
    chosen = log_choose.reshape(j.shape)
    use = (j >= 2.0) & (j <= order) & (base.log_ternary > -jnp.inf) & (log_rate > -jnp.inf)
    terms = jnp.where(use, chosen + j * jnp.where(use, log_rate, 0.0) + base.log_ternary, -jnp.inf)
    ternary = log_sum_exp(terms)
    if not capped:
        return ternary
    cap = jax.lax.dynamic_index_in_dim(base.log_excess, order.astype(jnp.int32), keepdims=False) + log_rate
    return jnp.minimum(ternary, cap)


def _each_order(row: Callable[[jax.Array, jax.Array], jax.Array], max_order: int) -> jax.Array:
    """Renyi divergences [A - 1, L] of whole orders 2..A, rounded up, from log(A - 1) of each."""
    chosen = jnp.asarray(_log_binomials(max_order)[2:], jnp.float64)
    orders = jnp.arange(2, max_order + 1, dtype=jnp.int32).astype(jnp.float64)
    log_excess = jax.lax.map(lambda args: row(*args), (orders, chosen))
    return up(softplus(log_excess) / (orders[:, None] - 1.0), _ULPS)


def subset_rdp(rate: jax.Array, base: BaseMoments, *, capped: bool = True) -> jax.Array:
    """Renyi divergences [A - 1, L] of orders 2..A for a uniform m of n users, rate m/n [L], rounded up (CI-S10).

    Upper bound; `base` is [A + 1, L], the mechanism on m users.
    """
    log_rate = jnp.log(jnp.maximum(rate, 1e-300))

    def row(order: jax.Array, chosen: jax.Array) -> jax.Array:
        return log_sampled_excess(base, log_rate, order, chosen, capped=capped)

    return _each_order(row, base.log_ternary.shape[0] - 1)


def mixture_rdp(
    num_users: jax.Array, blocks: Blocks, base: Base, *, capped: bool = True, log_scale: jax.Array | None = None
) -> jax.Array:
    """Renyi divergences [A - 1, L] of orders 2..A of check-ins, rounded up: Theorem 2 over blocks of counts (CI-S9).

    Upper bound for any base. On a block the base is that of its first count; both bounds on A_k are then convex in k,
    and the block takes the lesser of their chords. `log_scale` [L] multiplies the weights, as 1 / P[K >= k_lo] where
    fewer are failures.
    """
    found = base(blocks.first)
    scale = jnp.zeros_like(num_users) if log_scale is None else log_scale

    def row(order: jax.Array, chosen: jax.Array) -> jax.Array:
        def at(log_rate: jax.Array, *, cap: bool) -> jax.Array:
            if cap:
                index = order.astype(jnp.int32)
                return jax.lax.dynamic_index_in_dim(found.log_excess, index, keepdims=False) + log_rate
            return log_sampled_excess(found, log_rate, order, chosen, capped=False)

        ends = [jnp.log(x / num_users) for x in (blocks.first, blocks.last)]
        kinds = (False, True) if capped else (False,)
        sums = [_chords(blocks, *(at(x, cap=cap) for x in ends)) for cap in kinds]
        return log_sum_exp(functools.reduce(jnp.minimum, sums)) + scale + 2.0**-46

    return _each_order(row, found.log_ternary.shape[0] - 1)


def _chords(blocks: Blocks, at_first: jax.Array, at_last: jax.Array) -> jax.Array:
    """Upper bounds [B, L], each block's own, from the logs at its first and its last count."""
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
    left = num_users - (i[1:] - 1.0)
    factors = jnp.log(jnp.maximum(left, 1.0)) + jnp.log(jnp.maximum(prob, 1e-300)) - log_n
    falling = jnp.cumsum(jnp.where(left > 0, factors, -1e9), axis=0)
    falling = jnp.concatenate([jnp.zeros_like(falling[:1]), falling])

    def moment(args: tuple[jax.Array, jax.Array]) -> jax.Array:
        j, log_stirling = args
        return log_sum_exp(log_stirling[:, None] + falling + (i - j) * log_n)

    tables = jnp.asarray(_log_stirling(max_order), jnp.float64)
    moments = jax.lax.map(moment, (i[:, 0], tables))

    def row(order: jax.Array, chosen: jax.Array) -> jax.Array:
        use = (i >= 2.0) & (i <= order) & (base.log_ternary > -jnp.inf)
        return log_sum_exp(jnp.where(use, chosen[:, None] + moments + base.log_ternary, -jnp.inf))

    return jnp.where(prob > 0, _each_order(row, max_order), 0.0)


@functools.cache
def _log_stirling(max_order: int) -> np.ndarray:
    """log S(j, i) [A + 1, A + 1], Stirling numbers of the second kind."""
    rows = [[1] + [0] * max_order]
    for _ in range(max_order):
        last = rows[-1]
        rows.append([0] + [last[i - 1] + i * last[i] for i in range(1, max_order + 1)])
    return np.asarray([[math.log(v) if v else -np.inf for v in row] for row in rows])
