"""The likelihood ratio of one Gaussian step on a grid, whole and smoothly cut off: tables with certified errors.

Y = exp(s g - s^2/2), s = 1/sigma, g standard normal under Q; W = Y - 1.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import ULP

Real = NDArray[Any]
Complex = NDArray[Any]

SHARPNESS = 32  # m of the cutoff
TABLE_ERROR = 2.0**-44  # relative, of its tables: m times the ratio's own 4 ulp, and some 100 ulp
# e^-w w^m/m! is formed as e^-w (w/_SCALE)^m times this
_SCALE = 13.0
_LEADING = math.exp(SHARPNESS * math.log(_SCALE) - math.lgamma(SHARPNESS + 1.0))
_LARGEST = 2000.0  # w beyond which e^-w times a power counts as 0


@dataclasses.dataclass(frozen=True)
class Grid:
    """Trapezoid in g, of step k, on the contour g - i eta sigma, on which Y has the argument -eta.

    On it e^{-uY} does not oscillate where arg u is near eta, and the rule converges like e^{-2 pi d/k} with d the
    distance in which the integrand stays bounded: on the contours of eta' in [0, eta_top] |e^{-uY}| <= 1 for u in the
    first quadrant. k is a multiple of 2^-12, so that the nodes are exact.
    """

    sigma: float
    step: float
    eta: float
    eta_top: float
    g: Real
    density: Real  # k phi(g)
    y: Real
    w: Real
    density_error: Real  # relative
    rotated_y: Complex
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
        """P[g > the last node] when g has the mean `tilt` s: E[Y^tilt; beyond] e^{-tilt (tilt - 1) s^2/2}."""
        return normal_tail(float(self.g[-1]) - tilt * self.s)

    def strip(self, eta_end: float, eta: float) -> float:
        """What the rule on the contour `eta` errs by for each unit of the integrand's modulus on `eta_end`."""
        decay = 2.0 * math.pi * abs(eta_end - eta) * self.sigma / self.step
        return math.exp(0.5 * (eta_end * self.sigma) ** 2 - decay) / -math.expm1(-decay)


