"""Deltas found by asking for epsilons: where an epsilon holds at a delta, that delta holds at the epsilon.

Methods that search, among splits, orders or local epsilons, may miss for delta a bound that they find for epsilon.
Where the answer comes from such a method and its bracket is wide, epsilon is computed at smaller deltas, on a ladder
whose rungs are the promised width apart, and the last delta that is confirmed is taken. So if an epsilon was the answer
at some delta, the answer for delta at that epsilon is at most that delta, within the width.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._method import Method, Query
from jaxacct._patience import with_slow_warning
from jaxacct._sharing import shared
from jaxacct._types import OrderEdgeWarning, PrecisionWarning, TooFineError
from jaxacct.answering._found import Asked, Found
from jaxacct.answering._lanes import Answer
from jaxacct.answering._question import Question

_LEAST = 1e-40  # the smallest delta that is tried: epsilons at smaller ones take long
_NEAR = 5  # nothing is tried where the ends of what is analysed are at most this many rungs apart
_GROWTH = 8  # of the steps down the ladder, until one leads too far
_MOST_LINES = 2  # of the lines that left more than half: near a largest loss, all of them do
_MOST_PROBES, _USUAL_PROBES = 24, 8  # enough for 9,300 rungs: five steps down, four with lines, and thirteen halvings


def invert(found: Found, answer: Callable[[Question], Found]) -> None:
    """Takes in the least deltas that epsilons confirm, where methods that may miss them decided and left them wide.

    Args:
      found: what the methods found for concrete numbers; narrowed in place.
      answer: the loop, for epsilon.
    """
    question, wide = found.question, _is_wide(found)
    if not wide.any():
        return
    values: Any = np.ones(question.shape)
    method: Method | None = None
    for at, point in question.points():
        if wide[at]:
            ladder = _Ladder(point, float(found.high[at]), float(found.low[at]), answer)
            values[at] = ladder.least()
            method = ladder.method or method
    if method is not None:
        for d in question.directions:
            found.narrow(Asked(method, Answer(values, np.nan, False)), d)


def _is_wide(found: Found) -> Any:
    """Where there may be much to gain, bool of the question's shape."""
    question, step = found.question, _step(found.question)
    if question.query is not Query.DELTA:
        return np.zeros(question.shape, bool)
    high, misses = found.high, np.zeros(question.shape, bool)
    for number, asked in enumerate(found.asked):
        for bracket in found.brackets.values() if asked.method.misses_deltas(question.mechanism) else ():
            misses = misses | ((bracket.source == number) & (bracket.upper >= high))
    least = np.maximum(found.analysis_low * math.exp((_NEAR - 1) * step), _LEAST)
    return misses & (high > np.maximum(found.low, least) * math.exp(step))


def _step(question: Question) -> float:
    """The distance of two rungs, in the logarithm: the default width, or its largest multiple in the question's width.

    So every rung is also one at the default width, whose answer is then no larger.
    """
    step = math.log1p(question.query.width)
    return step * max(1, int(math.log1p(question.width) / step))


class _Ladder:
    """Deltas of a scalar question below the one that is known: e^(-step k), rung k.

    Attributes:
      method: the one by which an epsilon confirmed a delta; None while none did.
    """

    def __init__(self, question: Question, high: float, low: float, answer: Callable[[Question], Found]) -> None:
        self._question, self._answer, self._step = question, answer, _step(question)
        self._top = math.floor(-math.log(high) / self._step)
        self._last = math.floor(-math.log(max(low, _LEAST)) / self._step)
        self.method: Method | None = None

    @shared()
    def least(self) -> float:
        """The delta on the last rung that is confirmed; 1 if none is."""
        good, bad, leap, num_slow, is_slow = self._top, self._last + 1, 1, 0, False
        at_good = at_bad = math.nan
        for _ in with_slow_warning(range(_MOST_PROBES), "epsilons at smaller deltas", _USUAL_PROBES):
            before = bad - good
            if before <= 1:
                break
            # where a line crosses, but halfway after one that left more than half
            is_line = at_good < 0.0 < at_bad < math.inf and not is_slow and num_slow < _MOST_LINES
            share = at_good / (at_good - at_bad) if is_line else 0.5
            rung = good + (leap if math.isnan(at_bad) else int(share * before))
            rung = min(max(rung, good + 1), bad - 1)
            excess = self._excess(self._value(rung))
            if excess <= 0.0:
                good, at_good, leap = rung, excess, _GROWTH * leap
            else:
                bad, at_bad = rung, excess
            is_slow = is_line and bad - good > before // 2
            num_slow += is_slow
        return 1.0 if self.method is None else self._value(good)

    def _value(self, rung: int) -> float:
        return math.exp(-self._step * rung)

    def _excess(self, delta: float) -> float:
        """How much epsilon at `delta` exceeds the one that is asked about; <= 0 if it does not."""
        question = self._question
        if not delta < 1.0:
            return math.inf
        asked = dataclasses.replace(
            question.at(question.mechanism, delta),
            query=Query.EPSILON,
            width=Query.EPSILON.width,
            wants_lower=False,
            warns=False,
            progress=None,
        )
        try:
            with warnings.catch_warnings():  # nobody asked for these answers; only slowness is reported
                for category in (OrderEdgeWarning, PrecisionWarning):
                    warnings.simplefilter("ignore", category)
                found = self._answer(asked)
        except TooFineError:
            return math.inf
        if self.method is None and float(found.high) <= question.target:
            largest = max(found.brackets.values(), key=lambda bracket: float(bracket.upper))
            self.method = found.asked[int(largest.source)].method
        return float(found.high) - float(question.target)
