"""A mechanism in words: what was run, for whom, and what must hold. Public parameters only."""

import enum
from typing import Any

from jaxacct._methods import relation_of
from jaxacct._types import NeighboringRelation
from jaxacct.curves import Pld
from jaxacct.mechanisms import (
    CheckIn,
    Composed,
    ContinuousPair,
    DiscretePair,
    FiniteRandomizer,
    Gaussian,
    GaussianReports,
    KaryRandomizedResponse,
    Laplace,
    LocalRandomizer,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
    Shuffled,
)

_ADAPTIVE = "a step may depend on all earlier outputs"
_GAUSSIAN_ASSUMPTION = (
    "each step releases a sum of contributions clipped to norm C plus Gaussian noise of standard deviation "
    f"noise_multiplier * C; {_ADAPTIVE}"
)
_BASE_ASSUMPTIONS = {
    Gaussian: _GAUSSIAN_ASSUMPTION,
    Laplace: "each step releases a number that one record changes by at most C, plus Laplace noise of scale "
    f"noise_multiplier * C; {_ADAPTIVE}",
    DiscretePair: "each step's outputs with the record are no easier to tell from those without it than p from q; "
    f"{_ADAPTIVE}",
    ContinuousPair: "each step's outputs with the record are no easier to tell from those without it than P from Q, "
    f"the pair of which the distribution functions of the privacy loss are given; {_ADAPTIVE}",
    Pld: f"the stated privacy loss distribution bounds the privacy loss of each step; {_ADAPTIVE}",
}
_ALLOCATION_ASSUMPTION = (
    "each record's steps are a uniform set of the stated size, drawn independently of the other records and afresh "
    "in every epoch, and stay secret (a shuffled order of fixed batches is another scheme)"
)
_POISSON_ASSUMPTION = (
    "each record joins each step independently with the stated probability, and who joined stays secret"
)

_SHUFFLE_ASSUMPTION = (
    "the users' data are in a uniformly random order, drawn afresh in every round and known to the shuffler alone; "
    "each report is randomized as stated, and a randomizer may depend on earlier reports"
)
_CHECK_IN_ASSUMPTION = (
    "each user joins a round by an own coin of the stated probability, independently of the data and of the other "
    "users; who joined stays secret, how many is seen"
)


def describe(mechanism: Any) -> str:
    """One line on what was run."""
    if isinstance(mechanism, Gaussian):
        return f"Gaussian noise, noise multiplier {mechanism.noise_multiplier}"
    if isinstance(mechanism, Laplace):
        return f"Laplace noise, noise multiplier {mechanism.noise_multiplier}"
    if isinstance(mechanism, DiscretePair):
        return f"one of {len(mechanism.p)} outputs, by its probabilities p with the record and q without"
    if isinstance(mechanism, ContinuousPair):
        losses = f"losses from {mechanism.lowest:g} to {mechanism.highest:g}"
        return f"a pair given by the distribution functions of its privacy loss, {losses}"
    if isinstance(mechanism, Pld):
        origin = f", by {mechanism.theorem}" if mechanism.theorem else ""
        return f"a privacy loss distribution of {mechanism.masses.size} losses{origin}"
    if isinstance(mechanism, RandomAllocation):
        epochs = "" if mechanism.num_epochs == 1 else f", {mechanism.num_epochs:.0f} epochs"
        scheme = f"random allocation, each record in {mechanism.num_selected:.0f} of {mechanism.num_steps:.0f} steps"
        return f"{scheme}{epochs}; {describe(mechanism.mechanism)}"
    if isinstance(mechanism, PartialAllocation):
        scheme = f"the first {mechanism.steps_done:.0f} of {mechanism.num_steps:.0f} steps of a random allocation"
        return f"{scheme}, each record in 1 of them all; {describe(mechanism.mechanism)}"
    if isinstance(mechanism, ScheduledAllocation):
        epochs = "" if mechanism.num_epochs == 1 else f", {mechanism.num_epochs:.0f} epochs"
        phases = zip(mechanism.num_steps, mechanism.noise_multipliers, strict=True)
        steps = " + ".join(f"{count:.0f} (noise multiplier {noise:g})" for count, noise in phases)
        return f"random allocation, each record in 1 step of {steps}{epochs}; Gaussian noise"
    if isinstance(mechanism, PoissonSampled):
        scheme = f"Poisson sampling, probability {mechanism.sampling_prob:.6g}, {mechanism.num_steps:.0f} steps"
        return f"{scheme}; {describe(mechanism.mechanism)}"
    if isinstance(mechanism, CheckIn):
        rounds = "" if mechanism.num_epochs == 1 else f", {mechanism.num_epochs:.0f} rounds"
        dropout = f", dropping out with probability {mechanism.dropout_prob:g}" if mechanism.dropout_prob else ""
        joins = f"each of {mechanism.num_users:.0f} users with probability {mechanism.check_in_prob:g}{dropout}"
        return f"shuffled check-ins, {joins}{rounds}; {_describe_randomizer(mechanism.mechanism)}"
    if isinstance(mechanism, Shuffled):
        rounds = "" if mechanism.num_epochs == 1 else f", {mechanism.num_epochs:.0f} rounds"
        return f"shuffle of {mechanism.num_reports:.0f} reports{rounds}; {_describe_randomizer(mechanism.mechanism)}"
    if isinstance(mechanism, Composed):
        parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
        return " + ".join(f"{count:.0f} x ({describe(part)})" for part, count in parts)
    raise _unknown(mechanism)


