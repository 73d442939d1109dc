"""What a sweep computes at each point."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._method import BracketMethod, Cost, LaneMethod, Query
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction
from jaxacct._validate import check_delta, check_epsilon, check_orders, checked_choice, checked_number
from jaxacct._version import __version__
from jaxacct.accounting import delta, epsilon, rdp
from jaxacct.answering import Question, answer, plan, question_of
from jaxacct.answering._plan import named
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import UNKNOWN, find_field, spec_at, with_fields
from jaxacct.sweeping._grid import Grid

_BRACKETED_TOGETHER = 16  # points, by a method of the host that can: a second at most; more would save little more time
_AT_ONCE = 128  # points that a method computes in less than a millisecond each: the question costs as much
_TARGETS = {"target_delta": Query.EPSILON, "target_epsilon": Query.DELTA}


@dataclasses.dataclass(frozen=True)
class SweptQuestion:
    """`jaxacct.epsilon` or `jaxacct.delta`, with its fixed arguments.

    Attributes:
      mechanism: the mechanism; its values of the swept fields are ignored.
      paths: axis name -> keys of the field; targets have none.
      query: EPSILON or DELTA.
      target: the fixed value of the target; None if it is swept.
    """

    mechanism: Mechanism
    paths: dict[str, tuple[Any, ...]]
    query: Query
    target: float | None
    method: str | None
    direction: Direction | None
    precision: float | None
    orders: tuple[float, ...] | None

    @property
    def quantity(self) -> str:
        """The name of the quantity that is computed."""
        return self.query.value

    @property
    def worst(self) -> float:
        """The upper bound that always holds."""
        return self.query.worst

    def _described(self, points: dict[str, Any]) -> Mechanism:
        """The mechanism of some points."""
        found: Mechanism = with_fields(self.mechanism, {self.paths[n]: x for n, x in points.items() if n in self.paths})
        return found

    def at(self, points: dict[str, NDArray[Any]]) -> tuple[Any, Any]:
        """The mechanism and the target of some points."""
        mechanism = self._described(points)
        targets = [x for name, x in points.items() if name in _TARGETS]
        target = targets[0] if targets else self.target
        (check_delta if self.query is Query.EPSILON else check_epsilon)(self.query.given, target)
        return mechanism, target

    def __call__(self, points: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """The answers at some points."""
        mechanism, target = self.at(points)
        ask = epsilon if self.query is Query.EPSILON else delta
        if self.orders is not None:
            return ask(rdp(mechanism, self.orders, direction=self.direction), target)
        if self.method is None:
            return ask(mechanism, target, direction=self.direction, precision=self.precision)
        question = self._asked(mechanism, target)
        found = answer(question)
        return found.low if named(question).bound is Bound.LOWER else found.high

    def _asked(self, mechanism: Mechanism, target: Any) -> Question:
        """The question at some points; the method may be a lower bound."""
        question = question_of(
            mechanism,
            self.query,
            target,
            method=self.method,
            direction=self.direction,
            precision=self.precision,
        )
        return dataclasses.replace(question, wants_lower=self.method is not None)

    def bound(self, points: dict[str, NDArray[Any]]) -> Bound:
        """The kind of bound that the answers are, from the methods at one point."""
        if self.method is None:
            return Bound.UPPER
        mechanism, target = self.at({name: values[0].item() for name, values in points.items()})
        return named(self._asked(mechanism, target)).bound

    def is_on_lanes(self, points: dict[str, NDArray[Any]]) -> bool:
        """Whether one program computes many points at once."""
        mechanism, target = self.at(points)
        if self.orders is not None:
            return True
        return all(isinstance(step.method, LaneMethod) for step in plan(self._asked(mechanism, target)))

    def num_at_once(self, points: dict[str, NDArray[Any]]) -> int:
        """The number of points that are computed together on the host: as many as save time and take a second or two.

        It depends on the question alone, since points that are computed together may differ in their last digits from
        points that are computed one by one.
        """
        method = plan(self._asked(*self.at(points)))[0].method
        if not isinstance(method, BracketMethod):
            return 1
        if method.many is not None and self.method is None:
            return _BRACKETED_TOGETHER
        return _AT_ONCE if method.cost is Cost.MICROSECONDS and len(method.ends) > 1 else 1

    def axes_in_words(self) -> dict[str, dict[str, str]]:
        """The names of the axes in words, and the units of those that have one."""
        specs = {name: spec_at(self.mechanism, keys) for name, keys in self.paths.items()}
        units = {name: spec.unit for name, spec in specs.items() if spec.unit}
        return {"words": {name: spec.words for name, spec in specs.items()}, "units": units}

    def settings(self) -> dict[str, Any]:
        """Everything besides the grid that determines the answers, as JSON."""
        described = with_fields(self.mechanism, dict.fromkeys(self.paths.values(), UNKNOWN))
        return {
            "version": __version__,
            "mechanism": repr(_trees.map_leaves(lambda _: UNKNOWN, described)),  # the same with and without JAX
            "numbers": ["swept" if x is UNKNOWN else float(x) for x in _trees.leaves(described)],
            "quantity": self.quantity,
            "target": self.target,
            "method": self.method,
            "direction": self.direction.value if self.direction else None,
            "precision": None if self.precision is None else repr(float(self.precision)),
            "orders": self.orders,
        }


def swept(mechanism: Mechanism, grid: Grid) -> dict[str, tuple[Any, ...]]:
    """axis name -> keys of the field; raises ValueError if fields are named twice, or other fields are not scalars."""
    paths = {name: find_field(mechanism, name) for name in grid.axes if name not in _TARGETS}
    if len(set(paths.values())) < len(paths):
        raise ValueError(f"grid names a field twice: {list(paths)}")
    fixed = _trees.leaves(with_fields(mechanism, dict.fromkeys(paths.values(), UNKNOWN)))
    if any(np.ndim(x) for x in fixed if x is not UNKNOWN):
        raise ValueError(f"mechanism={mechanism!r} must have scalar fields where it is not swept")
    return paths


def question(
    mechanism: Mechanism,
    grid: Grid,
    targets: dict[str, Any],
    method: str | None,
    direction: Direction | str | None,
    precision: float | None,
    orders: Any,
) -> SweptQuestion:
    """The question of a sweep; raises ValueError if it is not valid."""
    if is_traced(mechanism, targets):
        raise ValueError(f"mechanism={mechanism!r} must be of concrete numbers: a sweep cannot run inside jit or grad")
    given = [name for name in _TARGETS if targets[name] is not None or name in grid.axes]
    if len(given) != 1 or (targets[given[0]] is not None and given[0] in grid.axes):
        raise ValueError("exactly one of target_delta and target_epsilon must be given, as an argument or in the grid")
    if orders is not None and (method is not None or precision is not None):
        raise ValueError("method and precision must be None where orders are given: they leave no choice")
    paths = swept(mechanism, grid)
    target = targets[given[0]]
    wanted = None if orders is None else tuple(check_orders("orders", orders).tolist())
    if target is not None:
        if np.ndim(target):
            raise ValueError(f"{given[0]}={target!r} must be one number: to sweep it, put it in the grid")
        target = checked_number(given[0], target)
    side = None if direction is None else checked_choice("direction", direction, *Direction)
    return SweptQuestion(mechanism, paths, _TARGETS[given[0]], target, method, side, precision, wanted)
