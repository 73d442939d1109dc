"""Random allocation whose steps differ in their noise."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct._validate import check_count, check_positive, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ScheduledAllocation:
    """`num_epochs` epochs in phases of Gaussian steps; in each epoch, a record joins one uniform step of all of them.

    Phase i has `num_steps[i]` steps of noise multiplier `noise_multipliers[i]`, in any order: the schedule is public.
    The step of a record is drawn afresh in every epoch. Adjacency: add or remove one record.

    Args:
      noise_multipliers: float > 0 for each phase, noise standard deviation over the clipping norm.
      num_steps: whole number >= 1 for each phase (a scalar is shared by all).
      num_epochs: whole number >= 1.

    Raises:
      ValueError: if there is no phase, the lengths differ, or a field is out of range.

    >>> from jaxacct import ScheduledAllocation
    >>> ScheduledAllocation(noise_multipliers=(2.0, 1.0), num_steps=(100, 300))
    ScheduledAllocation(noise_multipliers=(2.0, 1.0), num_steps=(100, 300), num_epochs=1)
    """

    noise_multipliers: Any
    num_steps: Any = 1
    num_epochs: Any = 1

    def __post_init__(self) -> None:
        several = isinstance(self.noise_multipliers, tuple | list)
        noises = tuple(self.noise_multipliers) if several else (self.noise_multipliers,)
        if not noises:
            raise ValueError("noise_multipliers=() must name at least one phase")
        counts = tuple(self.num_steps) if isinstance(self.num_steps, tuple | list) else (self.num_steps,) * len(noises)
        if len(counts) != len(noises):
            raise ValueError(f"num_steps has {len(counts)} entries; must be one for each of {len(noises)} phases")
        for noise, count in zip(noises, counts, strict=True):
            check_positive("noise_multipliers", noise)
            check_count("num_steps", count)
        check_count("num_epochs", self.num_epochs)
        object.__setattr__(self, "noise_multipliers", noises)
        object.__setattr__(self, "num_steps", counts)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        noises = ((noise > 0) & (noise < jnp.inf) for noise in self.noise_multipliers)
        counts = (is_count(count) for count in (*self.num_steps, self.num_epochs))
        return functools.reduce(jnp.logical_and, (*noises, *counts))
