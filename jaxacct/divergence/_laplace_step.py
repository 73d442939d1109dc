"""Complex moments of one Laplace release, Poisson-sampled or not, on the host, for a contour of any length.

With x = 1/b under Q the loss v of the release is -x with probability 1/2, x with probability e^-x / 2, and between them
it has the density e^(-(v + x)/2) / 4. R = 1 - q + q e^v is the likelihood ratio of a step that is sampled with
probability q, and L = log R. The remove direction needs M(s) = E[R^s], the add direction M(s) = E[R^(1-s)], s = a + ib
with a > 1 and b >= 0. Both are E[R^w], w = alpha + ib, alpha = a or 1 - a; the second up to complex conjugation.

The atoms do not decay with the height b, the density between them does: |M(a + iy)|^T falls to the share of the T-fold
composition, tilted by a, in which every loss is an atom. Where that is next to nothing a contour is short.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.special import gauss_legendre, rows_times, rows_times_rows, turn

Real = np.ndarray[Any, np.dtype[np.float64]]

MOST_LOSS = 32.0  # largest 1/b whose moments are looked at: a rule for more would be long
_NUM_NODES = (16, 24, 32, 48, 64, 96, 128)  # of the rule between the atoms: any value is valid
_TURNS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.6, 2.9)  # half heights of ellipses, below pi
_NUM_ARCS = 24  # on which they are looked at: any value is valid, as are others for the half heights
_NUM_BLOCKS = 8  # of heights, each with its own bound on the rule's error: any value is valid
_NUM_CELLS = 128  # cells between the atoms behind a bound of the decay: any value is valid
_RESOLVED = 320.0  # of height times the range of L, up to which the longest rule is of use: steers cost only
# What a sum over nodes errs by, relative to the sum of its terms' sizes. A term: two turns of 23 ULP each in modulus,
# their product, an exponential and the logarithm of its weight, of the rule's by 2^-46 and of x <= 32 by some ULP
# each; the sum of 130 terms in any order: below 2^-44.
_ROUNDING = 2.0**-44


class _Law(NamedTuple):
    """The law of L on a rule's nodes, which are sorted: the two atoms are the first and the last.

    Attributes:
      log_weights: [N + 2].
      levels: [N + 2], L.
      blur: [N + 2], what a level errs by, in units of 2^-50.
    """

    log_weights: Real
    levels: Real
    blur: Real


class LaplaceStep(NamedTuple):
    """One step in one direction, as a round of a contour (`jaxacct.divergence._contour.Round`).

    Noise of scale b = 1 / `largest` over the sensitivity, q = `sampling_prob` in (0, 1].
    """

    largest: float
    sampling_prob: float
    direction: Direction

    def _power(self, order: Any) -> Any:
        return order if self.direction is Direction.REMOVE else 1.0 - order

    @property
    def variance(self) -> float:
        """The variance of the loss under Q."""
        law = _law(self, _NUM_NODES[0])
        weights = np.exp(law.log_weights)
        mean = float(rows_times(weights, law.levels))
        return float(rows_times(weights, (law.levels - mean) ** 2))

    @property
    def largest_order(self) -> float:
        """inf: every moment is finite."""
        return math.inf

    @property
    def highest(self) -> float:
        """About the height up to which the longest rule resolves moments."""
        low, high = _levels(np.array([-self.largest, self.largest]), self.sampling_prob)
        return _RESOLVED / max(float(high - low), 1e-300)

    # What compares contours, and certifies nothing

    def rough(self, orders: Real) -> Real:
        """About log M [A] at real `orders` [A]."""
        law = _law(self, _NUM_NODES[2])
        exponents = law.log_weights + self._power(orders)[:, None] * law.levels
        top = exponents.max(axis=1)
        return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """About the largest log |M(a + iy)| [A, H], y >= b, at `orders` [A] and `heights` b [H]."""
        rough = self.rough(orders)
        falls = [
            self._share_left(float(a), float(log_moment), heights) for a, log_moment in zip(orders, rough, strict=True)
        ]
        return rough[:, None] + np.log(np.minimum(np.stack(falls), 1.0))

    # What is certified

    def on_line(self, line: Line, log_tolerance: float) -> LineMoments:
        """`LineMoments` [N, 1] on a line of equally spaced nodes with one lane, every error bounded.

        `log_tolerance` is the logarithm of the error, relative to M(a), that the rule between the atoms should leave.
        Of the decay it only says that |M(a + ib)| <= M(a): `decay` knows more.
        """
        order, heights = float(line.order[0]), np.asarray(line.heights)[:, 0]
        step = float(heights[1]) if len(heights) > 1 else 0.0
        modulus, phase, error = self.moments(order, step, len(heights), log_tolerance)
        alias = [self._log_alias(float(c), log_tolerance) for c in np.asarray(line.alias_orders)[:, 0]]
        columns: Any = (modulus, phase, error, np.asarray(alias), np.zeros(1))
        return LineMoments(*(x[:, None] for x in columns))

    def moments(self, order: float, step: float, num: int, log_tolerance: float) -> tuple[Real, Real, Real]:
        """(log |M|, arg M, e) [num] at s = order + i step n, n < num: M errs by at most expm1(e), relative.

        The heights factor as n = n1 B + n2, so that one product of matrices takes the place of num times as many
        exponentials. In units of M(a), a sum of terms whose sizes add up to 1 errs by `_ROUNDING` and by what the
        exponents w L do, |w| 2^-50 times the mean of `blur`; beside it stands the error of the rule. Where that is half
        the sum or more, the moment is below three times the error E, and below 1: the lesser of the two takes its
        place, and errs by twice itself at most, expm1(log 3).
        """
        heights: Real = step * np.arange(num, dtype=np.float64)
        law, log_rules = self._chosen(order, step * num, log_tolerance)
        log_moment, weights = self._tilted(order, law)
        rows = max(1, math.isqrt(num))
        coarse = step * rows * np.arange(-(-num // rows))
        fine = step * np.arange(rows)
        by_coarse, by_fine = (turn(b[:, None] * law.levels) for b in (coarse, fine))
        total = rows_times_rows(by_coarse * weights, by_fine).ravel()[:num]
        # the rule errs less at smaller heights
        block = np.minimum(np.arange(num) * _NUM_BLOCKS // num, _NUM_BLOCKS - 1)
        by_rule = np.exp(np.minimum(log_rules - log_moment, 600.0))
        error = self._rounding(order, heights, law, weights) + by_rule[block]
        size = np.hypot(total.real, total.imag)
        known = size > 2.0 * error
        size = np.where(known, size, np.minimum(3.0 * error, 1.0))
        relative = np.where(known, error / np.where(known, size, 1.0), 0.0)
        slack = np.where(known, -np.log1p(-relative), math.log(3.0)) + 2.0**-50 * (4.0 + abs(log_moment) - np.log(size))
        phase = np.arctan2(total.imag, total.real) * (1.0 if self.direction is Direction.REMOVE else -1.0)
        return log_moment + np.log(size), phase, slack + 2.0**-50 * np.abs(phase)

    def decay(self, order: float, heights: Real, log_tolerance: float) -> Real:
        """Upper bounds [K] on log |M(a + iy) / M(a)|, each for every y >= its height b, `heights` [K].

        The atoms' share of M(a), and for what lies between them (`_share_left`) at most that at b.
        """
        log_moment, error = self._real_moment(order, log_tolerance)
        if not error < 0.5:
            return np.zeros(len(heights))
        share = self._share_left(order, log_moment, heights) * (1.0 + 2.0**-30) / (1.0 - error)
        return np.minimum(np.log(share), 0.0)

    def _share_left(self, order: float, log_moment: float, heights: Real) -> Real:
        """At least |M(a + iy)| / M(a) [K] for all y >= b, `heights` [K], given log M(a); up to 2^-30 of itself.

        The atoms, what lies between them up to some v0, and above it the integral of G e^(iyL) over L, with the density
        G = e^(-(v + x)/2) R^alpha / (4 p), p = q e^v / R = dL/dv. Per unit of v log G rises by (alpha + 1) p - 3/2, and
        p rises: G falls, rises, or falls and then rises. Where G is monotone the integral is at most 2/y times its
        larger end: G is a mixture of indicators of intervals up to that end (second mean value theorem). Of all v0 on
        a grid the best one counts. The mass up to v0 is at most that of chords, since g = e^(-v/2) R^alpha is convex:
        g'' is g times 1/4 + alpha (alpha - 1) p^2.
        """
        x, q, power = self.largest, self.sampling_prob, self._power(order)
        edges = np.linspace(-x, x, _NUM_CELLS + 1)
        levels = _levels(edges, q)
        log_p = np.minimum(math.log(q) + edges - levels, 0.0)
        ends = levels[[0, -1]]
        log_atoms = np.array([math.log(0.5), math.log(0.5) - x]) + power * ends - log_moment
        log_density = -0.5 * (edges + x) + power * levels - math.log(4.0) - log_moment
        with np.errstate(over="ignore"):
            density, in_level = np.exp(log_density), np.exp(log_density - log_p)
        below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))]) * (2.0 * x / _NUM_CELLS)
        slopes = (power + 1.0) * np.exp(log_p) - 1.5
        last = in_level[-1]
        largest = np.where(slopes > 0.0, last, np.where(slopes[-1] < 0.0, in_level, in_level + last))
        left = np.min(below + 2.0 * largest / heights[:, None], axis=1)
        return np.minimum(float(np.exp(log_atoms).sum()) + left, 1.0)

    def _real_moment(self, order: float, log_tolerance: float) -> tuple[float, float]:
        """log M(a), and what M(a) may err by, relative."""
        law, log_rules = self._chosen(order, 0.0, log_tolerance)
        log_moment, weights = self._tilted(order, law)
        by_rule = math.exp(min(float(log_rules[0]) - log_moment, 600.0))
        return log_moment, float(self._rounding(order, np.zeros(1), law, weights)[0]) + by_rule

    def _log_alias(self, order: float, log_tolerance: float) -> float:
        """At least log M(a)."""
        log_moment, error = self._real_moment(order, log_tolerance)
        return log_moment + 2.0**-50 * (4.0 + abs(log_moment)) - math.log1p(-error) if error < 0.5 else math.inf

    def _rounding(self, order: float, heights: Real, law: _Law, weights: Real) -> Real:
        """What rounding may do to a sum of terms of sizes `weights` [N + 2], which add up to 1, at `heights` [K]."""
        rate = 2.0**-50 * float(rows_times(weights, law.blur))
        return (abs(self._power(order)) + heights) * rate + _ROUNDING

    def _tilted(self, order: float, law: _Law) -> tuple[float, Real]:
        """log M(a) by the rule, and the share [N + 2] of each node in it."""
        exponents = law.log_weights + self._power(order) * law.levels
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        return top + math.log(total), weights / total

    def _chosen(self, order: float, height: float, log_tolerance: float) -> tuple[_Law, Real]:
        """The law on the shortest rule that is right to `log_tolerance` of M(a) up to `height`, and its log errors.

        They are those up to each of `_NUM_BLOCKS` equal parts of the height.
        """
        rough = float(self.rough(np.array([order]))[0])
        errors = self._log_rule(order, height * np.arange(1.0, _NUM_BLOCKS + 1.0) / _NUM_BLOCKS)
        fits = np.flatnonzero(errors[:, -1] - rough <= log_tolerance)
        at = int(fits[0]) if fits.size else len(_NUM_NODES) - 1
        return _law(self, _NUM_NODES[at]), errors[at]

    def _log_rule(self, order: float, heights: Real) -> Real:
        """log of what Gauss's rules may err by [rules, K], `_NUM_NODES`, for any moment up to each of `heights` [K].

        The integrand f(v) = e^(-(v + x)/2) R^w / 4 is analytic for |Im v| < pi. On an ellipse about [-x, x] with
        semiaxes x (rho + 1/rho)/2 and t = x (rho - 1/rho)/2 < pi let v = u + i y, and p the posterior probability at u:
        R(v) = R(u) (1 - p + p e^{iy}). Its argument is at most that at the largest p and y, or where that is past the
        largest, arcsin(p/(1-p)); its modulus is at most R(u), and at least R(u) times the root of 1 - 2 p (1 - p)
        (1 - cos y). e^{-u/2} R(u)^alpha is convex in u in the logarithm if alpha > 0, and falls if alpha < 0: its
        largest value is at an end. All that on arcs of the ellipse, upper half, each between two u and below the
        largest y. The rule errs by at most 64/15 F rho^(-2 N) / (1 - rho^-2) on [-1, 1], F the largest |f| on the
        ellipse (Trefethen, Approximation Theory and Approximation Practice, Theorem 19.3).
        """
        x, q, power = self.largest, self.sampling_prob, self._power(order)
        t = np.array(_TURNS)[:, None]
        rho = t / x + np.hypot(1.0, t / x)
        angles = np.linspace(0.0, math.pi, _NUM_ARCS + 1)
        u = 0.5 * x * (rho + 1.0 / rho) * np.cos(angles)
        y = t * np.where((angles[:-1] < 0.5 * math.pi) & (angles[1:] > 0.5 * math.pi), 1.0, 0.0)
        y = np.maximum(y, t * np.maximum(np.sin(angles[:-1]), np.sin(angles[1:])))
        levels = _levels(u, q)
        p = np.minimum(q * np.exp(u - levels), 1.0)
        sizes = power * levels - 0.5 * u
        high, low = p[:, :-1], p[:, 1:]
        turned = high + (1.0 - high) * np.cos(y)
        most = np.arcsin(np.minimum(high / np.maximum(1.0 - high, 0.5), 1.0))
        argument = np.where(turned >= 0.0, np.arctan2(high * np.sin(y), 1.0 - high * (1.0 - np.cos(y))), most)
        if power > 0.0:
            log_size = np.maximum(sizes[:, :-1], sizes[:, 1:])
        else:
            spread = np.maximum(low * (1.0 - low), high * (1.0 - high))
            spread = np.where((low <= 0.5) & (high >= 0.5), 0.25, spread)
            log_size = sizes[:, 1:] + 0.5 * power * np.log(np.maximum(1.0 - 2.0 * spread * (1.0 - np.cos(y)), 1e-300))
        largest = np.max(log_size[:, None, :] + heights[:, None] * argument[:, None, :], axis=-1)
        largest = largest - 0.5 * x + math.log(x / 4.0) + math.log(64.0 / 15.0) - np.log1p(-(rho**-2.0))
        # sums of a few logarithms, each by some ULP of itself; of the height times an argument below pi too
        largest = largest + 2.0**-40 * (1.0 + np.abs(sizes).max() + heights)
        return np.min(largest - 2.0 * np.array(_NUM_NODES)[:, None, None] * np.log(rho), axis=1)


def _levels(losses: Real, q: float) -> Real:
    """log(1 - q + q e^v) [N] at v, `losses` [N], without cancellation."""
    excess = q * np.expm1(losses)
    near = excess > -0.25
    far = (1.0 - q) + q * np.exp(np.where(near, 0.0, losses))
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(far))


@functools.lru_cache(maxsize=16)
def _law(step: LaplaceStep, num: int) -> _Law:
    """The law of L on the atoms and on Gauss's rule with `num` nodes between them.

    v errs by 8 units of 2^-53 of x, of which L makes p times as much; the logarithm by some more of itself.
    """
    x, q = step.largest, step.sampling_prob
    nodes, weights = gauss_legendre(num)
    losses = np.concatenate([[-x], x * nodes, [x]])
    inner = np.log(weights) + math.log(0.25 * x) - 0.5 * (losses[1:-1] + x)
    log_weights = np.concatenate([[math.log(0.5)], inner, [math.log(0.5) - x]])
    levels = _levels(losses, q)
    p = np.minimum(q * np.exp(losses - levels), 1.0)
    return _Law(log_weights, levels, 2.0 * np.abs(levels) + 2.0 * x * p)
