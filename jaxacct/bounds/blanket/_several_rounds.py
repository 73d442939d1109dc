"""Several rounds of shuffled reports or check-ins: composed from the least bound known on one (BL-6)."""

from __future__ import annotations

import functools
from typing import Any

from jaxacct.bounds._parts import has_several_rounds
from jaxacct.bounds._rounds import rounds_from_profile
from jaxacct.bounds.blanket._known import blanket_round, has_blanket, report_epsilon, with_fewer
from jaxacct.bounds.blanket._one_round import blanket_helps, blanket_theorem, order_helps
from jaxacct.bounds.blanket._order import hides, order_delta, order_theorem
from jaxacct.divergence.blanket._profile import LARGEST, round_delta
from jaxacct.mechanisms import CheckIn, GaussianReports, Shuffled

_ORDERED = frozenset({(Shuffled, GaussianReports), (CheckIn, GaussianReports)})


def _is_ordered(mechanism: Any) -> bool:
    return mechanism.signature() in _ORDERED and hides(mechanism)


def _asked(mechanism: Any) -> tuple[bool, bool]:
    """Whether the blanket of a round is used, and whether its order is: each if known, and perhaps the tighter one."""
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


def _largest(mechanism: Any, goal: float) -> float:
    return min(report_epsilon(mechanism, goal), LARGEST)


def _theorem(mechanism: Any) -> str:
    blanket, order = _asked(mechanism)
    known = [blanket_theorem(mechanism)] if blanket else []
    known += [order_theorem(mechanism)] if order else []
    return "; ".join([*known, *(["composed by BL-6"] if has_several_rounds(mechanism) else [])])


DISTRIBUTION = rounds_from_profile(
    lambda mechanism, goal: functools.partial(_delta, mechanism, goal),
    _largest,
    _theorem,
    exists=lambda mechanism: _is_ordered(mechanism) or has_blanket(mechanism),
)
