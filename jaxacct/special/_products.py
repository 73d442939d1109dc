"""Products of NumPy matrices that never start threads.

Linear algebra libraries start threads for matrices of ten thousand entries or so, and the waiting of those costs many
times what such a product does.
"""

from typing import Any

import numpy as np

_LARGEST = 2**17  # multiplications in one product of matrices: below the threshold of any library


def rows_times(matrix: Any, vector: Any) -> Any:
    """`matrix` [.., N] times `vector` [N], summed over the last axis.

    >>> import numpy as np
    >>> from jaxacct.special import rows_times
    >>> rows_times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    return np.einsum("...j,j->...", matrix, vector)


def rows_times_rows(left: Any, right: Any) -> Any:
    """`left` [M, N] times the transpose of `right` [K, N], real or complex: [M, K].

    >>> import numpy as np
    >>> from jaxacct.special import rows_times_rows
    >>> rows_times_rows(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[11.,  2.]])
    """
    if np.iscomplexobj(left):  # as real ones, which libraries multiply faster
        n, m = len(left), len(right)
        every = rows_times_rows(np.concatenate([left.real, left.imag]), np.concatenate([right.real, right.imag]))
        return every[:n, :m] - every[n:, m:] + 1j * (every[:n, m:] + every[n:, :m])
    piece = max(16, _LARGEST // (len(left) * len(right)))
    if piece >= left.shape[1]:
        return left @ right.T
    return sum(left[:, i : i + piece] @ right[:, i : i + piece].T for i in range(0, left.shape[1], piece))
