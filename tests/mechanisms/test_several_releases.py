"""Several Gaussian releases of one sampled batch: one of the combined noise multiplier."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja

TWO = ja.Composed([ja.Gaussian(1.5), ja.Gaussian(3.0)])
COMBINED = (1.5**-2 + 3.0**-2) ** -0.5
SCHEMES = {
    "poisson": lambda release: ja.PoissonSampled(release, 0.1, 50),
    "allocation": lambda release: ja.RandomAllocation(release, 10, 2, 3),
    "begun": lambda release: ja.PartialAllocation(release, 10, 3),
    "groups": lambda release: ja.RandomAllocation(ja.PoissonSampled(release, 0.1, 2), 10),
    "replaced": lambda release: ja.ReplaceOne(ja.PoissonSampled(release, 0.1, 50)),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_as_one_of_the_combined_multiplier(name: str) -> None:
    scheme = SCHEMES[name]
    found, wanted = (ja.epsilon(scheme(release), 1e-6, precision=math.inf) for release in (TWO, ja.Gaussian(COMBINED)))
    assert found == pytest.approx(wanted, rel=1e-12)  # of certified bounds, either may be the lower one
    four = ja.epsilon(scheme(ja.Composed(ja.Gaussian(2 * COMBINED), 4)), 1e-6, precision=math.inf)
    assert four == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("remove", [True, False])
def test_against_the_two_outputs_themselves(remove: bool) -> None:
    """delta of one step by quadrature over both outputs, the record in both of them or in none."""
    axis = np.linspace(-9.0, 10.0, 1201)
    x, y = np.meshgrid(axis, axis)
    without = np.exp(-0.5 * (x**2 + y**2)) / (2.0 * math.pi)
    with_it = 0.8 * without + 0.2 * np.exp(-0.5 * ((x - 1 / 1.5) ** 2 + (y - 1 / 3.0) ** 2)) / (2.0 * math.pi)
    p, q = (with_it, without) if remove else (without, with_it)
    step = axis[1] - axis[0]
    run = ja.PoissonSampled(TWO, 0.2, 1)
    direction = ja.Direction.REMOVE if remove else ja.Direction.ADD
    for epsilon in (0.0, 0.05, 0.1):
        exact = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * step**2
        assert ja.delta(run, epsilon, direction=direction) == pytest.approx(exact, rel=2e-3)


def test_rounded_to_the_safe_side() -> None:
    draws = np.random.default_rng(0)
    for _ in range(200):
        noises, counts = draws.uniform(0.1, 9.0, 4), draws.integers(1, 9, 4)
        parts = ja.Composed([ja.Gaussian(noise) for noise in noises], tuple(counts.tolist()))
        found = ja.PoissonSampled(parts, 0.1, 1).mechanism.noise_multiplier
        exact = math.fsum(int(count) / float(noise) ** 2 for noise, count in zip(noises, counts, strict=True)) ** -0.5
        assert exact * (1.0 - 1e-14) <= found <= exact
    extreme = ja.PoissonSampled(ja.Composed([ja.Gaussian(1e-200), ja.Gaussian(1e200)]), 0.1, 1)
    assert extreme.mechanism.noise_multiplier == pytest.approx(1e-200)


def test_arrays_and_programs() -> None:
    def of_two(noise: Any) -> Any:
        return ja.PoissonSampled(ja.Composed([ja.Gaussian(noise), ja.Gaussian(3.0)]), 0.1, 50)

    noises = np.array([1.5, 2.0])
    both = ja.epsilon(of_two(noises), 1e-6, precision=math.inf)
    assert both[0] == pytest.approx(ja.epsilon(of_two(1.5), 1e-6, precision=math.inf), rel=1e-12)
    traced = jax.jit(jax.vmap(lambda noise: of_two(noise).mechanism.noise_multiplier))(jnp.array(noises))
    exact = of_two(noises).mechanism.noise_multiplier
    assert np.all(traced <= exact)  # in float32, rounded down by what that errs
    np.testing.assert_allclose(traced, exact, rtol=3e-6)
    slope = jax.grad(lambda noise: of_two(noise).mechanism.noise_multiplier)(1.5)
    assert slope == pytest.approx((COMBINED / 1.5) ** 3, rel=1e-5)


def test_what_is_not_known_as_one_release_is_refused() -> None:
    for other in (ja.Composed([ja.Gaussian(1.0), ja.Laplace(1.0)]), ja.Composed([ja.Gaussian(None), ja.Gaussian(1.0)])):
        with pytest.raises(ValueError, match=r"has no analysis here|noise_multiplier=None"):
            ja.epsilon(ja.PoissonSampled(other, 0.1, 50), 1e-6)
    with pytest.raises(ValueError, match="has no analysis here"):  # where others make room for a record
        ja.epsilon(ja.FixedBatches(TWO, 100, 10, 5), 1e-6)
