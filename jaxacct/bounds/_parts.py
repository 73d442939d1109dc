"""What a mechanism consists of, whether that is one point of concrete numbers; and brackets that ask about others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._method import Bracketing, Query
from jaxacct._precision import is_traced
from jaxacct._types import Direction, Ends
from jaxacct.mechanisms._base import Mechanism

Brackets = Callable[[Any, Query, float, Bracketing], Mapping[Direction, Ends[float]]]


def flattened(mechanism: Mechanism) -> list[tuple[Mechanism, Any]]:
    """A list of (part that is no composition, int: how often it is run), for every part at any depth.

    A mechanism that is no composition is its own only part.
    """
    found: list[tuple[Mechanism, Any]] = []
    for part, count in mechanism.parts():
        if part is mechanism:
            return [(mechanism, count)]
        found += [(leaf, times * count) for leaf, times in flattened(part)]
    return found


def is_scalar(mechanism: Any) -> bool:
    """bool: whether all its numbers are concrete and none is an array, as what is answered on the host needs them."""
    return not is_traced(mechanism) and not any(np.ndim(leaf) for leaf in _trees.leaves(mechanism))


def by_another(other: Callable[[Any], Any]) -> Brackets:
    """A function for `BracketMethod.bracket`: the ends of what `other` makes of a mechanism, one for all directions."""

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
        ends = at.ask(other(mechanism), query, target, at.width, wants_lower=at.wants_lower)
        return dict.fromkeys(at.known, ends)

    return bracket


def from_below(lower: Callable[[Any, Query, float, Bracketing], float]) -> Brackets:
    """A function for `BracketMethod.bracket`: a lower end alone, where it is wanted, one for all directions."""

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
        found = lower(mechanism, query, target, at) if at.wants_lower else 0.0
        return dict.fromkeys(at.known, Ends(found, query.worst))

    return bracket