def normal_tail(x: float) -> float:
    """P[g > x]."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """a b and its rounding error, exactly (Dekker 1971)."""

    def halves(x: Any) -> tuple[Any, Any]:
        upper = 134217729.0 * x
        upper = upper - (upper - x)
        return upper, x - upper

    (a1, a2), (b1, b2), product = halves(a), halves(b), a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _log_ratio(sigma: float, g: Real) -> tuple[Real, Real]:
    """s g - s^2/2, s = 1/sigma, as a sum of two: else Y would be off by as many ulp as its logarithm is large."""
    s = 1.0 / sigma
    back, back_error = _product(s, sigma)
    s_low = -((back - 1.0) + back_error) / sigma
    linear, linear_error = _product(s, g)
    square, square_error = _product(s, 0.5 * s)
    total = linear - square
    away = total - linear
    rest = (linear - (total - away)) + (-square - away)
    return total, rest + linear_error - square_error + s_low * (g - s)


@functools.lru_cache(maxsize=64)
def grid(sigma: float, tilt: float = 0.0) -> Grid:
    """The grid for one noise multiplier; a power of two of nodes, for which 2 pi d/k is 42 or more.

    It reaches far enough for E[Y^2], deltas to 1e-25, and moments of Y to the order `tilt`.
    """
    s = 1.0 / sigma
    eta = min(0.14 * math.pi, 1.5 * s)
    eta_top = min(0.28 * math.pi, 3.2 * s)
    low, high = -10.0, max(11.0 + s, 9.5 + 2.0 * s, 9.5 + tilt * s)  # at least
    wanted = 2.0 * math.pi * eta * sigma / (42.0 + 0.5 * (eta_top * sigma) ** 2)
    size = 1 << max(8, math.ceil(math.log2((high - low) / wanted + 2.0)))
    step = math.floor(min(wanted, max(30.0, high - low) / (size - 2)) * 2**12) / 2**12
    g = step * np.arange(math.floor(low / step), math.floor(low / step) + size)
    exponent, rest = _log_ratio(sigma, g)
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
        density_error=ULP * (12.0 + g * g + turned * (np.abs(g) + turned)),
        rotated_y=y * turn,
        rotated_w=w * turn.real - 2.0 * math.sin(0.5 * eta) ** 2 + 1j * y * turn.imag,
        rotated_density=density * math.exp(0.5 * turned**2) * np.exp(1j * turned * g),
    )


def _step_series(w: Any) -> Any:
    """1 - Q(w) = e^-w sum_{j>=m} w^j/j!, for |w| <= m, where 70 terms are enough."""
    total = np.ones_like(w)
    for j in range(70, 0, -1):
        total = 1.0 + w / (SHARPNESS + j) * total
    return np.exp(-w) * (w / _SCALE) ** SHARPNESS * (_LEADING * total)


def _partial_exponential(w: Any) -> Any:
    """sum_{j<m} w^j/j!."""
    total = np.ones_like(w)
    for j in range(SHARPNESS - 1, 0, -1):
        total = 1.0 + w / j * total
    return total


def step_weights(w: Real) -> tuple[Real, Real]:
    """Q(w) and 1 - Q(w), each to a relative error of `TABLE_ERROR`; Q is 0 where it is below e^-600."""
    inner = w < SHARPNESS
    outer = np.clip(w, 1.0, 800.0)
    low, high = np.exp(-outer) * _partial_exponential(outer), _step_series(np.where(inner, w, 0.0))
    return np.where(inner, 1.0 - high, low), np.where(inner, high, 1.0 - low)


def largest_beyond(w: Real, a: Real) -> Real:
    """The largest e^{-a v} sum_{j<m} v^j/j! over v >= w, a > 0: it falls from v = m/a on, and is at most sum_j a^-j."""
    v = np.minimum(w, _LARGEST)
    falling = np.exp(np.log(_partial_exponential(v)) - a * v)
    with np.errstate(over="ignore"):
        return np.where(a * v > SHARPNESS, falling, SHARPNESS * np.maximum(1.0, np.power(a, -float(SHARPNESS))))


@dataclasses.dataclass(frozen=True)
class Cutoff:
    """The weight Q(rate Y), Q(w) = P[a Gamma(m) variable exceeds w] = e^-w sum_{j<m} w^j/j!, m = SHARPNESS.

    It falls from 1 to 0 around Y = m/rate, is entire in Y, and falls like e^{-rate Y}: E[e^{-uY} Q(rate Y)] exists for
    Re u > -rate. `low` is Q, `high` is 1 - Q.
    """

    rate: float
    low: Real
    high: Real
    log_sum: Real  # log of sum_{j<m} w^j/j!
    rotated_high: Complex
    rotated_shift: Complex  # where it is not 0, Q is e^{-shift} rotated_factor
    rotated_factor: Complex

    def bounds(self, of: Grid, eta_end: float, centre: float) -> tuple[Real, Real]:
        """On the contour of `eta_end`, for Re u = `centre` (above -rate):

            q = e^{-(rate + Re u) cos(eta') Y} sum_{j<m} (rate Y)^j/j!,  at least |Q| and, times e^{-Re u}, |e^{-uW} Q|,
            r = min(e^{(1 - cos eta') rate Y} (1 - Q)(rate Y), 1 + q at Re u = 0),  at least |1 - Q|;

        the first for Re u <= 0.
        """  # fmt: skip
        w, turn = self.rate * of.y, math.cos(eta_end)
        with np.errstate(over="ignore", divide="ignore"):
            q = np.exp(self.log_sum - (w + centre * of.y) * turn)
            r = np.minimum(np.exp((1.0 - turn) * w + np.log(self.high)), 1.0 + np.exp(self.log_sum - w * turn))
        return q, r

    def beyond(self, of: Grid, eta_end: float, centre: float) -> float:
        """The largest q beyond the last node."""
        a = (1.0 + centre / self.rate) * math.cos(eta_end)
        return float(largest_beyond(self.rate * of.y[-1], np.asarray(a)))


def cutoff(of: Grid, rate: float) -> Cutoff:
    """The tables of the weight on a grid."""
    w = rate * of.y
    low, high = step_weights(w)
    shift = rate * of.rotated_y
    inner = np.abs(shift) < SHARPNESS
    near = np.where(inner, shift, 0.0)
    far = shift * np.minimum(1.0, _LARGEST / np.abs(shift))
    series, factor = _step_series(near), _partial_exponential(far)
    return Cutoff(
        rate=rate,
        low=low,
        high=high,
        log_sum=np.log(_partial_exponential(np.minimum(w, _LARGEST))),
        rotated_high=np.where(inner, series, 1.0 - np.exp(-far) * factor),
        rotated_shift=np.where(inner, 0.0, shift),
        rotated_factor=np.where(inner, 1.0 - series, factor),
    )
