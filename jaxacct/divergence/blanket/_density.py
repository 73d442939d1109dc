"""The blanket of one coordinate with noise of a given symmetric, log-concave density, between certified bounds.

docs/papers/blanket.md, BL-3 and BL-7: as in `_antipodal`, but the masses of cells are enclosed by values of the log
density at their ends. Where one report's L is positive its masses are rounded up, and where it is negative they are
rounded down; the remaining probability is at 0.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.special import ULP, integrals, is_concave, where_fallen

# These affect cost and tightness only.
_CELLS = 3 * 2**13  # of w, up to where the density has fallen by `_BULK`; a third as many beyond
_LEAST_CELLS = 8  # of each piece
_BULK = 10.0  # nats
_FINE, _COARSE = 0.015, 0.1  # widths of cells of log R: near 0 over its deviation, growing with it; at most, in nats
_FARTHEST = 600.0  # nats by which a density has fallen at the last evaluation: up to there it is a normal double
_MOST_RATIO = 400.0  # nats, of log R
_LEAST_RATE = 2.0**-40  # of where the density has fallen by 1 nat: data of a smaller range are treated as of this one
_ROUNDED = 2.0**-37  # of a sum of positive terms, fewer than 2^16, one after another; of products and exponentials


class DensityLaw(NamedTuple):
    """Atoms of R on either side.

    Attributes:
      ahead, behind: [N], log R, rounded up for w > 0 and rounded down for w < 0.
      most, least: [N], masses on the right, for values above 0 and below.
      back: [N], masses on the left, where all values are below 0.
      cut: an upper bound on the part left out of E (L)_+, a probability.
      wrong: the probability that noise is larger than the norm, rounded up.
    """

    ahead: NDArray[np.float64]
    behind: NDArray[np.float64]
    most: NDArray[np.float64]
    least: NDArray[np.float64]
    back: NDArray[np.float64]
    cut: float
    wrong: float

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0, its values rounded up."""
        gain = math.exp(epsilon)
        ratio, below = np.exp(self.ahead), np.exp(self.behind) * gain
        right = np.expm1(self.ahead) - math.expm1(epsilon)
        right = right + ULP * (16.0 + 8.0 * (self.ahead + epsilon)) * (ratio + gain)
        left = -np.expm1(self.behind + epsilon) + ULP * (16.0 + 8.0 * (self.behind + epsilon)) * below
        mass = np.concatenate([np.where(right > 0.0, self.most, self.least), self.back])
        return StepLaw(np.concatenate([right, left]), mass, min(_down(float(mass.sum())), 1.0), self.cut)


@functools.lru_cache(maxsize=16)
def density_law(log_density: Callable[[Any], Any], accuracy: float, rate: float, cut: float) -> DensityLaw | None:
    """NamedTuple: the law of reports with this noise; None where the noise or `cut` is too small to be certified.

    Args:
      log_density: a function of places [N] in units of the scale, to within `accuracy` (1 + its size).
      rate: 1 / scale: data are in [-rate, rate].
      cut: about how much may be left out of E (L)_+, a probability.

    Raises:
      ValueError: if the log density is not concave where it is evaluated.
    """
    fallen = where_fallen(log_density, 1.0)
    unit = 2.0 ** math.frexp(fallen)[1] if fallen < math.inf else math.inf  # a power of 2: division by it is exact
    rate = max(rate, _LEAST_RATE * unit)
    w = _places(log_density, rate, cut) if rate < math.inf else None
    if w is None:
        return None
    far, far_error = _values(log_density, w + rate, accuracy)
    near, near_error = _values(log_density, np.abs(w - rate), accuracy)
    top = float(near[1:-1].max())
    if not (np.all(far > top - 690.0) and near[-1] < near[-2]):
        return None
    far, near = far - top, near - top
    for place, value, error in ((w + rate, far, far_error), (w - rate, near, near_error)):
        if not is_concave(place, value, error):
            raise ValueError(f"log_density={log_density!r} must be concave, to within accuracy={accuracy:g}")
    w = w / unit
    common, own = integrals(w, far, far_error), integrals(w, near, near_error)
    tails = [_tail(w, *known) for known in ((far, far_error), (near, near_error))]
    total = _down(common.lower.sum() + own.lower.sum()), _up(common.upper.sum() + own.upper.sum() + sum(tails))
    log_ratio = np.maximum.accumulate(np.maximum((near - far)[1:-1], 0.0))
    off = np.maximum.accumulate((far_error + near_error)[1:-1] + 16.0 * ULP * (2.0 + log_ratio))
    ends = _ends(log_ratio, common.lower)
    cells = [np.add.reduceat(x, ends[:-1]) for x in (*common, *own)]
    low, high = _down(cells[0]), _up(cells[1])
    shares = _shares(log_ratio[ends], off[ends], _down(cells[2]) / high, _up(cells[3]) / low)
    most = _up(_split(high, shares[1])) / total[0]
    return DensityLaw(
        (log_ratio + off)[ends],
        np.maximum(log_ratio - off, 0.0)[ends],
        most,
        _down(_split(low, shares[1])) / total[1],
        _down(_split(low, shares[0])) / total[1],
        float(_up(tails[1] / total[0])),
        float(_up((common.upper.sum() + tails[0]) / total[0])),
    )


