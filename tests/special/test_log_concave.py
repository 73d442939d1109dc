"""Integrals of log-concave functions between certified ends."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from jaxacct.special import integrals, is_concave, where_fallen


def _cells(low, high, number):
    inside = np.linspace(low, high, number + 1)
    step = inside[1] - inside[0]
    return np.concatenate([[low - step], inside, [high + step]])


@pytest.mark.parametrize("number", [10, 1000])
def test_integrals_of_a_normal_density(number):
    place = _cells(-1.0, 4.0, number)
    found = integrals(place, -0.5 * place * place, np.zeros_like(place))
    exact = math.sqrt(2.0 * math.pi) * np.diff(ndtr(place[1:-1]))
    step = 5.0 / number
    assert np.all(found.lower <= exact)
    assert np.all(exact <= found.upper)
    assert np.all(found.upper <= found.lower * (1.0 + 0.3 * step * step) + 1e-14)


def test_an_exponential_is_exact():
    """Chords and chords that are drawn out are the function, on either side of its kink at 0."""
    place = _cells(-2.0, 2.0, 8)
    found = integrals(place, -np.abs(place), np.zeros_like(place))
    exact = np.exp(-np.minimum(np.abs(place[1:-2]), np.abs(place[2:-1]))) * -math.expm1(-0.5)
    np.testing.assert_allclose(found.lower, exact, rtol=1e-14)
    np.testing.assert_allclose(found.upper, exact, rtol=1e-14)
    assert np.all((found.lower <= exact) & (exact <= found.upper))


@pytest.mark.parametrize("power", [1.0, 1.3, 4.0])
def test_cells_of_any_width_with_kinks_in_them(power):
    place = np.array([-1.4, -1.1, -0.2, 0.1, 0.6, 0.7, 2.0, 2.5])
    found = integrals(place, -(np.abs(place) ** power), np.zeros_like(place))
    for i, (low, high) in enumerate(itertools.pairwise(place[1:-1])):
        exact = quad(lambda z: math.exp(-(abs(z) ** power)), low, high, points=[0.0] if low < 0.0 < high else None)[0]
        assert found.lower[i] <= exact * (1.0 + 1e-12) <= found.upper[i] * (1.0 + 2e-12)


@pytest.mark.parametrize("seed", range(4))
def test_values_that_are_off_by_what_is_stated(seed):
    rng, place = np.random.default_rng(seed), np.sort(np.random.default_rng(seed).uniform(-2.0, 3.0, 40))
    error = rng.choice([1e-3, 0.05], len(place))
    value = -0.5 * place * place + error * rng.choice([-1.0, 1.0], len(place))
    found = integrals(place, value, error)
    exact = math.sqrt(2.0 * math.pi) * np.diff(ndtr(place[1:-1]))
    assert np.all((found.lower <= exact) & (exact <= found.upper))
    assert is_concave(place, value, error)
    assert not is_concave(place, value, 1e-6 * error)


def test_concavity_of_what_has_none():
    place = np.linspace(-3.0, 3.0, 101)
    assert not is_concave(place, -np.log1p(place * place), np.full(101, 1e-12))
    assert is_concave(place, -place * place, np.zeros(101))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 3e7])
def test_where_a_function_has_fallen(unit):
    for drop in (0.3, 1.0, 40.0):
        found = where_fallen(lambda z: -0.5 * (z / unit) ** 2, drop)
        assert math.sqrt(2.0 * drop) * unit <= found <= math.sqrt(2.0 * drop) * unit * 1.001
    assert where_fallen(lambda z: 0.0 * z, 1.0) == math.inf
