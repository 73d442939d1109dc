"""Lower bounds for one round of shuffled reports or check-ins, from tests that any observer can make.

Reports with noise of a given density are tested by their signs: for records -C and C these are binary randomized
response, wrong with the probability that the noise is larger than C. Gaussian and Laplace reports are tested by a sum
of scores where all others hold the opposite record (docs/papers/blanket.md, BL-8). Replace-one adjacency.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._types import Bound, Direction
from jaxacct.bounds._parts import from_below, is_scalar
from jaxacct.bounds.blanket._known import blanket_round, density_law_of, report_epsilon, users_of
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
from jaxacct.divergence.check_in._response import response_floor_epsilon, response_floor_log_delta
from jaxacct.mechanisms import GaussianReports, LaplaceReports
from jaxacct.special import ULP, down

_CUT = 1e-12  # of a probability that may be left out: it steers tightness only
_BLOCKS = 96  # of what is summed, where sums are taken


def _fewest(mechanism: Any) -> tuple[float, float]:
    """The number of users, and the probability with which each sends a report, rounded down."""
    users, prob = users_of(mechanism)
    return users, down(prob, 12) if prob < 1.0 else prob


def _local_epsilon(mechanism: Any) -> float:
    """A float, the local epsilon of the sign of a report as randomized response, rounded down."""
    law = density_law_of(mechanism.mechanism, _CUT)
    if law is None or not law.wrong < 0.5:
        return 0.0
    return max(down(math.log1p(-law.wrong) - math.log(law.wrong), 4) - 16.0 * ULP, 0.0)


def _by_signs(mechanism: Any, query: Query, target: float, at: Bracketing) -> float:
    del at  # it is as close as it can be
    lane: Any = np.array([target])
    setting: list[Any] = [np.array([x]) for x in (*_fewest(mechanism), _local_epsilon(mechanism))]
    with np.errstate(all="ignore"):
        if query is Query.EPSILON:
            return float(response_floor_epsilon(np.log(lane), *setting, window=_BLOCKS)[0])
        log_delta = response_floor_log_delta(lane, *setting, window=_BLOCKS)
        return down(math.exp(float(log_delta[0])), 8)


SIGNS = BracketMethod(
    engine=Engine.TEST,
    name="signs of the reports",
    theorem="the signs of the reports: binary randomized response, of data where all others hold the same",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=lambda mechanism: blanket_round(mechanism) is not None,
    bracket=from_below(_by_signs),
    below=itself,
    regime="one round; a stated density",
)


# 1 / noise, rounded down: that of records slightly nearer to each other than they may be
_RATES: dict[type, Callable[[Any], float]] = {
    GaussianReports: lambda randomizer: down(1.0 / float(randomizer.noise_multiplier), 2),
    LaplaceReports: lambda randomizer: down(1.0 / float(randomizer.scale), 2),
}
_CELLS: dict[type, Callable[[float], Cells]] = {GaussianReports: gaussian_cells, LaplaceReports: laplace_cells}
_MOST: dict[type, float] = {GaussianReports: MOST_SHIFT, LaplaceReports: MOST_LAPLACE}


def _has_cells(mechanism: Any) -> bool:
    if not is_scalar(mechanism):
        return False
    kind, (users, prob) = type(mechanism.mechanism), users_of(mechanism)
    return 1.0 < users <= MOST_USERS and prob > 0.0 and _RATES[kind](mechanism.mechanism) <= _MOST[kind]


def _by_scores(mechanism: Any, query: Query, target: float, at: Bracketing) -> float:
    kind, (users, prob) = type(mechanism.mechanism), _fewest(mechanism)
    cells = _CELLS[kind](_RATES[kind](mechanism.mechanism))

    def profile(epsilon: float) -> float:
        return scored_delta(cells, users, prob, epsilon)

    if query is Query.DELTA:
        return profile(target)
    high = min(at.known[Direction.REMOVE].upper, report_epsilon(mechanism, target))
    return falling_root(profile, target, 0.8 * high, high, from_below=True).lower


SCORES = BracketMethod(
    engine=Engine.TEST,
    name="sum of scores",
    theorem="BL-8: a test where all others hold the opposite datum (docs/papers/blanket.md)",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=_has_cells,
    bracket=from_below(_by_scores),
    below=itself,
    regime=f"2 to 10 million users; noise multiplier {1.0 / MOST_SHIFT:g} or more; scale 1/{MOST_LAPLACE:g} or more",
)
