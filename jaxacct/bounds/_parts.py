"""The parts of a composition, whatever is composed of what."""

from typing import Any

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
