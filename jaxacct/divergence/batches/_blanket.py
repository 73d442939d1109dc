"""The law that all records of a shuffled list have in common, discretised upward in the convex order.

docs/papers/shuffled_batches.md, SB-1 and SB-6. With a = 1 / noise multiplier, u ~ N(0, 1), z an independent variable
and l = a sqrt(u^2 + z^2) + a^2 / 2, the quantities to be bounded are expectations E e^-l G(e^l D) for convex functions
G and D = y - c or 1 - c y, y = e^(a u - a^2/2). With W = e^l that is the integral of G(W y - c W) under the measure
e^-l dP(u, z), and W y and W are spread out in two steps that preserve both means: along y between the ends of a cell of
u with W held fixed, then along W between two points on one ray. Where l is rounded up, so is W, with the same
probability: a larger l is valid (SB-6) if it depends on u and z only, and its mass gamma is then smaller. In a cell l
is rounded up to the bilinear function of u and z that agrees with l at the corners, and then e^-l is rounded down to
its tangent, whose means have a closed form.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.divergence.batches._powers import Atoms
from jaxacct.special import ULP, gauss_legendre, log_normal_tail

WIDTH = 0.1  # of a cell of u and of z; a cell of l has that width times a. It affects tightness only
_PIECES = 16  # of a cell of z, each rounded up to its upper end
_NODES = 12  # of Gauss's rule in a cell of u
_CERTAIN = 7.0  # expected records above the first z, to which all smaller z are rounded up
MOST_LOSS = 4.0  # the largest a for which the rule's error is bounded
FARTHEST = 36.0  # the farthest u or z: beyond it a density is not a normal double
# Relative error of a mass: the rule leaves out less than 1e-19 (docs/numerics/batches.md); the density errs by 2 u^2
# ULP where |u| <= FARTHEST, Gauss's weights by 2^-46, exponentials and sums of fewer than 2^10 terms by less than 2^-43
# together.
MASS_ERROR = 2.0**-40


class BlanketLaw(NamedTuple):
    """Atoms of (W y, W) under e^-l dP, above the true measure in the convex order except for the part cut off.

    Attributes:
      shift: a.
      log_weight: log W [N].
      excess: y - 1 [N].
      mass: [N], of each atom; each rounded up.
      least_mass: gamma, the sum of the masses, rounded down.
      cut: an upper bound on the part left out of E (D)_+ in either direction, a probability.
    """

    shift: float
    log_weight: NDArray[np.float64]
    excess: NDArray[np.float64]
    mass: NDArray[np.float64]
    least_mass: float
    cut: float

    def atoms(self, epsilon: float, direction: Direction) -> Atoms:
        """W D, rounded up, and its masses."""
        weight, gain, grown = np.exp(self.log_weight), math.expm1(epsilon), math.exp(epsilon)
        if direction is Direction.REMOVE:
            value = weight * (self.excess - gain)
            size = weight * (np.abs(self.excess) + gain)
        else:
            value = weight * -(gain + grown * self.excess)
            size = weight * (grown * np.abs(self.excess) + gain)
        # differences of rounded numbers, and W itself
        return Atoms(value + 16.0 * ULP * (size + (1.0 + np.abs(self.log_weight)) * np.abs(value)), self.mass)


def blanket_law(a: float, num_batches: int, cut: float) -> BlanketLaw | None:
    """NamedTuple: the law of one of `num_batches` >= 2 batches; None where the noise or `cut` is too small.

    Args:
      a: 1 / noise multiplier.
      num_batches: t >= 2.
      cut: about how much may be left out of E (D)_+, a probability.
    """
    others = float(num_batches - 1)
    reach = quantile(0.25 * cut)
    last = quantile(0.25 * cut / others)
    if not (a <= MOST_LOSS and max(reach + a, last) <= FARTHEST):
        return None
    cells = cells_of_projection(a, -reach, reach + a)
    rest = cells_of_rest(lambda x: tail_of_rest(others, x), first_of_rest(others), last)
    u = cells.ends
    cut = float(rest.tail[-1] + np.exp(log_normal_tail(np.array([-u[0], u[-1] - a]))).max() * (1.0 + 2.0**-36))
    piece, log_weight, mass = spread(a, cells, rest)
    first, found = on_rays(a, (piece + 1) // 2, log_weight, mass, len(u))
    ray, place = np.nonzero(found)
    masses = found[ray, place] * (1.0 + MASS_ERROR)
    least = float(masses.sum()) * (1.0 - 3.0 * MASS_ERROR)
    excess: Any = np.expm1(a * u - 0.5 * a * a)
    log_weight = first + WIDTH * a * place.astype(np.float64)
    return BlanketLaw(a, log_weight, excess[ray], masses, least, cut)


def spread(a: float, cells: "Projection", rest: "Rest") -> tuple[Any, Any, Any]:
    """Atoms of log W at the ends of cells of u: which end, log W, and the mass under e^-l dP; [N] each.

    The lower end of cell k is numbered 2 k, its upper end 2 k + 1.
    """
    u, z = cells.ends, rest.ends
    g = a * np.sqrt(u[:, None] ** 2 + z * z) + 0.5 * a * a
    slack = 8.0 * ULP * float(g.max())
    low, high = np.minimum(g[:-1], g[1:]) - slack, np.maximum(g[:-1], g[1:]) + slack
    low = np.concatenate([low[:, :1], low[:, :-1]], axis=1)
    before = np.concatenate([g[:, :1], g[:, :-1]], axis=1)  # l at the lower end of a cell of z
    lower_ends = 2 * np.arange(len(u) - 1)
    places, masses, of_end = [], [], []
    for end, weight, into in (
        (lower_ends, cells.to_low, cells.low_mean),
        (lower_ends + 1, cells.to_high, cells.high_mean),
    ):
        # l is convex in u and in z: its mean is at most the bilinear form through its values at the corners
        into = into[:, None]
        at_low = (1.0 - into) * np.maximum(before[:-1] - low, 0.0) + into * np.maximum(before[1:] - low, 0.0)
        at_high = (1.0 - into) * np.maximum(g[:-1] - low, 0.0) + into * np.maximum(g[1:] - low, 0.0)
        width = high - low
        rise = np.minimum((1.0 - rest.mean) * at_low + rest.mean * at_high + slack + 2.0**-38 * width, width)
        # e^-l is above its tangent at the middle, which is the same for both ends: from 1 + half to 1 - half, times
        # e^-middle
        middle, half, share = 0.5 * (low + high), 0.5 * width, rise / width
        mass = weight[:, None] * rest.share * np.exp(-middle)
        for place, part in ((-np.log1p(half), (1.0 + half) * (1.0 - share)), (-np.log1p(-half), (1.0 - half) * share)):
            places.append((middle + place).ravel())
            masses.append((mass * part).ravel())
            of_end.append(np.repeat(end, mass.shape[1]))
    return np.concatenate(of_end), np.concatenate(places), np.concatenate(masses)


def quantile(tail: float) -> float:
    """A float, approximately the z that a standard normal variable exceeds with probability `tail`; at least 0."""
    size = -2.0 * math.log(min(tail, 0.3))
    for _ in range(3):
        size = -2.0 * math.log(min(tail, 0.3)) - math.log(2.0 * math.pi * max(size, 0.2))
    return math.sqrt(max(size, 0.0)) if tail < 0.5 else 0.0


class Projection(NamedTuple):
    """Cells of u: their ends [K + 1], the mass that each cell gives to its ends, and the mean of u under each share.

    A y in a cell is split between the values at its ends so that its mean is kept. The shares [K] of the lower and of
    the upper end are masses under the standard normal density; the mean of u under each share is a place in the cell,
    from 0 to 1.
    """

    ends: NDArray[np.float64]
    to_low: NDArray[np.float64]
    to_high: NDArray[np.float64]
    low_mean: NDArray[np.float64]
    high_mean: NDArray[np.float64]


def cells_of_projection(a: float, low: float, high: float) -> Projection:
    """`Projection` of cells that cover [low, high], for y = e^(a u - a^2/2)."""
    u: Any = WIDTH * np.arange(math.floor(low / WIDTH), math.ceil(high / WIDTH) + 1)  # 0 is an end: |u| is monotone
    nodes, weights = gauss_legendre(_NODES)
    into = 0.5 * (nodes + 1.0)
    at = u[:-1, None] + WIDTH * into
    density = np.exp(-0.5 * at * at) * (weights * (0.5 * WIDTH / math.sqrt(2.0 * math.pi)))
    to_high = density * (np.expm1(a * WIDTH * into) / math.expm1(a * WIDTH))
    to_low = density * (np.exp(a * WIDTH * into) * np.expm1(a * WIDTH * (1.0 - into)) / math.expm1(a * WIDTH))
    shares = to_low.sum(1), to_high.sum(1)
    return Projection(u, *shares, (to_low * into).sum(1) / shares[0], (to_high * into).sum(1) / shares[1])


class Rest(NamedTuple):
    """Cells of z: ends [J + 1], P(z > end), masses of the ends' cells [J + 1], and their mean places, from 0 to 1.

    z is rounded up to a grid of `_PIECES` points per cell. The first "cell" contains all z that are rounded up to the
    first end.
    """

    ends: NDArray[np.float64]
    tail: NDArray[np.float64]
    share: NDArray[np.float64]
    mean: NDArray[np.float64]


def first_of_rest(others: float) -> float:
    """A float, approximately the z >= 0 below which the largest of `others` normal variables almost never is."""
    return quantile(_CERTAIN / others) if others > 2.0 * _CERTAIN else 0.0


def cells_of_rest(tail_of: Callable[[Any], Any], first: float, last: float) -> Rest:
    """`Rest` (a NamedTuple) of a variable whose tail, rounded up, is `tail_of`, from `first` up to about `last`."""
    cells = max(1, math.ceil((last - first) / WIDTH))
    x: Any = first + WIDTH / _PIECES * np.arange(_PIECES * cells + 1)
    tail = np.minimum(1.0, np.maximum.accumulate(tail_of(x)[::-1])[::-1])
    masses = (tail[:-1] - tail[1:]).reshape(cells, _PIECES)
    share = masses.sum(1)
    places = (masses * (np.arange(1.0, _PIECES + 1.0) / _PIECES)).sum(1) / np.where(share > 0.0, share, 1.0)
    return Rest(x[::_PIECES], tail[::_PIECES], np.append(1.0 - tail[0], share), np.append(1.0, places))


def tail_of_rest(others: float, x: Any) -> Any:
    """P(z > x) [N] for x >= 0, rounded up:  min(1, n Q(x), 1 - (1 - 2 Q(x))^n),  Q the normal tail, n the others."""
    one = np.minimum(np.exp(log_normal_tail(x)), 0.5)
    with np.errstate(divide="ignore"):
        some = -np.expm1(others * np.log1p(-2.0 * one))
    return np.minimum(np.minimum(others * one, some) * (1.0 + 64.0 * ULP * (1.0 + x * x)), 1.0)


def on_rays(a: float, ray: Any, log_weight: Any, mass: Any, rays: int) -> tuple[float, NDArray[np.float64]]:
    """Atoms spread once more, on each ray of one y, to a common grid of log W: its start, and masses [R, S].

    The grid's step is `WIDTH` times a.
    """
    step, first = WIDTH * a, float(log_weight.min())
    index = np.floor((log_weight - first) / step).astype(np.int64)
    # W is rounded up by this, and known to some units of its last place more
    into = np.clip(log_weight - (first + step * index) + 8.0 * ULP * np.abs(log_weight), 0.0, step)
    size = int(index.max()) + 2
    to_high = np.expm1(into) / math.expm1(step)
    to_low = np.exp(into) * np.expm1(step - into) / math.expm1(step)
    where, total = ray * size + index, size * rays
    found: Any = np.bincount(where, mass * to_low, total) + np.bincount(where + 1, mass * to_high, total)
    return first, found.reshape(rays, size)
