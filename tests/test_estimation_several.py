"""Importance sampling of k-of-t allocation: unbiased, and above the truth with the confidence stated."""

import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.divergence.sampling import _several as several
from jaxacct.estimation import Sampler, estimate_delta
from jaxacct.papers.random_allocation import few_steps_delta

MAX_ERRORS = 4.5  # standard errors: exceeded once in 150,000


def _run(sigma: float, steps: int, selected: int, epochs: int = 1) -> ja.RandomAllocation:
    return ja.RandomAllocation(ja.Gaussian(sigma), steps, selected, epochs)


@pytest.mark.sample(1)
@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("case", [(1.0, 3, 2, 0.8), (1.0, 3, 2, 3.0), (0.6, 3, 2, 6.0), (2.0, 4, 3, 0.6)])
def test_unbiased_in_few_steps(case: tuple[float, int, int, float], direction: ja.Direction) -> None:
    """The truth by quadrature in as many dimensions as there are steps."""
    sigma, steps, selected, epsilon = case
    run = _run(sigma, steps, selected)
    truth = few_steps_delta(run, epsilon, direction)
    found = estimate_delta(
        run, epsilon, num_samples=30_000, seed=3, direction=direction, method=Sampler.IMPORTANCE, confidence=0.999
    )
    assert truth.lower - MAX_ERRORS * found.standard_error < found.mean
    assert found.mean < truth.upper + MAX_ERRORS * found.standard_error
    assert truth.lower <= found.upper_confidence < 1.3 * truth.upper


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "case",
    [
        # noise, t, k, epochs, epsilon; the largest relative standard error, and the confidence bound over the upper end
        (1.701, 2147, 5, 1, 0.3374, ja.Direction.REMOVE, 0.05, 3.0),  # delta 1e-8
        (1.701, 2147, 5, 1, 0.3374, ja.Direction.ADD, 0.05, 1.5),
        (0.776, 37, 5, 1, 8.25, ja.Direction.REMOVE, 0.07, 1.5),
        (0.55, 391, 5, 1, 6.88, ja.Direction.REMOVE, 0.07, 1.5),
        (1.0, 20, 3, 4, 2.0, ja.Direction.REMOVE, 0.03, 1.1),
        (1.0, 20, 3, 4, 2.0, ja.Direction.ADD, 0.03, 1.1),
    ],
)
def test_small_deltas_lie_between_certified_ends(
    case: tuple[float, int, int, int, float, ja.Direction, float, float],
) -> None:
    sigma, steps, selected, epochs, epsilon, direction, error, loose = case
    run = _run(sigma, steps, selected, epochs)
    found = estimate_delta(run, epsilon, num_samples=8_000, seed=1, direction=direction, method=Sampler.IMPORTANCE)
    upper = ja.delta(run, epsilon, direction=direction)
    assert found.standard_error < error * found.mean
    assert found.mean - MAX_ERRORS * found.standard_error < upper
    if direction is ja.Direction.REMOVE:
        lower = ja.delta_interval(run, epsilon).lower
        assert lower < found.mean + MAX_ERRORS * found.standard_error
        assert lower < found.upper_confidence
    assert found.upper_confidence < loose * upper


@pytest.mark.more
@pytest.mark.parametrize("direction", ja.Direction)
def test_confidence_holds_over_many_seeds(direction: ja.Direction) -> None:
    run = _run(1.0, 3, 2)
    truth = few_steps_delta(run, 3.0, direction).upper
    uppers = [
        estimate_delta(
            run, 3.0, num_samples=300, seed=seed, direction=direction, method=Sampler.IMPORTANCE, confidence=0.9
        ).upper_confidence
        for seed in range(40)
    ]
    # of 40 bounds that each fail once in ten, 12 fail once in 1500
    assert sum(upper < truth for upper in uppers) < 12


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("case", [(1.0, 3, 2, 1), (0.5, 30, 4, 1), (2.0, 200, 3, 2), (0.8, 11, 5, 3)])
def test_second_moments_are_bounded(case: tuple[float, int, int, int], direction: ja.Direction) -> None:
    """The samples' own second moment lies below the bound at several epsilons, for a proposal made for one of them."""
    run = _run(*case)
    epsilons = np.array([0.5, 1.0, 2.0])
    bound = np.exp(several.proposal(*case, tuple(epsilons.tolist()), direction).log_second_moment)
    found = estimate_delta(run, epsilons, num_samples=4_000, seed=5, direction=direction, method=Sampler.IMPORTANCE)
    if np.all(bound < 1.0):  # else plain samples are taken
        assert np.all(found.standard_error**2 * 4_000 + found.mean**2 < 1.1 * bound)
    expected = found.mean + np.sqrt(2.0 * bound * math.log(100.0) / 4_000)
    assert np.all(found.upper_confidence <= 1.0)
    if np.all(bound < 1.0):
        assert found.upper_confidence == pytest.approx(np.minimum(expected, 1.0), rel=1e-9)


def test_extreme_parameters_give_probabilities() -> None:
    for sigma, steps, selected, epsilon in ((1 / 16, 10, 3, 100.0), (1e4, 10, 3, 1e-6), (1.0, 3, 3, 0.3)):
        for direction in ja.Direction:
            found = estimate_delta(
                _run(sigma, steps, selected),
                epsilon,
                num_samples=300,
                seed=0,
                direction=direction,
                method=Sampler.IMPORTANCE,
            )
            assert 0.0 <= found.mean <= found.upper_confidence <= 1.0
            assert math.isfinite(found.standard_error)
