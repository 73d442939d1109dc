"""Rational approximations within what is booked for them on their whole range: proofs in ball arithmetic."""

import math

import numpy as np
import pytest
from flint import arb, arb_series, ctx
from support.proving import alternating, horner, horner_rounding, largest

from jaxacct.special import _binomial, _fair_coins, _normal

ULP = 2.0**-53
_LAST = 40  # terms of an alternating series, each sum of which is between two neighbours
_FAR_ENOUGH = 12.0  # from here on Mills' ratio is compared with its series


def _erfcx(x):
    return (x * x).exp() * x.erfc()


def _mills(x):
    return (arb.pi() / 2).sqrt() * _erfcx(x * (arb(1) / 2).sqrt())


def _near(x):
    square = x * x
    return (1 - x * horner(_normal._ERF_P, square) / horner(_normal._ERF_Q, square)) / x.erfc() - 1


def _mid(x):
    return horner(_normal._MID_P, x) / horner(_normal._MID_Q, x) / _erfcx(x) - 1


def _beyond(r):
    """x erfcx(x) as a function of r = 1/x^2, less what the series is compared with."""
    return arb(_normal._INV_SQRT_PI) - r * horner(_normal._FAR_P, r) / horner(_normal._FAR_Q, r)


_Q = _fair_coins._Q


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (_near, -0.46875, 0.46875),
        (_mid, 0.46875, 4.0),
        (lambda x: _beyond(1 / (x * x)) / (x * _erfcx(x)) - 1, 4.0, 8.0),
        (lambda r: _beyond(r) * arb.pi().sqrt() / alternating(r / 2, 0, _LAST) - 1, 0.0, 1.0 / 64.0),
    ],
    ids=["near", "middle", "far", "beyond"],
)
def test_erfcx_is_approximated_within_an_ulp(f, low, high):
    assert largest(f, low, high, ULP) <= ULP


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (
            lambda x: horner(_fair_coins._P[::-1], x) / horner(_Q[::-1], x) / _mills(x) - 1,
            lambda v: horner(_fair_coins._P, v) / horner(_Q, v) / alternating(v * v, 0, _LAST) - 1,
        ),
        (
            lambda x: horner(_fair_coins._N[::-1], x) / horner(_Q[::-1], x) / (1 - x * _mills(x)) - 1,
            lambda v: horner(_fair_coins._N, v) / horner(_Q, v) / alternating(v * v, 1, _LAST) - 1,
        ),
    ],
    ids=["I_0", "I_1"],
)
def test_mills_ratio_and_its_complement_are_approximated_within_two_ulp(near, far):
    """On [0, 12], and from there to infinity in v = 1/x, where the series of x I_0 and of x^2 I_1 alternate."""
    assert largest(near, 0.0, _FAR_ENOUGH, 2 * ULP) <= 2 * ULP
    assert largest(far, 0.0, 1.0 / _FAR_ENOUGH, 2 * ULP) <= 2 * ULP


def test_what_the_alternating_series_leave_out():
    """The first term left out, at the least arguments: 1/x^2 = 1/144 for Mills' ratio, 1/(2 x^2) at 8 for erfc."""
    for s, first in ((1.0 / _FAR_ENOUGH**2, 0), (1.0 / _FAR_ENOUGH**2, 1), (1.0 / 128.0, 0)):
        term = math.exp(sum(math.log((2 * k - 1) * s) for k in range(first + 1, _LAST + 1)))
        assert term <= 1e-3 * ULP


_SHIFT, _STIRLING_TERMS = 7, 16


def _stirling_series(y):
    """12 x e(x) as a function of y = 1/x^2, by Stirling's series."""
    total, power = arb_series([arb(0)]), arb_series([arb(1)])
    for k in range(1, _STIRLING_TERMS + 1):
        total = total + power * (12 * arb.bernoulli(2 * k) / (2 * k * (2 * k - 1)))
        power = power * y
    return total


