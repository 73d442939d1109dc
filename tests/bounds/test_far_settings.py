"""Settings far from the usual ones: large noise, tiny sampling probabilities; answers stay narrow, and silent."""

import math
import warnings
from fractions import Fraction

import jax
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import Bracketing, Query
from jaxacct._precision import float64_kernel
from jaxacct._types import Direction, Ends
from jaxacct.answering._lanes import ask
from jaxacct.bounds import composed, methods_for
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.divergence.gaussian._pair import gaussian_log_delta_ends
from jaxacct.papers import clones


@pytest.mark.parametrize(("noise", "num_steps"), [(30.0, 1000), (50.0, 1e5), (200.0, 1e4)])
@pytest.mark.parametrize("deviations", [0.1, 1.0, 4.0])
def test_large_noise_is_exact(noise, num_steps, deviations):
    """Many steps of large noise are nearly one Gaussian release of noise sigma sqrt(t), from which both ends differ."""
    run = ja.RandomAllocation(ja.Gaussian(noise), num_steps)
    scale = 1.0 / (noise * num_steps**0.5)
    found = ja.delta_interval(run, deviations * scale)
    assert found.upper - found.lower <= 1e-6 * found.lower
    near = ja.delta(ja.Gaussian(1.0 / scale), deviations * scale)
    assert found.upper == pytest.approx(near, rel=2e-2)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("steps", [2, 10, 1000])
def test_delta_is_at_most_the_probability_of_taking_part(epsilon, steps):
    run = ja.PoissonSampled(ja.Gaussian(1.0), 1e-12, steps)
    joins = -np.expm1(steps * np.log1p(-1e-12))
    assert ja.delta(run, epsilon) <= joins * (1.0 + 1e-9)


REPORTS = [ja.LocalRandomizer(30.0), ja.LocalRandomizer(2.0, 0.1), ja.LocalRandomizer(1e5), ja.GaussianReports(0.3)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("reports", REPORTS, ids=repr)
@pytest.mark.parametrize("rounds", [1, 10])
def test_delta_of_check_ins_is_at_most_the_probability_of_taking_part(reports, rounds):
    run = ja.CheckIn(reports, 100, 1e-8, rounds, dropout_prob=0.5)
    joins = -math.expm1(rounds * math.log1p(-0.5e-8))
    assert ja.delta(run, 1.0) <= joins * (1.0 + 1e-9)
    assert ja.epsilon(run, joins * (1.0 + 1e-9)) == 0.0
    assert ja.delta(run, 1.0, method="taking part") >= joins
    assert ja.epsilon(run, joins * (1.0 - 1e-9), method="taking part") > 0.0


def test_check_ins_are_at_most_all_reports_of_a_user():
    """(T l, T d) for T rounds of (l, d)-private reports, which is not exceeded where one round fails alone."""
    run = ja.CheckIn(ja.LocalRandomizer(1.0, np.array([0.0, 1e-8, 4.9e-7, 5e-7])), 1000, 0.1, 2)
    found = ja.epsilon(run, 1e-6, method="taking part")
    assert np.all((found[:3] >= 2.0) & (found[:3] <= 2.0 + 1e-14))
    assert found[3] == math.inf  # rounded up, two of them are more than 1e-6
    one = ja.CheckIn(ja.LocalRandomizer(1.0, 1e-8), 1000, 0.1, 2)
    assert ja.epsilon(one, 1e-6) <= 2.0 + 1e-14
    assert ja.delta(one, 1.99, method="taking part") > 0.1
    assert 2e-8 <= ja.delta(one, 2.01, method="taking part") <= 2e-8 * (1.0 + 1e-12)
    assert ja.delta(ja.CheckIn(ja.KaryRandomizedResponse(1.0, 3), 1000, 0.1, 2), 2.01, method="taking part") == 0.0


@pytest.mark.parametrize("size", [1, 80])
def test_probabilities_that_a_program_takes_for_0_are_booked(size):
    """Products below the normal doubles: XLA counts them as 0, and many rounds make normal numbers of them."""
    run = ja.CheckIn(ja.GaussianReports(0.05), 1000, np.full(size, 3e-308), 2**53 - 1, 0.99)
    assert np.all(ja.delta(run, 0.0, method="taking part") >= 3e-310 * (2**53 - 1))


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: ja.PoissonSampled(ja.Gaussian(1.0), x, 9),
        lambda x: ja.ZCdp(x),
        lambda x: ja.RandomizedResponse(np.array([1.0, x])),
        lambda x: ja.EpsilonDelta(0.0, x),
        lambda x: clones.subsampled_guarantee(x, 0.0, 0.5),
    ],
)
def test_what_programs_take_for_0_is_refused(ask):
    with pytest.raises(ValueError, match=r"=1e-310.*must be 0 or at least 2.2e-308"):
        ask(1e-310)
    ask(2.3e-308)


