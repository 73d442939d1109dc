"""Slopes of answers: outside traced code those of the sharp answer, inside it those of the program's bound.

JAX hands a derivative's rule concrete numbers where nothing but the derivative is traced. Then no program is needed:
certified answers at numbers beside the one asked for say how it changes.
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
from jaxacct.answering import answer
from jaxacct.answering._found import Found
from jaxacct.answering._question import check_mechanism, question_of
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import number_paths, value_at

# How much a number moves, relative to itself (a count by at least one): little where answers are sharp, since the
# logarithm is curved, more where they are brackets, since differences err by their widths.
_STEPS = 5e-3, 2e-2
_STEP_BY_WIDTH = 50.0  # the step over the relative width of a bracket, between those
_SHARPER = 0.1  # the width of brackets behind slopes, over that of other questions
_SIDES = (-1.0, 1.0, -2.0, 2.0)  # steps to try: the first two that are in range are taken
_MOST = 256  # number of slopes, over all points, beyond which a program takes less time

Numbers = Sequence[Any]


def differentiable(mechanism: Mechanism, query: Query, target: Any, choices: Mapping[str, Any]) -> Any:
    """The upper end found, with the slopes of the sharp answer wherever JAX asks for them outside traced code.

    Each slope is a difference of three answers. Inside traced code, at a number that is 0 or cannot be moved, and where
    there are very many, slopes are those of the program that answers there.

    Args:
      mechanism, query, target: what is asked; some of its numbers are tracers.
      choices: keyword arguments of `question_of`.
    """
    leaves, structure = jax.tree.flatten((mechanism, target))
    traced_at = [i for i, leaf in enumerate(leaves) if is_traced(leaf)]

    def find(mechanism: Mechanism, target: Any, width: float) -> Found:
        question = question_of(mechanism, query, target, **choices)
        if not question.is_quick:
            question = dataclasses.replace(question, width=min(question.width, width))
        return answer(question)

    def around(numbers: Numbers) -> tuple[Any, Any]:
        whole = dict(enumerate(leaves)) | dict(zip(traced_at, numbers, strict=True))
        question: tuple[Any, Any] = jax.tree.unflatten(structure, whole.values())
        return question

    def fits(numbers: Numbers) -> bool:
        moved, goal = around(numbers)
        try:
            check_mechanism(moved)
        except ValueError:
            return False
        return bool(np.all(query.allowed(np.asarray(goal))))

    @jax.custom_jvp
    def call(*numbers: Any) -> Any:
        return find(*around(numbers), math.inf).high

    @functools.partial(call.defjvp, symbolic_zeros=True)
    def _jvp(primals: Any, tangents: Any) -> Any:
        active = [i for i, t in enumerate(tangents) if not isinstance(t, jax.custom_derivatives.SymbolicZero)]
        size = math.prod(np.broadcast_shapes(*map(np.shape, leaves)))
        if not is_traced(primals) and len(active) * size <= _MOST:
            numbers = [np.asarray(x).astype(np.float64)[()] for x in primals]
            width = _SHARPER * query.width
            here = find(*around(numbers), width)
            step, counts = _step(here), _counts_among(structure, len(leaves))
            moved = [_moved(numbers, i, step, fits, is_count=traced_at[i] in counts) for i in active]
            if all(moved):
                out = narrowed_up(np.asarray(here.high))
                tangent_out = jnp.zeros_like(out)
                for i, two in zip(active, moved, strict=True):
                    beside = [(beside[i], find(*around(beside), width).high) for beside in two]
                    slope = _slope((numbers[i], here.high), *beside)
                    tangent_out += jnp.asarray(slope, out.dtype) * jnp.asarray(tangents[i]).astype(out.dtype)
                return out, tangent_out

        def of_active(*moving: Any) -> Any:
            whole = dict(enumerate(primals)) | dict(zip(active, moving, strict=True))
            return find(*around(list(whole.values())), math.inf).high

        return jax.jvp(of_active, tuple(primals[i] for i in active), tuple(tangents[i] for i in active))

    return call(*(leaves[i] for i in traced_at))


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
    """`numbers` twice, with the one `at` moved; [] where it is 0, or nothing is in range beside it."""
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
