"""BOUND, from above: check-ins by closed forms, shuffling, then sub-sampling; Renyi divergences if nothing fails.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Lemmas 3 and 4, Theorem 1 with its
slips corrected, and the sound replacement of its Approaches 1 and 2 (CI-S5 to CI-S8, CI-S22). Upper bounds, replace-one
adjacency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxacct._jax import jax, jnp
from jaxacct.bounds.theorems import (
    Guarantee,
    closed_form_epsilon,
    log_replacement_cost,
    pure_parameters,
    with_replacement_cost,
)
from jaxacct.papers.check_ins._distributed import binomial_upper_tail_log, log_pmf_up
from jaxacct.papers.check_ins._renyi import log_response_excess
from jaxacct.papers.clones._reductions import subsampled
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


def shuffled_guarantee(
    num_reports: jax.Array, local_epsilon: jax.Array, log_delta1: jax.Array, local_log_delta: jax.Array
) -> Guarantee:
    """(epsilon, delta) [L] of k shuffled (eps0, delta0)-DP reports, rounded up, for any delta1 in (0, 1] (CI-S5):

        epsilon = log(1 + tanh(eps0/2) (8 sqrt(E log(4/delta1)/k) + 8 E/k)),   E = e^eps0,
        delta = delta1 + (e^epsilon + 1)(1 + e^-eps0/2) k delta0.

    Where it does not hold (k < 16 E log(4/delta1)) or does not help: (eps0, delta0), which always holds.
    """
    log_contrast = jnp.log(tanh(0.5 * jnp.where(local_epsilon > 0, local_epsilon, 1.0)))
    # the form takes the contrast's logarithm off again: both of them by 5 ULP and 4 of themselves, and two sums
    error = ULP * (16.0 + 10.0 * jnp.abs(log_contrast) + 2.0 * jnp.abs(log_delta1))
    epsilon = closed_form_epsilon(num_reports, pure_parameters(local_epsilon), log_delta1 + log_contrast - error)
    some = local_epsilon > 0
    helps = some & (epsilon < local_epsilon)
    inner = Guarantee(jnp.where(helps, epsilon, 1.0), log_delta1)
    cost = log_replacement_cost(num_reports, local_epsilon, local_log_delta, jnp.ones_like(num_reports))
    total = with_replacement_cost(inner, cost).log_delta
    return Guarantee(jnp.where(helps, epsilon, local_epsilon), jnp.where(helps, total, local_log_delta))


def sampled_guarantee(
    num_users: jax.Array,
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    log_delta1: jax.Array,
    local_log_delta: jax.Array,
) -> Guarantee:
    """(epsilon, delta) [L] of a uniform k of n users shuffled, rounded up: (log(1 + (k/n)(e^eps - 1)), (k/n) delta).

    From `shuffled_guarantee` (CI-S6, CI-S7).
    """
    inner = shuffled_guarantee(num_reports, local_epsilon, log_delta1, local_log_delta)
    return subsampled(inner, num_reports / num_users)


def first_cut(
    num_users: jax.Array,
    prob: jax.Array,
    cap: jax.Array,
    local_epsilon: jax.Array,
    log_delta1: jax.Array,
    local_log_delta: jax.Array,
) -> Guarantee:
    """(eps_l, P[outside] + delta_l) [L] of one round of check-ins with at most `cap` = l reports counted, rounded up.

    Upper bound: Theorem 1, repaired (CI-S8). The paper's proof takes eps_k <= eps_l for all k <= l, which fails where
    the closed form does not hold: fewer reports than that are added to delta, with those from l on. Both by Chernoff's
    bound. (inf, 1) where the form does not hold at l, or l is not above the mean.

    Args:
      num_users, prob, cap: n, q and l, [L].
      local_epsilon, log_delta1, local_log_delta: arguments of `sampled_guarantee`, [L].
    """
    mean = num_users * prob
    found = sampled_guarantee(num_users, cap, local_epsilon, log_delta1, local_log_delta)
    # an exponential by 4 ULP, two logarithms and their sum by 5, a product
    least = jnp.ceil(up(16.0 * jnp.exp(local_epsilon) * (jnp.log(4.0) - log_delta1), 12))
    few = jnp.maximum(least - 1.0, 0.0)
    above = jnp.where(cap > mean, _log_chernoff(cap, num_users, prob), 0.0)
    below = jnp.where(few < mean, _log_chernoff(few, num_users, prob), 0.0)
    log_delta = log_sum_outward(jnp.stack([found.log_delta, above, below]), 3.0, upward=True)
    holds = (least <= cap) & (cap > mean) & (log_delta < 0)
    return Guarantee(jnp.where(holds, found.epsilon, jnp.inf), jnp.where(holds, log_delta, 0.0))


def _log_chernoff(count: jax.Array, num_users: jax.Array, prob: jax.Array) -> jax.Array:
    """Chernoff's bound on the log of the tail of Bin(n, q) from `count` outwards; its exponent errs by 86 ULP."""
    return -down(binomial_rate(jnp.minimum(count, num_users), num_users, prob, 1.0 - prob), 88)


class ApproximateRdp(NamedTuple):
    """Renyi divergences [A, L] given that a round does not fail, and the log probability [L] that it does.

    That probability is added to delta.
    """

    rdp: jax.Array
    log_failure: jax.Array


def approximate_rdp(
    num_users: jax.Array,
    prob: jax.Array,
    local_epsilon: jax.Array,
    log_delta1: jax.Array,
    local_log_delta: jax.Array,
    *,
    orders: Sequence[float],
    num_counts: int,
) -> ApproximateRdp:
    """Renyi divergences [A, L], rounded up, of a round that does not fail, and the log probability [L] that it does.

    A sound form of the paper's Approaches 1 and 2 (CI-S22), real orders > 1. An (eps, delta)-DP pair is dominated by
    one that with probability delta tells all and else is randomized response at eps. With (eps_k, delta_k) of
    `sampled_guarantee`,

        f = sum_k w_k delta_k,   e^((a-1) R_a) = 1 + sum_k w_k (1 - delta_k)(e^((a-1) RR_a(eps_k)) - 1) / (1 - f).

    More than `num_counts` reports count as failures. T rounds fail with probability 1 - (1 - f)^T <= T f.

    Args:
      num_users, prob: n and q, [L].
      local_epsilon, log_delta1, local_log_delta: arguments of `sampled_guarantee`, [L].
      orders, num_counts: static.
    """
    k = jnp.arange(1, num_counts + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    at = sampled_guarantee(num_users, jnp.minimum(k, num_users), local_epsilon, log_delta1, local_log_delta)
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
    return ApproximateRdp(jnp.where(works, values, jnp.inf), jnp.minimum(failure, 0.0))
