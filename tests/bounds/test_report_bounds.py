"""Shuffled reports by their blanket and by their order, as people ask for them."""

import itertools
import math

import jax
import numpy as np
import pytest
from support.mechanisms import logistic as of_logistic
from support.shuffled_reports import seen

import jaxacct as ja
from jaxacct.accounting import deciding
from jaxacct.bounds.blanket._order import hides

DELTA = 1e-6
BLANKET, ORDER, ROUNDS = "privacy blanket", "shuffled order", "loss distribution"


def gaussian(noise, num_reports, dimension=None, rounds=1):
    return ja.Shuffled(ja.GaussianReports(noise, dimension), num_reports, rounds)


@pytest.mark.parametrize(
    ("run", "most", "least"),
    [
        (gaussian(4.0, 10**6, 1), 0.00163, 0.00134),
        (gaussian(2.0, 10**5, 1), 0.0175, 0.0130),
        (gaussian(4.0, 10**4, 1), 0.0206, 0.0170),
        (gaussian(4.0, 10**6), 0.00163, 0.00134),
        (gaussian(2.0, 10**5), 0.0175, 0.0130),
        (gaussian(1.0, 10**4, 1), 1.96, 1.94),
        (ja.CheckIn(ja.GaussianReports(4.0, 1), 10**6, 0.1), 0.00044, 0.000355),
        (ja.CheckIn(ja.GaussianReports(4.0), 10**6, 0.1), 0.00044, 0.000355),
        (ja.Shuffled(ja.LaplaceReports(2.0), 10**5), 0.0109, 0.0088),
        (ja.CheckIn(ja.GaussianReports(1.0), 10**4, 0.1), 1.168, 1.157),
    ],
    ids=repr,
)
def test_what_was_known_to_a_factor_is_known_closely(run, most, least):
    found = ja.epsilon_interval(run, DELTA)
    assert least <= found.lower <= found.upper <= most
    assert ja.epsilon(run, DELTA, precision=math.inf) <= most * 1.001 or isinstance(run.mechanism, ja.LaplaceReports)
    assert ja.delta(run, found.upper) == pytest.approx(DELTA, rel=5e-3)


@pytest.mark.parametrize(("dimension", "epsilon"), [(1, 0.001615), (2, 0.001682), (10, 0.002076), (100, 0.005234)])
def test_what_vectors_have_in_common_shrinks_with_their_dimension(dimension, epsilon):
    found = ja.epsilon(gaussian(4.0, 10**6, dimension), DELTA, method=BLANKET)
    assert found == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(4))
def test_a_map_is_monotone(seed):
    """In the number of reports, the noise, the dimension, and the probability to join; and there are no gaps."""
    rng = np.random.default_rng(seed)
    noise, n = math.exp(rng.uniform(-0.3, 2.5)), round(math.exp(rng.uniform(1.0, 14.0)))
    delta, dimension, q = 10.0 ** rng.uniform(-10.0, -4.0), int(rng.integers(2, 30)), rng.uniform(0.05, 0.8)
    runs = [
        [gaussian(noise, n, dimension), gaussian(noise, 2 * n, dimension), gaussian(noise, 8 * n, dimension)],
        [gaussian(noise, n, 1), gaussian(noise, 2 * n, 1), gaussian(noise, 8 * n, 1)],
        [gaussian(noise, n), gaussian(1.1 * noise, n), gaussian(2.0 * noise, n)],
        [gaussian(noise, n, 1), gaussian(1.1 * noise, n, 1), gaussian(2.0 * noise, n, 1)],
        [gaussian(noise, n, d) for d in (None, dimension, 2, 1)],
        [ja.CheckIn(ja.GaussianReports(noise, 1), n, p) for p in (1.0, q, 0.5 * q)],
        [ja.CheckIn(ja.GaussianReports(noise), n, p) for p in (1.0, q, 0.5 * q)],
        [ja.Shuffled(ja.LaplaceReports(noise), n), ja.Shuffled(ja.LaplaceReports(1.1 * noise), 2 * n)],
    ]
    for row in runs:
        found = [ja.epsilon(run, delta) for run in row]
        assert all(y <= x * (1.0 + 2e-3) for x, y in itertools.pairwise(found)), row
        assert np.isfinite(found).all()


