"""The functional API: questions about mechanisms, answered by the methods that apply."""

import functools
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._methods import Method, best_rdp, methods_for, splits_unevenly
from jaxacct._precision import Kernel, Rounding, float64_kernel, is_traced
from jaxacct._types import Bound, Direction, NeighboringRelation, OrderEdgeWarning
from jaxacct._validate import check_at_most, check_count, check_delta, check_epsilon, check_orders
from jaxacct.composition import allocation_groups, compose_rdp
from jaxacct.conversion import curve_delta, curve_epsilon, delta_from_log, epsilon_from_rdp, log_delta_from_rdp
from jaxacct.curves import RdpCurve
from jaxacct.divergence._allocation import general_rdp

# Inside a user's jit the grid of orders cannot grow with the data.
_TRACED_GRID = 1


class Answer(NamedTuple):
    """One method's answer: the value, and for Renyi methods the best order and whether it is the grid's last."""

    value: Any
    order: Any
    at_edge: Any


class Entry(NamedTuple):
    """One line of `compare`.

    >>> import jaxacct as ja
    >>> entry = ja.compare(ja.Gaussian(1.0), target_delta=1e-6)[0]
    >>> entry.method, entry.direction.value, round(entry.value, 4)
    ('exact', 'remove', 4.8866)
    """

    method: str
    direction: Direction
    value: Any
    bound: Bound
    neighboring_relation: NeighboringRelation
    theorem: str
    order: Any
    at_order_edge: Any
    seconds: float


class _Query(NamedTuple):
    """What is asked of a method: the kernel's body for each kind of method."""

    name: str
    from_rdp: Callable[[Any, Any, Any], Any]
    from_profile: Callable[[Method, Any, Any, dict[str, Any]], Any]


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
    return delta_from_log(method.log_delta(mechanism, epsilon, **static))


_EPSILON = _Query("epsilon", _epsilon_from_rdp, _epsilon_from_profile)
_DELTA = _Query("delta", _delta_from_rdp, _delta_from_profile)


def _lane_bytes(**static: Any) -> int:
    # The Laplace kernel holds 512 nodes for each of 32 rows; tables of orders are smaller.
    return max(2**18, 80 * len(static.get("orders", ())))


@functools.lru_cache(maxsize=256)
def _kernel(method: Method, structure: Any, query: _Query) -> Kernel:
    def answer(*lanes: jax.Array, uneven: bool, orders: tuple[float, ...] = ()) -> Any:
        mechanism, target = jax.tree.unflatten(structure, lanes[:-1]), lanes[-1]
        if method.rdp is None:
            value = query.from_profile(method, mechanism, target, {"uneven": uneven})
            return value, jnp.full_like(value, jnp.nan)
        rdp = method.rdp(mechanism, orders=orders, uneven=uneven)
        return query.from_rdp(jnp.asarray(orders, jnp.float64)[:, None], rdp, target)

    answer.__name__ = f"{method.name.replace(' ', '_')}_{query.name}"
    return Kernel(answer, (Rounding.UP, Rounding.NEAREST), _lane_bytes)


def _ask(method: Method, mechanism: Any, query: _Query, target: Any) -> Answer:
    """One method's answer, on a grid of orders extended until the best one is inside it."""
    leaves, structure = jax.tree.flatten(mechanism)
    kernel = _kernel(method, structure, query)
    static: dict[str, Any] = {"uneven": splits_unevenly(mechanism)}
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
        # `needs_low_order`: the orders above its last one are another method's
        edge[todo] = (new_order >= orders[-1]) & (new_value > 0) & (not method.needs_low_order)
        if not edge.any():
            break
    return Answer(value.reshape(shape), order.reshape(shape), edge.reshape(shape))


def _wanted(method: Method, direction: Direction, name: str | None) -> bool:
    return direction in method.directions and (name is None or method.name == name)


class _Verdict(NamedTuple):
    """The worse of both directions, and what was asked in each on the way."""

    value: Any
    asked: dict[Direction, dict[Method, Answer]]


