"""The blanket of a randomizer with finitely many outputs: the least probability of each output, over all inputs.

docs/papers/blanket.md, BL-1: for two inputs x and x', one report's L is (p - c p') / least at an output that all inputs
may give, where p and p' are its probabilities and c = e^epsilon; an output that some input never gives counts as
revealing its sender. Since data may be encoded differently in every place, one law has to be above those of all pairs
in the convex order.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.special import ULP, rows_times

MOST_LOCAL = 60.0  # local epsilon up to which k-ary randomized response is handled here
_MOST_VALUES = 1e5  # the most pairs times outputs that are considered
# These affect cost and tightness only.
_LEAST = 1e-140  # a probability below which an output counts as one that is never given: squares of ratios are doubles
_FEW_VALUES = 300  # pairs times outputs up to which a pair that is above all others is sought
_PLACES = 600  # number of places at which the law above all pairs has masses
_ROUNDED = 8.0 * ULP  # of a row's probabilities over their sum, of their ratios, and of sums


class FiniteLaw(NamedTuple):
    """Probabilities of each output under the pairs of inputs that may be told apart.

    Attributes:
      first, second: [P, N], of the one input and of the other, over the least of all inputs, which is positive.
      mass: [N], the least, rounded up.
      least_mass: their sum, rounded down: gamma.
      gone: [P, 2, M], both inputs' probabilities of outputs that some input never gives.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    mass: NDArray[np.float64]
    least_mass: float
    gone: NDArray[np.float64]

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0, its values rounded up: that of one pair, or above those of all."""
        gain = math.exp(epsilon)
        error = 4.0 * (_ROUNDED + ULP * (2.0 + epsilon))
        value = self.first - gain * self.second + error * (self.first + gain * self.second)
        first, second = self.gone[:, 0], self.gone[:, 1]
        lost = first - gain * second + error * (first + gain * second)
        told = np.maximum(lost, 0.0).sum(1) * (1.0 + 2.0**-40)
        # where these outputs reveal less about a pair, the law has to be above a bound lower by the difference
        value, mass = _above_all(value, self.mass, (told.max() - told) * (1.0 - 2.0**-38))
        return StepLaw(value, mass, self.least_mass, float(told.max()))


def finite_law(probabilities: Any) -> FiniteLaw | None:
    """NamedTuple: the law of all ordered pairs of inputs, equal ones taken once; None where there are too many.

    Args:
      probabilities: [inputs, outputs], rows that sum to 1 up to rounding.
    """
    rows = np.asarray(probabilities, np.float64)
    rows = rows[:, rows.any(axis=0)]
    if len(rows) ** 2 * rows.shape[1] > _MOST_VALUES:
        return None
    rows = rows / np.array([[math.fsum(row)] for row in rows])
    least = rows.min(axis=0)
    common = least > _LEAST  # outputs that are hardly ever given count as revealing too
    mass, ratio, gone = least[common], rows[:, common] / least[common], rows[:, ~common]
    found: dict[Any, tuple[int, int]] = {}
    for i, j in np.argwhere(~np.eye(len(rows), dtype=bool)):
        outputs = np.stack([ratio[i], ratio[j], mass]).T.tolist()
        found.setdefault((tuple(sorted(map(tuple, outputs))), gone[[i, j]].tobytes()), (i, j))
    i, j = np.array(list(found.values())).T
    gamma = math.fsum(mass) * (1.0 - _ROUNDED)
    return FiniteLaw(ratio[i], ratio[j], mass * (1.0 + _ROUNDED), gamma, np.stack([gone[i], gone[j]], axis=1))


def _above_all(value: Any, mass: Any, less: Any) -> tuple[Any, Any]:
    """Values and masses of a law with E(L - k)_+, for every real k, no less than that of any row of `value` [P, N].

    Each row's expectation is diminished by `less` [P], which is 0 for some row. A single row is its own law. Of several
    rows, the one of the largest variance, raised a little, is taken if it is above all; else the law whose E(L - k)_+
    is on chords of the maximum over all rows.
    """
    if len(value) == 1 or value.shape[1] == 0:
        return value[0], mass
    if value.size <= _FEW_VALUES:
        row = value[np.argmax(np.where(less == 0.0, (mass * np.square(value)).sum(1), 0.0))]
        row = row + 2.0**-40 * float(np.abs(value).max())
        places = np.concatenate([row, value.ravel()])  # E(L - k)_+ is linear between them, and beyond
        if np.all(_stop_loss(row[None], mass, places) >= _stop_loss(value, mass, places, less)):
            return row, mass
    scale = math.sqrt(float((mass * np.square(value)).sum() / (len(value) * mass.sum())))
    first, last = np.arcsinh(value.min() / scale), np.arcsinh(value.max() / scale)
    places = scale * np.sinh(np.linspace(first, last, _PLACES))
    places[0], places[-1] = value.min(), value.max()
    height = _stop_loss(value, mass, places, less)
    slope, width = np.diff(height) / np.diff(places), np.diff(places)
    error = 8.0 * ULP * (height[:-1] + height[1:]) / width + 4.0 * ULP * np.abs(slope)
    total = float(mass.sum()) * (1.0 + 2.0**-44 + ULP * len(mass))
    masses = np.diff(np.concatenate([[-total], slope, [0.0]]))
    margin = np.append(error, 0.0) + np.append(0.0, error) + 2.0 * ULP * total * (np.arange(_PLACES) == 0)
    return places, np.maximum(masses, 0.0) + margin


def _stop_loss(value: Any, mass: Any, places: Any, less: Any = None) -> Any:
    """The largest E(L - k)_+ of any row of `value` at each k of `places` [K]; with `less` rounded up and diminished."""
    if less is None:
        return np.array([rows_times(np.maximum(value - k, 0.0), mass).max() for k in places])
    up = 1.0 + 2.0**-44 + ULP * len(mass)  # of as many additions, in any order
    return np.array([(rows_times(np.maximum(value - k, 0.0), mass) * up - less).max() for k in places])


def k_ary_law(local_epsilon: float, num_categories: float) -> FiniteLaw | None:
    """NamedTuple: the law of k-ary randomized response, any two values; None where its local epsilon is too large."""
    if not local_epsilon <= MOST_LOCAL:
        return None
    odds = math.exp(local_epsilon)
    single = 1.0 / (odds + num_categories - 1.0)
    mass: Any = single * np.array([1.0, 1.0, num_categories - 2.0])
    # the odds err by the rounding of the exponential: they are raised in one place and lowered in the other
    first = np.array([[odds * (1.0 + 8.0 * ULP), 1.0, 1.0]])
    second = np.array([[1.0, odds * (1.0 - 8.0 * ULP), 1.0]])
    gamma = float(mass.sum()) * (1.0 - 2.0 * _ROUNDED)
    return FiniteLaw(first, second, mass * (1.0 + 2.0 * _ROUNDED), gamma, np.zeros((1, 2, 0)))
