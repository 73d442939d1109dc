"""Shuffled check-ins over the clones pair, one setting on the host: both ends of its profile by one contour integral.

With A and B the numbers of clones of either kind among the k visible reports, (A, B) ~ Mult(k; p/2, p/2), the profile
of CI-S23 is

    delta = 1/(n p) sum_k w_k E(S_k)_+,  S_k = a A - b B,  a = 2 s - u (1 - s),  b = 2 s + u (1 + s),  u = n t / k,

w = Bin(n, q), s = tanh(local/2), t = e^eps - 1. On a line Re z = c > 0, E(S_k)_+ is 1/pi times the integral of
Re(M_u(z)^k / z^2) over heights above 0, M_u(z) = 1 + p/2 (e^(z a) + e^(-z b) - 2). Its logarithm k log M_(n t/k) is
nearly linear in k, so that the sum over k has a closed form up to a small remainder. All errors are bounded: the part
outside the window of k, that remainder, the aliases of the trapezoid rule, and the lobes beyond the last node, where
|M| returns to nearly its maximum (docs/numerics/clones.md, "Check-ins").
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.check_in._positive_part import Range, Sums, Wave, nodes_of, order_of, positive_part
from jaxacct.special import ULP, log_down, log_up

_REACH = 10.0  # standard deviations of the number of reports on either side of its mean that are in the window
_ROUNDINGS = 2.0**8 * ULP
_LEAST_SPREAD = 1e-150  # standard deviation of S below which its square is not a double: no bound is given there


class LineSetting(NamedTuple):
    """Users n, the probability q of a report, that of a clone p, and the local epsilon."""

    num_users: float
    prob: float
    clone_prob: float
    local_epsilon: float


class LinePoint(NamedTuple):
    """Lower and upper bounds on log delta (-inf and 0 if unknown), and its slope, which only guides searches."""

    log_lower: float
    log_upper: float
    slope: float


NOTHING = LinePoint(-math.inf, 0.0, -1.0)


class _Steps(NamedTuple):
    """A setting at one t: the mean of k, its standard deviation, the window, s, 1 - s (`rest`) and n t (`reach`)."""

    setting: LineSetting
    mean: float
    deviation: float
    window: Range
    s: float
    rest: float
    reach: float

    def ratio(self) -> Range:
        """The range of u."""
        return Range(self.reach / self.window.high, self.reach / self.window.low)


def log1p_complex(z: Any) -> Any:
    """log(1 + z) [N] of complex z, with an absolute error of a few ulp of |z|."""
    x, y = z.real, z.imag
    return 0.5 * np.log1p(x * (2.0 + x) + y * y) + 1j * np.arctan2(y, 1.0 + x)


def _log_moment(a: Any, of: LineSetting) -> Any:
    """log E e^(a (K - n q)), K ~ Bin(n, q), for real or complex a."""
    if of.prob == 1.0:
        return np.zeros_like(a)
    grown = of.prob * np.expm1(a)
    return of.num_users * ((log1p_complex(grown) if np.iscomplexobj(a) else np.log1p(grown)) - of.prob * a)


def _beyond(a: Any, of: _Steps, more: float) -> Any:
    """Upper bound on E[e^(a d + more |d| / deviation); K outside the window], d = K - n q: by Markov's inequality."""
    if of.setting.prob == 1.0:
        return 0.0 * a
    steep = (_REACH + more) / of.deviation
    both = (_log_moment(a + x, of.setting) for x in (steep, -steep))
    return sum(np.exp(x - _REACH * _REACH) for x in both)


