"""What every answer is tagged with."""

import enum


class Bound(enum.Enum):
    """What a number is with respect to the true privacy parameter."""

    UPPER = "upper bound"
    LOWER = "lower bound"
    ESTIMATE = "estimate"


class NeighboringRelation(enum.Enum):
    """Which pairs of datasets count as neighbours."""

    ADD_OR_REMOVE_ONE = "add or remove one record"
    REPLACE_ONE = "replace one record"
    REPLACE_SPECIAL = "replace one record by a special one"


class Direction(enum.Enum):
    """One side of an asymmetric divergence: REMOVE is D(with || without), ADD is D(without || with)."""

    REMOVE = "remove"
    ADD = "add"


class OrderEdgeWarning(UserWarning):
    """The best Renyi order sits on the edge of the grid: the bound holds, but may be loose."""
