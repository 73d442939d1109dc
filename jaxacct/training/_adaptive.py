"""Clipping norms that adapt to the gradients, by also releasing how many gradients were within the norm."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from jaxacct._validate import check_positive, check_probability, checked_number
from jaxacct.training._noise import checked_clip, rounded_up

_FARTHEST = 2.0**30  # how far a clipping norm may go from where it began
_UP = 1.0 + 2.0**-40  # rounds up a quotient with a root


@dataclasses.dataclass(frozen=True)
class AdaptiveClipping:
    """A clipping norm that follows a quantile of the records' gradient norms, at no privacy cost beyond the run's.

    Andrew, Thakkar, McMahan & Ramaswamy 2021, "Differentially private learning with adaptive clipping" (arXiv
    1905.03871). Each step also releases how many records were within the norm, as a sum of +1/2 for those that were and
    -1/2 for those that were not, plus N(0, count_noise^2). A record moves this sum by 1/2; with ones and zeros it would
    move the sum by 1, and twice the noise would be needed. The two releases of one batch together are as private as one
    with noise multiplier sigma, where

        1/sigma^2 = 1/sigma_gradients^2 + 1/(2 count_noise)^2

    (Theorem 1 there; see `Composed` inside `PoissonSampled` for why it holds under sampling). The gradients therefore
    get more noise, so that `run`, with its sigma, describes both releases. The norm is then updated by
    norm <- norm exp(-learning_rate (share - quantile)).

    Args:
      initial: the first clipping norm, in [2^-64, 2^64].
      quantile: in [0, 1], the share of records that should be within the norm.
      learning_rate: > 0.
      count_noise: standard deviation of the noise on the sum of halves, in records; None for a twentieth of the batch
        size, as in the paper. It must be more than half of the run's noise multiplier.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=100)
    >>> clip = training.AdaptiveClipping(initial=0.1, count_noise=5.0)
    >>> noise = training.private_aggregate(run, l2_norm_clip=clip, key=0, batch_size=100)   # epsilon is that of `run`
    """

    initial: float
    quantile: float = 0.5
    learning_rate: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        checked_clip("initial", self.initial)
        check_probability("quantile", checked_number("quantile", self.quantile))
        check_positive("learning_rate", checked_number("learning_rate", self.learning_rate))
        if self.count_noise is not None:
            check_positive("count_noise", checked_number("count_noise", self.count_noise))

    def noise_of_count(self, batch_size: float) -> float:
        """Standard deviation of the noise on the sum of halves, rounded up to a float32."""
        return rounded_up(batch_size / 20.0 if self.count_noise is None else float(self.count_noise))

    def of_gradients(self, noise: float, batch_size: float) -> float:
        """The noise multiplier for the gradients of a release whose combined multiplier is `noise`, rounded up."""
        of_count = 2.0 * self.noise_of_count(batch_size)
        if of_count <= noise:
            raise ValueError(
                f"count_noise={of_count / 2.0!r} must be > {noise / 2.0!r}, half of the noise multiplier of the run: "
                "otherwise the count alone would reveal more than the run"
            )
        ratio = noise / of_count
        return noise / math.sqrt((1.0 - ratio) * (1.0 + ratio)) * _UP

    def moved(self, clip: jax.Array, share: jax.Array) -> jax.Array:
        """The next clipping norm."""
        step = jnp.float32(-self.learning_rate) * (share - jnp.float32(self.quantile))
        least, most = jnp.float32(self.initial / _FARTHEST), jnp.float32(self.initial * _FARTHEST)
        return jnp.clip(clip * jnp.exp(step), least, most)
