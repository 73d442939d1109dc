"""Banded noise: what it reduces to, beside samples of the whole vector that is released; and where it does not."""

import itertools

import numpy as np
import pytest

import jaxacct as ja
from jaxacct.correlated import BallsInBins, BandedNoise

COEFFICIENTS = (1.0, -0.6, 0.3)
SAMPLES = 200_000


def _toeplitz(coefficients, size):
    matrix = np.zeros((size, size))
    for i, c in enumerate(coefficients):
        matrix += c * np.eye(size, k=-i)
    return matrix


def _hockey_stick(means, weights, sigma, epsilon, rng):
    """delta of the mixture of N(mean, sigma^2 I) from N(0, sigma^2 I), with its standard error: C x + z itself."""
    drawn = means[rng.choice(len(weights), SAMPLES, p=weights)] + sigma * rng.normal(size=(SAMPLES, means.shape[1]))
    logs = (drawn @ means.T - 0.5 * np.sum(means**2, axis=1)) / sigma**2
    ratio = np.exp(logs) @ weights
    lost = np.maximum(0.0, 1.0 - np.exp(epsilon) / ratio)
    return lost.mean(), lost.std() / np.sqrt(SAMPLES)


def _poisson_sets(steps, prob):
    sets = [s for k in range(len(steps) + 1) for s in itertools.combinations(steps, k)]
    return sets, np.array([prob ** len(s) * (1 - prob) ** (len(steps) - len(s)) for s in sets])


def _means(matrix, sets):
    return np.array([matrix[:, list(s)].sum(axis=1) for s in sets])


def _judge(run, means, weights, sigma, epsilon=0.3, *, seed=0):
    estimate, error = _hockey_stick(means, weights, sigma, epsilon, np.random.default_rng(seed))
    answer = ja.delta(run, epsilon, direction="remove", precision=1e-6)
    assert answer == pytest.approx(estimate, abs=5 * error)


def test_cyclic_poisson_is_the_run_itself():
    matrix, sigma, prob = _toeplitz(COEFFICIENTS, 9), 1.3, 0.35
    sets, weights = _poisson_sets((0, 3, 6), prob)
    _judge(BandedNoise(matrix, sigma).cyclic_poisson(prob), _means(matrix, sets), weights, sigma)


def test_allocation_in_a_group_is_the_run_itself():
    matrix, sigma = _toeplitz(COEFFICIENTS, 12), 0.9
    sets = [(0,), (3,), (6,), (9,)]
    run = BandedNoise(COEFFICIENTS, sigma, num_steps=12).allocated()
    _judge(run, _means(matrix, sets), np.full(4, 0.25), sigma)


def test_known_steps_are_one_gaussian():
    matrix, sigma = _toeplitz(COEFFICIENTS, 10), 2.0
    noise = BandedNoise(matrix, sigma)
    _judge(noise.fixed_order(5), _means(matrix, [(0, 5)]), np.ones(1), sigma)
    found = noise.min_separation(3)
    sets = [s for k in (1, 2, 3, 4) for s in itertools.combinations(range(10), k) if all(np.diff(s) >= 3)]
    largest = max(np.sum(_means(matrix, [s]) ** 2) for s in sets)
    assert sigma / np.sqrt(largest) * (1 - 1e-12) <= found.noise_multiplier <= sigma / np.sqrt(largest)
    twice = max(np.sum(_means(matrix, [s]) ** 2) for s in sets if len(s) <= 2)
    assert noise.min_separation(3, most=2).noise_multiplier == pytest.approx(sigma / np.sqrt(twice), rel=1e-12)


def test_a_diagonal_strategy_is_balls_in_bins():
    matrix, sigma = 0.7 * np.eye(6), 1.1
    sets = [(0, 3), (1, 4), (2, 5)]
    _judge(BandedNoise([0.7], sigma, num_steps=6).balls_in_bins(3), _means(matrix, sets), np.full(3, 1 / 3), sigma)


def test_where_columns_share_rows_the_reduction_would_be_false():
    """Sampled in every step, two bands of one sign lose more than independent noise: it must be refused."""
    matrix, sigma, prob = _toeplitz((1.0, 0.9), 4), 2.0, 0.5
    sets, weights = _poisson_sets(range(4), prob)
    estimate, error = _hockey_stick(_means(matrix, sets), weights, sigma, 0.3, np.random.default_rng(1))
    norm = np.sqrt(1.81)
    wrong = ja.delta(ja.PoissonSampled(ja.Gaussian(sigma / norm), prob, 4), 0.3, direction="remove")
    assert estimate - 5 * error > wrong
    noise = BandedNoise(matrix, sigma)
    refusals = (
        lambda: noise.cyclic_poisson(prob, cycle_length=1),
        lambda: noise.allocated(cycle_length=1),
        lambda: noise.fixed_order(1),
        lambda: noise.min_separation(1),
    )
    for refused in refusals:
        with pytest.raises(ValueError, match="must be at least the 2 bands"):
            refused()


