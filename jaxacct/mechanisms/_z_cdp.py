"""A release of which only a zero-concentrated differential privacy guarantee is known."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Release, description
from jaxacct.mechanisms._fields import Privacy, non_negative
from jaxacct.mechanisms._words import ADAPTIVE, EVERY_STEP


@description
class ZCdp(Release):
    """One release that is (xi, rho)-zCDP: its Renyi divergences of every order a > 1 are at most xi + rho a.

    Bun & Steinke 2016, Definition 1.1. `Gaussian(s)` is such a release, with rho = 1 / (2 s^2), and has sharper bounds
    of its own. Adjacency: add or remove one record.

    Args:
      rho: float >= 0.
      xi: float >= 0.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> round(ja.epsilon(ja.ZCdp(rho=0.125), 1e-6), 3), round(ja.epsilon(ja.Gaussian(2.0), 1e-6), 3)
    (2.419, 2.254)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "zero-concentrated DP, no sampling"
    released = EVERY_STEP
    reduction = "every release that has the guarantee"

    rho: Any = non_negative("rho of one release", "RHO", help="zCDP of one release, >= 0", privacy=Privacy.FALLS)
    xi: Any = non_negative(
        "xi of one release", "XI", help="additive part of the zCDP guarantee", privacy=Privacy.FALLS, default=0.0
    )

    def describe(self) -> str:
        return f"one release, ({self.xi:g}, {self.rho:g})-zCDP" if self.xi else f"one release, {self.rho:g}-zCDP"

    def assumptions(self) -> tuple[str, ...]:
        return (f"each release is zero-concentrated differentially private as guaranteed; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        return bool(self.rho == 0 and self.xi == 0)
