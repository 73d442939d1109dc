"""One epoch of random allocation on lanes: both ends against the host's exact profile, in batches and inside jit."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import Direction, _precision
from jaxacct._method import Query
from jaxacct.answering._lanes import bracket_on_lanes
from jaxacct.bounds.allocation._exact import EXACT
from jaxacct.divergence.allocation._epoch_lanes import INNER, Sum, _at
from jaxacct.divergence.allocation._profile import AllocationProfile

TOL = 1e-12  # relative; the host's own ends are some 1e-12 apart
SIZE = EXACT.quick_sizes[0]


@pytest.fixture(scope="module")
def settings():
    """48 random settings: noise, steps, delta; the first are the odd ones."""
    rng = np.random.default_rng(20)

    def log_uniform(low, high):
        return np.exp(rng.uniform(np.log(low), np.log(high), 48))

    noise, steps, delta = log_uniform(0.25, 20), np.floor(log_uniform(1, 1e6)), log_uniform(1e-11, 1e-2)
    noise[:4], steps[:4], delta[:4] = (0.05, 1.0, 2.0, 5e3), (10, 1, 1e13, 10), (1e-6, 1e-6, 1e-6, 1e-300)
    return noise, steps, delta


@pytest.mark.more
@pytest.mark.parametrize("size", EXACT.quick_sizes[:2])
def test_ends_of_epsilon_hold_the_host_s(settings, size):
    noise, steps, delta = settings
    run = ja.RandomAllocation(ja.Gaussian(noise), steps)
    found = bracket_on_lanes(EXACT, run, Query.EPSILON, delta, size)
    assert np.all(found.lower <= found.upper)
    for i, (sigma, t, d) in enumerate(zip(noise, steps, delta, strict=True)):
        for j, direction in enumerate(Direction):
            exact = AllocationProfile(sigma, t, direction).epsilon(d)
            assert found.lower[i, j] <= exact.upper * (1 + TOL), (sigma, t, d, direction)
            assert found.upper[i, j] >= exact.lower * (1 - TOL), (sigma, t, d, direction)
    many = (steps > 50) & (noise > 1) & (noise < 1e3) & (steps < 1e12) & (delta > 1e-9)
    assert np.all(found.upper[many] <= found.lower[many] * 1.02)


def test_ends_of_delta_hold_the_host_s(settings):
    noise, steps, delta = (x[4:20] for x in settings)
    run = ja.RandomAllocation(ja.Gaussian(noise), steps)
    del delta
    epsilon = np.linspace(0.0, 3.0, len(noise)) / noise**2
    found = bracket_on_lanes(EXACT, run, Query.DELTA, epsilon, SIZE)
    for i, (sigma, t, e) in enumerate(zip(noise, steps, epsilon, strict=True)):
        for j, direction in enumerate(Direction):
            exact = AllocationProfile(sigma, t, direction).delta(np.array([e]))
            assert found.lower[i, j] <= exact.upper[0] * (1 + TOL) + 1e-300, (sigma, t, e, direction)
            assert found.upper[i, j] >= exact.lower[0] * (1 - TOL), (sigma, t, e, direction)


def test_a_batch_of_quick_questions_is_as_tight_as_the_exact_one():
    noise, steps = (
        np.array([0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 1.0]),
        np.array([500, 1000, 100, 1000, 300, 50, 100, 1000]),
    )
    selected = np.array([1, 1, 1, 1, 1, 1, 1, 2])
    run = ja.RandomAllocation(ja.Gaussian(noise), steps, selected)
    quick = ja.epsilon(run, 1e-6, precision=math.inf)
    exact = ja.epsilon(ja.RandomAllocation(ja.Gaussian(noise[:7]), steps[:7]), 1e-6, method="exact")
    assert np.all(quick[:7] >= exact * (1 - TOL))
    assert np.all(quick[:7] <= exact * 1.001)
    assert quick[7] > quick[1]


@pytest.mark.more
def test_inside_jit_with_gradients():
    def epsilon(sigma):
        return ja.epsilon(ja.RandomAllocation(ja.Gaussian(sigma), 1000), 1e-6, method="exact")

    at = np.array([0.7, 1.0, 2.0])
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(epsilon)))(jnp.asarray(at))
    exact = np.array([epsilon(s) for s in at.tolist()])
    step = 1e-5
    differences = [(epsilon(s * (1 + step)) - epsilon(s * (1 - step))) / (2 * step * s) for s in at.tolist()]
    assert np.all(np.asarray(value, np.float64) >= exact * (1 - TOL))
    np.testing.assert_allclose(value, exact, rtol=1e-3)
    np.testing.assert_allclose(slope, differences, rtol=1e-3)


def test_outside_the_range_nothing_is_said():
    bad = jax.jit(lambda s, t: ja.epsilon(ja.RandomAllocation(ja.Gaussian(s), t), 1e-6, method="exact"))
    for sigma, steps in ((0.1, 100.0), (1e4, 100.0), (-1.0, 100.0), (1.0, 0.0), (math.nan, 10.0)):
        assert bad(sigma, steps) == math.inf


def test_what_lies_beyond_the_last_node_is_part_of_the_error():
    x, lane = np.array([0.3]), np.ones(1)
    with _precision._own_settings():
        terms = jnp.full((1, INNER), 1e-3 + 0j)
        parts = {
            name: jnp.asarray(0.1 * lane)
            for name in ("error", "size", "size_z", "error_2", "size_2", "square", "spread")
        }
        rest = {"log_scale": jnp.zeros(1), "far": jnp.full((1, 1), 5.0), "far_logs": jnp.zeros((1, 1))}
        of = Sum(
            centre=jnp.asarray(2.0 * lane),
            step=jnp.asarray(0.1 * lane),
            terms=terms,
            log_tail=jnp.full(1, -np.inf),
            **parts,
            **rest,
        )
        least, most = (_at(of._replace(log_tail=jnp.full(1, tail)), jnp.asarray(x)) for tail in (-np.inf, -3.0))
    assert most.error - least.error == pytest.approx(math.exp(2.0 * 0.3 - 3.0), rel=1e-9)
    assert most.value == least.value
