"""Hockey-stick divergence of pairs with clones of a third kind, every term summed.

Feldman, McMillan and Talwar 2021, Theorem 4.1 and Corollary 4.2 (CL-S9, CL-S10). Among n - 1 other reports, m - 1 are
clones of one of the two candidate reports, each as likely, and c belong to the rest, which the differing record may
also have given; given m, of which a are the first candidate's, the loss exceeds epsilon for x = (2a - m)/m above a
threshold linear in c. With t = tanh(epsilon/2), s = tanh(local_epsilon/2), w the weight, and g the slope,

    delta = w (1 + e^epsilon) E E[(x - t (1/s + g c/m))_+ | m, c],   a ~ Bin(m, 1/2),

where (m - 1, c) are two counts of a multinomial of n - 1 trials. Both directions are equal.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxacct.special._binomial import log_binomial_pmf

_TAIL_SDS = 9.0


def relative_slack(trials: jax.Array) -> jax.Array:
    """Error of a term: three pmfs of 1e-15 (1 + |log|) each and sums; and some ulp of p, as 9 sd/p of them."""
    return 2.0**-40 + 2.0**-48 * jnp.sqrt(trials)


class ComponentPair(NamedTuple):
    """A pair as in the module's docstring, float64 lanes [L].

    Attributes:
      clone_prob: probability that another report is a clone of one of the two candidates.
      rest_prob: probability that it belongs to the rest.
      other_prob: 1 - clone_prob - rest_prob, to its own relative accuracy.
      weight: w.
      slope: g.
      local_epsilon: that of the two candidate reports; inf where their supports differ.
    """

    clone_prob: jax.Array
    rest_prob: jax.Array
    other_prob: jax.Array
    weight: jax.Array
    slope: jax.Array
    local_epsilon: jax.Array


class Enclosure(NamedTuple):
    """Two numbers with the truth between them."""

    lower: jax.Array
    upper: jax.Array


def three_component_pair(component_prob: jax.Array, weight: jax.Array) -> ComponentPair:
    """Theorem 4.1's tau_0 and tau_1: component probability p in (0, 1/3], weight q in (0, 1]."""
    p = component_prob
    slope = 2.0 * (1.0 - weight) / weight
    other = jnp.where(p > 1.0 / 3.0, jnp.nan, 1.0 - 3.0 * p)
    return ComponentPair(2.0 * p, p, other, weight, slope, jnp.inf * jnp.ones_like(p))


def k_ary_three_component_pair(local_epsilon: jax.Array, num_categories: jax.Array) -> ComponentPair:
    """Theorem 4.1 for k-ary randomized response, p = k/((k+1)(E+k-1)), q = (E-1)/(E+k-1) (Corollary 4.2)."""
    growth = jnp.expm1(local_epsilon)
    k = num_categories
    pair = three_component_pair(k / ((k + 1.0) * (growth + k)), growth / (growth + k))
    return pair._replace(slope=2.0 * k / growth)


def k_ary_blanket_pair(local_epsilon: jax.Array, num_categories: jax.Array) -> ComponentPair:
    """k-ary randomized response, its uniform part split over all k values: below `k_ary_three_component_pair`.

    Upper bound for every data set (CL-S10: an extension of Theorem 4.1, verified by enumeration). k >= 2.
    """
    growth = jnp.expm1(local_epsilon)
    single = 1.0 / (growth + num_categories)
    rest, excess = (num_categories - 2.0) * single, growth * single
    return ComponentPair(2.0 * single, rest, excess, excess, 2.0 / growth, local_epsilon)


def component_windows(num_reports: float, clone_prob: float, rest_prob: float) -> tuple[int, int, int]:
    """(num_clones, num_rest, num_heads) for `component_delta`: nine standard deviations, in powers of two."""

    def size(variance: float, limit: float) -> int:
        width = min(limit, 2.0 * _TAIL_SDS * math.sqrt(max(variance, 0.0)) + 80.0)
        return 1 << max(0, math.ceil(width) - 1).bit_length()

    trials = num_reports - 1.0
    ratio = rest_prob / (1.0 - clone_prob) if clone_prob < 1.0 else 0.0
    clones = trials * clone_prob
    return (
        size(clones * (1.0 - clone_prob), num_reports),
        size((trials - clones) * ratio * (1.0 - ratio), num_reports),
        size(0.25 * clones, num_reports + 2.0),
    )


def mass_outside(low: jax.Array, high: jax.Array, trials: jax.Array, prob: jax.Array, rest: jax.Array) -> jax.Array:
    """Upper bound on P[Bin(trials, prob) outside [low, high]] [L], by geometric series where these converge."""

    def tail(count: jax.Array, ratio: jax.Array) -> jax.Array:
        inside = (count >= 0) & (count <= trials)
        log_pmf = log_binomial_pmf(jnp.where(inside, count, 0.0), trials, prob, rest)
        bound = jnp.exp(log_pmf) / jnp.maximum(1.0 - ratio, 1e-300) * (1.0 + relative_slack(trials))
        return jnp.where(inside, jnp.where(ratio < 1.0, jnp.minimum(bound, 1.0), 1.0), 0.0)

    # P[k-1]/P[k], at its largest at k = low - 1; P[k+1]/P[k], at k = high + 1
    below, above = low - 1.0, high + 1.0
    left = below * rest / jnp.maximum((trials - below + 1.0) * prob, 1e-300)
    right = (trials - above) * prob / jnp.maximum((above + 1.0) * rest, 1e-300)
    return tail(below, left) + tail(above, right)


