"""Both ends of what the clones pair gives for one round of check-ins, one setting at a time on the host.

A setting `at` has the fields of one lane: `num_users`, `prob`, `clone_prob`, `rounds` and `highest`, the largest
answer that is of use, each [1]; `local` is its local epsilon [1], or NaN, which fails closed, where it is out of range.
Sums over every count or one contour integral, the "line" (`_sharp`), give both ends, nearly exactly; else blocks of
counts do, and a setting that wider blocks show to be of no use is not computed closely. Arrays are NumPy's.
"""

import functools
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
from jaxacct.bounds.check_in._sharp import Sharp, sharp_of, sharp_point
from jaxacct.divergence.check_in._both_ends import (
    COARSE,
    PairCells,
    highest_above,
    log_profile,
    lower_cells,
    upper_cells,
)
from jaxacct.divergence.check_in._line import LineSetting, line_point

_NOTHING = PairCells(np.zeros(0), np.zeros(0), np.zeros(0), -np.inf)
_ROUGHLY = 1e-3  # how closely a root is sought with wide blocks, in log delta
_SHARP_OF_CURVE = 1e-3  # width of log delta up to which a curve uses the line; once it is wider it is not used again
_CURVE, _FAR_CURVE = 2.0, 4.0  # factors of the widths of blocks there
_FLOOR = 20.0  # in log delta: no further above what blocks leave to the rest, blocks of all counts are used as well
_HOPELESS = 1.0  # in log delta: a larger probability whose delta by wide blocks is so far above the target is left out


# cached: both ends need it, and each probability in turn
_wide_upper_cells = functools.lru_cache(maxsize=8)(upper_cells)


def _pair(at: Any, local: Any, cells: Callable[..., PairCells], *args: float) -> HostPair:
    n, prob, clone_prob = (float(x[0]) for x in (at.num_users, at.prob, at.clone_prob))
    epsilon = 0.0 if prob == 0.0 else float(local[0])  # nobody checks in: nothing leaks
    found = cells(n, prob, clone_prob, *args) if epsilon > 0.0 else _NOTHING
    return HostPair(n, epsilon, found)


def _start(at: Any, log_delta: Any, local: Any, wide: HostPair, high: float, sign: float) -> float:
    """Where a search for epsilon begins: near where the delta of wide blocks is the target; 0 where it never is."""
    rough = float(rough_epsilon(log_delta, at.num_users, at.prob, at.clone_prob, local)[0])
    target = float(log_delta[0])
    rough = rough if math.isfinite(rough) else 0.0
    return highest_above(lambda epsilon: _point(epsilon, wide, sign), target, high, rough, _ROUGHLY)


def _point(epsilon: float, pair: HostPair, sign: float) -> tuple[float, float]:
    """(log delta, its slope) by the cells of `pair`."""
    return log_profile(epsilon, pair.num_users, pair.local_epsilon, pair.cells, sign)


def _setting(at: Any, local: Any) -> LineSetting:
    return LineSetting(*(float(x[0]) for x in (at.num_users, at.prob, at.clone_prob, local)))


def by_epsilon(settings: list[Any], log_delta: Any, local: Any) -> list[Any]:
    """`settings` [N] of different probabilities, probably the least epsilon first: the others are soon given up."""
    first, probs = settings[0], tuple(float(at.prob[0]) for at in settings)
    fields = (float(x[0]) for x in (first.num_users, first.clone_prob, local, log_delta))
    return [settings[i] for i in _order(probs, *fields, True)]


def by_log_delta(settings: list[Any], epsilon: Any, local: Any) -> list[Any]:
    """`settings` [N], as `by_epsilon`, the least delta first."""
    first, probs = settings[0], tuple(float(at.prob[0]) for at in settings)
    fields = (float(x[0]) for x in (first.num_users, first.clone_prob, local, epsilon))
    return [settings[i] for i in _order(probs, *fields, False)]


