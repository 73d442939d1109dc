"""One table of every public kind of mechanism and local randomizer, for properties that are stated over all of them."""

from typing import Any, NamedTuple

import numpy as np

import jaxacct as ja
from jaxacct.mechanisms._base import Mechanism, Randomizer
from jaxacct.mechanisms._fields import FieldSpec, _paths, spec_at

GAUSSIAN, LOCAL = ja.Gaussian(2.0), ja.LocalRandomizer(1.0)


def half(loss: Any) -> Any:
    """The distribution function of a pair that loses nothing."""
    return 0.5 + 0.0 * loss


def logistic(place: Any) -> Any:
    """The log density of logistic noise."""
    return -2.0 * np.logaddexp(0.5 * place, -0.5 * place)


EXAMPLES = {
    ja.Gaussian: GAUSSIAN,
    ja.Laplace: ja.Laplace(2.0),
    ja.DiscretePair: ja.DiscretePair((0.75, 0.25), (0.25, 0.75)),
    ja.RandomizedResponse: ja.RandomizedResponse(1.0, 4),
    ja.EpsilonDelta: ja.EpsilonDelta(1.0, 1e-9),
    ja.DiscreteLaplace: ja.DiscreteLaplace(0.5, 3),
    ja.DiscreteGaussian: ja.DiscreteGaussian(2.0, 1),
    ja.Skellam: ja.Skellam(4.0, 1),
    ja.Exponential: ja.Exponential(1.0),
    ja.PermuteAndFlip: ja.PermuteAndFlip(0.5),
    ja.ZCdp: ja.ZCdp(0.1, 0.01),
    ja.AboveThreshold: ja.AboveThreshold(2.0, 8.0, 2),
    ja.GaussianAboveThreshold: ja.GaussianAboveThreshold(8.0, 16.0, 100, 2),
    ja.PrivateSelection: ja.PrivateSelection(GAUSSIAN, 10.0, 0.5),
    ja.MixtureOfGaussians: ja.MixtureOfGaussians(2.0, (0.0, 1.0, 2.0), (0.8, 0.15, 0.05)),
    ja.Group: ja.Group(ja.PoissonSampled(GAUSSIAN, 0.1, 7), 3),
    ja.ReplaceOne: ja.ReplaceOne(ja.PoissonSampled(GAUSSIAN, 0.1, 7)),
    ja.ZeroOut: ja.ZeroOut(ja.PoissonSampled(GAUSSIAN, 0.1, 7)),
    ja.FixedBatches: ja.FixedBatches(GAUSSIAN, 100, 10, 7),
    ja.TruncatedPoisson: ja.TruncatedPoisson(GAUSSIAN, 0.1, 100, 20, 7),
    ja.ParallelPoisson: ja.ParallelPoisson(GAUSSIAN, 0.1, 3, 7),
    ja.ContinuousPair: ja.ContinuousPair(half, half, half, half, lowest=-1.0, highest=1.0),
    ja.PoissonSampled: ja.PoissonSampled(GAUSSIAN, 0.1, 7),
    ja.BallsInBins: ja.BallsInBins([1.0, 0.5], 4.0, 60, 3),
    ja.RandomAllocation: ja.RandomAllocation(GAUSSIAN, 100, 3, 2),
    ja.PartialAllocation: ja.PartialAllocation(GAUSSIAN, 100, 10),
    ja.ShuffledBatches: ja.ShuffledBatches(ja.Gaussian(1.0), 100, 2),
    ja.PartialShuffledBatches: ja.PartialShuffledBatches(ja.Gaussian(1.0), 100, 20),
    ja.ScheduledAllocation: ja.ScheduledAllocation((2.0, 1.0), (100, 300), 2),
    ja.Shuffled: ja.Shuffled(LOCAL, 1000, 2),
    ja.CheckIn: ja.CheckIn(LOCAL, 1000, 0.1, 2, 0.05),
    ja.Composed: ja.Composed((GAUSSIAN, ja.PoissonSampled(GAUSSIAN, 0.1, num_steps=1)), (2, 3)),
    ja.Pld: ja.Pld(0.0, 0.5, np.ones(1), 0.0, ja.Bound.UPPER, ja.Direction.REMOVE),
    ja.LocalRandomizer: ja.LocalRandomizer(1.0, 1e-9),
    ja.KaryRandomizedResponse: ja.KaryRandomizedResponse(1.0, 3),
    ja.GaussianReports: ja.GaussianReports(4.0),
    ja.LaplaceReports: ja.LaplaceReports(2.0),
    ja.DensityReports: ja.DensityReports(logistic, 2.0),
    ja.FiniteRandomizer: ja.FiniteRandomizer([[0.75, 0.25], [0.25, 0.75]]),
}
"""One of each kind."""
MECHANISMS = [kind for kind in EXAMPLES if issubclass(kind, Mechanism)]
RANDOMIZERS = [kind for kind in EXAMPLES if issubclass(kind, Randomizer)]
TREES = [kind for kind in EXAMPLES if kind is not ja.Pld]  # that one has no leaves, and equals itself alone

ASKED = {kind.__name__: EXAMPLES[kind] for kind in MECHANISMS} | {
    f"Shuffled({kind.__name__})": ja.Shuffled(EXAMPLES[kind], 1000) for kind in RANDOMIZERS
}
"""What questions are asked about: every mechanism, and every randomizer shuffled."""
_ON_HOST = (
    *("ContinuousPair", "Pld", "MixtureOfGaussians", "DiscretePair", "DiscreteLaplace"),
    *("Group", "ReplaceOne", "ZeroOut", "FixedBatches", "TruncatedPoisson", "Skellam", "BallsInBins"),
    *("ParallelPoisson", "Shuffled(DensityReports)"),
)
TRACED = {name: mechanism for name, mechanism in ASKED.items() if name not in _ON_HOST}
"""Those of which traced programs know as much as single questions: others have loss distributions, or sums."""


class Field(NamedTuple):
    """A field of numbers of a mechanism, or of what it wraps."""

    name: str
    keys: tuple[Any, ...]
    value: Any
    spec: FieldSpec


def fields_of(mechanism: Any) -> list[Field]:
    """Every field of numbers of a mechanism and of what it wraps."""
    found: list[Field] = []
    for name, keys in _paths(mechanism):
        if any(known.keys == keys for known in found):  # under another name
            continue
        value = mechanism
        for key in keys:
            value = value[key] if isinstance(key, int) else getattr(value, key)
        found.append(Field(name, keys, value, spec_at(mechanism, keys)))
    return found
