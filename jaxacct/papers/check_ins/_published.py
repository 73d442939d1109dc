"""NOT A BOUND: statements of the check-in paper as printed, for reproducing its tables and figures only.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins": Approaches 1 and 2 and the composition
of the baseline rest on Lemma 1 read as an upper bound (CI-S1, CI-S8, CI-S11, CI-S12); Theorem 1's delta takes the
sub-sampled epsilon (CI-S8); Theorem 4 leaves out the rounds without reports (CI-S17); Theorem 5 puts a lower bound into
an upper one (CI-S18). Binary randomized response lies above several cells of Table 2. Nothing here may answer a
question of privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxacct._jax import jax, jnp
from jaxacct.papers.check_ins._conversion import least_rdp, log_least_excess
from jaxacct.papers.check_ins._distributed import TernaryMoment, distributed_base
from jaxacct.papers.check_ins._renyi import BaseMoments, base_from_rdp, log_sampled_excess, subset_rdp
from jaxacct.papers.check_ins._shuffled_gaussian import gaussian_log_moments, pair_log_excess, pair_log_sums
from jaxacct.special import expm1, log1p, log_binomial_pmf, log_binomial_table, log_sum_exp, map_rows, softplus, tanh


class PublishedGuarantee(NamedTuple):
    """(epsilon, delta) as printed, each [L]: no bound."""

    epsilon: jax.Array
    delta: jax.Array


def published_shuffling(
    num_reports: jax.Array, local_epsilon: jax.Array, delta1: jax.Array, local_delta: jax.Array
) -> PublishedGuarantee:
    """(epsilon, delta) [L] of Lemma 3 under its own condition, eps0 <= log(k/(16 log(2/delta1))): no bound.

    Else, or without gain, (eps0, delta0).
    """
    growth = jnp.exp(local_epsilon)
    holds = 16.0 * growth * jnp.log(2.0 / delta1) <= num_reports
    reach = 8.0 * jnp.sqrt(growth * jnp.log(4.0 / delta1) / num_reports) + 8.0 * growth / num_reports
    epsilon = log1p(tanh(0.5 * local_epsilon) * reach)
    delta = delta1 + (jnp.exp(epsilon) + 1.0) * (1.0 + 0.5 / growth) * num_reports * local_delta
    use = holds & (epsilon <= local_epsilon)
    return PublishedGuarantee(jnp.where(use, epsilon, local_epsilon), jnp.where(use, delta, local_delta))


def published_first_cut(
    num_users: jax.Array,
    cap: jax.Array,
    local_epsilon: jax.Array,
    delta1: jax.Array,
    local_delta: jax.Array,
    beta: jax.Array,
) -> PublishedGuarantee:
    """(epsilon, delta) [L] of Theorem 1 as printed, no bound: delta is too small.

    Epsilon has (E-1)/E for (E-1)/(E+1), which is only loose.
    """
    growth = jnp.exp(local_epsilon)
    reach = 8.0 * jnp.sqrt(cap * growth * jnp.log(4.0 / delta1)) / num_users + 8.0 * growth / num_users
    loose = log1p(-expm1(-local_epsilon) * reach)
    cost = (jnp.exp(loose) + 1.0) * (1.0 + 0.5 / growth) * cap * local_delta
    return PublishedGuarantee(loose, beta + cap / num_users * (delta1 + cost))


def _each_count(num_users: jax.Array, prob: jax.Array, num_counts: int) -> tuple[jax.Array, jax.Array]:
    """(k = 1..num_counts, log w_k), each [K, L]."""
    k = jnp.arange(1, num_counts + 1, dtype=jnp.int32).astype(jnp.float64)[:, None] + 0.0 * num_users
    return k, log_binomial_pmf(k, num_users, prob, 1.0 - prob)


def _mixed(log_weight: jax.Array, log_excess: jax.Array, order: jax.Array) -> jax.Array:
    use = (log_weight > -jnp.inf) & (log_excess > -jnp.inf)
    total = log_sum_exp(jnp.where(use, log_weight + jnp.where(use, log_excess, 0.0), -jnp.inf))
    return softplus(total) / (order - 1.0)


def published_approach_1(
    num_users: jax.Array,
    prob: jax.Array,
    local_epsilon: jax.Array,
    delta1: jax.Array,
    local_delta: jax.Array,
    *,
    max_order: int,
    num_counts: int,
) -> jax.Array:
    """Renyi divergences [A - 1, L] of Approach 1 (shuffling conversion), whole orders 2..A, false as bounds.

    Lemma 3, Lemma 1 as printed, Theorem 2 (CI-S11).
    """
    k, log_weight = _each_count(num_users, prob, num_counts)
    at = published_shuffling(k, local_epsilon, delta1, local_delta)
    j = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)
    rdp = jax.lax.map(lambda order: least_rdp(jnp.full_like(k, order), at.epsilon, at.delta), jnp.maximum(j, 2.0))
    base = base_from_rdp(rdp, jnp.full_like(k, jnp.inf), sharper=False)
    chosen = jnp.asarray(log_binomial_table(max_order)[2:], jnp.float64)
    log_rate = jnp.log(k / num_users)

    def row(args: tuple[jax.Array, jax.Array]) -> jax.Array:
        order, log_choose = args
        return _mixed(log_weight, log_sampled_excess(base, log_rate, order, log_choose, capped=False), order)

    return jax.lax.map(row, (j[2:], chosen))


def published_approach_2(
    num_users: jax.Array,
    prob: jax.Array,
    local_epsilon: jax.Array,
    delta1: jax.Array,
    local_delta: jax.Array,
    *,
    orders: Sequence[float],
    num_counts: int,
) -> jax.Array:
    """Renyi divergences [A, L] of Approach 2 (sub-sampled shuffling conversion), real orders, false as bounds.

    Lemma 4, then Lemma 1 as printed (CI-S12).
    """
    k, log_weight = _each_count(num_users, prob, num_counts)
    at = published_shuffling(k, local_epsilon, delta1, local_delta)
    epsilon, delta = log1p(k / num_users * expm1(at.epsilon)), k / num_users * at.delta

    def row(order: jax.Array) -> jax.Array:
        return _mixed(log_weight, log_least_excess(jnp.full_like(k, order), epsilon, delta), order)

    return map_rows(row, jnp.asarray(orders, jnp.float64))


def published_distributed_rdp(
    num_users: jax.Array, prob: jax.Array, gap: jax.Array, *, max_order: int, num_counts: int
) -> jax.Array:
    """Renyi divergences [A - 1, L] of Theorem 4 as printed, orders 2..A, no bounds; they may be negative.

    The rounds that nobody joins are left out (CI-S17).
    """
    k, log_weight = _each_count(num_users, prob, num_counts)
    base = distributed_base(gap, k, TernaryMoment.GENERIC, max_order=max_order)
    chosen = jnp.asarray(log_binomial_table(max_order)[2:], jnp.float64)
    log_rate = jnp.log(k / num_users)
    orders = jnp.arange(2, max_order + 1, dtype=jnp.int32).astype(jnp.float64)

    def row(args: tuple[jax.Array, jax.Array]) -> jax.Array:
        order, log_choose = args
        moments = softplus(log_sampled_excess(base, log_rate, order, log_choose, capped=False))
        return log_sum_exp(log_weight + moments) / (order - 1.0)

    return jax.lax.map(row, (orders, chosen))


def published_subsampled_gaussian_rdp(
    num_users: jax.Array, num_reports: jax.Array, gap: jax.Array, *, max_order: int
) -> jax.Array:
    """Renyi divergences [A - 1, L] of Theorem 5, orders 2..A, no bounds: an upper form fed with one pair's own."""
    sums = pair_log_sums(gaussian_log_moments(gap, max_order=max_order), num_reports, jnp.ones_like(gap))
    log_excess = pair_log_excess(sums, jnp.ones_like(gap))
    filler = jnp.full_like(log_excess[:2], -jnp.inf)
    whole = jnp.concatenate([filler, log_excess])
    orders = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    rdp = softplus(whole) / jnp.maximum(orders - 1.0, 1.0)
    base = base_from_rdp(rdp, jnp.full_like(gap, jnp.inf), sharper=False)
    return subset_rdp(num_reports / num_users, BaseMoments(base.log_ternary, whole), capped=False)
