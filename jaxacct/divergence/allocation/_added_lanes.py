"""Complex moments of rounds of 1-out-of-t allocation in the add direction, for many questions at once.

For the pair of either direction and every complex s the moments are integrals over the profile,

    M(s) = s (s - 1) ( int_0^inf delta(eps) e^{(s-1) eps} d eps + int_0^inf delta'(eps) e^{-s eps} d eps ) + 1,

delta' the profile of the other direction. The two integrals and the 1 are together one integral of delta(eps)
e^{(s-1) eps} over the real line, since delta(-eps) = 1 - e^-eps + e^-eps delta'(eps). The error of the trapezoid rule
of step d on it is

    sum over j != 0 of M(s + 2 pi i j/d) s (s - 1)/((s + 2 pi i j/d)(s - 1 + 2 pi i j/d))

exactly (Poisson summation), and these copies of M are small: the geometric mean of the t ratios is
e^{tau g - 1/(2 sigma^2)}, tau = 1/(sigma sqrt t), and the ratio of X to it is independent of it, so that
|M(a + ib)| <= M(a) e^{-(tau b)^2/2}. This also bounds the part of a contour beyond its last node.

The profiles of both directions are computed from one vertical line, since E(X-1-x)_+ = E(x - (X-1))_+ - x. The rounds
of a lane have similar lengths, and one transform of a step's ratio is used for all of them.

Shapes: [L] lanes; [R] rounds; [K] points of the real axis; [N] nodes of a line; [J] samples; [B] heights; [A] orders.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._added_plans import Guide, SamplePlan, last_knot, other_rate, spread_of
from jaxacct.divergence.allocation._grid import Complex, Real
from jaxacct.divergence.allocation._lines import Copies, plain_line
from jaxacct.divergence.allocation._real import log_decay
from jaxacct.divergence.allocation._rule import Rule
from jaxacct.special import ULP, exp_or_inf, rows_times_rows, turn

_KNOTS = 40  # number of points at which delta is bounded beyond the last sample: affects tightness only


class AddedMoments(NamedTuple):
    """log |M(a + ib)| [R, B], its phase, log1p of its relative error, at b = k step; upper bounds on log M [R, A]."""

    logs: Real
    phase: Real
    error: Real
    alias: Real


class ProfileSamples:
    """M(s) of rounds [R] in the add direction, from samples of their profiles.

    Args:
      of: the rule, lanes [L].
      lane: [R], integers, the lane of each round.
      known: transforms of the rounds on the real axis.
      at: samples and lines of the lanes; every lane gets as many nodes as the lane that needs most.
    """

    def __init__(self, of: Rule, lane: Any, known: Guide, at: SamplePlan):
        t, num = known.steps[:, None], int(at.num_nodes.max())
        self._known, self._step = known, at.step[lane, None]
        self._sigma, self._tau = of.sigma[lane], 1.0 / (of.sigma[lane] * np.sqrt(t))
        self._spread = spread_of(of, lane, known.steps)[:, None]
        ends = (num - 0.5) * at.spacing[:, None]
        log_tail = t * log_decay(of, None, at.centre, ends)[lane] - np.log(math.pi * ends[lane] * t)
        copies = Copies(1.0, self._spread, known.c, known.logs, 1.0)
        line = plain_line(of, None, (t, t), at.centre, at.spacing, num, log_tail, copies, lane)
        # the samples: the add direction's on the left of 0
        own, other = int(at.own.max()), int(at.other.max())
        number = np.arange(1.0 - other, own)
        self.epsilon = self._step * number  # [R, J], > 0 for the add direction
        # each lane uses only the samples that its own plan requires
        self._ends = self._step * (at.other - 1.0)[lane, None], self._step * (at.own - 1.0)[lane, None]
        is_taken = (number > -at.other[lane, None]) & (number < at.own[lane, None])
        self._is_own = self.epsilon >= 0.0
        x = np.expm1(-self.epsilon)
        value, _, error = line.values(x)
        # x is rounded, and the slope is P[X - 1 < x] <= e^{cx} E e^{-c }; E(X-1-x)_+ = E(x - (X-1))_+ - x
        slope = np.exp(np.minimum(line.centre * x + line.log_whole + 1e-3, 0.0))
        error = error + 8.0 * ULP * (np.abs(x) * slope + np.abs(value))
        value = np.where(self._is_own, value, value - x)
        grown = np.exp(np.maximum(self.epsilon, 0.0))
        value, error = grown * value, grown * error * (1.0 + 16.0 * ULP) + 8.0 * ULP * grown * np.abs(value)
        # where the error is large: delta is at most E|X - 1|, and at most the bound by the transforms
        upper = np.minimum(
            np.where(self._is_own, known.log_upper(self.epsilon), 0.0),
            np.log(self._spread) + np.maximum(self.epsilon, 0.0),
        )
        upper = np.exp(np.minimum(upper, 0.0)) * (1.0 + 1e-9)
        badly = ~(error <= upper)
        value, error = np.where(badly, 0.5 * upper, value), np.where(badly, 0.5 * upper, error)
        self.value, self.error, self._taken = (np.where(is_taken, x, 0.0) for x in (value, error, self.epsilon))

    def _beyond(self, orders: Real) -> Real:
        """Upper bounds [R, A] on step sum delta e^{p eps} and step sum delta e^{-a eps} past the last samples."""
        known, step, p = self._known, self._step[:, :, None], orders[:, :, None] - 1.0
        before, end = self._ends
        last = np.maximum(2.0 * end, last_knot(self._sigma, self._tau, orders.max(1, keepdims=True) - 1.0))
        knots = end + (last - end) * np.linspace(0.0, 1.0, _KNOTS) ** 2
        pieces = known.log_upper(knots[:, :-1])[:, None] + p * knots[:, None, 1:]
        pieces = exp_or_inf(pieces) * (np.diff(knots, axis=1)[:, None] + step)
        # beyond the last knot by the geometric mean, which X exceeds: E X^-r <= e^{r/(2 sigma^2) + (r tau)^2/2}
        mean, tau = 0.5 / self._sigma**2, self._tau
        r = (last - mean) / tau**2
        log_moment = r * (mean + 0.5 * r * tau**2)
        slope = np.maximum(r - p[:, :, 0], 1e-300)
        rest = exp_or_inf(log_moment - slope * last) * (self._step + 1.0 / slope)
        own = pieces.sum(2) + np.where(r > p[:, :, 0], rest, np.inf)
        rate, log = other_rate(known, orders)
        other = (exp_or_inf(log - rate * before[:, None]) * (step + 1.0 / rate)).min(2)
        return own + np.minimum(other, self._spread * np.exp(-orders * before) * (self._step + 1.0 / orders))

    def _sums(self, orders: Real) -> tuple[Real, Real, Real, Real]:
        """The weighted samples [R, A, J], the sums [R, A] of their errors and of |eps| times them, and their tilts."""
        p = orders[:, :, None] - 1.0
        tilts = np.exp(
            np.where(self._is_own[:, None], p, p + 1.0) * self._taken[:, None]
        )  # what overflows fails closed
        weights = tilts * np.maximum(self.value, 0.0)[:, None]
        rounding = ULP * (128.0 + 2.0 * weights.shape[2])
        sizes = np.abs(self.epsilon)[:, None] * weights
        errors = (tilts * self.error[:, None] + weights * rounding).sum(2)
        return weights, errors + 8.0 * ULP * orders * sizes.sum(2), sizes.sum(2), tilts

    def _copies_of(self, b: Real) -> Real:
        """Bounds [R, B] on the copies of M at a + ib, over M(a), by the decay of M."""
        omega = 2.0 * math.pi / self._step
        copies = 0.0
        for j in (1.0, 2.0, 3.0):
            for sign in (-1.0, 1.0):
                at = j * omega + sign * b
                copies = copies + np.exp(-0.5 * (self._tau * at) ** 2) / at**2
        rest = 3.3 * np.exp(-0.5 * (self._tau * (4.0 * omega - b)) ** 2) / omega**2
        return np.where(b <= 3.0 * omega, (copies + rest) * (1.0 + 2.0**-40), np.inf)

    def _at(self, order: Real, b: Real, sums: Complex, errors: Real, sizes: Real) -> tuple[Complex, Real]:
        """M(order + ib) and bounds on its absolute error, [R, B], from sums of the samples; `order`, .. [R, 1]."""
        s, step = order + 1j * b, self._step
        factor = np.abs(s * (s - 1.0))
        pole = 0.5 * np.sinh(0.5 * step) / (np.sinh(0.5 * step * (s - 1.0)) * np.sinh(0.5 * step * s))
        total = pole + sums
        error = errors + 32.0 * ULP * (np.abs(pole) + np.abs(sums)) + 8.0 * ULP * np.abs(b) * sizes
        return s * (s - 1.0) * step * total, factor * step * error

    def __call__(self, order: Real, spacing: Real, count: int, alias_orders: Real) -> AddedMoments:
        """`AddedMoments` (a class) at s = order + ib, b = k `spacing`, k < `count`, and at real orders [R, A]."""
        every = np.concatenate([order[:, None], alias_orders], axis=1)
        weights, errors, sizes, _ = self._sums(every)
        errors = errors + self._beyond(every) / self._step
        b = spacing[:, None] * np.arange(count)
        sums = _turned_sums(weights[:, 0], self.epsilon, spacing, count)
        moment, error = self._at(order[:, None], b, sums, errors[:, :1], sizes[:, :1])
        zero = np.zeros_like(every)
        real, real_error = self._at(every, zero, weights.sum(2), errors, sizes)
        # the copies are multiples of M(a), which is at most the value found plus its own copies
        square = every * (every - 1.0)
        share = square * self._copies_of(zero[:, :1])
        most = (np.abs(real) + real_error) / np.where(share < 0.5, 1.0 - share, 0.0)
        error = error + most[:, :1] * np.abs(order[:, None] + 1j * b) * np.abs(order[:, None] - 1.0 + 1j * b) * (
            self._copies_of(b)
        )
        log_alias = np.where(np.isnan(most), np.inf, np.maximum(np.log(most), 0.0) + 1e-12)[:, 1:]
        # where the error exceeds M, any value of the size of M will do, with an error of at most four times that size
        size = np.abs(moment)
        lost = ~(error < size)
        size = np.where(lost, error, size)
        log_error = np.where(lost, math.log(4.0), np.log1p(error / size))
        sound = np.isfinite(size) & (error < 0.05 * size[:, :1]) & (size > 0.0)
        logs = np.where(sound, np.log(np.where(sound, size, 1.0)), 0.0)
        logs = np.where(sound, logs, logs[:, :1])  # the largest possible size, with an infinite error
        phase = np.where(sound, np.angle(np.where(sound, moment, 1.0)), 0.0)
        return AddedMoments(logs, phase, np.where(sound, log_error, np.inf), log_alias)

    def decay(self, heights: Real) -> Real:
        """Upper bounds [R, B] on log |M(a + ib)/M(a)| for every b >= `heights` [R, B]."""
        return -0.5 * (self._tau * heights) ** 2


def _turned_sums(weights: Real, epsilon: Real, spacing: Real, count: int) -> Complex:
    """sum_j weights_j e^{i k spacing epsilon_j} [R, `count`]."""
    rows = max(1, math.isqrt(count))
    angle = (spacing[:, None] * epsilon)[:, None]
    fine = turn(angle * np.arange(rows)[:, None])
    coarse = turn(angle * (rows * np.arange(-(-count // rows)))[:, None]) * weights[:, None]
    return rows_times_rows(coarse, fine).reshape(len(weights), -1)[:, :count]
