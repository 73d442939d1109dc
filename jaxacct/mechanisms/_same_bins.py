"""Balls in bins with bins drawn once for several cycles: equals one epoch of random allocation with less noise."""

import dataclasses
from typing import Any

from jaxacct.mechanisms._base import Parts, description
from jaxacct.mechanisms._fields import fixed
from jaxacct.mechanisms._gaussian import Gaussian
from jaxacct.mechanisms._random_allocation import RandomAllocation
from jaxacct.mechanisms._sampling import Coins, Groups, Sampling, Sets
from jaxacct.mechanisms._schedules import Schedule, not_accumulated

_ROUND_DOWN = 1.0 - 2.0**-51  # a quotient, a root and a product
_ROUND_UP = 1.0 + 2.0**-50  # undoes that, with as many roundings again


@description
class SameBins(RandomAllocation):
    """The epoch that equals `num_cycles` cycles of `num_steps` steps where a record joins the same step of each.

    `mechanism` is a `Gaussian` with the noise of a step divided by sqrt(num_cycles): the likelihood ratio of a bin is
    the product of those of its steps. It is analysed and written as that `RandomAllocation`; what differs is the number
    of noise releases of the run, num_cycles * num_steps, and how its batches are drawn.

    >>> from jaxacct import Gaussian
    >>> from jaxacct.mechanisms._same_bins import SameBins
    >>> SameBins.of(Gaussian(2.0), num_steps=100, num_cycles=4).releases_per_epoch
    400
    """

    num_cycles: Any = fixed(default=1)

    @classmethod
    def of(cls, step: Gaussian, num_steps: int, num_cycles: int) -> RandomAllocation:
        """The epoch for a run of steps with the noise of `step`; for one cycle a plain `RandomAllocation`."""
        if num_cycles == 1:
            return RandomAllocation(step, num_steps)
        noise = Gaussian(step.noise_multiplier / num_cycles**0.5 * _ROUND_DOWN)
        return cls(noise, num_steps, num_cycles=num_cycles)

    def signature(self) -> tuple[type, ...]:
        """The signature of a `RandomAllocation`."""
        return self._plain().signature()

    def source(self) -> str:
        """The code of a `RandomAllocation`."""
        return self._plain().source()

    def parameters(self) -> dict[str, Any]:
        """The parameters of a `RandomAllocation`."""
        return self._plain().parameters()

    def sampling(self) -> Sampling:
        """Groups of records, whose steps come in turn; the records of a group join each of its steps for certain."""
        return Groups.of(Sets.of(self.num_steps, self.num_selected, self.num_epochs), Coins.of(1.0, self.num_cycles))

    def noise_schedule(self) -> Schedule:
        """The noise of a single step; a record joins one in each cycle."""
        [(noise, count)] = self.mechanism.noise_schedule()
        return ((noise * self.num_cycles**0.5 * _ROUND_UP, count),)

    def accumulated(self, batches: int) -> RandomAllocation:
        raise not_accumulated(self, batches)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Whole runs, drawn afresh; for an unfinished first run the cycles begun, or its first steps."""
        finished, steps_done = divmod(number, self.releases_per_epoch)
        if finished or not steps_done:
            return (self.epochs(finished + bool(steps_done)),)
        cycles = -(-steps_done // int(self.num_steps))
        if cycles == self.num_cycles:
            return (self.epochs(1),)
        noise = Gaussian(self.mechanism.noise_multiplier * (self.num_cycles / cycles) ** 0.5 * _ROUND_DOWN)
        begun = dataclasses.replace(self._plain(), mechanism=noise)
        return begun.releases(steps_done) if cycles == 1 else (begun.epochs(1),)

    def epochs(self, number: int) -> Parts:
        return self._plain().epochs(number)

    @property
    def releases_per_epoch(self) -> int:
        return int(self.num_steps) * int(self.num_cycles)

    def partial_epoch_releases(self, epochs: int) -> int:
        """All but the last of the first run; a later run is charged whole."""
        return 0 if epochs else self.releases_per_epoch - 1

    def _plain(self) -> RandomAllocation:
        held = {field.name: getattr(self, field.name) for field in dataclasses.fields(RandomAllocation)}
        return RandomAllocation(**held)
