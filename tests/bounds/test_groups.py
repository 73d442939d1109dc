"""Mixtures of Gaussians and groups of records: beside tails in mpmath, and beside the mechanisms that they equal."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct import _sharing
from jaxacct.bounds import group
from jaxacct.bounds.bases import _mixture, law
from jaxacct.divergence.lattice._ratio import Side

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
MIXTURES = [
    (1.0, (0.0, 1.0), (0.9, 0.1)),
    (1.0, (0.0, 1.0, 2.0), (0.2, 0.6, 0.2)),
    (2.0, (0.0, 2.0, 3.0), (0.33, 0.34, 0.33)),
    (0.7, (0.5, 1.0), (0.999, 0.001)),
    (5.0, tuple(float(k) for k in range(9)), tuple(stats.binom.pmf(range(9), 8, 0.05).tolist())),
]


def _truth(noise, shifts, shares, epsilon, direction):
    """delta at the best threshold: the likelihood ratio grows."""
    with mpmath.workdps(40):
        s, e = mpmath.mpf(noise), mpmath.exp(mpmath.mpf(epsilon))
        pairs = [(mpmath.mpf(c), mpmath.mpf(p)) for c, p in zip(shifts, shares, strict=True)]
        wanted = e if direction is REMOVE else 1 / e

        def gap(x):
            return mpmath.log(sum(p * mpmath.exp((2 * c * x - c * c) / (2 * s * s)) for c, p in pairs) / wanted)

        low, high = mpmath.mpf(-60) * s, mpmath.mpf(60) * s
        if gap(low) > 0:
            return 0.0 if direction is ADD else float(1 - e)
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if gap(middle) < 0 else (low, middle)

        def above(x, centre):
            return mpmath.erfc((x - centre) / (s * mpmath.sqrt(2))) / 2

        p = sum(share * above(low, c) for c, share in pairs)
        q = above(low, 0)
        return float(max(0, p - e * q) if direction is REMOVE else max(0, (1 - q) - e * (1 - p)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", [REMOVE, ADD])
@pytest.mark.parametrize("mixture", MIXTURES, ids=range(len(MIXTURES)))
def test_one_mixture(mixture, direction):
    release = ja.MixtureOfGaussians(*mixture)
    upper, lower = (
        ja.pld(release, direction=direction, bound=b, resolution=200.0) for b in (ja.Bound.UPPER, ja.Bound.LOWER)
    )
    for epsilon in (0.0, 0.1, 0.5, 1.5, 4.0):
        exact = _truth(*mixture, epsilon, direction)
        assert lower.delta(epsilon) <= exact * (1 + 1e-10) + 1e-20
        assert exact * (1 - 1e-10) <= upper.delta(epsilon) <= exact * 1.01 + 1e-6
        assert ja.delta(release, epsilon, direction=direction) >= exact * (1 - 1e-10)


def test_a_sampled_step_is_a_mixture():
    mixture = ja.MixtureOfGaussians(0.8, (0.0, 1.0), (0.95, 0.05))
    for count in (1, 30):
        same = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(0.8), 0.05, count), 1e-6)
        found = ja.epsilon_interval(ja.Composed(mixture, count), 1e-6)
        assert found.lower <= same.upper
        assert same.lower <= found.upper <= same.upper * (1 + 2e-3)
    sampled = ja.epsilon_interval(ja.PoissonSampled(ja.MixtureOfGaussians(0.8, (0.0, 1.0), (0.5, 0.5)), 0.1, 5), 1e-5)
    same = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(0.8), 0.05, 5), 1e-5)
    assert sampled.lower <= same.upper
    assert same.lower <= sampled.upper <= same.upper * (1 + 2e-3)


def test_beside_dp_accounting():
    """Their test of mixtures: epsilon 17.193115 at delta 1e-6."""
    run = ja.Composed(tuple(ja.MixtureOfGaussians(*m) for m in MIXTURES[1:3]), (3, 2))
    found = ja.epsilon_interval(run, 1e-6, precision=1e-5)
    assert found.lower <= 17.193115 + 5e-7
    assert found.upper <= 17.1932


@pytest.mark.parametrize("size", [2, 5])
def test_groups_of_sampled_records_are_simulated(size):
    """Two steps, each record drawn by itself: tails of the loss by many draws, both directions."""
    noise, prob, steps, draws = 1.5, 0.2, 2, 400_000
    run = ja.Group(ja.PoissonSampled(ja.Gaussian(noise), prob, steps), size)
    rng = np.random.default_rng(size)
    shifts, shares = np.arange(size + 1), stats.binom.pmf(np.arange(size + 1), size, prob)
    for direction, sign in ((REMOVE, 1.0), (ADD, -1.0)):
        losses = np.zeros(draws)
        for _ in range(steps):
            x = noise * rng.standard_normal(draws)
            x += rng.binomial(size, prob, draws) if direction is REMOVE else 0
            terms = np.log(shares) + (2 * shifts * x[:, None] - shifts**2) / (2 * noise**2)
            losses += np.logaddexp.reduce(terms, axis=1)
        for epsilon in (0.2, 0.8):
            terms = np.maximum(-np.expm1(epsilon - sign * losses), 0.0)
            spread = 4.5 * terms.std() / math.sqrt(draws)
            attained = terms.mean()
            assert attained - spread <= ja.delta(run, epsilon)
            one_side = ja.pld(run, direction=direction).delta(epsilon)
            assert attained - spread <= one_side <= attained + spread + 5e-3 * attained + 1e-6


def test_groups_whose_sensitivities_add_up():
    pairs = [
        (ja.Gaussian(3.0), ja.Gaussian(1.0)),
        (ja.Laplace(6.0), ja.Laplace(2.0)),
        (ja.DiscreteLaplace(0.2, 2), ja.DiscreteLaplace(0.2, 6)),
        (ja.DiscreteGaussian(6.0, 1), ja.DiscreteGaussian(6.0, 3)),
        (ja.PoissonSampled(ja.Gaussian(3.0), 1.0, 4), ja.Composed(ja.Gaussian(1.0), 4)),
    ]
    for alone, together in pairs:
        found, same = (ja.epsilon_interval(run, 1e-3) for run in (ja.Group(alone, 3), together))
        assert (found.lower, found.upper) == pytest.approx((same.lower, same.upper), rel=1e-6)
        composed = ja.epsilon(ja.Group(ja.Composed(alone, 2), 3), 1e-3)
        assert composed == pytest.approx(ja.epsilon(ja.Composed(together, 2), 1e-3), rel=2e-3)


def test_one_record_is_a_group_of_one():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.02, 50)
    assert ja.epsilon(ja.Group(run, 1), 1e-6) == ja.epsilon(run, 1e-6)


@pytest.mark.parametrize("size", [2, 4])
def test_one_record_after_the_other(size):
    """delta at m eps of m records: the sum over i < m of e^(i eps) times that of one at eps."""
    for run in (
        ja.RandomAllocation(ja.Gaussian(2.0), 50),
        ja.EpsilonDelta(0.4, 1e-7),
        ja.PoissonSampled(ja.Laplace(3.0), 0.1, 3),
    ):
        for epsilon in (0.3, 1.0):
            one = ja.delta(run, epsilon / size)
            expected = min(1.0, one * sum(math.exp(i * epsilon / size) for i in range(size)))
            found = ja.delta(ja.Group(run, size), epsilon)
            assert found <= expected * (1 + 1e-9)
        bound = ja.epsilon(ja.Group(run, size), 1e-4)
        assert bound >= ja.epsilon(run, 1e-4)
        if not isinstance(run, ja.RandomAllocation):
            assert ja.delta(run, bound / size) * sum(math.exp(i * bound / size) for i in range(size)) <= 1e-4 * (
                1 + 1e-9
            )
    pure = ja.Group(ja.EpsilonDelta(0.5), size)
    assert 0.9 * 0.5 * size <= ja.epsilon(pure, 1e-6) <= 0.5 * size * (1 + 1e-6)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("run", "noise", "epsilon"),
    [
        (ja.RandomAllocation(ja.Gaussian(1.0), 1, 1, 6400), 1.0 / 80.0, 12464.0),
        (ja.RandomAllocation(ja.Gaussian(0.01), 1), 0.01, 17580.0),
        (ja.ShuffledBatches(ja.Gaussian(0.0125), 1), 0.0125, 12384.0),
        (ja.PartialAllocation(ja.Gaussian(0.01), 1, 1), 0.01, 17580.0),
    ],
)
def test_a_tiny_delta_that_grows_beyond_the_doubles(run, noise, epsilon):
    """One record's delta is near 1e-308; e^epsilon, by which the group's grows, is no double."""
    truth = ja.delta_interval(ja.Gaussian(noise / 2.0), epsilon).lower
    assert 0.9 < truth <= ja.delta(ja.Group(run, 2), epsilon)
    assert truth <= ja.delta(run, epsilon, neighboring_relation="replace-one")


def test_a_tiny_failure_grows_with_the_group():
    """Records that lose everything with probability d: of two, one after the other, 1 at twice epsilon and below."""
    assert ja.delta(ja.Group(ja.EpsilonDelta(1000.0, 3e-308), 2), 2000.0) == 1.0
    assert ja.epsilon(ja.Group(ja.EpsilonDelta(10.0, 3e-308), 100), 1e-3) == math.inf
    assert ja.delta(ja.EpsilonDelta(1000.0, 3e-308), 1500.0, neighboring_relation="replace-one") == 1.0


def test_a_share_of_epsilon_is_rounded_down():
    """3.9 is less than three times 1.3, but a third of it, rounded, is 1.3."""
    assert Fraction(3.9) < 3 * Fraction(1.3)
    assert 3.9 / 3 == 1.3
    assert ja.delta(ja.Group(ja.EpsilonDelta(1.3), 3), 3.9) > 0.0


def test_a_pure_record_costs_no_more_than_its_largest_loss_each():
    found = [ja.epsilon(ja.Group(ja.RandomizedResponse(1.0), 5), delta) for delta in (1e-12, 1e-6, 1e-3)]
    assert found[0] <= 5.0 * (1.0 + 2e-7)
    assert found[2] <= found[1] * (1.0 + 2e-7) <= found[0] * (1.0 + 4e-7)
    assert ja.epsilon(ja.Group(ja.EpsilonDelta(0.01, 1e-31), 3), 1e-30) <= 0.03 * (1.0 + 2e-7)


def test_larger_groups_lose_more():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    found = [ja.epsilon(ja.Group(run, size), 1e-6) for size in (1, 2, 4, 16)]
    assert found == sorted(found)
    assert found[1] < 2 * found[0] + 1.0
    noise = ja.calibrate(ja.Group(ja.PoissonSampled(ja.Gaussian(None), 0.01, 100), 2), "noise_multiplier", 2.0, 1e-6)
    assert ja.epsilon(ja.Group(ja.PoissonSampled(ja.Gaussian(noise), 0.01, 100), 2), 1e-6) <= 2.0
    assert "3 records of one user" in ja.report(ja.Group(run, 3), target_delta=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ja.MixtureOfGaussians(1.0, (-1.0,), (1.0,)), "sensitivities"),
        (lambda: ja.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.4)), "sum to 1"),
        (lambda: ja.MixtureOfGaussians(0.0, (0.0, 1.0), (0.5, 0.5)), "noise_multiplier"),
        (lambda: ja.Group(ja.Gaussian(1.0), 0), "size"),
        (lambda: ja.Group((ja.Gaussian(1.0),), 2), "it is not a mechanism; must be one"),
    ],
)
def test_what_is_out_of_range_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


_RARE = group.stand_in(ja.Group(ja.PoissonSampled(ja.Gaussian(0.902), 2e-5, 1), 5)).parts()[0][0]


def test_ends_of_cells_are_sought_until_rounding_is_all_there_is(monkeypatch):
    """Newton's steps end where the last places of log Y move to and fro: before, all 64 were made."""
    steps, (mu, shares) = [], (x[:5] for x in _mixture.mixture_of(_RARE, 1.0))
    low, high = _mixture.log_ratio(np.array([-10.0, 14.4]), mu, shares)
    target = np.linspace(low, high, 3000)[1:-1]
    logaddexp = np.logaddexp
    monkeypatch.setattr(np, "logaddexp", lambda *at: steps.append(at) or logaddexp(*at))
    z = _mixture._at(target, (-10.0, 14.4), mu, shares)
    assert len(steps) <= 10 * len(mu)
    assert np.abs(_mixture.log_ratio(z, mu, shares) - target).max() < 2e-14


