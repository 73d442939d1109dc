"""Complex moments E[X^s ...] of rounds of 1-out-of-t allocation, their largest ratios cut off, by vertical lines.

Each of the t likelihood ratios Y_i is weighted by Q(rate Y_i), which falls smoothly from 1 to 0 (`Cut`): the weighted
law of X = (1/t) sum Y_i has exponential moments, and

    M(s) = E[X^s prod Q] = Gamma(s+1)/(2 pi i) int_{Re z = c} Phi(z) z^{-s-1} dz,    Phi(z) = E[e^{zX} prod Q],

for any c > 0. The inverse transform of z^{-s-1} is x^s/Gamma(s+1) on x > 0, so that the trapezoid sum of period P is
*exactly* (Poisson summation) M(s) plus its copies

    sum_{j>=1} E[(X + jP)^s prod Q] e^{-cjP}  +  sum_{j>=1} E[(X - jP)_+^s prod Q] e^{cjP},

each bounded by x^a <= (a/(e l))^a e^{l x}, a = Re s, for any l > 0: l < c on the left, l > c on the right. The code
that composes the rounds adds the mass lost by the weights to delta: at most P[some Y_i is taken away] per round, since
for weights w in [0, 1] E_Q[(X - K)_+] - E_Q[(X - K)_+ w] lies in [0, E_Q[X (1 - w)]].

Along the line M decays: shift all g_i by the same i phi sigma, which rotates X and every Y_i by the angle phi; the
density grows by e^{t (phi sigma)^2/2}, and |Q(w e^{i phi})| <= q_phi(w) = e^{-w cos phi} sum_{j<m} w^j/j!. So for
0 < phi < pi/2 and b > 0

    |M(a + ib)| <= e^{t (phi sigma)^2/2 - phi b} E[X^a prod q_phi],    q_phi(w) = e^{w (1 - cos phi)} Q(w).

A lane has one noise multiplier and one cutoff for all its rounds, whose lengths are similar: one transform of a step's
ratio is used for all of them.

Shapes: [L] lanes; [R] rounds, of which a lane has one or more; [K] tilts; [N] nodes of the line for a moment; [B]
heights of the moments wanted.
"""

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import SHARPNESS, Real, step_weights
from jaxacct.divergence.allocation._lines import log_of_transform
from jaxacct.divergence.allocation._log_gamma import log_gamma
from jaxacct.divergence.allocation._nodes import NodeSum, rounded_up
from jaxacct.divergence.allocation._real import high_mass, log_cut_transform, log_decay, rough_transform
from jaxacct.divergence.allocation._rule import Cut, Rule, cuts
from jaxacct.divergence.allocation._transform import INNER, transform
from jaxacct.special import ULP, complex_log

# They affect speed and tightness only: every error is bounded whatever their values.
_HALVINGS = 10  # of the range of the logarithm of the rate, some 10 wide
_COARSE = 36  # tilts at which saddle points are estimated
_FURTHER = np.geomspace(1.15, 6.0, 10)  # orders beyond the last of them, over it
_TILTS = np.array([-12.0, -8.0, -5.5, -4.0, -3.0, -2.0, -1.0, 0.0, 0.7, 1.4, 2.1, 2.8, 3.6, 4.4, 5.5, 7.0, 9.0, 12.0,
                   17.0, 24.0])  # certified tilts, in widths of the saddle point from it  # fmt: skip
_FURTHER_TILTS = np.array([1.5, 2.0])  # more of them, over the saddle point, which bound moments of larger orders
_LINES = slice(5, 15)  # those of `_TILTS` through which a line is tried
_MOST_TILT, _MIDDLE = 0.96, 0.75  # largest tilt over the rate; share of it taken where the saddle point is beyond
_ALIASES = 32.0  # in log: copies and the part beyond the last node are kept this far below the moment
_MOST_LOSS = 12.0  # in log: lines whose terms exceed the moment by more are not tried
_REACHES = np.array([0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.2, 3.2, 5.0, 8.0, 14.0])  # over a guess of the line's height
_MOST_NODES = 4096  # of a line: other methods take over where more are needed


class ClippedSaddles(NamedTuple):
    """Not certified: orders a [L, K], increasing, approximate log M(a) of one round, and their tilts."""

    orders: Real
    logs: Real
    tilts: Real  # l, for a round of mean length
    whole: Real  # approximate log E[e^{lX} prod Q]


