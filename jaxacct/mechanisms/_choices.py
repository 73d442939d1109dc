"""One choice among candidates with scores: the exponential mechanism, and permute-and-flip."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, non_negative
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class Exponential(Release):
    """One choice among candidates by the exponential mechanism of bounded range `range_epsilon`.

    A candidate is chosen with probability proportional to e^(E score / (2 D)), where D is the sensitivity of the
    scores; the 2 is left out if a record moves all scores in the same direction. The privacy losses on one pair of data
    sets lie between t and t + E for some t in [-E, 0], which is a stronger statement than E-DP (Dong, Durfee & Rogers
    2020, "Optimal differential privacy composition for exponential mechanisms"). Adjacency: add or remove one record.

    Args:
      range_epsilon: float >= 0, E.

    Raises:
      ValueError: if it is out of range.

    >>> import jaxacct as ja
    >>> round(ja.epsilon(ja.Exponential(1.0), 1e-2), 4), round(ja.epsilon(ja.EpsilonDelta(1.0), 1e-2), 4)
    (0.8343, 0.9862)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "exponential mechanism, no sampling"
    released = EVERY_STEP
    reduction = "the least private release of the same range"

    range_epsilon: Any = non_negative(
        "epsilon of one choice", "E", help="range of the losses of one choice, >= 0", privacy=Privacy.FALLS
    )

    def describe(self) -> str:
        return f"exponential mechanism of epsilon {self.range_epsilon:g}"

    def assumptions(self) -> tuple[str, ...]:
        odds = "each step releases a candidate chosen by the exponential mechanism, its scores scaled to the epsilon"
        return (f"{odds}; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.range_epsilon == 0)


@description
class PermuteAndFlip(Release):
    """One choice among candidates by permute-and-flip, purely `choice_epsilon`-DP (McKenna & Sheldon 2020).

    It chooses the candidate whose score plus exponential noise of scale 2 D / E is largest, where D is the sensitivity
    of the scores (Ding et al. 2021). It is dominated by `Laplace` noise of scale 1 / E; two candidates attain this.
    Adjacency: add or remove one record.

    Args:
      choice_epsilon: float >= 0, E.

    Raises:
      ValueError: if it is out of range.

    >>> import jaxacct as ja
    >>> round(ja.epsilon(ja.PermuteAndFlip(0.5), 0.1), 6), round(ja.epsilon(ja.Laplace(2.0), 0.1), 6)
    (0.289279, 0.289279)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "permute-and-flip, no sampling"
    released = EVERY_STEP
    reduction = "a release with Laplace noise"

    choice_epsilon: Any = non_negative(
        "epsilon of one choice", "E", help="pure epsilon of one choice, >= 0", privacy=Privacy.FALLS
    )

    def describe(self) -> str:
        return f"permute-and-flip of epsilon {self.choice_epsilon:g}"

    def assumptions(self) -> tuple[str, ...]:
        odds = "each step releases a candidate chosen by permute-and-flip, its scores scaled to the epsilon"
        return (f"{odds}; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.choice_epsilon == 0)
