"""Integrals of a log-concave function on the line, enclosed by its values at given places; on the host, in NumPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.special._rounding import ULP

_MOST_DOUBLINGS = 200  # of a place, or halvings of it
_PLACES = 2048  # looked at


class Enclosed(NamedTuple):
    """Integrals over cells: [K] at most and [K] at least."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def where_fallen(log_function: Callable[[Any], Any], drop: float) -> float:
    """About the least z > 0 at which an even, concave function is `drop` > 0 or more below its value at 0.

    Of a function that does not fall, or is no number there, inf.

    Args:
      log_function: of an array [N] of places, to an array [N] of values.
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
    """Whether `value` [N] at ascending `place` [N], each known to within `error` [N], may be those of a concave one."""
    width, away = np.diff(place), 2.0 * error
    slope, unsure = np.diff(value) / width, np.maximum(away[1:], away[:-1]) / width
    return bool(np.all(np.diff(slope) <= unsure[1:] + unsure[:-1]))


def integrals(place: Any, value: Any, error: Any) -> Enclosed:
    """Enclosures of the integrals of e^f over all cells but the first and the last, f concave.

    f is above its chord in a cell and below those of both neighbours, which are drawn out: the lower end is the
    integral of e^chord, the upper one that of e^(the one chord up to some place, the other one beyond), each closed.

    Args:
      place: [K + 3], ascending, ends of K + 2 cells.
      value: [K + 3], of f at them, of size 690 at most.
      error: [K + 3], how far each is off at most.
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
    # exponents err by their own size, up to 690 and what chords that are drawn out add; sums of products by little
    size = np.abs(value[1:-2]) + np.abs(value[2:-1]) + (1.0 + np.abs(before) + np.abs(after)) * h
    rounded = 8.0 * ULP * (4.0 + size)
    return Enclosed(under * np.exp(-off - rounded), above * np.exp(rounded))


def _mean_growth(x: Any) -> Any:
    """(e^x - 1) / x, 1 at 0."""
    safe = np.where(x == 0.0, 1.0, x)
    return np.where(x == 0.0, 1.0, np.expm1(safe) / safe)
