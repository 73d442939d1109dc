"""Complex moments E[X^s], Re s < j, of one round of 1-out-of-t allocation, by its Laplace transform on a ray.

This is for laws with a tail too heavy for `jaxacct.divergence.allocation._clipped_lanes`: few steps with little noise.
The orders are above 1 (remove direction), or negative with j = 0 (add direction, moments of order 1 - s). With
K(u) = E[X^j e^{-uX}] and u = e^{v - i theta}, 0 <= theta < pi/2,

    M(s) = E X^s = (1/Gamma(j - s)) int u^{j - 1 - s} K(u) du,

by the trapezoid rule of step h in v. For each X the transform of e^{(j - s) v} e^{-uX} in v is a Gamma function: the
sum is *exactly* (Poisson summation) Gamma(j - s) M(s) plus its copies, for w = 2 pi k/h, k != 0,

    e^{theta w} Gamma(j - s - iw) M(s + iw),    |M(a + ib)| <= M(a) e^{-b^2/(2 sigma^2 t)}

(`jaxacct.divergence.allocation._added_lanes`). The transforms psi_i(u) = E[Y^i e^{-uY}] of one ratio at u/t, with
r_i = psi_i/psi_0 and X = (1/t) sum Y_i, give, by the recurrence for a power of a power series,

    K(u) = psi_0^t j! d_j,    sum_n d_n x^n = (sum_i c_i x^i)^t,    c_i = r_i/(i! t^i),
    n d_n = sum_{i=1}^n ((t + 1) i - n) c_i d_{n-i}.

On the grid in v the sums over the Gaussian variable are correlations: u Y is a function of v + g/sigma alone.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from jaxacct.divergence.allocation._correlations import BLOCK, correlated, correlated_above
from jaxacct.divergence.allocation._grid import Complex, Real, log_ratio, product
from jaxacct.divergence.allocation._lines import expm1, log1p
from jaxacct.divergence.allocation._log_gamma import log_gamma
from jaxacct.divergence.allocation._nodes import SMALL, NodeSum, rounded_up
from jaxacct.divergence.allocation._powers import integer_log_moments
from jaxacct.divergence.allocation._real import log_transform
from jaxacct.divergence.allocation._rule import Rule, Shape, one_rule
from jaxacct.special import ULP, complex_exp, complex_log, log_normal_tail, rows_times, turn, turned_sums

POWERS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16)  # j: moments of orders below one of them are available
# They affect speed and tightness only: every error is bounded.
_DIGITS = 36.0  # in log: copies, and the parts beyond the grid's ends, are kept this far below the moment
_STRIPS, _STEEP = 58.0, 0.45  # in log: the rule's error, the second over the square of the noise multiplier
_LOSS = 22.0  # in log: how far the terms may exceed the moment at the largest height, where little precision is needed
MOST_NODES = 40000  # with more, a `RayMoments` has its `ray` but no terms: this limits time and memory
_ETA = 0.1  # share of the exponent that pays for X^3 beyond the grid


class _Sums(NamedTuple):
    """psi_0 - 1 and psi_1 .. psi_j at the nodes, [j + 1, N], with bounds on their absolute errors; and psi_0 itself."""

    value: Complex
    error: Real
    base: Complex  # [N]
    base_error: Real


def _rule(noise_multiplier: float, power: int) -> Rule:
    """`Rule` for moments up to order `power`; with little noise these are large beside the sums at large u."""
    digits = _STRIPS + _STEEP / noise_multiplier**2
    return one_rule(noise_multiplier, Shape(0.88, 0.0, -10.0, 9.5, float(max(power, 2)), digits))


def _remainder(v: Complex) -> Complex:
    """e^-v - 1 + v, without cancellation where v is small."""
    small = np.abs(v) < 0.2
    x = np.where(small, v, 0.0)
    series = np.ones_like(x)
    for n in range(14, 2, -1):
        series = 1.0 - x * (1.0 / n) * series
    return np.where(small, 0.5 * x * x * series, np.exp(-v) - 1.0 + v)


def _places(of: Rule, base: float, base_low: float, every: int, count: int) -> tuple[Real, Real]:
    """base + base_low + n h, n < `count`, h = (step of the grid)/(sigma every), as a sum of two doubles [count].

    With a single double the relative error of e^place would be as many ulp as its parts are large.
    """
    sigma, k = of.sigma[0, 0], of.step[0, 0]
    s = 1.0 / sigma
    back, back_error = product(s, sigma)
    s_low = -((back - 1.0) + back_error) / sigma
    whole, whole_error = product(s, k)
    h = whole / every
    again, again_error = product(h, float(every))
    h_low = (((whole - again) - again_error) + whole_error + s_low * k) / every
    n = np.arange(count, dtype=np.float64)
    moved, moved_error = product(h, n)
    total = base + moved
    away = total - base
    rest = (base - (total - away)) + (moved - away)
    return total, rest + moved_error + h_low * n + base_low


@functools.lru_cache(maxsize=4)
def _sums(noise_multiplier: float, power: int, first: float, every: int, count: int, angle: float) -> _Sums:
    """`_Sums` at u = e^{first + i angle + n h}, h = (step of the rule)/(sigma every), 0 <= angle <= pi/2.

    On the rule's contour uY has the argument angle - eta. On every contour of eta' in [0, top], |e^{-uY}| <= 1 and
    |e^{-uY} - 1 + uY| <= |uY|^2/2, so the rule's error is at most the strips' share of E Y^i, and of |u|^2 E Y^2 / 2.
    Left of the window |Y^i| is at most its value at the first node; right of it |e^{-uY}| is at most its value at the
    last one.
    """
    of = _rule(noise_multiplier, power)
    s, size, eta = 1.0 / noise_multiplier, of.g.shape[1], float(of.eta[0, 0])
    left, last, right = float(of.left[0, 0]), float(of.y[0, -1]), of.beyond(np.arange(max(power, 2) + 1.0))[0]
    length = (size - 1) * every + -(-count // every) * every
    start, start_low = log_ratio(of.sigma[0, 0], of.g[0, :1])
    base = first + float(start[0])
    away = base - first
    base_low = (first - (base - away)) + (float(start[0]) - away) + float(start_low[0])
    exponent, rest = _places(of, base, base_low, every, length)
    modulus = np.exp(exponent) * (1.0 + rest)
    v = modulus * complex(math.cos(angle - eta), math.sin(angle - eta))
    slip = 16.0 * ULP  # of v and of u, relative
    # e^-300 replaces all smaller values: products of subnormal numbers are slow
    moduli = np.exp(-np.minimum(v.real, 300.0))
    fall = moduli * turn(-v.imag)
    centred = _remainder(v)
    # |1 - e^-v| <= min(|v|, 2)
    centred_error = np.minimum(modulus, 2.0) * modulus * slip
    centred_error = centred_error + ULP * np.where(modulus < 0.2, 40.0 * modulus**2, 8.0 * (1.0 + modulus))
    fall_error = moduli * (np.minimum(modulus, 1e4) * slip + 24.0 * ULP) + 2.0 * (v.real > 300.0) * math.exp(-300.0)
    u = modulus[:count] * math.exp(0.5 * s * s - s * float(of.g[0, 0]))
    weights = np.stack([of.turned_density[0] * of.turned_y[0] ** i for i in range(power + 1)])
    sizes = np.abs(weights)
    rounding = ULP * (64.0 + 2.0 * BLOCK + size / BLOCK) + float(of.density_error.max())
    turned = math.exp(0.5 * (eta * noise_multiplier) ** 2)
    strips = float((of.strip(0.0, of.eta) + of.strip(of.top, of.eta))[0, 0])
    square = math.exp(s * s)
    # this bounds |e^{-uY}| right of the window; left of it |Y| is less than at the first node
    beyond = np.exp(-np.minimum(0.999 * math.cos(angle - eta) * u * last, 600.0))
    complex_u = u * complex(math.cos(angle), math.sin(angle))
    found = correlated(fall, weights, every, count)
    # includes the rounding of the powers of Y
    sizes = sizes * (1.0 + 8.0 * ULP / rounding * np.arange(power + 1.0)[:, None])
    error = correlated_above(fall_error + rounding * moduli, sizes, every, count)
    moment = np.array([math.exp(0.5 * i * (i - 1) * s * s) for i in range(power + 1)])[:, None]
    window = left * of.y[0, 0] ** np.arange(power + 1.0)[:, None] + moment * right[: power + 1, None] * beyond
    error = error + moment * 2.0 * strips + turned * window
    value = correlated(centred, weights[:1], every, count)[0] - complex_u
    near = correlated_above(centred_error + rounding * np.abs(centred), sizes[:1], every, count)[0] + slip * u
    near = near + u**2 * square * (strips + turned * (left + right[2]))
    # where u is large, psi_0 is small beside the terms of the centred sum
    base_error = near + 2.0 * ULP * (1.0 + u)
    base = np.where(error[0] < base_error, found[0], 1.0 + value)
    base_error = np.minimum(error[0], base_error)
    found[0], error[0] = value, near
    return _Sums(found, error, base, base_error)


def _power_coefficient(r: Complex, r_error: Real, t: float) -> tuple[Complex, Real]:
    """j! d_j [N] of the module's recurrence from r_1 .. r_j [j, N], and a bound on its absolute error."""
    j = len(r)
    if j == 0:
        return np.ones(r.shape[1], np.complex128), np.zeros(r.shape[1])
    factor, c, c_size, c_error = 1.0, [], [], []
    for i in range(1, j + 1):
        factor = factor * i * t
        c.append(r[i - 1] / factor)
        c_size.append(np.abs(c[-1]))
        c_error.append(r_error[i - 1] / factor + 8.0 * ULP * (i + 2.0) * c_size[-1])
    d, d_size, d_error = [np.ones_like(r[0])], [np.ones_like(r_error[0])], [np.zeros_like(r_error[0])]
    for n in range(1, j + 1):
        value, error = np.zeros_like(r[0]), np.zeros_like(r_error[0])
        for i in range(1, n + 1):
            weight = ((t + 1.0) * i - n) / n
            value = value + weight * (c[i - 1] * d[n - i])
            spread = (c_size[i - 1] + c_error[i - 1]) * d_error[n - i] + c_error[i - 1] * d_size[n - i]
            error = error + abs(weight) * (spread + ULP * (24.0 + 4.0 * n) * c_size[i - 1] * d_size[n - i])
        d.append(value)
        d_size.append(np.abs(value))
        d_error.append(error)
    whole = math.factorial(j)
    return whole * d[j], whole * (d_error[j] + 8.0 * ULP * d_size[j])


