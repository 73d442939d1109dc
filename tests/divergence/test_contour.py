"""The contour on the host: the moments of a sampled step, their decay, and the ends, each against an oracle."""

import functools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr
from support.one_step import true_delta

import jaxacct as ja
from jaxacct._method import Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds._line_passes import ends_of_steps
from jaxacct.bounds._line_questions import question
from jaxacct.bounds._line_steps import Steps
from jaxacct.bounds._one_moment import from_moments
from jaxacct.divergence._one_sampled_step import one_step_delta
from jaxacct.divergence.gaussian import _sampled_step
from jaxacct.divergence.gaussian._pair import gaussian_profile
from jaxacct.divergence.gaussian._sampled_step import SampledSteps

STEPS = [
    # sigma, q, order a, distance of the heights, their number
    (1.0, 0.01, 4.5, 0.35, 40),
    (0.7, 0.001, 5.2, 2.0, 30),
    (5.0, 0.1, 20.0, 9.0, 12),
    (3.4, 2e-4, 112.0, 16.0, 30),
    (0.4, 0.3, 1.4, 0.5, 9),
    (30.0, 0.9, 150.0, 12.0, 6),
    (0.15, 0.02, 1.05, 0.02, 8),
]


def _step(sigma: float, q: float, direction: Direction) -> SampledSteps:
    return SampledSteps(np.array([sigma]), np.array([q]), np.array([direction is Direction.ADD]))


def _moments(step: SampledSteps, order: float, distance: float, num: int, log_tolerance: float) -> tuple[Any, ...]:
    """Of the only step: log |M|, its phase and error [num]."""
    rule = step.rule(np.array([order]), np.array([log_tolerance]))
    return tuple(x[0] for x in step.moments(rule, np.array([distance]), num))


def _ends(
    every: list[tuple[float, ...]],
    direction: Direction = Direction.REMOVE,
    *,
    epsilon: float | None = None,
    log_delta: float | None = None,
    width: float,
) -> Ends[float]:
    """Of log delta at `epsilon`, or of epsilon at `log_delta`.

    Steps are (noise multiplier, number) of a Gaussian, or (noise multiplier, probability, number).
    """
    query, target = (Query.DELTA, epsilon) if epsilon is not None else (Query.EPSILON, math.exp(log_delta or 0.0))
    plain = [(step[0], 1.0, step[1]) for step in every if len(step) == 2]
    found = ends_of_steps(question(plain, [x for x in every if len(x) == 3], direction, target), query, width)
    low, high = (float(x[0]) for x in found)
    if query is Query.EPSILON:
        return Ends(low, high)
    return Ends(math.log(low) if low > 0.0 else -math.inf, math.log(high))


def _excess(step: SampledSteps, s: mp.mpc) -> mp.mpc:
    """M(s) - 1 by a trapezoid rule on the real line, far finer than the kernel's."""
    noise = float(step.noise_multiplier[0])
    sigma, q = mp.mpf(noise), mp.mpf(float(step.sampling_prob[0]))
    power, width = 1 - s if step.adds[0] else s, mp.mpf(1) / 48
    top = 13 + max(float(power.real), 0.0) / noise
    total = mp.mpc(0)
    for k in range(-13 * 48, int(top * 48)):
        z = width * k
        ratio = 1 - q + q * mp.exp(z / sigma - 1 / (2 * sigma**2))
        total += mp.npdf(z) * (mp.exp(power * mp.log(ratio)) - 1)
    return width * total


@pytest.mark.sample(3)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("case", STEPS)
def test_moments_within_their_error(case: tuple[float, ...], direction: Direction) -> None:
    sigma, q, order, distance, num = case
    step = _step(sigma, q, direction)
    modulus, phase, error = _moments(step, order, distance, int(num), -40.0)
    assert error.max() < 1e-9
    with mp.workdps(30):
        for n in {0, 1, int(num) - 1}:
            truth = 1 + _excess(step, mp.mpc(order, distance * n))
            found = mp.exp(mp.mpc(modulus[n], phase[n]))
            assert abs(found / truth - 1) <= math.expm1(error[n]), n


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("log_tolerance", [-2.0, -6.0, -12.0])
def test_moments_by_a_coarse_rule_book_what_it_leaves_out(direction: Direction, log_tolerance: float) -> None:
    """With a tolerance so large the rule itself errs, by far more than rounding, and says so."""
    seen = 0.0
    with mp.workdps(30):
        for sigma, q, order, distance, _ in STEPS[:4]:
            step = _step(sigma, q, direction)
            modulus, phase, error = _moments(step, order, distance, 4, log_tolerance)
            for n in (0, 3):
                truth = 1 + _excess(step, mp.mpc(order, distance * n))
                off = float(abs(mp.exp(mp.mpc(modulus[n], phase[n])) / truth - 1))
                assert off <= math.expm1(min(error[n], 700.0))
                seen = max(seen, off)
    assert seen > 1e-3 * math.exp(2.0 * log_tolerance)


