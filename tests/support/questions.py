"""Random questions: any mechanism, nested as far as that is allowed, ordinary and extreme fields, any target."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import LastBatch
from jaxacct.bounds import check_has_analysis
from jaxacct.mechanisms._adjacent import in_relation
from support.mechanisms import logistic


class Asked(NamedTuple):
    """A mechanism in some adjacency, and what is asked about it."""

    mechanism: Any
    query: Query
    target: float


_RARE = 0.12  # how often a field is extreme


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _noise(rng: np.random.Generator) -> float:
    return _between(rng, 1e-9, 1e9) if rng.random() < _RARE else _between(rng, 0.3, 20.0)


def _share(rng: np.random.Generator) -> float:
    if rng.random() < _RARE:
        return float(rng.choice([0.0, 1e-100, 1e-12, 1e-7, 0.5, 1.0 - 1e-12, 1.0]))
    return _between(rng, 1e-4, 1.0)


def _count(rng: np.random.Generator, most: float = 1e4, extreme: float = 2.0**40) -> int:
    return int(_between(rng, 1.0, extreme if rng.random() < _RARE else most))


def _local(rng: np.random.Generator) -> float:
    return float(rng.choice([0.0, 1e-12, 1e-3, 30.0, 700.0])) if rng.random() < _RARE else _between(rng, 0.05, 6.0)


def _law(rng: np.random.Generator, size: int) -> list[float]:
    masses = rng.random(size) ** int(rng.choice([1, 3, 20])) + 1e-12
    return (masses / masses.sum()).tolist()


def _pair(rng: np.random.Generator) -> ja.DiscretePair:
    size = int(rng.integers(2, 6))
    return ja.DiscretePair(_law(rng, size), _law(rng, size))


def _mixture(rng: np.random.Generator) -> ja.MixtureOfGaussians:
    size = int(rng.integers(1, 5))
    return ja.MixtureOfGaussians(_noise(rng), rng.random(size) * 3.0, _law(rng, size))


def _losses(rng: np.random.Generator) -> ja.ContinuousPair:
    """Gaussian noise, by the normal distributions of its losses: all but 1e-47, no delta asked back."""
    spread = 1.0 / _between(rng, 0.3, 20.0)
    return ja.ContinuousPair(
        lambda losses: ndtr(losses / spread - 0.5 * spread),
        lambda losses: ndtr(0.5 * spread - losses / spread),
        lambda losses: ndtr(losses / spread + 0.5 * spread),
        lambda losses: ndtr(-0.5 * spread - losses / spread),
        lowest=-spread * (14.5 + 0.5 * spread),
        highest=spread * (14.5 + 0.5 * spread),
        accuracy=1e-12,
    )


def _given(rng: np.random.Generator) -> ja.Pld:
    """Up to 40 losses; of those without an offset, no record is known to lose anything."""
    size = int(rng.integers(1, 40))
    step, rest = _between(rng, 1e-3, 1.0), float(rng.choice([0.0, 1e-12, 1e-6]))
    masses = (1.0 - rest) * np.array(_law(rng, size))
    low = -step * int(rng.integers(0, size)) if rng.random() < 0.7 else 0.0
    return ja.Pld(low, step, masses, rest, ja.Bound.UPPER, list(ja.Direction)[rng.integers(2)])


def _user(rng: np.random.Generator) -> ja.MixtureOfGaussians:
    records = 1 + _count(rng, 100, 511)
    most = None if rng.random() < 0.5 else int(rng.integers(1, records + 1))
    return ja.MixtureOfGaussians.of_user(_noise(rng), num_records=records, sampling_prob=_share(rng), most_records=most)


RELEASES: dict[type, Callable[[np.random.Generator], Any]] = {
    ja.Gaussian: lambda rng: ja.Gaussian(_noise(rng)),
    ja.Laplace: lambda rng: ja.Laplace(_noise(rng)),
    ja.DiscretePair: _pair,
    ja.ContinuousPair: _losses,
    ja.RandomizedResponse: lambda rng: ja.RandomizedResponse(_local(rng), 1 + _count(rng, 100)),
    ja.EpsilonDelta: lambda rng: ja.EpsilonDelta(_local(rng), float(rng.choice([0.0, 1e-12, 1e-6, 0.1]))),
    ja.DiscreteLaplace: lambda rng: ja.DiscreteLaplace(_local(rng), _count(rng, 5, 1000)),
    ja.DiscreteGaussian: lambda rng: ja.DiscreteGaussian(_between(rng, 0.2, 50.0), _count(rng, 5, 100)),
    ja.Skellam: lambda rng: ja.Skellam(_between(rng, 0.2, 500.0), _count(rng, 5, 100)),
    ja.Exponential: lambda rng: ja.Exponential(_local(rng)),
    ja.PermuteAndFlip: lambda rng: ja.PermuteAndFlip(_local(rng)),
    ja.ZCdp: lambda rng: ja.ZCdp(_between(rng, 1e-6, 10.0), float(rng.choice([0.0, 0.01, 1.0]))),
    ja.MixtureOfGaussians: lambda rng: _user(rng) if rng.random() < 0.4 else _mixture(rng),
    ja.Pld: _given,
    ja.AboveThreshold: lambda rng: ja.AboveThreshold(
        _between(rng, 0.2, 50.0), _between(rng, 0.2, 50.0), _count(rng, 5, 100), monotonic=bool(rng.random() < 0.5)
    ),
    ja.GaussianAboveThreshold: lambda rng: ja.GaussianAboveThreshold(
        _between(rng, 0.5, 50.0), _between(rng, 0.5, 50.0), _count(rng, 50, 10_000), _count(rng, 5, 100)
    ),
}
RANDOMIZERS: dict[type, Callable[[np.random.Generator], Any]] = {
    ja.LocalRandomizer: lambda rng: ja.LocalRandomizer(_local(rng), float(rng.choice([0.0, 0.0, 1e-12, 1e-6]))),
    ja.KaryRandomizedResponse: lambda rng: ja.KaryRandomizedResponse(_local(rng), 1 + _count(rng, 10)),
    ja.GaussianReports: lambda rng: ja.GaussianReports(_noise(rng)),
    ja.LaplaceReports: lambda rng: ja.LaplaceReports(_noise(rng)),
    ja.DensityReports: lambda rng: ja.DensityReports(logistic, _between(rng, 0.3, 20.0)),
    ja.FiniteRandomizer: lambda rng: ja.FiniteRandomizer([_law(rng, 3), _law(rng, 3)]),
}


def _one_of(rng: np.random.Generator, makers: dict[type, Callable[[np.random.Generator], Any]]) -> Any:
    return list(makers.values())[rng.integers(len(makers))](rng)


def _step(rng: np.random.Generator) -> Any:
    """What one step runs: Gaussian noise half of the times."""
    return ja.Gaussian(_noise(rng)) if rng.random() < 0.5 else _one_of(rng, RELEASES)


def _allocation(rng: np.random.Generator) -> ja.RandomAllocation:
    steps = _count(rng)
    selected = 1 if rng.random() < 0.6 else int(rng.integers(1, steps + 1))
    step = ja.PoissonSampled(_step(rng), _share(rng), num_steps=1) if rng.random() < 0.1 else _step(rng)
    return ja.RandomAllocation(step, steps, selected, 1 if rng.random() < 0.6 else _count(rng, 20, 1000))


def _partial(rng: np.random.Generator) -> ja.PartialAllocation:
    steps = _count(rng)
    return ja.PartialAllocation(_step(rng), steps, int(rng.integers(1, steps + 1)))


def _shuffled(rng: np.random.Generator) -> ja.ShuffledBatches:
    last = LastBatch.FULL if rng.random() < 0.5 else list(LastBatch)[rng.integers(len(LastBatch))]
    return ja.ShuffledBatches(ja.Gaussian(_noise(rng)), _count(rng), _few(rng), last)


def _begun(rng: np.random.Generator) -> ja.PartialShuffledBatches:
    steps = _count(rng)
    return ja.PartialShuffledBatches(ja.Gaussian(_noise(rng)), steps, int(rng.integers(1, steps + 1)))


def _schedule(rng: np.random.Generator) -> ja.ScheduledAllocation:
    phases = int(rng.integers(1, 4))
    steps = [_count(rng, 1000) for _ in range(phases)]
    return ja.ScheduledAllocation([_noise(rng) for _ in range(phases)], steps, _count(rng, 5, 10))


def _fixed(rng: np.random.Generator) -> ja.FixedBatches:
    records = 1 + _count(rng)
    return ja.FixedBatches(
        ja.Gaussian(_noise(rng)), records, int(rng.integers(1, records)), _count(rng, 1000, 1e6), rng.random() < 0.4
    )


def _truncated(rng: np.random.Generator) -> ja.TruncatedPoisson:
    records = _count(rng)
    return ja.TruncatedPoisson(
        ja.Gaussian(_noise(rng)), _share(rng), records, int(rng.integers(1, records + 1)), _count(rng, 1000, 1e6)
    )


def _check_in(rng: np.random.Generator) -> ja.CheckIn:
    dropout = 0.0 if rng.random() < 0.7 else _share(rng)
    return ja.CheckIn(_one_of(rng, RANDOMIZERS), _count(rng, 1e6), _share(rng), _few(rng), dropout)


def _bins(rng: np.random.Generator) -> ja.BallsInBins:
    batches, epochs, noise = _count(rng, 300, 3000), _few(rng), _noise(rng)
    if rng.random() < 0.3:
        rows = int(rng.integers(1, 20))
        matrix = np.tril(rng.normal(size=(rows, rows))) + np.eye(rows)
        return ja.BallsInBins(matrix, noise, -(-rows // min(epochs, rows)), -(-rows // -(-rows // min(epochs, rows))))
    bands = [1.0, *rng.uniform(0.0, 1.0, int(rng.integers(0, 8)))]
    return ja.BallsInBins(bands[: batches * epochs], noise, batches, epochs)


def _few(rng: np.random.Generator) -> int:
    return 1 if rng.random() < 0.6 else _count(rng, 10, 100)


def _composed(rng: np.random.Generator) -> ja.Composed:
    parts = [_scheme(rng) for _ in range(int(rng.integers(1, 4)))]
    return ja.Composed(parts, [_count(rng, 20, 1000) for _ in parts])


SCHEMES: dict[type, Callable[[np.random.Generator], Any]] = {
    ja.PoissonSampled: lambda rng: ja.PoissonSampled(_step(rng), _share(rng), _count(rng)),
    ja.RandomAllocation: _allocation,
    ja.PartialAllocation: _partial,
    ja.ScheduledAllocation: _schedule,
    ja.ShuffledBatches: _shuffled,
    ja.PartialShuffledBatches: _begun,
    ja.FixedBatches: _fixed,
    ja.TruncatedPoisson: _truncated,
    ja.ParallelPoisson: lambda rng: ja.ParallelPoisson(_step(rng), _share(rng), _count(rng, 1, 10), _count(rng)),
    ja.Shuffled: lambda rng: ja.Shuffled(_one_of(rng, RANDOMIZERS), _count(rng, 1e6), _few(rng)),
    ja.CheckIn: _check_in,
    ja.BallsInBins: _bins,
    ja.Composed: _composed,
    ja.Group: lambda rng: ja.Group(_scheme(rng), _count(rng, 5, 100)),
    ja.PrivateSelection: lambda rng: ja.PrivateSelection(
        _scheme(rng), _between(rng, 1.0, 100.0), float(rng.choice([0.0, 0.5, 1.0, np.inf]))
    ),
}


RELATIONS = {ja.ReplaceOne: "replace-one", ja.ZeroOut: "zero-out"}


def _scheme(rng: np.random.Generator) -> Any:
    return _one_of(rng, RELEASES) if rng.random() < 0.25 else _one_of(rng, SCHEMES)


def mechanism(rng: np.random.Generator) -> Any:
    """A mechanism that has an analysis, in one of its adjacencies; nested where it fits."""
    while True:
        try:
            found = in_relation(_scheme(rng), rng.choice([None] * 6 + list(RELATIONS.values())))
            check_has_analysis(found)
        except ValueError:  # what one wraps has no analysis in it
            continue
        return found


def target(rng: np.random.Generator, query: Query) -> float:
    """A delta or an epsilon, mostly ordinary."""
    rare = rng.random() < 2.0 * _RARE
    if query is Query.EPSILON:
        return _between(rng, 1e-300, 0.9) if rare else _between(rng, 1e-12, 0.1)
    return (
        float(rng.choice([0.0, _between(rng, 1e-12, 1e-2), _between(rng, 10.0, 1e5)]))
        if rare
        else _between(rng, 0.01, 10.0)
    )


def asked(*seed: int) -> Asked:
    """The random question of a seed."""
    rng = np.random.default_rng(seed)
    query = list(Query)[rng.integers(2)]
    return Asked(mechanism(rng), query, target(rng, query))
