"""Several rounds of shuffled reports or check-ins: the loss distribution of one, from the least bound known on it.

docs/papers/blanket.md, BL-6: rounds compose as epochs of shuffled batches do (SB-2). Both directions of a round have
one profile, the largest over ordered pairs of data.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from jaxacct import _trees
from jaxacct._method import always, only_analysed
from jaxacct._types import Bound, Direction, TooFineError
from jaxacct.bounds._distribution import Distribution, Parts, check_from_above
from jaxacct.bounds._parts import has_several_rounds
from jaxacct.bounds._stand_in import in_own_relation
from jaxacct.bounds.bases._base import unbounded
from jaxacct.bounds.blanket._known import blanket_round, has_blanket, report_epsilon, with_fewer
from jaxacct.bounds.blanket._one_round import blanket_helps, blanket_theorem, order_helps
from jaxacct.bounds.blanket._order import hides, order_delta, order_theorem
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import dominating_pld
from jaxacct.divergence.batches._profile import Knots, knots
from jaxacct.divergence.blanket._profile import LARGEST, round_delta
from jaxacct.mechanisms import CheckIn, GaussianReports, Shuffled

_ROUGH = 1e-12  # the delta at which the scale of the loss is measured
_LEAST = 1e-150  # least delta of a tail
_MOST_DEVIATIONS = 4096.0  # of a loss, over which its tail may reach on a grid
_MOST_POINTS = 2**22  # of a grid
_SCALE = 2.5  # for a normal loss, delta at epsilon 0 is .4 of its deviation
_ORDERED = frozenset({(Shuffled, GaussianReports), (CheckIn, GaussianReports)})


def _is_ordered(mechanism: Any) -> bool:
    return mechanism.signature() in _ORDERED and hides(mechanism)


def _asked(mechanism: Any) -> tuple[bool, bool]:
    """Whether the blanket of a round is looked at, and whether its order is: what is known, and may be the least."""
    blanket, order = has_blanket(mechanism), _is_ordered(mechanism)
    return blanket and (not order or blanket_helps(mechanism)), order and (not blanket or order_helps(mechanism))


def _delta(mechanism: Any, goal: float, epsilon: float) -> float:
    """The least upper bound known on delta of one round."""
    return min(_delta_of(run, goal, epsilon) for run in with_fewer(mechanism))


def _delta_of(mechanism: Any, goal: float, epsilon: float) -> float:
    blanket, order = _asked(mechanism)
    run = blanket_round(mechanism) if blanket else None
    found = 1.0 if run is None else round_delta(run, epsilon, goal)
    return min(found, order_delta(mechanism, epsilon, goal)) if order else found


@functools.lru_cache(maxsize=32)
def _knots(mechanism: Any, goal: float) -> Knots:
    """Knots of the profile of one round, down to `goal`."""
    return knots(functools.partial(_delta, mechanism, goal), goal, min(report_epsilon(mechanism, goal), LARGEST))


def _one_round(mechanism: Any) -> Any:
    """One round, with Python floats for fields: rounds of one kind share what is computed."""
    return _trees.map_leaves(float, dataclasses.replace(mechanism, num_epochs=1))


@functools.lru_cache(maxsize=64)
def _deviation(mechanism: Any) -> float:
    """Approximately the standard deviation of one round's loss; more where its tail is that long."""
    deviation = _SCALE * _delta(mechanism, _ROUGH, 0.0)
    end, high = 8.0 * deviation, min(report_epsilon(mechanism, _ROUGH), LARGEST)
    while end < high and _delta(mechanism, _ROUGH, end) > _ROUGH:
        end = 2.0 * end
    return max(deviation, min(end, high) / _MOST_DEVIATIONS)


def _pld(mechanism: Any, step: float, tail: float, direction: Direction) -> Pld:
    goal = max(10.0 ** math.floor(math.log10(tail)), _LEAST)  # so that neighbouring questions share what they look at
    known = _knots(_one_round(mechanism), goal)
    if float(known.epsilon[-1]) > step * _MOST_POINTS:
        raise TooFineError(f"mechanism={mechanism!r}: too many steps of {step:.3g} up to {known.epsilon[-1]:.3g}")
    profile = known.on_grid(step)
    return dominating_pld(step, profile, profile, direction, theorem=_theorem(mechanism))


def _parts(mechanism: Any, step: float, bound: Bound, tail: float) -> Parts:
    check_from_above(mechanism, bound)
    return lambda direction: [(_pld(mechanism, step, tail, direction), int(mechanism.num_epochs))]


def _scale(mechanism: Any) -> tuple[float, int]:
    rounds = int(mechanism.num_epochs)
    return rounds * _deviation(_one_round(mechanism)) ** 2, rounds


def _theorem(mechanism: Any) -> str:
    blanket, order = _asked(mechanism)
    known = [blanket_theorem(mechanism)] if blanket else []
    known += [order_theorem(mechanism)] if order else []
    return "; ".join([*known, *(["composed by BL-6"] if has_several_rounds(mechanism) else [])])


DISTRIBUTION = Distribution(
    theorem=_theorem,
    parts=in_own_relation(_parts),
    scale=_scale,
    largest_loss=unbounded,
    below=only_analysed,
    width_constant=lambda mechanism: 0.5,
    is_from_above=always,
    exists=lambda mechanism: _is_ordered(mechanism) or has_blanket(mechanism),
)
