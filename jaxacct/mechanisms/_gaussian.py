"""The Gaussian mechanism."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct._validate import check_positive


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian:
    """One release of a sum of vectors of norm at most C, plus N(0, (noise_multiplier C)^2 I).

    Adjacency: add or remove one record. Tightly dominated, in any dimension, by N(1, sigma^2) against
    N(0, sigma^2), sigma the noise multiplier.

    Args:
      noise_multiplier: float > 0, noise standard deviation over the clipping norm.

    Raises:
      ValueError: if `noise_multiplier` is not positive and finite.

    >>> from jaxacct import Gaussian
    >>> Gaussian(noise_multiplier=1.1)
    Gaussian(noise_multiplier=1.1)
    """

    noise_multiplier: Any

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)

    def in_domain(self) -> jax.Array:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        return (self.noise_multiplier > 0) & (self.noise_multiplier < jnp.inf)
