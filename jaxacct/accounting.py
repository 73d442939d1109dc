"""The functional API: questions about mechanisms, answered by the methods that apply."""

import functools
import math
import time
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._answering import DELTA, EPSILON, Answer, Query, ask, decide, in_domain, lane_bytes
from jaxacct._best import best, check_method, chosen_precision
from jaxacct._checking import check_mechanism, check_question, check_scalars
from jaxacct._host_methods import host_methods_for
from jaxacct._method import Method
from jaxacct._methods import best_rdp, has_methods, methods_for, relation_of, splits_unevenly
from jaxacct._precision import Kernel, Rounding, float64_kernel, is_traced
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import (
    check_at_most,
    check_count,
    check_delta,
    check_epsilon,
    check_orders,
    check_precision,
    checked_array,
    is_checkable,
)
from jaxacct.composition import allocation_groups, compose_rdp
from jaxacct.conversion import curve_delta, curve_epsilon
from jaxacct.curves import RdpCurve
from jaxacct.divergence.allocation._powers import general_rdp
from jaxacct.intervals import (
    PrecisionWarning,
    distribution_theorem,
    has_distribution,
    holds_reports,
    interval_of,
    is_from_above,
    refined,
)


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


def _directions(mechanism: Any, direction: Direction | None) -> tuple[Direction, ...]:
    if relation_of(mechanism) is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        if direction is not None:
            raise ValueError(f"direction={direction!r} must be None: {type(mechanism).__name__} has one direction only")
        return (Direction.REMOVE,)
    if direction is None:
        return (Direction.REMOVE, Direction.ADD)
    if not isinstance(direction, Direction):
        raise ValueError(f"direction={direction!r} must be Direction.REMOVE, Direction.ADD or None")
    return (direction,)


def _refuse_choices(method: str | None, direction: Direction | None) -> None:
    """A curve is one bound in the directions that it was made for."""
    for name, value in (("method", method), ("direction", direction)):
        if value is not None:
            raise ValueError(f"{name}={value!r} must be None for an RdpCurve")


def _as_python(value: Any) -> Any:
    return value if is_traced(value) or np.ndim(value) else float(value)


def epsilon(
    mechanism: Any,
    target_delta: Any,
    *,
    method: str | None = None,
    direction: Direction | None = None,
    precision: float | None = None,
) -> Any:
    """The epsilon that `mechanism` satisfies at `target_delta`: certified upper bound, best applicable method.

    The larger of the two directions, in each the least over the methods at hand: closed forms and Renyi divergences,
    then the exact engines and the privacy loss distribution, until the certified interval is as narrow as `precision`
    says. Add/remove adjacency (replace-one for `Shuffled`, with one direction). inf where no method applies.

    Traced arguments, and ``precision=math.inf``, get the closed forms and Renyi divergences alone: a millisecond a
    point, vectorised and differentiable, valid but looser (``method="exact"`` is traced where there is such a kernel).

    Args:
      mechanism: a mechanism, or an `RdpCurve`. Array fields broadcast with each other and `target_delta`.
      target_delta: float in (0, 1).
      method: the name of an upper bound from `compare`, to use that method only.
      direction: to bound one direction only; None for the worse of both.
      precision: relative width of the interval behind the answer, as for `epsilon_interval`; None for 1 % where the
        numbers are concrete; inf for the quick methods only.

    Returns:
      A float, or a NumPy float64 array of the broadcast shape; a tracer, rounded up to the user's
      float type and differentiable, if an argument is one.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000, num_epochs=10)
    >>> round(ja.epsilon(run, target_delta=1e-6), 2)
    0.54
    >>> round(ja.epsilon(run, target_delta=1e-6, precision=float("inf")), 4)
    0.9763
    """
    check_delta("target_delta", target_delta)
    if isinstance(mechanism, RdpCurve):
        _refuse_choices(method, direction)
        return _as_python(curve_epsilon(mechanism, target_delta))
    check_question(mechanism, "target_delta", target_delta)
    check_precision(precision)
    check_method(mechanism, method)
    return _as_python(best(mechanism, EPSILON, target_delta, method, _directions(mechanism, direction), precision))