def _unknown(mechanism: Any) -> ValueError:
    return ValueError(f"mechanism={mechanism!r}: a {type(mechanism).__name__} has no description here")


def _describe_randomizer(randomizer: Any) -> str:
    if isinstance(randomizer, LocalRandomizer):
        delta = f" and delta {randomizer.local_delta:g}" if randomizer.local_delta else ""
        return f"each of local epsilon {randomizer.local_epsilon:g}{delta}"
    if isinstance(randomizer, KaryRandomizedResponse):
        return f"{randomizer.num_categories:.0f}-ary randomized response of local epsilon {randomizer.local_epsilon:g}"
    if isinstance(randomizer, GaussianReports):
        return f"Gaussian noise, noise multiplier {randomizer.noise_multiplier:g}"
    if isinstance(randomizer, FiniteRandomizer):
        return f"each of local epsilon {randomizer.local_epsilon:.4g}, by its output probabilities"
    raise _unknown(randomizer)


def assumptions(mechanism: Any) -> tuple[str, ...]:
    """What must hold for the number to be true."""
    if isinstance(mechanism, Composed):
        return tuple(dict.fromkeys(a for part in mechanism.mechanisms for a in assumptions(part)))
    if isinstance(mechanism, RandomAllocation | PartialAllocation):
        return (_ALLOCATION_ASSUMPTION, *assumptions(mechanism.mechanism))
    if isinstance(mechanism, ScheduledAllocation):
        return (_ALLOCATION_ASSUMPTION, _GAUSSIAN_ASSUMPTION)
    if isinstance(mechanism, CheckIn):
        return (_CHECK_IN_ASSUMPTION, _SHUFFLE_ASSUMPTION)
    if isinstance(mechanism, Shuffled):
        return (_SHUFFLE_ASSUMPTION,)
    if isinstance(mechanism, PoissonSampled):
        return (_POISSON_ASSUMPTION, *assumptions(mechanism.mechanism))
    if type(mechanism) not in _BASE_ASSUMPTIONS:
        raise _unknown(mechanism)
    return (_BASE_ASSUMPTIONS[type(mechanism)],)


def poisson_at_same_rate(mechanism: Any) -> PoissonSampled | None:
    """The Poisson-sampled run in which each record takes part as often on average, or None."""
    if not isinstance(mechanism, RandomAllocation):
        return None
    rate = mechanism.num_selected / mechanism.num_steps
    return PoissonSampled(mechanism.mechanism, sampling_prob=rate, num_steps=mechanism.num_steps * mechanism.num_epochs)


def parameters(mechanism: Any) -> dict[str, Any]:
    """The fields of a mechanism as plain values, ready for JSON."""
    return {"type": type(mechanism).__name__, **{name: _plain(value) for name, value in vars(mechanism).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # an array, or a scalar of NumPy's
        return value.tolist()
    if isinstance(value, enum.Enum):
        return value.value
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return value if isinstance(value, int | float | str) else parameters(value)


_UNITS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record: everything that it contributes, present or absent",
    NeighboringRelation.REPLACE_ONE: "one user: their datum, replaced by any other; the number of users is public",
    NeighboringRelation.REPLACE_SPECIAL: "one record: replaced by the empty record",
}


def unit_of_privacy(mechanism: Any) -> str:
    """Whose data the guarantee hides, and from what change."""
    return _UNITS[relation_of(mechanism)]


def releases(mechanism: Any) -> str:
    """What the adversary sees."""
    if isinstance(mechanism, Composed):
        return "; ".join(dict.fromkeys(releases(part) for part in mechanism.mechanisms))
    if isinstance(mechanism, Pld):
        return "what the privacy loss distribution was made for"
    if relation_of(mechanism) is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return "the noisy output of every step, in order; not who took part in it"
    return "all reports, in the shuffled order"
