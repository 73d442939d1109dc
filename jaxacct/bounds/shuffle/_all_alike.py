"""Shuffled Gaussian reports from below: all other data are alike, and two clipping norms from the record's.

What is seen of a round is then n - 1 reports of one law and one of another, in an order that says nothing: 1 of n steps
of random allocation, whose noise multiplier is half that of the reports. Without the record's own datum all are alike.
"""

from collections.abc import Mapping
from typing import Any

from jaxacct._method import Bracketing, BracketMethod, Cost, Query, itself
from jaxacct._types import Bound, Direction, Ends
from jaxacct.mechanisms import Gaussian, RandomAllocation, Shuffled

_MOST_REPORTS, _MOST_NOISE = 2.0**40, 400.0  # of reports, and of the square of the noise multiplier over them


def _as_allocation(mechanism: Shuffled) -> RandomAllocation:
    """Random allocation whose two directions are divergences between data sets of shuffled Gaussian reports."""
    noise = Gaussian(0.5 * mechanism.mechanism.noise_multiplier)
    return RandomAllocation(noise, mechanism.num_reports, num_epochs=mechanism.num_epochs)


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    lower = 0.0
    if at.wants_lower:
        lower = at.ask(_as_allocation(mechanism), query, target, at.width, wants_lower=True).lower
    return dict.fromkeys(at.known, Ends(lower, query.worst))


def _applies(mechanism: Shuffled) -> bool:
    """Whether allocation is quick there: of more noise the sum of the reports says as much, to five digits."""
    n, noise = float(mechanism.num_reports), float(mechanism.mechanism.noise_multiplier)
    return n <= _MOST_REPORTS and noise * noise <= _MOST_NOISE * n


ALL_ALIKE = BracketMethod(
    name="reports of equal data",
    theorem="Feldman & Shenfeld 2025, Theorem 3.1, of reports where all others hold the same datum",
    directions=(Direction.REMOVE,),
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    bracket=_bracket,
    applies=_applies,
    below=itself,
)
