"""Renyi divergences as a function of the order."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import Tracer
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import check_orders, checked_array, checked_choice


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no truth value: == is identity
class RdpCurve:
    """Renyi divergences at some orders, in nats: `values[..., i]` at `orders[i]`.

    Convert it with `jaxacct.epsilon` and `jaxacct.delta`; compose it with `jaxacct.compose`.

    Attributes:
      orders: float64 [A], each > 1, or 1 (the Kullback-Leibler divergence) or inf (the largest loss).
      values: float64 [..., A].
      bound: how the values bound the true divergences.
      neighboring_relation: the adjacency.
      theorem: the theorem that the values come from.
      direction: the only direction in which they hold; None for both, or where the adjacency has just one.

    >>> import jaxacct as ja
    >>> curve = ja.rdp(ja.Gaussian(1.0), orders=[2, 4, 8, 16])
    >>> [round(float(v), 6) for v in curve.values]
    [1.0, 2.0, 4.0, 8.0]
    >>> round(ja.epsilon(ja.compose(curve, counts=4), target_delta=1e-5), 4)
    11.0879
    """

    orders: NDArray[Any]
    values: Any
    bound: Bound
    neighboring_relation: NeighboringRelation
    theorem: str
    direction: Direction | None = None

    def __post_init__(self) -> None:
        for name, kind in (("bound", Bound), ("neighboring_relation", NeighboringRelation), ("direction", Direction)):
            value = getattr(self, name)
            if value is not None or kind is not Direction:
                object.__setattr__(self, name, checked_choice(name, value, *kind))
        object.__setattr__(self, "orders", check_orders("orders", self.orders, with_limits=True))
        if isinstance(self.values, Tracer):
            return
        values = checked_array("values", self.values).astype(np.float64)
        if values.shape[-1:] != self.orders.shape or not (values >= 0).all():
            raise ValueError(f"values={self.values!r} must be numbers >= 0, one per order along the last axis")
        object.__setattr__(self, "values", values)
