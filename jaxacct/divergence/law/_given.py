"""Points of releases whose losses are known numbers: computed once by NumPy, constants of the programs that use them.

The input is a distribution of losses that dominates the release in one direction, with more points than a law may have.
Each loss between two points of the law is split between them so that its mass and the mean of e^-loss are kept: delta,
convex in e^-loss, only increases, at every epsilon and after any composition (docs/numerics, "Laws").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.law._law import Law
from jaxacct.special import LEAST_NORMAL

_FARTHEST = 600.0  # nats: beyond, e^loss and the masses beside it are no doubles
_ROUNDED = 1.0 + 2.0**-40  # masses: exponents of at most `_FARTHEST` by ULPs of themselves, shares and products
_SHARE = 2.0**-48  # absolute error of a share: a quotient of two expm1, or 1 minus that
# The following affect tightness only: where points are closest.
_NUM_TILTS = 12  # orders at which parts of the losses may dominate
_LEAST_TILT, _LARGEST_TILT = 1.0, 24.0  # the first order at most, and the last one times the deviation of the loss
_EVEN = 0.1  # share of the points that are spread evenly
_MOST_ROUNDS = 100  # rounds of the search for places that take a whole point


def given_law(losses: NDArray[Any], masses: NDArray[Any], infinite_mass: float, num: int, *, is_add: bool) -> Law:
    """`Law` of `num` points, in NumPy arrays, of a release with these losses; valid in one direction only.

    Args:
      losses: float64 [N], increasing; each errs by at most a few ULP of the largest.
      masses: float64 [N], of the first distribution of the pair: P where a record is removed, Q where it is added.
      infinite_mass: the mass of infinite loss.
      is_add: whether the losses are of the add direction, y = e^-loss; else y = e^loss.
    """
    place, mass, beyond = _in_reach(losses, masses, infinite_mass)
    if place.shape[0] > num:
        place, mass = _spread(place, mass, _chosen(place, mass, num))
    # neighbouring points are merged where a line is chosen, so each point is repeated
    times = num // place.shape[0]
    place, mass = np.repeat(place, times), np.repeat(mass / times, times)
    place = np.pad(place, (0, num - place.shape[0]), mode="edge")
    mass = np.pad(mass, (0, num - mass.shape[0]))
    blur = np.full(num, 2.0**-49 * float(np.abs(losses).max()))
    mass = mass * (_ROUNDED + 2.0 * blur)
    under = mass if is_add else mass * np.exp(-place)
    # compiled programs take what is no normal double for 0, and would lose what P has there
    y, under = -place if is_add else place, np.where(mass > 0.0, np.maximum(under, LEAST_NORMAL), 0.0)
    return Law(np.stack([y, under, blur]), np.full(2, beyond))


def _in_reach(losses: NDArray[Any], masses: NDArray[Any], infinite_mass: float) -> tuple[Any, Any, float]:
    """The losses with mass, at most `_FARTHEST` from 0: others move up, to the least of these or to infinity."""
    is_beyond = losses > _FARTHEST
    beyond = (infinite_mass + float(masses[is_beyond].sum())) * _ROUNDED
    kept = (masses > 0.0) & ~is_beyond
    place, mass = losses[kept], masses[kept]
    low = int(np.searchsorted(place, -_FARTHEST))
    if low:
        first = float(mass[:low].sum()) * _ROUNDED
        place, mass = np.append(-_FARTHEST, place[low:]), np.append(first, mass[low:])
    return (place, mass, beyond) if place.size else (np.zeros(1), np.zeros(1), beyond)


def _chosen(place: NDArray[Any], mass: NDArray[Any], num: int) -> NDArray[Any]:
    """At most `num` of the places, including the first and the last; any choice is valid.

    A cell of width w with the share p of the dominant losses adds about p w^2 to the variance, so that the sum over
    cells is least if the widths of cells are inversely proportional to the cube root of the density of p.
    """
    gap = np.gradient(place)
    mean = float(np.sum(mass * place) / np.sum(mass))
    deviation = max(float(np.sqrt(np.sum(mass * (place - mean) ** 2) / np.sum(mass))), 1e-12)
    last = _LARGEST_TILT / deviation
    tilts = np.append(0.0, np.geomspace(min(_LEAST_TILT, 0.5 / deviation), last, _NUM_TILTS))
    logs = np.log(mass) + tilts[:, None] * place
    wanted = np.cbrt(np.exp(logs - logs.max(axis=1, keepdims=True)) * gap**2)
    wanted = np.mean(wanted / wanted.sum(axis=1, keepdims=True), axis=0) + _EVEN * gap / gap.sum()
    # a place with the share of several points takes one of them, and the others share the rest
    is_full = np.zeros(place.shape[0], bool)
    for _ in range(_MOST_ROUNDS):
        left = 1.0 - np.count_nonzero(is_full) / num
        wanted = np.where(is_full, 1.0 / num, wanted * left / wanted[~is_full].sum())
        if not np.any(over := ~is_full & (wanted > 1.0 / num)):
            break
        is_full |= over
    sums = np.cumsum(wanted)
    at = np.searchsorted(sums, sums[-1] * (np.arange(num) + 0.5) / num)
    at[0], at[-1] = 0, place.shape[0] - 1
    return np.asarray(place[np.unique(at)])


def _spread(place: NDArray[Any], mass: NDArray[Any], chosen: NDArray[Any]) -> tuple[Any, Any]:
    """The `chosen` places and their masses: a loss between two of them is split so that the mean of e^-loss is kept."""
    cell = np.minimum(np.searchsorted(chosen, place, side="right") - 1, chosen.shape[0] - 2)
    above = np.clip(np.expm1(chosen[cell] - place) / np.expm1(chosen[cell] - chosen[cell + 1]), 0.0, 1.0)
    size = chosen.shape[0]
    low, high = (
        np.bincount(at, mass * np.where(share > 0.0, share + _SHARE, 0.0), minlength=size)
        for at, share in ((cell, 1.0 - above), (cell + 1, above))
    )
    most = int(np.bincount(cell).max())
    grown = 1.0 + 2.0**-51 * (2.0 * most + 1.0)  # additions into one place, at most an ULP each
    return chosen, (low + high) * grown
