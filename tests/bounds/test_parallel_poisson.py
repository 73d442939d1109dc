"""Workers that sample for themselves: the number of them that draw a record is binomial."""

import math

import numpy as np
import pytest

import jaxacct as ja

RUN = ja.ParallelPoisson(ja.Gaussian(2.0), sampling_prob=0.05, num_workers=3, num_steps=10)


def drawn(workers, prob):
    return [math.comb(workers, k) * prob**k * (1 - prob) ** (workers - k) for k in range(workers + 1)]


def one_step_deltas(sigma, prob, workers, epsilon):
    """Both directions of one step, by a sum over a fine grid: sum_k p_k N(k, s^2) against N(0, s^2)."""
    x = np.linspace(-12 * sigma, workers + 12 * sigma, 2_000_001)
    density = [np.exp(-0.5 * ((x - k) / sigma) ** 2) for k in range(workers + 1)]
    p, q = sum(share * d for share, d in zip(drawn(workers, prob), density, strict=True)), density[0]
    width = (x[1] - x[0]) / (sigma * math.sqrt(2 * math.pi))
    return [float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * width) for a, b in ((p, q), (q, p))]


@pytest.mark.parametrize(("sigma", "prob", "workers"), [(1.0, 0.1, 2), (2.0, 0.3, 5), (0.7, 0.01, 8)])
def test_one_step_is_the_mixture(sigma, prob, workers):
    run = ja.ParallelPoisson(ja.Gaussian(sigma), prob, workers, num_steps=1)
    for epsilon in (0.1, 1.0, 3.0):
        exact = max(one_step_deltas(sigma, prob, workers, epsilon))
        found = ja.delta_interval(run, epsilon)
        assert found.lower <= exact * (1 + 1e-7)
        assert exact * (1 - 1e-7) <= found.upper <= 1.05 * exact + 1e-12


def test_several_steps_are_a_composition_of_it():
    release = ja.MixtureOfGaussians(2.0, range(4), drawn(3, 0.05))
    assert ja.epsilon(RUN, 1e-6) == pytest.approx(ja.epsilon(ja.Composed(release, 10), 1e-6), rel=1e-3)
    both = ja.epsilon(ja.Composed((RUN, ja.Gaussian(5.0))), 1e-6)
    assert both == pytest.approx(ja.epsilon(ja.Composed((release, ja.Gaussian(5.0)), (10, 1)), 1e-6), rel=2e-3)
    assert ja.epsilon(RUN, 1e-6, neighboring_relation="zero-out") == ja.epsilon(RUN, 1e-6)
    replaced = ja.epsilon_interval(RUN, 1e-6, neighboring_relation="replace-one")
    assert ja.epsilon(RUN, 1e-6) < replaced.upper <= replaced.lower * (1 + 2e-3)


def test_one_worker_and_certain_draws_are_what_they_are():
    one, run = ja.ParallelPoisson(ja.Gaussian(2.0), 0.05, 1, 10), ja.PoissonSampled(ja.Gaussian(2.0), 0.05, 10)
    assert ja.epsilon(one, 1e-6) == ja.epsilon(run, 1e-6)
    certain = ja.ParallelPoisson(ja.Gaussian(2.0), 1.0, 4, 10)
    assert ja.epsilon(certain, 1e-6) == pytest.approx(ja.epsilon(ja.Composed(ja.Gaussian(0.5), 10), 1e-6), rel=1e-9)
    assert ja.epsilon(ja.ParallelPoisson(ja.Gaussian(2.0), 0.0, 4, 10), 1e-6) == 0.0


def test_shared_keys_cost_more_and_records_of_one_worker_less():
    shared = ja.PoissonSampled(ja.Gaussian(2.0 / 3), 0.05, 10)
    sharded = ja.PoissonSampled(ja.Gaussian(2.0), 0.05, 10)
    assert ja.epsilon_interval(shared, 1e-6).lower > ja.epsilon(RUN, 1e-6)
    assert ja.epsilon_interval(RUN, 1e-6).lower > ja.epsilon(sharded, 1e-6)


def test_more_workers_than_are_listed_are_bounded_from_above():
    many = ja.epsilon_interval(ja.ParallelPoisson(ja.Gaussian(600.0), 0.5, 600, 1), 1e-6)
    fewer = ja.epsilon_interval(ja.ParallelPoisson(ja.Gaussian(600.0), 0.5, 512, 1), 1e-6)
    assert many.upper > fewer.lower > many.lower == 0.0


def test_what_workers_release_is_gaussian_and_the_statement_says_what_must_hold():
    with pytest.raises(ValueError, match=r"ParallelPoisson must wrap one of Gaussian"):
        ja.epsilon(ja.ParallelPoisson(ja.Laplace(1.0), 0.1, 2, 3), 1e-6)
    with pytest.raises(ValueError, match="num_workers=0 must be"):
        ja.ParallelPoisson(ja.Gaussian(1.0), 0.1, 0, 3)
    text = " ".join(ja.report(RUN, 1e-6).split())
    assert "3 workers, each of which draws with probability 0.05, 10 steps" in text
    assert "no two share a key" in text
    found = ja.calibrate(ja.ParallelPoisson(ja.Gaussian(None), 0.05, 3, 10), "noise_multiplier", 1.0, 1e-6)
    assert ja.epsilon(ja.ParallelPoisson(ja.Gaussian(found), 0.05, 3, 10), 1e-6) <= 1.0
    assert ja.epsilon(ja.ParallelPoisson(ja.Gaussian(found * 0.998), 0.05, 3, 10), 1e-6) > 1.0
