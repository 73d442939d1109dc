"""The noise of a description as numbers that a compiled step can use, and the key that the noise is drawn with."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxacct._validate import checked_number
from jaxacct.bounds import check_has_analysis
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._schedules import Schedule
from jaxacct.training._batches import Batches
from jaxacct.training._counting import SATURATED
from jaxacct.training._phases import Epoch, check_scalar
from jaxacct.training._words import secret_bytes

Phase = Mechanism | Epoch | Batches  # all say what their first noise releases are

NOISE_FIELD = "released_noise"  # of the state of `private_aggregate`
_INJECTED = {"hyperparams", "noise_multiplier"}  # of a state of optax.inject_hyperparams
_SCHEDULED = {"hyperparams_states", "noise_multiplier"}  # of one whose noise follows a schedule of optax
_LABEL = b"jaxacct.training.private_aggregate, 1\n"
_LARGEST = 2.0**64  # of clipping norms and multipliers, whose products are normal numbers of float32


def phases_of(run: Any) -> tuple[Phase, ...]:
    """`run`, which is one phase or a list or tuple of phases, as a tuple of phases that each have an analysis."""
    phases = tuple(run) if isinstance(run, list | tuple) else (run,)
    if not phases:
        raise ValueError("run=() must name at least one phase")
    for phase in phases:
        described = phase.mechanism if isinstance(phase, Batches) else phase
        check_scalar(described)
        check_has_analysis(described.mechanism if isinstance(described, Epoch) else described)
    check_drawn_once(phases)
    return phases


def check_drawn_once(phases: Sequence[Any]) -> None:
    """Raises ValueError if two phases have the same batches, which accounting takes to be drawn independently."""
    first: dict[bytes, int] = {}
    for i, phase in enumerate(phases):
        known = first.setdefault(phase.drawn_by(), i) if isinstance(phase, Batches) else i
        if known != i:
            raise ValueError(
                f"phases {known} and {i} have the same batches, drawn with the same key: draw those of each phase with "
                "a key of its own"
            )


def schedule_rows(phases: Sequence[Phase]) -> NDArray[Any]:
    """float32 [pieces, 3] of all schedules: (phase, noise multiplier, releases), as a state holds them."""
    pieces = [(i, noise, count) for i, phase in enumerate(phases) for noise, count in phase.noise_schedule()]
    return np.array(pieces, np.float32)


def check_released(opt_state: Any, phases: Sequence[Phase]) -> None:
    """Raises ValueError if `opt_state` records noise that differs from that of `phases`.

    The states of `private_aggregate` record the noise, and so do those of ``optax.inject_hyperparams`` around a noise
    transform; of noise that follows a schedule of optax they record only the last value.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(opt_state):
        if NOISE_FIELD in _names(path):
            said, asked = np.asarray(leaf), schedule_rows(phases)
            if not np.array_equal(said, asked):
                raise _other_noise(phases, asked[:, 1], said[:, 1])
    try:
        asked = schedule_rows(phases)[:, 1]
    except ValueError:  # described otherwise than by its noise: there is nothing to compare
        return
    for leaf in injected_noise(opt_state):
        if np.float32(leaf) not in asked:
            raise _other_noise(phases, asked, np.atleast_1d(leaf))


