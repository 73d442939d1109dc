"""Slopes of answers: outside traced code those of the sharp answer, inside it those of the program's bound.

Where nothing but the derivative is traced, JAX passes concrete numbers to the rule for the derivative. Then no program
is needed: certified answers at nearby numbers show how the answer changes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax, jnp
from jaxacct._method import Query
from jaxacct._precision import is_traced
from jaxacct._precision._floats import narrowed_up
from jaxacct._validate import check_delta, check_epsilon
from jaxacct.answering import answer
from jaxacct.answering._found import Found
from jaxacct.answering._question import check_mechanism, question_of
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import number_paths, value_at

# How much a number is moved, relative to itself (a count by at least one): little where answers are sharp, since the
# logarithm is curved; more where they are brackets, since differences err by their widths.
_STEPS = 5e-3, 2e-2
_STEP_BY_WIDTH = 50.0  # the step divided by the relative width of a bracket, between those
_SHARPER = 0.1  # the width of brackets behind slopes, over that of other questions
_SIDES = (-1.0, 1.0, -2.0, 2.0)  # steps to try: the first two that are in range are taken
_MOST = 256  # number of slopes, over all points, beyond which a program takes less time
_CHECKS = {Query.EPSILON: check_delta, Query.DELTA: check_epsilon}  # of the target, which may have been a tracer

Numbers = Sequence[Any]


class TracedQuestion:
    """A question as a function of its traced numbers: answers at concrete numbers, and slopes of the sharp answers.

    Args:
      mechanism, query, target: what is asked; some of its numbers are tracers.
      choices: keyword arguments of `question_of`.
    """

    def __init__(self, mechanism: Mechanism, query: Query, target: Any, choices: Mapping[str, Any]):
        self._query, self._choices = query, choices
        self._leaves, self._structure = jax.tree.flatten((mechanism, target))
        self._traced_at = [i for i, leaf in enumerate(self._leaves) if is_traced(leaf)]

    @property
    def numbers(self) -> Numbers:
        """The tracers."""
        return [self._leaves[i] for i in self._traced_at]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape to which all numbers broadcast."""
        return np.broadcast_shapes(*map(np.shape, self._leaves))

    def _around(self, numbers: Numbers) -> tuple[Any, Any]:
        whole = dict(enumerate(self._leaves)) | dict(zip(self._traced_at, numbers, strict=True))
        question: tuple[Any, Any] = jax.tree.unflatten(self._structure, whole.values())
        return question

    def _fits(self, numbers: Numbers) -> bool:
        moved, goal = self._around(numbers)
        try:
            check_mechanism(moved)
        except ValueError:
            return False
        return bool(np.all(self._query.allowed(np.asarray(goal))))

    def find(self, numbers: Numbers, width: float = math.inf) -> Found:
        """What is found at `numbers`, with brackets no wider than `width` where they are asked for."""
        mechanism, target = self._around(numbers)
        _CHECKS[self._query](self._query.given, target)
        question = question_of(mechanism, self._query, target, **self._choices)
        if not question.is_quick:
            question = dataclasses.replace(question, width=min(question.width, width))
        return answer(question)

    def with_slopes(self, numbers: Numbers, active: Sequence[int]) -> tuple[Any, list[NDArray[Any]]] | None:
        """The upper end at concrete `numbers` and its slope in each that is `active`, as differences of three answers.

        None where one of these numbers is 0, or no number near it is in range.
        """
        numbers = [np.asarray(x).astype(np.float64)[()] for x in numbers]
        width = _SHARPER * self._query.width
        here = self.find(numbers, width)
        step, counts = _step(here), _counts_among(self._structure, len(self._leaves))
        moved = [
            _moved(numbers, i, step, self._fits, is_count=self._traced_at[i] in counts) if i in active else []
            for i in range(len(numbers))
        ]
        if not all(moved[i] for i in active):
            return None
        slopes = []
        for i in active:
            beside = [(numbers_there[i], self.find(numbers_there, width).high) for numbers_there in moved[i]]
            slopes.append(_slope((numbers[i], here.high), *beside))
        return here.high, slopes


