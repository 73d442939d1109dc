"""A record that is removed before another one is added: what holds for any mechanism, by any split of epsilon."""

import math
from collections.abc import Callable
from typing import Any

from jaxacct._method import Bracketing, Query
from jaxacct._types import Direction
from jaxacct.mechanisms import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Group,
    Laplace,
    MixtureOfGaussians,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
    ShuffledBatches,
    Skellam,
)
from jaxacct.mechanisms._base import Description, Mechanism
from jaxacct.special import grown, up

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # of a bracket, kept in each step of a search
_NUM_SPLITS = 6  # of such a search: any split of epsilon is valid
_LOGITS = (-3.0, 5.0)  # between which the share of delta that the removal takes is searched
_LEAST_DELTA = 1e-300  # smaller shares of delta are not asked for
_FAR = 745.0  # nats: e^x makes more than 1 of any delta but 0, so that a larger epsilon of the removal is no use
_DOWN = 1.0 - 2.0**-50  # of a share of a target: products and a quotient


_USES: dict[tuple[type, ...], Callable[[Any], tuple[Any, Any]]] = {  # least noise multiplier and number of releases
    (PoissonSampled, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_steps),
    (RandomAllocation, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_selected * run.num_epochs),
    (PartialAllocation, Gaussian): lambda run: (run.mechanism.noise_multiplier, 1),
    (ShuffledBatches, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_epochs),
    (ScheduledAllocation,): lambda run: (min(map(float, run.noise_multipliers)), run.num_epochs),
}


def unamplified(run: Mechanism) -> Mechanism | None:
    """The record's steps known to all, the same for both records: half the noise in these steps; None for others."""
    uses = _USES.get(run.signature())
    if uses is None:
        return None
    noise, count = uses(run)
    return Composed(Gaussian(0.5 * float(noise)), int(count))


_ADDS = frozenset(
    {Gaussian, Laplace, DiscreteLaplace, DiscreteGaussian, Skellam, MixtureOfGaussians, ScheduledAllocation}
)
_SCHEMES = frozenset({PoissonSampled, RandomAllocation, PartialAllocation, ShuffledBatches, Group, Composed})


def adds(run: Description) -> bool:
    """bool: whether records add to a sum, so that another one may contribute nothing, as in zero-out."""
    return type(run) in _ADDS or (type(run) in _SCHEMES and all(map(adds, run.wrapped())))


def _searched(value: Callable[[float], float], low: float, high: float) -> float:
    """The least value met in a search by golden sections, for a minimum that is the only one."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    best = min(at_left, at_right)
    for _ in range(_NUM_SPLITS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
        best = min(best, at_left, at_right)
    return best


def in_two_steps(run: Mechanism, query: Query, target: float, at: Bracketing) -> float:
    """A float, an upper bound by the best split found of epsilon, or of delta."""

    def ask(query: Query, target: float, direction: Direction) -> float:
        return at.ask(run, query, target, max(at.width, 1e-3), wants_lower=False, direction=direction).upper

    def epsilon(logit: float) -> float:
        share = target / (1.0 + math.exp(-logit)) * _DOWN
        first = ask(Query.EPSILON, share, Direction.REMOVE)
        rest = (target - share) * math.exp(-first) * _DOWN
        if not rest > _LEAST_DELTA:
            return math.inf
        return up(first + ask(Query.EPSILON, rest, Direction.ADD), 2)

    def delta(first: float) -> float:
        second = max(target - first, 0.0) * (1.0 - 2.0**-52)  # both together are at most the target
        added = grown(ask(Query.DELTA, second, Direction.ADD), first, 16)
        return up(ask(Query.DELTA, first, Direction.REMOVE) + added, 4)

    if query is Query.EPSILON:
        return _searched(epsilon, *_LOGITS)
    found = _searched(delta, 0.0, target)
    if target > _FAR and found > 0.0:
        found = min(found, _searched(delta, 0.0, _FAR))
    return min(1.0, found)
