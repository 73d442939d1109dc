"""Poisson-sampled training on several workers, each of which samples for itself."""

from typing import Any

from jaxacct._types import NeighboringRelation
from jaxacct.mechanisms._base import Mechanism, WrappedMechanism, description
from jaxacct.mechanisms._fields import Privacy, base, count, probability
from jaxacct.mechanisms._words import EVERY_STEP, counted


@description
class ParallelPoisson(Mechanism):
    """`num_steps` steps, in each of which `num_workers` workers draw from the *same* records, each by itself.

    A record that several of them draw contributes once for each of them: the number of times is binomial, and what the
    record adds to the sum over all workers has a norm of at most that number (`MixtureOfGaussians`). If every worker
    has records of its own, only one worker can draw a record, and the run is `PoissonSampled`. If workers share the
    random key of their draws, a record is drawn by all or by none, which is `PoissonSampled` with the noise divided by
    `num_workers`. Adjacency: add or remove one record.

    Args:
      mechanism: `Gaussian`: the noise on the sum over all workers, over the clipping norm of one contribution.
      sampling_prob: float in [0, 1], the probability that a given worker draws a given record in a given step.
      num_workers: whole number >= 1.
      num_steps: whole number >= 1.

    Raises:
      ValueError: if a field is out of range.

    >>> import jaxacct as ja
    >>> run = ja.ParallelPoisson(ja.Gaussian(2.0), sampling_prob=0.01, num_workers=4, num_steps=100)
    >>> shared = ja.PoissonSampled(ja.Gaussian(2.0 / 4), sampling_prob=0.01, num_steps=100)
    >>> round(ja.epsilon(run, 1e-6), 3), round(ja.epsilon(shared, 1e-6), 3)
    (1.016, 7.916)
    """

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    scheme = "Poisson sampling by several workers"
    released = EVERY_STEP
    reduction = None

    mechanism: WrappedMechanism = base()
    sampling_prob: Any = probability(
        "sampling probability", "Q", help="probability to be drawn by one worker", privacy=Privacy.FALLS
    )
    num_workers: Any = count("number of workers", "W", help="workers that draw", privacy=Privacy.FALLS, start=8.0)
    num_steps: Any = count("number of steps", "T", help="steps in all", privacy=Privacy.FALLS)

    def describe(self) -> str:
        drawn = f"{counted(self.num_workers, 'worker')}, each of which draws with probability {self.sampling_prob:.6g}"
        return f"Poisson sampling by {drawn}, {counted(self.num_steps, 'step')}; {self.mechanism.describe()}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            "each worker draws each record in each step with the stated probability, independently of the other "
            "records and of the other workers (no two share a key), and who was drawn stays secret",
            *self.mechanism.assumptions(),
        )

    def loses_nothing(self) -> bool:
        return bool(self.sampling_prob == 0) or self.mechanism.loses_nothing()
