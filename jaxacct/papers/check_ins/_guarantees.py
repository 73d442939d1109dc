"""BOUND, from above: check-ins by closed forms, and Renyi divergences given that no round fails.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Lemmas 3 and 4, Theorem 1 with its
slips corrected, and a sound form of Approaches 1 and 2. Replace-one adjacency, both directions; E = e^eps0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.bounds.theorems import (
    LogGuarantee,
    closed_form_epsilon,
    log_replacement_cost,
    pure_parameters,
    with_replacement_cost,
)
from jaxacct.conversion import delta_from_log
from jaxacct.papers._asking import (
    Floats,
    Guarantee,
    Real,
    counts,
    inner_probability,
    log_of,
    non_negative,
    orders_of,
    plain,
    probability,
    users_and_reports,
    whole,
)
from jaxacct.papers.check_ins._distributed import binomial_upper_tail_log, log_pmf_up
from jaxacct.papers.check_ins._renyi import log_response_excess
from jaxacct.papers.clones._reductions import both, subsampled
from jaxacct.special import (
    ULP,
    binomial_rate,
    down,
    log1mexp,
    log_down,
    log_sum_of_many,
    log_sum_outward,
    log_up,
    map_rows,
    softplus,
    tanh,
    up,
)

_TAIL_TERMS = 1024  # terms of a binomial tail summed one by one; the rest is bounded, so that fewer are only looser


def shuffled_guarantee_lanes(
    num_reports: jax.Array, local_epsilon: jax.Array, log_delta1: jax.Array, local_log_delta: jax.Array
) -> LogGuarantee:
    """`shuffled_guarantee` [L], rounded up, for any delta1 in (0, 1]; (eps0, delta0) always holds."""
    log_contrast = jnp.log(tanh(0.5 * jnp.where(local_epsilon > 0, local_epsilon, 1.0)))
    # the form subtracts the contrast's logarithm again: each errs by 5 ULP and 4 of itself, and there are two sums
    error = ULP * (16.0 + 10.0 * jnp.abs(log_contrast) + 2.0 * jnp.abs(log_delta1))
    epsilon = closed_form_epsilon(num_reports, pure_parameters(local_epsilon), log_delta1 + log_contrast - error)
    some = local_epsilon > 0
    helps = some & (epsilon < local_epsilon)
    inner = LogGuarantee(jnp.where(helps, epsilon, 1.0), log_delta1)
    cost = log_replacement_cost(num_reports, local_epsilon, local_log_delta, jnp.ones_like(num_reports))
    total = with_replacement_cost(inner, cost).log_delta
    return LogGuarantee(jnp.where(helps, epsilon, local_epsilon), jnp.where(helps, total, local_log_delta))


def sampled_guarantee_lanes(
    num_users: jax.Array,
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    log_delta1: jax.Array,
    local_log_delta: jax.Array,
) -> LogGuarantee:
    """`sampled_guarantee` [L], rounded up."""
    inner = shuffled_guarantee_lanes(num_reports, local_epsilon, log_delta1, local_log_delta)
    return subsampled(inner, num_reports / num_users)


def first_cut(
    num_users: jax.Array,
    prob: jax.Array,
    cap: jax.Array,
    local_epsilon: jax.Array,
    log_delta1: jax.Array,
    local_log_delta: jax.Array,
) -> LogGuarantee:
    """`theorem1_guarantee` [L], rounded up.

    The paper's proof assumes eps_k <= eps_l for all k <= l, which fails where the closed form does not hold.
    """
    mean = num_users * prob
    found = sampled_guarantee_lanes(num_users, cap, local_epsilon, log_delta1, local_log_delta)
    # an exponential by 4 ULP, two logarithms and their sum by 5, a product
    least = jnp.ceil(up(16.0 * jnp.exp(local_epsilon) * (jnp.log(4.0) - log_delta1), 12))
    few = jnp.maximum(least - 1.0, 0.0)
    above = jnp.where(cap > mean, _log_chernoff(cap, num_users, prob), 0.0)
    below = jnp.where(few < mean, _log_chernoff(few, num_users, prob), 0.0)
    log_delta = log_sum_outward(jnp.stack([found.log_delta, above, below]), 3.0, upward=True)
    holds = (least <= cap) & (cap > mean) & (log_delta < 0)
    return LogGuarantee(jnp.where(holds, found.epsilon, jnp.inf), jnp.where(holds, log_delta, 0.0))


def _log_chernoff(count: jax.Array, num_users: jax.Array, prob: jax.Array) -> jax.Array:
    """Chernoff's bound on the log of the tail of Bin(n, q) from `count` outwards; its exponent errs by 86 ULP."""
    return -down(binomial_rate(jnp.minimum(count, num_users), num_users, prob, 1.0 - prob), 88)


