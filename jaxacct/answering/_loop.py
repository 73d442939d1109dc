"""The one loop: asks the methods of a plan until the bracket is narrow, and remembers which of them gave each end."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxacct._method import (
    BOTH,
    Bracketing,
    BracketMethod,
    LaneBracketMethod,
    LaneMethod,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    TwoEndedMethod,
    one_sided,
)
from jaxacct._patience import told
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct.answering._lanes import Answer, ask, ask_where, bracket_many, bracket_on_lanes, bracket_points
from jaxacct.answering._loose import warn_of_looseness
from jaxacct.answering._plan import Step, plan
from jaxacct.answering._question import Question, directions_of
from jaxacct.special import LEAST_NORMAL

_CLOSE = 0.9  # lower end of the mechanism over the upper end from which on nothing weaker is asked about
_QUICK_GOAL, _QUICK_WIDTH = 1e-3, 1e-2  # at which quick questions try no larger program, and no other method
_MANY_POINTS = 256  # from which on quick questions compile a bracket's program: some 5 s, the host 20 ms a point
_SEVERAL, _MANY_GOAL = 4, 1e-3  # points bracketed together; width beyond which each is asked again, in default ones


class Asked(NamedTuple):
    """One method's part in an answer."""

    method: Method
    answer: Answer


def _largest(values: Sequence[Any]) -> Any:
    return functools.reduce(jnp.maximum if is_traced(values) else np.maximum, values)


@dataclasses.dataclass
class Found:
    """What is known so far, for every point of the question.

    Attributes:
      upper: the least upper bound found in each direction.
      lower: the largest lower bound on the mechanism itself, in each direction.
      analysis: the largest lower bound on what was analysed, in each direction.
      start: the ends, (analysis, upper) in each direction, from which the next host's method starts.
      source: in each direction, which of `asked` gave `upper`; -1 for none.
      asked: the methods asked, with their answers.
      exact: the directions in which an exact method gave `upper`.
      error: why a method gave nothing, if one failed.
    """

    question: Question
    upper: dict[Direction, Any]
    lower: dict[Direction, Any]
    analysis: dict[Direction, Any]
    start: dict[Direction, tuple[Any, Any]]
    source: dict[Direction, Any]
    asked: list[Asked] = dataclasses.field(default_factory=list)
    exact: set[Direction] = dataclasses.field(default_factory=set)
    error: TooFineError | None = None

    @classmethod
    def nothing(cls, question: Question) -> "Found":
        """What always holds."""
        shape, every = question.shape, question.directions
        return cls(
            question,
            {d: np.full(shape, question.query.worst) for d in every},
            {d: np.zeros(shape) for d in every},
            {d: np.zeros(shape) for d in every},
            {d: (np.zeros(shape), np.full(shape, question.query.worst)) for d in every},
            {d: np.full(shape, -1) for d in every},
        )

    @property
    def high(self) -> Any:
        """The answer from above: the larger of the directions."""
        return _largest(list(self.upper.values()))

    @property
    def low(self) -> Any:
        """The answer from below, of the mechanism itself."""
        return _largest(list(self.lower.values()))

    @property
    def analysis_low(self) -> Any:
        """The answer from below, of what was analysed."""
        return _largest(list(self.analysis.values()))

    def settled(self) -> Any:
        """Where the bracket of what is analysed is as narrow as asked, bool of the question's shape."""
        if self.question.is_traced:
            return np.zeros(self.question.shape, bool)
        width = _QUICK_WIDTH if self.question.is_quick else self.question.width
        with np.errstate(invalid="ignore", over="ignore"):
            return self.high - self.analysis_low <= width * self.analysis_low

    def narrow(self, asked: Asked, direction: Direction) -> None:
        """Takes in the upper bound of one method in one direction."""
        value = asked.answer.value
        number = next((i for i, known in enumerate(self.asked) if known is asked), len(self.asked))
        if number == len(self.asked):
            self.asked.append(asked)
        if is_traced(value):
            is_first = np.all(self.source[direction] < 0)
            self.upper[direction] = value if is_first else jnp.minimum(self.upper[direction], value)
            self.source[direction] = np.zeros(self.question.shape, int)
            return
        value = np.broadcast_to(value, self.question.shape)
        gains = (value < self.upper[direction]) | (self.source[direction] < 0)
        self.upper[direction] = np.minimum(self.upper[direction], value)
        self.source[direction] = np.where(gains, number, self.source[direction])
        if asked.method.is_exact:
            self.exact.add(direction)

    def raise_lower(self, value: Any, direction: Direction, *, of_reduction: Any) -> None:
        """Takes in a lower bound; where it is one `of_reduction` (bool) it says nothing about the mechanism itself."""
        self.analysis[direction] = np.maximum(self.analysis[direction], value)
        known = self.lower[direction]
        self.lower[direction] = np.where(of_reduction, known, np.maximum(known, value))

    def drop_tiny(self) -> None:
        """Leaves no lower end where delta is below the least normal double: there rounding down rounds to nearest."""
        for ends in (self.lower, self.analysis):
            for d, value in ends.items():
                delta = value if self.question.query is Query.DELTA else self.question.target
                ends[d] = np.where(np.asarray(delta) < LEAST_NORMAL, 0.0, value)


