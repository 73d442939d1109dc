"""The Laplace mechanism."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct._validate import check_positive


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Laplace:
    """One release of a number of sensitivity C, plus Laplace noise of scale noise_multiplier C.

    Adjacency: add or remove one record. Dominated by Laplace(1, b) against Laplace(0, b), b the noise multiplier.

    Args:
      noise_multiplier: float > 0, scale of the noise over the sensitivity.

    Raises:
      ValueError: if `noise_multiplier` is not positive and finite.

    >>> from jaxacct import Laplace
    >>> Laplace(noise_multiplier=2.0)
    Laplace(noise_multiplier=2.0)
    """

    noise_multiplier: Any

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return (self.noise_multiplier > 0) & (self.noise_multiplier < jnp.inf)
