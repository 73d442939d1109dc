"""NOT A BOUND: statements of the check-in paper as printed, for reproducing its tables and figures only.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins": Approaches 1 and 2 and the composition
of the baseline rest on Lemma 1 read as an upper bound (CI-S1, CI-S8, CI-S11, CI-S12); Theorem 1's delta takes the
sub-sampled epsilon (CI-S8); Theorem 4 leaves out the rounds without reports (CI-S17); Theorem 5 puts a lower bound into
an upper one (CI-S18). Binary randomized response lies above several cells of Table 2. For details see
docs/papers/check_ins.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.papers._asking import (
    Floats,
    Guarantee,
    Real,
    counts,
    inner_probability,
    non_negative,
    orders_of,
    plain,
    positive,
    probability,
    users_and_reports,
    whole,
)
from jaxacct.papers.check_ins._distributed import TernaryMoment, distributed_base
from jaxacct.papers.check_ins._from_below import gaussian_log_moments, pair_log_excess, pair_log_sums
from jaxacct.papers.check_ins._optimal_conversion import least_rdp_lanes as least_rdp
from jaxacct.papers.check_ins._optimal_conversion import log_least_excess
from jaxacct.papers.check_ins._renyi import BaseMoments, base_from_rdp, log_sampled_excess, subset_rdp
from jaxacct.special import expm1, log1p, log_binomial_pmf, log_binomial_table, log_sum_exp, map_rows, softplus, tanh


class PublishedGuarantee(NamedTuple):
    """(epsilon, delta) as printed, each [L]: not a bound."""

    epsilon: jax.Array
    delta: jax.Array


def published_shuffling_lanes(
    num_reports: jax.Array, local_epsilon: jax.Array, delta1: jax.Array, local_delta: jax.Array
) -> PublishedGuarantee:
    """`published_shuffling` [L], not a bound; (eps0, delta0) where there is no gain."""
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
    """(epsilon, delta) [L] of Theorem 1 as printed, not a bound: delta is too small.

    Epsilon has (E-1)/E in place of (E-1)/(E+1), which only makes it loose.
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

    By Lemma 3, Lemma 1 as printed, and Theorem 2 (CI-S11).
    """
    k, log_weight = _each_count(num_users, prob, num_counts)
    at = published_shuffling_lanes(k, local_epsilon, delta1, local_delta)
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
    at = published_shuffling_lanes(k, local_epsilon, delta1, local_delta)
    epsilon, delta = log1p(k / num_users * expm1(at.epsilon)), k / num_users * at.delta

    def row(order: jax.Array) -> jax.Array:
        return _mixed(log_weight, log_least_excess(jnp.full_like(k, order), epsilon, delta), order)

    return map_rows(row, jnp.asarray(orders, jnp.float64))


def published_distributed_rdp_lanes(
    num_users: jax.Array, prob: jax.Array, gap: jax.Array, *, max_order: int, num_counts: int
) -> jax.Array:
    """`published_distributed_rdp` [A - 1, L], orders 2..A, not bounds; they may be negative."""
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


def published_subsampled_gaussian_rdp_lanes(
    num_users: jax.Array, num_reports: jax.Array, gap: jax.Array, *, max_order: int
) -> jax.Array:
    """`published_subsampled_gaussian_rdp` [A - 1, L], orders 2..A, not bounds."""
    sums = pair_log_sums(gaussian_log_moments(gap, max_order=max_order), num_reports, jnp.ones_like(gap))
    log_excess = pair_log_excess(sums, jnp.ones_like(gap))
    filler = jnp.full_like(log_excess[:2], -jnp.inf)
    whole = jnp.concatenate([filler, log_excess])
    orders = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    rdp = softplus(whole) / jnp.maximum(orders - 1.0, 1.0)
    base = base_from_rdp(rdp, jnp.full_like(gap, jnp.inf), sharper=False)
    return subset_rdp(num_reports / num_users, BaseMoments(base.log_ternary, whole), capped=False)


_shuffling = Kernel(lambda *args: tuple(published_shuffling_lanes(*args)))
_first_cut = Kernel(lambda *args: tuple(published_first_cut(*args)))
_first = Kernel(published_approach_1, lane_bytes=2**26)
_second = Kernel(published_approach_2, lane_bytes=2**26)
_distributed = Kernel(published_distributed_rdp_lanes, lane_bytes=2**24)
_subsampled = Kernel(published_subsampled_gaussian_rdp_lanes, lane_bytes=2**22)


def _local(local_epsilon: ArrayLike, delta1: ArrayLike, local_delta: ArrayLike) -> tuple[Real, Real, Real]:
    return (
        non_negative("local_epsilon", local_epsilon),
        inner_probability("delta1", delta1),
        probability("local_delta", local_delta),
    )


def _most(num_users: Real, most_reports: int | None) -> int:
    """The largest number of reports in the sum."""
    return int(np.max(num_users)) if most_reports is None else whole("most_reports", most_reports)


def published_shuffling(
    num_reports: ArrayLike, local_epsilon: ArrayLike, *, delta1: ArrayLike, local_delta: ArrayLike = 0.0
) -> Guarantee:
    """(epsilon, delta) of Lemma 3 under its own condition, 16 E log(2/delta1) <= k, which should have log 4 (CI-S5).

    Formula value; (eps0, delta0) if the condition fails or there is no gain. `shuffled_guarantee` is a certified bound.

    Args:
      num_reports: k, whole number >= 1.
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1).
      local_delta: delta0 in [0, 1].

    Returns:
      Guarantee of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.published_shuffling(2000, 2.0, delta1=1e-4).epsilon, 4)
    0.8011
    """
    found = _shuffling(counts("num_reports", num_reports), *_local(local_epsilon, delta1, local_delta))
    return Guarantee(*(plain(x) for x in found))


def published_theorem1(
    num_users: ArrayLike,
    cap: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    delta1: ArrayLike,
    beta: ArrayLike,
    local_delta: ArrayLike = 0.0,
) -> Guarantee:
    """(epsilon, delta) of Theorem 1 as printed: (E-1)/E for (E-1)/(E+1), and the sampled epsilon in delta (CI-S8).

    Formula value: epsilon is loose, delta is too small, and small numbers of reports are overlooked. A certified bound
    is `theorem1_guarantee`.

    Args:
      num_users: n, whole number >= 1.
      cap: l, whole number >= 1.
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1).
      beta: P[Bin(n, q) >= l] in [0, 1], see `binomial_upper_tail`.
      local_delta: delta0 in [0, 1].

    Returns:
      Guarantee of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.published_theorem1(60_000, 3000, 2.0, delta1=1e-4, beta=0.0).epsilon, 5)
    0.05518
    """
    n, most = counts("num_users", num_users), counts("cap", cap)
    found = _first_cut(n, most, *_local(local_epsilon, delta1, local_delta), probability("beta", beta))
    return Guarantee(*(plain(x) for x in found))


def published_approach1_rdp(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    delta1: ArrayLike,
    max_order: int,
    local_delta: ArrayLike = 0.0,
    most_reports: int | None = None,
) -> Floats:
    """Renyi divergences of Approach 1, false as bounds: Lemma 3, Lemma 1 as printed, Theorem 2; orders 2..A (CI-S11).

    Formula value. Certified bounds are `approximate_rdp` and `jaxacct.rdp` of `CheckIn`.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1).
      max_order: A, whole number >= 2.
      local_delta: delta0 in [0, 1].
      most_reports: the largest number of reports in the sum; None for all.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> formula = check_ins.published_approach1_rdp(
    ...     10_000, 0.01, 2.0, delta1=1e-4, max_order=8, local_delta=1e-8, most_reports=400
    ... )
    >>> true = check_ins.response_pair_rdp(10_000, 0.01, 2.0, orders=[8])
    >>> f"{formula[6]:.3g} {true[0]:.3g}"
    '1.67e-05 2.21e-05'
    """
    n, prob = counts("num_users", num_users), inner_probability("check_in_prob", check_in_prob)
    static = {"max_order": whole("max_order", max_order, least=2), "num_counts": _most(n, most_reports)}
    return plain(_first(n, prob, *_local(local_epsilon, delta1, local_delta), **static))


def published_approach2_rdp(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    delta1: ArrayLike,
    orders: ArrayLike,
    local_delta: ArrayLike = 0.0,
    most_reports: int | None = None,
) -> Floats:
    """Renyi divergences [A] of Approach 2, false as bounds: Lemmas 3 and 4, then Lemma 1 as printed (CI-S12).

    Formula value. Certified bounds are `approximate_rdp` and `jaxacct.rdp` of `CheckIn`.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1).
      orders: real [A], each > 1.
      local_delta: delta0 in [0, 1].
      most_reports: the largest number of reports in the sum; None for all.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> formula = check_ins.published_approach2_rdp(
    ...     10_000, 0.01, 2.0, delta1=1e-4, orders=[8], local_delta=1e-8, most_reports=400
    ... )
    >>> f"{formula[0]:.3g}"
    '1.33e-10'
    """
    n, prob = counts("num_users", num_users), inner_probability("check_in_prob", check_in_prob)
    static = {"orders": orders_of(orders), "num_counts": _most(n, most_reports)}
    return plain(_second(n, prob, *_local(local_epsilon, delta1, local_delta), **static))


def published_distributed_rdp(
    num_users: ArrayLike, check_in_prob: ArrayLike, gap: ArrayLike, *, max_order: int, most_reports: int | None = None
) -> Floats:
    """Renyi divergences of Theorem 4 as printed, without the rounds that nobody joins; orders 2..A (CI-S17).

    Formula value, which may be negative. A certified bound is `distributed_rdp`.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).
      gap: > 0, 2/noise_multiplier for clip norm 1.
      max_order: A, whole number >= 2.
      most_reports: the largest number of reports in the sum; None for all.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(float(check_ins.published_distributed_rdp(20, 0.01, 0.4, max_order=2)[0]), 4)
    -1.7013
    """
    n, prob = counts("num_users", num_users), inner_probability("check_in_prob", check_in_prob)
    static = {"max_order": whole("max_order", max_order, least=2), "num_counts": _most(n, most_reports)}
    return plain(_distributed(n, prob, positive("gap", gap), **static))


def published_subsampled_gaussian_rdp(
    num_users: ArrayLike, num_reports: ArrayLike, gap: ArrayLike, *, max_order: int
) -> Floats:
    """Renyi divergences of Theorem 5: an upper bound for samples, applied to a lower bound; orders 2..A (CI-S18).

    Formula value, a bound in neither direction; the paper calls it optimistic. A lower bound is
    `sampled_gaussian_pair_rdp`.

    Args:
      num_users: n, whole number >= 1.
      num_reports: m, whole number in 1..n.
      gap: > 0, 2/noise_multiplier for clip norm 1.
      max_order: A, whole number >= 2.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.published_subsampled_gaussian_rdp(10**9, 10**6, 0.5, max_order=64)[-1]:.3g}"
    '1.34e-06'
    """
    n, m = users_and_reports(num_users, num_reports)
    return plain(_subsampled(n, m, positive("gap", gap), max_order=whole("max_order", max_order, least=2)))
