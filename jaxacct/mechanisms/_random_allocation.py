"""Random allocation: each record in k of t steps."""

import dataclasses
from typing import Any

import jax

from jaxacct._validate import check_at_most, check_count, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomAllocation:
    """`num_epochs` epochs of `num_steps` runs of `mechanism`; in each, a record joins a uniform set of `num_selected`.

    Also known as balls and bins (num_selected = 1). Sets are drawn afresh in every epoch, independently
    for each record. Adjacency: add or remove one record.

    Args:
      mechanism: what one step releases, e.g. `Gaussian`.
      num_steps: whole number >= 1, steps t in one epoch.
      num_selected: whole number in [1, num_steps], steps k that a record joins in one epoch.
      num_epochs: whole number >= 1.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, RandomAllocation
    >>> RandomAllocation(Gaussian(0.8), num_steps=1000, num_epochs=10).num_selected
    1
    """

    mechanism: Any
    num_steps: Any
    num_selected: Any = 1
    num_epochs: Any = 1

    def __post_init__(self) -> None:
        check_count("num_steps", self.num_steps)
        check_count("num_selected", self.num_selected)
        check_count("num_epochs", self.num_epochs)
        check_at_most("num_selected", self.num_selected, "num_steps", self.num_steps)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        counts = is_count(self.num_steps) & is_count(self.num_selected) & is_count(self.num_epochs)
        return counts & (self.num_selected <= self.num_steps)