def delta(
    mechanism: Any,
    target_epsilon: Any,
    *,
    method: str | None = None,
    direction: Direction | None = None,
    precision: float | None = None,
) -> Any:
    """The delta that `mechanism` satisfies at `target_epsilon`: certified upper bound, best applicable method.

    As `epsilon`, with the two exchanged.

    Args:
      mechanism: a mechanism, or an `RdpCurve`.
      target_epsilon: float >= 0.
      method: the name of an upper bound from `compare`, to use that method only.
      direction: to bound one direction only; None for the worse of both.
      precision: relative width of the interval behind the answer, as for `delta_interval`; None for 10 % where the
        numbers are concrete; inf for the quick methods only.

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
        _refuse_choices(method, direction)
        return _as_python(curve_delta(mechanism, target_epsilon))
    check_question(mechanism, "target_epsilon", target_epsilon)
    check_precision(precision)
    check_method(mechanism, method)
    return _as_python(best(mechanism, DELTA, target_epsilon, method, _directions(mechanism, direction), precision))


@functools.lru_cache(maxsize=64)
def _rdp_kernel(structure: Any, directions: tuple[Direction, ...]) -> Kernel:
    def worst(*lanes: jax.Array, orders: tuple[float, ...], uneven: bool) -> jax.Array:
        mechanism = jax.tree.unflatten(structure, lanes)
        curves = [best_rdp(mechanism, d, orders=orders, uneven=uneven) for d in directions]
        whole = functools.reduce(jnp.maximum, curves)
        return jnp.where(in_domain(mechanism) & ~jnp.isnan(whole), whole, jnp.inf)

    return Kernel(worst, Rounding.UP, lane_bytes)


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
    check_mechanism(mechanism)
    directions = _directions(mechanism, direction)
    methods = methods_for(mechanism)
    leaves, structure = jax.tree.flatten(mechanism)
    kernel = _rdp_kernel(structure, directions)
    values = kernel(*leaves, orders=tuple(wanted.tolist()), uneven=splits_unevenly(mechanism))
    usable = [m for m in methods if m.rdp is not None and any(d in m.directions for d in directions)]
    theorem = "; ".join(dict.fromkeys(m.theorem for m in usable))
    return RdpCurve(wanted, values, Bound.UPPER, relation_of(mechanism), theorem)


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
    moments = checked_array("log_moments", log_moments).astype(np.float64)
    if moments.ndim != 1 or moments.shape[0] < 3 or np.isnan(moments).any() or np.abs(moments[:2]).max() > 1e-9:
        raise ValueError(f"log_moments={log_moments!r} must be [A + 1] numbers, A >= 2, the first two of them 0")
    for name, value in (("num_steps", num_steps), ("num_selected", num_selected), ("num_epochs", num_epochs)):
        if not is_checkable(value):
            raise ValueError(f"{name}={value!r} must be a number or an array of numbers, concrete")
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


def compare(
    mechanism: Any, target_delta: Any = None, *, target_epsilon: Any = None, precision: float | None = None
) -> tuple[Entry, ...]:
    """Every applicable method side by side, each direction by itself.

    Args:
      mechanism: a mechanism; array fields broadcast.
      target_delta: float in (0, 1), to compare epsilons; or
      target_epsilon: float >= 0, to compare deltas.
      precision: relative width for the privacy loss distribution; None for 1 %; inf leaves it and the other engines
        that need concrete scalars out.

    Returns:
      One `Entry` for each method and direction: method, direction, value, bound, neighboring_relation, theorem,
      order (nan if none), at_order_edge, seconds (compilation included on a first call).

    Raises:
      ValueError: if not exactly one target is given, or an argument is out of range.

    >>> import jaxacct as ja
    >>> for entry in ja.compare(ja.Gaussian(noise_multiplier=1.0), target_delta=1e-6, precision=float("inf")):
    ...     print(entry.method, entry.direction.value, f"{entry.value:.3f}")
    exact remove 4.887
    rdp remove 5.222
    exact add 4.887
    rdp add 5.222
    """
    query, target = _only_target(target_delta, target_epsilon)
    check_question(mechanism, f"target_{'delta' if query is EPSILON else 'epsilon'}", target)
    check_precision(precision)
    precision = 0.01 if precision is None else float(precision)
    timed: dict[Method, tuple[Answer, float]] = {}
    entries = []
    methods = methods_for(mechanism) if has_methods(mechanism) else ()
    scalar = not any(np.ndim(x) for x in (*jax.tree.leaves(mechanism), target))
    for direction in _directions(mechanism, None):
        for method in methods:
            if direction not in method.directions:
                continue
            if method not in timed:
                start = time.perf_counter()
                timed[method] = ask(method, mechanism, query, target), time.perf_counter() - start
            entries.append(_entry(mechanism, method, direction, *timed[method]))
        if precision != math.inf and scalar and not is_traced(mechanism, target):
            entries += _host_entries(mechanism, query, float(target), direction, precision)
    return tuple(entries)


def _host_entries(mechanism: Any, query: Query, target: float, direction: Direction, precision: float) -> list[Entry]:
    """Lines of the host's methods, and of both ends of the loss distribution."""
    entries: list[Entry] = []

    line = functools.partial(_line, mechanism, direction)
    for method in host_methods_for(mechanism):
        if direction in method.directions:
            start = time.perf_counter()
            value = method(mechanism, query, target, direction)
            seconds = time.perf_counter() - start
            entries.append(line(method.name, method.theorem, value, method.bound, seconds))
    if has_distribution(mechanism):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)  # the values show it
            found = refined(mechanism, query, target, precision, None, {direction: query.worst}, {direction: 0.0})
        seconds = time.perf_counter() - start
        theorem = distribution_theorem(mechanism)
        entries.append(line("loss distribution", theorem, found.upper, Bound.UPPER, seconds))
        if not (holds_reports(mechanism) or is_from_above(mechanism)):
            entries.append(line("loss distribution", theorem, found.lower, Bound.LOWER, seconds))
    return entries


