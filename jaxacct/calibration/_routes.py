"""How a search computes epsilon: by one method on lanes at a time, or by all methods, as `jaxacct.epsilon` does."""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import LaneMethod, ProfileMethod, Query, RenyiMethod
from jaxacct._types import Bound, Direction, EstimateWarning, PrecisionWarning, TooFineError
from jaxacct.answering import answer, question_of
from jaxacct.answering._lanes import Answer, ask, ask_at_grid
from jaxacct.answering._plan import is_covered
from jaxacct.calibration._batch import PointBatch
from jaxacct.measures import Measure
from jaxacct.mechanisms._base import Mechanism

_CHUNK = 256  # lanes in a call: a smaller batch is computed whole, so that its programs are compiled once
_GROUP = 8  # lanes in a call where a lane takes a tenth of a second or so
# Relative widths of brackets:
_CLOSE = 1e-6  # so close that the answer counts as exact
_WIDE = 0.01  # accepted where no width was asked for


class Answered(NamedTuple):
    """Epsilon [L], right where it was wanted; what else the route gives for each lane; the relative width behind it."""

    epsilon: NDArray[Any]
    extra: dict[str, NDArray[Any]]
    width: Any = 0.0


Route = Callable[[NDArray[Any], NDArray[Any]], Answered]


def _lanes(wanted: NDArray[Any], least: int) -> NDArray[Any]:
    """The lanes to compute: those wanted, and others that fill up a program that is already compiled."""
    at, others = np.flatnonzero(wanted), np.flatnonzero(~wanted)
    return np.concatenate([at, others[: max(0, least - at.size)]])


def _groups(wanted: NDArray[Any]) -> list[NDArray[Any]]:
    """The lanes wanted in small groups of one size, the last one filled up by repeating it."""
    at, size = np.flatnonzero(wanted), min(_GROUP, wanted.size)
    return [np.resize(at[i : i + size], size) for i in range(0, at.size, size)]


def num_grids(method: LaneMethod) -> int:
    """How many grids of orders a method has; 1 for one without orders."""
    return len(method.grids) if isinstance(method, RenyiMethod) else 1


def up_to_order(method: LaneMethod) -> float:
    """The best order so far beyond which the method is not worth asking."""
    return method.up_to_order if isinstance(method, RenyiMethod) else math.inf


def _ask(method: LaneMethod, grid: int, mechanism: Mechanism, target: NDArray[Any]) -> Answer:
    if isinstance(method, RenyiMethod):
        return ask_at_grid(method, grid, mechanism, Query.EPSILON, target)
    return ask(method, mechanism, Query.EPSILON, target)


def method_route(method: LaneMethod, grid: int, batch: PointBatch) -> Route:
    """A `Route` by one method, at one of its grids of orders."""
    is_expensive = not math.isinf(up_to_order(method))  # a tenth of a second for each lane

    def route(values: NDArray[Any], wanted: NDArray[Any]) -> Answered:
        epsilon, order, edge = np.full(values.shape, np.inf), np.zeros(values.shape), np.zeros(values.shape, bool)
        for at in _groups(wanted) if is_expensive else [_lanes(wanted, _CHUNK)]:
            found = _ask(method, grid, batch.mechanism(values[at], at), batch.target_delta[at])
            epsilon[at], order[at], edge[at] = found.value, found.order, found.at_edge
        return Answered(epsilon, {"order": order, "edge": edge})

    return route


def engine_route(
    batch: PointBatch,
    method: str | None,
    directions: tuple[Direction, ...],
    precision: float | None,
    start: NDArray[Any],
) -> Route:
    """A `Route` that computes epsilon as `jaxacct.epsilon` does, point by point."""
    options: dict[str, Any] = {"method": method, "precision": precision}
    options["direction"] = None if directions == batch.mechanism(start).directions else directions[0]

    def route(values: NDArray[Any], wanted: NDArray[Any]) -> Answered:
        epsilon, wide, widths = np.full(values.shape, np.inf), np.zeros(values.shape, bool), np.zeros(values.shape)
        for i in np.flatnonzero(wanted).tolist():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                point = question_of(batch.point(values, i), Query.EPSILON, float(batch.target_delta[i]), **options)
                if not is_covered(point):
                    continue
                found = answer(point)
            epsilon[i], low = float(found.high), float(found.analysis_low)
            wide[i] = any(issubclass(w.category, PrecisionWarning) for w in caught)
            is_estimate = any(issubclass(w.category, EstimateWarning) for w in caught)
            if is_estimate or (method is None and not epsilon[i] - low <= _CLOSE * low):
                widths[i] = _WIDE if precision is None or math.isinf(precision) else precision
        return Answered(epsilon, {"wide": wide}, widths)

    return route


def measure_route(batch: PointBatch, measure: Measure, goal: NDArray[Any]) -> Route:
    """A `Route` by a measure, point by point: what is lost is at most `goal` if and only if the target [L] is met."""

    def route(values: NDArray[Any], wanted: NDArray[Any]) -> Answered:
        lost, found = np.full(values.shape, np.inf), np.full(values.shape, np.nan)
        for i in np.flatnonzero(wanted).tolist():
            try:
                found[i] = measure.of(batch.point(values, i))
            except TooFineError:  # so little noise that no grid holds its losses
                continue
            target = batch.target_epsilon[i]
            meets = found[i] <= target if measure.bound is Bound.UPPER else found[i] >= target
            loss = measure.lost(found[i])
            lost[i] = min(loss, goal[i]) if meets else max(loss, np.nextafter(goal[i], np.inf))
        return Answered(lost, {"value": found})

    return route


def is_hopeless(method: LaneMethod, batch: PointBatch, values: NDArray[Any]) -> NDArray[Any]:
    """Lanes in which `method` would miss the target at `values`, by its own guess."""
    if not isinstance(method, ProfileMethod) or method.floor is None:
        return np.zeros(values.shape, bool)
    floor = method.floor(batch.mechanism(values), np.log(batch.target_delta))
    return np.broadcast_to(floor > batch.target_epsilon, values.shape)
