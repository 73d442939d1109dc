"""One round of check-ins, one setting on the host: both ends of what the clones pair gives.

A setting `at` has the fields of one lane: `num_users`, `prob`, `clone_prob`, `rounds` and `highest`, the largest
answer that is of use, each [1]; `local` is its local epsilon [1], NaN, which fails closed, out of range. A setting
that wider blocks show to be of no use is not computed closely. Arrays are NumPy's.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct.bounds.check_in._profile import (
    HostPair,
    ProfilePoint,
    host_profile,
    profile_epsilon,
    rough_epsilon,
    with_cost,
)
from jaxacct.divergence.check_in._both_ends import COARSE, Cells, highest_above, log_profile, lower_cells, upper_cells

_NOTHING = Cells(np.zeros(0), np.zeros(0), np.zeros(0), -np.inf)
_ROUGHLY = 1e-3  # how close wide blocks are asked, in log delta
_HOPELESS = 1.0  # in log delta: a larger probability whose delta by wide blocks is so far above the target is left out


def _pair(at: Any, local: Any, cells: Callable[..., Cells], *args: float) -> HostPair:
    n, prob, clone_prob = (float(x[0]) for x in (at.num_users, at.prob, at.clone_prob))
    epsilon = 0.0 if prob == 0.0 else float(local[0])  # nobody checks in: nothing leaks
    found = cells(n, prob, clone_prob, *args) if epsilon > 0.0 else _NOTHING
    return HostPair(n, epsilon, found)


def _start(at: Any, log_delta: Any, local: Any, wide: HostPair, high: float, sign: float) -> float:
    """Where a search for epsilon begins: about where the delta of wide blocks is the target; 0 where it never is."""
    rough = float(rough_epsilon(log_delta, at.num_users, at.prob, at.clone_prob, local)[0])
    target = float(log_delta[0])
    rough = rough if math.isfinite(rough) else 0.0
    return highest_above(lambda epsilon: _point(epsilon, wide, sign), target, high, rough, _ROUGHLY)


def _point(epsilon: float, pair: HostPair, sign: float) -> tuple[float, float]:
    """(log delta, its slope) by the cells of `pair`."""
    return log_profile(epsilon, pair.num_users, pair.local_epsilon, pair.cells, sign)


def upper_epsilon(at: Any, log_delta: Any, log_fixed: Any, log_rate: Any, local: Any) -> Any:
    """Epsilon [1], rounded up; inf for several rounds, and where it is above the largest of use."""
    hopeless = log_fixed[0] >= log_delta[0] or np.isnan(local[0]) or at.rounds[0] != 1
    high = np.minimum(local, at.highest)
    target = float(log_delta[0])
    if hopeless or at.highest[0] == 0.0:
        return np.full_like(local, np.inf)
    wide = _pair(at, local, upper_cells, COARSE, target)
    nothing: Any = np.zeros(1)
    at_zero = with_cost(host_profile(nothing, wide), nothing, log_fixed, log_rate)
    if at_zero.log_delta[0] <= target:
        return np.zeros_like(local)
    if np.isfinite(at.highest[0]) and host_profile(at.highest, wide).log_delta[0] > target + _HOPELESS:
        return np.full_like(local, np.inf)
    close = _pair(at, local, upper_cells, 1.0, target)

    def profile(epsilon: Any) -> ProfilePoint:
        pair = close if epsilon[0] > 0.0 else wide  # which tells whether 0 is an answer
        return with_cost(host_profile(epsilon, pair), epsilon, log_fixed, log_rate)

    usable = wide.local_epsilon > 0.0 and float(high[0]) > 0.0
    start = _start(at, log_delta, local, wide, float(high[0]), 1.0) if usable else 0.0
    found = profile_epsilon(profile, log_delta, np.full_like(high, start), high)
    return np.where(np.isneginf(log_fixed), np.minimum(found, local), found)  # pure reports: never more than their own


def upper_log_delta(at: Any, epsilon: Any, log_fixed: Any, log_rate: Any, local: Any) -> Any:
    """Log delta [1], rounded up; 0 for several rounds, and out of range."""
    if at.rounds[0] != 1 or np.isnan(local[0]) or log_fixed[0] >= at.highest[0]:
        return np.zeros_like(local)
    wide = host_profile(epsilon, _pair(at, local, upper_cells, COARSE))
    if with_cost(wide, epsilon, log_fixed, log_rate).log_delta[0] > at.highest[0] + _HOPELESS:
        return np.zeros_like(local)
    about = float(wide.log_delta[0])
    point = host_profile(epsilon, _pair(at, local, upper_cells, 1.0, about))
    return with_cost(point, epsilon, log_fixed, log_rate).log_delta


def lower_epsilon(at: Any, log_delta: Any, local: Any) -> Any:
    """Epsilon [1] of the pair under check-ins from below, at most the largest of use."""
    target, high = float(log_delta[0]), float(np.minimum(local, at.highest)[0])
    wide = _pair(at, local, lower_cells, COARSE, target)
    if not wide.local_epsilon > 0.0:
        return np.zeros_like(local)

    begin = _start(at, log_delta, local, wide, high, -1.0)
    if begin == high:  # wide blocks are below close ones
        return np.full_like(local, high)
    close = _pair(at, local, lower_cells, 1.0, target)
    if _point(0.0, wide, -1.0)[0] <= target and _point(0.0, close, -1.0)[0] <= target:
        return np.zeros_like(local)
    return np.full_like(local, highest_above(lambda epsilon: _point(epsilon, close, -1.0), target, high, begin))


def lower_log_delta(at: Any, epsilon: Any, local: Any) -> Any:
    """Log delta [1] of the pair under check-ins from below; -inf where it is 0."""
    pair = _pair(at, local, lower_cells)
    if not pair.local_epsilon > float(epsilon[0]) >= 0.0:
        return np.full_like(local, -np.inf)
    found = log_profile(float(epsilon[0]), pair.num_users, pair.local_epsilon, pair.cells, -1.0)[0]
    return np.full_like(local, found)
