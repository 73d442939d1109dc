"""The errors of any test for one record: trade-off functions and Gaussian differential privacy."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import jaxacct as ja
from jaxacct import membership

LEVELS = np.array([0.0, 1e-8, 1e-3, 0.01, 0.1, 0.5, 0.9, 1.0])


def gaussian_errors(mu, levels=LEVELS):
    return stats.norm.cdf(stats.norm.isf(levels) - mu)


@pytest.mark.parametrize(("run", "mu"), [(ja.Gaussian(2.0), 0.5), (ja.Composed(ja.Gaussian(2.0), 16), 2.0)])
def test_gaussians_are_exact_from_below(run, mu):
    found = ja.tradeoff(run, LEVELS)
    assert np.all(found <= gaussian_errors(mu))
    np.testing.assert_allclose(found, gaussian_errors(mu), rtol=1e-11, atol=1e-14)
    assert mu <= ja.gdp(run) <= mu * (1 + 1e-12)


@pytest.mark.more
@pytest.mark.parametrize(
    "run",
    [
        ja.PoissonSampled(ja.Gaussian(1.0), 1.0, 4),
        ja.RandomAllocation(ja.Gaussian(1.0), 4, 4),
        ja.RandomAllocation(ja.Gaussian(1.0), 1, num_epochs=4),
    ],
)
def test_lines_of_a_gaussian_lie_just_below_it(run):
    found = ja.tradeoff(run, LEVELS)
    assert np.all(found <= gaussian_errors(2.0))
    np.testing.assert_allclose(found, gaussian_errors(2.0), rtol=0.03, atol=1e-3)


def test_curves_of_a_gaussian_are_rounded_down():
    rng = np.random.default_rng(8)
    rates, noises = np.exp(-np.exp(rng.uniform(-6.0, 4.0, 30))), np.exp(rng.uniform(-1.5, 2.0, 30))
    with mp.workdps(50):
        for rate, noise in zip(rates.tolist(), noises.tolist(), strict=True):
            z = mp.mpf(stats.norm.isf(rate))
            for _ in range(5):  # Newton's method, to 50 digits
                z += (mp.ncdf(-z) - mp.mpf(rate)) / mp.npdf(z)
            want, got = mp.ncdf(z - 1 / mp.mpf(noise)), ja.tradeoff(ja.Gaussian(noise), rate)
            assert want * (1 - mp.mpf(1e-11)) - mp.mpf(1e-15) <= got <= want, (rate, noise)


def test_sampling_hides():
    allocated = ja.tradeoff(ja.RandomAllocation(ja.Gaussian(1.0), 100), LEVELS)
    assert np.all(allocated >= ja.tradeoff(ja.Gaussian(1.0), LEVELS) - 1e-9)
    assert np.all(allocated <= 1 - LEVELS)
    assert np.all(np.diff(allocated) <= 0)


def response_errors(local_epsilon, num_reports, level):
    """Least false negative rate of a test of randomized responses, all others 0, by Neyman and Pearson."""
    p = 1 / (1 + math.exp(local_epsilon))
    ones = np.arange(num_reports + 1)
    rest = stats.binom.pmf(np.arange(num_reports), num_reports - 1, p)
    with_one = np.append(0, rest) * (1 - p) + np.append(rest, 0) * p
    without = stats.binom.pmf(ones, num_reports, p)
    order = np.argsort(-with_one / without)
    x, y = np.cumsum(without[order]), 1 - np.cumsum(with_one[order])
    return np.interp(level, np.append(0, x), np.append(1, y))


@pytest.mark.more
@pytest.mark.parametrize(("local_epsilon", "num_reports"), [(1.0, 30), (3.0, 100), (0.3, 5)])
def test_no_shuffled_randomizer_is_caught_more_often(local_epsilon, num_reports):
    found = ja.tradeoff(ja.Shuffled(ja.LocalRandomizer(local_epsilon), num_reports), LEVELS)
    approximate = ja.tradeoff(ja.Shuffled(ja.LocalRandomizer(local_epsilon, 1e-9), num_reports), LEVELS)
    truth = response_errors(local_epsilon, num_reports, LEVELS)
    assert np.all(found <= truth + 1e-14)
    assert np.all(approximate <= found + 1e-12)
    np.testing.assert_allclose(approximate, found, atol=2e-3)
    mu = ja.gdp(ja.Shuffled(ja.LocalRandomizer(local_epsilon), num_reports))
    assert np.all(gaussian_errors(mu) <= found + 1e-12)


@pytest.mark.more
@pytest.mark.parametrize("levels", [0.1, pytest.param(LEVELS, marks=pytest.mark.slow)], ids=["one", "all"])
def test_rounds_add_in_squares(levels):
    one, four = (ja.Shuffled(ja.LocalRandomizer(1.0), 1000, epochs) for epochs in (1, 4))
    assert ja.gdp(four) == pytest.approx(2 * ja.gdp(one), rel=1e-12)
    errors = ja.tradeoff(four, levels)
    assert np.all(gaussian_errors(ja.gdp(four), levels) <= errors + 1e-5)
    assert np.all(errors <= ja.tradeoff(one, levels) + 1e-12)


def test_one_direction_of_a_distribution():
    run = ja.RandomAllocation(ja.Laplace(1.0), 50)
    both = ja.tradeoff(run, 0.05)
    sides = [ja.tradeoff(ja.pld(run, direction=d), 0.05) for d in ja.Direction]
    assert both == pytest.approx(min(sides), rel=1e-9)


def test_the_profile_of_both_directions_catches_no_more_than_their_distributions():
    run = ja.RandomAllocation(ja.Gaussian(1.0), 50)
    sides = [ja.tradeoff(ja.pld(run, direction=d), 0.05) for d in ja.Direction]
    assert min(sides) <= ja.tradeoff(run, 0.05) <= min(sides) * (1.0 + 1e-3)


def test_refusals():
    with pytest.raises(ValueError, match=r"false_positive_rate=1.5 must be in \[0, 1\]"):
        ja.tradeoff(ja.Gaussian(1.0), 1.5)
    with pytest.raises(ValueError, match="scalars"):
        ja.tradeoff(ja.Gaussian(np.array([1.0, 2.0])), 0.1)
    with pytest.raises(ValueError, match="no Gaussian trade-off function"):
        ja.gdp(ja.PoissonSampled(ja.Gaussian(1.0), 0.1, 10))


@pytest.mark.parametrize(
    "run",
    [
        ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 10_000),
        ja.PoissonSampled(ja.Gaussian(0.7), 0.001, 100),
        ja.Composed([ja.Gaussian(3.0), ja.PoissonSampled(ja.Gaussian(1.0), 0.1, 10)], 2),
    ],
)
def test_chosen_lines_lie_no_lower_than_many(run):
    rates = np.array([1e-4, 1e-2, 0.3])
    chosen, many = membership._best_lines(run, rates), membership._by_lines(run, rates)
    assert (chosen >= many * (1.0 - 1e-4)).all()
    assert (chosen <= many * (1.0 + 1e-2)).all()


def test_chosen_lines_of_a_gaussian_lie_just_below_it():
    rates, run = np.array([1e-3, 0.05, 0.5]), ja.Composed(ja.Gaussian(2.0), 4)
    exact = ja.tradeoff(run, rates)
    lines = membership._best_lines(run, rates)
    assert (lines <= exact).all()
    assert (lines >= exact * (1.0 - 1e-3)).all()


@pytest.mark.more
def test_tiny_noise_is_answered_before_every_line_is_asked(monkeypatch):
    """Each delta would take seconds; no line is above 0 at these rates, looked at closely where that may be."""
    run = ja.PoissonSampled(ja.Gaussian(0.01), 0.01, 1000)
    rates, about, widths = np.array([1e-3, 1e-2, 0.1]), membership._about, []

    def seen(mechanism, query, target, width=membership._ABOUT):
        widths.append(width)
        return about(mechanism, query, target, width)

    with monkeypatch.context() as patched:
        patched.setattr(membership, "_about", seen)
        assert membership._is_hopeless(run, rates)
        assert widths == [math.inf, membership._ABOUT]
        assert not membership._is_hopeless(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000), rates)
        assert widths[2:] == [math.inf]
    assert (ja.tradeoff(run, rates) == 0.0).all()
    least = 1.0 - ja.delta(run, 500.0)  # the probability to join nowhere
    assert ja.tradeoff(run, 0.5 * least) > 0.0
    assert not membership._is_hopeless(run, np.zeros(0))


def test_nothing_dear_is_looked_at_before_the_lines(monkeypatch):
    """Renyi divergences of rounds take seconds, where each of the lines takes a millisecond."""
    asked = []
    monkeypatch.setattr(membership, "_about", lambda *question: asked.append(question))
    assert not membership._is_hopeless(ja.Shuffled(ja.LocalRandomizer(2.0), 50_000, 30), np.array([0.01]))
    assert not asked


def test_without_false_alarms_delta_alone_is_caught():
    """It read 1e-3: beside a rate of 0 that was taken to be negligible."""
    assert 1e-7 <= 1.0 - ja.tradeoff(ja.EpsilonDelta(1.0, 1e-7), 0.0) <= 1.001e-7
    assert ja.tradeoff(ja.EpsilonDelta(1.0, 1e-7), [0.0, 0.1])[0] >= 1.0 - 1.001e-7


def test_what_has_no_analysis_has_no_errors_to_promise():
    selection = ja.PrivateSelection(ja.FixedBatches(ja.Gaussian(1.5), 7394, 1606, 3), 19.4, 0.5)
    run = ja.Composed((ja.Skellam(3.4, 2), ja.Group(selection, 3)), (4, 2))
    assert ja.epsilon(run, 1e-5) == math.inf
    assert ja.tradeoff(run, 0.5) == 0.0


@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
def test_few_questions_are_asked_where_no_loss_distribution_has_the_lines(monkeypatch):
    """A dozen, not one for each of five hundred lines; without false alarms a single one."""
    asked = []
    about = membership._about
    monkeypatch.setattr(membership, "_about", lambda *question: asked.append(question) or about(*question))
    run = ja.PrivateSelection(ja.ZCdp(0.05), mean_runs=5.0)
    assert membership.distribution_of(run) is None
    found = ja.tradeoff(run, 0.1)
    assert len(asked) <= 16
    epsilons = np.linspace(0.0, 2.0, 41)
    deltas = np.array([ja.delta(run, x) for x in epsilons])
    lines = np.maximum(1.0 - deltas - np.exp(epsilons) * 0.1, (0.9 - deltas) * np.exp(-epsilons))
    assert found == pytest.approx(lines.max(), rel=1e-2)
    asked.clear()
    assert ja.tradeoff(run, 0.0) == pytest.approx(1.0, abs=1e-9)
    assert len(asked) <= 3


@pytest.mark.parametrize(
    ("run", "caught"),
    [
        (ja.ShuffledBatches(ja.Gaussian(7e-8), 47, 3), 0.0),  # an epsilon of 1e14 is finite
        (ja.EpsilonDelta(1.0, 1e-7), 1e-7),
        (ja.RandomAllocation(ja.Gaussian(1.0), 100), 0.0),
        (ja.Pld(0.0, 1.0, np.array([0.5, 0.4]), 0.1, ja.Bound.UPPER, ja.Direction.REMOVE), 0.1),
    ],
    ids=lambda x: type(x).__name__,
)
def test_without_false_alarms_the_least_delta_is_caught(run, caught):
    rates = np.array([0.0, 1e-3, 0.01, 0.3])
    found = ja.tradeoff(run, rates)
    assert found[0] == ja.tradeoff(run, 0.0)
    assert 1.0 - caught - 1e-11 <= found[0] <= 1.0 - caught
    assert (np.diff(found) <= 0.0).all()
