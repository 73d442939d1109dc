"""What a question is: about which mechanism, epsilon or delta, at which target, how precisely."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jnp
from jaxacct._method import Query
from jaxacct._precision import is_traced
from jaxacct._precision._devices import lanes_are_spread
from jaxacct._types import Direction, Progress
from jaxacct._validate import check_positive, check_precision, checked_choice, checked_number
from jaxacct.bounds.composed import answers_in_programs, has_best_in_programs, has_quick, unknown_numbers
from jaxacct.mechanisms._base import Description, Mechanism, not_a_mechanism
from jaxacct.mechanisms._given import check_given


@dataclasses.dataclass(frozen=True)
class Question:
    """One question, for one point or a batch of points.

    Attributes:
      mechanism: its fields broadcast with the target.
      query: EPSILON or DELTA.
      target: the delta at which epsilon is wanted, or the epsilon at which delta is.
      directions: those to bound; the answer is the larger of them.
      width: relative width of the certified bracket to reach, upper against lower; inf for the quick methods alone.
      method: the name of the only method to ask, or None.
      wants_lower: whether the lower end is wanted too, as by the interval functions.
      warns: whether a bracket that stays wider than `width` is worth a warning, because a user asked for that width.
      progress: called after each refinement of a bracket, or None.
      share: the fraction of the work allowed to one question; less than 1 for one of many parts.
      inverts: whether the other query may be asked for what it implies for this one (`_inverted`).
    """

    mechanism: Mechanism
    query: Query
    target: Any
    directions: tuple[Direction, ...]
    width: float
    method: str | None = None
    wants_lower: bool = False
    warns: bool = False
    progress: Progress | None = None
    share: float = 1.0
    inverts: bool = True

    @functools.cached_property
    def is_traced(self) -> bool:
        """Whether some number is a tracer: then only methods on lanes can answer."""
        return is_traced(self.mechanism, self.target)

    @property
    def is_for_mesh(self) -> bool:
        """Whether several devices answer a quick question; they do so by the methods of programs, which are laws."""
        return self.is_quick and lanes_are_spread() and has_best_in_programs(self.mechanism)

    @property
    def is_quick(self) -> bool:
        """Whether the host's methods are left out."""
        return math.isinf(self.width)

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch; that of one point, which broadcasts with all, where a program leaves it open."""
        shapes = [np.shape(x) for x in (*_trees.leaves(self.mechanism), self.target)]
        if not self.is_traced:
            return np.broadcast_shapes(*shapes)
        shape = _together(shapes)
        return shape if is_known(shape) else ()

    @property
    def num_points(self) -> int:
        """The number of points; 1 where a program leaves it open."""
        return math.prod(self.shape)

    @property
    def is_batch(self) -> bool:
        """Whether it is about several concrete points."""
        return bool(self.shape) and not self.is_traced

    def at(self, mechanism: Mechanism, target: Any) -> Question:
        """The same question about one point of the batch."""
        return dataclasses.replace(self, mechanism=mechanism, target=target)

    def points(self) -> Iterator[tuple[tuple[int, ...], Question]]:
        """(index, question in Python numbers) for each point of the batch."""
        leaves, structure = _trees.flatten(self.mechanism)
        points = np.broadcast_arrays(*(np.asarray(x) for x in (*leaves, self.target)))
        for at in np.ndindex(self.shape):
            *fields, target = (p[at].item() if isinstance(p[at], np.generic) else p[at] for p in points)
            yield at, self.at(_trees.unflatten(structure, fields), float(target))


def _together(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which `shapes` broadcast, also those that a program leaves open (`jax.export.symbolic_shape`)."""
    return (np if all(map(is_known, shapes)) else jnp).broadcast_shapes(*shapes)


def is_known(shape: tuple[int, ...]) -> bool:
    """Whether every size of `shape` is known, none being left open by a program."""
    return all(isinstance(size, int) for size in shape)


def directions_of(mechanism: Mechanism, direction: Direction | str | None) -> tuple[Direction, ...]:
    """The directions to bound: the one asked for, or all that the mechanism has."""
    if direction is None:
        return mechanism.directions
    if len(mechanism.directions) == 1:
        raise ValueError(f"direction={direction!r} must be None: {type(mechanism).__name__} has one direction only")
    return (checked_choice("direction", direction, *Direction),)


