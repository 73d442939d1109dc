"""The parts of a composition, whatever is composed of what."""

from typing import Any


def flattened(mechanism: Any) -> list[tuple[Any, Any]]:
    """(mechanism that is no composition, how often it is run) for every part, at any depth; itself where it is one."""
    found: list[tuple[Any, Any]] = []
    for part, count in mechanism.parts():
        if part is mechanism:
            return [(mechanism, count)]
        found += [(leaf, times * count) for leaf, times in flattened(part)]
    return found
