"""Rounding to the safe side: how far, and why that is enough.

Numbers here are float64. Each of +, -, *, / and the square root returns the true result times 1 + d with |d| <= ULP =
2^-53. Elementary functions err by a few ULP more, whether NumPy's, XLA's or the C library's: 4 is assumed for the
exponential, the logarithm and `log1p`, 5 for `expm1` and `tanh`, 6 for `sinh`, 9 for `softplus` and similar functions
in `_logspace`, which state 1e-15. XLA's log1p, expm1, sinh and tanh err by more: kernels use those of `special`.

If a number >= 0 is computed by steps that err by n ULP in all, without cancellation, it is at least (1 - ULP)^n times
the true value. `up` multiplies by 1 + k ULP and rounds once more itself, so that its result is no less than the true
value if (1 + k ULP) (1 - ULP)^(n + 1) >= 1: k = n + 2 is enough for all n below 10^7. So ``up(x, 8)`` covers six
roundings: state at the call what they are. `down` is the same in the other direction.

Not covered are errors of a number's own inputs, subtractions whose operands are rounded, and results below
`LEAST_NORMAL`, which XLA flushes to 0.
"""

import math
from typing import Any

import numpy as np

from jaxacct.special._logspace import log_sum_exp
from jaxacct.special._namespace import stop_gradient, xp

ULP = 2.0**-53
"""The largest relative error of one correctly rounded operation: half the spacing of the doubles above 1."""

LEAST_NORMAL = 2.0**-1022
"""The least normal double: compiled programs flush smaller numbers to 0, and doubles below it lose digits."""


def up(x: Any, ulps: int) -> Any:
    """`x` >= 0 times 1 + ulps * 2^-53: no less than the true value if `x` is at most `ulps` - 2 roundings below it.

    Args:
      x: a float, or a NumPy or JAX float64 array; 0 and inf stay as they are.
      ulps: even, so that the factor is a double.
    """
    return x * (1.0 + ulps * ULP)


def down(x: Any, ulps: int) -> Any:
    """`x` >= 0 times 1 - ulps * 2^-53: no more than the true value if `x` is at most `ulps` - 2 roundings above it."""
    return x * (1.0 - ulps * ULP)


_MOST_EXPONENT = 1400.0  # nats: times e^x the least double above 0 exceeds 1, and the square root of e^x is a double


def grown(prob: float, exponent: float, ulps: int) -> float:
    """An upper bound on min(1, `prob` e^`exponent`) for any exponent; 0 for `prob` 0, else at least `LEAST_NORMAL`.

    e^x is computed in two halves, whose exponentials are doubles, so that a tiny probability is multiplied by all of
    it. `ulps`, as for `up`, must cover the two exponentials (8), two products, and the error of the exponent, x times
    its own roundings.
    """
    if prob <= 0.0:
        return 0.0
    half = math.exp(0.5 * min(exponent, _MOST_EXPONENT))
    return min(1.0, max(up(prob * half * half, ulps), LEAST_NORMAL))


def with_few_bits(x: Any, num_bits: int) -> Any:
    """`x` > 0 [..] rounded down to `num_bits` significant bits: its multiples up to 2^(53 - num_bits) are doubles."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.floor(np.ldexp(mantissa, num_bits)), exponent - num_bits)


def finite_size(x: Any) -> Any:
    """The absolute value [..] of logarithms, constant under differentiation; 0 where they are infinite."""
    return stop_gradient(xp.where(xp.isfinite(x), xp.abs(x), 0.0))


def log_up(x: Any, ulps: Any) -> Any:
    """An upper bound on the logarithm that `x` approximates: `x` + (`ulps` + 8 |x|) 2^-53.

    This covers eight roundings of `x` itself, from sums and logarithms (4), and an error of the logarithm's argument by
    `ulps` - 1: a sum of n terms errs by n, an exponential by 4. Infinite values stay as they are.
    """
    return x + ULP * (ulps + 8.0 * finite_size(x))


def log_down(x: Any, ulps: Any) -> Any:
    """A lower bound on the logarithm that `x` approximates: `x` - (`ulps` + 8 |x|) 2^-53. See `log_up`."""
    return x - ULP * (ulps + 8.0 * finite_size(x))


def log_sum_outward(terms: Any, count: Any, *, upward: bool) -> Any:
    """`log_sum_exp` of `terms` [N, ..] rounded up or down, if at most `count` of them are not -inf.

    With n = `count`, the allowance is n ULP for additions, 4 for exponentials, log n for the differences from the
    largest term (the mean of log T - l_i under the shares of the terms is at most log n), 4 log n for the logarithm of
    a number in [1, n], and two times the result's size.
    """
    value = log_sum_exp(terms)
    size = stop_gradient(xp.where(xp.isneginf(value), 0.0, xp.abs(value)))
    error = ULP * (count + 5.0 * xp.log(count) + 8.0 + 2.0 * size)
    return value + error if upward else value - error


def log_sum_of_many(terms: Any) -> Any:
    """`log_sum_outward` of all N `terms` [N, ..], upward, in two passes that err by some 2 sqrt(N) ULP, not by N."""
    rows = math.isqrt(max(terms.shape[0] - 1, 0)) + 1
    filler = xp.full((rows * rows - terms.shape[0], *terms.shape[1:]), -xp.inf)
    table = xp.concatenate([terms, filler]).reshape(rows, rows, *terms.shape[1:])
    return log_sum_outward(log_sum_outward(table, float(rows), upward=True), float(rows), upward=True)
