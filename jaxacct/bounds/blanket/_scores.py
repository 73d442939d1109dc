"""Check-ins of Gaussian reports, and Laplace reports, from below: a test where all others hold the opposite datum.

docs/papers/blanket.md, BL-8. Replace-one adjacency; one round of however many.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds.blanket._known import report_epsilon, users_of
from jaxacct.divergence.batches._profile import falling_root
from jaxacct.divergence.blanket._antipodal import MOST_LAPLACE
from jaxacct.divergence.blanket._tested import (
    MOST_SHIFT,
    MOST_USERS,
    Cells,
    gaussian_cells,
    laplace_cells,
    scored_delta,
)
from jaxacct.mechanisms import GaussianReports, LaplaceReports
from jaxacct.special import down

# 1 / noise, rounded down: of data that are nearer than they may be
_RATES: dict[type, Callable[[Any], float]] = {
    GaussianReports: lambda randomizer: down(1.0 / float(randomizer.noise_multiplier), 2),
    LaplaceReports: lambda randomizer: down(1.0 / float(randomizer.scale), 2),
}
_CELLS: dict[type, Callable[[float], Cells]] = {GaussianReports: gaussian_cells, LaplaceReports: laplace_cells}
_MOST: dict[type, float] = {GaussianReports: MOST_SHIFT, LaplaceReports: MOST_LAPLACE}


def _cells(mechanism: Any) -> Cells:
    kind = type(mechanism.mechanism)
    return _CELLS[kind](_RATES[kind](mechanism.mechanism))


def _applies(mechanism: Any) -> bool:
    if not is_scalar(mechanism):
        return False
    kind, (users, prob) = type(mechanism.mechanism), users_of(mechanism)
    return 1.0 < users <= MOST_USERS and prob > 0.0 and _RATES[kind](mechanism.mechanism) <= _MOST[kind]


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    lower = 0.0
    if at.wants_lower:
        cells, (users, prob) = _cells(mechanism), users_of(mechanism)
        prob = down(prob, 12) if prob < 1.0 else prob

        def profile(epsilon: float) -> float:
            return scored_delta(cells, users, prob, epsilon)

        if query is Query.DELTA:
            lower = profile(target)
        else:
            high = min(at.known[Direction.REMOVE].upper, report_epsilon(mechanism, target))
            lower = falling_root(profile, target, 0.8 * high, high, from_below=True).lower
    return dict.fromkeys(at.known, Ends(lower, query.worst))


SCORES = BracketMethod(
    engine=Engine.TEST,
    name="sum of scores",
    theorem="BL-8: a test where all others hold the opposite datum (docs/papers/blanket.md)",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=_applies,
    bracket=_bracket,
    below=itself,
    regime=f"2 to 10 million users; noise multiplier {1.0 / MOST_SHIFT:g} or more; scale 1/{MOST_LAPLACE:g} or more",
)
