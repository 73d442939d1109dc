"""Laplace rounds by a contour: moments, their decay and the ends, each against an oracle at random settings."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from oracle.test_compositions import laplace_many

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds import _host_line
from jaxacct.bounds._line_choice import Choice
from jaxacct.bounds._line_passes import ends_of_steps
from jaxacct.bounds._line_questions import question
from jaxacct.bounds._line_steps import Steps
from jaxacct.bounds._one_moment import from_moments
from jaxacct.divergence import _contour
from jaxacct.divergence._inversion import LineMoments
from jaxacct.divergence._laplace_step import LaplaceSteps


def _step(largest: float, prob: float, direction: Direction) -> LaplaceSteps:
    return LaplaceSteps(np.array([largest]), np.array([prob]), np.array([direction is Direction.ADD]))


def _found(step: LaplaceSteps, order: float, distance: float, num: int) -> list[np.ndarray]:
    """Of the only step: log |M|, its phase and error [num]."""
    rule = step.rule(np.array([order]), np.array([-37.0]), np.array([distance * num]))
    return [x[0] for x in step.moments(rule, np.array([distance]), num)]


def _decay(step: LaplaceSteps, order: float, heights: np.ndarray) -> np.ndarray:
    rule = step.rule(np.array([order]), np.array([-37.0]), np.zeros(1))
    return step.decay(rule, step.real_moment(rule), heights[None])[0]


def _ends(
    step: LaplaceSteps, count: float, *, epsilon: float | None = None, log_delta: float = 0.0, width: float
) -> Ends[float]:
    """Of log delta at `epsilon`, or of epsilon at `log_delta`."""
    query, target = (Query.EPSILON, math.exp(log_delta)) if epsilon is None else (Query.DELTA, epsilon)
    every = [(1.0 / float(step.largest[0]), float(step.sampling_prob[0]), count)]
    found = ends_of_steps(question([], [], list(Direction)[int(step.adds[0])], target, every), query, width)
    low, high = (float(x[0]) for x in found)
    if query is Query.EPSILON:
        return Ends(low, high)
    return Ends(math.log(low) if low > 0.0 else -math.inf, math.log(high))


def _drawn(seed: int) -> tuple[LaplaceSteps, float, float]:
    """A step, an order and a height at which it is looked at."""
    rng = np.random.default_rng(seed)
    x = float(np.exp(rng.uniform(math.log(0.05), math.log(6.0))))
    q = 1.0 if seed % 3 == 0 else float(np.exp(rng.uniform(math.log(1e-3), 0.0)))
    step = _step(x, q, (Direction.REMOVE, Direction.ADD)[seed % 2])
    order = 1.0 + float(np.exp(rng.uniform(math.log(0.1), math.log(20.0))))
    return step, order, float(step.highest[0]) * float(rng.uniform(0.02, 0.6))


def _moment(step: LaplaceSteps, s: mp.mpc) -> mp.mpc:
    """M(s) by mpmath's quadrature in the loss v, the atoms added."""
    x, q = mp.mpf(float(step.largest[0])), mp.mpf(float(step.sampling_prob[0]))
    power = 1 - s if step.adds[0] else s
    cuts = mp.linspace(-x, x, 9)

    def ratio(v: mp.mpf) -> mp.mpc:
        return mp.exp(power * mp.log(1 - q + q * mp.exp(v)))

    inner = mp.quad(lambda v: mp.exp(-(v + x) / 2) * ratio(v) / 4, cuts)
    return ratio(-x) / 2 + mp.exp(-x) * ratio(x) / 2 + inner


def _moments(step: LaplaceSteps, s: np.ndarray) -> np.ndarray:
    """M(s) as `_moment`, by Gauss's rule in doubles: to some 1e-15 of M(Re s), in a few pieces of its own."""
    x, q = float(step.largest[0]), float(step.sampling_prob[0])
    power = 1.0 - s if step.adds[0] else s

    def ratio(v: np.ndarray) -> np.ndarray:
        return np.exp(power[..., None] * np.log(1.0 - q + q * np.exp(v)))

    nodes, weights = np.polynomial.legendre.leggauss(40)
    cuts = np.linspace(-x, x, 41)
    v = np.concatenate([0.5 * (a + b) + 0.5 * (b - a) * nodes for a, b in itertools.pairwise(cuts)])
    inner = (ratio(v) * np.exp(-0.5 * (v + x)) / 4.0 * np.tile(weights, 40)).sum(axis=-1) * x / 40.0
    at_low, at_high = (ratio(np.array([end]))[..., 0] for end in (-x, x))
    return at_low / 2.0 + math.exp(-x) * at_high / 2.0 + inner


