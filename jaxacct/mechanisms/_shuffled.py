"""Shuffled reports."""

import dataclasses
from typing import Any

import jax

from jaxacct._validate import check_count, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Shuffled:
    """`num_reports` users' data in a uniformly random order, each randomized by `mechanism`; `num_epochs` such rounds.

    Later randomizers may depend on earlier reports. Only the shuffler knows who sent which. Adjacency: replace one
    user's datum.

    Args:
      mechanism: the local randomizer: `LocalRandomizer`, `KaryRandomizedResponse`, `GaussianReports`,
        `FiniteRandomizer`.
      num_reports: whole number >= 1, reports in one round.
      num_epochs: whole number >= 1, rounds, each with a fresh order.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import LocalRandomizer, Shuffled
    >>> Shuffled(LocalRandomizer(local_epsilon=1.0), num_reports=10**6).num_epochs
    1
    """

    mechanism: Any
    num_reports: Any
    num_epochs: Any = 1

    def __post_init__(self) -> None:
        check_count("num_reports", self.num_reports)
        check_count("num_epochs", self.num_epochs)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return is_count(self.num_reports) & is_count(self.num_epochs)