@functools.lru_cache(maxsize=1)  # both ends need the same
def _order(
    probs: tuple[float, ...], num_users: float, clone_prob: float, local: float, target: float, is_log_delta: bool
) -> list[int]:
    """Indices of `probs` in the order of delta by wide blocks, at one epsilon: if log delta is given, the first's."""
    if not local > 0.0:
        return list(range(len(probs)))
    if is_log_delta and sharp_of(LineSetting(num_users, probs[0], clone_prob, local), target).ends is not None:
        return list(range(len(probs)))  # each is soon given up where the one before is better
    about = (target,) if is_log_delta else ()
    pairs = [HostPair(num_users, local, _wide_upper_cells(num_users, q, clone_prob, COARSE, *about)) for q in probs]
    epsilon = target
    if is_log_delta:
        numbers: Any = (np.atleast_1d(x) for x in (target, num_users, probs[0], clone_prob, local))
        rough = float(rough_epsilon(*numbers)[0])
        first = lambda at: _point(at, pairs[0], 1.0)  # noqa: E731
        epsilon = highest_above(first, target, local, rough if math.isfinite(rough) else 0.0, 0.1)
    values = [_point(epsilon, pair, 1.0)[0] for pair in pairs]
    return sorted(range(len(probs)), key=values.__getitem__)


def _as_lane(log_delta: float, slope: float) -> ProfilePoint:
    lane: Any = np.array([[log_delta], [slope]])
    return ProfilePoint(*lane)


def _start_of(sharp: Sharp | None, high: float) -> tuple[float | None, bool]:
    """`Sharp.start`, unless delta at `high`, the largest epsilon of use, is proved to be above the target."""
    return (None, False) if sharp is None or sharp.is_above(high) else sharp.start


def upper_epsilon(at: Any, log_delta: Any, log_fixed: Any, log_rate: Any, local: Any) -> Any:
    """Epsilon [1], rounded up; inf for several rounds, and where it is above the largest of use."""
    hopeless = log_fixed[0] >= log_delta[0] or np.isnan(local[0]) or at.rounds[0] != 1
    high = np.minimum(local, at.highest)
    target = float(log_delta[0])
    if hopeless or at.highest[0] == 0.0:
        return np.full_like(local, np.inf)
    sharp = sharp_of(_setting(at, local), target) if local[0] > 0.0 and target < 0.0 else None
    begin, is_sharp = _start_of(sharp, float(high[0]))
    if sharp is not None and np.isfinite(at.highest[0]) and sharp.is_above(float(high[0])):
        return np.full_like(local, np.inf)
    if sharp is not None and is_sharp:
        if np.isneginf(log_fixed[0]) and sharp.ends is not None:
            return np.full_like(local, sharp.ends[1] if sharp.ends[1] <= high[0] else np.inf)

        def exact(epsilon: Any) -> ProfilePoint:
            return with_cost(_as_lane(*sharp.upper(float(epsilon[0]))), epsilon, log_fixed, log_rate)

        return _found(profile_epsilon(exact, log_delta, np.full_like(high, begin), high), log_fixed, local)
    wide = _pair(at, local, _wide_upper_cells, COARSE, target)
    nothing: Any = np.zeros(1)
    at_zero = with_cost(host_profile(nothing, wide), nothing, log_fixed, log_rate)
    if at_zero.log_delta[0] <= target:
        return np.zeros_like(local)
    if np.isfinite(at.highest[0]) and host_profile(at.highest, wide).log_delta[0] > target + _HOPELESS:
        return np.full_like(local, np.inf)
    close = _pair(at, local, upper_cells, 1.0, target)

    def profile(epsilon: Any) -> ProfilePoint:
        pair = close if epsilon[0] > 0.0 else wide  # to see whether 0 is an answer
        return with_cost(host_profile(epsilon, pair), epsilon, log_fixed, log_rate)

    usable = wide.local_epsilon > 0.0 and float(high[0]) > 0.0
    start = (begin if begin else _start(at, log_delta, local, wide, float(high[0]), 1.0)) if usable else 0.0
    return _found(profile_epsilon(profile, log_delta, np.full_like(high, start), high), log_fixed, local)


def _found(epsilon: Any, log_fixed: Any, local: Any) -> Any:
    """Epsilon [1] as it was found; of pure reports never more than their own."""
    return np.where(np.isneginf(log_fixed), np.minimum(epsilon, local), epsilon)


