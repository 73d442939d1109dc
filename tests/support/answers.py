"""Questions that the public API does not ask: one direction from both sides, one method."""

from typing import Any

import jaxacct as ja
from jaxacct._method import Bracketing, Query
from jaxacct._types import Ends, Interval
from jaxacct.answering import Question, answer
from jaxacct.bounds import methods_for
from jaxacct.bounds._distribution import DistributionMethod

EPSILON, DELTA = Query.EPSILON, Query.DELTA


def interval_of(mechanism: Any, query: Query, target: float, width: float, directions: tuple[ja.Direction, ...]) -> Any:
    """The certified interval in some directions."""
    found = answer(Question(mechanism, query, target, directions, width, wants_lower=True, warns=True))
    high = float(found.high)
    return Interval(min(float(found.low), high), high, min(float(found.analysis_low), high))


def _at(query: Query, directions: tuple[ja.Direction, ...], width: float, progress: Any = None) -> Bracketing:
    known = dict.fromkeys(directions, Ends(0.0, query.worst))
    return Bracketing(width=width, known=known, wants_lower=True, ask=None, progress=progress)


def bracket_of(method: Any, mechanism: Any, query: Query, target: float, direction: ja.Direction) -> Ends[float]:
    """The ends that a host's method gives in one direction."""
    return method.bracket(mechanism, query, target, _at(query, (direction,), 1e-9))[direction]


def refined(mechanism: Any, query: Query, target: float, width: float, directions: Any = tuple(ja.Direction)) -> Any:
    """The ends by loss distributions alone, of what is analysed: the larger over directions."""
    (method,) = (m for m in methods_for(mechanism) if isinstance(m, DistributionMethod))
    found = method.bracket(mechanism, query, target, _at(query, directions, width))
    return Ends(max(e.lower for e in found.values()), max(e.upper for e in found.values()))