def window_start(mean: jax.Array, trials: jax.Array, size: int) -> jax.Array:
    """First of `size` counts about the mean, within 0..trials where they fit."""
    return jnp.clip(jnp.floor(jax.lax.stop_gradient(mean)) - size // 2, 0.0, jnp.maximum(trials - size + 1.0, 0.0))


class Prepared(NamedTuple):
    """What both kernels need of a pair, [L], finite everywhere: `valid` says where it means anything."""

    valid: jax.Array
    possible: jax.Array  # whether the divergence is positive
    trials: jax.Array
    half_gap: jax.Array  # (1 - t/s) / 2, to its own relative accuracy; E[(x - u)_+ | m] is at most that
    half_drift: jax.Array  # t g / 2
    clone_prob: jax.Array
    not_clone: jax.Array
    share: jax.Array  # of the rest among what is no clone
    share_rest: jax.Array
    scale: jax.Array


def prepare(epsilon: jax.Array, num_reports: jax.Array, pair: ComponentPair) -> Prepared:
    """Checks the domain and replaces what lies outside."""
    possible = (epsilon < pair.local_epsilon) & (pair.weight > 0)
    valid = (epsilon >= 0) & (num_reports >= 1) & (pair.clone_prob > 0) & (pair.rest_prob >= 0) & (pair.other_prob >= 0)
    valid = valid & (pair.weight >= 0) & (pair.local_epsilon >= 0)
    valid = valid & (~possible | (jnp.isfinite(pair.slope) & (pair.slope >= 0)))
    possible = valid & possible
    eps, local = jnp.where(possible, epsilon, 0.0), jnp.where(possible, pair.local_epsilon, 1.0)
    not_clone = jnp.where(possible, pair.rest_prob + pair.other_prob, 0.5)
    some = possible & (not_clone > 0)
    divisor = jnp.where(some, not_clone, 1.0)
    return Prepared(
        valid=valid,
        possible=possible,
        trials=jnp.where(possible, num_reports - 1.0, 0.0),
        half_gap=jnp.expm1(eps - local) / jnp.expm1(-local) / (1.0 + jnp.exp(eps)),
        half_drift=0.5 * jnp.tanh(0.5 * eps) * jnp.where(possible, pair.slope, 0.0),
        clone_prob=jnp.where(possible, pair.clone_prob, 0.5),
        not_clone=not_clone,
        share=jnp.where(some, pair.rest_prob / divisor, 0.0),
        share_rest=jnp.where(some, pair.other_prob / divisor, 1.0),
        scale=jnp.where(possible, pair.weight, 0.0) * (1.0 + jnp.exp(eps)),
    )


class Cut(NamedTuple):
    """Which outcomes a count: those of at least `first`, at `above` and more above the real threshold."""

    first: jax.Array  # m + 1 for none
    above: jax.Array  # first - threshold; below 0 for a threshold above m + 1
    rounding: jax.Array  # of `above`


def cut_at(prepared: Prepared, m: jax.Array, rest: jax.Array) -> Cut:
    """The threshold m - (m (1 - u)/2 - t g rest / 2) of a, whose last digits matter where few outcomes count."""
    gap, drift = m * prepared.half_gap, prepared.half_drift * rest
    reach = gap - drift
    num_outcomes = jnp.maximum(jnp.ceil(jax.lax.stop_gradient(reach)), 0.0)
    return Cut(m + 1.0 - num_outcomes, reach - (num_outcomes - 1.0), 2.0**-49 * (gap + drift))


def enclosure(prepared: Prepared, lower: jax.Array, upper: jax.Array) -> Enclosure:
    """The divergence from the two sums over m, each to its safe side; 0 and 1 outside the domain."""
    slack = relative_slack(prepared.trials)
    lower = prepared.scale * lower * (1.0 - slack)
    upper = jnp.minimum(prepared.scale * upper * (1.0 + slack), 1.0)
    upper = jnp.where(prepared.valid, jnp.where(prepared.possible, upper, 0.0), 1.0)
    return Enclosure(jnp.where(prepared.possible, lower, 0.0), upper)


def component_delta(
    epsilon: jax.Array,
    num_reports: jax.Array,
    pair: ComponentPair,
    *,
    num_clones: int,
    num_rest: int,
    num_heads: int,
) -> Enclosure:
    """delta [L] between a lower and an upper bound. Epsilon >= 0.

    Apart by 2^-39 + 2^-47 sqrt(n), relative, and by what the mass outside the windows could have. The double sum over m
    and c of CL-S9, with all the tails over a that one m needs by two cumulative sums of one row of pmfs: work
    num_clones (num_rest + num_heads). Upper 1 and lower 0 outside the domain.
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