def _decide(mechanism: Any, query: _Query, target: Any, directions: Sequence[Direction], name: str | None) -> _Verdict:
    """max over directions of min over methods; methods that cannot change it are not run."""
    methods = methods_for(mechanism)
    if name is not None and not any(_wanted(m, d, name) for m in methods for d in directions):
        choices = sorted({m.name for m in methods if any(d in m.directions for d in directions)})
        raise ValueError(f"method={name!r} must be one of {choices}")
    traced = is_traced(mechanism, target)
    floors: dict[Method, Any] = {}
    if not traced and query is _EPSILON:
        log_delta = np.log(np.asarray(target, np.float64))
        floors = {m: m.floor(mechanism, log_delta) for m in methods if m.floor is not None}
    answers: dict[Method, Answer] = {}
    asked: dict[Direction, dict[Method, Answer]] = {}
    worst: Any = None
    for direction in directions:
        usable = [m for m in methods if _wanted(m, direction, name)]
        if not usable:
            continue
        if worst is not None and not traced:  # first those that may already settle this direction
            usable.sort(key=lambda m: bool(np.any(floors.get(m, -np.inf) > worst)))
        best: Any = None
        order_above_two = False
        here = asked.setdefault(direction, {})
        for method in usable:
            if best is not None and not traced:
                settled = worst is not None and np.all(best <= worst)
                hopeless = np.all(floors.get(method, -np.inf) >= best)
                if settled or hopeless or (method.needs_low_order and order_above_two):
                    continue
            if method not in answers:
                answers[method] = _ask(method, mechanism, query, target)
            answer = here[method] = answers[method]
            if not traced and method.rdp is not None:
                order_above_two = bool(np.all(answer.order > 2.0))
            best = answer.value if best is None else _least(best, answer.value)
        worst = best if worst is None else _largest(worst, best)
    if not traced:
        _warn_of_edges(answers, worst, query)
    return _Verdict(worst, asked)


def _least(a: Any, b: Any) -> Any:
    return jnp.minimum(a, b) if is_traced(a, b) else np.minimum(a, b)


def _largest(a: Any, b: Any) -> Any:
    return jnp.maximum(a, b) if is_traced(a, b) else np.maximum(a, b)


def _warn_of_edges(answers: dict[Method, Answer], value: Any, query: _Query) -> None:
    for method, answer in answers.items():
        if np.any(answer.at_edge & (answer.value <= value)):
            message = (
                f"{query.name} by {method.name!r} is best at order {method.grids[-1][-1]:g}, the largest tried: "
                "a valid upper bound that may be loose"
            )
            warnings.warn(message, OrderEdgeWarning, stacklevel=4)


def _directions(direction: Direction | None) -> tuple[Direction, ...]:
    if direction is None:
        return (Direction.REMOVE, Direction.ADD)
    if not isinstance(direction, Direction):
        raise ValueError(f"direction={direction!r} must be Direction.REMOVE, Direction.ADD or None")
    return (direction,)


def _as_python(value: Any) -> Any:
    return value if is_traced(value) or np.ndim(value) else float(value)


def epsilon(mechanism: Any, target_delta: Any, *, method: str | None = None, direction: Direction | None = None) -> Any:
    """The epsilon that `mechanism` satisfies at `target_delta`: certified upper bound, best applicable method.

    The larger of the two directions, in each the least over the methods that `compare` lists. Add/remove
    adjacency. inf where no method applies.

    Args:
      mechanism: a mechanism, or an `RdpCurve`. Array fields broadcast with each other and `target_delta`.
      target_delta: float in (0, 1).
      method: a name from `compare`, to use that method only.
      direction: to bound one direction only; None for the worse of both.

    Returns:
      A float, or a NumPy float64 array of the broadcast shape; a tracer, rounded up to the user's
      float type and differentiable, if an argument is one.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000, num_epochs=10)
    >>> round(ja.epsilon(run, target_delta=1e-6), 4)
    0.9763
    """
    check_delta("target_delta", target_delta)
    if isinstance(mechanism, RdpCurve):
        return _as_python(curve_epsilon(mechanism, target_delta))
    return _as_python(_decide(mechanism, _EPSILON, target_delta, _directions(direction), method).value)


