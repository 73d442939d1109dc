"""Replacing a record in two steps, removal and addition: an upper bound for any mechanism, by any split of epsilon.

With the profiles of the two directions, for all a and b >= 0,

    delta(a + b) <= delta_remove(a) + e^a delta_add(b).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import Bracketing, Query
from jaxacct._patience import say_long, with_slow_warning
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

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # share of a bracket that is kept in each step of a search
_NUM_SPLITS = 6  # steps of such a search: any split of epsilon is valid
_NUM_GUESSES = 2  # the last of these steps, in which the terms of a sum suggest where to look
_MORE_GUESSES, _GAIN = 6, 2e-3  # guesses that follow, as long as each promises to lower the value by this share
_NUM_HALVES = 6  # halvings of an interval in which a term becomes positive
_NUM_POINTS = 513  # at which guesses are made
# Share of the time for one question, for each end of a split: later ones reuse the loss distributions of the first.
_FIRST_SHARE, _SHARE = 0.3, 0.07
_LOGITS = (-3.0, 5.0)  # range of logits in which the removal's share of delta is searched
_FAR_LOGITS = (-20.0, 20.0)  # where one step takes nearly all of delta, in case the other's drops to 0
_LEAST_DELTA = 1e-300  # smaller shares of delta are not tried
_FAR = 745.0  # nats: times e^x any delta above 0 exceeds 1, so that a larger epsilon of the removal is of no use
# Deltas below the first, with at least so many allocated steps and at least this noise multiplier, take over a second.
_TINY_DELTA, _MANY_STEPS, _WIDE_NOISE = 1e-30, 1000, 1.5
_FAR_EPSILON = 600.0  # nats, of one step: with a larger epsilon no share of delta is left for the other step
_DOWN = 1.0 - 2.0**-50  # rounds a share of a target down: products and a quotient


_USES: dict[tuple[type, ...], Callable[[Any], tuple[Any, Any]]] = {  # least noise multiplier and number of releases
    (PoissonSampled, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_steps),
    (RandomAllocation, Gaussian): lambda run: (run.mechanism.noise_multiplier, run.num_selected * run.num_epochs),
    (PartialAllocation, Gaussian): lambda run: (run.mechanism.noise_multiplier, 1),
    (ScheduledAllocation,): lambda run: (min(map(float, run.noise_multipliers)), run.num_epochs),
}


def unamplified(run: Mechanism) -> Mechanism | None:
    """The run with public steps, the same for both records: half the noise in these steps; None for other runs."""
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
    """bool: whether records contribute to a sum, so that another record may contribute nothing, as in zero-out."""
    return type(run) in _ADDS or (type(run) in _SCHEMES and all(map(adds, run.wrapped())))


_Value = Callable[[float, float, bool], float]
_Guess = Callable[[float], tuple[float, float] | None]


def _no_guess(near: float) -> None:
    """No guess, as nothing is known."""
    del near


def _searched(value: _Value, low: float, high: float, ends: tuple[float, float], guess: _Guess = _no_guess) -> float:
    """The least value found in a golden-section search, for a function with a single minimum.

    Args:
      value: ``(x, rival, is_left) -> `` the value at x, or any number between `rival` and that value. `rival` is the
        value at a point on the other side of the minimum, the right side if `is_left`.
      ends: evaluated last, each if no other point is nearer to it than the best one.
      guess: ``(x) -> `` the likely place and value of the minimum, from the values found so far, of which that at x is
        the least; or None. It is used in the last steps, and in some more if there is still much to gain.
    """
    splits = with_slow_warning(range(2 + _NUM_SPLITS), "splits of epsilon", 2 + _NUM_SPLITS)
    met: dict[float, float] = {}
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    next(splits)
    at_left = met[left] = value(left, math.inf, True)
    next(splits)
    at_right = met[right] = value(right, at_left, False)
    for number in splits:
        guessed = guess(_least(met)) if number >= 2 + _NUM_SPLITS - _NUM_GUESSES else None
        if guessed is not None:
            met[guessed[0]] = value(guessed[0], min(met.values()), True)
        elif at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = met[left] = value(left, at_right, True)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = met[right] = value(right, at_left, False)
    is_astray = False
    for _ in range(_MORE_GUESSES):
        guessed, best = guess(_least(met)), min(met.values())
        if guessed is None or guessed[1] > best * (1.0 - _GAIN):
            break
        point = _section(met) if is_astray else guessed[0]
        met[point] = value(point, best, True)
        is_astray = met[point] > best and not is_astray  # where a term drops to 0 abruptly, parabolas miss the place
    for end, nearest, is_left in ((ends[0], min(met), True), (ends[1], max(met), False)):
        if (nearest == _least(met) or math.isinf(min(met.values()))) and end not in met:
            met[end] = value(end, min(met.values()), is_left)
    return min(met.values())


def _least(met: dict[float, float]) -> float:
    """The place of the least value."""
    return min(met, key=lambda x: (met[x], x))


def _section(met: dict[float, float]) -> float:
    """A golden-section point of the larger of the two intervals next to the least value."""
    at = _least(met)
    low, high = (
        min((x for x in met if x * sign > at * sign), key=lambda x: abs(x - at), default=at) for sign in (-1, 1)
    )
    return at + (1.0 - _GOLDEN) * max(low - at, high - at, key=abs)


class _Logarithms:
    """Known logarithms of the two terms of a sum, used to guess where the sum is least."""

    def __init__(self) -> None:
        self._known: dict[Direction, dict[float, float]] = {d: {} for d in Direction}

    def note(self, term: Direction, x: float, value: float) -> None:
        self._known[term][x] = math.log(value) if value > 0.0 else -math.inf

    def guess(self, near: float) -> tuple[float, float] | None:
        """The place where parabolas through three points near `near` have the least sum, and that sum; or None.

        Searched between the points next to `near` at which either term is known.
        """
        found, every = [], sorted(set().union(*self._known.values()))
        low, high = (
            max((x for x in every if x < near), default=near),
            min((x for x in every if x > near), default=near),
        )
        for known in self._known.values():
            x = sorted(known, key=lambda x: abs(x - near))[:3]
            if len(x) < 3 or not all(math.isfinite(known[at]) for at in x):
                return None
            found.append((x, [known[at] for at in x]))
        if not low < high:
            return None
        points = np.linspace(low, high, _NUM_POINTS)
        sums = np.logaddexp(*(_parabola(*three, points) for three in found))
        least = int(np.argmin(sums))
        point = float(points[least])
        return None if any(point in known for known in self._known.values()) else (point, math.exp(float(sums[least])))

    def begins(self) -> tuple[float, float, Direction] | None:
        """Two places between which a term becomes positive, and its direction; those of the least sum, or None.

        The term is 0 at the first place and positive at the second. The sum falls towards the place where a term
        becomes positive, and jumps there.
        """
        found = []
        for d, other in itertools.permutations(Direction):
            known, sign = self._known[d], 1.0 if d is Direction.ADD else -1.0
            for x, log_term in self._known[other].items():
                beyond = [at for at in known if at * sign > x * sign and math.isfinite(known[at])]
                if known.get(x) == -math.inf and math.isfinite(log_term) and beyond:
                    found.append((log_term, x, min(beyond, key=lambda at: abs(at - x)), d))
        return min(found)[1:] if found else None


def _parabola(x: Sequence[float], y: Sequence[float], points: NDArray[Any]) -> NDArray[Any]:
    """The parabola through three points: y_0 + (x - x_0) (y_01 + (x - x_1) y_012), with divided differences."""
    first, second = ((y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(2))
    return y[0] + (points - x[0]) * (first + (points - x[1]) * (second - first) / (x[2] - x[0]))


def in_two_steps(run: Mechanism, query: Query, target: float, at: Bracketing) -> float:
    """A float, an upper bound on epsilon or delta, by the best split found.

    If the loss of one step alone shows that a split gains nothing, the other step is not computed. What the questions
    have in common is computed once.
    """
    if _is_long(run, query, target):
        say_long(
            f"a record that is replaced asks several times about allocated steps, at deltas of {target:.1g} and less"
        )
    shares = itertools.chain((_FIRST_SHARE, _FIRST_SHARE), itertools.repeat(_SHARE))

    def ask(query: Query, target: float, direction: Direction) -> float:
        width = max(at.width, 1e-3)
        return at.ask(run, query, target, width, wants_lower=False, direction=direction, share=next(shares)).upper

    with shared():
        return _least_epsilon(ask, target) if query is Query.EPSILON else _least_delta(ask, target)


_Ask = Callable[[Query, float, Direction], float]


def _least_epsilon(ask: _Ask, target: float) -> float:
    """Epsilon at the delta `target`, from the answers of `ask` about either step."""
    met: list[tuple[float, float]] = []  # epsilons of both steps

    def split(logit: float, rival: float, is_left: bool) -> float:
        del is_left
        return of_share(target / (1.0 + math.exp(-logit)) * _DOWN, rival)

    def of_share(share: float, rival: float) -> float:
        first = ask(Query.EPSILON, share, Direction.REMOVE)
        if first > rival:
            return first
        return with_first(first, share)

    def with_first(first: float, share: float) -> float:
        rest = (target - share) * math.exp(-first) * _DOWN
        if not rest > _LEAST_DELTA:
            return math.inf
        second = ask(Query.EPSILON, rest, Direction.ADD)
        met.append((first, second))
        return up(first + second, 2)

    found = _searched(split, *_LOGITS, _FAR_LOGITS)
    if math.isinf(found) and target > _LEAST_DELTA:
        found = _above_least_deltas(ask, target, of_share)
    # if one step has epsilon 0, the other one gets all of delta but that step's delta at epsilon 0
    if any(first == 0.0 for first, _ in met):
        found = min(found, with_first(0.0, ask(Query.DELTA, 0.0, Direction.REMOVE)))
    if any(second == 0.0 for _, second in met):
        at_zero = ask(Query.DELTA, 0.0, Direction.ADD)
        for _ in range(_NUM_GUESSES):  # it counts e^epsilon times, at the epsilon known so far
            rest = (target - grown(at_zero, found, 16)) * _DOWN
            before = found
            found = min(before, ask(Query.EPSILON, rest, Direction.REMOVE) if rest > _LEAST_DELTA else math.inf)
            if found > before * (1.0 - _GAIN):
                break
    return found


def _above_least_deltas(ask: _Ask, target: float, of_share: Callable[[float, float], float]) -> float:
    """Epsilon by splits of what `target` exceeds the deltas by that remain in the two steps at any epsilon."""
    least = {d: ask(Query.DELTA, _FAR_EPSILON, d) for d in Direction}
    spare = (target - least[Direction.REMOVE]) - least[Direction.ADD]
    if not spare > 0.0 < max(least.values()):
        return math.inf

    def split(logit: float, rival: float, is_left: bool) -> float:
        del is_left
        return of_share(least[Direction.REMOVE] + spare / (1.0 + math.exp(-logit)), rival)

    return _searched(split, *_LOGITS, _FAR_LOGITS)


def _least_delta(ask: _Ask, target: float) -> float:
    """Delta at the epsilon `target`, from the answers of `ask` about either step."""
    terms = _Logarithms()

    def split(first: float, rival: float, is_left: bool) -> float:
        second = max(target - first, 0.0) * (1.0 - 2.0**-52)  # both together are at most the target
        found = 0.0
        # on the left the removal loses much, on the right the addition
        for d in (Direction.REMOVE, Direction.ADD) if is_left else (Direction.ADD, Direction.REMOVE):
            term = ask(Query.DELTA, first if d is Direction.REMOVE else second, d)
            term = grown(term, first, 16) if d is Direction.ADD else term
            terms.note(d, first, term)
            found += term
            if found > rival:
                break
        return up(found, 4)

    found = _searched(split, 0.0, target, (0.0, target), terms.guess)
    if found > 0.0:  # where both terms drop to 0 at the largest loss, both may be 0 only if the split is equal
        found = min(found, split(0.5 * target, found, True))
    for _ in range(_NUM_HALVES if found > 0.0 else 0):
        if (where := terms.begins()) is None:
            break
        found = min(found, split(0.5 * (where[0] + where[1]), found, where[2] is Direction.REMOVE))
    if target > _FAR and found > 0.0:
        found = min(found, _searched(split, 0.0, _FAR, (0.0, _FAR), terms.guess))
    return min(1.0, found)
