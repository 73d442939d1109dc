"""Compositions of rounds of one scheme, analysed as one run of it with as many rounds, about which more is known.

Every round makes its random choices afresh, so that the observer sees the same outputs with the same probabilities.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Query, Role, always, itself, never
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._parts import flattened, is_scalar
from jaxacct.mechanisms import CheckIn, Composed, RandomAllocation, Shuffled
from jaxacct.mechanisms._base import Mechanism

_MOST = 2**53  # rounds of one run
_GAINS: dict[type, Callable[[Any], bool]] = {
    Shuffled: always,
    CheckIn: always,
    RandomAllocation: lambda run: bool(run.num_selected > 1),
}
"""The mechanisms of which several rounds have methods of their own, which use more than those of compositions do."""


def whole_run(mechanism: Composed) -> Mechanism | None:
    """A mechanism whose rounds are those of all parts of `mechanism`; None where they differ, or nothing is gained."""
    if not is_scalar(mechanism):
        return None
    parts: list[tuple[Any, Any]] = flattened(mechanism)
    first = parts[0][0]
    if not _GAINS.get(type(first), never)(first) or any(part.signature() != first.signature() for part, _ in parts):
        return None
    rounds = sum(int(count) * int(part.num_epochs) for part, count in parts)
    if rounds > _MOST:
        return None
    found = {dataclasses.replace(part, num_epochs=rounds) for part, _ in parts}
    return found.pop() if len(found) == 1 else None


def _bracket(mechanism: Composed, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    run = whole_run(mechanism)
    assert run is not None
    found = {}
    for direction in at.known:
        named = direction if len(run.directions) > 1 else None
        found[direction] = at.ask(run, query, target, at.width, wants_lower=at.wants_lower, direction=named)
    return found


EQUAL_ROUNDS = BracketMethod(
    name="equal rounds",
    theorem="the same rounds, described as one run",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=lambda mechanism: whole_run(mechanism) is not None,
    bracket=_bracket,
    below=itself,
    role=Role.QUICK,
    regime="rounds of the same reports, or of the same allocation of several steps",
)
"""The method for compositions of equal rounds: the methods of one run of that many rounds."""