class Ray(NamedTuple):
    """A grid in v - log t, which rounds of different lengths may share."""

    first: float  # its first node
    every: int  # its steps in one step, over sigma, of the grid in the Gaussian variable
    num_nodes: int
    angle: float  # theta


def _best_angle(p: float, height: float) -> float:
    """The angle at which the terms of sum u^{p + ib} e^{-u} exceed Gamma(p + ib) by least, for b from 0 to `height`."""
    angles = np.linspace(0.0, 0.49 * math.pi, 64)
    ends = log_gamma(np.array([p, p + 1j * height]))[0].real
    at_zero = -p * np.log(np.cos(angles))
    return float(angles[np.maximum(at_zero, at_zero - angles * height + ends[0] - ends[1]).argmin()])


def log_moment_guess(noise_multiplier: float, num_steps: float, orders: Real) -> Real:
    """Approximate log E X^a [A] at real orders a, not certified.

    log X is replaced by the sum of the logarithms of 1 + W_i/t, which is exact at t = 1, and close where X is near 1.
    """
    _, w, density = (x[0] for x in _rule(noise_multiplier, POWERS[-1]).real())
    x = w / num_steps
    exponents = orders[:, None] * np.log1p(np.maximum(x, -1.0 + 1e-300))
    powers = np.expm1(np.minimum(exponents, 600.0)) - orders[:, None] * x
    found = num_steps * np.log1p(np.maximum(rows_times(powers, density), 0.0))
    return np.where((exponents * (density > 0) < 600.0).all(1), found, np.inf)


