"""The divergence of the pairs of `jaxacct.divergence.clones._multi_component` in a single sum, for many reports.

Given m, the expectation is convex in c, the number of reports that belong to the rest. Its value at the mean of c is a
lower bound, and exact where c is deterministic (k-ary randomized response when nobody else holds the two values,
CL-S10). The contribution of the spread of c is given by

    E[(x_a - u(c))_+] = (x_a - u(E c))_+ + (t g / m) E[(c - c_a)_+ or (c_a - c)_+],   u(c_a) = x_a,

with the first expectation for a above the threshold at E c and the second for a below it. The added term is small
except at a few a. It is bounded there by Scarf's inequality (V the variance of c, d = |c_a - E c|),
E[(c - c_a)_+] <= (sqrt(V + d^2) - d)/2, or by the integral of Bernstein's inequality, exp(-h)/h',
h = d^2/(2 V + 2 d/3). This gives an upper bound whose relative distance from the exact value is O(1/n).
"""

from __future__ import annotations

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.divergence.clones._multi_component import (
    ComponentPair,
    CountCut,
    cut_at,
    enclosure,
    mass_outside,
    prepare,
    window_start,
)
from jaxacct.special import log_down, solve_decreasing
from jaxacct.special._binomial import log_binomial_pmf
from jaxacct.special._fair_coins import SMALL_TOSSES, log_fair_pmf, small_tail_ratios, tail_ratios
from jaxacct.special._namespace import cond, fori_loop, stop_gradient, xp

# Values of a on either side of the threshold at which the spread of c is bounded one by one; further ones are bounded
# together. With fewer the bounds are certified too, only looser.
_MOST_NEIGHBOURS = 256.0


def k_ary_elsewhere_pair(local_epsilon: jax.Array, num_categories: jax.Array) -> ComponentPair:
    """The pair [L] of k-ary randomized response where no other record holds the two values in question; k >= 3.

    It gives a lower bound on the divergence for the worst data set (CL-S10): with the other k - 2 values lumped
    together, every other report is a clone with probability 2r, r = 1/(E+k-1), or else belongs to the rest. It is exact
    for k = 3.
    """
    growth = xp.expm1(local_epsilon)
    single = 1.0 / (growth + num_categories)
    rest = (growth + num_categories - 2.0) * single
    slope = 2.0 * (num_categories - 2.0) / (growth * (growth + num_categories - 2.0))
    return ComponentPair(2.0 * single, rest, xp.zeros_like(rest), growth * single, slope, local_epsilon)


