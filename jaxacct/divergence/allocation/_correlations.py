"""Correlations of one table with many weights, as products of matrices."""

import math

import numpy as np

from jaxacct.divergence.allocation._grid import Complex, Real

BLOCK = 96  # terms of a sum that are added without a split
# They steer speed only.
_HOP = 8  # outputs that share a window of the table
_LARGEST = 2**17  # multiplications in one product of matrices: libraries start threads for larger ones


def correlated(table: Complex | Real, weights: Complex | Real, every: int, count: int) -> Complex | Real:
    """sum_m weights[r, m] table[n + every m], n < `count`: [R, count] for weights [R, M], both real or both complex.

    Sums of at most `BLOCK` terms, whose errors are smaller, are added up, at most M/BLOCK + 2 of them.
    """
    num, size = weights.shape
    length, windows = size + _HOP - 1, -(-count // (every * _HOP))
    columns = np.zeros((every, windows * _HOP + size - 1), table.dtype)
    have = min(columns.shape[1], -(-len(table) // every))
    padded = np.pad(table, (0, max(have * every - len(table), 0)))[: have * every]
    columns[:, :have] = padded.reshape(have, every).T
    # a window serves `_HOP` outputs, each of which has its own copy of the weights, moved by one
    moved = np.zeros((num, size + 2 * (_HOP - 1)), weights.dtype)
    moved[:, _HOP - 1 : _HOP - 1 + size] = weights
    right = np.lib.stride_tricks.sliding_window_view(moved, length, -1)[:, ::-1]
    left = np.lib.stride_tricks.sliding_window_view(columns, length, -1)[:, ::_HOP]
    if np.iscomplexobj(table):  # as real ones, which libraries multiply faster
        both = _product(np.stack([left.real, left.imag]), np.stack([right.real, right.imag]))
        both = both.reshape(2, every, windows, 2, num, _HOP)
        out = both[0, :, :, 0] - both[1, :, :, 1] + 1j * (both[0, :, :, 1] + both[1, :, :, 0])
    else:
        out = _product(left, right).reshape(every, windows, num, _HOP)
    return out.transpose(2, 1, 3, 0).reshape(num, -1)[:, :count]


def correlated_above(table: Real, weights: Real, every: int, count: int) -> Real:
    """At least the same, of a table and weights that are not negative: of the largest in each `every` of the table."""
    blocks = np.pad(table, (0, -len(table) % every)).reshape(-1, every).max(1)
    return np.repeat(correlated(blocks, weights, 1, -(-count // every)), every, axis=-1)[:, :count]


def _product(left: Real, right: Real) -> Real:
    """`left` [.., N] times `right` [.., N], all rows of either: [rows, rows]."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    left, right = left.reshape(math.prod(left.shape[:-1]), -1), right.reshape(math.prod(right.shape[:-1]), -1).T.copy()
    out = np.zeros((len(left), right.shape[1]))
    tile = max(1, _LARGEST // (BLOCK * right.shape[1]))
    tiled = len(left) // tile * tile
    for start in range(0, len(right), BLOCK):
        of, by = left[:, start : start + BLOCK], right[start : start + BLOCK]
        out[:tiled] += (of[:tiled].reshape(tiled // tile, tile, len(by)) @ by).reshape(tiled, out.shape[1])
        out[tiled:] += of[tiled:] @ by
    return out
