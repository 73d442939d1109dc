"""Certified sums along vertical lines: E(x - (X-1))_+ and E(X-1-x)_+ of an average X of likelihood ratios.

X - 1 = (1/t) sum_{j<=n} W_j: n of t steps of an epoch have been taken. For Re z = c > 0, and likewise for Re z = c < 0,

    E(x - (X-1))_+ = (1/2 pi i) int e^{zx} Phi(z) z^-2 dz,   E(X-1-x)_+ = the same,   Phi(z) = E e^{-z(X-1)}.

With step h and period P = 2 pi/h the trapezoid is *exactly*, for every law and every positive measure of X,

    sum_j e^{-|c| j P} E(a + jP)_+,   a = x - (X-1) or X-1-x:                                                  (1)

the value (j = 0) and its shifted copies, all >= 0 (Poisson summation). `jaxacct.divergence.allocation._plans` chooses
lines. Everything here runs on the host; [J] are arguments x, [N] nodes of a line.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import Complex, Cutoff, Grid, Real
from jaxacct.divergence.allocation._transform import NODE_BLOCK, centred_transform, weighted_transform
from jaxacct.special import ULP, rows_times_rows

MAX_NODES = 2**14  # a line that wants more gives the trivial bound: it limits time and memory, and any value is valid


class Bracket(NamedTuple):
    """What an answer at J arguments is made of: a value, its derivative in x, and bounds on its error, float64 [J]."""

    value: Real
    slope: Real
    above: Real  # the true value is at most value + above
    below: Real  # and at least value - below


class Setting(NamedTuple):
    """What all lines for one noise multiplier and one prefix of an epoch share."""

    of: Grid
    n: float  # steps taken
    t: float  # steps of the epoch
    spread: float  # at least E|X - 1|

    @property
    def reach(self) -> float:
        """Float: 1 - X is at most this."""
        return self.n / self.t


def setting(of: Grid, num_steps: float, steps_done: float) -> Setting:
    """`Setting`, floats: after `steps_done` steps of an epoch of `num_steps`.

    E|X - 1| is at most the standard deviation of X, and at most 2 n/t.
    """
    spread = math.sqrt(math.expm1(min(of.s**2, 700.0)) * steps_done) / num_steps
    return Setting(of, steps_done, num_steps, min(spread, 2.0 * steps_done / num_steps))


@dataclasses.dataclass(frozen=True)
class Copies:
    """What bounds the sum over j != 0 in (1), the copies, for the measure of X behind one line."""

    mass: float  # of the measure
    excess: float  # at least its E(a)_+ at x = 0
    far_centres: Real  # [F]: real z on the line's side of 0, further from 0 than the line
    far_logs: Real  # [F]: log of the measure's transform there, rounded up
    reach: float  # a <= x + reach

    def __call__(self, x: Real, centre: float, period: float) -> Real:
        """Upper bounds [J] on the sum of the copies at arguments `x` [J]: those with j > 0, then those with j < 0."""
        q = math.exp(-abs(centre) * period)
        behind = q / (1.0 - q) * (self.mass * np.maximum(math.copysign(1.0, centre) * x, 0.0) + self.excess)
        behind = behind + self.mass * period * q / (1.0 - q) ** 2
        # (a)_+ <= e^{b a}/(e b), any b
        gap = np.abs(self.far_centres - centre) * period
        ahead = self.far_logs + self.far_centres * x[:, None] - gap - np.log(np.abs(self.far_centres) * -np.expm1(-gap))
        sizes = np.abs(self.far_logs) + np.abs(self.far_centres * x[:, None]) + gap
        ahead = ahead - 1.0 + 2.0**-50 * (1024.0 + sizes)
        ahead = np.exp(np.minimum(ahead, 700.0)).min(1, initial=np.inf)
        return behind + np.where(x + self.reach < period, 0.0, ahead)


def _real_dots(a: Complex, b: Complex) -> Real:
    """The real parts of the sums over each row of a b."""
    return np.einsum("ij,ij->i", a.real, b.real) - np.einsum("ij,ij->i", a.imag, b.imag)


@dataclasses.dataclass(frozen=True)
class Line:
    """What the trapezoid (1) on one vertical line is made of: its nodes, its terms, and what bounds its errors."""

    period: float  # P
    z: Complex  # [N], the nodes
    terms: Complex  # [N]: at x the terms are e^{log_scale} e^{z (x + shift)} terms
    log_scale: float
    relative_error: Real  # [N], of the terms
    log_tail: float  # log of a bound on what lies beyond the last node, at x = 0
    shift: float
    copies: Copies

    @functools.cached_property
    def _rows(self) -> Complex:
        """[2 B, A]: A B = N terms, those with k = a B + b in row b, and below them z times the terms."""
        inner = 1 << (len(self.z).bit_length() // 2)
        return np.concatenate([x.reshape(-1, inner).T for x in (self.terms, self.z * self.terms)])

    @functools.cached_property
    def _sizes(self) -> Real:
        """[3]: the sums of the terms' sizes, of these times their relative errors, and of these times |z|."""
        sizes = np.abs(self.terms)
        return np.array([sizes.sum(), sizes @ self.relative_error, sizes @ np.abs(self.z)])

    def __call__(self, x: Real) -> Bracket:
        """The bracket [J] at arguments `x` [J]."""
        centre, moved = float(self.z[0].real), x + self.shift
        # e^{(c + ikh) x} with k = a B + b is a product
        rows, inner = self._rows, len(self._rows) // 2
        outer = np.exp(1j * self.z[::inner].imag * moved[:, None])
        phases = np.exp(1j * self.z[:inner].imag * moved[:, None])
        log_scale = centre * moved + self.log_scale
        scale = np.exp(log_scale)
        inner_sums = rows_times_rows(outer, rows)
        value, slope = (scale * _real_dots(s, phases) for s in (inner_sums[:, :inner], inner_sums[:, inner:]))
        size, lost, turned = self._sizes
        summing = ULP * (64.0 + 2.0 * (inner + rows.shape[1]) + 4.0 * np.abs(log_scale))
        error = scale * (lost + summing * size + 8.0 * ULP * np.abs(moved) * turned)
        error = error + np.exp(centre * x + self.log_tail)
        return Bracket(value, slope, error, error + self.copies(x, centre, self.period))


