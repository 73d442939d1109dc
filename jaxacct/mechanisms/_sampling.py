"""How the records of a run's steps are drawn: stated by mechanisms, and drawn by `training.batches`."""

import dataclasses
import math
from fractions import Fraction
from typing import Any

from jaxacct._types import LastBatch
from jaxacct._validate import check_at_most, check_count, check_positive, checked_number


@dataclasses.dataclass(frozen=True)
class Sampling:
    """What all ways of drawing have in common.

    Attributes:
      period: the number of steps that are drawn together, an epoch.
      length: the number of steps in all.
      rate: probability that a record joins a step.
    """

    period: int
    length: int
    rate: float

    def cut(self, num_steps: int) -> "Sampling":
        """The same sampling with epochs of `num_steps` steps; raises ValueError unless they have that many."""
        if num_steps != self.period:
            raise ValueError(f"num_steps={num_steps} must be {self.period}, the steps that are drawn together")
        return self

    def of_records(self, number: int) -> "Sampling":
        """The same sampling for `number` records; raises ValueError if it is described for another number."""
        del number
        return self

    @property
    def largest(self) -> int | None:
        """The largest number of records in any step; None if all may join one."""
        return None


@dataclasses.dataclass(frozen=True)
class Coins(Sampling):
    """Each record joins each step independently, with probability `rate`."""

    @classmethod
    def of(cls, prob: Any, num_steps: Any) -> "Coins":
        """`num_steps` steps with that probability."""
        return cls(1, int(num_steps), float(prob))


@dataclasses.dataclass(frozen=True)
class Sets(Sampling):
    """In each epoch, each record independently joins a uniform set of `num_selected` of the `period` steps."""

    num_selected: int

    @classmethod
    def of(cls, num_steps: Any, num_selected: Any = 1, num_epochs: Any = 1, steps_done: Any = None) -> "Sets":
        """`num_epochs` epochs; if `steps_done` is given, only the first `steps_done` steps of the only one."""
        length = int(num_steps) * int(num_epochs) if steps_done is None else int(steps_done)
        return cls(int(num_steps), length, float(num_selected / num_steps), int(num_selected))


@dataclasses.dataclass(frozen=True)
class Groups(Sampling):
    """In each epoch, each record is in a uniform set of `num_selected` of `num_groups`, whose steps come in turn.

    It joins each step of its groups independently, with probability `prob`.
    """

    num_groups: int
    num_selected: int
    prob: float

    @classmethod
    def of(cls, groups: Sets, coins: Coins) -> "Groups":
        """The groups of `groups`, each with the steps of `coins`."""
        rate, period = groups.rate * coins.rate, groups.period * coins.length
        length = groups.length * coins.length
        return cls(period, length, rate, groups.period, groups.num_selected, coins.rate)


@dataclasses.dataclass(frozen=True)
class Orders(Sampling):
    """In each epoch, the `num_records` records in a uniformly random order, cut into `period` steps of one size.

    If the number of steps does not divide the number of records, `last_batch` says what happens to the rest; if it is
    None, sizes differ by one.
    """

    num_records: int | None  # None: any number
    last_batch: LastBatch | None = None

    @classmethod
    def of(cls, num_records: Any, num_epochs: Any) -> "Orders":
        """`num_epochs` epochs, each in one piece."""
        return cls(1, int(num_epochs), 1.0, int(num_records))

    @classmethod
    def of_any(cls, num_steps: Any, num_epochs: Any, last_batch: LastBatch) -> "Orders":
        """`num_epochs` epochs of `num_steps` steps each, for any number of records."""
        return cls(int(num_steps), int(num_steps) * int(num_epochs), 1.0 / float(num_steps), None, last_batch)

    def of_records(self, number: int) -> "Orders":
        if self.num_records not in (None, number):
            raise ValueError(f"num_records={number} must be num_reports={self.num_records}")
        size = self.size_for(number)
        rest = number - size * (self.period - 1)
        if self.last_batch is LastBatch.SHORT and rest < 1:
            raise ValueError(
                f"num_records={number} in {self.period} batches of {size} leaves none for the last, shorter one: "
                "num_steps must be smaller"
            )
        if self.last_batch is LastBatch.DROPPED and not size < rest <= 2 * size:
            raise ValueError(
                f"num_records={number} in num_steps={self.period} batches must leave out at least one record, and no "
                "more than a batch holds"
            )
        return dataclasses.replace(self, num_records=number)

    def size_for(self, number: int) -> int:
        """The size of the largest step for `number` records."""
        return (number - 1) // self.period if self.last_batch is LastBatch.DROPPED else math.ceil(number / self.period)

    @property
    def largest(self) -> int:
        return self.size_for(self.num_records or 0)

    def cut(self, num_steps: int) -> "Orders":
        """The same order of reports cut into any number of steps: each report has its own noise, wherever it is.

        Batches have theirs each, and how many there are is part of what is accounted for.
        """
        if self.last_batch is not None:
            return super().cut(num_steps)  # type: ignore[return-value]
        length = self.length // self.period * num_steps
        return dataclasses.replace(self, period=num_steps, length=length, rate=1.0 / num_steps)


@dataclasses.dataclass(frozen=True)
class OfPublicNumber(Sampling):
    """Steps whose law depends on the number of records, which is public: a data set of another size has another law.

    No step has more than `most` records.
    """

    num_records: int
    most: int

    def of_records(self, number: int) -> "OfPublicNumber":
        if number != self.num_records:
            raise ValueError(
                f"num_records={number} must be {self.num_records}, the num_records of the mechanism: its adjacency is "
                "that of a data set of this size, and of batches drawn from it"
            )
        return self

    @property
    def largest(self) -> int:
        return self.most


@dataclasses.dataclass(frozen=True)
class Fixed(OfPublicNumber):
    """Each step has a uniform set of `most` records; with replacement, `most` records drawn one by one from all."""

    with_replacement: bool

    @classmethod
    def of(cls, num_records: Any, batch_size: Any, num_steps: Any, with_replacement: bool) -> "Fixed":
        """`num_steps` steps."""
        rate = float(batch_size / num_records)
        return cls(1, int(num_steps), rate, int(num_records), int(batch_size), with_replacement)


@dataclasses.dataclass(frozen=True)
class CutCoins(OfPublicNumber):
    """As `Coins`, but if more than `most` records join, a uniformly random choice of `most` is kept."""

    @classmethod
    def of(cls, prob: Any, num_records: Any, max_batch_size: Any, num_steps: Any) -> "CutCoins":
        """`num_steps` steps with that probability."""
        return cls(1, int(num_steps), float(prob), int(num_records), int(max_batch_size))


def exact_sizes(dataset_size: Any, batch_size: Any, epochs: Any) -> tuple[int, Fraction, Fraction]:
    """The three sizes as exact numbers: (int, Fraction, Fraction).

    Raises:
      ValueError: unless `dataset_size` is a whole number >= 1, the others are numbers > 0, and `batch_size` is at most
        `dataset_size`.
    """
    for name, value in (("dataset_size", dataset_size), ("batch_size", batch_size), ("epochs", epochs)):
        checked_number(name, value)
    check_count("dataset_size", dataset_size)
    check_positive("batch_size", batch_size)
    check_at_most("batch_size", batch_size, "dataset_size", dataset_size)
    check_positive("epochs", epochs)
    return int(dataset_size), Fraction(float(batch_size)), Fraction(float(epochs))