def answer(question: Question) -> Found:
    """What the methods of the plan find, asked one after the other as long as something is open."""
    every = plan(question)
    found = Found.nothing(question)
    for _, group in itertools.groupby(every, key=_kind_and_directions):
        steps = list(group)
        if one_sided(steps[0].method):
            _ask_one_sided(steps, found)
        else:
            for step in steps:
                _ask_two_sided(step, found)
    if not question.is_traced:
        _finish(found)
    return found


def _kind_and_directions(step: Step) -> tuple[bool, tuple[Direction, ...]]:
    return one_sided(step.method), step.directions


# Methods on lanes


def _ask_one_sided(steps: Sequence[Step], found: Found) -> None:
    """One direction by methods on lanes; those that may settle it against the other direction first."""
    question, (direction,) = found.question, steps[0].directions
    before = [found.upper[d] for d in question.directions[: question.directions.index(direction)]]
    least_order: Any = np.zeros(question.shape)
    if before and not question.is_traced:
        rival = _largest(before)
        steps = sorted(steps, key=lambda step: bool(np.any(_lies_above(step.method, question, rival))))
    for step in steps:
        method = step.method
        assert isinstance(method, LaneMethod)
        todo = np.ones(question.shape, bool)
        if not question.is_traced:
            todo = _is_open(method, direction, before, least_order, found)
            if todo.size and not todo.any():
                continue
        asked = next((known for known in found.asked if known.method is method), None)
        at = question.mechanism, question.query, question.target
        asked = asked or Asked(method, ask(method, *at) if question.is_traced else ask_where(todo, method, *at))
        if Bound.UPPER not in method.ends:
            found.raise_lower(asked.answer.value, direction, of_reduction=method.is_of_reduction(question.mechanism))
            continue
        found.narrow(asked, direction)
        found.start[direction] = found.analysis[direction], found.upper[direction]
        if not question.is_traced and isinstance(method, RenyiMethod):
            least_order = np.nan_to_num(asked.answer.order, nan=0.0)


def _lies_above(method: Method, question: Question, value: Any) -> Any:
    """Where a method's answer is at least `value` by its own cheap guess from below, bool; nowhere without a guess.

    Of delta: where the epsilon that it would give at the delta `value` is at least the one that is asked about. At
    epsilon 0 that says nothing: no epsilon is smaller, however small delta is.
    """
    if not isinstance(method, ProfileMethod) or method.floor is None:
        return np.zeros(question.shape, bool)
    with np.errstate(divide="ignore"):
        at, limit = (question.target, value) if question.query is Query.EPSILON else (value, question.target)
        log_delta = np.log(np.asarray(at, np.float64))
    return (method.floor(question.mechanism, log_delta) >= limit) & (limit > 0.0)


