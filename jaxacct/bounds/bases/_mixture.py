"""The likelihood ratio of one Gaussian release whose shift is random, sampled or not, on a lattice.

Y(x) = sum_i p_i e^(c_i x / s^2 - c_i^2 / (2 s^2)) grows with x, so that cells of Y are cells of x. Their ends are found
by Newton's method inside brackets; the distance of Y from a lattice point there is accounted for as a blur of the
points, together with its own rounding.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._sharing import once
from jaxacct._types import TooFineError
from jaxacct.bounds.bases._base import MAX_LOSS, SMALLEST, Base, check_fits, unbounded
from jaxacct.bounds.bases._normal import SURE_Z, reach_for
from jaxacct.divergence.lattice._continuous_cells import normal_cell_masses
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_masses
from jaxacct.mechanisms import MixtureOfGaussians
from jaxacct.special import bisect, log_normal_tail, up

_RARE = 1.0  # in units of the mass outside: shifts drawn no more often than this are treated as revealed
_SELDOM = 1e-9  # the largest shifts do not count in the spread where they have at most this probability together
_MOST_SPREAD = math.e - 1.0  # the step chosen from it is a quarter nat at first: larger losses are rare ones
_BLUR = 2.0**-42  # of log Y, relative to 1 + its largest exponent: probabilities, exponentials and their sum
_MOST_STEPS = 64  # of Newton's method for the ends of cells, inside brackets
_NEAR = 2.0**-51  # of log Y, relative to 1 + the largest of its values: how near to a lattice point is near enough
_ROUNDED = 64.0  # times that: a gap no larger than this which a step does not halve is rounding
_MOST_LOSS = MAX_LOSS - 40.0  # nats, to which the ratio is followed: the lattice reaches a step further at most
_COUNTS = 4.0 * SMALLEST  # least mass under Q that counts in a law from below
_DOWN = 1.0 - 2.0**-30  # of a sum of normal tails
_NUM_HALVINGS = 60  # of the search for where the ratio is followed no further
_MOST_TERMS = 2**27  # numbers in all the sums over shifts and cells: more, and the law is refused


def log_ratio(z: NDArray[Any], mu: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    """log Y [N] at z [N], x in standard deviations; mu [M] are the shifts in the same unit."""
    total = np.full(z.shape, -np.inf)
    for shift, share in zip(mu, shares, strict=True):
        total = np.logaddexp(total, math.log(share) + shift * z - 0.5 * shift * shift)
    return total


def _at(target: NDArray[Any], ends: tuple[float, float], mu: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    """z [N], ascending, at which log Y is about `target` [N], ascending, between its values at both `ends`."""
    below, above = (np.full(target.shape, end) for end in ends)
    grid = np.linspace(*ends, min(target.size + 2, 4096))
    z = np.interp(target, log_ratio(grid, mu, shares), grid)
    near, before = _NEAR * (1.0 + np.abs(target).max(initial=0.0)), math.inf
    for _ in range(_MOST_STEPS):
        total, slope = np.full(z.shape, -np.inf), np.zeros(z.shape)
        for shift, share in zip(mu, shares, strict=True):
            term = math.log(share) + shift * z - 0.5 * shift * shift
            total = np.logaddexp(total, term)
            slope += (shift - slope) * np.exp(term - total)
        gap = total - target
        largest = float(np.abs(gap).max(initial=0.0))
        if largest <= near or 0.5 * before < largest <= _ROUNDED * near:
            break
        before = largest
        below, above = np.where(gap < 0.0, z, below), np.where(gap < 0.0, above, z)
        ahead = z - gap / np.maximum(slope, 1e-300)
        z = np.where((ahead >= below) & (ahead <= above), ahead, 0.5 * (below + above))
    return np.maximum.accumulate(z)


def mixture_of(release: MixtureOfGaussians, sampling_prob: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two arrays: shifts [M] in standard deviations, ascending, and their probabilities; sampling adds to shift 0."""
    found: dict[float, float] = {}
    for shift, share in zip(release.sensitivities, release.probabilities, strict=True):
        found[shift] = found.get(shift, 0.0) + sampling_prob * share
    if sampling_prob < 1.0:
        found[0.0] = found.get(0.0, 0.0) + (1.0 - sampling_prob)
    kept = sorted((shift, share) for shift, share in found.items() if share > 0.0)
    shifts, shares = (np.array(column) for column in zip(*kept, strict=True))
    return shifts / float(release.noise_multiplier), shares


class _Cells(NamedTuple):
    """One release on a lattice: `first` in steps, masses [N] under Q and P inside, and what lies beyond."""

    first: int
    q: NDArray[Any]
    p: NDArray[Any]
    blur: float
    below: float  # of Q below them
    beyond: float  # of P above them
    outside: float  # of Q, and as much at most of P, beyond what the tail asks for
    infinite: float  # of P outside, and by the shifts that are treated as revealed


