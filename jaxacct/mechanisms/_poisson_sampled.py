"""Poisson-sampled training."""

import dataclasses
from typing import Any

import jax

from jaxacct._validate import check_count, check_probability, is_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PoissonSampled:
    """`num_steps` runs of `mechanism`, each record joining each step with probability `sampling_prob`.

    Adjacency: add or remove one record.

    Args:
      mechanism: what one step releases, e.g. `Gaussian`.
      sampling_prob: float in [0, 1].
      num_steps: whole number >= 1.

    Raises:
      ValueError: if a field is out of range.

    >>> from jaxacct import Gaussian, PoissonSampled
    >>> PoissonSampled(Gaussian(1.0), sampling_prob=0.01, num_steps=1000).num_steps
    1000
    """

    mechanism: Any
    sampling_prob: Any
    num_steps: Any = 1

    def __post_init__(self) -> None:
        check_probability("sampling_prob", self.sampling_prob)
        check_count("num_steps", self.num_steps)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return (self.sampling_prob >= 0) & (self.sampling_prob <= 1) & is_count(self.num_steps)
