"""Shuffled check-ins."""

import dataclasses
from typing import Any

import jax

from jaxacct._validate import check_count, check_probability, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CheckIn:
    """Rounds that each of `num_users` users joins by an own coin; reports are randomized by `mechanism`, then shuffled.

    The observer sees the reports of a round in uniformly random order, and so their number, which depends on no datum.
    Adjacency: replace one user's datum (Liew, Hasegawa and Takahashi, "Privacy Amplification via Shuffled Check-Ins").

    Args:
      mechanism: the local randomizer: `LocalRandomizer`, `KaryRandomizedResponse`, `GaussianReports`,
        `FiniteRandomizer`.
      num_users: whole number >= 1, users that may join.
      check_in_prob: float in [0, 1], of one user joining one round.
      num_epochs: whole number >= 1, rounds, each with fresh coins and a fresh order.
      dropout_prob: float in [0, 1], that a user who joined sends nothing. Taking it for 0 is always safe.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import CheckIn, LocalRandomizer
    >>> CheckIn(LocalRandomizer(local_epsilon=1.0), num_users=10**6, check_in_prob=0.01).num_epochs
    1
    """

    mechanism: Any
    num_users: Any
    check_in_prob: Any
    num_epochs: Any = 1
    dropout_prob: Any = 0.0

    def __post_init__(self) -> None:
        check_count("num_users", self.num_users)
        check_probability("check_in_prob", self.check_in_prob)
        check_count("num_epochs", self.num_epochs)
        check_probability("dropout_prob", self.dropout_prob)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        whole = is_count(self.num_users) & is_count(self.num_epochs)
        joins = (self.check_in_prob >= 0) & (self.check_in_prob <= 1)
        return whole & joins & (self.dropout_prob >= 0) & (self.dropout_prob <= 1)