@pytest.mark.parametrize("seed", range(2))
def test_moments_in_doubles_are_those_of_mpmath(seed: int) -> None:
    step, order, height = _drawn(seed)
    s = order + 1j * np.array([0.0, height, 3.0 * height])
    with mp.workdps(25):
        for found, at in zip(_moments(step, s), s, strict=True):
            assert abs(mp.mpc(found) - _moment(step, mp.mpc(at))) <= 1e-13 * abs(_moments(step, s[:1])[0])


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
def test_moments_within_their_error(seed: int) -> None:
    step, order, height = _drawn(seed)
    height = math.ldexp(math.floor(math.ldexp(height, 10)), -10) / 8.0
    modulus, phase, error = _found(step, order, height, 9)
    assert error.max() < 1e-10
    with mp.workdps(30):
        for n in (0, 5, 8):
            found = mp.exp(mp.mpc(modulus[n], phase[n]))
            truth = _moment(step, mp.mpc(order, height * n))
            assert abs(truth / found - 1) <= math.expm1(error[n]), n


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
def test_an_error_that_a_short_rule_makes_is_booked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxacct.divergence import _laplace_step

    monkeypatch.setattr(_laplace_step, "_NUM_NODES", (2, 4, 6))
    step, order, height = _drawn(seed)
    modulus, phase, error = _found(step, order, height / 8.0, 9)
    with mp.workdps(30):
        for n in (0, 3, 8):
            found = mp.exp(mp.mpc(modulus[n], phase[n]))
            truth = _moment(step, mp.mpc(order, height / 8.0 * n))
            assert abs(truth / found - 1) <= math.expm1(min(error[n], 700.0)) * (1 + 1e-12), n


@pytest.mark.parametrize("seed", range(12))
def test_decay_bounds_moments_at_every_greater_height(seed: int) -> None:
    step, order, height = _drawn(seed)
    heights = height * np.array([0.2, 0.5, 1.0, 3.0])
    bounds = _decay(step, order, heights)
    assert np.all(np.diff(bounds) <= 0.0)
    beyond = 2.0 * math.pi / (160.0 / float(step.highest[0]))  # where the atoms are in phase again
    for y in (heights, np.ceil(heights / beyond) * beyond):
        whole, *found = _moments(step, order + 1j * np.append(0.0, y))
        assert np.all(np.log(np.abs(np.array(found) / whole)) <= bounds + 1e-12)


def test_decay_bounds_moments_at_low_heights() -> None:
    step = _step(8.0, 1.0, Direction.REMOVE)
    heights = np.array([0.4, 0.5, 0.6, 0.8, 3.0])
    bounds = _decay(step, 1.01, heights)
    assert bounds[-1] < -0.3
    with mp.workdps(25):
        whole = _moment(step, mp.mpc(1.01))
        for b, bound in zip(heights, bounds, strict=True):
            assert mp.log(abs(_moment(step, mp.mpc(1.01, b)) / whole)) <= bound


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("scale", "count", "epsilon"), [(0.5, 40, 20.3), (0.5, 40, 40.7), (0.25, 40, 80.3), (1.0, 48, 17.3)]
)
def test_ends_contain_the_closed_form(scale: float, count: int, epsilon: float) -> None:
    before, ctx.prec = ctx.prec, 300
    try:
        truth = float(laplace_many(scale, count, arb(epsilon)))
    finally:
        ctx.prec = before
    step = _step(1.0 / scale, 1.0, Direction.REMOVE)
    found = _ends(step, float(count), epsilon=epsilon, width=1e-6)
    assert math.exp(found.lower) <= truth <= math.exp(found.upper)
    assert found.upper - found.lower < 1e-7
    back = _ends(step, float(count), log_delta=math.log(truth), width=1e-6)
    assert back.lower <= epsilon <= back.upper
    assert back.upper - back.lower < 1e-6 * epsilon


