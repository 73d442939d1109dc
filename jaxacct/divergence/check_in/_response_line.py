"""Check-ins of binary randomized response, one setting on the host: lower bounds on its profile by a contour integral.

In the setting of `_response`, c - k r is a sum over the users of independent values: 1 - r with probability q r, -r
with probability q (1 - r), and 0 otherwise. So E e^(z (c - k r)) = M(z)^n, which is used for every d = (e^eps - 1)/a:

    M(z) = 1 + q r (e^(z (1 - r)) - 1) + q (1 - r) (e^(-z r) - 1),   delta = a E(c - k r - d)_+.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.divergence.check_in._line import LinePoint, log1p_complex
from jaxacct.divergence.check_in._positive_part import LobeNodes, Range, Sums, Wave, nodes_of, positive_part
from jaxacct.special import ULP, log_down, log_up

_ROUNDINGS = 2.0**8 * ULP
_LARGEST_ORDER = 2.0  # beyond it the outcome depends on a few ones, whose law the nodes do not resolve
_ORDERS, _HALVINGS = (1e-9, 600.0), 30  # of the search for the order, in its logarithm, which only starts another one

UNKNOWN = LinePoint(-math.inf, math.inf, -1.0)


class ResponseLine(NamedTuple):
    """The moments of c - k r on one line, and upper bounds on the errors of their logarithms."""

    at: LobeNodes
    log_moment: NDArray[Any]
    error: NDArray[Any]

    def point(self, distance: float) -> LinePoint:
        """Both ends of log E(c - k r - d)_+ at d = `distance` >= 0, and its slope."""
        z = self.at.z
        with np.errstate(all="ignore"):
            value = np.exp(self.log_moment - z * distance)
            error = (self.error + _ROUNDINGS * distance * np.abs(z)) * np.abs(value)
            found = positive_part(self.at, Sums(value, -z * value, error))
        if not (found.lower > 0.0 and found.upper < math.inf):
            return UNKNOWN
        low, high = math.log(found.lower), math.log(found.upper)
        return LinePoint(float(log_down(low, 8)), float(log_up(high, 8)), found.drift / found.upper)


def guessed(log_value: float, num_users: float, prob: float, ones: float, zeros: float) -> tuple[float, float]:
    """(c, d), two approximate floats: the d >= 0 at which E(c - k r - d)_+ is exp(`log_value`), and the line's order c.

    This is the saddle point of M(c)^n e^(-c d) / c^2, found by bisection.
    """

    def at(order: float) -> tuple[float, float]:
        """(log of the value, d) for which the saddle point is at `order`."""
        grown, fallen = math.expm1(order * zeros), math.expm1(-order * ones)
        moment = 1.0 + prob * (ones * grown + zeros * fallen)
        first = prob * ones * zeros * (grown - fallen) / moment
        second = prob * ones * zeros * (zeros * (1.0 + grown) + ones * (1.0 + fallen)) / moment - first * first
        distance = num_users * first - 2.0 / order
        log_moment = num_users * math.log1p(prob * (ones * grown + zeros * fallen))
        curvature = 2.0 * math.pi * (num_users * max(second, 0.0) + 2.0 / (order * order))
        return log_moment - order * distance - 2.0 * math.log(order) - 0.5 * math.log(curvature), distance

    low, high = map(math.log, _ORDERS)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(math.exp(middle))[0] > log_value else (low, middle)
    order = math.exp(low)
    return order, max(at(order)[1], 0.0)


def response_line(
    order: float, near: float, num_users: float, prob: float, ones: float, zeros: float
) -> ResponseLine | None:
    """The line at `order`, for d about `near`; None where there is none. `ones` and `zeros` are r and 1 - r."""
    n, q, r = num_users, prob, ones
    spread = math.sqrt(n * q * r * zeros)
    if not (spread * _LARGEST_ORDER >= 1.0 and order <= _LARGEST_ORDER and q < 1.0):
        return None
    order = max(order, 1.0 / spread)
    # parts of M(c)
    none, some, other = 1.0 - q, q * r * math.exp(order * zeros), q * zeros * math.exp(-order * r)
    unit = n / (none + some + other) ** 2 * (1.0 - 1e-9)
    scales = [Range(x * (1.0 - 1e-12), x * (1.0 + 1e-12)) for x in (zeros, r, 1.0)]
    waves = [Wave(unit * x, g) for x, g in zip((none * some, none * other, some * other), scales, strict=True)]
    at = nodes_of(order, spread, near, waves)
    if at is None:
        return None
    with np.errstate(all="ignore"):
        less_1 = q * r * np.expm1(at.z * zeros) + q * zeros * np.expm1(-at.z * r)
        log_moment = n * log1p_complex(less_1)
        # both parts of M are below q r |z| e^c; the rounding of r moves M by less than both; M^n is 0 where M is small
        parts = n * q * r * np.abs(at.z) * math.exp(order) / np.maximum(np.abs(1.0 + less_1), 1e-3)
    return ResponseLine(at, log_moment, _ROUNDINGS * (4.0 + np.abs(log_moment) + 4.0 * parts))
