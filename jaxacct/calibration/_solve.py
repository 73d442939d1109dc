"""Solving for a field in a batch: by methods on lanes, or by all that `jaxacct.epsilon` uses; here or on workers."""

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import FAILURE, BracketMethod, Engine, LaneMethod, Method, Query, Role
from jaxacct._types import Bound, Direction, EstimateWarning, OrderEdgeWarning, PrecisionWarning
from jaxacct.answering import Question, plan, question_of
from jaxacct.answering._plan import is_covered
from jaxacct.calibration._batch import PointBatch, flattened, range_of
from jaxacct.calibration._by_methods import by_methods
from jaxacct.calibration._routes import engine_route, measure_route
from jaxacct.calibration._search import MOST_ASKED, Affordable, search
from jaxacct.measures import Measure
from jaxacct.workers import Workers, gathered

# Share of the target epsilon that is kept as a margin: the same question in a batch of another size may differ in its
# last digits.
_MARGIN = 1e-9
_BRACKET = 1e-3  # share of the tolerance: where a measure has a step at the target, the field is found to this
_NEAR = 0.02  # relative tolerance of a first search by methods on lanes, where the search by the host's methods begins
_TOGETHER = 256  # points that an executor is sent at once for quick methods; others go one by one


@dataclasses.dataclass(frozen=True)
class Solve:
    """How a field is solved for: as for `jaxacct.calibrate`.

    Attributes:
      keys: the keys of the field.
      method, directions, precision, tolerance: as for `jaxacct.calibrate`.
    """

    keys: tuple[Any, ...]
    method: str | None
    directions: tuple[Direction, ...]
    precision: float | None
    tolerance: float

    def __call__(self, batch: PointBatch) -> Affordable:
        """The value in each lane of a batch."""
        where, start = range_of(batch, self.keys)
        target = batch.target_epsilon * (1.0 - _MARGIN)
        every = [self._question(batch, x) for x in (start, where.worst, where.best)]
        # a method that is named may cover part of the range: elsewhere nothing is known, and nothing affordable
        asked = [question for question in every if is_covered(question)] or every
        steps = [(step.method, question) for question in asked for step in plan(question)]
        on_lanes = all(isinstance(method, LaneMethod) for method, _ in steps)
        has_bracket = any(isinstance(m, BracketMethod) and m.role_for(q.mechanism) is Role.QUICK for m, q in steps)
        quick = dict.fromkeys(m for question in asked for m in _quick_methods(question, on_lanes))
        methods = tuple(m for m in quick if isinstance(m, LaneMethod) and len(asked) == len(every))
        if methods and (self.method is not None or on_lanes or (asked[0].is_quick and not has_bracket)):
            found = by_methods(batch, methods, self.directions, target, where, start, self.tolerance)
            if np.any(found.asked["edge"] & found.is_affordable):
                message = "the calibrated value rests on the largest Renyi order tried: it is valid, but may be loose"
                warnings.warn(message, OrderEdgeWarning, stacklevel=3)
            return found
        first = plan(asked[0])[0].method
        if methods and first.engine is Engine.DISTRIBUTIONS:  # else starting nearby saves little
            near = by_methods(batch, methods, self.directions, target, where, start, _NEAR)
            start = np.where(near.is_affordable, near.value, start)
        found = search(
            engine_route(batch, self.method, self.directions, self.precision, start),
            target,
            where,
            start,
            np.ones(target.shape, bool),
            self.tolerance,
        )
        sampled = [step.method for step in plan(asked[0]) if Bound.ESTIMATE in step.method.ends]
        for method in sampled:
            message = (
                f"the calibrated value rests on estimates by {method.name!r}, all of which hold with confidence "
                f"1 - {MOST_ASKED * FAILURE:g}: it is not certified"
            )
            warnings.warn(EstimateWarning(message, MOST_ASKED * FAILURE), stacklevel=3)
        if self.precision is not None and np.any(found.asked["wide"] & found.is_affordable):
            message = f"the calibrated value rests on an interval wider than precision={self.precision:g}: it is valid"
            warnings.warn(message, PrecisionWarning, stacklevel=3)
        return found

    def _question(self, batch: PointBatch, x: NDArray[Any]) -> Question:
        """The question for the batch where the field is `x` [L]."""
        of, at = batch.mechanism(x), batch.target_delta
        question = question_of(of, Query.EPSILON, at, method=self.method, precision=self.precision)
        return dataclasses.replace(question, directions=self.directions)


@dataclasses.dataclass(frozen=True)
class SolveMeasure:
    """How a field is solved for by a measure: as for `jaxacct.calibrate`.

    Attributes:
      keys: the keys of the field.
      measure, tolerance: as for `jaxacct.calibrate`.
    """

    keys: tuple[Any, ...]
    measure: Measure
    tolerance: float

    precision = None

    def __call__(self, batch: PointBatch) -> Affordable:
        """The value in each lane of a batch."""
        where, start = range_of(batch, self.keys)
        goal = np.asarray(self.measure.lost(batch.target_epsilon))
        todo, bracket = np.ones(goal.shape, bool), _BRACKET * self.tolerance
        return search(measure_route(batch, self.measure, goal), goal, where, start, todo, bracket, self.tolerance)


def _quick_methods(question: Question, on_lanes: bool) -> list[Method]:
    """The methods on lanes that answer a question, or would if it were a quick one."""
    quick = question if on_lanes or question.method is not None else dataclasses.replace(question, width=math.inf)
    return [step.method for step in plan(quick) if isinstance(step.method, LaneMethod)]


@dataclasses.dataclass(frozen=True)
class _Apart:
    """One chunk of a batch solved by itself: a pure function of its lanes.

    `example` is the mechanism at any of its points, whose structure all share.
    """

    solve: Solve | SolveMeasure
    example: Any

    def __call__(self, lanes: tuple[NDArray[Any], ...]) -> Affordable:
        """The value in each lane: of (leaves but the unknown .., target epsilon, target delta), [L] each."""
        leaves, structure = flattened(self.example, self.solve.keys)
        rest = iter(lanes)
        known = tuple(None if leaf is None else next(rest) for leaf in leaves)
        return self.solve(PointBatch(structure, known, next(rest), next(rest)))


def solved_apart(workers: Workers, solve: Solve | SolveMeasure, batch: PointBatch) -> Affordable:
    """As `Solve`, chunk by chunk on workers."""
    size = _TOGETHER if solve.precision == math.inf else 1
    numbers = (x for x in batch.leaves if x is not None)
    lanes = (*numbers, batch.target_epsilon, batch.target_delta)
    count = batch.target_delta.size
    chunks = [tuple(x[i : i + size] for x in lanes) for i in range(0, count, size)]
    example = batch.point(np.ones(count), 0)
    found = gathered(workers, _Apart(solve, example), chunks)
    names = set.intersection(*(set(part.asked) for part in found))
    asked = {name: np.concatenate([part.asked[name] for part in found]) for name in sorted(names)}
    value, is_affordable, epsilon = (np.concatenate([part[i] for part in found]) for i in range(3))
    return Affordable(value, is_affordable, epsilon, asked)
