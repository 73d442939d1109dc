"""Shuffled check-ins over the clones pair, one setting on the host: upper and lower bounds on its profile.

The profile of CI-S23 is sum_k w_k (k/n) D_k(log(1 + (n/k) t)), w = Bin(n, q), t = e^eps - 1, D_k the clones pair's.
With w_k k/n = q P[1 + Bin(n - 1, q) = k], and c ~ Bin(k - 1, p) clones among k reports, it is q E H(1 + c, 1 + c + r),

    c ~ Bin(n - 1, q p),   r given c ~ Bin(n - 1 - c, q'),   q' = q (1 - p)/(1 - q p),
    H(m, k) = h_m(log(1 + (n/k) t)) = E[(L_m - 1 - (n/k) t)_+],

where h_m is the pair's divergence given m, of `_clones`. H decreases in m, increases in k, and is convex in 1/k; c + r
grows with c (docs/numerics/clones.md, "Check-ins").
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.check_in._blocks import BlockLayout, binomial_blocks
from jaxacct.divergence.check_in._clones import clones_of_counts
from jaxacct.divergence.check_in._others import groups
from jaxacct.special import ULP, down, log_down, log_sum_exp, log_up, up
from jaxacct.special._binomial_blocks import binomial_blocks_below

_CLONES_WIDTH, _CLONES_SDS = 5.5e-4, 0.06  # widest blocks of clones, relatively and in standard deviations
_OTHERS_WIDTH, _OTHERS_SDS = 1e-2, 0.1  # of reports that are not clones; their masses are known block by block, ..
_JOINED = 4  # .. and at most this many blocks share one value of H
_EXACT_SDS = 160.0  # counts: standard deviation of the reports that are not clones up to which each count is summed
_FEW_ROWS = 150.0  # numbers of clones; with fewer of them, counts are taken closer together
_ALL = 64  # blocks on a geometric grid of all numbers of clones, where those of hardly any weight are included too
_FEWEST, _MOST = 64, 1500  # blocks about a mean
_SINH = 19.7  # (blocks about the mean) times (width of the central ones in standard deviations), of `binomial_blocks`
_REACH = 8.5  # standard deviations about a mean that are summed from below
_AIM, _MAX_STEPS = 5e-7, 60  # how far above the target a root for the lower end is sought, in log delta; most steps
_LIGHT = -120.0  # log of the weight up to which delta <= 1 is used in the upper bound
_NEGLIGIBLE = -60.0  # log of the weight up to which nothing is summed in the lower bound
_BELOW = 30.0  # the same, below the log of a known delta: 1e-9 of it for a thousand cells
COARSE = 10.0  # factor of the widths of the cells that only decide whether a setting is worth more effort


class PairCells(NamedTuple):
    """Pairs of blocks, each [N]: log weight, m and k; and the log of the weight of all that is not among them.

    The sum of exp(log_weight) H(m, k) bounds the profile; an upper bound also includes the weight of the rest.
    """

    log_weight: NDArray[Any]
    m: NDArray[Any]
    k: NDArray[Any]
    log_rest: float


def _rates(prob: float, clone_prob: float, sign: float) -> tuple[float, float]:
    """(q p, q') for a probability of a clone at most (`sign` 1: for an upper bound) or at least (-1) the given one."""
    if sign > 0:
        clones = max(float(down(prob * clone_prob, 4)), 0.0)
        return clones, min(float(up((prob - clones) / (1.0 - clones), 8)), 1.0) if clones < 1.0 else 0.0
    clones = min(float(up(prob * clone_prob, 2**6)), prob)
    return clones, max(float(down((prob - clones) / (1.0 - clones), 8)), 0.0) if clones < 1.0 else 0.0


def _step(mean: float, scale: float, width: float, sds: float) -> float:
    """Width of a central block, in standard deviations."""
    return min(sds, max(width * mean, 1.0) / scale)


def _step_of_others(num_reports: float, scale: float, factor: float) -> float:
    """`_step` of the reports that are not clones, whose standard deviation is `scale`."""
    return _step(num_reports, scale, factor * _OTHERS_WIDTH, min(factor, 4.0) * _OTHERS_SDS)


def _upper_blocks(size: Any, prob: float, central: int, geometric: int) -> tuple[NDArray[Any], ...]:
    """(first, last, log of the mass, an upper bound on the mean's share of the way), each [B, L]; 0 is a block."""
    some = np.maximum(size, 1.0)
    found = binomial_blocks(some, 0.0 * size + prob, BlockLayout(2, geometric, central))
    none = np.where(size > 0, size * np.log1p(-min(prob, 1.0 - 1e-16)) if prob < 1.0 else -np.inf, 0.0)
    none = np.maximum(none, -1e300) * (1.0 - 2.0**-50) + 2.0**-50  # -inf is as good as -1e300
    mass = log_up(np.where(size > 0, np.logaddexp(found.log_low, found.log_high), -np.inf), 16)
    share = np.exp(np.minimum(found.log_high - np.maximum(mass, -1e4), 0.0))
    zero = np.zeros_like(size)[None]
    return (
        np.concatenate([zero, found.first]),
        np.concatenate([zero, found.last]),
        np.concatenate([none[None], mass]),
        np.concatenate([zero, np.minimum(share + 2.0**-40, 1.0)]),
    )


def _joined(num: int, log_mass: Any, value: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(log of the mass, mean of `value`) of each `num` neighbours together, from [B, L] to [B / num, L], to 2^-48."""
    missing = -len(log_mass) % num
    mass = np.pad(log_mass, ((0, missing), (0, 0)), constant_values=-np.inf).reshape(-1, num, log_mass.shape[1])
    top = np.maximum(mass.max(axis=1), -1e300)
    shares = np.exp(mass - top[:, None])
    total = np.maximum(shares.sum(axis=1), 1e-300)
    values = np.pad(value, ((0, missing), (0, 0)), mode="edge").reshape(mass.shape)
    return np.where(top > -1e300, top + np.log(total), -np.inf), (shares * values).sum(axis=1) / total


def _ends(num: int, low: NDArray[Any], high: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first of `low` and the last of `high` of each `num` neighbours, each [B / num, L]."""
    return low[::num], np.concatenate([high[num - 1 :: num], high[-1:]])[: len(low[::num])]


def _num_joined(num_reports: float, factor: float, step: float, scale: float) -> int:
    """The number of blocks of `step` standard deviations that share one value of H, no wider than allowed together."""
    return int(np.clip(np.floor(factor * _OTHERS_WIDTH * num_reports / max(step * scale, 1.0)), 1, _JOINED))


def _sums_all(prob: float, scale: float, factor: float) -> bool:
    """Whether every count of the reports that are not clones is summed."""
    return 0.0 < prob < 1.0 and scale <= _EXACT_SDS and factor < COARSE


def _num_counts(num_reports: float, scale: float, factor: float, num_rows: int) -> int:
    """The number of counts of non-clones that share one value of H, where every count is summed; fewer in few rows."""
    step = _step_of_others(num_reports, scale, factor)
    size = min(step * scale, max(1.0, math.floor(step * scale))) * _num_joined(num_reports, factor, step, scale)
    return max(1, int(size * min(1.0, num_rows / _FEW_ROWS)))


def upper_cells(
    num_users: float,
    prob: float,
    clone_prob: float,
    factor: float = 1.0,
    about: float = -np.inf,
    light: float = _LIGHT,
) -> PairCells:
    """Cells [N] whose sum is an upper bound on the profile; blocks are wider by `factor`.

    Pairs with a weight far below exp(`about`), a delta of interest, or below exp(`light`), belong to the rest, where
    delta <= 1 is used. A block of c is represented by its first count for m and by its last for k. On a block of r the
    chord in 1/k is used, between the ends, with weights at the mean: 1/k is convex.
    """
    rest = num_users - 1.0
    if rest == 0.0:
        return PairCells(log_up(np.log([prob]), 8), np.ones(1), np.ones(1), -np.inf)
    rate, other = _rates(prob, clone_prob, 1.0)
    mean, scale = rest * rate, np.sqrt(rest * rate * (1.0 - rate)) + 1.0
    width = factor * _CLONES_WIDTH / (0.5 + clone_prob)
    central = int(np.clip(_SINH / _step(mean, scale, width, factor * _CLONES_SDS), _FEWEST, _MOST))
    first, last, mass, _ = _upper_blocks(np.array([rest]), rate, central, 6 if light > -np.inf else _ALL)
    rows = mass[:, 0] > -np.inf
    first, last, mass = (x[rows, 0] for x in (first, last, mass))
    least = max(light, about - _BELOW)
    light = mass[mass <= least]
    first, last, mass = (x[mass > least] for x in (first, last, mass))
    scale = np.sqrt(rest * (1.0 - rate) * other * (1.0 - other)) + 1.0
    of_others = _upper_of_every_count if _sums_all(other, scale, factor) and least > -np.inf else _upper_of_blocks
    weights, at, left_out = of_others(rest, last, other, rest * prob + 1.0, scale, factor, least)
    both = log_up(mass + weights + np.log(prob), 512)
    kept = both > least
    m = np.broadcast_to(first + 1.0, both.shape)
    others: Any = np.concatenate([light, both[~kept], mass + left_out, [-1e300]])
    return PairCells(both[kept], m[kept], at[kept], float(log_up(log_sum_exp(others), 512)))


def _upper_of_every_count(
    rest: float, last: NDArray[Any], other: float, reports: float, scale: float, factor: float, least: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For the non-clones, given `last` clones: (log weights, k), each [G, L], and the log of the mass left out [L].

    H is convex in 1/k, so it is at most its chords between every `size`-th count: the mass between two of them is
    divided so that the mean of 1/k is kept.
    """
    # the chords of blocks of that many counts, both ends of each, would be wider
    size = max(1, int(0.8 * (_num_counts(reports, scale, factor, len(last)) - 1)))
    found = groups(rest - last, other, 1.0 + last, size, math.sqrt(-2.0 * least))
    low, high = 1.0 + last + found.first, 1.0 + last + found.first + size
    # the share of the far end, where H is larger; the mean of 1/k may be less by its error
    far = (1.0 / low - found.inverse) + (2.0 * found.log_error + 2.0**-50) * found.inverse
    far = np.clip(far / (1.0 / low - 1.0 / high), 0.0, 1.0) * (size > 1)
    mass = found.log_mass + found.log_error
    with np.errstate(divide="ignore"):
        ends = mass + np.log1p(-far), mass + np.log(far)
    none = np.full_like(mass[:1], -np.inf)
    together = np.logaddexp(np.concatenate([ends[0], none]), np.concatenate([none, ends[1]])) + 2.0**-48
    return together, np.concatenate([low, high[-1:]]), found.log_outside


def _upper_of_blocks(
    rest: float, last: NDArray[Any], other: float, reports: float, scale: float, factor: float, least: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """`_upper_of_every_count` by blocks whose laws are geometric, both ends of each; nothing is left out."""
    left = rest - last
    step = _step_of_others(reports, scale, factor)
    central = int(np.clip(_SINH / step, _FEWEST, _MOST))
    low, high, inner, share = _upper_blocks(left, other, central, 6 if least > -np.inf else _ALL)
    num = _num_joined(reports, factor, step, scale)
    inner, centre = _joined(num, inner, low + share * (high - low))
    low, high = _ends(num, low, high)
    share = np.clip((centre * (1.0 + 2.0**-46) - low) / np.maximum(high - low, 1.0) + 2.0**-40, 0.0, 1.0)
    at = [1.0 + last + x for x in (low, high)]
    middle = at[0] + share * (at[1] - at[0])
    near = np.where(at[1] > at[0], (1.0 - share) * at[0] / middle, 1.0)  # weight of the first end, by 1/k
    near = np.maximum(near - 2.0**-40, 0.0) * (at[1] > at[0]) + (at[1] <= at[0])
    with np.errstate(divide="ignore"):
        weights = np.concatenate([inner + np.log(near), inner + np.log1p(-near)])
    return weights, np.concatenate(at), np.full(len(last), -np.inf)


def lower_cells(
    num_users: float, prob: float, clone_prob: float, factor: float = 1.0, about: float = -np.inf
) -> PairCells:
    """Cells [N] whose sum is a lower bound on the profile; blocks are wider by `factor`.

    Pairs with a weight far below exp(`about`), a delta of interest, are left out. A block of c is represented by its
    last count for m and by its first for k. On a block of r, H at a mean of 1/k is used: H is convex in it.
    """
    rest = num_users - 1.0
    if rest == 0.0:
        return PairCells(log_down(np.log([prob]), 8), np.ones(1), np.ones(1), -np.inf)
    rate, other = _rates(prob, clone_prob, -1.0)
    mean, scale = rest * rate, np.sqrt(rest * rate * (1.0 - rate)) + 1.0
    width = factor * _CLONES_WIDTH / (0.5 + clone_prob)
    stride = max(np.floor(_step(mean, scale, width, factor * _CLONES_SDS) * scale), 1.0)
    begin = max(np.floor(mean - _REACH * scale - 4.0), 0.0)
    window = int(min(np.ceil((mean + _REACH * scale + 24.0 - begin) / stride), rest - begin)) + 1
    arrays: Any = (np.array([x]) for x in (rest, rate, 1.0 - rate, begin, stride))
    mass, _ = binomial_blocks_below(*arrays, sign=1.0, window=window)
    first = begin + stride * np.arange(window, dtype=np.float64)
    least = max(_NEGLIGIBLE, about - _BELOW)
    rows = mass[:, 0] > least
    first, mass = first[rows], mass[rows, 0]
    last = np.minimum(first + stride - 1.0, rest)
    scale = np.sqrt(rest * (1.0 - rate) * other * (1.0 - other)) + 1.0
    of_others = _lower_of_every_count if _sums_all(other, scale, factor) else _lower_of_blocks
    together, k = of_others(rest, first, other, rest * prob + 1.0, scale, factor)
    weights = log_down(mass + together + np.log(prob), 512)
    kept = weights > least
    return PairCells(weights[kept], np.broadcast_to(last + 1.0, k.shape)[kept], k[kept], -np.inf)


def _lower_of_every_count(
    rest: float, first: NDArray[Any], other: float, reports: float, scale: float, factor: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(log weights, k), each [G, L], of the non-clones, given `first` clones; the k belong to means of 1/k."""
    size = _num_counts(reports, scale, factor, len(first))
    found = groups(rest - first, other, 1.0 + first, size, _REACH)
    inverse = np.maximum(found.inverse * (1.0 + 2.0 * found.log_error + 2.0**-50), 1e-300)  # 0 where no count is
    k = np.minimum(1.0 / inverse, 1.0 + first + found.first + size) * (1.0 - 2.0**-46)
    return found.log_mass - found.log_error, k


def _lower_of_blocks(
    rest: float, first: NDArray[Any], other: float, reports: float, scale: float, factor: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """`_lower_of_every_count` by blocks whose laws are geometric."""
    left = rest - first
    centre = left * other
    step = _step_of_others(reports, scale, factor)
    num = _num_joined(reports, factor, step, scale)
    scales = np.sqrt(left * other * (1.0 - other)) + 1.0
    stride_of = np.maximum(np.floor(step * scales), 1.0)
    start = np.maximum(np.floor(centre - _REACH * scales - 4.0), 0.0)
    window = int(np.max(np.minimum(np.ceil((centre + _REACH * scales + 24.0 - start) / stride_of), left - start))) + 1
    arrays: Any = (left, np.full_like(left, other), np.full_like(left, 1.0 - other), start, stride_of)
    inner, count = binomial_blocks_below(*arrays, sign=1.0, window=window)
    low = start + stride_of * np.arange(window, dtype=np.float64)[:, None]
    high = low + stride_of - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        span = np.maximum(high - low, 1.0)
        share = np.clip((count - low - 2.0**-50 * count) / span - 1e-12, 0.0, 1.0)
        k0, k1 = 1.0 + first + low, 1.0 + first + high
        together, inverse = _joined(num, inner, (1.0 - share) / k0 + share / k1)
        return together, 1.0 / inverse * (1.0 - 2.0**-46)


def log_profile(
    epsilon: float, num_users: float, local_epsilon: float, cells: PairCells, sign: float
) -> tuple[float, float]:
    """(log delta, its slope), floats, at `epsilon` >= 0: above by upper cells (`sign` 1), below by lower ones (-1).

    The slope only guides searches.
    """
    growth = num_users / cells.k * np.expm1(epsilon) * (1.0 - sign * 2.0**-47)
    some = growth < np.expm1(local_epsilon)
    weight, m, k = (x[some] for x in cells[:3])
    log_pmf, value, tail = clones_of_counts(growth[some], local_epsilon, m, sign)
    logs = weight + log_pmf
    top = float(np.max(logs, initial=cells.log_rest))
    if top == -np.inf:
        return -np.inf, -1.0
    share = np.exp(logs - top)
    if sign < 0:
        value = value * (1.0 - 1e-9 - 2.0**-46 * np.sqrt(m))
    total = float(np.sum(share * value)) + math.exp(cells.log_rest - top)
    if not total > 0.0:
        return -np.inf, -1.0
    log_delta = math.log(total) + top
    # docs/numerics/clones.md, "Sums over clones": 92 (|log T| + log N) and some
    slack = ULP * (2.0**13 + 128.0 * abs(log_delta))
    steep = float(np.sum(share * tail / k)) * num_users
    return min(log_delta + sign * slack, 0.0), -float(np.exp(epsilon)) * steep / total


def highest_above(
    profile: Callable[[float], tuple[float, float]], target: float, high: float, start: float, aim: float = _AIM
) -> float:
    """The largest epsilon found, a float in (0, high], where a falling log delta is above `target`; 0 if there is none.

    `profile` returns log delta and its slope, which only guides the search (if it is NaN, that of the last two points
    is used). The search takes Newton steps inside a bracket, from `start` on, until log delta at the answer is within 2
    `aim` above the target.
    """
    if not high > 0.0:
        return 0.0
    if profile(high)[0] > target:
        return high
    low, top, x = 0.0, high, min(max(start, 1e-6 * high), 0.9 * high)
    before = (0.0, 0.0)
    for _ in range(_MAX_STEPS):
        value, slope = profile(x)
        low, top = (x, top) if value > target else (low, x)
        if 0.0 < value - target <= 2.0 * aim or top - low <= 1e-9 * top or top < 1e-13 * high:
            break
        if math.isnan(slope):  # at first log delta is treated as a multiple of epsilon squared
            slope = (value - before[1]) / (x - before[0]) if before[0] > 0.0 else 2.0 * min(value, -1.0) / x
        before = (x, value) if value > -np.inf else (0.0, 0.0)
        ahead = x - (value - target - aim) / slope if np.isfinite(value) and slope < 0.0 else np.nan
        x = ahead if low < ahead < top else 0.5 * (low + top) if low > 0.0 else 0.25 * top
    return low