def _is_open(method: LaneMethod, direction: Direction, before: Sequence[Any], least_order: Any, found: Found) -> Any:
    """Where asking a method on lanes may change the answer by more than the width asked for, bool."""
    shape = found.question.shape
    if Bound.UPPER not in method.ends or found.question.method is not None:
        return np.ones(shape, bool)
    if direction in found.exact:
        return np.zeros(shape, bool)
    upper, settled = found.upper[direction], np.asarray(found.settled())
    hopeless = np.asarray(_lies_above(method, found.question, upper))
    if before:
        hopeless = hopeless | (upper <= _largest(before))
    if isinstance(method, RenyiMethod):
        hopeless = hopeless | (least_order > method.up_to_order)
    todo = ~settled & ~(hopeless & (found.source[direction] >= 0))
    # closed forms are exact in the limits of a scheme, where a bracket may lie above them
    if isinstance(method, ProfileMethod) and method.floor is not None and method.directions == BOTH and settled.any():
        todo = todo | (settled & ~np.asarray(_lies_above(method, found.question, found.high)))
    return todo


# Methods that bracket


def _ask_two_sided(step: Step, found: Found) -> None:
    is_exact = found.exact.issuperset(step.directions)
    if is_exact and not (found.question.wants_lower and Bound.LOWER in step.method.ends):
        return
    if isinstance(step.method, LaneBracketMethod):
        if found.question.is_traced:
            _ask_traced(step.method, step.directions, found)
            return
        where = np.ones(found.question.shape, bool)
        if found.question.is_quick and found.question.method is None and where.size >= _MANY_POINTS:
            where = np.broadcast_to(step.method.covers(found.question.mechanism), where.shape)
            if np.count_nonzero(where) >= _MANY_POINTS:
                _ask_lanes(step.method, where, step.directions, found)
        _ask_host(step.method.on_host, step.directions, found, where)
    else:
        assert isinstance(step.method, BracketMethod)
        _ask_host(step.method, step.directions, found)


def _ask_traced(method: LaneBracketMethod, directions: Sequence[Direction], found: Found) -> None:
    """Upper ends inside a user's program, at the one size that serves there."""
    question = found.question
    ends = bracket_on_lanes(method, question.mechanism, question.query, question.target, method.traced_size)
    for column, d in enumerate(Direction):
        if d in directions:
            found.narrow(Asked(method, Answer(ends.upper[..., column], jnp.nan, False)), d)


def _ask_lanes(method: LaneBracketMethod, where: np.ndarray, directions: Sequence[Direction], found: Found) -> None:
    """Both ends of the concrete points that `where` marks, as narrow as a quick question wants them."""
    columns, of = [list(Direction).index(d) for d in directions], found.question
    ends = bracket_many(method, where, of.mechanism, of.query, of.target, columns, _QUICK_GOAL)
    _take_in(method, ends, directions, found)


def _take_in(method: LaneBracketMethod | BracketMethod, ends: Ends[Any], directions: Any, found: Found) -> None:
    """Both ends of all points, [directions] + batch."""
    of_reduction = method.is_of_reduction(found.question.mechanism)
    for lower, upper, d in zip(ends.lower, ends.upper, directions, strict=True):
        found.raise_lower(np.minimum(lower, upper), d, of_reduction=of_reduction)
        found.narrow(Asked(method, Answer(upper, np.nan, False)), d)
        found.start[d] = found.analysis[d], found.upper[d]