def question_of(
    mechanism: Mechanism,
    query: Query,
    target: Any,
    *,
    method: str | None = None,
    direction: Direction | str | None = None,
    precision: float | None = None,
) -> Question:
    """The checked question behind `jaxacct.epsilon` and `jaxacct.delta`.

    Raises:
      ValueError: if an argument is out of range, shapes do not broadcast, or what is asked cannot run inside jit.
    """
    check_question(mechanism, query, target)
    check_precision(precision)
    precision = None if precision is None else checked_number("precision", precision)
    if isinstance(target, list | tuple):  # as it was typed
        target = np.asarray(target, np.float64)
    width = _width(precision, query, mechanism, target)
    warns = precision is not None and not math.isinf(precision)
    return Question(mechanism, query, target, directions_of(mechanism, direction), width, method, warns=warns)


def check_answers_in_programs(mechanism: Mechanism) -> None:
    """Raises ValueError, with the reason, unless traced programs bound `mechanism`."""
    if answers_in_programs(mechanism):
        return
    names = ", ".join(unknown_numbers(mechanism))
    if not names:
        raise ValueError(
            f"mechanism={mechanism!r} is bounded by methods that run on the host only, not inside jit, vmap or "
            "grad: ask with on_host=True, or outside, where sweep takes many settings at once"
        )
    raise ValueError(
        f"mechanism={mechanism!r} is analysed by its loss distribution only, which needs concrete numbers: inside "
        f"jit, vmap or grad {names} must be closed over by the program (the target, and how often a part of "
        "Composed is run, may be traced); or ask with on_host=True, or outside, where sweep takes many settings"
    )


def _width(precision: float | None, query: Query, mechanism: Mechanism, target: Any) -> float:
    """`precision` for `mechanism`; where None, 0.1 % of epsilon or 1 % of delta, and inf in programs."""
    traced = is_traced(mechanism, target)
    if traced:
        check_answers_in_programs(mechanism)
    if not traced and precision is None and lanes_are_spread() and has_best_in_programs(mechanism):
        return math.inf  # whoever spreads points over devices asks for programs
    if not traced and not has_quick(mechanism):
        precision = None if precision == math.inf else precision  # there is nothing quicker
    if traced:
        if precision is not None and precision != math.inf:
            raise ValueError(f"precision={precision} needs concrete numbers: omit it inside jit, vmap or grad")
        return math.inf
    return query.width if precision is None else float(precision)


def check_mechanism(mechanism: object, name: str = "mechanism") -> None:
    """Raises ValueError unless `mechanism` is one and none of its numbers is left out.

    Its fields are checked once more, since JAX rebuilds a mechanism around any numbers without checking them.
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"{name}={mechanism!r} {not_a_mechanism(mechanism)}")
    _check_complete(mechanism)


def _check_complete(description: Description) -> None:
    description.check()
    check_given(description)
    for part in description.wrapped():
        _check_complete(part)


def check_question(mechanism: object, query: Query, target: Any) -> None:
    """Raises ValueError unless `mechanism` can be asked about `target`: numbers, whose shapes broadcast."""
    check_mechanism(mechanism)
    shapes = [np.shape(x) for x in (*_trees.leaves(mechanism), target)]
    if not any(shapes):
        return
    try:
        _together(shapes)
    except ValueError as error:
        message = f"mechanism={mechanism!r}: the shapes of its fields and of {query.given} must broadcast, not {shapes}"
        raise ValueError(message) from error


def check_scalars(mechanism: object, *targets: Any) -> None:
    """Raises ValueError unless `mechanism` is one, and its fields and the targets are concrete single numbers."""
    check_mechanism(mechanism)
    leaves = (*_trees.leaves(mechanism), *targets)
    if is_traced(leaves):
        raise ValueError("this question needs concrete numbers: it cannot be asked inside jit, vmap or grad")
    for leaf in leaves:
        if np.ndim(leaf):
            raise ValueError(f"mechanism={mechanism!r} and its targets must be scalars: call once for each point")


def interval_question(
    mechanism: Mechanism, query: Query, target: float, precision: float | None, progress: Progress | None
) -> Question:
    """The checked question behind `jaxacct.epsilon_interval` and `jaxacct.delta_interval`."""
    check_scalars(mechanism, target)
    width = query.width if precision is None else precision
    checked_number("precision", width)
    check_positive("precision", width)
    return Question(
        mechanism,
        query,
        float(target),
        directions_of(mechanism, None),
        float(width),
        wants_lower=True,
        warns=True,
        progress=progress,
    )
