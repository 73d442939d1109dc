"""Choice of samples and lines for the moments of the add direction (`jaxacct.divergence.allocation._added_lanes`).

Shapes: [L] lanes; [R] rounds; [K] points of the real axis; [A] orders.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._real import log_decay, log_transform, rough_transform
from jaxacct.divergence.allocation._rule import Rule
from jaxacct.divergence.allocation._transform import INNER

# They affect speed and tightness only: every error is bounded whatever their values.
_NUM_ORDERS = 36  # orders among which the line of a composition is chosen
_POWERS = (0.4, 60.0)  # their range, less 1, in units of 1 over the standard deviation of the composed loss
_NEAR, _FAR = 30, 14  # points of the real axis at which transforms are bounded: for the samples, and beyond them
_MARGIN = 36.0  # in log: the step of the samples keeps the copies of M this far below M
TOP = 1.5  # samples are used for orders up to this over the line's, less 1
_DEPTH = 30.0  # in log: samples are taken until they are this far below the largest
_DIGITS = 28.0  # in log: the truncated part of a line is this far below its largest value
# lines tried, over the order
_CENTRES = np.array([32.0, 16.0, 8.0, 4.0, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.11, 0.07, 0.04, 0.02])
_MOST_LOSS = 16.0  # in log: how much errors may grow away from the argument at which a line is sharpest
_SPARED = 0.5  # in log: further growth of errors that is accepted for fewer nodes
_REACHES = np.array([0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.2, 3.2, 5.0, 8.0, 14.0])  # over a guess of the line's height
_MOST_NODES, _MOST_SAMPLES = 4096, 1024  # of a line, and of both profiles together: other methods take over beyond
# powers of the moments in Markov's bounds of the remove direction: every power up to the first, and some larger ones,
# up to the last number of standard deviations of X over its variance
_MOST_POWER, _NUM_HIGHER, _HIGHEST = 32, 12, 14.0
_NUM_SERIES = 48  # terms of the series for a higher power; its later terms are bounded together
# Upper bound on how far rounding lowers the logarithms of the moments. Where a coefficient is a double the parts of its
# exponent are below 1700, as log i! + i log t < 1000: those of a product of coefficients err by 4 ULP of 3400 in all,
# 32 sums and products of 32 terms by 36 ULP each, logarithms and their sums by 4 ULP of 3000: 27,000 ULP, or 3e-12.
_SERIES_ERROR = 1e-11
_LEAST_SERIES = 1e-280  # smaller coefficients are not used: the loss of larger ones by underflow is below 1e-300


class AddedSaddles(NamedTuple):
    """Not certified: orders a [L, K], increasing, and approximate log M(a) of a round of mean length."""

    orders: Real
    logs: Real


def saddles(of: Rule, steps: Real, scale: Real) -> AddedSaddles:
    """`AddedSaddles` (a class) for rounds of `steps` [L]; `scale` [L] approximates the composed loss's deviation.

    E X^-p is the integral of u^{p-1} E e^{-uX} over Gamma(p): the saddle point u of either, beside that at X = 1.
    """
    u = np.geomspace(*_POWERS, _NUM_ORDERS) / scale[:, None]
    log_total, mean, variance = rough_transform(of, None, u / steps[:, None])
    p = u * (1.0 + mean)
    logs = p * np.log(u / p) - u + p + steps[:, None] * (log_total + u / steps[:, None])
    logs = logs + 0.5 * np.log(p / np.maximum(p - u * u * variance / steps[:, None], 1e-3 * p))
    rising = p > np.concatenate([np.zeros((len(p), 1)), np.maximum.accumulate(p, axis=1)[:, :-1]], axis=1)
    logs = np.where((log_total > -46.0) & rising, np.maximum(logs, 1e-12), np.inf)
    return AddedSaddles(1.0 + np.maximum.accumulate(p, axis=1), logs)


class Guide(NamedTuple):
    """Transforms of rounds [R] on the real axis, and the bounds they give on delta, add direction, at knots [R, K]."""

    steps: Real  # [R]
    c: Real  # increasing
    logs: Real  # upper bounds on log E e^{-c }
    epsilon: Real  # increasing
    log_delta: Real  # upper bounds on log delta, add direction, from that epsilon on
    powers: Real  # [R, J], integers, from 2 on
    log_markov: Real  # [R, J]: upper bounds on log delta + (j - 1) eps, remove direction, by each power j

    def log_upper(self, epsilon: Real) -> Real:
        """Upper bounds on log delta [R, A], add direction, at `epsilon` [R, A] >= 0: the least of all knots' bounds."""
        x = np.expm1(-epsilon)[:, :, None]
        found = self.c[:, None] * x + (self.logs - np.log(self.c) - 1.0)[:, None]
        slack = 2.0**-50 * (64.0 + np.abs(self.logs) + self.c)
        return np.minimum(epsilon + (found + slack[:, None]).min(2), 0.0)

    def at(self, rounds: Any) -> "Guide":
        """`Guide` for some of the rounds."""
        return Guide(*(x[rounds] for x in self))


