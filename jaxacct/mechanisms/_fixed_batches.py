"""Batches of a fixed size, drawn afresh in every step."""

import dataclasses
from typing import Any

import numpy as np

from jaxacct._types import NeighboringRelation
from jaxacct._validate import is_checkable
from jaxacct.mechanisms._base import Mechanism, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count, fixed
from jaxacct.mechanisms._given import given
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._sampling import Fixed, Sampling
from jaxacct.mechanisms._schedules import Schedule
from jaxacct.mechanisms._words import EVERY_STEP, counted


@description
class FixedBatches(Mechanism):
    """`num_steps` steps, each on a fresh, uniformly random batch of `batch_size` of `num_records` records.

    A record that joins takes the place of another one, so that an output may shift by two clipping norms. For a record
    that is added or removed, a step is exactly Poisson sampling at batch_size / num_records with *half* the noise; with
    replacement, it is bounded by a mixture over the number of copies. Adjacency: add or remove one record, where the
    larger data set has `num_records` or more; the other adjacencies by ``neighboring_relation=``.

    Args:
      mechanism: `Gaussian`: what one step releases, of contributions of norm at most 1.
      num_records: whole number >= 2, which such a description makes public.
      batch_size: whole number >= 1; below `num_records` without replacement, at most `num_records` with it.
      num_steps: whole number >= 1, the steps of the whole run. It may be left out only where `training` counts them;
        every question needs it.
      with_replacement: whether the records of a batch are drawn one by one from all records, so that one may occur
        twice.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.FixedBatches(ja.Gaussian(2.0), num_records=1000, batch_size=10, num_steps=100)
    >>> round(ja.epsilon(run, 1e-6), 3), round(ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100), 1e-6), 3)
    (0.954, 0.954)
    >>> round(ja.epsilon(run, 1e-6, neighboring_relation="replace-one"), 3)
    0.999
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "fixed batches"
    released = EVERY_STEP
    reduction = None

    mechanism: WrappedMechanism = base()
    num_records: Any = count(
        "number of records", "N", help="records in the data set", privacy=Privacy.GROWS, start=1e4, least=2
    )
    batch_size: Any = count(
        "batch size", "B", help="records in each batch", privacy=Privacy.FALLS, most_field="num_records"
    )
    num_steps: Any = count(
        "number of steps", "T", help="noisy steps of the whole run", privacy=Privacy.FALLS, default=None
    )
    with_replacement: bool = fixed(default=False)

    @property
    def room(self) -> int:  # type: ignore[override]
        """1 without replacement, where a batch of all records would be no sample; else 0."""
        return 0 if self.with_replacement else 1

    def check(self) -> None:
        super().check()
        if not isinstance(self.with_replacement, bool):
            raise ValueError(f"with_replacement={self.with_replacement!r} must be True or False")
        held = (self.batch_size, self.num_records)
        if not self.with_replacement and all(map(is_checkable, held)) and np.any(np.greater_equal(*held)):
            raise ValueError(f"batch_size={self.batch_size} must be < num_records={self.num_records}")

    def describe(self) -> str:
        drawn = "with replacement" if self.with_replacement else "without replacement"
        scheme = f"batches of {self.batch_size:.0f} of {self.num_records:.0f} records {drawn}"
        return f"{scheme}, {counted(self.num_steps, 'step')}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            "each batch is a uniformly random choice of the stated number of records, drawn afresh in each step, and "
            "stays secret; the number of records is public",
            *self.mechanism.assumptions(),
        )

    def noise_schedule(self) -> Schedule:
        found: Schedule = self.mechanism.noise_schedule()
        return found

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def poisson_at_same_rate(self) -> PoissonSampled:
        return PoissonSampled(self.mechanism, self.batch_size / self.num_records, self.num_steps)

    def sampling(self) -> Sampling:
        self.sampled_once()
        return Fixed.of(self.num_records, self.batch_size, given(self, "num_steps"), self.with_replacement)

    def releases(self, number: int) -> tuple[Parts, ...]:
        return (((dataclasses.replace(self, num_steps=number), 1),),)

    @property
    def length_given(self) -> float | None:
        return self.num_steps
