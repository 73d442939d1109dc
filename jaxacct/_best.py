"""The best certified upper bound: methods on lanes first, then exact engines and loss distributions where they gain."""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._answering import EPSILON, Query, decide
from jaxacct._host_methods import HostMethod, host_methods_for, named, worst
from jaxacct._inverting import invert
from jaxacct._method import BOTH
from jaxacct._methods import has_methods, methods_for
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction
from jaxacct._validate import check_positive
from jaxacct.bounds.poisson._exact import SIZES, inverts
from jaxacct.intervals import PrecisionWarning, has_distribution, interval_of, refined
from jaxacct.mechanisms import Composed, Shuffled

_DISTRIBUTION = "loss distribution"


def check_method(mechanism: Any, method: str | None) -> None:
    """Raises ValueError unless `method` is None or names an upper bound of `mechanism`."""
    if method is None:
        return
    bounds = [(m.name, m.bound) for m in (methods_for(mechanism) if has_methods(mechanism) else ())]
    bounds += [(m.name, m.bound) for m in host_methods_for(mechanism)]
    if has_distribution(mechanism):
        bounds.append((_DISTRIBUTION, Bound.UPPER))
    upper = sorted({name for name, bound in bounds if bound is Bound.UPPER})
    if method not in upper:
        lower = "is a lower bound, listed by compare and sweep: it " if method in dict(bounds) else ""
        raise ValueError(f"method={method!r} {lower}must be one of {upper}")


def chosen_precision(precision: float | None, query: Query, mechanism: Any, target: Any) -> float:
    """`precision` for `mechanism`: where None, 1 % of epsilon or 10 % of delta; inf where no engine adds anything."""
    if precision is not None and precision != math.inf:
        check_positive("precision", precision)
    if not has_methods(mechanism):
        if is_traced(mechanism, target):
            raise ValueError(f"mechanism={mechanism!r} has a loss distribution only: it cannot run inside jit or grad")
        precision = None if precision == math.inf else precision  # there is nothing quicker
    elif is_traced(mechanism, target):
        if precision is not None and precision != math.inf:
            raise ValueError(f"precision={precision} needs concrete numbers: inside jit, vmap or grad leave it out")
        return math.inf
    if precision is None:
        precision = 0.01 if query is EPSILON else 0.1
    return precision if refines(mechanism) else math.inf


def refines(mechanism: Any) -> bool:
    """Whether exact engines or loss distributions may be tighter than the methods on lanes."""
    if isinstance(mechanism, Shuffled) and not np.any(np.asarray(mechanism.num_epochs) > 1):
        return False  # one round is exact already
    closed = has_methods(mechanism) and any(method.name == "exact" for method in methods_for(mechanism))
    return not closed and has_distribution(mechanism)


def best(
    mechanism: Any,
    query: Query,
    target: Any,
    method: str | None,
    directions: tuple[Direction, ...],
    precision: float | None,
) -> Any:
    """The answer of one method, or the least of all, to a relative width of `precision` where an engine gives one."""
    host = named(mechanism, method) if method is not None else None
    if method == _DISTRIBUTION:
        return _by_distribution(mechanism, query, target, directions, precision)
    if host is not None:
        return _by_host(host, mechanism, query, target, directions)
    if method is not None:
        return decide(mechanism, query, target, directions, method).value
    width = chosen_precision(precision, query, mechanism, target)
    if math.isinf(width):
        quick = decide(mechanism, query, target, directions, None).value
        if not isinstance(mechanism, Composed) or is_traced(mechanism, target) or np.all(quick < query.worst):
            return quick
        todo = np.asarray(quick >= query.worst)  # parts without Renyi divergences
        wide = 0.01 if query is EPSILON else 0.1
        return np.minimum(quick, _each(mechanism, target, todo, lambda m, x: _upper_end(m, query, x, wide, directions)))
    upper = np.full(np.broadcast_shapes(*(np.shape(x) for x in (*jax.tree.leaves(mechanism), target))), query.worst)
    todo = np.ones(upper.shape, bool)
    if inverts(mechanism):
        ends = jax.tree.map(np.asarray, invert(mechanism, query, target))
        at = [i for i, d in enumerate(Direction) if d in directions]
        upper, lower = ends.upper[..., at].max(axis=-1), ends.lower[..., at].max(axis=-1)
        todo = ~(upper - lower <= width * lower)
    with warnings.catch_warnings():
        if precision is None:  # nobody asked for a width
            warnings.simplefilter("ignore", PrecisionWarning)
        found = _each(mechanism, target, todo, lambda m, x: _upper_end(m, query, x, width, directions))
    upper = np.minimum(upper, np.where(todo, found, np.inf))
    upper = np.minimum(upper, _by_closed_forms(mechanism, query, target, directions, upper))
    if (upper >= query.worst).any() and has_methods(mechanism):
        upper = np.minimum(upper, decide(mechanism, query, target, directions, None).value)
    return upper


