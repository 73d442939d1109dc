"""Upper bounds for one round of shuffled reports or check-ins, from their blanket or from their secret order.

docs/papers/blanket.md, BL-1, BL-2 and BL-5.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import Bracketing, BracketMethod, Cost, Engine, Query, Role, only_where
from jaxacct._types import Direction, Ends
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds.blanket._known import blanket_round, has_blanket, report_epsilon, users_of, with_fewer
from jaxacct.bounds.blanket._order import hides, order_delta_alone, order_epsilon, order_theorem
from jaxacct.divergence.batches._blanket import MOST_LOSS
from jaxacct.divergence.blanket._antipodal import MOST_LAPLACE
from jaxacct.divergence.blanket._profile import round_delta_alone, round_epsilon
from jaxacct.mechanisms import (
    CheckIn,
    DensityReports,
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LaplaceReports,
    Shuffled,
)

# These steer cost and tightness only.
_FEW = 10  # users up to which the order of reports in one dimension may be tighter than their blanket
_SMALL, _SOME = 2.0, 100  # a blanket in more dimensions may be tighter below this noise, or up to so many users
_LEAST_DELTA = 1e-150  # of a round: below it nothing is computed

_WORST_PAIR: dict[type, str] = {
    DensityReports: "opposite data, masses between bounds by values of the density (BL-3, BL-7)",
    FiniteRandomizer: "all pairs of inputs",
    GaussianReports: "opposite data",
    KaryRandomizedResponse: "any two values",
    LaplaceReports: "opposite data",
}
_BLANKET: dict[type, str] = {Shuffled: "BL-1", CheckIn: "BL-2"}


def is_one_round(mechanism: Any) -> bool:
    """bool: whether `mechanism` is one round with concrete fields."""
    return is_scalar(mechanism) and int(mechanism.num_epochs) == 1


def order_helps(mechanism: Any) -> bool:
    """bool: whether the order of Gaussian reports may be tighter than their blanket, at some point of a batch.

    In one dimension it hardly ever is.
    """
    return not is_scalar(mechanism) or mechanism.mechanism.dimension != 1 or users_of(mechanism)[0] <= _FEW


def blanket_helps(mechanism: Any) -> bool:
    """bool: whether the blanket of reports may be tighter than their order, at some point of a batch.

    For Gaussian reports in more than one dimension it seldom is.
    """
    dimension = getattr(mechanism.mechanism, "dimension", 1)
    if not is_scalar(mechanism) or dimension in (1, None):
        return True
    noise = getattr(mechanism.mechanism, "noise_multiplier", 0.0)  # other reports have a blanket alone
    return users_of(mechanism)[0] <= _SOME or float(noise) < _SMALL


Answers = Callable[[Any, Query, float, float], float]


def _bracket(
    answer: Answers, mechanism: Any, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """Upper ends by ``answer(mechanism, query, target, an epsilon that is known to be enough)``."""
    if mechanism.loses_nothing():
        return {Direction.REMOVE: Ends(0.0, 0.0)}
    upper = query.worst
    if query is Query.DELTA or target >= _LEAST_DELTA:
        high = (
            min(at.known[Direction.REMOVE].upper, report_epsilon(mechanism, target)) if query is Query.EPSILON else 0.0
        )
        upper = min(answer(run, query, target, high) for run in with_fewer(mechanism))
    return {Direction.REMOVE: Ends(0.0, upper)}


def _by_blanket(mechanism: Any, query: Query, target: float, high: float) -> float:
    run = blanket_round(mechanism)
    assert run is not None
    return round_delta_alone(run, target) if query is Query.DELTA else round_epsilon(run, target, high)


def _by_order(mechanism: Any, query: Query, target: float, high: float) -> float:
    if query is Query.DELTA:
        return order_delta_alone(mechanism, target)
    return order_epsilon(mechanism, target, high)


def blanket_theorem(mechanism: Any) -> str:
    """A string: the theorem of the blanket, for `mechanism`."""
    statement = _BLANKET[type(mechanism)]
    pair = _WORST_PAIR[type(mechanism.mechanism)]
    return f"{statement}: the privacy blanket, {pair} (docs/papers/blanket.md; Balle, Bell, Gascon & Nissim 2019)"


BLANKET = BracketMethod(
    engine=Engine.FORMULA,
    name="privacy blanket",
    theorem=blanket_theorem,
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    applies=lambda mechanism: has_blanket(mechanism) and is_one_round(mechanism),
    role=only_where(blanket_helps, Role.QUICK),
    regime=f"one round; Gaussian noise of a stated dimension, noise multiplier {1.0 / MOST_LOSS:g} or more; Laplace "
    f"noise in one dimension, scale 1/{MOST_LAPLACE:g} or more",
    bracket=functools.partial(_bracket, _by_blanket),
)
ORDER = BracketMethod(
    engine=Engine.FORMULA,
    name="shuffled order",
    theorem=order_theorem,
    directions=(Direction.REMOVE,),
    cost=Cost.MILLISECONDS,
    applies=lambda mechanism: hides(mechanism) and is_one_round(mechanism),
    role=only_where(order_helps, Role.QUICK),
    regime=f"one round, any dimension, noise multiplier {1.0 / MOST_LOSS:g} or more",
    bracket=functools.partial(_bracket, _by_order),
)