def spread_of(of: Rule, lane: Any, steps: Real) -> Real:
    """Upper bounds on E|X - 1| [R]."""
    return np.minimum(np.sqrt(np.expm1(np.minimum(of.sigma[lane, 0] ** -2.0, 600.0)) / steps), 2.0)


def last_knot(sigma: Real, tau: Real, top: Real) -> Real:
    """Float arrays of one shape: epsilons beyond which the geometric mean alone makes delta e^{top eps} tiny.

    X is at least the geometric mean of the ratios: P[X < e^-eps] decays like e^{-(eps - mean)^2 / (2 tau^2)}.
    """
    top, mean = np.maximum(top, 1.0), 0.5 / sigma**2
    return mean + tau * (tau * top + np.sqrt((tau * top) ** 2 + 2.0 * top * mean + 225.0))


def guide(of: Rule, lane: Any, steps: Real, mean: Real, order: Real) -> Guide:
    """`Guide` (a class) for moments of `order` [L], for rounds [R] of about `mean` [L] steps."""
    spread = spread_of(of, np.arange(len(mean)), mean)
    top = TOP * (order - 1.0)
    near = np.maximum(top + 9.0 / spread, 4.0)
    last = last_knot(of.sigma[:, 0], 1.0 / (of.sigma[:, 0] * np.sqrt(mean)), top)
    furthest = np.maximum(mean * of.sigma[:, 0] ** 2 * last * np.exp(last), 1.5 * near)
    low = np.minimum(0.3 / spread, 0.2 * near)
    c = np.concatenate(
        [
            low[:, None] * (near / low)[:, None] ** np.linspace(0.0, 1.0, _NEAR),
            near[:, None] * (furthest / near)[:, None] ** np.linspace(0.0, 1.0, _FAR + 1)[1:],
        ],
        axis=1,
    )
    v = c / mean[:, None]
    logs = log_transform(of, v)[lane]
    mean_x = rough_transform(of, None, v)[1][lane]
    c = v[lane] * steps[:, None]
    logs = steps[:, None] * logs
    # delta = e^eps E(e^-eps - X)_+ at x = e^-eps - 1, and (a)_+ <= e^{ca}/(e c)
    x = np.clip(mean_x + 1.0 / c, np.expm1(-600.0), -1e-9)
    epsilon = np.maximum.accumulate(-np.log1p(x), axis=1)
    bound = epsilon + c * np.expm1(-epsilon) + logs - np.log(c) - 1.0
    bound = bound + 2.0**-50 * (64.0 + np.abs(logs) + c)
    log_delta = np.minimum.accumulate(np.minimum(bound, 0.0), axis=1)
    return Guide(steps, c, logs, epsilon, log_delta, *_markov(of.sigma[lane, 0], steps, spread[lane]))


def _markov(sigma: Real, steps: Real, spread: Real) -> tuple[Real, Real]:
    """Powers j [R, J], and upper bounds on log((1/j) (1 - 1/j)^(j-1) E X^j), Markov's bound on delta e^{(j-1) eps}."""
    low = np.arange(2.0, _MOST_POWER + 1.0)
    top = np.maximum(_HIGHEST / spread[:, None] / (_MOST_POWER + 1.0), 1.0)
    high = np.round((_MOST_POWER + 1.0) * top ** np.linspace(0.0, 1.0, _NUM_HIGHER))
    powers = np.concatenate([np.broadcast_to(low, (len(steps), len(low))), high], axis=1)
    logs = np.concatenate([_low_moments(sigma, steps), _high_moments(sigma, steps, high)], axis=1)
    return powers, logs - np.log(powers) + (powers - 1.0) * np.log1p(-1.0 / powers)


