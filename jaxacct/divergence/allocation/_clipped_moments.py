"""Complex moments E[X^s ...] of one round of 1-out-of-t allocation without its largest ratios, by one vertical line.

Each of the t likelihood ratios Y_i is weighted by Q(rate Y_i), which falls smoothly from 1 to 0 (`Cutoff`): what is
left of the law of X = (1/t) sum Y_i has exponential moments, and

    M(s) = E[X^s prod Q] = Gamma(s+1)/(2 pi i) int_{Re z = c} Phi(z) z^{-s-1} dz,    Phi(z) = E[e^{zX} prod Q],

for any c > 0. The inverse transform of z^{-s-1} is x^s/Gamma(s+1) on x > 0, so that the trapezoid of period P is
*exactly* (Poisson summation) M(s) and its copies

    sum_{j>=1} E[(X + jP)^s prod Q] e^{-cjP}  +  sum_{j>=1} E[(X - jP)_+^s prod Q] e^{cjP},

each bounded by x^a <= (a/(e l))^a e^{l x}, a = Re s, for any l > 0: l < c on the left, l > c on the right. What the
weights take away is charged to delta by whoever composes: at most P[some Y_i is taken away] a round, since for weights
w in [0, 1] E_Q[(X - K)_+] - E_Q[(X - K)_+ w] lies in [0, E_Q[X (1 - w)]].

Along the line M falls: turn all g_i by the same i phi sigma, which turns X and every Y_i by phi; the density grows by
e^{t (phi sigma)^2/2}, and |Q(w e^{i phi})| <= q_phi(w) = e^{-w cos phi} sum_{j<m} w^j/j!. So for 0 < phi < pi/2, b > 0

    |M(a + ib)| <= e^{t (phi sigma)^2/2 - phi b} E[X^a prod q_phi],    q_phi(w) = e^{w (1 - cos phi)} Q(w).
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import (
    SHARPNESS,
    Complex,
    Cutoff,
    Grid,
    Real,
    cutoff,
    grid,
    step_weights,
)
from jaxacct.divergence.allocation._lines import MAX_NODES, log_of_transform
from jaxacct.divergence.allocation._real import height_of_decay, high_mass, log_cut_transform, log_decay, real_rule
from jaxacct.divergence.allocation._transform import NODE_BLOCK, centred_transform
from jaxacct.special import ULP, complex_exp, complex_log, cos_and_sin, log_up, rows_times, rows_times_rows

# All of these steer speed and tightness only: every error is bounded, whatever they are.
_NUM_TILTS = 120  # tilts l at which the transform is taken
_HEIGHTS = 2.0 ** np.linspace(-1.0, 4.0, 16)  # over a first guess of the line's height: where its decay is bounded
_ALIASES = 34.0  # copies are e^-34 of the moment
_SHARES = np.array([1.0, 0.8, 0.6, 0.45, 0.33, 0.25, 0.18, 0.12, 0.08, 0.05])  # c tried, over the order
_MOST_LOSS = 12.0  # in log: terms larger than the moment by more are not tried
_MOST_LENGTH = 4096.0  # nodes
_HALVINGS = 9  # of the range of the logarithm of the rate, some 10 wide
_GROWTH = 32.0  # in log: by which terms of a block of heights may change beside each other
_SMALL = 100.0  # in log: terms this far below the largest are not told apart


class Clipping(NamedTuple):
    """One round of 1-out-of-t whose ratios are weighted by Q, and its transform on the real axis."""

    of: Grid
    t: float
    cut: Cutoff
    dropped: float  # at least P[1 - prod Q], the record in one of the t steps
    tilts: Real  # [K], l > 0, increasing
    logs: Real  # [K], at least log E[e^{lX} prod Q]

    @property
    def falls(self) -> float:
        """log |M(a + ib)/M(a)| is about -falls b^2/2, or less: see `ClippedMoments.log_decay`."""
        return 1.0 / (self.t * (self.of.sigma**2 + self.cut.rate))


@functools.cache
def rough_taken() -> tuple[Real, Real]:
    """Two arrays [800]: log w at places that matter, and log(1 - Q(w)) there. Steering only."""
    log_w = np.linspace(-12.0, 6.0, 800)
    return log_w, np.log(np.maximum(step_weights(np.exp(log_w))[1], 1e-300))


@functools.lru_cache(maxsize=64)
def clipping(noise_multiplier: float, num_steps: float, mass: float) -> Clipping:
    """The `Clipping` (a class) that takes away a probability of about `mass`."""
    of, t = grid(noise_multiplier), float(num_steps)
    y, _, density = real_rule(of)
    # Q falls around Y = m / rate; what is taken away grows with the rate
    log_y, weight, (log_w, log_high) = np.log(np.maximum(y, 1e-300)), density * (t - 1.0 + y), rough_taken()
    low_log, high_log = math.log(SHARPNESS / float(y[-1])), math.log(SHARPNESS)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low_log + high_log)
        taken = float(np.exp(np.interp(middle + log_y, log_w, log_high)) @ weight)
        low_log, high_log = (middle, high_log) if taken < mass else (low_log, middle)
    rate = math.exp(low_log)
    cut = cutoff(of, rate)
    one_mass, one_mean, error = high_mass(of, cut)
    # E_P[1 - prod Q] <= (t - 1) E[1 - Q] + E[Y (1 - Q)]
    dropped = (t * one_mass + one_mean) * (1.0 + error + 2.0**-40) + 1e-300
    tilts = np.geomspace(min(1e-3 * rate, 1e-2 / t), 0.95 * rate, _NUM_TILTS) * t
    logs = t * log_cut_transform(of, cut, -tilts / t)
    return Clipping(of, t, cut, dropped, tilts, logs + 2.0**-30 * np.abs(logs) + tilts)


def markov(orders: Real, at: Clipping) -> Real:
    """Upper bounds [A, K] on log E[X^a prod Q] at real orders a > 0 [A], by the tilts l [K] of `at`."""
    a = orders[:, None]
    return a * (np.log(a / at.tilts) - 1.0) + at.logs


def log_moment_guess(of: Grid, weights: Real | float, num_steps: float, orders: Real) -> Real:
    """About log E[X^a prod Q] [A] at real orders a, weights Q at the nodes of `real_rule`: steering only.

    As if log X were the sum of the logarithms of 1 + W_i/t: exact at t = 1, and close where X is near 1.
    """
    _, w, density = real_rule(of)
    x = w / num_steps
    logs = np.log1p(np.maximum(x, -1.0 + 1e-300))
    exponents = orders[:, None] * logs
    powers = np.expm1(np.minimum(exponents, 600.0)) - orders[:, None] * x
    found = num_steps * np.log1p(np.maximum(rows_times(powers, weights * density), 0.0))
    return np.where((exponents * (density > 0) < 600.0).all(1), found, np.inf)


def clipped_guess(at: Clipping, orders: Real) -> Real:
    """About log M [A] of what is left of a round, at real orders [A]: steering only."""
    return np.minimum(log_moment_guess(at.of, at.cut.low[::2], at.t, orders), markov(orders, at).min(1))


class ClippedLine(NamedTuple):
    """A vertical line Re z = c for the moments of a round, over t: rounds of other lengths may share it."""

    centre: float  # c/t
    period: float  # that of the nodes z, times t
    nodes: float  # about how many it takes


def plan(at: Clipping, order: float, height: float) -> ClippedLine | None:
    """`ClippedLine` for moments of one order, imaginary parts to `height`; None where it would be too long."""
    bound = markov(np.array([order]), at)[0]
    least = float(clipped_guess(at, np.array([order]))[0])
    spread = math.sqrt(math.expm1(min(at.of.s**2, 700.0)) / at.t)
    best, best_price = None, math.inf
    for c in order * _SHARES:
        rest = float(np.interp(math.log(c), np.log(at.tilts), at.logs - at.tilts))
        here = order * (math.log(order / c) - 1.0) + c + rest - least
        if c > at.tilts[-2] or c < at.tilts[2] or here > _MOST_LOSS:
            continue
        period = _period(at, bound - least, c)
        nodes = period * (8.0 / spread + height) / (2.0 * math.pi)
        price = max(nodes, 256.0) * math.exp(0.4 * max(here - 3.0, 0.0))
        if nodes <= _MOST_LENGTH and price < best_price:
            best, best_price = ClippedLine(float(c) / at.t, period * at.t, nodes), price
    return best


def _period(at: Clipping, bound: Real, c: float) -> float:
    """The least period for which the copies are small beside the moment, which `bound` [K] is relative to."""
    gaps = at.tilts - c
    needed = (bound + _ALIASES) / np.maximum(np.abs(gaps), 1e-300)
    return max(float(needed[gaps > 0].min()), float(needed[gaps < 0].min()))


def lengthened(at: Clipping, order: float, line: ClippedLine) -> ClippedLine:
    """The `ClippedLine` (a class): `line` with a period that is long enough for this round as well."""
    bound = markov(np.array([order]), at)[0] - float(clipped_guess(at, np.array([order]))[0])
    c = line.centre * at.t
    if not at.tilts[0] < c < at.tilts[-1]:
        return line._replace(period=math.inf)
    return line._replace(period=max(line.period, _period(at, bound, c) * at.t))


@functools.lru_cache(maxsize=32)
def _transform(sigma: float, rate: float, centre: float, spacing: float, num: int) -> tuple[Complex, Real]:
    of = grid(sigma)
    return centred_transform(of, cutoff(of, rate), centre, spacing, num)


# Bernoulli numbers B_2n / (2n (2n - 1)), n = 1..10, of Stirling's series.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188,
             -174611 / 125400)  # fmt: skip


def log_gamma(z: Complex) -> tuple[Complex, Real]:
    """A tuple of two arrays of the shape of `z`: log Gamma(z), Re z > 0, and a bound on its absolute error.

    By z + 12 in Stirling's series: its remainder after ten terms is at most the eleventh times sec(arg z / 2)^22, below
    1e-18 there. The imaginary part is right but for whole turns.
    """
    total, moved = np.zeros_like(z), z + 12.0
    for i in range(0, 12, 4):  # |z|^4 is a double
        total = total + complex_log((z + i) * (z + (i + 1)) * ((z + (i + 2)) * (z + (i + 3))))
    log_moved = complex_log(moved)
    size = 2.0 + np.abs(log_moved) * (12.0 + np.abs(moved)) + np.abs(moved)
    inverse, series = 1.0 / moved, np.zeros_like(z)
    for term in reversed(_STIRLING):
        series = series * inverse * inverse + term
    main = (moved - 0.5) * log_moved - moved + 0.5 * math.log(2.0 * math.pi) + series * inverse
    return main - total, 16.0 * ULP * size


class Nodes(NamedTuple):
    """Terms of a sum over nodes: sum_n e^{log_terms_n} z_n^{-s}."""

    log_z: Complex  # [N]
    log_terms: Complex  # [N]
    relative: Real  # [N], the relative errors of the terms

    def real(self, orders: Real) -> tuple[Real, Real, Real]:
        """The sums at real orders [A], which must be real, over e^log_scale; their errors; and log_scale, [A] each."""
        sizes = self.log_terms.real - orders[:, None] * self.log_z.real
        shift = sizes.max(1)
        keep = (sizes - shift[:, None]).max(0) > -_SMALL
        keep = keep | ~keep.any()
        log_z, log_terms = self.log_z[keep], self.log_terms[keep]
        terms = np.exp(np.maximum(sizes[:, keep] - shift[:, None], -_SMALL))
        total = (terms * cos_and_sin(log_terms.imag - orders[:, None] * log_z.imag)[0]).sum(1)
        own = self.relative[keep] + ULP * (64.0 + len(log_z) + 8.0 * np.abs(log_terms))
        rest = 8.0 * ULP * (rows_times(terms, np.abs(log_z)) * orders + np.abs(shift) * terms.sum(1))
        return total, rows_times(terms, own) + rest + 2.0 * math.exp(-_SMALL) * len(keep), shift

    def powers(self, order: float, step: float, count: int, turn: float) -> tuple[Complex, Real, Real]:
        """The sum at s = a + ib, b = k `step`, k < `count`, over e^log_scale; its error; and log_scale, [count] each.

        A block of b shares a scale, and within it e^{-ib (log z - i turn)} is multiplied on: `turn` only keeps that in
        range. Terms below e^-_SMALL of the largest of their block count as that, or as nothing.
        """
        base = self.log_z - 1j * turn
        # in a block of b the terms change by at most e^_GROWTH beside each other; not at all, if all nodes lie on a ray
        inner = 1 if count == 1 else 1 << (((max(count, 2) - 1).bit_length() + 1) // 2)
        while inner > 1 and inner * step * float(np.abs(base.imag).max()) > _GROWTH:
            inner //= 2
        outer = -(-count // inner)
        first = self.log_terms - order * self.log_z - 1j * step * inner * np.arange(outer)[:, None] * base
        shift = first.real.max(1)
        keep = (first.real - shift[:, None]).max(0) > -_SMALL
        keep = keep | ~keep.any()  # all of them where nothing is a number
        base, first = base[keep], first[:, keep]
        fine = complex_exp(-1j * step * np.arange(inner)[:, None] * base)
        first.real = np.maximum(first.real - shift[:, None], -_SMALL)
        coarse = complex_exp(first)
        total = rows_times_rows(coarse, fine).reshape(-1)[:count]
        # of the exponents, of products and of sums in any order
        small, size = np.abs(fine), np.abs(coarse)
        log_terms = np.abs(self.log_terms[keep]) + order * np.abs(self.log_z[keep])
        own = self.relative[keep] + ULP * (64.0 + len(base) + 8.0 * (log_terms + np.abs(shift).max()))
        errors = np.stack([rows_times_rows(size * x, small) for x in (own, 8.0 * ULP * (2.0 + np.abs(base)))]).reshape(
            2, -1
        )
        b = step * np.arange(count)
        lost = 2.0 * math.exp(-_SMALL) * float(small.max()) * len(keep)
        return total, errors[0, :count] + errors[1, :count] * b + lost, np.repeat(shift, inner)[:count] + turn * b


def _rounded_up(log_value: Real, relative: Real) -> Real:
    """At least the logarithm of what is known to a relative error; inf where that is large."""
    return np.where(relative < 0.5, log_up(log_value + np.log1p(relative), 16), np.inf)


class ClippedMoments:
    """M(s) of one round, the largest ratios taken away, for s = a + ib near one order a.

    Args:
      at: what is left of the round.
      order: a.
      height: the largest b that will be wanted.
      line: see `plan`.
      num: the least number of nodes.
    """

    def __init__(self, at: Clipping, order: float, height: float, line: ClippedLine, num: int = NODE_BLOCK):
        t = at.t
        c, self._period = line.centre * t, line.period / t
        self._at, self._c = at, c
        spacing = 2.0 * math.pi / line.period * t
        # |Gamma(s + 1)| is about |s|^(a + 1/2) e^{-b pi/2}
        top = (order + 0.5) * math.log(math.hypot(order + 1.0, height)) - order
        wanted = float(markov(np.array([order]), at).min()) - top - _ALIASES
        guess = t * float(height_of_decay(at.of, np.array(-_ALIASES / t))) + height
        heights = guess * _HEIGHTS
        tails = t * log_decay(at.of, at.cut, -c / t, heights / t) + c
        logs = tails - math.log(math.pi * order) - order * np.log(heights)
        good = np.flatnonzero(logs <= wanted)
        reach = float(heights[good[0] if len(good) else -1])
        num = max(num, NODE_BLOCK * math.ceil(min(reach / spacing + 0.5, MAX_NODES) / NODE_BLOCK))
        self.num_nodes = num
        self._first = (num - 0.5) * spacing
        self._log_beyond = float(tails[heights <= self._first].min(initial=math.inf))
        transform = _transform(at.of.sigma, at.cut.rate, -line.centre, 2.0 * math.pi / line.period, num)
        log_step, slip = log_of_transform(*transform)
        z = c - 1j * spacing * np.arange(num)  # u = -z/t; its rounding is booked
        log_base = t * log_step
        relative: Any = np.expm1(np.minimum(t * slip, 700.0))
        relative = relative + 8.0 * ULP * (8.0 + np.abs(log_base) + np.abs(z))
        relative = relative + 8.0 * ULP * np.abs(z) * 2.0
        log_z = np.log(z)
        terms = log_base + z - log_z + math.log(spacing / (2.0 * math.pi))
        halves = [(log_z.conj(), terms.conj(), relative), (log_z[1:], terms[1:], relative[1:])]
        self._nodes = Nodes(*(np.concatenate(x) for x in zip(*halves, strict=True)))

    def _copies(self, orders: Real) -> Real:
        """log of bounds [A] on the sums of the copies at real orders [A]."""
        gaps = np.abs(self._at.tilts - self._c) * self._period
        with np.errstate(divide="ignore"):
            logs = markov(orders, self._at) - gaps - np.log(-np.expm1(-gaps))
        right = self._at.tilts > self._c
        return np.logaddexp(logs[:, right].min(1, initial=math.inf), logs[:, ~right].min(1, initial=math.inf))

    def __call__(self, order: float, step: float, count: int) -> tuple[Real, Real, Real]:
        """log |M|, its phase, and the relative error of M, at s = order + ib, b = k `step`, k < `count`: [count] each.

        Where the relative error is 1 or more, the value is of no use.
        """
        b = step * np.arange(count)
        turn = math.atan2(0.5 * float(b[-1]), self._c)
        total, error, log_scale = self._nodes.powers(order, step, count, turn)
        log_factor, factor_error = log_gamma(order + 1.0 + 1j * b)
        # the part of the line beyond the nodes
        tail = self._log_beyond - math.log(math.pi * order) - order * math.log(self._first) + 0.5 * math.pi * b
        size = np.maximum(np.abs(total), 1e-300)
        scale = log_factor.real + log_scale
        relative = (error + np.exp(np.minimum(tail - log_scale, 700.0))) / size + factor_error
        relative = relative + ULP * (16.0 + 4.0 * (np.abs(log_factor.real) + np.abs(log_scale)))
        relative = relative + np.exp(np.minimum(self._copies(np.array([order])) - scale - np.log(size), 700.0))
        return scale + np.log(size), np.angle(total) + log_factor.imag, relative

    def real(self, orders: Real) -> Real:
        """At least log M [A] at real orders [A]; inf where nothing is known."""
        total, error, log_scale = self._nodes.real(orders)
        log_factor, factor_error = log_gamma(orders + 1.0 + 0j)
        tail = self._log_beyond - np.log(math.pi * orders) - orders * math.log(self._first)
        size, scale = np.maximum(np.abs(total), 1e-300), log_factor.real + log_scale
        relative = (error + np.exp(np.minimum(tail - log_scale, 700.0))) / size + factor_error
        relative = relative + ULP * (16.0 + 4.0 * (np.abs(log_factor.real) + np.abs(log_scale)))
        relative = relative + np.exp(np.minimum(self._copies(orders) - scale - np.log(size), 700.0))
        return _rounded_up(scale + np.log(size), relative)

    def log_decay(self, order: float, height: float, log_moment: float) -> float:
        """At least log |M(order + ib)/M(order)|, for every b >= `height`; `log_moment` is at most log M(order).

        The phi that is best without the moment, which changes little: prod q_phi is prod Q e^{k X} with
        k = rate t (1 - cos phi), and by Hoelder's inequality, m = l/(2k) >= 1,

            E[X^a e^{kX} prod Q] <= M(a)^{1 - 1/m} E[X^a e^{(l/2) X} prod Q]^{1/m},

        the last of which is at most (2a/(e l))^a E[e^{lX} prod Q].
        """
        at, (t, sigma) = self._at, (self._at.t, self._at.of.sigma)
        turn = min(height / (t * (sigma**2 + at.cut.rate)), 1.2)
        k = at.cut.rate * t * 2.0 * math.sin(0.5 * turn) ** 2
        share = 2.0 * k / at.tilts
        rest = markov(np.array([order]), at)[0] + order * math.log(2.0) - log_moment
        with np.errstate(invalid="ignore"):
            moment = np.where(share <= 1.0, share * rest, np.inf).min()
        parts = 0.5 * t * (sigma * turn) ** 2, turn * height, max(float(moment), 0.0)
        return parts[0] - parts[1] + parts[2] + 2.0**-50 * (1.0 + sum(parts))
