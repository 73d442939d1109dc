"""Shuffled Gaussian reports from above: the least over the local epsilons of the pure reports that replace them.

For every local epsilon l, delta(epsilon) is at most D_l(epsilon) + (1 + e^epsilon) K(l); here K(l) is formed by mpmath,
and D_l is bracketed by the clones pair.
"""

import itertools
import math
import operator

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr
from support.mechanisms import logistic

import jaxacct as ja
from jaxacct._method import Bracketing, Query
from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.accounting import deciding
from jaxacct.bounds.check_in._other_schemes import ALL_ALIKE
from jaxacct.bounds.shuffle import _gaussian_reports as on_lanes
from jaxacct.bounds.shuffle._one_purified_round import _Round, one_round_epsilon, one_round_log_delta
from jaxacct.bounds.shuffle._purified_rounds import PURIFIED_ROUNDS
from jaxacct.bounds.shuffle._which_reports import GaussianRun, guess_epsilon, near_least_epsilon, total_of
from jaxacct.divergence.clones._composed import composed_ends
from jaxacct.divergence.clones._profile import clones_delta
from jaxacct.reporting import statement

SETTINGS = [(10**6, 4.0, 1e-6), (1000, 10.0, 1e-9), (200, 6.2, 9e-3), (20_000, 2.5, 1e-7)]


def _cost(n, sigma, rounds, local, epsilon):
    """(1 + e^epsilon) K."""
    e, mu = mp.mpf(local) / 2, 1 / mp.mpf(sigma)
    single = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
    return float((1 + mp.exp(epsilon)) * rounds * n * single)


def _pure(n, local, epsilon):
    """The delta of one pure round, which is known to ten digits."""
    lanes = (np.array([float(x)]) for x in (epsilon, n, math.exp(-local), local))
    with np.errstate(all="ignore"):
        return math.exp(clones_delta(*lanes, window=4096).log_delta.lower[0])


def _deltas(n, sigma, epsilon, locals_):
    return [_pure(n, local, epsilon) + _cost(n, sigma, 1, local, epsilon) for local in locals_]


def _near(n, sigma, delta, rounds=1.0):
    """Local epsilons about the best one."""
    run = GaussianRun(n, 1.0, sigma, rounds)
    local, _ = near_least_epsilon(total_of(run), guess_epsilon(run, math.log(delta)).best, math.log(delta))
    return local * np.geomspace(0.8, 1.25, 81)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("n", "sigma", "delta"), SETTINGS)
def test_one_round_is_the_least_over_local_epsilons(n, sigma, delta):
    epsilon, near = one_round_epsilon(n, sigma, math.log(delta)), _near(n, sigma, delta)
    assert min(_deltas(n, sigma, epsilon * (1 - 1e-4), near)) > delta  # no local epsilon gives less
    least = min(_deltas(n, sigma, epsilon, near))
    assert least == pytest.approx(delta, rel=0.02)  # between two of them it is less
    found = one_round_log_delta(n, sigma, epsilon)
    assert math.log(least) - 0.02 <= found <= min(math.log(delta), math.log(least)) + 1e-9


def test_one_round_is_not_above_a_grid_of_local_epsilons():
    rng = np.random.default_rng(5)
    for _ in range(6):
        n, sigma = float(round(math.exp(rng.uniform(3.0, 13.0)))), math.exp(rng.uniform(0.5, 3.4))
        delta = math.exp(rng.uniform(-25.0, -6.0))
        epsilon = one_round_epsilon(n, sigma, math.log(delta))
        if math.isfinite(epsilon):
            every = _deltas(n, sigma, epsilon * (1 - 1e-9), np.geomspace(0.05, 12.0, 40))
            assert min(every) > delta * (1 - 1e-12)


def test_where_the_shuffle_gains_nothing_the_local_epsilon_is_an_answer():
    """The pure reports' own epsilon, at the cost of replacing."""
    epsilon = one_round_epsilon(40.0, 4.6, math.log(1e-10))
    assert 0.95e-10 * 0.5 <= _cost(40, 4.6, 1, epsilon, epsilon) <= 1e-10
    assert one_round_epsilon(10.0, 4.0, math.log(1e-300)) > 5.0
    assert one_round_epsilon(10.0, 0.01, math.log(1e-9)) == math.inf
    assert one_round_log_delta(10.0, 0.01, 1.0) == 0.0
    assert one_round_epsilon(10.0, 4.0, 0.0) == math.inf  # other bounds know that delta is 1


@pytest.mark.parametrize("start", [0.0, 0.5, 0.99, 1.01, 2.0])
def test_a_root_is_accepted_where_delta_is_paid_for(start):
    """Wherever the search for it begins."""
    n, sigma, delta = SETTINGS[1]
    of, local = _Round(GaussianRun(n, 1.0, sigma, 1.0)), 1.5
    root = of.epsilon(local, 0.3, math.log(delta), math.inf)
    with np.errstate(divide="ignore"):
        found = of.epsilon(local, start * root, math.log(delta), math.inf)
    assert found == pytest.approx(root, rel=1e-8)
    assert of.log_delta(np.array([local]), found)[0][0] <= math.log(delta)
    assert of.epsilon(local, 0.3, math.log(delta), 0.9 * root) == math.inf  # only below what is known


