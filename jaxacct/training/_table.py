"""A table of epsilon by the number of releases, which compiled programs can look up."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import check_delta, checked_number, checked_whole
from jaxacct.accounting import epsilon
from jaxacct.mechanisms._base import Parts
from jaxacct.training._accumulation import MOST_BATCHES, ways_of
from jaxacct.training._batches import Batches
from jaxacct.training._counting import SATURATED, batches_in_release, counts_of_batches, field_of
from jaxacct.training._noise import NOISE_FIELD, Phase, injected_noise, phases_of, rounded_up, schedule_rows
from jaxacct.training._spending import described, overflow_of, spent_in_phases

_EVERY = 64  # every count up to this has an entry
_RATIO = 1.0 + 2.0**-5  # of neighbouring entries beyond that
_LARGEST = 3e38  # nearly the largest float32; an epsilon from here on becomes inf


@dataclasses.dataclass(frozen=True, eq=False)
class SpentTable:
    """Epsilon after any number of releases, made by `spent_by_count`: call it on a state, also inside `jit` and `scan`.

    It is a pytree of arrays, so that it can be passed to a compiled step, or closed over.

    Attributes:
      counts: int32 [G], increasing from 0: the numbers of releases that have an entry.
      epsilons: float32 [G], upper bounds, increasing.
      released_noise: float32 [pieces, 3], the noise that a state must have released, if it records its noise.
      batches_per_release: int32 [], as for `spent_by_count`.

    >>> import jax, jax.numpy as jnp
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> table = training.spent_by_count(ja.Gaussian(4.0), target_delta=1e-6, most_releases=2)
    >>> table.counts
    array([0, 1, 2], dtype=int32)
    >>> print(f"{jax.jit(table)(training.ReleaseCountState(jnp.array([2], jnp.int32))):.4f}")
    1.5436
    """

    counts: Any
    epsilons: Any
    released_noise: Any
    batches_per_release: Any

    def __call__(self, opt_state: Any) -> jax.Array:
        """float32 []: an upper bound on epsilon of the releases counted in `opt_state`, which may be traced.

        It is the entry of the count, or of the next larger count that has an entry. It is inf if more releases were
        counted than the table covers, if a count was lost, or if the state's noise or batches per release differ from
        the table's.

        Raises:
          ValueError: as `privacy_spent`, for a state without a count, with several, with several phases, or with noise
            that follows a schedule of optax.
        """
        counts = counts_of_batches(opt_state)
        if counts.shape != (1,):
            raise ValueError(f"release_counts of shape {counts.shape} must be those of one phase")
        entry = jnp.sum(jnp.asarray(self.counts) < counts[0], dtype=jnp.int32)
        last = len(self.counts) - 1
        found = jnp.asarray(self.epsilons)[jnp.minimum(entry, last)]
        is_known = (entry <= last) & (counts[0] >= 0) & (self.batches_per_release == batches_in_release(opt_state))
        noise = field_of(opt_state, NOISE_FIELD)
        if noise is not None:
            same = noise.shape == self.released_noise.shape
            is_known &= jnp.all(noise == self.released_noise) if same else False
        for injected in injected_noise(opt_state) if len(self.released_noise) else ():
            is_known &= jnp.any(jnp.asarray(self.released_noise)[:, 1] == injected)
        return jnp.where(is_known, found, jnp.float32(jnp.inf))


jax.tree_util.register_dataclass(
    SpentTable, ["counts", "epsilons", "released_noise", "batches_per_release"], meta_fields=[]
)


def _entries(most: int) -> NDArray[Any]:
    """int32 [G], from 0 to `most`: all of the first counts, then counts that grow by a thirty-second each."""
    if most <= _EVERY:
        return np.arange(most + 1, dtype=np.int32)
    num = math.ceil(math.log(most / _EVERY) / math.log(_RATIO))
    further = np.floor(np.geomspace(_EVERY, most, num + 1)[1:-1])
    return np.unique(np.concatenate([np.arange(_EVERY + 1), further, [most]])).astype(np.int32)


def _together(ways: Sequence[Sequence[Parts]], target_delta: float, precision: float | None) -> list[float]:
    """The least epsilon among the descriptions of each count; those of the same structure are computed in one batch."""
    groups: dict[Any, list[tuple[int, list[Any]]]] = {}
    for i, descriptions in enumerate(ways):
        for parts in descriptions:
            leaves, structure = jax.tree.flatten(described(parts))
            groups.setdefault(structure, []).append((i, leaves))
    found = [math.inf] * len(ways)
    for structure, members in groups.items():
        columns = [np.array(column) for column in zip(*(leaves for _, leaves in members), strict=True)]
        values = epsilon(jax.tree.unflatten(structure, columns), target_delta, precision=precision)
        for (i, _), value in zip(members, np.broadcast_to(np.asarray(values), len(members)), strict=True):
            found[i] = min(found[i], float(value))
    return found


def _noise_of(phase: Phase) -> NDArray[Any]:
    """The noise as a state of `private_aggregate` holds it; no rows for noise that `private_aggregate` does not add."""
    try:
        return schedule_rows((phase,))
    except ValueError:
        return np.zeros((0, 3), np.float32)


def spent_by_count(
    mechanism: Phase,
    target_delta: float,
    *,
    most_releases: int | None = None,
    batches_per_release: int = 1,
    precision: float | None = None,
) -> SpentTable:
    """A table of epsilon by the number of noise releases, to be read inside a compiled step.

    Each entry is what `privacy_spent` would return for that many releases: a certified upper bound, computed on the
    host before training. Up to 64 releases, each count has an entry; beyond that, a count takes the entry of the next
    larger count in the table, which is larger by at most a thirty-second (fewer releases reveal no more, so that it
    stays an upper bound). Inside the step, a look-up costs a comparison with some hundred numbers, and no accounting is
    compiled.

    Args:
      mechanism: what one phase runs, or the `Batches` drawn for it, as for `privacy_spent`.
      target_delta: float in (0, 1).
      most_releases: the number of releases up to which the table goes, in [1, 2^31 - 2]. None for all of the `Batches`.
      batches_per_release: how many sampled batches each release holds, the same as for `count_releases`.
      precision: as for `jaxacct.epsilon`: inf for the quick bounds only.

    Returns:
      A `SpentTable`.

    Raises:
      ValueError: if an argument is out of range, or `most_releases` is missing or more than there are batches.

    >>> import jax, jax.numpy as jnp, optax
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> sampling = ja.PoissonSampled(ja.Gaussian(noise_multiplier=1.0), sampling_prob=0.01, num_steps=1)
    >>> spent = training.spent_by_count(sampling, target_delta=1e-6, most_releases=100)
    >>> optimizer = training.count_releases(optax.add_noise(1.0, 0.0, key=0))
    >>> def step(state, gradient):
    ...     updates, state = optimizer.update(gradient, state)
    ...     return state, spent(state)
    >>> state, epsilons = jax.lax.scan(step, optimizer.init(jnp.zeros(3)), jnp.ones((20, 3)))
    >>> bool(epsilons[-1] >= training.privacy_spent(state, sampling, target_delta=1e-6))
    True
    """
    check_delta("target_delta", target_delta)
    target_delta = checked_number("target_delta", target_delta)
    phases = phases_of(mechanism)
    if len(phases) != 1:
        raise ValueError(f"mechanism={mechanism!r} must be one phase: for several, a table would need an axis for each")
    (phase,) = phases
    batches = checked_whole("batches_per_release", batches_per_release, 1, MOST_BATCHES)
    if most_releases is None:
        if not isinstance(phase, Batches):
            raise ValueError(f"most_releases=None of {type(phase).__name__}: must be the number of releases to come")
        most_releases = len(phase) // batches
    most = checked_whole("most_releases", most_releases, 1, SATURATED - 1)
    if isinstance(phase, Batches) and most * batches > len(phase):
        raise ValueError(f"most_releases={most} must be at most the {len(phase)} batches that there are")
    counts = _entries(most)
    if isinstance(phase, Batches) and overflow_of([(phase, most)], batches):
        known: dict[Any, float] = {}  # each count has its own share of delta for truncated batches
        found = [spent_in_phases([(phase, int(n))], target_delta, precision, (), known, batches) for n in counts]
    else:
        found = [0.0, *_together([ways_of(phase, int(n), batches) for n in counts[1:]], target_delta, precision)]
    epsilons = np.minimum.accumulate(np.array(found)[::-1])[::-1]  # fewer releases reveal no more
    rows = np.array([rounded_up(x) if x < _LARGEST else math.inf for x in epsilons], np.float32)
    return SpentTable(counts, rows, _noise_of(phase), np.int32(batches))
