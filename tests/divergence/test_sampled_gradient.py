"""Derivatives of the sampled Gaussian's Renyi bound where powers of the ratio overflow."""

import jax
import numpy as np
import pytest

import jaxacct as ja


@pytest.mark.parametrize("noise_multiplier", [0.03, 0.05, 0.06])
def test_gradient_at_little_noise_is_a_number(noise_multiplier: float) -> None:
    def epsilon(noise):
        return ja.epsilon(ja.PoissonSampled(ja.Gaussian(noise), 0.1, 100), 1e-6, method="rdp")

    found = float(jax.grad(epsilon)(noise_multiplier))
    step = 1e-4 * noise_multiplier
    difference = (epsilon(noise_multiplier + step) - epsilon(noise_multiplier - step)) / (2.0 * step)
    assert np.isclose(found, difference, rtol=1e-3)  # outside `jit` it is a difference too, over a larger step
