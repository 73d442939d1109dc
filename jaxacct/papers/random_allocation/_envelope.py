"""BOUND, from above, on a whole profile from bounds at a few epsilons: their lower convex envelope (RA-S16).

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", "our methods combined", as a curve.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import checked_array
from jaxacct.bounds.theorems import MAX_EPSILON, hull, loss_rounding


def convex_envelope(epsilons: Sequence[float] | NDArray[Any], deltas: Sequence[float] | NDArray[Any]) -> NDArray[Any]:
    """The lower convex envelope in e^epsilon of upper bounds `deltas` of one direction, rounded up: ours (RA-S16).

    The profile is convex in e^epsilon, so this is an upper bound too, and never above `deltas`, at every point of
    `epsilons`.

    Args:
      epsilons: float [E], increasing, in [0, 690].
      deltas: float [E], e.g. the least of several bounds at each epsilon.

    Returns:
      float64 [E].

    Raises:
      ValueError: if an argument is out of range, or the two arrays differ in length.

    >>> from jaxacct.papers import random_allocation
    >>> [round(float(d), 4) for d in random_allocation.convex_envelope([0.0, 0.5, 1.0], [0.2, 0.19, 0.05])]
    [0.2, 0.1434, 0.05]
    """
    x, y = (checked_array(*z).astype(np.float64) for z in (("epsilons", epsilons), ("deltas", deltas)))
    if x.ndim != 1 or x.shape != y.shape or np.isnan(y).any():
        raise ValueError(f"deltas={deltas!r} must be one-dimensional, of the same length as epsilons")
    y = np.minimum.accumulate(y)
    if x.shape[0] == 0 or not (np.all(np.diff(x) > 0) and x[0] >= 0 and x[-1] <= MAX_EPSILON):
        raise ValueError(f"epsilons must increase within [0, {MAX_EPSILON:g}]")
    kept, _ = hull(x, y)
    at = np.asarray(kept)
    left = np.clip(np.searchsorted(at, np.arange(x.shape[0]), side="right") - 1, 0, max(0, at.shape[0] - 2))
    a, b = at[left], at[np.minimum(left + 1, at.shape[0] - 1)]
    width = np.where(b > a, x[b] - x[a], 1.0)
    share = np.where(b > a, np.expm1(x - x[a]) / np.expm1(width), 0.0)
    between = (y[a] * (1.0 - share) + y[b] * share) * (1.0 + loss_rounding(x))
    return np.minimum(np.where(np.isin(np.arange(x.shape[0]), at), y, between), y)
