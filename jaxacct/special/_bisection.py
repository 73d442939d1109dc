"""Bisection, and a faster search, which return the end known to be safe.

A root lies between a point where a condition holds and one where it does not. The first of these is moved towards the
other and returned: always a point at which the condition was found to hold, so that no rounding of the condition makes
the answer unsafe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._jax import Array, jax, jnp
from jaxacct._types import Ends

_MOST_STEPS = 60  # of Chandrupatla's method


def bisect(holds: Callable[[float], bool], safe: float, other: float, *, num_steps: int) -> float:
    """The point nearest `other` at which `holds` was true, after halving the interval `num_steps` times.

    Either end may be the larger. `holds` is not evaluated at `safe`, which is returned if no better point is found. If
    `holds` changes only once, the distance to that place is at most 2^-num_steps of the interval.
    """
    for _ in range(num_steps):
        middle = 0.5 * (safe + other)
        if holds(middle):
            safe = middle
        else:
            other = middle
    return safe


def bisect_whole(holds: Callable[[int], bool], safe: int, other: int) -> int:
    """As `bisect`, over the whole numbers between two ends until they are neighbours; neither end is evaluated."""
    while abs(safe - other) > 1:
        middle = (safe + other) // 2
        if holds(middle):
            safe = middle
        else:
            other = middle
    return safe


def bisect_lanes(holds: Callable[[Any], Any], safe: Any, other: Any, *, num_steps: int, whole: bool = False) -> Any:
    """As `bisect`, elementwise for arrays: JAX arrays inside a kernel, or NumPy arrays.

    Args:
      holds: from an array of points to an array of truth values of the same shape. JAX traces it once.
      safe, other: float64 arrays that broadcast.
      num_steps: static, the number of times that the interval is halved.
      whole: whether to search whole numbers between whole ends, neither of which is evaluated; they are neighbours
        after as many steps as the log2 of their distance, rounded up.
    """
    xp = jnp if isinstance(safe, Array) else np

    def halve(_: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        safe, other = ends
        middle = 0.5 * (safe + other)
        middle = xp.floor(middle) if whole else middle
        moves = holds(middle)
        if not whole:
            return xp.where(moves, middle, safe), xp.where(moves, other, middle)
        between = (middle != safe) & (middle != other)
        return xp.where(between & moves, middle, safe), xp.where(between & ~moves, middle, other)

    ends = tuple(xp.broadcast_arrays(safe, other))
    if xp is jnp:
        return jax.lax.fori_loop(0, num_steps, halve, ends)[0]
    for step in range(num_steps):
        ends = halve(step, ends)
    return ends[0]


def crossing(value: Callable[[float], float], low: float, high: float, *, close: float = 1e-6) -> float:
    """The least point found in [low, high] at which `value`, which falls, is at most 0; `high` if it is positive there.

    This is Chandrupatla's method: inverse quadratic interpolation where three points promise it to work, else
    bisection, so that a value may jump or be infinite. It ends where the ends of the bracket are within `close` times
    the upper one.
    """
    a, b, at_a, at_b = high, low, value(high), value(low)  # the last point, and the end on the other side
    if at_b <= 0.0:
        return low
    if not at_a <= 0.0:
        return high
    share = at_a / (at_a - at_b)
    for _ in range(_MOST_STEPS):
        least = 0.5 * close * max(a, b) / abs(b - a)
        if least >= 0.5:
            break
        x = a + min(max(share if math.isfinite(share) else 0.5, least), 1.0 - least) * (b - a)
        here = value(x)
        if (here <= 0.0) == (at_a <= 0.0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, here
        xi, phi, share = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b), 0.5
        if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    return a if at_a <= 0.0 else b


def first_doubling(holds: Callable[[float], bool], *, limit: float) -> Ends[float]:
    """`Ends` around the first of 1, 2, 4, .. up to `limit` at which `holds` is true: the number before (or 0), and it.

    If `holds` is true at none of them, the last number tried and inf.
    """
    low, high = 0.0, 1.0
    while high <= limit:
        if holds(high):
            return Ends(low, high)
        low, high = high, 2.0 * high
    return Ends(low, math.inf)
