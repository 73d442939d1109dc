"""Private gradients that follow a description: clipped records are summed, noise is added, and releases are counted."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from jaxacct._precision._varying import varied, varying
from jaxacct._validate import checked_whole
from jaxacct.training._adaptive import AdaptiveClipping
from jaxacct.training._clipping import ClippedSum, clipped_sum, working_type
from jaxacct.training._noise import Phase
from jaxacct.training._release import MeanRelease, PrivateAggregateState

_MOST_ROWS = 2**31 - 1  # of a microbatch: an index is an int32


def private_aggregate(
    run: Phase | Sequence[Phase],
    *,
    l2_norm_clip: float | AdaptiveClipping,
    key: Any,
    batch_size: float | Sequence[float] | None = None,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """Turns per-record gradients into the release that `run` describes: clipped, summed, noised, divided and counted.

    The noise that is added and the noise that is accounted for cannot differ: only `run` has the noise multiplier. (How
    many releases an `Epoch` has is taken as it says.) For the sum S of records clipped to l2 norm C, and expected batch
    size b, the transform gives

        (S + N(0, (noise_multiplier C)^2 I)) / b,

    with the multiplier of each release if it follows a schedule. The transform counts its releases as `count_releases`
    does, for `privacy_spent`, `budget_guard` and `report`. Its state says what noise was released: `privacy_spent`
    raises an error for a mechanism with different noise, and a state that is restored into a transform with different
    noise loses its count. Put the transform first in ``optax.chain``.

    - A record whose gradient is not finite, or has an entry beyond 2^80 times C, counts as zero; other records are
      unaffected.
    - Norms are kept below C by a margin that covers all float32 rounding (see `jaxacct.training._clipping`), and
      normals reach 9.4 standard deviations (see `jaxacct.training._normals`). The rounding of the sum and of the noise
      to float32 is not accounted for.
    - Under ``jit`` with sharded records, the noise is added once, to the sum of all records. Inside ``jax.shard_map``,
      give `axis_name`: sums are added up over that axis, and every device adds the same noise to the same sum.

    Args:
      run: a mechanism, an `Epoch`, or the `Batches` drawn for it; with several phases, a list of them.
      l2_norm_clip: float in [2^-64, 2^64], or `AdaptiveClipping`.
      key: as for `batches`: a key of `jax.random`, a whole number >= 0, or bytes. Anyone who knows it knows the noise,
        so use ``secrets.token_bytes(32)`` for a private run, and a new one for each run.
      batch_size: > 0, the average number of records in a step, by which sums are divided. It is public, and never the
        number of records that a batch happens to hold. None takes it from the `Batches`, or from a run made by
        `from_epochs`; 1 gives the sum itself. With several phases, one number for all of them or one for each.
      axis_name: the name of the mapped axis over which a batch is spread, or a tuple of names.

    Returns:
      A transform with the state `PrivateAggregateState`. Its update takes gradients with a leading axis of records, the
      params, ``mask=`` (bool, true for rows that are records, false for padding), and, with several phases, ``phase=``,
      as for `track_privacy`.

    Raises:
      ValueError: if `run` does not add Gaussian noise to clipped sums, or an argument is out of range; at update, if
        the gradients are not per-record, or the mask is missing.

    >>> import jax, jax.numpy as jnp, optax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> run = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=100)
    >>> data = training.batches(run, num_records=1000, key=0)
    >>> optimizer = optax.chain(training.private_aggregate(data, l2_norm_clip=1.0, key=1), optax.adam(1e-3))
    >>> params = jnp.zeros(3)
    >>> state = optimizer.init(params)
    >>> for indices, mask in data[:5]:
    ...     gradients = jnp.ones((len(indices), 3))                        # a row for each record
    ...     updates, state = optimizer.update(gradients, state, params, mask=mask)
    >>> round(training.privacy_spent(state, data, target_delta=1e-6), 3)
    0.516
    """
    release = MeanRelease(run, l2_norm_clip, key, batch_size, axis_name)

    def update(
        updates: optax.Updates,
        state: PrivateAggregateState,
        params: optax.Params | None = None,
        *,
        mask: Any = None,
        phase: Any = None,
        **extra_args: Any,
    ) -> tuple[optax.Updates, PrivateAggregateState]:
        del extra_args
        wanted = _parameters(params, "private_aggregate")
        leaves, structure = jax.tree.flatten(updates)
        rows = _checked_mask(mask, _rows(leaves, "gradients"))
        shapes = [jnp.shape(leaf)[1:] for leaf in leaves]
        if shapes != [jnp.shape(leaf) for leaf in wanted]:
            raise ValueError(
                f"gradients of shapes {[jnp.shape(leaf) for leaf in leaves]} must have one row for each record, so "
                f"shapes {[(len(rows), *jnp.shape(leaf)) for leaf in wanted]}, as jax.vmap(jax.grad(loss), (None, 0)) "
                "returns them"
            )
        _check_axes(leaves, rows, axis_name)
        found = clipped_sum(leaves, rows, release.clip(state))
        means, state = release.released(found, state, phase, leaves)
        return jax.tree.unflatten(structure, means), state

    return optax.GradientTransformationExtraArgs(release.init, update)


def private_gradients(
    loss_fn: Callable[..., Any],
    run: Phase | Sequence[Phase],
    *,
    l2_norm_clip: float | AdaptiveClipping | None = None,
    key: Any,
    batch_size: float | Sequence[float] | None = None,
    microbatch_size: int | None = None,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """A transform like `private_aggregate` that computes the gradients of `loss_fn` itself, a microbatch at a time.

    Its update takes records instead of gradients: ``update((features, labels), state, params, mask=mask)``. Only the
    gradients of `microbatch_size` records are held at once, however large the batch, and the noise is added once, to
    the sum of all microbatches: one release of one sampled batch. Up to rounding, the result does not depend on the
    microbatch size.

    Args:
      loss_fn: ``loss_fn(params, *record)``, the loss of one record, a float; no mask is needed. Or what
        ``jax_privacy.clipped_grad`` returns, which clips by itself: the noise is scaled to its sensitivity, batches are
        cut by its own ``microbatch_size``, and it has to handle gradients that are not finite.
      run: as for `private_aggregate`.
      l2_norm_clip: as for `private_aggregate`; None if `loss_fn` clips.
      key: as for `private_aggregate`.
      batch_size: as for `private_aggregate`.
      microbatch_size: whole number >= 1; None for all rows at once, or for the rows of `Batches.microbatches`.
      axis_name: as for `private_aggregate`.

    Returns:
      A transform with the state `PrivateAggregateState`. Its update takes the arguments of the records (a tuple of
      trees with a leading axis of records, or one tree), the params, ``mask=`` and ``phase=``.

    Raises:
      ValueError: as `private_aggregate`.

    >>> import jax, jax.numpy as jnp, optax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> data = training.batches(ja.PoissonSampled(ja.Gaussian(1.0), 0.1, num_steps=100), num_records=1000, key=0)
    >>> features = jnp.ones((1000, 3))
    >>> private = training.private_gradients(
    ...     lambda params, feature: (feature @ params - 1.0) ** 2, data, l2_norm_clip=1.0, key=1, microbatch_size=16)
    >>> optimizer = optax.chain(private, optax.sgd(0.1))
    >>> params = jnp.zeros(3)
    >>> state = optimizer.init(params)
    >>> indices, mask = data[0]
    >>> updates, state = jax.jit(optimizer.update)((features[indices],), state, params, mask=mask)
    >>> updates.shape, training.release_counts(state)
    ((3,), Array([1], dtype=int32))
    """
    if microbatch_size is not None:
        microbatch_size = checked_whole("microbatch_size", microbatch_size, 1, _MOST_ROWS)
    clips = callable(getattr(loss_fn, "sensitivity", None))
    if clips and (l2_norm_clip is not None or microbatch_size is not None):
        held = f"l2_norm_clip={l2_norm_clip!r} and microbatch_size={microbatch_size!r}"
        raise ValueError(f"{held} must be None: loss_fn={loss_fn!r} clips by itself")
    if not clips and l2_norm_clip is None:
        raise ValueError("l2_norm_clip=None must be a number in [2^-64, 2^64], or AdaptiveClipping")
    norm: Any = loss_fn.sensitivity() if clips else l2_norm_clip  # type: ignore[attr-defined]
    release = MeanRelease(run, norm, key, batch_size, axis_name)

    def update(
        updates: Any,
        state: PrivateAggregateState,
        params: optax.Params | None = None,
        *,
        mask: Any = None,
        phase: Any = None,
        **extra_args: Any,
    ) -> tuple[optax.Updates, PrivateAggregateState]:
        del extra_args
        wanted, structure = _parameters(params, "private_gradients"), jax.tree.structure(params)
        records = updates if isinstance(updates, tuple) else (updates,)
        size = microbatch_size
        if mask is not None and np.ndim(mask) == 2:  # cut already
            release.check_one_batch(np.shape(mask))
            size = size or np.shape(mask)[1]
            records, mask = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (records, jnp.asarray(mask)))
        rows = _checked_mask(mask, _rows(jax.tree.leaves(records), "records"))
        if clips:
            found = _clipped_elsewhere(loss_fn(params, *records, is_padding_example=~rows), params)
        else:
            own = varied(params, varying(rows))
            sums = functools.partial(_sum_of_records, loss_fn, own, release.clip(state))
            found = _by_microbatches(sums, records, rows, size or len(rows))
        _check_axes(found.total, rows, axis_name)
        means, state = release.released(found, state, phase, wanted)
        return jax.tree.unflatten(structure, means), state

    return optax.GradientTransformationExtraArgs(release.init, update)


def _sum_of_records(loss_fn: Any, params: Any, clip: Any, records: tuple[Any, ...], mask: jax.Array) -> ClippedSum:
    gradients = jax.vmap(jax.grad(loss_fn), in_axes=(None,) + (0,) * len(records))(params, *records)
    return clipped_sum(jax.tree.leaves(gradients), mask, clip)


def _by_microbatches(sums: Callable[..., ClippedSum], records: Any, mask: jax.Array, size: int) -> ClippedSum:
    """The sum over the batch, computed by `sums` from `size` rows at a time."""
    number = math.ceil(len(mask) / size)
    if number == 1:
        return sums(records, mask)

    def cut(leaf: jax.Array) -> jax.Array:
        missing = number * size - len(mask)
        padding = [(0, missing)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, padding).reshape(number, size, *leaf.shape[1:])

    pieces = jax.tree.map(cut, (records, mask))
    begun = jax.tree.map(lambda kind: jnp.zeros(kind.shape, kind.dtype), jax.eval_shape(sums, *_first(pieces)))

    def add(total: ClippedSum, piece: Any) -> tuple[ClippedSum, None]:
        return jax.tree.map(jnp.add, total, sums(*piece)), None

    return jax.lax.scan(add, varied(begun, varying(mask)), pieces)[0]


def _first(pieces: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], pieces)


def _clipped_elsewhere(total: Any, params: Any) -> ClippedSum:
    """What another library's clipping returned; there is no count of records within the norm."""
    leaves, structure = jax.tree.flatten(total)
    shapes = [jnp.shape(leaf) for leaf in leaves]
    wanted: Any = jax.tree.structure(params)
    if structure != wanted or shapes != [jnp.shape(leaf) for leaf in jax.tree.leaves(params)]:
        raise ValueError(f"loss_fn returned shapes {shapes}: must be one clipped sum like the params, and nothing else")
    kind = working_type(leaves)
    return ClippedSum([leaf.astype(kind) for leaf in leaves], jnp.zeros((), kind))


