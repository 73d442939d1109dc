"""What a run may release, and what each step costs, both decided before training from public numbers alone."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct import training
from jaxacct._validate import check_count
from jaxacct.accounting import epsilon
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.special import shown


@dataclasses.dataclass(frozen=True)
class Settings:
    """What defines a run: all of it is public but the seed, which stands for the randomness that must stay secret.

    Args:
      target_epsilon: float > 0, the budget.
      target_delta: float in (0, 1).
      noise_multiplier: float > 0, standard deviation of the noise on the sum, divided by the clipping norm.
      num_steps: whole number >= 1, steps in one epoch.
      num_selected: whole number in [1, num_steps], steps that a record joins in one epoch.
      num_epochs: whole number >= 1, the most epochs to train for; None for as many as the budget affords.
      seed: whole number in [0, 2^31).

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct.demo import Settings
    >>> Settings(noise_multiplier=3.0).allocation(num_epochs=5)
    RandomAllocation(mechanism=Gaussian(noise_multiplier=3.0), num_steps=20, num_selected=1, num_epochs=5)
    """

    target_epsilon: float = 2.0
    target_delta: float = 1e-5
    noise_multiplier: float = 2.0
    num_steps: int = 20
    num_selected: int = 1
    num_epochs: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.allocation()
        if self.num_epochs is not None:
            check_count("num_epochs", self.num_epochs)
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**31:
            raise ValueError(f"seed={self.seed!r} must be a whole number in [0, {2**31 - 1}]")

    def allocation(self, num_epochs: Any = 1) -> RandomAllocation:
        """`num_epochs` epochs of this run, as a mechanism; with an array, several mechanisms at once."""
        return RandomAllocation(Gaussian(self.noise_multiplier), self.num_steps, self.num_selected, num_epochs)


class Plan(NamedTuple):
    """The length of a run, and epsilon after each number of epochs begun (entry 0: nothing was released)."""

    run: training.Epoch  # what is drawn, noised and stated; an epoch costs its whole price as soon as it is begun
    num_epochs: int
    affordable: int  # noise releases within the budget, a whole number of epochs
    epsilons: NDArray[Any]  # float64 [num_epochs + 1]

    @property
    def max_releases(self) -> int:
        """The number of noise releases of the whole run, after which the guard stops it."""
        return self.num_epochs * self.run.num_steps

    def spent(self, count: int) -> float:
        """Epsilon of `count` noise releases, from the table."""
        return float(self.epsilons[-(-count // self.run.num_steps)])


def make_plan(settings: Settings) -> Plan:
    """The plan of a run, computed once; raises ValueError if the budget does not afford one epoch."""
    epoch = training.Epoch(settings.allocation(), settings.num_steps)
    affordable = training.steps_affordable(epoch, settings.target_epsilon, settings.target_delta)
    if not affordable:
        raise ValueError(
            f"target_epsilon={settings.target_epsilon} must be >= "
            f"{shown(epsilon(epoch.mechanism, settings.target_delta))}, what one epoch costs at "
            f"noise_multiplier={settings.noise_multiplier}: raise either, or the steps of an epoch"
        )
    num_epochs = affordable // settings.num_steps
    if settings.num_epochs is not None:
        num_epochs = min(num_epochs, settings.num_epochs)
    table = epsilon(settings.allocation(np.arange(1, num_epochs + 1)), settings.target_delta)
    run = training.Epoch(settings.allocation(num_epochs), settings.num_steps)
    return Plan(run, num_epochs, affordable, np.concatenate([[0.0], table]))