def test_targets_that_programs_take_for_0():
    """They are as good as 0, from above; a lower bound at 0 would say too much."""
    ones = np.ones(200)
    run = ja.PoissonSampled(ja.Gaussian(1.0), 1e-300, 1)
    for size in (1.0, ones):
        assert np.all(ja.delta(run, 1e-310 * size) >= ja.delta(run, 1e-300))
    shuffle = ja.Shuffled(ja.LocalRandomizer(ones), 100)
    (below,) = (m for m in methods_for(shuffle, is_batch=True) if m.name == "binary randomized response")
    assert np.all(ask(below, shuffle, Query.DELTA, 0.0 * ones).value > 0.0)
    assert not np.any(ask(below, shuffle, Query.DELTA, 1e-310 * ones).value)


@pytest.mark.more
def test_traced_numbers_that_programs_take_for_0():
    """A double below the normal ones is out of range; of a narrower type it is a normal double, and counts."""
    num_steps = 2**53 - 1
    half_root = 0.5 * math.sqrt(math.expm1(1.0) * num_steps)  # of chi-square, over the probability
    delta = jax.jit(lambda prob: ja.delta(ja.PoissonSampled(ja.Gaussian(1.0), prob, num_steps), 0.0))
    with jax.enable_x64(True):
        assert delta(1e-310) == 1.0
        exact = 2.3e-308 * half_root
        assert exact <= delta(2.3e-308) <= exact * (1 + 1e-3)
        assert delta(0.0) == 0.0
    for tiny in (1e-40, 1e-45):
        exact = float(np.float32(tiny)) * half_root
        assert exact <= delta(np.float32(tiny)) <= exact * (1 + 1e-3)


@pytest.mark.parametrize("noise", [1e295, 1e300, 1e306])
def test_noise_whose_divergence_is_hardly_a_double(noise):
    """H_1 = erf(mu / sqrt 8), which is mu / sqrt(2 pi), of one question and of a batch, which a program answers."""
    for size in (1, 20_000):
        delta = np.unique(ja.delta(ja.Gaussian(np.full(size, noise)), 0.0))
        truth = Fraction(1) / Fraction(noise) * Fraction(0.3989422804014327)
        assert all(truth * (1 - Fraction(1e-15)) <= Fraction(d) <= truth * Fraction(1 + 1e-11) for d in delta.tolist())


def test_a_delta_that_is_hardly_a_double():
    """phi(x) (m(x) - m(x + mu)) is mu (phi(x) - x Phi(-x)) at the smallest mu, here at x = 5."""
    found = float64_kernel(on_host=True)(gaussian_log_delta_ends)(np.array([5e-307]), np.array([1e-307]))
    truth = math.log(1e-307) + math.log(5.34616553383e-8)
    assert float(found.lower[0]) - 1e-10 <= truth <= float(found.upper[0]) + 1e-10
    assert found.upper - found.lower <= 1e-11