def _stirling(x):
    """e(x) = e(x + 7) + sum over j < 7 of (x + j + 1/2) log(1 + 1/(x + j)) - 1."""
    last = x + _SHIFT
    total = _stirling_series(1 / (last * last)) / (12 * last)
    for j in range(_SHIFT):
        total = total + ((x + j + arb(1) / 2) * (1 / (x + j) + 1).log() - 1)
    return total


def _stirling_quotient(y):
    return horner(_binomial._STIRLING_P, y) / horner(_binomial._STIRLING_Q, y)


def test_stirling_error_is_approximated_to_nine_in_10_to_the_15():
    assert (
        largest(lambda x: _stirling_quotient(1 / (x * x)) / (12 * x * _stirling(x)) - 1, 1.0, 16.0, 8.6e-15) < 8.6e-15
    )
    assert largest(lambda y: _stirling_quotient(y) / _stirling_series(y) - 1, 0.0, 1.0 / 256.0, 8.6e-15) < 8.6e-15
    # Stirling's series errs by less than its first term left out, here in x = 8, of e(x) >= 1/(12 x + 1)
    k = _STIRLING_TERMS + 1
    left_out = abs(arb.bernoulli(2 * k)) / (2 * k * (2 * k - 1)) / arb(1 + _SHIFT) ** (2 * k - 1)
    assert left_out * 13 < 1e-16


def _rounding(numerator, denominator, edges):
    cells = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return max(float((horner_rounding(numerator, *c) + horner_rounding(denominator, *c)).upper()) for c in cells)


def test_rounding_of_the_rational_functions():
    """Units of 2^-53 for numerator and denominator together, which docs/numerics/rounding.md adds up further."""
    assert _rounding(_normal._ERF_P, _normal._ERF_Q, np.linspace(0.0, 0.46875**2, 51)) < 2.5
    assert _rounding(_normal._MID_P, _normal._MID_Q, np.linspace(0.46875, 0.5, 11)) < 9.0
    assert _rounding(_normal._MID_P, _normal._MID_Q, np.linspace(0.46875, 4.0, 501)) < 20.5
    assert _rounding(_normal._FAR_P, _normal._FAR_Q, np.linspace(0.0, 1.0 / 16.0, 51)) < 6.5
    assert _rounding(_binomial._STIRLING_P, _binomial._STIRLING_Q, np.linspace(0.0, 1.0, 201)) < 17.5


def test_gauss_rule_is_correctly_rounded():
    order = 2 * len(_normal._WEIGHTS)
    with ctx.workprec(200):
        exact = [arb.legendre_p_root(order, k, weight=True) for k in range(order)]
        exact = sorted((float(((1 + t) / 2).mid()), float((w / 2).mid())) for t, w in exact)
    assert [t for t, _ in exact] == list(_normal._NODES)
    assert [w for _, w in exact] == [*_normal._WEIGHTS, *_normal._WEIGHTS[::-1]]


def test_gauss_rule_on_an_ellipse():
    """The sum of the logarithms in docs/numerics/rounding.md, on the ellipse of rho = 3, in balls."""
    rho = arb(3)
    a, b = (rho + 1 / rho) / 2, (rho - 1 / rho) / 2
    cut = 88 / (arb(89).sqrt() - 1)  # at x = -1, the longest
    kappa, bend, slope = cut / 2, cut**2 / 2, cut
    right = 44 * ((a - 1) / 2).max(b * b / 4)
    left = slope**2 / (4 * bend) + bend * b * b / 4  # s slope/2 - s^2 bend/4 at its largest
    least = (1 - (-kappa).exp()) / kappa * (1 - 45 * arb(-44).exp()) / 44**2
    constant = (arb(64) / 15 / 2 * (1 + a) / 2 / (1 - rho**-2) / least).log()
    total = constant + kappa * (a - 1) / 2 + right.max(left) - 4 * len(_normal._WEIGHTS) * rho.log()
    assert total < -41.0
