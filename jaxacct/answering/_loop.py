"""The one loop: asks the methods of a plan until the bracket is narrow, and remembers which of them gave each end."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import (
    BOTH,
    FAILURE,
    Bracketing,
    BracketMethod,
    LaneMethod,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    Role,
)
from jaxacct._patience import with_slow_warning
from jaxacct._types import (
    Bound,
    Direction,
    Ends,
    EstimateWarning,
    OrderEdgeWarning,
    PrecisionWarning,
    TooFineError,
)
from jaxacct.answering._beaten import is_beaten, note_beaten
from jaxacct.answering._found import Asked, Found, largest
from jaxacct.answering._inverted import invert
from jaxacct.answering._lanes import Answer, bracket_points
from jaxacct.answering._plan import SEVERAL, PlanStep, brackets_together, is_wanted, plan
from jaxacct.answering._question import Question, directions_of
from jaxacct.bounds._distribution import DistributionMethod

_CLOSE = 0.9  # ratio of the mechanism's lower end to its upper end from which no weaker mechanism is asked
# relative widths beyond which points are asked both together and one by one: how far the two may differ; and, where one
# engine does both, how much a point may suffer from those beside it, and the width of what is no answer
_SAME, _ENOUGH, _OPEN = 1e-6, 1e-3, 1.0
# Relative width of a bracket that is narrow enough for one of many questions: Renyi divergences are further off.
_RENYI = {Query.EPSILON: 0.01, Query.DELTA: 0.5}


def answer(question: Question) -> Found:
    """What the methods of the plan find (`Found`), asked one after the other as long as something is open."""
    every, found = plan(question), Found.nothing(question)
    for _, group in itertools.groupby(every, lambda step: (isinstance(step.method, LaneMethod), step.directions)):
        steps = list(group)
        if isinstance(steps[0].method, LaneMethod):
            _ask_lanes(steps, found)
        else:
            for step in steps:
                _ask_host(step.method, step.directions, found)
    if question.is_traced:
        return found
    brackets = [step for step in every if isinstance(step.method, BracketMethod)]
    if any(step.method.role_for(question.mechanism) is Role.SHARPER for step in brackets):
        _ask_what_decides(brackets, found)
    for skipped, d in found.skipped if np.any(found.high >= question.query.worst) else ():
        _ask_host(skipped, (d,), found, is_asked_anyway=True)  # what beat it elsewhere says nothing here
    for method, d, upper in found.bracketed:
        note_beaten(method, question, d, upper, float(found.brackets[d].upper))
    is_whole = question.inverts and question.method is None and not question.is_quick
    if is_whole and not np.all(found.settled()):
        invert(found, answer)
    if found.error is not None and np.any(found.high >= question.query.worst):
        raise found.error
    if question.wants_lower:
        _ask_weaker(found)
        found.drop_tiny()
    _warn_of_looseness(found)
    return found


# Methods on lanes


def _ask_lanes(steps: Sequence[PlanStep], found: Found) -> None:
    """Asks methods on lanes about one direction, first those that may settle it against the other direction."""
    question, (direction,) = found.question, steps[0].directions
    before = [found.brackets[d].upper for d in question.directions[: question.directions.index(direction)]]
    least_order: Any = np.zeros(question.shape)
    if before and not question.is_traced:
        rival = largest(before)
        steps = sorted(steps, key=lambda step: bool(np.any(_lies_above(step.method, question, rival))))
    for step in steps:
        method = step.method
        assert isinstance(method, LaneMethod)
        todo = np.ones(question.shape, bool)
        if not question.is_traced:
            todo = _is_open(method, direction, before, least_order, found)
            if question.is_batch and question.method is None:
                todo = _of_its_points(method, question, todo)
            if todo.size and not todo.any():
                continue
        asked = found.ask(method, todo)
        if Bound.UPPER not in method.ends:
            of_reduction = method.is_of_reduction(question.mechanism)
            found.brackets[direction] = found.brackets[direction].raised(asked.answer.value, of_reduction=of_reduction)
            continue
        found.narrow(asked, direction)
        found.start[direction] = found.brackets[direction]
        if not question.is_traced and isinstance(method, RenyiMethod):
            least_order = np.nan_to_num(asked.answer.order, nan=0.0)


def _of_its_points(method: LaneMethod, question: Question, todo: NDArray[Any]) -> NDArray[Any]:
    """`todo` without the points of a batch about which the method would not be asked, if each were asked alone."""
    if isinstance(method.role, Role):
        return todo
    kept = np.zeros(question.shape, bool)
    for at, point in question.points() if todo.any() else ():
        kept[at] = todo[at] and is_wanted(method, point)
    return kept


def _lies_above(method: Method, question: Question, value: Any) -> Any:
    """Where a method's answer is at least `value` by its own cheap guess from below, bool; nowhere without a guess.

    For delta: where the epsilon that it would give at the delta `value` is at least the one that is asked about. At
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
    if method.role_for(found.question.mechanism) is Role.LAST:
        return np.asarray(found.high) >= found.question.query.worst
    bracket, settled = found.brackets[direction], np.asarray(found.settled())
    if bracket.is_exact:
        return np.zeros(shape, bool)
    hopeless = np.asarray(_lies_above(method, found.question, bracket.upper))
    if before:
        hopeless = hopeless | (bracket.upper <= largest(before))
    if isinstance(method, RenyiMethod):
        hopeless = hopeless | (least_order > method.up_to_order)
        if found.question.share < 1.0:
            hopeless = hopeless | found.settled(_RENYI[found.question.query])
    todo = ~settled & ~(hopeless & (bracket.source >= 0))
    # closed forms are exact in the limits of a scheme, where a bracket may lie above them
    if isinstance(method, ProfileMethod) and method.floor is not None and method.directions == BOTH and settled.any():
        todo = todo | (settled & ~np.asarray(_lies_above(method, found.question, found.high)))
    return todo


