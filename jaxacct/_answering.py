"""How a question reaches the methods: kernels for each method, grids of orders, the worse of the best."""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._method import Method
from jaxacct._methods import methods_for, splits_unevenly
from jaxacct._precision import Kernel, Rounding, is_traced
from jaxacct._types import Bound, Direction, OrderEdgeWarning
from jaxacct.conversion import delta_from_log, delta_from_log_down, epsilon_from_rdp, log_delta_from_rdp

# Inside a user's jit the grid of orders cannot grow with the data.
_TRACED_GRID = 1


class Answer(NamedTuple):
    """One method's answer: the value, and for Renyi methods the best order and whether it is the grid's last."""

    value: Any
    order: Any
    at_edge: Any


class Query(NamedTuple):
    """What is asked of a method: the kernel's body for each kind of method."""

    name: str
    from_rdp: Callable[[Any, Any, Any], Any]
    from_profile: Callable[[Method, Any, Any, dict[str, Any]], Any]
    allowed: Callable[[Any], Any]
    worst: float


def _epsilon_from_rdp(orders: jax.Array, rdp: jax.Array, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
    return tuple(epsilon_from_rdp(orders, rdp, jnp.log(delta)))  # type: ignore[return-value]


def _delta_from_rdp(orders: jax.Array, rdp: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, jax.Array]:
    log_delta, order = log_delta_from_rdp(orders, rdp, epsilon)
    return delta_from_log(log_delta), order


def _epsilon_from_profile(method: Method, mechanism: Any, delta: jax.Array, static: dict[str, Any]) -> jax.Array:
    assert method.epsilon is not None
    return method.epsilon(mechanism, jnp.log(delta), **static)


def _delta_from_profile(method: Method, mechanism: Any, epsilon: jax.Array, static: dict[str, Any]) -> jax.Array:
    assert method.log_delta is not None
    log_delta = method.log_delta(mechanism, epsilon, **static)
    return delta_from_log(log_delta) if method.bound is Bound.UPPER else delta_from_log_down(log_delta)


EPSILON = Query("epsilon", _epsilon_from_rdp, _epsilon_from_profile, lambda delta: (delta > 0) & (delta < 1), np.inf)
DELTA = Query("delta", _delta_from_rdp, _delta_from_profile, lambda eps: (eps >= 0) & (eps < np.inf), 1.0)


def in_domain(mechanism: Any) -> jax.Array:
    """bool [L]: whether every field of a mechanism of lanes is in its range."""
    inner = [getattr(mechanism, "mechanism", ()), *getattr(mechanism, "mechanisms", ())]
    parts = [in_domain(part) for part in inner if part != ()]
    return functools.reduce(jnp.logical_and, parts, mechanism.in_domain())


def lane_bytes(**static: Any) -> int:
    # The Laplace kernel holds 512 nodes for each of 32 rows; tables of orders are smaller; windows are held in some
    # dozens of arrays.
    window = max(static.get(name, 0) for name in ("window", "rounds", "num_clones", "blocks"))
    grid = 64 * static.get("nodes", 0) * window  # a table of both
    return int(max(2**18, 80 * len(static.get("orders", ())), 400 * window, grid))


@functools.lru_cache(maxsize=256)
def _kernel(method: Method, structure: Any, query: Query) -> Kernel:
    upper = method.bound is Bound.UPPER

    def answer(*lanes: jax.Array, uneven: bool, orders: tuple[float, ...] = (), **statics: Any) -> Any:
        mechanism, target = jax.tree.unflatten(structure, lanes[:-1]), lanes[-1]
        if method.rdp is None:
            value = query.from_profile(method, mechanism, target, {"uneven": uneven, **statics})
            order = jnp.full_like(value, jnp.nan)
        else:
            rdp = method.rdp(mechanism, orders=orders, uneven=uneven, **statics)
            value, order = query.from_rdp(jnp.asarray(orders, jnp.float64)[:, None], rdp, target)
        # Traced arguments were not checked: outside their range, and for any nan, fail closed.
        ok = in_domain(mechanism) & query.allowed(target) & ~jnp.isnan(value)
        return jnp.where(ok, value, query.worst if upper else 0.0), order

    answer.__name__ = f"{method.name.replace(' ', '_')}_{query.name}"
    return Kernel(answer, (Rounding.UP if upper else Rounding.DOWN, Rounding.NEAREST), lane_bytes)


def ask(method: Method, mechanism: Any, query: Query, target: Any) -> Answer:
    """One method's answer, on a grid of orders extended until the best one is inside it."""
    leaves, structure = jax.tree.flatten(mechanism)
    kernel = _kernel(method, structure, query)
    static: dict[str, Any] = {"uneven": splits_unevenly(mechanism), **method.statics(mechanism)}
    if method.rdp is None:
        value, order = kernel(*leaves, target, **static)
        return Answer(value, order, np.zeros(np.shape(value), bool))
    if is_traced(leaves, target):
        orders = method.grids[min(_TRACED_GRID, len(method.grids) - 1)]
        value, order = kernel(*leaves, target, orders=orders, **static)
        return Answer(value, order, order >= orders[-1])
    arrays = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (*leaves, target)))
    shape = arrays[0].shape
    value, order, edge = np.full(arrays[0].size, np.inf), np.full(arrays[0].size, np.nan), np.ones(arrays[0].size, bool)
    flat = [a.reshape(-1) for a in arrays]
    for orders in method.grids:
        todo = np.flatnonzero(edge)
        new_value, new_order = kernel(*(a[todo] for a in flat), orders=orders, **static)
        value[todo], order[todo] = np.minimum(new_value, value[todo]), new_order
        # `up_to_order`: the orders above its last one are another method's
        edge[todo] = (new_order >= orders[-1]) & (new_value > 0) & math.isinf(method.up_to_order)
        if not edge.any():
            break
    return Answer(value.reshape(shape), order.reshape(shape), edge.reshape(shape))


