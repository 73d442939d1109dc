"""Methods on lanes: kernels behind the float64 boundary, one for each method, mechanism structure and query."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import jax
from jaxacct._method import BracketMethod, LaneMethod, ProfileMethod, Query, RenyiMethod
from jaxacct._precision import KernelByStructure, Rounding, is_traced
from jaxacct._sharing import once
from jaxacct._types import Bound, Direction, Ends
from jaxacct._validate import is_exact
from jaxacct.answering._plan import way_on_lanes
from jaxacct.answering._question import is_known
from jaxacct.conversion import delta_from_log, delta_from_log_down, epsilon_from_rdp, log_delta_from_rdp
from jaxacct.mechanisms._base import Description, Mechanism
from jaxacct.special._namespace import is_jax, xp

# Inside a user's jit the grid of orders cannot grow with the data: this grid of a method is taken, or its last one.
_TRACED_GRID = 1
# Points that are still open are asked separately, padded to a power of this number: few programs are compiled.
_GROWTH = 4


class Answer(NamedTuple):
    """One method's answer on lanes: the value; for Renyi methods the best order, and whether it is the grid's last."""

    value: Any
    order: Any
    at_edge: Any


def in_domain(mechanism: Description) -> jax.Array:
    """bool [L]: whether every field of a mechanism of lanes, or of its randomizer, is in its range."""
    parts = [in_domain(part) for part in mechanism.wrapped()]
    return functools.reduce(operator.and_, parts, mechanism.in_domain())


def may_lose(mechanism: Description) -> Any:
    """bool [L]: whether neighbours may differ at all: not where all its own rates are 0, nor where no part may lose."""
    own = [value != 0 for value in mechanism.rates()]
    parts = [may_lose(part) for part in mechanism.wrapped()]
    return functools.reduce(operator.or_, own, not own) & functools.reduce(operator.or_, parts, not parts)


def traced_orders(method: RenyiMethod) -> tuple[float, ...]:
    """The grid of orders that a method is tried at inside traced code."""
    return method.grids[min(_TRACED_GRID, len(method.grids) - 1)]


@functools.singledispatch
def value_on_lanes(method: LaneMethod, mechanism: Mechanism, query: Query, target: jax.Array, **static: Any) -> Any:
    """(value, order) [L] of a method, inside a kernel; the order is nan where there is none."""
    raise TypeError(f"method {method.name!r} does not answer on lanes")


def _curve_of(method: RenyiMethod, mechanism: Mechanism, orders: Any, static: dict[str, Any]) -> Any:
    """The divergences [A, L] of a Renyi method; of one point on the host, made once for all questions that share."""

    def make() -> Any:
        return method.curve(method.directions[0])(mechanism, orders=orders, **static)

    leaves, structure = _trees.flatten(mechanism)
    if is_jax(*leaves) or any(np.size(leaf) != 1 for leaf in leaves):
        return make()
    fields = tuple(float(np.reshape(leaf, ())) for leaf in leaves)
    return once((method, structure, fields, orders, tuple(sorted(static.items()))), 1.0, make)


@value_on_lanes.register(RenyiMethod)
def _(method: RenyiMethod, mechanism: Mechanism, query: Query, target: jax.Array, *, orders: Any, **static: Any) -> Any:
    rdp = _curve_of(method, mechanism, orders, static)
    column = xp.asarray(orders, xp.float64)[:, None]
    if query is Query.EPSILON:
        return tuple(epsilon_from_rdp(column, rdp, xp.log(target)))
    log_delta, order = log_delta_from_rdp(column, rdp, target)
    return delta_from_log(log_delta), order


@value_on_lanes.register(ProfileMethod)
def _(method: ProfileMethod, mechanism: Mechanism, query: Query, target: jax.Array, **static: Any) -> Any:
    if query is Query.EPSILON:
        value = method.epsilon(mechanism, xp.log(target), **static)
    else:
        log_delta = method.log_delta(mechanism, target, **static)
        value = delta_from_log(log_delta) if Bound.UPPER in method.ends else delta_from_log_down(log_delta)
    return value, xp.full_like(value, xp.nan)


@functools.lru_cache(maxsize=256)
def _kernel(method: LaneMethod, query: Query) -> KernelByStructure:
    upper = Bound.UPPER in method.ends

    def answer(mechanism: Mechanism, target: jax.Array, **static: Any) -> Any:
        value, order = value_on_lanes(method, mechanism, query, target, **static)
        # Traced arguments were not checked: outside their range, and for any nan, fail closed.
        ok = in_domain(mechanism) & query.allowed(target) & ~xp.isnan(value)
        ok = ok if upper else ok & is_exact(target)  # at a target that is taken for 0, the truth may be below that at 0
        return xp.where(ok, value, query.worst if upper else 0.0), order

    answer.__name__ = f"{method.name.replace(' ', '_')}_{query.value}"
    rounding = (Rounding.UP if upper else Rounding.DOWN, Rounding.NEAREST)
    return KernelByStructure(answer, rounding, **method.kernel_options)


@functools.singledispatch
def ask(method: LaneMethod, mechanism: Mechanism, query: Query, target: Any) -> Answer:
    """One method's answer for every point of a batch."""
    raise TypeError(f"method {method.name!r} does not answer on lanes")


