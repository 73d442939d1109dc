"""An unfinished epoch of random allocation."""

import dataclasses
from typing import Any

import jax

from jaxacct._validate import check_at_most, check_count, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PartialAllocation:
    """The first `steps_done` of an epoch of `num_steps` runs of `mechanism`; each record joins one uniform step of all.

    What an adversary has seen in mid-epoch, for whom the step of a record may be still to come. Adjacency: add or
    remove one record. Finished epochs are a `RandomAllocation`; `Composed` puts both together.

    Args:
      mechanism: what one step releases, e.g. `Gaussian`.
      num_steps: whole number >= 1, steps t in the epoch.
      steps_done: whole number in [1, num_steps].

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, PartialAllocation
    >>> PartialAllocation(Gaussian(0.8), num_steps=1000, steps_done=250).steps_done
    250
    """

    mechanism: Any
    num_steps: Any
    steps_done: Any

    def __post_init__(self) -> None:
        check_count("num_steps", self.num_steps)
        check_count("steps_done", self.steps_done)
        check_at_most("steps_done", self.steps_done, "num_steps", self.num_steps)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return is_count(self.num_steps) & is_count(self.steps_done) & (self.steps_done <= self.num_steps)
