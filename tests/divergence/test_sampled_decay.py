"""Bounds on how moments of a Poisson-sampled step fall with height, against dense sums; what each of them needs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxacct.divergence._inversion import ALIAS_FACTORS, Line
from jaxacct.divergence.gaussian import _sampled_decay, _sampled_line
from jaxacct.divergence.gaussian._sampled_decay import sampled_gaussian_decay
from jaxacct.divergence.gaussian._sampled_line import sampled_gaussian_line

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


@pytest.mark.parametrize("num_z", [512, 1024, 4096])
def test_what_a_rule_errs_by_near_its_own_frequency(num_z):
    """At the height 2 pi/k - D it is e^(-D^2/2) of the moment, however many nodes; its parts are no doubles."""
    sigma, order, away = 6.0, 1.5, 3.0

    def bound():
        given = (jnp.array([x]) for x in (1.0 / sigma, 0.5))
        rule = _sampled_line._rule(*given, jnp.array([False]), jnp.array([order]), num_z)
        height = (2.0 * jnp.pi / rule.step - away) * sigma
        one = jnp.ones(1)
        return _sampled_line._grid(rule, order * one, height, 0.0 * one, one)

    with jax.enable_x64(True):
        assert 2.0 * math.exp(-0.5 * away**2) < float(bound()[0]) < 2.3 * math.exp(-0.5 * away**2)


@pytest.mark.more
@pytest.mark.parametrize("add", [False, True])
def test_intervals_bound_moments_on_a_coarse_grid(add):
    """The curvature within cells, in both directions: few nodes, large orders."""
    with jax.enable_x64(True):
        for sigma, q, a in ((0.6, 0.3, 9.0), (0.4, 0.1, 6.0), (1.0, 0.5, 20.0)):
            one = jnp.ones(1, jnp.float64)
            order, edges = a * one, jnp.asarray([[1.0], [4.0], [16.0]], jnp.float64)
            heights = jnp.asarray([[0.0], [1.0]], jnp.float64)
            alias_orders = 1.0 + jnp.asarray(ALIAS_FACTORS)[:, None] * (order - 1.0)
            line = Line(order, one, heights, heights < 2.0, edges, alias_orders)
            found = sampled_gaussian_line(line, sigma * one, q * one, jnp.asarray([add]), num_z=256)
            exponent = 1.0 - a if add else a
            truth = _ratio(sigma, q, exponent, np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]))
            bound = np.exp(np.asarray(found.log_decay)[:, 0])
            assert np.all(truth <= np.repeat(bound, 2) + 1e-12), (sigma, q, a)
