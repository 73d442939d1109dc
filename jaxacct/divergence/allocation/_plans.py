"""Choice of the lines that give E(X-1-x)_+ and E(x - (X-1))_+ near an argument, with relative precision.

A line is a vertical contour Re z = c with its nodes (`jaxacct.divergence.allocation._lines`). The left tail has
exponential moments: one line through the saddle point suffices (`plan_add`). The right tail of an average of lognormal
variables has none. So every step is split smoothly, 1 = Q(Y) + (1 - Q)(Y) (`Cut`). With all steps weighted by Q the
measure can be tilted, and a line with c < 0 is used; the rest, of small mass, is the difference of two transforms, on a
line with c > 0 (`plan_remove`). The terms of both are about as large as the value itself, whatever its size, and the
difference decays along the line as fast as the smoothness of the cutoff allows, however narrow the bulk of X is
compared with its tail. Below, the share Q of a step is called low, and the share 1 - Q high.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import (
    SHARPNESS,
    Real,
    largest_beyond,
    partial_exponential,
    step_weights,
)
from jaxacct.divergence.allocation._lines import (
    MAX_NODES,
    BoundedValue,
    Copies,
    Trapezoids,
    difference_line,
    num_nodes,
    plain_line,
)
from jaxacct.divergence.allocation._real import (
    height_of_decay,
    high_mass,
    log_cut_transform,
    log_decay,
    log_high_decay,
    log_transform,
    rough_transform,
)
from jaxacct.divergence.allocation._rule import Cut, Rule, cuts, one_rule, profile_shape
from jaxacct.special import ULP, rows_times

# All of these affect speed and tightness only: every line's errors are bounded, however it was chosen.
_DIGITS = 13.0 * math.log(10.0)  # in log: copies and tails are this far below the terms
_MAX_LENGTH = math.pi * MAX_NODES  # longest line tried, as period times height: half of what MAX_NODES allow
# Choosing a line trades its number of nodes against the size of its terms, which is what rounding is relative to.
# Terms up to e^_SPARE above the least possible are free; beyond, a line with f times fewer nodes may have terms
# f^(1/_PRICE) = f^1.25 times larger.
_SPARE, _PRICE = 3.0, 0.8
_RATES = 2.0 ** np.linspace(-3.5, 3.0, 14)  # cutoffs tried: they fall around Y = t (x + 2 E|X-1|) divided by these
_TILTS = np.geomspace(0.02, 0.9, 14)  # tilts -c tried, as shares of t times the rate, up to which the moments exist
_FAR = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0])  # over the high line's c: points whose transforms bound its copies
_HEIGHTS = 2.0 ** np.linspace(-1.0, 4.0, 16)  # over a first guess of the line's height: heights of the decay bounds


class Prefix(NamedTuple):
    """The data common to all lines for one noise multiplier and one prefix of an epoch."""

    of: Rule  # of one lane
    n: float  # steps taken
    t: float  # steps of the epoch
    spread: float  # upper bound on E|X - 1|

    @property
    def reach(self) -> float:
        """Float: an upper bound on 1 - X."""
        return self.n / self.t

    @property
    def tails(self) -> tuple[float, float, float]:
        """P[g < the first node], and P[g > the last one] where g has the mean 0 and 1/sigma."""
        return float(self.of.left[0, 0]), float(self.of.right[0][0, 0]), float(self.of.right[1][0, 0])

    def log_transform(self, c: Real) -> Real:
        """Upper bounds on log E e^{-c (X-1)} at each `c` >= 0 [K]."""
        found: Real = self.n * log_transform(self.of, c[None] / self.t)[0]
        return found

    def line(
        self, make: Any, cut: Cut | None, centre: float, period: float, num: int, log_tail: float, copies: Copies
    ) -> Trapezoids:
        """`Trapezoids` on the line through one float `centre`, by `make` (`plain_line` or `difference_line`)."""
        steps = np.array([[self.n]]), np.array([[self.t]])
        along = np.array([centre / self.t]), np.array([2.0 * math.pi / (period * self.t)])
        found: Trapezoids = make(self.of, cut, steps, *along, num, np.array([[log_tail]]), copies)
        return found


def prefix(noise_multiplier: float, num_steps: float, steps_done: float) -> Prefix:
    """`Prefix`, floats: after `steps_done` steps of an epoch of `num_steps`.

    E|X - 1| is at most the standard deviation of X, and at most 2 n/t.
    """
    spread = math.sqrt(math.expm1(min(noise_multiplier**-2.0, 700.0)) * steps_done) / num_steps
    least = min(spread, 2.0 * steps_done / num_steps)
    return Prefix(one_rule(noise_multiplier, profile_shape(noise_multiplier)), steps_done, num_steps, least)


class Remove(NamedTuple):
    """The parts of E(X-1-x)_+ = low(x) + mean - x mass + high(x), x >= 0; a line not needed is replaced by a bound."""

    low: Trapezoids | None  # all steps weighted by Q
    low_centres: Real  # [K], c < 0 of Chernoff bounds on low
    low_logs: Real  # [K], log of the transform of low at these c
    high: Trapezoids | None  # the rest: at least one high step
    share: float  # upper bound on mean - x mass + high(x)
    mass: float  # of the measure behind `high`
    mean: float  # E(X-1) of that measure
    mass_error: float  # relative error of both

    def __call__(self, x: Real) -> BoundedValue:
        """The bracket [1, J] of E(X-1-x)_+ at arguments `x` [1, J]."""
        zero = np.zeros_like(x)
        low = high = BoundedValue(zero, zero, zero, zero)
        if self.low is not None:
            low = self.low(x)
        else:
            logs = self.low_logs + self.low_centres * x[:, :, None] - np.log(np.abs(self.low_centres)) - 1.0
            low = low._replace(above=np.exp(np.minimum(logs, 700.0)).min(2))
        if self.high is None:
            high = high._replace(above=zero + self.share)
        else:
            line = self.high(x)
            value, slope = line.value + self.mean - x * self.mass, line.slope - self.mass
            rounding = self.mass_error * (self.mean + x * self.mass)
            high = BoundedValue(value, slope, line.above + rounding, line.below + rounding)
        return BoundedValue(*(a + b for a, b in zip(low, high, strict=True)))


def _high_moments(at: Prefix, mass: Real, mean: Real) -> tuple[Real, Real]:
    """The mass and E(X-1) of the measure of at least one high step, from E[1 - Q] and E[W (1 - Q)]."""
    log_low = np.log1p(-np.minimum(mass, 1.0 - 2.0**-53))
    return -np.expm1(at.n * log_low), at.reach * np.exp((at.n - 1.0) * log_low) * mean


def _past_all(at: Prefix, x: float) -> float:
    """A period beyond which no copy lies ahead, where the measure ends at -reach."""
    return (x + at.reach) * (1.0 + 1e-6)


def _share(at: Prefix, mass: Any, mean: Any) -> Any:
    """Upper bound on E[(X-1)_+; some step high] <= n E[|W_1|/t + E|X-1|; step 1 high], from the same expectations."""
    return 1.01 * (at.reach * (mean + 2.0 * mass) + at.n * mass * at.spread)


def plan_remove(at: Prefix, x: float) -> Remove:
    """`Remove` (two lines, or bounds on them) for arguments near one float `x` >= 0.

    Of the cutoff's rates and the tilts that are tried, those whose lines have about the fewest nodes are chosen; larger
    terms count as more nodes (_PRICE).
    """
    of, n, t = at.of, at.n, at.t
    _, right, further = at.tails
    y, w, density = (x[0] for x in of.real())
    rates = SHARPNESS / (t * (x + 2.0 * at.spread)) * _RATES
    low, high = step_weights(rates[:, None] * y)
    masses, means = rows_times(high, density) + right, rows_times(high, w * density) + further
    mass, mean = _high_moments(at, masses, means)
    log_high = np.log(mass * (x + at.spread) + mean)
    tilts = _TILTS * rates[:, None] * t
    tilted = tilts[:, :, None] / t * w
    growth = rows_times(np.exp(np.log(low)[:, None, :] + tilted) - 1.0 - tilted, density)
    # where the window ends the bound may be crude
    end, least = np.minimum(rates * of.y[0, -1], 700.0)[:, None], 1.0 - tilts / (t * rates[:, None])
    growth = growth + 2.0 * right * largest_beyond(end, np.log(partial_exponential(end)), least)
    logs = n * np.log1p(np.maximum(growth, -0.999))
    log_low = logs - tilts * x - np.log(2.0 * tilts)
    best = float(np.maximum(log_low.min(1), log_high).min())
    floor = best - _DIGITS

    # the length of the low line for each rate and tilt
    period_low = _low_periods(at, x, tilts, logs, floor)
    height_low = t * height_of_decay(float(of.sigma[0, 0]), np.minimum(floor - log_low, -1.0) / n)
    length_low = period_low * height_low
    price = np.exp(np.minimum(_PRICE * np.maximum(log_low - best - _SPARE, 0.0), 300.0))
    length_low = np.where(np.isfinite(logs) & (length_low < _MAX_LENGTH), length_low * price, np.inf)
    tilt_index = length_low.argmin(1)
    # and of the high line for each rate
    centre = min(1.0 / at.spread, 2.0 / x if x > 0 else math.inf)
    far = centre * _FAR
    far_logs = at.log_transform(far)
    ahead_high = float(((far_logs + far * x - np.log(far) - floor)[1:] / (far[1:] - centre)).min())
    period_high = np.maximum((np.maximum(log_high - floor, 0.0) + 4.0) / centre, min(ahead_high, _past_all(at, x)))
    height_high = 12.0 * rates * t
    without_low, without_high = log_low.min(1) < floor, np.log(_share(at, masses, means)) < floor
    length = np.where(without_low, 0.0, length_low[np.arange(len(rates)), tilt_index])
    length = length + np.where(without_high, 0.0, period_high * height_high)
    length = length * np.exp(np.minimum(_PRICE * np.maximum(log_high - best - _SPARE, 0.0), 300.0))
    i = int(np.where(np.isnan(length), np.inf, length).argmin())

    cut, j = cuts(of, rates[i : i + 1]), int(tilt_index[i])
    tilts, logs = tilts[i], n * log_cut_transform(of, cut, tilts[i : i + 1] / t)[0]
    high = cut.high[0, ::2] * density
    share = _share(at, high.sum() + right, high @ w + further)
    low_line = high_line = None
    one_mass, one_mean, one_error = (float(x[0]) for x in high_mass(of, cut))
    whole_mass, whole_mean = _high_moments(at, np.asarray(one_mass), np.asarray(one_mean))
    if not without_low[i]:
        copies = Copies(1.0, at.spread, -tilts[None, j + 1 :], logs[None, j + 1 :], math.inf)
        period = float(_low_periods(at, x, tilts, logs, floor)[j])
        low_line = _low_line(at, cut, -float(tilts[j]), period, x, floor, height_low[i, j], copies)
    if not without_high[i]:
        excess = min(at.spread, float(whole_mass) * at.reach)
        copies = Copies(float(whole_mass), excess, far[None, 1:], far_logs[None, 1:], at.reach)
        log_top = float(far_logs[0])
        high_line = _high_line(at, cut, centre, float(period_high[i]), x, floor, height_high[i], log_top, copies)
    return Remove(
        low=low_line,
        low_centres=-tilts,
        low_logs=logs,
        high=high_line,
        share=float(share),
        mass=float(whole_mass),
        mean=float(whole_mean),
        mass_error=one_error * (1.0 + (n - 1.0) * one_mass / max(1.0 - one_mass, ULP)) + 16.0 * ULP,
    )


def _low_periods(at: Prefix, x: float, tilts: Real, logs: Real, floor: float) -> Real:
    """Periods [.., U] at which the copies on low lines of `tilts` [.., U] are about e^floor.

    `logs` [.., U] are logarithms of the measure's transform at these tilts: larger tilts bound the copies ahead.
    """
    gap = tilts[..., None, :] - tilts[..., None]
    ahead = (logs - tilts * x - np.log(2.7 * tilts) - floor)[..., None, :]
    ahead = np.where(gap > 0, ahead / np.where(gap > 0, gap, 1.0), np.inf).min(-1)
    return np.maximum((np.log(at.spread + 40.0 / tilts) - floor) / tilts, ahead)


def _low_line(
    at: Prefix, cut: Cut, centre: float, period: float, x: float, floor: float, height: float, copies: Copies
) -> Trapezoids:
    """The line for all steps low, up to about `height`, with enough nodes for its tail to be below e^floor."""
    heights = height * _HEIGHTS
    decay = at.n * log_decay(at.of, cut, np.array([centre / at.t]), heights[None] / at.t)[0]
    num, log_tail = num_nodes(period, decay, heights, floor - centre * x)
    return at.line(plain_line, cut, centre, period, num, log_tail, copies)


def _high_line(
    at: Prefix,
    cut: Cut,
    centre: float,
    period: float,
    x: float,
    floor: float,
    height: float,
    log_top: float,
    copies: Copies,
) -> Trapezoids:
    """The line for at least one high step; `log_top` is log |Phi| of the whole law at `centre`."""
    # |A^n - (A - H)^n| <= n |H| max^(n-1), and |A|, |A - H| are largest on the real axis
    heights = height * _HEIGHTS
    decay = log_high_decay(at.of, cut, np.array([centre / at.t]), heights[None] / at.t)[0]
    decay = decay + math.log(at.n) + (at.n - 1.0) / at.n * log_top + 2.0**-50 * (8.0 + abs(log_top))
    num, log_tail = num_nodes(period, decay, heights, floor - centre * x)
    return at.line(difference_line, cut, centre, period, num, log_tail, copies)


class Saddles(NamedTuple):
    """Guide for the left tail: transforms at K points c of the real axis, and the arguments whose lines they suit."""

    c: Real  # [K], > 0
    logs: Real  # [K], log E e^{-c }
    x: Real  # [K], the argument whose saddle point is c
    log_value: Real  # [K], approximate log E(x - (X-1))_+ at x, by the saddle point


def saddles(at: Prefix) -> Saddles:
    """`Saddles`, arrays [K]: the guide for `plan_add`. Only its `logs` also enter error bounds, as Chernoff bounds."""
    c = np.geomspace(0.3 / at.spread, 1e6 * at.t, 128)
    logs = at.log_transform(c)
    log_total, mean, variance = (x[0] for x in rough_transform(at.of, None, c[None] / at.t))
    x = at.reach * mean + 2.0 / c
    curvature = at.n / at.t**2 * variance + 2.0 / c**2
    value = c * x + logs - 2.0 * np.log(c) - 0.5 * np.log(2.0 * math.pi * curvature)
    keep = (log_total > -46.0) & (x > -at.reach) & np.isfinite(value)
    return Saddles(c[keep], logs[keep], x[keep], value[keep])


def plan_add(at: Prefix, guide: Saddles, x: float) -> Trapezoids:
    """`Trapezoids` for E(x - (X-1))_+ at arguments near one float `x` <= 0, chosen by `guide`."""
    j = int(np.abs(guide.x - x).argmin())
    centre, floor = float(guide.c[j]), float(guide.log_value[j]) - _DIGITS
    far = guide.c > 1.2 * centre
    copies = Copies(1.0, at.spread, guide.c[None, far], guide.logs[None, far], at.reach)
    ahead = (guide.logs[far] + guide.c[far] * x - np.log(guide.c[far]) - floor) / (guide.c[far] - centre)
    period = (math.log(at.spread + 60.0 / centre) - floor) / centre
    period = max(period, min(float(ahead.min(initial=math.inf)), _past_all(at, x)))
    level = min(floor - centre * x - float(guide.logs[j]), -1.0) / at.n
    heights = at.t * height_of_decay(float(at.of.sigma[0, 0]), np.array(level)) * _HEIGHTS
    decay = at.n * log_decay(at.of, None, np.array([centre / at.t]), heights[None] / at.t)[0]
    num, log_tail = num_nodes(period, decay, heights, floor - centre * x)
    return at.line(plain_line, None, centre, period, num, log_tail, copies)
