"""Reports with noise of a given density from below: their signs, which anybody can look at.

Of data -C and C they are binary randomized response, wrong with the probability that the noise is larger than C.
Replace-one adjacency; one round of however many.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxacct._method import Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds.blanket._known import blanket_round, density_law_of, users_of
from jaxacct.divergence.check_in._response import response_floor_epsilon, response_floor_log_delta
from jaxacct.special import ULP, down

_CUT = 1e-12  # of a probability that may be left out: it steers tightness only
_BLOCKS = 96  # of what is summed, where sums are taken


def _local_epsilon(mechanism: Any) -> float:
    """A float, the local epsilon of the sign of a report as randomized response, rounded down."""
    law = density_law_of(mechanism.mechanism, _CUT)
    if law is None or not law.wrong < 0.5:
        return 0.0
    return max(down(math.log1p(-law.wrong) - math.log(law.wrong), 4) - 16.0 * ULP, 0.0)


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    lower = 0.0
    lane: Any = np.array([target])
    if at.wants_lower:
        users, prob = users_of(mechanism)
        prob = down(prob, 12) if prob < 1.0 else prob
        setting: list[Any] = [np.array([x]) for x in (users, prob, _local_epsilon(mechanism))]
        with np.errstate(all="ignore"):
            if query is Query.EPSILON:
                lower = float(response_floor_epsilon(np.log(lane), *setting, window=_BLOCKS)[0])
            else:
                log_delta = response_floor_log_delta(lane, *setting, window=_BLOCKS)
                lower = down(math.exp(float(log_delta[0])), 8)
    return dict.fromkeys(at.known, Ends(lower, query.worst))


SIGNS = BracketMethod(
    engine=Engine.TEST,
    name="signs of the reports",
    theorem="the signs of the reports: binary randomized response, of data where all others hold the same",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=lambda mechanism: blanket_round(mechanism) is not None,
    bracket=_bracket,
    below=itself,
    regime="one round; a stated density",
)
