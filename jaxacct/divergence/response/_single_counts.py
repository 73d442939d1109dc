"""Shuffled binary randomized response for one concrete question on the host: sums over single counts, computed once.

The setting of `jaxacct.divergence.response._binary`: c ~ Bin(n, r), r = 1/(e^local_epsilon + 1), the likelihood ratio
of c is 1 + s (c - n r), s = 2 sinh(local_epsilon)/n. With x the distance of a count from the mean and d that of the
threshold, in either direction

    above:  delta = s sum_{x > d} P[x] (x - d),              d = (e^eps - 1)/s,
    below:  delta = e^eps s sum_{x > d} P[x] (x - d),        d = (1 - e^-eps)/s,

where x - d is also the distance of the threshold from the last count, n or 0, minus that of the count: no digits cancel
where epsilon is near the local epsilon.

Between two counts the sum is linear in d, so that the epsilon of a delta follows from two running sums over the counts
without a search. Delta is then evaluated, rounded down, at the epsilon that is returned.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.gaussian._pair import rough_gaussian_epsilon
from jaxacct.special import bisect_whole, log_down
from jaxacct.special._binomial import log_binomial_pmf, pmf_rounding

Real = np.ndarray[Any, np.dtype[np.float64]]

LARGEST = 700.0  # local epsilon beyond which its exponential overflows: no bound is given there
_FALL = 32.0  # natural logarithms by which the mass has fallen where a sum ends; truncation lowers a lower bound
_BEFORE = (0.3, 8.0)  # standard deviations, and counts, by which the counts begin before the guessed threshold
_ENDS = 1e-8  # share of the mass at the threshold that the last count may have before other counts are taken
_PASSES = 10  # guesses of the threshold, mostly one; affects only tightness
_TRIES = 16  # points tried for the lower end, mostly one or two
_BLOCK = 2**13  # counts processed at once: small arrays stay in the cache, and in memory that is already allocated
_ENOUGH = 1e-10  # of log delta that a lower end may lie beyond the target


class _Setting(NamedTuple):
    """n, local epsilon, r and 1 - r, the mean of the count, its standard deviation, and the slope s of the ratio."""

    size: float
    local: float
    prob: float
    rest: float
    mean: float
    deviation: float
    slope: float


def _setting(num_reports: float, local_epsilon: float) -> _Setting:
    growth = math.exp(local_epsilon)
    prob, rest = 1.0 / (1.0 + growth), growth / (1.0 + growth)
    mean = num_reports * prob
    slope = 2.0 * math.sinh(local_epsilon) / num_reports
    return _Setting(num_reports, local_epsilon, prob, rest, mean, math.sqrt(mean * rest), slope)


class _Side(NamedTuple):
    """Consecutive counts [K] above the mean (`sign` 1) or below it (-1), starting from one of them outwards.

    Attributes:
      log_unit: log of s and of the first count's probability, rounded down.
      mass: probabilities over the first one's, rounded down.
      first: distance of the first count from the mean.
      left: the number of counts beyond it, to n or 0.
    """

    sign: float
    log_unit: float
    mass: Real
    first: float
    left: float


def _side(of: _Setting, sign: float, near: float, far: float) -> _Side | None:
    """Counts further than `near` from the mean, to about `far`; None if there is none.

    The first one's probability has the error of its evaluation and that of r, whose last digit moves it by c - n r.
    From there quotients of neighbours are multiplied: each quotient, of exact integers and of
    r/(1 - r) = e^-local_epsilon, and its product with the one before err by some 8 roundings, 2^-50, so that the
    probability of a count j steps away errs by 2^-50 j: twice that is subtracted.
    """
    n = of.size
    k = math.floor(of.mean + near) + 1.0 if sign > 0 else math.ceil(of.mean - near) - 1.0
    if not 0.0 <= k <= n:
        return None
    left = n - k if sign > 0 else k
    num = int(min(math.ceil(max(far - near, 0.0)), left))
    mass, carried = np.ones(num + 1), 1.0
    for low in range(0, num, _BLOCK):
        high = min(low + _BLOCK, num)
        steps = np.arange(float(high - low))
        quotients = (left - low - steps) / (n - left + low + 1.0 + steps)
        quotients *= math.exp(-sign * of.local)
        shares = np.cumprod(quotients) * carried
        mass[low + 1 : high + 1] = shares * (1.0 - 2.0**-49 * np.arange(low + 3.0, high + 2.5))
        carried = float(shares[-1])
    at: Any = tuple(np.array([x]) for x in (k, n, of.prob, of.rest))
    log_mass: Any = log_binomial_pmf(*at)[0]
    first = float(log_mass - pmf_rounding(log_mass)) - 2.0**-49 * (9.0 + abs(k - of.mean))
    return _Side(sign, first + float(log_down(math.log(of.slope), 16)), mass, sign * (k - of.mean), left)


def _distance(of: _Setting, sign: float, epsilon: float) -> float:
    return sign * math.expm1(sign * epsilon) / of.slope


def _epsilon(of: _Setting, sign: float, distance: float) -> float:
    """The inverse of `_distance`, below the local epsilon."""
    found = sign * math.log1p(max(sign * of.slope * distance, math.expm1(-of.local)))
    return min(found, math.nextafter(of.local, 0.0))


class _Value(NamedTuple):
    """Log delta of one direction, rounded down, and its approximate slope in epsilon."""

    log_delta: float
    slope: float


_NOTHING = _Value(-math.inf, -1.0)


def _value(of: _Setting, side: _Side | None, epsilon: float) -> _Value:
    """The value at `epsilon`, a sum of positive terms over the counts beyond the threshold.

    Distances of thresholds err by the errors of exp, expm1 and sinh, some 15 roundings: 2^-47 is used. The difference
    of the two epsilons is exact where they are near each other, and errs by one rounding elsewhere.
    """
    if side is None or not 0.0 <= epsilon < of.local:
        return _NOTHING
    distance = _distance(of, side.sign, epsilon)
    to_last = math.exp(epsilon if side.sign > 0 else -of.local) * math.expm1(of.local - epsilon) / of.slope
    by_last, by_mean = 2.0**-47 * to_last, 2.0**-47 * distance + 2.0**-50 * of.mean
    last, mean = to_last - by_last, side.first - distance - by_mean  # and the index is a gap
    start = max(math.floor(side.left - last if by_last < by_mean else -mean), 0)
    total, above = 0.0, 0.0
    for low in range(start, len(side.mass), _BLOCK):
        mass = side.mass[low : low + _BLOCK]
        index = np.arange(low, low + len(mass), dtype=np.float64)
        gap = last - (side.left - index) if by_last < by_mean else index + mean
        inside = int(np.searchsorted(gap[:4], 0.0, side="right")) if low == start else 0
        gap, mass = gap[inside:], mass[inside:]
        total, above = total + float((mass * gap).sum()), above + float(mass.sum())
    if not total > 0.0:
        return _NOTHING
    log_delta = float(log_down(math.log(total), 64.0 + len(side.mass) - start)) + side.log_unit
    log_delta = float(log_down(log_delta + (0.0 if side.sign > 0 else epsilon), 4))
    # d delta / d eps is -e^eps P_0[above] or delta - P_0[below]
    drop = above / (total * of.slope)
    return _Value(min(log_delta, 0.0), -math.exp(epsilon) * drop if side.sign > 0 else 1.0 - math.exp(-epsilon) * drop)


def _is_in_range(num_reports: float, local_epsilon: float) -> bool:
    return num_reports >= 1.0 and 0.0 < local_epsilon <= LARGEST


def response_log_delta(epsilon: float, num_reports: float, local_epsilon: float) -> float:
    """A float, log delta at `epsilon` >= 0, the larger of both directions, rounded down; -inf outside the domain."""
    if not (_is_in_range(num_reports, local_epsilon) and 0.0 <= epsilon < local_epsilon):
        return -math.inf
    of = _setting(num_reports, local_epsilon)
    found = -math.inf
    for sign in (1.0, -1.0):
        near = _distance(of, sign, epsilon)
        far = math.hypot(near, math.sqrt(2.0 * _FALL) * of.deviation) + _FALL
        found = max(found, _value(of, _side(of, sign, near, far), epsilon).log_delta)
    return found


def response_epsilon(log_delta: float, num_reports: float, local_epsilon: float) -> float:
    """A float, the largest epsilon found at which delta in some direction is at least exp(`log_delta`); 0 for none."""
    if not (_is_in_range(num_reports, local_epsilon) and log_delta < 0.0):
        return 0.0
    of = _setting(num_reports, local_epsilon)
    at: Any = (np.array([log_delta]), np.array([of.slope * of.deviation]))
    guess = min(float(rough_gaussian_epsilon(*at)[0]), 0.99 * local_epsilon)
    with np.errstate(under="ignore"):
        return max(_one_direction(of, sign, log_delta, guess) for sign in (1.0, -1.0))


def _one_direction(of: _Setting, sign: float, log_delta: float, guess: float) -> float:
    """The largest epsilon found at which delta in one direction is at least exp(`log_delta`); 0 for none."""
    distance = _distance(of, sign, guess)
    for turn in range(_PASSES):
        near = max(distance - _BEFORE[0] * of.deviation - _BEFORE[1], 0.0)
        far = math.hypot(distance, math.sqrt(2.0 * _FALL) * of.deviation) + _FALL * 2.0**turn
        side = _side(of, sign, near, far)
        if side is None:
            return 0.0
        distance, settled = _threshold(of, side, log_delta)
        if settled or (distance == 0.0 and near == 0.0):
            break
    epsilon = _epsilon(of, sign, distance)
    best, back = 0.0, 2.0**-52 * epsilon
    for _ in range(_TRIES):
        found = _value(of, side, epsilon)
        excess = found.log_delta - log_delta
        move = excess / max(-found.slope, 1e-300)
        if excess >= 0.0:
            best = max(best, epsilon)
            if excess <= _ENOUGH or back > 2.0**-50 * epsilon:
                break
            epsilon = min(epsilon + (1.0 - 1e-3) * move, math.nextafter(of.local, 0.0))
        else:
            back = max(4.0 * back, -1.01 * move if math.isfinite(move) else 0.0)
            epsilon -= back
    return best


def _threshold(of: _Setting, side: _Side, log_delta: float) -> tuple[float, bool]:
    """The approximate distance d at which delta is exp(`log_delta`), and whether the counts of `side` suffice for it.

    delta e^-log_unit = C + (x - d) A above, divided by 1 - s d below, with x the first count beyond d, A the mass from
    there on, and C the sum of such masses of all counts beyond x.
    """
    margin = 2.0**-53 * (256.0 + 1.1 * len(side.mass))  # the rounding down where this is certified
    wanted = math.exp(min(log_delta + margin - side.log_unit, 700.0))
    slope = of.slope if side.sign < 0 else 0.0

    def target(at: int) -> float:
        return wanted * (1.0 - slope * (side.first + at))

    mass, a_beyond, c_beyond = side.mass, 0.0, 0.0  # A and C of the counts beyond the block, from the last one inwards
    for high in range(len(mass), 0, -_BLOCK):
        low = max(high - _BLOCK, 0)
        a = a_beyond + np.cumsum(mass[low:high][::-1])
        c = c_beyond + np.concatenate([[0.0], np.cumsum(a[:-1])])
        if low == 0 or c[-1] > target(low):
            break
        a_beyond, c_beyond = float(a[-1]), float(c[-1] + a[-1])
    a, c = np.append(a[::-1], a_beyond), np.append(c[::-1], c_beyond - a_beyond)
    at = bisect_whole(lambda i: bool(c[i - low] <= target(i)), min(high, len(mass) - 1), low - 1)
    x = side.first + at
    rate = float(a[at - low]) - slope * wanted
    before = (target(at) - float(c[at - low])) / rate if rate > 0.0 else math.inf
    inside = at > 0 or before <= 1.0
    ends = len(mass) > side.left or mass[-1] <= _ENDS * mass[at]
    distance = max(x - before, 0.0)
    return max(distance - 2.0**-47 * distance - 2.0**-50 * of.mean, 0.0), bool(inside and ends)
