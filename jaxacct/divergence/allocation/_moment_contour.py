"""Complex moments of a round of 1-out-of-t random allocation on a contour, certified, from its exact profile.

The profile is an integral over the moments (`jaxacct.divergence._inversion`). Conversely, for the pair of either
direction and every complex s, the moments are integrals over the profile,

    M(s) = s (s - 1) ( int_0^inf delta(eps) e^{(s-1) eps} d eps + int_0^inf delta'(eps) e^{-s eps} d eps ) + 1,

delta' the profile of the other direction. The two integrals and the 1 are together one integral of
delta(eps) e^{(s-1) eps} over the real line, since delta(-eps) = 1 - e^-eps + e^-eps delta'(eps). The trapezoid rule of
step d on it commits the error

    sum over j != 0 of M(s + 2 pi i j/d) s (s - 1)/((s + 2 pi i j/d)(s - 1 + 2 pi i j/d))

exactly (Poisson summation), and these copies of M are small: the geometric mean of the t ratios is
e^{tau g - 1/(2 sigma^2)}, tau = 1/(sigma sqrt t), and X over it is independent of it, so that
|M(a + ib)| <= M(a) e^{-(tau b)^2/2}. The same bounds what lies beyond the last node of a contour. One set of samples of
the profile serves every s, and so any number of epochs and any epsilon.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.divergence.allocation._grid import Complex, Real, grid
from jaxacct.divergence.allocation._lines import setting
from jaxacct.divergence.allocation._plans import Saddles, saddles
from jaxacct.divergence.allocation._powers import MAX_ORDER, integer_log_moments
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.divergence.allocation._transform import dot, dot_error
from jaxacct.special import ULP, exp_or_inf

# They steer speed and tightness only: what is left out or missed is bounded, whatever they are.
MAX_SAMPLES = 2048  # samples of a profile beyond which a contour is not tried; twice as many at the very most
_MAX_PLANS = 100  # sets of lines planned for one set of samples of the profile
_MARGIN = 36.0  # in log: the step of the samples keeps the copies of M this far below M
_MOST_KNOTS = 4000.0  # of an envelope
_DEPTH = 30.0  # in log: samples of delta e^{exponent eps} are taken until they are this far below the largest


class _Envelope(NamedTuple):
    """What an upper bound on one direction's delta is made of: values at K epsilons, and an exponential beyond."""

    epsilon: Real  # [K], increasing from 0
    log_delta: Real  # [K], at least log delta from there on
    order: float  # beyond the last epsilon: delta <= e^{log_moment - order epsilon}
    log_moment: float


def _markov(log_moments: Real, epsilon: Real) -> Real:
    """log of the least of Markov's bounds delta <= (1/a) (1 - 1/a)^(a-1) M(a) e^{-(a-1) eps} over the orders a >= 2."""
    a = np.arange(2.0, len(log_moments) + 1.0)
    constant = log_moments[1:] - np.log(a) + (a - 1.0) * np.log1p(-1.0 / a)
    return np.minimum((constant - (a - 1.0) * epsilon[:, None]).min(1), 0.0)


@functools.lru_cache(maxsize=64)
def _guide(sigma: float, t: float) -> Saddles:
    return saddles(setting(grid(sigma), t, t))