# Methods that bracket


def _ask_what_decides(steps: Sequence[PlanStep], found: Found) -> None:
    """Asks about a direction that decides only because a method sharper than the reduction put the other below it.

    While the other direction was the larger one, this one did not matter, and may be known only roughly.
    """
    question, brackets = found.question, found.brackets
    if question.method is not None or len(question.directions) < 2:
        return
    goal = question.query.width if math.isinf(question.width) else question.width
    sharpened = np.logical_or.reduce([bracket.upper < bracket.analysis for bracket in brackets.values()])
    for d in question.directions if np.any(sharpened) else ():
        rival = largest([brackets[e].upper for e in question.directions if e is not d])
        for step in steps:
            upper, analysis = brackets[d].upper, brackets[d].analysis
            with np.errstate(invalid="ignore"):
                rough = ~(upper - analysis <= goal * analysis)
            todo = sharpened & (rival < upper) & rough
            if len(step.method.ends) > 1 and d in step.directions:
                _ask_host(step.method, (d,), found, todo, is_asked_anyway=True)


def _ask_host(
    method: Method,
    directions: Sequence[Direction],
    found: Found,
    where: Any = True,
    *,
    is_asked_anyway: bool = False,
) -> None:
    """Asks a method on the host about the points that `where` marks and that are still open, one after the other.

    Points that are still wide after that are bracketed together, if the method can do so; if there are several points,
    that comes first. Nothing is asked where exact methods have already given what this method can give.
    """
    assert isinstance(method, BracketMethod)
    question = found.question
    is_known = all(found.brackets[d].is_exact for d in directions)
    if is_known and not is_asked_anyway and not (question.wants_lower and Bound.LOWER in method.ends):
        return
    if question.is_traced:
        raise ValueError(f"method={method.name!r} needs concrete numbers: omit it inside jit, vmap or grad")
    if question.share < 1.0 and not question.shape and not is_asked_anyway:  # mostly one of a search
        found.skipped += ((method, d) for d in directions if is_beaten(method, question, d))
        directions = [d for d in directions if (method, d) not in found.skipped]
        if not directions:
            return
    role = method.role_for(question.mechanism)
    if role is Role.LAST:
        todo = where & (np.asarray(found.high) >= question.query.worst)
    elif is_asked_anyway or role is Role.SHARPER or question.method is not None:
        todo = where & np.ones(question.shape, bool)
    else:
        todo = where & ~np.asarray(found.settled())
    ways: list[_Way] = [_one_by_one]
    if brackets_together(method, question):
        ways.insert(int(np.count_nonzero(todo) < SEVERAL), _together)
    for way in ways:
        answered = way(method, directions, todo, found) if np.any(todo) else None
        if answered is not None:
            (lower, upper), of_reduction = answered
            for d, low, high in zip(directions, lower, upper, strict=True):
                if Bound.LOWER in method.ends:
                    found.brackets[d] = found.brackets[d].raised(low, of_reduction=of_reduction)
                if method.ends != {Bound.LOWER}:
                    found.narrow(Asked(method, Answer(high, np.nan, False)), d)
        found.start.update({d: found.brackets[d] for d in directions})
        if answered is None or way is ways[-1]:
            return
        width = _SAME
        if method.has_one_engine:
            width = min(question.width, _ENOUGH) if way is _together else _OPEN
        todo = todo & _is_wide(found, directions, width)


