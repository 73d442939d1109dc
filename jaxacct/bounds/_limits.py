"""Renyi divergences of order 1 (Kullback-Leibler) and inf (the largest loss), beside those of the orders between.

Orders are static. Divergences do not decrease in the order, so that the divergence of order 1 is at most any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxacct._jax import Array, jax
from jaxacct._method import A_FORMULA, BOTH, Cost, RenyiMethod
from jaxacct.bounds._orders import mixed
from jaxacct.special._namespace import xp

NEAR_ONE = 1.02  # the order at which most curves are read in place of 1: the least of the grids

_Curve = Callable[..., Array]


def _unbounded(mechanism: Any, **statics: Any) -> jax.Array:
    del mechanism, statics
    return xp.full((1,), xp.inf)


def with_limits(
    inner: _Curve, *, one: _Curve | None = None, largest: _Curve = _unbounded, near_one: float = 1.0
) -> _Curve:
    """A curve ``(mechanism, orders=, **statics) -> [A, L]`` for orders from 1 to inf, both included.

    Args:
      inner: the curve of finite orders above 1.
      one, largest: ``(mechanism, **statics) -> [L]``, the divergences of order 1 and inf; `largest` is inf by default.
      near_one: where `one` is None, the order at which `inner` is read in place of 1.
    """
    ends = {math.inf: largest} if one is None else {1.0: one, math.inf: largest}

    def curve(mechanism: Any, *, orders: Sequence[float], **statics: Any) -> jax.Array:
        between = tuple(near_one if a == 1.0 else a for a in orders if a not in ends)
        found = inner(mechanism, orders=between, **statics) if between else xp.zeros((0, 1))
        if len(between) == len(orders):
            return found
        known = {a: of(mechanism, **statics) for a, of in ends.items() if a in orders}
        rows = iter(found)
        return xp.stack(xp.broadcast_arrays(*(known[a] if a in ends else next(rows) for a in orders)))

    return curve


def in_closed_form(theorem: str, rdp: _Curve, **options: Any) -> RenyiMethod:
    """The method "rdp" (class `RenyiMethod`) of divergences that take microseconds, the same in both directions."""
    grids = {"grids": tuple(mixed(top) for top in (64, 256, 1024, 2048))}
    return RenyiMethod(
        name="rdp",
        theorem=theorem,
        directions=BOTH,
        cost=Cost.MICROSECONDS,
        rdp=rdp,
        **A_FORMULA,
        **(grids | options),
    )
