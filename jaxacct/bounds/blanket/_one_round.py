"""One round of shuffled reports or check-ins, from above: which law a report has, and the methods that ask it.

docs/papers/blanket.md. BL-1, BL-2: the blanket of a randomizer that is known. BL-5: Gaussian reports of any dimension,
as batches of one record each (docs/papers/shuffled_batches.md, SB-6, SB-7).
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, always
from jaxacct._precision import is_traced
from jaxacct._types import Direction, Ends
from jaxacct.bounds._parts import is_scalar
from jaxacct.divergence.batches._blanket import MOST_LOSS
from jaxacct.divergence.batches._profile import Epoch, epoch_delta, epoch_delta_alone, epoch_epsilon
from jaxacct.divergence.blanket._antipodal import MOST_LAPLACE, gaussian_law, laplace_law
from jaxacct.divergence.blanket._ball import MOST_DIMENSIONS, ball_law
from jaxacct.divergence.blanket._finite import finite_law, k_ary_law
from jaxacct.divergence.blanket._hidden import hidden_law
from jaxacct.divergence.blanket._profile import ReportLaw, Round, round_delta, round_delta_alone, round_epsilon
from jaxacct.divergence.gaussian._pair import gaussian_epsilon
from jaxacct.mechanisms import (
    CheckIn,
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LaplaceReports,
    Shuffled,
)
from jaxacct.special import grown, up

# These steer cost and tightness only.
_MANY = (2.0**34, 2.0**40)  # users beyond which rounding may count: what holds for so many holds for more
_FEW = 10  # users up to which the order of reports in one dimension may say more than their blanket
_SMALL, _SOME = 2.0, 100  # noise multiplier below which, or users up to which, a blanket in more dimensions may
_RARELY = 1e-3  # share of delta that all may join at most where places of others are said to hide
_LEAST_DELTA = 1e-150  # of a round: below it nothing is computed

LawFor = Callable[[float], ReportLaw | None]


# What is known of a report: a function of what may be left out; None where nothing is


def _gaussian_law(randomizer: GaussianReports) -> LawFor | None:
    shift, dimension = up(1.0 / float(randomizer.noise_multiplier), 2), randomizer.dimension
    if dimension is None or not (shift <= MOST_LOSS and dimension <= MOST_DIMENSIONS):
        return None
    if dimension == 1:
        return lambda cut: gaussian_law(shift, cut)
    return lambda cut: ball_law(shift, int(dimension), cut)


def _laplace_law(randomizer: LaplaceReports) -> LawFor | None:
    rate = up(1.0 / float(randomizer.scale), 2)
    if randomizer.dimension != 1 or not rate <= MOST_LAPLACE:
        return None
    return lambda cut: laplace_law(rate)


def _finite_law(randomizer: FiniteRandomizer) -> LawFor | None:
    found = _law_of(randomizer.probabilities)
    return None if found is None else lambda cut: found


@functools.lru_cache(maxsize=8)
def _law_of(probabilities: Any) -> ReportLaw | None:
    return finite_law(probabilities)


def _k_ary_law(randomizer: KaryRandomizedResponse) -> LawFor | None:
    found = k_ary_law(float(randomizer.local_epsilon), float(randomizer.num_categories))
    return None if found is None else lambda cut: found


_LAWS: dict[type, Callable[[Any], LawFor | None]] = {
    FiniteRandomizer: _finite_law,
    GaussianReports: _gaussian_law,
    KaryRandomizedResponse: _k_ary_law,
    LaplaceReports: _laplace_law,
}
_WORST_PAIR: dict[type, str] = {
    FiniteRandomizer: "all pairs of inputs",
    GaussianReports: "opposite data",
    KaryRandomizedResponse: "any two values",
    LaplaceReports: "opposite data",
}
_BLANKET: dict[type, str] = {Shuffled: "BL-1", CheckIn: "BL-2"}
_ORDER: dict[type, str] = {
    Shuffled: "SB-6: a swap with one blank step, batches of one record (ours, docs/papers/shuffled_batches.md)",
    CheckIn: "BL-5: the places of users who do not join (ours, docs/papers/blanket.md)",
}
_FIELD: dict[type, str] = {Shuffled: "num_reports", CheckIn: "num_users"}
_USERS: dict[type, Callable[[Any], tuple[float, float]]] = {
    Shuffled: lambda run: (float(run.num_reports), 1.0),
    CheckIn: lambda run: (float(run.num_users), _joining(run)),
}


def _joining(run: CheckIn) -> float:
    """The probability of a report, rounded up."""
    return min(up(float(run.check_in_prob) * (1.0 - float(run.dropout_prob)), 6), 1.0)


def blanket_round(mechanism: Any) -> Round | None:
    """One round (class `Round`) by what its reports have in common; None where nothing is known."""
    if not is_scalar(mechanism):
        return None
    law_for = _LAWS[type(mechanism.mechanism)](mechanism.mechanism)
    users, prob = _USERS[type(mechanism)](mechanism)
    return Round(law_for, users, prob) if law_for is not None and prob > 0.0 else None


def hidden_round(mechanism: Any) -> Round:
    """One round (class `Round`) of check-ins of Gaussian reports, by what the places of others hide (BL-5)."""
    users, prob = _USERS[type(mechanism)](mechanism)
    shift = _shift(mechanism)
    everybody = grown(1.0, users * math.log(prob), 2**14) if 0.0 < prob < 1.0 else prob
    return Round(lambda cut: hidden_law(shift, cut), users, prob, everybody)


def _shift(mechanism: Any) -> float:
    return up(1.0 / float(mechanism.mechanism.noise_multiplier), 2)


def _everybody(mechanism: Any, goal: float) -> Epoch:
    """All users' reports, in random order: batches of one record. Whoever does not join is post-processing."""
    users, _ = _USERS[type(mechanism)](mechanism)
    return Epoch(_shift(mechanism), int(users), int(users), False, goal, replaces=True)


