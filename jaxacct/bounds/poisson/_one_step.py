"""One Poisson-sampled Laplace release: its profile in closed form, each direction its own."""

from collections.abc import Mapping

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds.laplace import laplace_delta
from jaxacct.divergence._one_sampled_step import one_step_delta, one_step_epsilon
from jaxacct.mechanisms import PoissonSampled


def _is_one_step(mechanism: PoissonSampled) -> bool:
    concrete = not is_traced(mechanism) and np.ndim(mechanism.num_steps) == 0
    return concrete and bool(mechanism.num_steps == 1)


def _bracket(mechanism: PoissonSampled, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction asked."""
    release, prob = mechanism.mechanism, float(mechanism.sampling_prob)
    if prob == 0.0:
        return dict.fromkeys(at.known, Ends(0.0, 0.0))

    def profile(log_threshold: float, *, is_upper: bool) -> float:
        safe = log_threshold * (1.0 - 2.0**-48 if is_upper else 1.0 + 2.0**-48)
        ends = laplace_delta(release, safe)
        return ends.upper if is_upper else ends.lower

    answer = one_step_delta if query is Query.DELTA else one_step_epsilon
    return {direction: answer(profile, prob, direction, target) for direction in at.known}


ONE_STEP = BracketMethod(
    engine=Engine.FORMULA,
    name="exact",
    theorem="Balle, Barthe & Gaboardi 2018, Theorems 2 and 3",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=_is_one_step,
    bracket=_bracket,
    below=itself,
    regime="one step",
)
