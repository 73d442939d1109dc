"""Optimizer states in other forms: in flax's TrainState, in files without typed keys, without the counter."""

from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from jaxacct._validate import checked_whole
from jaxacct.training._counting import HOOK_FIELDS, SATURATED, release_counts

_T = TypeVar("_T")
_ARRAYS: Any = (jax.Array, np.ndarray, np.generic, bool, int, float)  # what becomes an array; functions of modules stay


def apply_gradients(state: _T, *, grads: Any, phase: Any = None, mask: Any = None, **replaced: Any) -> _T:
    """``state.apply_gradients(grads=grads)`` of a flax `TrainState`, with `phase` and `mask` passed to its optimizer.

    Flax does not pass extra arguments on to the optimizer, so for this call it gets an optimizer with both bound to it.

    Args:
      state: a `TrainState`, or anything with its `tx`, `replace` and `apply_gradients`.
      grads: as for `TrainState.apply_gradients`.
      phase: as for `count_releases`; None for an optimizer of one phase.
      mask: as for `private_aggregate`; None for an optimizer that needs none.
      **replaced: fields to be replaced, as for `TrainState.apply_gradients`.

    Returns:
      The state after the step, with the optimizer that `state` has.

    Raises:
      ValueError: if `phase` is out of range, or missing where there are several.

    >>> import jax.numpy as jnp, optax
    >>> from flax.training.train_state import TrainState
    >>> from jaxacct import training
    >>> noise = training.count_releases(optax.add_noise(1.0, 0.0, key=0), num_phases=2)
    >>> params = {"w": jnp.zeros(3)}
    >>> state = TrainState.create(apply_fn=None, params=params, tx=optax.chain(noise, optax.sgd(0.1)))
    >>> state = training.apply_gradients(state, grads={"w": jnp.ones(3)}, phase=1)
    >>> training.release_counts(state)
    Array([0, 1], dtype=int32)
    """
    held: Any = state
    optimizer = held.tx

    def update(updates: Any, opt_state: Any, params: Any = None) -> Any:
        extra = {name: value for name, value in (("phase", phase), ("mask", mask)) if value is not None}
        return optax.with_extra_args_support(optimizer).update(updates, opt_state, params, **extra)

    knowing = held.replace(tx=optax.GradientTransformation(optimizer.init, update))
    return knowing.apply_gradients(grads=grads, **replaced).replace(tx=optimizer)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def storable(state: _T) -> _T:
    """`state` with typed random keys replaced by their words, for formats that hold only arrays, such as msgpack.

    The states of Optax's noise transforms hold typed keys, which ``flax.serialization.to_bytes`` rejects. `restored`
    undoes the replacement.

    Args:
      state: any tree.

    Returns:
      A tree of the same form, with keys as arrays of uint32.

    >>> import jax.numpy as jnp, optax
    >>> from flax import serialization
    >>> from jaxacct import training
    >>> optimizer = training.count_releases(optax.add_noise(1.0, 0.0, key=0))
    >>> state = optimizer.init(jnp.zeros(3))
    >>> stored = serialization.to_bytes(training.storable(state))
    >>> again = training.restored(serialization.from_bytes(training.storable(state), stored), like=state)
    >>> again[0].rng_key == state[0].rng_key
    Array(True, dtype=bool)
    """
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, state)


def restored(stored: Any, like: _T) -> _T:
    """The state that `storable` was given, with JAX arrays and typed keys restored: a tree of the form of `like`.

    Args:
      stored: what `storable` returned, or what was read from a file that holds it.
      like: a state of the same form, for example from the optimizer's `init`.

    Returns:
      A tree of the form of `like`, with the numbers of `stored`.

    Raises:
      ValueError: if `stored` has another structure, or a leaf of another shape.

    >>> import jax
    >>> from jaxacct import training
    >>> key = jax.random.key(7)
    >>> training.restored(training.storable({"key": key}), like={"key": key})["key"] == key
    Array(True, dtype=bool)
    """

    def one(leaf: Any, wanted: Any) -> Any:
        if not isinstance(wanted, _ARRAYS):
            return leaf
        shape = jax.random.key_data(wanted).shape if _is_key(wanted) else jnp.shape(wanted)
        if jnp.shape(leaf) != shape:
            raise ValueError(f"stored leaf of shape {jnp.shape(leaf)} must be of shape {shape}")
        return (
            jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(wanted)) if _is_key(wanted) else jnp.asarray(leaf)
        )

    return jax.tree.map(one, stored, like)


def with_counts(state: Any, like: _T, releases: int | Sequence[int]) -> _T:
    """An optimizer's state from before the counter was added, in the form of one that has counted `releases`.

    Args:
      state: the state of the optimizer without `count_releases`, `track_privacy` and `budget_guard`, as its update
        returned it or as it was restored in the form of its `init`.
      like: the initial state, `init(params)`, of the optimizer with them.
      releases: how many noise releases led to `state`, in each phase: whole numbers >= 0. They cannot be found from
        `state`; if they are not known, what was spent is not known.

    Returns:
      A state of the form of `like`, which takes everything but the counts from `state`.

    Raises:
      ValueError: if `like` has no counter, `releases` does not fit it, or the two states differ by more than the
        counter.

    >>> import jax.numpy as jnp, optax
    >>> from jaxacct import training
    >>> noise, params = optax.add_noise(1.0, 0.0, key=0), jnp.zeros(3)
    >>> old = optax.chain(noise, optax.adam(1e-3)).init(params)
    >>> new = optax.chain(training.count_releases(noise), optax.adam(1e-3))
    >>> training.release_counts(training.with_counts(old, like=new.init(params), releases=1200))
    Array([1200], dtype=int32)
    """
    num_phases = release_counts(like).shape[0]
    counts = tuple(releases) if isinstance(releases, Sequence) else (releases,)
    counts = tuple(checked_whole("releases", count, 0, SATURATED - 1) for count in counts)
    if len(counts) != num_phases:
        raise ValueError(f"releases={releases!r} must be a whole number >= 0 for each of {num_phases} phases")
    wanted, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [[getattr(key, "name", None) for key in path] for path, _ in wanted]
    fields = [next((name for name in HOOK_FIELDS if name in path), None) for path in names]
    old = jax.tree.leaves(state)
    kept = [leaf for (_, leaf), field in zip(wanted, fields, strict=True) if field is None]
    differ = [
        i
        for i, (ours, theirs) in enumerate(zip(old, kept, strict=False))
        if jnp.shape(ours) != jnp.shape(theirs) or jnp.result_type(ours) != jnp.result_type(theirs)
    ]
    if len(old) != len(kept) or differ:
        where = f"{len(old)} leaves instead of {len(kept)}" if len(old) != len(kept) else f"leaf {differ[0]} differs"
        raise ValueError(
            f"state must be that of the same optimizer without the counter: {where}. A state with one needs no counts"
        )
    rest = iter(old)
    made = {"release_counts": np.array(counts, np.int32), "budget_spent": np.array(False)}
    leaves = [
        next(rest) if field is None else jnp.asarray(made.get(field, leaf))
        for (_, leaf), field in zip(wanted, fields, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)
