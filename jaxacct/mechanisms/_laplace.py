"""The Laplace mechanism."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, positive
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class Laplace(Release):
    """One release of a number of sensitivity C, plus Laplace noise of scale noise_multiplier C.

    Adjacency: add or remove one record. The release is dominated by Laplace(1, b) against Laplace(0, b), where b is the
    noise multiplier.

    Args:
      noise_multiplier: float > 0, the scale of the noise divided by the sensitivity; also `scale`.

    Raises:
      ValueError: if `noise_multiplier` is not positive and finite.

    >>> from jaxacct import Laplace
    >>> Laplace(noise_multiplier=2.0)
    Laplace(noise_multiplier=2.0)
    >>> Laplace(scale=2.0) == Laplace(2.0)
    True
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Laplace, no sampling"
    released = EVERY_STEP
    reduction = None

    noise_multiplier: Any = positive(
        "noise multiplier",
        "B",
        unit="noise scale / sensitivity",
        help="noise scale over sensitivity, > 0",
        privacy=Privacy.GROWS,
        also="scale",
    )

    def describe(self) -> str:
        return f"Laplace noise, noise multiplier {self.noise_multiplier}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases a number that one record changes by at most C, plus Laplace noise of scale"
        return (f"{noise} noise_multiplier * C; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return False
