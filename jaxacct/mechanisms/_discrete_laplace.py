"""The discrete Laplace (two-sided geometric) mechanism."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, count, non_negative
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class DiscreteLaplace(Release):
    """One release of whole numbers of L1 sensitivity `sensitivity`, each plus noise of mass tanh(a/2) e^(-a |x|).

    Also called the geometric mechanism, a = `noise_parameter` (Ghosh, Roughgarden & Sundararajan 2012). Dominated, in
    any dimension, by the noise around 0 against the same around `sensitivity`: a shift by 1 has the trade-off function
    of binary randomized response, one by D that function applied D times, whichever coordinates share the D.
    Adjacency: add or remove one record.

    Args:
      noise_parameter: float >= 0, a: pure epsilon for a change by 1; 0 drowns everything.
      sensitivity: whole number >= 1, D: by how much one record changes the numbers, in absolute values added up.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.DiscreteLaplace(noise_parameter=0.5, sensitivity=3), 1.0), 4)
    0.2449
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "discrete Laplace, no sampling"
    released = EVERY_STEP
    reduction = None

    noise_parameter: Any = non_negative(
        "noise parameter", "A", help="decay of the noise, pure epsilon of a change by 1, >= 0", privacy=Privacy.FALLS
    )
    sensitivity: Any = count(
        "sensitivity", "D", help="by how much one record changes the counts", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        return f"discrete Laplace noise, parameter {self.noise_parameter:g}, sensitivity {self.sensitivity:.0f}"

    def assumptions(self) -> tuple[str, ...]:
        noise = "each step releases whole numbers that one record changes by at most the sensitivity (L1)"
        return (f"{noise}, plus discrete Laplace noise on each; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.noise_parameter == 0)