def test_an_answer_that_is_not_paid_for_is_none():
    """Pure reports whose epsilon is each time above the one that was paid for."""
    answers = itertools.accumulate(itertools.repeat(1.5), operator.mul, initial=0.3)

    def ask(*_, **__):
        return Ends(0.0, next(answers))

    at = Bracketing(width=1e-3, known={ja.Direction.REMOVE: Ends(0.0, math.inf)}, wants_lower=False, ask=ask)
    run = ja.Shuffled(ja.GaussianReports(12.0), 10**5, 8)
    assert PURIFIED_ROUNDS.bracket(run, Query.EPSILON, 1e-7, at)[ja.Direction.REMOVE].upper == math.inf


def test_several_rounds_on_lanes_of_one_round_claim_nothing():
    run = ja.Shuffled(ja.GaussianReports(np.array([4.0])), np.array([100.0]), np.array([2.0]))
    target = np.array([-9.0])
    assert on_lanes.gaussian_upper_epsilon(run, target, window=128, pure=True)[0] == math.inf
    assert on_lanes.gaussian_upper_log_delta(run, np.array([1.0]), window=128, pure=True)[0] == 0.0


ROUNDS = [(10**5, 12.0, 8, 1e-7), (30_000, 6.0, 20, 1e-6), (400, 25.0, 50, 1e-3)]


@pytest.mark.parametrize(("n", "sigma", "rounds", "delta"), ROUNDS)
def test_several_rounds_are_nearly_the_least_over_local_epsilons(n, sigma, rounds, delta):
    run = ja.Shuffled(ja.GaussianReports(sigma), n, rounds)
    epsilon = ja.epsilon(run, delta, method="purified rounds")
    near = _near(n, sigma, delta, rounds)[[36, 39, 40, 41, 44]]
    for below, wanted in [(epsilon * (1 - 5e-3), 1.0), (epsilon, math.inf)]:
        ends = [composed_ends(n, math.exp(-x), x, rounds, epsilon=below) for x in near]
        costs = [_cost(n, sigma, rounds, x, below) for x in near]
        lower, upper = (min(e + c for e, c in zip(found, costs, strict=True)) for found in zip(*ends, strict=True))
        assert lower > delta if wanted == 1.0 else lower <= delta
    found = ja.delta(run, epsilon, method="purified rounds")
    assert lower * (1 - 0.02) <= found <= upper * (1 + 1e-3)
    assert found <= delta * (1 + 1e-3)


def test_check_ins_are_answered_by_pure_check_ins():
    """At some local epsilon: what the loop says of pure check-ins, and the cost of the reports that are expected."""
    n, sigma, prob, rounds, delta = 40, 20.0, 0.4, 6, 1e-5
    run = ja.CheckIn(ja.GaussianReports(sigma), n, prob, rounds)
    epsilon = ja.epsilon(run, delta, method="purified rounds")
    assert 0 < epsilon < ja.epsilon(ja.Gaussian(sigma / (2 * math.sqrt(rounds))), delta)
    totals = []
    for local in _near(n * prob, sigma, delta, rounds)[10:80:10]:
        left = delta - _cost(n * prob, sigma, rounds, local, epsilon)
        if left > 0:
            totals.append(ja.epsilon(ja.CheckIn(ja.LocalRandomizer(local), n, prob, rounds), left))
    assert epsilon <= 1.01 * min(totals)
    assert epsilon >= 0.97 * min(totals)
    assert ja.delta(run, epsilon, method="purified rounds") <= 1.05 * delta


def test_rounds_are_named_and_quick():
    run = ja.Shuffled(ja.GaussianReports(5.0), [1000, 30_000], 4)
    every = ja.epsilon(run, 1e-6)
    assert every == pytest.approx(ja.epsilon(run, 1e-6, precision=math.inf), rel=1e-12)
    assert np.all(ja.epsilon(run, 1e-6, method="purified rounds") > 5.0 * every)
    assert not PURIFIED_ROUNDS.applies(ja.Shuffled(ja.GaussianReports(5.0), 1000))


@pytest.mark.slow
def test_a_program_is_never_sharper():
    """Over a grid of local epsilons, as inside `jit`."""
    run = ja.Shuffled(ja.GaussianReports(6.0), 5000.0, 20.0)
    method = next(m for m in ja.accounting.compare(run, 1e-6) if m.method == "purified clones, composed")
    assert ja.epsilon(run, 1e-6) < method.value
    lanes = Kernel(lambda n, s, x: on_lanes.gaussian_upper_epsilon(
        ja.Shuffled(ja.GaussianReports(s), n, 1.0), x, window=1024, pure=True))  # fmt: skip
    assert one_round_epsilon(5000.0, 6.0, -14.0) <= float(lanes(5000.0, 6.0, -14.0)) * (1 + 1e-12)


