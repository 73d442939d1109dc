"""The blanket of a randomizer with finitely many outputs: the least probability of each output, over all inputs.

docs/papers/blanket.md, BL-1: for two inputs x and x', one report's L is (p - c p') / least at an output that all inputs
may give, p and p' its probabilities, c = e^epsilon; an output that some input never gives tells who sent it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.special import ULP

MOST_LOCAL = 60.0  # local epsilon from which on k-ary randomized response is left to others
_ROUNDED = 8.0 * ULP  # of a row's probabilities over their sum, of ratios of them, and of sums


class PairLaw(NamedTuple):
    """Two inputs' probabilities of each output.

    Attributes:
      first, second: [N], of the one input and of the other, over the least of all inputs, which is positive.
      mass: [N], the least, rounded up.
      least_mass: their sum, rounded down: gamma.
      gone: [2, M], both inputs' probabilities of outputs that some input never gives.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    mass: NDArray[np.float64]
    least_mass: float
    gone: NDArray[np.float64]

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0, its values rounded up."""
        gain = math.exp(epsilon)
        value = self.first - gain * self.second
        value = value + 4.0 * (_ROUNDED + ULP * (2.0 + epsilon)) * (self.first + gain * self.second)
        first, second = self.gone
        lost = first - gain * second + 4.0 * (_ROUNDED + ULP * (2.0 + epsilon)) * (first + gain * second)
        cut = float(np.maximum(lost, 0.0).sum()) * (1.0 + 2.0**-40)
        return StepLaw(value, self.mass, self.least_mass, cut)


def finite_laws(probabilities: Any) -> tuple[PairLaw, ...]:
    """A tuple: the `PairLaw` of every ordered pair of inputs, those that are alike once.

    Args:
      probabilities: [inputs, outputs], rows that sum to 1 but for rounding.
    """
    rows = np.asarray(probabilities, np.float64)
    rows = rows[:, rows.any(axis=0)]
    rows = rows / np.array([[math.fsum(row)] for row in rows])
    least = rows.min(axis=0)
    common = least > 0.0
    mass, ratio, gone = least[common], rows[:, common] / least[common], rows[:, ~common]
    gamma = math.fsum(mass) * (1.0 - _ROUNDED)
    found: dict[Any, PairLaw] = {}
    for i, j in np.argwhere(~np.eye(len(rows), dtype=bool)):
        pair = np.stack([ratio[i], ratio[j], mass])
        kind = (tuple(sorted(map(tuple, pair.T.tolist()))), gone[[i, j]].tobytes())
        found.setdefault(kind, PairLaw(ratio[i], ratio[j], mass * (1.0 + _ROUNDED), gamma, gone[[i, j]]))
    return tuple(found.values())


def k_ary_law(local_epsilon: float, num_categories: float) -> PairLaw | None:
    """NamedTuple: of k-ary randomized response any two inputs; None where the local epsilon is too large."""
    if not local_epsilon <= MOST_LOCAL:
        return None
    odds = math.exp(local_epsilon)
    single = 1.0 / (odds + num_categories - 1.0)
    mass: Any = single * np.array([1.0, 1.0, num_categories - 2.0])
    first, second = np.array([odds, 1.0, 1.0]), np.array([1.0, odds, 1.0])
    # the odds themselves err by the exponential's rounding and are raised, in the one place, and lowered in the other
    first = first * np.array([1.0 + 8.0 * ULP, 1.0, 1.0])
    second = second * np.array([1.0, 1.0 - 8.0 * ULP, 1.0])
    gamma = float(mass.sum()) * (1.0 - 2.0 * _ROUNDED)
    return PairLaw(first, second, mass * (1.0 + 2.0 * _ROUNDED), gamma, np.zeros((2, 0)))
