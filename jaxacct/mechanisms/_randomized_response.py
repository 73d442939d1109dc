"""Randomized response, each answer with its sender's name."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, count, non_negative
from jaxacct.mechanisms._words import ADAPTIVE


@description
class RandomizedResponse(Release):
    """Every user's answer, one of `num_categories`: the true one has odds e^local_epsilon to 1 against each other.

    The answers are not shuffled: the observer knows who sent which answer (`Shuffled` hides it). Adjacency: replace one
    user's datum. The answer has the law P = (e^E, 1, 1, ..) / (e^E + k - 1) for one datum and Q = (1, e^E, 1, ..) /
    (e^E + k - 1) for another.

    Args:
      local_epsilon: float >= 0, E.
      num_categories: whole number >= 2, k.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> ja.RandomizedResponse(local_epsilon=1.0, num_categories=4)
    RandomizedResponse(local_epsilon=1.0, num_categories=4)
    >>> round(ja.delta(ja.RandomizedResponse(1.0, 4), 0.5), 4)  # (e - e^.5) / (e + 3)
    0.187
    """

    relation = NeighboringRelation.REPLACE_ONE
    scheme = "randomized response, replace one"
    released = "every user's answer, with its sender"
    reduction = None

    local_epsilon: Any = non_negative(
        "local epsilon of one answer", "E0", help="pure local privacy of one answer, >= 0", privacy=Privacy.FALLS
    )
    num_categories: Any = count(
        "number of categories", "K", help="answers to choose from", privacy=Privacy.GROWS, least=2, default=2
    )

    def describe(self) -> str:
        return f"{self.num_categories:.0f}-ary randomized response of local epsilon {self.local_epsilon:g}"

    def as_reports(self) -> str:
        return f"KaryRandomizedResponse(local_epsilon={self.local_epsilon}, num_categories={self.num_categories})"

    def assumptions(self) -> tuple[str, ...]:
        odds = (
            "each user's answer is randomized separately, the true one with odds e^local_epsilon to 1 against any other"
        )
        return (f"{odds}; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.local_epsilon == 0)