@ask.register(ProfileMethod)
def _(method: ProfileMethod, mechanism: Mechanism, query: Query, target: Any) -> Answer:
    value, order = _kernel(method, query)(mechanism, target, **method.statics(mechanism))
    shape = np.shape(value)
    return Answer(value, order, np.zeros(shape if is_known(shape) else (), bool))


@ask.register(RenyiMethod)
def _(method: RenyiMethod, mechanism: Mechanism, query: Query, target: Any) -> Answer:
    if is_traced(mechanism, target):
        orders = traced_orders(method)
        value, order = _kernel(method, query)(mechanism, target, orders=orders, **method.statics(mechanism))
        return Answer(value, order, order >= orders[-1])
    return _on_grids(method, mechanism, query, target, method.grids)


def ask_at_grid(method: RenyiMethod, grid: int, mechanism: Mechanism, query: Query, target: Any) -> Answer:
    """The answer at one of the method's grids of orders, not extended."""
    return _on_grids(method, mechanism, query, target, method.grids[grid : grid + 1])


def _on_grids(
    method: RenyiMethod, mechanism: Mechanism, query: Query, target: Any, grids: Sequence[tuple[float, ...]]
) -> Answer:
    """The answer on a grid of orders that is extended, point by point, until the best order is inside it."""
    leaves, structure = _trees.flatten(mechanism)
    kernel, static = _kernel(method, query), method.statics(mechanism)
    arrays = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (*leaves, target)))
    shape = arrays[0].shape
    value, order, edge = np.full(arrays[0].size, np.inf), np.full(arrays[0].size, np.nan), np.ones(arrays[0].size, bool)
    flat = [a.reshape(-1) for a in arrays]
    for orders in grids:
        todo = np.flatnonzero(edge)
        *fields, goal = (a[todo] for a in flat)
        new_value, new_order = kernel(_trees.unflatten(structure, fields), goal, orders=orders, **static)
        value[todo], order[todo] = np.minimum(new_value, value[todo]), new_order
        # `up_to_order`: the orders above its last one are another method's
        edge[todo] = (new_order >= orders[-1]) & (new_value > 0) & math.isinf(method.up_to_order)
        if not edge.any():
            break
    return Answer(value.reshape(shape), order.reshape(shape), edge.reshape(shape))


def _points_at(mechanism: Mechanism, target: Any, shape: tuple[int, ...], at: NDArray[Any]) -> tuple[Mechanism, Any]:
    """The mechanism and target of some points of a batch, by number."""
    leaves, structure = _trees.flatten(mechanism)
    *fields, target = (np.broadcast_to(x, shape).reshape(-1)[at] for x in (*leaves, target))
    return _trees.unflatten(structure, fields), target


def ask_where(todo: NDArray[Any], method: LaneMethod, mechanism: Mechanism, query: Query, target: Any) -> Answer:
    """One method's answer at the points of a batch that `todo` marks, perhaps at more; elsewhere the worst value.

    Where NumPy takes one point after another, each is asked with its own static arguments, as if it were alone.
    """
    if todo.size <= 1:
        return ask(method, mechanism, query, target)
    at, size = np.flatnonzero(todo), 1
    way = way_on_lanes(method, mechanism, len(at))
    calls = at[:, None] if way.at_once == 1 and not way.is_compiled else at[None]
    if way.is_compiled:
        while size < len(at):
            size *= _GROWTH
        calls = np.resize(at, (1, min(size, todo.size)))  # repeated
    if calls.shape[1] == todo.size:
        return ask(method, mechanism, query, target)
    every = np.full(todo.size, query.worst), np.full(todo.size, np.nan), np.zeros(todo.size, bool)
    for points in calls:
        fields, goal = _points_at(mechanism, target, todo.shape, points)
        for whole, of in zip(every, ask(method, fields, query, goal), strict=True):
            whole[points] = of
    return Answer(*(x.reshape(todo.shape) for x in every))


def bracket_points(
    method: BracketMethod, where: NDArray[Any], question: Any, directions: Sequence[Direction]
) -> Ends[Any]:
    """Brackets of many points by the method's own batches, [directions] + batch; trivial where `where` is False."""
    assert method.many is not None
    at, worst = np.flatnonzero(where), question.query.worst
    lower, upper = np.zeros((len(directions), where.size)), np.full((len(directions), where.size), worst)
    fields, asked = _points_at(question.mechanism, question.target, where.shape, at)
    found = method.many(fields, question.query, asked, directions)
    for row, d in enumerate(directions):
        lower[row, at], upper[row, at] = found[d]
    return Ends(*(x.reshape((len(directions), *where.shape)) for x in (lower, upper)))
