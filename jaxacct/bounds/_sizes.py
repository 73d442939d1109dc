"""How large a loss distribution will be, guessed from its scale before it is made: where to start, what is too much.

`scale` and `count` are those of `Distribution.scale`: the squared scale of the composed loss, and the number of parts.
"""

import math

_MEMORY_LIMIT = 2**31  # bytes that a refinement may hold at once
_BYTES = 200.0  # for each point: some twenty arrays
_LEAST = 2.0**-40  # nats, of a part's loss: smaller ones count as this


def num_points(scale: float, count: int) -> float:
    """A float: about how many points the window of composed losses has at resolution 1; at deep deltas it has more."""
    return (40.0 * max(math.sqrt(scale), scale) + 30.0) / max(math.sqrt(scale / count), _LEAST)


def num_cells(scale: float, count: int, largest: float) -> float:
    """A float: about how many cells composed losses spread over at resolution 1: ten standard deviations either way.

    Args:
      largest: the largest loss of all parts together, or inf.
    """
    return max(1.0, min(20.0 * math.sqrt(scale) + 2.0 * largest / count, 2.0 * largest) / math.sqrt(scale / count))


def is_too_large(points: float) -> bool:
    """Whether (bool) a refinement to so many points would hold too much at once."""
    return _BYTES * points > _MEMORY_LIMIT