def num_nodes(period: float, log_sizes: Real, heights: Real, floor: float) -> tuple[int, float]:
    """Int and float: how many nodes, in whole blocks, the tail needs to fall below e^floor; log of a bound on the tail.

    `log_sizes` [K] bounds log |Phi| from each of the `heights` [K] on. Beyond node N the sum of h/(pi y^2) is at most
    1/(pi (y_N - h/2)). The bound is inf where that would take more than MAX_NODES.
    """
    logs = log_sizes - np.log(math.pi * heights)
    good = np.flatnonzero(logs <= floor)
    if len(good) == 0:
        return NODE_BLOCK, math.inf
    wanted = heights[good[0]] * period / (2.0 * math.pi) + 0.5
    num = NODE_BLOCK * math.ceil(wanted / NODE_BLOCK)
    return (num, float(logs[good[0]])) if num <= MAX_NODES else (NODE_BLOCK, math.inf)


def _log1p(z: Complex) -> Complex:
    """log(1 + z). Where |z| is small each part errs by a few ulp of |z|; NumPy's log1p loses its digits there."""
    x, y = z.real, z.imag
    near = np.abs(x) + np.abs(y) < 0.5
    small = np.where(near, 2.0 * x + x * x + y * y, 0.0)
    modulus = np.maximum(np.hypot(1.0 + x, y), 1e-300)
    return np.where(near, 0.5 * np.log1p(small), np.log(modulus)) + 1j * np.arctan2(y, 1.0 + x)


