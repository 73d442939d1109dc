"""Poisson-sampled training."""

import dataclasses
import math
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count, probability
from jaxacct.mechanisms._sampling import Coins, Participation, Sampling, exact_sizes
from jaxacct.mechanisms._words import EVERY_STEP, counted


@description
class PoissonSampled(Mechanism):
    """`num_steps` runs of `mechanism`, each record joining each step with probability `sampling_prob`.

    Adjacency: add or remove one record.

    Args:
      mechanism: what one step releases, e.g. `Gaussian`.
      sampling_prob: float in [0, 1].
      num_steps: whole number >= 1.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, PoissonSampled
    >>> PoissonSampled(Gaussian(1.0), sampling_prob=0.01, num_steps=1000).num_steps
    1000
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Poisson sampling"
    released = EVERY_STEP
    reduction = None

    mechanism: WrappedMechanism = base()
    sampling_prob: Any = probability(
        "sampling probability", "Q", help="probability to join a step, in [0, 1]", privacy=Privacy.FALLS
    )
    num_steps: Any = count("number of steps", "T", help="steps in all", privacy=Privacy.FALLS, default=1)

    @classmethod
    def from_epochs(
        cls, mechanism: Mechanism, *, dataset_size: int, batch_size: float, epochs: float
    ) -> "PoissonSampled":
        """The run that makes `epochs` passes over the data on average, in batches of `batch_size` on average.

            sampling_prob = batch_size / dataset_size,    num_steps = ceil(epochs dataset_size / batch_size).

        The size of the data set becomes public with such a description.

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
        return cls(mechanism, sampling_prob=float(batch / records), num_steps=math.ceil(passes * records / batch))

    def describe(self) -> str:
        scheme = f"Poisson sampling, probability {self.sampling_prob:.6g}, {counted(self.num_steps, 'step')}"
        return f"{scheme}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        sampling = "each record joins each step independently with the stated probability, and who joined stays secret"
        return (sampling, *self.mechanism.assumptions())

    def loses_nothing(self) -> bool:
        return bool(self.sampling_prob == 0) or self.mechanism.loses_nothing()

    def participation(self) -> Participation:
        uses = self.sampling_prob * self.num_steps
        return Participation(steps=self.num_steps, uses=uses, dispersion=1.0 - self.sampling_prob)

    def sampling(self) -> Sampling:
        return self.coins()

    def coins(self) -> Coins:
        """How records are drawn; raises ValueError where what each step runs samples once more."""
        self.sampled_once()
        return Coins.of(self.sampling_prob, self.num_steps)

    def releases(self, number: int) -> tuple[Parts, ...]:
        return (((dataclasses.replace(self, num_steps=number), 1),),)

    @property
    def length_given(self) -> float | None:
        return self.num_steps