def _by_closed_forms(
    mechanism: Any, query: Query, target: Any, directions: tuple[Direction, ...], upper: np.ndarray
) -> Any:
    """Exact in the limits of a scheme, where an interval may lie above them; asked where they may be less."""
    if query is not EPSILON or not has_methods(mechanism):
        return np.inf
    log_delta = np.log(np.asarray(target, np.float64))
    for method in methods_for(mechanism):
        if (
            method.floor is not None
            and method.directions == BOTH
            and np.any(method.floor(mechanism, log_delta) < upper)
        ):
            return decide(mechanism, query, target, directions, method.name).value
    return np.inf


def _upper_end(mechanism: Any, query: Query, target: float, width: float, directions: tuple[Direction, ...]) -> float:
    return interval_of(mechanism, query, target, width, None, directions).upper


def _by_distribution(
    mechanism: Any, query: Query, target: Any, directions: tuple[Direction, ...], precision: float | None
) -> Any:
    if is_traced(mechanism, target):
        raise ValueError(f"method={_DISTRIBUTION!r} needs concrete numbers: it cannot run inside jit, vmap or grad")
    width = chosen_precision(None if precision == math.inf else precision, query, mechanism, target)
    ends = dict.fromkeys(directions, query.worst), dict.fromkeys(directions, 0.0)
    return _each(mechanism, target, None, lambda m, x: refined(m, query, x, width, None, *map(dict, ends)).upper)


def _by_host(method: HostMethod, mechanism: Any, query: Query, target: Any, directions: tuple[Direction, ...]) -> Any:
    """A host's method for each point; the exact one inside traced code too, where it is a kernel."""
    if is_traced(mechanism, target):
        if method.name != "exact" or not inverts(mechanism):
            raise ValueError(f"method={method.name!r} needs concrete numbers: it cannot run inside jit, vmap or grad")
        at = [i for i, d in enumerate(Direction) if d in directions]
        return functools.reduce(jnp.maximum, [invert(mechanism, query, target, SIZES[1]).upper[..., i] for i in at])
    return _each(mechanism, target, None, lambda one, goal: worst(method, one, query, goal, directions))


def _each(mechanism: Any, target: Any, todo: np.ndarray | None, answer: Callable[[Any, float], float]) -> np.ndarray:
    """`answer` for each point of the broadcast batch that is `todo`, inf elsewhere."""
    leaves, structure = jax.tree.flatten(mechanism)
    points = np.broadcast_arrays(*(np.asarray(x) for x in (*leaves, target)))
    values = np.full(points[0].shape, np.inf)
    for at in np.ndindex(values.shape):
        if todo is None or todo[at]:
            *fields, goal = (p[at].item() if isinstance(p[at], np.generic) else p[at] for p in points)
            values[at] = answer(jax.tree.unflatten(structure, fields), float(goal))
    return values
