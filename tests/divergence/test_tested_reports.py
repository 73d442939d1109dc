"""Shuffled reports from below: tests of sums of scores against enumeration, and against random allocation."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from support.shuffled_reports import divergence, seen

import jaxacct as ja
from jaxacct.divergence.blanket import _tested
from jaxacct.divergence.blanket._tested import Cells, gaussian_cells, laplace_cells, scored_delta


@pytest.mark.parametrize("prob", [1.0, 0.6, 0.05])
@pytest.mark.parametrize("users", [2, 3, 6])
def test_few_users_by_enumeration(users, prob):
    """Never above the divergence of what is seen, and near it: of few cells scores hardly differ from what is best."""
    rng = np.random.default_rng(users)
    for _ in range(4):
        own, other = rng.dirichlet(np.full(4, 1.5), 2) * 0.9 + 0.025
        worlds = [seen([own, other], (x, *[1] * (users - 1)), prob) for x in (0, 1)]
        for epsilon in (0.0, 0.05, 0.4):
            true = divergence(*worlds, epsilon)
            found = scored_delta(Cells(own, other), float(users), prob, epsilon)
            assert 0.9 * true - 1e-9 <= found <= true * (1.0 + 1e-12)


@pytest.mark.parametrize(("a", "users"), [(0.25, 10**4), (0.25, 10**6), (1.0, 1000)])
def test_reports_of_equal_data_are_random_allocation(a, users):
    """The exact profile of the same data."""
    run = ja.RandomAllocation(ja.Gaussian(0.5 / a), users)
    epsilon = ja.epsilon(run, 1e-6, direction=ja.Direction.REMOVE)
    exact = ja.delta(run, epsilon, direction=ja.Direction.REMOVE)
    found = scored_delta(gaussian_cells(a), float(users), 1.0, epsilon)
    assert 0.9 * exact <= found <= exact


def test_who_joins_with_a_larger_probability_is_told_more():
    found = [scored_delta(gaussian_cells(0.25), 10**5, q, 0.001) for q in (0.02, 0.1, 0.5, 1.0)]
    assert all(x < y for x, y in itertools.pairwise(found))


def test_masses_of_cells():
    for a in (0.1, 1.0, 4.0):
        cells, edges = gaussian_cells(a), np.linspace(-8.5, 2.0 * a + 8.5, 385)
        left = np.diff(ndtr(edges))[:190]
        np.testing.assert_allclose(cells.other[:190], left, rtol=1e-12 if a < 4.0 else 1e-11)
        assert cells.own.tolist() == cells.other[::-1].tolist()
        assert math.fsum(cells.other) == pytest.approx(1.0, rel=2.0**-41)
    for rate in (0.01, 3.0):
        assert math.fsum(laplace_cells(rate).other) == pytest.approx(1.0, rel=1e-13)
        assert laplace_cells(rate).own[-1] == 0.5


def test_where_nothing_can_be_told_nothing_is_claimed(monkeypatch):
    assert scored_delta(gaussian_cells(0.25), 1e6, 1e-12, 1.0) == 0.0
    assert scored_delta(gaussian_cells(0.25), 1e6, 1.0, 5.0) == 0.0
    for epsilon in (40.0, 100.0, 800.0):  # more than any cell tells: scores are no whole numbers of 64 bits
        assert scored_delta(gaussian_cells(2.0), 11_723.0, 0.9944, epsilon) == 0.0
    less = scored_delta(gaussian_cells(0.25), 1e6, 0.1, 0.00035)
    monkeypatch.setattr(_tested, "_MASS_ERROR", 2.0**-39)
    assert scored_delta(gaussian_cells(0.25), 1e6, 0.1, 0.00035) < 0.95 * less  # what masses err by is taken off
    monkeypatch.setattr(_tested, "_MASS_ERROR", 2.0**-20)
    assert scored_delta(gaussian_cells(0.25), 1e6, 0.1, 0.00035) == 0.0
