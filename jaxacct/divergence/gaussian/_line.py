"""Complex moments of one Gaussian step, in closed form."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.special import down

Real = np.ndarray[Any, np.dtype[np.float64]]


class GaussianStep(NamedTuple):
    """One Gaussian step, noise multiplier sigma > 0, in either direction."""

    noise_multiplier: float

    @property
    def variance(self) -> float:
        """The variance of the loss, 1 / sigma^2."""
        return self.noise_multiplier**-2.0

    @property
    def largest_order(self) -> float:
        """inf: every moment is finite and in closed form."""
        return math.inf

    def rough(self, orders: Real) -> Real:
        """log M [A] at real `orders` [A]."""
        return 0.5 * orders * (orders - 1.0) * self.variance

    def decay(self, order: float, heights: Real, log_tolerance: float) -> Real:
        """Upper bounds [K] on log |M(a + iy) / M(a)| for y >= `heights` [K]: -b^2 / (2 sigma^2), rounded up."""
        del order, log_tolerance
        return -down(0.5 * heights * heights * self.variance, 8)

    def moments(self, order: float, step: float, num: int, log_tolerance: float) -> tuple[Real, Real, Real]:
        """(log |M|, arg M, e) [num] at s = order + i step n, n < num: M is correct up to a factor in e^{+-e}."""
        del log_tolerance
        b: Real = step * np.arange(num, dtype=np.float64)
        half = 0.5 * self.variance
        modulus, phase = (order * (order - 1.0) - b * b) * half, b * (2.0 * order - 1.0) * half
        return modulus, phase, 2.0**-50 * (np.abs(modulus) + np.abs(phase) + (order * order + b * b) * half)