_Answered = tuple[Ends[Any], Any]  # the ends, [directions] + batch, and where the lower one is of a reduction
_Way = Callable[[BracketMethod, Sequence[Direction], NDArray[Any], Found], _Answered | None]


def _together(method: BracketMethod, directions: Sequence[Direction], todo: NDArray[Any], found: Found) -> _Answered:
    """The points `todo` by the method's own batches."""
    ends = bracket_points(method, todo, found.question, directions)
    return Ends(np.minimum(*ends), ends.upper), method.is_of_reduction(found.question.mechanism)


def _one_by_one(
    method: BracketMethod, directions: Sequence[Direction], todo: NDArray[Any], found: Found
) -> _Answered | None:
    """The points `todo`, one after the other; None if none of them is the method's to answer."""
    question, is_asked = found.question, False
    lower, upper = (np.full((len(directions), *question.shape), end) for end in (0.0, question.query.worst))
    of_reduction = np.ones(question.shape, bool)
    for at, point in with_slow_warning(question.points(), "points", int(np.count_nonzero(todo))):
        if not (todo[at] and method.applies(point.mechanism)):
            continue
        if question.method is None and method.role_for(point.mechanism) is Role.BY_NAME:
            continue
        is_asked = True
        of_reduction[at] = method.is_of_reduction(point.mechanism)
        known = {d: Ends(float(found.start[d].analysis[at]), float(found.start[d].upper[at])) for d in directions}
        if not of_reduction[at]:  # it may pass a known lower end on, as one of the mechanism itself
            known = {d: Ends(min(e.lower, float(found.brackets[d].lower[at])), e.upper) for d, e in known.items()}
        try:
            ends = bracket_on_host(method, point, known)
        except TooFineError as error:
            found.error = error
            continue
        for d, (low, high) in ends.items():
            if not (math.isnan(low) or math.isnan(high)):  # else it says nothing
                if question.share < 1.0 and not question.shape:
                    found.bracketed.append((method, d, high if high < known[d].upper else math.inf))
                row = directions.index(d), *at
                lower[row], upper[row] = min(low, float(found.brackets[d].upper[at]), high), high
    return (Ends(lower, upper), of_reduction) if is_asked else None


def _is_wide(found: Found, directions: Sequence[Direction], width: float) -> Any:
    """Where points that are bracketed together and one by one may differ by more than `width`, relative."""
    brackets = [found.brackets[d] for d in directions]
    upper, lower = largest([b.upper for b in brackets]), largest([b.analysis for b in brackets])
    with np.errstate(invalid="ignore"):
        return ~(upper - lower <= width * lower)


