"""One Poisson-sampled Gaussian step on lanes: against mpmath, inside programs of all kinds."""

import functools
import math

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from support.one_step import true_delta

import jaxacct as ja
from jaxacct._precision import Kernel
from jaxacct._types import Direction
from jaxacct.divergence.gaussian._one_sampled import one_sampled_epsilon, one_sampled_log_delta

DELTA = 1e-6
LANES = 200


def _settings(seed: int) -> list[np.ndarray]:
    """Noise multipliers, probabilities and epsilons: tiny ones, 0 and 1, and those near the largest loss to add."""
    rng = np.random.default_rng(seed)
    sigma, q = 10.0 ** rng.uniform(-2, 3, LANES), 10.0 ** rng.uniform(-12, 0, LANES)
    q[:20] = 1.0 - 10.0 ** rng.uniform(-16, -1, 20)
    q[20:25] = 1.0
    epsilon = 10.0 ** rng.uniform(-12, 1.5, LANES)
    epsilon[::10] = 0.0
    near = slice(100, 150)
    epsilon[near] = -np.log1p(-q[near]) * (1.0 - 10.0 ** rng.uniform(-9, -1, 50))
    return [sigma, q, epsilon]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("direction", Direction)
def test_delta_is_just_above_the_truth(direction: Direction, traced: bool) -> None:
    sigma, q, epsilon = _settings(1)
    add = direction is Direction.ADD
    kernel = Kernel(functools.partial(one_sampled_log_delta, add=add), on_host=not traced)
    upper = kernel(epsilon, sigma, q)
    close = 0
    with mp.workdps(60):
        for i in range(LANES):
            truth = true_delta(sigma[i], q[i], epsilon[i], direction)
            log_truth = mp.log(truth) if truth > 0 else -mp.inf
            assert upper[i] >= log_truth, (sigma[i], q[i], epsilon[i])
            close += bool(math.isinf(log_truth) or log_truth < -700 or upper[i] - log_truth <= 1e-8)
    assert close >= 0.75 * LANES


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("direction", Direction)
def test_epsilon_is_just_above_the_truth(direction: Direction, traced: bool) -> None:
    """By delta in high precision at the epsilons that are returned."""
    sigma, q, _ = _settings(2)
    log_delta = np.log(q) - 10.0 ** np.random.default_rng(3).uniform(-3, 2.3, LANES)
    kernel = Kernel(functools.partial(one_sampled_epsilon, add=direction is Direction.ADD), on_host=not traced)
    upper = kernel(log_delta, sigma, q)
    assert np.isfinite(upper).all()
    close = 0
    with mp.workdps(60):
        for i in range(LANES):
            delta = mp.exp(mp.mpf(log_delta[i]))
            assert true_delta(sigma[i], q[i], upper[i], direction) <= delta, (sigma[i], q[i], log_delta[i])
            close += upper[i] == 0.0 or true_delta(sigma[i], q[i], upper[i] * (1.0 - 1e-6), direction) >= delta
    assert close >= 0.95 * LANES


def test_epsilon_is_zero_where_delta_covers_the_probability_to_join() -> None:
    for q in (0.0, 1e-9, 0.1, 1.0):
        for add in (False, True):
            found = Kernel(functools.partial(one_sampled_epsilon, add=add), on_host=True)(
                math.log(max(q, 1e-300)) + 1e-12, 1.0, q
            )
            assert found == 0.0


def test_removal_loses_no_less_than_addition() -> None:
    sigma, q, epsilon = _settings(4)
    for s, p, e in zip(sigma[::4], q[::4], epsilon[::4], strict=True):
        with mp.workdps(60):
            assert true_delta(s, p, e, Direction.ADD) <= true_delta(s, p, e, Direction.REMOVE) * (1 + mp.mpf(10) ** -40)


def _step(sigma, q, steps=1):
    return ja.PoissonSampled(ja.Gaussian(sigma), q, steps)


QUESTIONS = {"epsilon": (ja.epsilon, DELTA), "delta": (ja.delta, 0.3)}