@pytest.mark.parametrize("direction", Direction)
def test_moments_book_the_rounding_of_sums_over_nodes(direction: Direction) -> None:
    """Were there a million nodes more, sums over them would err by a million times 2^-52 of the excess more."""
    step = _step(1.3, 0.21, direction)
    rule = step.rule(np.array([2.5]), np.array([-40.0]))
    distance, more = np.array([0.05]), 1e6
    total, error = step.excess(rule, distance, 8)
    further = step.excess(rule._replace(num_nodes=rule.num_nodes + more), distance, 8)[1]
    assert np.all(error < 1e-12)
    assert np.all(further - error >= 0.99 * 2.0**-52 * more * np.abs(total))


@pytest.mark.parametrize("direction", Direction)
def test_moments_book_what_lies_outside_their_window(direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the normal tails were as large as 1/4, they would be the error."""
    usual = _moments(_step(1.3, 0.21, direction), 2.5, 0.05, 8, -30.0)[2]
    monkeypatch.setattr(_sampled_step, "_log_tail", lambda x: np.full(np.shape(x), math.log(0.25)))
    heavy = _moments(_step(1.3, 0.21, direction), 2.5, 0.05, 8, -30.0)[2]
    assert usual.max() < 1e-9
    assert heavy.min() > 0.1


@pytest.mark.sample(1)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("case", STEPS)
def test_moments_decay_from_a_height_on(case: tuple[float, ...], direction: Direction) -> None:
    sigma, q, order, distance, num = case
    step = _step(sigma, q, direction)
    heights = distance * num * np.array([0.05, 0.3, 1.0])
    rule = step.rule(np.array([order]), np.array([-40.0]))
    bounds = step.decay(rule, step.real_moment(rule), heights[None])[0]
    assert (np.diff(bounds) <= 0).all()
    with mp.workdps(30):
        size = mp.log(abs(1 + _excess(step, mp.mpc(order, 0))))
        for height, bound in zip(heights, bounds, strict=True):
            for further in (1.0, 1.2, 2.0):
                truth = mp.log(abs(1 + _excess(step, mp.mpc(order, height * further)))) - size
                assert truth <= bound
                if further == 1.0 and sigma > 0.5:  # 40 % of the exponent at least, where it is small
                    assert bound <= 0.4 * max(float(truth), -0.3)


def _gaussian_delta(mu: float, epsilon: float) -> mp.mpf:
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def test_gaussian_rounds_between_the_ends() -> None:
    rng = np.random.default_rng(1)
    with mp.workdps(60):
        for _ in range(60):
            sigma, count = 10.0 ** rng.uniform(-0.3, 2), math.floor(10.0 ** rng.uniform(0, 4))
            mu = math.sqrt(count) / sigma
            epsilon = max(mu * (0.5 * mu + rng.uniform(-1, 6)), 0.0)
            truth = float(mp.log(_gaussian_delta(mu, epsilon)))
            ends = _ends([(sigma, float(count))], epsilon=epsilon, width=1e-9)
            assert ends.lower <= truth <= ends.upper
            if truth < math.log(0.3):
                assert ends.upper - ends.lower < 1e-6
                back = _ends([(sigma, float(count))], log_delta=truth, width=1e-9)
                assert back.lower <= epsilon * (1 + 1e-12)
                assert back.upper >= epsilon * (1 - 1e-12)
                assert back.upper - back.lower <= 1e-6 * back.lower + 1e-9


@pytest.mark.parametrize("direction", Direction)
def test_one_step_between_the_ends(direction: Direction) -> None:
    rng = np.random.default_rng(2)
    with mp.workdps(40):
        for _ in range(40):
            sigma, q = 10.0 ** rng.uniform(-0.5, 1), 10.0 ** rng.uniform(-4, -0.05)
            epsilon = 10.0 ** rng.uniform(-3, 0.5)
            truth = true_delta(sigma, q, epsilon, direction)
            ends = _ends([(sigma, q, 1.0)], direction, epsilon=epsilon, width=1e-9)
            assert ends.upper >= (mp.log(truth) if truth > 0 else -mp.inf)
            assert ends.lower == -math.inf or ends.lower <= mp.log(truth)


# random settings of DP-SGD; dp_accounting's PLD accountant lies above each of these by less than 1e-3 of it
RARE = [
    (3.39, 2.0e-4, 10_958, 1e-8, 0.0275283),
    (0.899, 1.9e-4, 2_908, 1e-5, 0.0507622),
    (0.654, 2.0e-4, 880, 1e-8, 0.873469),
    (1.864, 1.6e-4, 161, 1e-5, 0.00248954),
    (1.0, 0.01, 10_000, 1e-6, 6.90738),
]


@pytest.mark.parametrize("case", RARE)
def test_rare_participation_is_known_closely(case: tuple[float, ...]) -> None:
    sigma, q, steps, delta, value = case
    found = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(sigma), q, int(steps)), delta)
    assert found.upper - found.lower <= 1e-6 * found.lower
    assert found.upper == pytest.approx(value, rel=2e-5)


def _two_rare_steps(noise: float, prob: float, epsilon: float) -> float:
    """Delta of two sampled steps, remove direction: one step's in closed form, averaged over the loss of the other."""
    mu = 1.0 / noise
    z = np.linspace(-12.0, 12.0 + mu, 400_001)
    log_ratio = np.log1p(prob * np.expm1(mu * z - 0.5 * mu * mu))
    growth = np.exp(epsilon - log_ratio)
    least = (growth - (1.0 - prob)) / prob
    y = np.log(np.maximum(least, 1e-300)) / mu + 0.5 * mu
    delta = (1.0 - prob - growth) * ndtr(-y) + prob * ndtr(mu - y)
    weight = (1.0 - prob) * np.exp(-0.5 * z * z) + prob * np.exp(-0.5 * (z - mu) ** 2)
    return float((weight * delta).sum() * (z[1] - z[0]) / math.sqrt(2.0 * math.pi))


@pytest.mark.parametrize(("noise", "prob"), [(0.613, 3e-3), (0.581, 2e-3)])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1])
def test_two_rare_steps_of_little_noise_between_close_ends(noise: float, prob: float, epsilon: float) -> None:
    """Their loss is nearly an atom: the moments are followed to hundreds of thousands of nodes."""
    found = _ends([(noise, prob, 2.0)], epsilon=epsilon, width=1e-6)
    truth = math.log(_two_rare_steps(noise, prob, epsilon))
    assert found.lower - 1e-8 <= truth <= found.upper + 1e-8
    assert found.upper - found.lower <= 1e-5