def bracket_on_host(
    method: BracketMethod, question: Question, known: dict[Direction, Ends[float]]
) -> dict[Direction, Ends[float]]:
    """The ends that a method on the host gives for one point, in the directions of `known`."""
    inverts, share = question.inverts and not method.misses_deltas(question.mechanism), question.share
    ask = functools.partial(_ask_part, of_share=share, inverts=inverts)
    width = question.query.width if math.isinf(question.width) else question.width
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
    inverts: bool = True,
) -> Ends[float]:
    """The ends of a part of a mechanism, by the whole loop; of the larger of its directions if none is named.

    One of many parts asks for no epsilons to learn its deltas: that would take long, and the whole may ask its own.
    """
    every = directions_of(mechanism, direction)
    inverts = inverts and share == 1.0
    options: dict[str, Any] = {"wants_lower": wants_lower, "share": share * of_share, "inverts": inverts}
    found = answer(Question(mechanism, query, target, every, width, **options))
    return Ends(float(min(found.low, found.high)), float(found.high))


def alone(method: Method, question: Question) -> Ends[float]:
    """The ends of the mechanism's value by one bracket method alone, at a scalar question of one direction."""
    own = dataclasses.replace(question, method=method.name, wants_lower=True)
    found = Found.nothing(own)
    _ask_host(method, own.directions, found)
    if found.error is not None:
        raise found.error
    _ask_weaker(found)
    found.drop_tiny()
    return Ends(float(np.minimum(found.low, found.high)), float(found.high))


def _ask_weaker(found: Found) -> None:
    """Takes in a lower end from a mechanism that reveals no more, where what was analysed is a reduction.

    Nothing is asked if the mechanism's own bracket is already narrow: a mechanism that reveals less is hardly as close.
    """
    question = found.question
    if np.all(found.low >= _CLOSE * found.high):
        return
    for asked in found.asked:
        weaker = asked.method.weaker(question.mechanism)
        if weaker is not None and weaker is not question.mechanism:
            width = question.width if question.method is None else question.query.width
            of = question.at(weaker, question.target)
            own = dataclasses.replace(of, width=width, method=None, wants_lower=True, warns=False, inverts=False)
            less = answer(own)
            for d, bracket in found.brackets.items():
                lower = np.maximum(bracket.lower, less.brackets[d].lower)
                found.brackets[d] = dataclasses.replace(bracket, lower=lower)
            return


def _warn_of_looseness(found: Found) -> None:
    """Warns the caller of the public function about what `found` (a `Found`) may still have to gain."""
    question = found.question
    for method, result, _ in found.asked:
        if isinstance(method, RenyiMethod) and np.any(
            result.at_edge & (result.value == found.high) & (found.high < question.query.worst)  # it decides
        ):
            message = (
                f"{question.query.value} by {method.name!r} is best at order {method.grids[-1][-1]:g}, the largest "
                "tried: a valid upper bound that may be loose"
            )
            warnings.warn(message, OrderEdgeWarning, stacklevel=4)
    for method in {asked.method for asked in found.asked if Bound.ESTIMATE in asked.method.ends}:
        message = (
            f"{question.query.value} by {method.name!r} is an estimate, no less than the true one with confidence "
            f"1 - {FAILURE:g} over its samples: it is not certified"
        )
        warnings.warn(EstimateWarning(message, FAILURE), stacklevel=4)
    if not question.warns or np.all(found.settled()):
        return
    # loss distributions that were asked to be narrow, and could have been
    refined = [asked.method for asked in found.asked if isinstance(asked.method, DistributionMethod)]
    runs = [point.mechanism for _, point in question.points()] if question.is_batch else [question.mechanism]
    if any(method.applies(run) and not method.is_one_sided(run) for method in refined for run in runs):
        low, high = float(np.max(found.analysis_low)), float(np.max(found.high))
        width = (high - low) / low if low > 0 else math.inf
        message = (
            f"relative width {width:.3g} instead of {question.width:g}: the interval is valid, but wider than asked"
        )
        warnings.warn(message, PrecisionWarning, stacklevel=4)