def log_of_transform(excess: Complex, error: Real) -> tuple[Complex, Real]:
    """log Phi and log(1 + r) [.., N], Phi = 1 + `excess` a transform known to `error` and r its relative error.

    r contains the rounding of the logarithm.
    """
    size = np.abs(1.0 + excess)
    error = error + 16.0 * ULP * (np.abs(excess) + np.where(size < 0.6, size, 0.0))
    return _log1p(excess), np.log1p(error / size)


def _expm1(z: Complex) -> Complex:
    """e^z - 1, without cancellation where z is small."""
    x, y = z.real, z.imag
    return np.expm1(x) * np.cos(y) - 2.0 * np.sin(0.5 * y) ** 2 + 1j * np.exp(x) * np.sin(y)


def _line(
    centre: float, period: float, log_phi: Complex, error: Real, log_tail: float, shift: float, copies: Copies
) -> Line:
    """The line through `centre` from log Phi [N] at its nodes and the relative error [N] of Phi."""
    spacing = 2.0 * math.pi / period
    z = centre + 1j * spacing * np.arange(len(log_phi))
    log_pole = 2.0 * np.log(z)
    log_terms = log_phi - log_pole + math.log(spacing / math.pi)
    log_terms[0] -= math.log(2.0)
    error = error + 8.0 * ULP * (4.0 + np.abs(log_phi) + np.abs(log_pole))
    log_scale = float(log_terms.real.max())
    return Line(period, z, np.exp(log_terms - log_scale), log_scale, error, log_tail, shift, copies)


def plain_line(
    at: Setting, cut: Cutoff | None, centre: float, period: float, num: int, log_tail: float, copies: Copies
) -> Line:
    """`Line` of `num` nodes for all n steps weighted by Q of `cut`, or, without cutoff, for the whole law.

    `log_tail` is log of a bound on what lies beyond the last node, at x = 0.
    """
    u, spacing = centre / at.t, 2.0 * math.pi / (period * at.t)
    if u > 1.0:  # e^{-uW} would lose what e^{-uY} keeps
        base, error = weighted_transform(at.of, None, u, spacing, num)
        size = np.abs(base)
        log_base, slip, shift = np.log(base), np.log1p((error + 16.0 * ULP * size) / size), at.reach
    else:
        log_base, slip = log_of_transform(*centred_transform(at.of, cut, u, spacing, num))
        shift = 0.0
    relative: Any = np.expm1(np.minimum(at.n * slip, 700.0))
    return _line(centre, period, at.n * log_base, relative, log_tail, shift, copies)


def difference_line(
    at: Setting, cut: Cutoff, centre: float, period: float, num: int, log_tail: float, copies: Copies
) -> Line:
    """`Line` of `num` nodes for the whole law less that of all steps weighted by Q: Phi = A^n - (A - H)^n.

    A = E e^{-uW} and H = E[e^{-uW} (1 - Q)]. The error is bounded by the derivatives, n (A^(n-1) - (A - H)^(n-1)) in A
    and n (A - H)^(n-1) in H, over all values within the errors of A and H.
    """
    u, spacing = centre / at.t, 2.0 * math.pi / (period * at.t)
    excess, error = centred_transform(at.of, None, u, spacing, num)
    high, high_error = weighted_transform(at.of, cut, u, spacing, num)
    whole = 1.0 + excess
    log_whole, log_rest = _log1p(excess), _log1p(-high / whole)
    phi = -np.exp(at.n * log_whole) * _expm1(at.n * log_rest)
    top = np.maximum(np.abs(whole), np.abs(whole - high)) + error + high_error
    power = at.n * np.exp((at.n - 1.0) * np.log(top))
    rounding = ULP * (64.0 + 16.0 * at.n * (np.abs(excess) + np.abs(log_whole) + np.abs(log_rest)))
    absolute = high_error + np.abs(high) * ((at.n - 1.0) * (error + high_error) / top + rounding)
    log_phi = np.log(np.where(phi == 0, 1e-300, phi))
    relative: Any = power * absolute / np.maximum(np.abs(phi), 1e-300)
    return _line(centre, period, log_phi, relative, log_tail, 0.0, copies)
