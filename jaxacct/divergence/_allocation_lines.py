"""Certified sums along vertical lines: E(x - (X-1))_+ and E(X-1-x)_+ of an average X of likelihood ratios.

X - 1 = (1/t) sum_{j<=n} W_j. For Re z = c > 0, and likewise for Re z = c < 0,

    E(x - (X-1))_+ = (1/2 pi i) int e^{zx} Phi(z) z^-2 dz,   E(X-1-x)_+ = the same,   Phi(z) = E e^{-z(X-1)}.

With step h and period P = 2 pi/h the trapezoid is *exactly*, for every law and every positive measure of X,

    sum_j e^{-|c| j P} E(a + jP)_+,   a = x - (X-1) or X-1-x:                                                  (1)

the value and its shifted copies, all >= 0 (Poisson summation).

The left tail has exponential moments: one line through the saddle gives `add`. The right tail has none, so every step
is split smoothly, 1 = Q(Y) + (1 - Q)(Y): `low`, all steps weighted by Q, is tilted by c < 0; the rest, of small mass,
is a line with c > 0 of the difference of two transforms. Both amplitudes are near the value itself, so that it comes
out with relative precision, whatever its size.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from jaxacct.divergence._allocation_transform import (
    NODE_BLOCK,
    SHARPNESS,
    ULP,
    Complex,
    Cutoff,
    Grid,
    Real,
    centred_transform,
    cutoff,
    height_of_decay,
    high_mass,
    log_decay,
    log_high_decay,
    log_real_transform,
    real_rule,
    step_weights,
    weighted_transform,
)

MAX_NODES = 2**14
_MAX_LENGTH = math.pi * MAX_NODES  # period times height, with something to spare
_DIGITS = 13.0 * math.log(10.0)  # aliases and tails are kept this far below the terms
_PRICE = 0.7  # the factor in length worth a factor in the size of the terms, hence in rounding: a power


class Bracket(NamedTuple):
    """A sum, its derivative in x, and how far the true value may lie above and below it; float64 [J]."""

    value: Real
    slope: Real
    above: Real
    below: Real


@dataclasses.dataclass(frozen=True)
class Line:
    """The trapezoid (1) on one line: z [N], its terms e^{log_scale} terms at x = 0, and what bounds its errors."""

    period: float
    z: Complex
    terms: Complex
    log_scale: float
    relative_error: Real
    log_tail: float  # of what lies beyond the last node, at x = 0
    shift: float  # the terms are e^{z (x + shift)}
    mass: float  # of the measure, and a bound on its E(a)_+ at x = 0
    excess: float
    far_centres: Real  # further from 0 than the line
    far_logs: Real  # log of the measure's transform there
    reach: float  # a <= x + reach

    def __call__(self, x: Real) -> Bracket:
        # e^{(c + ikh) x} of k = a m + b is a product
        moved = x[:, None] + self.shift
        inner = 1 << (len(self.z).bit_length() // 2)
        terms = self.terms.reshape(-1, inner)
        outer = np.exp(1j * self.z[::inner].imag * moved)
        phases = np.exp(1j * self.z[:inner].imag * moved)
        scale = np.exp(self.z[0].real * moved[:, 0] + self.log_scale)
        value, slope = (scale * ((outer @ t) * phases).sum(1).real for t in (terms, terms * self.z.reshape(-1, inner)))
        sizes = np.abs(self.terms)
        rounding = sizes @ (self.relative_error + 96.0 * ULP) + 8.0 * ULP * np.abs(moved[:, 0]) * (
            sizes @ np.abs(self.z)
        )
        error = scale * (rounding + 4.0 * ULP * np.abs(np.log(scale)) * sizes.sum())
        error = error + np.exp(self.z[0].real * x + self.log_tail)
        return Bracket(value, slope, error, error + self._copies(x))

    def _copies(self, x: Real) -> Real:
        """The sum over j != 0 in (1)."""
        centre = self.z[0].real
        q = math.exp(-abs(centre) * self.period)
        behind = q / (1.0 - q) * (self.mass * np.maximum(math.copysign(1.0, centre) * x, 0.0) + self.excess)
        behind = behind + self.mass * self.period * q / (1.0 - q) ** 2
        # (a)_+ <= e^{b a}/(e b), any b
        gap = np.abs(self.far_centres - centre) * self.period
        ahead = self.far_logs + self.far_centres * x[:, None] - gap - np.log(np.abs(self.far_centres) * -np.expm1(-gap))
        ahead = np.exp(np.minimum(ahead - 0.9, 700.0)).min(1, initial=np.inf)
        return behind + np.where(x + self.reach < self.period, 0.0, ahead)


class _Setting(NamedTuple):
    """What all lines of one question share: n steps of t are taken, S bounds E|X - 1|."""

    of: Grid
    n: float
    t: float
    spread: float

    @property
    def reach(self) -> float:
        return self.n / self.t


def setting(of: Grid, num_steps: float, steps_done: float) -> _Setting:
    spread = math.sqrt(math.expm1(min(of.s**2, 700.0)) * steps_done) / num_steps
    return _Setting(of, steps_done, num_steps, min(spread, 2.0 * steps_done / num_steps))


def _log1p(z: Complex) -> Complex:
    """log(1 + z); the parts' absolute errors are a few ulp of |z| where it is small. NumPy's loses its digits there."""
    x, y = z.real, z.imag
    near = np.abs(x) + np.abs(y) < 0.5
    small = np.where(near, 2.0 * x + x * x + y * y, 0.0)
    modulus = np.maximum(np.hypot(1.0 + x, y), 1e-300)
    return np.where(near, 0.5 * np.log1p(small), np.log(modulus)) + 1j * np.arctan2(y, 1.0 + x)


def _expm1(z: Complex) -> Complex:
    x, y = z.real, z.imag
    return np.expm1(x) * np.cos(y) - 2.0 * np.sin(0.5 * y) ** 2 + 1j * np.exp(x) * np.sin(y)


def _num_nodes(period: float, log_terms: Real, heights: Real, floor: float) -> tuple[int, float]:
    """Enough nodes, in whole blocks, for the tail to fall below `floor`, and log of a bound on the tail.

    `log_terms` bounds |Phi| from each height on. Beyond node N the sum of h/(pi y^2) is at most 1/(pi (y_N - h/2)).
    """
    logs = log_terms - np.log(math.pi * heights)
    good = np.flatnonzero(logs <= floor)
    if len(good) == 0:
        return NODE_BLOCK, math.inf
    wanted = heights[good[0]] * period / (2.0 * math.pi) + 0.5
    num = NODE_BLOCK * math.ceil(wanted / NODE_BLOCK)
    return (num, float(logs[good[0]])) if num <= MAX_NODES else (NODE_BLOCK, math.inf)


def _line(
    at: _Setting,
    centre: float,
    period: float,
    log_phi: Complex,
    relative_error: Real,
    log_tail: float,
    **rest: float | Real,
) -> Line:
    spacing = 2.0 * math.pi / period
    z = centre + 1j * spacing * np.arange(len(log_phi))
    log_pole = 2.0 * np.log(z)
    log_terms = log_phi - log_pole + math.log(spacing / math.pi)
    log_terms[0] -= math.log(2.0)
    relative_error = relative_error + 8.0 * ULP * (4.0 + np.abs(log_phi) + np.abs(log_pole))
    log_scale = float(log_terms.real.max())
    return Line(period, z, np.exp(log_terms - log_scale), log_scale, relative_error, log_tail, **rest)  # type: ignore[arg-type]


def _plain_line(
    at: _Setting, cut: Cutoff | None, centre: float, period: float, num: int, log_tail: float, **rest: float | Real
) -> Line:
    """The line of all steps weighted by Q of `cut`."""
    u, spacing = centre / at.t, 2.0 * math.pi / (period * at.t)
    if u > 1.0:  # e^{-uW} would lose what e^{-uY} keeps
        base, error = weighted_transform(at.of, None, u, spacing, num)
        log_base, shift = np.log(base), at.reach
        size = np.abs(base)
    else:
        excess, error = centred_transform(at.of, cut, u, spacing, num)
        log_base, shift = _log1p(excess), 0.0
        size = np.abs(1.0 + excess)
        error = error + 8.0 * ULP * np.abs(excess)
    with np.errstate(divide="ignore"):
        relative = np.expm1(np.minimum(at.n * np.log1p(error / size + 8.0 * ULP * (size < 0.6)), 700.0))
    return _line(at, centre, period, at.n * log_base, relative, log_tail, shift=shift, **rest)


def _difference_line(
    at: _Setting, cut: Cutoff, centre: float, period: float, num: int, log_tail: float, **rest: float | Real
) -> Line:
    """The line of the whole law less that of all steps weighted by Q: A^n - (A - H)^n."""
    u, spacing = centre / at.t, 2.0 * math.pi / (period * at.t)
    excess, error = centred_transform(at.of, None, u, spacing, num)
    high, high_error = weighted_transform(at.of, cut, u, spacing, num)
    whole = 1.0 + excess
    phi = -np.exp(at.n * _log1p(excess)) * _expm1(at.n * _log1p(-high / whole))
    # the derivatives by A and by H on the ball of the errors
    top = np.maximum(np.abs(whole), np.abs(whole - high)) + error + high_error
    power = np.exp(np.log(at.n) + (at.n - 1.0) * np.log(top))
    absolute = power * (high_error + np.abs(high) * (at.n - 1.0) * (error + high_error) / top)
    absolute = absolute + power * np.abs(high) * ULP * (64.0 + 8.0 * at.n * np.abs(excess))
    size = np.maximum(np.abs(phi), 1e-300)
    log_phi = np.log(np.where(phi == 0, 1e-300, phi))
    return _line(at, centre, period, log_phi, absolute / size, log_tail, shift=0.0, **rest)


class Remove(NamedTuple):
    """E(X-1-x)_+ = low(x) + mean - x mass + high(x); a missing line is one whose whole share is below the errors."""

    low: Line | None
    low_centres: Real  # for the Chernoff bound of a missing low line
    low_logs: Real
    high: Line | None
    mass: float  # of the measure `high`, and its E(X-1)
    mean: float
    mass_error: float  # relative, of both
    reach: float

    def __call__(self, x: Real) -> Bracket:
        zero = np.zeros_like(x)
        low = high = Bracket(zero, zero, zero, zero)
        if self.low is not None:
            low = self.low(x)
        else:
            logs = self.low_logs + self.low_centres * x[:, None] - np.log(np.abs(self.low_centres)) - 0.9
            low = low._replace(above=np.exp(np.minimum(logs, 700.0)).min(1))
        if self.high is None:
            high = high._replace(above=zero + self.mean + self.mass * self.reach)
        else:
            line = self.high(x)
            rounding = self.mass_error * (self.mean + np.abs(x) * self.mass)
            high = Bracket(
                line.value + self.mean - x * self.mass,
                line.slope - self.mass,
                line.above + rounding,
                line.below + rounding,
            )
        return Bracket(*(a + b for a, b in zip(low, high, strict=True)))


_RATES = 2.0 ** np.linspace(-3.5, 3.0, 14)
_TILTS = np.geomspace(0.02, 0.9, 14)
_FAR = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0])
_HEIGHTS = 2.0 ** np.linspace(-1.0, 4.0, 16)


def plan_remove(at: _Setting, x: float) -> Remove:
    """Lines for arguments near x >= 0. The cutoff's rate and the tilts are those of the shortest lines."""
    of, n, t = at.of, at.n, at.t
    y, w, density = real_rule(of)
    rates = SHARPNESS / (t * (x + 2.0 * at.spread)) * _RATES
    low, high = step_weights(rates[:, None] * y)
    masses, means = high @ density, (high * w) @ density
    mass, mean = _high_moments(at, masses, means)
    log_high = np.log(mass * (x + at.spread) + mean)
    tilts = _TILTS * rates[:, None] * t  # -c
    logs = n * log_real_transform(of, low[:, None, :], -tilts / t)
    log_low = logs - tilts * x - np.log(2.0 * tilts)
    best = float(np.maximum(log_low.min(1), log_high).min())
    floor = best - _DIGITS
    # lengths of the low line for each rate and tilt, and of the high one for each rate
    gap = tilts[:, None, :] - tilts[:, :, None]
    ahead = logs[:, None, :] - (tilts * x)[:, None, :] - np.log(2.7 * tilts)[:, None, :] - floor
    ahead = np.where(gap > 0, ahead / np.where(gap > 0, gap, 1.0), np.inf).min(2)
    period_low = np.maximum((np.log(at.spread + 40.0 / tilts) - floor) / tilts, ahead)
    height_low = t * height_of_decay(of, np.minimum(floor - log_low, -1.0) / n)
    price = np.exp(_PRICE * np.maximum(log_low - best, 0.0))
    length_low = period_low * height_low
    length_low = np.where(np.isfinite(logs) & (length_low < _MAX_LENGTH), length_low * price, np.inf)
    tilt_index = length_low.argmin(1)
    centre = min(1.0 / at.spread, 2.0 / x if x > 0 else math.inf)
    far = centre * _FAR
    far_logs = n * log_real_transform(of, None, far / t)
    ahead_high = float(((far_logs + far * x - np.log(far) - floor)[1:] / (far[1:] - centre)).min())
    period_high = np.maximum((np.maximum(log_high - floor, 0.0) + 4.0) / centre, min(ahead_high, x + at.reach))
    height_high = 12.0 * rates * t
    rows = np.arange(len(rates))
    without_low, without_high = log_low.min(1) < floor, log_high < floor
    length = np.where(without_low, 0.0, length_low[rows, tilt_index])
    length = length + np.where(without_high, 0.0, period_high * height_high)
    length = length * np.exp(np.minimum(_PRICE * np.maximum(log_high - best, 0.0), 300.0))
    i = int(np.where(np.isnan(length), np.inf, length).argmin())

    cut = cutoff(of, float(rates[i]))
    low_line = high_line = None
    mass_error = 1e-6
    exact_mass, exact_mean = mass[i], mean[i]
    if not without_low[i]:
        j = tilt_index[i]
        heights = height_low[i, j] * _HEIGHTS
        low_line = _low_line(
            at, cut, -float(tilts[i, j]), float(period_low[i, j]), x, floor, heights, -tilts[i], logs[i]
        )
    if not without_high[i]:
        one_mass, one_mean, one_error = high_mass(of, cut)
        exact_mass, exact_mean = _high_moments(at, np.float64(one_mass), np.float64(one_mean))
        mass_error = one_error * (1.0 + (n - 1.0) * one_mass / (1.0 - one_mass)) + 16.0 * ULP
        heights = height_high[i] * _HEIGHTS
        high_line = _high_line(at, cut, float(period_high[i]), x, floor, heights, far, far_logs, float(exact_mass))
    missing_low = without_low[i]
    return Remove(
        low_line, -tilts[i], logs[i] if missing_low else logs[i] * 0.0 + math.inf, high_line, float(exact_mass),
        float(exact_mean), mass_error, at.reach,
    )  # fmt: skip


