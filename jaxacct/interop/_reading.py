"""Reads dp_accounting events as mechanisms, by the name of their class and their fields.

An event is recognised by the name of its class, so that classes that the installed release of dp_accounting lacks are
read too. An event whose fields are not those listed here is rejected.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import attr
from dp_accounting import dp_event  # type: ignore[import-untyped]

from jaxacct._types import NeighboringRelation
from jaxacct._validate import checked_whole
from jaxacct.mechanisms import (
    Composed,
    ContinuousPair,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    EpsilonDelta,
    Exponential,
    FixedBatches,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PermuteAndFlip,
    PoissonSampled,
    PrivateSelection,
    RandomAllocation,
    RandomizedResponse,
    ReplaceOne,
    TruncatedPoisson,
    ZCdp,
    ZeroOut,
)
from jaxacct.special import up

_SLACK = 2.0**-48  # of an exponential, quotients and a sum: some ten roundings
_REPLACE, _ZERO_OUT = NeighboringRelation.REPLACE_ONE, NeighboringRelation.REPLACE_SPECIAL

# what Poisson sampling and allocation take
_BASES = (
    *(Gaussian, Laplace, DiscretePair, ContinuousPair, EpsilonDelta, DiscreteLaplace, DiscreteGaussian),
    *(Exponential, PermuteAndFlip, MixtureOfGaussians),
)


def leaves_of(event: Any, count: int = 1) -> Iterator[tuple[Any, int]]:
    """The events of a composition with their counts, without those that do nothing.

    Raises:
      ValueError: if a count is not a whole number.
    """
    if isinstance(event, dp_event.SelfComposedDpEvent):
        yield from leaves_of(event.event, count * checked_whole("count", event.count, 0, 2**53))
    elif isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            yield from leaves_of(part, count)
    elif not isinstance(event, dp_event.NoOpDpEvent):
        yield event, count


def _one_release(event: Any) -> Any:
    """The mechanism run on one sample. Several Gaussians on one sample add their 1/sigma^2 (adaptively too)."""
    parts = [(mechanism_of(leaf), count) for leaf, count in leaves_of(event.event) if count > 0]
    if len(parts) == 1 and parts[0][1] == 1 and isinstance(parts[0][0], _BASES):
        return parts[0][0]
    together = Composed(*zip(*parts, strict=True)).as_one_release() if parts else None
    if not isinstance(together, Gaussian):
        name = type(event).__name__
        raise ValueError(f"event={event.event!r} inside {name} must be one release, or Gaussians composed")
    return together


def _allocated(event: Any) -> Any:
    return RandomAllocation(_one_release(event), event.num_steps, event.num_selected)


def composed_of(event: Any) -> Any:
    """The mechanism of an event, composed or not; raises ValueError if there is none."""
    parts = [_run(mechanism_of(leaf), count) for leaf, count in leaves_of(event) if count > 0]
    if not parts:
        raise ValueError(f"event={event!r} releases nothing: no mechanism describes it")
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    mechanisms, counts = zip(*parts, strict=True)
    return Composed(mechanisms, counts)


def _run(mechanism: Any, count: int) -> tuple[Any, int]:
    """A mechanism and its count; a Poisson-sampled mechanism counts its own steps."""
    if isinstance(mechanism, PoissonSampled):
        return dataclasses.replace(mechanism, num_steps=mechanism.num_steps * count), 1
    return mechanism, count


def _selected(event: Any) -> Any:
    """The best of a random number of runs; of one run for certain, that run."""
    run = composed_of(event.event)
    if event.mean == 1 and math.isfinite(event.shape):
        return run
    return PrivateSelection(run, event.mean, event.shape)


def _response(event: Any) -> RandomizedResponse:
    """The truth is reported with probability 1 - p + p/k: odds of 1 + k (1 - p) / p against each other answer."""
    prob, count = float(event.noise_parameter), checked_whole("num_buckets", event.num_buckets, 1, 2**53)
    if not 0.0 < prob <= 1.0:
        raise ValueError(f"event={event!r}: noise_parameter={prob} must be in (0, 1]")
    return RandomizedResponse(up(math.log1p(count * (1.0 - prob) / prob), 64), count)


class _Answers(NamedTuple):
    """How one of `number` answers is reported.

    Attributes:
      odds: the odds of each other answer against the true one, rounded down.
      told: the probability of the true answer, within `slack`.
      slack: the error of these numbers; 0 if all answers are equally likely, which is exact.
    """

    number: float
    odds: float
    told: float
    slack: float


def _answers(event: Any) -> _Answers:
    run = _response(event)
    count, slack = float(run.num_categories), _SLACK * (run.local_epsilon > 0)
    odds = math.exp(-float(run.local_epsilon)) * (1.0 - slack)
    return _Answers(count, odds, 1.0 / (1.0 + (count - 1.0) * odds), slack)


def _response_of_nobody(event: Any) -> DiscretePair:
    """The pair with the uniform answer that stands for an empty record; rounded to the side of more loss."""
    count, _, told, slack = _answers(event)
    told = min(told + slack, 1.0)
    return DiscretePair((told, 1.0 - told), (1.0 / count, 1.0 - 1.0 / count))


def _response_as_pair(event: Any) -> DiscretePair:
    """The pair of `RandomizedResponse`, for use beside others in a composition; it is labelled add or remove.

    It is rounded to the side of more loss: less than its exact mass where both distributions are equal, and odds that
    reveal more.
    """
    count, odds, told, slack = _answers(event)
    rest = (count - 2.0) * odds * told * (1.0 - slack)
    told = (1.0 - rest) / (1.0 + odds)
    return DiscretePair((told, odds * told, rest), (odds * told, told, rest))


def _discrete_gaussian(event: Any) -> Any:
    """One number has its own pair; for a vector only Renyi divergences are known, no larger than a Gaussian's."""
    if event.dimension == 1 and float(event.sensitivity).is_integer():
        return DiscreteGaussian(event.sigma, int(event.sensitivity))
    return ZCdp(up(0.5 * (event.sensitivity / event.sigma) ** 2, 8))