class GivenNothingFails(NamedTuple):
    """Renyi divergences [A, L] given that a round does not fail, and the log probability [L] that it fails.

    That probability is added to delta.
    """

    rdp: jax.Array
    log_failure: jax.Array


def approximate_rdp_lanes(
    num_users: jax.Array,
    prob: jax.Array,
    local_epsilon: jax.Array,
    log_delta1: jax.Array,
    local_log_delta: jax.Array,
    *,
    orders: Sequence[float],
    num_counts: int,
) -> GivenNothingFails:
    """`approximate_rdp` [A, L], rounded up, and the log probability [L] of a failure.

    An (eps, delta)-DP pair is dominated by one that reveals everything with probability delta and is randomized
    response at eps otherwise. More than `num_counts` (static) reports count as failures.
    """
    k = jnp.arange(1, num_counts + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    at = sampled_guarantee_lanes(num_users, jnp.minimum(k, num_users), local_epsilon, log_delta1, local_log_delta)
    weight = log_pmf_up(k, num_users, prob)
    beyond = binomial_upper_tail_log(num_users, prob, jnp.full_like(prob, num_counts + 1.0), num_terms=_TAIL_TERMS)
    beyond = jnp.where(num_counts >= num_users, -jnp.inf, beyond)
    failure = log_sum_of_many(jnp.concatenate([log_up(weight + at.log_delta, 2.0), beyond[None]]))
    works = failure < 0
    keep = log_down(log1mexp(jnp.where(works, failure, -1.0)), 6.0)
    stays = log_up(log1mexp(at.log_delta), 6.0)

    def row(order: jax.Array) -> jax.Array:
        log_excess = log_response_excess(at.epsilon, order)
        some = (weight > -jnp.inf) & (stays > -jnp.inf) & (log_excess > -jnp.inf)
        sizes = jnp.where(some, jnp.abs(weight) + jnp.abs(stays) + jnp.abs(log_excess), 0.0)
        terms = weight + stays + log_excess + ULP * 4.0 * jax.lax.stop_gradient(sizes)
        total = log_up(log_sum_of_many(jnp.where(some, terms, -jnp.inf)) - keep, 2.0)
        return up(softplus(total) / (order - 1.0), 12)  # softplus 9, and a quotient

    values = map_rows(row, jnp.asarray(orders, jnp.float64))
    return GivenNothingFails(jnp.where(works, values, jnp.inf), jnp.minimum(failure, 0.0))


class ApproximateRdp(NamedTuple):
    """Renyi divergences given that a round does not fail, and the probability of a failure, to be added to delta."""

    rdp: Floats
    failure_prob: Floats


def _approximate_lanes(*args: jax.Array, orders: tuple[float, ...], num_counts: int) -> tuple[jax.Array, jax.Array]:
    found = approximate_rdp_lanes(*args, orders=orders, num_counts=num_counts)
    return found.rdp, delta_from_log(found.log_failure)


_shuffled = Kernel(lambda *args: both(shuffled_guarantee_lanes(*args)))
_sampled = Kernel(lambda *args: both(sampled_guarantee_lanes(*args)))
_first_cut = Kernel(lambda *args: both(first_cut(*args)))
_approximate = Kernel(_approximate_lanes, lane_bytes=2**22)
_tail = Kernel(lambda *args, num_terms: delta_from_log(binomial_upper_tail_log(*args, num_terms=num_terms)))


def _local(local_epsilon: ArrayLike, delta1: ArrayLike, local_delta: ArrayLike) -> tuple[Real, Real, Real]:
    return (
        non_negative("local_epsilon", local_epsilon),
        log_of(inner_probability("delta1", delta1)),
        log_of(probability("local_delta", local_delta)),
    )


def _guarantee(found: Any) -> Guarantee:
    return Guarantee(*(plain(x) for x in found))


def shuffled_guarantee(
    num_reports: ArrayLike, local_epsilon: ArrayLike, *, delta1: ArrayLike, local_delta: ArrayLike = 0.0
) -> Guarantee:
    """(epsilon, delta) of k shuffled (eps0, delta0)-DP reports in closed form, Lemma 3 (CI-S5):

        epsilon = log(1 + tanh(eps0/2) (8 sqrt(E log(4/delta1)/k) + 8 E/k)),
        delta = delta1 + (e^epsilon + 1)(1 + e^-eps0/2) k delta0.

    Upper bound for any delta1. The result is (eps0, delta0) if the form does not hold, k < 16 E log(4/delta1), or does
    not help.

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
    >>> found = check_ins.shuffled_guarantee(100_000, 2.0, delta1=1e-6)
    >>> round(found.epsilon, 4), f"{found.delta:.4g}"
    (0.1862, '1e-06')
    """
    return _guarantee(_shuffled(counts("num_reports", num_reports), *_local(local_epsilon, delta1, local_delta)))


def sampled_guarantee(
    num_users: ArrayLike,
    num_reports: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    delta1: ArrayLike,
    local_delta: ArrayLike = 0.0,
) -> Guarantee:
    """(epsilon, delta) of shuffling a uniform k of n users: (log(1 + (k/n)(e^eps - 1)), (k/n) delta) (CI-S6, CI-S7).

    This is Lemma 4 with (eps, delta) from `shuffled_guarantee`. Upper bound.

    Args:
      num_users: n, whole number >= 1.
      num_reports: k, whole number in 1..n.
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1).
      local_delta: delta0 in [0, 1].

    Returns:
      Guarantee of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.sampled_guarantee(60_000, 3000, 2.0, delta1=1e-4).epsilon, 5)
    0.04876
    """
    n, k = users_and_reports(num_users, num_reports)
    return _guarantee(_sampled(n, k, *_local(local_epsilon, delta1, local_delta)))


def theorem1_guarantee(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    cap: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    delta1: ArrayLike,
    local_delta: ArrayLike = 0.0,
) -> Guarantee:
    """(epsilon, delta) of one round of check-ins with at most l reports counted, Theorem 1 repaired (CI-S8).

    It is (eps_l, P[K outside] + delta_l), with (eps_l, delta_l) of `sampled_guarantee` at l. In the paper, l or more
    reports are outside; its proof overlooks numbers of reports too small for the closed form, which count as outside
    too. Both tails are by Chernoff's bound. Upper bound; (inf, 1) if the form does not hold at l, or if l is not above
    the mean.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).
      cap: l, whole number in 1..n.
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1).
      local_delta: delta0 in [0, 1].

    Returns:
      Guarantee of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> found = check_ins.theorem1_guarantee(1_000_000, 0.01, 10_600, 1.0, delta1=1e-8)
    >>> round(found.epsilon, 5), f"{found.delta:.3g}"
    (0.0028, '1.81e-08')
    """
    n, prob = counts("num_users", num_users), inner_probability("check_in_prob", check_in_prob)
    return _guarantee(_first_cut(n, prob, counts("cap", cap), *_local(local_epsilon, delta1, local_delta)))


def binomial_upper_tail(num_users: ArrayLike, check_in_prob: ArrayLike, least: ArrayLike) -> Floats:
    """P[Bin(n, q) >= l], the beta of Theorem 1 (CI-S8).

    Upper bound: a sum from l on, and a geometric bound on what is beyond 12 standard deviations. It is sharp for
    l > n q, and 1 if the terms do not fall.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).
      least: l, whole number >= 1.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.binomial_upper_tail(10_000, 0.01, 158):.6g}"
    '4.48012e-08'
    """
    n, prob = counts("num_users", num_users), inner_probability("check_in_prob", check_in_prob)
    terms = 1 << math.ceil(math.log2(1024.0 + 12.0 * math.sqrt(float(np.max(n * prob)))))
    return plain(_tail(n, prob, counts("least", least), num_terms=terms))


def approximate_rdp(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    delta1: ArrayLike,
    orders: ArrayLike,
    most_reports: int,
    local_delta: ArrayLike = 0.0,
) -> ApproximateRdp:
    """Renyi divergences [A] of a round that does not fail, and the probability of a failure: ours, sound (CI-S22).

    With (eps_k, delta_k) of `sampled_guarantee`, w_k = P[Bin(n, q) = k] and RR_a the divergence of randomized response,

        f = sum_k w_k delta_k,   e^((a-1) R_a) = 1 + sum_k w_k (1 - delta_k)(e^((a-1) RR_a(eps_k)) - 1) / (1 - f).

    It replaces Approaches 1 and 2. Upper bound, real orders a > 1; more than `most_reports` reports count as a failure.
    The probability that any of T rounds fails is at most 1 - (1 - f)^T; it must be added to delta.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).
      local_epsilon: eps0 >= 0.
      delta1: in (0, 1), well below delta over the number of rounds.
      orders: real [A], each > 1.
      most_reports: whole number >= 1, the largest number of reports in the sum.
      local_delta: delta0 in [0, 1].

    Returns:
      ApproximateRdp: rdp float64 [.., A], nats, and failure_prob.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> found = check_ins.approximate_rdp(10_000, 0.01, 1.0, delta1=1e-8, orders=[4], most_reports=250)
    >>> f"{found.rdp[0]:.4g} {found.failure_prob:.3g}"
    '0.0005857 2.39e-37'
    """
    n, prob = counts("num_users", num_users), inner_probability("check_in_prob", check_in_prob)
    at, most = orders_of(orders), whole("most_reports", most_reports)
    found = _approximate(n, prob, *_local(local_epsilon, delta1, local_delta), orders=at, num_counts=most)
    return ApproximateRdp(*(plain(x) for x in found))
