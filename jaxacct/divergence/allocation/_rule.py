"""The likelihood ratio of one Gaussian step at the nodes of a rule, whole or smoothly cut off, for many lanes at once.

The rule is the trapezoid rule in g, on the real line and on a contour g - i eta sigma, on which Y has the argument
-eta. On this contour e^{-uY} does not oscillate where arg u is near eta, and the rule converges like e^{-2 pi d/k},
where k is its step and d the distance within which the integrand stays bounded: on the contours of eta' in [0, top]
|e^{-uY}| <= 1 for u in the first quadrant. A single question is one lane.

Shapes: [L] lanes; [L, Z] nodes of the rule.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import (
    LARGEST,
    SHARPNESS,
    TABLE_ERROR,
    Complex,
    Real,
    largest_beyond,
    log_ratio,
    partial_exponential,
    step_series,
    step_weights,
)
from jaxacct.special import ULP, log_normal_tail, turn

# They affect speed and tightness only, except where noted.
_TURN_OF_S = 3.2  # radians: Y is rotated by at most this over sigma
_ROUND_TO = 16  # the number of nodes of a rule is a multiple of it
_LEAST_WEIGHT = 0.003  # w below which 1 - Q(w) counts as 0: it is below 1e-116
NOTHING = 1e-112  # upper bound on the resulting error of a mean


class Rule(NamedTuple):
    """The trapezoid rule in g, on the real line and on a contour that rotates Y by -eta."""

    sigma: Real  # [L, 1]
    step: Real  # [L, 1], a multiple of 2^-12, so that nodes are exact
    eta: Real  # [L, 1], radians
    top: Real  # [L, 1]: largest rotation of Y on a contour
    g: Real  # [L, Z], as all below unless noted
    y: Real
    w: Real
    density: Real  # the weights: step phi(g)
    density_error: Real  # relative, here and on the contour
    turned_y: Complex
    turned_w: Complex
    turned_density: Complex
    left: Real  # [L, 1]: P[g < first node]
    far_left: Real  # [L, 1]: P[g < twice that node]
    right: tuple[Real, Real, Real]  # [L, 1] each: P[g > last node] where g has the mean j/sigma, j = 0, 1, 2

    def strip(self, eta_end: Real | float, eta: Real | float, nodes: int = 1) -> Real:
        """The error of the rule on the contour `eta`, over the integrand's mean modulus on that of `eta_end`, [L, 1].

        The integrand must be analytic between the two; the error is the sum over an `eta_end` on either side. With
        `nodes` = 2 it is that of the rule of every second node.
        """
        decay = 2.0 * math.pi * np.abs(eta_end - eta) * self.sigma / (nodes * self.step)
        return np.exp(0.5 * (eta_end * self.sigma) ** 2 - decay) / -np.expm1(-decay)

    def beyond(self, tilt: Real) -> Real:
        """[L, K]: upper bounds on P[g > last node] where g has the mean tilt/sigma, for each `tilt` [K].

        That is E[Y^tilt; g beyond the last node] e^{-tilt (tilt - 1)/(2 sigma^2)}.
        """
        return _tail(self.g[:, -1:] - tilt / self.sigma)

    def outside(self, a: Real) -> Real:
        """Upper bounds on E[e^{-aY}; g outside the nodes] at `a` [L, K] >= 0: Y grows with g and is positive."""
        least = np.exp((2.0 * self.g[:, :1] - 0.5 / self.sigma) / self.sigma) * (1.0 - 2.0**-40)
        return self.far_left + self.left * np.exp(-a * least) + self.right[0] * np.exp(-a * self.y[:, -1:])

    def real(self) -> tuple[Real, Real, Real]:
        """Three float arrays [L, Z/2]: Y, W and the weights of the rule for real expectations."""
        return self.y[:, ::2], self.w[:, ::2], 2.0 * self.density[:, ::2]

    def at(self, lanes: Any) -> "Rule":
        """`Rule` for some of the lanes."""
        parts: Any = (tuple(y[lanes] for y in x) if isinstance(x, tuple) else x[lanes] for x in self)
        return Rule(*parts)


def _tail(x: Real) -> Real:
    return np.exp(log_normal_tail(x)) * (1.0 + 2.0**-40)


class Shape(NamedTuple):
    """How wide a rule is, and how fine."""

    turn: float  # the largest rotation of Y on a contour, radians
    further: float  # added to its end in g, over sigma
    low: float = -9.0  # its ends in g, standard deviations
    high: float = 9.2  # this and `tilt`/sigma
    tilt: float = 1.0
    digits: float = 36.0  # in log: the intended error is this far below 1

    def end(self, sigma: Real) -> Real:
        """Approximately the last node."""
        return self.high + self.tilt / sigma + self.further * sigma


WHOLE, CLIPPED = Shape(1.2, 0.0), Shape(0.95, 3.4)


def _angles(sigma: Real, shape: Shape) -> tuple[Real, Real]:
    top = np.minimum(shape.turn, _TURN_OF_S / sigma)
    return 0.5 * top, top


def num_nodes(sigma: Real, shape: Shape) -> np.ndarray[Any, Any]:
    """Integers [L]: the numbers of nodes that the rule needs for noise multipliers `sigma` [L]."""
    eta, top = _angles(sigma, shape)
    wanted = 2.0 * math.pi * eta * sigma / (shape.digits + 0.5 * (top * sigma) ** 2)
    count = np.ceil((shape.end(sigma) - shape.low) / wanted + 2.0)
    return (_ROUND_TO * np.ceil(np.maximum(count, 64.0) / _ROUND_TO)).astype(int)


def rule(noise_multipliers: Real, size: int, shape: Shape) -> Rule:
    """`Rule` (a class) of `size` nodes for noise multipliers [L]. Its step is a multiple of 2^-12: nodes are exact."""
    sigma = noise_multipliers[:, None]
    eta, top = _angles(sigma, shape)
    step = np.floor((shape.end(sigma) - shape.low) / (size - 2) * 2**12) / 2**12
    g = step * (np.floor(shape.low / step) + np.arange(float(size)))
    exponent, rest = log_ratio(sigma, g)
    y = np.exp(exponent)
    w = np.expm1(exponent) + y * rest
    y = y + y * rest
    square = g * g
    density = step / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * square)
    turned = eta * sigma
    cos, sin, half = np.cos(eta), np.sin(eta), np.sin(0.5 * eta)
    tails = _tail(np.concatenate([-g[:, :1], -2.0 * g[:, :1], g[:, -1:] - np.arange(3.0) / sigma], axis=1))
    return Rule(
        sigma,
        step,
        eta,
        top,
        g,
        y,
        w,
        density,
        ULP * (32.0 + 4.0 * turned * (np.abs(g) + turned)),  # g and its square are exact
        y * (cos - 1j * sin),
        (w * cos - 2.0 * half * half) - 1j * (y * sin),
        (density * np.exp(0.5 * turned * turned)) * turn(turned * g),
        tails[:, :1],
        tails[:, 1:2],
        (tails[:, 2:3], tails[:, 3:4], tails[:, 4:]),
    )


def profile_shape(noise_multiplier: float) -> Shape:
    """`Shape` (a class) for profiles of an epoch, to deltas of 1e-25: both little and much noise need more digits."""
    more = min(0.45 / noise_multiplier**2, 20.0) + min(noise_multiplier, 33.0)
    return Shape(0.88, 0.0, -12.0, 14.0, 2.0, 47.0 + more)


@functools.lru_cache(maxsize=64)
def one_rule(noise_multiplier: float, shape: Shape) -> Rule:
    """`Rule` (a class) for one lane."""
    noise = np.array([noise_multiplier])
    return rule(noise, int(num_nodes(noise, shape)[0]), shape)


class Cut(NamedTuple):
    """Cutoffs on a `Rule`: the weights Q(rate Y) at its nodes, and bounds on them on contours, [L, Z] unless noted.

    Q(w) = P[a Gamma(m) variable exceeds w] = e^-w sum_{j<m} w^j/j!, m = SHARPNESS. The weight falls from 1 to 0 around
    Y = m/rate, is entire in Y, and decays like e^{-rate Y}: E[e^{-uY} Q(rate Y)] exists for Re u > -rate.
    """

    rate: Real  # [L, 1]
    low: Real  # Q
    high: Real  # 1 - Q
    log_sum: Real  # log of sum_{j<m} w^j/j!, w = rate Y
    log_size: Real  # log |Q| on the contour
    phase: Real  # the argument of Q there
    error: Real  # relative error of their exponential
    turned_high: Complex  # 1 - Q there, with errors of `TABLE_ERROR` of itself and `NOTHING`

    def bounds(self, of: Rule, eta_end: Real | float, centre: Real) -> tuple[Real, Real]:
        """q and r [L, Z]: bounds on the weight on the contour of eta' = `eta_end`.

            q = e^{-(rate + Re u) cos(eta') Y} sum_{j<m} (rate Y)^j/j!,
            r = min(e^{(1 - cos eta') rate Y} (1 - Q)(rate Y), 1 + q at Re u = 0).

        Here Re u = `centre` [L, 1], above -rate. q is at least |e^{-uY} Q| = e^{-Re u} |e^{-uW} Q|, and where Re u <= 0
        it is at least |Q| as well; r is at least |1 - Q|.
        """
        w, cos = self.rate * of.y, np.cos(eta_end)
        q = np.exp(self.log_sum - (w + centre * of.y) * cos)
        r = np.minimum(np.exp((1.0 - cos) * w) * (self.high + NOTHING), 1.0 + np.exp(self.log_sum - w * cos))
        return q, r

    def beyond(self, of: Rule, eta_end: Real | float, centre: Real) -> Real:
        """[L, 1]: an upper bound on every q beyond the last node."""
        return largest_beyond(
            self.rate * of.y[:, -1:], self.log_sum[:, -1:], (1.0 + centre / self.rate) * np.cos(eta_end)
        )

    def at(self, lanes: Any) -> "Cut":
        """`Cut` for some of the lanes."""
        return Cut(*(x[lanes] for x in self))


def cuts(of: Rule, rates: Real) -> Cut:
    """`Cut` (a class) for one rate per lane [L]."""
    rate = rates[:, None]
    w = rate * of.y
    high, low, log_sum = np.zeros_like(w), np.ones_like(w), w.copy()
    log_size, phase, error = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    turned_high = np.zeros(w.shape, complex)
    at = np.nonzero(w > _LEAST_WEIGHT)
    values = w[at]
    low[at], high[at] = step_weights(values)
    log_sum[at] = np.log(partial_exponential(np.minimum(values, LARGEST)))
    shift = (rate * of.turned_y)[at]
    size = np.abs(shift)
    inner = size < SHARPNESS
    near, far = shift[inner], shift[~inner]
    far = far * np.minimum(1.0, LARGEST / np.abs(far))
    series, factor = step_series(near), partial_exponential(far)
    logs, turns, relative = np.empty_like(values), np.empty_like(values), np.empty_like(values)
    logs[inner] = 0.5 * np.log1p(series.real * (series.real - 2.0) + series.imag**2)
    turns[inner] = -np.arctan2(series.imag, 1.0 - series.real)
    relative[inner] = 2.0 * TABLE_ERROR * np.abs(series) + 8.0 * ULP * (np.abs(logs[inner]) + np.abs(turns[inner]))
    log_factor, angle = np.log(np.abs(factor)), np.angle(factor)
    logs[~inner], turns[~inner] = log_factor - shift[~inner].real, angle - shift[~inner].imag
    relative[~inner] = TABLE_ERROR + ULP * (8.0 * (np.abs(log_factor) + 4.0) + 10.0 * size[~inner])
    log_size[at], phase[at], error[at] = logs, turns, relative
    rest = np.empty_like(shift)
    rest[inner], rest[~inner] = series, 1.0 - np.exp(-far) * factor
    turned_high[at] = rest
    return Cut(rate, low, high, log_sum, log_size, phase, error, turned_high)