def _cells(release: MixtureOfGaussians, sampling_prob: float, step: float, tail: float) -> _Cells:
    """Cells of x between lattice points of Y, their masses from the distribution functions."""
    mu, shares = mixture_of(release, sampling_prob)
    z_range, outside = reach_for(tail)
    # the largest shifts are treated as revealed where they are as rare as what lies outside
    tops = np.cumsum(shares[::-1])[::-1]
    kept = tops > _RARE * outside
    told, mu, shares = float(tops[~kept].max(initial=0.0)), mu[kept], shares[kept]
    first_z, last_z = _ends(mu, shares, min(z_range, SURE_Z))
    low, high = (float(x) for x in log_ratio(np.array([first_z, last_z]), mu, shares))
    check_fits("mechanism=MixtureOfGaussians", low, high, step)
    first, last = math.floor(low / step), math.ceil(high / step)
    inner = step * np.arange(first + 1, last)
    if (last - first) * mu.size * (_MOST_STEPS if inner.size else 1) > _MOST_TERMS * 16:
        raise TooFineError(f"mechanism={release!r}: {mu.size} shifts on {last - first} cells are too many")
    at = _at(inner, (first_z, last_z), mu, shares)
    off = float(np.abs(log_ratio(at, mu, shares) - inner).max(initial=0.0))
    z = np.concatenate([[first_z], at, [last_z]])
    q = normal_cell_masses(z)
    p = sum(share * normal_cell_masses(z - shift) for shift, share in zip(mu, shares, strict=True))
    size = 1.0 + float(mu[-1]) * (abs(first_z) + last_z + float(mu[-1])) - math.log(float(shares.min()))
    beyond = float(shares @ np.exp(log_normal_tail(last_z - mu)))
    below = float(np.exp(log_normal_tail(-first_z)))
    return _Cells(first, q, np.asarray(p), off + _BLUR * size, below, beyond, outside, up(outside + told, 16))


def _ends(mu: NDArray[Any], shares: NDArray[Any], z_range: float) -> tuple[float, float]:
    """The least and the largest z that are followed: as far as masses under Q, and the ratio, are doubles."""

    def inside(z: float, sign: float) -> bool:
        return sign * float(log_ratio(np.array([z]), mu, shares)[0]) <= _MOST_LOSS

    first, last = -z_range, min(float(mu[-1]) + z_range, SURE_Z)
    if not inside(first, -1.0):
        first = -bisect(lambda z: inside(-z, -1.0), -last, z_range, num_steps=_NUM_HALVINGS)
    if not inside(last, 1.0):
        last = bisect(lambda z: inside(z, 1.0), first, last, num_steps=_NUM_HALVINGS)
    return first, last


def _law(release: MixtureOfGaussians, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one release; laws of all sides are made of the same cells."""
    cells = once((_cells, release, sampling_prob, step), tail, lambda: _cells(release, sampling_prob, step, tail))
    if side is Side.UPPER:
        law = from_masses(cells.q, cells.p, cells.first * step, step, side)
        zero, infinite = max(cells.outside, up(cells.below, 2**20)), up(cells.beyond, 2**20) + cells.infinite
        return dataclasses.replace(law, blur=law.blur + cells.blur, zero_mass=zero, infinite_mass=up(infinite, 2))
    close = _closed_above if side is Side.LOWER_REMOVE else _closed_below
    law = from_masses(*close(cells, step), cells.first * step, step, side)
    return dataclasses.replace(law, blur=law.blur + cells.blur)


def _closed_above(cells: _Cells, step: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Masses [N] under Q and P: all outputs from some cell on count as one, and Q's mass there is rounded up.

    Their ratio is no smaller than at the cell's start, so that Q has no more of them than is counted. The cell is the
    last one whose mass under Q still counts.
    """
    p = np.append(cells.p, cells.beyond * _DOWN)[::-1].cumsum()[::-1][:-1]
    q = p * np.exp(-step * (cells.first + np.arange(p.size)))
    last = int(np.flatnonzero(q >= _COUNTS).max(initial=0))
    return np.append(cells.q[:last], q[last]), np.append(cells.p[:last], p[last])


def _closed_below(cells: _Cells, step: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Masses [N] under Q and P: Q's mass below the cells moves to the end of the first, where P has no less."""
    q, p = cells.q.copy(), cells.p.copy()
    q[0] += cells.below * _DOWN
    p[0] += cells.below * _DOWN * math.exp(step * (cells.first + 1))
    return q, p


def _spread(release: MixtureOfGaussians) -> float:
    """Var(dP/dQ) = sum_ij p_i p_j e^(mu_i mu_j) - 1, the exponents capped so that they do not overflow.

    Without the largest shifts where they are seldom drawn: one of probability 1e-20 may make up all of the variance.
    """
    mu, shares = mixture_of(release, 1.0)
    often = np.cumsum(shares[::-1])[::-1] > _SELDOM
    mu, shares = mu[often], shares[often]
    return min(_MOST_SPREAD, float(shares @ np.expm1(np.minimum(np.outer(mu, mu), 700.0)) @ shares))


BASE = Base(law=_law, largest_loss=unbounded, spread=_spread)
