"""Lower bounds of runs whose probabilities are known to within a factor, against exact fractions and 60 digits."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from jaxacct._method import Query
from jaxacct.bounds._nearby import below_nearby
from jaxacct.bounds.bases._glued import emptied_in_bins

_LOST = [float(x) for x in np.geomspace(1e-16, 1e-2, 40)]


@pytest.mark.parametrize("found", [0.3, 1.7, 99.9])
def test_epsilon_moves_down_by_all_that_is_lost(found):
    for lost in _LOST:
        value = below_nearby(Query.EPSILON, 1e-6, lost, lambda asked: found)
        assert Fraction(value) <= Fraction(found) - Fraction(2.1) * Fraction(lost)


@pytest.mark.parametrize("target", [0.3, 1.7, 99.9])
def test_delta_is_asked_at_no_smaller_epsilon_and_shrinks(target):
    asked = []
    for lost in _LOST:
        value = below_nearby(Query.DELTA, target, lost, lambda at: asked.append(at) or 1e-3)
        assert Fraction(asked[-1]) >= Fraction(target) + Fraction(2.1) * Fraction(lost)
        assert Fraction(value) <= Fraction(1e-3) * (1 - Fraction(lost))


def test_a_larger_delta_is_asked_about():
    asked = []
    for lost in _LOST:
        below_nearby(Query.EPSILON, 1e-6, lost, lambda at: asked.append(at) or 1.0)
        assert Fraction(asked[-1]) >= Fraction(1e-6) / (1 - Fraction(lost))


def test_nothing_is_claimed_where_too_much_is_lost():
    assert below_nearby(Query.DELTA, 1.0, 0.011, lambda asked: 0.5) == 0.0
    assert below_nearby(Query.EPSILON, 0.999, 0.01, lambda asked: 0.5) == 0.0


def _mass(low, high):
    low, high = (-high, -low) if high <= 0 else (low, high)
    return (mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))) / 2


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0, 12.0, 25.0])
@pytest.mark.parametrize("prob", [0.3, 1e-4])
def test_bins_are_within_their_error(mu, prob):
    with mpmath.workdps(60):
        ends = [mpmath.mpf(x) for x in (-36.0, *np.linspace(0.5 * mu, mu + 6.0, 32).tolist(), mu + 36.0)]
        cells = list(itertools.pairwise(ends))
        q, away = mpmath.mpf(prob), mpmath.mpf(mu)
        sides = [
            [(1 - q) * _mass(a + away, b + away) + q * _mass(a - shift, b - shift) for a, b in cells]
            for shift in (away, mpmath.mpf(0))
        ]
        bins = emptied_in_bins(mu, prob)
        for found, true in zip(bins[:2], sides, strict=True):
            for share, value in zip(found.tolist()[:-1], true, strict=False):  # the last one holds what is left out
                assert abs(share / value - 1) <= bins.error