def differentiable(asked: TracedQuestion) -> Any:
    """The upper end, with the slopes of the sharp answer wherever JAX needs them outside traced code.

    Each slope is a difference of three answers. Inside traced code, at a number that is 0 or cannot be moved, and where
    there are very many slopes, they are those of the program that gives the answer there.
    """

    @jax.custom_jvp
    def call(*numbers: Any) -> Any:
        return asked.find(numbers).high

    @functools.partial(call.defjvp, symbolic_zeros=True)
    def _jvp(primals: Any, tangents: Any) -> Any:
        active = moving(tangents)
        if not is_traced(primals) and len(active) * math.prod(asked.shape) <= _MOST:
            found = asked.with_slopes(primals, active)
            if found is not None:
                out = narrowed_up(np.asarray(found[0]))
                return out, along(out, found[1], [tangents[i] for i in active])

        def of_active(*moved: Any) -> Any:
            whole = dict(enumerate(primals)) | dict(zip(active, moved, strict=True))
            return asked.find(list(whole.values())).high

        return jax.jvp(of_active, tuple(primals[i] for i in active), tuple(tangents[i] for i in active))

    return call(*asked.numbers)


def moving(tangents: Sequence[Any]) -> list[int]:
    """Which of the numbers have tangents other than 0."""
    return [i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero)]


def along(out: jax.Array, slopes: Sequence[Any], tangents: Sequence[Any]) -> jax.Array:
    """The tangent of `out`: the sum of slopes times tangents, in its float type."""
    total = jnp.zeros_like(out)
    for slope, tangent in zip(slopes, tangents, strict=True):
        total += jnp.asarray(slope, out.dtype) * jnp.asarray(tangent).astype(out.dtype)
    return total


def _counts_among(structure: Any, number: int) -> set[int]:
    """Which of the leaves of a question are counts."""
    mechanism, _ = jax.tree.unflatten(structure, range(number))
    return {value_at(mechanism, keys) for keys, spec in number_paths(mechanism).items() if spec.is_whole}


def _step(here: Found) -> float:
    """The relative step of the differences between this answer and others."""
    if all(bracket.is_exact for bracket in here.brackets.values()):
        return _STEPS[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        width = np.max((here.high - here.analysis_low) / here.high)
    return float(np.clip(np.nan_to_num(_STEP_BY_WIDTH * width, nan=_STEPS[1]), *_STEPS))


def _moved(numbers: Numbers, at: int, step: float, fits: Callable[[Numbers], bool], *, is_count: bool) -> list[Numbers]:
    """`numbers` twice, with number `at` moved; [] where it is 0, or no number near it is in range."""
    step = step * numbers[at]
    if is_count:
        step = np.maximum(np.round(step), 1.0)
    if not np.all(step > 0.0):
        return []
    every: list[Numbers] = [[*numbers[:at], numbers[at] + side * step, *numbers[at + 1 :]] for side in _SIDES]
    found = [beside for beside in every if fits(beside)][:2]
    return found if len(found) == 2 else []


def _slope(here: tuple[Any, Any], *beside: tuple[Any, Any]) -> NDArray[Any]:
    """The derivative at the first of three (number, answer), of the parabola through their logarithms.

    Through the answers themselves where one of them has no logarithm; 0 where they are not finite.
    """
    places = [np.log(number) for number, _ in (here, *beside)]
    values = np.stack(np.broadcast_arrays(*(answer for _, answer in (here, *beside))))
    with np.errstate(divide="ignore", invalid="ignore"):
        has_logs = np.all((values > 0.0) & np.isfinite(values), axis=0)
        heights = np.where(has_logs, np.log(values), values)
        one, two = (places[i] - places[0] for i in (1, 2))
        slope = ((heights[1] - heights[0]) / one * two - (heights[2] - heights[0]) / two * one) / (two - one)
        slope = slope * np.where(has_logs, values[0], 1.0) / here[0]
    return np.where(np.isfinite(slope), slope, 0.0)
