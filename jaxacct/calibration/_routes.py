"""How a search asks for epsilon: by one method on lanes at a time, or as `jaxacct.epsilon` does, host's methods too."""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import LaneBracketMethod, LaneMethod, ProfileMethod, Query, RenyiMethod, TwoEndedMethod
from jaxacct._types import Direction, PrecisionWarning
from jaxacct.answering import Question, answer, plan, question_of
from jaxacct.answering._lanes import Answer, ask, ask_at_grid, bracket_on_lanes
from jaxacct.calibration._batch import Batch
from jaxacct.mechanisms._base import Mechanism

_CHUNK = 256  # lanes in a call: a smaller batch is asked for whole, so that its programs are compiled once
_GROUP = 8  # lanes in a call where a lane takes a tenth of a second or so
# Relative widths of brackets:
_EXACT = 1e-9  # asked of an exact method by name
_CLOSE = 1e-6  # tried where nothing was asked, since more nodes are cheap
_WIDE = 0.01  # accepted where nothing was asked


class Answered(NamedTuple):
    """Epsilon [L], right where it was wanted; what else the route says of each lane; the relative width behind it."""

    epsilon: np.ndarray
    extra: dict[str, np.ndarray]
    width: Any = 0.0


Route = Callable[[np.ndarray, np.ndarray], Answered]


def _lanes(wanted: np.ndarray, least: int) -> np.ndarray:
    """The lanes to ask for: those wanted, and as many others as make up a program that is compiled already."""
    at, others = np.flatnonzero(wanted), np.flatnonzero(~wanted)
    return np.concatenate([at, others[: max(0, least - at.size)]])


def _groups(wanted: np.ndarray) -> list[np.ndarray]:
    """The lanes wanted in small groups of one size, the last one filled up by repeating it."""
    at, size = np.flatnonzero(wanted), min(_GROUP, wanted.size)
    return [np.resize(at[i : i + size], size) for i in range(0, at.size, size)]


def num_grids(method: LaneMethod) -> int:
    """How many grids of orders a method has; 1 for one without orders."""
    return len(method.grids) if isinstance(method, RenyiMethod) else 1


def up_to_order(method: LaneMethod) -> float:
    """The best order so far beyond which the method is not worth asking."""
    return method.up_to_order if isinstance(method, RenyiMethod) else math.inf


def _ask(method: LaneMethod, grid: int, mechanism: Mechanism, target: np.ndarray) -> Answer:
    if isinstance(method, RenyiMethod):
        return ask_at_grid(method, grid, mechanism, Query.EPSILON, target)
    return ask(method, mechanism, Query.EPSILON, target)


def method_route(method: LaneMethod, grid: int, batch: Batch) -> Route:
    """By one method, at one of its grids of orders."""
    is_dear = not math.isinf(up_to_order(method))  # a tenth of a second for each lane

    def route(values: np.ndarray, wanted: np.ndarray) -> Answered:
        epsilon, order, edge = np.full(values.shape, np.inf), np.zeros(values.shape), np.zeros(values.shape, bool)
        for at in _groups(wanted) if is_dear else [_lanes(wanted, _CHUNK)]:
            found = _ask(method, grid, batch.mechanism(values[at], at), batch.target_delta[at])
            epsilon[at], order[at], edge[at] = found.value, found.order, found.at_edge
        return Answered(epsilon, {"order": order, "edge": edge})

    return route


def engine_route(
    batch: Batch,
    method: str | None,
    directions: tuple[Direction, ...],
    precision: float | None,
    start: np.ndarray,
) -> Route:
    """As `jaxacct.epsilon` answers point by point; moment inversion for all points at once, where it knows them.

    Which methods there are is asked at the values `start`.
    """
    probe = batch.mechanism(start)
    options: dict[str, Any] = {"method": method, "precision": precision}
    options["direction"] = None if directions == probe.directions else directions[0]
    steps = plan(Question(probe, Query.EPSILON, batch.target_delta, directions, _WIDE, method))
    inversion = next((step.method for step in steps if isinstance(step.method, LaneBracketMethod)), None)

    def is_sharp(point: Question) -> bool:
        return any(isinstance(s.method, TwoEndedMethod) and s.method.named_width is not None for s in plan(point))

    def route(values: np.ndarray, wanted: np.ndarray) -> Answered:
        epsilon, wide, widths = np.full(values.shape, np.inf), np.zeros(values.shape, bool), np.zeros(values.shape)
        left = wanted
        if inversion is not None:
            width = _EXACT if method is not None else _CLOSE if precision is None else precision
            enough = _WIDE if method is None and precision is None else width
            epsilon, is_settled = _inverted(inversion, batch, values, wanted, directions, width, enough)
            left = wanted & ~is_settled
        for i in np.flatnonzero(left).tolist():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                point = question_of(batch.point(values, i), Query.EPSILON, float(batch.target_delta[i]), **options)
                epsilon[i] = min(epsilon[i], float(answer(point).high))
            wide[i] = any(issubclass(w.category, PrecisionWarning) for w in caught)
            if method is None and (inversion is not None or not is_sharp(point)):
                widths[i] = _WIDE if precision is None else precision
        return Answered(epsilon, {"wide": wide}, widths)

    return route


def _inverted(
    method: LaneBracketMethod,
    batch: Batch,
    values: np.ndarray,
    wanted: np.ndarray,
    directions: tuple[Direction, ...],
    width: float,
    enough: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Upper ends by moment inversion, and whether nothing better need be asked.

    More nodes where the bracket contains the target and is wider than `width`; most nodes only if wider than `enough`.
    """
    columns = [i for i, d in enumerate(Direction) if d in directions]
    upper, lower = np.full((values.size, len(columns)), np.inf), np.zeros((values.size, len(columns)))
    high, low = upper[:, 0], lower[:, 0]
    decided = np.zeros(values.shape, bool)
    for size in method.sizes:
        todo = wanted & ~decided
        if not todo.any():
            continue
        for at in [_lanes(todo, _CHUNK)] if size is method.sizes[0] else _groups(todo):
            ends = bracket_on_lanes(
                method, batch.mechanism(values[at], at), Query.EPSILON, batch.target_delta[at], size
            )
            new_upper, new_lower = (np.asarray(x)[:, columns] for x in (ends.upper, ends.lower))
            open_ = ~(upper[at] - lower[at] <= width * lower[at])
            upper[at] = np.where(open_, np.minimum(upper[at], new_upper), upper[at])
            lower[at] = np.where(open_, np.maximum(lower[at], new_lower), lower[at])
        high, low = upper.max(axis=1), lower.max(axis=1)
        sided = (high <= batch.target_epsilon * (1.0 - _CLOSE)) | (low > batch.target_epsilon)
        decided = sided | (high - low <= (width if size is method.sizes[0] else max(width, enough)) * low)
    return high, decided


def is_hopeless(method: LaneMethod, batch: Batch, values: np.ndarray) -> np.ndarray:
    """Lanes in which `method` would miss the target at `values`, by its own guess."""
    if not isinstance(method, ProfileMethod) or method.floor is None:
        return np.zeros(values.shape, bool)
    floor = method.floor(batch.mechanism(values), np.log(batch.target_delta))
    return np.broadcast_to(floor > batch.target_epsilon, values.shape)
