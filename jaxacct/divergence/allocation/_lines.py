"""Certified sums along vertical lines: E(x - (X-1))_+ and E(X-1-x)_+ of an average X of likelihood ratios.

X - 1 = (1/t) sum_{j<=n} W_j: n of t steps of an epoch have been taken. For Re z = c > 0, and likewise for Re z = c < 0,

    E(x - (X-1))_+ = (1/2 pi i) int e^{zx} Phi(z) z^-2 dz,   E(X-1-x)_+ = the same,   Phi(z) = E e^{-z(X-1)}.

With step h and period P = 2 pi/h the trapezoid sum is *exactly*, for every law and every positive measure of X,

    sum_j e^{-|c| j P} E(a + jP)_+,   a = x - (X-1) or X-1-x:                                                  (1)

that is, the value (j = 0) and its shifted copies, all >= 0 (Poisson summation). The lines are chosen in
`jaxacct.divergence.allocation._plans` and `jaxacct.divergence.allocation._added_plans`.

Shapes: [L] lanes; [R] rounds, each with its line; [J] arguments x; [N] nodes of a line; [F] points of the real axis.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import Complex, Real
from jaxacct.divergence.allocation._rule import Cut, Rule
from jaxacct.divergence.allocation._transform import INNER, transform, weighted_transform
from jaxacct.special import ULP, complex_exp, complex_log, rows_times_rows, turn

MAX_NODES = 2**14  # a line that needs more gives the trivial bound: this limits time and memory, and any value is valid
_BLOCK = 4 * INNER  # the number of nodes of a line for one question is a multiple of it


class BoundedValue(NamedTuple):
    """A value, its derivative in x, and bounds on its error, [R, J] each."""

    value: Real
    slope: Real
    above: Real  # the true value is at most value + above
    below: Real  # and at least value - below


class Copies(NamedTuple):
    """Bounds on the copies, the sum over j != 0 in (1), for the measure of X behind a line; [R, 1] unless noted."""

    mass: Real | float  # of the measure
    excess: Real | float  # upper bound on its E(a)_+ at x = 0
    far_centres: Real  # [R, F]: real z; those further from 0 than the line, on its side, bound the copies ahead
    far_logs: Real  # [R, F]: log of the measure's transform there, rounded up
    reach: float  # a <= x + reach

    def __call__(self, x: Real, centre: Real, period: Real) -> Real:
        """Upper bounds [R, J] on the sum of the copies, ahead and behind, at arguments `x` [R, J]."""
        side = np.sign(centre)
        q, far = np.exp(-side * centre * period), self.far_centres
        behind = q / (1.0 - q) * (self.mass * np.maximum(side * x, 0.0) + self.excess)
        behind = behind + self.mass * period * q / (1.0 - q) ** 2
        # (a)_+ <= e^{b a}/(e b), any b
        gap = side * (far - centre) * period
        logs = self.far_logs - gap - np.log(np.abs(far) * -np.expm1(-gap)) - 1.0
        sizes = np.abs(self.far_logs) + np.abs(gap) + np.abs(far) * np.abs(x).max(1, keepdims=True)
        logs = np.where(gap > 0.0, logs + 2.0**-50 * (1024.0 + sizes), np.inf)
        ahead = (logs[:, None] + far[:, None] * x[:, :, None]).min(2, initial=np.inf)
        is_beyond = x + self.reach < period * (1.0 - 2.0**-40)
        return behind + np.where(is_beyond, 0.0, np.exp(np.minimum(ahead, 700.0)))


class Trapezoids(NamedTuple):
    """The trapezoid sums (1) on vertical lines: their terms, and bounds on their errors; [R, 1] unless noted.

    At x the terms are e^{log_scale} e^{z (x + shift)} `terms`.
    """

    centre: Real
    spacing: Real  # of the nodes
    terms: Complex  # [R, N]
    log_scale: Real
    relative: Real  # [R, N], the relative errors of the terms
    log_tail: Real  # log of a bound on the part beyond the last node, at x = 0
    shift: float
    copies: Copies

    @property
    def log_whole(self) -> Real:
        """Approximate log Phi at the centre [R, 1]."""
        first = np.log(2.0 * math.pi / self.spacing * np.abs(self.terms[:, :1])) + self.log_scale
        found: Real = first + 2.0 * np.log(self.centre) + self.centre * self.shift
        return found

    @property
    def _nodes(self) -> Complex:
        return self.centre + 1j * self.spacing * np.arange(self.terms.shape[1])

    def _sums(self, terms: Complex, x: Real) -> Real:
        """The real parts of sum_k terms_k e^{i k spacing x} [R, J]."""
        angle, outer = (self.spacing * x)[:, None], terms.shape[1] // INNER
        fine, coarse = turn(angle * np.arange(INNER)[:, None]), turn(angle * (INNER * np.arange(outer))[:, None])
        inner = rows_times_rows(terms.reshape(len(terms), -1, INNER), fine.swapaxes(1, 2))
        return (inner.real * coarse.real - inner.imag * coarse.imag).sum(1)

    def values(self, x: Real) -> tuple[Real, Real, Real]:
        """The values [R, J] at arguments `x` [R, J], and bounds on how far they may be too low and too high."""
        moved, sizes = x + self.shift, np.abs(self.terms)
        log_scale = self.centre * moved + self.log_scale
        total, lost, turned = ((sizes * y).sum(1, keepdims=True) for y in (1.0, self.relative, np.abs(self._nodes)))
        summing = ULP * (64.0 + 2.0 * (INNER + sizes.shape[1] // INNER) + 4.0 * np.abs(log_scale))
        scale = np.exp(log_scale)
        error = scale * (lost + summing * total + 8.0 * ULP * np.abs(moved) * turned)
        error = error + np.exp(self.centre * x + self.log_tail)
        copies = self.copies(x, self.centre, 2.0 * math.pi / self.spacing)
        return scale * self._sums(self.terms, moved), error, error + copies

    def __call__(self, x: Real) -> BoundedValue:
        """The bracket [R, J] at arguments `x` [R, J]."""
        value, above, below = self.values(x)
        moved = x + self.shift
        slope = np.exp(self.centre * moved + self.log_scale) * self._sums(self._nodes * self.terms, moved)
        return BoundedValue(value, slope, above, below)


def num_nodes(period: float, log_sizes: Real, heights: Real, floor: float) -> tuple[int, float]:
    """Int and float: the number of nodes, in whole blocks, at which the tail is below e^floor; log of a bound on it.

    `log_sizes` [K] bounds log |Phi| from each of the `heights` [K] on. Beyond node N the sum of h/(pi y^2) is at most
    1/(pi (y_N - h/2)). The bound is inf where more than MAX_NODES nodes would be needed.
    """
    logs = log_sizes - np.log(math.pi * heights)
    good = np.flatnonzero(logs <= floor)
    if len(good) == 0:
        return _BLOCK, math.inf
    wanted = heights[good[0]] * period / (2.0 * math.pi) + 0.5
    num = _BLOCK * math.ceil(wanted / _BLOCK)
    return (num, float(logs[good[0]])) if num <= MAX_NODES else (_BLOCK, math.inf)


def log1p(z: Complex) -> Complex:
    """log(1 + z) [..], each part within a few ulp of |z| where that is small."""
    x, y = z.real, z.imag
    near = np.abs(x) + np.abs(y) < 0.5
    small = np.where(near, 2.0 * x + x * x + y * y, 0.0)
    modulus = np.maximum(np.hypot(1.0 + x, y), 1e-300)
    return np.where(near, 0.5 * np.log1p(small), np.log(modulus)) + 1j * np.arctan2(y, 1.0 + x)


def log_of_transform(excess: Complex, error: Real) -> tuple[Complex, Real]:
    """log Phi and log(1 + r) [.., N], Phi = 1 + `excess` a transform known to `error` and r its relative error.

    r includes the rounding error of the logarithm.
    """
    size = np.abs(1.0 + excess)
    error = error + 16.0 * ULP * (np.abs(excess) + np.where(size < 0.6, size, 0.0))
    return log1p(excess), np.log1p(error / size)


def expm1(z: Complex) -> Complex:
    """e^z - 1 [..], without cancellation where z is small."""
    x, y = z.real, z.imag
    return np.expm1(x) * np.cos(y) - 2.0 * np.sin(0.5 * y) ** 2 + 1j * np.exp(x) * np.sin(y)


def _line(
    centre: Real, spacing: Real, log_phi: Complex, relative: Real, log_tail: Real, shift: float, copies: Copies
) -> Trapezoids:
    """The lines through `centre` [R, 1] from log Phi [R, N] at their nodes and the relative error [R, N] of Phi."""
    log_pole = 2.0 * complex_log(centre + 1j * spacing * np.arange(log_phi.shape[1]))
    log_terms = log_phi - log_pole + np.log(spacing / math.pi)
    log_terms[:, 0] -= math.log(2.0)
    relative = relative + 8.0 * ULP * (4.0 + np.abs(log_phi) + np.abs(log_pole))
    log_scale = log_terms.real.max(1, keepdims=True)
    terms = complex_exp(log_terms - log_scale)
    return Trapezoids(centre, spacing, terms, log_scale, relative, log_tail, shift, copies)


def plain_line(
    of: Rule,
    cut: Cut | None,
    steps: tuple[Real, Real],
    centre: Real,
    spacing: Real,
    num: int,
    log_tail: Real,
    copies: Copies,
    lane: Any = slice(None),
) -> Trapezoids:
    """`Trapezoids` of `num` nodes for all n steps weighted by Q of `cut`, or, without cutoff, for the whole law.

    Args:
      of, cut: the step's ratio, lanes [L].
      steps: n and t, [R, 1].
      centre, spacing: of the lines, over t, [L].
      num: a multiple of `INNER`.
      log_tail: [R, 1], log of bounds on the part beyond the last node, at x = 0.
      copies: the bounds on the copies.
      lane: the lane of each round.
    """
    n, t = steps
    if centre.min() > 1.0:  # e^{-uW} would lose digits that e^{-uY} keeps
        base, error = weighted_transform(of, None, centre, spacing, num)
        size = np.abs(base)
        log_base, slip, shift = np.log(base), np.log1p((error + 16.0 * ULP * size) / size), float((n / t).max())
    else:
        log_base, slip = log_of_transform(*transform(of, cut, centre, spacing, num))
        shift = 0.0
    relative = np.expm1(np.minimum(n * slip[lane], 700.0))
    along = centre[lane, None] * t, spacing[lane, None] * t
    return _line(*along, n * log_base[lane], relative, log_tail, shift, copies)


def difference_line(
    of: Rule,
    cut: Cut,
    steps: tuple[Real, Real],
    centre: Real,
    spacing: Real,
    num: int,
    log_tail: Real,
    copies: Copies,
) -> Trapezoids:
    """`Trapezoids` for the whole law minus that of all steps weighted by Q: Phi = A^n - (A - H)^n.

    The arguments are those of `plain_line`. A = E e^{-uW} and H = E[e^{-uW} (1 - Q)]. The error is bounded by the
    derivatives, n (A^(n-1) - (A - H)^(n-1)) in A and n (A - H)^(n-1) in H, over all values within the errors of A and
    H.
    """
    n, t = steps
    excess, error = transform(of, None, centre, spacing, num)
    high, high_error = weighted_transform(of, cut, centre, spacing, num)
    whole = 1.0 + excess
    log_whole, log_rest = log1p(excess), log1p(-high / whole)
    phi = -complex_exp(n * log_whole) * expm1(n * log_rest)
    top = np.maximum(np.abs(whole), np.abs(whole - high)) + error + high_error
    power = n * np.exp((n - 1.0) * np.log(top))
    rounding = ULP * (64.0 + 48.0 * n * (np.abs(excess) + np.abs(log_whole) + np.abs(log_rest)))
    absolute = high_error + np.abs(high) * ((n - 1.0) * (error + high_error) / top + rounding)
    log_phi = np.log(np.where(phi == 0, 1e-300, phi))
    relative = power * absolute / np.maximum(np.abs(phi), 1e-300)
    return _line(centre[:, None] * t, spacing[:, None] * t, log_phi, relative, log_tail, 0.0, copies)
