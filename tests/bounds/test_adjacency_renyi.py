"""Renyi divergences of records that are replaced, beside integrals; answers inside traced programs."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import jaxacct as ja

ONE, OUT = "replace-one", "zero-out"
ORDERS = [1.0, 1.2, 1.5, 2.0, 3.5, 8.0, 20.0]
ALLOCATED = ja.RandomAllocation(ja.Gaussian(1.0), 50)


def _of_densities(p: np.ndarray, q: np.ndarray, cell: float, order: float) -> float:
    """The Renyi divergence of two densities on a grid, by the rectangle rule."""
    log_ratio = np.log(p) - np.log(q)
    if order == 1.0:
        return float((p * log_ratio).sum() * cell)
    exponent = np.log(p) + (order - 1.0) * log_ratio
    top = exponent.max()
    return float((top + math.log(np.exp(exponent - top).sum() * cell)) / (order - 1.0))


@pytest.mark.parametrize(("noise", "prob"), [(1.0, 0.1), (2.5, 0.5), (0.7, 0.02), (4.0, 0.9)])
@pytest.mark.parametrize("laplace", [False, True])
def test_a_sampled_record_that_is_replaced(noise: float, prob: float, laplace: bool) -> None:
    """No less than the worst pair, records that contribute 1 and -1."""
    x = np.linspace(-40.0 * noise, 40.0 * noise, 800_001)

    def density(shift: float) -> np.ndarray:
        if laplace:
            return np.exp(-np.abs(x - shift) / noise) / (2.0 * noise)
        return np.exp(-0.5 * ((x - shift) / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi))

    p, q = (np.maximum((1.0 - prob) * density(0.0) + prob * density(s), 1e-320) for s in (1.0, -1.0))
    release = ja.Laplace(noise) if laplace else ja.Gaussian(noise)
    run = ja.PoissonSampled(release, prob, 3)
    found = ja.rdp(run, ORDERS, neighboring_relation=ONE)
    assert found.neighboring_relation is ja.NeighboringRelation.REPLACE_ONE
    for order, value in zip(ORDERS, found.values, strict=True):
        assert value >= 3.0 * _of_densities(p, q, x[1] - x[0], order) * (1.0 - 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_noise_of_half_the_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise, scale, decay = rng.uniform(0.5, 4.0, 3)
    run = ja.Composed((ja.Gaussian(noise), ja.Laplace(scale), ja.DiscreteLaplace(decay, 2)), (3, 2, 1))
    same = ja.Composed((ja.Gaussian(noise / 2), ja.Laplace(scale / 2), ja.DiscreteLaplace(decay, 4)), (3, 2, 1))
    orders = [*ORDERS, math.inf]
    replaced = ja.rdp(run, orders, neighboring_relation=ONE).values
    np.testing.assert_allclose(replaced, ja.rdp(same, orders).values, rtol=1e-12)
    assert ja.rdp(ja.Gaussian(noise), [3.0], neighboring_relation=ONE).values[0] == pytest.approx(6.0 / noise**2)
    np.testing.assert_allclose(ja.rdp(ja.ZeroOut(run), orders).values, ja.rdp(run, orders).values, rtol=1e-12)
    alone = ja.rdp(ja.Laplace(scale), [math.inf], neighboring_relation=ONE).values[0]
    assert alone == pytest.approx(2.0 / scale, rel=1e-12)


def test_the_weak_triangle_has_the_divergences_of_both_steps() -> None:
    """At exponents of 2: the first step at twice the order, the second one at one less."""
    for order in (1.5, 2.0, 6.0):
        first, second = ja.rdp(ALLOCATED, [2.0 * order, 2.0 * order - 1.0]).values
        expected = (order - 0.5) / (order - 1.0) * first + second
        assert ja.rdp(ALLOCATED, [order], neighboring_relation=ONE).values[0] == pytest.approx(expected, rel=1e-12)
    low = ja.rdp(ALLOCATED, [1.0, 1.1, 1.5], neighboring_relation=ONE).values
    assert low[0] == low[1] == low[2]  # divergences do not fall with the order


RUNS = {
    "Gaussian": (lambda noise: ja.Gaussian(noise), 1.0),
    "Laplace": (lambda noise: ja.Laplace(noise), 1.0),
    "composed Gaussian": (lambda noise: ja.Composed((ja.Gaussian(noise), ja.Gaussian(3.0)), (4, 2)), 1.0),
    "composed": (lambda noise: ja.Composed((ja.Gaussian(noise), ja.Laplace(3.0)), (4, 2)), 1.2),
    "discrete": (lambda noise: ja.DiscreteGaussian(noise), 2.0),
    "sampled": (lambda noise: ja.PoissonSampled(ja.Gaussian(noise), 0.01, 100), 3.0),
    "allocated": (lambda noise: ja.RandomAllocation(ja.Gaussian(noise), 50), 4.0),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "allocated")) for n in RUNS])
@pytest.mark.parametrize("relation", [ONE, OUT])
def test_inside_jit(name: str, relation: str) -> None:
    """Never below the answer outside; its own closed form where there is one."""
    make, most = RUNS[name]
    noise = 2.3
    traced = jax.jit(lambda noise: ja.epsilon(make(noise), 1e-5, neighboring_relation=relation))
    outside = ja.epsilon_interval(make(noise), 1e-5, neighboring_relation=relation)
    found = float(traced(noise))
    assert outside.lower <= found <= max(most, 2.5 if relation == OUT and most > 1.0 else 0.0) * outside.upper * 1.0001
    delta = jax.jit(lambda noise: ja.delta(make(noise), 0.3, neighboring_relation=relation))(noise)
    assert float(delta) >= ja.delta_interval(make(noise), 0.3, neighboring_relation=relation).lower
    slope = jax.grad(lambda noise: ja.epsilon(make(noise), 1e-5, neighboring_relation=relation))(noise)
    assert slope < 0.0


def test_what_has_no_divergences_says_what_to_do() -> None:
    fixed = ja.FixedBatches(ja.Gaussian(2.0), 100, 10, num_steps=1)
    for run in (fixed, ja.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5))):
        with pytest.raises(ValueError, match="not by Renyi divergences: ask for its epsilon, delta"):
            ja.rdp(run, [2.0], neighboring_relation=ONE)
    with pytest.raises(ValueError, match=r"ReplaceOne\.mechanism\.mechanism\.noise_multiplier must be closed over"):
        jax.jit(
            lambda noise: ja.epsilon(
                dataclasses.replace(fixed, mechanism=ja.Gaussian(noise)), 1e-5, neighboring_relation=ONE
            )
        )(2.0)
    with pytest.raises(ValueError, match="neighboring_relation="):
        ja.rdp(ja.Gaussian(1.0), [2.0], neighboring_relation="nobody")
