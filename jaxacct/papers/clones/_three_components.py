"""BOUND, from above and below, on the pairs with clones of a third kind, every term summed (CL-S9, CL-S10).

Feldman, McMillan & Talwar 2021, Theorem 4.1 and Corollary 4.2; the module of `ComponentPair` has the formula.
"""

from __future__ import annotations

from jaxacct._jax import jax, jnp
from jaxacct._types import Ends
from jaxacct.divergence.kernels import ComponentPair, cut_at, enclosure, mass_outside, prepare, window_start
from jaxacct.special import expm1, log_binomial_pmf


def three_component_pair(component_prob: jax.Array, weight: jax.Array) -> ComponentPair:
    """Theorem 4.1's tau_0 and tau_1, a pair [L]: component probability p in (0, 1/3], weight q in (0, 1]."""
    p = component_prob
    slope = 2.0 * (1.0 - weight) / weight
    other = jnp.where(p > 1.0 / 3.0, jnp.nan, 1.0 - 3.0 * p)
    return ComponentPair(2.0 * p, p, other, weight, slope, jnp.inf * jnp.ones_like(p))


def k_ary_three_component_pair(local_epsilon: jax.Array, num_categories: jax.Array) -> ComponentPair:
    """Theorem 4.1's pair [L] for k-ary randomized response, p = k/((k+1)(E+k-1)), q = (E-1)/(E+k-1) (Corollary 4.2)."""
    growth = expm1(local_epsilon)
    k = num_categories
    pair = three_component_pair(k / ((k + 1.0) * (growth + k)), growth / (growth + k))
    return pair._replace(slope=2.0 * k / growth)


def component_delta(
    epsilon: jax.Array,
    num_reports: jax.Array,
    pair: ComponentPair,
    *,
    num_clones: int,
    num_rest: int,
    num_heads: int,
) -> Ends[jax.Array]:
    """Lower and upper ends [L] of delta at `epsilon` >= 0 of a pair with three kinds of clones (CL-S9).

    Feldman, McMillan & Talwar 2021, Theorem 4.1. The double sum over m and c, with all the tails over a that one m
    needs by two cumulative sums of one row of probabilities: work num_clones (num_rest + num_heads). The ends are apart
    by 2^-39 + 2^-47 sqrt(n), relatively, and by what the mass outside the windows could have. They are 0 and 1 outside
    the domain.

    Args:
      epsilon, num_reports: float64 [L].
      pair: lanes [L].
      num_clones, num_rest, num_heads: static, from `component_windows`.
    """
    pre = prepare(epsilon, num_reports, pair)
    trials = pre.trials
    half = jnp.full_like(epsilon, 0.5)
    start = window_start(trials * pre.clone_prob, trials, num_clones)
    rest_index = jnp.arange(num_rest, dtype=jnp.int32).astype(jnp.float64)[:, None]
    head_index = jnp.arange(num_heads, dtype=jnp.int32).astype(jnp.float64)[:, None]

    def row(i: jax.Array) -> tuple[jax.Array, jax.Array]:
        clones = start + i.astype(jnp.float64)
        m, rest_trials = clones + 1.0, trials - clones
        inside = rest_trials >= 0
        rest_trials = jnp.maximum(rest_trials, 0.0)
        first_rest = window_start(rest_trials * pre.share, rest_trials, num_rest)
        rest = first_rest + rest_index
        mass = jnp.exp(log_binomial_pmf(rest, rest_trials, pre.share, pre.share_rest))
        cut = cut_at(pre, m, rest)  # from the least outcome up, since c increases
        heads = cut.first[0] + head_index
        pmf = jnp.exp(log_binomial_pmf(heads, m, half, half))
        tails = jnp.cumsum(pmf[::-1], axis=0)[::-1]  # P[a >= heads], of the window
        later = jnp.concatenate([jnp.cumsum(tails[::-1], axis=0)[::-1][1:], jnp.zeros_like(tails[:1])])
        place = (cut.first - cut.first[0]).astype(jnp.int32)
        known = place < num_heads
        place = jnp.minimum(place, num_heads - 1)
        tail, beyond = jnp.take_along_axis(tails, place, axis=0), jnp.take_along_axis(later, place, axis=0)
        # sum over a >= k of (a - cut) P[a] = (k - cut) P[a >= k] + sum over j > k of P[a >= j]
        low = jnp.where(known, jnp.maximum(cut.above - cut.rounding, 0.0) * tail + beyond, 0.0)
        missed = mass_outside(jnp.full_like(m, -1.0), heads[-1], m, half, half)
        above = jnp.maximum(cut.above + cut.rounding, 0.0)
        high = jnp.where(known, above * tail + beyond, 0.0) + 0.5 * m * missed
        lost = mass_outside(first_rest, rest[-1], rest_trials, pre.share, pre.share_rest)
        lower = jnp.sum(mass * low, axis=0) * 2.0 / m
        upper = jnp.minimum(jnp.sum(mass * high, axis=0) * 2.0 / m + lost * pre.half_gap, pre.half_gap)
        weight = jnp.where(inside, jnp.exp(log_binomial_pmf(clones, trials, pre.clone_prob, pre.not_clone)), 0.0)
        return weight * lower, weight * upper

    def step(i: jax.Array, total: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        lower, upper = row(i)
        return total[0] + lower, total[1] + upper

    zero = jnp.zeros_like(epsilon)
    lower, upper = jax.lax.fori_loop(0, num_clones, step, (zero, zero))
    ends = start, start + (num_clones - 1.0)
    upper = upper + pre.half_gap * mass_outside(*ends, trials, pre.clone_prob, pre.not_clone)
    return enclosure(pre, lower, upper)
