"""Sums of terms with phases, at equidistant angles, by Fourier transforms."""

import math
from typing import Any

import numpy as np

from jaxacct.special._circular import turn
from jaxacct.special._rounding import ULP


def turned_sums(terms: Any, angle: float, count: int, origin: int) -> tuple[Any, Any]:
    """sum_n terms_n e^{-i k (n - origin) `angle`}, complex, for k < `count`, and bounds on their errors: [count] each.

    By Bluestein's transform: 2 k n = k^2 + n^2 - (k - n)^2 makes the sums a convolution with w_j = e^{i j^2 angle/2},
    whose phases are computed as whole multiples of 2^-64 turns (docs/numerics/allocation.md, "Sums on a ray"; Bluestein
    1970, "A linear filtering approach to the computation of discrete Fourier transform").

    Args:
      terms: complex [N].
      angle: any number of radians; where it is not finite the sums are NaN and the bounds infinite.
      count: the number of sums, a whole number >= 1.
      origin: whole number from 0 to N - 1; the index of the largest term makes the bounds small.

    >>> import numpy as np
    >>> from jaxacct.special import turned_sums
    >>> sums, errors = turned_sums(np.array([1.0, 1.0j]), 0.5, 3, 0)
    >>> bool(np.all(np.abs(sums - (1.0 + 1j * np.exp(-0.5j * np.arange(3)))) <= errors)), bool(errors.max() < 1e-13)
    (True, True)
    """
    if not math.isfinite(angle):
        return np.full(count, np.nan), np.full(count, np.inf)
    num = len(terms)
    size = 1 << (num + count - 2).bit_length()
    unit = round(angle / (4.0 * math.pi) * 2.0**64) % 2**64
    j = np.arange(max(num, count + origin), dtype=np.uint64)
    chirp = turn((j * j * np.uint64(unit)).view(np.int64) * (math.pi * 2.0**-63))
    kernel = np.zeros(size, np.complex128)
    kernel[:count] = chirp[origin : origin + count]
    kernel[size - num + 1 :] = chirp[np.abs(np.arange(origin - num + 1, origin))]
    far = np.abs(np.arange(num) - origin)
    turned = terms * chirp[far].conj()
    spectrum = np.fft.fft(turned, size) * np.fft.fft(kernel)
    sums = np.fft.ifft(spectrum)[:count] * chirp[:count].conj()
    sizes = np.abs(terms)
    norm = math.sqrt(float(np.square(sizes).sum()) * (num + count - 1.0))
    eta = 8.0 * ULP * math.log2(max(size, 2))
    error = (2.0 * eta + 8.0 * ULP) * norm + eta * math.sqrt(float(np.square(np.abs(spectrum)).sum()) / size)
    error = error + 96.0 * ULP * float(sizes.sum())
    moved = (3.0 * ULP * abs(angle) + 2.0**-61) * float((sizes * far).sum())
    return sums, error + moved * np.arange(count)
