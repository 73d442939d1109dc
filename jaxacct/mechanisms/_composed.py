"""Several runs on the same data."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct._validate import check_count, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Composed:
    """Adaptive composition: each of `mechanisms` run as often as `counts` says.

    Args:
      mechanisms: one mechanism, or a sequence of them.
      counts: whole number >= 1 for each mechanism (a scalar is shared by all).

    Raises:
      ValueError: if there is no mechanism, or a count is out of range.

    >>> from jaxacct import Gaussian, Composed
    >>> Composed(Gaussian(2.0), 10)
    Composed(mechanisms=(Gaussian(noise_multiplier=2.0),), counts=(10,))
    """

    mechanisms: Any
    counts: Any = 1

    def __post_init__(self) -> None:
        several = isinstance(self.mechanisms, tuple | list)
        mechanisms = tuple(self.mechanisms) if several else (self.mechanisms,)
        if not mechanisms:
            raise ValueError("mechanisms=() must name at least one mechanism")
        counts = tuple(self.counts) if isinstance(self.counts, tuple | list) else (self.counts,) * len(mechanisms)
        if len(counts) != len(mechanisms):
            raise ValueError(f"counts has {len(counts)} entries; must be one for each of {len(mechanisms)} mechanisms")
        for count in counts:
            check_count("counts", count)
        object.__setattr__(self, "mechanisms", mechanisms)
        object.__setattr__(self, "counts", counts)

    def in_domain(self) -> jax.Array:
        """Whether the counts are in range, elementwise (for traced fields, which cannot raise)."""
        return functools.reduce(jnp.logical_and, (is_count(count) for count in self.counts))
