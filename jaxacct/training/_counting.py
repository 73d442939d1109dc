"""Counting noise releases in an optimizer's state."""

import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from jaxacct._precision import is_traced
from jaxacct._validate import checked_whole

SATURATED = 2**31 - 1  # a counter at this value has lost count
_FIELD = "release_counts"
_HELD = "batches_per_release"
HOOK_FIELDS = (_FIELD, _HELD, "budget_spent")  # all that the hook and the guard add to a state
_OF_ACCUMULATION = {"mini_step", "gradient_step"}  # fields of optax.MultiStepsState, beside that of the state inside
_INSIDE = "inner_opt_state"  # that field
_MOST_PHASES = 127  # an index fits every integer type that a traced phase may have


class ReleaseCountState(NamedTuple):
    """The state of the counter: how many noise releases each phase has made, and nothing else.

    >>> from jaxacct import training
    >>> training.track_privacy(num_phases=2).init({})
    ReleaseCountState(release_counts=Array([0, 0], dtype=int32))
    """

    release_counts: jax.Array  # int32 [num_phases]; 2^31 - 1 when a count was lost, and stays there


class HeldReleaseCountState(NamedTuple):
    """`ReleaseCountState` with the stated number of sampled batches in each release.

    >>> from jaxacct import training
    >>> training.track_privacy(batches_per_release=4).init({})
    HeldReleaseCountState(release_counts=Array([0], dtype=int32), batches_per_release=Array(4, dtype=int32))
    """

    release_counts: jax.Array  # int32 [num_phases], as there
    batches_per_release: jax.Array  # int32 []


_State = ReleaseCountState | HeldReleaseCountState


def check_transform(name: str, transform: Any) -> None:
    """Raises ValueError unless `transform` has the two functions of an optax transform."""
    if not (callable(getattr(transform, "init", None)) and callable(getattr(transform, "update", None))):
        wanted = "an optax transform, with the functions init and update"
        raise ValueError(f"{name}={transform!r} must be {wanted}")


def phase_mask(phase: Any, num_phases: int) -> jax.Array:
    """bool [num_phases], true at `phase`; true nowhere if a traced phase is out of range.

    Raises:
      ValueError: if there are several phases and none is given, or `phase` is not an integer, or is concrete and out of
        range.
    """
    if phase is None:
        if num_phases > 1:
            raise ValueError(f"phase=None: name one of the {num_phases} phases, as in update(..., phase=0)")
        return jnp.ones((1,), jnp.bool_)
    if is_traced(phase):
        if jnp.shape(phase) or not jnp.issubdtype(phase.dtype, jnp.integer):
            raise ValueError(f"phase={phase!r} must be one integer")
        return jnp.arange(num_phases, dtype=phase.dtype) == phase
    try:
        index = operator.index(phase)
    except TypeError as error:
        raise ValueError(f"phase={phase!r} must be one integer") from error
    if not 0 <= index < num_phases:
        raise ValueError(f"phase={index} must be in [0, {num_phases - 1}]")
    return jnp.arange(num_phases, dtype=jnp.int32) == jnp.int32(index)


def track_privacy(
    num_phases: int = 1, *, batches_per_release: int | None = None
) -> optax.GradientTransformationExtraArgs:
    """A pass-through transform that counts its own updates; in an `optax.chain`, put it right after the noise.

    Prefer `count_releases`, which cannot be in the wrong place. This one counts the updates that pass through *it*,
    which is right only if every noise release passes exactly once. It counts too few inside `optax.MultiSteps`, which
    `privacy_spent` refuses, or inside `optax.apply_if_finite`, if the noise is outside: releases that are accumulated,
    or skipped, were made all the same. It also counts too few in an `optax.masked` or `optax.partition` branch that is
    not always run.

    Args:
      num_phases: the number of phases, each with its own noise or sampling, that are counted separately, in [1, 127].
      batches_per_release: how many sampled batches are added up before noise is added, as for `count_releases`.

    Returns:
      A transform with the state `ReleaseCountState`, or `HeldReleaseCountState` if `batches_per_release` is given.
      With several phases its update takes ``phase=``: an integer in [0, num_phases), traced or not. If a traced phase
      is out of range, all counts are lost (2^31 - 1), and epsilon is inf. Counts saturate at 2^31 - 1, where epsilon is
      inf as well.

    Raises:
      ValueError: if `num_phases` is out of range; at update, if ``phase`` is missing or out of range.

    >>> import jax.numpy as jnp, optax
    >>> from jaxacct import training
    >>> optimizer = optax.chain(optax.add_noise(1.0, 0.0, key=0), training.track_privacy(), optax.sgd(0.1))
    >>> params = jnp.zeros(3)
    >>> state = optimizer.init(params)
    >>> for _ in range(4):
    ...     updates, state = optimizer.update(jnp.ones(3), state, params)
    >>> training.release_counts(state)
    Array([4], dtype=int32)
    """
    num_phases = checked_whole("num_phases", num_phases, 1, _MOST_PHASES)
    if batches_per_release is not None:
        batches_per_release = checked_whole(_HELD, batches_per_release, 1, SATURATED - 1)

    def init(params: optax.Params) -> _State:
        del params
        counts = jnp.zeros((num_phases,), jnp.int32)
        if batches_per_release is None:
            return ReleaseCountState(counts)
        return HeldReleaseCountState(counts, jnp.array(batches_per_release, jnp.int32))

    def update(
        updates: optax.Updates,
        state: _State,
        params: optax.Params | None = None,
        *,
        phase: Any = None,
        **extra_args: Any,
    ) -> tuple[optax.Updates, _State]:
        del params, extra_args
        here = phase_mask(phase, num_phases)
        counts = state.release_counts
        counted = counts + (here & (counts < SATURATED)).astype(jnp.int32)
        if is_traced(phase):  # out of range: no count is right any more
            counted = jnp.where(jnp.any(here), counted, jnp.int32(SATURATED))
        return updates, state._replace(release_counts=counted)

    return optax.GradientTransformationExtraArgs(init, update)


