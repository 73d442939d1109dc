"""The standard normal's tail, its Mills ratio, and differences of Mills ratios.

phi is the density, Phi the distribution function.
"""

from typing import Any

import jax
import numpy as np

from jaxacct.special._logspace import log1mexp
from jaxacct.special._namespace import is_jax, xp

_LOG_SQRT_2PI = 0.9189385332046727418  # log sqrt(2 pi)
_SQRT_HALF = 0.7071067811865475244  # sqrt(1/2)
_SQRT_HALF_PI = 1.2533141373155002512  # sqrt(pi/2)
_INV_SQRT_PI = 0.5641895835477562869  # 1 / sqrt(pi)

# Rational approximations of erf and exp(x^2) erfc(x): W. J. Cody, "Rational Chebyshev approximations
# for the error function", Math. Comp. 23 (1969); coefficients of his CALERF, highest power first.
_ERF_P = (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2,
          3.20937758913846947e3)  # fmt: skip
_ERF_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MID_P = (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
          2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
          1.23033935479799725e3)  # fmt: skip
_MID_Q = (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
          3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3)  # fmt: skip
_FAR_P = (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
          1.60837851487422766e-2, 6.58749161529837803e-4)  # fmt: skip
_FAR_Q = (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
          2.33520497626869185e-3)  # fmt: skip


def _horner(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    """The polynomial with these coefficients, highest power first, at x."""
    value = xp.full_like(x, coefficients[0])
    if is_jax(x):
        for c in coefficients[1:]:
            value = value * x + c
        return value
    for c in coefficients[1:]:  # in place: a long array would be allocated twice for each term
        value *= x
        value += c
    return value


def erfcx(x: jax.Array) -> jax.Array:
    """exp(x^2) erfc(x); relative error below 1e-15 for x >= 0, inf below -26.6."""
    y = xp.abs(x)
    small, mid = y <= 0.46875, y <= 4.0
    ys = xp.where(small, x, 0.0)
    near = xp.exp(ys * ys) * (1.0 - ys * _horner(_ERF_P, ys * ys) / _horner(_ERF_Q, ys * ys))
    ym = xp.where(mid, y, 1.0)
    middle = _horner(_MID_P, ym) / _horner(_MID_Q, ym)
    yf = xp.where(mid, 8.0, y)
    r = 1.0 / (yf * yf)
    far = (_INV_SQRT_PI - r * _horner(_FAR_P, r) / _horner(_FAR_Q, r)) / yf
    right = xp.where(mid, middle, far)
    reflect = (x < 0) & ~small
    left = 2.0 * xp.exp(xp.where(reflect, x * x, 0.0)) - right
    return xp.where(small, near, xp.where(reflect, left, right))


def mills_ratio(x: jax.Array) -> jax.Array:
    """(1 - Phi(x)) / phi(x) = sqrt(pi/2) erfcx(x / sqrt 2); relative error below 1e-15 for x >= 0."""
    return _SQRT_HALF_PI * erfcx(x * _SQRT_HALF)


def log_normal_density(x: jax.Array) -> jax.Array:
    """log phi(x)."""
    return -0.5 * x * x - _LOG_SQRT_2PI


def log_normal_tail(x: Any) -> Any:
    """log(1 - Phi(x)) to full relative accuracy for x of either sign, also where 1 - Phi(x) is close to 1."""
    tail = xp.log(mills_ratio(xp.abs(x))) + log_normal_density(x)
    return xp.where(x >= 0, tail, log1mexp(tail))


def mills_difference(x: jax.Array, step: jax.Array) -> jax.Array:
    """mills_ratio(x) - mills_ratio(x + step) for 0 < step <= 1/2 and x >= -1, to 2e-14 relative.

    The difference of two ratios loses |x|/step of its digits; the integral

        int_0^inf exp(-x u - u^2/2) (1 - exp(-step u)) du

    has a positive integrand, cut where the weight is e^-44 and summed by a 40-node Gauss rule
    (entire integrand: error below 1e-15, measured against mpmath).
    """
    nodes, weights = np.polynomial.legendre.leggauss(40)
    shape = (-1,) + (1,) * xp.ndim(x)
    v = xp.asarray(0.5 * (nodes + 1.0), xp.float64).reshape(shape)
    w = xp.asarray(0.5 * weights, xp.float64).reshape(shape)
    cut = 88.0 / (xp.sqrt(x * x + 88.0) + x)  # the positive root of x u + u^2/2 = 44
    u = cut * v
    return cut * xp.sum(w * xp.exp(-x * u - 0.5 * u * u) * -xp.expm1(-step * u), axis=0)
