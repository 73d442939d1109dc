"""The size of a loss distribution, guessed from its scale before it is made: where to start, and what is too much.

`scale` and `count` are those of `Distribution.scale`: the squared scale of the composed loss, and the number of parts.
"""

import math

_MEMORY_LIMIT = 2**31  # bytes that a refinement may hold at once
_BYTES = 200.0  # for each point: about twenty arrays
_LEAST = 2.0**-40  # nats, of a part's loss: smaller ones count as this


def num_points(scale: float, count: int) -> float:
    """A float: approximate number of points in the window of composed losses at resolution 1; more at deep deltas."""
    return (40.0 * max(math.sqrt(scale), scale) + 30.0) / max(math.sqrt(scale / count), _LEAST)


def num_cells(scale: float, count: int, largest: float) -> float:
    """A float: approximate number of cells of composed losses at resolution 1: ten standard deviations either way.

    Args:
      largest: the largest loss of all parts together, or inf.
    """
    return max(1.0, min(20.0 * math.sqrt(scale) + 2.0 * largest / count, 2.0 * largest) / math.sqrt(scale / count))


def is_too_large(points: float) -> bool:
    """bool: whether a refinement to this many points would need too much memory."""
    return _BYTES * points > _MEMORY_LIMIT
