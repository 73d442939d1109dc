"""Poisson-sampled batches that are cut to a maximum size."""

import dataclasses
from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count, probability
from jaxacct.mechanisms._given import given
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._sampling import CutCoins, Sampling
from jaxacct.mechanisms._schedules import Schedule
from jaxacct.mechanisms._words import EVERY_STEP, counted


@description
class TruncatedPoisson(Mechanism):
    """Poisson sampling with a maximum batch size: if more than `max_batch_size` records join, a random subset is kept.

    Where the other records alone fill a batch, a record that is kept takes the place of another one: a step is
    Poisson-sampled or, with the probability of a full batch, one of fixed size. Adjacency: add or remove one record,
    where the larger data set has `num_records`; the other adjacencies by ``neighboring_relation=``.

    Args:
      mechanism: `Gaussian`: what one step releases, of contributions of norm at most 1.
      sampling_prob: float in [0, 1].
      num_records: whole number >= 1, public.
      max_batch_size: whole number >= 1.
      num_steps: whole number >= 1, the steps of the whole run. It may be left out only where `training` counts them;
        every question needs it.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.TruncatedPoisson(ja.Gaussian(1.0), 0.01, num_records=10_000, max_batch_size=160, num_steps=100)
    >>> round(ja.epsilon(run, 1e-6), 3), round(ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100), 1e-6), 3)
    (0.954, 0.954)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "truncated Poisson sampling"
    released = EVERY_STEP
    reduction = "batches that say whether they were full"

    mechanism: WrappedMechanism = base()
    sampling_prob: Any = probability(
        "sampling probability", "Q", help="probability of joining a step, in [0, 1]", privacy=Privacy.FALLS
    )
    num_records: Any = count("number of records", "N", help="records in the data set")
    max_batch_size: Any = count("largest batch size", "B", help="records that a batch keeps at most")
    num_steps: Any = count(
        "number of steps", "T", help="noisy steps of the whole run", privacy=Privacy.FALLS, default=None
    )

    def describe(self) -> str:
        cut = f"at most {self.max_batch_size:.0f} of {self.num_records:.0f} records"
        scheme = f"Poisson sampling, probability {self.sampling_prob:.6g}, {cut}, {counted(self.num_steps, 'step')}"
        return f"{scheme}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            "each record joins each step independently with the stated probability; of a batch that is too large a "
            "uniformly random subset is kept; who took part stays secret, and the number of records is public",
            *self.mechanism.assumptions(),
        )

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.sampling_prob == 0) or bool(self.mechanism.loses_nothing())

    def poisson_at_same_rate(self) -> PoissonSampled:
        return PoissonSampled(self.mechanism, self.sampling_prob, self.num_steps)

    def sampling(self) -> Sampling:
        self.sampled_once()
        return CutCoins.of(self.sampling_prob, self.num_records, self.max_batch_size, given(self, "num_steps"))

    def releases(self, number: int) -> tuple[Parts, ...]:
        return (((dataclasses.replace(self, num_steps=number), 1),),)

    @property
    def length_given(self) -> float | None:
        return self.num_steps
