"""The logarithm of the Gamma function at complex numbers in the right half plane, certified."""

import math

import numpy as np

from jaxacct.divergence.allocation._grid import Complex, Real
from jaxacct.special import ULP, complex_log

# Bernoulli numbers B_2n / (2n (2n - 1)), n = 1..10, of Stirling's series.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188,
             -174611 / 125400)  # fmt: skip


def log_gamma(z: Complex) -> tuple[Complex, Real]:
    """A tuple of two arrays of the shape of `z`: log Gamma(z), Re z > 0, and a bound on its absolute error.

    Stirling's series is used at z + 12: its remainder after ten terms is at most the eleventh times sec(arg z / 2)^22,
    below 1e-18 there. The imaginary part is correct up to multiples of 2 pi.
    """
    total, moved = np.zeros_like(z), z + 12.0
    for i in range(0, 12, 4):  # |z|^4 is a double
        total = total + complex_log((z + i) * (z + (i + 1)) * ((z + (i + 2)) * (z + (i + 3))))
    log_moved = complex_log(moved)
    size = 2.0 + np.abs(log_moved) * (12.0 + np.abs(moved)) + np.abs(moved)
    inverse, series = 1.0 / moved, np.zeros_like(z)
    for term in reversed(_STIRLING):
        series = series * inverse * inverse + term
    main = (moved - 0.5) * log_moved - moved + 0.5 * math.log(2.0 * math.pi) + series * inverse
    return main - total, 16.0 * ULP * size