def test_reports_of_several_rounds():
    """One round back from its distribution; a thousand; and more rounds are less private."""
    assert ja.epsilon(gaussian(4.0, 10**4, 1), DELTA, method=ROUNDS) == pytest.approx(0.02036, rel=2e-3)
    assert ja.epsilon(gaussian(4.0, 10**4, 1, 1000), DELTA) == pytest.approx(0.828, rel=2e-3)
    found = [ja.epsilon(gaussian(4.0, 1000, None, rounds), DELTA) for rounds in (1, 2, 5, 20)]
    assert all(x < y for x, y in itertools.pairwise(found))
    assert ja.pld(gaussian(4.0, 1000, None, 20)).epsilon(DELTA) == pytest.approx(found[-1], rel=1e-2)
    visits = ja.CheckIn(ja.GaussianReports(4.0, 1), 10**6, 0.1, 10)
    assert ja.epsilon(visits, DELTA) == pytest.approx(0.001618, rel=2e-3)


def test_two_rounds_of_a_finite_randomizer_by_enumeration():
    rows, num_users, epsilon = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.35, 0.4, 0.25]], 3, 0.4
    run = ja.Shuffled(ja.FiniteRandomizer(rows), num_users, 2)
    found = ja.delta(run, epsilon, method="blanket distribution")
    assert ja.delta(run, epsilon) <= found
    for others in itertools.combinations_with_replacement(range(3), num_users - 1):
        laws = [seen(rows, (x, *others)) for x in range(3)]
        for p, q in itertools.permutations(laws, 2):
            pairs = itertools.product(p, repeat=2)
            true = math.fsum(max(p[i] * p[j] - math.exp(epsilon) * q[i] * q[j], 0.0) for i, j in pairs)
            assert true <= found


def test_different_rounds_are_composed_by_their_blankets_by_enumeration():
    both = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.35, 0.4, 0.25]], [[0.7, 0.3], [0.4, 0.6]]
    num_users, epsilon = 3, 0.4
    run = ja.Composed([ja.Shuffled(ja.FiniteRandomizer(rows), num_users) for rows in both])
    found = ja.delta(run, epsilon, method="blanket distribution")
    assert ja.delta(run, epsilon) <= found
    laws = []  # of each round: for each data of the others, the laws of what is seen
    for rows in both:
        some = range(len(rows))
        laws += [
            [
                pair
                for others in itertools.combinations_with_replacement(some, num_users - 1)
                for pair in itertools.permutations([seen(rows, (x, *others)) for x in some], 2)
            ]
        ]
    for (p, q), (r, s) in itertools.product(*laws):
        pairs = itertools.product(p, r)
        true = math.fsum(max(p[i] * r[j] - math.exp(epsilon) * q[i] * s[j], 0.0) for i, j in pairs)
        assert true <= found


def test_blankets_of_different_rounds_tell_more_than_their_clones_pairs():
    rounds = [ja.Shuffled(ja.KaryRandomizedResponse(2.0, 10), n, times) for n, times in ((1000, 3), (2000, 2))]
    run = ja.Composed(rounds)
    found = {e.method: e.value for e in ja.compare(run, 1e-9)}
    assert found["blanket distribution"] == pytest.approx(0.767, rel=5e-3)
    assert found["loss distribution"] == pytest.approx(1.097, rel=5e-3)
    assert ja.epsilon(run, 1e-9) == found["blanket distribution"]
    silent = ja.Composed([rounds[0], ja.Shuffled(ja.KaryRandomizedResponse(1e-4, 10), 1000)])
    assert ja.epsilon(silent, 1e-9) == pytest.approx(ja.epsilon(rounds[0], 1e-9), rel=1e-2)


def test_reports_are_batches_of_one_record():
    for noise, n in ((4.0, 1000), (1.0, 50)):
        batches = ja.epsilon(ja.ReplaceOne(ja.ShuffledBatches(ja.Gaussian(noise), n)), DELTA)
        assert ja.epsilon(gaussian(noise, n), DELTA, method=ORDER) == pytest.approx(batches, rel=1e-3)


def test_reports_that_are_lost_were_not_sent():
    for reports in (ja.GaussianReports(3.0), ja.LaplaceReports(3.0), ja.KaryRandomizedResponse(1.0, 5)):
        lost, fewer = ja.CheckIn(reports, 1000, 0.4, 1, 0.25), ja.CheckIn(reports, 1000, 0.3)
        assert ja.epsilon(lost, DELTA) == pytest.approx(ja.epsilon(fewer, DELTA), rel=1e-6)


def test_very_many_reports_tell_no_more_than_fewer():
    for n in (10**12, 10**14, 2**53):
        for run in (gaussian(4.0, n, 1), gaussian(4.0, n), ja.CheckIn(ja.GaussianReports(4.0), n, 0.5)):
            assert ja.epsilon(run, DELTA) <= 1e-6
            assert ja.delta(run, 0.0) <= 2e-6