def _high_moments(sigma: Real, steps: Real, j: Real) -> Real:
    """Upper bounds on log E X^j [R, J], integer j > `_NUM_SERIES` / 2, where the law of X is narrow.

    E X^j = j! t^-j [z^j] f(z)^t, f(z) = sum_i E Y^i z^i / i!, of which only the terms to i = j matter, none of them
    negative: the coefficient is at most f(r)^t r^-j. At r = j/t, by Stirling's bound,
    E X^j <= sqrt(2 pi j) e^(1/(12 j) - j) f(r)^t. The logarithm of the ratio of a term of f to the one before is convex
    in i: if the terms decrease at the first one left out, none of the later ones exceeds the larger of that one and the
    one at i = j.
    """
    i, rate = np.arange(1.0, _NUM_SERIES + 2.0), sigma[:, None] ** -2.0
    log_r = np.log(j / steps[:, None])

    def term(i: Real, log_r: Real, rate: Real, log_factorial: Real) -> Real:
        return np.exp(0.5 * i * (i - 1.0) * rate + i * log_r - log_factorial)

    terms = term(i, log_r[:, :, None], rate[:, :, None], np.cumsum(np.log(i)))
    terms = np.where(i <= j[:, :, None], terms, 0.0)
    last = term(j, log_r, rate, j * (np.log(j) - 1.0) + 0.5 * np.log(2.0 * math.pi * j))  # of at most j!
    rest = np.maximum(j - _NUM_SERIES, 0.0) * np.maximum(terms[:, :, -1], last)
    falls = (i[-1] * rate + log_r - np.log(i[-1] + 1.0) < 0.0) | (j <= _NUM_SERIES)
    grown = steps[:, None] * np.log1p(terms[:, :, :-1].sum(2) + np.where(j > _NUM_SERIES, rest, 0.0))
    logs = 0.5 * np.log(2.0 * math.pi * j) + 1.0 / (12.0 * j) - j + grown
    return np.where(falls, logs + _SERIES_ERROR * (1.0 + 0.1 * (j + grown)), np.inf)


def _low_moments(sigma: Real, steps: Real) -> Real:
    """Upper bounds on log E X^j [R, J], j = 2, 3, .. to `_MOST_POWER`.

    With c_i = E Y^i / (i! t^i) the moments are j! d_j, d_n = (1/n) sum_i ((t+1) i - n) c_i d_{n-i}: for n <= t + 1 no
    term is negative, and for larger n there is no bound.
    """
    powers = np.arange(_MOST_POWER + 1.0)
    factorials = np.cumsum(np.log(np.maximum(powers, 1.0)))
    c = np.exp(0.5 * powers * (powers - 1.0) / sigma[:, None] ** 2 - factorials - powers * np.log(steps)[:, None])
    d = np.zeros_like(c)
    d[:, 0] = 1.0
    for n in range(1, _MOST_POWER + 1):
        weights = ((steps[:, None] + 1.0) * powers[1 : n + 1] - n) / n
        d[:, n] = (weights * c[:, 1 : n + 1] * d[:, n - 1 :: -1][:, :n]).sum(1)
    j = powers[2:]
    logs = np.log(d[:, 2:]) + factorials[2:]
    known = np.isfinite(logs) & (d[:, 2:] > _LEAST_SERIES) & (j <= steps[:, None] + 1.0)
    return np.where(known, logs + _SERIES_ERROR, np.inf)


def other_rate(known: Guide, a: Real) -> tuple[Real, Real]:
    """Rates and logs [R, A, J] of bounds e^{log} e^{-rate eps} on delta e^{-a eps}, remove direction, at `a` [R, A]."""
    rates = a[:, :, None] + known.powers[:, None] - 1.0
    return rates, np.broadcast_to(known.log_markov[:, None], rates.shape)


class SamplePlan(NamedTuple):
    """Samples and lines of the lanes [L]: step in epsilon, numbers of samples on both sides of 0; centres and nodes."""

    step: Real
    own: Any  # integers: numbers of samples of the add direction's profile, from 0
    other: Any  # integers: the same for the remove direction's
    centre: Real  # c / t
    spacing: Real  # of the nodes, over t
    num_nodes: Any  # integers, multiples of INNER; 0 where no line is suitable


