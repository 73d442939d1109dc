"""Merges the method tables of the folders into one."""

from collections.abc import Mapping
from typing import Any

from jaxacct._method import Method
from jaxacct._types import Bound, Direction, NeighboringRelation


def _directions(kind: Any) -> tuple[Direction, ...]:
    """The directions that mechanisms of a type may have; both where their adjacency depends on what they hold."""
    return (Direction.REMOVE,) if kind.relation is NeighboringRelation.REPLACE_ONE else tuple(Direction)


Table = Mapping[tuple[Any, ...], tuple[Method, ...]]


def merged(*tables: Table) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """One dict made of several, from a signature (a mechanism's type and the types that it wraps) to its methods.

    Raises:
      TypeError: if a signature occurs twice, or has no upper bound in some direction: mistakes in the tables, found at
        import.
    """
    found: dict[tuple[Any, ...], tuple[Method, ...]] = {}
    for table in tables:
        for key, methods in table.items():
            shown = "(".join(part.__name__ for part in key) + ")" * (len(key) - 1)
            if key in found:
                raise TypeError(f"{shown} occurs twice in the table of methods")
            upper = [method for method in methods if Bound.UPPER in method.ends]
            missing = set(_directions(key[0])) - {d for method in upper for d in method.directions}
            if missing:
                raise TypeError(f"{shown} has no upper bound in the directions {sorted(d.value for d in missing)}")
            found[key] = methods
    return found