def _up(x: Any) -> Any:
    return x * (1.0 + _ROUNDED)


def _down(x: Any) -> Any:
    return x * (1.0 - _ROUNDED)


def _places(log_density: Callable[[Any], Any], rate: float, cut: float) -> Any:
    """Ends [K + 3] of cells of w: one before 0, K from 0 to where little is left, with `rate` an end, and one beyond.

    None where no such place is found.
    """

    def ratio(w: float) -> float:
        value = log_density(np.array([abs(w - rate), w + rate]))
        return float(value[0] - value[1])

    last = rate + where_fallen(log_density, max(1.0 - math.log(cut), 1.0))
    last = min(last, where_fallen(log_density, _FARTHEST) - rate)
    if not 0.0 < last < math.inf:
        return None
    while last > rate and not ratio(last) < _MOST_RATIO:
        last *= 0.9
    bulk = min(rate + where_fallen(log_density, _BULK), last)
    inner = min(rate, bulk)
    pieces = [
        (0.0, inner, _CELLS * inner / bulk),
        (inner, bulk, _CELLS * (1.0 - inner / bulk)),
        (bulk, last, _CELLS / 3),
    ]
    grids = [np.linspace(x, y, max(math.ceil(n), _LEAST_CELLS) + 1)[1:] for x, y, n in pieces if y > x]
    w = np.concatenate([np.zeros(1), *grids])
    return np.concatenate([[-w[1]], w, [2.0 * w[-1] - w[-2]]])


def _values(log_density: Callable[[Any], Any], place: Any, accuracy: float) -> tuple[Any, Any]:
    """The log density at places, and its errors, including those of the rounding of the places."""
    value = np.asarray(log_density(place), np.float64)
    with np.errstate(invalid="ignore"):
        slope = np.abs(np.diff(value) / np.diff(place))
    steepest = np.maximum(np.append(slope, slope[-1]), np.append(slope[0], slope))
    return value, accuracy * (1.0 + np.abs(value)) + 2.0 * ULP * place * steepest + 2.0 * ULP * np.abs(value)


def _tail(w: Any, value: Any, error: Any) -> float:
    """An upper bound on the integral beyond the last but one place: the extended last chord before it is above."""
    slope = (value[-2] - value[-3]) / (w[-2] - w[-3]) + 2.0 * (error[-2] + error[-3]) / (w[-2] - w[-3])
    return float(_up(np.exp(value[-2] + error[-2]) / -slope)) if slope < 0.0 else math.inf


def _ends(log_ratio: Any, mass: Any) -> Any:
    """The places [K + 1] that are ends of cells of R."""
    deviation = math.sqrt(float((mass * np.square(log_ratio[1:])).sum() / mass.sum())) + 1e-300
    clock = np.floor(np.arcsinh(log_ratio / deviation) / _FINE + log_ratio / _COARSE)
    return np.unique(np.concatenate([[0], np.flatnonzero(np.diff(clock)) + 1, [len(log_ratio) - 1]]))


def _shares(log_ratio: Any, off: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The least and the largest share of each cell's mass for its upper end, with the mean of R in [`low`, `high`]."""
    first, last = log_ratio[:-1], log_ratio[1:]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        least = np.expm1(np.log(low) - first - off[:-1]) / np.expm1(last + off[1:] - first - off[:-1])
        most = np.expm1(np.log(high) - first + off[:-1]) / np.expm1(last - off[1:] - first + off[:-1])
    least = np.where(np.isnan(least), 0.0, _down(np.clip(least, 0.0, 1.0)))
    return least, np.where(most > 0.0, _up(most), 1.0).clip(0.0, 1.0)


def _split(mass: Any, share: Any) -> Any:
    """Masses at the ends of cells, where the upper end of each cell gets this share of its mass."""
    return np.append(mass * (1.0 - share), 0.0) + np.append(0.0, mass * share)
