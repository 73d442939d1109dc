"""Sums of cosines and of sines over many losses, at equally spaced heights: what complex moments are made of.

Where there are many more losses than the largest height can tell apart, they are put into bins of half width rho, and
e^(iyt) = e^(iyc) e^(iy(t - c)) about a bin's centre c is expanded in powers of z x, z = rho y <= 1 and x = (t - c)/rho:
18 powers leave out 1.06/18! of each weight, and sums of their absolute values are at most e times the weights'.
"""

import math
from typing import Any

import numpy as np

from jaxacct.special import rows_times, rows_times_rows

Real = Any  # NumPy's arrays of float64

_POWERS = 18  # of the expansion in a bin: 1.06/18! is 1.5 ULP
_WORTH = 4  # losses for each bin from which on bins are used
_BINS = 128  # bins at once: products small enough that no thread is started


def num_products(num_losses: float, turns: float, num_heights: float) -> float:
    """A float, about how many products the sums take: losses times heights, or three for each bin and height.

    `turns` is the largest height times the largest loss.
    """
    bins = 0.5 * turns + 1.0
    return (3.0 * bins if _WORTH * bins <= num_losses else num_losses) * num_heights


def turned_sums(loss: Real, real: Real, imag: Real, step: float, num: int) -> tuple[Real, Real]:
    """(sum of `real` (cos yt - 1), sum of `imag` sin yt), [N] each, over losses t >= 0 [O], at heights y = k `step`.

    Each errs by at most 4 (O + 64) ULP of the sum of its weights, and by what 3 ULP of an angle do. Losses one by one:
    additions, and four products. Bins: 2.72 for each addition within one, one for each bin, of which there are O/4 at
    most, and 2.72 (18 + 9 + 4) for powers, their sum and the turn.
    """
    if num == 1:
        return np.zeros(1), np.zeros(1)
    width = 2.0 / (step * (num - 1))
    most = float(loss.max(initial=0.0)) / width + 1.0
    if _WORTH * most > len(loss):
        return _one_by_one(loss, real, imag, step, num)
    return _by_bins(loss, real, imag, step, num, width)


def _one_by_one(loss: Real, real: Real, imag: Real, step: float, num: int) -> tuple[Real, Real]:
    rows = max(1, math.isqrt(num))
    coarse = step * rows * np.arange(-(-num // rows))[:, None] * loss
    fine = step * np.arange(rows)[:, None] * loss
    cos_u, sin_u = -2.0 * np.sin(0.5 * coarse) ** 2, np.sin(coarse)  # cosines less 1
    cos_v, sin_v = -2.0 * np.sin(0.5 * fine) ** 2, np.sin(fine)

    # cos(u + v) - 1 = U + V + UV - sin sin,   sin(u + v) = sin u (1 + V) + (1 + U) sin v
    by_u, by_v = rows_times(cos_u, real), rows_times(cos_v, real)
    cosines = by_u[:, None] + by_v + rows_times_rows(cos_u * real, cos_v) - rows_times_rows(sin_u * real, sin_v)
    sines = rows_times(sin_u, imag)[:, None] + rows_times(sin_v, imag)
    sines = sines + rows_times_rows(sin_u * imag, cos_v) + rows_times_rows(cos_u * imag, sin_v)
    return cosines.ravel()[:num], sines.ravel()[:num]


def _by_bins(loss: Real, real: Real, imag: Real, step: float, num: int, width: float) -> tuple[Real, Real]:
    where = (loss / width).astype(np.int64)
    size = int(where.max()) + 1
    centre = width * (np.arange(size) + 0.5)
    x = (loss - centre[where]) * (2.0 / width)
    moments = np.zeros((2, _POWERS, size))
    for weight, of in zip((real, imag), moments, strict=True):
        power = weight
        for j in range(_POWERS):
            of[j] = np.bincount(where, power, size) / math.factorial(j)
            power = power * x
    # (iz)^j is real for even j, imaginary for odd ones, of signs + + - -
    moments *= np.tile([1.0, 1.0, -1.0, -1.0], _POWERS)[:_POWERS, None]
    rows = max(1, math.isqrt(num))
    found = np.zeros((2, -(-num // rows), rows))
    for low in range(0, size, _BINS):
        part, c = moments[:, :, low : low + _BINS], centre[low : low + _BINS]
        fine = step * np.arange(rows)[:, None] * c
        cos_v, sin_v = np.cos(fine), np.sin(fine)
        for k in range(found.shape[1]):
            first = step * (k * rows)
            z = 0.5 * width * (first + step * np.arange(rows))
            powers = z[:, None] ** np.arange(_POWERS)
            (even, other_even), (odd, other_odd) = (powers[:, i::2] @ part[:, i::2] for i in (0, 1))
            cos_u, sin_u = np.cos(first * c), np.sin(first * c)
            cos, sin = cos_v * cos_u - sin_v * sin_u, sin_v * cos_u + cos_v * sin_u
            found[0, k] += (cos * even - sin * odd).sum(axis=1)
            found[1, k] += (sin * other_even + cos * other_odd).sum(axis=1)
    cosines, sines = found.reshape(2, -1)[:, :num]
    return cosines - cosines[0], sines
