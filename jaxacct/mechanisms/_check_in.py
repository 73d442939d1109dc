"""Shuffled check-ins."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, WrappedRandomizer, description
from jaxacct.mechanisms._fields import Privacy, count, probability, randomizer
from jaxacct.mechanisms._words import EVERY_REPORT, SHUFFLED_REPORTS, counted, epochs


@description
class CheckIn(Mechanism):
    """Rounds that each of `num_users` users joins at random; reports are randomized by `mechanism`, then shuffled.

    The observer sees the reports of a round in uniformly random order, and therefore their number, which depends on no
    user's datum. Adjacency: replace one user's datum (Liew, Hasegawa and Takahashi, "Privacy Amplification via Shuffled
    Check-Ins").

    Args:
      mechanism: the local randomizer: `LocalRandomizer`, `KaryRandomizedResponse`, `GaussianReports`,
        `LaplaceReports`, `DensityReports`, `FiniteRandomizer`.
      num_users: whole number >= 1, the number of users who may join.
      check_in_prob: float in [0, 1], the probability that a user joins a round, independently of all others.
      num_epochs: whole number >= 1, the number of rounds, each with fresh choices and a fresh order; also `num_rounds`.
      dropout_prob: float in [0, 1], the probability that a user who joined sends nothing. 0 is always safe.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import CheckIn, LocalRandomizer
    >>> CheckIn(LocalRandomizer(local_epsilon=1.0), num_users=10**6, check_in_prob=0.01).num_epochs
    1
    """

    relation = NeighboringRelation.REPLACE_ONE
    scheme = "shuffled check-ins, replace one"
    released = EVERY_REPORT
    reduction = None

    mechanism: WrappedRandomizer = randomizer()
    num_users: Any = count("number of users", "N", help="users that may join", privacy=Privacy.GROWS, start=1e5)
    check_in_prob: Any = probability(
        "probability that a user joins a round",
        "Q",
        help="probability of joining a round, in [0, 1]",
        privacy=Privacy.FALLS,
    )
    num_epochs: Any = count(
        "number of rounds", "ROUNDS", help="rounds", privacy=Privacy.FALLS, also="num_rounds", default=1
    )
    dropout_prob: Any = probability(
        "probability that a report is lost", "R", help="probability that a user who joined sends nothing", default=0.0
    )

    def describe(self) -> str:
        rounds = epochs(self.num_epochs, "round")
        dropout = f", dropping out with probability {self.dropout_prob:g}" if self.dropout_prob else ""
        joins = f"each of {counted(self.num_users, 'user')} with probability {self.check_in_prob:g}{dropout}"
        return f"shuffled check-ins, {joins}{rounds}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        check_in = (
            "each user joins a round with the stated probability, independently of the data and of the other "
            "users; who joined stays secret, how many joined is seen"
        )
        return (check_in, SHUFFLED_REPORTS)

    def loses_nothing(self) -> bool:
        return bool(self.check_in_prob == 0) or bool(self.dropout_prob == 1) or self.mechanism.loses_nothing()
