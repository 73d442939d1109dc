"""One source for two uses: JAX inside a traced program, NumPy for a single question on the host.

A kernel that is written with `xp`, and with the loops below in place of those of `jax.lax`, takes either kind of array.
If all arguments are NumPy arrays, so is the result, at once and without compilation; one JAX array among the arguments
makes it a JAX operation. An array made of constants only is a NumPy array, which a traced program takes as a constant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import Array, jax, jnp
from jaxacct.special import _elementary

# Types that are certainly not JAX's: an isinstance check against `jax.Array` takes longer than a small operation.
_HOST = frozenset({np.ndarray, np.float64, np.bool_, np.int32, np.int64, float, int, bool, str, type(None)})


def is_jax(*values: Any) -> bool:
    """Whether any leaf of `values` is a JAX array, traced or not."""
    for value in values:
        kind = type(value)
        if kind in _HOST:
            continue
        if kind is tuple or kind is list or isinstance(value, (tuple, list)):
            if is_jax(*value):
                return True
        elif isinstance(value, Array):
            return True
    return False


_OWN = {  # in place of XLA's
    "log1p": _elementary.log1p,
    "expm1": _elementary.expm1,
    "sinh": _elementary.sinh,
    "tanh": _elementary.tanh,
}


class _Namespace:
    """`jax.numpy` where an argument is a JAX array, else `numpy`; constants and types are NumPy's."""

    def __getattr__(self, name: str) -> Any:
        on_host = getattr(np, name)
        if not callable(on_host) or isinstance(on_host, type):
            found = on_host
        else:
            own = _OWN.get(name)

            @functools.wraps(on_host)
            def found(*args: Any, **rest: Any) -> Any:
                for arg in args:
                    if type(arg) not in _HOST and is_jax(arg):
                        return (own or getattr(jnp, name))(*args, **rest)
                return on_host(*args, **rest)

        setattr(self, name, found)  # next time without this function
        return found


xp: Any = _Namespace()
"""Functions of `numpy` or `jax.numpy`, depending on the type of their positional arguments."""


log1p, expm1, sinh, tanh = xp.log1p, xp.expm1, xp.sinh, xp.tanh


def stop_gradient(x: Any) -> Any:
    """`x`, a tree, as a constant under differentiation."""
    return jax.lax.stop_gradient(x) if is_jax(*_trees.leaves(x)) else x


class OwnDerivative:
    """Decorator: `fn` with the derivative given to `defjvp`, as for `jax.custom_jvp`; on NumPy arrays, `fn` itself."""

    def __init__(self, fn: Callable[..., Any]):
        self._fn = fn
        self._rule: Any = None
        functools.update_wrapper(self, fn)

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator for the rule ``(primals, tangents) -> (value, tangent)``."""
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        return self._on_device(*args) if is_jax(*args) else self._fn(*args)

    @functools.cached_property
    def _on_device(self) -> Any:
        made = jax.custom_jvp(self._fn)
        made.defjvp(self._rule)
        return made


def cond(holds: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *args: Any) -> Any:
    """``then(*args)`` if the scalar `holds`, else ``otherwise(*args)``; JAX may compute both under `vmap`."""
    if is_jax(holds):
        return jax.lax.cond(holds, then, otherwise, *args)
    return then(*args) if holds else otherwise(*args)


def while_loop(goes_on: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """``state = step(state)`` while ``goes_on(state)``; by JAX if a leaf of the initial state is a JAX array."""
    if is_jax(*_trees.leaves(state)):
        return jax.lax.while_loop(goes_on, step, state)
    while goes_on(state):
        state = step(state)
    return state


def fori_loop(low: int, high: int, step: Callable[[Any, Any], Any], state: Any) -> Any:
    """``state = step(i, state)`` for i from `low` to `high` - 1; by JAX if a leaf of `state` is a JAX array."""
    if is_jax(*_trees.leaves(state)):
        return jax.lax.fori_loop(low, high, step, state)
    for i in range(low, int(high)):
        state = step(np.int32(i), state)
    return state


def lane_map(fn: Callable[[Any], Any], rows: Any) -> Any:
    """``fn`` of each row of a tree of arrays, the results stacked: `jax.lax.map`, or a loop on the host."""
    leaves, tree = _trees.flatten(rows)
    if is_jax(*leaves):
        return jax.lax.map(fn, rows)
    found = [fn(_trees.unflatten(tree, [leaf[i] for leaf in leaves])) for i in range(len(leaves[0]))]
    return _trees.map_leaves(lambda *parts: np.stack(parts), *found)


def row_map(fn: Callable[[Any], Any], rows: Any, *, at_once: int) -> Any:
    """``fn`` of each row [L] of a tree of arrays [N, L], the results stacked to [N, .., L], some rows at a time.

    JAX takes `at_once` rows together, fewer with more lanes. With one lane NumPy treats rows as lanes, so that `fn`
    must broadcast its rows against its numbers of the lanes.
    """
    leaves, tree = _trees.flatten(rows)
    num_lanes = leaves[0].shape[-1]
    if is_jax(*leaves):
        return jax.lax.map(fn, rows, batch_size=max(1, at_once // num_lanes))
    if num_lanes > 1:
        return lane_map(fn, rows)
    parts = [
        fn(_trees.unflatten(tree, [leaf[start : start + at_once, 0] for leaf in leaves]))
        for start in range(0, len(leaves[0]), at_once)
    ]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 0)[..., None]


def scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, numbers: NDArray[Any]) -> Any:
    """``state, row = step(state, i)`` for each i of the `numbers`, the rows stacked: (state, rows)."""
    if is_jax(*_trees.leaves(state)):
        return jax.lax.scan(step, state, numbers)
    rows = []
    for i in numbers:
        state, row = step(state, i)
        rows.append(row)
    return state, _trees.map_leaves(lambda *parts: np.stack(parts), *rows)


def rows_from(x: Any, start: Any, size: int) -> Any:
    """The `size` rows of `x` from `start` on, which may be traced."""
    return jax.lax.dynamic_slice_in_dim(x, start, size) if is_jax(x, start) else x[start : start + size]


def row_at(x: Any, i: Any) -> Any:
    """Row `i` [.., L] of `x` [R, .., L]; with one lane, NumPy takes several rows `i` [N] as lanes: [.., N]."""
    if is_jax(x, i):
        return jax.lax.dynamic_index_in_dim(x, i, keepdims=False)
    return np.moveaxis(x[i, ..., 0], 0, -1) if np.ndim(i) else x[i]


def with_rows(x: Any, at: Any, rows: Any) -> Any:
    """`x` with `rows` at `at`, one index or several (with JAX, traced or not)."""
    if is_jax(x, at, rows):
        if isinstance(at, Array) and not at.ndim:
            return jax.lax.dynamic_update_index_in_dim(x, rows, at, 0)
        return jnp.asarray(x).at[at].set(rows)
    whole = np.array(x)
    whole[at] = rows
    return whole


def reverse_cummin(x: Any) -> Any:
    """The minimum from each place to the end, along the first axis."""
    return jax.lax.cummin(x, axis=0, reverse=True) if is_jax(x) else np.minimum.accumulate(x[::-1], axis=0)[::-1]


def cummax(x: Any) -> Any:
    """The maximum up to each place, along the first axis."""
    return jax.lax.cummax(x, axis=0) if is_jax(x) else np.maximum.accumulate(x, axis=0)