def test_a_guess_that_is_too_small_for_its_cost_is_raised():
    """Few clones: the Gaussian limit is far from the pair, and where it finds best nothing is left of delta."""
    run = ja.Shuffled(ja.GaussianReports(4.567884202235719), 776)
    assert ja.epsilon(run, 1.0062185450052643e-08) <= 2.0737  # without amplification 2.347


@pytest.mark.more
def test_a_guess_for_rounds_of_check_ins_is_raised_too():
    run = ja.CheckIn(ja.GaussianReports(4.0), 18627, 0.0147, 47)
    assert ja.epsilon(run, 7.64e-11) <= 2.4  # without amplification 27.3


def test_a_statement_names_the_theorem_that_decides():
    run = ja.Shuffled(ja.GaussianReports(4.0), 10**6, 8)
    (decides,) = deciding(run, 1e-6)
    assert decides.theorem.startswith("SB-6")
    assert "BL-6" in decides.theorem
    assert statement(run, target_delta=1e-6)["interval"]["theorem"] == decides.theorem


# From below, all other data alike


def _two_reports(sigma, epsilon):
    """delta of two shuffled reports, one of a datum two norms from the other's, against both of the other's.

    Given the ratio r of one, (r + R)/2 - K and 1 - K (r + R)/2 are positive on one side of a place of the other.
    """
    mu, factor = 2.0 / sigma, math.exp(epsilon)
    x = np.linspace(-10.0, 10.0 + mu, 40_001)
    ratio = np.exp(mu * x - 0.5 * mu * mu)

    def place(least):
        return np.where(least > 0, (np.log(np.maximum(least, 1e-300)) + 0.5 * mu * mu) / mu, -np.inf)

    above, below = place(2 * factor - ratio), place(2 / factor - ratio)
    remove = 0.5 * (ndtr(mu - above) + (ratio - 2 * factor) * ndtr(-above))
    add = (1 - 0.5 * factor * ratio) * ndtr(below) - 0.5 * factor * ndtr(below - mu)
    weight = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    return max(np.sum(weight * gain) for gain in (remove, add))


@pytest.mark.parametrize(("sigma", "epsilon"), [(2.0, 0.3), (0.7, 2.0), (5.0, 0.05)])
def test_two_reports_are_bounded_by_their_own_profile(sigma, epsilon):
    found = ja.delta_interval(ja.Shuffled(ja.GaussianReports(sigma), 2), epsilon)
    truth = _two_reports(sigma, epsilon)
    assert truth * (1 - 1e-6) <= found.lower <= truth * (1 + 1e-7)
    assert found.lower <= found.upper


@pytest.mark.parametrize(("sigma", "n", "delta", "least"), [(0.44, 434594, 0.0027, 9.0), (0.46, 652, 0.35, 3.7)])
def test_reports_of_little_noise_tell_where_the_record_is(sigma, n, delta, least):
    """Their sum and their signs say next to nothing: .0067 and 0."""
    found = ja.epsilon_interval(ja.Shuffled(ja.GaussianReports(sigma), n), delta)
    assert least < found.lower < found.upper


def test_rounds_of_equal_data_are_epochs():
    run = ja.Shuffled(ja.GaussianReports(3.0), 2000, 5)
    epochs = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(1.5), 2000, num_epochs=5), 1e-6)
    assert ja.epsilon_interval(run, 1e-6).lower == pytest.approx(epochs.lower, rel=1e-12)
    assert ALL_ALIKE.applies(run)
    assert not ALL_ALIKE.applies(ja.Shuffled(ja.GaussianReports(3.0), 2.0**41))
    assert not ALL_ALIKE.applies(ja.Shuffled(ja.GaussianReports(1e4), 10))


def test_a_root_that_does_not_exist_is_given_up_early(monkeypatch):
    """Where no local epsilon near the guess pays for itself, all are tried: before, 330 sums of some milliseconds."""
    asked = []
    log_delta = _Round.log_delta
    monkeypatch.setattr(_Round, "log_delta", lambda self, *at: asked.append(at) or log_delta(self, *at))
    with np.errstate(all="ignore"):
        epsilon = one_round_epsilon(8.2e9, 0.95, math.log(8.2e-8))
    assert 24.0 < epsilon < 24.0793
    assert len(asked) < 60


_REPORTS = [ja.GaussianReports(3.0), ja.DensityReports(logistic, 3.0), ja.LocalRandomizer(1.0)]


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("reports", _REPORTS, ids=lambda reports: type(reports).__name__)
def test_where_nobody_reports_nothing_is_lost(reports, rounds):
    for run in (ja.CheckIn(reports, 100, 0.0, rounds), ja.CheckIn(reports, 100, 0.1, rounds, dropout_prob=1.0)):
        assert ja.epsilon(run, 1e-6) == 0.0
        assert ja.delta(run, 0.0) <= 1e-300
        assert ja.tradeoff(run, 0.1) == 0.9


@pytest.mark.parametrize("method", ["privacy blanket", "shuffled order"])
def test_each_method_knows_that_nobody_reports(method):
    run = ja.CheckIn(ja.GaussianReports(3.0, dimension=1), 100, 0.0)
    assert ja.epsilon(run, 1e-6, method=method) == ja.delta(run, 0.5, method=method) == 0.0
