"""The likelihood ratio of one Gaussian step on a grid, whole and smoothly cut off: tables with certified errors.

Y = exp(s g - s^2/2), s = 1/sigma, g standard normal under Q; W = Y - 1. A cutoff is a weight Q(rate Y) between 0 and 1
that falls smoothly around Y = SHARPNESS/rate (`Cutoff`); as a function it is never to be confused with the measure Q.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import ULP
from jaxacct.special._binomial import product_error

Real = NDArray[Any]
Complex = NDArray[Any]

SHARPNESS = 32  # m of the cutoff: the larger, the narrower its fall; the series below are sized for this value
TABLE_ERROR = 2.0**-44  # relative error booked for the cutoff's tables: m times the ratio's 4 ulp, some 100 ulp more
# e^-w w^m/m! is formed as e^-w (w/_SCALE)^m times _LEADING, so that the power does not overflow
_SCALE = 13.0
_LEADING = math.exp(SHARPNESS * math.log(_SCALE) - math.lgamma(SHARPNESS + 1.0))
_ROUND_TO = 32  # nodes of a grid of given digits are a multiple of it
_DIGITS = 42.0  # where none are given: in log, how small what the rule misses is meant to be
_LARGEST = 2000.0  # w is clipped to this before e^-w and a power of w are formed: beyond, their product is 0 in doubles


@dataclasses.dataclass(frozen=True)
class Grid:
    """What one noise multiplier's trapezoid rule in g is made of: N nodes of step k on the real line and on a contour.

    The contour is g - i eta sigma, on which Y has the argument -eta. On it e^{-uY} does not oscillate where arg u is
    near eta, and the rule converges like e^{-2 pi d/k} with d the distance in which the integrand stays bounded: on the
    contours of eta' in [0, eta_top] |e^{-uY}| <= 1 for u in the first quadrant. k is a multiple of 2^-12, so that the
    nodes are exact.
    """

    sigma: float
    step: float  # k
    eta: float  # radians
    eta_top: float  # radians
    g: Real  # [N], as all below
    density: Real  # k phi(g)
    y: Real  # Y at g
    w: Real  # W at g
    density_error: Real  # relative, of `density` and `rotated_density`
    rotated_y: Complex  # on the contour, as all below
    rotated_w: Complex
    rotated_density: Complex

    @property
    def s(self) -> float:
        """1/sigma."""
        return 1.0 / self.sigma

    @property
    def left(self) -> float:
        """P[g < the first node]."""
        return normal_tail(-float(self.g[0]))

    def right(self, tilt: float = 0.0) -> float:
        """P[g > the last node] when g has the mean `tilt` s.

        That is E[Y^tilt; g beyond the last node] e^{-tilt (tilt - 1) s^2/2}.
        """
        return normal_tail(float(self.g[-1]) - tilt * self.s)

    def strip(self, eta_end: float, eta: float, nodes: int = 1) -> float:
        """The error of the rule on the contour `eta`, over the integrand's mean modulus on the contour `eta_end`.

        The integrand has to be analytic between the two; the error is the sum over an `eta_end` on either side. For
        `nodes` = 2 that of the rule of every second node.
        """
        decay = 2.0 * math.pi * abs(eta_end - eta) * self.sigma / (nodes * self.step)
        return math.exp(0.5 * (eta_end * self.sigma) ** 2 - decay) / -math.expm1(-decay)


def normal_tail(x: float) -> float:
    """Float: P[g > x], g standard normal."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def product(a: Any, b: Any) -> tuple[Any, Any]:
    """A tuple: the rounded product a b, and what it lacks to the true one, exactly."""
    return a * b, product_error(a, b)


