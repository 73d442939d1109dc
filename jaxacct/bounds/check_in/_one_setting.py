"""One round of check-ins, one setting on the host: both ends of what the clones pair gives.

A setting `at` has the fields of one lane: `num_users`, `prob`, `clone_prob`, `rounds` and `highest`, the largest
epsilon that is of use, each [1]; `local` is its local epsilon [1], NaN, which fails closed, out of range. A setting
that wider blocks show to be of no use is not computed closely. Arrays are NumPy's.
"""

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

_HOPELESS = 1.0  # in log delta: a larger probability whose delta by wide blocks is so far above the target is left out


def _pair(at: Any, local: Any, cells: Callable[..., Cells], factor: float = 1.0) -> HostPair:
    n, prob, clone_prob = (float(x[0]) for x in (at.num_users, at.prob, at.clone_prob))
    epsilon = 0.0 if prob == 0.0 else float(local[0])  # nobody checks in: nothing leaks
    found = cells(n, prob, clone_prob, factor) if epsilon > 0.0 else Cells(*np.zeros((3, 0)))
    return HostPair(n, epsilon, found)


def _start(at: Any, log_delta: Any, local: Any) -> Any:
    """Where a search for epsilon begins, [1]."""
    start: Any = rough_epsilon(log_delta, at.num_users, at.prob, at.clone_prob, local)
    return np.where(np.isfinite(start), start, 0.0)


def upper_epsilon(at: Any, log_delta: Any, log_fixed: Any, log_rate: Any, local: Any) -> Any:
    """Epsilon [1], rounded up; inf for several rounds, and where it is above the largest of use."""
    hopeless = log_fixed[0] >= log_delta[0] or np.isnan(local[0]) or at.rounds[0] != 1
    high = np.minimum(local, at.highest)
    target = float(log_delta[0])
    wide = _pair(at, local, upper_cells, COARSE)
    if hopeless or (
        np.isfinite(at.highest[0]) and host_profile(at.highest, wide, target).log_delta[0] > target + _HOPELESS
    ):
        return np.full_like(local, np.inf)
    close = _pair(at, local, upper_cells)

    def profile(epsilon: Any) -> ProfilePoint:
        pair = close if epsilon[0] > 0.0 else wide  # which tells whether 0 is an answer
        return with_cost(host_profile(epsilon, pair, target), epsilon, log_fixed, log_rate)

    found = profile_epsilon(profile, log_delta, _start(at, log_delta, local), high)
    return np.where(np.isneginf(log_fixed), np.minimum(found, local), found)  # pure reports: never more than their own


def upper_log_delta(at: Any, epsilon: Any, log_fixed: Any, log_rate: Any, local: Any) -> Any:
    """Log delta [1], rounded up; 0 for several rounds, and out of range."""
    if at.rounds[0] != 1 or np.isnan(local[0]):
        return np.zeros_like(local)
    about = host_profile(epsilon, _pair(at, local, upper_cells, COARSE)).log_delta[0]
    point = host_profile(epsilon, _pair(at, local, upper_cells), float(about))
    return with_cost(point, epsilon, log_fixed, log_rate).log_delta


def lower_epsilon(at: Any, log_delta: Any, local: Any) -> Any:
    """Epsilon [1] of the pair under check-ins from below, at most the largest of use."""
    target, high = float(log_delta[0]), float(np.minimum(local, at.highest)[0])
    wide = _pair(at, local, lower_cells, COARSE)
    if not wide.local_epsilon > 0.0:
        return np.zeros_like(local)

    def value(epsilon: float, pair: HostPair) -> float:
        return log_profile(epsilon, pair.num_users, pair.local_epsilon, pair.cells, -1.0, target)[0]

    if value(high, wide) > target:
        return np.full_like(local, high)
    close, begin = _pair(at, local, lower_cells), float(_start(at, log_delta, local)[0])
    return np.full_like(local, highest_above(lambda epsilon: value(epsilon, close), target, high, begin))


def lower_log_delta(at: Any, epsilon: Any, local: Any) -> Any:
    """Log delta [1] of the pair under check-ins from below; -inf where it is 0."""
    pair = _pair(at, local, lower_cells)
    if not pair.local_epsilon > float(epsilon[0]) >= 0.0:
        return np.full_like(local, -np.inf)
    found = log_profile(float(epsilon[0]), pair.num_users, pair.local_epsilon, pair.cells, -1.0)[0]
    return np.full_like(local, found)
