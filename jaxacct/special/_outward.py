"""Sums and products of masses, rounded to the safe side.

Unlike the rest of `special`, these functions take and return plain Python floats, on the host. A law has one mass at 0
and one at infinity, and a run of t steps multiplies them t times: bounding the rounding of one step is not enough.
"""

import math
from collections.abc import Iterable


def outward(value: float, *, up: bool) -> float:
    """The neighbouring double of `value` >= 0 on the safe side, which covers one rounding to nearest. 0 stays 0."""
    return math.nextafter(value, math.inf if up else 0.0) if value > 0.0 else 0.0


def product_outward(*factors: float, up: bool) -> float:
    """An upper (`up`) or lower bound on the product of `factors` >= 0; exact where all but one of them are 0 or 1.

    >>> from jaxacct.special import product_outward
    >>> product_outward(0.1, 0.1, up=False) < product_outward(0.1, 0.1, up=True)
    True
    >>> product_outward(1e-200, 1e-200, up=True), product_outward(1e-200, 1e-200, up=False)
    (5e-324, 0.0)
    """
    if 0.0 in factors:
        return 0.0
    value = 1.0
    for factor in map(float, factors):
        if value == 1.0 or factor == 1.0:
            value *= factor
        else:  # a positive product that underflows to 0 rounds up to the least double
            value = max(0.0, math.nextafter(value * factor, math.inf if up else -math.inf))
    return value


def sum_outward(terms: Iterable[float], *, up: bool) -> float:
    """An upper (`up`) or lower bound on the sum of `terms`, never below 0; exact where the sum is a double.

    >>> from jaxacct.special import sum_outward
    >>> sum_outward([0.1, 0.2], up=True) - sum_outward([0.1, 0.2], up=False) < 1e-16
    True
    """
    values = [float(term) for term in terms]
    total = math.fsum(values)
    left = math.fsum([*values, -total])  # of the right sign: fsum rounds the exact sum once
    if left > 0.0 and up:
        total = math.nextafter(total, math.inf)
    elif left < 0.0 and not up:
        total = math.nextafter(total, -math.inf)
    return max(0.0, total)