def _sums(z: Any, of: _Steps) -> Sums:
    """The sums over k at `z` [N], by log M^k = f(k) about the mean of k, with d = k - n q.

    e^f(k) is within e^(f + f' d) (F3 |d|^3 / 6 + F2^2 d^4 e^(F2 D^2 / 2) / 8) of e^(f + f' d) (1 + f'' d^2 / 2), where
    F2 and F3 bound the second and the third derivative on the window |d| <= D. Both are summed over Bin(n, q) in closed
    form.
    """
    n, q, p, _ = of.setting
    s, rest, mean, u = of.s, of.rest, of.mean, of.reach / of.mean
    least = of.window.low
    high = of.ratio().high
    x, y = np.expm1(z * (2.0 * s - u * rest)), np.expm1(-z * (2.0 * s + u * (1.0 + s)))
    moment_less_1 = 0.5 * p * (x + y)
    moment = 1.0 + moment_less_1
    first = -0.5 * p * z * (rest * (1.0 + x) + (1.0 + s) * (1.0 + y)) / moment  # d log M / du
    second = 0.5 * p * z * z * (rest**2 * (1.0 + x) + (1.0 + s) ** 2 * (1.0 + y)) / moment - first * first
    log_m = log1p_complex(moment_less_1)
    rise, bend = log_m - u * first, u * u * second / mean  # f', f''
    log_value = mean * log_m + _log_moment(rise, of.setting)
    e1 = np.expm1(rise)
    tilted = 1.0 + q * e1
    square = n * q * (1.0 + e1) * (1.0 - q) / tilted**2 + (n * q * (1.0 - q) * e1 / tilted) ** 2  # mean of d^2, tilted
    value = np.exp(log_value) * (1.0 + 0.5 * bend * square)
    # bounds on the derivatives of log M in u, where |M| may be less than at the mean of k
    size = np.abs(z)
    grown = np.exp(z.real * 2.0 * s)
    parts = [0.5 * p * size**j * (rest**j * grown + (1.0 + s) ** j) for j in (1, 2, 3)]
    low = np.maximum(np.abs(moment) - parts[0] * (high - u), 1e-300)
    b1, b2, b3 = (x / low for x in parts)
    b2, b3 = b2 + b1 * b1, b3 + 3.0 * b2 * b1 + 2.0 * b1**3
    most2 = high**2 * b2 / least
    most3 = (high**3 * b3 + 3.0 * high**2 * b2) / least**2
    # moments of d under the law tilted by Re f': d is off by `off`, E(x + y)^4 <= 8 (E x^4 + y^4)
    tilt = rise.real
    e1 = np.expm1(tilt)
    tilted = 1.0 + q * e1
    variance, off = n * q * (1.0 + e1) * (1.0 - q) / tilted**2, n * q * (1.0 - q) * e1 / tilted
    square, fourth = variance + off * off, 8.0 * (3.0 * variance**2 + variance + off**4)
    wide = np.exp(0.5 * most2 * (_REACH * of.deviation) ** 2)
    error = most3 * np.sqrt(square * fourth) / 6.0 + most2**2 * fourth * wide / 8.0
    error = np.exp(mean * log_m.real + _log_moment(tilt, of.setting)) * error
    # the closed form's part outside the window: x^2 / 2 <= e^x
    error = error + np.exp(mean * log_m.real) * (1.0 + np.abs(bend) * of.deviation**2) * _beyond(tilt, of, 1.0)
    rounding = 4.0 + np.abs(log_value) + 2.0 * mean * p * size * (2.0 * s + u) * grown
    return Sums(value, n * first * value, error * (1.0 + 1e-9) + _ROUNDINGS * rounding * np.abs(value))


def _waves(order: float, of: _Steps) -> list[Wave]:
    """|M|^2 is at most M(c)^2 - 4 P Q sin^2(height g / 2) for any two values g apart, with parts P and Q of M(c)."""
    p, s, rest, u = of.setting.clone_prob, of.s, of.rest, of.ratio()
    a = Range(2.0 * s - u.high * rest, 2.0 * s - u.low * rest)
    b = Range(2.0 * s + u.low * (1.0 + s), 2.0 * s + u.high * (1.0 + s))
    both = Range(4.0 * s + 2.0 * s * u.low, 4.0 * s + 2.0 * s * u.high)
    up, down = 0.5 * p * math.exp(order * a.low), 0.5 * p * math.exp(-order * b.high)
    largest = 1.0 + 0.5 * p * (math.expm1(order * a.high) + math.expm1(-order * b.low))
    unit = of.window.low / largest**2 * (1.0 - 1e-9)
    return [Wave(unit * (1.0 - p) * up, a), Wave(unit * (1.0 - p) * down, b), Wave(unit * up * down, both)]


def line_point(epsilon: float, setting: LineSetting) -> LinePoint:
    """Both ends of log delta, floats, at `epsilon` >= 0: the module's formula, an exact reduction for clones.

    They bound the same profile as `log_profile`. No bound is given where few reports or few clones are expected.
    """
    n, q, p, local = setting
    mean = n * q
    deviation = math.sqrt(mean * (1.0 - q))
    window = Range(mean - _REACH * deviation, mean + _REACH * deviation)
    if window.low < 0.25 * mean or not 0.0 < p < 1.0 or mean * p < 16.0 or not 0.0 <= epsilon < local:
        return NOTHING
    t = math.expm1(epsilon)
    of = _Steps(setting, mean, deviation, window, math.tanh(0.5 * local), 2.0 / (math.exp(local) + 1.0), n * t)
    spread, drift = 2.0 * of.s * math.sqrt(mean * p), n * t * p
    if spread < _LEAST_SPREAD:
        return NOTHING
    order = order_of(spread, drift)
    if order * 2.0 * of.s > 2.0 or 2.0 * of.s <= of.ratio().high * of.rest:
        return NOTHING
    at = nodes_of(order, spread, drift, _waves(order, of))
    if at is None:
        return NOTHING
    with np.errstate(all="ignore"):
        found = positive_part(at, _sums(at.z, of))
    outside = float(_beyond(np.zeros(1), of, 0.0)[0])  # delta is at most 1 there
    upper = found.upper / (n * p) * (1.0 + 2.0**-45) + outside
    lower = found.lower / (n * p) * (1.0 - 2.0**-45)
    if not (0.0 < upper < math.inf and lower > 0.0):
        return NOTHING
    slope = float((1.0 + t) * found.drift / (n * p) / upper)
    return LinePoint(float(log_down(math.log(lower), 8)), min(float(log_up(math.log(upper), 8)), 0.0), slope)
