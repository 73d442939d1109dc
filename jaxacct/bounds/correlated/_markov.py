"""Balls in bins with correlated noise, from above: inner products raised to those of a Gaussian Markov chain.

The divergence of the mean of log-normal variables grows with their covariances (Kahane 1986), and that of a chain is
known by a forward programme. On a circle all bins are kept, or those some steps apart; on a line, once the turn of the
bins is revealed, those of an arc whose ends share no row around the circle.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, always
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds.correlated._groups import likely
from jaxacct.bounds.correlated._overlaps import Overlaps, is_known, overlaps
from jaxacct.divergence.correlated._chain import Chain
from jaxacct.divergence.correlated._sum import Law, law
from jaxacct.mechanisms import BallsInBins
from jaxacct.special import bisect

THEOREM = "CN-6: overlaps raised to those of a Markov chain (docs/papers/correlated.md; Kahane 1986)"

_SLACK = 1.0 + 2.0**-28  # of covariances: what the moves of a chain, as rounded, may be short of
_LEAST_RATIO, _MOST_RATIO = 0.01, 0.995  # below, bins hardly overlap; above, the grid of a chain is too fine
_MOST_VARIANCE = 30.0  # of a bin: exponentials, and the width of a grid
_MOST_EPSILON = 8.0  # sums of e^eps and more stand on a grid that is too coarse
_MOST_BINS = 2048  # of a line
_AROUND = 24  # bins of a circle, each of whose first variables is walked by itself
_ROUGH = (5.0, 256)  # nodes for a deviation and for the sum, with which chains are compared
_FINE = ((7.0, 512), (10.0, 1100))  # on a circle, and on a line
_ROUND = 0.25  # epsilons up to the next multiple are answered together
_NUM_HALVINGS = 40  # of a bracket of a ratio, or of an epsilon
_NEAR = 0.9  # of an epsilon found on the rough grid, below which the fine one does not look


def chains(found: Overlaps, squared_noise: float) -> Iterator[Chain]:
    """Each `Chain`, a class, whose covariances are no less than those of bins that may be kept."""
    t, around = len(found.largest), found.around
    beyond = np.maximum.accumulate(around[::-1])[::-1] / squared_noise * _SLACK
    variance = float(beyond[0])
    if t == 1 or beyond[1] == 0.0 or variance > _MOST_VARIANCE:
        return
    apart = -(-t // _AROUND)
    for stride in {apart, apart + 1} if apart > 1 else {1}:
        length = t // stride
        if length > 2:
            places = np.arange(1, length)
            needed = beyond[np.minimum(stride * np.minimum(places, length - places), t // 2)]
            yield from _fitted(variance, needed, length, is_circle=True)
    free = np.flatnonzero(beyond == 0.0)
    for stride in (1, 2) if len(free) else ():
        length = (t - int(free[0])) // stride + 1
        if 2 <= length <= _MOST_BINS:
            places = stride * np.arange(1, length)
            yield from _fitted(variance, beyond[np.minimum(places, t - places)], length, is_circle=False)


def _fitted(variance: float, needed: NDArray[Any], length: int, *, is_circle: bool) -> Iterator[Chain]:
    """The chain of the least ratio whose covariances at distances 1, 2, .. are `needed` or more, if there is one."""
    far = np.arange(1, length)

    def reaches(ratio: float) -> bool:
        shares = ratio**far
        if is_circle:
            shares = (shares + ratio ** (length - far)) / (1.0 + ratio**length)
        return bool(np.all(variance * shares >= needed * _SLACK))

    if reaches(_MOST_RATIO):
        ratio = bisect(reaches, _MOST_RATIO, 0.0, num_steps=_NUM_HALVINGS)
        if ratio > _LEAST_RATIO:
            yield Chain(variance, ratio, length, is_circle)


class _Asked(NamedTuple):
    direction: Direction
    fineness: float
    num_sums: int


def _law(chain: Chain, epsilon: float, asked: _Asked) -> Law:
    """One that answers for epsilons up to `epsilon` in the direction REMOVE, from it on in ADD.

    And up to the next of some round numbers, so that one serves questions at several epsilons.
    """
    if asked.direction is Direction.REMOVE:
        return _kept(chain, math.ceil(epsilon / _ROUND) * _ROUND, asked)
    return _kept(chain, -math.floor(epsilon / _ROUND) * _ROUND, asked)


@functools.lru_cache(maxsize=64)
def _kept(chain: Chain, log_most: float, asked: _Asked) -> Law:
    return law(chain, asked.direction, math.exp(log_most) * (1.0 + 2.0**-50), asked.fineness, asked.num_sums)


def _delta(of: Law, epsilon: float) -> float:
    if of.direction is Direction.REMOVE:
        return min(1.0, of.value(math.exp(epsilon) * (1.0 - 2.0**-50)))
    return min(1.0, of.value(math.exp(-epsilon) * (1.0 + 2.0**-50)) * math.exp(epsilon) * (1.0 + 2.0**-50))


def _fine(chain: Chain, direction: Direction) -> _Asked:
    return _Asked(direction, *_FINE[0 if chain.is_circle else 1])


def _likely(every: list[Chain], epsilon: float) -> Chain:
    """The chain that is best on a rough grid."""
    if len(every) == 1:
        return every[0]
    rough = _Asked(Direction.REMOVE, *_ROUGH)
    return min(every, key=lambda chain: _delta(_law(chain, epsilon, rough), epsilon))


def _epsilon(chain: Chain, target: float, known: float, direction: Direction, rival: float) -> float:
    """The least epsilon up to `known` that is found to have at most delta `target`; inf if there is none.

    One that is at most `rival`, that of the other direction, need not be fine.
    """
    found = math.inf
    for asked in (_Asked(direction, *_ROUGH), _fine(chain, direction)):
        most = min(known, found)
        least = 0.0 if direction is Direction.REMOVE or math.isinf(found) else _NEAR * found
        of = _law(chain, most if direction is Direction.REMOVE else least, asked)
        if _delta(of, most) <= target:
            found = bisect(lambda x, of=of: _delta(of, x) <= target, most, least, num_steps=_NUM_HALVINGS)  # type: ignore[misc]
        if found <= rival:
            break
    return found


def _one_delta(chain: Chain, epsilon: float, direction: Direction, rival: float) -> float:
    """The delta of one direction; one that is at most `rival`, that of the other direction, need not be fine."""
    rough = _delta(_law(chain, epsilon, _Asked(direction, *_ROUGH)), epsilon)
    return rough if rough <= rival else min(rough, _delta(_law(chain, epsilon, _fine(chain, direction)), epsilon))


def _bracket(run: BallsInBins, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    found = {d: Ends(0.0, query.worst) for d in at.known}
    known = {d: ends.upper for d, ends in at.known.items()}
    if query is Query.EPSILON and not all(map(math.isfinite, known.values())):
        by_groups = at.ask(likely(run), query, target, at.width, wants_lower=False).upper
        known = {d: min(upper, by_groups) for d, upper in known.items()}
    largest = target if query is Query.DELTA else max(known.values())
    every = list(chains(overlaps(run), float(run.noise_multiplier) ** 2))
    if not every or not largest <= _MOST_EPSILON:
        return found
    chain, rival = _likely(every, largest), 0.0
    for d in sorted(at.known, key=list(Direction).index):
        if query is Query.DELTA:
            upper = _one_delta(chain, target, d, rival)
        else:
            upper = _epsilon(chain, target, known[d], d, rival)
        found[d], rival = Ends(0.0, upper), max(rival, upper)
    return found


def _may_help(run: BallsInBins) -> bool:
    """Whether there are bins that overlap, and a chain for them."""
    return next(chains(overlaps(run), float(run.noise_multiplier) ** 2), None) is not None


MARKOV = BracketMethod(
    engine=Engine.FORMULA,
    name="markov chain",
    theorem=THEOREM,
    directions=BOTH,
    ends=frozenset({Bound.UPPER}),
    cost=Cost.SECONDS,
    cold=Cost.SECONDS,
    sharpens_reduction=True,
    applies=lambda run: is_known(run) and _may_help(run),
    bracket=_bracket,
    reduction=always,
    regime=f"bins that overlap, epsilon up to {_MOST_EPSILON:g}, up to {_MOST_BINS} bins of an arc or {_AROUND} around",
)
