"""Renyi methods of releases described by their likelihood ratio: one for each direction, made from one function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxacct._jax import Array
from jaxacct._method import BOTH, Cost, RenyiMethod, Role
from jaxacct._types import Direction
from jaxacct.bounds._limits import with_limits
from jaxacct.bounds._orders import MIXED

_Curve = Callable[..., Array]


def by_direction(rdp: _Curve, largest: _Curve, **options: Any) -> tuple[RenyiMethod, RenyiMethod]:
    """Two methods (class `RenyiMethod`) for traced programs, remove and add, of real orders from 1 to inf.

    Args:
      rdp: ``(mechanism, orders=, add=, **statics) -> [A, L]``, rounded up; `add` says which direction.
      largest: ``(mechanism, add=, **statics) -> [L]``, the divergence of order inf.
      options: the other fields of the methods, such as the theorem.
    """

    def made(direction: Direction) -> RenyiMethod:
        add = direction is Direction.ADD
        return RenyiMethod(
            name=f"rdp ({direction.value})",
            directions=(direction,),
            cost=Cost.MILLISECONDS,
            role=Role.IN_PROGRAMS,
            rdp=with_limits(functools.partial(rdp, add=add), largest=functools.partial(largest, add=add)),
            grids=MIXED,
            **options,
        )

    remove, add = map(made, BOTH)
    return remove, add
