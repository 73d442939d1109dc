"""Sums of cosines and of sines over many losses, at equally spaced heights, from which complex moments are formed.

For many heights losses are put into bins of half width rho, and e^(iyt) = e^(iyc) e^(iy(t - c)) about a bin's centre c
is expanded in powers of z x, z = rho y <= pi/4 and x = (t - c)/rho: with 18 powers the truncation error is less than an
ULP of each weight, and the sum of their absolute values is at most 2.2 times that of the weights. The sums over the
centres are discrete Fourier transforms.
"""

import math
from typing import Any

import numpy as np

from jaxacct.special import rows_times, rows_times_rows

Real = Any  # NumPy's arrays of float64

_POWERS = 18  # of the expansion in a bin: (pi/4)^18/18! is far below an ULP
_MANY = 100  # number of heights from which on bins are used


def num_products(num_losses: float, num_heights: float) -> float:
    """A float, the approximate number of products: losses times heights, or some per power and loss or height."""
    return min(num_losses * num_heights, 4.0 * _POWERS * (num_losses + 4.0 * num_heights))


def turned_sums(loss: Real, real: Real, imag: Real, step: float, num: int) -> tuple[Real, Real]:
    """(sum of `real` (cos yt - 1), sum of `imag` sin yt), [N] each, over losses t >= 0 [O], at heights y = k `step`.

    The error of each is at most 4 (O + 64) ULP of the sum of its weights, plus the effect of 3 ULP of an angle. For
    losses one by one it comes from additions and four products. For bins it is 2.2 for each addition in the fullest bin
    and for the transforms, by their norm, and 2.2 (18 + 18 + 8) for powers, their sum and the phase factor; where that
    is more, losses are summed one by one.
    """
    if num == 1:
        return np.zeros(1), np.zeros(1)
    found = _by_bins(loss, real, imag, step, num) if num >= _MANY else None
    return _one_by_one(loss, real, imag, step, num) if found is None else found


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


def _by_bins(loss: Real, real: Real, imag: Real, step: float, num: int) -> tuple[Real, Real] | None:
    """The sums by a transform for each power; None where its rounding might exceed the amount booked
    (docs/numerics/distributions.md, "Composition by FFT").

    N = 2^n bins of width 2 pi/(N step) make e^(iyc) an N-th root of 1, so that bins may be counted modulo N.
    """
    size = 4 << (num - 1).bit_length()
    width = 2.0 * math.pi / (size * step)
    where = (loss / width).astype(np.int64)
    x = (loss - width * (where + 0.5)) * (2.0 / width)
    where %= size
    most = float(np.bincount(where).max(initial=0))
    z = math.pi / size * np.arange(num)
    turn = np.cos(z) + 1j * np.sin(z)  # to the centre of a bin
    found = []
    for weight in (real, imag):
        sizes = np.bincount(where, np.abs(weight), size)
        eta = 8.0 * math.log2(size) * math.sqrt(size * float(rows_times(sizes, sizes)))
        if not 2.2 * eta <= (4.0 * len(loss) - 2.2 * most + 128.0) * float(sizes.sum()):
            return None
        total = np.zeros(num, np.complex128)
        power = weight
        for j in range(_POWERS):
            spectrum = np.fft.rfft(np.bincount(where, power, size))[:num]
            total += (1j**j / math.factorial(j)) * z**j * spectrum.conj()
            power = power * x
        found.append(total * turn)
    return found[0].real - found[0].real[0], found[1].imag
