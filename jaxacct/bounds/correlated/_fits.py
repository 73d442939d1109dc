"""Gaussian Markov chains, with white and shared parts, whose inner products are no smaller than those of a run's bins.

Some bins are left out first. Those that stay are evenly spaced around the circle or, once the turn of the bins is
revealed, on an arc whose ends are far apart around the circle. For each such layout the parts are tried on a grid, and
ranked by the second moment of the likelihood ratio. The grid and the ranking affect tightness only: every chain that is
returned was checked to have no smaller inner products.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.bounds.correlated._overlaps import Overlaps
from jaxacct.divergence.correlated._chain import Chain
from jaxacct.special import bisect, rows_times

MOST_BINS = 2**14  # of a line
MOST_AROUND = 32  # bins of a circle, each of whose first variables is walked by itself
_FEW_AROUND = 16  # most bins of a circle that is quick to walk
_WORTH = 0.95  # a larger circle is walked if its second moment is below this share of every other's
_SLACK = 1.0 + 2.0**-28  # of covariances: covers what the moves of a chain, as rounded, may fall short by
_LEAST_RATIO, _MOST_RATIO = 0.01, 0.995  # below, bins hardly overlap; above, the grid of a chain is too fine
_MOST_VARIANCE = 30.0  # of a bin: exponentials, and the width of a grid
_NUM_HALVINGS = 40  # of a bracket of a ratio
_STRIDES = (1, 2, 3)  # places between bins of an arc
_GAPS = (8, 5, 3, 2)  # if all bins overlap: one in so many is left out, between the ends of an arc
_WHITE = np.linspace(0.0, 0.9, 37)  # shares of the variance that is not shared
_SHARED = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the least inner product of the bins that are kept
_MOST_TRIED = 2**21  # numbers of one layout's grid


class BinLayout(NamedTuple):
    """Bins that are kept: `length` of them, whose inner products are at most `needed` [length - 1] at each distance."""

    length: int
    needed: NDArray[Any]
    is_circle: bool


class Fit(NamedTuple):
    """A chain, and the second moment of its likelihood ratio less 1, by which it is ranked."""

    moment: float
    chain: Chain


def chains(found: Overlaps, squared_noise: float) -> tuple[Chain, ...]:
    """A tuple of the chains (class `Chain`) worth trying: a line of each stride and a small circle, or a large one."""
    t, around = len(found.largest), found.around
    beyond = np.maximum.accumulate(around[::-1])[::-1] / squared_noise * _SLACK
    variance = float(beyond[0])
    if t == 1 or beyond[1] == 0.0 or variance > _MOST_VARIANCE:
        return ()
    around_all = [fit for layout in _circles(t, beyond) if (fit := _fitted(variance, layout))]
    best = [fit for stride in _STRIDES if (fit := _least(variance, _arcs(t, beyond, stride)))]
    best += sorted(fit for fit in around_all if fit.chain.length <= _FEW_AROUND)[:1]
    large = min((fit for fit in around_all if fit.chain.length > _FEW_AROUND), default=None)
    if large is not None and all(large.moment < _WORTH * fit.moment for fit in best):
        return (large.chain,)
    return tuple(fit.chain for fit in best)


def _least(variance: float, layouts: Iterator[BinLayout]) -> Fit | None:
    return min((fit for layout in layouts if (fit := _fitted(variance, layout))), default=None)


def _circles(t: int, beyond: NDArray[Any]) -> Iterator[BinLayout]:
    for length in sorted({t // stride for stride in range(-(-t // MOST_AROUND), t // 3 + 1)}):
        places, stride = np.arange(1, length), t // length
        yield BinLayout(length, beyond[np.minimum(stride * np.minimum(places, length - places), t // 2)], True)


def _arcs(t: int, beyond: NDArray[Any], stride: int) -> Iterator[BinLayout]:
    free = np.flatnonzero(beyond == 0.0)
    for gap in {int(free[0])} if len(free) else {-(-t // share) for share in _GAPS}:
        length = (t - gap) // stride + 1
        if 2 <= length <= MOST_BINS:
            places = stride * np.arange(1, length)
            yield BinLayout(length, beyond[np.minimum(places, t - places)], False)


def _shape(ratio: Any, length: int, *, is_circle: bool) -> Any:
    """Correlations [.., length - 1] of a chain at each distance, of ratios [..]."""
    far, ratio = np.arange(1, length), np.asarray(ratio)[..., None]
    shares = ratio**far
    return (shares + ratio ** (length - far)) / (1.0 + ratio**length) if is_circle else shares


def _fitted(variance: float, layout: BinLayout) -> Fit | None:
    """The chain of the least second moment, of those tried, whose inner products are at least those needed."""
    length, needed, is_circle = layout
    least = float(needed.min())
    shared, white = (x.reshape(-1) for x in np.meshgrid(sorted({s * least for s in _SHARED}), _WHITE, indexing="ij"))
    if len(white) * length > _MOST_TRIED:
        shared, white = shared[::4], white[::4]
    own = (variance - shared) * (1.0 - white)
    kept = np.flatnonzero(np.max(needed) - shared < own)
    shared, own = shared[kept], own[kept]
    if not len(own):
        return None
    with np.errstate(divide="ignore"):
        excess = np.maximum(needed - shared[:, None], 0.0) / own[:, None]
        ratio = np.max(np.exp(np.log(excess) / np.arange(1, length)), axis=1)
    if is_circle:  # what a line needs is enough, and about right
        ratio = _around(excess, ratio, length)
    inside = (ratio > _LEAST_RATIO) & (ratio < _MOST_RATIO)
    if not inside.any():
        return None
    shared, own, ratio = shared[inside], own[inside], ratio[inside]
    products = np.expm1(shared[:, None] + own[:, None] * _shape(ratio, length, is_circle=is_circle))
    pairs = np.ones(length - 1) if is_circle else 2.0 - 2.0 * np.arange(1, length) / length
    moments = (np.expm1(variance) + rows_times(products, pairs)) / length
    best = int(np.argmin(moments))
    chain = _checked(variance, float(shared[best]), float(own[best]), layout)
    return None if chain is None else Fit(float(moments[best]), chain)


def _around(excess: NDArray[Any], ratio: NDArray[Any], length: int) -> NDArray[Any]:
    """The least ratios [G] of circles that reach `excess` [G, length - 1], from those that lines need."""
    low, high = np.zeros_like(ratio), np.minimum(ratio, 1.0)
    for _ in range(_NUM_HALVINGS // 2):
        middle = 0.5 * (low + high)
        reaches = np.all(_shape(middle, length, is_circle=True) >= excess, axis=1)
        low, high = np.where(reaches, low, middle), np.where(reaches, middle, high)
    return high


def _checked(variance: float, shared: float, own: float, layout: BinLayout) -> Chain | None:
    """The chain with these parts and the least ratio that is checked to be enough, if there is one."""
    length, needed, is_circle = layout
    own = own * _SLACK
    white = variance - shared - own
    white = white * _SLACK if white > 1e-6 * variance else 0.0
    if white == 0.0:
        own = (variance - shared) * _SLACK

    def reaches(ratio: float) -> bool:
        found = shared + own * _shape(ratio, length, is_circle=is_circle)
        return bool(np.all(found >= needed * _SLACK))

    if not reaches(_MOST_RATIO):
        return None
    ratio = bisect(reaches, _MOST_RATIO, 0.0, num_steps=_NUM_HALVINGS)
    return Chain(own, ratio, length, is_circle, white, shared) if ratio > _LEAST_RATIO else None
