"""Balls in bins with correlated noise: bounds beside quadrature, samples, adversaries and what they must reduce to."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from support.bins import SMALL, TABLE, gram, normalised, quadrature, samples, toeplitz

import jaxacct as ja
from jaxacct.bounds.correlated._groups import below, groups, stand_in
from jaxacct.bounds.correlated._overlaps import Overlaps, overlaps
from jaxacct.correlated import BandedNoise
from jaxacct.interop import from_jax_privacy

REMOVE = ja.Direction.REMOVE
DEVIATIONS = 5.0  # of samples, by which a bound may be below their mean


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SMALL)
def test_up_to_four_bins_by_quadrature(name):
    run = SMALL[name]
    for epsilon in (0.1, 1.0, 2.0):
        truth = {d: quadrature(gram(run) / run.noise_multiplier**2, epsilon, d) for d in ja.Direction}
        for direction, delta in truth.items():
            assert delta <= ja.delta(run, epsilon, direction=direction, method="groups") * (1 + 1e-7), epsilon
        lower = ja.delta_interval(run, epsilon).lower
        assert 0.05 * max(truth.values()) < lower <= max(truth.values()) * (1 + 1e-7)


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_groups(name):
    run, epsilon, known, found = TABLE[name]
    assert ja.delta(run, epsilon, method="groups") == pytest.approx(found, rel=5e-3)
    alone = stand_in(run, groups(overlaps(run))[-1]._replace(bins=1))
    assert ja.delta(alone, epsilon) == pytest.approx(known, rel=2e-3)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "T5" else pytest.mark.more) for n in TABLE]
)
def test_no_bound_is_beyond_a_million_samples(name):
    run, _, _, _ = TABLE[name]
    covariance = gram(run) / run.noise_multiplier**2
    number, epsilons = 10**6 if len(covariance) < 500 else 10**5, (0.25, 1.0)
    found = [samples(covariance, epsilons, d, number) for d in ja.Direction]
    for epsilon, *drawn in zip(epsilons, *found, strict=True):
        for (mean, error), direction in zip(drawn, ja.Direction, strict=True):
            assert mean - DEVIATIONS * error <= ja.delta(run, epsilon, direction=direction, method="groups")
        assert ja.delta_interval(run, epsilon).lower <= max(mean + DEVIATIONS * error for mean, error in drawn)


def test_the_example_of_jax_privacy():
    """Ten bins, ten cycles, four bands: the noise for epsilon 1 at delta 5e-3, where known bins need 6.634."""
    run = ja.BallsInBins(normalised((1.0, 0.5, 0.25, 0.125)), None, 10, 10)
    noise = ja.calibrate(run, "noise_multiplier", 1.0, 5e-3, method="groups")
    assert noise < 4.306


# --- what it must be ---


def test_one_band_is_random_allocation():
    run = ja.BallsInBins([1.0], 2.0, 100, 4)
    alone = ja.RandomAllocation(ja.Gaussian(1.0), 100)
    for found, truth in (
        (ja.epsilon_interval(run, 1e-6), ja.epsilon_interval(alone, 1e-6)),
        (ja.delta_interval(run, 0.5), ja.delta_interval(alone, 0.5)),
    ):
        assert found.lower <= truth.upper <= found.upper
        assert found == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize(
    "run",
    [
        ja.BallsInBins([1.0, 0.5], 2.0, 1, 3),  # one bin
        ja.BallsInBins(np.vstack([np.zeros((3, 4)), np.ones((1, 4))]), 1.0, 4, 1),  # all bins alike
    ],
)
def test_one_bin_and_bins_that_are_alike_are_a_gaussian(run):
    own = gram(run)[0, 0]
    truth = ja.delta(ja.Gaussian(run.noise_multiplier / math.sqrt(own)), 0.7)
    assert ja.delta_interval(run, 0.7) == pytest.approx((truth,) * 3, rel=1e-9)


def test_bands_touch_around_the_circle():
    """Ten bins and four bands: three bins 3 apart leave the last and the first one 4 apart, which still overlap."""
    run = SMALL["two bands"]
    assert [group.bins for group in groups(overlaps(run))] == [4, 2]
    run = ja.BallsInBins((1.0, 0.5, 0.25, 0.125), 2.0, 10, 10)
    found = {group.bins: group.shared for group in groups(overlaps(run))}
    assert found[3] > 0.0
    assert set(found) == {10, 5, 3, 2}
    assert found[2] == 0.0
    assert all(a > b for a, b in itertools.pairwise(found.values()))


def test_overlaps_are_those_of_the_definition_and_rounded_outward():
    rng = np.random.default_rng(3)
    for trial in range(40):
        t, k = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        n = int(rng.integers(max(t * (k - 1), 0) + 1, t * k + 1))
        coefficients = np.round(rng.uniform(0.1, 1.0, int(rng.integers(1, 2 * t + 2))), 3)
        runs = (
            ja.BallsInBins(coefficients, 1.0, t, k, n),
            ja.BallsInBins(toeplitz(coefficients, n), 1.0, t, k),
        )
        for run in runs:
            exact, found = gram(run), overlaps(run)
            for h in range(t):
                truth = exact.diagonal(h).max()
                assert truth * (1 - 1e-15) <= found.largest[h] <= truth * (1 + 1e-13) + 1e-299, trial
            least = np.diag(exact).min()
            assert least * (1 - 1e-13) - 1e-299 <= found.least_own <= least * (1 + 1e-15)
            if t > 1:
                least = exact[~np.eye(t, dtype=bool)].min()
                assert least * (1 - 1e-13) - 1e-299 <= found.least <= least * (1 + 1e-15)
        for q in range(1, t // 2 + 1):
            around = max(exact[b, (b + q) % t] for b in range(t))
            assert found.around[q] == pytest.approx(around, rel=1e-12, abs=1e-290)


def _exactly(run):
    """The inner products of the means as fractions."""
    t, n = int(run.num_batches), run.length
    rows = [
        [Fraction(abs(run.strategy[i - j])) if 0 <= i - j < len(run.strategy) else 0 for j in range(n)]
        for i in range(n)
    ]
    means = [[sum(row[b::t]) for row in rows] for b in range(t)]
    return [[sum(x * y for x, y in zip(a, b, strict=True)) for b in means] for a in means]


def test_no_rounding_is_inward():
    """Overlaps, and the squared sensitivities of what stands for a run, beside fractions."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        run = ja.BallsInBins(
            rng.uniform(0.1, 1.0, int(rng.integers(4, 10))).tolist(), float(rng.uniform(0.5, 3.0)), 4, 2
        )
        exact, found, noise = _exactly(run), overlaps(run), Fraction(run.noise_multiplier) ** 2
        for h in range(4):
            assert max(exact[b][b + h] for b in range(4 - h)) <= Fraction(float(found.largest[h]))
        assert Fraction(found.least_own) <= min(exact[b][b] for b in range(4))
        assert Fraction(found.least) <= min(exact[a][b] for a in range(4) for b in range(4) if a != b)

        def squared(release, noise=noise):
            return noise / Fraction(release.noise_multiplier) ** 2

        for group in groups(found):
            above = stand_in(run, group)
            shared, alone = above.mechanisms if isinstance(above, ja.Composed) else (None, above)
            apart = squared(alone if isinstance(alone, ja.Gaussian) else alone.mechanism)
            assert apart + (squared(shared) if shared else 0) >= max(exact[b][b] for b in range(4))
            assert not shared or squared(shared) >= Fraction(group.shared)
        less = below(run)
        if isinstance(less, ja.Gaussian):
            assert squared(less) <= min(Fraction(found.least_own), Fraction(found.least))
            continue
        shared, alone = less.mechanisms
        assert squared(shared) <= Fraction(found.least)
        assert squared(shared) + squared(alone.mechanism) <= Fraction(found.least_own)


