"""A record that is removed before another one is added: what holds for any mechanism, by any split of epsilon."""

import itertools
import math
from collections.abc import Callable
from typing import Any

from jaxacct._method import Bracketing, Query
from jaxacct._patience import say_long, told
from jaxacct._sharing import shared
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
    PartialShuffledBatches,
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
# Of what one question may take, for each end of a split: the first one's loss distributions serve the others too.
_FIRST_SHARE, _SHARE = 0.3, 0.07
_LOGITS = (-3.0, 5.0)  # between which the share of delta that the removal takes is searched
_LEAST_DELTA = 1e-300  # smaller shares of delta are not asked for
_FAR = 745.0  # nats: e^x makes more than 1 of any delta but 0, so that a larger epsilon of the removal is no use
# Deltas below this, of at least so many allocated steps of at least this noise multiplier, take a second and more each.
_TINY_DELTA, _MANY_STEPS, _WIDE_NOISE = 1e-30, 1000, 1.5
_DOWN = 1.0 - 2.0**-50  # of a share of a target: products and a quotient


_USES: dict[tuple[type, ...], Callable[[Any], tuple[Any, Any]]] = {  # least noise multiplier and number of releases
    (PoissonSampled, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_steps),
    (RandomAllocation, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_selected * run.num_epochs),
    (PartialAllocation, Gaussian): lambda run: (run.mechanism.noise_multiplier, 1),
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
_SCHEMES = frozenset(
    {
        PoissonSampled,
        RandomAllocation,
        PartialAllocation,
        ShuffledBatches,
        PartialShuffledBatches,
        Group,
        Composed,
    }
)


def _is_long(run: Any, query: Query, target: float) -> bool:
    """Whether one answer about `run` is known to take a second or more."""
    if run.signature() != (RandomAllocation, Gaussian) or query is Query.DELTA:
        return False
    is_wide = int(run.num_steps) >= _MANY_STEPS and float(run.mechanism.noise_multiplier) >= _WIDE_NOISE
    return is_wide and target < _TINY_DELTA


def adds(run: Description) -> bool:
    """bool: whether records add to a sum, so that another one may contribute nothing, as in zero-out."""
    return type(run) in _ADDS or (type(run) in _SCHEMES and all(map(adds, run.wrapped())))


_Value = Callable[[float, float, bool], float]


def _searched(value: _Value, low: float, high: float) -> float:
    """The least value met in a search by golden sections, for a minimum that is the only one.

    Args:
      value: ``(x, rival, is_left) -> `` the value at x, or a number between `rival` and it: the value at a point on
        the other side, the right one if `is_left`.
    """
    splits = told(range(2 + _NUM_SPLITS), "splits of epsilon", 2 + _NUM_SPLITS)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    next(splits)
    at_left = value(left, math.inf, True)
    next(splits)
    at_right = value(right, at_left, False)
    best = min(at_left, at_right)
    for _ in splits:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left, at_right, True)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right, at_left, False)
        best = min(best, at_left, at_right)
    return best


def in_two_steps(run: Mechanism, query: Query, target: float, at: Bracketing) -> float:
    """A float, an upper bound by the best split found of epsilon, or of delta.

    What one of the steps loses may show that a split is no gain: then the other is not asked about. What the questions
    have in common is made once.
    """
    if _is_long(run, query, target):
        say_long(
            f"a record that is replaced asks several times about allocated steps, at deltas of {target:.1g} and less"
        )
    shares = itertools.chain((_FIRST_SHARE, _FIRST_SHARE), itertools.repeat(_SHARE))

    def ask(query: Query, target: float, direction: Direction) -> float:
        width = max(at.width, 1e-3)
        return at.ask(run, query, target, width, wants_lower=False, direction=direction, share=next(shares)).upper

    def epsilon(logit: float, rival: float, is_left: bool) -> float:
        del is_left
        share = target / (1.0 + math.exp(-logit)) * _DOWN
        first = ask(Query.EPSILON, share, Direction.REMOVE)
        if first > rival:
            return first
        rest = (target - share) * math.exp(-first) * _DOWN
        if not rest > _LEAST_DELTA:
            return math.inf
        return up(first + ask(Query.EPSILON, rest, Direction.ADD), 2)

    def delta(first: float, rival: float, is_left: bool) -> float:
        second = max(target - first, 0.0) * (1.0 - 2.0**-52)  # both together are at most the target
        found = 0.0
        # on the left it is the removal that loses much, on the right the addition
        for d in (Direction.REMOVE, Direction.ADD) if is_left else (Direction.ADD, Direction.REMOVE):
            if d is Direction.REMOVE:
                found += ask(Query.DELTA, first, d)
            else:
                found += grown(ask(Query.DELTA, second, d), first, 16)
            if found > rival:
                break
        return up(found, 4)

    with shared():
        if query is Query.EPSILON:
            return _searched(epsilon, *_LOGITS)
        found = _searched(delta, 0.0, target)
        if target > _FAR and found > 0.0:
            found = min(found, _searched(delta, 0.0, _FAR))
    return min(1.0, found)
