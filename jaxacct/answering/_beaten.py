"""Methods that were far from the best bound at one of many questions about a mechanism; the others do not ask them.

A search by splits of epsilon asks a dozen questions at nearby targets. Skipping methods affects running time only: the
bounds of the methods that are asked hold.
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

    Never where a lower end is wanted too, which another method may give. Closed forms are always asked: a bound by the
    largest loss says nothing at epsilons below that loss, and everything from there on.
    """
    is_asked_alone = question.method is not None or question.wants_lower
    if method.cost is Cost.MICROSECONDS or question.shape or is_asked_alone:
        return False
    key, target = _key(method, question, direction), float(question.target)
    if question.query is Query.EPSILON:
        return target <= noted(key, 0.0)
    return target >= noted(key, math.inf)


def note_beaten(method: Method, question: Question, direction: Direction, upper: float, least: float) -> None:
    """Notes that a method was beaten, if the `upper` end that it gave lies far above the `least` one."""
    if upper <= _FAR[question.query] * least or least >= question.query.worst:
        return
    key, target = _key(method, question, direction), float(question.target)
    if question.query is Query.EPSILON:
        note(key, max(noted(key, 0.0), _LARGER_DELTA * target))
    else:
        note(key, min(noted(key, math.inf), _SMALLER_EPSILON * target))
