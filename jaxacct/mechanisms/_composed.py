"""Several runs on the same data."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._validate import check_count, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Composed:
    """Adaptive composition: each of `mechanisms` run as often as `counts` says.

    Args:
      mechanisms: one mechanism, or a sequence of them.
      counts: whole number >= 1 for each mechanism, as a tuple or list (one number is shared by all). An array is a
        batch of the count of one mechanism.

    Raises:
      ValueError: if there is no mechanism, a count is out of range, or several mechanisms share an array of counts.

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
        if len(mechanisms) > 1 and not isinstance(self.counts, tuple | list) and np.ndim(self.counts):
            wanted = f"a tuple, one entry for each of the {len(mechanisms)} mechanisms, or one number"
            raise ValueError(f"counts={self.counts!r} must be {wanted}: an array is a batch")
        for count in counts:
            check_count("counts", count)
        object.__setattr__(self, "mechanisms", mechanisms)
        object.__setattr__(self, "counts", counts)

    def in_domain(self) -> jax.Array:
        """Whether the counts are in range, elementwise (for traced fields, which cannot raise)."""
        return functools.reduce(jnp.logical_and, (is_count(count) for count in self.counts))