def log_ratio(sigma: float | Real, g: Real) -> tuple[Real, Real]:
    """A tuple of two arrays of the shape of `g`: s g - s^2/2, s = 1/sigma, as an unevaluated sum.

    With one double Y would have a relative error of as many ulp as its logarithm is large.
    """
    s = 1.0 / sigma
    back, back_error = product(s, sigma)
    s_low = -((back - 1.0) + back_error) / sigma
    linear, linear_error = product(s, g)
    square, square_error = product(s, 0.5 * s)
    total = linear - square
    away = total - linear
    rest = (linear - (total - away)) + (-square - away)
    return total, rest + linear_error - square_error + s_low * (g - s)


@functools.lru_cache(maxsize=64)
def grid(sigma: float, tilt: float = 0.0, digits: float | None = None) -> Grid:
    """`Grid` (nodes [N]) for one noise multiplier, so fine that 2 pi d/k is `digits` or more.

    Without `digits` it is 42 to 84, N being a power of two: little noise and small deltas need more than 60.

    It is meant to reach far enough for E[Y^2], for deltas to 1e-25, and for moments of Y to the order `tilt`. No
    certificate rests on that: what lies outside is bounded by whoever uses the grid.
    """
    s = 1.0 / sigma
    eta = min(0.14 * math.pi, 1.5 * s)
    eta_top = min(0.28 * math.pi, 3.2 * s)
    low, high = -10.0, max(11.0 + s, 9.5 + 2.0 * s, 9.5 + tilt * s)  # at least
    wanted = 2.0 * math.pi * eta * sigma / ((digits or _DIGITS) + 0.5 * (eta_top * sigma) ** 2)
    count = (high - low) / wanted + 2.0
    size = _ROUND_TO * max(8, math.ceil(count / _ROUND_TO)) if digits else 1 << max(8, math.ceil(math.log2(count)))
    step = math.floor(min(wanted, max(30.0, high - low) / (size - 2)) * 2**12) / 2**12
    g = step * np.arange(math.floor(low / step), math.floor(low / step) + size)
    exponent, rest = log_ratio(sigma, g)
    y = np.exp(exponent) * (1.0 + rest)
    w = np.expm1(exponent) + np.exp(exponent) * rest
    density = step * np.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi)
    turn, turned = complex(math.cos(eta), -math.sin(eta)), eta * sigma
    return Grid(
        sigma=sigma,
        step=step,
        eta=eta,
        eta_top=eta_top,
        g=g,
        density=density,
        y=y,
        w=w,
        density_error=ULP * (32.0 + 4.0 * turned * (np.abs(g) + turned)),  # g and its square are exact
        rotated_y=y * turn,
        rotated_w=w * turn.real - 2.0 * math.sin(0.5 * eta) ** 2 + 1j * y * turn.imag,
        rotated_density=density * math.exp(0.5 * turned**2) * np.exp(1j * turned * g),
    )


def step_series(w: Any) -> Any:
    """Float array of the shape of `w`: 1 - Q(w) = e^-w sum_{j>=m} w^j/j!, |w| <= m real or complex, by 70 terms."""
    total = np.ones_like(w)
    for j in range(70, 0, -1):
        total *= w * (1.0 / (SHARPNESS + j))
        total += 1.0
    return np.exp(-w) * (w / _SCALE) ** SHARPNESS * (_LEADING * total)


def partial_exponential(w: Any) -> Any:
    """Float array of the shape of `w`: sum_{j<m} w^j/j!, real or complex w."""
    total = np.ones_like(w)
    for j in range(SHARPNESS - 1, 0, -1):
        total *= w * (1.0 / j)
        total += 1.0
    return total


def step_weights(w: Real) -> tuple[Real, Real]:
    """Two float arrays of the shape of `w` >= 0: Q(w) and 1 - Q(w).

    Each has a relative error of at most `TABLE_ERROR` where nothing underflows: for Q to w = 708, where it is about
    e^-580 (not far beyond it counts as 0), for 1 - Q from w = 1e-8 on.
    """
    inner = w < SHARPNESS
    outer = np.clip(w, 1.0, 800.0)
    low, high = np.exp(-outer) * partial_exponential(outer), step_series(np.where(inner, w, 0.0))
    return np.where(inner, 1.0 - high, low), np.where(inner, high, 1.0 - low)