@functools.lru_cache(maxsize=64)
def _envelope(sigma: float, t: float, direction: Direction, top: float) -> _Envelope:
    """The envelope of one direction, reaching as far as delta e^{exponent eps} matters for exponents to `top`."""
    spread, tau = math.sqrt(math.expm1(min(sigma**-2.0, 700.0)) / t), 1.0 / (sigma * math.sqrt(t))
    if direction is Direction.REMOVE:
        moments = integer_log_moments(sigma, t)
        order = MAX_ORDER - 1.0
        last = (moments[-1] + 80.0) / max(order - top, 1.0)
        epsilon = np.concatenate([[0.0], np.geomspace(1e-3 * spread, max(last, 50.0 * spread), 800)])
        return _Envelope(epsilon, _markov(moments, epsilon), order, float(moments[-1]))
    # X is at least the geometric mean of the ratios: E X^-p <= e^{p/(2 sigma^2) + (p tau)^2/2}
    mean = 0.5 / sigma**2
    # there that bound is e^{-x^2/2}, x = (last - mean)/tau, and e^{top last} times it e^-112
    last = mean + tau * (tau * top + math.sqrt((tau * top) ** 2 + 2.0 * top * mean + 225.0))
    epsilon = np.linspace(0.0, last, math.ceil(min(max(500.0, 2.0 * top * last), _MOST_KNOTS)))
    guide = _guide(sigma, t)
    logs = guide.logs - np.log(guide.c) - 1.0 + guide.c * np.expm1(-epsilon)[:, None]
    logs = logs + 2.0**-50 * (64.0 + np.abs(guide.logs) + guide.c)
    order = (float(epsilon[-1]) - mean) / tau**2
    return _Envelope(
        epsilon, np.minimum(epsilon + logs.min(1, initial=math.inf), 0.0), order, order * (mean + 0.5 * order * tau**2)
    )


def _ends(envelope: _Envelope, exponents: Real) -> Real:
    """The epsilons [E] where delta e^{exponent eps} has fallen to e^-30 of its largest value, `exponents` [E]."""
    tilted = envelope.log_delta + exponents[:, None] * envelope.epsilon
    beyond = np.arange(tilted.shape[1]) > tilted.argmax(1)[:, None]
    below = beyond & (tilted < tilted.max(1)[:, None] - _DEPTH)
    return envelope.epsilon[np.where(below.any(1), below.argmax(1), tilted.shape[1] - 1)]


def _step(sigma: float, t: float, height: float) -> float:
    """The step d of the samples in epsilon: for imaginary parts to `height` the copies are e^-_MARGIN of M."""
    return 2.0 * math.pi / (height + math.sqrt(2.0 * _MARGIN) * sigma * math.sqrt(t))


def num_samples(noise_multiplier: float, num_steps: float, exponents: Real, height: float) -> Real:
    """Floats [E]: about how many samples of the remove profile the moments of orders 1 + `exponents` [E] take.

    `height` is the largest imaginary part that is wanted.
    """
    envelope = _envelope(noise_multiplier, num_steps, Direction.REMOVE, float(exponents.max()))
    return _ends(envelope, exponents) / _step(noise_multiplier, num_steps, height)


class _Samples(NamedTuple):
    """What is known of one direction's profile: delta at N multiples of a step, and an envelope beyond them."""

    epsilon: Real  # [N], from 0
    value: Real  # [N], delta
    error: Real  # [N], by which it errs at most
    envelope: _Envelope

    def beyond(self, exponents: Real) -> Real:
        """Upper bounds [E] on step sum delta e^{exponent eps} over the grid points past the last sample."""
        envelope, step = self.envelope, self.epsilon[1]
        start = np.searchsorted(envelope.epsilon, self.epsilon[-1], side="right") - 1
        knots = np.maximum(envelope.epsilon[start:], self.epsilon[-1])
        least, most = np.minimum(exponents, 0.0)[:, None], np.maximum(exponents, 0.0)[:, None]
        pieces = envelope.log_delta[start:-1] + most * knots[1:] + least * knots[:-1]
        pieces = (exp_or_inf(pieces) * (np.diff(knots) + step)).sum(1)
        slope = np.maximum(envelope.order - exponents, 1e-300)
        last = exp_or_inf(envelope.log_moment - slope * knots[-1]) * (step + 1.0 / slope)
        return pieces + np.where(envelope.order > exponents, last, np.inf)


