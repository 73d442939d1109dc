"""What an answer is made of: the ends found so far, and which methods gave them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jnp
from jaxacct._method import BracketMethod, LaneMethod, Method, Query, Role
from jaxacct._precision import is_traced
from jaxacct._types import Direction, TooFineError
from jaxacct.answering._lanes import Answer, ask, ask_where
from jaxacct.answering._question import Question
from jaxacct.special import LEAST_NORMAL

_QUICK_WIDTH = 1e-2  # at which quick questions try no other method


class Asked(NamedTuple):
    """One method's part in an answer: at the points `where` it was asked."""

    method: Method
    answer: Answer
    where: Any = True


def largest(values: Sequence[Any]) -> Any:
    """The largest of some arrays, entry by entry, traced or not."""
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
      bracketed: the methods that bracketed a point, each direction, and the upper end; inf where that is no gain.
      skipped: the methods, each with a direction, that were not asked since they were beaten elsewhere.
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
    bracketed: list[tuple[Method, Direction, float]] = dataclasses.field(default_factory=list)
    skipped: list[tuple[BracketMethod, Direction]] = dataclasses.field(default_factory=list)
    exact: set[Direction] = dataclasses.field(default_factory=set)
    error: TooFineError | None = None

    @classmethod
    def nothing(cls, question: Question) -> Found:
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
        return largest(list(self.upper.values()))

    @property
    def low(self) -> Any:
        """The answer from below, of the mechanism itself."""
        return largest(list(self.lower.values()))

    @property
    def analysis_low(self) -> Any:
        """The answer from below, of what was analysed."""
        return largest(list(self.analysis.values()))

    def settled(self) -> Any:
        """Where the bracket of what is analysed is as narrow as asked, bool of the question's shape."""
        if self.question.is_traced:
            return np.zeros(self.question.shape, bool)
        width = _QUICK_WIDTH if self.question.is_quick else self.question.width
        with np.errstate(invalid="ignore", over="ignore"):
            return self.high - self.analysis_low <= width * self.analysis_low

    def ask(self, method: LaneMethod, todo: Any) -> Asked:
        """A method's answer at the points `todo` at least; the other direction may have asked about some before."""
        question = self.question
        number = next((i for i, known in enumerate(self.asked) if known.method is method), None)
        known = None if number is None else self.asked[number]
        at = method, question.mechanism, question.query, question.target
        if question.is_traced:
            return known or Asked(method, ask(*at))
        new = todo if known is None else todo & ~known.where
        if known is not None and not np.any(new):
            return known
        answer = ask_where(new, *at)
        if number is None or known is None:
            return Asked(method, answer, new)
        both = Answer(*(np.where(new, *of) for of in zip(answer, known.answer, strict=True)))
        self.asked[number] = Asked(method, both, new | known.where)
        return self.asked[number]

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
        if asked.method.role_for(self.question.mechanism) is Role.EXACT:
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
