"""What a sweep asks at each point."""

import dataclasses
import importlib.metadata
import math
from typing import Any

import jax
import numpy as np

from jaxacct._answering import DELTA, EPSILON, Query
from jaxacct._best import best, chosen_precision
from jaxacct._checking import check_question
from jaxacct._host_methods import host_methods_for
from jaxacct._methods import has_methods, methods_for
from jaxacct._types import Bound, Direction
from jaxacct._validate import check_delta, check_epsilon, check_orders, checked_number
from jaxacct.accounting import _directions, delta, epsilon, rdp
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import UNKNOWN, find_field, with_fields
from jaxacct.sweeping._result import Grid

_TARGETS = {"target_delta": EPSILON, "target_epsilon": DELTA}


@dataclasses.dataclass(frozen=True)
class Question:
    """`jaxacct.epsilon` or `jaxacct.delta`, with its fixed arguments.

    Attributes:
      mechanism: what it holds for the swept fields is ignored.
      paths: axis name -> keys of the field; targets have none.
      query: EPSILON or DELTA.
      target: its fixed value; None where it is swept.
    """

    mechanism: Mechanism
    paths: dict[str, tuple[Any, ...]]
    query: Query
    target: float | None
    method: str | None
    direction: Direction | None
    precision: float | None
    orders: tuple[float, ...] | None

    def at(self, points: dict[str, np.ndarray]) -> tuple[Any, Any]:
        """The mechanism and the target of some points."""
        mechanism = with_fields(self.mechanism, {self.paths[n]: x for n, x in points.items() if n in self.paths})
        targets = [x for name, x in points.items() if name in _TARGETS]
        target = targets[0] if targets else self.target
        (check_delta if self.query is EPSILON else check_epsilon)(f"target_{_other(self.query)}", target)
        return mechanism, target

    def __call__(self, points: dict[str, np.ndarray]) -> np.ndarray:
        """The answers at some points."""
        mechanism, target = self.at(points)
        ask = epsilon if self.query is EPSILON else delta
        if self.orders is not None:
            return ask(rdp(mechanism, self.orders, direction=self.direction), target)
        if self.method is None:
            return ask(mechanism, target, direction=self.direction, precision=self.precision)
        check_question(mechanism, f"target_{_other(self.query)}", target)
        directions = _directions(mechanism, self.direction)
        return best(mechanism, self.query, target, self.method, directions, self.precision)  # lower bounds too

    def bound(self, points: dict[str, np.ndarray]) -> Bound:
        """What the answers are, by the methods at one point."""
        if self.method is None:
            return Bound.UPPER
        mechanism, _ = self.at({name: values[0].item() for name, values in points.items()})
        methods: list[Any] = [*(methods_for(mechanism) if has_methods(mechanism) else ()), *host_methods_for(mechanism)]
        return next((m.bound for m in methods if m.name == self.method), Bound.UPPER)

    def is_on_lanes(self, points: dict[str, np.ndarray]) -> bool:
        """Whether one program answers many points at once."""
        mechanism, target = self.at(points)
        if self.orders is not None:
            return True
        if self.method is not None:
            return has_methods(mechanism) and any(m.name == self.method for m in methods_for(mechanism))
        return math.isinf(chosen_precision(self.precision, self.query, mechanism, target))

    def settings(self) -> dict[str, Any]:
        """What decides the answers besides the grid, as JSON."""
        leaves, structure = jax.tree.flatten(with_fields(self.mechanism, dict.fromkeys(self.paths.values(), UNKNOWN)))
        try:
            version = importlib.metadata.version("jaxacct")
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
        return {
            "version": version,
            "mechanism": str(structure),
            "numbers": ["swept" if x is UNKNOWN else float(x) for x in leaves],
            "quantity": self.query.name,
            "target": self.target,
            "method": self.method,
            "direction": self.direction.value if self.direction else None,
            "precision": None if self.precision is None else repr(float(self.precision)),
            "orders": self.orders,
        }


def _other(query: Query) -> str:
    return "delta" if query is EPSILON else "epsilon"


def question(
    mechanism: Mechanism,
    grid: Grid,
    targets: dict[str, Any],
    method: str | None,
    direction: Direction | None,
    precision: float | None,
    orders: Any,
) -> Question:
    """The question of a sweep; raises ValueError if it is none."""
    given = [name for name in _TARGETS if targets[name] is not None or name in grid.axes]
    if len(given) != 1 or (targets[given[0]] is not None and given[0] in grid.axes):
        raise ValueError("exactly one of target_delta and target_epsilon must be given, as an argument or in the grid")
    if orders is not None and (method is not None or precision is not None):
        raise ValueError("orders leave no choice: method and precision must be None")
    paths = {name: find_field(mechanism, name) for name in grid.axes if name not in _TARGETS}
    if len(set(paths.values())) < len(paths):
        raise ValueError(f"grid names a field twice: {list(paths)}")
    fixed = jax.tree.leaves(with_fields(mechanism, dict.fromkeys(paths.values(), UNKNOWN)))
    if any(np.ndim(x) for x in fixed if x is not UNKNOWN):
        raise ValueError(f"mechanism={mechanism!r} must have scalar fields where it is not swept")
    target = targets[given[0]]
    wanted = None if orders is None else tuple(check_orders("orders", orders).tolist())
    if target is not None:
        if np.ndim(target):
            raise ValueError(f"{given[0]}={target!r} must be one number: to sweep it, put it in the grid")
        target = checked_number(given[0], target)
    return Question(mechanism, paths, _TARGETS[given[0]], target, method, direction, precision, wanted)
