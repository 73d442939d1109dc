"""Binomial probabilities by Loader's saddle-point form, accurate to the last digits at any size.

C. Loader, "Fast and accurate computation of binomial probabilities" (2000). Differences of log-gammas lose as many
digits as n has; here no term is larger than the answer's own logarithm.
"""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax
from jaxacct.special._namespace import OwnDerivative, stop_gradient, xp
from jaxacct.special._normal import _horner
from jaxacct.special._rounding import ULP

LOG_2PI = 1.8378770664093454836  # log(2 pi)

# 12 x stirling_error(x) as a rational function of 1/x^2 with positive coefficients (it is a Stieltjes function),
# interpolated at 17 Chebyshev nodes of [0, 1] in 60 digits; the quotient errs by 8.6e-15 at most
# (tests/special/test_proved.py). Highest power first.
_STIRLING_P = (0.024513963342390409348, 2.2205373343916458574, 30.886633144706589897, 139.42603953082007334,
                261.16112762882405341, 224.57762893548853171, 90.646417737720526211, 16.184525618961304034,
                0.99999999999999204031)  # fmt: skip
_STIRLING_Q = (0.0464556884432651171, 2.7792889939508228998, 34.224982591782305199, 146.70279670687631631,
                267.98083122395915071, 227.46956560468510907, 91.177489227162215254, 16.217858952289844587,
                1.0)  # fmt: skip
# atanh(v) = v + v^3 (1/3 + v^2/5 + ..): the coefficients in v^2, highest power first, enough for |v| < 0.2.
_ATANH_SERIES = tuple(1.0 / (2 * j + 1) for j in range(10, 0, -1))


def pmf_rounding(log_pmf: jax.Array) -> jax.Array:
    """Bound on the error of `log_binomial_pmf` and `log_fair_pmf` where they give `log_pmf`: ULP (32 + 90 |log pmf|).

    docs/numerics/rounding.md, "Binomial probabilities".
    """
    return ULP * (32.0 + 90.0 * xp.abs(log_pmf))


def stirling_error(x: jax.Array) -> jax.Array:
    """The error of Stirling's formula, log x! - (x log x - x + log(2 pi x) / 2), real x >= 1; within 9.3e-16 / x."""
    y = 1.0 / (x * x)
    return _horner(_STIRLING_P, y) / (12.0 * x * _horner(_STIRLING_Q, y))


@OwnDerivative  # JAX's own derivative of the quotient squares y, which may underflow
def _log_quotient(x: jax.Array, y: jax.Array) -> jax.Array:
    """log(x / y) for x, y > 0."""
    return xp.log(x / y)


@_log_quotient.defjvp
def _log_quotient_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (x, y), (dx, dy) = primals, tangents
    return _log_quotient(x, y), dx / x - dy / y


def _deviance(x: jax.Array, mean: jax.Array, difference: jax.Array) -> jax.Array:
    """x log(x / mean) - difference, where difference = x - mean is given more precisely than x and mean imply.

    Near x = mean the two terms cancel: there log(x/mean) = 2 atanh(v), v = difference / (x + mean), as a series.
    """
    v = difference / (x + mean)
    near = xp.abs(v) < 0.2
    w = xp.where(near, v, 0.0)
    series = w * (difference + 2.0 * x * w * w * _horner(_ATANH_SERIES, w * w))
    far = ~near & (x > 0)
    log_ratio = _log_quotient(xp.where(far, x, 1.0), xp.where(far, mean, 1.0))
    return xp.where(near, series, xp.where(far, x, 0.0) * log_ratio - difference)


def product_error(a: Any, b: Any) -> Any:
    """The exact product a b minus the rounded one, without error (Dekker's product); its derivatives are 0."""
    a, b = stop_gradient((a, b))
    a_high, b_high = 134217729.0 * a, 134217729.0 * b  # 2^27 + 1 splits 53 digits into halves
    a_high, b_high = a_high - (a_high - a), b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low


def binomial_rate(k: jax.Array, n: jax.Array, p: jax.Array, one_minus_p: jax.Array) -> jax.Array:
    """n KL(k/n || p) for 0 <= k <= n: the exponent of Chernoff's bound on the tail of Bin(n, p) from k outwards.

    `p` and `one_minus_p` add up to 1: the smaller is taken as exact, the other as 1 minus it. Relative error 86 ULP,
    18 where k is within a third of n p, however close. inf for an impossible k, as k > 0 where p = 0.
    """
    rest, mean, rest_mean = n - k, n * p, n * one_minus_p
    # k - n p to full precision: at n = 1e12 the rounding of n p alone would cost ten digits in the tails
    difference = xp.where(
        p <= one_minus_p, (k - mean) - product_error(n, p), (rest_mean - rest) + product_error(n, one_minus_p)
    )
    possible = ((mean > 0) | (k == 0)) & ((rest_mean > 0) | (rest == 0))
    mean, rest_mean = xp.where(mean > 0, mean, 0.5 * (k == 0)), xp.where(rest_mean > 0, rest_mean, 0.5 * (rest == 0))
    return xp.where(possible, _deviance(k, mean, difference) + _deviance(rest, rest_mean, -difference), xp.inf)


def log_binomial_pmf(k: jax.Array, n: jax.Array, p: jax.Array, one_minus_p: jax.Array) -> jax.Array:
    """log P[Bin(n, p) = k]; -inf outside the support.

    ``e(n) - e(k) - e(n-k) + log(n / (2 pi k (n-k))) / 2 - n KL(k/n || p)``, e the `stirling_error`. The error is at
    most `pmf_rounding`, for n up to 1e12 and beyond. Differentiable in `p` (with `one_minus_p` moving against it), with
    finite derivatives everywhere.

    Args:
      k: integers, in float64.
      n: integers >= 0, in float64.
      p, one_minus_p: in [0, 1]; the smaller is taken as exact, the other as 1 minus it.
    """
    inside = (k >= 0) & (k <= n)
    k = xp.where(inside, k, 0.0)
    rest = n - k
    interior = (k > 0) & (rest > 0)
    k1, rest1, n1 = xp.where(interior, k, 1.0), xp.where(interior, rest, 1.0), xp.where(interior, n, 2.0)
    stirling = stirling_error(n1) - stirling_error(k1) - stirling_error(rest1)
    stirling = stirling + 0.5 * (xp.log(n1 / (k1 * rest1)) - LOG_2PI)
    log_pmf = xp.where(interior, stirling, 0.0) - binomial_rate(k, n, p, one_minus_p)
    return xp.where(inside, log_pmf, -xp.inf)
