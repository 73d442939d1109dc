"""Shuffled batches in which a record is replaced by any other one.

The upper bounds are by the same theorems as against the empty record (SB-6, SB-7), with opposite records, the worst of
all pairs. The lower bounds are for explicit data: all other records contribute -1, the one in question 1, and the one
in its place -1. Once what all batches have in common is subtracted, one batch has mean 2, or none has: this is random
allocation with half the noise, with a record removed or added. Where batches differ in size, or records are left out,
it reveals no more than the data do (the batches' shares majorise equal ones; a larger share of records left out is a
contraction).
"""

from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import Bracketing, BracketMethod, Cost, Method, Query, Role, itself, only_where
from jaxacct._types import Bound, Direction, Ends, LastBatch
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds.shuffled_batches._upper import (
    DISTRIBUTION,
    SHUFFLE,
    has_several_epochs,
    is_shuffled,
    known_batches,
    run_of,
)
from jaxacct.mechanisms import (
    Composed,
    Gaussian,
    PartialAllocation,
    PartialShuffledBatches,
    RandomAllocation,
    ReplaceOne,
    ShuffledBatches,
)
from jaxacct.mechanisms._base import Mechanism


def _half(run: Any) -> Gaussian:
    noise = run.mechanism if run.signature() != (Gaussian,) else run
    return Gaussian(0.5 * float(noise.noise_multiplier))


def _of_whole(run: ShuffledBatches) -> Mechanism:
    steps, epochs = int(run.num_steps), int(run.num_epochs)
    if run.last_batch is not LastBatch.DROPPED:
        return RandomAllocation(_half(run), steps, 1, epochs)
    one = PartialAllocation(_half(run), steps + 1, steps)  # no more records are left out than one batch has
    return Composed(one, epochs) if epochs > 1 else one


def _of_begun(run: PartialShuffledBatches) -> Mechanism:
    return PartialAllocation(_half(run), int(run.num_steps), int(run.steps_done))


def _of_parts(run: Composed) -> Mechanism | None:
    found = [explicit(part) for part, _ in run.parts()]
    return None if any(part is None for part in found) else Composed(tuple(found), run.counts)


_EXPLICIT: dict[tuple[type, ...], Callable[[Any], Mechanism | None]] = {
    (ShuffledBatches, Gaussian): _of_whole,
    (PartialShuffledBatches, Gaussian): _of_begun,
    (Gaussian,): _half,
    (Composed,): _of_parts,
}


def explicit(run: Mechanism) -> Mechanism | None:
    """A mechanism (class `Mechanism`) that loses as much as explicit data in which a record is replaced; or None."""
    make = _EXPLICIT.get(run.signature())
    return None if make is None else make(run)


def _bracket(mechanism: ReplaceOne, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """Upper ends as if the batches were known, lower ends from explicit data."""
    upper, lower = at.ask(known_batches(mechanism), query, target, at.width, wants_lower=False).upper, 0.0
    if at.wants_lower:
        less = explicit(run_of(mechanism))
        assert less is not None
        lower = at.ask(less, query, target, at.width, wants_lower=True).lower
    return dict.fromkeys(at.known, Ends(min(lower, upper), upper))


_KNOWN = BracketMethod(
    name="known batches",
    theorem="noise of half the size; random allocation with noise of half the size",
    directions=SHUFFLE.directions,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=is_shuffled,
    bracket=_bracket,
    below=itself,
    regime="ShuffledBatches and PartialShuffledBatches",
)

REPLACED: tuple[Method, ...] = (
    SHUFFLE,
    _KNOWN,
    loss_distribution(DISTRIBUTION, only_where(has_several_epochs, Role.NARROW)),
)
"""Methods of `ReplaceOne`."""