def largest_beyond(w: Real, log_sum: Real, a: Real) -> Real:
    """Float array: upper bounds on e^{-a v} sum_{j<m} v^j/j! over all v >= `w`, `a` > 0, which broadcast together.

    `log_sum` is that of the `Cutoff` at `w`. From v = m/a on it falls; before, it is at most sum_{j<m} a^-j.
    """
    v = np.minimum(w, _LARGEST)
    falling = np.exp(log_sum - a * v)
    with np.errstate(over="ignore"):
        return np.where(a * v > SHARPNESS, falling, SHARPNESS * np.maximum(1.0, np.power(a, -float(SHARPNESS))))


@dataclasses.dataclass(frozen=True)
class Cutoff:
    """What a cutoff on a grid is made of: the weight Q(rate Y) at its N nodes, and what bounds it on contours.

    Q(w) = P[a Gamma(m) variable exceeds w] = e^-w sum_{j<m} w^j/j!, m = SHARPNESS. The weight falls from 1 to 0 around
    Y = m/rate, is entire in Y, and decays like e^{-rate Y}: E[e^{-uY} Q(rate Y)] exists for Re u > -rate.
    """

    rate: float
    low: Real  # [N], as all below: Q(rate Y) at the nodes
    high: Real  # 1 - Q
    log_sum: Real  # log of sum_{j<m} w^j/j!, w = rate Y
    rotated_high: Complex  # 1 - Q on the grid's contour
    rotated_shift: Complex  # where it is not 0, Q is e^{-shift} rotated_factor
    rotated_factor: Complex

    def bounds(self, of: Grid, eta_end: float, centre: float) -> tuple[Real, Real]:
        """Two float64 arrays [N], q and r: bounds on the weight on the contour of eta' = `eta_end`.

            q = e^{-(rate + Re u) cos(eta') Y} sum_{j<m} (rate Y)^j/j!,
            r = min(e^{(1 - cos eta') rate Y} (1 - Q)(rate Y), 1 + q at Re u = 0).

        Here Re u = `centre`, above -rate. q is at least |e^{-uY} Q| = e^{-Re u} |e^{-uW} Q|, and where Re u <= 0 it is
        at least |Q| as well; r is at least |1 - Q|.
        """
        w, turn = self.rate * of.y, math.cos(eta_end)
        with np.errstate(over="ignore", divide="ignore"):
            q = np.exp(self.log_sum - (w + centre * of.y) * turn)
            r = np.minimum(np.exp((1.0 - turn) * w + np.log(self.high)), 1.0 + np.exp(self.log_sum - w * turn))
        return q, r

    def beyond(self, of: Grid, eta_end: float, centre: float) -> float:
        """At least every q of `bounds` beyond the last node."""
        a = (1.0 + centre / self.rate) * math.cos(eta_end)
        return float(largest_beyond(self.rate * of.y[-1], self.log_sum[-1], np.asarray(a)))


def cutoff(of: Grid, rate: float) -> Cutoff:
    """`Cutoff` (tables [N]) of the weight Q(`rate` Y) on a grid of N nodes."""
    w = rate * of.y
    low, high = step_weights(w)
    shift = rate * of.rotated_y
    inner = np.abs(shift) < SHARPNESS
    near = np.where(inner, shift, 0.0)
    far = shift * np.minimum(1.0, _LARGEST / np.abs(shift))
    series, factor = step_series(near), partial_exponential(far)
    return Cutoff(
        rate=rate,
        low=low,
        high=high,
        log_sum=np.log(partial_exponential(np.minimum(w, _LARGEST))),
        rotated_high=np.where(inner, series, 1.0 - np.exp(-far) * factor),
        rotated_shift=np.where(inner, 0.0, shift),
        rotated_factor=np.where(inner, 1.0 - series, factor),
    )