def _sampled(sigma: float, t: float, direction: Direction, step: float, exponents: Real, tolerance: float) -> _Samples:
    """Samples at multiples of `step`, as far as delta e^{exponent eps} matters for the `exponents` [E]."""
    envelope = _envelope(sigma, t, direction, max(float(exponents.max()), 1.0))
    count = min(2 + math.ceil(float(_ends(envelope, exponents).max()) / step), 2 * MAX_SAMPLES)
    epsilon = step * np.arange(count)
    # below this delta only the absolute error counts
    peak = (envelope.log_delta + exponents[:, None] * envelope.epsilon).max(1)
    scale = np.exp(np.minimum((peak[:, None] - exponents[:, None] * epsilon).min(0), 0.0))
    tilt = float(exponents.max()) + 1.0 if direction is Direction.REMOVE else 0.0
    profile = AllocationProfile(sigma, t, direction, tilt=tilt)
    value, error = profile.sampled(epsilon, tolerance, scale, _MAX_PLANS)
    return _within(envelope, epsilon, value, error)


def _within(envelope: _Envelope, epsilon: Real, value: Real, error: Real) -> _Samples:
    """`_Samples`, those that are known worse than by the envelope replaced by it."""
    upper = np.exp(envelope.log_delta[np.searchsorted(envelope.epsilon, epsilon, side="right") - 1]) * (1.0 + 1e-9)
    known = error <= upper  # false for nan
    return _Samples(epsilon, np.where(known, value, 0.5 * upper), np.where(known, error, 0.5 * upper), envelope)