def test_tiny_overlaps_are_not_lost():
    run = ja.BallsInBins((1.0, 1e-200, 1e-200), 1.0, 6, 1)
    assert np.all(overlaps(run).largest[:3] > 0.0)
    assert overlaps(ja.BallsInBins(toeplitz((1e-160, 0.0, 1e-170), 6), 1.0, 6, 1)).largest[2] > 0.0


def test_groups_cover_every_number_of_bins():
    """What is listed is no worse than any number of bins, its bins as far apart as they can be."""
    rng = np.random.default_rng(4)
    for t in (1, 2, 7, 30, 101):
        around = np.sort(rng.uniform(0.0, 1.0, t // 2 + 1))[::-1]
        largest = np.array([around[min(h, t - h)] for h in range(t)])
        kept = groups(Overlaps(largest, 0.0, 0.0))
        for bins in range(2, t + 1):
            shared = around[t // bins :].max()
            assert any(group.bins >= bins and group.shared <= shared for group in kept)


# --- signs, and adversaries ---


def test_signs_count_by_absolute_values_from_above_and_not_at_all_from_below():
    signed, plain = (ja.BallsInBins((1.0, c), 1.5, 4, 2) for c in (-0.5, 0.5))
    found, of_plain = (ja.delta_interval(run, 1.0) for run in (signed, plain))
    assert found.upper == of_plain.upper
    assert ["absolute values" in run.describe() for run in (signed, plain)] == [True, False]
    # gradients at right angles: columns 0 and 4 of the run add their squares, and bins do not touch
    own = min(sum(np.sum(toeplitz((1.0, -0.5), 8)[:, [b, b + 4]] ** 2, axis=0)) for b in range(4))
    apart = ja.RandomAllocation(ja.Gaussian(1.5 / math.sqrt(own)), 4)
    assert found.lower == pytest.approx(ja.delta_interval(apart, 1.0).lower, rel=1e-6)


_NODES = np.linspace(-9.0, 9.0, 361)
_MASS = np.exp(-0.5 * _NODES**2) / math.sqrt(2.0 * math.pi) * (_NODES[1] - _NODES[0])
_SHAPES = np.vstack([np.ones_like(_NODES), _NODES, np.sign(_NODES - 0.5), np.sin(2 * _NODES), _NODES**2 - 1])


def _two_steps(coupling, second, epsilon):
    """delta of the two directions, of two bins of a step each; the record's second gradient is `second` [outputs]."""
    z1, z2 = _NODES[:, None], _NODES[None, :]
    # bin 0 moves the first output by 1 and the second one by `coupling`; bin 1 the second one by the second gradient
    ratio = 0.5 * (
        np.exp(z1 - 0.5 + coupling * z2 - 0.5 * coupling**2) + np.exp(second[:, None] * z2 - 0.5 * second[:, None] ** 2)
    )
    mass = _MASS[:, None] * _MASS[None, :]
    removed = np.sum(mass * np.maximum(ratio - math.exp(epsilon), 0.0))
    return removed, np.sum(mass * np.maximum(1.0 - math.exp(epsilon) * ratio, 0.0))


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.more] * (s > 2)) for s in range(30)])
def test_adversaries_that_look_at_the_outputs_lose_no_more(seed):
    """Ten of them each: the second gradient is a function of the first output, of norm at most 1; C of either sign."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        coupling, epsilon = float(rng.uniform(-1.0, 1.5)), float(rng.choice([0.1, 0.5, 1.0, 2.0]))
        adaptive = _two_steps(coupling, np.clip(rng.normal(size=5) @ _SHAPES, -1.0, 1.0), epsilon)
        run = ja.BallsInBins([[1.0, 0.0], [coupling, 1.0]], 1.0, 2)
        for delta, direction in zip(adaptive, ja.Direction, strict=True):
            assert delta <= ja.delta(run, epsilon, direction=direction) * (1 + 1e-9)


@pytest.mark.more
def test_larger_inner_products_lose_more():
    """Gram matrices K <= K' of three bins, in both directions."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        means = np.abs(rng.normal(size=(3, 4)))
        more = means + np.abs(rng.normal(size=(3, 4))) * rng.choice([0.0, 0.3])
        small, large = (0.3 * m @ m.T + 1e-3 * np.eye(3) for m in (means, more))
        for direction in ja.Direction:
            for epsilon in (0.1, 1.0):
                below, above = (quadrature(k, epsilon, direction, 161) for k in (small, large))
                assert below <= above * (1 + 1e-9)


