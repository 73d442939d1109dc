"""The discrete Gaussian mechanism."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, count, positive
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class DiscreteGaussian(Release):
    """One whole number of sensitivity `sensitivity`, plus noise of mass proportional to e^(-x^2 / (2 scale^2)).

    Dominated by the noise around 0 against the same around `sensitivity`: the noise is log-concave, so that thresholds
    are the best tests and larger shifts are easier to tell. A vector with noise on each coordinate has no such pair:
    describe it by `ZCdp(sensitivity**2 / (2 * scale**2))`, sensitivity in the L2 norm (Canonne, Kamath & Steinke 2020,
    Theorem 4). Adjacency: add or remove one record.

    Args:
      scale: float > 0, of the noise; close to its standard deviation where it is above 1.
      sensitivity: whole number >= 1, by how much one record changes the number.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.DiscreteGaussian(scale=2.0), 0.5), 4), round(ja.delta(ja.Gaussian(2.0), 0.5), 4)
    (0.054, 0.0524)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "discrete Gaussian, no sampling"
    released = EVERY_STEP
    reduction = None

    scale: Any = positive(
        "noise scale", "S", unit="units of the number", help="scale of the noise, > 0", privacy=Privacy.GROWS
    )
    sensitivity: Any = count(
        "sensitivity", "D", help="by how much one record changes the number", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        return f"discrete Gaussian noise, scale {self.scale:g}, sensitivity {self.sensitivity:.0f}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases a whole number that one record changes by at most the sensitivity"
        return (f"{noise}, plus discrete Gaussian noise of the stated scale; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return False
