"""Working memory of the kernels of shuffled reports, which hold windows of counts in some dozens of arrays."""

from collections.abc import Sequence

from jaxacct._method import orders_bytes

_WINDOW_BYTES = 400  # bytes of working memory for one count
_TABLE_BYTES = 64  # bytes for one count and node, where a kernel holds a table of both


def window_bytes(
    *,
    orders: Sequence[float] = (),
    window: int = 0,
    rounds: int = 0,
    num_clones: int = 0,
    blocks: int = 0,
    nodes: int = 0,
    pure: bool = False,
) -> int:
    """Bytes of working memory of one lane, an int, from the kernels' static arguments."""
    del pure
    widest = max(window, rounds, num_clones, blocks)
    return max(orders_bytes(orders=orders), _WINDOW_BYTES * widest, _TABLE_BYTES * nodes * widest)