def _wanted(method: Method, direction: Direction, name: str | None) -> bool:
    chosen = method.bound is Bound.UPPER if name is None else method.name == name
    return direction in method.directions and chosen


class Verdict(NamedTuple):
    """The worse of both directions, and what was asked in each on the way."""

    value: Any
    asked: dict[Direction, dict[Method, Answer]]


def decide(
    mechanism: Any,
    query: Query,
    target: Any,
    directions: Sequence[Direction],
    name: str | None,
    *,
    is_final: bool = True,
) -> Verdict:
    """max over directions of min over methods; methods that cannot change it are not run.

    Unless something tighter follows (`is_final` False), warns where the value rests on the last order of a grid.
    """
    methods = methods_for(mechanism)
    if name is not None and not any(_wanted(m, d, name) for m in methods for d in directions):
        choices = sorted({m.name for m in methods if any(d in m.directions for d in directions)})
        raise ValueError(f"method={name!r} must be one of {choices}")
    traced = is_traced(mechanism, target)
    floors: dict[Method, Any] = {}
    if not traced and query is EPSILON:
        log_delta = np.log(np.asarray(target, np.float64))
        floors = {m: m.floor(mechanism, log_delta) for m in methods if m.floor is not None}
    answers: dict[Method, Answer] = {}
    asked: dict[Direction, dict[Method, Answer]] = {}
    worst: Any = None
    for direction in directions:
        usable = [m for m in methods if _wanted(m, direction, name) and (name is not None or m.helps(mechanism))]
        if not usable:
            continue
        if worst is not None and not traced:  # first those that may already settle this direction
            usable.sort(key=lambda m: bool(np.any(floors.get(m, -np.inf) > worst)))
        best: Any = None
        least_order = 0.0
        here = asked.setdefault(direction, {})
        for method in usable:
            if best is not None and not traced:
                settled = worst is not None and np.all(best <= worst)
                hopeless = np.all(floors.get(method, -np.inf) >= best)
                if settled or hopeless or least_order > method.up_to_order:
                    continue
            if method not in answers:
                answers[method] = ask(method, mechanism, query, target)
            answer = here[method] = answers[method]
            if not traced and method.rdp is not None:
                least_order = float(np.min(np.nan_to_num(answer.order, nan=0.0), initial=np.inf))
            best = answer.value if best is None else _least(best, answer.value)
        worst = best if worst is None else _largest(worst, best)
    if is_final and not traced:
        _warn_of_edges(answers, worst, query)
    return Verdict(worst, asked)


def _least(a: Any, b: Any) -> Any:
    return jnp.minimum(a, b) if is_traced(a, b) else np.minimum(a, b)


def _largest(a: Any, b: Any) -> Any:
    return jnp.maximum(a, b) if is_traced(a, b) else np.maximum(a, b)


def _warn_of_edges(answers: dict[Method, Answer], value: Any, query: Query) -> None:
    for method, answer in answers.items():
        if np.any(answer.at_edge & (answer.value <= value)):
            message = (
                f"{query.name} by {method.name!r} is best at order {method.grids[-1][-1]:g}, the largest tried: "
                "a valid upper bound that may be loose"
            )
            warnings.warn(message, OrderEdgeWarning, stacklevel=4)
