"""A release of which only an (epsilon, delta) guarantee is known."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._adjacent import checked_relation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, fixed, non_negative, probability
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class EpsilonDelta(Release):
    """One release that is (epsilon, delta)-DP, by whatever means.

    It is dominated by a release with four outputs: P = (D, (1-D) e^E / (1+e^E), (1-D) / (1+e^E), 0) against Q, the same
    in reverse order (Kairouz, Oh & Viswanath 2015, Theorem 2.4). This is tight for what is known, and loose if the
    release is better than its guarantee. Adjacency: the one for which the guarantee was made.

    Args:
      guaranteed_epsilon: float >= 0, E.
      guaranteed_delta: float in [0, 1], D.
      neighboring_relation: the adjacency of the guarantee: "add-or-remove", "replace-one", "zero-out" or a
        `NeighboringRelation`.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> release = ja.EpsilonDelta(guaranteed_epsilon=0.1, guaranteed_delta=1e-9)
    >>> round(ja.epsilon(ja.Composed(release, 100), 1e-6), 3)  # not 10
    4.788
    """

    scheme = "(epsilon, delta)-DP, no sampling"
    released = EVERY_STEP
    reduction = "the least private release that has the guarantee"

    guaranteed_epsilon: Any = non_negative(
        "epsilon of one release", "E", help="epsilon that one release guarantees, >= 0", privacy=Privacy.FALLS
    )
    guaranteed_delta: Any = probability(
        "delta of one release",
        "D",
        help="delta that it guarantees",
        privacy=Privacy.FALLS,
        start=1e-9,
        lowest=1e-100,
        default=0.0,
    )
    neighboring_relation: Any = fixed(default=NeighboringRelation.ADD_OR_REMOVE_ONE)

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighboring_relation", checked_relation(self.neighboring_relation))
        super().__post_init__()

    @property
    def relation(self) -> NeighboringRelation:  # type: ignore[override]
        """The adjacency of the guarantee."""
        return NeighboringRelation(self.neighboring_relation)

    def describe(self) -> str:
        if self.guaranteed_delta:
            return f"one release, ({self.guaranteed_epsilon:g}, {self.guaranteed_delta:g})-DP"
        return f"one release, purely {self.guaranteed_epsilon:g}-DP"

    def assumptions(self) -> tuple[str, ...]:
        return (f"each release is differentially private as guaranteed, with its epsilon and delta; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.guaranteed_epsilon == 0 and self.guaranteed_delta == 0)
