"""Enclosures of integrals of a log-concave function on the line, from its values at given points; on the host."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.special._rounding import ULP

_MOST_DOUBLINGS = 200  # of a place, or halvings of it
_PLACES = 2048  # places tried in the last interval


class Enclosed(NamedTuple):
    """Lower and upper bounds [K] on integrals over cells."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def where_fallen(log_function: Callable[[Any], Any], drop: float) -> float:
    """Approximately the least z > 0 at which an even, concave function is at least `drop` > 0 below its value at 0.

    inf for a function that does not fall that far within the doublings tried.

    Args:
      log_function: from an array [N] of places to an array [N] of values.
      drop: in nats.
    """

    def has_fallen(places: Any) -> Any:
        with np.errstate(all="ignore"):
            value = np.asarray(log_function(np.concatenate([[0.0], places])), np.float64)
        return ~(value[0] - value[1:] < drop)

    place = 1.0
    if has_fallen(np.array([place]))[0]:
        for _ in range(_MOST_DOUBLINGS):
            if not has_fallen(np.array([0.5 * place]))[0]:
                break
            place *= 0.5
    else:
        for _ in range(_MOST_DOUBLINGS):
            place *= 2.0
            if has_fallen(np.array([place]))[0]:
                break
        else:
            return float("inf")
    places: Any = np.linspace(0.5 * place, place, _PLACES)
    return float(places[np.argmax(has_fallen(places))])


def is_concave(place: Any, value: Any, error: Any) -> bool:
    """Whether `value` [N] at ascending `place` [N], known to within `error` [N], may be from a concave function."""
    width, away = np.diff(place), 2.0 * error
    slope, unsure = np.diff(value) / width, np.maximum(away[1:], away[:-1]) / width
    return bool(np.all(np.diff(slope) <= unsure[1:] + unsure[:-1]))


def integrals(place: Any, value: Any, error: Any) -> Enclosed:
    """Enclosures of the integrals of e^f over all cells but the first and the last, f concave.

    In a cell, f is above its own chord and below the extended chords of both neighbours. The lower end is the integral
    of e^chord. The upper end is the integral of e^(one neighbour's chord up to some place, the other's beyond). Both
    have closed forms.

    Args:
      place: [K + 3], ascending, ends of K + 2 cells.
      value: [K + 3], of f at these places, at most 690 in size.
      error: [K + 3], bounds on the errors of the values.
    """
    width = np.diff(place)
    slope = np.diff(value) / width
    before, after, h = slope[:-2], slope[2:], width[1:-1]
    low, high = value[1:-2], value[2:-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        turn = h * ((slope[1:-1] - after) / (before - after))  # any place in the cell will do
    turn = np.clip(np.where(np.isnan(turn), 0.5 * h, turn), 0.0, h)
    rest = h - turn
    under = np.exp(low) * h * _mean_growth(slope[1:-1] * h)
    off = np.maximum(np.maximum(error[:-3], error[1:-2]), np.maximum(error[2:-1], error[3:]))
    drawn = [np.exp(off * (1.0 + 2.0 * h / beside)) for beside in (width[:-2], width[2:])]
    above = np.exp(low) * turn * _mean_growth(before * turn) * drawn[0]
    above = above + np.exp(high) * rest * _mean_growth(-after * rest) * drawn[1]
    # exponents err in proportion to their size, up to 690 and what the extended chords add; sums of products by little
    size = np.abs(value[1:-2]) + np.abs(value[2:-1]) + (1.0 + np.abs(before) + np.abs(after)) * h
    rounded = 8.0 * ULP * (4.0 + size)
    return Enclosed(under * np.exp(-off - rounded), above * np.exp(rounded))


def _mean_growth(x: Any) -> Any:
    """(e^x - 1) / x, 1 at 0."""
    safe = np.where(x == 0.0, 1.0, x)
    return np.where(x == 0.0, 1.0, np.expm1(safe) / safe)
