"""Stopping at the budget, inside jit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]

from jaxacct._validate import checked_whole
from jaxacct.training._counting import SATURATED, check_transform, counts_of_batches, phase_mask


class BudgetGuardState(NamedTuple):
    """The state of `budget_guard`: `inner_state` of the guarded transform, and `budget_spent`, true if nothing is left.

    >>> import jax.numpy as jnp, optax
    >>> from jaxacct import training
    >>> state = training.budget_guard(training.count_releases(optax.add_noise(1.0, 0.0, key=0)), 10).init(jnp.zeros(3))
    >>> bool(state.budget_spent)
    False
    """

    inner_state: Any
    budget_spent: jax.Array  # bool []


def budget_guard(
    inner: optax.GradientTransformation, max_releases: int | Sequence[int]
) -> optax.GradientTransformationExtraArgs:
    """`inner` until it has made `max_releases` noise releases; then updates are zero and its state no longer changes.

    The guard compares the integers that `count_releases` keeps in the state of `inner`, and costs one selection for
    each entry of the updates and of the state. Put it around the whole optimizer: around the noise transform alone the
    guarantee is the same, but momentum and weight decay after it would go on moving the parameters.

    If batches are added up before the noise, as inside `optax.MultiSteps`, `max_releases` has to come from
    ``steps_affordable(accumulated(run, batches=k), ..)``, and the counter has to be told how many: see
    `count_releases`.

    Args:
      inner: a transform with `count_releases` (or `track_privacy`) somewhere inside, e.g. a whole `optax.chain`.
      max_releases: whole number in [0, 2^31 - 2], from `steps_affordable`; one for each phase if there are several.

    Returns:
      A transform with the state `BudgetGuardState`. Its `budget_spent` is set by the last allowed release of a phase,
      and by every later update of that phase: a training loop can stop there.

    Raises:
      ValueError: if `max_releases` is out of range, or `inner` is not a transform; at init, if `inner` has no counter,
        or a counter with a different number of phases, or one inside `optax.MultiSteps` that was not told how many
        sampled batches a release holds.

    >>> import jax, jax.numpy as jnp, optax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> budget = training.steps_affordable(ja.Gaussian(noise_multiplier=10.0), target_epsilon=1.0, target_delta=1e-6)
    >>> noise = training.count_releases(optax.add_noise(10.0, 0.0, key=0))
    >>> optimizer = training.budget_guard(optax.chain(noise, optax.sgd(0.1, momentum=0.9)), budget)
    >>> params = jnp.zeros(3)
    >>> state, step = optimizer.init(params), jax.jit(optimizer.update)
    >>> while not state.budget_spent:
    ...     updates, state = step(jnp.ones(3), state)
    >>> budget, training.release_counts(state)
    (5, Array([5], dtype=int32))
    >>> step(jnp.ones(3), state)[0]
    Array([0., 0., 0.], dtype=float32)
    """
    check_transform("inner", inner)
    limits = tuple(max_releases) if isinstance(max_releases, Sequence) else (max_releases,)
    limits = tuple(checked_whole("max_releases", limit, 0, SATURATED - 1) for limit in limits)
    guarded = optax.with_extra_args_support(inner)

    def init(params: optax.Params) -> BudgetGuardState:
        inner_state = guarded.init(params)
        num_phases = counts_of_batches(inner_state).shape[0]
        if num_phases != len(limits):
            raise ValueError(f"max_releases={max_releases!r} must be one number for each of {num_phases} phases")
        return BudgetGuardState(inner_state, jnp.array(not any(limits), jnp.bool_))

    def update(
        updates: optax.Updates,
        state: BudgetGuardState,
        params: optax.Params | None = None,
        *,
        phase: Any = None,
        **extra_args: Any,
    ) -> tuple[optax.Updates, BudgetGuardState]:
        here = phase_mask(phase, len(limits))
        within = jnp.array(limits, jnp.int32)
        allowed = jnp.any(here & (counts_of_batches(state.inner_state) < within))
        if phase is not None:
            extra_args["phase"] = phase
        # A selection, not lax.cond: its branches would have to agree in sharding and in which mesh axes they vary over.
        new_updates, new_state = guarded.update(updates, state.inner_state, params, **extra_args)
        new_updates = jax.tree.map(lambda new: jnp.where(allowed, new, jnp.zeros_like(new)), new_updates)
        kept = jax.tree.map(lambda new, old: jnp.where(allowed, new, old), new_state, state.inner_state)
        left = jnp.any(here & (counts_of_batches(kept) < within))
        return new_updates, BudgetGuardState(kept, ~left)

    return optax.GradientTransformationExtraArgs(init, update)
