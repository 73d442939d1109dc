"""Gaussian Markov chains, and their steps on a grid, discretised so that values can only increase.

A chain has covariances u r^h at a distance h on a line; or u (r^h + r^(L-h)) / (1 + r^L) on a circle, where, given the
first variable X_0, the others are g_b X_0 + Y_b with a chain Y. The value of the remaining steps is V(x) >= 0:

* REMOVE, E (S + .. - c)_+: convex and non-decreasing in x. A step is split between the two nodes around it with its
  mean in x kept; below the first node it is moved up to it; above the last one it is moved down to it and charged.
* ADD, E (c - S - ..)_+: convex and non-increasing in e^x, since e^(r x) is concave in e^x. The mean in e^x is kept;
  above the last node a step is moved down to it; below the first one it is moved up to it and charged.

Since V >= 0, weights that are too large are on the safe side. They are integrals of positive functions by Gauss's rule.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.special import expm1, gauss_legendre, log_normal_tail

_NUM_NODES = 20  # of Gauss's rule in a cell
# Relative error of each weight: that of the rule is below 1e-15 (docs/numerics/correlated.md), densities err by 2
# z^2 ULP where z^2 / 2 < 690, Gauss's weights by 2^-46, tails by 32 (1 + z^2) ULP, and the sums in which weights are
# used by 2^10 ULP.
_WEIGHTS_ERROR = 2.0**-35
_LEAST_WEIGHT = 1e-90  # smaller weights are raised to this, so that no product of them is below the normal doubles
_FARTHEST = 37.0  # standard deviations beyond which a tail is less than `_LEAST_WEIGHT` of the weight it is added to


class Chain(NamedTuple):
    """A chain of `length` L, `variance` u and `ratio` r, on a circle or a line, and two further parts of the variables.

    Every variable has an independent part, of variance `white` e, and all share one part, of variance `shared` a:
    covariances are a + u r^h, variances a + u + e.
    """

    variance: float
    ratio: float
    length: int
    is_circle: bool
    white: float = 0.0
    shared: float = 0.0


class Move(NamedTuple):
    """The next variable is N(`slope` times this one, `deviation`^2)."""

    slope: float
    deviation: float


class Path(NamedTuple):
    """A chain as a walk: `moves`, the first from 0; `shares` [moves] of X_0; `first`, its deviation, None on a line."""

    moves: tuple[Move, ...]
    shares: tuple[float, ...]
    first: float | None


def path_of(chain: Chain) -> Path:
    """The NamedTuple `Path` of a chain."""
    u, r, length = chain.variance, chain.ratio, chain.length
    if not chain.is_circle:
        every = (Move(0.0, math.sqrt(u)),) + (Move(r, math.sqrt(u * (1.0 - r) * (1.0 + r))),) * (length - 1)
        return Path(every, (0.0,) * length, None)
    shares = [(r**h + r ** (length - h)) / (1.0 + r**length) for h in range(length + 1)]

    def covariance(a: int, b: int) -> float:
        return u * (shares[b - a] - shares[a] * shares[b])

    moves = [Move(0.0, math.sqrt(covariance(1, 1)))]
    for b in range(2, length):
        slope = covariance(b - 1, b) / covariance(b - 1, b - 1)
        moves.append(Move(slope, math.sqrt(covariance(b, b) - slope * covariance(b - 1, b))))
    return Path(tuple(moves), tuple(shares[1:length]), math.sqrt(u))


def grid(chain: Chain, direction: Direction, fineness: float) -> NDArray[Any]:
    """Evenly spaced nodes [n] that a chain leaves with a probability below 1e-17, `fineness` per standard deviation."""
    deviation = math.sqrt(chain.variance)
    low, high = (5.5, 9.0) if direction is Direction.REMOVE else (8.6, 7.0)
    top = high * deviation + (chain.variance if direction is Direction.REMOVE else 0.0)
    count = math.ceil((low * deviation + top) * fineness / deviation)
    return np.linspace(-low * deviation, top, count + 1)


class Step(NamedTuple):
    """`weights` [m, n] of the nodes, from each of m starts; `charge` [m], to be added for paths that leave the grid."""

    weights: NDArray[Any]
    charge: NDArray[Any]


def _tail(z: NDArray[Any]) -> NDArray[Any]:
    return np.exp(np.asarray(log_normal_tail(np.minimum(z, _FARTHEST))))


def step(move: Move, start: NDArray[Any], nodes: NDArray[Any], direction: Direction) -> Step:
    """A NamedTuple: one move from each of `start` [m] on a grid [n].

    The charge of REMOVE is E e^Y for Y above the grid, of ADD the probability of being below it.
    """
    means, deviation = move.slope * start[:, None], move.deviation
    width = nodes[1] - nodes[0]
    points, gauss = gauss_legendre(_NUM_NODES)
    at = 0.5 * (points + 1.0)
    shares = at if direction is Direction.REMOVE else expm1(at * width) / expm1(width)  # of the upper node
    weights = np.zeros((len(start), len(nodes)))
    for share, place, mass in zip(shares, at, 0.5 * width / deviation * gauss, strict=True):
        z = (nodes[:-1] + place * width - means) / deviation
        density = np.exp(-0.5 * z * z) * (mass / math.sqrt(2.0 * math.pi))
        weights[:, 1:] += share * density
        weights[:, :-1] += (1.0 - share) * density
    low, high = (means[:, 0] - nodes[0]) / deviation, (nodes[-1] - means[:, 0]) / deviation
    weights[:, 0] += _tail(low)
    weights[:, -1] += _tail(high)
    if direction is Direction.REMOVE:
        charge = np.exp(means[:, 0] + 0.5 * deviation**2) * _tail(high - deviation)
    else:
        charge = _tail(low)
    grown = 1.0 + _WEIGHTS_ERROR
    return Step(np.maximum(weights * grown, _LEAST_WEIGHT), np.maximum(charge * grown, _LEAST_WEIGHT))