@pytest.mark.parametrize(
    ("noise", "prob", "steps", "delta"), [(0.613, 3.64e-5, 16, 7.7e-5), (0.581, 3.1e-5, 44, 1.9e-9)]
)
@pytest.mark.parametrize("direction", list(Direction))
def test_few_rare_steps_of_little_noise_are_known_closely(
    noise: float, prob: float, steps: int, delta: float, direction: Direction
) -> None:
    found = _ends([(noise, prob, float(steps))], direction, log_delta=math.log(delta), width=1e-6)
    assert 0.0 < found.lower <= found.upper <= found.lower * (1.0 + 1e-5)


def test_random_runs_are_narrow_and_consistent() -> None:
    """40 random settings: within 0.1 %, nine of ten within 1e-6; delta at the epsilon found is the delta asked for."""
    rng = np.random.default_rng(3)
    widths = []
    for _ in range(40):
        sigma, q = math.exp(rng.uniform(math.log(0.56), math.log(5))), 10.0 ** rng.uniform(-4, -0.7)
        run = ja.PoissonSampled(ja.Gaussian(sigma), q, int(10.0 ** rng.uniform(2, 5.4)))
        delta = 10.0 ** rng.uniform(-10, -4)
        found = ja.epsilon_interval(run, delta)
        widths.append((found.upper - found.lower) / found.lower if found.lower else found.upper)
        back = ja.delta_interval(run, found.upper)
        assert back.lower <= delta
        back = ja.delta_interval(run, found.lower)
        assert back.upper >= delta * (1 - 1e-12) or found.lower == 0.0
    assert max(widths) <= 1e-3
    assert np.mean(np.array(widths) <= 1e-6) >= 0.9


