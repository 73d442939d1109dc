"""The likelihood ratio of one Gaussian step on a grid, whole or smoothly cut off: tables with certified errors.

Y = exp(s g - s^2/2), s = 1/sigma, g standard normal under Q; W = Y - 1. A cutoff is a weight Q(rate Y) between 0 and 1
that falls smoothly around Y = SHARPNESS/rate (`Cut`); this function Q is not to be confused with the measure Q.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special._binomial import product_error

Real = NDArray[Any]
Complex = NDArray[Any]

SHARPNESS = 32  # m of the cutoff: the larger, the narrower its fall; the series below are sized for this value
TABLE_ERROR = 2.0**-44  # relative error allowed for the cutoff's tables: m times the ratio's 4 ulp, some 100 ulp more
# e^-w w^m/m! is computed as e^-w (w/_SCALE)^m times _LEADING, to keep the power from overflowing
_SCALE = 13.0
_LEADING = math.exp(SHARPNESS * math.log(_SCALE) - math.lgamma(SHARPNESS + 1.0))
LARGEST = 1e9  # w is clipped to this before a power is taken: beyond it the power's product with e^-w is 0 in doubles


def product(a: Any, b: Any) -> tuple[Any, Any]:
    """A tuple: the rounded product a b, and the exact difference of the true product from it."""
    return a * b, product_error(a, b)


def log_ratio(sigma: float | Real, g: Real) -> tuple[Real, Real]:
    """A tuple of two arrays of the shape of `g`: s g - s^2/2, s = 1/sigma, as an unevaluated sum.

    With a single double the relative error of Y would be as many ulp as its logarithm is large.
    """
    s = 1.0 / sigma
    back, back_error = product(s, sigma)
    s_low = -((back - 1.0) + back_error) / sigma
    linear, linear_error = product(s, g)
    square, square_error = product(s, 0.5 * s)
    total = linear - square
    away = total - linear
    rest = (linear - (total - away)) + (-square - away)
    return total, rest + linear_error - square_error + s_low * (g - s)


def step_series(w: Any) -> Any:
    """Float array of the shape of `w`: 1 - Q(w) = e^-w sum_{j>=m} w^j/j! by 70 terms, |w| <= m real or complex."""
    total = np.ones_like(w)
    for j in range(70, 0, -1):
        total *= w * (1.0 / (SHARPNESS + j))
        total += 1.0
    return np.exp(-w) * (w / _SCALE) ** SHARPNESS * (_LEADING * total)


def partial_exponential(w: Any) -> Any:
    """Float array of the shape of `w`: sum_{j<m} w^j/j!, real or complex w."""
    total = np.ones_like(w)
    for j in range(SHARPNESS - 1, 0, -1):
        total *= w * (1.0 / j)
        total += 1.0
    return total


def step_weights(w: Real) -> tuple[Real, Real]:
    """Two float arrays of the shape of `w` >= 0: Q(w) and 1 - Q(w).

    Each has a relative error of at most `TABLE_ERROR` where nothing underflows: Q up to w = 708, where it is about
    e^-580 (soon after that it counts as 0), and 1 - Q from w = 1e-8 on.
    """
    inner = w < SHARPNESS
    outer = np.clip(w, 1.0, 800.0)
    low, high = np.exp(-outer) * partial_exponential(outer), step_series(np.where(inner, w, 0.0))
    return np.where(inner, 1.0 - high, low), np.where(inner, high, 1.0 - low)


def largest_beyond(w: Real, log_sum: Real, a: Real) -> Real:
    """Float array: upper bounds on e^{-a v} sum_{j<m} v^j/j! over all v >= `w`, `a` > 0, which broadcast together.

    `log_sum` is the logarithm of the sum at `w`, or at `LARGEST` if that is less. From v = m/a on the expression
    decreases; before, it is at most sum_{j<m} a^-j.
    """
    v = np.minimum(w, LARGEST)
    falling = np.exp(log_sum - a * v)
    with np.errstate(over="ignore"):
        return np.where(a * v > SHARPNESS, falling, SHARPNESS * np.maximum(1.0, np.power(a, -float(SHARPNESS))))
