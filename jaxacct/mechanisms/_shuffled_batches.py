"""Batches cut from a shuffled list of the records: what most data loaders do."""

import dataclasses
from typing import Any

from jaxacct._types import LastBatch, NeighboringRelation
from jaxacct._validate import check_count, checked_choice
from jaxacct.mechanisms._base import Mechanism, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count, fixed
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._sampling import Orders, Sampling, exact_sizes
from jaxacct.mechanisms._schedules import Schedule
from jaxacct.mechanisms._sizes import check_size, remembered
from jaxacct.mechanisms._words import EVERY_STEP, counted, epochs


@description
class ShuffledBatches(Mechanism):
    """`num_epochs` epochs: the records in a random order are cut into `num_steps` batches, one for each step.

    This is what most data loaders do. It is often accounted for as Poisson sampling, which it is not: anyone who knows
    the other records knows what each batch would be without the one in question. The upper bound for one epoch is
    theorem SB-6, proved in docs/papers/shuffled_batches.md, and never above that of a record whose batch is known; for
    several epochs it is composed. It holds in any dimension, and also if steps depend on earlier releases. The lower
    bound is certified by tests on explicit data. Adjacency: one record is replaced by the empty record, which
    contributes nothing.

    Batches have equal sizes; `last_batch` says what happens to records that do not fill one, and `training.batches`
    draws them accordingly. One record that is left out hides the record in question almost as well as all others
    together (SB-7).

    Args:
      mechanism: `Gaussian`: what one step releases, of contributions of norm at most 1, each clipped separately.
      num_steps: whole number >= 1, batches of one epoch.
      num_epochs: whole number >= 1, each with a fresh order.
      last_batch: `LastBatch` or its name: "full" for a list padded with empty records, "short" if the last of the
        `num_steps` batches has fewer records, "dropped" if the records that would be in it are left out.
      dataset_size: as for `PoissonSampled`.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> found = ja.epsilon_interval(ja.ShuffledBatches(ja.Gaussian(2.0), num_steps=1000), target_delta=1e-6)
    >>> round(found.upper, 3)
    0.134
    >>> round(ja.epsilon(ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000), target_delta=1e-6), 3)
    0.059
    """

    relation = NeighboringRelation.REPLACE_SPECIAL
    scheme = "shuffled batches"
    released = EVERY_STEP
    reduction = "the record's place within its batch, and those of other records, known to the adversary"

    mechanism: WrappedMechanism = base()
    num_steps: Any = count(
        "number of steps", "T", help="batches of one epoch", privacy=Privacy.GROWS, start=1000.0, highest=2.0**40
    )
    num_epochs: Any = count(
        "number of epochs", "E", help="epochs, each in a new order", privacy=Privacy.FALLS, default=1
    )
    last_batch: LastBatch = fixed(default=LastBatch.FULL)
    dataset_size: int | None = remembered()

    def __post_init__(self) -> None:
        object.__setattr__(self, "last_batch", checked_choice("last_batch", self.last_batch, *LastBatch))
        super().__post_init__()

    @classmethod
    def from_epochs(
        cls,
        mechanism: Mechanism,
        *,
        dataset_size: int,
        batch_size: int,
        epochs: int,
        last_batch: LastBatch | str = LastBatch.SHORT,
    ) -> "ShuffledBatches":
        """The run of `epochs` passes over the data in batches of `batch_size`.

            num_steps = ceil(dataset_size / batch_size), or floor if the rest is left out;    num_epochs = epochs.

        Args:
          mechanism: what one step releases, e.g. `Gaussian`.
          dataset_size: whole number >= 1, records, which such a description makes public.
          batch_size: whole number in [1, dataset_size].
          epochs: whole number >= 1.
          last_batch: what happens to the remaining records, if there are any.

        Raises:
          ValueError: if an argument is out of range.

        >>> from jaxacct import Gaussian, ShuffledBatches
        >>> run = ShuffledBatches.from_epochs(Gaussian(1.1), dataset_size=60_000, batch_size=256, epochs=15)
        >>> run.num_steps, run.last_batch
        (235, <LastBatch.SHORT: 'shorter'>)
        """
        exact_sizes(dataset_size, batch_size, epochs)
        check_count("batch_size", batch_size)
        check_count("epochs", epochs)
        last = checked_choice("last_batch", last_batch, *LastBatch)
        whole, rest = divmod(int(dataset_size), int(batch_size))
        size = int(dataset_size)
        if not rest:
            return cls(mechanism, num_steps=whole, num_epochs=epochs, dataset_size=size)
        steps = whole + (last is not LastBatch.DROPPED)
        return cls(mechanism, num_steps=steps, num_epochs=epochs, last_batch=last, dataset_size=size)

    @property
    def num_equal(self) -> Any:
        """The number of batches of equal size."""
        return self.num_steps - 1 if self.last_batch is LastBatch.SHORT else self.num_steps

    def check(self) -> None:
        super().check()
        check_size(self.dataset_size)

    def describe(self) -> str:
        rest = {LastBatch.SHORT: ", the last of them shorter", LastBatch.DROPPED: ", some records left out"}
        scheme = f"{counted(self.num_steps, 'batch', 'batches')} of records in a shuffled order"
        scheme += rest.get(self.last_batch, "")
        return f"{scheme}{epochs(self.num_epochs)}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        sizes = {
            LastBatch.FULL: "batches of one size, the list filled up with empty records if it does not divide",
            LastBatch.SHORT: "batches of one size but for a shorter last one",
            LastBatch.DROPPED: "batches of one size, at least one record left out of all that the epoch releases",
        }
        return _assumed(f"afresh and uniformly in every epoch and cut into {sizes[self.last_batch]}", self.mechanism)

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def poisson_at_same_rate(self) -> PoissonSampled:
        return PoissonSampled(self.mechanism, 1.0 / self.num_steps, self.num_steps * self.num_epochs)

    def sampling(self) -> Sampling:
        self.sampled_once()
        return Orders.of_any(self.num_steps, self.num_epochs, self.last_batch)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Whole epochs; or, for an unfinished one, its first steps."""
        finished, steps_done = divmod(number, self.releases_per_epoch)
        if not steps_done:
            return (self.epochs(finished),)
        whole = self.epochs(finished + 1)
        if steps_done >= self.num_equal:
            return (whole,)
        begun = PartialShuffledBatches(self.mechanism, self.num_equal, steps_done)
        return (whole, (*(self.epochs(finished) if finished else ()), (begun, 1)))

    @property
    def releases_per_epoch(self) -> int:
        return int(self.num_steps)


def _assumed(how: str, mechanism: Mechanism) -> tuple[str, ...]:
    return (
        f"the records are shuffled {how}; the order stays secret; each record's contribution is clipped separately and "
        "depends on nothing secret but the record and what was released; an empty record contributes nothing",
        *mechanism.assumptions(),
    )


@description
class PartialShuffledBatches(Mechanism):
    """The first `steps_done` of `num_steps` batches of a shuffled list: an unfinished epoch of `ShuffledBatches`.

    With s < t steps done, the record may be in a later batch, and so may the record whose place it would take: theorem
    SB-7 in docs/papers/shuffled_batches.md. Adjacency: one record is replaced by the empty record.

    Args:
      mechanism: `Gaussian`: what one step releases, of contributions of norm at most 1, each clipped separately.
      num_steps: whole number >= 1, batches of the whole epoch.
      steps_done: whole number in [1, num_steps].

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.PartialShuffledBatches(ja.Gaussian(2.0), num_steps=1000, steps_done=100)
    >>> ja.delta(run, 0.5) < 0.2 * ja.delta(ja.ShuffledBatches(ja.Gaussian(2.0), 100), 0.5)
    True
    """

    relation = NeighboringRelation.REPLACE_SPECIAL
    scheme = "shuffled batches"
    released = EVERY_STEP
    reduction = ShuffledBatches.reduction

    mechanism: WrappedMechanism = base()
    num_steps: Any = count(
        "number of steps", "T", help="batches of the epoch", privacy=Privacy.GROWS, start=1000.0, highest=2.0**40
    )
    steps_done: Any = count("steps done of the epoch", "S", privacy=Privacy.FALLS, most_field="num_steps")

    def describe(self) -> str:
        scheme = f"the first {self.steps_done:.0f} of {counted(self.num_steps, 'batch', 'batches')} in a shuffled order"
        return f"{scheme}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return _assumed("uniformly and cut into batches, those released so far of one size", self.mechanism)

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def sampling(self) -> Sampling:
        self.sampled_once()
        whole = Orders.of_any(self.num_steps, 1, LastBatch.FULL)
        return dataclasses.replace(whole, length=int(self.steps_done))

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Each release, charged as the whole that it is part of."""
        return (((self, number),),)
