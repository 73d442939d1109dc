"""Shuffled check-ins over the clones pair, one setting on the host: both ends of its profile by sums over every count.

With m - 1 = c ~ Bin(n - 1, q p) clones, r ~ Bin(n - m, q'), q' = q (1 - p)/(1 - q p), other reports, and x the sum of m
fair signs, the profile of CI-S23 is

    delta = q E[(1/m) E (2 s x - (n t/(m + r)) (m - s x))_+] = q E[(2 s x/m) V_m(n t (m - s x)/(2 s x)); x > 0],

s = tanh(local/2), t = e^eps - 1, V_m(y) = E(1 - y/(m + r))_+ = P[m + r >= y] - y E[1/(m + r); m + r >= y]. Tables of
both tails of r, with one row for each c, are used for every epsilon: a point of the profile is two sums over the pairs
of m and x. The part outside the windows of c, r and x is bounded, and so is rounding (docs/numerics/clones.md,
"Check-ins").
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.check_in._line import NOTHING, LinePoint, LineSetting
from jaxacct.special import log_down, log_up

_TOGETHER = 2**15  # entries of the tables that are computed together: memory only
_MOST_REACH = 30.0  # standard deviations: beyond, shares of a window may leave the range of doubles
_SHARE = 1e-3  # of the weight beyond the reach: a pair of counts with less is left out


class CloneTable(NamedTuple):
    """A setting's sums over everything but epsilon.

    For each pair [N] of m and x > 0: its `weight` q P[c] P[x] 2 s x/m, the `ratio` (m - s x)/(2 s x), and the place in
    the tables of the tails of r from 1 + `last` - m on, with one entry for each count downwards. `tail` and `inverse`,
    flat, hold the two sums of V, in rows of `size` + 1 entries. The relative error of each is at most `error`, which
    includes the mass to the left of the windows of r; `outside` is an upper bound on everything else left out.
    """

    num_users: float
    weight: NDArray[Any]
    ratio: NDArray[Any]
    last: NDArray[Any]
    place: NDArray[Any]
    tail: NDArray[Any]
    inverse: NDArray[Any]
    size: int
    error: float
    outside: float


class _Window(NamedTuple):
    """For laws Bin(size, .) [L]: the last count included, and the number of counts, the same for all laws."""

    size: NDArray[Any]
    last: NDArray[Any]
    num: int


def _window(size: NDArray[Any], odds: float, reach: float) -> _Window:
    """Counts up to a little more than `reach` standard deviations from the mean; `odds` are p/(1 - p)."""
    mean = size / (1.0 + 1.0 / odds) if odds > 0.0 else 0.0 * size
    more = reach * (np.sqrt(mean / (1.0 + odds)) + 0.25 * reach) + 4.0
    last = np.minimum(np.ceil(mean + more), size)
    return _Window(size, last, int(np.max(last - np.maximum(np.floor(mean - more + 0.2 * reach**2), 0.0))) + 1)


def _shares(of: _Window, odds: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(counts downwards from the last, their probabilities over that of the last, each [L, num], outside [L], [L]).

    The latter bound the mass to the left and right of the window, over that inside: quotients of neighbours decrease.
    """
    size, last = of.size[:, None], of.last[:, None]
    counts = last - np.arange(of.num)
    shares = np.ones_like(counts)
    if of.num > 1:
        before = np.maximum(counts[:, :-1], 0.0) / ((size + 1.0 - counts[:, :-1]) * odds)
        np.cumprod(before, axis=1, out=shares[:, 1:])
    first = np.maximum(counts[:, -1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(first > 0.0, first / ((of.size + 1.0 - first) * odds), 0.0)
        right = np.where(of.last < of.size, (of.size - of.last) / (of.last + 1.0) * odds, 0.0)
    total = shares.sum(axis=1)
    beyond = [
        x * np.where(y < 1.0, y / np.maximum(1.0 - y, 1e-300), np.inf) / total
        for x, y in ((shares[:, -1], left), (shares[:, 0], right))
    ]
    return counts, shares, *beyond


def _tails(m: NDArray[Any], of: _Window, odds: float) -> tuple[NDArray[Any], NDArray[Any], float, float]:
    """The two tails of r, each [L, num + 1], and upper bounds on the mass to the left and right of the windows."""
    tail, inverse = np.zeros((len(m), of.num + 1)), np.zeros((len(m), of.num + 1))
    left = right = 0.0
    rows = max(1, _TOGETHER // of.num)
    for i in range(0, len(m), rows):
        some = slice(i, i + rows)
        counts, shares, below, above = _shares(_Window(of.size[some], of.last[some], of.num), odds)
        np.cumsum(shares, axis=1, out=tail[some, 1:])
        counts += m[some, None]
        shares /= np.maximum(counts, 1.0)
        np.cumsum(shares, axis=1, out=inverse[some, 1:])
        total = tail[some, -1:].copy()
        tail[some] /= total
        inverse[some] /= total
        left, right = max(left, float(below.max())), max(right, float(above.max()))
    return tail, inverse, left, right


def _signs(m: NDArray[Any], reach: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """(x > 0, its probability), each [L, J], up to `reach` standard deviations of the sum of m fair signs.

    They are computed from quotients of neighbours and the total, which is 1.
    """
    odd = m % 2.0
    num = int(np.max(np.minimum(m, reach * np.sqrt(m) + 2.0)) // 2) + 1
    x = 2.0 - odd[:, None] + 2.0 * np.arange(num)
    half = 0.5 * (m[:, None] + x)  # the number of positive signs among m
    shares = np.empty_like(x)
    shares[:, 0] = np.where(odd > 0.0, 1.0, m / (m + 2.0))
    np.cumprod(np.maximum(m[:, None] - half[:, :-1], 0.0) / (half[:, :-1] + 1.0), axis=1, out=shares[:, 1:])
    shares[:, 1:] *= shares[:, :1]
    total = 2.0 * shares.sum(axis=1) + (1.0 - odd)
    return x, shares / total[:, None]


def _odds(of: LineSetting) -> tuple[float, float]:
    """The odds of c and of r, infinite where all the others check in."""
    _, q, p, _ = of
    return q * p / ((1.0 - q) + q * (1.0 - p)), q * (1.0 - p) / (1.0 - q) if q < 1.0 else math.inf


def _windows(of: LineSetting, reach: float) -> tuple[_Window, _Window]:
    """The windows of c, and of r for each c."""
    rest = of.num_users - 1.0
    of_clones, of_others = _odds(of)
    clones = _window(np.array([rest]), of_clones, reach)
    left = rest - np.maximum(clones.last - np.arange(clones.num), 0.0)
    return clones, _window(left, of_others, reach) if of_others < math.inf else _Window(left, left, 1)


def is_in_range(of: LineSetting, reach: float) -> bool:
    """A bool: whether tables are made for this setting."""
    return 0.0 < of.prob <= 1.0 and 0.0 < of.clone_prob < 1.0 and of.local_epsilon > 0.0 and reach <= _MOST_REACH


def table_size(of: LineSetting, reach: float) -> float:
    """A float, the approximate number of entries of the tables."""
    mean = of.num_users * of.prob
    both = (mean * of.clone_prob, mean * (1.0 - of.clone_prob) * (1.0 - of.prob))
    clones, others = (2.0 * reach * math.sqrt(x) + 0.3 * reach**2 for x in both)
    signs = 0.5 * reach * math.sqrt(both[0])
    return min(clones, of.num_users) * max(min(others, of.num_users), signs)


@functools.lru_cache(maxsize=2)  # both ends of an answer, and the one before
@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # shares out of the doubles' range: no bound then
def clone_table(of: LineSetting, reach: float) -> CloneTable:
    """The sums [N] over counts to `reach` standard deviations from their means, as one tuple."""
    n, q, _, local = of
    s, rest = math.tanh(0.5 * local), 2.0 / (math.exp(local) + 1.0)
    clones, others = _windows(of, reach)
    counts, shares, *beyond = _shares(clones, _odds(of)[0])
    m, mass = np.maximum(counts[0], 0.0) + 1.0, shares[0] / shares[0].sum()
    tail, inverse, left, right = _tails(m, others, _odds(of)[1])
    x, signs = _signs(m, reach)
    weight = (2.0 * q * s) * mass[:, None] * signs * (x / m[:, None])
    far = 2.0 * math.exp(-0.5 * reach * reach)  # of the signs, by Hoeffding's inequality
    kept = weight > _SHARE * q * far
    left_out = float(weight[~kept].sum())
    m = np.broadcast_to(m[:, None], x.shape)[kept]
    x = x[kept]
    row = np.nonzero(kept)[0]
    size = others.num
    clones_left, clones_right = (float(y[0]) for y in beyond)
    relative = left + right + clones_left + clones_right + 2.0 * far
    return CloneTable(
        num_users=n,
        weight=weight[kept],
        ratio=((m - x) + rest * x) / (2.0 * s * x),
        last=others.last[row] + m + 1.0,
        place=row * (size + 1.0),
        tail=tail.reshape(-1),
        inverse=inverse.reshape(-1),
        size=size,
        error=(size + signs.shape[1] + clones.num + 64.0) * 2.0**-48 + relative,
        outside=(left_out + q * (right + clones_left + clones_right + far)) * (1.0 + 1e-9),
    )


@np.errstate(over="ignore", invalid="ignore")
def table_point(epsilon: float, table: CloneTable) -> LinePoint:
    """Lower and upper bounds on log delta, floats, at `epsilon` >= 0, and its slope: the module's formula.

    V is decreasing, and P[m + r >= y'] - y E[1/(m + r); m + r >= y'] is at most V(y) for any y': with y' a little below
    y, two sums give both ends.
    """
    t = math.expm1(epsilon)
    at = table.ratio * (table.num_users * t * (1.0 - 2.0**-46))
    near = np.clip(table.last - np.ceil(at), 0.0, table.size)
    place: Any = (table.place + near).astype(np.int64)
    above = float(np.sum(table.weight * table.tail[place]))
    rate = float(np.sum(table.weight * table.ratio * table.inverse[place])) * table.num_users
    value, error = above - t * rate, table.error * (above + t * rate)
    upper = value + error + table.outside
    lower = value - error - 2.0**-44 * t * rate
    if not 0.0 < upper < math.inf:
        return NOTHING
    log_lower = float(log_down(math.log(lower), 8)) if lower > 0.0 else -math.inf
    return LinePoint(log_lower, min(float(log_up(math.log(upper), 8)), 0.0), -(1.0 + t) * rate / upper)
