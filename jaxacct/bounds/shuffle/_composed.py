"""Several rounds of shuffled reports, by the complex moments of the clones pair: one concrete question at a time.

Feldman, McMillan & Talwar 2021, Theorem 3.2: the pair dominates a round, adaptively composed (CL-S15, route C).
Replace-one adjacency; the pair is symmetric, so both directions are equal. The ends are those of the pair, a reduction.
"""

from collections.abc import Mapping
from typing import Any

from jaxacct._method import Bracketing, BracketMethod, Cost, Engine, Query, only_analysed
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._clones_pair import concrete_pair, has_pair
from jaxacct.divergence.clones._composed import composed_ends
from jaxacct.special import up

_MOST_LOCAL = 30.0  # a larger local epsilon is left to other methods
_MOST_ROUNDS = 2.0**40  # more rounds are left to other methods: a moment's rounding error grows with them


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    del at  # every width is reached at once, or not at all
    n, clone_prob, local = concrete_pair(mechanism)
    rounds = float(mechanism.num_epochs)
    most = float(up(rounds * local, 8))
    if query is Query.DELTA:
        found = Ends(0.0, 0.0) if target >= most else composed_ends(n, clone_prob, local, rounds, epsilon=target)
    else:
        found = composed_ends(n, clone_prob, local, rounds, delta=target)
        found = Ends(min(found.lower, most), min(found.upper, most))
    return {Direction.REMOVE: found}


def _applies(mechanism: Any) -> bool:
    """Whether the moments are tried: several rounds of two reports or more, whose ratios of likelihoods are doubles."""
    if not has_pair(mechanism) or not 1 < mechanism.num_epochs <= _MOST_ROUNDS or mechanism.num_reports < 2:
        return False
    _, clone_prob, local = concrete_pair(mechanism)
    return 0.0 < local <= _MOST_LOCAL and clone_prob > 0.0


COMPOSED = BracketMethod(
    engine=Engine.CONTOUR,
    name="clones moments",
    theorem="Feldman, McMillan & Talwar 2021, Theorem 3.2",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=_applies,
    below=only_analysed,
    bracket=_bracket,
    regime="several rounds",
)