def _fair_tails(k: jax.Array, m: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(P[a = k], P[a >= k], E[(a - k)_+]) for a ~ Bin(m, 1/2), each of the shape of k and m; m/2 < k, 0 for k > m."""
    inside = k <= m
    m, k = xp.where(inside, m, SMALL_TOSSES), xp.where(inside, k, SMALL_TOSSES)
    few = m < SMALL_TOSSES
    tail, excess = tail_ratios(xp.where(few, SMALL_TOSSES, k), xp.where(few, SMALL_TOSSES, m))

    def with_few(ratios: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        small = small_tail_ratios(k, m)
        return xp.where(few, small[0], ratios[0]), xp.where(few, small[1], ratios[1])

    tail, excess = cond(xp.any(few), with_few, lambda ratios: ratios, (tail, excess))
    pmf = xp.where(inside, xp.exp(log_fair_pmf(k, m)), 0.0)
    return pmf, pmf * tail, pmf * excess


def _profile(
    epsilon: jax.Array, num_reports: jax.Array, pair: ComponentPair, num_clones: int
) -> tuple[Ends[jax.Array], jax.Array]:
    """(the bounds of `mean_component_delta`, d delta / d epsilon), each [L]; the derivative only guides a search."""
    pre = prepare(epsilon, num_reports, pair)
    trials = pre.trials
    start = window_start(trials * pre.clone_prob, trials, num_clones)
    clones = start + xp.arange(num_clones, dtype=xp.int32).astype(xp.float64)[:, None]
    inside = clones <= trials
    clones = xp.minimum(clones, trials)
    m, rest_trials = clones + 1.0, trials - clones
    mean_rest = rest_trials * pre.share
    cut = cut_at(pre, m, mean_rest)
    pmf, tail, excess = _fair_tails(cut.first, m)
    # m/2 E[(x - u)_+ | m] = E[(a - cut)_+]
    value, rounding = xp.maximum(cut.above, 0.0) * tail + excess, cut.rounding * tail
    spread = _spread(pre.half_drift, mean_rest * pre.share_rest, cut, m, pmf, tail)
    weight = xp.where(inside, xp.exp(log_binomial_pmf(clones, trials, pre.clone_prob, pre.not_clone)), 0.0) * 2.0 / m
    lower = xp.sum(weight * xp.maximum(value - rounding, 0.0), axis=0)
    upper = xp.sum(weight * xp.minimum(value + rounding + spread, 0.5 * m * pre.half_gap), axis=0)
    ends = start, start + (num_clones - 1.0)
    upper = upper + pre.half_gap * mass_outside(*ends, trials, pre.clone_prob, pre.not_clone)
    # (1 + e^eps)(x - t v), v = 1/s + g c/m, has the derivative e^eps (x - v)
    level = 0.5 * (m / xp.tanh(0.5 * pair.local_epsilon) + pair.slope * mean_rest)
    slope = xp.sum(weight * ((cut.first - 0.5 * m - level) * tail + excess), axis=0) * pair.weight * xp.exp(epsilon)
    return enclosure(pre, lower, upper), slope


def mean_component_delta(
    epsilon: jax.Array, num_reports: jax.Array, pair: ComponentPair, *, num_clones: int
) -> Ends[jax.Array]:
    """Lower and upper ends [L] of delta at `epsilon` >= 0: the module's formula, by one sum over the number of clones.

    Feldman, McMillan & Talwar 2021, Theorem 4.1, both directions. The work is proportional to `num_clones` (static, the
    first of `component_windows`). For k-ary randomized response the relative distance of the ends is 2e-3 at n = 2e4
    and delta = 1e-7, and 1e-5 at n = 1e6. They are 0 and 1 where an argument is out of range.
    """
    return _profile(epsilon, num_reports, pair, num_clones)[0]


def mean_component_epsilon(
    log_delta: jax.Array,
    num_reports: jax.Array,
    pair: ComponentPair,
    highest: jax.Array,
    *,
    num_clones: int,
) -> jax.Array:
    """The least epsilon [L] found in [0, highest] at which delta's upper end is at most exp(log_delta); inf if none is.

    It is an upper bound, since delta was evaluated at the answer (`mean_component_delta`).

    Args:
      log_delta: log of the target delta, [L].
      num_reports: n, [L].
      pair: the pair that dominates the reports, lanes [L].
      highest: the end of the search interval, [L].
      num_clones: static, the first of `component_windows`.
    """

    def excess(
        epsilon: jax.Array, target: jax.Array, num_reports: jax.Array, *fields: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        bounds, slope = _profile(epsilon, num_reports, ComponentPair(*fields), num_clones)
        upper = xp.maximum(bounds.upper, 1e-300)
        return xp.log(upper) - target, slope / upper

    return solve_decreasing(excess, xp.zeros_like(highest), highest, log_delta, num_reports, *pair)


def mean_component_epsilon_below(
    log_delta: jax.Array,
    num_reports: jax.Array,
    pair: ComponentPair,
    highest: jax.Array,
    *,
    num_clones: int,
) -> jax.Array:
    """The largest epsilon [L] found in [0, highest] where the lower end of delta is at least exp(log_delta); 0 if none.

    It is a lower bound: no smaller epsilon has that delta. Arguments as for `mean_component_epsilon`.
    """

    def shortfall(
        minus: jax.Array, target: jax.Array, num_reports: jax.Array, *fields: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        bounds, slope = _profile(-minus, num_reports, ComponentPair(*fields), num_clones)
        lower = xp.maximum(bounds.lower, 1e-300)
        log_lower = log_down(xp.log(lower), 6)
        return xp.where(bounds.lower > 0.0, target - log_lower, xp.inf), slope / lower

    minus = solve_decreasing(shortfall, -highest, xp.zeros_like(highest), log_delta, num_reports, *pair)
    return xp.where(xp.isfinite(minus), -minus, 0.0)


def _spread(
    half_drift: jax.Array, variance: jax.Array, cut: CountCut, m: jax.Array, pmf: jax.Array, tail: jax.Array
) -> jax.Array:
    """Upper bounds [W, L] on m/2 times the contribution of the spread of c to the expectation given m.

    This is the sum over a of P[a] h D(|a - cut| / h), with h the half drift and D(d) the bound on E[(c - E c - d)_+].
    P[a] is log-concave. It is replaced by its geometric continuation, which lies above it, from the first contributing
    value k upward and from k - 1 downward (k = m + 1 where the threshold at the mean of c is m or more).
    """
    some = (half_drift > 0) & (variance > 0)
    scale, k = xp.where(half_drift > 0, half_drift, 1.0), cut.first
    variance = xp.where(some, variance, 1.0)

    def deviation(steps: jax.Array) -> jax.Array:
        d = steps / scale
        scarf = 0.5 * variance / (xp.sqrt(variance + d * d) + d)
        # Below half a standard deviation Scarf's bound is the smaller one, and Bernstein's slope would vanish.
        far = xp.clip(d, 0.5 * xp.sqrt(variance), 1e100)
        wide = variance + far / 3.0
        slope = far * (2.0 * variance + far / 3.0) / (2.0 * wide * wide)
        bernstein = xp.exp(-0.5 * far * far / wide) / slope
        return scale * xp.minimum(scarf, bernstein)

    up, down = xp.maximum(m - k, 0.0) / (k + 1.0), (k - 1.0) / (m - k + 2.0)
    below = xp.where(k > m, xp.exp(-m * xp.log(2.0)), pmf * k / xp.maximum(m - k + 1.0, 1.0))
    over, under = xp.maximum(cut.above - cut.rounding, 0.0), xp.maximum(1.0 - cut.above - cut.rounding, 0.0)
    reach = xp.max(xp.where(some, stop_gradient(9.0 * scale * xp.sqrt(variance)), 0.0))
    count = xp.clip(xp.ceil(reach) + 2.0, 1.0, _MOST_NEIGHBOURS).astype(xp.int32)

    def add(j: jax.Array, state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        total, above, below = state
        steps = j.astype(xp.float64)
        total = total + above * deviation(over + steps) + below * deviation(under + steps)
        return total, above * up, below * down

    total, _, _ = fori_loop(0, count, add, (xp.zeros_like(pmf), pmf, below))
    beyond = count.astype(xp.float64)
    total = total + tail * deviation(over + beyond) + deviation(under + beyond)
    return xp.where(some, total * (1.0 + 2.0**-40), 0.0)