@pytest.mark.sample(2)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("direction", [None, *Direction])
def test_inside_a_program_it_is_what_it_is_outside(direction, question) -> None:
    ask, at = QUESTIONS[question]
    inside = jax.jit(lambda s, q: ask(_step(s, q), at, direction=direction))
    for sigma, q in ((1.0, 0.02), (0.4, 0.3), (3.0, 1e-3), (2.0, 1.0)):
        sigma, q = float(np.float32(sigma)), float(np.float32(q))
        outside = ask(_step(sigma, q), at, direction=direction)
        found = float(inside(sigma, q))
        assert outside * (1 - 1e-7) <= found <= outside * (1 + 3e-7) + 1e-37


@pytest.mark.sample(1)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("direction", Direction)
def test_derivatives_are_those_of_the_answer(direction, question) -> None:
    ask, at = QUESTIONS[question]

    def answer(s, q):
        return ask(_step(s, q), at, direction=direction)

    sigma, q, h = 0.8, 0.1, 1e-5
    found = jax.grad(answer, (0, 1))(sigma, q)
    host = functools.partial(ask, direction=direction)
    slopes = [
        (host(_step(sigma + a, q + b), at) - host(_step(sigma - a, q - b), at)) / (2 * h) for a, b in ((h, 0), (0, h))
    ]
    assert np.allclose(found, slopes, rtol=1e-4)


@pytest.mark.parametrize(("ask", "worst"), [(ja.epsilon, math.inf), (ja.delta, 1.0)])
def test_of_more_steps_than_one_it_says_nothing(ask, worst) -> None:
    found = ask(_step(1.0, 0.02, np.array([1, 2, 1000])), 0.3, method="one step")
    assert found[0] < worst
    assert found[1:].tolist() == [worst, worst]


@pytest.mark.more
def test_a_traced_number_of_steps_has_a_law_where_it_may_be_one() -> None:
    found = jax.jit(jax.vmap(lambda t: ja.epsilon(_step(1.0, 0.02, t), DELTA)))(jnp.array([1, 2, 3]))
    for i, value in enumerate(found.tolist()):
        sharp = ja.epsilon(_step(1.0, 0.02, i + 1), DELTA)
        assert sharp * (1 - 1e-6) <= value <= sharp * (1 + 1e-3)
    delta = jax.jit(lambda t: ja.delta(_step(1.0, 0.02, t), 0.7))
    for steps in (1, 1000):
        sharp = ja.delta(_step(1.0, 0.02, steps), 0.7)
        assert sharp * (1 - 1e-6) <= float(delta(float(steps))) <= sharp * (1 + 1e-2)


def test_where_it_is_flat_derivatives_are_zero() -> None:
    slope = jax.grad(lambda s: ja.epsilon(_step(s, 0.1), 0.2))
    assert float(slope(1.0)) == 0.0
    slope = jax.grad(lambda s: ja.delta(_step(s, 0.1), 0.2, direction=Direction.ADD))  # above -log 0.9
    assert float(slope(1.0)) == 0.0


@pytest.mark.more
def test_what_reads_profiles_has_it_too() -> None:
    emptied = jax.jit(lambda s: ja.epsilon(ja.ZeroOut(_step(s, 0.02)), DELTA))
    assert float(emptied(1.0)) == pytest.approx(ja.epsilon(_step(1.0, 0.02), DELTA), rel=1e-3)
    quick = ja.epsilon(_step(np.array([1.0, 2.0]), 0.02), DELTA, precision=math.inf)
    assert quick == pytest.approx([ja.epsilon(_step(s, 0.02), DELTA) for s in (1.0, 2.0)], rel=1e-9)


@pytest.mark.parametrize(("release", "epsilon"), [(ja.Gaussian(0.02), 580.0), (ja.Laplace(1 / 900), 590.0)])
def test_rates_so_small_that_the_threshold_is_no_double(release, epsilon):
    """Delta is nearly the rate; (e^epsilon - 1) / q overflowed, and nothing seemed to be lost."""
    assert ja.delta(ja.PoissonSampled(release, 1e-60, 1), epsilon) == pytest.approx(1e-60, rel=1e-3)


@pytest.mark.parametrize(("prob", "delta", "truth"), [(1e-100, 1e-101, 1082.83), (1e-300, 1e-301, 622.31)])
def test_epsilon_at_such_rates(prob, delta, truth):
    assert ja.epsilon(ja.PoissonSampled(ja.Gaussian(0.02), prob, 1), delta) == pytest.approx(truth, abs=0.01)
