"""Lower bounds for the sparse vector technique, from the event of m answers "below" and then j answers "above".

Under one data set the first m queries are 0 and the others x; under the other all of them are moved. With the
threshold's noise z, of density p, and F the distribution function of a query's noise, the first data set gives these
answers with probability

    P = integral of p(z) F(z)^m (1 - F(z - x))^j dz,

and the second with the integrand p(z) F(z - D)^m (1 - F(z - x + (s - 1) D))^j instead. Both integrands are log-concave,
so that their values at some points enclose the integrals (`jaxacct.special.integrals`). Computed on the host.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import down, integrals, log_normal_tail, up

_DROP = 45.0  # nats below the largest value, beyond which the integrand is not evaluated
_CELLS, _COARSE = 4096, 160  # points of a certified integral, and of one in the search
_HALVINGS = 60  # steps of the search for the integrand's maximum, and for the points on either side where it has fallen
_LARGEST_LOG = 600.0  # largest |log| of an integrand's maximum: beyond it the bounds are trivial
_SLACK = 2.0**-38  # error of an integrand's logarithm, up to 650, by the 32 ulp (1 + z^2) of the tails in it
_SUM_SLACK = 2.0**-38  # relative error of a sum of 4096 enclosures
_MOST_BELOW = 2**20  # largest number of answers "below" that is tried
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)

_Tail = Callable[[Any], Any]


def log_laplace_tail(z: Any) -> Any:
    """log(1 - F(z)) [..] at z [..], of Laplace noise of scale 1."""
    size = np.abs(z)
    return np.where(z >= 0.0, -size - math.log(2.0), np.log1p(-0.5 * np.exp(-size)))


@dataclasses.dataclass(frozen=True)
class LogConcaveNoise:
    """A symmetric, log-concave noise of scale 1.

    Attributes:
      log_density: of z [..], up to the constant `log_norm`.
      log_norm: log of the normalising constant.
      log_tail: log of the probability beyond z.
      reach: approximately where the density has fallen by `_DROP`.
    """

    log_density: _Tail
    log_norm: float
    log_tail: _Tail
    reach: float


LAPLACE = LogConcaveNoise(lambda z: -np.abs(z), -math.log(2.0), log_laplace_tail, _DROP)
NORMAL = LogConcaveNoise(
    lambda z: -0.5 * z * z, -0.5 * math.log(2.0 * math.pi), log_normal_tail, math.sqrt(2.0 * _DROP)
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """The parameters of a run, in units of the sensitivity.

    Attributes:
      noise: the kind of noise.
      threshold, query: the scales of the noise on the threshold and on a query.
      reach: s, the largest move of a query relative to the threshold, in sensitivities: 1 or 2.
      cutoff: largest number of answers "above".
      most_below: largest number of answers "below" before that many "above".
    """

    noise: LogConcaveNoise
    threshold: float
    query: float
    reach: float
    cutoff: int
    most_below: int = _MOST_BELOW

    def log_integrand(self, below: Any, above: Any, x: Any, is_moved: bool, z: Any) -> Any:
        """log of the integrand at z, with the queries moved or not. `below`, `above` and `x` broadcast with z."""
        by, at = (1.0, x - (self.reach - 1.0)) if is_moved else (0.0, x)
        value = self.noise.log_density(z / self.threshold) + self.noise.log_norm - math.log(self.threshold)
        value = value + below * self.noise.log_tail((by - z) / self.query)
        return value + above * self.noise.log_tail((z - at) / self.query)

    def error(self, below: Any, above: Any, x: Any, z: Any) -> Any:
        """Bound on the error of `log_integrand`."""
        far = (np.abs(z) + 2.0 + np.abs(x)) / min(self.threshold, self.query)
        own = 1.0 + abs(math.log(self.threshold)) + far * far if self.noise is NORMAL else 1.0 + far
        return _SLACK * (1.0 + below * 1e-3 + above) * own


def _window(setting: Setting, below: Any, above: Any, x: Any, is_moved: bool) -> tuple[Any, Any, Any]:
    """The point where the integrand is largest [N], and the points on either side where it has fallen."""

    def value(z: Any) -> Any:
        return setting.log_integrand(below, above, x, is_moved, z)

    far = setting.noise.reach * setting.threshold + 2.0
    high = far + np.abs(x) + setting.query * (2.0 * np.log1p(below) + 8.0)
    low = -high
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(_HALVINGS):
        to_right = at_left < at_right
        low, high = np.where(to_right, left, low), np.where(to_right, high, right)
        moved = np.where(to_right, low + _GOLDEN * (high - low), high - _GOLDEN * (high - low))
        at_moved = value(moved)
        left, right = np.where(to_right, right, moved), np.where(to_right, moved, left)
        at_left, at_right = np.where(to_right, at_right, at_moved), np.where(to_right, at_moved, at_left)
    top = 0.5 * (low + high)
    least = value(top) - _DROP
    ends = []
    for side in (-1.0, 1.0):
        inside, outside = top, top + side * (far + 1.0)
        for _ in range(_HALVINGS):
            middle = 0.5 * (inside + outside)
            is_in = value(middle) > least
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        ends.append(outside)
    return top, ends[0], ends[1]


def _roughly(setting: Setting, below: Any, above: Any, x: Any, is_moved: bool) -> Any:
    """Approximate log of the integral [N], by the trapezoid rule."""
    _, low, high = (part[:, None] for part in _window(setting, below, above, x, is_moved))
    z = low + (high - low) * np.linspace(0.0, 1.0, _COARSE)
    values = setting.log_integrand(below[:, None], above[:, None], x[:, None], is_moved, z)
    most = values.max(axis=1)
    return most + np.log(np.exp(values - most[:, None]).sum(axis=1) * (high - low)[:, 0] / (_COARSE - 1.0))


@functools.lru_cache(maxsize=64)
def _candidates(setting: Setting) -> tuple[NDArray[Any], ...]:
    """(m, j, x, log P, log Q) of all candidates, the last two approximate: five arrays [N]."""
    most = min(setting.most_below, _MOST_BELOW)
    numbers = sorted({0, *(min(most, round(2.0 ** (k / 2.0))) for k in range(41))})
    offsets = np.concatenate([[0.0], *((size, -size) for size in np.geomspace(0.25, 16.0, 8))])
    tried = [
        (float(m), float(j), setting.query * (math.log1p(m) + by) if j else 0.0)
        for m, j in itertools.product(numbers, sorted({0, 1, setting.cutoff}))
        for by in (offsets if j else (0.0,))
        if m + j > 0
    ]
    below, above, x = (np.array(column) for column in zip(*tried, strict=True))
    return below, above, x, *(_roughly(setting, below, above, x, moved) for moved in (False, True))


def _enclosed(setting: Setting, below: float, above: float, x: float, is_moved: bool, *, upper: bool) -> float:
    """The integral, rounded up or down; 1 or 0 where the integrand is too small or too large for a bound."""
    held = (np.array([below]), np.array([above]), np.array([x]))
    _, low, high = (float(part[0]) for part in _window(setting, *held, is_moved))
    z = np.linspace(low, high, _CELLS)
    values = setting.log_integrand(below, above, x, is_moved, z)
    errors = setting.error(below, above, x, z)
    if not (np.all(np.isfinite(values)) and abs(values.max()) < _LARGEST_LOG):
        return 1.0 if upper else 0.0
    ends = integrals(z, values, errors)
    if not upper:
        return float(ends.lower.sum()) * (1.0 - _SUM_SLACK)
    # beyond the cells, on either side, the integrand is below the extended chord of the last cell but one
    beyond = 0.0
    for near, next_one in ((1, 2), (-2, -3)):
        slope = abs(values[near] - values[next_one]) / abs(z[near] - z[next_one])
        fallen = values[next_one] - values[near] > 4.0 * (errors[near] + errors[next_one])
        beyond += math.exp(values[near]) / slope * 2.0 if fallen else math.inf
    return min(1.0, (float(ends.upper.sum()) + beyond) * (1.0 + _SUM_SLACK))


def _best(setting: Setting, gain: Callable[[Any, Any], Any]) -> tuple[float, float]:
    """P, rounded down, and Q, rounded up, of the candidate with the largest `gain` of (log P, log Q)."""
    below, above, x, log_p, log_q = _candidates(setting)
    best = int(np.argmax(gain(log_p, log_q)))
    m, j, place = float(below[best]), float(above[best]), float(x[best])
    if j:
        near = place + setting.query * np.linspace(-2.0, 2.0, 33)
        many = (np.full(near.shape, m), np.full(near.shape, j), near)
        place = float(near[int(np.argmax(gain(*(_roughly(setting, *many, moved) for moved in (False, True)))))])
    return (
        _enclosed(setting, m, j, place, False, upper=False),
        _enclosed(setting, m, j, place, True, upper=True),
    )


def delta_below(setting: Setting, epsilon: float) -> float:
    """float: a lower bound on delta at `epsilon` >= 0, P - e^epsilon Q of the best pair that is tried."""
    if not epsilon < _LARGEST_LOG:
        return 0.0
    p, q = _best(setting, lambda log_p, log_q: np.exp(log_p) - np.exp(np.minimum(epsilon + log_q, _LARGEST_LOG)))
    return max(0.0, down(p - up(math.exp(epsilon) * q, 4), 4))


def epsilon_below(setting: Setting, delta: float) -> float:
    """float: a lower bound on epsilon at `delta` > 0, log((P - delta) / Q) of the best pair that is tried."""

    def gain(log_p: Any, log_q: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(np.exp(log_p) - delta, 0.0)) - log_q

    p, q = _best(setting, gain)
    left = down(p - delta, 2)
    return max(0.0, down(math.log(down(left / q, 4)), 4)) if left > q else 0.0