class RayMoments:
    """M(s) of one round for s = a + ib, 1 < a < j, or a < 0 = j.

    Args:
      noise_multiplier, num_steps: sigma and t >= 2.
      power: j, one of `POWERS`, or 0.
      height: the largest b that will be needed.
      orders: the least and the largest a.
      ray: the ray, or None to choose one.
    """

    def __init__(
        self,
        noise_multiplier: float,
        num_steps: float,
        power: int,
        height: float,
        orders: tuple[float, float],
        ray: Ray | None = None,
    ):
        self.noise_multiplier, self.num_steps = noise_multiplier, num_steps
        sigma, t = noise_multiplier, float(num_steps)
        self._t, self._tau = t, 1.0 / (sigma * math.sqrt(t))
        of = self._of = _rule(sigma, power)
        step = 1.0 / sigma * float(of.step[0, 0])
        self._power = power
        whole = integer_log_moments(sigma, t)
        self._log_whole = float(whole[power - 1]) if power > 0 else 0.0
        self._log_next = float(whole[power])
        if ray is None:
            angle = 0.5 * math.pi - min(_LOSS / max(height, 1e-300), 0.5 * math.pi)
            if power == 0:
                angle = _best_angle(-0.5 * sum(orders), height)
            # the copies decay by the moments, or, like e^{-(pi/2 - angle) w}, by the Gamma function
            by_gamma = max((_DIGITS + 10.0) / (0.5 * math.pi - angle), 1.15 * height + 20.0)
            wanted = 2.0 * math.pi / min(height + math.sqrt(2.0 * _DIGITS) / self._tau, by_gamma)
            every = max(1, math.ceil(step / wanted))
            low, high = orders
            self._h = step / every
            left = -(_DIGITS + 6.0 + self._log_next - math.log(min(power - high, 1.0))) / (power + 1.0 - high)
            right = self._where_spent(
                math.log(80.0 / self._tau + 4e4) + (2.0 / sigma**2 if power == 0 else 0.0), angle, low
            )
            ray = Ray(left - math.log(t), every, math.ceil((right - left) / self._h), angle)
        self.ray, self.height = ray, height
        self._angle, self._h = ray.angle, step / ray.every
        self._left = ray.first + math.log(t) - self._h
        if ray.num_nodes <= MOST_NODES:
            self._nodes = self._terms(_sums(sigma, power, ray.first, ray.every, ray.num_nodes, ray.angle))

    @property
    def _right(self) -> float:
        return self._left + self._h * self.ray.num_nodes

    def _where_spent(self, most: float, angle: float, order: float) -> float:
        """Approximately the least v from 0 to `most` beyond which the integrand is negligible at `order`."""
        low, high = 0.0, most
        for count in (8, 6):
            v = np.linspace(low, high, count + 1)[1:]
            spent = np.flatnonzero(self._log_tails(v, angle, np.array([order]))[0] <= -_DIGITS - 4.0)
            at = int(spent[0]) if len(spent) else count - 1
            low, high = (float(v[at - 1]) if at else low), float(v[at])
        return high

    def _log_tails(self, v: Real, angle: float, orders: Real) -> Real:
        """log of upper bounds [A, V] on the terms' sum beyond each `v`, without e^{-angle b}, at real orders a.

        Shifting all g_i by the same i phi sigma leaves e^{t (phi sigma)^2/2} E[X^j e^{-rho c X}], rho >= 1 and
        c = |u| cos(angle - phi). For j > 0, X^j e^{-rho c X} <= (j/(e eta rho c))^j e^{-(1 - eta) c X}, and the sum of
        h rho^{-a} over the nodes beyond v is below 1/a. For j = 0 and p = -a the sum of h rho^p e^{-rho c X} is below
        e^{-cX} where cX >= p + 1, and elsewhere at most (cX)^{-p} (Gamma(p) + h (p/e)^p). X is at least G, lognormal:
        m = -1/(2 sigma^2), E[G^-p; G < x] = e^{-pm + (p tau)^2/2} Phi((log x - m)/tau + p tau).
        """
        turns = np.minimum(np.exp(v)[:, None] * self._tau**2 * np.array([0.0, 0.6, 0.8, 1.0]), angle)
        c = np.exp(v)[:, None] * np.cos(angle - turns)
        eta = _ETA if self._power > 0 else 0.0
        whole = log_transform(self._of, ((1.0 - eta) * c / self._t).reshape(1, -1)).reshape(c.shape)
        logs = self._t * whole - (1.0 - eta) * c + 1e-9 + 1e-13 * self._t
        column = orders[:, None, None]
        if self._power > 0:
            logs = logs + self._power * (np.log(self._power / (_ETA * c)) - 1.0) - np.log(column)
        else:
            p, mean = -column, -0.5 / self.noise_multiplier**2
            z = (np.log((p + 1.0) / c) - mean) / self._tau + p * self._tau
            tail = np.maximum(log_normal_tail(-z) + 1e-9, -690.0)
            gammas = np.array([math.lgamma(-a) for a in orders])[:, None, None]
            whole = np.logaddexp(gammas, math.log(self._h) + p * (np.log(p) - 1.0))
            logs = np.logaddexp(logs, tail + whole - p * (np.log(c) + mean) + 0.5 * (p * self._tau) ** 2)
        return (logs + 0.5 * (turns / self._tau) ** 2).min(-1) + (self._power - orders)[:, None] * v

    def _terms(self, sums: _Sums) -> NodeSum:
        t, (value, error, base, small) = self._t, sums
        with np.errstate(all="ignore"):
            size = np.abs(base)
            near, small = error[0] + 16.0 * ULP * np.abs(value[0]), small + 16.0 * ULP * size
            is_near = (np.abs(value[0]) < 0.5) & (near < small)
            small = np.where(is_near, near, small)
            r = value[1:] / base
            r_error = 1.1 * (error[1:] / size + np.abs(r) * (small / size + 8.0 * ULP))
            log_base = t * np.where(is_near, log1p(value[0]), complex_log(base))
            total, absolute = _power_coefficient(r, r_error, t)
            whole = absolute / np.abs(total)
            log_k = log_base + complex_log(total)
            rounding = 8.0 * ULP * (4.0 + np.abs(log_base))
            whole = whole + np.expm1(np.minimum(t * np.log1p(1.1 * small / size), 700.0)) + rounding
            # where the error is large K is bounded: |K| <= |psi_0|^t max(1, |r_i|)^j, and <= E X^j
            bad = ~(whole < 0.05)
            largest = np.maximum(1.1 * (np.abs(r) + r_error).max(0, initial=0.0), 1.0)
            most = self._power * np.log(largest) + t * np.log(size + small) + 1e-9 * t
            most = np.where((small < 0.1 * size) | (self._power == 0), most, self._log_whole)
            most = np.minimum(most, self._log_whole)
            log_k, whole = np.where(bad, most, log_k), np.where(bad, 2.1, whole)
        place, rest = _places(self._of, self.ray.first, 0.0, self.ray.every, len(log_k))
        v = (place + math.log(t)) + rest
        log_u = v + 1j * self._angle
        whole = whole + self._power * self._place_errors(log_u)
        return NodeSum(log_u.conj(), (log_k + self._power * log_u + math.log(self._h)).conj(), whole)

    def _place_errors(self, log_u: Complex) -> Real:
        """Bound on the error of log u, and of its product with a number over that number."""
        return ULP * (2.0 * math.log(self._t) + 6.0 * np.abs(log_u))

    def __call__(self, order: float, step: float, count: int) -> tuple[Real, Real, Real]:
        """log |M|, its phase, and the relative error of M, at s = order + ib, b = k `step`, k < `count`: [count] each.

        Where the relative error is 1 or more, the value is useless.
        """
        b = step * np.arange(count)
        total, error, log_scale = self._turned(order, step, count)
        log_factor, factor_error = log_gamma(self._power - order - 1j * b)
        before, missed = self._before(order + 1j * b, log_scale)
        total = total + before
        size = np.maximum(np.abs(total), 1e-300)
        tail = float(self._log_tails(np.array([self._right]), self._angle, np.array([order]))[0, 0])
        # e^{-s (v - i angle)} has the modulus e^{-a v - angle b}, and so has the scale
        beyond = np.exp(np.minimum(tail - self._angle * b - log_scale, 700.0))
        relative = (error + missed + beyond) / size + factor_error + 16.0 * ULP
        log_modulus = log_scale + np.log(size) - log_factor.real
        relative = relative + self._copies(order, b, log_factor.real, log_modulus - float(log_modulus[0]))
        return log_modulus, np.angle(total) - log_factor.imag, relative

    def _turned(self, order: float, step: float, count: int) -> tuple[Complex, Real, Real]:
        """The terms' sums at those s over e^log_scale; their errors; and log_scale, [count] each.

        The sizes of the terms are the same at all heights, except for e^{-angle b}. Terms below e^-`SMALL` of the
        largest count as that. Each node v is that of the largest term plus a multiple of h.
        """
        log_z, log_terms, relative = self._nodes
        b = step * np.arange(count)
        exponents = log_terms - order * log_z
        shift = float(exponents.real.max())
        exponents.real = np.maximum(exponents.real - shift, -SMALL)
        terms = complex_exp(exponents)
        origin = int(exponents.real.argmax())
        sums, error = turned_sums(terms, step * self._h, count, origin)
        first, far = float(log_z[origin].real), self._h * np.abs(np.arange(len(log_z)) - origin)
        own = relative + ULP * (64.0 + 8.0 * (np.abs(log_terms) + abs(shift))) + abs(order) * self._place_errors(log_z)
        places = ULP * (2.0 * math.log(self._t) + 4.0 * (abs(first) + self._angle) + 4.0 * far)
        own_error, by_height = rows_times(np.stack([own, places]), np.abs(terms))
        error = error + own_error + by_height * b + 2.0 * math.exp(-SMALL) * len(log_z)
        return sums * turn(-b * first), error, shift - self._angle * b

    def real(self, orders: Real) -> Real:
        """Upper bounds on log M [A] at real orders [A]; inf where there is none."""
        total, error, log_scale = self._nodes.real(orders)
        log_factor, factor_error = log_gamma(self._power - orders + 0j)
        before, missed = self._before(orders + 0j, log_scale)
        total = total + before.real
        tail = self._log_tails(np.array([self._right]), self._angle, orders)[:, 0]
        size, zeros = np.maximum(np.abs(total), 1e-300), np.zeros_like(orders)
        beyond = np.exp(np.minimum(tail - log_scale, 700.0))
        relative = (error + missed + beyond) / size + factor_error + 16.0 * ULP
        gammas = log_factor.real
        copies = self._copies(orders, zeros, gammas, zeros)
        return rounded_up(log_scale + np.log(size) - gammas, relative + copies)

    def _before(self, s: Complex, log_scale: Real) -> tuple[Complex, Real]:
        """The terms left of the grid at orders `s`, over e^log_scale, and a bound on their error: a geometric series.

        On the ray |K(u) - K(u_1)| <= |u_1| E X^{j+1} for |u| <= |u_1|, u_1 the first node: with K(u_1) in place of K(u)
        the terms are that node's divided by powers of e^{(j-s) h}.
        """
        w, first = (self._power - s) * self._h, self._left + self._h
        fall, growth = expm1(w), np.exp(w.real)
        log_term, log_z = self._nodes.log_terms[0], self._nodes.log_z[0]
        found = complex_exp(np.minimum((exponent := log_term - s * log_z - log_scale).real, 700.0) + 1j * exponent.imag)
        found = found / fall
        rounding = ULP * (64.0 + 16.0 * (np.abs(log_term) + np.abs(s * log_z) + np.abs(log_scale)))
        rounding = rounding + 32.0 * ULP * np.abs(w) * growth / np.abs(fall)
        missed = self._log_next + (self._power + 1.0 - s.real) * first - self._angle * s.imag + math.log(self._h)
        missed = np.exp(np.minimum(missed - log_scale, 700.0)) / np.expm1(w.real)
        return found, np.abs(found) * (self._nodes.relative[0] + rounding) + missed * (1.0 + 2.0**-30)

    def _copies(self, order: Real | float, b: Real, log_gammas: Real, log_fall: Real) -> Real:
        """The copies over Gamma(j - s) M(s): k = -3 .. 3, of which the outermost are doubled to bound the rest.

        With p = j - a, |Gamma(p - iy)| falls from y to y' > y by e^{-(pi/2)(y' - y)} (y'/y)^p or more, since Im
        psi(p + iy) >= pi/2 - arctan(p/y). For b up to w = 2 pi/h y'/y is at most 3/2, so that beyond k = 3 each copy is
        below half the one before where (pi/2 - theta) w + 5/2 (tau w)^2 >= 2 + 0.45 p; elsewhere there is no bound.
        """
        spacing = 2.0 * math.pi / self._h
        falls = (0.5 * math.pi - self._angle) * spacing + 2.5 * (self._tau * spacing) ** 2
        k = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])[:, None]
        w = spacing * k
        logs = log_gamma(self._power - order - 1j * (b + w))[0].real - log_gammas + self._angle * w
        logs = logs - 0.5 * (self._tau * (b + w)) ** 2 - log_fall
        copies = 1.1 * (np.exp(np.minimum(logs, 700.0)) * np.where(np.abs(k) == 3.0, 2.0, 1.0)).sum(0)
        return np.where((b <= spacing) & (falls >= 2.0 + 0.45 * (self._power - order)), copies, np.inf)

    def log_decay(self, height: float) -> float:
        """Upper bound on log |M(a + ib)/M(a)|, for every a and every b >= `height`."""
        return -0.5 * (self._tau * height) ** 2