def test_binary_response_is_as_its_clones():
    """The blanket of two values is the clones pair, which is exact."""
    for local, n in ((1.0, 1000), (3.0, 10**5)):
        p = 1.0 / (1.0 + math.exp(local))
        run = ja.Shuffled(ja.FiniteRandomizer([[1.0 - p, p], [p, 1.0 - p]]), n)
        exact = ja.epsilon(run, DELTA, method="clones")
        assert exact * (1.0 - 1e-9) <= ja.epsilon(run, DELTA, method=BLANKET) <= exact * (1.0 + 2e-4)
        assert ja.epsilon(run, DELTA) <= exact


def test_values_of_k_ary_response_are_closer_than_their_old_bound():
    run = ja.Shuffled(ja.KaryRandomizedResponse(2.0, 10), 10**4)
    assert ja.epsilon(run, DELTA) <= 0.079806
    assert ja.epsilon(run, DELTA, method="blanket") >= 0.079815
    several = ja.Shuffled(ja.KaryRandomizedResponse(2.0, 10), 10**4, 5)
    assert ja.epsilon(several, DELTA) <= 0.95 * ja.epsilon(several, DELTA, method="clones moments")


def test_one_report_alone_has_its_own_epsilon():
    assert ja.epsilon(ja.Shuffled(ja.LaplaceReports(2.0), 1), 1e-12) == pytest.approx(1.0, rel=1e-9)
    alone = ja.epsilon(ja.Gaussian(2.0), DELTA)
    assert ja.epsilon(gaussian(4.0, 1, 1), DELTA) == pytest.approx(alone, rel=1e-3)
    assert ja.epsilon(gaussian(4.0, 1, 1), DELTA) <= alone * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_lower_ends_are_below_upper_ones(seed):
    """Of random settings; and what is tested of more users is less."""
    rng = np.random.default_rng(100 + seed)
    noise, n, q = math.exp(rng.uniform(-0.5, 2.0)), round(math.exp(rng.uniform(1.0, 14.0))), rng.uniform(0.01, 1.0)
    for reports in (ja.GaussianReports(noise, 1), ja.LaplaceReports(noise)):
        found = [ja.epsilon_interval(ja.CheckIn(reports, users, q), 1e-5) for users in (n, 4 * n)]
        assert all(0.0 <= x.lower <= x.upper for x in found)
        assert found[1].lower <= found[0].upper
        at = ja.delta_interval(ja.CheckIn(reports, n, q), found[0].lower)
        assert at.lower <= at.upper


def test_signs_of_laplace_reports_from_below():
    """Of one report: the test of its sign, which is wrong with probability e^(-1/scale) / 2."""
    wrong = 0.5 * math.exp(-0.5)
    for epsilon in (0.0, 0.3, 0.7):
        found = ja.delta_interval(ja.Shuffled(ja.LaplaceReports(2.0), 1), epsilon)
        assert found.lower == pytest.approx(1.0 - wrong - math.exp(epsilon) * wrong, rel=1e-9)
        assert found.upper >= -math.expm1(0.5 * (epsilon - 1.0)) * (1.0 - 1e-9)


def test_where_nothing_is_known_others_answer():
    little = gaussian(0.2, 1000, 1)
    assert not hides(little)
    assert math.isfinite(ja.epsilon(little, DELTA))
    with pytest.raises(ValueError, match="must be one of"):
        ja.epsilon(little, DELTA, method=BLANKET)
    with pytest.raises(ValueError, match="must be one of"):
        ja.epsilon(ja.Shuffled(ja.LaplaceReports(2.0, 3), 100), DELTA, method=BLANKET)
    assert ja.epsilon(ja.Shuffled(ja.LaplaceReports(2.0, 3), 100), DELTA) < 1.0
    gone = ja.CheckIn(ja.GaussianReports(4.0, 1), 100, 0.0)
    assert ja.epsilon(gone, DELTA) == 0.0
    assert ja.epsilon(gaussian(4.0, 100, 1), 1e-200) <= ja.epsilon(ja.Gaussian(2.0), 1e-200) * (1.0 + 1e-9)


