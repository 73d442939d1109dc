"""From brackets of a privacy profile on a grid to a loss distribution that the profile dominates.

Outside the interval between two of its points, a convex function lies above the extended chord. So between two grid
points the profile lies above the extended chords of both neighbouring cells. At the midpoint (in epsilon) the lower of
these two lines is taken, and chords between the midpoints stay below the profile. The error is of the order of the
square of the step, as for the chords above the profile (`jaxacct.curves._from_profile`).

Where an extended chord is negative at the midpoint, 0 is taken instead, which lies above it. There the chord that leads
to 0 stays below the profile if it does so where the two extended chords meet, at a value v >= 0. With g the grid point
beside it, m the midpoint and z the place where they meet, it may start at g from v (m - g) / (m - z) at most.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound, Direction, Ends
from jaxacct.curves._from_profile import hull
from jaxacct.curves._pld import Pld

_NOTHING = 1e-6  # share of the profile at a grid point below which chords are set to 0 there
_ROUNDS = 12  # passes that push the chords below the profile; where they are not enough, the result is 0 everywhere


def dominated_pld(
    step: float,
    own: Ends[NDArray[Any]],
    other: Ends[NDArray[Any]],
    direction: Direction,
    *,
    theorem: str = "",
) -> Pld:
    """A loss distribution whose profile is nowhere above any profile inside the given brackets.

    Args:
      step: the step of the grid, in nats.
      own, other: delta [N] at epsilon = 0, step, 2 step, .., as far as it matters, in `direction` and in the other one.
      direction: of the result.
      theorem: the theorem by which the brackets hold.
    """
    left, right = other.lower.shape[0] - 1, own.lower.shape[0] - 1
    losses = step * np.arange(-left, right + 1)
    ratio = np.exp(losses)
    below = losses < 0

    def excess(a: NDArray[Any], b: NDArray[Any], pick: np.ufunc, sign: float) -> NDArray[Any]:
        """H - max(0, 1 - kappa) at the grid points; `sign` rounds outwards."""
        values = np.concatenate([b[:0:-1] * ratio[below] * (1.0 + sign * 2.0**-50 * (8.0 - losses[below])), a])
        values[left] = pick(a[0], b[0])
        return values

    low, high = excess(own.lower, other.lower, np.maximum, -1.0), excess(own.upper, other.upper, np.minimum, 1.0)
    at = step * (np.arange(-left - 1, right + 1) + 0.5)
    middles = np.zeros(at.shape[0])  # the first and the last stay 0: H >= max(0, 1 - kappa)
    width = np.diff(ratio)
    # slopes of the excess; over point 0 they change by 1
    from_left = (low[1:] - high[:-1]) / width
    from_right = (high[1:] - low[:-1]) / width
    cell_left, cell_right = np.append(-1.0, from_left)[:-1], np.append(from_right, 0.0)[1:]
    cell_left[left] -= 1.0 if left > 0 else 0.0
    if left > 0:
        cell_right[left - 1] += 1.0
    centre = np.exp(at[1:-1])
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        by_left, by_right = (
            low[:-1] + cell_left * (centre - ratio[:-1]),
            low[1:] - cell_right * (ratio[1:] - centre),
        )
        lines = np.minimum(by_left, by_right)
        middles[1:-1] = np.maximum(lines, 0.0)
        middles[1:-1] = np.where(np.isfinite(middles[1:-1]), middles[1:-1], 0.0)
        meet = (low[1:] - low[:-1] + cell_left * ratio[:-1] - cell_right * ratio[1:]) / (cell_left - cell_right)
        # where they meet is known to 2^-30 of the cell if the slopes differ by 2^-20
        value = low[:-1] + cell_left * (meet - ratio[:-1]) - 2.0**-30 * np.maximum(low[:-1], low[1:])
        is_vague = np.abs(cell_left - cell_right) < 2.0**-20 * np.abs(cell_left)
        # if both are negative, the profile may be 0 before the midpoint
        value = np.where(((by_left < 0.0) & (by_right < 0.0)) | is_vague, 0.0, value)
        to_left, to_right = (
            value * (centre - ratio[:-1]) / (centre - meet),
            value * (ratio[1:] - centre) / (meet - centre),
        )
    # upper bound on the chords at the grid points
    most = low * (1.0 - 2.0**-48)
    most[:-1] = np.where(by_left >= 0.0, most[:-1], np.fmin(most[:-1], np.fmax(to_left, 0.0)))
    most[1:] = np.where(by_right >= 0.0, most[1:], np.fmin(most[1:], np.fmax(to_right, 0.0)))
    middles[:-1][most <= _NOTHING * low] = 0.0
    middles[1:][most <= _NOTHING * low] = 0.0
    place = np.exp(at)
    share = (ratio - place[:-1]) / np.diff(place)
    crossing = np.zeros_like(ratio)
    crossing[left] = (1.0 - share[left]) * -math.expm1(-0.5 * step)  # there H exceeds its excess by 1 - kappa
    for _ in range(_ROUNDS):
        chord = (1.0 - share) * middles[:-1] + share * middles[1:] + crossing
        over = np.maximum(chord - most, 0.0)
        if not over.any():
            break
        middles[:-1] = np.maximum(middles[:-1] - 1.5 * over, 0.0)
        middles[1:] = np.maximum(middles[1:] - 1.5 * over, 0.0)
    else:
        middles[:] = 0.0
    if crossing[left] > low[left]:
        return Pld(0.0, step, np.zeros(1), 0.0, Bound.LOWER, direction, theorem=theorem)
    kept, slopes = hull(at, middles)
    whole, rest = (np.asarray(column) for column in zip((-1.0, 0.0), *slopes, (0.0, 0.0), strict=True))
    index = np.asarray(kept)
    ends = np.abs(np.concatenate([[at[0]], at[index], [at[-1]]]))
    error = 2.0**-48 * (8.0 + np.maximum(ends[:-1], ends[1:])) * np.abs(rest)
    error += np.where(whole == 0.0, np.where(np.abs(rest) > 1e-3, 2.0**-50, 0.0), 0.0)
    jump = np.diff(whole) + np.diff(rest) - error[1:] - error[:-1]
    masses = np.zeros(at.shape[0])
    masses[index] = np.exp(at[index]) * np.maximum(jump, 0.0) * (1.0 - 2.0**-46)
    return Pld(float(at[0]), step, masses, 0.0, Bound.LOWER, direction, theorem=theorem)
