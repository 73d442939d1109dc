"""What one user does to a datum before it is sent."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._precision import is_traced
from jaxacct._validate import checked_array, checked_whole
from jaxacct.mechanisms._base import Randomizer, description
from jaxacct.mechanisms._fields import Privacy, count, fixed, non_negative, positive, probability
from jaxacct.special import shown


@description
class LocalRandomizer(Randomizer):
    """Any randomizer that is (local_epsilon, local_delta)-DP between any two data of one user.

    Args:
      local_epsilon: float >= 0.
      local_delta: float in [0, 1].

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import LocalRandomizer
    >>> LocalRandomizer(local_epsilon=1.0)
    LocalRandomizer(local_epsilon=1.0, local_delta=0.0)
    """

    local_epsilon: Any = non_negative(
        "local epsilon of one report", "E0", help="pure local privacy of one report, >= 0", privacy=Privacy.FALLS
    )
    local_delta: Any = probability(
        "local delta",
        "D0",
        help="local delta of one report",
        privacy=Privacy.FALLS,
        start=1e-9,
        lowest=1e-100,
        default=0.0,
    )

    @property
    def is_pure(self) -> bool:  # type: ignore[override]
        """Whether local_delta is known to be 0 everywhere."""
        return not is_traced(self.local_delta) and not np.any(np.asarray(self.local_delta) > 0)

    def describe(self) -> str:
        delta = f" and delta {self.local_delta:g}" if self.local_delta else ""
        return f"each of local epsilon {self.local_epsilon:g}{delta}"

    def loses_nothing(self) -> bool:
        return bool(self.local_epsilon == 0 and self.local_delta == 0)


@description
class KaryRandomizedResponse(Randomizer):
    """Randomized response over `num_categories` values: the true one has odds e^local_epsilon to 1 against any other.

    Args:
      local_epsilon: float >= 0.
      num_categories: whole number >= 2.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import KaryRandomizedResponse
    >>> KaryRandomizedResponse(local_epsilon=2.0, num_categories=10).num_categories
    10
    """

    local_delta = 0.0
    is_pure = True

    local_epsilon: Any = non_negative(
        "local epsilon of one report", "E0", help="pure local privacy of one report, >= 0", privacy=Privacy.FALLS
    )
    num_categories: Any = count(
        "number of categories", "K", help="reports are K-ary randomized response", least=2, default=2
    )

    def describe(self) -> str:
        return f"{self.num_categories:.0f}-ary randomized response of local epsilon {self.local_epsilon:g}"

    def loses_nothing(self) -> bool:
        return bool(self.local_epsilon == 0)


@description
class GaussianReports(Randomizer):
    """A vector of norm at most C with Gaussian noise of standard deviation noise_multiplier * C in each coordinate.

    Args:
      noise_multiplier: float > 0.
      dimension: whole number >= 1, the number of coordinates of the vector: the fewer there are, the more the reports
        have in common; None for any number. Static: not differentiated through.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import GaussianReports
    >>> GaussianReports(4.0).noise_multiplier
    4.0
    """

    is_pure = False

    noise_multiplier: Any = positive(
        "noise multiplier",
        "SIGMA",
        unit="noise std / clipping norm",
        help="Gaussian reports instead: noise standard deviation over norm",
        privacy=Privacy.GROWS,
    )
    dimension: Any = fixed(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension is not None:
            object.__setattr__(self, "dimension", _checked_dimension(self.dimension))

    def describe(self) -> str:
        known = "" if self.dimension is None else f" in {_dimensions(self.dimension)}"
        return f"Gaussian noise{known}, noise multiplier {self.noise_multiplier:g}"

    def loses_nothing(self) -> bool:
        return False


@description
class LaplaceReports(Randomizer):
    """A vector of 1-norm at most C with Laplace noise of scale ``scale * C`` in each coordinate.

    Args:
      scale: float > 0, the scale of the noise divided by C.
      dimension: whole number >= 1, the number of coordinates of the vector. Static: not differentiated through.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import LaplaceReports
    >>> LaplaceReports(2.0).local_epsilon
    1.0
    """

    local_delta = 0.0
    is_pure = True

    scale: Any = positive(
        "scale of Laplace reports",
        "B",
        unit="noise scale / norm",
        help="Laplace reports instead: noise scale over the norm",
        privacy=Privacy.GROWS,
    )
    dimension: Any = fixed(default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dimension", _checked_dimension(self.dimension))

    @property
    def local_epsilon(self) -> Any:
        """The largest log ratio of the densities for any two data, 2 / scale: data are at most 2 norms apart."""
        return 2.0 / self.scale

    def describe(self) -> str:
        known = "" if self.dimension == 1 else f" in {_dimensions(self.dimension)}"
        return f"Laplace noise{known}, scale {self.scale:g} over the norm"

    def loses_nothing(self) -> bool:
        return False


def _checked_dimension(value: Any) -> int:
    return checked_whole("dimension", value, 1, 2**53)


def _dimensions(number: int) -> str:
    return "one dimension" if number == 1 else f"{number} dimensions"


@description
class FiniteRandomizer(Randomizer):
    """A randomizer given by its output probabilities: row x is the law of the report on datum x.

    Args:
      probabilities: [inputs, outputs], each row summing to 1 within 1e-9. Static: not differentiated through.

    Raises:
      ValueError: if the rows are not probabilities, or there are fewer than two.

    >>> from jaxacct import FiniteRandomizer
    >>> round(FiniteRandomizer([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]).local_epsilon, 6)
    0.693147
    """

    local_delta = 0.0
    is_pure = True

    probabilities: Any = fixed()

    def __post_init__(self) -> None:
        try:
            rows = checked_array("probabilities", self.probabilities).astype(np.float64)
        except ValueError:  # as for rows of different lengths
            if is_traced(self.probabilities):
                raise
            rows = np.zeros(0)
        if rows.ndim != 2 or rows.shape[0] < 2 or not np.all(rows >= 0) or np.any(abs(rows.sum(axis=1) - 1.0) > 1e-9):
            raise ValueError(
                f"probabilities={self.probabilities!r} must be two or more rows of one length that each sum to 1"
            )
        rows = rows / np.array([[math.fsum(row)] for row in rows])  # which may miss 1 by 1e-9
        object.__setattr__(self, "probabilities", tuple(map(tuple, rows.tolist())))

    def _rows(self) -> NDArray[Any]:
        rows = np.asarray(self.probabilities)
        return rows[:, rows.any(axis=0)]  # outputs that never occur

    @property
    def local_epsilon(self) -> float:
        """The largest log ratio of two inputs' probabilities of one output, rounded up; inf if one of them is 0."""
        rows = self._rows()
        least = rows.min(axis=0)
        if not least.all():
            return float("inf")
        top = rows.max(axis=0)
        with np.errstate(over="ignore"):  # inf if the ratio overflows
            # the difference of two close ones is exact; the logarithm of their ratio would err by an ulp of 1
            losses = np.where(top <= 2.0 * least, np.log1p((top - least) / least), np.log(top / least))
        return float(losses.max() * (1.0 + 2.0**-50))

    @property
    def clone_prob(self) -> float:
        """The largest p with R(x) >= p (R(y) + R(z)) / 2 for all x, y, z, rounded down."""
        rows = np.sort(self._rows(), axis=0)
        pair = rows[-1] + rows[-2]
        return float(min(1.0, (2.0 * rows[0] / pair).min()) * (1.0 - 2.0**-50))

    def describe(self) -> str:
        return f"each of local epsilon {shown(self.local_epsilon)}, by its output probabilities"

    def loses_nothing(self) -> bool:
        return self.local_epsilon == 0