def deciding(
    mechanism: Any, target_delta: Any = None, *, target_epsilon: Any = None, precision: float | None = None
) -> tuple[Entry, ...]:
    """For a scalar question, the entry behind `epsilon` (or `delta`) in each direction.

    The larger value is the answer. Methods that cannot change it are not run, so the smaller direction
    may show a bound that `compare` would improve. Arguments and errors as for `epsilon`; array fields are refused.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=1000)
    >>> remove, add = ja.deciding(run, target_delta=1e-6)
    >>> remove.method, round(remove.value, 4)
    ('interval', 0.1717)
    >>> ja.deciding(run, target_delta=1e-6, precision=float("inf"))[0].method
    'direct'
    """
    query, target = _only_target(target_delta, target_epsilon)
    check_scalars(mechanism, target)
    check_precision(precision)
    width = chosen_precision(precision, query, mechanism, target)
    directions = _directions(mechanism, None)
    found: dict[Direction, Entry] = {}
    if has_methods(mechanism):
        asked = decide(mechanism, query, target, directions, None, is_final=width == math.inf).asked
        for d, here in asked.items():
            method, answer = min(here.items(), key=lambda item: float(item[1].value))
            found[d] = _entry(mechanism, method, d, answer, float("nan"))
    if width != math.inf:
        with warnings.catch_warnings():
            if precision is None:
                warnings.simplefilter("ignore", PrecisionWarning)
            for d in directions:
                upper = interval_of(mechanism, query, float(target), width, None, (d,)).upper
                if d not in found or upper < found[d].value:
                    found[d] = _line(mechanism, d, "interval", distribution_theorem(mechanism), upper, Bound.UPPER)
    return tuple(found[d] for d in directions)


def _line(
    mechanism: Any,
    direction: Direction,
    method: str,
    theorem: str,
    value: float,
    bound: Bound,
    seconds: float = float("nan"),
) -> Entry:
    return Entry(method, direction, value, bound, relation_of(mechanism), theorem, float("nan"), False, seconds)


def _only_target(target_delta: Any, target_epsilon: Any) -> tuple[Query, Any]:
    if (target_delta is None) == (target_epsilon is None):
        raise ValueError(f"target_delta={target_delta} and target_epsilon={target_epsilon}: exactly one must be given")
    if target_epsilon is None:
        check_delta("target_delta", target_delta)
        return EPSILON, target_delta
    check_epsilon("target_epsilon", target_epsilon)
    return DELTA, target_epsilon


def _entry(mechanism: Any, method: Method, direction: Direction, answer: Answer, seconds: float) -> Entry:
    return Entry(
        method=method.name,
        direction=direction,
        value=_as_python(answer.value),
        bound=method.bound,
        neighboring_relation=relation_of(mechanism),
        theorem=method.theorem,
        order=_as_python(answer.order),
        at_order_edge=answer.at_edge if np.ndim(answer.at_edge) else bool(answer.at_edge),
        seconds=seconds,
    )