def test_the_theorem_is_named():
    (decides,) = deciding(gaussian(4.0, 10**4, 1), DELTA)
    assert decides.theorem.startswith("BL-1: the privacy blanket, opposite data")
    (decides,) = deciding(gaussian(4.0, 10**4), DELTA)
    assert decides.theorem.startswith("SB-6")
    (decides,) = deciding(ja.CheckIn(ja.GaussianReports(4.0), 10**4, 0.1), DELTA)
    assert decides.theorem.startswith("BL-5")
    (decides,) = deciding(ja.CheckIn(ja.LaplaceReports(2.0), 10**4, 0.1, 3), DELTA)
    assert "BL-2" in decides.theorem
    assert "BL-6" in decides.theorem


@pytest.mark.parametrize("dimension", [0, -1, 1.5, True, "2", np.nan])
@pytest.mark.parametrize("kind", [ja.GaussianReports, ja.LaplaceReports])
def test_a_dimension_is_a_whole_number(kind, dimension):
    with pytest.raises(ValueError, match="must be a whole number"):
        kind(4.0, dimension)


def test_dimensions_are_told_and_kept():
    assert ja.GaussianReports(4.0, np.int64(3)).describe() == "Gaussian noise in 3 dimensions, noise multiplier 4"
    assert ja.LaplaceReports(4.0).describe() == "Laplace noise, scale 4 over the norm"
    found = ja.calibrate(gaussian(1.0, 10**4, 1), "noise_multiplier", 0.05, DELTA)
    assert ja.epsilon(gaussian(found, 10**4, 1), DELTA) <= 0.05
    assert found == pytest.approx(2.214, rel=1e-3)


def logistic(noise):
    return ja.DensityReports(of_logistic, noise)


@pytest.mark.parametrize(
    ("run", "known"),
    [
        (ja.Shuffled(ja.DensityReports(lambda z: -0.5 * z * z, 4.0), 10**6), gaussian(4.0, 10**6, 1)),
        (ja.Shuffled(ja.DensityReports(lambda z: -np.abs(z), 2.0), 10**5), ja.Shuffled(ja.LaplaceReports(2.0), 10**5)),
        (
            ja.CheckIn(ja.DensityReports(lambda z: -0.5 * z * z, 4.0), 10**6, 0.1),
            ja.CheckIn(ja.GaussianReports(4.0, 1), 10**6, 0.1),
        ),
        (ja.Shuffled(ja.DensityReports(lambda z: -0.5 * z * z, 4.0), 10**4, 1000), gaussian(4.0, 10**4, 1, 1000)),
    ],
    ids=["Gaussian", "Laplace", "check-ins", "rounds"],
)
def test_noise_that_is_given_by_its_density_is_as_private_as_by_its_name(run, known):
    found, by_name = ja.epsilon_interval(run, DELTA), ja.epsilon_interval(known, DELTA)
    assert by_name.upper * (1.0 - 2e-3) <= found.upper <= by_name.upper * (1.0 + 2e-3)
    assert 0.0 < found.lower <= by_name.lower * (1.0 + 1e-6) or int(run.num_epochs) > 1
    assert ja.epsilon(run, DELTA) <= found.upper * (1.0 + 2e-3)
    at = ja.delta_interval(run, found.upper)
    assert at.lower <= at.upper == pytest.approx(DELTA, rel=0.02)


def test_a_third_kind_of_noise():
    """Logistic: one round, several, check-ins; everything that is asked of a mechanism."""
    run = ja.Shuffled(logistic(2.0), 10**5)
    assert ja.epsilon(run, DELTA) == pytest.approx(0.006556, rel=1e-3)
    assert ja.epsilon(ja.Shuffled(logistic(2.0), 1), DELTA) <= 1.0  # log ratios are below 2 / scale
    names = [entry.method for entry in ja.compare(run, target_delta=DELTA)]
    assert names == ["privacy blanket", "signs of the reports", "loss distribution"]
    (decides,) = deciding(run, DELTA)
    assert "BL-7" in decides.theorem
    scale = ja.calibrate(ja.Shuffled(logistic(None), 10**5), "scale", target_epsilon=0.01, target_delta=DELTA)
    assert ja.epsilon(ja.Shuffled(logistic(scale), 10**5), DELTA) <= 0.01
    assert ja.epsilon(ja.Shuffled(logistic(0.999 * scale), 10**5), DELTA) > 0.01
    swept = ja.sweep(ja.Shuffled(logistic(2.0), 1), {"num_reports": [10**4, 10**5]}, target_delta=DELTA)
    np.testing.assert_allclose(swept.values[1], ja.epsilon(run, DELTA), rtol=1e-3)
    several = [ja.epsilon(ja.CheckIn(logistic(2.0), 1000, 0.3, rounds), DELTA) for rounds in (1, 2, 20)]
    assert several[0] < several[1] < several[2]
    assert "BL-7" in ja.report(run, target_delta=DELTA)