def _turned_sums(weights: Real, epsilon: Real, step: float, count: int) -> Complex:
    """sum_j weights[a, j] e^{i k step epsilon_j}, k < `count`, [A, count].

    e^{i b epsilon} is the product of a coarse and a fine one, some sqrt(count) each, so the sum is a matrix product.
    """
    side = max(4, math.isqrt(count))
    rows = 1 << (side.bit_length() // 2)
    side = rows * -(-side // rows)
    fine = _turns(epsilon, step, rows, side)
    coarse = _turns(epsilon, step * side, rows, -(-count // side))
    return np.stack([dot(w * coarse, fine).ravel()[:count] for w in weights])


def _turns(epsilon: Real, step: float, rows: int, count: int) -> Complex:
    """e^{i k step epsilon}, k < `count`, [count, N]: products of two, so that few exponentials are taken."""
    inner = np.exp(1j * step * np.arange(rows)[:, None] * epsilon)
    outer = np.exp(1j * step * rows * np.arange(-(-count // rows))[:, None] * epsilon)
    return (outer[:, None] * inner).reshape(-1, len(epsilon))[:count]


class AllocationMoments:
    """log M(s) of one epoch of 1-out-of-t allocation with Gaussian noise, one direction: `LineMoments` of any line.

    Making it takes the samples of both directions' profiles; `on` evaluates.

    Args:
      noise_multiplier: float > 0.
      num_steps: t, steps of the epoch.
      direction: the one whose moments are wanted.
      exponents: float64 [E], real parts of s - 1 that will be wanted, at least approximately.
      height: the largest imaginary part of s that will be wanted.
      tolerance: relative error aimed at for the samples of the profile.
    """

    def __init__(
        self,
        noise_multiplier: float,
        num_steps: float,
        direction: Direction,
        exponents: Real,
        height: float,
        tolerance: float = 1e-8,
    ):
        self._tau = 1.0 / (noise_multiplier * math.sqrt(num_steps))
        self._step = _step(noise_multiplier, num_steps, height)
        other = Direction.ADD if direction is Direction.REMOVE else Direction.REMOVE
        with np.errstate(all="ignore"):
            self._own, self._other = (
                _sampled(noise_multiplier, num_steps, d, self._step, e, tolerance)
                for d, e in ((direction, exponents), (other, -1.0 - exponents))
            )

    def _at(self, order: Real, b: Real) -> tuple[Complex, Real]:
        """M(order + ib) [A, N] and bounds [A, N] on its absolute error; b [N] is equidistant from 0."""
        s, step = order[:, None] + 1j * b, self._step
        factor = np.abs(s * (s - 1.0))
        total = 0.5 * math.sinh(0.5 * step) / (np.sinh(0.5 * step * (s - 1.0)) * np.sinh(0.5 * step * s))
        error = 32.0 * ULP * np.abs(total)
        for samples, exponents, sign in ((self._own, order - 1.0, 1.0), (self._other, -order, -1.0)):
            epsilon = samples.epsilon
            tilts = np.exp(exponents[:, None] * epsilon)  # what overflows fails closed
            if sign < 0:
                tilts[:, 0] = 0.0  # both profiles are the same at 0, counted once
            weights = tilts * np.maximum(samples.value, 0.0)
            if len(b) == 1:
                sums: Any = weights.sum(1)[:, None]
            else:
                sums = _turned_sums(weights, sign * epsilon, float(b[1]), len(b))
            rounding = dot_error(len(epsilon)) + ULP * (64.0 + 8.0 * np.abs(exponents[:, None]) * epsilon)
            total = total + sums
            error = error + (tilts * samples.error + weights * rounding).sum(1)[:, None]
            error = error + 4.0 * ULP * b * (weights * epsilon).sum(1)[:, None] + 32.0 * ULP * np.abs(sums)
            error = error + samples.beyond(exponents)[:, None] / step
        moment, error = s * (s - 1.0) * step * total, factor * step * error
        omega = 2.0 * math.pi / step
        heights = np.stack([j * omega + i * b for j in (1, 2, 3) for i in (-1, 1)])
        copies = (np.exp(-0.5 * (self._tau * heights) ** 2) / heights**2).sum(0)
        # those with |j| >= 4, for b <= 3 omega: twice e^{-(tau (4 omega - b))^2 / 2} / omega^2 sum 1/(j - 3)^2
        rest = 3.3 * np.exp(-0.5 * (self._tau * (4.0 * omega - b)) ** 2) / omega**2
        copies = np.where(b <= 3.0 * omega, (copies + rest) * (1.0 + 2.0**-40), np.inf)
        # they are multiples of M(a), itself what was found and its own copies
        share = factor[:, :1] * copies[0]
        most = (np.abs(moment[:, :1]) + error[:, :1]) / np.where(share < 0.5, 1.0 - share, 0.0)
        return moment, error + most * factor * copies

    def on(self, line: Line) -> LineMoments:
        """`LineMoments` of one epoch on a line whose lanes have their nodes at the same heights."""
        order, alias_orders = np.asarray(line.order), np.asarray(line.alias_orders)
        with np.errstate(all="ignore"):
            moment, error = self._at(order, np.asarray(line.heights)[:, 0])
            # where the error exceeds M, another M of its own size does as well, to within four times that
            size = np.abs(moment)
            lost = ~(error < size)
            size = np.where(lost, error, size)
            log_error = np.where(lost, math.log(4.0), np.log1p(error / size))
            sound = np.isfinite(size) & (error < 0.05 * size[:, :1])
            alias, alias_error = self._at(alias_orders.ravel(), np.zeros(1))
            log_alias = np.log(np.abs(alias[:, 0]) + alias_error[:, 0]).reshape(alias_orders.shape)
            decay = -0.5 * (self._tau * np.asarray(line.edges)) ** 2
        log_modulus = np.where(sound, np.log(np.where(sound & (size > 0), size, 1.0)), 0.0)
        log_modulus = np.where(sound, log_modulus, log_modulus[:, :1])  # as large as it may be
        phase = np.where(sound, np.angle(np.where(sound, moment, 1.0)), 0.0)
        log_alias = np.where(np.isnan(log_alias), np.inf, np.maximum(log_alias, 0.0) + 1e-12)
        log_error = np.where(sound, log_error, np.inf)
        return LineMoments(log_modulus.T, phase.T, log_error.T, log_alias, decay)  # type: ignore[arg-type]
