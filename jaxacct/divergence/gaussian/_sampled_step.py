"""Complex moments of a Poisson-sampled Gaussian step on the host, for a contour of any length; NumPy, not compiled.

R = 1 - q + q Y, Y = exp(mu z - mu^2/2), z standard normal under Q, mu = 1/sigma: the likelihood ratio of one step. The
remove direction needs M(s) = E[R^s], the add direction M(s) = E[R^(1-s)], s = a + ib with a > 1 and b >= 0. Both are
E[R^w], w = alpha + ib, alpha = a or 1 - a; the second up to complex conjugation.

Everything below moves the path of integration over z off the real line, to Im z = eta > 0. With t = mu eta < pi/2
there, and p = q Y / R the posterior probability of participation at a real x,

    R(x + i eta) = R(x) (1 - p + p e^{it}),    theta = arg(1 - p + p e^{it}) = atan2(p sin t, 1 - p (1 - cos t)) >= 0,

so that |R^w| = |R|^alpha e^{-b theta}: what oscillates fast in b on the real line decays here. Hence a rule with some
200 nodes gives the moments at every height (`_Rule`), and |M(a + ib)| has a bound that falls with b (`decay`).
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.special import rows_times, rows_times_rows, with_few_bits

Real = np.ndarray[Any, np.dtype[np.float64]]
Complex = np.ndarray[Any, np.dtype[np.complex128]]

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_MOST_EXPONENT = 300.0  # e^x is formed up to here, so that its square is a double
# Any value of these is valid; they steer speed and tightness.
_ANGLES = {Direction.REMOVE: (1.4, 1.2, 1.0), Direction.ADD: (1.15, 1.0, 0.785)}  # angles mu eta tried for the rule
_LARGEST_SHIFT = 2.0  # largest eta of the rule: rounding is magnified by e^{eta^2/2}
_LOOSEST = -2.0  # log of the largest error asked of the rule: the bound on E[R^alpha] by its own nodes needs that
_STEP_BITS = 12  # the step of the rule has so few bits that its nodes are exact doubles
_LARGEST_POWER = 200.0  # larger log |R^alpha| are split between weight and value, so that neither overflows
_MOST_NODES = 2**13  # a rule with more says nothing
_DECAY_CELLS = 1200  # cells in z behind a bound of the decay: its exponent is about 3 % short with as many
_LARGEST_TURN = 0.7  # h, the largest tan(t/2) of the path in `decay`: any value below 1
_LARGEST_PATH = 1.5  # half the largest eta of that path
_FAR = 100.0  # standard deviations beyond which no mass is looked for when contours are compared


def _log_ratio(x: Real, mu: float, q: float) -> Real:
    """log R at real x, without cancellation."""
    exponent = mu * x - 0.5 * mu * mu
    excess = q * np.expm1(np.minimum(exponent, _MOST_EXPONENT))
    near = np.log1p(np.maximum(excess, -0.25))
    far = np.log((1.0 - q) + q * np.exp(np.minimum(exponent, _MOST_EXPONENT)))
    huge = np.logaddexp(math.log1p(-q), exponent + math.log(q))
    return np.where(exponent > _MOST_EXPONENT, huge, np.where(excess < -0.25, far, near))


def _log_tail(x: float) -> float:
    """At least log(1 - Phi(x)): that of the lesser of e^{-x^2/2}/2 and phi(x)/x for x > 0, and of 1 elsewhere."""
    return -0.5 * x * x - max(math.log(2.0), math.log(x) + _LOG_ROOT_TWO_PI) if x > 0.0 else 0.0


def _expm1(real: Real, imag: Real) -> Complex:
    """e^{real + i imag} - 1 to some 5 units of 2^-51, relative."""
    half = 0.5 * imag
    sin, grown = np.sin(half), np.expm1(real)
    twice = 2.0 * (1.0 + grown) * sin
    return (grown - twice * sin) + 1j * (twice * np.cos(half))


def _table(u: Any, v: Any, weight: Any) -> Any:
    """sum over nodes of weight ((1 + u_i)(1 + v_j) - 1) for every row i of `u` and j of `v`, flat."""
    by_u, by_v = rows_times(u, weight), rows_times(v, weight)
    return (by_u[:, None] + by_v + rows_times_rows(u, weight * v)).ravel()


class _Rule(NamedTuple):
    """The trapezoid rule for E[R^w - 1] on the line Im z = eta: sum of weight (e^{w L} - 1), L = log R.

    L = level + i angle.

    Attributes:
      step, shift: distance k of the nodes, and eta.
      nodes: x, exact doubles.
      level, angle: log |R| and arg R at the nodes.
      log_size: log |weight|.
      blur: what rounding may do to R, relative, in units of 2^-50.
      error: what the rule's step and window may leave out, for each of its values.
    """

    step: float
    shift: float
    nodes: Real
    level: Real
    angle: Real
    log_size: Real
    blur: Real
    error: float


class SampledStep(NamedTuple):
    """One step in one direction: sigma > 0, q in (0, 1)."""

    noise_multiplier: float
    sampling_prob: float
    direction: Direction

    @property
    def _mu(self) -> float:
        return 1.0 / self.noise_multiplier

    def _power(self, order: Any) -> Any:
        return order if self.direction is Direction.REMOVE else 1.0 - order

    @property
    def variance(self) -> float:
        """About the variance of the loss: log(1 + q^2 (e^{mu^2} - 1))."""
        return math.log1p(self.sampling_prob**2 * math.expm1(min(self._mu**2, 600.0)))

    @property
    def largest_order(self) -> float:
        """An order a beyond which M(a) is huge, or the rule behind it would be long.

        In the remove direction q^a e^{a^2 mu^2/2}, from z near a mu, outgrows 1 at 2 log(1/q)/mu^2; in the add
        direction the least ratio, 1 - q, has the power 1 - a.
        """
        if self.direction is Direction.ADD:
            return min(_FAR / self._mu, 1.0 - _LARGEST_POWER / math.log1p(-self.sampling_prob))
        far = 1.0 - 2.0 * math.log(self.sampling_prob) / self._mu**2
        return max(_FAR / self._mu, 0.95 * far)

    @property
    def highest(self) -> float:
        """inf: its moments are known at any height."""
        return math.inf

    # What compares contours, and certifies nothing

    def rough(self, orders: Real) -> Real:
        """About log M [A] at real `orders` [A] > 1; inf where it is too large."""
        mu, q = self._mu, self.sampling_prob
        top = 9.0 if self.direction is Direction.ADD else 9.0 + min(float(orders.max()) * mu, _FAR)
        x = np.linspace(-9.0, top, int((top + 9.0) / 0.25) + 2)
        density = np.exp(-0.5 * x * x) * ((x[1] - x[0]) / math.sqrt(2.0 * math.pi))
        excess = float(density @ (q * np.expm1(np.minimum(mu * x - 0.5 * mu * mu, _MOST_EXPONENT))))
        power = self._power(orders)
        exponent = power[:, None] * _log_ratio(x, mu, q)
        large = np.exp(exponent - 0.5 * x * x) * ((x[1] - x[0]) / math.sqrt(2.0 * math.pi))
        terms = np.where(exponent < 500.0, np.expm1(np.minimum(exponent, 500.0)) * density, large)
        total = terms.sum(1) - power * excess
        return np.where(total < 1e250, np.log1p(np.maximum(total, 0.0)), np.inf)

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """About log |M(a + ib)| [A, H] at `orders` [A] and `heights` [H]."""
        mu, q = self._mu, self.sampling_prob
        eta = min((1.3 if self.direction is Direction.REMOVE else 0.8) / mu, 1.5)
        cross = 9.0 + max(0.0, 0.5 * mu * mu - math.log(q)) / mu
        top = 9.0 if self.direction is Direction.ADD else 9.0 + min(float(orders.max()) * mu, cross, _FAR)
        step = 0.35 * min(eta, 1.0)
        x = -8.0 + step * np.arange(int((top + 8.0) / step) + 2)
        turn = complex(math.cos(mu * eta), math.sin(mu * eta))
        grown = np.expm1(np.minimum(mu * x - 0.5 * mu * mu, _MOST_EXPONENT))
        log_ratio = np.log(1.0 + q * (grown * turn + (turn - 1.0)))
        weight = step * np.exp(0.5 * eta * eta - 0.5 * x * x - 1j * eta * x) / math.sqrt(2.0 * math.pi)
        turned = np.exp(1j * heights[:, None] * log_ratio)
        sums = rows_times_rows(np.exp(self._power(orders)[:, None] * log_ratio) * weight, turned)
        return np.log(np.maximum(np.abs(sums), 1e-300))

    # What is certified

    def on_line(self, line: Line, log_tolerance: float) -> LineMoments:
        """`LineMoments` [N, 1] on a line of equally spaced nodes with one lane, every error bounded.

        `log_tolerance` is the logarithm of the error that the rule may leave in a moment: any value up to -2 is valid.
        Of the decay it only says that |M(a + ib)| <= M(a): `decay` knows more.
        """
        order, heights = float(line.order[0]), np.asarray(line.heights)[:, 0]
        step = float(heights[1]) if len(heights) > 1 else 0.0
        modulus, phase, error = self.moments(order, step, len(heights), log_tolerance)
        alias = []
        for c in np.asarray(line.alias_orders)[:, 0]:
            log_moment, _, slack = self.moments(float(c), 0.0, 1, log_tolerance)
            alias.append(float(log_moment[0] + slack[0]))
        columns: Any = (modulus, phase, error, np.asarray(alias), np.zeros(1))
        return LineMoments(*(x[:, None] for x in columns))

    def moments(self, order: float, step: float, num: int, log_tolerance: float) -> tuple[Real, Real, Real]:
        """(log |M|, arg M, e) [num] at s = order + i step n, n < num: M errs by a factor in e^{+-e}, e at most inf."""
        total, error = self.excess(order, step, num, log_tolerance)
        return polar(total.conj() if self.direction is Direction.ADD else total, error)

    def excess(self, order: float, step: float, num: int, log_tolerance: float) -> tuple[Complex, Real]:
        """E[R^w] - 1 [num] at w = alpha + i step n, n < num, and what it may err by, at worst inf.

        alpha is `order` > 0 (remove) or 1 - `order` < 0 (add). The heights factor as n = n1 B + n2:
        e^{w L} - 1 = U + V + U V, with U for order and n1, V for n2, so that three products of matrices take the place
        of num times as many exponentials. Rounding booked, with weights W:

        * the exponent w L, |w| of which is at most |alpha| + b: 2^-50 |L| for the product and for L's own rounding,
          and 2^-50 (8 + mu |x| + mu^2) (|R - 1| + q) / |R| for that of R - 1, of mu x - mu^2/2, of mu and of mu eta;
          times |W| e^{alpha level}, which bounds the term, since theta >= 0;
        * sums of n products, and the terms' own: 2^-52 (n + 32 + x^2 + |x| eta) |W| (|U| + |V| + |U| |V|).
        """
        rule = _rule(self, order, log_tolerance)
        if rule is None:
            return np.zeros(num, np.complex128), np.full(num, np.inf)
        power = self._power(order)
        x, level, angle = rule.nodes, rule.level, rule.angle
        split = np.maximum(power * level - _LARGEST_POWER, 0.0)
        size = np.exp(rule.log_size + split)
        weight = size * (np.cos(rule.shift * x) - 1j * np.sin(rule.shift * x))
        rows = max(1, math.isqrt(num))
        coarse = step * rows * np.arange(-(-num // rows))[:, None]
        fine = step * np.arange(rows)[:, None]
        u = _expm1(power * level - split - coarse * angle, power * angle + coarse * level)
        v = _expm1(-fine * angle, fine * level)
        total = _table(u, v, weight)[:num]

        heavy = size * (len(x) + 32.0 + x * x + np.abs(x) * rule.shift + split)
        u, v = np.abs(u), np.abs(v)
        sizes = _table(u, v, heavy)[:num]
        heights = step * np.arange(num)
        term = np.exp(rule.log_size + power * level)
        rate = 2.0**-50 * float(term @ (rule.blur + np.hypot(level, angle)))
        error = (abs(power) + heights) * rate + 2.0**-52 * (sizes + np.abs(total)) + rule.error
        error = error + float(size[split > 0].sum())  # there W e^split was subtracted, for W
        return total, error

    def _make_rule(self, order: float, log_tolerance: float) -> _Rule | None:
        """A `_Rule` for E[R^w - 1], w = alpha + ib, with the error of its step and window; None if it is too long.

        * step: the integrand is analytic for 0 <= Im z <= 2 eta, since R = 0 only at Im z = pi/mu, so the sum errs by
          at most (A + B) / (e^{2 pi eta / k} - 1), A and B the integrals of |integrand| on the two edges (Trefethen &
          Weideman 2014, Theorem 5.1). On the real line A <= E[R^alpha] + 1. At Im z = v = 2 eta the density is
          e^{v^2/2} phi(x) and |R^w| <= R^alpha (remove) or |R|^alpha <= m^alpha (add), where |R| >= m = 1 - q, or
          (1 - q) sin(mu v) if mu v > pi/2: B <= e^{v^2/2} (E[R^alpha] + 1) or e^{v^2/2} (m^alpha + 1).
        * window: the nodes left of it weigh at most e^{eta^2/2} Phi(lo), and |R^w| <= 1 there (remove) or
          (1 - q)^alpha (add). So do those on the right for the 1, and for R^w in the add direction; in the remove
          direction R^alpha grows: see `_right`.
        """
        log_tolerance = min(log_tolerance, _LOOSEST)
        mu, q, power = self._mu, self.sampling_prob, self._power(order)
        is_add = self.direction is Direction.ADD
        least = power * math.log1p(-q) if is_add else 0.0  # log of the bound on |R^w| where R < 1
        choices = []
        for angle in _ANGLES[self.direction]:
            eta = min(angle / mu, _LARGEST_SHIFT)
            edge = 2.0 * eta * eta
            if is_add:
                edge += least + (power * math.log(math.sin(2.0 * mu * eta)) if 2.0 * mu * eta > 0.5 * math.pi else 0.0)
            choices.append((2.0 * math.pi * eta / (edge - log_tolerance), eta, edge))
        step, eta, edge = max(choices)
        step = with_few_bits(step, _STEP_BITS)
        inflated = 0.5 * eta * eta + least
        reach = math.sqrt(2.0 * (inflated - log_tolerance))
        end, right = (reach, 0.0) if is_add else self._right(order, reach, step, log_tolerance - inflated)
        first, last = -math.ceil(reach / step), math.ceil(end / step)
        if last - first >= _MOST_NODES or inflated > 600.0:
            return None
        x: Real = step * np.arange(first, last + 1, dtype=np.float64)
        sides = math.exp(_log_tail(-float(x[0]))) + math.exp(_log_tail(float(x[-1])))
        window = 2.0 * math.exp(inflated) * sides + math.exp(0.5 * eta * eta) * right

        turn = mu * eta
        exponents, log_q = mu * x - 0.5 * mu * mu, math.log(q)
        huge, scaled = exponents > _MOST_EXPONENT, np.exp(np.minimum(exponents + log_q, _MOST_EXPONENT))
        grown = np.where(huge, scaled, q * np.expm1(np.where(huge, 0.0, exponents)))  # q (Y - 1)
        real = grown * math.cos(turn) - 2.0 * q * math.sin(0.5 * turn) ** 2
        imag = (grown + q) * math.sin(turn)
        square = 2.0 * real + real * real + imag * imag  # |R|^2 - 1
        near = np.abs(square) < 0.25
        level = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(np.hypot(1.0 + real, imag)))
        argument = np.arctan2(imag, 1.0 + real)
        blur = (np.hypot(real, imag) + q) * np.exp(-level) * (8.0 + mu * np.abs(x) + mu * mu)
        far = exponents + log_q > _MOST_EXPONENT  # R = q Y there, to e^-300
        level, argument = np.where(far, exponents + log_q, level), np.where(far, turn, argument)
        log_size = math.log(step) - _LOG_ROOT_TWO_PI + 0.5 * eta * eta - 0.5 * x * x
        if is_add:
            inside = math.exp(least) + 1.0
        else:
            # E[R^alpha] by the same nodes on the real line, with a strip of 2 eta on either side: right to
            # 2 e^(2 log_tolerance) / (1 - e^(2 log_tolerance)) < 1/26 of itself
            total = float(np.exp(log_size - 0.5 * eta * eta + power * _log_ratio(x, mu, q)).sum())
            inside = 1.1 * (total + right + 2.0)
        fall = 2.0 * math.pi * eta / step
        edges = inside * math.exp(-fall) + (2.0 if is_add else inside) * math.exp(edge - fall)
        error = edges * (1.0 + 2.0**-40) / -math.expm1(-fall) + window
        return _Rule(step, eta, x, level, argument, log_size, blur, error)

    def _right(self, order: float, reach: float, step: float, log_goal: float) -> tuple[float, float]:
        """(end, bound): sums of step phi(x) R(x)^a over nodes beyond `end`, and the integral, are at most `bound`.

        In a cell [c, d] of width w beyond 0 phi R^a <= phi(c) R(d)^a, since phi falls and R rises, and at most
        w / step + 1 nodes lie in it. Beyond the last c, at or above a mu, R(x) <= R(c) e^{mu (x - c)}, so that phi R^a
        is at most a normal density that falls from there on. `end` is the first c at which the logarithm of the bound
        is at most `log_goal`, or the last.
        """
        mu, q = self._mu, self.sampling_prob
        last = reach + max(order * mu, mu)
        near = min(last, reach + mu + 30.0)
        edges = np.linspace(reach + mu, near, max(2, math.ceil((near - reach - mu) / 0.2) + 1))
        if last > near:
            edges = np.append(edges, np.geomspace(near, last, 200)[1:])
        log_ratio = _log_ratio(edges, mu, q)
        log_cells = order * log_ratio[1:] - 0.5 * edges[:-1] ** 2 - _LOG_ROOT_TWO_PI
        cells = (np.diff(edges) + step) * np.exp(log_cells)
        slope = order * mu
        beyond = order * (float(log_ratio[-1]) - mu * last) + 0.5 * slope * slope + _log_tail(last - slope)
        tails = 1.001 * (np.append(np.cumsum(cells[::-1])[::-1], 0.0) + float(np.exp(beyond)))
        fits = np.flatnonzero(tails <= math.exp(log_goal))
        at = int(fits[0]) if fits.size else len(edges) - 1
        return float(edges[at]), float(tails[at])

    def decay(self, order: float, heights: Real, log_tolerance: float) -> Real:
        """Upper bounds [K] on log |M(a + iy) / M(a)|, each for every y >= its height b, `heights` [K] ascending.

        On the path z = x + i eta(x), with 0 <= mu eta = t < pi/2 and eta differentiable, |M(a + iy)| is at most
        E[R^alpha e^psi],

            psi = eta^2/2 + log(1 + eta'^2)/2 - b theta - alpha' log|1 - p + p e^{it}|,

        where alpha' = 0 (remove: that modulus is at most 1) or a - 1 (add), and e^{-y theta} <= e^{-b theta}. So M(a)
        less the bound is at least E[R^alpha (1 - e^psi)]. The path: tan(t/2) = tau = A p r mu / 2, where
        r = h / (h + A p mu / 2) <= 1 and A = b mu / (1 + mu^2). For small p it is nearly the best, eta = A p; tau
        stays below h. Then eta <= 2 tau / mu, eta' <= (2 / mu) tau' = A r^2 p', p' = mu p (1 - p),
        sin t = 2 tau / (1 + tau^2) and 1 - cos t = tau sin t.

        On a cell of x p, tau and theta increase and r decreases, so that each is at most, or at least, what it is at
        one end. The weight phi R^alpha, whose logarithm has a second derivative of at most 1 + |alpha| mu^2/4 in size,
        deviates from the chord of its logarithm by at most a factor e^{that k^2/8}. Where psi < 0 the weight's lower
        bound is taken, elsewhere its upper one. Left of the cells psi <= 0 by its leading terms (that is checked: else
        nothing is said); right of them, where tau < h and eta' <= h / 2, e^psi is bounded and so is the mass. 2^-30
        covers rounding.
        """
        mu, q, power = self._mu, self.sampling_prob, self._power(order)
        is_add = self.direction is Direction.ADD
        largest = min(_LARGEST_TURN, _LARGEST_PATH * mu)
        turned = 0.5 * (order - 1.0) if is_add else 0.0
        # log of the most that e^psi can be, without theta
        most = 2.0 * (largest / mu) ** 2 + largest * largest / 8.0 + turned * math.log1p(largest * largest)
        if is_add:
            top = min(math.sqrt(90.0 + 2.0 * most), 0.6 * _FAR)
            right = math.exp(_log_tail(top))
        else:
            top, right = self._right(order, 9.5, 0.0, -45.0 - most)
        modulus, _, slack = self.moments(order, 0.0, 1, log_tolerance)
        log_moment = float(modulus[0] + slack[0])
        if top > 6.0 * _FAR or not log_moment < 600.0:
            return np.zeros(len(heights))
        x = np.linspace(-9.0, top, max(_DECAY_CELLS, int(40.0 * (top + 9.0))))
        log_ratio = _log_ratio(x, mu, q)
        p = np.exp(np.minimum(math.log(q) + (mu * x - 0.5 * mu * mu - log_ratio), 0.0))
        log_weight = power * log_ratio - 0.5 * x * x - _LOG_ROOT_TWO_PI
        width = float(x[1] - x[0])
        bend = 0.125 * width * width * (1.0 + 0.25 * abs(power) * mu * mu)
        low = width * np.exp(np.minimum(log_weight[:-1], log_weight[1:]) - bend)
        high = width * np.exp(np.maximum(log_weight[:-1], log_weight[1:]) + bend)

        b = heights[:, None]
        slope = b * mu / (1.0 + mu * mu)
        r = largest / (largest + 0.5 * mu * slope * p)
        tau = 0.5 * mu * slope * p * r
        sin = 2.0 * tau / (1.0 + tau * tau)
        theta = np.arctan2(p * sin, 1.0 - p * tau * sin)
        rise = slope * (r[:, :-1] ** 2) * (mu * p[1:] * (1.0 - p[:-1]))
        psi = 2.0 * (tau[:, 1:] / mu) ** 2 + 0.5 * rise * rise - b * theta[:, :-1]
        # on the left theta >= p sin t (1 - p^2/3) and sin t >= 2 tau (1 - tau^2), tau = A p mu r / 2
        kept = r[:, 0] * (1.0 - tau[:, 0] ** 2) * (1.0 - p[0] * p[0] / 3.0) * heights * mu
        loss = 0.5 * slope[:, 0] * (1.0 + mu * mu)
        if is_add:
            drop = 2.0 * p[1:] * (1.0 - p[:-1]) * (tau * sin)[:, 1:]
            psi = psi - turned * np.log1p(-np.minimum(drop, 1.0))
            loss = loss + 0.6 * (order - 1.0) * p[0] * slope[:, 0] * mu * mu
        sound = (kept >= loss) & (tau[:, 0] < 0.1)
        beyond = right * np.exp(np.maximum(most - heights * theta[:, -1], 0.0))
        gain = -np.sum(np.expm1(psi) * np.where(psi < 0.0, low, high), axis=1) - beyond
        lost = np.where(sound, np.nan_to_num(gain, nan=0.0), 0.0) * ((1.0 - 2.0**-30) * math.exp(-log_moment))
        # what holds from one height on holds from the next on
        return np.minimum.accumulate(np.log1p(-np.clip(lost, 0.0, 1.0 - 2.0**-30)))


@functools.lru_cache(maxsize=16)
def _rule(step: SampledStep, order: float, log_tolerance: float) -> _Rule | None:
    """That of `step`, kept: moments on a line and their decay ask for the same one."""
    return step._make_rule(order, log_tolerance)


def polar(total: Complex, error: Real) -> tuple[Real, Real, Real]:
    """log |M|, arg M and the error of log M [N], of M = 1 + `total`, which errs by at most `error`."""
    log_modulus, phase, relative = relative_polar(total, error)
    known = relative < 0.5
    return log_modulus, phase, np.where(known, -np.log1p(-np.where(known, relative, 0.0)), np.inf)


def relative_polar(total: Complex, error: Real) -> tuple[Real, Real, Real]:
    """log |M|, arg M and the relative error [N] of M = 1 + `total`, which errs by at most `error`."""
    square = 2.0 * total.real + total.real**2 + total.imag**2  # |M|^2 - 1
    near = np.abs(square) < 0.25
    size = np.maximum(np.hypot(1.0 + total.real, total.imag), 1e-300)
    log_modulus = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(size))
    phase = np.arctan2(total.imag, 1.0 + total.real)
    relative = (error + 2.0**-51 * np.abs(total)) * np.exp(-log_modulus)
    relative = np.nan_to_num(relative, nan=np.inf) + 2.0**-50 * (np.abs(log_modulus) + np.abs(phase))
    return log_modulus, phase, relative
