"""The one loop: asks the methods of a plan until the bracket is narrow, and remembers which of them gave each end."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._method import (
    BOTH,
    Bracketing,
    BracketMethod,
    LaneMethod,
    Method,
    ProfileMethod,
    Query,
    RenyiMethod,
    Role,
)
from jaxacct._patience import told
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct.answering._beaten import is_beaten, note_beaten
from jaxacct.answering._found import Asked, Found, largest
from jaxacct.answering._inverted import invert
from jaxacct.answering._lanes import Answer, bracket_points
from jaxacct.answering._loose import warn_of_looseness
from jaxacct.answering._plan import Step, brackets_together, plan
from jaxacct.answering._question import Question, directions_of

_CLOSE = 0.9  # lower end of the mechanism over the upper end from which on nothing weaker is asked about
_SAME = 1e-6  # relative width beyond which points are both bracketed together and asked one by one: then all the same


def answer(question: Question) -> Found:
    """What the methods of the plan find, asked one after the other as long as something is open."""
    every = plan(question)
    found, sharpens = Found.nothing(question), False
    for _, group in itertools.groupby(every, lambda step: (isinstance(step.method, LaneMethod), step.directions)):
        steps = list(group)
        if isinstance(steps[0].method, LaneMethod):
            _ask_one_sided(steps, found)
        else:
            for step in steps:
                _ask_two_sided(step, found)
                sharpens = sharpens or step.method.role_for(question.mechanism) is Role.SHARPER
    if sharpens and not question.is_traced:
        _ask_what_decides(every, found)
    if not question.is_traced:
        for skipped, d in found.skipped if np.any(found.high >= question.query.worst) else ():
            _ask_host(skipped, (d,), found, is_asked_anyway=True)  # what beat it elsewhere says nothing here
        for method, d, upper in found.bracketed:
            note_beaten(method, question, d, upper, float(found.upper[d]))
        is_whole = question.inverts and question.method is None and not question.is_quick
        if is_whole and not np.all(found.settled()):
            invert(found, answer)
        _finish(found)
    return found


# Methods on lanes


def _ask_one_sided(steps: Sequence[Step], found: Found) -> None:
    """One direction by methods on lanes; those that may settle it against the other direction first."""
    question, (direction,) = found.question, steps[0].directions
    before = [found.upper[d] for d in question.directions[: question.directions.index(direction)]]
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
            if todo.size and not todo.any():
                continue
        asked = found.ask(method, todo)
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
        hopeless = hopeless | (upper <= largest(before))
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
    assert isinstance(step.method, BracketMethod)
    _ask_host(step.method, step.directions, found)


def _take_in(method: BracketMethod, ends: Ends[Any], directions: Any, found: Found) -> None:
    """Both ends of all points, [directions] + batch."""
    of_reduction = method.is_of_reduction(found.question.mechanism)
    for lower, upper, d in zip(ends.lower, ends.upper, directions, strict=True):
        found.raise_lower(np.minimum(lower, upper), d, of_reduction=of_reduction)
        found.narrow(Asked(method, Answer(upper, np.nan, False)), d)
        found.start[d] = found.analysis[d], found.upper[d]


def _ask_what_decides(steps: Sequence[Step], found: Found) -> None:
    """A direction that decides since a sharper method than the reduction has left another one below it.

    While the other one was the larger, this one was of no interest, and may be known roughly only.
    """
    question = found.question
    if question.method is not None or len(question.directions) < 2:
        return
    goal = question.query.width if math.isinf(question.width) else question.width
    sharpened = np.logical_or.reduce([found.upper[d] < found.analysis[d] for d in question.directions])
    for d in question.directions if np.any(sharpened) else ():
        rival = largest([found.upper[e] for e in question.directions if e is not d])
        for step in steps:
            with np.errstate(invalid="ignore"):
                rough = ~(found.upper[d] - found.analysis[d] <= goal * found.analysis[d])
            todo = sharpened & (rival < found.upper[d]) & rough
            if isinstance(step.method, BracketMethod) and len(step.method.ends) > 1 and d in step.directions:
                _ask_host(step.method, (d,), found, todo, is_asked_anyway=True)


def _ask_host(
    method: BracketMethod,
    directions: Sequence[Direction],
    found: Found,
    where: Any = True,
    *,
    is_asked_anyway: bool = False,
) -> None:
    """One point after the other, of those that `where` marks, where it is still open.

    Points that are still wide then are bracketed together, if the method can; of several points that comes first.
    """
    question = found.question
    if question.is_traced:
        raise ValueError(
            f"method={method.name!r} needs concrete numbers: it cannot run inside jit, vmap or grad; leave it out there"
        )
    is_part = question.share < 1.0 and not question.shape  # of a search, mostly
    if is_part and not is_asked_anyway:
        found.skipped += ((method, d) for d in directions if is_beaten(method, question, d))
        directions = [d for d in directions if (method, d) not in found.skipped]
        if not directions:
            return
    role = method.role_for(question.mechanism)
    is_asked_anyway = is_asked_anyway or role is Role.SHARPER or question.method is not None
    todo = where & (np.ones(question.shape, bool) if is_asked_anyway else ~np.asarray(found.settled()))
    if role is Role.LAST:
        todo = where & (np.asarray(found.high) >= question.query.worst)
    are_together = brackets_together(method, question, int(np.count_nonzero(todo)))
    if are_together:
        _take_in(method, bracket_points(method, todo, question, directions), directions, found)
        todo = todo & _is_wide(found, directions)
    lower = {d: np.zeros(question.shape) for d in directions}
    upper = {d: np.full(question.shape, question.query.worst) for d in directions}
    of_reduction, asked = np.ones(question.shape, bool), False
    points = question.points() if np.any(todo) else ()
    for at, point in told(points, "points", int(np.count_nonzero(todo))):
        if not (todo[at] and method.applies(point.mechanism)):
            continue
        if question.method is None and method.role_for(point.mechanism) is Role.BY_NAME:
            continue
        asked = True
        of_reduction[at] = method.is_of_reduction(point.mechanism)
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
                if is_part:
                    found.bracketed.append((method, d, high if high < known[d].upper else math.inf))
                lower[d][at], upper[d][at] = min(low, float(found.upper[d][at]), high), high
    for d in directions if asked else ():
        if Bound.LOWER in method.ends:
            found.raise_lower(lower[d], d, of_reduction=of_reduction)
        if method.ends != {Bound.LOWER}:
            found.narrow(Asked(method, Answer(upper[d], np.nan, False)), d)
    found.start.update({d: (found.analysis[d], found.upper[d]) for d in directions})
    is_left = asked and not are_together and brackets_together(method, question)
    if is_left and np.any(todo := todo & _is_wide(found, directions)):
        _take_in(method, bracket_points(method, todo, question, directions), directions, found)


def _is_wide(found: Found, directions: Sequence[Direction]) -> Any:
    """Where points that are bracketed together and one by one may differ by more than `_SAME`."""
    upper, lower = (largest([of[d] for d in directions]) for of in (found.upper, found.analysis))
    with np.errstate(invalid="ignore"):
        return ~(upper - lower <= _SAME * lower)


def bracket_on_host(
    method: BracketMethod, question: Question, known: dict[Direction, Ends[float]]
) -> dict[Direction, Ends[float]]:
    """The ends that a host's method gives for one point, in the directions of `known`."""
    width = question.query.width if math.isinf(question.width) else question.width
    inverts, share = question.inverts and not method.misses_deltas(question.mechanism), question.share
    ask = functools.partial(_ask_part, of_share=share, inverts=inverts)
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
    """The loop for a part of a mechanism, the larger of its directions if none is named.

    One of many parts asks for no epsilons to know its deltas: that would be dear, and the whole may ask for its own.
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
    for asked in found.asked:
        weaker = asked.method.weaker(question.mechanism)
        if weaker is not None and weaker is not question.mechanism:
            width = question.width if question.method is None else question.query.width
            of = question.at(weaker, question.target)
            own = dataclasses.replace(of, width=width, method=None, wants_lower=True, warns=False, inverts=False)
            less = answer(own)
            for d in question.directions:
                found.lower[d] = np.maximum(found.lower[d], less.lower[d])
            return