def _tree(event: Any) -> Gaussian:
    """A record in one leaf is in ceil(log2(T + 1)) sums at most, those over the complete dyadic ranges that hold it."""
    counts = event.step_counts if isinstance(event.step_counts, list | tuple) else [event.step_counts]
    if not counts or min(counts) < 1 or not all(float(count).is_integer() for count in counts):
        raise ValueError(f"event={event!r}: step_counts must be non-negative whole numbers, here at least 1")
    if not event.noise_multiplier > 0:
        raise ValueError(f"event={event!r}: noise_multiplier must be non-negative, here above 0")
    return Gaussian(event.noise_multiplier / int(max(counts)).bit_length() ** 0.5 * (1.0 - 2.0**-50))


def _tree_by_position(event: Any) -> Any:
    raise ValueError(
        f"event={event!r}: neighboring_relation must be REPLACE_SPECIAL (zero-out): "
        "a record that is added or removed moves all later ones to other leaves"
    )


def _gaussian(event: Any) -> Gaussian:
    """The mechanism run on each batch of a fixed size."""
    release = _one_release(event)
    if not isinstance(release, Gaussian):
        raise ValueError(f"event={event!r}: fixed batches are analysed for Gaussian noise")
    return release


def _fixed_batch(event: Any) -> PoissonSampled:
    """A uniform batch of B of N records: Poisson sampling at B / N with twice the sensitivity.

    With the record, a batch lacks it with probability 1 - B / N, and is then distributed as without it; or the batch
    has it in the place of another record, which shifts the sum by up to two clipping norms. The adjacency is add or
    remove one record; the larger of the two data sets has N records or more.
    """
    release = _gaussian(event)
    if not 0 < event.sample_size < event.source_dataset_size:
        raise ValueError(f"event={event!r}: sample_size must be > 0 and < source_dataset_size")
    prob = math.nextafter(event.sample_size / event.source_dataset_size, 1.0)
    return PoissonSampled(Gaussian(0.5 * release.noise_multiplier), prob, num_steps=1)


def _drawn(event: Any, *, again: bool = False) -> FixedBatches:
    """Batches of a fixed size, which have their own answers under each adjacency; `again`: with replacement."""
    return FixedBatches(_gaussian(event), event.source_dataset_size, event.sample_size, 1, again)


def _truncated(event: Any) -> TruncatedPoisson:
    noise = Gaussian(event.noise_multiplier)
    return TruncatedPoisson(
        noise, event.sampling_probability, event.dataset_size, event.truncated_batch_size, num_steps=1
    )


def _sampled_and_replaced(event: Any) -> Any:
    """A sampled sum of contributions of bounded norm; None for other events, which do not state their sensitivity."""
    release = _one_release(event)
    return (
        ReplaceOne(PoissonSampled(release, event.sampling_probability, num_steps=1))
        if isinstance(release, Gaussian)
        else None
    )


