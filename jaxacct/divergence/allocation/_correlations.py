"""Correlations of one table with many weights, as products of matrices."""

import math

import numpy as np

from jaxacct.divergence.allocation._grid import Complex, Real

BLOCK = 96  # terms of a sum that are added without a split
# They affect speed only.
_HOP = 8  # outputs that share a window of the table
_LARGEST = 2**17  # multiplications in one product of matrices: libraries start threads for larger ones


def correlated(table: Complex | Real, weights: Complex | Real, every: int, count: int) -> Complex | Real:
    """sum_m weights[r, m] table[n + every m], n < `count`: [R, count] for weights [R, M], both real or both complex.

    To keep rounding errors small, the sum is split into sums of at most `BLOCK` terms, at most M/BLOCK + 2 of them.
    """
    num, size = weights.shape
    length, windows = size + _HOP - 1, -(-count // (every * _HOP))
    columns = np.zeros((every, windows * _HOP + size - 1), table.dtype)
    have = min(columns.shape[1], -(-len(table) // every))
    padded = np.pad(table, (0, max(have * every - len(table), 0)))[: have * every]
    columns[:, :have] = padded.reshape(have, every).T
    # `_HOP` outputs share a window, each with its own copy of the weights, shifted by one
    moved = np.zeros((num, size + 2 * (_HOP - 1)), weights.dtype)
    moved[:, _HOP - 1 : _HOP - 1 + size] = weights
    right = np.lib.stride_tricks.sliding_window_view(moved, length, -1)[:, ::-1]
    left = np.lib.stride_tricks.sliding_window_view(columns, length, -1)[:, ::_HOP]
    if np.iscomplexobj(table):  # as real matrices, which libraries multiply faster
        both = _product([left.real, left.imag], [right.real, right.imag])
        both = both.reshape(2, every, windows, 2, num, _HOP)
        out = both[0, :, :, 0] - both[1, :, :, 1] + 1j * (both[0, :, :, 1] + both[1, :, :, 0])
    else:
        out = _product([left], [right]).reshape(every, windows, num, _HOP)
    return out.transpose(2, 1, 3, 0).reshape(num, -1)[:, :count]


def correlated_above(table: Real, weights: Real, every: int, count: int) -> Real:
    """Upper bounds on these sums, table and weights >= 0: each `every` entries of the table count as the largest."""
    blocks = np.pad(table, (0, -len(table) % every)).reshape(-1, every).max(1)
    return np.repeat(correlated(blocks, weights, 1, -(-count // every)), every, axis=-1)[:, :count]


def _product(left: list[Real], right: list[Real]) -> Real:
    """All rows of `left`, each [.., N], times all rows of `right`: [rows, rows]."""
    columns = np.ascontiguousarray(np.stack(right).reshape(-1, right[0].shape[-1]).T)
    (size, width), num = columns.shape, len(left) * math.prod(left[0].shape[:-1])
    # products with one row would be matrix-vector products, for which libraries start threads sooner
    tile = max(2, min(_LARGEST // (BLOCK * width), num))
    tiles = np.zeros((-(-num // tile), tile, size))
    np.stack(left, out=tiles.reshape(-1, size)[:num].reshape(len(left), *left[0].shape))
    starts = range(0, size, BLOCK)
    return sum(tiles[..., i : i + BLOCK] @ columns[i : i + BLOCK] for i in starts).reshape(-1, width)[:num]
