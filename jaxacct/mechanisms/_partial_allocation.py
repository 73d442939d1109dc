"""An unfinished epoch of random allocation."""

import dataclasses
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count
from jaxacct.mechanisms._gaussian import Gaussian
from jaxacct.mechanisms._sampling import Sampling, Sets
from jaxacct.mechanisms._schedules import Schedule, not_accumulated, whole_releases
from jaxacct.mechanisms._words import EVERY_STEP, UNIFORM_STEPS


@description
class PartialAllocation(Mechanism):
    """The first `steps_done` of the `num_steps` steps of an epoch in which each record joins one uniformly random step.

    This is what an adversary has seen in the middle of an epoch: a record's step may still be to come. Adjacency: add
    or remove one record. Finished epochs are a `RandomAllocation`; `Composed` puts the two together.

    Args:
      mechanism: what one step releases, as in `RandomAllocation`.
      num_steps: whole number >= 1, t, the number of steps in the epoch.
      steps_done: whole number in [1, num_steps].

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, PartialAllocation
    >>> PartialAllocation(Gaussian(0.8), num_steps=1000, steps_done=250).steps_done
    250
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "random allocation"
    released = EVERY_STEP
    has_independent_records = True
    reduction = None

    mechanism: WrappedMechanism = base()
    num_steps: Any = count(
        "number of steps", "T", help="steps in one epoch", privacy=Privacy.GROWS, start=1000.0, highest=2.0**40
    )
    steps_done: Any = count("steps done of the epoch", "S", privacy=Privacy.FALLS, most_field="num_steps")

    def describe(self) -> str:
        scheme = f"the first {self.steps_done:.0f} of {self.num_steps:.0f} steps of a random allocation"
        return f"{scheme}, each record in 1 of them all; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (UNIFORM_STEPS, *self.mechanism.assumptions())

    def accumulated(self, batches: int) -> "PartialAllocation":
        """A record is in one step of an epoch, and so in one of its releases."""
        if not isinstance(self.mechanism, Gaussian):
            raise not_accumulated(self, batches)
        return dataclasses.replace(
            self,
            num_steps=whole_releases("num_steps", self.num_steps, batches),
            steps_done=whole_releases("steps_done", self.steps_done, batches),
        )

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def sampling(self) -> Sampling:
        self.sampled_once()
        return Sets.of(self.num_steps, steps_done=self.steps_done)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Each release, charged as the whole that it is part of."""
        return (((self, number),),)