_Read = Callable[[Any], Any]
# name of the class -> its fields, and the mechanism
_EVENTS: dict[str, tuple[tuple[str, ...], _Read]] = {
    "MechanismDpEvent": (("mechanism",), lambda event: event.mechanism),
    "GaussianDpEvent": (("noise_multiplier",), lambda event: Gaussian(event.noise_multiplier)),
    "LaplaceDpEvent": (("noise_multiplier",), lambda event: Laplace(event.noise_multiplier)),
    "PoissonSampledDpEvent": (
        ("sampling_probability", "event"),
        lambda event: PoissonSampled(_one_release(event), event.sampling_probability, num_steps=1),
    ),
    "RandomAllocationDpEvent": (("event", "num_selected", "num_steps"), _allocated),
    "RandomizedResponseDpEvent": (("noise_parameter", "num_buckets"), _response),
    "EpsilonDeltaDpEvent": (("epsilon", "delta"), lambda event: EpsilonDelta(event.epsilon, event.delta)),
    "ZCDpEvent": (("rho", "xi"), lambda event: ZCdp(event.rho, event.xi)),
    "DiscreteLaplaceDpEvent": (
        ("noise_parameter", "sensitivity"),
        lambda event: DiscreteLaplace(event.noise_parameter, event.sensitivity),
    ),
    "DiscreteGaussianDpEvent": (("sigma", "sensitivity", "dimension"), _discrete_gaussian),
    "ExponentialMechanismDpEvent": (("epsilon",), lambda event: Exponential(event.epsilon)),
    "PermuteAndFlipDpEvent": (("epsilon",), lambda event: PermuteAndFlip(event.epsilon)),
    "MixtureOfGaussiansDpEvent": (
        ("standard_deviation", "sensitivities", "sampling_probs"),
        lambda event: MixtureOfGaussians(event.standard_deviation, event.sensitivities, event.sampling_probs),
    ),
    "SampledWithoutReplacementDpEvent": (("source_dataset_size", "sample_size", "event"), _fixed_batch),
    "SampledWithReplacementDpEvent": (
        ("source_dataset_size", "sample_size", "event"),
        lambda event: _drawn(event, again=True),
    ),
    "TruncatedSubsampledGaussianDpEvent": (
        ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier"),
        _truncated,
    ),
    "SingleEpochTreeAggregationDpEvent": (("noise_multiplier", "step_counts"), _tree_by_position),
    "RepeatAndSelectDpEvent": (("event", "mean", "shape"), _selected),
}
# Events that are read differently under an adjacency other than add or remove; the result is labelled add or remove
# there too, so that it composes. A guarantee, and a sensitivity of scores or of one function, hold under the adjacency
# that is asked about; a bound on the norm of each record's values does not: if the record is replaced, they change by
# up to twice that.
_GIVEN = ("EpsilonDeltaDpEvent", "ZCDpEvent", "DiscreteGaussianDpEvent", "ExponentialMechanismDpEvent")
_ELSEWHERE: dict[NeighboringRelation, dict[str, _Read]] = {
    _REPLACE: {
        **{name: _EVENTS[name][1] for name in (*_GIVEN, "PermuteAndFlipDpEvent")},
        "GaussianDpEvent": lambda event: Gaussian(0.5 * event.noise_multiplier),
        "RandomizedResponseDpEvent": _response_as_pair,
        "PoissonSampledDpEvent": _sampled_and_replaced,
        "SampledWithoutReplacementDpEvent": lambda event: ReplaceOne(_drawn(event)),
        "SampledWithReplacementDpEvent": lambda event: ReplaceOne(_drawn(event, again=True)),
        "TruncatedSubsampledGaussianDpEvent": lambda event: ReplaceOne(_truncated(event)),
    },
    _ZERO_OUT: {
        "RandomizedResponseDpEvent": _response_of_nobody,
        "SingleEpochTreeAggregationDpEvent": _tree,
        "SampledWithoutReplacementDpEvent": lambda event: ZeroOut(_drawn(event)),
        "SampledWithReplacementDpEvent": lambda event: ZeroOut(_drawn(event, again=True)),
        "TruncatedSubsampledGaussianDpEvent": lambda event: ZeroOut(_truncated(event)),
    },
}


