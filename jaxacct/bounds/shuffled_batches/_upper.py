"""Upper bounds for shuffled batches, from what the secret order hides.

docs/papers/shuffled_batches.md, SB-6: whole epochs; SB-7: epochs of which some records stay hidden, since they are left
out or to come; SB-2: several epochs. Adjacency: a record against the empty one; or, in `ReplaceOne`, any other one.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, always, only_analysed
from jaxacct._types import Bound, Direction, Ends, LastBatch
from jaxacct.bounds._distribution import Distribution, Parts, check_from_above
from jaxacct.bounds._parts import has_several_rounds, is_scalar
from jaxacct.bounds._stand_in import in_own_relation
from jaxacct.bounds.bases._base import unbounded
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import dominating_pld
from jaxacct.divergence.batches._blanket import MOST_LOSS
from jaxacct.divergence.batches._profile import BatchEpoch, Knots, epoch_delta, epoch_delta_alone, epoch_epsilon, knots
from jaxacct.mechanisms import Composed, Gaussian, PartialShuffledBatches, ReplaceOne, ShuffledBatches
from jaxacct.special import up

_SWAP = "SB-6: a swap with one blank step (ours, docs/papers/shuffled_batches.md)"
_HIDDEN = "SB-7: a hidden record (ours, docs/papers/shuffled_batches.md)"
_ROUGH = 1e-12  # the delta at which the scale of the loss is measured
_LEAST = 1e-290  # least delta of a tail
_SCALE = 2.5  # for a normal loss, delta at epsilon 0 is .4 of its deviation


def _shift(mechanism: Any) -> float:
    return up(1.0 / float(mechanism.mechanism.noise_multiplier), 2)


def _whole(mechanism: ShuffledBatches, goal: float) -> BatchEpoch:
    """One epoch of several."""
    equal = int(mechanism.num_equal)
    return BatchEpoch(_shift(mechanism), equal, equal, mechanism.last_batch is LastBatch.DROPPED, goal)


def _begun(mechanism: PartialShuffledBatches, goal: float) -> BatchEpoch:
    batches, done = int(mechanism.num_steps), int(mechanism.steps_done)
    return BatchEpoch(_shift(mechanism), batches, done, done < batches, goal)


_EPOCHS: dict[type, Callable[[Any, float], BatchEpoch]] = {ShuffledBatches: _whole, PartialShuffledBatches: _begun}
_SIGNATURES = frozenset((kind, Gaussian) for kind in _EPOCHS)


def run_of(mechanism: Any) -> Any:
    """The run itself (class `Mechanism`), without the adjacency that may be wrapped around it."""
    return mechanism.mechanism if mechanism.relation is ReplaceOne.relation else mechanism


def _epoch(mechanism: Any, goal: float) -> BatchEpoch:
    run = run_of(mechanism)
    return _EPOCHS[type(run)](run, goal)._replace(replaces=run is not mechanism)


def _repeats(mechanism: Any) -> int:
    return int(getattr(run_of(mechanism), "num_epochs", 1))


def known_batches(mechanism: Any) -> Composed:
    """The mechanism (class `Composed`) that remains where a record's batches are known."""
    noise = run_of(mechanism).mechanism
    if mechanism.relation is ReplaceOne.relation:
        noise = Gaussian(0.5 * float(noise.noise_multiplier))
    return Composed(noise, _repeats(mechanism))


def _theorem(mechanism: Any) -> str:
    return _HIDDEN if _epoch(mechanism, _ROUGH).has_hidden else _SWAP


def is_shuffled(mechanism: Any) -> bool:
    """bool: whether `mechanism` is a run of shuffled batches with concrete fields."""
    return is_scalar(mechanism) and run_of(mechanism).signature() in _SIGNATURES


def hides(mechanism: Any) -> bool:
    """bool: whether there is an order to hide behind, and noise enough to compute with."""
    if not is_shuffled(mechanism):
        return False
    epoch = _epoch(mechanism, _ROUGH)
    return (epoch.has_hidden or epoch.num_batches > 1) and epoch.shift <= MOST_LOSS


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """Upper ends of one epoch; nowhere above those of a record whose batch is known."""
    known = at.ask(known_batches(mechanism), query, target, at.width, wants_lower=False).upper
    found: dict[Direction, Ends[float]] = {}
    if query is Query.DELTA:
        epoch = _epoch(mechanism, _ROUGH)
        return {d: Ends(0.0, min(known, epoch_delta_alone(epoch, target, d))) for d in at.known}
    epoch = _epoch(mechanism, target)
    for d in at.known:
        # the first direction may decide for both
        before = max((ends.upper for ends in found.values()), default=known)
        decided = bool(found) and epoch_delta(epoch, before, d) <= target
        found[d] = Ends(0.0, before if decided else epoch_epsilon(epoch, d, known))
    return found


SHUFFLE = BracketMethod(
    engine=Engine.FORMULA,
    name="shuffled order",
    theorem=_theorem,
    directions=BOTH,
    cost=Cost.MILLISECONDS,
    applies=lambda mechanism: hides(mechanism) and _repeats(mechanism) == 1,
    role=Role.QUICK,
    regime=f"one epoch of at least two batches, noise multiplier {1.0 / MOST_LOSS:g} or more",
    bracket=_bracket,
)


@functools.lru_cache(maxsize=32)
def _knots(epoch: BatchEpoch, high: float) -> tuple[Knots, Knots]:
    """Knots of the profile in both directions, down to the goal."""
    directions = BOTH[:1] if epoch.replaces else BOTH
    profiles = (functools.partial(epoch_delta, epoch, direction=d) for d in directions)
    remove, *others = (knots(profile, epoch.goal, high) for profile in profiles)
    return remove, *(others or (remove,))


@functools.lru_cache(maxsize=64)
def _deviation(epoch: BatchEpoch) -> float:
    """Approximately the standard deviation of the loss; at most that of a known batch."""
    return min(epoch.distance, _SCALE * epoch_delta(epoch, 0.0, Direction.REMOVE))


def _pld(mechanism: Any, step: float, tail: float, direction: Direction) -> Pld:
    goal = max(10.0 ** math.floor(math.log10(tail)), _LEAST)  # so that neighbouring questions share their knots
    # an epsilon at which a known batch has no more: its loss exceeds mu^2 / 2 + mu z with probability <= e^(-z^2 / 2)
    a = _epoch(mechanism, goal).distance
    high = a * (0.5 * a + math.sqrt(-2.0 * math.log(goal)))
    remove, add = (k.on_grid(step) for k in _knots(_epoch(mechanism, goal), high))
    return dominating_pld(step, remove, add, direction, theorem=_theorem(mechanism))


def _parts(mechanism: Any, step: float, bound: Bound, tail: float) -> Parts:
    check_from_above(mechanism, bound)
    return lambda direction: [(_pld(mechanism, step, tail, direction), _repeats(mechanism))]


def _scale(mechanism: Any) -> tuple[float, int]:
    epochs = _repeats(mechanism)
    return epochs * _deviation(_epoch(mechanism, _ROUGH)) ** 2, epochs


DISTRIBUTION = Distribution(
    theorem=lambda mechanism: _theorem(mechanism) + ("; composed by SB-2" if has_several_epochs(mechanism) else ""),
    parts=in_own_relation(_parts),
    scale=_scale,
    largest_loss=unbounded,
    below=only_analysed,
    width_constant=lambda mechanism: 0.5,
    is_from_above=always,
    exists=hides,
)


def has_several_epochs(mechanism: Any) -> bool:
    """bool: whether there are several epochs to compose."""
    return has_several_rounds(run_of(mechanism))
