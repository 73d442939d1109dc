"""The test by a threshold: tails by the contour, the moments behind them, and the lower bounds, each by an oracle."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._types import Direction
from jaxacct.divergence._contour import candidate_orders
from jaxacct.divergence._tail import Beyond, Moments, Nodes, log_beyond, moments_of, tail_ends
from jaxacct.divergence._threshold_guess import Terms, guessed
from jaxacct.divergence._threshold_test import delta_below, epsilon_below
from jaxacct.divergence.clones._moments import ClonesMoments
from jaxacct.divergence.gaussian._allocated_steps import AllocatedSteps, LossSteps, SampledLoss
from jaxacct.divergence.gaussian._line import GaussianStep
from jaxacct.divergence.gaussian._sampled_step import SampledSteps
from jaxacct.papers.random_allocation import few_steps_delta

EPOCHS = [
    # sigma, t, k, c, order, distance of the heights, their number
    (1.0, 100, 3, 0.05, 2.5, 0.7, 12),
    (0.6, 20, 2, 0.3, 0.4, 0.2, 9),
    (3.0, 5000, 7, 1e-3, 15.0, 9.0, 12),
    (0.4, 6, 5, 0.8, 0.9, 0.5, 8),
]


def _moment(of: AllocatedSteps, s: mp.mpc, *, with_record: bool) -> mp.mpc:
    """E[Y^s] or E[W Y^s] under Q, by a trapezoid rule on the real line."""
    sigma, c = mp.mpf(of.noise_multiplier), mp.mpf(of.rate)
    total, width = mp.mpc(0), mp.mpf(1) / 24
    for i in range(-11 * 24, int((11 + (abs(s.real) + 1) / of.noise_multiplier) * 24)):
        z = width * i
        w = mp.exp(z / sigma - 1 / (2 * sigma**2))
        total += mp.npdf(z) * (w if with_record else 1) * mp.exp(s * mp.log(1 - c + c * w))
    return width * total


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("case", EPOCHS)
def test_moments_with_and_without_the_record(case: tuple[float, ...], direction: Direction) -> None:
    sigma, steps, selected, rate, order, distance, num = case
    of = AllocatedSteps(sigma, steps, selected, rate, direction)
    found = of.on_line(Nodes(order, distance, int(num), 0.1), -36.0)
    heights = distance * np.arange(1, int(num))
    bounds = of.beyond(order, heights, -36.0)
    removes = direction is Direction.REMOVE
    with mp.workdps(22):
        for n in (0, int(num) - 1):
            for i, (x, moments, bound) in enumerate(zip((order, order + 1.0), found, bounds, strict=True)):
                s = mp.mpc(x, distance * n) if removes else -mp.mpc(x, distance * n)
                without = _moment(of, s, with_record=False)
                held = selected if removes == (i == 0) else 0
                truth = without ** (steps - held) * _moment(of, s, with_record=True) ** held
                given = mp.exp(mp.mpc(moments.log_modulus[n], moments.phase[n]))
                rounding = math.log1p(1e-15 * float(moments.size[n]))
                assert abs(truth / given - 1) <= mp.expm1(moments.error[n] + rounding)
                if n:
                    assert np.all(mp.log(abs(truth)) <= bound[:n])
    assert found[0].error.max() < 1e-6


def _gaussian(mean: float, spread: float, nodes: Nodes) -> Moments:
    s = nodes.order + 1j * nodes.heights
    log = mean * s + 0.5 * spread**2 * s * s
    return moments_of(log.real, log.imag, 2.0**-48 * (1.0 + np.abs(log)))


def test_tails_enclose_those_of_a_normal_law() -> None:
    mean, spread, blur, order = 0.3, 0.8, 0.05, 4.0
    nodes = Nodes(order, 0.5, 40, blur)
    edges = nodes.step * nodes.num * 1.3 ** np.arange(30)
    rest = log_beyond(nodes, Beyond(edges, mean * order + 0.5 * spread**2 * (order**2 - edges**2)))
    tau = np.linspace(-1.0, 5.0, 9)
    log_alias = mean * 8.0 + 0.5 * spread**2 * 64.0
    found = tail_ends(nodes, _gaussian(mean, spread, nodes), rest, 8.0, log_alias, tau)
    for i, x in enumerate(tau):
        truth = float(mp.log(mp.ncdf((mean - x) / math.hypot(spread, blur))))
        assert found.lower[i] <= truth <= found.upper[i]
        assert found.upper[i] - found.lower[i] < 1e-6


def test_tails_book_nodes_left_out_and_aliases() -> None:
    """With few nodes, or nodes far apart, the sum itself is wrong by far more than rounding, and the ends say so."""
    mean, spread, order, tau = 0.0, 1.0, 2.0, np.array([1.5, 2.5, 3.5])
    truth = np.array([float(mp.log(mp.ncdf(-x / math.hypot(spread, 0.1)))) for x in tau])
    for step, num in ((0.3, 5), (0.5, 4), (2.5, 20), (1.8, 20), (1.2, 3)):
        nodes = Nodes(order, step, num, 0.1)
        edges = np.append(step * num, step * num * 1.3 ** np.arange(1, 30))
        rest = log_beyond(nodes, Beyond(edges, 0.5 * spread**2 * (order**2 - edges**2)))
        found = tail_ends(nodes, _gaussian(mean, spread, nodes), rest, 4.0, 0.5 * 16.0, tau)
        assert np.all(found.lower <= truth)
        assert np.all(truth <= found.upper)


@pytest.mark.parametrize(
    ("step", "num", "edges", "bound"),
    [
        (0.25, 12, (2.0, 5.0, 20.0, 60.0), (0.3, 0.1, -0.4, -1.0)),
        (0.25, 12, (2.0, 2.9), (0.1, 0.0)),  # most of it lies beyond the last edge
        (1.0, 2, (1.9, 2.2, 2.9), (0.0, -40.0, -50.0)),  # fewer nodes than edges
    ],
)
def test_what_lies_beyond_the_last_node_is_at_least_the_sum(
    step: float, num: int, edges: tuple[float, ...], bound: tuple[float, ...]
) -> None:
    nodes = Nodes(1.5, step, num, 0.02)
    heights = step * np.arange(num, 200_000)
    value = np.array(bound)[np.searchsorted(edges, heights, side="right") - 1]
    terms = np.exp(value + 0.5 * nodes.blur**2 * (nodes.order**2 - heights**2)) / np.hypot(nodes.order, heights)
    assert log_beyond(nodes, Beyond(np.array(edges), np.array(bound))) >= math.log(step / math.pi * terms.sum())


def test_nothing_is_said_of_nodes_below_the_first_edge() -> None:
    assert log_beyond(Nodes(1.5, 0.25, 12, 0.02), Beyond(np.array([5.0]), np.array([0.1]))) == math.inf


def _allocated(sigma: float, steps: int, selected: int, direction: Direction, tuning: float) -> Terms:
    share = selected / steps
    rate = tuning * share / (1.0 - share + tuning * share)
    return [(AllocatedSteps(sigma, float(steps), float(selected), rate, direction), 1.0)]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("case", [(1.0, 1000, 1e-6), (2.5, 675, 4e-9), (1.3, 7, 7e-6), (4.0, 3, 1e-6)])
def test_one_step_a_record_lies_below_the_exact_profile_and_near(
    case: tuple[float, int, float], direction: Direction
) -> None:
    sigma, steps, delta = case
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps)
    exact = ja.epsilon(run, delta, direction=direction, method="exact", precision=1e-9)
    found = epsilon_below(lambda tuning: _allocated(sigma, steps, 1, direction, tuning), delta)
    assert 0.99 * exact < found <= exact
    below = delta_below(lambda tuning: _allocated(sigma, steps, 1, direction, tuning), exact)
    assert 0.95 * delta < below <= delta * (1.0 + 1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("case", [(1.0, 3, 2, 0.8), (0.7, 2, 1, 2.0), (2.0, 3, 2, 0.3), (0.5, 3, 2, 4.0)])
def test_below_true_allocation_in_few_steps(case: tuple[float, int, int, float], direction: Direction) -> None:
    """The truth by quadrature in as many dimensions as there are steps."""
    sigma, steps, selected, epsilon = case
    run = ja.RandomAllocation(ja.Gaussian(sigma), steps, selected)
    truth = few_steps_delta(run, epsilon, direction)
    found = delta_below(lambda tuning: _allocated(sigma, steps, selected, direction, tuning), epsilon)
    assert 0.7 * truth.lower < found <= truth.upper
    back = epsilon_below(lambda tuning: _allocated(sigma, steps, selected, direction, tuning), truth.upper)
    assert back <= epsilon


@pytest.mark.parametrize("direction", Direction)
def test_steps_whose_terms_are_their_losses_give_the_exact_profile(direction: Direction) -> None:
    terms: Terms = [(LossSteps(SampledLoss(1.0, 0.01, direction)), 500.0), (LossSteps(GaussianStep(4.0)), 3.0)]
    run = ja.Composed((ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 500), ja.Gaussian(4.0)), (1, 3))
    exact = ja.epsilon(run, 1e-6, direction=direction, precision=1e-9)
    found = epsilon_below(lambda tuning: terms, 1e-6)
    assert (1.0 - 1e-3) * exact < found <= exact


def test_guesses_are_near_what_is_certified() -> None:
    """Where saddle points hold: what they say of the best event is what is found, to a percent."""
    delta = 1e-7

    def gains(low: Any, high: Any) -> Any:
        left = np.exp(low) - delta
        return np.where(left > 0.0, np.log(np.where(left > 0.0, left, 1.0)) - high, 0.0)

    for direction in Direction:
        terms = _allocated(2.0, 4000, 3, direction, 1.0)
        with np.errstate(all="ignore"):
            guess = guessed([(terms[0][0], 40.0)], gains, math.log(delta), None)
        found = epsilon_below(lambda tuning, at=direction: [(_allocated(2.0, 4000, 3, at, tuning)[0][0], 40.0)], delta)
        assert guess.gain == pytest.approx(found, rel=0.01)


def test_what_is_known_already_is_not_certified_again() -> None:
    """A floor that cannot be reached gives 0; one that can is exceeded as without it."""

    def ask(floor: float) -> float:
        return epsilon_below(lambda tuning: _allocated(1.5, 5000, 4, Direction.ADD, tuning), 1e-6, floor)

    alone = ask(0.0)
    assert ask(2.0 * alone) == 0.0
    assert ask(0.9 * alone) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(("sigma", "prob"), [(0.001, 0.5), (0.05, 0.01), (1.0, 0.3), (1.0, 1.0 - 1e-12), (10.0, 1e-6)])
def test_orders_tried_are_those_whose_moments_are_of_use(sigma: float, prob: float, direction: Direction) -> None:
    step = SampledLoss(sigma, prob, direction)
    largest = step.largest_order
    for scale in (1e-2, 1.0, 1e6):
        orders = candidate_orders(np.array([scale]), np.array([largest]))[0]
        assert np.all(np.diff(orders) > 0.0)
        assert orders[0] > 1.0
        assert orders[-1] <= largest * (1.0 + 1e-12)
    assert LossSteps(step).largest_order + 1.0 == pytest.approx(largest)
    allocated = AllocatedSteps(sigma, 100.0, 3.0, prob, direction)
    assert allocated._orders(allocated.largest_order)[1] == pytest.approx(largest)


def test_no_answer_rests_on_moments_beyond_the_largest_order() -> None:
    """Where an order is too large for doubles its moment is infinite, and nothing is known of its decay."""
    one, large = np.array([1.0]), np.array([1e4])
    with np.errstate(all="ignore"):
        for adds in (False, True):
            steps = SampledSteps(one, np.array([0.999]), np.array([adds]))
            rule = steps.rule(large, np.array([-40.0]))
            assert steps.real_moment(rule)[0] == np.inf
            assert steps.decay(rule, steps.real_moment(rule), np.array([[1.0, 100.0]])).max() == 0.0
        clones = ClonesMoments(100.0, 0.3, 380.0, -40.0)
        assert clones.error(clones.lattice(clones.largest_order, 0.0), clones.largest_order, 0.0) == np.inf