# --- as people use it ---


def test_more_noise_and_fewer_epochs_are_more_private():
    run = ja.BallsInBins((1.0, 0.5), 2.0, 10, 4)
    found = [ja.epsilon(ja.BallsInBins((1.0, 0.5), noise, 10, 4), 1e-5, method="groups") for noise in (1.0, 2.0, 4.0)]
    assert found == sorted(found, reverse=True)
    epochs = ja.calibrate(run, "num_epochs", target_epsilon=3.0, target_delta=1e-5, method="groups")
    assert ja.epsilon(ja.BallsInBins((1.0, 0.5), 2.0, 10, epochs), 1e-5, method="groups") <= 3.0
    assert ja.epsilon(ja.BallsInBins((1.0, 0.5), 2.0, 10, epochs + 1), 1e-5, method="groups") > 3.0


def test_compositions_hold_whole_runs():
    run = ja.BallsInBins((1.0, 0.5), 4.0, 40, 2)
    twice = ja.epsilon_interval(ja.Composed(run, 2), 1e-5)
    once = ja.epsilon_interval(run, 1e-5)
    assert once.lower < twice.lower < once.upper < twice.upper < 2.0 * ja.epsilon(run, 5e-6)
    every = ja.compare(run, 1e-5)
    assert ("loss distribution", ja.Bound.UPPER) in {(entry.method, entry.bound) for entry in every}
    for entry in every:
        if entry.bound is ja.Bound.LOWER and entry.direction is REMOVE:
            assert entry.value <= once.lower * (1 + 1e-3)