def _has_places(mechanism: Any, goal: float) -> bool:
    """Whether the places of users who do not join are what answers."""
    return hidden_round(mechanism).beyond <= _RARELY * goal


def order_delta(mechanism: Any, epsilon: float, goal: float) -> float:
    """delta at `epsilon` >= 0 of one round of Gaussian reports of any dimension, at most; a float in [0, 1]."""
    if _has_places(mechanism, goal):
        return round_delta(hidden_round(mechanism), epsilon, goal)
    return epoch_delta(_everybody(mechanism, goal), epsilon, Direction.REMOVE)


def _order_delta_alone(mechanism: Any, epsilon: float) -> float:
    found = epoch_delta_alone(_everybody(mechanism, 1e-4), epsilon, Direction.REMOVE)
    run = hidden_round(mechanism)
    return min(found, round_delta_alone(run, epsilon)) if run.beyond < found else found


def _order_epsilon(mechanism: Any, goal: float, high: float) -> float:
    if _has_places(mechanism, goal):
        return round_epsilon(hidden_round(mechanism), goal, high)
    return epoch_epsilon(_everybody(mechanism, goal), Direction.REMOVE, high)


# What single reports tell, which is an epsilon that is known to do


def _gaussian_alone(randomizer: GaussianReports, delta: float) -> float:
    distance: Any = np.array([up(2.0 / float(randomizer.noise_multiplier), 4)])
    return float(gaussian_epsilon(np.log(np.array([delta])), distance)[0])


def _pure_alone(randomizer: Any, delta: float) -> float:
    del delta
    return float(up(float(randomizer.local_epsilon), 8))


_ALONE: dict[type, Callable[[Any, float], float]] = {
    FiniteRandomizer: _pure_alone,
    GaussianReports: _gaussian_alone,
    KaryRandomizedResponse: _pure_alone,
    LaplaceReports: _pure_alone,
}


def report_epsilon(mechanism: Any, delta: float) -> float:
    """A float: the epsilon at `delta` of a report that is not shuffled."""
    return _ALONE[type(mechanism.mechanism)](mechanism.mechanism, delta)


# The methods


def is_one_round(mechanism: Any) -> bool:
    """bool: whether it is one round with concrete fields."""
    return is_scalar(mechanism) and int(mechanism.num_epochs) == 1


def hides(mechanism: Any) -> bool:
    """bool: whether the order of Gaussian reports is known to hide something: noise enough to compute with."""
    return is_scalar(mechanism) and has_noise(mechanism)


