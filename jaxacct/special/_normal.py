"""The tail of the standard normal distribution, its Mills ratio, and differences of Mills ratios.

phi is the density, Phi the distribution function.
"""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax
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

# The Gauss-Legendre rule with 36 nodes on [0, 1]; its weights are symmetric.
_NODES = (0.001084768757957082, 0.005706760548893881, 0.013986154475151025, 0.025863507800246228, 0.04125111274217047,
          0.060035099554801435, 0.08207641650376235, 0.10721188493389675, 0.1352554142032217, 0.16599938170723946,
          0.19921617093200975, 0.23465985703687742, 0.27206802778328987, 0.3111637264401554, 0.35165750232798587,
          0.39324955384156723, 0.4356319480953076, 0.4784909007631457, 0.5215090992368543, 0.5643680519046924,
          0.6067504461584328, 0.6483424976720141, 0.6888362735598446, 0.7279319722167101, 0.7653401429631226,
          0.8007838290679903, 0.8340006182927605, 0.8647445857967783, 0.8927881150661032, 0.9179235834962377,
          0.9399649004451985, 0.9587488872578296, 0.9741364921997537, 0.9860138455248489, 0.9942932394511061,
          0.998915231242043)  # fmt: skip
_WEIGHTS = (0.0027828598321225227, 0.006457973642032787, 0.010090757648867736, 0.01364931074928439,
            0.017106905385153616, 0.020437875461822446, 0.02361754174513299, 0.02662235698887996,
            0.02943007212266241, 0.03201989867750774, 0.034372661917868225, 0.03647094250282653,
            0.038299205322935334, 0.0398439144560358, 0.04109363335216985, 0.042039109489830966,
            0.04267334286966931, 0.042991637835197376)  # fmt: skip


def _horner(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    """The polynomial with these coefficients, highest power first, at x."""
    value = xp.full_like(x, coefficients[0])
    if is_jax(x):
        for c in coefficients[1:]:
            value = value * x + c
        return value
    for c in coefficients[1:]:  # in place: otherwise each term would allocate a long array twice
        value *= x
        value += c
    return value


def erfcx(x: jax.Array) -> jax.Array:
    """exp(x^2) erfc(x), within 23 ULP for x >= 0; inf below -26.6."""
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
    """(1 - Phi(x)) / phi(x) = sqrt(pi/2) erfcx(x / sqrt 2), within 28 ULP for x >= 0."""
    return _SQRT_HALF_PI * erfcx(x * _SQRT_HALF)


def log_normal_density(x: jax.Array) -> jax.Array:
    """log phi(x)."""
    return -0.5 * x * x - _LOG_SQRT_2PI


def log_normal_tail(x: Any) -> Any:
    """log(1 - Phi(x)) for x of either sign, even where it is close to 0; its exponential within 32 (1 + x^2) ULP."""
    tail = xp.log(mills_ratio(xp.abs(x))) + log_normal_density(x)
    return xp.where(x >= 0, tail, log1mexp(tail))


def mills_difference(x: jax.Array, step: jax.Array) -> jax.Array:
    """mills_ratio(x) - mills_ratio(x + step) for 0 < step <= 1/2 and x >= -1, within 80 ULP.

    Subtracting two ratios would lose a factor of |x|/step in accuracy; the integral

        int_0^inf exp(-x u - u^2/2) (1 - exp(-step u)) du

    has a positive integrand. It is cut where the weight is e^-44 and evaluated by the Gauss-Legendre rule:
    docs/numerics/rounding.md, "The normal distribution", bounds the errors of rule, cut and rounding by 80 ULP.
    """
    shape = (-1,) + (1,) * xp.ndim(x)
    v = xp.asarray(_NODES, xp.float64).reshape(shape)
    w = xp.asarray(_WEIGHTS + _WEIGHTS[::-1], xp.float64).reshape(shape)
    cut = 88.0 / (xp.sqrt(x * x + 88.0) + x)  # the positive root of x u + u^2/2 = 44
    u = cut * v
    return cut * xp.sum(w * xp.exp(-x * u - 0.5 * u * u) * -xp.expm1(-step * u), axis=0)