def count_releases(
    noise_transform: optax.GradientTransformation, num_phases: int = 1, *, batches_per_release: int | None = None
) -> optax.GradientTransformationExtraArgs:
    """The transform `noise_transform`, with a count of its releases beside its state.

    The count stays with the noise, so that it is right wherever the two are put: in `optax.chain`,
    `optax.inject_hyperparams`, and so on. What a release costs is another question: mechanisms describe releases of one
    sampled batch. In `optax.chain(count_releases(noise), optax.MultiSteps(...))` each batch gets noise and is counted.
    Inside `optax.MultiSteps(count_releases(noise), ...)` one release may hold several batches, and may hold a record
    more than once: give the number of batches as `batches_per_release`, and `privacy_spent` charges for that. If it is
    not given, `privacy_spent` raises an error, and so does a `budget_guard` around it. Batches that are added up before
    the noise in another way, by `optax.apply_every` or by hand, cannot be detected: give `batches_per_release`.

    Put `optax.apply_if_finite` *after* the noise, ``chain(count_releases(noise), apply_if_finite(optimizer, 5))``,
    where it examines what has already been released. Around the noise the count is right as well, but a skipped step
    reveals that a private gradient was not finite, and no accounting covers that.

    The updates are not changed; a compiled step gains a comparison and an addition of `num_phases` integers.

    Args:
      noise_transform: what adds the noise: `optax.contrib.differentially_private_aggregate`, `optax.add_noise`, a
        privatizer of jax_privacy, or a whole optimizer with one release in each update, such as `optax.contrib.dpsgd`.
        For correlated noise (matrix factorisation) the mechanism is a `BallsInBins`, or what `correlated.BandedNoise`
        gives for the way in which batches are drawn.
      num_phases: as for `track_privacy`.
      batches_per_release: whole number >= 1, how many sampled batches are added up before noise is added; 1 if pieces
        of one sampled batch are added up. None if each release covers the batch that one update is given.

    Returns:
      A transform whose state is the pair (state of `noise_transform`, state of `track_privacy`). With several phases
      its update takes ``phase=``, as for `track_privacy`, and passes it on with all other extra arguments.

    Raises:
      ValueError: as for `track_privacy`; if `noise_transform` is not a transform.

    >>> import jax, jax.numpy as jnp, optax
    >>> from jaxacct import training
    >>> noise = optax.contrib.differentially_private_aggregate(l2_norm_clip=1.0, noise_multiplier=2.0, key=0)
    >>> optimizer = optax.chain(training.count_releases(noise, num_phases=2), optax.adam(1e-3))
    >>> params = jnp.zeros(3)
    >>> state = optimizer.init(params)
    >>> step = jax.jit(lambda state, phase: optimizer.update(jnp.ones((8, 3)), state, params, phase=phase)[1])
    >>> for phase in (0, 0, 0, 1):
    ...     state = step(state, phase)
    >>> training.release_counts(state)
    Array([3, 1], dtype=int32)
    """
    check_transform("noise_transform", noise_transform)
    return optax.chain(noise_transform, track_privacy(num_phases, batches_per_release=batches_per_release))


def release_counts(opt_state: Any) -> jax.Array:
    """The counts in an optimizer's state, wherever they are in it: int32 [num_phases].

    The function looks for the one entry named `release_counts` in any tree: states of optax wrappers, a whole
    `TrainState`, an `nnx.Optimizer`, a checkpoint restored as nested dicts. It works inside jit too. A count says how
    many times noise was added, not how many sampled batches were added up before that, inside `optax.MultiSteps`.

    Args:
      opt_state: an optimizer's state, or any tree around it.

    Returns:
      The array itself, int32 [num_phases]; 2^31 - 1 where a count was lost.

    Raises:
      ValueError: if there is no such entry, or several; if it is not a one-dimensional array of integers.

    >>> import jax.numpy as jnp, optax
    >>> from jaxacct import training
    >>> noise = training.count_releases(optax.add_noise(1.0, 0.0, key=0))
    >>> optimizer = optax.chain(noise, optax.MultiSteps(optax.adam(1e-3), every_k_schedule=4).gradient_transformation())
    >>> training.release_counts(optimizer.init(jnp.zeros(3)))
    Array([0], dtype=int32)
    """
    return _found(opt_state)[1]