def _high_moments(at: _Setting, mass: Real, mean: Real) -> tuple[Real, Real]:
    """The mass and E(X-1) of the measure of at least one high step, from E[1 - Q] and E[W (1 - Q)]."""
    log_low = np.log1p(-np.minimum(mass, 1.0 - 2.0**-53))
    return -np.expm1(at.n * log_low), at.reach * np.exp((at.n - 1.0) * log_low) * mean


def _low_line(
    at: _Setting,
    cut: Cutoff,
    centre: float,
    period: float,
    x: float,
    floor: float,
    heights: Real,
    tilts: Real,
    logs: Real,
) -> Line:
    decay = at.n * log_decay(at.of, cut, centre / at.t, heights / at.t)
    num, log_tail = _num_nodes(period, decay, heights, floor - centre * x)
    far = tilts < centre
    return _plain_line(
        at, cut, centre, period, num, log_tail, mass=1.0, excess=at.spread, far_centres=tilts[far], far_logs=logs[far],
        reach=math.inf,
    )  # fmt: skip


def _high_line(
    at: _Setting,
    cut: Cutoff,
    period: float,
    x: float,
    floor: float,
    heights: Real,
    far: Real,
    far_logs: Real,
    mass: float,
) -> Line:
    # |A^n - (A - H)^n| <= n |H| max^(n-1), and |A|, |A - H| are largest on the real axis
    centre = float(far[0])
    decay = log_high_decay(at.of, cut, centre / at.t, heights / at.t)
    decay = decay + math.log(at.n) + (at.n - 1.0) / at.n * far_logs[0]
    num, log_tail = _num_nodes(period, decay, heights, floor - centre * x)
    return _difference_line(
        at, cut, centre, period, num, log_tail, mass=mass, excess=min(at.spread, mass * at.reach),
        far_centres=far[1:], far_logs=far_logs[1:], reach=at.reach,
    )  # fmt: skip