def delta(mechanism: Any, target_epsilon: Any, *, method: str | None = None, direction: Direction | None = None) -> Any:
    """The delta that `mechanism` satisfies at `target_epsilon`: certified upper bound, best applicable method.

    As `epsilon`, with the two exchanged.

    Args:
      mechanism: a mechanism, or an `RdpCurve`.
      target_epsilon: float >= 0.
      method: a name from `compare`, to use that method only.
      direction: to bound one direction only; None for the worse of both.

    Returns:
      A float in [0, 1], or an array of the broadcast shape, as for `epsilon`.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> round(ja.delta(ja.Gaussian(noise_multiplier=1.0), target_epsilon=1.0), 6)
    0.126937
    """
    check_epsilon("target_epsilon", target_epsilon)
    if isinstance(mechanism, RdpCurve):
        return _as_python(curve_delta(mechanism, target_epsilon))
    return _as_python(_decide(mechanism, _DELTA, target_epsilon, _directions(direction), method).value)


@functools.lru_cache(maxsize=64)
def _rdp_kernel(structure: Any, directions: tuple[Direction, ...]) -> Kernel:
    def worst(*lanes: jax.Array, orders: tuple[float, ...], uneven: bool) -> jax.Array:
        mechanism = jax.tree.unflatten(structure, lanes)
        curves = [best_rdp(mechanism, d, orders=orders, uneven=uneven) for d in directions]
        return functools.reduce(jnp.maximum, curves)

    return Kernel(worst, Rounding.UP, _lane_bytes)


def rdp(mechanism: Any, orders: Any, *, direction: Direction | None = None) -> RdpCurve:
    """Renyi divergences of `mechanism` at `orders`: certified upper bounds, the worse of both directions.

    Args:
      mechanism: a mechanism; array fields broadcast.
      orders: concrete float array [A], each finite and > 1. They choose the program that is compiled.
      direction: to bound one direction only.

    Returns:
      An `RdpCurve` with values of shape batch + [A], in nats.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=100)
    >>> [round(float(v), 6) for v in ja.rdp(run, [2, 32]).values]
    [0.017037, 11.39483]
    """
    wanted = check_orders("orders", orders)
    directions = _directions(direction)
    methods = methods_for(mechanism)
    leaves, structure = jax.tree.flatten(mechanism)
    kernel = _rdp_kernel(structure, directions)
    values = kernel(*leaves, orders=tuple(wanted.tolist()), uneven=splits_unevenly(mechanism))
    usable = [m for m in methods if m.rdp is not None and any(d in m.directions for d in directions)]
    theorem = "; ".join(dict.fromkeys(m.theorem for m in usable))
    return RdpCurve(wanted, values, Bound.UPPER, NeighboringRelation.ADD_OR_REMOVE_ONE, theorem)


@float64_kernel(rounding=Rounding.UP)
def _moments_kernel(
    num_steps: Any, num_selected: Any, num_epochs: Any, *log_moments: Any, uneven: bool, num_bits: int
) -> Any:
    groups = allocation_groups(num_steps, num_selected, num_epochs, uneven=uneven)
    moments = jnp.stack(log_moments)
    return compose_rdp((general_rdp(moments, g.num_steps, num_bits=num_bits), g.num_runs) for g in groups)


def allocation_rdp(log_moments: Any, num_steps: Any, num_selected: Any = 1, num_epochs: Any = 1) -> RdpCurve:
    """Renyi curve of random allocation of *any* base mechanism, from the moments of its dominating pair (P, Q).

    Upper bound, remove direction only, orders 2..A (Feldman and Shenfeld 2025, Theorem 4.8 and Lemma 3.2):

        R_a = (1/(a-1)) log( a!/t^a [x^a] (sum_c m_c/c! x^c)^t ),    m_c = E_Q[(dP/dQ)^c],

    exact for num_selected = 1 up to an absolute rounding slack of about 1e-12 on (a-1) R_a.

    Args:
      log_moments: float array [A + 1], log m_c for c = 0..A; entries 0 and 1 are 0, inf where a moment is infinite.
      num_steps: whole number in [1, 2^40], t.
      num_selected: whole number in [1, num_steps].
      num_epochs: whole number >= 1.

    Raises:
      ValueError: if an argument is out of range.

    >>> import numpy as np, jaxacct as ja
    >>> c = np.arange(9)
    >>> gaussian = c * (c - 1) / 2                      # log moments of the Gaussian pair at noise multiplier 1
    >>> round(float(ja.allocation_rdp(gaussian, num_steps=100).values[0]), 6)
    0.017037
    """
    moments = np.asarray(log_moments, np.float64)
    if moments.ndim != 1 or moments.shape[0] < 3 or np.isnan(moments).any() or np.abs(moments[:2]).max() > 1e-9:
        raise ValueError(f"log_moments={log_moments!r} must be [A + 1] numbers, A >= 2, the first two of them 0")
    check_count("num_steps", num_steps, largest=2**40)
    check_count("num_selected", num_selected)
    check_at_most("num_selected", num_selected, "num_steps", num_steps)
    check_count("num_epochs", num_epochs)
    uneven = bool(np.any(np.mod(num_steps, num_selected) != 0))
    num_bits = int(np.max(num_steps)).bit_length()
    values = _moments_kernel(num_steps, num_selected, num_epochs, *moments, uneven=uneven, num_bits=num_bits)
    orders = np.arange(2.0, moments.shape[0])
    theorem = "Feldman & Shenfeld 2025, Theorem 4.8, remove direction"
    return RdpCurve(orders, values, Bound.UPPER, NeighboringRelation.ADD_OR_REMOVE_ONE, theorem)