def _check_known(event: Any) -> None:
    name = type(event).__name__
    if name not in _EVENTS or not attr.has(type(event)):
        raise ValueError(f"event={event!r}: {name} has no jaxacct mechanism")
    fields, found = _EVENTS[name][0], tuple(field.name for field in attr.fields(type(event)))
    if set(found) != set(fields):
        differing = ", ".join(sorted({*found} ^ {*fields}))
        raise ValueError(f"event={event!r}: its fields are not those of {name} as it is known here ({differing})")


def mechanism_of(event: Any) -> Any:
    """The mechanism of an event that is no composition; raises ValueError if there is none."""
    _check_known(event)
    return _EVENTS[type(event).__name__][1](event)


def elsewhere(event: Any, relation: NeighboringRelation) -> Any:
    """What stands for an event under an adjacency other than its mechanism's, labelled add or remove; or None."""
    _check_known(event)
    read = _ELSEWHERE.get(relation, {}).get(type(event).__name__)
    return None if read is None else read(event)


def in_one_relation(mechanisms: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Mechanisms that stand for events under one adjacency, so that they compose; None if they cannot.

    Gaussian noise of half the size stands for replaced records as `ReplaceOne` of the whole, and for empty ones as
    `ZeroOut` of itself.
    """
    relations = {mechanism.relation for mechanism in mechanisms}
    own = relations - {NeighboringRelation.ADD_OR_REMOVE_ONE}
    if len(relations) < 2:
        return mechanisms
    if own == {_ZERO_OUT}:
        return tuple(m if m.relation is _ZERO_OUT else ZeroOut(m) for m in mechanisms)
    if own != {_REPLACE} or not all(isinstance(m, ReplaceOne | Gaussian) for m in mechanisms):
        return None
    return tuple(ReplaceOne(Gaussian(2.0 * m.noise_multiplier)) if isinstance(m, Gaussian) else m for m in mechanisms)


# numbers that an event of any class may hold: their names, their range, and the range in words
_RANGES = {
    "noise_multiplier": ("Noise multiplier", 0.0, math.inf, "non-negative"),
    "sampling_probability": ("Sampling rate", 0.0, 1.0, "in [0, 1]"),
    "step_counts": ("Number of steps", 0.0, math.inf, "non-negative"),
}


def check_numbers(event: Any) -> None:
    """Raises ValueError if a number of an event, or of one inside it, is out of its range.

    As in dp_accounting, this is a different error from that for an unsupported event.
    """
    for leaf, _ in leaves_of(event):
        for field, (name, low, high, words) in _RANGES.items():
            held = getattr(leaf, field, None)
            values = held if isinstance(held, list | tuple) else () if held is None else (held,)
            if not all(low <= value <= high for value in values):
                raise ValueError(f"event={leaf!r}: {name}, {field}={held}, must be {words}")
        if isinstance(getattr(leaf, "event", None), dp_event.DpEvent):
            check_numbers(leaf.event)


def takes_places(mechanism: Any) -> bool:
    """Whether records take each other's places, so that replacing a record by an empty one differs from removing it."""
    return isinstance(mechanism, FixedBatches | TruncatedPoisson) or any(map(takes_places, mechanism.wrapped()))


def takes_no_part(event: Any) -> bool:
    """Whether no record ever takes part in an event, so that no privacy is lost whatever the event releases."""
    nobody = (
        ("sampling_probability", 0),
        ("num_selected", 0),
        ("num_buckets", 1),
        ("sample_size", 0),
        ("truncated_batch_size", 0),
        ("dataset_size", 0),
    )  # or there is nothing to reveal
    shifts, shares = getattr(event, "sensitivities", (1,)), getattr(event, "sampling_probs", (1,))
    if len(shifts) == len(shares) > 0 and all(0 in pair for pair in zip(shifts, shares, strict=True)):
        return True
    return any(getattr(event, field, None) == value for field, value in nobody)


def releases_everything(event: Any) -> bool:
    """Whether an event that is not a composition gives no privacy at all: no noise, or a trivial mechanism."""
    if takes_no_part(event):
        return False
    if isinstance(getattr(event, "event", None), dp_event.DpEvent):  # what is sampled or allocated
        return any(releases_everything(leaf) for leaf, count in leaves_of(event.event) if count > 0)
    noises = (
        getattr(event, field, math.inf)
        for field in ("noise_multiplier", "noise_parameter", "sigma", "standard_deviation")
    )
    return isinstance(event, dp_event.NonPrivateDpEvent) or 0 in noises