class Clipping(NamedTuple):
    """A lane's cutoff: the clipped ratios, and a bound on how much clipping lowers delta over all rounds."""

    of: Rule
    cut: Cut
    dropped: Real  # [L]

    def at(self, lanes: Any) -> "Clipping":
        """`Clipping` for some of the lanes."""
        return Clipping(self.of.at(lanes), self.cut.at(lanes), self.dropped[lanes])


@functools.cache
def _rough_taken() -> tuple[Real, Real]:
    """Two arrays [800], not certified: log w over the relevant range, and log(1 - Q(w)) there."""
    log_w = np.linspace(-12.0, 6.0, 800)
    return log_w, np.log(np.maximum(step_weights(np.exp(log_w))[1], 1e-300))


def _rates(of: Rule, steps: Real, mass: Real) -> Real:
    """Rates [L] of the cutoffs that take away about `mass` [L] a round of `steps` [L]."""
    y, _, density = (x[:, ::2] for x in of.real())
    log_y, weight = np.log(y), 2.0 * density * (steps[:, None] - 1.0 + y)
    low, high = math.log(SHARPNESS) - np.log(of.y[:, -1]), np.full(len(steps), math.log(SHARPNESS))
    log_w, table = _rough_taken()
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        found = np.interp(middle[:, None] + log_y, log_w, table)
        less = np.einsum("lz,lz->l", np.exp(found), weight) < mass
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.exp(low)


def clipping(of: Rule, lane: Any, steps: Real, times: Real, mass: Real) -> Clipping:
    """`Clipping` (a class) that takes away about `mass` [L], for rounds [R] of `lane`, each run `times` times."""
    num = len(mass)
    uses = np.bincount(lane, times, num)
    mean = np.bincount(lane, times * steps, num) / uses
    cut = cuts(of, _rates(of, mean, mass / uses))
    one_mass, one_mean, error = high_mass(of, cut)
    # E_P[1 - prod Q] <= (t - 1) E[1 - Q] + E[Y (1 - Q)]
    dropped = (mean * one_mass + one_mean) * uses * (1.0 + error + 2.0**-40) + 1e-300
    return Clipping(of, cut, dropped)


def saddles(at: Clipping, steps: Real) -> ClippedSaddles:
    """`ClippedSaddles` (a class) for rounds of mean length `steps` [L]: M(a) by the saddle point in the tilt."""
    most, t = (at.cut.rate[:, 0] * steps)[:, None], steps[:, None]
    x = np.minimum(np.log(0.2 / most), -3.0)
    tilts = most / (1.0 + np.exp(-x - (5.0 - x) * np.linspace(0.0, 1.0, _COARSE)))
    log_step, mean, variance = rough_transform(at.of, at.cut, -tilts / t)
    order = np.maximum.accumulate(tilts * (1.0 + mean), axis=1)  # a + 1
    curve = tilts * tilts * variance / t
    whole = t * log_step
    logs = whole - order + order * np.log(order / tilts) - 0.5 * np.log1p(curve / order)  # over that of X = 1
    logs = np.where(order > 2.0005, np.maximum(logs, 1e-12), np.inf)
    # beyond the last saddle point by Markov's inequality
    further = (order[:, -1:] - 1.0) * _FURTHER
    beyond = further * (np.log(further / tilts[:, -1:]) - 1.0) + whole[:, -1:]
    tail = np.ones_like(further)
    return ClippedSaddles(
        np.concatenate([order - 1.0, further], axis=1),
        np.concatenate([logs, np.where(further > 1.0005, np.maximum(beyond, 1e-12), np.inf)], axis=1),
        np.concatenate([tilts, tilts[:, -1:] * tail], axis=1),
        np.concatenate([whole, whole[:, -1:] * tail], axis=1),
    )