def injected_noise(opt_state: Any) -> list[Any]:
    """The noise multipliers that states of ``optax.inject_hyperparams`` record, which may be traced.

    Raises:
      ValueError: if one follows a schedule of optax.
    """
    leaves = [(_names(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(opt_state)]
    if any(names >= _SCHEDULED for names, _ in leaves):
        raise ValueError(
            "the state says that noise_multiplier follows a schedule of optax.inject_hyperparams, of which it records "
            "the last value alone: describe the schedule by the mechanism and let private_aggregate follow it, or pass "
            "the part of the state that holds the count if the mechanism describes every release"
        )
    return [leaf for names, leaf in leaves if names >= _INJECTED and np.ndim(leaf) == 0]


def _names(path: tuple[Any, ...]) -> set[Any]:
    return {getattr(key, "name", getattr(key, "key", None)) for key in path}


def _other_noise(phases: Sequence[Phase], asked: NDArray[Any], said: NDArray[Any]) -> ValueError:
    own, other = (f"({', '.join(f'{noise:g}' for noise in noises)})" for noises in (asked, said))
    return ValueError(
        f"mechanism={phases!r} must be the one that the state was released by: its noise multipliers are {own}, those "
        f"in the state are {other}"
    )


def rounded_up(value: float) -> float:
    """The smallest float32 that is at least `value`."""
    single = np.float32(value)
    return float(single if float(single) >= value else np.nextafter(single, np.float32(np.inf)))


def checked_clip(name: str, value: Any) -> float:
    """`value` as a float; raises ValueError unless it is in [2^-64, 2^64]."""
    number = checked_number(name, value)
    if not 1.0 / _LARGEST <= number <= _LARGEST:
        raise ValueError(f"{name}={value!r} must be in [2^-64, 2^64]")
    return number


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise multiplier of each release, by the phase and the number of the release in that phase.

    Attributes:
      schedules: the noise schedule of each phase.
    """

    schedules: tuple[Schedule, ...]

    @classmethod
    def of(cls, phases: Sequence[Phase], share: Callable[[int, float], float]) -> "Noise":
        """The noise of `phases`, with each multiplier replaced by ``share(number of the phase, multiplier)``.

        Raises:
          ValueError: if a phase does not say what Gaussian noise is added, or a multiplier is out of range.
        """
        schedules = tuple(
            tuple((share(i, noise), count) for noise, count in phase.noise_schedule()) for i, phase in enumerate(phases)
        )
        for noise in (noise for schedule in schedules for noise, _ in schedule):
            if not 1.0 / _LARGEST <= noise <= _LARGEST:
                raise ValueError(f"noise_multiplier={noise!r} must be in [2^-64, 2^64] to be added in float32")
        return cls(schedules)

    def multiplier(self, here: jax.Array, counts: jax.Array) -> jax.Array:
        """float32 []: the multiplier of the next release after `counts`, in the phase that `here` marks.

        `here` is bool [phases]. If it is true nowhere, the multiplier is 0, which the caller has to handle.
        """
        total = jnp.zeros((), jnp.float32)
        for i, schedule in enumerate(self.schedules):
            period = min(sum(count for _, count in schedule), SATURATED)
            place = counts[i] % jnp.int32(period)
            first = 0
            for noise, count in schedule:
                last = min(first + count, SATURATED)
                inside = here[i] & (place >= jnp.int32(first)) & (place < jnp.int32(last))
                total = total + jnp.where(inside, jnp.float32(rounded_up(noise)), jnp.zeros((), jnp.float32))
                first = last
        return total


@dataclasses.dataclass(frozen=True)
class NoiseKey:
    """The key of the noise: its words, and the generator that reads them.

    A state holds the words, which every checkpoint format can store, and not a typed key.

    Attributes:
      words: uint32, the words of the first key.
      kind: the implementation of `jax.random` that the words are for.
    """

    words: Any
    kind: Any

    @classmethod
    def of(cls, key: Any) -> "NoiseKey":
        """A typed key of `jax.random` as it is, or a key derived from anything else that `training.batches` takes.

        The derived key is independent of the words that batches are drawn from.
        """
        if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            if key.shape:
                raise ValueError(f"key of shape {key.shape} must be one key")
            return cls(jax.random.key_data(key), jax.random.key_impl(key))
        seed = hashlib.shake_256(_LABEL + secret_bytes(key)).digest(8)
        return cls(np.frombuffer(seed, "<u4").astype(np.uint32), "threefry2x32")

    def first(self) -> jax.Array:
        """The words, in a new buffer, so that a state may be donated and another one begun."""
        return jnp.array(self.words)

    def split(self, words: jax.Array, number: int) -> tuple[jax.Array, list[jax.Array]]:
        """The words for the next release, and `number` keys for this one."""
        new, *keys = jax.random.split(jax.random.wrap_key_data(words, impl=self.kind), number + 1)
        return jax.random.key_data(new), keys
