"""Products of NumPy matrices that never start threads.

Linear algebra libraries start threads for matrices of ten thousand entries or so, and waiting for them costs many times
as much as such a product.
"""

import math
from typing import Any

import numpy as np

_LARGEST = 2**18 - 1  # multiplications in one product of matrices: below the threshold of any library
_LONGEST = 256  # terms of a sum in one such product


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
    n, m, inner = left.shape[-2], right.shape[-2], left.shape[-1]
    if np.iscomplexobj(left):  # as real matrices, which libraries multiply faster
        parts = (np.concatenate([x.real, x.imag], axis=-2) for x in (left, right))
        every = rows_times_rows(*parts)
        return every[..., :n, :m] - every[..., n:, m:] + 1j * (every[..., :n, m:] + every[..., n:, :m])
    if min(n, m) > 1 and n * m * inner <= _LARGEST:
        return left @ right.swapaxes(-1, -2)
    out = np.empty((*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), n, m))
    _multiply(left, right, out)
    return out


def _multiply(left: Any, right: Any, out: Any) -> None:
    """The same, written to `out`, tile by tile."""
    (n, inner), m = left.shape[-2:], right.shape[-2]
    if min(n, m) <= 1:  # libraries start threads for a matrix and a vector even sooner
        np.einsum("...ij,...kj->...ik", left, right, out=out)
        return
    length = math.ceil(inner / math.ceil(inner / _LONGEST)) if inner else 1
    rows, columns = _tile(n, m, _LARGEST // length)
    below, beyond = n - n % rows, m - m % columns
    tiles = out[..., :below, :beyond]
    tiles = tiles.reshape(*tiles.shape[:-2], n // rows, rows, m // columns, columns).swapaxes(-3, -2)
    by_row = left[..., :below, :].reshape(*left.shape[:-2], n // rows, 1, rows, inner)
    by_column = right[..., :beyond, :].reshape(*right.shape[:-2], 1, m // columns, columns, inner).swapaxes(-2, -1)
    np.matmul(by_row[..., :length], by_column[..., :length, :], out=tiles)
    for start in range(length, inner, length):
        part = slice(start, start + length)
        tiles += by_row[..., part] @ by_column[..., part, :]
    if beyond < m:
        _multiply(left[..., :below, :], right[..., beyond:, :], out[..., :below, beyond:])
    if below < n:
        _multiply(left[..., below:, :], right, out[..., below:, :])


def _tile(n: int, m: int, most: int) -> tuple[int, int]:
    """Rows and columns of a tile of `most` entries, nearly square and of whole vectors where it can be."""
    side = math.isqrt(most) // 8 * 8
    if n <= m:
        rows = min(n, side)
        return rows, min(m, most // rows)
    columns = min(m, side)
    return min(n, most // columns), columns