def _delta(step: LaplaceSteps, count: int, epsilon: float, order: float, top: float, num: int) -> float:
    """delta by Gauss's rule on pieces of the line Re s = `order` up to `top`."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for low, high in itertools.pairwise(np.linspace(0.0, top, num + 1)):
        s = order + 1j * (0.5 * (low + high) + 0.5 * (high - low) * nodes)
        values = _moments(step, s) ** count * np.exp(epsilon * (1.0 - s)) / (s * (s - 1.0))
        total += float(weights @ values.real) * 0.5 * (high - low)
    return total / math.pi


@pytest.mark.parametrize("direction", Direction)
def test_ends_of_sampled_rounds_contain_quadrature(direction: Direction) -> None:
    step, count, order = _step(2.0, 0.2, direction), 400, 1.6
    epsilon = _ends(step, float(count), log_delta=-7.0, width=1e-9).upper
    found = _ends(step, float(count), epsilon=epsilon, width=1e-9)
    truth = _delta(step, count, epsilon, order, 5.0, 12)
    assert found.upper - found.lower < 1e-8
    assert math.exp(found.lower) * (1 - 1e-7) <= truth <= math.exp(found.upper) * (1 + 1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_ends_agree_with_loss_distributions(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    scale, steps = float(np.exp(rng.uniform(-1.0, 2.0))), int(rng.integers(150, 1500))
    q, delta = float(np.exp(rng.uniform(-3.0, -0.7))), float(np.exp(rng.uniform(-20.0, -10.0)))
    run = ja.PoissonSampled(ja.Laplace(scale), q, steps) if seed % 2 else ja.Composed(ja.Laplace(scale), steps)
    ours = ja.epsilon_interval(run, delta)
    assert (ours.upper - ours.lower) < 1e-6 * ours.lower
    other = ja.epsilon(run, delta, method="loss distribution")
    assert ours.lower <= other <= ours.upper * 1.01


def test_one_moment_bounds_what_no_line_reaches() -> None:
    step = _step(2.5, 0.002, Direction.ADD)
    of = Steps(question([], [], Direction.ADD, 1e-6, [(0.4, 0.002, 34.0)]))
    scale = of.falls**-0.5
    with np.errstate(all="ignore"):
        orders = _contour.candidate_orders(scale, of.largest_order)
        line = _contour.choose_lines(orders, of.guess(orders), of.modulus, scale, None, np.log([1e-6]))
        assert line.highest > of.highest
    ends = _ends(step, 34.0, log_delta=math.log(1e-6), width=1e-3)
    truth = ja.epsilon(ja.PoissonSampled(ja.Laplace(0.4), 0.002, 34), 1e-6, direction=Direction.ADD)
    assert ends.lower == 0.0
    assert truth * 0.99 <= ends.upper < math.inf
    delta = _ends(step, 34.0, epsilon=0.5 * truth, width=1e-3)
    known = ja.delta(ja.PoissonSampled(ja.Laplace(0.4), 0.002, 34), 0.5 * truth, direction=Direction.ADD)
    assert known * 0.98 <= math.exp(delta.upper) < 1.0


def test_the_bound_by_one_moment_is_its_formula() -> None:
    step, order, count = _step(2.0, 0.3, Direction.REMOVE), 2.5, 40.0
    with mp.workdps(25):
        log_moment = count * mp.log(_moment(step, mp.mpc(order)).real)
        constant = order * mp.log(1 - 1 / mp.mpf(order)) - mp.log(mp.mpf(order) - 1)
        epsilon = float((log_moment + constant + 12) / (order - 1))
        log_delta = float(log_moment + constant - (order - 1) * 30)
    of, orders = Steps(question([], [], Direction.REMOVE, 0.5, [(0.5, 0.3, count)])), np.array([[order]])
    of.take(orders, np.zeros(1))
    known = of.moments(orders), orders - 1.0
    for found, wanted in (
        (float(from_moments(*known, Query.EPSILON, np.exp([-12.0]))[0]), epsilon),
        (math.log(float(from_moments(*known, Query.DELTA, np.array([30.0]))[0])), log_delta),
    ):
        assert wanted - 1e-15 <= found <= wanted + 1e-9


def test_rounds_beside_gaussian_ones() -> None:
    run = ja.Composed((ja.Laplace(2.0), ja.Gaussian(1.5), ja.PoissonSampled(ja.Laplace(0.7), 0.1, 30)), (30, 20, 2))
    ours = ja.epsilon_interval(run, 1e-7)
    assert ours.upper - ours.lower < 1e-6 * ours.lower
    assert ours.lower <= ja.epsilon(run, 1e-7, method="loss distribution") <= ours.upper * 1.01
    assert ja.epsilon(ja.Composed(ja.Laplace(0.5), 3), 1e-9) <= 6.0


def test_what_loses_nothing_is_left_out() -> None:
    nothing = ja.PoissonSampled(ja.Laplace(1.0), 0.0, 50)
    with_it = ja.epsilon_interval(ja.Composed((ja.Laplace(1.0), nothing), (400, 1)), 1e-6)
    alone = ja.epsilon_interval(ja.Composed(ja.Laplace(1.0), 400), 1e-6)
    assert with_it.upper == pytest.approx(alone.upper, rel=1e-12)
    assert ja.epsilon(ja.PoissonSampled(ja.Laplace(1.0), 1.0, 400), 1e-6) == pytest.approx(alone.upper, rel=1e-12)


def test_compositions_of_many_different_steps_book_what_their_sums_round() -> None:
    """Against the moments of each kind of step alone, added up without rounding."""
    rng = np.random.default_rng(3)
    columns = ([2.5], [0.3], [6], [[4.0]], [0.0], [0.0])
    choice = Choice(*(np.array(x) for x in columns))

    def moments(*parts: list[tuple[float, float, float]]) -> LineMoments:
        plain, gaussian, laplace = parts
        of = Steps(question(plain, gaussian, Direction.REMOVE, 0.5, laplace))
        of.prepare(choice)
        return of.on(choice, np.arange(1))

    gaussian, laplace = (
        [
            (float(noise), float(prob), 1.0)
            for noise, prob in zip(rng.uniform(0.8, 3.0, n), rng.uniform(0.01, 0.3, n), strict=True)
        ]
        for n in (120, 80)
    )
    plain = [(2.0, 1.0, 3.0)]
    whole = moments(plain, gaussian, laplace)
    alone = [
        moments(plain, [], []),
        *(moments([], [x], []) for x in gaussian),
        *(moments([], [], [x]) for x in laplace),
    ]
    exact = {
        name: [sum(Fraction(getattr(x, name)[n, 0]) for x in alone) for n in range(6)]
        for name in LineMoments._fields[:3]
    }
    for n in range(6):
        sizes = sum(abs(Fraction(x.log_modulus[n, 0])) + abs(Fraction(x.phase[n, 0])) for x in alone)
        moved = (abs(Fraction(getattr(whole, x)[n, 0]) - exact[x][n]) for x in ("log_modulus", "phase"))
        assert 0 < sum(moved) < 200 * Fraction(2) ** -53 * sizes < Fraction(whole.error[n, 0]) - exact["error"][n]
    of = Steps(question([], gaussian, Direction.REMOVE, 0.5, laplace))
    of.prepare(choice)
    height = np.array([[1.8]])
    largest = [x for kind in of._kinds for x in kind.moments[:, 1]]
    decays = [
        x for k in of._kinds for x in k.steps.decay(k.rule, k.moments[:, 0], np.repeat(height, len(k.lane), 0))[:, 0]
    ]
    for found, terms in ((of.moments(np.array([[2.5, 4.0]]))[0, 1], largest), (of.fall(height)[0, 0], decays)):
        exact_sum = sum(Fraction(x) for x in terms)
        assert Fraction(found) > exact_sum + 200 * Fraction(2) ** -53 * abs(exact_sum)


def test_gaussian_steps_of_many_kinds_are_added_up_with_one_rounding() -> None:
    noise = np.random.default_rng(4).uniform(1.0, 90.0, 500)
    every = [_host_line._Steps(ja.Gaussian, x, 1.0, 1.0) for x in noise]
    found = _host_line._asked(every, np.zeros(1, bool), np.array([1e-6])).variance
    assert found.tolist() == [math.fsum(noise**-2.0)]
    assert found[0] != sum((noise**-2.0).tolist())
