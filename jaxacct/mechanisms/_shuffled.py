"""Shuffled reports."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, WrappedRandomizer, description
from jaxacct.mechanisms._fields import Privacy, count, randomizer
from jaxacct.mechanisms._sampling import Orders, Sampling
from jaxacct.mechanisms._words import EVERY_REPORT, SHUFFLED_REPORTS, counted, epochs


@description
class Shuffled(Mechanism):
    """`num_reports` users' data in a uniformly random order, each randomized by `mechanism`; `num_epochs` such rounds.

    Later randomizers may depend on earlier reports. Only the shuffler knows who sent which report. Adjacency: replace
    one user's datum.

    Args:
      mechanism: the local randomizer: `LocalRandomizer`, `KaryRandomizedResponse`, `GaussianReports`,
        `LaplaceReports`, `DensityReports`, `FiniteRandomizer`.
      num_reports: whole number >= 1, reports in one round.
      num_epochs: whole number >= 1, the number of rounds, each with a fresh order; also `num_rounds`.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import LocalRandomizer, Shuffled
    >>> Shuffled(LocalRandomizer(local_epsilon=1.0), num_reports=10**6).num_epochs
    1
    """

    relation = NeighboringRelation.REPLACE_ONE
    scheme = "shuffling, replace one"
    released = EVERY_REPORT
    reduction = "the clones pair"

    mechanism: WrappedRandomizer = randomizer()
    num_reports: Any = count(
        "number of reports in a round", "N", help="reports in one round", privacy=Privacy.GROWS, start=1e5
    )
    num_epochs: Any = count(
        "number of rounds",
        "ROUNDS",
        help="rounds, shuffled afresh",
        privacy=Privacy.FALLS,
        also="num_rounds",
        default=1,
    )

    def describe(self) -> str:
        rounds = epochs(self.num_epochs, "round")
        return f"shuffle of {counted(self.num_reports, 'report')}{rounds}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (SHUFFLED_REPORTS,)

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def sampling(self) -> Sampling:
        raise ValueError(
            f"mechanism={self!r} does not say in how many batches its reports are collected: wrap it in "
            "training.Epoch(mechanism, num_steps=...)"
        )

    def sampling_in(self, num_steps: int) -> Sampling:
        return Orders.of(self.num_reports, self.num_epochs).cut(num_steps)
