"""Bounds at real orders from those at whole orders, for R with (a - 1) R(a) convex in the order a and 0 at a = 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxacct._jax import jax
from jaxacct.special._namespace import with_rows, xp
from jaxacct.special._rounding import up


def at_real_orders(values: jax.Array, known: Sequence[int], orders: Sequence[float]) -> jax.Array:
    """Upper bound on R [A, L] at real `orders` > 1 from upper bounds [K, L] at the `known` whole orders >= 2.

    A convex function lies below its chords: between neighbours i < a < j of the known orders

        (a - 1) R(a) <= ((j - a) (i - 1) R(i) + (a - i) (j - 1) R(j)) / (j - i),

    and below the first known order i the chord from order 1, where the function is 0, gives R(a) <= R(i). At a known
    order the result is exactly the given value; beyond the last it is inf. Not for lower bounds.

    Args:
      values: float64 [K, L], >= 0; inf where nothing is known.
      known: static, K whole orders, ascending.
      orders: static, A real orders, in any order.
    """
    at, wanted = np.asarray(known, np.float64), np.asarray(orders, np.float64)
    above = np.searchsorted(at, wanted, side="right")  # the number of known orders that are at most the one wanted
    low, high = np.maximum(above - 1, 0), np.minimum(above, len(at) - 1)
    i, j = at[low], at[high]
    rows = np.flatnonzero((i < wanted) & (wanted < j))
    found = values[low]
    if rows.size:
        a, i, j = wanted[rows], i[rows], j[rows]
        near, far = (j - a) / (j - i) * ((i - 1.0) / (a - 1.0)), (a - i) / (j - i) * ((j - 1.0) / (a - 1.0))
        weights = (xp.asarray(w, xp.float64)[:, None] for w in (near, far))
        first, second = (w * x for w, x in zip(weights, (values[low[rows]], values[high[rows]]), strict=True))
        # six roundings: four in a weight (a - 1 and i - 1 are exact), its product and the sum
        found = with_rows(found, rows, up(first + second, 16))
    beyond = np.flatnonzero(wanted > at[-1])
    return with_rows(found, beyond, xp.inf) if beyond.size else found