def counts_of_batches(opt_state: Any) -> jax.Array:
    """`release_counts`, if it is known how many sampled batches each release holds: int32 [num_phases].

    Raises:
      ValueError: as `release_counts`; if the count is inside `optax.MultiSteps` and the number of batches was not
        given; if the count is outside and the noise, known by its random key, is inside. `MultiSteps` is recognised by
        the fields of its state, and so in restored dicts too.
    """
    path, counts = _found(opt_state)
    leaves = jax.tree_util.tree_leaves_with_path(opt_state)
    paths = [other for other, _ in leaves]
    if any(_HELD in map(_name, other) for other in paths):
        return counts
    for inside in _accumulated(paths):
        depth, is_counted_inside = len(inside) - 1, path[: len(inside)] == inside
        drawn = [other for other, leaf in leaves if other[: len(inside)] == inside and _is_random_key(leaf)]
        if drawn and not is_counted_inside:
            raise ValueError(
                f"the count at {jax.tree_util.keystr(path)} stands outside optax.MultiSteps, and noise is added inside "
                f"it, with the key at {jax.tree_util.keystr(drawn[0])}: updates are counted, not releases, each of "
                "which holds several sampled batches. Count inside, MultiSteps(count_releases(noise, "
                "batches_per_release=k), k), or add noise to each batch, chain(count_releases(noise), "
                "MultiSteps(optimizer, k))"
            )
        if is_counted_inside:
            raise ValueError(
                f"the count at {jax.tree_util.keystr(path)} stands inside optax.MultiSteps: it is not known how many "
                "sampled batches a release holds, and a record may be in several of them. Say how many, "
                "count_releases(noise, batches_per_release=k), or 1 if all k mini-steps are pieces of one sampled "
                "batch; or add noise to each batch, chain(count_releases(noise), MultiSteps(optimizer, k)). For an "
                f"existing state pass the part at {jax.tree_util.keystr(path[: depth + 1])}, with "
                "training.accumulated(run, batches=k). The guard then goes inside, MultiSteps(budget_guard(...), k)"
            )
    return counts


def _is_random_key(leaf: Any) -> bool:
    """Whether it is what noise is drawn with: a key by its type, or the words of one."""
    dtype = getattr(leaf, "dtype", np.dtype(object))
    return jnp.issubdtype(dtype, jax.dtypes.prng_key) or (dtype == np.uint32 and np.ndim(leaf) == 1)


def _accumulated(paths: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The paths of all states inside `optax.MultiSteps`, the outermost first."""
    beside: dict[tuple[Any, ...], dict[Any, Any]] = {}
    for path in paths:
        for depth, key in enumerate(path):
            beside.setdefault(path[:depth], {})[_name(key)] = key
    found = [(*above, keys[_INSIDE]) for above, keys in beside.items() if keys.keys() >= {_INSIDE, *_OF_ACCUMULATION}]
    return sorted(found, key=len)


def batches_in_release(opt_state: Any) -> Any:
    """The number of sampled batches in each release, which may be traced, if `opt_state` records it; else 1."""
    found = field_of(opt_state, _HELD)
    return 1 if found is None else found


def field_of(opt_state: Any, name: str) -> Any:
    """The first leaf of a state in a field of this name; None if there is none."""
    leaves = jax.tree_util.tree_leaves_with_path(opt_state)
    return next((leaf for path, leaf in leaves if name in map(_name, path)), None)


def _name(key: Any) -> Any:
    return getattr(key, "name", getattr(key, "key", None))


def _found(opt_state: Any) -> tuple[tuple[Any, ...], jax.Array]:
    """The path and the array of the only count; raises ValueError as `release_counts`."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(opt_state):
        if _FIELD in map(_name, path):  # what follows the name are wrappers of the array itself
            found[path] = leaf
    if not found:
        raise ValueError(
            f"no {_FIELD} in this state: put count_releases around the noise transform, or track_privacy after it, "
            "and pass the state that its update returned. A state saved before that is migrated by "
            "training.with_counts(state, like=optimizer.init(params), releases=...)"
        )
    if len(found) > 1:
        places = ", ".join(map(jax.tree_util.keystr, found))
        raise ValueError(
            f"{len(found)} entries named {_FIELD}, at {places}: pass the part of the state that holds the "
            "one you mean. If several noise transforms release the same data, account for each of them"
        )
    ((path, counts),) = found.items()
    path_of_it = jax.tree_util.keystr(path)
    shape, dtype = jnp.shape(counts), getattr(counts, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"{path_of_it} of dtype {dtype} must be integers: was the state cast to another type?")
    if len(shape) != 1 or not shape[0]:
        raise ValueError(
            f"{path_of_it} of shape {shape} must be [num_phases]: take one replica of a replicated state; members of a "
            "vmapped ensemble are separate runs, each to be accounted for"
        )
    return path, counts
