"""Random allocation: each record in k of t steps."""

import dataclasses
import math
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct._validate import check_count
from jaxacct.mechanisms._base import Mechanism, Participation, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count
from jaxacct.mechanisms._gaussian import Gaussian
from jaxacct.mechanisms._given import given
from jaxacct.mechanisms._partial_allocation import PartialAllocation
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._sampling import Groups, Sampling, Sets, exact_sizes
from jaxacct.mechanisms._schedules import Schedule, not_accumulated, whole_releases
from jaxacct.mechanisms._sizes import check_size, remembered
from jaxacct.mechanisms._words import EVERY_STEP, UNIFORM_STEPS, counted, epochs


@description
class RandomAllocation(Mechanism):
    """`num_epochs` epochs of `num_steps` runs of `mechanism`; in each, a record joins a random set of `num_selected`.

    For num_selected = 1 this is also known as balls and bins. The sets are drawn afresh in every epoch, independently
    for each record. Adjacency: add or remove one record.

    Args:
      mechanism: what one step releases, e.g. `Gaussian`, or a `Composed` of them as in `PoissonSampled`; or
        `PoissonSampled` steps, each of which samples the records that are allocated to it.
      num_steps: whole number >= 1, steps t in one epoch.
      num_selected: whole number in [1, num_steps], steps k that a record joins in one epoch.
      num_epochs: whole number >= 1.
      dataset_size: as for `PoissonSampled`.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, RandomAllocation
    >>> RandomAllocation(Gaussian(0.8), num_steps=1000, num_epochs=10).num_selected
    1
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "random allocation"
    released = EVERY_STEP
    has_independent_records = True
    reduction = "the reduction to one step at a time"

    mechanism: WrappedMechanism = base()
    num_steps: Any = count(
        "number of steps", "T", help="steps in one epoch", privacy=Privacy.GROWS, start=1000.0, highest=2.0**40
    )
    num_selected: Any = count(
        "steps that a record joins in an epoch",
        "K",
        help="steps that a record joins",
        privacy=Privacy.FALLS,
        most_field="num_steps",
        default=1,
    )
    num_epochs: Any = count("number of epochs", "E", help="epochs, allocated afresh", privacy=Privacy.FALLS, default=1)
    dataset_size: int | None = remembered()

    @classmethod
    def from_epochs(
        cls, mechanism: Mechanism, *, dataset_size: int, batch_size: float, epochs: int
    ) -> "RandomAllocation":
        """The run of `epochs` passes over the data, with each record once per pass, in batches of about `batch_size`.

            num_steps = floor(dataset_size / batch_size),    num_selected = 1,    num_epochs = epochs.

        Batches have `batch_size` records on average, or a little more if that does not divide the size of the data set,
        which such a description makes public.

        Args:
          mechanism: what one step releases, e.g. `Gaussian`.
          dataset_size: whole number >= 1, records.
          batch_size: number in (0, dataset_size], records that join a step on average.
          epochs: whole number >= 1.

        Raises:
          ValueError: if an argument is out of range.

        >>> from jaxacct import Gaussian, RandomAllocation
        >>> run = RandomAllocation.from_epochs(Gaussian(1.1), dataset_size=60_000, batch_size=250, epochs=15)
        >>> run.num_steps, run.num_epochs
        (240, 15)
        """
        records, batch, _ = exact_sizes(dataset_size, batch_size, epochs)
        check_count("epochs", epochs)
        return cls(mechanism, num_steps=math.floor(records / batch), num_epochs=epochs, dataset_size=records)

    def check(self) -> None:
        super().check()
        check_size(self.dataset_size)

    def describe(self) -> str:
        scheme = f"random allocation, each record in {self.num_selected:.0f} of {counted(self.num_steps, 'step')}"
        return f"{scheme}{epochs(self.num_epochs)}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (UNIFORM_STEPS, *self.mechanism.assumptions())

    def accumulated(self, batches: int) -> "RandomAllocation":
        """A record is in one step of an epoch, and so in one of its releases."""
        if self.num_selected != 1 or not isinstance(self.mechanism, Gaussian):
            raise not_accumulated(self, batches)
        return dataclasses.replace(
            self,
            num_steps=whole_releases("num_steps", self.num_steps, batches),
        )

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def poisson_at_same_rate(self) -> PoissonSampled | None:
        if isinstance(self.mechanism, PoissonSampled):
            return None
        rate = self.num_selected / self.num_steps
        return PoissonSampled(self.mechanism, sampling_prob=rate, num_steps=self.num_steps * self.num_epochs)

    def participation(self) -> Participation:
        return Participation(self.num_steps * self.num_epochs, self.num_selected * self.num_epochs, dispersion=0.0)

    def sampling(self) -> Sampling:
        sets = Sets.of(self.num_steps, self.num_selected, self.num_epochs)
        if isinstance(self.mechanism, PoissonSampled):
            return Groups.of(sets, self.mechanism.coins())
        self.sampled_once()
        return sets

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Whole epochs if the steps themselves sample; otherwise, for an unfinished epoch, any of these descriptions.

        The last epoch is charged in full; or, if it is the first and a record joins one step, by the law of its steps
        so far; or, while these are fewer than `num_selected`, without any amplification: to know which of them a record
        joined is no more private (joint convexity), and joining all of them costs the most.
        """
        finished, steps_done = divmod(number, self.releases_per_epoch)
        if not steps_done:
            return (self.epochs(finished),)
        ways: tuple[Parts, ...] = (self.epochs(finished + 1),)
        if isinstance(self.mechanism, PoissonSampled):
            return ways
        if self.num_selected == 1 and not finished:  # beside whole epochs its distribution costs more than it gains
            ways += (((PartialAllocation(self.mechanism, self.num_steps, steps_done), 1),),)
        if steps_done < self.num_selected:
            ways += ((*(self.epochs(finished) if finished else ()), (self.mechanism, steps_done)),)
        return ways

    @property
    def releases_per_epoch(self) -> int:
        of_step = given(self.mechanism, "num_steps") if isinstance(self.mechanism, PoissonSampled) else 1
        return int(self.num_steps * of_step)

    def partial_epoch_releases(self, epochs: int) -> int:
        """After the first epoch an unfinished one is charged whole, unless fewer steps were run than a record joins."""
        if isinstance(self.mechanism, PoissonSampled):
            return 0
        return int(self.num_selected if epochs else self.num_steps) - 1
