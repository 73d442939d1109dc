"""Lower bounds for shuffled batches, from explicit data and a test by the sum of scores of all outputs.

docs/papers/shuffled_batches.md, SB-8: all other records contribute the opposite of the one in question. Where batches
differ in size, or records are left out, what is tested is no easier to tell apart than these data (the batches' shares
majorise equal ones; a larger share of records that are left out is a contraction).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, itself
from jaxacct._types import Bound, Direction, Ends, LastBatch
from jaxacct.bounds._nearby import below_nearby
from jaxacct.bounds._parts import is_scalar
from jaxacct.divergence.batches._explicit import Data, Letters, explicit_delta, letters
from jaxacct.divergence.batches._profile import falling_root
from jaxacct.mechanisms import Composed, DiscretePair, PartialShuffledBatches, ShuffledBatches
from jaxacct.special import down

_ROUGH = 1e-5  # the delta at which an epoch's scale is measured
_MOST_BATCHES = 10**7  # beyond, sums of scores are not known well enough


def _of_whole(mechanism: ShuffledBatches) -> Data:
    steps = int(mechanism.num_steps)
    # no more records are left out than one batch has
    share = steps / (steps + 1.0) if mechanism.last_batch is LastBatch.DROPPED else 1.0
    return Data(_shift(mechanism), steps, down(share, 4) if share < 1.0 else 1.0)


def _of_begun(mechanism: PartialShuffledBatches) -> Data:
    done, batches = int(mechanism.steps_done), int(mechanism.num_steps)
    return Data(_shift(mechanism), done, 1.0 if done == batches else down(done / batches, 4))


_DATA: dict[type, Callable[[Any], Data]] = {ShuffledBatches: _of_whole, PartialShuffledBatches: _of_begun}


def _shift(mechanism: Any) -> float:
    return down(1.0 / float(mechanism.mechanism.noise_multiplier), 2)


def _applies(mechanism: Any) -> bool:
    return is_scalar(mechanism) and 1 < int(mechanism.num_steps) <= _MOST_BATCHES


def _below(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The lower ends that the test certifies, in each direction."""
    data, epochs = _DATA[type(mechanism)](mechanism), int(getattr(mechanism, "num_epochs", 1))
    found = {}
    for d, known in at.known.items():
        if not at.wants_lower:
            low = 0.0
        elif epochs > 1:
            low = _composed(data, epochs, _tilt(mechanism, query, target, at), query, target, d, at)
        elif query is Query.DELTA:
            low = explicit_delta(data, target, d)
        else:
            low = _epsilon(data, target, d, min(known.upper, 0.5 * data.shift**2 + 40.0 * data.shift))
        found[d] = Ends(low, query.worst)
    return found


def _epsilon(data: Data, delta: float, direction: Direction, high: float) -> float:
    """An epsilon at which delta is more than `delta`, near the largest one; 0 where there is none."""

    def profile(epsilon: float) -> float:
        return explicit_delta(data, epsilon, direction)

    return falling_root(profile, delta, 0.9 * high, high, from_below=True).lower


def _tilt(mechanism: ShuffledBatches, query: Query, target: float, at: Bracketing) -> float:
    """Approximately the epsilon of one epoch that is best for the test of several; any value is valid."""
    one, delta = mechanism.epochs(1)[0][0], target if query is Query.EPSILON else _ROUGH
    found = at.ask(one, Query.EPSILON, delta, Query.EPSILON.width, wants_lower=False).upper
    return found / math.sqrt(float(mechanism.num_epochs))


def _composed(
    data: Data, epochs: int, tilt: float, query: Query, target: float, direction: Direction, at: Bracketing
) -> float:
    """A lower bound from `epochs` independent epochs' scores."""
    best = 0.0
    for epsilon in (0.0, tilt):
        found = letters(data, epsilon, direction)
        if found is not None:
            best = max(best, _of_letters(found, epochs, query, target, at))
    return best


def _of_letters(found: Letters, epochs: int, query: Query, target: float, at: Bracketing) -> float:
    total, other = math.fsum(found.with_it), math.fsum(found.without)
    pair = DiscretePair(tuple(found.with_it / total), tuple(found.without / other))
    lost = epochs * (max(1.0 - total, other - 1.0, 0.0) * (1.0 + 2.0**-40) + 2.0**-48)

    def below(asked: float) -> float:
        run = Composed(pair, epochs)
        return at.ask(run, query, asked, query.width, wants_lower=True, direction=Direction.REMOVE).lower

    return below_nearby(query, target, lost, below)


SCORES = BracketMethod(
    engine=Engine.TEST,
    name="sum of scores",
    theorem="SB-8: a test of explicit data (docs/papers/shuffled_batches.md)",
    directions=BOTH,
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=_applies,
    role=Role.SHARPER,
    regime="up to 10 million batches",
    bracket=_below,
    below=itself,
)