def upper_log_delta(at: Any, epsilon: Any, log_fixed: Any, log_rate: Any, local: Any) -> Any:
    """Log delta [1], rounded up; 0 for several rounds, and out of range."""
    if at.rounds[0] != 1 or np.isnan(local[0]) or log_fixed[0] >= at.highest[0]:
        return np.zeros_like(local)
    point = sharp_point(float(epsilon[0]), _setting(at, local)) if epsilon[0] >= 0.0 else None
    if point is not None:
        return with_cost(_as_lane(point.log_upper, point.slope), epsilon, log_fixed, log_rate).log_delta
    wide = host_profile(epsilon, _pair(at, local, _wide_upper_cells, COARSE))
    if with_cost(wide, epsilon, log_fixed, log_rate).log_delta[0] > at.highest[0] + _HOPELESS:
        return np.zeros_like(local)
    about = float(wide.log_delta[0])
    close = host_profile(epsilon, _pair(at, local, upper_cells, 1.0, about))
    return with_cost(close, epsilon, log_fixed, log_rate).log_delta


def log_delta_curve(at: Any, local: Any) -> Callable[[float], float]:
    """A function: log delta, rounded up, of one round at any epsilon >= 0, for curves of many epsilons.

    By the line while it is sharp, then by blocks of the counts that matter, and far out by blocks of all counts.
    """
    setting = _setting(at, local)
    close = functools.cache(lambda: _pair(at, local, upper_cells, _CURVE))
    far = functools.cache(lambda: _pair(at, local, upper_cells, _FAR_CURVE, -math.inf, -math.inf))
    blurred = math.inf  # the least epsilon where the line was seen not to be sharp

    def log_delta(epsilon: float) -> float:
        nonlocal blurred
        if epsilon < min(blurred, setting.local_epsilon):
            point = line_point(epsilon, setting)
            if point.log_upper - point.log_lower <= _SHARP_OF_CURVE:
                return point.log_upper
            blurred = epsilon
        value = _point(epsilon, close(), 1.0)[0]
        return min(value, _point(epsilon, far(), 1.0)[0]) if value < close().cells.log_rest + _FLOOR else value

    return log_delta


def upper_log_deltas(at: Any, epsilon: Any, local: Any) -> Any:
    """Log delta [G, 1], rounded up, of one round at rising `epsilon` [G, 1], for Renyi curves."""
    of = log_delta_curve(at, local)
    return np.array([of(x) for x in map(float, epsilon[:, 0])])[:, None]


def lower_epsilon(at: Any, log_delta: Any, local: Any) -> Any:
    """Epsilon [1] of the pair under check-ins from below, at most the largest of use."""
    target, high = float(log_delta[0]), float(np.minimum(local, at.highest)[0])
    if not high > 0.0:
        return np.zeros_like(local)
    sharp = sharp_of(_setting(at, local), target) if target < 0.0 else None
    if sharp is not None and sharp.is_above(high):
        return np.full_like(local, high)
    begin, is_sharp = _start_of(sharp, high)
    if sharp is not None and is_sharp and sharp.ends is not None:
        return np.full_like(local, min(sharp.ends[0], high))
    wide = _pair(at, local, lower_cells, COARSE, target)
    if not wide.local_epsilon > 0.0:
        return np.zeros_like(local)
    if _point(high, wide, -1.0)[0] > target:  # wide blocks are below close ones
        return np.full_like(local, high)
    begin = begin or _start(at, log_delta, local, wide, high, -1.0)
    close = _pair(at, local, lower_cells, 1.0, target)
    if _point(0.0, wide, -1.0)[0] <= target and _point(0.0, close, -1.0)[0] <= target:
        return np.zeros_like(local)
    return np.full_like(local, highest_above(lambda epsilon: _point(epsilon, close, -1.0), target, high, begin))


def lower_log_delta(at: Any, epsilon: Any, local: Any) -> Any:
    """Log delta [1] of the pair under check-ins from below; -inf where it is 0."""
    point = sharp_point(float(epsilon[0]), _setting(at, local)) if epsilon[0] >= 0.0 else None
    if point is not None:
        return np.full_like(local, point.log_lower)
    pair = _pair(at, local, lower_cells)
    if not pair.local_epsilon > float(epsilon[0]) >= 0.0:
        return np.full_like(local, -np.inf)
    found = log_profile(float(epsilon[0]), pair.num_users, pair.local_epsilon, pair.cells, -1.0)[0]
    return np.full_like(local, found)
