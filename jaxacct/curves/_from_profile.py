"""Privacy profiles as curves: read from a loss distribution, made convex, and turned into a loss distribution.

A profile kappa -> H_kappa(P || Q) is convex, falls from 1 at kappa = 0, and its two directions obey

    H_kappa(P || Q) = 1 - kappa + kappa H_{1/kappa}(Q || P).

So upper bounds on both directions at epsilon >= 0 bound the whole profile; their lower convex envelope bounds it too
(Feldman and Shenfeld 2025, "our methods combined"; RA-S16), and the chords between its points are the profile of a
discrete loss distribution, which composes (RA-X9; "connect the dots" of Doroshenko et al. 2022).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound, Direction
from jaxacct._validate import check_positive, checked_array, checked_choice, checked_number
from jaxacct.curves._pld import Pld

# delta, rounded to the safe side, at each of an array of epsilons.
Profile = Callable[[NDArray[Any]], NDArray[Any]]

MAX_EPSILON = 690.0  # largest epsilon, so that e^epsilon is a float


def loss_rounding(losses: NDArray[Any]) -> NDArray[Any]:
    """Bound on the relative error of a few operations on e^loss."""
    return 2.0**-50 * (8.0 + np.abs(losses))


def profile_of(pld: Pld) -> Profile:
    """delta of `pld`, an upper bound, as a function of epsilons, float64 [E] to [E], rounded up.

    It is made of sums of positive terms only: from one grid loss x to the one below, delta grows by (1 - e^-h) sum_{y
    >= x} p(y) e^(x - y); between them it is linear in e^epsilon.
    """
    if pld.bound is not Bound.UPPER:
        raise ValueError(f"pld.bound={pld.bound.value!r} must be an upper bound")
    offset, step, size = pld.offset, pld.step, pld.masses.shape[0]
    weights = np.zeros(size)  # sum_{y >= x} p(y) e^(x - y), in blocks whose exponentials stay in range
    block = max(1, min(size, int(200.0 / step)))
    following = 0.0
    for start in range(block * ((size - 1) // block), -1, -block):
        down = np.exp(-step * np.arange(min(block, size - start)))
        part = np.cumsum((pld.masses[start : start + block] * down)[::-1])[::-1]
        weights[start : start + block] = (part + following * math.exp(-step) * down[-1]) / down
        following = float(weights[start])
    falls = -math.expm1(-step) * weights
    deltas = pld.infinite_mass + np.append(np.cumsum(falls[::-1])[::-1][1:], 0.0)
    total = float(pld.masses.sum()) + pld.infinite_mass

    def profile(epsilons: NDArray[Any]) -> NDArray[Any]:
        place = np.floor((epsilons - offset) / step)
        low = np.clip(place, 0, size - 1).astype(int)
        high = np.minimum(low + 1, size - 1)
        into = np.clip(epsilons - (offset + step * low), 0.0, step)
        share = np.clip(np.exp(into - step) * np.expm1(-into) / math.expm1(-step), 0.0, 1.0)
        inside = deltas[low] + share * (deltas[high] - deltas[low])
        before = deltas[0] + (total - deltas[0]) * -np.expm1(np.minimum(epsilons - offset, 0.0))
        value = np.where(place < 0, before, inside)
        # rounding of sums over the grid, and of an epsilon's place among losses known to a few ulp of the largest
        span = np.abs(epsilons) + abs(offset) + step * size
        steepest = np.minimum(math.exp(step) * weights[low], total) if step < 700.0 else total
        slack = 2.0**-51 * (4.0 * size * value + span * np.where(place < 0, total, steepest))
        return np.minimum(value + slack, 1.0)

    return profile


def _slope(losses: NDArray[Any], excess: NDArray[Any], i: int, j: int) -> tuple[float, float]:
    """(whole, rest) of the slope of H from point i to point j, whole -1 where kappa <= 1.

    `excess` is H - max(0, 1 - kappa): the slope left of kappa = 1 is -1 and a small rest, kept apart.
    """
    width = -math.exp(losses[j]) * math.expm1(losses[i] - losses[j])  # from the right: the left one may overflow
    rise = excess[j] - excess[i]
    if losses[i] < 0.0 < losses[j]:
        return 0.0, (rise + math.expm1(losses[i])) / width
    return (-1.0 if losses[i] < 0.0 else 0.0), rise / width


def hull(losses: NDArray[Any], excess: NDArray[Any]) -> tuple[list[int], list[tuple[float, float]]]:
    """The indices of the points on the lower convex envelope in kappa = e^loss, and the slopes of H between them."""
    kept: list[int] = [0]
    slopes: list[tuple[float, float]] = []
    for j in range(1, losses.shape[0]):
        new = _slope(losses, excess, kept[-1], j)
        while slopes and (slopes[-1][0] - new[0]) + (slopes[-1][1] - new[1]) >= 0.0:
            kept.pop()
            slopes.pop()
            new = _slope(losses, excess, kept[-1], j)
        kept.append(j)
        slopes.append(new)
    return kept, slopes


def dominating_pld(
    step: float, remove: NDArray[Any], add: NDArray[Any], direction: Direction | str, *, theorem: str = ""
) -> Pld:
    """A loss distribution whose profile is nowhere below any profile that obeys the given bounds (RA-X9).

    With s_i the slope of the envelope of H left of the grid ratio kappa_i, the mass there is kappa_i (s_{i+1} - s_i).
    The hockey-stick divergence then consists of the envelope's chords, which lie above any convex function that lies
    below the envelope at the grid points. Beyond the last point the whole bound is put at infinity. Each mass is
    rounded up by more than the error of its slopes, so that the profile is an upper bound at every kappa, alone and
    composed.

    Args:
      step: the step of the grid, in nats.
      remove, add: float64 [N], [M], upper bounds on delta at epsilon = 0, step, 2 step, ...; in [0, 1].
      direction: of the result.
      theorem: the theorem by which the bounds hold, which the result states as its source.

    Returns:
      A `Pld`, an upper bound in `direction`, tagged with add or remove adjacency.

    Raises:
      ValueError: if the profiles reach too far, or a value is not in [0, 1].

    >>> import numpy as np, jaxacct as ja
    >>> profile = ja.delta(ja.Gaussian(2.0), 0.01 * np.arange(600))  # on a grid of step 0.01; both directions agree
    >>> loss = ja.dominating_pld(0.01, profile, profile, ja.Direction.REMOVE)
    >>> round(ja.compose(loss, 10).epsilon(1e-6), 3), round(ja.epsilon(ja.Gaussian(2.0 / 10**0.5), 1e-6), 3)
    (8.307, 8.306)
    """
    remove, add = (checked_array(name, x).astype(np.float64) for name, x in (("remove", remove), ("add", add)))
    for name, values in (("remove", remove), ("add", add)):
        if values.ndim != 1 or values.size == 0 or not np.all((values >= 0) & (values <= 1)):
            raise ValueError(f"{name}={values!r} must be a one-dimensional array of numbers in [0, 1]")
    step = checked_number("step", step)
    check_positive("step", step)
    side: Direction = checked_choice("direction", direction, *Direction)
    own, other = (np.minimum.accumulate(x) for x in ((remove, add) if side is Direction.REMOVE else (add, remove)))
    if step * max(own.shape[0], other.shape[0]) > MAX_EPSILON:
        raise ValueError(f"profiles must end below epsilon = {MAX_EPSILON:g}")
    index = np.arange(1 - other.shape[0], own.shape[0])
    offset = -step * (other.shape[0] - 1)
    losses = offset + step * np.arange(index.shape[0])
    below = index < 0
    excess = np.empty(index.shape[0])
    excess[~below] = own
    excess[index == 0] = min(own[0], other[0])  # the two directions agree there
    excess[below] = other[:0:-1] * np.exp(losses[below]) * (1.0 + loss_rounding(losses[below]))

    kept, slopes = hull(losses, excess)
    at = np.asarray(kept)
    # left of the first point H starts from 1 at kappa = 0, right of the last one it is constant
    first = (-1.0, excess[0] * math.exp(-losses[0])) if losses[0] < 0.0 else (0.0, excess[0] - 1.0)
    whole, rest = (np.asarray(column) for column in zip(first, *slopes, (0.0, 0.0), strict=True))
    ends = np.concatenate([[losses[0]], losses[at], [losses[-1]]])
    slope_error = 2.0 * loss_rounding(np.maximum(np.abs(ends[:-1]), np.abs(ends[1:]))) * np.abs(rest)
    slope_error += np.where((ends[:-1] < 0.0) & (ends[1:] > 0.0), 2.0**-50, 0.0)  # these slopes subtract 1 - kappa
    jump = np.diff(whole) + np.diff(rest) + slope_error[1:] + slope_error[:-1]
    masses = np.zeros(index.shape[0])
    masses[at] = np.exp(losses[at]) * np.maximum(jump, 0.0) * (1.0 + loss_rounding(losses[at]))
    return Pld(offset, step, masses, float(excess[-1]), Bound.UPPER, side, theorem=theorem)
