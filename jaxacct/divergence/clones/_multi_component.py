"""Hockey-stick divergence of pairs with three kinds of clones: the pairs, their windows and the basis of their sums.

Feldman, McMillan & Talwar 2021, Theorem 4.1 and Corollary 4.2 (CL-S9, CL-S10). Among n - 1 other reports, m - 1 are
clones of one of the two candidate reports, both equally likely, and c belong to the rest: reports that the differing
record may also have given. Of the m candidate reports, a are the first candidate's. Given m and c, the loss exceeds
epsilon where x = (2a - m)/m is above a threshold linear in c. With t = tanh(epsilon/2), s = tanh(local_epsilon/2), w
the weight and g the slope,

    delta = w (1 + e^epsilon) E E[(x - t (1/s + g c/m))_+ | m, c],   a ~ Bin(m, 1/2),

where (m - 1, c) are two counts of a multinomial of n - 1 trials. Both directions are equal. The sums themselves are in
`_multi_component_mean` (over m only) and in `jaxacct.papers.clones._pairs` (over m and c).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.special._binomial import log_binomial_pmf
from jaxacct.special._namespace import stop_gradient, xp
from jaxacct.special._rounding import ULP

_TAIL_SDS = 9.0  # standard deviations on either side that a window covers; the mass outside is bounded


def relative_slack(trials: jax.Array, prob: jax.Array, rest: jax.Array, log_total: jax.Array) -> jax.Array:
    """Relative error [L] of a sum e^log_total over counts of Bin(trials, prob); `rest` is 1 - prob.

    It covers three probabilities, 96 ULP and 90 of their logarithms, a tail by 600, log N and one for each of N
    additions, N up to 18 standard deviations; docs/numerics/clones.md, "Sums over clones". The clone probability errs
    by 8 ULP, which nine standard deviations from the mean become 72 sqrt(trials prob / rest), or the other way round.
    """
    spread = xp.sqrt(trials * xp.minimum(prob, rest))
    return ULP * (3072.0 + 96.0 * xp.abs(log_total) + 18.0 * xp.sqrt(trials) + 128.0 * spread)


class ComponentPair(NamedTuple):
    """A pair as in the module's docstring, float64 lanes [L].

    Attributes:
      clone_prob: probability that another report is a clone of one of the two candidates.
      rest_prob: probability that it belongs to the rest.
      other_prob: 1 - clone_prob - rest_prob, to its own relative accuracy.
      weight: w.
      slope: g.
      local_epsilon: the local epsilon between the two candidate reports; inf where their supports differ.
    """

    clone_prob: jax.Array
    rest_prob: jax.Array
    other_prob: jax.Array
    weight: jax.Array
    slope: jax.Array
    local_epsilon: jax.Array


def k_ary_blanket_pair(local_epsilon: jax.Array, num_categories: jax.Array) -> ComponentPair:
    """The pair [L] of k-ary randomized response, whose uniform part is split over all k values.

    It gives an upper bound for every data set, k >= 2: an extension of Feldman, McMillan & Talwar 2021, Theorem 4.1,
    verified by enumeration (CL-S10). Its divergence is below that of Corollary 4.2's pair,
    `k_ary_three_component_pair`.
    """
    growth = xp.expm1(local_epsilon)
    single = 1.0 / (growth + num_categories)
    rest, excess = (num_categories - 2.0) * single, growth * single
    return ComponentPair(2.0 * single, rest, excess, excess, 2.0 / growth, local_epsilon)


def component_windows(num_reports: float, clone_prob: float, rest_prob: float) -> tuple[int, int, int]:
    """Three static ints, powers of two: the numbers of values of m, of c and of a for a sum over a pair's counts.

    They cover nine standard deviations on either side of the mean; the mass outside is bounded (`mass_outside`), so
    that smaller windows are certified too, only looser. They are the arguments `num_clones`, `num_rest` and `num_heads`
    of `jaxacct.papers.clones._pairs.component_delta`; the first alone is that of `mean_component_delta`.
    """

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
    """Upper bounds [L] on P[Bin(trials, prob) outside [low, high]], by geometric series where these converge.

    `rest` is 1 - prob, to its own relative accuracy.
    """

    def tail(count: jax.Array, ratio: jax.Array) -> jax.Array:
        inside = (count >= 0) & (count <= trials)
        log_pmf = log_binomial_pmf(xp.where(inside, count, 0.0), trials, prob, rest)
        slack = relative_slack(trials, prob, rest, xp.where(inside, log_pmf, 0.0))
        bound = xp.exp(log_pmf) / xp.maximum(1.0 - ratio, 1e-300) * (1.0 + slack)
        return xp.where(inside, xp.where(ratio < 1.0, xp.minimum(bound, 1.0), 1.0), 0.0)

    # P[k-1]/P[k], at its largest at k = low - 1; P[k+1]/P[k], at k = high + 1
    below, above = low - 1.0, high + 1.0
    left = below * rest / xp.maximum((trials - below + 1.0) * prob, 1e-300)
    right = (trials - above) * prob / xp.maximum((above + 1.0) * rest, 1e-300)
    return tail(below, left) + tail(above, right)


def window_start(mean: jax.Array, trials: jax.Array, size: int) -> jax.Array:
    """The first of `size` consecutive counts about `mean` [L]: within 0..trials where that many fit."""
    return xp.clip(xp.floor(stop_gradient(mean)) - size // 2, 0.0, xp.maximum(trials - size + 1.0, 0.0))


class Prepared(NamedTuple):
    """The numbers of a pair that both kernels need, float64 [L], finite in every lane, meaningful where `valid`."""

    valid: jax.Array
    possible: jax.Array  # whether the divergence is positive
    trials: jax.Array  # n - 1, the other reports
    half_gap: jax.Array  # (1 - t/s) / 2, to its own relative accuracy; E[(x - u)_+ | m] is at most that
    half_drift: jax.Array  # t g / 2
    clone_prob: jax.Array
    not_clone: jax.Array  # 1 - clone_prob
    share: jax.Array  # of the rest among reports that are not clones
    share_rest: jax.Array  # 1 - share, to its own relative accuracy
    scale: jax.Array  # w (1 + e^epsilon)


def prepare(epsilon: jax.Array, num_reports: jax.Array, pair: ComponentPair) -> Prepared:
    """The numbers [L] from which kernels start, at `epsilon` >= 0; finite dummies where an argument is out of range."""
    possible = (epsilon < pair.local_epsilon) & (pair.weight > 0)
    valid = (epsilon >= 0) & (num_reports >= 1) & (pair.clone_prob > 0) & (pair.rest_prob >= 0) & (pair.other_prob >= 0)
    valid = valid & (pair.weight >= 0) & (pair.local_epsilon >= 0)
    valid = valid & (~possible | (xp.isfinite(pair.slope) & (pair.slope >= 0)))
    possible = valid & possible
    eps, local = xp.where(possible, epsilon, 0.0), xp.where(possible, pair.local_epsilon, 1.0)
    not_clone = xp.where(possible, pair.rest_prob + pair.other_prob, 0.5)
    some = possible & (not_clone > 0)
    divisor = xp.where(some, not_clone, 1.0)
    return Prepared(
        valid=valid,
        possible=possible,
        trials=xp.where(possible, num_reports - 1.0, 0.0),
        half_gap=xp.expm1(eps - local) / xp.expm1(-local) / (1.0 + xp.exp(eps)),
        half_drift=0.5 * xp.tanh(0.5 * eps) * xp.where(possible, pair.slope, 0.0),
        clone_prob=xp.where(possible, pair.clone_prob, 0.5),
        not_clone=not_clone,
        share=xp.where(some, pair.rest_prob / divisor, 0.0),
        share_rest=xp.where(some, pair.other_prob / divisor, 1.0),
        scale=xp.where(possible, pair.weight, 0.0) * (1.0 + xp.exp(eps)),
    )


class CountCut(NamedTuple):
    """The values of a that contribute, fields [W, L]: those from `first` on, `above` more than the real threshold."""

    first: jax.Array  # m + 1 for none
    above: jax.Array  # first - threshold; below 0 for a threshold above m + 1
    rounding: jax.Array  # of `above`


def cut_at(prepared: Prepared, m: jax.Array, rest: jax.Array) -> CountCut:
    """The least a [W, L] above the threshold m - (m (1 - u)/2 - t g rest / 2), u = t/s, for `rest` reports of the rest.

    The bracket is formed first: where few values of a contribute, the last digits matter.
    """
    gap, drift = m * prepared.half_gap, prepared.half_drift * rest
    reach = gap - drift
    num_outcomes = xp.maximum(xp.ceil(stop_gradient(reach)), 0.0)
    return CountCut(m + 1.0 - num_outcomes, reach - (num_outcomes - 1.0), 2.0**-48 * (gap + drift))


def enclosure(prepared: Prepared, lower: jax.Array, upper: jax.Array) -> Ends[jax.Array]:
    """Lower and upper ends [L] of the divergence from the two sums over m, each rounded to its safe side.

    The ends are 0 and 1 where an argument is out of range.
    """

    def slack(total: jax.Array) -> jax.Array:
        log_total = xp.log(xp.maximum(stop_gradient(total), 1e-300))
        first = relative_slack(prepared.trials, prepared.clone_prob, prepared.not_clone, log_total)
        return first + relative_slack(prepared.trials, prepared.share, prepared.share_rest, log_total)

    lower = xp.maximum(prepared.scale * lower * (1.0 - slack(lower)), 0.0)
    upper = xp.minimum(prepared.scale * upper * (1.0 + slack(upper)), 1.0)
    upper = xp.where(prepared.valid, xp.where(prepared.possible, upper, 0.0), 1.0)
    return Ends(xp.where(prepared.possible, lower, 0.0), upper)
