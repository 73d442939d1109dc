"""Log-normal factors for the white and shared parts of a covariance: one for each bin, and one common to all bins.

* White: a bin's term is multiplied by F = e^(W - e/2), W ~ N(0, e). The value of the remaining steps is convex in the
  sum S, so that F may be split between points with its mean kept: 0, where S stays, and others up to a top. Above the
  top F is lowered to it, which loses at most the mean of (F - top)_+: for REMOVE this is added to the result, for ADD
  it may be ignored.
* Shared: all of R is multiplied by e^(Z - a/2), Z ~ N(0, a). Given the rest s of R, the value is that of a
  Black-Scholes option, in closed form.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.special import expm1, gauss_legendre, log_normal_tail

_NUM_NODES = 20  # of Gauss's rule in a cell, which is at most `_WIDEST` standard deviations wide
# Relative error of each weight, as in `_chain`. The weight of 0 is a difference of two tails: there it is that of the
# larger one.
_WEIGHTS_ERROR = 2.0**-35
# In standard deviations: where the cells begin, and how far beyond the mean under the law weighted by F they end; up to
# where beyond that mean cells have the requested width; their largest width, from there on.
_LOW, _HIGH = -3.3, 9.0
_MIDDLE = 3.5
_WIDEST = 1.3
# Of an option, relative to its first term: two tails by 32 (1 + z^2) ULP, z <= 38, arguments by (|z| + 1) 4 |z| ULP.
_OPTION_ERROR = 2.0**-35
_FARTHEST = 37.0


class Factor(NamedTuple):
    """Values [J] of F, the first of them 0, their `weights` [J], and `beyond`, the mean excess over the last."""

    values: NDArray[Any]
    weights: NDArray[Any]
    beyond: float


ALONE = Factor(np.ones(1), np.ones(1), 0.0)


def _tail(z: Any) -> Any:
    return np.exp(np.asarray(log_normal_tail(np.clip(z, -_FARTHEST, _FARTHEST))))


@functools.lru_cache(maxsize=64)
def factor(white: float, fineness: float) -> Factor:
    """The NamedTuple `Factor` of variance `white`, `fineness` >= 1 points per standard deviation; `ALONE` for 0."""
    if white == 0.0:
        return ALONE
    deviation = math.sqrt(white)
    near = np.arange(_LOW, _MIDDLE + deviation, 1.0 / max(fineness, 1.0))
    far = math.ceil((_HIGH + deviation - near[-1]) / _WIDEST)
    z = np.concatenate([near, near[-1] + _WIDEST * np.arange(1, far + 1)])
    widths = np.diff(z)
    points, gauss = gauss_legendre(_NUM_NODES)
    weights = np.zeros(len(z) + 1)
    for place, mass in zip(0.5 * (points + 1.0), 0.5 * gauss, strict=True):
        at = z[:-1] + place * widths
        density = np.exp(-0.5 * at * at) * (mass * widths / math.sqrt(2.0 * math.pi))
        share = expm1(place * widths * deviation) / expm1(widths * deviation)
        weights[2:] += share * density
        weights[1:-1] += (1.0 - share) * density
    values = np.concatenate([[0.0], np.exp(deviation * z - 0.5 * white)])
    below = float(_tail(-z[0]))
    mean = float(_tail(deviation - z[0]))  # of F, below the first cell
    weights[1] += mean / values[1]
    weights[0] = max(below - mean / values[1], 0.0) + _WEIGHTS_ERROR * below
    weights[-1] += float(_tail(z[-1]))
    beyond = float(_tail(z[-1] - deviation)) * (1.0 + _WEIGHTS_ERROR)
    return Factor(values, weights * (1.0 + _WEIGHTS_ERROR), beyond)


def option(sums: NDArray[Any], c: float, shared: float, direction: Direction) -> NDArray[Any]:
    """E (e^(Z - a/2) s - c)_+ for REMOVE, E (c - e^(Z - a/2) s)_+ for ADD, at `sums` s [n] >= 0, rounded up."""
    removes = direction is Direction.REMOVE
    if shared == 0.0:
        return np.maximum(sums - c if removes else c - sums, 0.0)
    deviation = math.sqrt(shared)
    with np.errstate(divide="ignore"):
        z = np.log(sums / c) / deviation
    upper, lower = z + 0.5 * deviation, z - 0.5 * deviation
    if removes:
        first, second = sums * _tail(-upper), c * _tail(-lower)
    else:
        first, second = c * _tail(lower), sums * _tail(upper)
    return np.maximum(first - second, 0.0) + _OPTION_ERROR * first
