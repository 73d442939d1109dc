"""The best of a random number of runs by the profile of one run, beside all orders of its outputs."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize, stats
from support.numbers_of_runs import generating, of_all_orders

import jaxacct as ja
from jaxacct._sharing import shared
from jaxacct.bounds._selection_profile import Selection
from jaxacct.special import crossing

pytestmark = pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
SELECTIONS = [(m, s) for m in (1.3, 6.0, 80.0) for s in (-0.5, 0.0, 1.0, 3.0, math.inf)]


def _delta(pair, epsilon):
    a, b = pair
    odds = math.exp(min(epsilon, 700.0))
    return max(np.maximum(x - odds * y, 0.0).sum(axis=1).max() for x, y in ((a, b), (b, a)))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("mean", "shape"), SELECTIONS)
def test_no_order_loses_more(mean, shape, seed):
    rng = np.random.default_rng([seed, int(mean * 10), int(10 * min(shape, 99.0) + 10)])
    p = rng.dirichlet(np.ones(4))
    q = p * np.exp(rng.normal(size=4) * rng.choice([0.1, 1.0, 3.0]))
    q[rng.integers(4)] *= rng.random() > 0.3
    q /= q.sum()
    pair = of_all_orders(p, q, generating(shape, mean))
    selection = ja.PrivateSelection(ja.DiscretePair(p.tolist(), q.tolist()), mean, shape)
    for epsilon in (0.0, float(rng.uniform(0.0, 4.0))):
        found, worst = ja.delta_interval(selection, epsilon), _delta(pair, epsilon)
        assert found.analysis_lower <= worst * (1 + 1e-9) + 1e-13
        assert worst <= found.upper * (1 + 1e-9) + 1e-13
    delta = float(10.0 ** rng.uniform(-8.0, -1.0))
    found = ja.epsilon_interval(selection, delta)
    if math.isfinite(found.upper):
        assert _delta(pair, found.upper) <= delta * (1 + 1e-8) + 1e-13
    if found.analysis_lower > 1e-9:
        assert _delta(pair, found.analysis_lower * (1 - 1e-9)) >= delta * (1 - 1e-8)


@pytest.mark.parametrize(("mean", "shape"), [(2.0, 1.0), (10.0, 1.0), (10.0, 0.0), (100.0, 1.0)])
def test_an_order_of_three_sets_loses_nearly_as_much(mean, shape):
    """Gaussian outputs: the best are those that the other data prefer, then those of the largest losses."""
    law, delta, best = generating(shape, mean), 1e-6, 0.0
    for rank in np.geomspace(1e-3, 0.5, 40):
        there = stats.norm.cdf(stats.norm.ppf(rank) + 1.0)
        p = np.geomspace(1e-9, 1e-3, 400)
        q = stats.norm.cdf(stats.norm.ppf(p) - 1.0)
        a, b = (law(1.0 - x) - law(1.0 - x - y) for x, y in ((rank, p), (there, q)))
        best = max(best, np.log(np.maximum(a - delta, 1e-300) / b).max())
    found = ja.epsilon(ja.PrivateSelection(ja.Gaussian(1.0), mean, shape), delta)
    assert best <= found <= 1.02 * best


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("mean", [3.0, 100.0])
@pytest.mark.parametrize("noise", [1.0, 20.0])
def test_the_order_by_losses(mean, shape, noise):
    """The outputs of the largest losses are the best: between the ends."""
    law = generating(shape, mean)
    losses = np.linspace(-40.0, 40.0, 400_001)  # in deviations of the noise
    cells = [np.diff(law(stats.norm.cdf(losses, centre))) for centre in (1.0 / noise, 0.0)]
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        attained = max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in (cells, cells[::-1]))
        found = ja.delta_interval(ja.PrivateSelection(ja.Gaussian(noise), mean, shape), epsilon)
        assert found.analysis_lower <= attained + 1e-10
        assert attained <= found.upper + 1e-10


def test_more_runs_than_doubles_tell_lose_everything():
    run = ja.PrivateSelection(ja.Gaussian(1.0), 1e300, -0.99)
    assert ja.delta(run, 0.5, method="profile") == 1.0
    assert ja.epsilon(run, 1e-6, method="profile") == math.inf
    assert math.isfinite(ja.epsilon(ja.PrivateSelection(ja.Gaussian(1.0), 1e300), 1e-6))


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0, 6.0])
def test_a_mean_of_one_is_one_run(shape):
    for run in (ja.Gaussian(1.0), ja.PoissonSampled(ja.Laplace(0.5), 0.1, 20), ja.EpsilonDelta(1.0, 1e-7)):
        found = ja.epsilon_interval(ja.PrivateSelection(run, 1.0, shape), 1e-5)
        one = ja.epsilon_interval(run, 1e-5)
        assert one.lower <= found.upper <= (1.0 + 1e-6) * one.upper  # questions about a run may tell more than one does
        assert found.analysis_lower >= 0.98 * found.upper


@pytest.mark.parametrize("run", [ja.EpsilonDelta(0.5, 1e-8), ja.MixtureOfGaussians(1.0, (0.0, 1.0), (0.9, 0.1))])
def test_what_has_no_divergences_is_selected_from(run):
    found = ja.epsilon(ja.PrivateSelection(run, 5.0), 1e-5)
    assert ja.epsilon(run, 1e-5) < found < 3.0 * ja.epsilon(run, 1e-6)


@pytest.mark.parametrize(("mean", "shape"), [*SELECTIONS, (300.0, math.inf)])
def test_no_more_than_by_divergences(mean, shape):
    run = ja.PrivateSelection(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000), mean, shape)
    assert ja.epsilon(run, 1e-6) <= 0.92 * ja.epsilon(run, 1e-6, method="rdp")
    assert ja.delta(run, 1.0) <= ja.delta(run, 1.0, method="rdp")


JUMPS = [
    lambda x: math.inf if x < 2.7 else -math.inf,
    lambda x: 1e-3 if x < 0.013 else -708.0,  # hardly above 0, then far below
    lambda x: 700.0 if x < 0.6 else -1e-6,
    lambda x: 0.05 - x if x < 0.5 else -700.0,
]


@pytest.mark.parametrize("fn", [lambda x: 3.0 - x, lambda x: 1.0 - x**9, *JUMPS])
@pytest.mark.parametrize("close", [1e-6, 1e-7])
def test_a_crossing_is_on_the_safe_side_and_near(fn, close):
    found = crossing(fn, 0.0, 5.0, close=close)
    exact = optimize.brentq(lambda x: math.copysign(1.0, fn(x)), 0.0, 5.0)
    assert fn(found) <= 0.0
    assert exact - 1e-12 <= found <= exact * (1.0 + 2.0 * close)


_IN_TWO_ORDERS = """
import jaxacct as ja, sys
run = ja.Composed([ja.PrivateSelection(ja.Gaussian(2.0), 3.0), ja.Gaussian(3.0)])
asked = [(run, 1e-5), (ja.PrivateSelection(run, 4.0), 1e-6)]
order = int(sys.argv[1])
print(*[repr(ja.epsilon_interval(*of).upper) for of in asked[::order]][::order])
"""


@pytest.mark.parametrize("value", [1e-16, math.inf, math.nan])
@pytest.mark.parametrize("low", [1.0, 5.0])
def test_without_a_crossing_the_upper_end_is_left(low, value):
    assert crossing(lambda x: value, low, 5.0) == 5.0


def test_digits_do_not_depend_on_what_was_asked_before():
    command = [sys.executable, "-c", _IN_TWO_ORDERS]
    first, second = (subprocess.run([*command, k], capture_output=True, check=True).stdout for k in ("1", "-1"))
    assert first == second


def test_a_selection_that_takes_no_time_gives_no_warning():
    run = ja.Composed([ja.PoissonSampled(ja.Laplace(2.0), 0.1, 20), ja.RandomAllocation(ja.Gaussian(2.0), 50)])
    assert ja.epsilon(ja.PrivateSelection(run, 5.0), 1e-6) > 0.0  # a warning is an error
    assert ja.delta(ja.PrivateSelection(run, 6.0), 3.0) > 0.0


def test_lines_of_a_run_are_found_once_for_many_questions(monkeypatch):
    found, lines = [], Selection.lines.func
    monkeypatch.setattr(Selection.lines, "func", lambda self: found.append(self) or lines(self))
    best = ja.PrivateSelection(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100), mean_runs=10)
    alone = [ja.delta(best, epsilon) for epsilon in (0.5, 1.0)] + [ja.epsilon(best, 1e-6)]
    assert len(found) == 3
    with shared():
        together = [ja.delta(best, epsilon) for epsilon in (0.5, 1.0)] + [ja.epsilon(best, 1e-6)]
    assert len(found) == 4
    assert together == alone