def _ask_host(method: BracketMethod, directions: Sequence[Direction], found: Found, where: Any = True) -> None:
    """One point after the other, of those that `where` marks, where it is still open."""
    question = found.question
    if question.is_traced:
        raise ValueError(f"method={method.name!r} needs concrete numbers: it cannot run inside jit, vmap or grad")
    is_asked_anyway = method.sharpens_reduction or question.method is not None
    todo = where & (np.ones(question.shape, bool) if is_asked_anyway else ~np.asarray(found.settled()))
    if method.is_last_resort:
        todo = where & (np.asarray(found.high) >= question.query.worst)
    if method.many is not None and question.method is None and np.count_nonzero(todo) >= _SEVERAL:
        _take_in(method, bracket_points(method, todo, question, directions), directions, found)
        with np.errstate(invalid="ignore"):
            todo = todo & ~(found.high - found.analysis_low <= _MANY_GOAL * question.query.width * found.analysis_low)
    lower = {d: np.zeros(question.shape) for d in directions}
    upper = {d: np.full(question.shape, question.query.worst) for d in directions}
    of_reduction, asked = np.ones(question.shape, bool), False
    points = question.points() if np.any(todo) else ()
    for at, point in told(points, "points", int(np.count_nonzero(todo))):
        if not (todo[at] and method.applies(point.mechanism)):
            continue
        if question.method is None and not method.helps(point.mechanism):
            continue
        asked = True
        of_reduction[at] = Bound.LOWER not in method.ends or method.is_of_reduction(point.mechanism)
        known = {d: Ends(*(float(x[at]) for x in found.start[d])) for d in directions}
        if not of_reduction[at]:  # it may hand a known lower end on, as one of the mechanism itself
            known = {d: Ends(min(ends.lower, float(found.lower[d][at])), ends.upper) for d, ends in known.items()}
        try:
            ends = bracket_on_host(method, point, known)
        except TooFineError as error:
            found.error = error
            continue
        for d, (low, high) in ends.items():
            if not (math.isnan(low) or math.isnan(high)):  # else it says nothing
                lower[d][at], upper[d][at] = min(low, float(found.upper[d][at]), high), high
    for d in directions if asked else ():
        if Bound.LOWER in method.ends:
            found.raise_lower(lower[d], d, of_reduction=of_reduction)
        if Bound.UPPER in method.ends:
            found.narrow(Asked(method, Answer(upper[d], np.nan, False)), d)
    found.start.update({d: (found.analysis[d], found.upper[d]) for d in directions})


def bracket_on_host(
    method: BracketMethod, question: Question, known: dict[Direction, Ends[float]]
) -> dict[Direction, Ends[float]]:
    """The ends that a host's method gives for one point, in the directions of `known`."""
    width = question.width
    if question.method is not None and method.named_width is not None:
        width = method.named_width
    width = question.query.width if math.isinf(width) else width
    ask, share = functools.partial(_ask_part, of_share=question.share), question.share
    at = Bracketing(
        width=width, known=known, wants_lower=question.wants_lower, ask=ask, progress=question.progress, share=share
    )
    return dict(method.bracket(question.mechanism, question.query, question.target, at))


def _ask_part(
    mechanism: Any,
    query: Query,
    target: float,
    width: float,
    *,
    wants_lower: bool,
    direction: Direction | None = None,
    share: float = 1.0,
    of_share: float = 1.0,
) -> Ends[float]:
    """The loop for a part of a mechanism, the larger of its directions if none is named."""
    every = directions_of(mechanism, direction)
    found = answer(Question(mechanism, query, target, every, width, None, wants_lower, share=share * of_share))
    return Ends(float(min(found.low, found.high)), float(found.high))


def alone(method: Method, question: Question) -> Ends[float]:
    """The ends of the mechanism's value by one bracket method alone, at a scalar question of one direction."""
    own = dataclasses.replace(question, method=method.name, wants_lower=True)
    found = Found.nothing(own)
    _ask_two_sided(Step(method, own.directions), found)
    if found.error is not None:
        raise found.error
    _ask_weaker(found)
    found.drop_tiny()
    return Ends(float(np.minimum(found.low, found.high)), float(found.high))


# The end


def _finish(found: Found) -> None:
    """The lower end where only a reduction was analysed, and warnings of what is valid but loose."""
    question = found.question
    if found.error is not None and np.any(found.high >= question.query.worst):
        raise found.error
    if question.wants_lower:
        _ask_weaker(found)
        found.drop_tiny()
    warn_of_looseness(found)


def _ask_weaker(found: Found) -> None:
    """A lower end of the mechanism from one that reveals no more, where what was analysed is a reduction.

    Not where the mechanism itself is known closely already: what reveals less is hardly as close.
    """
    question = found.question
    if np.all(found.low >= _CLOSE * found.high):
        return
    brackets = [asked.method for asked in found.asked if isinstance(asked.method, TwoEndedMethod)]
    for method in brackets:
        if Bound.LOWER in method.ends and method.weaker is not None and method.is_of_reduction(question.mechanism):
            weaker = method.weaker(question.mechanism)
            if weaker is not None:
                width = question.width if question.method is None else question.query.width
                of = question.at(weaker, question.target)
                less = answer(dataclasses.replace(of, width=width, method=None, wants_lower=True, warns=False))
                for d in question.directions:
                    found.lower[d] = np.maximum(found.lower[d], less.lower[d])
            return