def guesses(at: Clipping, steps: Real, known: ClippedSaddles, orders: Real) -> Real:
    """Approximate log M [L, A] at real orders [L, A], not certified.

    log X is replaced by the sum of the logarithms of 1 + W_i/t, which is close where X is near 1.
    """
    _, w, density = at.of.real()
    x = w / steps[:, None]
    exponents = orders[:, :, None] * np.log1p(np.maximum(x, -1.0 + 1e-300))[:, None]
    powers = np.expm1(np.minimum(exponents, 600.0)) - orders[:, :, None] * x[:, None]
    total = np.einsum("laz,lz->la", powers, at.cut.low[:, ::2] * density)
    found = steps[:, None] * np.log1p(np.maximum(total, 0.0))
    tilts, logs = (y[:, None, : -len(_FURTHER)] for y in (known.tilts, known.whole))
    markov = orders[:, :, None] * (np.log(orders[:, :, None] / tilts) - 1.0) + logs
    return np.maximum(np.fmin(found, markov.min(2)), 1e-12)


def saddle_of(at: Clipping, steps: Real, known: ClippedSaddles, order: Real) -> tuple[Real, Real, Real]:
    """Approximate tilt at the saddle point of M(order) [L], its width in log l, and the variance of X so tilted."""
    every = np.arange(len(order))
    above = np.clip((known.orders < order[:, None]).sum(1), 1, known.orders.shape[1] - 1)
    (x0, x1), (y0, y1) = ((np.log(x[every, above - 1]), np.log(x[every, above])) for x in (known.orders, known.tilts))
    share = np.clip((np.log(order) - x0) / np.where(x1 > x0, x1 - x0, 1.0), 0.0, 1.0)
    tilt = np.exp(y0 + share * (y1 - y0))
    variance = rough_transform(at.of, at.cut, -(tilt / steps)[:, None])[2][:, 0] / steps
    return tilt, 1.0 / np.sqrt(order + 1.0 + tilt * tilt * variance), variance


class Bounds(NamedTuple):
    """Certified transforms of the rounds [R] on the real axis, which bound moments and copies."""

    steps: Real  # [R]
    tilts: Real  # [R, K], l > 0, increasing
    logs: Real  # [R, K], upper bounds on log E[e^{lX} prod Q]

    def markov(self, orders: Real) -> Real:
        """Upper bounds [R, A, K] on log E[X^a prod Q] at real orders a > 0 [R, A]."""
        a = orders[:, :, None]
        return a * (np.log(a / self.tilts[:, None]) - 1.0) + self.logs[:, None]

    def at(self, rounds: Any) -> "Bounds":
        return Bounds(*(x[rounds] for x in self))


def bounds(at: Clipping, lane: Any, steps: Real, mean: Real, tilt: Real, width: Real) -> Bounds:
    """`Bounds` (a class) at tilts around the saddle point `tilt` [L] of a round of mean length `mean` [L]."""
    most = _MOST_TILT * at.cut.rate[:, 0] * mean
    middle = np.minimum(tilt, _MIDDLE * most)
    width = np.where(tilt > 0.3 * most, np.maximum(width, np.log(most / middle) / _TILTS[-1]), width)
    tilts = middle[:, None] * np.exp(width[:, None] * _TILTS)
    further = np.maximum(middle[:, None] * _FURTHER_TILTS, tilts[:, -1:])
    per_step = np.minimum(np.concatenate([tilts, further], axis=1), most[:, None]) / mean[:, None]
    logs = log_cut_transform(at.of, at.cut, per_step)
    tilts = per_step[lane] * steps[:, None]
    found = steps[:, None] * logs[lane]
    return Bounds(steps, tilts, found + 2.0**-30 * np.abs(found) + tilts)


class Lines(NamedTuple):
    """Vertical lines Re z = c of the lanes [L], over the lengths of rounds, and their numbers of nodes."""

    centre: Real  # c / t
    spacing: Real  # of the nodes, over t
    num_nodes: Any  # integers, multiples of INNER; 0 where no line is suitable


