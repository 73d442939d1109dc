"""Epochs whose noise changes, and unfinished ones: the phases behind the average X = (1/t) sum Y_i.

The t steps of an epoch come in phases of n_j steps with noise multiplier sigma_j. Steps not yet done reveal nothing:
their Y_i is the constant 1 and is left out of the sums, so that t may exceed the sum of the n_j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxacct.special import LEAST_NORMAL, down
from jaxacct.special._namespace import xp


class Phases(NamedTuple):
    """Phases of equal noise, with their numbers of steps done, for L lanes; plain numbers for one lane on the host."""

    noise_multipliers: tuple[Any, ...]  # [L] for each phase: sigma_j
    counts: tuple[Any, ...]  # [L] for each phase: n_j, steps done with that noise
    num_steps: Any  # [L]: t, steps of the whole epoch

    @property
    def is_whole(self) -> bool:
        """Whether the epoch is known to be a single phase of all steps."""
        return len(self.counts) == 1 and self.counts[0] is self.num_steps

    @property
    def mean_precision(self) -> Any:
        """Mean [L] of 1/sigma^2 over the epoch's t steps, with 0 for those not done.

        The geometric mean of all t ratios has the logarithm -mean/2 on average.
        """
        parts = [n / self.num_steps / (s * s) for s, n in zip(self.noise_multipliers, self.counts, strict=True)]
        return sum(parts[1:], start=parts[0])

    @property
    def mean_noise(self) -> Any:
        """The noise multiplier [L], rounded down, with which all t steps would have the same geometric mean."""
        if self.is_whole:
            return self.noise_multipliers[0]
        # no noise multiplier is below the least normal double, hence neither is the one for all steps
        return xp.maximum(down(1.0 / xp.sqrt(self.mean_precision), 8), LEAST_NORMAL)


def whole_epoch(noise_multiplier: Any, num_steps: Any) -> Phases:
    """`Phases` (a class) of one phase, all of whose steps are done."""
    return Phases((noise_multiplier,), (num_steps,), num_steps)