@pytest.mark.parametrize(("seed", "draws"), [(5, 15), pytest.param(4, 60, marks=pytest.mark.slow)])
def test_extreme_fields_give_sound_ends(seed: int, draws: int) -> None:
    """Where the contour cannot help it says nothing, quickly, and never NaN."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        sigma, q = 10.0 ** rng.uniform(-2, 8), 10.0 ** rng.uniform(-14, 0)
        steps, log_delta = math.floor(10.0 ** rng.uniform(0, 15)), rng.uniform(-60, -0.01)
        for direction in Direction:
            ends = _ends([(sigma, min(q, 1 - 1e-9), steps)], direction, log_delta=log_delta, width=1e-3)
            assert 0.0 <= ends.lower <= ends.upper


def test_mixed_rounds_and_their_equivalents() -> None:
    poisson = ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 5_000)
    twice = ja.epsilon_interval(ja.Composed((poisson, poisson), (1, 1)), 1e-6)
    once = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.0), 0.01, 10_000), 1e-6)
    assert twice == once
    every = ja.epsilon_interval(ja.PoissonSampled(ja.Gaussian(1.0), 1.0, 7), 1e-6)
    assert every.lower <= ja.epsilon(ja.Composed(ja.Gaussian(1.0), 7), 1e-6) <= every.upper * (1 + 1e-9)
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(1e-3), 0.0, 7), 1e-6) == 0.0


@pytest.mark.parametrize("direction", Direction)
def test_one_step_in_closed_form(direction: Direction) -> None:
    """At any noise and epsilon both ends hold and are close, and delta stays below q."""
    rng = np.random.default_rng(5)
    with mp.workdps(60):
        for _ in range(80):
            sigma, q = 10.0 ** rng.uniform(-2.5, 3), 10.0 ** rng.uniform(-12, -0.01)
            epsilon = float(rng.choice([0.0, 10.0 ** rng.uniform(-6, 1.5)]))
            truth = true_delta(sigma, q, epsilon, direction)
            profile = functools.partial(gaussian_profile, mu=1.0 / sigma)
            ends = one_step_delta(profile, q, direction, epsilon)
            assert ends.lower <= truth <= ends.upper
            assert ends.upper <= q * (1 + 1e-12)
            if truth > 1e-200 and truth > 1e-6 * q:
                assert ends.upper - ends.lower <= 1e-8 * ends.lower


def test_one_step_by_name_and_by_interval() -> None:
    step = ja.PoissonSampled(ja.Gaussian(1.0), 0.2, num_steps=1)
    found = ja.epsilon_interval(step, 1e-6)
    assert found.upper - found.lower <= 1e-9 * found.lower
    assert ja.delta(step, found.upper) <= 1e-6
    assert ja.delta(step, 0.2, direction=Direction.ADD) == pytest.approx(2.01958e-4, rel=1e-5)
    assert ja.delta(step, 0.2, direction=Direction.ADD, precision=1e-8) <= ja.delta(step, 0.2, direction=Direction.ADD)


@pytest.mark.parametrize(
    ("steps", "noise"),
    [
        *((1, 0.0011), (1, 0.02), (1, 0.03), (1, 0.1), (3, 0.1)),
        *(pytest.param(3, noise, marks=pytest.mark.slow) for noise in (0.0011, 0.02, 0.03)),
    ],
)
def test_delta_is_at_most_the_probability_to_join(steps: int, noise: float) -> None:
    run = ja.PoissonSampled(ja.Gaussian(noise), 0.1, steps)
    joins = 1 - 0.9**steps
    found = [ja.delta(run, 1.0, precision=precision) for precision in (math.inf, None)]
    assert max(found) <= joins * (1 + 1e-13)
    assert found[-1] >= 0.09
    for precision in (None, math.inf):
        assert ja.epsilon(run, joins * (1 + 1e-12), precision=precision) == 0.0


@pytest.mark.parametrize("noise", [0.02, 0.025, 0.03])
def test_mass_beyond_the_doubles_joins_infinity(noise: float) -> None:
    """So little noise that the ratio overflows where much of its mass is: a loss distribution keeps it."""
    found = ja.pld(ja.PoissonSampled(ja.Gaussian(noise), 0.1, num_steps=1)).delta(1.0)
    with mp.workdps(50):
        # H at e^eps of q P + (1-q) Q against Q is q times H at 1 + (e^eps - 1)/q
        log_ratio = mp.log(1 + mp.expm1(1) / mp.mpf(0.1))
        mu = 1 / mp.mpf(noise)
        truth = mp.mpf(0.1) * (mp.ncdf(mu / 2 - log_ratio / mu) - mp.exp(log_ratio) * mp.ncdf(-mu / 2 - log_ratio / mu))
    assert truth <= found <= truth * 1.03


def test_rounding_of_large_exponents_is_booked() -> None:
    """log M and (a - 1) epsilon may be 10^9 while log delta is -20: their rounding is that of 10^9."""
    with mp.workdps(60):
        for count in (1e10, 1e13, 1e15):
            mu, rounds = mp.sqrt(mp.mpf(count)), [(1.0, count)]
            found = _ends(rounds, log_delta=-20.0, width=1e-9)
            if found.upper < math.inf:
                assert _gaussian_delta(mu, found.upper) <= mp.exp(-20)
            if found.lower > 0.0:
                assert _gaussian_delta(mu, found.lower) >= mp.exp(-20)
            ends = _ends(rounds, epsilon=float(mu * (mu / 2 + 5)), width=1e-9)
            truth = mp.log(_gaussian_delta(mu, float(mu * (mu / 2 + 5))))
            assert ends.lower <= truth <= ends.upper


def test_probability_to_join_is_rounded_up() -> None:
    """Where XLA's log1p errs by hundreds of units in the last place, at tiny and at large probabilities."""
    rng = np.random.default_rng(6)
    q = np.concatenate(
        [rng.uniform(0.36, 0.42, 60), 10.0 ** rng.uniform(-15, 0, 60), 1.0 - 10.0 ** rng.uniform(-12, -1, 20)]
    )
    steps = np.floor(10.0 ** rng.uniform(0, 1.5, q.size))
    found = ja.delta(ja.PoissonSampled(ja.Gaussian(1e-4), q, steps), 1e-9, method="participation")
    with mp.workdps(50):
        for value, prob, count in zip(found, q, steps, strict=True):
            truth = 1 - (1 - mp.mpf(float(prob))) ** int(count)
            assert truth <= value <= min(truth * (1 + mp.mpf(10) ** -12), 1)


