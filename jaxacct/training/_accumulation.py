"""Releases of several sampled batches, added up before the noise."""

from typing import Any

from jaxacct._validate import checked_whole
from jaxacct.mechanisms._base import Mechanism, Parts
from jaxacct.training._batches import Batches
from jaxacct.training._noise import Phase, phases_of

MOST_BATCHES = 512  # in one release: each number of batches that a record may be in is listed


def accumulated(run: Mechanism | Batches, *, batches: int) -> Mechanism:
    """The mechanism in which each noise release covers `batches` sampled batches of `run`, added up before the noise.

    This is what ``optax.MultiSteps(count_releases(noise), batches, use_grad_mean=False)`` releases; the noise
    multiplier is the standard deviation of the noise divided by the clipping norm of one record in one batch. Under
    Poisson sampling with probability q, a record is in Binomial(batches, q) of the batches, and contributes as many
    clipping norms: a `MixtureOfGaussians`. Under random allocation of one step an epoch, with or without a schedule, it
    is in one of num_steps / batches releases.

    One sampled batch that is cut into pieces is not such a release, but one of `run` itself: see `private_gradients`.

    Args:
      run: the mechanism whose batches are drawn, or the batches.
      batches: whole number in [1, 512], which divides the number of steps of `run`.

    Returns:
      A mechanism with one step for each noise release.

    Raises:
      ValueError: if `batches` is out of range or does not divide the number of steps, or if no analysis of such
        releases is known: for noise other than Gaussian, several steps an epoch, or batches of a fixed size.

    >>> import jaxacct as ja
    >>> from jaxacct import training
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=40)
    >>> round(ja.epsilon(training.accumulated(run, batches=4), target_delta=1e-5), 3)        # ten releases
    1.76
    >>> training.accumulated(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100), batches=4).num_steps
    25
    """
    [phase] = phases_of(run)
    number = checked_whole("batches", batches, 1, MOST_BATCHES)
    described: Any = phase.mechanism if isinstance(phase, Batches) else phase
    if not isinstance(described, Mechanism):
        raise ValueError(f"run={run!r} must be a mechanism whose batches are drawn, or the batches")
    return described if number == 1 else described.accumulated(number)


def ways_of(phase: Phase, count: int, batches: int) -> tuple[Parts, ...]:
    """Alternative descriptions of the first `count` releases of `batches` batches each; each is valid by itself."""
    ways = phase.releases(count * batches)
    if batches == 1:
        return ways

    def held(part: Mechanism, times: Any) -> tuple[Mechanism, Any]:
        return part.accumulated(batches), times // batches if part.takes_all else times

    return tuple(tuple(held(*part) for part in way) for way in ways)
