"""Upper bounds for balls in bins with correlated noise: inner products raised to those of a Gaussian Markov chain.

The divergence of the mean of log-normal variables grows with their covariances (Kahane 1986), and that of a chain is
computed by a forward recursion. On a circle all bins are kept, or those some steps apart; on a line, once the turn of
the bins is revealed, those of an arc whose ends share no row around the circle.
"""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds.correlated._fits import MOST_AROUND, MOST_BINS, chains
from jaxacct.bounds.correlated._groups import likely
from jaxacct.bounds.correlated._overlaps import is_known, overlaps
from jaxacct.divergence.correlated._chain import Chain
from jaxacct.divergence.correlated._sum import SumLaw, law
from jaxacct.mechanisms import BallsInBins
from jaxacct.special import bisect

THEOREM = "CN-6: overlaps raised to those of a Markov chain (docs/papers/correlated.md; Kahane 1986)"

_MOST_EPSILON = 8.0  # beyond it the grid is too coarse for sums of e^eps and more
_ROUND = 0.25  # epsilons up to the next multiple are answered together
_NUM_HALVINGS = 40  # of a bracket of an epsilon
_NEAR = 0.9  # share of an epsilon found on the rough grid below which the fine one does not search
# standard deviations of what all bins share, by which the sums that are known go beyond the one asked for (e^eps, or
# e^-eps for ADD); for ADD the next number is tried while larger sums make up more than `_SHARE` of delta
_REMOVED, _ADDED, _SHARE = 2.5, (3.5, 5.0, 7.0, 10.0), 0.1
_FINER_TO = 1.0  # epsilons for which sums are near 1, where twice the nodes are worth it
_LOG_MOST_MORE = 1.5  # log of the most times more nodes that it takes


class _Asked(NamedTuple):
    direction: Direction
    fineness: float
    num_sums: int


def _rough(chain: Chain, direction: Direction) -> _Asked:
    """A grid on which chains are compared."""
    return _Asked(direction, 4.0 if chain.is_circle else 5.0, 128)


def _fine(chain: Chain, direction: Direction) -> _Asked:
    """A grid that takes a few seconds at most: fewer nodes per deviation for more bins, or first variables."""
    if chain.is_circle:
        return _Asked(direction, 10.0 if chain.length <= (12 if chain.white else 24) else 7.0, 128)
    return _Asked(direction, 15.0 if chain.length <= 512 else 10.0 if chain.length <= 2048 else 7.0, 256)


def _law(chain: Chain, epsilon: float, asked: _Asked) -> SumLaw:
    """A law that covers epsilons up to `epsilon` in the direction REMOVE, from it on in ADD.

    `epsilon` is rounded outward to a multiple of `_ROUND`, so that one law is used at several epsilons.
    """
    shared = chain.shared
    if asked.direction is Direction.REMOVE:
        more = max(_REMOVED * math.sqrt(shared) - 0.5 * shared, 0.0)
        return _kept(chain, math.ceil(epsilon / _ROUND) * _ROUND, more, asked)
    least = math.floor(epsilon / _ROUND) * _ROUND
    return _kept(chain, -least, _more_added(chain, least), asked)


@functools.lru_cache(maxsize=64)
def _more_added(chain: Chain, epsilon: float) -> float:
    """The log of how many times e^-`epsilon` the largest sum is that is known for ADD; any is valid."""
    shared, more = chain.shared, 0.0
    for deviations in _ADDED if shared else ():
        more = deviations * math.sqrt(shared) + 0.5 * shared
        of, c = _kept(chain, -epsilon, more, _rough(chain, Direction.ADD)), math.exp(-epsilon)
        if more >= epsilon or of.absorbed_value(c) <= _SHARE * of.value(c):
            break
    return more


@functools.lru_cache(maxsize=64)
def _kept(chain: Chain, log_most: float, more: float, asked: _Asked) -> SumLaw:
    finer = 2.0 if abs(log_most) <= _FINER_TO else 1.0
    num_sums = math.ceil(asked.num_sums * finer * math.exp(min(more, _LOG_MOST_MORE)))
    return law(chain, asked.direction, math.exp(log_most + more) * (1.0 + 2.0**-50), asked.fineness, num_sums)


def _delta(of: SumLaw, epsilon: float) -> float:
    if of.direction is Direction.REMOVE:
        return min(1.0, of.value(math.exp(epsilon) * (1.0 - 2.0**-50)))
    return min(1.0, of.value(math.exp(-epsilon) * (1.0 + 2.0**-50)) * math.exp(epsilon) * (1.0 + 2.0**-50))


def _likely(every: tuple[Chain, ...], epsilon: float) -> Chain:
    """The chain that is best on a rough grid."""
    if len(every) == 1:
        return every[0]
    return min(every, key=lambda chain: _delta(_law(chain, epsilon, _rough(chain, Direction.REMOVE)), epsilon))


def _epsilon(chain: Chain, target: float, known: float, direction: Direction, rival: float) -> float:
    """The least epsilon up to `known` that is found to have at most delta `target`; inf if there is none.

    An answer that is at most `rival`, that of the other direction, need not be fine.
    """
    found = math.inf
    for asked in (_rough(chain, direction), _fine(chain, direction)):
        most = min(known, found)
        rough = 0.0 if math.isinf(found) else min(_NEAR * found, math.floor(found / _ROUND) * _ROUND)
        least = 0.0 if direction is Direction.REMOVE else rough
        of = _law(chain, most if direction is Direction.REMOVE else least, asked)
        if _delta(of, least) <= target:
            found = least
        elif _delta(of, most) <= target:
            found = bisect(lambda x, of=of: _delta(of, x) <= target, most, least, num_steps=_NUM_HALVINGS)  # type: ignore[misc]
        if found <= rival:
            break
    return found


def _one_delta(chain: Chain, epsilon: float, direction: Direction, rival: float) -> float:
    """The delta of one direction; if it is at most `rival`, that of the other direction, it need not be fine."""
    rough = _delta(_law(chain, epsilon, _rough(chain, direction)), epsilon)
    return rough if rough <= rival else min(rough, _delta(_law(chain, epsilon, _fine(chain, direction)), epsilon))


def _bracket(run: BallsInBins, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    found = {d: Ends(0.0, query.worst) for d in at.known}
    known = {d: ends.upper for d, ends in at.known.items()}
    if query is Query.EPSILON and not all(map(math.isfinite, known.values())):
        by_groups = at.ask(likely(run), query, target, at.width, wants_lower=False).upper
        known = {d: min(upper, by_groups) for d, upper in known.items()}
    largest = target if query is Query.DELTA else max(known.values())
    every = chains(overlaps(run), float(run.noise_multiplier) ** 2)
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


MARKOV = BracketMethod(
    engine=Engine.FORMULA,
    name="markov chain",
    theorem=THEOREM,
    directions=BOTH,
    ends=frozenset({Bound.UPPER}),
    cost=Cost.SECONDS,
    role=Role.SHARPER,
    applies=lambda run: is_known(run) and bool(chains(overlaps(run), float(run.noise_multiplier) ** 2)),
    bracket=_bracket,
    regime=f"bins that overlap, epsilon up to {_MOST_EPSILON:g}; to {MOST_BINS} bins of an arc or {MOST_AROUND} around",
)
