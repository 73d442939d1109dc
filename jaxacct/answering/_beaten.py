"""Methods that were beaten by far at one of many questions about a mechanism, and are not asked at the others.

A search by splits of epsilon asks a dozen questions at targets near each other. This steers running time only: what the
methods that are asked find holds.
"""

import math
from typing import Any

from jaxacct._method import Cost, Method, Query
from jaxacct._sharing import note, noted
from jaxacct._types import Direction
from jaxacct.answering._question import Question

_FAR = {Query.EPSILON: 2.0, Query.DELTA: 1e6}  # an upper end this many times the least one is beaten by far
# How far from the target where a method was beaten it also counts as beaten: the delta that is asked for may be this
# many times larger, the epsilon this many times as large; at smaller deltas, and larger epsilons, it always does.
_LARGER_DELTA, _SMALLER_EPSILON = 16.0, 0.75


def _key(method: Method, question: Question, direction: Direction) -> Any:
    return "beaten", method.name, question.mechanism, question.query, direction


def is_beaten(method: Method, question: Question, direction: Direction) -> bool:
    """bool: whether it was beaten by far, in this direction, at a question of the same search about as easy.

    Never where a lower end is wanted too: which method gives it is another matter. Closed forms are always asked: a
    largest loss says nothing below itself, and everything from there on.
    """
    is_asked_alone = question.method is not None or question.wants_lower
    if method.cost is Cost.MICROSECONDS or question.shape or is_asked_alone:
        return False
    key, target = _key(method, question, direction), float(question.target)
    if question.query is Query.EPSILON:
        return target <= noted(key, 0.0)
    return target >= noted(key, math.inf)


def note_beaten(method: Method, question: Question, direction: Direction, upper: float, least: float) -> None:
    """Notes it if the `upper` end that a method gained lies far above the `least` one."""
    if upper <= _FAR[question.query] * least or least >= question.query.worst:
        return
    key, target = _key(method, question, direction), float(question.target)
    if question.query is Query.EPSILON:
        note(key, max(noted(key, 0.0), _LARGER_DELTA * target))
    else:
        note(key, min(noted(key, math.inf), _SMALLER_EPSILON * target))
