"""The Skellam mechanism."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, count, positive
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class Skellam(Release):
    """One whole number of sensitivity `sensitivity`, plus the difference of two Poisson variables of one mean.

    The noise of sums under secure aggregation: sums of such noise are such noise again, of the sum of the variances
    (Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private federated learning"). Its mass at x
    is e^-v I_|x|(v), v the variance. Dominated by the noise around 0 against the same around `sensitivity`: Poisson
    laws, and so their differences, are log-concave, so that thresholds are the best tests and larger shifts are easier
    to tell. A vector with noise on each coordinate has no such pair. Adjacency: add or remove one record.

    Args:
      variance: float > 0, of the noise in all, twice the mean of the Poisson variables.
      sensitivity: whole number >= 1, by how much one record changes the number.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.Skellam(variance=4.0), 0.5), 4), round(ja.delta(ja.Gaussian(2.0), 0.5), 4)
    (0.0527, 0.0524)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Skellam, no sampling"
    released = EVERY_STEP
    reduction = None

    variance: Any = positive(
        "noise variance",
        "V",
        unit="squared units",
        help="variance of the noise, > 0",
        privacy=Privacy.GROWS,
    )
    sensitivity: Any = count(
        "sensitivity", "D", help="by how much one record changes the number", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        return f"Skellam noise, variance {self.variance:g}, sensitivity {self.sensitivity:.0f}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases a whole number that one record changes by at most the sensitivity"
        return (f"{noise}, plus Skellam noise of the stated variance in all; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return False
