"""Complex moments of the Gaussian pair on a line: closed form."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.special import down, up

Real = np.ndarray[Any, np.dtype[np.float64]]


def gaussian_log_moment(orders: Any, noise_multiplier: Any) -> Any:
    """Logarithms [J, L] of M(a) = e^{a (a - 1) / (2 sigma^2)}, the same in both directions, rounded to nearest.

    `orders` [J, L] are real; `noise_multiplier` [L] is sigma, in units of the sensitivity.
    """
    return 0.5 * orders * (orders - 1.0) / (noise_multiplier * noise_multiplier)


def gaussian_line(line: Line, noise_multiplier: Any) -> LineMoments:
    """`LineMoments` of one Gaussian step on `line`, noise multiplier sigma [L], in closed form:

        log M(a + ib) = (a (a - 1) - b^2 + i b (2a - 1)) / (2 sigma^2),   |M(a + ib)| = M(a) e^{-b^2 / (2 sigma^2)}.

    Rounding is booked as 2^-50 of the sizes of what is added.
    """
    precision = 0.5 / (noise_multiplier * noise_multiplier)
    a, b = line.order, line.heights
    modulus, phase = (a * (a - 1.0) - b * b) * precision, b * (2.0 * a - 1.0) * precision
    error = 2.0**-50 * (abs(modulus) + abs(phase) + b * b * precision)
    alias = up(gaussian_log_moment(line.alias_orders, noise_multiplier), 8)
    return LineMoments(modulus, phase, error, alias, -down(line.edges * line.edges * precision, 8))


class GaussianStep(NamedTuple):
    """One Gaussian step, noise multiplier sigma > 0, as a round of a contour (`jaxacct.divergence._contour.Round`)."""

    noise_multiplier: float

    @property
    def variance(self) -> float:
        """The variance of the loss, 1 / sigma^2."""
        return self.noise_multiplier**-2.0

    @property
    def largest_order(self) -> float:
        """inf: every moment is finite and in closed form."""
        return math.inf

    @property
    def highest(self) -> float:
        """inf: its moments are known at any height."""
        return math.inf

    def rough(self, orders: Real) -> Real:
        """log M [A] at real `orders` [A]."""
        return 0.5 * orders * (orders - 1.0) * self.variance

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """log |M(a + ib)| [A, H] at `orders` [A] and `heights` [H]."""
        return self.rough(orders)[:, None] - 0.5 * heights * heights * self.variance

    def decay(self, order: float, heights: Real, log_tolerance: float) -> Real:
        """Upper bounds [K] on log |M(a + iy) / M(a)| for y >= `heights` [K]: -b^2 / (2 sigma^2), rounded up."""
        del order, log_tolerance
        return -down(0.5 * heights * heights * self.variance, 8)

    def moments(self, order: float, step: float, num: int, log_tolerance: float) -> tuple[Real, Real, Real]:
        """(log |M|, arg M, e) [num] at s = order + i step n, n < num: M is right to a factor in e^{+-e}."""
        del log_tolerance
        b: Real = step * np.arange(num, dtype=np.float64)
        half = 0.5 * self.variance
        modulus, phase = (order * (order - 1.0) - b * b) * half, b * (2.0 * order - 1.0) * half
        return modulus, phase, 2.0**-50 * (np.abs(modulus) + np.abs(phase) + (order * order + b * b) * half)

    def on_line(self, line: Line, log_tolerance: float) -> LineMoments:
        """`LineMoments` [N, 1] on a line with one lane; nothing is left out, whatever `log_tolerance` is."""
        del log_tolerance
        sigma: Any = np.asarray([self.noise_multiplier])
        return gaussian_line(line, sigma)
