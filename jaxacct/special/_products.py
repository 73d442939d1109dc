"""Products of NumPy matrices that never start threads.

Linear algebra libraries start threads for matrices of ten thousand entries or so, and waiting for them costs many times
as much as such a product.
"""

from typing import Any

import numpy as np

_LARGEST = 2**17  # multiplications in one product of matrices: below the threshold of any library
_FEWEST = 64  # terms of a sum that are left in one such product, if there are so many


def rows_times(matrix: Any, vector: Any) -> Any:
    """`matrix` [.., N] times `vector` [N], summed over the last axis; leading axes of the vector broadcast.

    >>> import numpy as np
    >>> from jaxacct.special import rows_times
    >>> rows_times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    return np.einsum("...j,...j->...", matrix, vector)


def rows_times_rows(left: Any, right: Any) -> Any:
    """`left` [.., M, N] times the transpose of `right` [.., K, N], real or complex: [.., M, K].

    >>> import numpy as np
    >>> from jaxacct.special import rows_times_rows
    >>> rows_times_rows(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[11.,  2.]])
    """
    n, m = left.shape[-2], right.shape[-2]
    if np.iscomplexobj(left):  # as real matrices, which libraries multiply faster
        parts = (np.concatenate([x.real, x.imag], axis=-2) for x in (left, right))
        every = rows_times_rows(*parts)
        return every[..., :n, :m] - every[..., n:, m:] + 1j * (every[..., :n, m:] + every[..., n:, :m])
    fewest = min(_FEWEST, left.shape[-1])
    if n * m * fewest > _LARGEST and min(n, m) > 1:
        if n > m:
            return np.concatenate([rows_times_rows(x, right) for x in np.array_split(left, 2, axis=-2)], axis=-2)
        return np.concatenate([rows_times_rows(left, x) for x in np.array_split(right, 2, axis=-2)], axis=-1)
    piece = max(fewest, _LARGEST // (n * m))
    if piece >= left.shape[-1]:
        return left @ right.swapaxes(-1, -2)
    pieces = (slice(i, i + piece) for i in range(0, left.shape[-1], piece))
    return sum(left[..., of] @ right[..., of].swapaxes(-1, -2) for of in pieces)
