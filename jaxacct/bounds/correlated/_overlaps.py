"""Rounded inner products of the bins' means: all that the bounds on balls in bins with correlated noise depend on.

m_b = |C| x_b, where x_b are the steps of bin b: b, b + t, b + 2 t, .. below n. For a Toeplitz C, m_b is m_0 moved down
by b and cut at row n. So inner products depend on the distance of two bins and on the later one, which is cut more.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.bounds._parts import is_scalar
from jaxacct.mechanisms import BallsInBins
from jaxacct.special import down, rows_times, rows_times_rows, up

MOST_COVARIANCES = 2048  # bins of a run whose covariances are all listed
_TINY = 1e-300  # what squares and products that underflow may lose in a sum


class Overlaps(NamedTuple):
    """Bounds on <m_b, m_b'>, float64 [t] and floats, in units of the squared clipping norm.

    Attributes:
      largest: [t], the largest at each distance |b - b'| of two bins, rounded up; at 0 the largest squared norm.
      least_own: a squared norm that every bin reaches, rounded down: of the run itself, whatever the signs of C.
      least: an inner product that every two different bins reach, rounded down; 0 where C has signs.
    """

    largest: NDArray[Any]
    least_own: float
    least: float

    @property
    def around(self) -> NDArray[Any]:
        """float64 [t // 2 + 1], the largest inner product at each distance of two bins on the circle of t bins."""
        t = len(self.largest)
        near = self.largest[: t // 2 + 1]
        return np.maximum(near, np.concatenate([near[:1], self.largest[::-1][: t // 2]]))


def is_known(run: BallsInBins) -> bool:
    """bool: whether a run has concrete scalar fields and is short enough for its overlaps to be computed."""
    return is_scalar(run) and run.is_short


def overlaps(run: BallsInBins) -> Overlaps:
    """The overlaps (class `Overlaps`) of a run with concrete scalar fields."""
    return _overlaps(run.strategy, int(run.num_batches), run.length)


@functools.lru_cache(maxsize=64)
def _overlaps(strategy: tuple[Any, ...], t: int, n: int) -> Overlaps:
    if isinstance(strategy[0], tuple):
        return _of_matrix(np.array(strategy), t, n)
    return _of_coefficients(np.array(strategy)[:n], t, n)


def _of_matrix(matrix: NDArray[Any], t: int, n: int) -> Overlaps:
    means, squares = np.zeros((t, n)), np.square(matrix).sum(axis=0)
    for step in range(n):
        means[step % t] += np.abs(matrix[:, step])
    products = rows_times_rows(means, means)
    ulps = 2 * (n + 2 * (n // t) + 8)  # sums of n, and of the columns of a bin, twice
    largest = np.array([products.diagonal(h).max() for h in range(t)])
    largest = np.where(largest > 0.0, up(largest, ulps) + _TINY, _touching(means, t))
    own = np.array([squares[b::t].sum() for b in range(t)])
    is_signed = bool(np.any(matrix < 0.0))
    norms = own if is_signed else products.diagonal()
    apart = products[~np.eye(t, dtype=bool)]
    least = 0.0 if is_signed or t == 1 else float(apart.min())
    return Overlaps(largest, _less(float(norms.min()), ulps), _less(least, ulps))


def _touching(means: NDArray[Any], t: int) -> NDArray[Any]:
    """[t], what products of 0 may stand for: `_TINY` where two bins at that distance share a row."""
    shares = (means > 0.0).astype(np.float64)
    counts = rows_times_rows(shares, shares)
    return np.array([_TINY if counts.diagonal(h).max() > 0.0 else 0.0 for h in range(t)])


def _of_coefficients(coefficients: NDArray[Any], t: int, n: int) -> Overlaps:
    coefficients = np.trim_zeros(coefficients, "b")
    bands = len(coefficients)
    mean = np.zeros(n)  # that of bin 0
    for first in range(0, n, t):
        kept = min(bands, n - first)
        mean[first : first + kept] += np.abs(coefficients[:kept])
    ulps = 2 * (n + 2 * (n // t) + 8)
    left = max(n - t + 1, 0)  # rows that the last bin keeps
    touching = [h for h in range(min(t, n)) if min(h, t - h) < bands]
    largest, least = np.zeros(t), np.zeros(t)
    for h in touching:
        largest[h] = up(float(rows_times(mean[h:], mean[: n - h])), ulps) + _TINY
        least[h] = rows_times(mean[h : h + left], mean[:left])
    if np.any(coefficients < 0.0):
        squares = np.cumsum(np.square(coefficients))
        rows = np.minimum(bands, n - np.arange(t - 1, n, t))  # of the columns of the last bin
        return Overlaps(largest, _less(float(squares[rows - 1].sum()), ulps), 0.0)
    return Overlaps(largest, _less(float(least[0]), ulps), _less(float(least[1:].min(initial=np.inf)), ulps))


def _less(value: float, ulps: int) -> float:
    """A sum rounded down; 0 where nothing is summed, or where some of it may have underflowed."""
    return max(down(value, ulps) - _TINY, 0.0) if np.isfinite(value) else 0.0


def covariances(run: BallsInBins) -> NDArray[Any]:
    """float64 [t, t]: the inner products of the means of all bins, each rounded up by itself, over the squared noise.

    At most `MOST_COVARIANCES` bins.
    """
    t, n = int(run.num_batches), run.length
    if isinstance(run.strategy[0], tuple):
        means = np.zeros((t, n))
        for step, column in enumerate(np.abs(np.array(run.strategy)).T):
            means[step % t] += column
        products = rows_times_rows(means, means)
    else:
        coefficients = np.abs(np.array(run.strategy)[:n])
        mean = np.zeros(n)  # that of bin 0
        for first in range(0, n, t):
            kept = min(len(coefficients), n - first)
            mean[first : first + kept] += coefficients[:kept]
        products = np.zeros((t, t))
        rows = n - 1 - np.arange(min(t, n))  # of bin b what it keeps ends there
        for h in range(min(t, n)):
            sums = np.cumsum(mean[h:] * mean[: n - h])
            later = np.arange(h, min(t, n))
            products[later - h, later] = products[later, later - h] = sums[rows[later]]
    ulps = 2 * (n + 2 * (n // t) + 12)
    found: NDArray[Any] = (up(products, ulps) + _TINY) / float(run.noise_multiplier) ** 2
    return found
