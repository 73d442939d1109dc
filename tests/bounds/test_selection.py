"""The best of a random number of runs: laws of runs beside their definitions, bounds beside whole distributions."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from support.numbers_of_runs import generating, rate

import jaxacct as ja
from jaxacct.bounds.selection import _pure_delta

SHAPES = (-0.5, 0.0, 0.5, 1.0, 3.0, math.inf)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s >= 0])
@pytest.mark.parametrize("mean", [2.0, 8.0])
@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_selecting_the_largest_output_is_covered(shape, mean, noise):
    """The largest of K normal outputs, on a fine grid, both ways round; without a run an output of its own."""
    law = generating(shape, mean)
    x = np.linspace(-12 * noise, 12 * noise + 1, 40_001)
    cells = [np.diff(law(stats.norm.cdf(x, centre, noise))) for centre in (1.0, 0.0)]
    run = ja.PrivateSelection(ja.Gaussian(noise), mean, shape)
    for p, q in (cells, cells[::-1]):
        for epsilon in (0.1, 0.7, 2.0):
            attained = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert attained <= ja.delta(run, epsilon) + 1e-9
        for order, value in zip((1.5, 4.0), ja.rdp(run, [1.5, 4.0]).values, strict=True):
            inside = q > 1e-300
            rest = law(0.0) if math.isinf(shape) else 0.0
            moment = (p[inside] ** order * q[inside] ** (1 - order)).sum() + rest
            assert math.log(moment) / (order - 1) <= value + 1e-9


@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")  # the pure bound is another one
@pytest.mark.parametrize("shape", [s for s in SHAPES if s >= 0])
def test_selecting_an_answer_is_covered(shape):
    """Binary answers of pure epsilon, the better one chosen: whole distributions."""
    law, pure = generating(shape, 5.0), 0.7
    told = math.exp(pure) / (1 + math.exp(pure))
    run = ja.PrivateSelection(ja.EpsilonDelta(pure), 5.0, shape)
    rest = law(0.0) if math.isinf(shape) else 0.0
    laws = [np.array([rest, law(low) - rest, law(1.0) - law(low)]) for low in (1 - told, told)]
    for p, q in (laws, laws[::-1]):
        for epsilon in (0.0, 0.5, 1.2):
            assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= ja.delta(run, epsilon) + 1e-12
    if math.isfinite(shape):
        assert ja.epsilon(run, 1e-30) <= (2 + shape) * pure * (1 + 1e-12)
        assert ja.delta(run, (2 + shape) * pure * (1 + 1e-9)) == 0.0


def test_beside_dp_accounting():
    dpa = pytest.importorskip("dp_accounting")
    for shape in (0.0, 0.5, 1.0, 5.0, math.inf):
        for mean in (1.5, 10.0, 1000.0):
            event = dpa.dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(2.0), mean, shape)
            theirs = dpa.rdp.RdpAccountant().compose(event).get_epsilon(1e-6)
            ours = ja.epsilon(ja.PrivateSelection(ja.Gaussian(2.0), mean, shape), 1e-6)
            assert ours <= theirs * (1 + 1e-8)


def test_one_run_and_more_runs():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 100)
    many = [ja.epsilon(ja.PrivateSelection(run, mean), 1e-6) for mean in (1.0, 2.0, 20.0)]
    assert ja.epsilon(run, 1e-6) < many[0] < many[1] < many[2]
    assert many[0] <= ja.epsilon(run, 1e-6, precision=math.inf) * (1 + 1e-9)
    assert many[2] < ja.epsilon(ja.Composed(run, 20), 1e-6)
    both = ja.Composed((ja.PrivateSelection(run, 5.0), ja.Gaussian(4.0)))
    assert ja.epsilon(both, 1e-6) > ja.epsilon(ja.PrivateSelection(run, 5.0), 1e-6)
    assert ja.epsilon_interval(ja.PrivateSelection(run, 5.0), 1e-6).lower == 0.0


def test_the_number_of_runs_is_calibrated():
    run = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1000)
    found = ja.calibrate(ja.PrivateSelection(run, mean_runs=None), "mean_runs", 5.0, 1e-6)
    assert ja.epsilon(ja.PrivateSelection(run, found), 1e-6) <= 5.0
    assert ja.epsilon(ja.PrivateSelection(run, found * 1.01), 1e-6) > 5.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ja.PrivateSelection(ja.Gaussian(1.0), 0.5), "mean_runs=0.5 must be >= 1"),
        (lambda: ja.PrivateSelection(ja.Gaussian(1.0), 2.0, -1.0), r"shape=-1.0 must be above -1"),
        (lambda: ja.PrivateSelection((ja.Gaussian(1.0),), 2.0), "it is not a mechanism; must be one"),
        (lambda: ja.PrivateSelection(1.0, 2.0), "it is not a mechanism"),
    ],
)
def test_what_is_out_of_range_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("largest", [0.3, 1.0, 7.0, 40.0])
def test_pure_delta(largest):
    """That of the pair (e^x, 1) over 1 + e^x, rounded up; 0 from x on; nothing is known without a largest loss."""
    for epsilon in (0.0, 0.5 * largest, largest * (1 - 1e-12), largest, 2.0 * largest):
        with mpmath.workdps(40):
            x, e = mpmath.mpf(largest), mpmath.mpf(epsilon)
            truth = max(mpmath.mpf(0), (mpmath.exp(x) - mpmath.exp(e)) / (1 + mpmath.exp(x)))
        found = float(_pure_delta(np.array([largest]), np.array([epsilon]))[0])
        assert truth <= found <= truth * (1 + 1e-12)
    assert _pure_delta(np.array([math.inf]), np.array([1.0]))[0] == 1.0


@pytest.mark.parametrize(("local", "mean"), [(1.0, 1e10), (0.1, 2.0), (2.0, 1000.0)])
def test_many_runs_that_are_pure(local, mean):
    """At the order whose epsilon is the largest loss the mean number of runs counts by its logarithm alone."""
    order = 1.0 + 1.0 / math.expm1(local)
    run = ja.PrivateSelection(ja.Laplace(1.0 / local), mean, math.inf)
    own = ja.rdp(ja.Laplace(1.0 / local), [order]).values[0]
    found = ja.rdp(run, [order, 1e10, 1e100]).values[0]
    assert found == pytest.approx(own + math.log(mean) / (order - 1.0), rel=1e-4)
    assert found >= (own + math.log(mean) / (order - 1.0)) * (1.0 - 1e-12)


def test_a_shape_near_0_counts():
    """Theorem 2 at the order that hides best: (1 + shape) times what it hides."""
    noise, mean = 5.0, 10.0
    for shape in (9e-10, -9e-10, 1e-290):
        u = float(rate(mean, 0.0)) if abs(shape) < 1e-100 else float(rate(mean, shape))
        best = noise * math.sqrt(2.0 * u)
        found = ja.rdp(ja.PrivateSelection(ja.Gaussian(noise), mean, shape), [best]).values[0]
        with mpmath.workdps(30):
            half = 1 / (2 * mpmath.mpf(noise) ** 2)
            u = rate(mean, shape) if abs(shape) > 1e-100 else rate(mean, 0)
            hidden = (best - 1) * half + u / best
            exact = best * half + (1 + mpmath.mpf(shape)) * hidden + mpmath.log(mean) / (best - 1)
            assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-11)


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("run", [ja.Gaussian(2.0), ja.Laplace(1.0)])
def test_divergences_do_not_fall_with_the_order(run, shape):
    """What is proved grows without bound towards order 1; what is larger at a larger order holds there."""
    selection = ja.PrivateSelection(run, 10.0, shape)
    orders = [1.0, 1.01, 1.5, 4.0, 10.0, 200.0, math.inf]
    values = ja.rdp(selection, orders).values
    assert np.all(np.diff(values[:-1]) >= 0)
    assert values[0] < 5.0
    assert ja.rdp(selection, [1.0]).values[0] == pytest.approx(values[0], rel=1e-2)
    if isinstance(run, ja.Laplace) and math.isfinite(shape):
        assert values[-1] == pytest.approx(2.0 + shape, rel=1e-9)  # Corollary 3


@pytest.mark.parametrize("shape", [0.5, math.inf])
def test_an_order_has_the_divergence_that_it_has_alone(shape):
    """Whatever else is asked: another order beside helped, where no order of the fixed ones was as near."""
    run = ja.PrivateSelection(ja.Gaussian(40.0), 10.0, shape)
    orders = [1.5, 30.3, 99.9, 777.0, 1e5]
    together = ja.rdp(run, orders).values
    assert together.tolist() == [float(ja.rdp(run, [a]).values[0]) for a in orders]


def test_large_orders_of_sampled_runs():
    """Order a by a sum over a terms, for all smaller ones too, took the memory of a^2 numbers."""
    step = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 1)
    for order in (3000, 10**6):  # the largest term of the sum is nearly all of it
        largest = (order * math.log(0.01) + 0.5 * order * (order - 1.0)) / (order - 1.0)
        found = float(ja.rdp(step, [2.0, order]).values[1])
        assert largest * (1 - 1e-12) <= found <= largest + 1e-3
    assert math.isfinite(ja.rdp(ja.PrivateSelection(step, 10.0, 0.5), [2.0, 1e6]).values[1])
