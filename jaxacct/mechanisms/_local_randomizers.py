"""What one user does to a datum before it is sent."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxacct._validate import (
    check_count,
    check_epsilon,
    check_positive,
    check_probability,
    checked_array,
    is_checkable,
    is_count,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LocalRandomizer:
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

    local_epsilon: Any
    local_delta: Any = 0.0

    def __post_init__(self) -> None:
        if is_checkable(self.local_epsilon):
            check_epsilon("local_epsilon", self.local_epsilon)
        check_probability("local_delta", self.local_delta)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return (self.local_epsilon >= 0) & (self.local_delta >= 0) & (self.local_delta <= 1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KaryRandomizedResponse:
    """Randomized response over `num_categories` values: the true one with odds e^local_epsilon to 1 against each other.

    Args:
      local_epsilon: float >= 0.
      num_categories: whole number >= 2.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import KaryRandomizedResponse
    >>> KaryRandomizedResponse(local_epsilon=2.0, num_categories=10).num_categories
    10
    """

    local_epsilon: Any
    num_categories: Any = 2

    def __post_init__(self) -> None:
        if is_checkable(self.local_epsilon):
            check_epsilon("local_epsilon", self.local_epsilon)
        check_count("num_categories", self.num_categories)
        if is_checkable(self.num_categories) and np.any(np.asarray(self.num_categories) < 2):
            raise ValueError(f"num_categories={self.num_categories} must be >= 2")

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return (self.local_epsilon >= 0) & is_count(self.num_categories) & (self.num_categories >= 2)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GaussianReports:
    """A vector of norm at most C with Gaussian noise of standard deviation noise_multiplier * C in each coordinate.

    Args:
      noise_multiplier: float > 0.

    Raises:
      ValueError: if it is not positive.

    >>> from jaxacct import GaussianReports
    >>> GaussianReports(4.0).noise_multiplier
    4.0
    """

    noise_multiplier: Any

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)

    def in_domain(self) -> jax.Array:
        """Whether the field is in range, elementwise (for traced fields, which cannot raise)."""
        return self.noise_multiplier > 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FiniteRandomizer:
    """A randomizer given by its output probabilities: row x is the law of the report on datum x.

    Args:
      probabilities: [inputs, outputs], each row summing to 1 within 1e-9. Static: not differentiated through.

    Raises:
      ValueError: if the rows are not probabilities, or there are fewer than two.

    >>> from jaxacct import FiniteRandomizer
    >>> round(FiniteRandomizer([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]).local_epsilon, 6)
    0.693147
    """

    probabilities: Any = dataclasses.field(metadata={"static": True})

    def __post_init__(self) -> None:
        rows = checked_array("probabilities", self.probabilities).astype(np.float64)
        if rows.ndim != 2 or rows.shape[0] < 2 or not np.all(rows >= 0) or np.any(abs(rows.sum(axis=1) - 1.0) > 1e-9):
            raise ValueError(f"probabilities={self.probabilities!r} must be two or more rows that each sum to 1")
        object.__setattr__(self, "probabilities", tuple(map(tuple, rows.tolist())))

    def _rows(self) -> np.ndarray:
        rows = np.asarray(self.probabilities)
        return rows[:, rows.any(axis=0)]  # outputs that never occur

    @property
    def local_epsilon(self) -> float:
        """The largest log ratio of two inputs' probabilities of one output, rounded up; inf if one of them is 0."""
        rows = self._rows()
        least = rows.min(axis=0)
        if not least.all():
            return float("inf")
        with np.errstate(over="ignore"):  # inf where the ratio is no double
            return float(np.log(rows.max(axis=0) / least).max() * (1.0 + 2.0**-50))

    @property
    def clone_prob(self) -> float:
        """The largest p with R(x) >= p (R(y) + R(z)) / 2 for all x, y, z, rounded down."""
        rows = np.sort(self._rows(), axis=0)
        pair = rows[-1] + rows[-2]
        return float(min(1.0, (2.0 * rows[0] / pair).min()) * (1.0 - 2.0**-50))

    def in_domain(self) -> bool:
        """Always: the probabilities were checked when they were given."""
        return True
