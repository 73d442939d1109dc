"""What one release reveals: the laws from which the loss distributions of every scheme are made.

A *release* is what one step outputs when every record takes part: Gaussian noise, Laplace noise, a discrete or a
continuous pair of distributions, or a privacy loss distribution. A *law* is the distribution of its likelihood ratio
(`jaxacct.bounds.bases._base`). To add a release, add a file here and a line to the table.
"""

import functools
from typing import Any

from jaxacct.bounds.bases import (
    _continuous,
    _discrete,
    _exponential,
    _few_outputs,
    _gaussian,
    _known,
    _laplace,
    _mixture,
    _sampled,
)
from jaxacct.bounds.bases._base import Base, law_of, spread_of
from jaxacct.curves import Pld
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.mechanisms import (
    AboveThreshold,
    ContinuousPair,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    EpsilonDelta,
    Exponential,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PartialAllocation,
    PermuteAndFlip,
    PoissonSampled,
    RandomAllocation,
    RandomizedResponse,
    Skellam,
)

BASES: dict[type, Base] = {
    AboveThreshold: _few_outputs.ABOVE_THRESHOLD,
    ContinuousPair: _continuous.BASE,
    DiscreteGaussian: _few_outputs.DISCRETE_GAUSSIAN,
    DiscreteLaplace: _few_outputs.DISCRETE_LAPLACE,
    DiscretePair: _discrete.BASE,
    EpsilonDelta: _few_outputs.GUARANTEE,
    Exponential: _exponential.BASE,
    Gaussian: _gaussian.BASE,
    Laplace: _laplace.BASE,
    MixtureOfGaussians: _mixture.BASE,
    PermuteAndFlip: _laplace.PERMUTE_AND_FLIP,
    Pld: _known.BASE,
    Skellam: _few_outputs.SKELLAM,
}


def base_of(release: Any) -> Base:
    """The `Base` of a release: a frozen class of functions that describe it.

    Raises:
      ValueError: if it is none of the releases that schemes can be built on.
    """
    found = BASES.get(type(release)) or _UNSAMPLED.get(type(release))
    if found is None:
        known = ", ".join(t.__name__ for t in BASES)
        raise ValueError(f"mechanism={release!r} has no privacy loss distribution here; must be one of {known}")
    return found


_UNSAMPLED = {
    PoissonSampled: _sampled.base_over(base_of),  # allocated by another scheme, its steps taken together
    RandomizedResponse: _few_outputs.RESPONSE,  # its adjacency is not that of sampled records
}


def is_from_above(mechanism: PoissonSampled | RandomAllocation | PartialAllocation) -> bool:
    """bool: whether what `mechanism` samples or allocates is known from above only, on its own grid."""
    return base_of(mechanism.mechanism).is_from_above(mechanism.mechanism)


def is_envelope(mechanism: PoissonSampled | RandomAllocation | PartialAllocation) -> bool:
    """bool: whether the pair of what `mechanism` samples or allocates is a worst case that no release need attain."""
    return base_of(mechanism.mechanism).is_envelope(mechanism.mechanism)


def law(release: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law (`RatioLaw`) of the likelihood ratio of one step of `release`, sampled with probability `sampling_prob`.

    Arguments as for `law_of`.
    """
    return law_of(base_of(release), release, sampling_prob, step, side, tail)


def law_maker(release: Any, side: Side, tail: float) -> functools.partial[RatioLaw]:
    """A function from `step` to the law of one step of `release` that is not sampled, with losses `step` apart."""
    return functools.partial(_unsampled, release, side, tail)


def _unsampled(release: Any, side: Side, tail: float, step: float) -> RatioLaw:
    return law(release, 1.0, step, side, tail)


def spread(release: Any) -> float:
    """float: approximately Var(dP/dQ) of one step, its finite part. It decides resolutions only, never a bound."""
    return spread_of(base_of(release), release)