def _check_axes(leaves: Sequence[Any], mask: jax.Array, axis_name: Any) -> None:
    """Raises ValueError if records of different devices would be added up before they are clipped, or not at all.

    It does so too if every device has the same records, which would be added up once for each device.
    """
    names = frozenset(axis_name if isinstance(axis_name, tuple | list) else (axis_name,)) - {None}
    over = varying(mask)
    is_tracked = any(varying(jax.lax.axis_index(name)) for name in names)
    if any(varying(leaf) != over for leaf in leaves) or ((over or is_tracked) and over != names):
        raise ValueError(
            f"axis_name={axis_name!r} must name the mesh axes over which records are spread, {sorted(map(str, over))}, "
            "and gradients be those of each device's own records: inside shard_map take them at parameters that vary, "
            "jax.lax.pcast(params, axis_name, to='varying')"
        )


def _checked_mask(mask: Any, rows: int) -> jax.Array:
    if mask is None:
        raise ValueError(
            "mask=None: say which rows are records, update(.., mask=mask) with the mask of the batch, or all True if "
            "no row is padding: padding repeats a record, and would count it several times"
        )
    held = jnp.asarray(mask)
    if held.shape != (rows,) or held.dtype != jnp.bool_:
        raise ValueError(
            f"mask of shape {held.shape} and dtype {held.dtype} must be bool [{rows}], one for each record"
        )
    return held


def _rows(leaves: Sequence[Any], name: str) -> int:
    """The length of the leading axis that all leaves share."""
    lengths = {jnp.shape(leaf)[:1] for leaf in leaves}
    if len(lengths) != 1 or not all(lengths):
        shapes = [jnp.shape(leaf) for leaf in leaves]
        raise ValueError(f"{name} of shapes {shapes} must share a leading axis, one row for each record")
    return int(lengths.pop()[0])


def _parameters(params: Any, name: str) -> list[Any]:
    if params is None:
        raise ValueError(f"params=None: {name} needs them, as in update(.., state, params)")
    leaves: list[Any] = jax.tree.leaves(params)
    if not leaves or not all(jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in leaves):
        raise ValueError(f"params of types {[str(jnp.result_type(leaf)) for leaf in leaves]} must be floating point")
    return leaves