def test_renyi_divergences_are_0_only_where_nothing_is_lost():
    for run in (ja.Gaussian(1e200 * np.ones(200)), ja.PoissonSampled(ja.Gaussian(1e90), 1e-90, 3)):
        assert np.all(ja.rdp(run, [1.5, 64.0]).values > 0.0)
    nothing = ja.PoissonSampled(ja.Gaussian(1.0), 0.0, 3)
    assert not np.any(ja.rdp(nothing, [1.5, 64.0]).values)
    assert not np.any(ja.rdp(ja.Composed((nothing, nothing), (1, 2)), [2.0]).values)
    assert np.all(ja.rdp(ja.Composed((nothing, ja.Gaussian(1e200)), (1, 2)), [2.0]).values > 0.0)


def test_noise_whose_square_is_no_double():
    """Its inverse square is 0."""
    assert 0.0 < ja.delta(ja.RandomAllocation(ja.Gaussian(1e200), 5), 0.0) <= 1e-200


def test_lattices_that_memory_cannot_hold():
    """Too fine: other methods answer. No worse is one sampled step, by Jensen's inequality, and hardly better."""
    # from below one step sampled with probability 7/24, at noise 1e9 sqrt(7) and 1e11 sqrt(7)
    assert 3.0267e-10 <= ja.epsilon(ja.PartialAllocation(ja.Gaussian(1e9), 24, 7), 1e-13, precision=0.02) <= 3.06e-10
    assert 3.0e-12 <= ja.epsilon(ja.PartialAllocation(ja.Gaussian(1e11), 24, 7), 1e-15) <= 1e-10


@pytest.mark.parametrize("epsilon", [1e-300, 1e-20, 1e-13])
def test_large_noise_at_tiny_epsilon(epsilon):
    """Where epsilon is far below mu, delta is mu / sqrt(2 pi): the tail of the loss says nothing of it."""
    assert ja.delta(ja.PoissonSampled(ja.Gaussian(3e11), 0.003, 1), epsilon) <= 0.399 / 3e11


def test_check_ins_tell_no_more_than_all_reports():
    """Where the local epsilon is so large that its exponential is no double."""
    run = ja.CheckIn(ja.LocalRandomizer(1000.0), 100, 0.5, 3)
    assert 3000.0 <= ja.epsilon(run, 1e-9) <= 3000.0 * (1.0 + 1e-12)
    assert 0.875 <= ja.delta(run, 2999.0) <= 0.875 * (1.0 + 1e-12)


def test_tradeoff_warns_of_nothing_that_was_not_asked():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 1e-12, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        missed = ja.tradeoff(run, np.array([0.01, 0.1]))
    np.testing.assert_allclose(missed, [0.99, 0.9], rtol=0, atol=1e-10)
    assert np.all(missed <= [0.99, 0.9])


@pytest.mark.parametrize(("target", "count"), [(1.5e-323, 2), (2e-308, 3), (1e-6, 3)])
def test_shares_of_a_delta_add_up_to_no_more(target, count):
    """Below the normal doubles a quotient is rounded by far more than its share of 2^-50."""
    asked = []

    def ask(part, query, share, width, *, wants_lower):
        asked.append(share)
        return Ends(0.0, 1.0)

    known = {Direction.REMOVE: Ends(0.0, math.inf)}
    at = Bracketing(width=1e-3, known=known, wants_lower=False, ask=ask, progress=None)
    composed._added_up(ja.Composed(ja.Gaussian(1.0), count), Query.EPSILON, target, at)
    assert 0 < count * Fraction(asked[0]) <= Fraction(target)


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_grids_are_looked_at_once_where_they_resolve_little():
    """Finer ones took minutes for a delta of 1e-57, and found no better end."""
    looks = []
    run = ja.RandomAllocation(ja.Gaussian(1.0), 1000, num_epochs=10)
    found = ja.delta_interval(run, 10.0, progress=lambda rounds, width: looks.append((rounds, width)))
    assert [rounds for rounds, _ in looks] == [1]
    assert 0.0 < found.lower < found.upper < 1e-56


