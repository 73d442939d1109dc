"""Samples of the loss of balls in bins with correlated noise, with bounded importance weights.

P/Q = L = mean_b e^(X_b - K_bb/2), X ~ N(0, K) under Q.

* REMOVE, E_P (1 - e^eps / L)_+: drawn under R = mean_b N(k K_b, K), k >= 1. R/Q = mean_b e^(k X_b - k^2 K_bb/2) is at
  least L^k e^(-k (k - 1) v/2), v the largest K_bb (power means), so that P/R <= e^((k - 1) (k v/2 - eps)) where
  L >= e^eps.
* ADD, E_Q (1 - e^eps L)_+: drawn with X shifted so that R/Q = e^(-h m - h^2 s/2), m the mean of X and s its variance. L
  is at least e^(m - w/2), w the mean of K_bb, so that Q/R <= e^(h (w/2 - eps) + h^2 s/2) where L <= e^-eps.

k = 1 and h = 0 are plain samples, with values up to 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction

_BLOCK = 2**20  # coordinates drawn at once
_ROUNDING = 1.0 + 2.0**-30  # of the largest value: from the exponentials of a sample and of its bound
_SHARED = 2.0**-30  # share of the largest covariance added to all: covers the error in them and in their root

Progress = Callable[[int, int], None]


class Values(NamedTuple):
    """Mean of samples over `scale`, its standard error, and `scale`, the largest value that a sample may take [G]."""

    mean: NDArray[Any]
    error: NDArray[Any]
    scale: NDArray[Any]


class Tilt(NamedTuple):
    """`amount` k or h; `largest` [G], the log of the largest value at each epsilon."""

    amount: float
    largest: NDArray[Any]


def tilt(covariance: NDArray[Any], epsilons: NDArray[Any], direction: Direction, *, is_plain: bool) -> Tilt:
    """`Tilt`, a NamedTuple, that is best at the least of `epsilons` [G]."""
    own, least = np.diag(covariance), float(epsilons.min())
    if direction is Direction.REMOVE:
        most = float(own.max())
        amount = 1.0 if is_plain else max(1.0, 0.5 + least / most)
        return Tilt(amount, (amount - 1.0) * (0.5 * amount * most - epsilons))
    middle, spread = float(own.mean()), float(covariance.mean())
    amount = 0.0 if is_plain else max(0.0, (least - 0.5 * middle) / spread)
    return Tilt(amount, amount * (0.5 * middle - epsilons) + 0.5 * amount**2 * spread)


class CovarianceRoot(NamedTuple):
    """Covariances [t, t], raised by a shared part for rounding, and their root, which multiplies rows of t normals."""

    covariance: NDArray[Any]
    root: NDArray[Any]


def covariance_root(covariance: NDArray[Any]) -> CovarianceRoot:
    """`CovarianceRoot`, a NamedTuple, from the covariances K [t, t]; to be computed once for all draws."""
    raised = covariance + _SHARED * covariance.max()
    values, vectors = np.linalg.eigh(raised)
    return CovarianceRoot(raised, (vectors * np.sqrt(np.maximum(values, 0.0))).T)


def samples(
    of: CovarianceRoot,
    epsilons: NDArray[Any],
    direction: Direction,
    num_samples: int,
    seed: int,
    *,
    is_plain: bool,
    progress: Progress | None = None,
) -> Values:
    """`Values`, a NamedTuple for `epsilons` [G], from draws that suit the least of them."""
    raised, root = of
    how = tilt(raised, epsilons, direction, is_plain=is_plain)
    own, bins = np.diag(raised), len(raised)
    rng = np.random.default_rng([seed, list(Direction).index(direction)])
    block = max(_BLOCK // bins, 1)
    total, squares = np.zeros(len(epsilons)), np.zeros(len(epsilons))
    for done in range(0, num_samples, block):
        count = min(block, num_samples - done)
        drawn = rng.standard_normal((count, bins)) @ root
        which = rng.integers(0, bins, count)
        if direction is Direction.REMOVE:
            drawn += how.amount * raised[which]
        else:
            drawn -= how.amount * raised.mean(axis=1)
        loss = _log_mean(drawn - 0.5 * own)
        if direction is Direction.REMOVE:
            weight = loss - _log_mean(how.amount * drawn - 0.5 * how.amount**2 * own)
        else:
            weight = how.amount * drawn.mean(axis=1) + 0.5 * how.amount**2 * float(raised.mean())
            loss = -loss
        near = loss > epsilons.min()
        loss, weight = loss[near], weight[near]
        for g, (epsilon, largest) in enumerate(zip(epsilons, how.largest, strict=True)):
            above = loss > epsilon
            found = -np.expm1(epsilon - loss[above]) * np.exp(weight[above] - largest)
            total[g] += found.sum()
            squares[g] += np.square(found).sum()
        if progress is not None:
            progress(done + count, num_samples)
    mean = total / num_samples
    error = np.sqrt(np.maximum(squares / num_samples - mean**2, 0.0) / num_samples)
    return Values(mean / _ROUNDING, error / _ROUNDING, np.exp(how.largest) * _ROUNDING)


def _log_mean(logs: NDArray[Any]) -> NDArray[Any]:
    top = logs.max(axis=1)
    found: NDArray[Any] = top + np.log(np.mean(np.exp(logs - top[:, None]), axis=1))
    return found