def test_noise_of_a_given_density_is_in_order():
    found = [
        ja.epsilon(ja.Shuffled(logistic(s), n), DELTA) for s, n in ((0.5, 100), (1.0, 100), (1.0, 10**4), (9.0, 10**9))
    ]
    assert all(x > y for x, y in itertools.pairwise(found))
    lower = [ja.epsilon_interval(ja.Shuffled(logistic(s), n), DELTA) for s, n in ((0.5, 100), (3.0, 10**4))]
    assert all(0.0 < x.lower < x.upper for x in lower)


def test_too_little_noise_of_a_given_density_has_no_answer():
    run = ja.Shuffled(ja.DensityReports(lambda z: -0.5 * z * z, 0.01), 100)
    assert ja.epsilon(run, DELTA) == math.inf
    assert ja.delta(run, 1.0) == 1.0
    assert ja.epsilon_interval(run, DELTA).lower == 0.0
    with pytest.raises(ValueError, match="is analysed by its loss distribution"):
        jax.jit(lambda scale: ja.epsilon(ja.Shuffled(logistic(scale), 100), DELTA))(2.0)


@pytest.mark.parametrize(
    ("log_density", "said"),
    [
        ("logistic", "must be a function of an array of places"),
        (lambda z: -np.abs(z - 0.1), "must be symmetric"),
        (lambda z: -np.log1p(z * z), "must fall|must be concave"),
        (lambda z: -np.sqrt(np.abs(z)), "must be concave"),
        (lambda z: 0.0 * z, "must fall"),
        (lambda z: -np.abs(z)[:-1], "must map an array of places to as many numbers"),
        (lambda z: np.where(np.abs(z) < 1.0, np.inf, -np.abs(z)), "as many numbers below infinity"),
        (lambda z: np.where(np.abs(z) < 1.0, np.nan, -np.abs(z)), "as many numbers below infinity"),
        (lambda z: -(1.0 + 1e-9 * np.sin(50.0 * z * z)) * np.abs(z), "must be concave, to within accuracy=1e-13"),
    ],
)
def test_a_density_that_is_none_of_these_is_refused(log_density, said):
    with pytest.raises(ValueError, match=said):
        ja.DensityReports(log_density, 2.0)


@pytest.mark.parametrize("accuracy", [-1e-9, 1e-3, np.nan])
def test_the_accuracy_of_a_density_is_small(accuracy):
    with pytest.raises(ValueError, match="accuracy="):
        ja.DensityReports(lambda z: -np.abs(z), 2.0, accuracy)


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_rounds_that_lose_next_to_nothing():
    """Delta at 0 is below the target: there is one knot. Or outputs have nothing in common, and there is no spread."""
    for run, delta in (
        (ja.CheckIn(ja.FiniteRandomizer([[0.6, 0.4], [0.4, 0.6]]), 100, 1e-10, 2), 1e-2),
        (ja.CheckIn(ja.LocalRandomizer(1e-12), 1000, 0.5, 3), 1e-6),
        (ja.Shuffled(ja.LaplaceReports(1e8), 10**9, 3), 1e-2),
        (ja.CheckIn(ja.FiniteRandomizer([[1, 0], [0, 1]]), 3, 0.1), 0.5),
        (ja.CheckIn(ja.FiniteRandomizer([[0.5, 0.5, 0], [0, 0, 1]]), 1000, 0.01), 0.05),
        (ja.CheckIn(ja.LaplaceReports(1.0, 2), 101, 0.0), 1e-6),
    ):
        assert ja.epsilon(run, delta) == 0.0


def test_the_most_reports():
    found = ja.epsilon_interval(ja.Shuffled(ja.LocalRandomizer(299.0), 2**53), 0.5)
    assert 0.0 < found.lower <= found.upper <= 299.0


def test_sums_that_no_double_holds_fall_back_on_the_local_epsilon():
    steep, quartic = ja.DensityReports(lambda z: -(abs(z) ** 3), 0.5), ja.DensityReports(lambda z: -(z**4), 1.2)
    rare = ja.FiniteRandomizer([[1.0 - 1e-160, 1e-160], [0.5, 0.5]])
    for run in (ja.Shuffled(steep, 10**6), ja.Shuffled(quartic, 10**12), ja.Shuffled(rare, 3)):
        assert 0.0 < ja.epsilon(run, 1e-6) < 400.0