def has_noise(mechanism: Any) -> bool:
    """bool: whether all points of a batch of Gaussian reports have noise enough to compute with; no, if traced."""
    noise = mechanism.mechanism.noise_multiplier
    return not is_traced(noise) and bool(np.all(np.asarray(noise) >= (1.0 + 2.0**-50) / MOST_LOSS))


def has_blanket(mechanism: Any) -> bool:
    """bool: whether what its reports have in common is known."""
    return blanket_round(mechanism) is not None


def order_helps(mechanism: Any) -> bool:
    """bool: whether the order of Gaussian reports may say more than what is common to them, at some point of a batch.

    In one dimension it hardly ever does.
    """
    return not is_scalar(mechanism) or mechanism.mechanism.dimension != 1 or _users(mechanism) <= _FEW


def blanket_helps(mechanism: Any) -> bool:
    """bool: whether what reports have in common may say more than their order, at some point of a batch.

    Of Gaussian reports in more than one dimension it seldom does.
    """
    dimension = getattr(mechanism.mechanism, "dimension", 1)
    if not is_scalar(mechanism) or dimension in (1, None):
        return True
    return _users(mechanism) <= _SOME or float(mechanism.mechanism.noise_multiplier) < _SMALL


def _users(mechanism: Any) -> float:
    return _USERS[type(mechanism)](mechanism)[0]


def with_fewer(mechanism: Any) -> tuple[Any, ...]:
    """A tuple: `mechanism`; and the same with fewer users, whose bounds hold for more, where these are very many."""
    fewer = [number for number in _MANY if number < _users(mechanism)]
    return mechanism, *(dataclasses.replace(mechanism, **{_FIELD[type(mechanism)]: number}) for number in fewer)


Answers = Callable[[Any, Query, float, float], float]


def _bracket(
    answer: Answers, mechanism: Any, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """Upper ends by ``answer(mechanism, query, target, an epsilon that is known to do)``."""
    upper = query.worst
    if query is Query.DELTA or target >= _LEAST_DELTA:
        high = (
            min(at.known[Direction.REMOVE].upper, report_epsilon(mechanism, target)) if query is Query.EPSILON else 0.0
        )
        upper = min(answer(run, query, target, high) for run in with_fewer(mechanism))
    return {Direction.REMOVE: Ends(0.0, upper)}


def _by_blanket(mechanism: Any, query: Query, target: float, high: float) -> float:
    run = blanket_round(mechanism)
    assert run is not None
    return round_delta_alone(run, target) if query is Query.DELTA else round_epsilon(run, target, high)


def _by_order(mechanism: Any, query: Query, target: float, high: float) -> float:
    if query is Query.DELTA:
        return _order_delta_alone(mechanism, target)
    return _order_epsilon(mechanism, target, high)


def blanket_theorem(mechanism: Any) -> str:
    """A string: the theorem of the blanket, for `mechanism`."""
    statement = _BLANKET[type(mechanism)]
    pair = _WORST_PAIR[type(mechanism.mechanism)]
    return f"{statement}: the privacy blanket, {pair} (docs/papers/blanket.md; Balle, Bell, Gascon & Nissim 2019)"


def order_theorem(mechanism: Any) -> str:
    """A string: the theorem of the order, for `mechanism`."""
    return _ORDER[type(mechanism)]


BLANKET = BracketMethod(
    name="privacy blanket",
    theorem=blanket_theorem,
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    cold=Cost.MILLISECONDS,
    applies=lambda mechanism: has_blanket(mechanism) and is_one_round(mechanism),
    helps=blanket_helps,
    is_quick=True,
    regime=f"one round; Gaussian noise of a stated dimension, noise multiplier {1.0 / MOST_LOSS:g} or more; Laplace "
    f"noise in one dimension, scale 1/{MOST_LAPLACE:g} or more",
    bracket=functools.partial(_bracket, _by_blanket),
    reduction=always,
)
ORDER = BracketMethod(
    name="shuffled order",
    theorem=order_theorem,
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    cold=Cost.MILLISECONDS,
    applies=lambda mechanism: hides(mechanism) and is_one_round(mechanism),
    helps=order_helps,
    is_quick=True,
    regime=f"one round, any dimension, noise multiplier {1.0 / MOST_LOSS:g} or more",
    bracket=functools.partial(_bracket, _by_order),
    reduction=always,
)
