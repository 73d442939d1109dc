"""What the other question says: an epsilon that holds at a delta makes that delta one that holds at the epsilon.

Methods that search, among grids, splits or what replaces what, may find for one question what they miss for the other.
Where such a method leaves an answer wide, the other question is asked at smaller answers, on a ladder whose rungs are
the promised width apart, and the last one that it confirms is taken. So delta at an epsilon that was the answer at some
delta is at most that delta, within the width.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._method import Method, Query
from jaxacct._types import TooFineError
from jaxacct.answering._found import Asked, Found
from jaxacct.answering._lanes import Answer
from jaxacct.answering._question import Question

_OTHER = {Query.EPSILON: Query.DELTA, Query.DELTA: Query.EPSILON}
# the ends of the ladder: the largest answer where none is known, and the least one that is looked for
_LARGEST, _LEAST = {Query.EPSILON: 1e6, Query.DELTA: 1.0}, {Query.EPSILON: 1e-15, Query.DELTA: 1e-40}
_NEAR = 5  # rungs between the ends of what is analysed up to which nothing more is looked for
_GROWTH = 8  # of the steps down the ladder, until one leads too far
_MOST_PROBES = 24  # one is enough where there is nothing to gain, some ten where there is much


def invert(found: Found, answer: Callable[[Question], Found]) -> None:
    """Takes in the least answers that the other question confirms, where methods that search left them wide.

    Args:
      found: what the methods say of concrete numbers, which is narrowed in place.
      answer: the loop, for the other question.
    """
    question, wide = found.question, _is_wide(found)
    if not wide.any():
        return
    values, method = np.full(question.shape, question.query.worst), None
    for at, point in question.points():
        if wide[at]:
            ladder = _Ladder(point, float(found.high[at]), float(found.low[at]), answer)
            values[at] = ladder.least()
            method = ladder.method or method
    for d in question.directions if method is not None else ():
        found.narrow(Asked(method, Answer(values, np.nan, False)), d)


def _is_wide(found: Found) -> Any:
    """Where there is much to gain after a method that searches was asked, bool of the question's shape."""
    question, searches = found.question, any(asked.method.is_searched for asked in found.asked)
    least = np.maximum(found.analysis_low * math.exp((_NEAR - 1) * _step(question)), _LEAST[question.query])
    gains = found.high > np.maximum(found.low, least) * math.exp(_step(question))
    if question.query is Query.EPSILON:
        gains = gains & (np.asarray(question.target) >= _LEAST[Query.DELTA])
    return gains & searches


def _step(question: Question) -> float:
    """The distance of two rungs, of the logarithm: the default width, or so many of these as the question's allows.

    So that every rung of a coarser question is one of a finer question, whose answer is then no larger.
    """
    step = math.log1p(question.query.width)
    return step * max(1, int(math.log1p(question.width) / step))


class _Ladder:
    """Answers to a scalar question below the one that is known: e^(-step k), rung k.

    Attributes:
      method: the one by which the other question confirmed an answer; None while none was.
    """

    def __init__(self, question: Question, high: float, low: float, answer: Callable[[Question], Found]) -> None:
        self._question, self._answer, self._step = question, answer, _step(question)
        self._top = math.floor(-math.log(min(high, _LARGEST[question.query])) / self._step)
        self._last = math.floor(-math.log(max(low, _LEAST[question.query])) / self._step)
        self.method: Method | None = None

    def least(self) -> float:
        """The answer on the last rung that is confirmed; the worst one where none is."""
        good, bad, leap, is_slow = self._top, self._last + 1, 1, False
        at_good = at_bad = math.nan
        for _ in range(_MOST_PROBES):
            before = bad - good
            if before <= 1:
                break
            # where a line crosses, but halfway after one that left more than half
            share = at_good / (at_good - at_bad) if at_good < 0.0 < at_bad < math.inf and not is_slow else 0.5
            rung = good + (leap if math.isnan(at_bad) else int(share * before))
            rung = min(max(rung, good + 1), bad - 1)
            excess = self._excess(self._value(rung))
            if excess <= 0.0:
                good, at_good, leap = rung, excess, _GROWTH * leap
            else:
                bad, at_bad = rung, excess
            is_slow = bad - good > before // 2 and not is_slow
        return self._question.query.worst if self.method is None else self._value(good)

    def _value(self, rung: int) -> float:
        return math.exp(-self._step * rung)

    def _excess(self, value: float) -> float:
        """By how much the other question's answer at `value` exceeds what is asked, epsilon or log delta; else <= 0."""
        question, other = self._question, _OTHER[self._question.query]
        if not other.allowed(value):
            return math.inf
        asked = dataclasses.replace(
            question.at(question.mechanism, value),
            query=other,
            width=other.width,
            wants_lower=False,
            warns=False,
            progress=None,
            inverts=False,
        )
        try:
            with warnings.catch_warnings():  # nobody asked for it
                warnings.simplefilter("ignore")
                found = self._answer(asked)
        except TooFineError:
            return math.inf
        high, target = float(found.high), question.target
        if high > target:
            return high - target if other is Query.EPSILON else math.log(high / max(target, 5e-324))
        if self.method is None:
            largest = max(found.upper, key=lambda d: float(found.upper[d]))
            self.method = found.asked[int(found.source[largest])].method
        return high - target if other is Query.EPSILON else math.log(max(high, 5e-324) / max(target, 5e-324))