def plan(of: Rule, lane: Any, known: Guide, order: Real, height: Real) -> SamplePlan:
    """`SamplePlan` (a class) for moments of one order per lane [L], with imaginary parts up to `height` [L]."""
    num, t = len(order), known.steps
    a = order[lane]
    spread = spread_of(of, lane, t)
    step = 2.0 * math.pi / (height[lane] + math.sqrt(2.0 * _MARGIN) * of.sigma[lane, 0] * np.sqrt(t))
    tilted = known.log_delta + TOP * (a - 1.0)[:, None] * known.epsilon
    most = tilted.argmax(1)[:, None]
    below = (np.arange(tilted.shape[1]) > most) & (tilted < tilted.max(1)[:, None] - _DEPTH)
    last = np.where(below.any(1), below.argmax(1), tilted.shape[1] - 1)
    own = known.epsilon[np.arange(len(t)), last]
    rate, log = (x[:, 0] for x in other_rate(known, a[:, None]))
    other = np.minimum((_DEPTH + np.log(a * spread)) / a, ((_DEPTH + np.log(a)[:, None] + log) / rate).min(1))
    other = np.maximum(other, step)
    step, own, other = _least(lane, step, num), -_least(lane, -own, num), -_least(lane, -other, num)
    tries = order[:, None] * _CENTRES
    # errors are e^{c x} times those at 0, and are weighted by e^{p eps} or e^{-a eps}
    right = np.maximum(tries * np.expm1(other)[:, None] - (order * other)[:, None], 0.0)
    losses = np.maximum(right, _largest_left(tries, (order - 1.0)[:, None], own[:, None]))
    best = (losses <= losses.min(1, keepdims=True) + _SPARED).argmax(1)  # the further right, the fewer nodes
    loss, centre = losses[np.arange(num), best], tries[np.arange(num), best]
    # periods and heights, over t
    x, c = np.expm1(other)[lane], (centre[lane])[:, None]
    floor = np.log(spread) - _DIGITS - loss[lane]
    gap = known.c - 1.2 * c
    ahead = known.logs + (known.c - c) * x[:, None] - np.log(known.c) - floor[:, None]
    ahead = np.where(gap > 0.0, ahead / np.where(gap > 0.0, known.c - c, 1.0), np.inf).min(1)
    period = (np.log(spread + x + 60.0 / c[:, 0]) - floor) / c[:, 0]
    period = np.maximum(period, np.minimum(ahead, (x + 1.0) * (1.0 + 1e-6)))
    spans, first = np.zeros(num), np.zeros(num, int)
    np.maximum.at(spans, lane, period * t)
    first[lane[::-1]] = np.arange(len(lane))[::-1]
    per_step, spacing = centre / t[first], 2.0 * math.pi / spans
    heights = ((_DIGITS + loss + 6.0) ** 0.5 * 1.45 / spread[first] / t[first])[:, None] * _REACHES
    fall = log_decay(of, None, per_step, heights, is_rough=True)
    logs = t[:, None] * fall[lane] - np.log(math.pi * heights[lane] * t[:, None])
    enough = np.ones(heights.shape, bool)
    np.logical_and.at(enough, lane, logs <= floor[:, None])
    reach = heights[np.arange(num), np.where(enough.any(1), enough.argmax(1), len(_REACHES) - 1)]
    count = INNER * np.ceil((reach / spacing + 0.5) / INNER)
    samples = np.ceil(own / step) + 2.0, np.ceil(other / step) + 2.0
    usable = np.isfinite(count) & (count <= _MOST_NODES) & (loss < _MOST_LOSS) & enough.any(1)
    usable = usable & (samples[0] + samples[1] <= _MOST_SAMPLES)
    own_count, other_count = (np.where(usable, x, 2.0).astype(int) for x in samples)
    return SamplePlan(step, own_count, other_count, per_step, spacing, np.where(usable, count, 0).astype(int))


def _least(lane: Any, x: Real, num: int) -> Real:
    """The least `x` [R] in each of `num` lanes, where `lane` [R] is the lane of each entry."""
    out = np.full(num, np.inf)
    np.minimum.at(out, lane, x)
    return out


def _largest_left(c: Real, p: Real, end: Real) -> Real:
    """The largest c (e^-eps - 1) + p eps for eps from 0 to `end`; it is attained at an end, by convexity in eps."""
    at_end = c * np.expm1(-end) + p * end
    return np.maximum(at_end, 0.0)
