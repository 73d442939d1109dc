"""Poisson-sampled training."""

import dataclasses
import math
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Participation, Parts, WrappedMechanism, description
from jaxacct.mechanisms._composed import Composed
from jaxacct.mechanisms._fields import Privacy, base, count, probability
from jaxacct.mechanisms._gaussian import Gaussian
from jaxacct.mechanisms._given import given
from jaxacct.mechanisms._mixture_of_gaussians import MixtureOfGaussians
from jaxacct.mechanisms._sampling import Coins, Sampling, exact_sizes
from jaxacct.mechanisms._schedules import Schedule, whole_releases
from jaxacct.mechanisms._sizes import check_size, remembered
from jaxacct.mechanisms._words import EVERY_STEP, counted
from jaxacct.special import binomial_masses


@description
class PoissonSampled(Mechanism):
    """`num_steps` runs of `mechanism`, each record joining each step with probability `sampling_prob`.

    Adjacency: add or remove one record.

    Args:
      mechanism: what one step releases, e.g. `Gaussian`. For several Gaussian releases of the same sampled batch, it is
        a `Composed`, which is held as the equivalent single release (`Composed.as_one_release`): its 1/sigma^2 is the
        sum of theirs. It may also be a whole epoch, `RandomAllocation` (or the first steps of one, or one with changing
        noise): records are then sampled for the epoch, and allocated to its steps.
      sampling_prob: float in [0, 1].
      num_steps: whole number >= 1, the steps of the whole run. It may be left out only where `training` counts them;
        every question needs it.
      dataset_size: the number of records for which the run is described, if it is to be remembered: `training.batches`
        compares it with the data.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, PoissonSampled
    >>> PoissonSampled(Gaussian(1.0), sampling_prob=0.01, num_steps=1000).num_steps
    1000
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Poisson sampling"
    released = EVERY_STEP
    has_independent_records = True

    mechanism: WrappedMechanism = base()
    sampling_prob: Any = probability(
        "sampling probability", "Q", help="probability of joining a step, in [0, 1]", privacy=Privacy.FALLS
    )
    num_steps: Any = count(
        "number of steps", "T", help="noisy steps of the whole run", privacy=Privacy.FALLS, default=None
    )
    dataset_size: int | None = remembered()

    @classmethod
    def from_epochs(
        cls, mechanism: Mechanism, *, dataset_size: int, batch_size: float, epochs: float
    ) -> "PoissonSampled":
        """The run that makes `epochs` passes over the data on average, in batches of `batch_size` records on average.

            sampling_prob = batch_size / dataset_size,    num_steps = ceil(epochs dataset_size / batch_size).

        Such a description makes the size of the data set public.

        Args:
          mechanism: what one step releases, e.g. `Gaussian`.
          dataset_size: whole number >= 1, records.
          batch_size: number in (0, dataset_size], records that join a step on average.
          epochs: number > 0, steps that a record joins on average.

        Raises:
          ValueError: if an argument is out of range.

        >>> from jaxacct import Gaussian, PoissonSampled
        >>> PoissonSampled.from_epochs(Gaussian(1.1), dataset_size=60_000, batch_size=250, epochs=15).num_steps
        3600
        """
        records, batch, passes = exact_sizes(dataset_size, batch_size, epochs)
        steps = math.ceil(passes * records / batch)
        return cls(mechanism, sampling_prob=float(batch / records), num_steps=steps, dataset_size=records)

    def check(self) -> None:
        super().check()
        check_size(self.dataset_size)

    @property
    def reduction(self) -> str | None:  # type: ignore[override]
        """The reduction of an epoch, or None for a single step."""
        found: str | None = None if self.mechanism.takes_all else self.mechanism.reduction
        return found

    def describe(self) -> str:
        one = "step" if self.mechanism.takes_all else "run"
        scheme = f"Poisson sampling, probability {self.sampling_prob:.6g}, {counted(self.num_steps, one)}"
        return f"{scheme}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        sampling = "each record joins each step independently with the stated probability, and who joined stays secret"
        return (sampling, *self.mechanism.assumptions())

    def accumulated(self, batches: int) -> Mechanism:
        """A record is in a release as often as `batches` coins show heads, and adds at most that many clipping norms.

        Dominated by the mixture of the two directions' pairs, see `MixtureOfGaussians`.
        """
        number = whole_releases("num_steps", self.num_steps, batches)
        if not isinstance(self.mechanism, Gaussian):
            return super().accumulated(batches)
        if self.sampling_prob == 1.0:
            return Composed(self.mechanism.accumulated(batches), number)
        shares = binomial_masses(batches, float(self.sampling_prob))
        return Composed(MixtureOfGaussians(self.mechanism.noise_multiplier, range(batches + 1), shares), number)

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.sampling_prob == 0) or self.mechanism.loses_nothing()

    def participation(self) -> Participation:
        steps = given(self, "num_steps")
        drawn = self.sampling_prob * steps
        if self.mechanism.takes_all:
            return Participation(steps=steps, uses=drawn, dispersion=1.0 - self.sampling_prob)
        one = self.mechanism.participation()
        dispersion = one.dispersion + (1.0 - self.sampling_prob) * one.uses
        return Participation(steps=steps * one.steps, uses=drawn * one.uses, dispersion=dispersion)

    def sampling(self) -> Sampling:
        return self.coins()

    def coins(self) -> Coins:
        """How records are drawn; raises ValueError if the mechanism of each step samples records itself."""
        self.sampled_once()
        return Coins.of(self.sampling_prob, given(self, "num_steps"))

    def releases(self, number: int) -> tuple[Parts, ...]:
        if not self.mechanism.takes_all:
            return super().releases(number)
        return (((dataclasses.replace(self, num_steps=number), 1),),)

    @property
    def length_given(self) -> float | None:
        return self.num_steps
