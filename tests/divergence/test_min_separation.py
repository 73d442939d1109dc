"""Steps far apart under correlated noise: ratios against all ways to take part, means against quadrature."""

import math

import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct.correlated import BandedNoise, MinSeparation, estimate_delta, estimate_noise
from jaxacct.divergence.sampling._min_separation import log_ratio

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
DEVIATIONS = 5.0


def patterns(steps, prob, apart, is_warm):
    """All ways to take part, and their probabilities, by what each record that waits does next."""
    wait = {0: 1.0} | dict.fromkeys(range(1, apart), prob if is_warm else 0.0)
    found = {((), j): w / sum(wait.values()) for j, w in wait.items()}
    for i in range(steps):
        following = {}
        for (taken, left), weight in found.items():
            ways = [(taken, left - 1, weight)]
            if left == 0:
                ways = [((*taken, i), apart - 1, weight * prob), (taken, 0, weight * (1.0 - prob))]
            for now, then, share in ways:
                following[now, then] = following.get((now, then), 0.0) + share
        found = following
    out = {}
    for (taken, _), weight in found.items():
        out[taken] = out.get(taken, 0.0) + weight
    return out


def _mixture(run, outputs):
    """The likelihood ratio at `outputs` [n, S], the sum over all ways to take part."""
    strategy, steps = np.abs(run.noise.strategy), run.noise.num_steps
    matrix = strategy if strategy.ndim == 2 else sum(np.diag(np.full(steps - h, c), -h) for h, c in enumerate(strategy))
    total = 0.0
    for taken, weight in patterns(steps, run.sampling_prob, run.min_sep, run.warm_start).items():
        mean = matrix[:, list(taken)].sum(1) / run.noise.noise_multiplier
        total = total + weight * np.exp(mean @ outputs - 0.5 * mean @ mean)
    return total


RUNS = {
    "warm": MinSeparation(BandedNoise([1.0, -0.5], 0.8, num_steps=6), 0.3, 3),
    "cold": MinSeparation(BandedNoise([1.0, 0.6, 0.3], 1.3, num_steps=7), 0.6, warm_start=False),
    "matrix": MinSeparation(BandedNoise(np.tril(np.triu(np.arange(1.0, 26.0).reshape(5, 5) / 12.0, -1)), 1.1), 0.5, 2),
    "one": MinSeparation(BandedNoise([1.0], 1.0, num_steps=4), 1.0, 1),
    "never": MinSeparation(BandedNoise([1.0], 1.0, num_steps=4), 0.0, 2),
}


@pytest.mark.parametrize("name", RUNS)
def test_ratios_are_sums_over_all_ways_to_take_part(name):
    run = RUNS[name]
    of = run._renewals()
    outputs = np.random.default_rng(1).standard_normal((sum(of.columns.shape) - 1, 50))
    assert sum(patterns(run.noise.num_steps, run.sampling_prob, run.min_sep, run.warm_start).values()) == pytest.approx(
        1
    )
    np.testing.assert_allclose(
        log_ratio(of, outputs), np.log(_mixture(run, outputs[: run.noise.num_steps])), atol=1e-12
    )


@pytest.mark.parametrize("direction", ja.Direction)
def test_estimates_are_near_quadrature(direction):
    run = MinSeparation(BandedNoise([1.0, 0.5], 1.2, num_steps=2), 0.4)
    x = np.linspace(-9.0, 9.0, 1201)
    y = np.stack([*map(np.ravel, np.meshgrid(x, x))])
    density = stats.norm.pdf(y).prod(0) * (x[1] - x[0]) ** 2
    ratio = _mixture(run, y)
    for epsilon in (0.2, 1.0):
        gain = ratio - math.exp(epsilon) if direction is REMOVE else 1.0 - math.exp(epsilon) * ratio
        truth = float((density * np.maximum(gain, 0.0)).sum())
        found = estimate_delta(run, epsilon, num_samples=200_000, seed=2, direction=direction)
        assert abs(found.mean - truth) <= DEVIATIONS * found.standard_error
        assert truth < found.upper_confidence


@pytest.mark.parametrize("direction", ja.Direction)
def test_always_and_warm_is_balls_in_bins(direction):
    strategy, epsilons = [1.0, 0.5, 0.25], np.array([0.5, 1.0])
    of = {"num_samples": 50_000, "direction": direction, "seed": 3}
    found = estimate_delta(MinSeparation(BandedNoise(strategy, 3.0, num_steps=60), 1.0, 6), epsilons, **of)
    bins = estimate_delta(ja.BallsInBins(strategy, 3.0, 6, 10), epsilons, **of)
    errors = np.hypot(found.standard_error, bins.standard_error)
    assert np.all(np.abs(found.mean - bins.mean) <= DEVIATIONS * errors)


@pytest.mark.parametrize("warm_start", [True, False])
def test_ratios_are_those_of_jax_privacy(warm_start):
    """Of two bands: of three and more the norms of its last columns are in the reverse order."""
    theirs = pytest.importorskip("jax_privacy.experimental.monte_carlo.sample_generation")
    strategies = pytest.importorskip("jax_privacy.batch_selection")
    strategy = strategies.BMinSepSampling(sampling_prob=0.2, iterations=30, min_sep=4, warm_start=warm_start)
    column, noise = np.array([1.0, 0.5]), 1.5
    outputs = theirs.generate_sample(strategy, noise, column, seed=0, num_samples=40)
    expected = theirs.compute_privacy_loss(strategy, outputs, noise, column)
    of = MinSeparation(BandedNoise(column, noise, num_steps=30), 0.2, 4, warm_start)._renewals()
    padded = np.concatenate([outputs / noise, np.zeros((1, 40))])
    np.testing.assert_allclose(log_ratio(of, padded), expected, atol=1e-9)


def test_sampling_helps_and_noise_is_found():
    run = MinSeparation(BandedNoise([1.0, 0.5], 2.0, num_steps=40), 0.1, 5)
    certified = ja.calibrate(run.known_steps, "noise_multiplier", 1.0, 1e-2)
    highest = certified * run.noise.noise_multiplier / run.known_steps.noise_multiplier
    found = estimate_noise(run, 1.0, 1e-2, num_samples=20_000, seed=1, lowest=0.5, highest=highest, num_tried=5)
    assert found.noise_multiplier < 0.5 * highest
    assert found.delta.upper_confidence <= 1e-2
    never = estimate_delta(RUNS["never"], 0.0, num_samples=100, seed=0)
    assert never.mean == 0.0 < never.upper_confidence


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MinSeparation(BandedNoise([1.0, 0.5], 1.0, num_steps=9), 1.5), "sampling_prob=1.5"),
        (lambda: MinSeparation(BandedNoise([1.0, 0.5], 1.0, num_steps=9), 0.5, 1), "min_sep=1"),
        (lambda: MinSeparation(ja.Gaussian(1.0), 0.5), "must be a BandedNoise"),
        (lambda: estimate_delta(RUNS["warm"], 1.0, num_samples=9, seed=0, method="importance"), "must be 'naive'"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
