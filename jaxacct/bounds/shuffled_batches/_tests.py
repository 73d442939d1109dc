"""Lower bounds for shuffled batches, from tests of whether any output was large.

Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024, "How Private are DP-SGD Implementations?". Adjacency: one
record is replaced by the empty record, whose contribution is 0. Let every other record contribute -1 and the one in
question 1, in one dimension, in batches of known sizes b. Once -b, which is known, is subtracted, the batch with the
record has mean 2, or 1 if it is the empty record, and the others have mean 0. There are two tests of these outputs: was
any output of all epochs large; and, for each epoch, was any of its outputs large, which gives E independent coins of
known probabilities.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, itself
from jaxacct._types import Bound, Direction, Ends, LastBatch
from jaxacct.bounds._nearby import below_nearby
from jaxacct.bounds.allocation._largest_output import Outputs, delta_of, epsilon_of, tests_of
from jaxacct.bounds.discrete import EXACT as TYPES
from jaxacct.mechanisms import Composed, DiscretePair, ShuffledBatches

_SHIFTS = (0, 8, 16)  # thresholds whose coins are tried, counted from the one that reveals most; any is valid
_THRESHOLDS = (-6.0, 38.0)  # between which they lie, in standard deviations
_LEAST = 1e-250  # probability of either side of a coin that is tried


def _run(mechanism: ShuffledBatches, num_epochs: int) -> Outputs:
    mu = 1.0 / float(mechanism.mechanism.noise_multiplier)
    return Outputs(2.0 * mu, int(mechanism.num_steps) * num_epochs, num_epochs, before=mu)


def _below(mechanism: ShuffledBatches, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The larger of what the two tests certify, in each direction."""
    epochs = int(mechanism.num_epochs)
    run, ask = _run(mechanism, epochs), epsilon_of if query is Query.EPSILON else delta_of
    found = {d: ask(run, target, d) for d in at.known}
    if epochs > 1:
        for d, low in found.items():
            found[d] = max([low, *(_of_coins(coin, epochs, query, target, d, at) for coin in _coins(mechanism, d))])
    return {d: Ends(low, query.worst) for d, low in found.items()}


class _Coin(NamedTuple):
    """The probabilities that an output is large and that none is, with the record and without, and their error."""

    with_it: tuple[float, float]
    without: tuple[float, float]
    error: float


def _coins(mechanism: ShuffledBatches, direction: Direction) -> list[_Coin]:
    """Coins to try: the one that reveals most of one epoch, by its divergence, comes first."""
    tests = tests_of(_run(mechanism, 1), *_THRESHOLDS)
    logs = (tests.log_p, tests.log_q) if direction is Direction.REMOVE else (tests.log_q, tests.log_p)
    sides = [(-np.expm1(x), np.exp(x)) for x in logs]  # large, none: no digits cancel
    smallest = np.minimum.reduce([side for pair in sides for side in pair])
    # of 1 - e^x at most that of x; of e^x that times |x|
    error = tests.error * (1.0 + np.maximum(-tests.log_p, -tests.log_q)) + 2.0**-49
    with np.errstate(all="ignore"):
        gain = sum(first * np.log(first / second) for first, second in zip(*sides, strict=True))
    gain = np.where((smallest > _LEAST) & np.isfinite(gain), gain, -np.inf)
    best = int(np.argmax(gain))
    (p, none_p), (q, none_q) = sides if direction is Direction.REMOVE else sides[::-1]
    return [
        _Coin((float(p[i]), float(none_p[i])), (float(q[i]), float(none_q[i])), float(error[i]))
        for i in (best + shift for shift in _SHIFTS)
        if i < len(gain) and np.isfinite(gain[i])
    ]


def _of_coins(coin: _Coin, epochs: int, query: Query, target: float, direction: Direction, at: Bracketing) -> float:
    """A lower bound from `epochs` independent coins, each side of which is known to within a factor."""
    pair = Composed(DiscretePair(coin.with_it, coin.without), epochs)
    known = {direction: Ends(0.0, query.worst)}
    part = Bracketing(width=at.width, known=known, wants_lower=True, ask=at.ask)

    def below(asked: float) -> float:
        return TYPES.bracket(pair, query, asked, part)[direction].lower if TYPES.applies(pair) else 0.0

    return below_nearby(query, target, epochs * coin.error, below)


LARGEST = BracketMethod(
    engine=Engine.TEST,
    name="largest output",
    theorem="Chua et al. 2024, How Private are DP-SGD Implementations?, threshold events",
    directions=BOTH,
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=lambda mechanism: mechanism.last_batch is not LastBatch.DROPPED,
    role=Role.SHARPER,
    regime="the test: was any output large?",
    bracket=_below,
    below=itself,
)
