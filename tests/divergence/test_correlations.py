"""Correlations of one table with many weights, against sums term by term."""

import numpy as np
import pytest

from jaxacct.divergence.allocation._correlations import BLOCK, correlated, correlated_above


@pytest.mark.parametrize(
    ("size", "every", "count", "rows"),
    [(1, 1, 1, 1), (7, 3, 20, 2), (97, 1, 50, 3), (300, 2, 333, 9), (120, 11, 61, 17)],
)
@pytest.mark.parametrize("is_complex", [False, True])
def test_products_are_the_sums(size, every, count, rows, is_complex):
    draws = np.random.default_rng(size)
    parts = draws.normal(size=((size - 1) * every + count, 2)), draws.normal(size=(rows, size, 2))
    table, weights = (x[..., 0] + 1j * x[..., 1] if is_complex else x[..., 0] for x in parts)
    found = correlated(table, weights, every, count)
    n = np.arange(count)[:, None] + every * np.arange(size)
    truth = (weights[:, None, :] * table[n]).sum(-1)
    sizes = (np.abs(weights)[:, None, :] * np.abs(table)[n]).sum(-1)
    assert found.shape == (rows, count)
    assert np.all(np.abs(found - truth) <= 2.0**-52 * (8.0 + BLOCK + size / BLOCK) * sizes)


@pytest.mark.parametrize(("every", "count"), [(1, 30), (4, 57), (26, 100)])
def test_from_above(every, count):
    """Smooth tables lose little; tables that jump are bounded all the same."""
    draws = np.random.default_rng(every)
    size = 90
    weights = draws.random((3, size))
    n = np.arange(count)[:, None] + every * np.arange(size)
    for table, loss in ((np.exp(-np.arange(n.max() + 1) / 300.0), 1.1), (draws.random(n.max() + 1), 1e9)):
        truth = (weights[:, None, :] * table[n]).sum(-1)
        found = correlated_above(table, weights, every, count)
        assert np.all(found >= truth * (1.0 - 1e-13))
        assert np.all(found <= loss * truth)