@pytest.mark.parametrize("epsilon", [38.4, 38.5, 38.65])
def test_no_delta_below_the_normal_doubles_has_a_lower_end(epsilon):
    """There a product that rounds down is rounded to nearest, and lay above the truth."""
    for run in (
        ja.Gaussian(1.0),
        ja.Composed(ja.Gaussian(2.0), 4),
        ja.PoissonSampled(ja.Gaussian(1.0), 0.5, num_steps=1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ja.PrecisionWarning)
            found = ja.delta_interval(run, epsilon)
        assert found.lower == found.analysis_lower == 0.0 < found.upper <= 2.2250738585072014e-308


def test_no_epsilon_at_a_target_below_the_normal_doubles_has_a_lower_end():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.5, num_steps=1)
    assert ja.epsilon_interval(run, 9.8e-321).lower == 0.0
    ends = {bound: [e.value for e in ja.compare(run, 5e-324) if e.bound is bound] for bound in ja.Bound}
    assert max(ends[ja.Bound.LOWER]) <= min(ends[ja.Bound.UPPER])
    assert ja.epsilon_interval(run, 1e-300).lower > 36.0


@pytest.mark.more
def test_a_program_has_nearly_the_exact_epsilon_of_one_epoch():
    """Renyi divergences, which were all that it had, give five times as much."""

    def run(noise):
        return ja.RandomAllocation(ja.Gaussian(noise), num_steps=1000)

    exact = ja.epsilon_interval(run(1.0), 1e-6, precision=1e-6)
    inside = jax.jit(lambda noise: ja.epsilon(run(noise), 1e-6))
    assert exact.lower <= inside(1.0) <= exact.upper * (1.0 + 1e-3)
    assert inside(0.1) < 100.0  # where laws say little, others answer
    assert inside(2e4) < 1e-3


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda release: ja.RandomAllocation(release, 10**6),
        lambda release: ja.RandomAllocation(release, 100, 3),
        lambda release: ja.RandomAllocation(release, 100, 1, 3),
        lambda release: ja.ReplaceOne(ja.PartialAllocation(release, 100, 30)),
    ],
)
def test_noise_of_which_nothing_is_left_when_squared(make):
    """Neither the square nor its inverse is a double."""
    run = make(ja.Gaussian(1e-163))
    assert 0.25 <= ja.delta(run, 50.0) <= 1.0
    assert ja.epsilon(run, 1e-3) == math.inf


@pytest.mark.parametrize("epsilon", [680.0, 696.0, 708.0, 5000.0])
@pytest.mark.parametrize("direction", list(ja.Direction))
def test_allocation_where_the_ratio_of_a_step_is_no_double(epsilon, direction):
    """t e^epsilon, up to which one step's ratio matters, is no double; delta is far below the least."""
    run = ja.RandomAllocation(ja.Gaussian(1.0), 10**6)
    assert ja.delta(run, epsilon, direction=direction, method="exact") <= 1.0
    profile = AllocationProfile(1.0, 1e6, direction).delta(np.array([1.0, epsilon]))
    assert np.all((profile.lower >= 0.0) & (profile.lower <= profile.upper) & (profile.upper <= 1.0))
    assert profile.upper[0] < 1e-3


def test_allocation_at_epsilons_near_700():
    assert ja.delta(ja.RandomAllocation(ja.Gaussian(1.0), 10**6), 700.0) <= 2.3e-308


@pytest.mark.filterwarnings("ignore::jaxacct.PrecisionWarning")
def test_grids_grow_finer_where_losses_spread_less_than_their_variance_says():
    """Rare large losses make the variance, not the points that a distribution has."""
    release = ja.MixtureOfGaussians(0.75, (2.7, 2.2, 0.07), (5e-12, 0.983, 0.017 - 5e-12))
    run = ja.PoissonSampled(release, 0.022, num_steps=4666)
    epsilon = ja.epsilon_interval(run, 3.4e-16)
    assert epsilon.lower > 0.9 * epsilon.upper
    assert ja.delta(run, epsilon.upper) <= 3.4e-16 * 1.03