class Saddles(NamedTuple):
    """The left tail along the real axis: log transforms at c, and x, log E(x - (X-1))_+ by the saddle point at c."""

    c: Real
    logs: Real
    x: Real
    log_value: Real


def saddles(at: _Setting) -> Saddles:
    """Steering for `plan_add`; `logs` alone also enters its error bounds."""
    y, w, density = real_rule(at.of)
    c = np.geomspace(0.3 / at.spread, 1e6 * at.t, 128)
    u = c / at.t
    weight = np.exp(-u[:, None] * y) * density
    total = np.maximum(weight.sum(1), 1e-300)
    logs = np.where(u > 1.0, u + np.log(total), log_real_transform(at.of, None, np.minimum(u, 1.0)))
    mean = (weight @ w) / total
    variance = (weight @ w**2) / total - mean**2
    x = at.reach * mean + 2.0 / c
    curvature = at.n / at.t**2 * variance + 2.0 / c**2
    value = c * x + at.n * logs - 2.0 * np.log(c) - 0.5 * np.log(2.0 * math.pi * curvature)
    keep = (total > 1e-250) & (x > -at.reach) & np.isfinite(value)
    return Saddles(c[keep], at.n * logs[keep], x[keep], value[keep])


def plan_add(at: _Setting, guide: Saddles, x: float) -> Line:
    """The line for arguments near x <= 0."""
    j = int(np.abs(guide.x - x).argmin())
    centre, floor = float(guide.c[j]), float(guide.log_value[j]) - _DIGITS
    far = guide.c > 1.2 * centre
    ahead = guide.logs[far] + guide.c[far] * x - np.log(guide.c[far]) - floor
    ahead = float((ahead / (guide.c[far] - centre)).min(initial=math.inf))
    period = max((math.log(at.spread + 60.0 / centre) - floor) / centre, min(ahead, x + at.reach))
    level = min(floor - centre * x - float(guide.logs[j]), -1.0) / at.n
    heights = at.t * height_of_decay(at.of, np.array(level)) * _HEIGHTS
    decay = at.n * log_decay(at.of, None, centre / at.t, heights / at.t)
    num, log_tail = _num_nodes(period, decay, heights, floor - centre * x)
    return _plain_line(
        at, None, centre, period, num, log_tail, mass=1.0, excess=at.spread, far_centres=guide.c[far],
        far_logs=guide.logs[far], reach=at.reach,
    )  # fmt: skip
