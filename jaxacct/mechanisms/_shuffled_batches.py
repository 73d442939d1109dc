"""Batches cut from a shuffled list of the records: what most data loaders do."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, Participation, Parts, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count
from jaxacct.mechanisms._poisson_sampled import PoissonSampled
from jaxacct.mechanisms._sampling import Orders, Sampling
from jaxacct.mechanisms._words import EVERY_STEP, counted, epochs


@description
class ShuffledBatches(Mechanism):
    """`num_epochs` epochs: the records in a random order are cut into `num_steps` batches, one for each step.

    What most data loaders do, and what is often accounted for as Poisson sampling, which it is not: whoever knows the
    other records knows what each batch would be without the one in question. No amplification is proved: the upper end
    is that of a record whose batch is known in every epoch. The lower end is certified by a test, "largest output", of
    explicit data. Batches have fixed sizes, at least 2. Adjacency: one record is replaced by the empty record, which
    contributes nothing.

    Args:
      mechanism: `Gaussian`: what one step releases, of contributions of norm at most 1.
      num_steps: whole number >= 1, batches of one epoch.
      num_epochs: whole number >= 1, each with an order of its own.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> found = ja.epsilon_interval(ja.ShuffledBatches(ja.Gaussian(1.0), num_steps=1000), target_delta=1e-6)
    >>> round(found.lower, 2), round(found.upper, 2)
    (3.72, 4.89)
    >>> round(ja.epsilon(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000), target_delta=1e-6), 2)
    0.17
    """

    relation = NeighboringRelation.REPLACE_SPECIAL
    scheme = "shuffled batches"
    released = EVERY_STEP
    reduction = "each record's batch known to the adversary"

    mechanism: WrappedMechanism = base()
    num_steps: Any = count(
        "number of steps", "T", help="batches of one epoch", privacy=Privacy.GROWS, start=1000.0, highest=2.0**40
    )
    num_epochs: Any = count(
        "number of epochs", "E", help="epochs, each in a new order", privacy=Privacy.FALLS, default=1
    )

    def describe(self) -> str:
        scheme = f"{counted(self.num_steps, 'batch', 'batches')} of records in a shuffled order"
        return f"{scheme}{epochs(self.num_epochs)}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            "the records are shuffled afresh in every epoch and cut into batches of fixed sizes, which may be known; "
            "the order stays secret; an empty record contributes nothing",
            *self.mechanism.assumptions(),
        )

    def loses_nothing(self) -> bool:
        return bool(self.mechanism.loses_nothing())

    def poisson_at_same_rate(self) -> PoissonSampled:
        return PoissonSampled(self.mechanism, 1.0 / self.num_steps, self.num_steps * self.num_epochs)

    def participation(self) -> Participation:
        return Participation(self.num_steps * self.num_epochs, self.num_epochs, dispersion=0.0)

    def sampling(self) -> Sampling:
        self.sampled_once()
        return Orders.of_any(self.num_steps, self.num_epochs)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Whole epochs: an epoch begun is an epoch spent, since a record may be in the first batch."""
        return (self.epochs(-(-number // self.releases_per_epoch)),)

    @property
    def releases_per_epoch(self) -> int:
        return int(self.num_steps)
