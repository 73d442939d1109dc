"""The parts of a mechanism, whether its numbers are concrete scalars, and brackets taken from other mechanisms."""

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
    """A list of (part that is no composition, int: the number of times it is run), for every part at any depth.

    A mechanism that is not a composition is its only part.
    """
    found: list[tuple[Mechanism, Any]] = []
    for part, count in mechanism.parts():
        if part is mechanism:
            return [(mechanism, count)]
        if isinstance(count, np.ndarray | np.generic):  # products of narrow integers would wrap around
            count = count.astype(np.float64)
        found += [(leaf, times * count) for leaf, times in flattened(part)]
    return found


def is_scalar(mechanism: Any) -> bool:
    """bool: whether all its numbers are concrete and none is an array, as methods on the host require."""
    return not is_traced(mechanism) and not any(np.ndim(leaf) for leaf in _trees.leaves(mechanism))


def has_several_rounds(mechanism: Any) -> bool:
    """bool: whether some point of the batch has more than one round or epoch; assumed where their number is traced."""
    rounds = getattr(mechanism, "num_epochs", 1)
    return is_traced(rounds) or bool(np.any(np.asarray(rounds) > 1))


def has_one_round(mechanism: Any) -> bool:
    """bool: whether some point of the batch has one round; assumed where their number is traced."""
    return is_traced(mechanism.num_epochs) or bool(np.any(np.asarray(mechanism.num_epochs) == 1))


def by_another(other: Callable[[Any], Any]) -> Brackets:
    """A function for `BracketMethod.bracket`: the ends of the mechanism that `other` returns, for all directions."""

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
        ends = at.ask(other(mechanism), query, target, at.width, wants_lower=at.wants_lower)
        return dict.fromkeys(at.known, ends)

    return bracket


def from_below(lower: Callable[[Any, Query, float, Bracketing], float]) -> Brackets:
    """A function for `BracketMethod.bracket`: a lower end alone, where one is wanted, the same for all directions."""

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
        found = lower(mechanism, query, target, at) if at.wants_lower else 0.0
        return dict.fromkeys(at.known, Ends(found, query.worst))

    return bracket