def test_norms_are_rounded_up_and_bands_counted():
    matrix = _toeplitz(COEFFICIENTS, 7)
    dense, banded = BandedNoise(matrix, 1.0), BandedNoise(COEFFICIENTS, 1.0, num_steps=7)
    assert dense.num_bands == banded.num_bands == 3
    np.testing.assert_allclose(dense.squared_norms, banded.squared_norms, rtol=1e-14)
    assert np.all(dense.squared_norms >= np.sum(matrix**2, axis=0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BandedNoise([1.0], 0.0, num_steps=3), "noise_multiplier=0.0 must be"),
        (lambda: BandedNoise([1.0, 0.5], 1.0), "num_steps=None must be given"),
        (lambda: BandedNoise([1.0, 0.5], 1.0, num_steps=1), "num_steps=1 must be given, at least 2"),
        (lambda: BandedNoise([[1.0, 1.0], [0.0, 1.0]], 1.0), "lower triangular"),
        (lambda: BandedNoise(np.eye(3), 1.0, num_steps=4), "num_steps=4 must be left out"),
        (lambda: BandedNoise([0.0], 1.0, num_steps=4), "not all 0"),
        (lambda: BandedNoise([1.0], 1.0, num_steps=4).cyclic_poisson(1.5), "sampling_prob=1.5 must be"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


RELATION = ja.NeighboringRelation.REPLACE_SPECIAL


def test_jax_privacy_configuration_end_to_end():
    """A BandMF plan calibrated by our accountant, and the noise that it then adds read back: the same epsilon."""
    plans = pytest.importorskip("jax_privacy.experimental.execution_plan")
    dpa = pytest.importorskip("dp_accounting")
    interop = pytest.importorskip("jaxacct.interop")
    theirs = dpa.NeighboringRelation.REPLACE_SPECIAL
    config = plans.BandMFExecutionPlanConfig(
        strategy=np.array([1.0, 0.5, 0.25]),
        iterations=60,
        epsilon=2.0,
        delta=1e-6,
        sampling_prob=0.3,
        accountant=interop.CertifiedAccountant(theirs),
    )
    plan = config.plan
    accountant = interop.CertifiedAccountant(theirs).compose(plan.dp_event)
    assert accountant.get_epsilon(1e-6) <= 2.0
    sigma = plan.dp_event.event.event.noise_multiplier * np.linalg.norm(
        config.strategy
    )  # of z, as its privatizer adds it
    noise = BandedNoise(config.strategy, float(sigma), num_steps=60)
    run = interop.from_jax_privacy(plan.batch_selection_strategy, noise, neighboring_relation=RELATION)
    assert run.num_steps == 20
    assert ja.epsilon(run, 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)
    with pytest.raises(ValueError, match="REPLACE_SPECIAL"):
        interop.from_jax_privacy(plan.batch_selection_strategy, noise)


def test_other_strategies_reduce_or_are_refused():
    selection = pytest.importorskip("jax_privacy.batch_selection")
    interop = pytest.importorskip("jaxacct.interop")
    noise = BandedNoise((1.0, 0.5), 1.5, num_steps=40)
    apart = interop.from_jax_privacy(selection.BMinSepSampling(0.1, 40, min_sep=4), noise)
    assert apart == noise.min_separation(4)
    bins = interop.from_jax_privacy(selection.BallsInBinsSampling(iterations=40, cycle_length=4), noise)
    assert bins == noise.balls_in_bins(4) == BallsInBins((1.0, 0.5), 1.5, 4, 10, 40)
    assert interop.from_jax_privacy(selection.BMinSepSampling(1.0, 40, min_sep=4), noise) == bins
    independent = selection.PartitionType.INDEPENDENT
    once = selection.CyclicPoissonSampling(1.0, 40, cycle_length=4, partition_type=independent)
    assert interop.from_jax_privacy(once, noise) == bins
    with pytest.raises(ValueError, match="40 iterations"):
        interop.from_jax_privacy(selection.BMinSepSampling(0.1, 41, min_sep=4), noise)
    with pytest.raises(ValueError, match="no analysis here with correlated noise"):
        interop.from_jax_privacy(selection.FixedBatchSampling(batch_size=2, iterations=40), noise)
