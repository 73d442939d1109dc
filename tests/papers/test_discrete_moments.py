"""Moments of two laws of few outputs are rounded up, against mpmath."""

import mpmath
import numpy as np
import pytest

import jaxacct.papers.random_allocation as ra
from jaxacct.papers.random_allocation._discrete_moments import discrete_log_moments


def _law(rng, size):
    """Probabilities [size], most of them many orders of magnitude below 1."""
    small = 10.0 ** -rng.uniform(0.5, 280.0, size - 1)
    return np.append(small, 1.0 - small.sum())


@pytest.mark.parametrize("seed", range(20))
def test_moments_and_divergences_are_not_below_the_truth(seed):
    rng = np.random.default_rng(seed)
    p, q = _law(rng, 2 + seed % 3), _law(rng, 2 + seed % 3)
    found = discrete_log_moments(p, q, 8)
    divergences = ra.discrete_remove_rdp(p, q, num_steps=1, max_order=8)
    with mpmath.workprec(300):
        for order in range(2, 9):
            terms = [mpmath.mpf(a) ** order * mpmath.mpf(b) ** (1 - order) for a, b in zip(p, q, strict=True)]
            truth = mpmath.log(mpmath.fsum(terms))
            size = max(-order * np.log(p.min()), -order * np.log(q.min()))
            assert truth <= mpmath.mpf(found[order]) <= truth + 1e-14 * size
            assert mpmath.mpf(divergences[order - 2]) * (order - 1) >= truth


def test_outputs_of_one_law_alone():
    only_p = discrete_log_moments(np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5]), 3)
    assert np.all(only_p[:2] < 1e-14)
    assert np.all(np.isposinf(only_p[2:]))
    only_q = discrete_log_moments(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.3, 0.5]), 2)
    assert only_q[2] == pytest.approx(np.log(0.25 / 0.2 + 0.25 / 0.3))