def compare(mechanism: Any, target_delta: Any = None, *, target_epsilon: Any = None) -> tuple[Entry, ...]:
    """Every applicable method side by side, each direction by itself.

    Args:
      mechanism: a mechanism; array fields broadcast.
      target_delta: float in (0, 1), to compare epsilons; or
      target_epsilon: float >= 0, to compare deltas.

    Returns:
      One `Entry` for each method and direction: method, direction, value, bound, neighboring_relation, theorem,
      order (nan if none), at_order_edge, seconds (compilation included on a first call).

    Raises:
      ValueError: if not exactly one target is given, or an argument is out of range.

    >>> import jaxacct as ja
    >>> for entry in ja.compare(ja.Gaussian(noise_multiplier=1.0), target_delta=1e-6):
    ...     print(entry.method, entry.direction.value, f"{entry.value:.3f}")
    exact remove 4.887
    rdp remove 5.222
    exact add 4.887
    rdp add 5.222
    """
    query, target = _only_target(target_delta, target_epsilon)
    timed: dict[Method, tuple[Answer, float]] = {}
    entries = []
    methods = methods_for(mechanism)
    for direction in _directions(None):
        for method in methods:
            if direction not in method.directions:
                continue
            if method not in timed:
                start = time.perf_counter()
                timed[method] = _ask(method, mechanism, query, target), time.perf_counter() - start
            entries.append(_entry(method, direction, *timed[method]))
    return tuple(entries)


def deciding(mechanism: Any, target_delta: Any = None, *, target_epsilon: Any = None) -> tuple[Entry, ...]:
    """For a scalar question, the entry behind `epsilon` (or `delta`) in each direction.

    The larger value is the answer. Methods that cannot change it are not run, so the smaller direction
    may show a bound that `compare` would improve. Arguments and errors as for `compare`; array fields are refused.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000)
    >>> remove, add = ja.deciding(run, target_delta=1e-6)
    >>> remove.method, remove.order, round(remove.value, 4)
    ('direct', 13.0, 0.8694)
    """
    query, target = _only_target(target_delta, target_epsilon)
    if any(np.ndim(x) for x in (*jax.tree.leaves(mechanism), target)) or is_traced(mechanism, target):
        raise ValueError(f"mechanism={mechanism!r} and its target must be concrete scalars")
    asked = _decide(mechanism, query, target, _directions(None), None).asked
    best = {d: min(here.items(), key=lambda item: float(item[1].value)) for d, here in asked.items()}
    return tuple(_entry(method, d, answer, float("nan")) for d, (method, answer) in best.items())


def _only_target(target_delta: Any, target_epsilon: Any) -> tuple[_Query, Any]:
    if (target_delta is None) == (target_epsilon is None):
        raise ValueError(f"target_delta={target_delta} and target_epsilon={target_epsilon}: exactly one must be given")
    if target_epsilon is None:
        check_delta("target_delta", target_delta)
        return _EPSILON, target_delta
    check_epsilon("target_epsilon", target_epsilon)
    return _DELTA, target_epsilon


def _entry(method: Method, direction: Direction, answer: Answer, seconds: float) -> Entry:
    return Entry(
        method=method.name,
        direction=direction,
        value=_as_python(answer.value),
        bound=method.bound,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        theorem=method.theorem,
        order=_as_python(answer.order),
        at_order_edge=answer.at_edge if np.ndim(answer.at_edge) else bool(answer.at_edge),
        seconds=seconds,
    )
