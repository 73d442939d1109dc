"""Shuffled check-ins over the clones pair, one setting on the host: both ends of its profile by one contour integral.

With A and B of the k reports that are seen clones of either kind, (A, B) ~ Mult(k; p/2, p/2), the profile of CI-S23 is

    delta = 1/(n p) sum_k w_k E(S_k)_+,  S_k = a A - b B,  a = 2 s - u (1 - s),  b = 2 s + u (1 + s),  u = n t / k,

w = Bin(n, q), s = tanh(local/2), t = e^eps - 1. On a line Re z = c > 0, E(S_k)_+ is 1/pi times the integral of
Re(M_u(z)^k / z^2) over heights above 0, M_u(z) = 1 + p/2 (e^(z a) + e^(-z b) - 2). Its logarithm k log M_(n t/k) is
nearly linear in k, so that the sum over k is closed but for a small remainder. What is left out is bounded: the window
of k, that remainder, the aliases of the trapezoidal rule, and the lobes beyond the last node, where M comes back to
nearly its size (docs/numerics.md, "Check-ins").
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.special import ULP, log_down, log_up

# These steer cost and tightness only, but for what the comments derive.
_REACH = 10.0  # standard deviations of the number of reports on either side of its mean that are in the window
_FALL = 36.0  # natural logarithms by which the integrand has fallen where the nodes end
_ALIASES = 38.0  # the same, of the first alias
_LOBES, _PIECES = 240, 16  # lobes that are bounded one by one, each in so many pieces
_GOAL = 1e-7  # share of delta that one lobe beyond the nodes may have, before it gets nodes of its own
_MOST_NODES, _MOST_LOBES = 3000, 40
_ROUNDINGS = 2.0**8 * ULP


class LineSetting(NamedTuple):
    """Users n, the probability q of a report, that of a clone p, and the local epsilon."""

    num_users: float
    prob: float
    clone_prob: float
    local_epsilon: float


class LinePoint(NamedTuple):
    """Log delta from below and from above (-inf and 0 where nothing is known), and its slope, which only steers."""

    log_lower: float
    log_upper: float
    slope: float


NOTHING = LinePoint(-math.inf, 0.0, -1.0)


class _Range(NamedTuple):
    """Over the window of k: a number at its least k, or what it is at most or at least there."""

    low: float
    high: float


class _Steps(NamedTuple):
    """A setting at one t: the mean of k, its standard deviation, the window, and of s, 1 - s and n t."""

    setting: LineSetting
    mean: float
    deviation: float
    window: _Range
    s: float
    rest: float
    reach: float

    def ratio(self) -> _Range:
        """The range of u."""
        return _Range(self.reach / self.window.high, self.reach / self.window.low)


def _log1p(z: Any) -> Any:
    """log(1 + z) of complex z, with an absolute error of a few ulp of |z|."""
    x, y = z.real, z.imag
    return 0.5 * np.log1p(x * (2.0 + x) + y * y) + 1j * np.arctan2(y, 1.0 + x)


def _log_moment(a: Any, of: LineSetting) -> Any:
    """log E e^(a (K - n q)), K ~ Bin(n, q), for real or complex a."""
    if of.prob == 1.0:
        return np.zeros_like(a)
    grown = of.prob * np.expm1(a)
    return of.num_users * ((_log1p(grown) if np.iscomplexobj(a) else np.log1p(grown)) - of.prob * a)


class _Sums(NamedTuple):
    """At each z: sum_k w_k M^k, what it is in d/dt, and at most what the former errs by, k outside the window too."""

    value: Any
    drift: Any
    error: Any


def _beyond(a: Any, of: _Steps, more: float) -> Any:
    """At most E[e^(a d + more |d| / deviation); K outside the window], d = K - n q: by Markov's inequality."""
    if of.setting.prob == 1.0:
        return 0.0 * a
    steep = (_REACH + more) / of.deviation
    both = (_log_moment(a + x, of.setting) for x in (steep, -steep))
    return sum(np.exp(x - _REACH * _REACH) for x in both)


