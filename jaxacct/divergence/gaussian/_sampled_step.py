"""Complex moments of Poisson-sampled Gaussian steps on the host, for contours of any length; NumPy, not compiled.

R = 1 - q + q Y, with Y = exp(mu z - mu^2/2), z standard normal under Q and mu = 1/sigma, is the likelihood ratio of one
step. The remove direction needs M(s) = E[R^s], the add direction M(s) = E[R^(1-s)], s = a + ib with a > 1 and b >= 0.
Both are E[R^w], w = alpha + ib, alpha = a or 1 - a; the second up to complex conjugation.

In all that follows the path of integration over z is moved off the real line, to Im z = eta > 0. With t = mu eta < pi/2
there, and p = q Y / R the posterior probability of participation at a real x,

    R(x + i eta) = R(x) (1 - p + p e^{it}),    theta = arg(1 - p + p e^{it}) = atan2(p sin t, 1 - p (1 - cos t)) >= 0,

so that |R^w| = |R|^alpha e^{-b theta}: the factor that oscillates fast in b on the real line decays here. Hence a rule
with some 200 nodes gives the moments at every height (`PowerRule`), and |M(a + ib)| has a bound that decreases in b
(`decay`).

Shapes: [R] different steps, each of one direction; [X] nodes of a rule.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.gaussian._excess import Complex, expm1, polar, table
from jaxacct.special import rows_times, rows_times_rows, with_few_bits

Real = np.ndarray[Any, np.dtype[np.float64]]

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_MOST_EXPONENT = 300.0  # e^x is computed up to here, so that its square is a double
# Any value of these is valid; they affect speed and tightness. The first are the angles mu eta tried for the rule, to
# remove and to add.
_ANGLES = np.array([1.4, 1.2, 1.0])[:, None], np.array([1.15, 1.0, 0.785])[:, None]
_LARGEST_SHIFT = 2.0  # largest eta of the rule: rounding is magnified by e^{eta^2/2}
_LOOSEST = -2.0  # log of the largest error allowed for the rule: the bound on E[R^alpha] by its own nodes needs that
_STEP_BITS = 12  # the step of the rule has so few bits that its nodes are exact doubles
_LARGEST_POWER = 200.0  # larger log |R^alpha| are split between weight and value, so that neither overflows
_MOST_NODES = 2**13  # a rule that needs more gives no bound
_DECAY_CELLS = 1200  # cells in z for a bound of the decay: with this many its exponent is about 3 % too small
_LARGEST_TURN = 0.7  # h, the largest tan(t/2) of the path in `decay`: any value below 1
_LARGEST_PATH = 1.5  # half the largest eta of that path
_ROUGH = 160  # nodes of a rough rule that is shared by many orders
_FAR = 100.0  # standard deviations beyond which no mass is considered when contours are compared


def _log_ratio(exponent: Real, q: Real) -> Real:
    """log R at real x, without cancellation, of the `exponent` mu x - mu^2/2; `q` broadcasts."""
    grown = np.minimum(exponent, _MOST_EXPONENT)
    excess = q * np.expm1(grown)
    found = np.log1p(np.maximum(excess, -0.25))
    is_far, is_huge = excess < -0.25, exponent > _MOST_EXPONENT
    if is_far.any():
        found = np.where(is_far, np.log((1.0 - q) + q * np.exp(grown)), found)
    if is_huge.any():
        found = np.where(is_huge, np.logaddexp(np.log1p(-q), exponent + np.log(q)), found)
    return found


def _log_tail(x: Real) -> Real:
    """Upper bound on log(1 - Phi(x)): log of the lesser of e^{-x^2/2}/2 and phi(x)/x for x > 0, and 0 elsewhere."""
    less = np.maximum(math.log(2.0), np.log(np.where(x > 0.0, x, 1.0)) + _LOG_ROOT_TWO_PI)
    return np.where(x > 0.0, -0.5 * x * x - less, 0.0)


class PowerRule(NamedTuple):
    """The trapezoid rule for E[R^w - 1] on the line Im z = eta: sum of weight (e^{w L} - 1), L = log R.

    L = level + i angle.

    Attributes:
      order, power: [R], a and alpha.
      step, shift: [R], distance k of the nodes, and eta.
      num_nodes: [R], the number of nodes; X is the largest of them, and surplus nodes have weight 0.
      nodes: [R, X], x, exact doubles.
      level, angle: log |R| and arg R at the nodes.
      log_size: log |weight|.
      blur: bound on the relative rounding error of R, in units of 2^-50.
      error: [R], bound on the error of each value by the rule's step and window; inf where it would be too long.
    """

    order: Real
    power: Real
    step: Real
    shift: Real
    num_nodes: Real
    nodes: Real
    level: Real
    angle: Real
    log_size: Real
    blur: Real
    error: Real

    def at(self, some: Any) -> "PowerRule":
        """The rule for some of the steps."""
        return PowerRule(*(x[some] for x in self))


class SampledSteps(NamedTuple):
    """Steps: sigma > 0, q in (0, 1), and whether the direction is that of adding a record, [R] each."""

    noise_multiplier: Real
    sampling_prob: Real
    adds: Any

    @property
    def _mu(self) -> Real:
        return 1.0 / self.noise_multiplier

    def _power(self, order: Any) -> Any:
        return np.where(self.adds.reshape(-1, *(1,) * (order.ndim - 1)), 1.0 - order, order)

    def at(self, some: Any) -> "SampledSteps":
        """Some of the steps."""
        return SampledSteps(*(x[some] for x in self))

    @property
    def variance(self) -> Real:
        """Approximate variance of the loss [R]: log(1 + q^2 (e^{mu^2} - 1))."""
        return np.log1p(self.sampling_prob**2 * np.expm1(np.minimum(self._mu**2, 600.0)))

    @property
    def highest(self) -> Real:
        """inf [R]: their moments are known at any height."""
        return np.full(len(self.sampling_prob), math.inf)

    @property
    def largest_order(self) -> Real:
        """Orders a [R] > 1 beyond which M(a) is huge, or its rule would be long.

        In the remove direction q^a e^{a (a - 1) mu^2/2}, from z near a mu, outgrows 1 near 1 + 2 log(1/q)/mu^2; in the
        add direction the least ratio, 1 - q, has the power 1 - a.
        """
        outgrown = -2.0 * np.log(self.sampling_prob) / self._mu**2
        to_add = np.minimum(_FAR / self._mu, -_LARGEST_POWER / np.log1p(-self.sampling_prob))
        return 1.0 + np.where(self.adds, to_add, np.maximum(_FAR / self._mu, 0.95 * outgrown))

    # Approximations that compare contours and certify nothing

    def rough(self, orders: Real) -> Real:
        """Approximate log M [R, A] at real `orders` [R, A] > 1; inf where it is too large."""
        mu, q = self._mu[:, None], self.sampling_prob[:, None]
        top = self._top(orders, np.inf)
        num = int(((top + 9.0) / np.minimum(0.45, 0.6 / mu)).max()) + 2
        if num > _ROUGH and orders.shape[1] > 8:  # smaller orders are known from fewer
            return np.concatenate([self.rough(some) for some in np.array_split(orders, 2, axis=1)], axis=1)
        step = (top + 9.0) / (num - 1)
        x = step * np.arange(num) - 9.0
        exponent = mu * x - 0.5 * mu * mu
        density = np.exp(-0.5 * x * x) * (step / math.sqrt(2.0 * math.pi))
        excess = rows_times(density, q * np.expm1(np.minimum(exponent, _MOST_EXPONENT)))
        power = self._power(orders)
        powers = power[:, :, None] * _log_ratio(exponent, q)[:, None, :]
        terms = np.expm1(np.minimum(powers, 500.0)) * density[:, None, :]
        large = powers > 500.0
        if large.any():
            tilted = np.exp(powers - 0.5 * (x * x)[:, None, :]) * (step / math.sqrt(2.0 * math.pi))[:, :, None]
            terms = np.where(large, tilted, terms)
        total = terms.sum(2) - power * excess[:, None]
        return np.where(total < 1e250, np.log1p(np.maximum(total, 0.0)), np.inf)

    def _top(self, orders: Real, least: Any) -> Real:
        """The end [R, 1] of the window for the density tilted by `orders` [R, A], moved by at most `least` [R, 1]."""
        far = np.minimum(np.minimum(orders.max(1) * self._mu, _FAR)[:, None], least)
        return np.where(self.adds[:, None], 9.0, 9.0 + far)

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """Approximate log |M(a + ib)| [R, A, H] at `orders` [R, A] and `heights` [R, H]."""
        mu, q = self._mu[:, None], self.sampling_prob[:, None]
        eta = np.minimum(np.where(self.adds[:, None], 0.8, 1.3) / mu, 1.5)
        top = self._top(orders, 9.0 + np.maximum(0.0, 0.5 * mu * mu - np.log(q)) / mu)
        step = 0.35 * np.minimum(eta, 1.0)
        x = -8.0 + step * np.arange(int(((top + 8.0) / step).max()) + 2)
        grown = np.expm1(np.minimum(mu * x - 0.5 * mu * mu, _MOST_EXPONENT))
        log_ratio = np.log(1.0 + q * (grown * np.exp(1j * mu * eta) + (np.exp(1j * mu * eta) - 1.0)))
        weight = step * np.exp(0.5 * eta * eta - 0.5 * x * x - 1j * eta * x) / math.sqrt(2.0 * math.pi)
        turned = np.exp(1j * heights[:, :, None] * log_ratio[:, None, :])
        tilted = np.exp(self._power(orders)[:, :, None] * log_ratio[:, None, :]) * weight[:, None, :]
        return np.log(np.maximum(np.abs(rows_times_rows(tilted, turned)), 1e-300))

    # Certified values

    def moments(self, rule: PowerRule, step: Real, num: int) -> tuple[Real, Real, Real]:
        """(log |M|, arg M, e) [R, num] at s = order + i step n, n < num: M errs by a factor in e^{+-e}, e up to inf."""
        log_modulus, phase, error = polar(*self.excess(rule, step, num))
        return log_modulus, np.where(self.adds[:, None], -phase, phase), error

    def real_moment(self, rule: PowerRule) -> Real:
        """Upper bounds on log M(a) [R]."""
        modulus, _, slack = self.moments(rule, np.zeros(len(rule.step)), 1)
        return modulus[:, 0] + slack[:, 0]

    def excess(self, rule: PowerRule, step: Real, num: int) -> tuple[Complex, Real]:
        """E[R^w] - 1 [R, num] at w = alpha + i step n, n < num, and a bound on its error, at worst inf.

        alpha is the order > 0 (remove) or 1 minus the order < 0 (add). The index of a height is n = n1 B + n2: e^{w L}
        - 1 = U + V + U V, with U for order and n1, V for n2, so that three products of matrices replace num times as
        many exponentials. The bound on rounding, with weights W:

        * the exponent w L, |w| of which is at most |alpha| + b: 2^-50 |L| for the product and for L's own rounding,
          and 2^-50 (8 + mu |x| + mu^2) (|R - 1| + q) / |R| for that of R - 1, of mu x - mu^2/2, of mu and of mu eta;
          times |W| e^{alpha level}, which bounds the term, since theta >= 0;
        * sums of n products, and the terms' own: 2^-52 (n + 32 + x^2 + |x| eta) |W| (|U| + |V| + |U| |V|).

        Args:
          rule: the rule of the order (from `rule`).
          step: [R], the distance of the heights.
        """
        power, shift, step = rule.power[:, None], rule.shift[:, None], step[:, None]
        x, level, angle = rule.nodes, rule.level, rule.angle
        raised = power * level
        split = np.maximum(raised - _LARGEST_POWER, 0.0)
        size = np.exp(rule.log_size + split)
        weight = size * (np.cos(shift * x) - 1j * np.sin(shift * x))
        rows = max(1, math.isqrt(num))
        coarse = (step * (rows * np.arange(-(-num // rows))))[:, :, None]
        fine = (step * np.arange(rows))[:, :, None]
        level, angle = level[:, None, :], angle[:, None, :]
        u = expm1((raised - split)[:, None, :] - coarse * angle, power[:, :, None] * angle + coarse * level)
        v = expm1(-fine * angle, fine * level)
        total = table(u, v, weight)[:, :num]

        heavy = size * (rule.num_nodes[:, None] + 32.0 + x * x + np.abs(x) * shift + split)
        u, v = np.abs(u), np.abs(v)
        sizes = table(u, v, heavy)[:, :num]
        term = np.exp(rule.log_size + raised)
        rate = 2.0**-50 * rows_times(term, rule.blur + np.hypot(rule.level, rule.angle))[:, None]
        error = (np.abs(power) + step * np.arange(num)) * rate + 2.0**-52 * (sizes + np.abs(total))
        # where the exponent was split, W e^split was subtracted, for W
        error = error + (rule.error + np.where(split > 0.0, size, 0.0).sum(1))[:, None]
        known = np.isfinite(rule.error)[:, None]
        return (total, error) if known.all() else (np.where(known, total, 0.0), np.where(known, error, np.inf))

    def for_height(self, rule: PowerRule, log_tolerance: Real, height: Real) -> PowerRule:
        """The rule (class `PowerRule`) for moments up to `height` [R]: the same one is used for any height."""
        del log_tolerance, height
        return rule

    def rule(self, order: Real, log_tolerance: Real, height: Any = 0.0) -> PowerRule:
        """`PowerRule` (a class) for E[R^w - 1], w = alpha + ib, with the error of its step and window, at `order` [R].

        `log_tolerance` [R] is the logarithm of the error that it may leave in a moment: any value up to -2 is valid.
        The rule is valid for any `height`.

        * step: the integrand is analytic for 0 <= Im z <= 2 eta, since R = 0 only at Im z = pi/mu, so the sum errs by
          at most (A + B) / (e^{2 pi eta / k} - 1), A and B the integrals of |integrand| on the two edges (Trefethen &
          Weideman 2014, Theorem 5.1). On the real line A <= E[R^alpha] + 1. At Im z = v = 2 eta the density is
          e^{v^2/2} phi(x) and |R^w| <= R^alpha (remove) or |R|^alpha <= m^alpha (add), where |R| >= m = 1 - q, or
          (1 - q) sin(mu v) if mu v > pi/2: B <= e^{v^2/2} (E[R^alpha] + 1) or e^{v^2/2} (m^alpha + 1).
        * window: the nodes left of it have a total weight of at most e^{eta^2/2} Phi(lo), and |R^w| <= 1 there (remove)
          or (1 - q)^alpha (add). The same holds on the right for the 1, and for R^w in the add direction; in the remove
          direction R^alpha grows: see `_right`.
        """
        del height
        log_tolerance = np.minimum(log_tolerance, _LOOSEST)
        mu, q, power = self._mu, self.sampling_prob, self._power(order)
        adds, removes = self.adds, np.flatnonzero(~self.adds)
        least = np.where(adds, power * np.log1p(-q), 0.0)  # log of the bound on |R^w| where R < 1
        etas = np.minimum(np.where(adds, _ANGLES[1], _ANGLES[0]) / mu, _LARGEST_SHIFT)
        edges, turned = 2.0 * etas * etas + least, 2.0 * mu * etas
        edges = edges + np.where(adds & (turned > 0.5 * math.pi), power * np.log(np.sin(turned)), 0.0)
        steps = 2.0 * math.pi * etas / (edges - log_tolerance)
        best, every = steps.argmax(0), np.arange(len(q))
        step, eta, edge = with_few_bits(steps[best, every], _STEP_BITS), etas[best, every], edges[best, every]
        inflated = 0.5 * eta * eta + least
        reach = np.sqrt(2.0 * (inflated - log_tolerance))
        end, right = self._ends(removes, order, reach, step, log_tolerance - inflated)
        first, last = -np.ceil(reach / step), np.ceil(end / step)
        short = (last - first < _MOST_NODES) & (inflated <= 600.0)
        first, last = np.where(short, first, 0.0), np.where(short, last, 1.0)
        count, step = last - first + 1.0, step[:, None]
        numbers = np.arange(int(count.max(initial=1.0)))
        x = step * (first[:, None] + numbers)
        sides = np.exp(_log_tail(-x[:, 0])) + np.exp(_log_tail(step[:, 0] * last))
        window = 2.0 * np.exp(inflated) * sides + np.exp(0.5 * eta * eta) * right

        turn, column, share = (mu * eta)[:, None], mu[:, None], q[:, None]
        exponents, log_q = column * x - 0.5 * column * column, np.log(share)
        huge, scaled = exponents > _MOST_EXPONENT, np.exp(np.minimum(exponents + log_q, _MOST_EXPONENT))
        grown = np.where(huge, scaled, share * np.expm1(np.where(huge, 0.0, exponents)))  # q (Y - 1)
        real = grown * np.cos(turn) - 2.0 * share * np.sin(0.5 * turn) ** 2
        imag = (grown + share) * np.sin(turn)
        square = 2.0 * real + real * real + imag * imag  # |R|^2 - 1
        near = np.abs(square) < 0.25
        level = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(np.hypot(1.0 + real, imag)))
        argument = np.arctan2(imag, 1.0 + real)
        blur = (np.hypot(real, imag) + share) * np.exp(-level) * (8.0 + column * np.abs(x) + column * column)
        far = exponents + log_q > _MOST_EXPONENT  # R = q Y there, to e^-300
        level, argument = np.where(far, exponents + log_q, level), np.where(far, turn, argument)
        half = 0.5 * (eta * eta)[:, None]
        log_size = np.log(step) - _LOG_ROOT_TWO_PI + half - 0.5 * x * x
        log_size = np.where(numbers < count[:, None], log_size, -np.inf)
        inside, upper = np.exp(least) + 1.0, np.full(len(q), 2.0)
        if removes.size:
            # E[R^alpha] by the same nodes on the real line, with a strip of 2 eta on either side: accurate to 2 e^(2
            # log_tolerance) / (1 - e^(2 log_tolerance)) < 1/26 of itself
            tilted = power[removes, None] * _log_ratio(exponents[removes], share[removes])
            total = np.exp((log_size - half)[removes] + tilted).sum(1)
            inside[removes] = upper[removes] = 1.1 * (total + right[removes] + 2.0)
        fall = 2.0 * math.pi * eta / step[:, 0]
        edges = inside * np.exp(-fall) + upper * np.exp(edge - fall)
        error = edges * (1.0 + 2.0**-40) / -np.expm1(-fall) + window
        error = np.where(short, error, np.inf)
        return PowerRule(order, power, step[:, 0], eta, count, x, level, argument, log_size, blur, error)

    def _ends(self, removes: Any, order: Real, reach: Any, step: Any, log_goal: Real) -> tuple[Real, Real]:
        """(end, bound) [R] of `_right` where a record is removed; elsewhere (`reach`, 0)."""
        end, right = reach.copy(), np.zeros(len(reach))
        if removes.size:
            every = (x[removes] for x in (order, reach, step, log_goal))
            end[removes], right[removes] = self.at(removes)._right(*every)
        return end, right

    def _right(self, order: Real, reach: Real, step: Real, log_goal: Real) -> tuple[Real, Real]:
        """(end, bound) [R]: sums of step phi(x) R(x)^a over nodes beyond `end`, and the integral, are at most `bound`.

        In a cell [c, d] of width w beyond 0, phi R^a <= phi(c) R(d)^a, since phi decreases and R increases, and at most
        w / step + 1 nodes lie in it. Beyond the last c, at or above a mu, R(x) <= R(c) e^{mu (x - c)}, so that phi R^a
        is at most a normal density that decreases from there on. `end` is the first c at which the logarithm of the
        bound is at most `log_goal`, or the last.
        """
        mu, q, slope = self._mu, self.sampling_prob, order * self._mu
        start = reach + mu
        last = reach + np.maximum(slope, mu)
        near = np.minimum(last, start + 30.0)
        num = max(2, math.ceil(float(((near - start) / 0.2).max())) + 1)
        edges = start[:, None] + (near - start)[:, None] * np.linspace(0.0, 1.0, num)
        edges[:, -1] = near
        if (last > near).any():
            further = near[:, None] * (last / near)[:, None] ** np.linspace(0.0, 1.0, 200)[1:]
            further[:, -1] = last
            edges = np.concatenate([edges, further], axis=1)
        column = mu[:, None]
        log_ratio = _log_ratio(column * edges - 0.5 * column * column, q[:, None])
        log_cells = order[:, None] * log_ratio[:, 1:] - 0.5 * edges[:, :-1] ** 2 - _LOG_ROOT_TWO_PI
        widths = np.diff(edges)
        cells = np.where(widths > 0.0, (widths + step[:, None]) * np.exp(log_cells), 0.0)
        beyond = order * (log_ratio[:, -1] - mu * last) + 0.5 * slope * slope + _log_tail(last - slope)
        summed = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1] + np.exp(beyond)[:, None]
        tails = 1.001 * np.concatenate([summed, np.exp(beyond)[:, None]], axis=1)
        fits = tails <= np.exp(log_goal)[:, None]
        fits[:, -1] = True
        at, every = fits.argmax(1), np.arange(len(q))
        return edges[every, at], tails[every, at]

    def decay(self, rule: PowerRule, log_moment: Real, heights: Real) -> Real:
        """Upper bounds [R, K] on log |M(a + iy) / M(a)|, each for every y >= its height b, `heights` [R, K] ascending.

        `log_moment` [R] is an upper bound on log M(a) (`real_moment`), a the order of the rule.

        On the path z = x + i eta(x), with 0 <= mu eta = t < pi/2 and eta differentiable, |M(a + iy)| is at most
        E[R^alpha e^psi],

            psi = eta^2/2 + log(1 + eta'^2)/2 - b theta - alpha' log|1 - p + p e^{it}|,

        where alpha' = 0 (remove: that modulus is at most 1) or a - 1 (add), and e^{-y theta} <= e^{-b theta}. So M(a)
        minus the bound is at least E[R^alpha (1 - e^psi)]. The path is tan(t/2) = tau = A p r mu / 2, where
        r = h / (h + A p mu / 2) <= 1 and A = b mu / (1 + mu^2). For small p it is nearly the best path, eta = A p; tau
        stays below h. Then eta <= 2 tau / mu, eta' <= (2 / mu) tau' = A r^2 p', p' = mu p (1 - p),
        sin t = 2 tau / (1 + tau^2) and 1 - cos t = tau sin t.

        On a cell of x p, tau and theta increase and r decreases, so that each is bounded from either side by its values
        at the ends. The weight phi R^alpha, whose logarithm has a second derivative of at most 1 + |alpha| mu^2/4 in
        size, deviates from the chord of its logarithm by at most a factor e^{that k^2/8}. Where psi < 0 the weight's
        lower bound is taken, elsewhere its upper one. Left of the cells psi <= 0 by its leading terms (this is checked,
        and without it the bound is trivial); right of them, where tau < h and eta' <= h / 2, e^psi is bounded and so is
        the mass. 2^-30 covers rounding.
        """
        order = rule.order
        mu, q, power = self._mu[:, None], self.sampling_prob[:, None], rule.power[:, None]
        adds, excess = np.flatnonzero(self.adds), np.where(self.adds, order - 1.0, 0.0)[:, None]
        largest = np.minimum(_LARGEST_TURN, _LARGEST_PATH * mu)
        # log of the largest possible e^psi, without theta
        most = 2.0 * (largest / mu) ** 2 + largest * largest / 8.0 + 0.5 * excess * np.log1p(largest * largest)
        reach, nothing = np.full(len(order), 9.5), np.zeros(len(order))
        top, right = self._ends(np.flatnonzero(~self.adds), order, reach, nothing, -45.0 - most[:, 0])
        to_add = np.minimum(np.sqrt(90.0 + 2.0 * most[adds, 0]), 0.6 * _FAR)
        top[adds], right[adds] = to_add, np.exp(_log_tail(to_add))
        top, right = top[:, None], right[:, None]
        known = (top[:, 0] <= 6.0 * _FAR) & (log_moment < 600.0)
        top = np.where(known[:, None], top, 1.0)
        num = max(_DECAY_CELLS, int(40.0 * (top.max() + 9.0)))
        width = (top + 9.0) / (num - 1)
        x = width * np.arange(num) - 9.0
        exponent = mu * x - 0.5 * mu * mu
        log_ratio = _log_ratio(exponent, q)
        p = np.exp(np.minimum(np.log(q) + (exponent - log_ratio), 0.0))
        log_weight = power * log_ratio - 0.5 * x * x - _LOG_ROOT_TWO_PI
        bend = 0.125 * width * width * (1.0 + 0.25 * np.abs(power) * mu * mu)
        low = width * np.exp(np.minimum(log_weight[:, :-1], log_weight[:, 1:]) - bend)
        high = width * np.exp(np.maximum(log_weight[:, :-1], log_weight[:, 1:]) + bend)
        kept_share, spread = (1.0 - p[:, :1] * p[:, :1] / 3.0), mu * p[:, 1:] * (1.0 - p[:, :-1])

        found = np.empty(heights.shape)
        for k, b in enumerate(heights.T[:, :, None]):
            slope = b * mu / (1.0 + mu * mu)
            turned = 0.5 * mu * slope * p
            r = largest / (largest + turned)
            tau = turned * r
            sin = 2.0 * tau / (1.0 + tau * tau)
            theta = np.arctan2(p * sin, 1.0 - p * tau * sin)
            rise = slope * (r[:, :-1] ** 2) * spread
            psi = 2.0 * (tau[:, 1:] / mu) ** 2 + 0.5 * rise * rise - b * theta[:, :-1]
            # on the left theta >= p sin t (1 - p^2/3) and sin t >= 2 tau (1 - tau^2), tau = A p mu r / 2
            kept = r[:, :1] * (1.0 - tau[:, :1] ** 2) * kept_share * b * mu
            loss = 0.5 * slope * (1.0 + mu * mu)
            if adds.size:
                drop = 2.0 * p[adds, 1:] * (1.0 - p[adds, :-1]) * (tau[adds] * sin[adds])[:, 1:]
                psi[adds] = psi[adds] - 0.5 * excess[adds] * np.log1p(-np.minimum(drop, 1.0))
                loss = loss + 0.6 * excess * p[:, :1] * slope * mu * mu
            sound = ((kept >= loss) & (tau[:, :1] < 0.1))[:, 0] & known
            beyond = right * np.exp(np.maximum(most - b * theta[:, -1:], 0.0))
            gain = -np.sum(np.expm1(psi) * np.where(psi < 0.0, low, high), axis=1) - beyond[:, 0]
            found[:, k] = np.where(sound & ~np.isnan(gain), gain, 0.0)
        lost = found * ((1.0 - 2.0**-30) * np.exp(-log_moment))[:, None]
        # a bound from one height on holds from the next on
        lost = np.where(known[:, None], np.log1p(-np.clip(lost, 0.0, 1.0 - 2.0**-30)), 0.0)
        return np.minimum.accumulate(lost, axis=1)