def lines(at: Clipping, lane: Any, known: Bounds, order: Real, height: Real, log_moment: Real, curve: Real) -> Lines:
    """`Lines` (a class) for moments of one order per lane [L], with imaginary parts up to `height` [L].

    Args:
      log_moment: [R], approximate log M(order).
      curve: [R], approximate variance of X, tilted to its saddle point.
    """
    a, h, num = order[lane], height[lane], len(order)
    excess = known.markov(a[:, None])[:, 0] - log_moment[:, None]  # [R, K]
    centre = known.tilts[:, _LINES]
    gap = known.tilts[:, None, :] - centre[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = (excess[:, None, :] + _ALIASES) / np.abs(gap)
    right = np.where(gap > 1e-3 * centre[:, :, None], needed, np.inf).min(2)
    left = np.where(gap < -1e-3 * centre[:, :, None], needed, np.inf).min(2)
    period = np.maximum(left, right)
    reach = 8.5 / np.sqrt(curve[:, None] + a[:, None] / centre**2) + (h / a)[:, None] * centre
    loss = excess[:, _LINES]
    nodes = period * reach / (2.0 * math.pi)
    price = np.maximum(nodes, 40.0) * np.exp(np.minimum(0.4 * np.maximum(loss - 3.0, 0.0), 300.0))
    price = np.where((loss < _MOST_LOSS) & (nodes < _MOST_NODES), price, np.inf)
    # all rounds of a lane share its line
    worst, spans = np.zeros((num, price.shape[1])), np.zeros((num, price.shape[1]))
    reaches = np.zeros((num, price.shape[1]))
    np.maximum.at(worst, lane, price)
    np.maximum.at(spans, lane, period * known.steps[:, None])
    np.maximum.at(reaches, lane, reach / known.steps[:, None])
    best, every = worst.argmin(1), np.arange(num)
    first = np.zeros(num, int)
    first[lane[::-1]] = np.arange(len(lane))[::-1]
    centre = centre[first, best] / known.steps[first]
    spacing = 2.0 * math.pi / spans[every, best]
    heights = reaches[every, best][:, None] * _REACHES  # over t
    # towards the line's end the moments need less precision
    share = np.linspace(0.0, 1.0, 5)
    top = log_gamma(a[:, None] + 1.0 + 1j * h[:, None] * share)[0].real + 0.5 * math.pi * h[:, None] * share
    wanted = log_moment - (top - _ALIASES * share**2).max(1) - _ALIASES
    fall = log_decay(at.of, at.cut, -centre, heights, is_rough=True)
    t = known.steps[:, None]
    logs = t * (fall[lane] + centre[lane, None]) - np.log(math.pi * a)[:, None] - a[:, None] * np.log(heights[lane] * t)
    enough = np.ones(heights.shape, bool)
    np.logical_and.at(enough, lane, logs <= wanted[:, None])
    height_of = heights[every, np.where(enough.any(1), enough.argmax(1), len(_REACHES) - 1)]
    count = INNER * np.ceil((height_of / spacing + 0.5) / INNER)
    usable = np.isfinite(worst[every, best]) & np.isfinite(count) & (count <= _MOST_NODES)
    return Lines(centre, spacing, np.where(usable, count, 0).astype(int))


class ClippedMoments(NamedTuple):
    """log |M(a + ib)| [R, B], its phase and the relative error of M at b = k step; upper bounds on log M [R, A]."""

    logs: Real
    phase: Real
    relative: Real
    alias: Real


class LineSums:
    """M(s) of rounds [R] without the largest ratios, by sums over the lines of their lanes.

    Args:
      at: the clipped ratios, lanes [L].
      lane: [R], integers, the lane of each round.
      known: transforms of the rounds on the real axis.
      line: the lines of the lanes.
      num: the number of nodes of each line.
    """

    def __init__(self, at: Clipping, lane: Any, known: Bounds, line: Lines, num: int):
        t = known.steps[:, None]
        self._known, self._t = known, t
        self._spacing = line.spacing[lane, None] * t
        self._centre = line.centre[lane, None] * t
        ends = (num - 0.5) * line.spacing[:, None]
        fall = log_decay(at.of, at.cut, -line.centre, ends)
        self._log_beyond = t * fall[lane] + self._centre  # [R, 1]
        self._first = ends[lane] * t
        log_step, slip = log_of_transform(*transform(at.of, at.cut, -line.centre, line.spacing, num))
        log_base = t * log_step[lane]
        z = self._centre - 1j * self._spacing * np.arange(num)
        log_z, length = complex_log(z), np.abs(z)
        relative = np.expm1(np.minimum(t * slip[lane], 700.0)) + 8.0 * ULP * (8.0 + np.abs(log_base) + 3.0 * length)
        terms = log_base + z - log_z + np.log(self._spacing / (2.0 * math.pi))
        # both halves of the line
        halves = ((log_z.conj(), log_z), (terms.conj(), terms), (relative, relative))
        wholes = (np.concatenate([left, right[:, 1:]], axis=1) for left, right in halves)
        self._nodes = [NodeSum(*of) for of in zip(*wholes, strict=True)]

    def __call__(self, order: Real, step: Real, count: int, alias_orders: Real) -> ClippedMoments:
        """`ClippedMoments` (a class) at s = order + ib, b = k `step`, k < `count`, and at real orders [R, A]."""
        every = zip(self._nodes, order.tolist(), step.tolist(), strict=True)
        sums = (nodes.powers(a, spacing, count) for nodes, a, spacing in every)
        found = self._moments(order[:, None], step[:, None] * np.arange(count), sums)
        # far from the line by Markov's inequality
        sums = (nodes.real(orders) for nodes, orders in zip(self._nodes, alias_orders, strict=True))
        log_real, _, error = self._moments(alias_orders, 0.0, sums)
        markov = self._known.markov(alias_orders).min(2)
        return ClippedMoments(*found, np.maximum(np.fmin(rounded_up(log_real, error), markov), 0.0))

    def _moments(
        self, orders: Real, b: Real | float, sums: Iterable[tuple[Any, Real, Real]]
    ) -> tuple[Real, Real, Real]:
        """log |M|, its phase and the relative error of M at s = orders + ib, from the rounds' sums over their nodes."""
        total, error, log_scale = (np.stack(x) for x in zip(*sums, strict=True))
        log_factor, factor_error = log_gamma(orders + 1.0 + 1j * b)
        size, scale = np.maximum(np.abs(total), 1e-300), log_factor.real + log_scale
        tail = self._tail(orders) + 0.5 * math.pi * b
        relative = (error + np.exp(np.minimum(tail - log_scale, 700.0))) / size + factor_error
        relative = relative + ULP * (16.0 + 4.0 * (np.abs(log_factor.real) + np.abs(log_scale)))
        relative = relative + np.exp(np.minimum(self._copies(orders) - scale - np.log(size), 700.0))
        return scale + np.log(size), np.angle(total) + log_factor.imag, relative

    def _tail(self, orders: Real) -> Real:
        """log of an upper bound on the part of the sums beyond the nodes, at real orders [R, A]."""
        return self._log_beyond - np.log(math.pi * orders) - orders * np.log(self._first)

    def _copies(self, orders: Real) -> Real:
        """log of bounds [R, A] on the sums of the copies at real orders."""
        away = self._known.tilts - self._centre
        gaps = np.abs(away) * (2.0 * math.pi / self._spacing)
        logs = self._known.markov(orders) + (-gaps - np.log(-np.expm1(-gaps)))[:, None]
        right, left = (np.where((away * sign > 0.0)[:, None], logs, np.inf).min(2) for sign in (1.0, -1.0))
        return np.logaddexp(right, left)


def log_fall(at: Clipping, lane: Any, known: Bounds, order: Real, heights: Real, log_moment: Real) -> Real:
    """Upper bounds [R, B] on log |M(order + ib)/M(order)| for every b >= `heights` [R, B].

    `log_moment` [R] is at most log M(order).

    The phi used is the one that is best if the moment is ignored, which makes little difference: prod q_phi is prod Q
    e^{k X} with k = rate t (1 - cos phi), and by Hoelder's inequality with m = l/(2k) >= 1,

        E[X^a e^{kX} prod Q] <= M(a)^{1 - 1/m} E[X^a e^{(l/2) X} prod Q]^{1/m},

    where the last expectation is at most (2a/(e l))^a E[e^{lX} prod Q].
    """
    t, sigma, rate = known.steps[:, None], at.of.sigma[lane], at.cut.rate[lane]
    turn = np.minimum(heights / (t * (sigma**2 + rate)), 1.2)
    k = rate * t * 2.0 * np.sin(0.5 * turn) ** 2
    share = 2.0 * k[:, :, None] / known.tilts[:, None]
    rest = known.markov(order[:, None])[:, 0] + order[:, None] * math.log(2.0) - log_moment[:, None]
    with np.errstate(invalid="ignore"):
        moment = np.where(share <= 1.0, share * rest[:, None], np.inf).min(2)
    parts = 0.5 * t * (sigma * turn) ** 2, turn * heights, np.maximum(moment, 0.0)
    return parts[0] - parts[1] + parts[2] + 2.0**-50 * (1.0 + sum(parts))