@pytest.mark.parametrize("excess", [1e-9, 3e-7, 1e-5, 0.02, 0.7, 12.0, 3e4])
def test_one_moment_bounds_epsilon_and_delta_at_orders_near_1_too(excess: float) -> None:
    sigma, order = 40.0, 1.0 + excess
    with mp.workdps(50):
        less = mp.mpf(order) - 1
        log_moment = order * less / (2 * mp.mpf(sigma) ** 2)
        constant = less * mp.log(less) - order * mp.log(order)
        epsilon = float((log_moment + constant + 9) / less)
        of, orders = Steps(question([(sigma, 1.0, 1.0)], [], Direction.REMOVE, 0.5)), np.array([[order]])
        of.take(orders, np.zeros(1))
        known = of.moments(orders), orders - 1.0
        found = float(from_moments(*known, Query.EPSILON, np.exp([-9.0]))[0])
        truth = (log_moment + constant + 9) / less
        assert truth <= found <= truth * (1 + mp.mpf(2) ** -30)
        truth = log_moment + constant - less * epsilon
        found = math.log(float(from_moments(*known, Query.DELTA, np.array([epsilon]))[0]))
        assert truth <= found <= truth * (1 - mp.mpf(2) ** -28)


@pytest.mark.parametrize("query", Query)
@pytest.mark.parametrize("release", [ja.Gaussian, ja.Laplace])
def test_points_together_are_those_alone(query: Query, release: Any) -> None:
    """Batches of steps, one of which has a closed form, one of which loses nothing, and one of which is long."""
    noise = np.array([0.6, 3.0, 1.0, 1.1, 2.0, 0.9, 1.4])
    prob = np.array([0.05, 0.01, 0.0, 0.3, 1.0, 2e-3, 0.02])
    steps = np.array([700.0, 4000.0, 50.0, 1.0, 60.0, 30.0, 2000.0])
    ask, target = (ja.epsilon, 1e-6) if query is Query.EPSILON else (ja.delta, 0.7)
    found = ask(ja.PoissonSampled(release(noise), prob, steps), target)
    for k, value in enumerate(found):
        alone = ask(ja.PoissonSampled(release(float(noise[k])), float(prob[k]), int(steps[k])), target)
        assert value == pytest.approx(alone, rel=1e-6, abs=1e-300)
