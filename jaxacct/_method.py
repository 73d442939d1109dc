"""What a method is: one way to bound one kind of mechanism. And the grids of Renyi orders that it is tried at."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxacct._types import Bound, Direction

BOTH = (Direction.REMOVE, Direction.ADD)

WHOLE = {top: tuple(float(a) for a in range(2, top + 1)) for top in (64, 256, 1024, 2048)}
# the tenths to 10.9, as other accountants have them, and closer together towards 1
FRACTIONAL = (*(1.0 + np.geomspace(0.02, 0.9, 24)).tolist(), *(1.0 + i / 10 for i in range(1, 100)))
LOW = tuple(np.linspace(1.02, 1.98, 25).tolist())
BETWEEN = (*LOW, *(n + i / 8 for n in range(2, 9) for i in range(1, 8)))
SPARSE = {
    64: tuple((1.0 + np.geomspace(0.05, 64.0, 48)).tolist()),
    256: tuple((1.0 + np.geomspace(0.05, 256.0, 56)).tolist()),
    1024: tuple((1.0 + np.geomspace(0.05, 1024.0, 64)).tolist()),
}


def mixed_orders(top: int) -> tuple[float, ...]:
    return tuple(sorted({*FRACTIONAL, *WHOLE[top]}))


@dataclasses.dataclass(frozen=True)
class Method:
    """One way to bound one mechanism, by Renyi divergences (`rdp`) or by its profile (`epsilon`, `log_delta`).

    Attributes:
      name: short and stable, shown by `compare`, accepted by ``method=``.
      theorem: paper and theorem.
      directions: the directions that it bounds.
      rdp: ``(mechanism of lanes, orders=, uneven=) -> [A, L]``.
      grids: for `rdp`, grids of orders from small to large; the next is tried when the best order is the last.
      log_delta, epsilon: ``(mechanism of lanes, epsilon or log delta [L], uneven=) -> [L]``.
      floor: ``(mechanism, log delta) -> `` cheap guess from below at the epsilon it would give, to skip it.
      helps: ``(mechanism) -> `` False where another method of the mechanism is never worse.
      up_to_order: consult only where the best order so far is at most this, or none.
      statics: ``(mechanism) -> `` further static arguments of `log_delta` and `epsilon`, as window sizes.
      bound: LOWER methods are listed by `compare` and used for intervals, never for an upper bound.
    """

    name: str
    theorem: str
    directions: tuple[Direction, ...]
    rdp: Callable[..., jax.Array] | None = None
    grids: tuple[tuple[float, ...], ...] = ()
    log_delta: Callable[..., jax.Array] | None = None
    epsilon: Callable[..., jax.Array] | None = None
    floor: Callable[[Any, np.ndarray], np.ndarray] | None = None
    helps: Callable[[Any], bool] = lambda mechanism: True
    up_to_order: float = math.inf
    statics: Callable[[Any], dict[str, Any]] = lambda mechanism: {}
    bound: Bound = Bound.UPPER


def ignoring_split(fn: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """For methods that do not split allocation into groups: drops ``uneven=``."""

    def wrapped(*args: Any, uneven: bool = True, **kwargs: Any) -> jax.Array:
        del uneven
        return fn(*args, **kwargs)

    return wrapped
