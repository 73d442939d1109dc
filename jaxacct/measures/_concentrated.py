"""The rho of zero-concentrated differential privacy, from certified Renyi divergences."""

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import checked_number
from jaxacct.accounting import rdp
from jaxacct.measures._measure import Measure
from jaxacct.mechanisms._base import Mechanism
from jaxacct.membership import gdp, has_closed_gdp
from jaxacct.special import up

# These affect how close the answer is to the least rho; it is certified whichever orders are evaluated.
_NEAREST = 1e-6  # the least order, minus 1
_LARGEST = 1024.0  # the largest order evaluated where `max_order` is inf
_NUM_ORDERS = 256  # between them, in even ratios of order - 1
_NUM_MORE = 24  # further orders between two that decide
_NUM_LOOKS = 4  # how many times more orders are evaluated
_GAP = 1e-9  # relative, between the largest ratio at an order and between orders, that is good enough


def between(orders: NDArray[Any], divergences: NDArray[Any]) -> NDArray[Any]:
    """Upper bounds [A - 1] on R(a) / a for a between neighbours of `orders` [A], each > 1.

    u(a) = (a - 1) R(a) is convex, so below its chord; w(a) = a (a - 1) is s (1 - s) h^2 <= h^2 / 4 below its own.
    So u / w <= max(u_i / w_i, u_j / w_j) / (1 - h^2 / (4 w_i)); and R itself does not fall: R(a) / a <= R_j / a_i.
    """
    ratios = divergences / orders
    step = np.diff(orders)
    short = step**2 / (4.0 * orders[:-1] * (orders[:-1] - 1.0))
    chord = np.maximum(ratios[:-1], ratios[1:]) / np.where(short < 1.0, 1.0 - np.minimum(short, 0.5), np.nan)
    chord = np.where(short <= 0.5, chord, np.inf)
    return np.minimum(chord, divergences[1:] / orders[:-1])


@dataclasses.dataclass(frozen=True)
class ZeroConcentratedDp(Measure):
    """The least rho found for which a mechanism is rho-zCDP: an upper bound.

        R(a) <= rho a  for every order a in (1, max_order)

    (Bun and Steinke 2016, Definition 1.1, if `max_order` is inf; else truncated concentrated differential privacy, Bun,
    Dwork, Rothblum and Steinke 2018, Definition 1). Between the orders evaluated, the bound holds because (a - 1) R(a)
    is convex and R does not fall. If `max_order` is inf, rho depends on the rarest losses: for sampled Gaussian noise
    it is the rho of the noise without sampling. So it is known for all orders for Gaussian noise and where losses are
    bounded; elsewhere a finite `max_order` has to be given.

    Args:
      max_order: float > 1; inf for every order.

    Raises:
      ValueError: if the order is out of range; when called, if it is inf and losses are not bounded.

    >>> import jaxacct as ja
    >>> from jaxacct import measures
    >>> rho = measures.ZeroConcentratedDp()
    >>> round(rho(ja.Composed(ja.Gaussian(2.0), 4)), 6), round(rho(ja.Laplace(1.0)), 6)
    (0.5, 0.36788)
    """

    name: ClassVar[str] = "zcdp"
    worst: ClassVar[float] = math.inf
    max_order: float = math.inf

    def __post_init__(self) -> None:
        max_order = checked_number("max_order", self.max_order)
        if not max_order >= 1.0 + 2.0 * _NEAREST:
            raise ValueError(f"max_order={self.max_order!r} must be > 1")
        object.__setattr__(self, "max_order", max_order)

    def of(self, mechanism: Mechanism) -> float:
        """The largest ratio at the orders evaluated and between them."""
        if has_closed_gdp(mechanism):
            return up(0.5 * gdp(mechanism) ** 2, 8)
        end, beyond = self.max_order, 0.0
        if end == math.inf:
            end, largest = _LARGEST, float(rdp(mechanism, [math.inf]).values[0])
            if largest == math.inf:
                raise ValueError(
                    f"max_order=inf needs bounded losses, or Gaussian noise without sampling, which {mechanism!r} does "
                    "not have: rho would be that of its rarest losses; give a largest order, as by "
                    "ZeroConcentratedDp(max_order=64), or on the command line --measure zcdp:64"
                )
            beyond = min(largest / end, 0.5 * largest**2)  # R <= R(inf); Bun and Steinke 2016, Proposition 1.4
        return up(max(self._up_to_end(mechanism, end), beyond), 16)

    def _up_to_end(self, mechanism: Mechanism, end: float) -> float:
        """The largest ratio at orders up to `end`."""
        orders = 1.0 + np.geomspace(_NEAREST, end - 1.0, _NUM_ORDERS)
        orders[-1] = end
        divergences = np.asarray(rdp(mechanism, orders).values, np.float64)
        for look in range(_NUM_LOOKS + 1):
            gaps = between(orders, divergences)
            seen = np.max(divergences / orders)
            if look == _NUM_LOOKS or gaps.max() <= seen * (1.0 + _GAP) or not np.isfinite(seen):
                break
            wide = np.flatnonzero(gaps > seen * (1.0 + _GAP))
            wide = wide[np.argsort(gaps[wide])[-_NUM_MORE:]]
            share = np.arange(1, _NUM_MORE // wide.size + 2) / (_NUM_MORE // wide.size + 2)
            ratio = (orders[wide + 1] - 1.0) / (orders[wide] - 1.0)
            more = (1.0 + (orders[wide] - 1.0)[:, None] * ratio[:, None] ** share).reshape(-1)
            known = np.concatenate([orders, more])
            found = np.concatenate([divergences, np.asarray(rdp(mechanism, more).values, np.float64)])
            orders, at = np.unique(known, return_index=True)
            divergences = found[at]
        return float(max(gaps.max(), divergences[0]))  # below the first order R is at most what it is there

    def words(self) -> str:
        """The words, with the largest order if there is one."""
        return "rho of zCDP" + ("" if self.max_order == math.inf else f" up to order {self.max_order:g}")

    def bounds_of_target(self) -> tuple[float, float]:
        """(0, inf)."""
        return 0.0, math.inf