_FAR = [
    ja.MixtureOfGaussians.of_user(0.3, num_records=8, sampling_prob=1e-3),
    ja.MixtureOfGaussians(0.1, (0.0, 1.0, 30.0), (1.0 - 1e-6 - 1e-9, 1e-6, 1e-9)),
    ja.MixtureOfGaussians(0.05, (0.0, 1.0, 2.0), (0.8, 0.15, 0.05)),
]


@pytest.mark.parametrize("release", _FAR, ids=["rare", "rarer", "often"])
def test_shifts_beyond_the_doubles_are_told_for_certain(release):
    """Of mixtures with shifts of 36 standard deviations and more nothing was known: delta was in [0, 1]."""
    for epsilon in (0.01, 1.0, 20.0):
        found = ja.delta_interval(release, epsilon)
        exact = max(_truth(*_fields(release), epsilon, d) for d in (REMOVE, ADD))
        assert exact * 0.98 <= found.lower <= exact * (1 + 1e-10)
        assert exact * (1 - 1e-10) <= found.upper <= exact * 1.02


def _fields(release):
    return release.noise_multiplier, release.sensitivities, release.probabilities


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")  # 1.4 % wide
def test_many_steps_of_rare_shifts():
    """Epsilon was in [0, 1220]; and delta at 1 read 0.3306 from below, which is above the certified upper end."""
    found = ja.epsilon_interval(ja.Composed(_FAR[0], 100), 1e-6)
    assert 43.0 < found.lower <= found.upper < 44.5
    run = ja.Composed(ja.MixtureOfGaussians.of_user(0.3, num_records=100, sampling_prob=1e-4), 100)
    below, above = ja.delta_interval(run, 1.0)[:2]
    assert below < above < 0.3196


