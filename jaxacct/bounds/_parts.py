"""What a mechanism consists of: the parts of a composition, and whether it is a single point of concrete numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._precision import is_traced
from jaxacct.mechanisms._base import Mechanism


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