def _sums(z: Any, of: _Steps) -> _Sums:
    """The sums over k at `z` [N], by log M^k = f(k) about the mean of k, with d = k - n q.

    e^f(k) is e^(f + f' d) (1 + f'' d^2 / 2) but for e^(f + f' d) (F3 |d|^3 / 6 + F2^2 d^4 e^(F2 D^2 / 2) / 8), where F2
    and F3 bound the second and the third derivative on the window |d| <= D. All is summed over Bin(n, q) in closed
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
    log_m = _log1p(moment_less_1)
    rise, bend = log_m - u * first, u * u * second / mean  # f', f''
    log_value = mean * log_m + _log_moment(rise, of.setting)
    e1 = np.expm1(rise)
    tilted = 1.0 + q * e1
    square = n * q * (1.0 + e1) * (1.0 - q) / tilted**2 + (n * q * (1.0 - q) * e1 / tilted) ** 2  # mean of d^2, tilted
    value = np.exp(log_value) * (1.0 + 0.5 * bend * square)
    # bounds of the derivatives of log M by u, where |M| may be less than at the mean of k
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
    # what the closed form has outside the window: x^2 / 2 <= e^x
    error = error + np.exp(mean * log_m.real) * (1.0 + np.abs(bend) * of.deviation**2) * _beyond(tilt, of, 1.0)
    rounding = 4.0 + np.abs(log_value) + 2.0 * mean * p * size * (2.0 * s + u) * grown
    return _Sums(value, n * first * value, error * (1.0 + 1e-9) + _ROUNDINGS * rounding * np.abs(value))


class _Wave(NamedTuple):
    """A term of |M|^k <= M(c)^k exp(-sum weight (1 - cos(height scale))), for all k of the window."""

    weight: float
    scale: _Range


def _waves(order: float, of: _Steps) -> list[_Wave]:
    """|M|^2 is M(c)^2 less 4 P Q sin^2(height g / 2) for each two of the three values, P and Q their parts of M(c)."""
    p, s, rest, u = of.setting.clone_prob, of.s, of.rest, of.ratio()
    a = _Range(2.0 * s - u.high * rest, 2.0 * s - u.low * rest)
    b = _Range(2.0 * s + u.low * (1.0 + s), 2.0 * s + u.high * (1.0 + s))
    both = _Range(4.0 * s + 2.0 * s * u.low, 4.0 * s + 2.0 * s * u.high)
    up, down = 0.5 * p * math.exp(order * a.low), 0.5 * p * math.exp(-order * b.high)
    largest = 1.0 + 0.5 * p * (math.expm1(order * a.high) + math.expm1(-order * b.low))
    unit = of.window.low / largest**2 * (1.0 - 1e-9)
    return [_Wave(unit * (1.0 - p) * up, a), _Wave(unit * (1.0 - p) * down, b), _Wave(unit * up * down, both)]


class _Ending(NamedTuple):
    """Where the nodes end, lobes that are worth nodes of their own, and what the others are at most, over A(c).

    Each lobe: its first and last height, and what it is at most.
    """

    height: float
    lobes: list[tuple[float, float, float]]
    beyond: float


def _ending(waves: list[_Wave], of_lobes: _Wave, step: float, size: float) -> _Ending | None:
    """What the nodes beyond the last one are worth, by the lobes of one wave; None where that says nothing.

    Up to pi over the largest scale all waves rise; later only where `of_lobes` is within `near` of a multiple of 2 pi
    has it not risen by `_FALL`. There the sum over nodes of a distance `step` is, on each of some pieces, at most its
    length and one node times the largest value, for which each wave counts with its least. Beyond the lobes that are
    looked at one by one it is at most the integral and one node. `size` times what is found is its share of delta.
    """
    weight, scale = of_lobes
    top = max(wave.scale.high for wave in waves)
    height = math.sqrt(2.0 * _FALL / sum(w * g.low**2 for w, g in waves)) * 1.02
    if weight < 1.1 * _FALL or height * top > math.pi:
        return None
    near = math.acos(1.0 - _FALL / weight)
    if math.pi * scale.low < near * top:
        return None
    fallen = min(sum(w * (1.0 - math.cos(height * g.low)) for w, g in waves), _FALL)
    edges = np.linspace(-near, near, _PIECES + 1)
    turns = 2.0 * math.pi * np.arange(1, _LOBES + 1)[:, None]
    less = weight * (1.0 - np.cos(np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])))) + np.zeros_like(turns)
    for wave in waves:
        if wave is not of_lobes:
            least, most = wave.scale.low / scale.high, wave.scale.high / scale.low
            first, last = (turns + edges[:-1]) * least, (turns + edges[1:]) * most
            past = first - 2.0 * math.pi * np.floor(first / (2.0 * math.pi))
            free = np.minimum(past, 2.0 * math.pi - past - (last - first))  # distance from the multiples on both sides
            less += wave.weight * (1.0 - np.cos(np.clip(free, 0.0, math.pi)))
    width = (edges[1] - edges[0]) / scale.low + step
    turns = turns[:, 0]
    lobes = scale.high**2 / (turns - near) ** 2 * np.exp(-less).sum(axis=1) * width
    full = math.sqrt(2.0 * math.pi / (weight * (1.0 - near * near / 12.0))) / scale.low + step
    last = scale.high**2 * full / (2.0 * math.pi * (turns[-1] - near))  # all the others, without the other waves
    rest = math.exp(-fallen) / height
    kept: list[tuple[float, float, float]] = []
    nodes = 0.0
    for i in np.flatnonzero(lobes[:_MOST_LOBES] * size > _GOAL):
        ends = (turns[i] - near) / scale.high, (turns[i] + near) / scale.low
        nodes += (ends[1] - ends[0]) / step
        if nodes > _MOST_NODES or (kept and ends[0] <= kept[-1][1] + step):
            break
        kept.append((float(ends[0]), float(ends[1]), float(lobes[i])))
    return _Ending(height, kept, float(lobes.sum()) - sum(x[2] for x in kept) + last + rest)


def line_point(epsilon: float, setting: LineSetting) -> LinePoint:
    """Log delta from both sides, floats, at `epsilon` >= 0: the module's formula, an exact reduction for clones.

    Both bound what `log_profile` bounds. Nothing is known where few reports or few clones are expected.
    """
    n, q, p, local = setting
    mean = n * q
    deviation = math.sqrt(mean * (1.0 - q))
    window = _Range(mean - _REACH * deviation, mean + _REACH * deviation)
    if window.low < 0.25 * mean or not 0.0 < p < 1.0 or mean * p < 16.0 or not 0.0 <= epsilon < local:
        return NOTHING
    t = math.expm1(epsilon)
    of = _Steps(setting, mean, deviation, window, math.tanh(0.5 * local), 2.0 / (math.exp(local) + 1.0), n * t)
    spread, drift = 2.0 * of.s * math.sqrt(mean * p), n * t * p
    order = (drift + math.sqrt(drift * drift + 2.0 * spread * spread)) / (2.0 * spread * spread)
    if order * 2.0 * of.s > 2.0 or 2.0 * of.s <= of.ratio().high * of.rest:
        return NOTHING
    period = max((_ALIASES + 0.5 * (drift / spread) ** 2) / order, 12.0 * spread)
    step = 2.0 * math.pi / period
    waves = _waves(order, of)
    # A(c) is about spread c^2 times n p delta, if S were normal
    endings = [x for wave in waves if (x := _ending(waves, wave, step, spread / math.pi)) is not None]
    if not endings:
        return NOTHING
    end = min(endings, key=lambda x: x.beyond)
    index = [np.arange(math.floor(end.height / step) + 2.0)]
    for first, last, _ in end.lobes:
        index.append(np.arange(max(math.floor(first / step), index[-1][-1] + 1.0), math.ceil(last / step) + 1.0))
    alias_order = order + 8.0 / spread
    z = np.concatenate([[alias_order, order], *(order + 1j * step * x for x in index)])
    with np.errstate(all="ignore"):
        found = _sums(z, of)
        weights = step / math.pi / z[2:] ** 2
        weights[0] *= 0.5
        starts = np.cumsum([0, *map(len, index[:-1])])
        values, falls, errors = (
            np.add.reduceat(x, starts)
            for x in (
                (found.value[2:] * weights).real,
                (found.drift[2:] * weights).real,
                found.error[2:] * np.abs(weights),
            )
        )
    beyond, on_axis = (float(abs(found.value[i]) + found.error[i]) for i in (0, 1))
    value, fall, error = float(values[0]), float(falls[0]), float(errors[0]) + on_axis * end.beyond / math.pi
    for i, (_, _, most) in enumerate(end.lobes, 1):
        if errors[i] < on_axis * most / math.pi:
            value, error = value + float(values[i]), error + float(errors[i])
        else:
            error += on_axis * most / math.pi
    # aliases at whole multiples of the period T: E(S - l T)_+ e^(c l T) <= e^(-(c' - c) l T) A(c')/(e c') on the right,
    # E(S + l T)_+ e^(-c l T) <= (l T + E(S)_+) e^(-c l T) on the left; the rule is above the integral by their sum
    left, right = math.exp(-order * period), math.exp(-(alias_order - order) * period)
    aliases = left * (period / (1.0 - left) + value + error) / (1.0 - left)
    aliases += beyond / (math.e * alias_order) * right / (1.0 - right)
    outside = float(_beyond(np.zeros(1), of, 0.0)[0])  # delta is at most 1 there
    upper = (value + error) / (n * p) * (1.0 + 2.0**-45) + outside
    lower = (value - error - aliases) / (n * p) * (1.0 - 2.0**-45)
    if not (0.0 < upper < math.inf and lower > 0.0):
        return NOTHING
    slope = float((1.0 + t) * fall / (n * p) / upper)
    return LinePoint(float(log_down(math.log(lower), 8)), min(float(log_up(math.log(upper), 8)), 0.0), slope)