def test_laws_of_all_sides_are_made_of_the_same_cells(monkeypatch):
    made = []
    cells = _mixture._cells
    monkeypatch.setattr(_mixture, "_cells", lambda *at: made.append(at) or cells(*at))
    with _sharing.shared():
        laws = [law(_RARE, 1.0, 0.01, side, 1e-12) for side in Side]
    assert len(made) == 1
    alone = [law(_RARE, 1.0, 0.01, side, 1e-12) for side in Side]
    for one, other in zip(laws, alone, strict=True):
        np.testing.assert_array_equal(one.masses, other.masses)


def test_groups_of_records_that_are_never_drawn_lose_nothing():
    never = ja.Group(ja.PoissonSampled(ja.Gaussian(1.0), 0.0, 10), 3)
    assert ja.epsilon_interval(never, 1e-6) == (0.0, 0.0, 0.0)
    assert ja.epsilon_interval(never, 1e-6, neighboring_relation="replace-one") == (0.0, 0.0, 0.0)
    assert ja.delta(never, 0.5) == 0.0


def test_what_holds_at_a_smaller_epsilon_holds_for_groups():
    """One record after the other multiplies a delta that does not fall: by most at the largest epsilon."""
    group = ja.Group(ja.EpsilonDelta(1.0, 1e-6), 3)
    whole = 1e-6 * (1.0 + math.e + math.e**2)
    assert ja.epsilon(group, whole * 1.001) <= 3.0 * (1.0 + 1e-5)
    deltas = [ja.delta(group, epsilon) for epsilon in (4.0, 10.0, 100.0, 1e4)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] <= 1.8 * whole
    # a step hardly ever shows which record it was, and then for certain
    shown = ja.Group(ja.Shuffled(ja.FiniteRandomizer([(0.106, 0.35, 0.544), (0.1336, 0.0004, 0.866)]), 805), 3)
    assert ja.epsilon(shown, ja.delta(shown, 0.032) * (1.0 + 1e-6)) <= 0.032 * 1.15
