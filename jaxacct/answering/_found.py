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

_QUICK_WIDTH = 1e-2  # relative width at which quick questions try no further method


class Asked(NamedTuple):
    """One method's part in an answer: at the points `where` it was asked."""

    method: Method
    answer: Answer
    where: Any = True


def largest(values: Sequence[Any]) -> Any:
    """The largest of some arrays, entry by entry, traced or not."""
    return functools.reduce(jnp.maximum if is_traced(values) else np.maximum, values)


@dataclasses.dataclass(frozen=True)
class Bracket:
    """What is known of one direction, for every point of the question. It is immutable: narrowing it makes a new one.

    Attributes:
      upper: the least upper bound found.
      lower: the largest lower bound on the mechanism itself.
      analysis: the largest lower bound on what was analysed.
      source: which of the methods asked gave `upper`; -1 for none.
      is_exact: whether an exact method gave `upper`.
    """

    upper: Any
    lower: Any
    analysis: Any
    source: Any
    is_exact: bool = False

    def tightened(self, upper: Any, source: int, *, is_exact: bool) -> Bracket:
        """The bracket with an `upper` bound given by method number `source`, which is exact or not."""
        if is_traced(upper):
            least = upper if np.all(self.source < 0) else jnp.minimum(self.upper, upper)
            return dataclasses.replace(self, upper=least, source=np.zeros_like(self.source))
        upper = np.broadcast_to(upper, self.source.shape)
        gains = (upper < self.upper) | (self.source < 0)
        least, by = np.minimum(self.upper, upper), np.where(gains, source, self.source)
        return dataclasses.replace(self, upper=least, source=by, is_exact=self.is_exact or is_exact)

    def raised(self, lower: Any, *, of_reduction: Any) -> Bracket:
        """The bracket with a `lower` bound; one `of_reduction` (bool) says nothing about the mechanism itself."""
        own = np.where(of_reduction, self.lower, np.maximum(self.lower, lower))
        return dataclasses.replace(self, lower=own, analysis=np.maximum(self.analysis, lower))

    def without_tiny(self, query: Query, target: Any) -> Bracket:
        """Without lower ends of deltas below the least normal double, where rounding down rounds to nearest."""

        def seen(value: Any) -> Any:
            delta = value if query is Query.DELTA else target
            return np.where(np.asarray(delta) < LEAST_NORMAL, 0.0, value)

        return dataclasses.replace(self, lower=seen(self.lower), analysis=seen(self.analysis))


@dataclasses.dataclass
class Found:
    """What is known so far, for every point of the question.

    Attributes:
      brackets: the ends found in each direction.
      start: the brackets from which the next method on the host starts.
      asked: the methods asked, with their answers.
      bracketed: (method, direction, upper end) for each point that was bracketed; the end is inf if it gained nothing.
      skipped: (method, direction) for methods that were not asked because they were beaten elsewhere.
      error: why a method gave nothing, if one failed.
    """

    question: Question
    brackets: dict[Direction, Bracket]
    start: dict[Direction, Bracket]
    asked: list[Asked] = dataclasses.field(default_factory=list)
    bracketed: list[tuple[Method, Direction, float]] = dataclasses.field(default_factory=list)
    skipped: list[tuple[BracketMethod, Direction]] = dataclasses.field(default_factory=list)
    error: TooFineError | None = None

    @classmethod
    def nothing(cls, question: Question) -> Found:
        """The answer before any method is asked: what always holds."""
        worst, none, by_none = (np.full(question.shape, value) for value in (question.query.worst, 0.0, -1))
        every = dict.fromkeys(question.directions, Bracket(worst, none, none, by_none))
        return cls(question, every, dict(every))

    @property
    def high(self) -> Any:
        """The answer from above: the larger of the directions."""
        return largest([bracket.upper for bracket in self.brackets.values()])

    @property
    def low(self) -> Any:
        """The answer from below, of the mechanism itself."""
        return largest([bracket.lower for bracket in self.brackets.values()])

    @property
    def analysis_low(self) -> Any:
        """The answer from below, of what was analysed."""
        return largest([bracket.analysis for bracket in self.brackets.values()])

    def settled(self, width: float | None = None) -> Any:
        """Where the bracket of what is analysed is as narrow as asked, or as `width`, bool of the question's shape."""
        if self.question.is_traced:
            return np.zeros(self.question.shape, bool)
        if width is None:
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
        number = next((i for i, known in enumerate(self.asked) if known is asked), len(self.asked))
        if number == len(self.asked):
            self.asked.append(asked)
        upper = asked.answer.value
        is_exact = not is_traced(upper) and asked.method.role_for(self.question.mechanism) is Role.EXACT
        self.brackets[direction] = self.brackets[direction].tightened(upper, number, is_exact=is_exact)

    def drop_tiny(self) -> None:
        """Drops lower ends of deltas that are too small to be rounded down."""
        query, target = self.question.query, self.question.target
        self.brackets = {d: bracket.without_tiny(query, target) for d, bracket in self.brackets.items()}
