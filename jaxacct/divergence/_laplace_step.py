"""Complex moments of Laplace releases, Poisson-sampled or not, on the host, for contours of any length.

With x = 1/b, under Q the loss v of the release is -x with probability 1/2, x with probability e^-x / 2, and between
these two atoms it has the density e^(-(v + x)/2) / 4. R = 1 - q + q e^v is the likelihood ratio of a step that is
sampled with probability q, and L = log R. The remove direction needs M(s) = E[R^s] and the add direction
M(s) = E[R^(1-s)], with s = a + ib, a > 1 and b >= 0. Both are E[R^w] with w = alpha + ib and alpha = a or 1 - a; the
second up to complex conjugation.

The atoms' part of M does not decay with the height b, but that of the density between them does: |M(a + iy)|^T falls to
the share of the T-fold composition, tilted by a, in which every loss is an atom. If that share is negligible, the
contour is short.

Shapes: [R] different steps, each of one direction.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.special import gauss_legendre, rows_times, rows_times_rows, turn

Real = np.ndarray[Any, np.dtype[np.float64]]

MOST_LOSS = 32.0  # largest 1/b for which moments are computed: above it the quadrature rule would be long
_NUM_NODES = (16, 24, 32, 48, 64, 96, 128)  # of the rule between the atoms: any value is valid
_TURNS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.6, 2.9)  # half heights of ellipses, below pi
_NUM_ARCS = 24  # arcs on which each ellipse is bounded: any value is valid, as are other half heights
_NUM_BLOCKS = 8  # of heights, each with its own bound on the rule's error: any value is valid
_NUM_CELLS = 128  # cells between the atoms by which the decay is bounded: any value is valid
_RESOLVED = 320.0  # height times the range of L up to which the longest rule is of use: affects cost only
# Error of a sum over nodes, relative to the sum of its terms' sizes. A term has errors in two phase factors, 23 ULP
# each in modulus, in their product, in an exponential and in the logarithm of its weight, where the rule's weight errs
# by 2^-46 and x <= 32 by some ULP each; with the sum of 130 terms in any order this is below 2^-44.
_ROUNDING = 2.0**-44


class _Law(NamedTuple):
    """The law of L on a rule's nodes, in increasing order: the two atoms are the first and the last node.

    Attributes:
      log_weights: [R, N + 2], the logarithms of the weights.
      levels: [R, N + 2], the values of L.
      blur: [R, N + 2], bound on the error of a level, in units of 2^-50.
    """

    log_weights: Real
    levels: Real
    blur: Real


class LaplaceRule(NamedTuple):
    """A quadrature rule between the atoms for moments of one order.

    Attributes:
      order, height: [R], a, and the height up to which the rule is meant to be used.
      law: the law of L on its nodes.
      log_errors: [R, K], log of the rule's error up to the end of each of K equal parts of the height.
      log_moment: [R], log M(a) by the rule.
      weights: [R, N + 2], the share of each node in M(a).
    """

    order: Real
    height: Real
    law: _Law
    log_errors: Real
    log_moment: Real
    weights: Real

    def at(self, some: Any) -> "LaplaceRule":
        """The rule for some of the steps."""
        law = _Law(*(x[some] for x in self.law))
        return LaplaceRule(self.order[some], self.height[some], law, *(x[some] for x in self[3:]))


class LaplaceSteps(NamedTuple):
    """Steps: noise of scale b = 1 / `largest` [R] over the sensitivity, `sampling_prob` [R] in (0, 1].

    `adds` [R] says whether the direction is that of adding a record. The methods are those of `SampledSteps` in
    `jaxacct.divergence.gaussian._sampled_step`.
    """

    largest: Real
    sampling_prob: Real
    adds: Any

    def _power(self, order: Any) -> Any:
        return np.where(self.adds.reshape(-1, *(1,) * (order.ndim - 1)), 1.0 - order, order)

    def at(self, some: Any) -> "LaplaceSteps":
        """Some of the steps."""
        return LaplaceSteps(*(x[some] for x in self))

    @property
    def variance(self) -> Real:
        """The variance of the loss under Q [R]."""
        law = self._law(_NUM_NODES[0])
        weights = np.exp(law.log_weights)
        mean = rows_times(weights, law.levels)
        return rows_times(weights, (law.levels - mean[:, None]) ** 2)

    @property
    def largest_order(self) -> Real:
        """inf [R]: every moment is finite."""
        return np.full(len(self.largest), math.inf)

    @property
    def highest(self) -> Real:
        """Approximate height up to which the longest rule resolves moments [R]."""
        low, high = _levels(np.stack([-self.largest, self.largest]), self.sampling_prob)
        return _RESOLVED / np.maximum(high - low, 1e-300)

    # Approximations that compare contours and certify nothing

    def rough(self, orders: Real) -> Real:
        """Approximate log M [R, A] at real `orders` [R, A]."""
        law = self._law(_NUM_NODES[2])
        exponents = law.log_weights[:, None, :] + self._power(orders)[:, :, None] * law.levels[:, None, :]
        top = exponents.max(axis=2)
        return top + np.log(np.exp(exponents - top[:, :, None]).sum(axis=2))

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """Approximate largest log |M(a + iy)| [R, A, H] over y >= b, for `orders` a [R, A] and `heights` b [R, H]."""
        rough = self.rough(orders)
        return rough[:, :, None] + np.log(np.minimum(self._share_left(orders, rough, heights), 1.0))

    # Certified values

    def moments(self, rule: LaplaceRule, step: Real, num: int) -> tuple[Real, Real, Real]:
        """(log |M|, arg M, e) [R, num] at s = order + i step n, n < num: the relative error of M is at most expm1(e).

        The index of a height is written n = n1 B + n2, so that one product of matrices replaces num times as many
        exponentials. In units of M(a), a sum of terms whose sizes add up to 1 errs by `_ROUNDING` and, through the
        exponents w L, by |w| 2^-50 times the mean of `blur`; the error of the rule is added. Where this total error E
        is half the sum or more, the moment is below 3 E, and below 1: the lesser of the two replaces it, with a
        relative error of at most 2 = expm1(log 3). The heights must not exceed the rule's.
        """
        law, step = rule.law, step[:, None]
        heights: Real = step * np.arange(num, dtype=np.float64)
        rows = max(1, math.isqrt(num))
        coarse = step * (rows * np.arange(-(-num // rows)))
        fine = step * np.arange(rows)
        by_coarse, by_fine = (turn(b[:, :, None] * law.levels[:, None, :]) for b in (coarse, fine))
        total = rows_times_rows(by_coarse * rule.weights[:, None, :], by_fine).reshape(len(step), -1)[:, :num]
        # the rule's error is smaller at smaller heights
        num_blocks = rule.log_errors.shape[1]
        part = np.maximum(rule.height[:, None], 1e-300) / num_blocks
        block = np.minimum(heights / part, num_blocks - 1.0).astype(int)
        by_rule = np.exp(np.minimum(rule.log_errors - rule.log_moment[:, None], 600.0))
        error = self._rounding(rule, heights) + np.take_along_axis(by_rule, block, 1)
        size = np.hypot(total.real, total.imag)
        known = size > 2.0 * error
        size = np.where(known, size, np.minimum(3.0 * error, 1.0))
        relative = np.where(known, error / np.where(known, size, 1.0), 0.0)
        log_moment, log_size = rule.log_moment[:, None], np.log(size)
        slack = np.where(known, -np.log1p(-relative), math.log(3.0))
        slack = slack + 2.0**-50 * (4.0 + np.abs(log_moment) - log_size)
        phase = np.arctan2(total.imag, total.real) * np.where(self.adds, -1.0, 1.0)[:, None]
        return log_moment + log_size, phase, slack + 2.0**-50 * np.abs(phase)

    def real_moment(self, rule: LaplaceRule) -> Real:
        """Upper bound on log M(a) [R]; inf where the rule's error is too large."""
        error = self._real_error(rule)
        found = rule.log_moment + 2.0**-50 * (4.0 + np.abs(rule.log_moment))
        return np.where(error < 0.5, found - np.log1p(-np.minimum(error, 0.5)), math.inf)

    def decay(self, rule: LaplaceRule, log_moment: Real, heights: Real) -> Real:
        """Upper bounds [R, K] on log |M(a + iy) / M(a)|, each for every y >= its height b, `heights` [R, K].

        A bound is the atoms' share of M(a), plus the bound at b for the part between them (`_share_left`).
        """
        del log_moment  # an upper bound; a lower one is needed here
        error = self._real_error(rule)[:, None]
        left = self._share_left(rule.order[:, None], rule.log_moment[:, None], heights)[:, 0, :]
        share = left * (1.0 + 2.0**-30) / (1.0 - np.minimum(error, 0.5))
        return np.where(error < 0.5, np.minimum(np.log(share), 0.0), 0.0)

    def _share_left(self, orders: Real, log_moments: Real, heights: Real) -> Real:
        """Upper bound, to 2^-30 of itself, on |M(a + iy)| / M(a) [R, A, K] over y >= b, `heights` [R, K].

        `log_moments` [R, A] is log M(a). The bound is a sum of three parts: the atoms, the mass between them up to some
        v0, and beyond v0 the integral of G e^(iyL) over L, with the density G = e^(-(v + x)/2) R^alpha / (4 p) and
        p = q e^v / R = dL/dv. The derivative of log G in v is (alpha + 1) p - 3/2, and p increases: so G decreases,
        increases, or first decreases and then increases. Where G is monotone the integral is at most 2/y times the
        larger of its two end values, since G is a mixture of indicators of intervals up to that end (second mean value
        theorem). The best v0 of a grid is taken. The mass up to v0 is at most that under chords, since
        g = e^(-v/2) R^alpha is convex: g'' is g times 1/4 + alpha (alpha - 1) p^2.
        """
        x, q, power = self.largest[:, None], self.sampling_prob[:, None], self._power(orders)[:, :, None]
        edges = x * np.linspace(-1.0, 1.0, _NUM_CELLS + 1)
        levels = _levels(edges, q)
        log_p = np.minimum(np.log(q) + edges - levels, 0.0)[:, None, :]
        log_moment, halves = log_moments[:, :, None], (0.5 * (edges + x))[:, None, :]
        raised = power * levels[:, None, :] - log_moment
        log_atoms = np.concatenate([raised[:, :, :1], raised[:, :, -1:] - x[:, :, None]], axis=2) + math.log(0.5)
        log_density = raised - halves - math.log(4.0)
        density, in_level = np.exp(log_density), np.exp(log_density - log_p)
        cells = 0.5 * (density[:, :, 1:] + density[:, :, :-1])
        below = np.zeros(density.shape)
        np.cumsum(cells, axis=2, out=below[:, :, 1:])
        below = below * (2.0 * x / _NUM_CELLS)[:, :, None]
        slopes = (power + 1.0) * np.exp(log_p) - 1.5
        last = in_level[:, :, -1:]
        falling = np.where(slopes[:, :, -1:] < 0.0, in_level, in_level + last)
        largest = 2.0 * np.where(slopes > 0.0, last, falling)
        left = np.stack([np.min(below + largest / b[:, None, None], axis=2) for b in heights.T], axis=2)
        return np.minimum(np.exp(log_atoms).sum(2)[:, :, None] + left, 1.0)

    def _real_error(self, rule: LaplaceRule) -> Real:
        """Bound on the relative error of M(a) [R]."""
        by_rule = np.exp(np.minimum(rule.log_errors[:, 0] - rule.log_moment, 600.0))
        return self._rounding(rule, np.zeros((len(by_rule), 1)))[:, 0] + by_rule

    def _rounding(self, rule: LaplaceRule, heights: Real) -> Real:
        """Bound on the rounding error of a sum of terms whose sizes add up to 1, at `heights` [R, K]."""
        rate = 2.0**-50 * rows_times(rule.weights, rule.law.blur)[:, None]
        return (np.abs(self._power(rule.order))[:, None] + heights) * rate + _ROUNDING

    def for_height(self, rule: LaplaceRule, log_tolerance: Real, height: Real) -> LaplaceRule:
        """A rule of the same orders for moments up to `height` [R]."""
        return rule if np.all(height <= rule.height) else self.rule(rule.order, log_tolerance, height)

    def rule(self, order: Real, log_tolerance: Real, height: Real) -> LaplaceRule:
        """The shortest rule (class `LaplaceRule`) whose error over M(a) is at most e^`log_tolerance` [R].

        It is for moments up to `height` [R] at `order` [R], and has the same number of nodes for all steps.
        """
        rough, num = self.rough(order[:, None])[:, 0], _NUM_BLOCKS if height.any() else 1
        errors = self._log_rule(order, height[:, None] * (np.arange(1.0, num + 1.0) / num))
        fits = np.all(errors[:, :, -1] - rough <= log_tolerance, axis=1)
        at = int(fits.argmax()) if fits.any() else len(_NUM_NODES) - 1
        law = self._law(_NUM_NODES[at])
        exponents = law.log_weights + self._power(order)[:, None] * law.levels
        top = exponents.max(axis=1)
        weights = np.exp(exponents - top[:, None])
        total = weights.sum(axis=1)
        return LaplaceRule(order, height, law, errors[at], top + np.log(total), weights / total[:, None])

    def _log_rule(self, order: Real, heights: Real) -> Real:
        """log of the error bounds [rules, R, K] of Gauss's rules, `_NUM_NODES`, for any moment up to `heights` [R, K].

        The integrand f(v) = e^(-(v + x)/2) R^w / 4 is analytic for |Im v| < pi. On an ellipse about [-x, x] with
        semiaxes x (rho + 1/rho)/2 and t = x (rho - 1/rho)/2 < pi let v = u + i y, and let p be the posterior
        probability at u: R(v) = R(u) (1 - p + p e^{iy}). The argument of R(v) is at most that at the largest p and y,
        or at most arcsin(p/(1-p)) if that y is past the maximum; its modulus is at most R(u), and at least R(u) times
        the root of 1 - 2 p (1 - p) (1 - cos y). e^{-u/2} R(u)^alpha is log-convex in u if alpha > 0, and decreasing if
        alpha < 0: its largest value is at an end. All this is bounded on arcs of the upper half of the ellipse, each
        between two values of u and below its largest y. The rule errs by at most 64/15 F rho^(-2 N) / (1 - rho^-2) on
        [-1, 1], with F the largest |f| on the ellipse (Trefethen, Approximation Theory and Approximation Practice,
        Theorem 19.3).
        """
        x, q, power = (z[:, None, None] for z in (self.largest, self.sampling_prob, self._power(order)))
        t = np.array(_TURNS)[:, None]
        rho = t / x + np.hypot(1.0, t / x)
        angles = np.linspace(0.0, math.pi, _NUM_ARCS + 1)
        u = 0.5 * x * (rho + 1.0 / rho) * np.cos(angles)
        y = t * np.where((angles[:-1] < 0.5 * math.pi) & (angles[1:] > 0.5 * math.pi), 1.0, 0.0)
        y = np.maximum(y, t * np.maximum(np.sin(angles[:-1]), np.sin(angles[1:])))
        levels = _levels(u, q)
        p = np.minimum(q * np.exp(u - levels), 1.0)
        sizes = power * levels - 0.5 * u
        high, low = p[..., :-1], p[..., 1:]
        cos, sin = np.cos(y), np.sin(y)
        most = np.arcsin(np.minimum(high / np.maximum(1.0 - high, 0.5), 1.0))
        argument = np.arctan2(high * sin, 1.0 - high * (1.0 - cos))
        argument = np.where(high + (1.0 - high) * cos >= 0.0, argument, most)
        log_size, adds = np.maximum(sizes[..., :-1], sizes[..., 1:]), np.flatnonzero(self.adds)
        if adds.size:
            low, high = low[adds], high[adds]
            spread = np.maximum(low * (1.0 - low), high * (1.0 - high))
            spread = np.where((low <= 0.5) & (high >= 0.5), 0.25, spread)
            least = np.log(np.maximum(1.0 - 2.0 * spread * (1.0 - cos), 1e-300))
            log_size[adds] = sizes[adds, :, 1:] + 0.5 * power[adds] * least
        rho, x = rho[:, :, 0], x[:, :, 0]
        room = 2.0**-40 * (1.0 + np.abs(sizes).max((1, 2)))[:, None]
        found = []
        for b in heights.T[:, :, None]:
            largest = np.max(log_size + b[:, :, None] * argument, axis=2)
            largest = largest - 0.5 * x + np.log(x / 4.0) + math.log(64.0 / 15.0) - np.log1p(-(rho**-2.0))
            # rounding of a few logarithms, each by some ULP of itself, and of the height times an argument below pi
            found.append(largest + room + 2.0**-40 * b)
        rates = 2.0 * np.array(_NUM_NODES)[:, None, None] * np.log(rho)
        return np.stack([np.min(largest - rates, axis=2) for largest in found], axis=2)

    def _law(self, num: int) -> _Law:
        """The law of L on the atoms and on Gauss's rule with `num` nodes between them.

        The error of v is 8 units of 2^-53 of x, and its effect on L is that times p; the logarithm adds an error
        relative to its value.
        """
        x, q = self.largest[:, None], self.sampling_prob[:, None]
        nodes, weights = gauss_legendre(num)
        losses = x * np.concatenate([[-1.0], nodes, [1.0]])
        log_weights = np.empty(losses.shape)
        log_weights[:, 1:-1] = np.log(weights) + np.log(0.25 * x) - 0.5 * (losses[:, 1:-1] + x)
        log_weights[:, 0], log_weights[:, -1] = math.log(0.5), math.log(0.5) - self.largest
        levels = _levels(losses, q)
        p = np.minimum(q * np.exp(losses - levels), 1.0)
        return _Law(log_weights, levels, 2.0 * np.abs(levels) + 2.0 * x * p)


def _levels(losses: Real, q: Any) -> Real:
    """log(1 - q + q e^v) [..] at v, `losses`, without cancellation; `q` broadcasts."""
    excess = q * np.expm1(losses)
    near = excess > -0.25
    far = (1.0 - q) + q * np.exp(np.where(near, 0.0, losses))
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(far))
