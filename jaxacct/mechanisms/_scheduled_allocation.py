"""Random allocation whose steps differ in their noise."""

import dataclasses
from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Parts, description
from jaxacct.mechanisms._fields import Privacy, count, positive
from jaxacct.mechanisms._sampling import Sampling, Sets
from jaxacct.mechanisms._schedules import Schedule, stated, whole_releases
from jaxacct.mechanisms._words import EVERY_STEP, GAUSSIAN_STEPS, UNIFORM_STEPS, epochs


@description
class ScheduledAllocation(Mechanism):
    """`num_epochs` epochs in phases of Gaussian steps; in each epoch, a record joins one uniform step of all of them.

    Phase i has `num_steps[i]` steps of noise multiplier `noise_multipliers[i]`, in any order: the schedule is public.
    The step of a record is drawn afresh in every epoch. Adjacency: add or remove one record.

    Args:
      noise_multipliers: float > 0 for each phase, the standard deviation of the noise divided by the clipping norm; a
        tuple or list, or one number for one phase. An array inside the tuple is a batch of the noise of that phase.
      num_steps: whole number >= 1 for each phase, as a tuple or list (one number is shared by all).
      num_epochs: whole number >= 1.

    Raises:
      ValueError: if there is no phase, the lengths differ, a field is out of range, or an array stands where a tuple
        of phases belongs.

    >>> from jaxacct import ScheduledAllocation
    >>> ScheduledAllocation(noise_multipliers=(2.0, 1.0), num_steps=(100, 300))
    ScheduledAllocation(noise_multipliers=(2.0, 1.0), num_steps=(100, 300), num_epochs=1)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "random allocation"
    released = EVERY_STEP
    reduction = None

    noise_multipliers: Any = positive(
        "noise multiplier", "SIGMA", unit="noise std / clipping norm", privacy=Privacy.GROWS, several=True
    )
    num_steps: Any = count(
        "number of steps", "T", privacy=Privacy.GROWS, start=1000.0, highest=2.0**40, several=True, default=1
    )
    num_epochs: Any = count("number of epochs", "E", privacy=Privacy.FALLS, default=1)

    def __post_init__(self) -> None:
        several = isinstance(self.noise_multipliers, tuple | list)
        noises = tuple(self.noise_multipliers) if several else (self.noise_multipliers,)
        for name, value in (("noise_multipliers", self.noise_multipliers), ("num_steps", self.num_steps)):
            of_one = name == "num_steps" and len(noises) == 1  # a batch, not phases
            if not isinstance(value, tuple | list) and np.ndim(value) and not of_one:
                raise ValueError(f"{name}={value!r} must be a tuple of phases: an array is a batch of one phase")
        if not noises:
            raise ValueError("noise_multipliers=() must name at least one phase")
        counts = tuple(self.num_steps) if isinstance(self.num_steps, tuple | list) else (self.num_steps,) * len(noises)
        if len(counts) != len(noises):
            raise ValueError(f"num_steps has {len(counts)} entries; must be one for each of {len(noises)} phases")
        object.__setattr__(self, "noise_multipliers", noises)
        object.__setattr__(self, "num_steps", counts)
        super().__post_init__()

    def describe(self) -> str:
        phases = zip(self.num_steps, self.noise_multipliers, strict=True)
        steps = " + ".join(f"{count:.0f} (noise multiplier {noise:g})" for count, noise in phases)
        return f"random allocation, each record in 1 step of {steps}{epochs(self.num_epochs)}; Gaussian noise"

    def assumptions(self) -> tuple[str, ...]:
        return (UNIFORM_STEPS, GAUSSIAN_STEPS)

    def accumulated(self, batches: int) -> "ScheduledAllocation":
        """A record is in one step of an epoch, and so in one of its releases."""
        counts = tuple(whole_releases("num_steps", count, batches) for count in self.num_steps)
        return dataclasses.replace(self, num_steps=counts)

    def noise_schedule(self) -> Schedule:
        phases = zip(self.noise_multipliers, self.num_steps, strict=True)
        return tuple((stated(noise), int(count)) for noise, count in phases)

    def loses_nothing(self) -> bool:
        return False

    def sampling(self) -> Sampling:
        return Sets.of(self.releases_per_epoch, num_epochs=self.num_epochs)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Whole epochs, an unfinished one at its full price."""
        return (self.epochs(-(-number // self.releases_per_epoch)),)

    @property
    def releases_per_epoch(self) -> int:
        return sum(map(int, self.num_steps))
