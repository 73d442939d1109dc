"""Bounds on how moments of a Poisson-sampled step fall with height, against dense sums; what each of them needs."""

import math

import numpy as np
import pytest

from jaxacct.divergence.gaussian import _sampled_decay
from jaxacct.divergence.gaussian._sampled_decay import sampled_gaussian_decay

_GRID = 40_001


def _ratio(sigma, q, exponent, heights):
    """|E R^(c + ib) / E R^c| at heights b, by sums of 40,001 terms."""
    g = np.linspace(-10.0, 12.0 + max(exponent, 1.0) / sigma, _GRID)
    loss = np.log1p(q * np.expm1(g / sigma - 0.5 / sigma**2))
    weight = np.exp(exponent * loss - 0.5 * g * g - np.max(exponent * loss - 0.5 * g * g))
    return np.array([abs((weight * np.exp(1j * b * loss)).sum()) for b in heights]) / weight.sum()


@pytest.mark.parametrize("seed", range(12))
def test_turned_contours_bound_moments(seed):
    rng = np.random.default_rng([16, seed])
    sigma, q = float(np.exp(rng.uniform(-0.7, 1.5))), float(np.exp(rng.uniform(-6, -0.05)))
    height = float(np.exp(rng.uniform(0.0, 5.0)))
    exponents = np.array([rng.uniform(1.0, 12.0), -rng.uniform(0.05, 12.0)])
    bounds = sampled_gaussian_decay(sigma, q, exponents, height)
    for exponent, bound in zip(exponents, bounds, strict=True):
        assert np.all(_ratio(sigma, q, exponent, height * np.array([1.0, 1.3, 2.0, 4.0])) <= math.exp(bound) + 1e-12)


def test_turned_contours_are_of_use():
    assert np.all(sampled_gaussian_decay(0.8, 0.05, np.array([2.0, -1.0]), 30.0) < -0.3)


def test_where_nothing_is_known_nothing_is_claimed():
    for sigma, q in ((0.02, 0.1), (1.0, 1.0), (1.0, 0.0)):
        assert np.all(sampled_gaussian_decay(sigma, q, np.array([2.0, -1.0]), 30.0) == 0.0)


@pytest.mark.parametrize(
    ("step", "sigma", "q", "exponent", "height"),
    [(2.0, 1.3662903677797753, 0.46547359569173025, -1.6350052645706343, 50.85246023715071),
     (3.0, 1.8481042276433506, 0.6265091564769144, -2.5066847153667515, 13.728621595795376)],
)  # fmt: skip
def test_a_coarse_rule_is_booked(step, sigma, q, exponent, height, monkeypatch):
    """With steps at which the sums fall short of the truth the bound does not."""
    monkeypatch.setattr(_sampled_decay, "_STEP", step)
    bound = sampled_gaussian_decay(sigma, q, np.array([exponent]), height)[0]
    assert bound >= math.log(_ratio(sigma, q, exponent, [height])[0])