def test_training_draws_its_batches_and_reads_its_steps():
    run = ja.BallsInBins((1.0, 0.5), 2.0, 4, 3, 11)
    data = ja.training.batches(run, 40, key=0)
    steps = [set(indices[mask].tolist()) for indices, mask in data]
    assert steps == [*steps[:4], *steps[:4], *steps[:3]]
    assert sorted(record for step in steps[:4] for record in step) == list(range(40))

    def spent(number):
        state = ja.training.ReleaseCountState(np.array([number], np.int32))
        return ja.training.privacy_spent(state, run, 1e-5, precision=0.01)

    whole = ja.epsilon(run, 1e-5, precision=0.01)
    assert spent(11) == whole
    assert spent(5) == ja.epsilon(ja.BallsInBins((1.0, 0.5), 2.0, 4, 2, 5), 1e-5, precision=0.01) < whole
    assert spent(12) > whole


def test_strategies_of_jax_privacy_that_its_tests_make():
    """Balls in bins and b-min-sep of two steps with c = (1, 0.5), cyclic Poisson; b-min-sep of dense columns not."""
    selection = pytest.importorskip("jax_privacy.batch_selection")
    noise = BandedNoise((1.0, 0.5), 2.0, num_steps=4)
    bins = ja.BallsInBins((1.0, 0.5), 2.0, 2, 2, 4)
    assert from_jax_privacy(selection.BallsInBinsSampling(cycle_length=2, iterations=4), noise) == bins
    assert from_jax_privacy(selection.BMinSepSampling(1.0, 4, 2), noise) == bins
    assert from_jax_privacy(selection.BMinSepSampling(0.5, 4, 2), noise) == noise.min_separation(2)
    assert from_jax_privacy(
        selection.CyclicPoissonSampling(0.5, 4, cycle_length=2),
        noise,
        neighboring_relation=ja.NeighboringRelation.REPLACE_SPECIAL,
    ) == noise.cyclic_poisson(0.5, cycle_length=2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ja.BallsInBins([0.0], 1.0, 3), "not all 0"),
        (lambda: ja.BallsInBins([1e101], 1.0, 3), "must be numbers in"),
        (lambda: ja.BallsInBins([1.0, math.nan], 1.0, 3), "must be numbers in|strategy"),
        (lambda: ja.BallsInBins([[1.0, 1.0], [0.0, 1.0]], 1.0, 2), "lower triangular"),
        (lambda: ja.BallsInBins(np.eye(5), 1.0, 2, 2), "strategy of 5 rows must be above 2 and at most 4"),
        (lambda: ja.BallsInBins([1.0], 1.0, 2, 3, 4), "num_steps=4 must be above 4 and at most 6"),
        (lambda: ja.BallsInBins(np.eye(4), 1.0, 2, 2, 3), "num_steps=3 must be left out"),
        (lambda: ja.BallsInBins([1.0], 0.0, 2), "noise_multiplier=0.0 must be"),
        (lambda: ja.BallsInBins([1.0], 1.0, 2.5), "num_batches=2.5 must be"),
        (lambda: ja.BallsInBins([1.0, 0.5], 1.0, 10**5, 100), "must be fewer"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
