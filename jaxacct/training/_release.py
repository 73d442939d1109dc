"""One release: a clipped sum plus the noise of the description, divided by the expected batch size, and counted."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from jaxacct._validate import check_positive, checked_number
from jaxacct.mechanisms._sizes import known_size
from jaxacct.training._adaptive import AdaptiveClipping
from jaxacct.training._batches import Batches
from jaxacct.training._clipping import ClippedSum
from jaxacct.training._counting import SATURATED, ReleaseCountState, phase_mask, track_privacy
from jaxacct.training._noise import Noise, NoiseKey, Phase, checked_clip, phases_of, rounded_up, schedule_rows
from jaxacct.training._normals import normals

_UP = 1.0 + 2.0**-22  # rounds up products of float32


class PrivateAggregateState(NamedTuple):
    """The state of `private_aggregate` and `private_gradients`: the key of the noise to come, and what was released.

    >>> import jax.numpy as jnp
    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> noise = training.private_aggregate(ja.Gaussian(2.0), l2_norm_clip=1.0, key=0, batch_size=8)
    >>> noise.init(jnp.zeros(3)).released_noise           # of phase 0, multiplier 2, over and over
    Array([[0., 2., 1.]], dtype=float32)
    """

    rng_key: jax.Array  # uint32, the words of a key
    released_noise: jax.Array  # float32 [pieces, 3]: phase, noise multiplier, for how many releases
    l2_norm_clip: Any  # float32 [] where it adapts; (): no leaf, where it does not
    releases: ReleaseCountState


def _expected_sizes(phases: Sequence[Phase], batch_size: Any) -> tuple[float, ...]:
    """The number by which the sum of each phase is divided."""
    given = tuple(batch_size) if isinstance(batch_size, list | tuple) else (batch_size,) * len(phases)
    if len(given) != len(phases):
        raise ValueError(f"batch_size={batch_size!r} must be one number, or one for each of {len(phases)} phases")
    sizes = []
    for phase, size in zip(phases, given, strict=True):
        if size is None:
            records = phase.num_records if isinstance(phase, Batches) else known_size(phase)
            if records is None:
                raise ValueError(
                    f"batch_size=None of {type(phase).__name__}: must be the number of records that join a step on "
                    "average; or give the batches, which know it, in place of the mechanism"
                )
            described = phase.mechanism if isinstance(phase, Batches) else phase
            size = records * described.sampling().of_records(records).rate
        check_positive("batch_size", checked_number("batch_size", size))
        sizes.append(float(size))
    return tuple(sizes)


class MeanRelease:
    """What both transforms share: from a clipped sum to the released mean."""

    def __init__(self, run: Any, l2_norm_clip: Any, key: Any, batch_size: Any, axis_name: Any) -> None:
        self.phases = phases_of(run)
        self.sizes = _expected_sizes(self.phases, batch_size)
        self.adaptive = l2_norm_clip if isinstance(l2_norm_clip, AdaptiveClipping) else None
        self.fixed = None if self.adaptive else checked_clip("l2_norm_clip", l2_norm_clip)
        self.noise = Noise.of(self.phases, self._share)
        self.rows = schedule_rows(self.phases)
        self.key = NoiseKey.of(key)
        self.axis_name = axis_name
        self.counter = track_privacy(len(self.phases))

    def _share(self, phase: int, noise: float) -> float:
        return noise if self.adaptive is None else self.adaptive.of_gradients(noise, self.sizes[phase])

    def check_one_batch(self, shape: tuple[int, ...]) -> None:
        """Raises ValueError if a mask [pieces, rows] is not one batch in pieces, but several batches."""
        drawn = [phase for phase in self.phases if isinstance(phase, Batches)]
        if len(drawn) < len(self.phases):
            return
        rows, most = max(phase.batch_size for phase in drawn), max(phase.max_batch_size for phase in drawn)
        if shape[1] >= rows and shape[0] * shape[1] >= 2 * most:
            raise ValueError(
                f"mask of shape {shape} must be one batch of {rows} rows, or its pieces: an update makes one release, "
                "which is accounted for as that of one batch (several are given one by one, as by jax.lax.scan)"
            )

    def init(self, params: optax.Params) -> PrivateAggregateState:
        clip = () if self.adaptive is None else jnp.array(self.adaptive.initial, jnp.float32)
        return PrivateAggregateState(self.key.first(), jnp.array(self.rows), clip, self.counter.init(params))

    def clip(self, state: PrivateAggregateState) -> Any:
        return self.fixed if self.adaptive is None else state.l2_norm_clip

    def released(
        self, found: ClippedSum, state: PrivateAggregateState, phase: Any, like: Sequence[Any]
    ) -> tuple[list[jax.Array], PrivateAggregateState]:
        """The noisy sums divided by the expected batch size, each of the type of its `like`, and the new state."""
        if self.axis_name is not None:
            found = jax.tree.map(lambda part: jax.lax.psum(part, self.axis_name), found)  # type: ignore[no-untyped-call]
        here = phase_mask(phase, len(self.phases))
        counts = state.releases.release_counts
        multiplier = self.noise.multiplier(here, counts)
        if self.fixed is None:
            deviation = multiplier * state.l2_norm_clip * jnp.float32(_UP)
        else:
            deviation = multiplier * jnp.float32(rounded_up(self.fixed * _UP))
        sizes = np.array(self.sizes, np.float32)
        # 0, as the noise is, if a traced phase is out of range: nothing is released without noise
        share = jnp.where(here, jnp.float32(1.0) / sizes, jnp.zeros_like(sizes)).sum()
        new_key, (of_count, *keys) = self.key.split(state.rng_key, len(found.total) + 1)
        updates = []
        for total, sub_key, leaf in zip(found.total, keys, like, strict=True):
            noise = normals(sub_key, total.shape, total.dtype)
            mean = (total + deviation.astype(total.dtype) * noise) * share.astype(total.dtype)
            updates.append(mean.astype(leaf.dtype))
        _, releases = self.counter.update((), state.releases, phase=phase)
        # a state that was restored from a run with other noise loses its count
        same = jnp.all(state.released_noise == jnp.asarray(self.rows))
        kept = jnp.where(same, releases.release_counts, jnp.full_like(counts, SATURATED))
        clip = state.l2_norm_clip
        if self.adaptive is not None:
            spreads = np.array([self.adaptive.noise_of_count(size) for size in self.sizes], np.float32)
            spread = jnp.where(here, spreads, jnp.zeros_like(spreads)).sum()
            noisy = found.half_excess.astype(jnp.float32) + spread * normals(of_count, (), jnp.float32)
            moved = self.adaptive.moved(clip, noisy * share + jnp.float32(0.5))
            clip = jnp.where(jnp.any(here), moved, clip)
        return updates, PrivateAggregateState(new_key, state.released_noise, clip, ReleaseCountState(kept))
