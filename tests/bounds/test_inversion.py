"""Moment inversion: exact profiles of Gaussian and Poisson-sampled rounds, and each part of their certificate."""

import math
import warnings

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from support.answers import DELTA, EPSILON, forget_inversions, invert, refined

import jaxacct as ja
from jaxacct._precision import Kernel
from jaxacct.bounds._inversion import SIZES, inverts
from jaxacct.divergence._inversion import (
    _LOG_ALIAS,
    Line,
    LineMoments,
    _aliases,
    _summands,
    _trapezoid,
    alias_orders,
    delta_ends,
    make_line,
)
from jaxacct.divergence.gaussian._line import gaussian_line
from jaxacct.divergence.gaussian._sampled_line import highest_node, sampled_gaussian_line

RUNS = [
    # sigma, sampling probability, steps
    (1.0, 0.01, 10_000),
    (0.7, 0.001, 100_000),
    (2.0, 0.1, 1_000),
    (5.0, 0.01, 3_000),
    (0.8, 0.02, 3_000),
    (1.0, 1e-4, 10**6),
    (3.0, 0.5, 50),
]


def _poisson(sigma: float, prob: float, steps: int) -> ja.PoissonSampled:
    return ja.PoissonSampled(ja.Gaussian(sigma), sampling_prob=prob, num_steps=steps)


def test_composed_gaussian_between_the_ends() -> None:
    """1,000 random (sigma, count, epsilon): upper >= closed form >= lower, within 1e-11."""
    rng = np.random.default_rng(1)
    sigma = 10.0 ** rng.uniform(-0.3, 2, 1000)
    count = np.floor(10.0 ** rng.uniform(0, 4, 1000))
    mu = np.sqrt(count) / sigma
    keep = mu < 30
    sigma, count, mu = sigma[keep], count[keep], mu[keep]
    epsilon = np.maximum(mu * (0.5 * mu + rng.uniform(-1, 6, mu.size)), 0.0)
    with mp.workdps(60):
        log_truth = np.array(
            [
                float(mp.log(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)))
                for m, e in zip(map(mp.mpf, mu), map(mp.mpf, epsilon), strict=True)
            ]
        )
    ends = invert(ja.Composed((ja.Gaussian(sigma),), (count,)), DELTA, epsilon)
    with np.errstate(divide="ignore"):
        lower, upper = np.log(ends.lower), np.log(ends.upper)
    assert (lower <= log_truth[:, None]).all()
    assert (upper >= log_truth[:, None]).all()
    # where delta exceeds 0.3 the contour is squeezed against the pole at 1
    tight = log_truth < math.log(0.3)
    assert tight.sum() > 800
    assert np.median((upper - lower)[tight]) < 1e-11
    assert np.max((upper - lower)[tight]) < 1e-6


@pytest.mark.parametrize("run", [r for r in RUNS if r[2] <= 10_000])
def test_ends_agree_with_the_loss_distribution(run: tuple[float, float, int]) -> None:
    mechanism = _poisson(*run)
    found = ja.epsilon_interval(mechanism, 1e-6, precision=1e-6)
    assert found.upper - found.lower <= 1e-6 * found.lower
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = refined(mechanism, EPSILON, 1e-6, 0.05)
    assert other.lower <= found.upper
    assert found.lower <= other.upper


def _moment(sigma: float, prob: float, power: complex) -> mp.mpc:
    """By a trapezoid rule far finer than the kernel's."""
    sigma, prob, step = mp.mpf(sigma), mp.mpf(prob), mp.mpf(1) / 24
    total = mp.mpc(0)
    for k in range(-13 * 24, 45 * 24):
        z = step * k
        total += mp.npdf(z) * mp.exp(power * mp.log(1 - prob + prob * mp.exp(z / sigma - 1 / (2 * sigma**2))))
    return step * total


@pytest.mark.sample(2)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("case", [(1.0, 0.01, 4.5, 18.0), (0.7, 0.001, 5.2, 20.0), (5.0, 0.1, 20.0, 1.1)])
def test_moments_on_a_line_within_their_error(case: tuple[float, float, float, float], add: bool) -> None:
    with mp.workdps(25):
        _check_moments(case, add)


@pytest.mark.more
@pytest.mark.parametrize("add", [False, True])
def test_moments_of_too_few_nodes_within_their_error(add: bool) -> None:
    """Where the rule does not resolve the moments, its error is booked."""
    with mp.workdps(25), pytest.raises(AssertionError, match="resolved"):
        _check_moments((0.7, 0.2, 5.2, 6.0), add, num_z=48)


def _check_moments(case: tuple[float, float, float, float], add: bool, num_z: int = 512) -> None:
    sigma, prob, order, period = case

    def fn(sigma: jax.Array, prob: jax.Array, order: jax.Array, period: jax.Array) -> tuple[jax.Array, ...]:
        flags = jnp.full(sigma.shape, add)
        orders = 1.0 + jnp.asarray([[1.1], [2.0]], jnp.float64) * (order - 1.0)
        # log_delta such that the left aliases ask for `period`
        line = make_line(
            order,
            jnp.zeros_like(order),
            27.0 - period * (order - 1.0),
            jnp.zeros((4, 1), jnp.float64),
            highest_node(orders, sigma, flags, num_z=512),
            num_nodes=64,
        )
        m = sampled_gaussian_line(line, sigma, prob, flags, num_z=num_z)
        return m.log_modulus, m.phase, m.error, line.heights, m.log_decay, line.edges, m.log_alias, line.alias_orders

    modulus, phase, error, heights, decay, edges, alias, alias_orders = (
        x.reshape(-1) for x in Kernel(fn)(sigma, prob, order, period)
    )
    exact = {}
    for k in (0, 1, 7, 30, 63):
        s = mp.mpc(order, heights[k])
        truth = exact[k] = _moment(sigma, prob, 1 - s if add else s)
        found = mp.exp(mp.mpc(modulus[k], phase[k]))
        assert abs(found / truth - 1) <= math.expm1(error[k]), k
    assert error[-1] < 1e-6, "not resolved"
    assert error[0] < 1e-12
    for k in range(4):
        truth = mp.log(_moment(sigma, prob, 1 - alias_orders[k] if add else alias_orders[k]).real)
        assert truth - 1e-14 <= alias[k] <= truth * (1 + 1e-9) + 1e-12
    for k in (0, 5):
        for b in np.linspace(edges[k], edges[k + 1], 3):
            s = mp.mpc(order, b)
            size = mp.log(abs(_moment(sigma, prob, 1 - s if add else s) / exact[0].real))
            assert size <= decay[k] + 1e-12, (k, b)


@pytest.mark.more
def test_single_steps_are_wide_but_right() -> None:
    """Nearly an atom: the bracket may be wide, never wrong."""
    for sigma, prob, steps in [(1.0, 0.01, 1), (0.5, 0.001, 30), (1.0, 1e-9, 10), (0.3, 0.3, 2), (1.0, 1.0, 3)]:
        mechanism = _poisson(sigma, prob, steps)
        bound = ja.epsilon(mechanism, 1e-6, precision=math.inf)
        for size in SIZES[:2]:
            ends = invert(mechanism, EPSILON, 1e-6, size)
            assert (ends.lower <= bound).all()
            assert (ends.lower <= ends.upper).all()


@pytest.mark.more
def test_random_runs_against_renyi_and_distributions() -> None:
    rng = np.random.default_rng(5)
    sigma, prob = 10.0 ** rng.uniform(-0.4, 1, 60), 10.0 ** rng.uniform(-5, -0.3, 60)
    steps = np.floor(10.0 ** rng.uniform(0, 6, 60))
    log_delta = rng.uniform(-30, -1, 60)
    mechanism = ja.PoissonSampled(ja.Gaussian(sigma), sampling_prob=prob, num_steps=steps)
    ends = invert(mechanism, EPSILON, np.exp(log_delta))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ja.OrderEdgeWarning)
        renyi = ja.epsilon(mechanism, np.exp(log_delta), precision=math.inf)
    assert not np.isnan(ends.upper).any()
    assert (ends.lower <= ends.upper).all()
    assert (ends.lower.max(axis=1) <= renyi * (1 + 1e-12)).all()
    tight = (ends.upper.max(axis=1) - ends.lower.max(axis=1)) <= 1e-3 * ends.lower.max(axis=1)
    assert tight.mean() > 0.3
    assert (ends.upper.max(axis=1)[tight] <= renyi[tight] * (1 + 2e-3)).all()
    # delta at the epsilon found is the delta asked for
    back = invert(mechanism, DELTA, ends.upper.max(axis=1))
    assert (back.lower.max(axis=1)[tight] <= np.exp(log_delta)[tight] * (1 + 1e-9)).all()


def test_newton_stays_at_the_root() -> None:
    """Rounding, not the same in programs compiled quickly and well, may point out of the bracket there."""
    mechanism = _poisson(1.1, 0.01, 1000)
    forget_inversions()
    for delta in 1e-5 * np.arange(1.0, 17.0):
        ends = invert(mechanism, EPSILON, float(delta))
        assert ends.upper[1] - ends.lower[1] <= 1e-7 * ends.lower[1], delta


@pytest.mark.more
def test_mixed_rounds_and_their_equivalents() -> None:
    poisson = _poisson(1.0, 0.01, 5_000)
    twice = invert(ja.Composed((poisson, poisson), (1, 1)), EPSILON, 1e-6)
    once = invert(_poisson(1.0, 0.01, 10_000), EPSILON, 1e-6)
    np.testing.assert_allclose(twice.upper, once.upper, rtol=1e-11)
    mixed = ja.Composed((poisson, ja.Gaussian(4.0)), (1, 3))
    found = invert(mixed, EPSILON, 1e-6)
    np.testing.assert_allclose(found.lower, found.upper, rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = ja.epsilon_interval(mixed, 1e-6, precision=1e-3)
    assert other.lower <= found.upper.max()
    assert found.lower.max() <= other.upper


def test_inside_a_float32_program() -> None:
    """jit rounds outward to the user's float32; the gradient is that of the exact curve."""
    mechanism = _poisson(1.0, 0.01, 10_000)
    exact = invert(mechanism, EPSILON, 1e-6)

    def upper(sigma: jax.Array) -> jax.Array:
        return invert(ja.PoissonSampled(ja.Gaussian(sigma), 0.01, 10_000), EPSILON, 1e-6).upper[0]

    value, slope = jax.jit(jax.value_and_grad(upper))(1.0)
    assert value.dtype == jnp.float32
    assert exact.upper[0] <= float(value) <= exact.upper[0] * (1 + 2e-7)
    step = 1e-4
    around = [float(invert(_poisson(s, 0.01, 10_000), EPSILON, 1e-6).upper[0]) for s in (1 + step, 1 - step)]
    assert float(slope) == pytest.approx((around[0] - around[1]) / (2 * step), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise_multiplier", "sampling_prob", "target_delta", "epsilon"])
def test_exact_derivatives_in_a_float32_program(name: str) -> None:
    """First and second, of epsilon and delta, against differences of concrete answers."""
    at = {"noise_multiplier": 1.0, "sampling_prob": 0.01, "target_delta": 1e-6, "epsilon": 6.9}

    def answer(x: jax.Array | float) -> jax.Array:
        point = {**at, name: x}
        run = ja.PoissonSampled(ja.Gaussian(point["noise_multiplier"]), point["sampling_prob"], 10_000)
        if name == "epsilon":
            return ja.delta(run, point["epsilon"], method="exact")
        return ja.epsilon(run, point["target_delta"], method="exact")

    x, step = at[name], 1e-3 * at[name]
    below, middle, above = (answer(x + k * step) for k in (-1, 0, 1))
    slope, second = jax.jit(lambda v: (jax.grad(answer)(v), jax.grad(jax.grad(answer))(v)))(x)
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-3)
    np.testing.assert_allclose(second, (above - 2 * middle + below) / step**2, rtol=1e-2)


@pytest.mark.more
def test_slopes_of_delta_are_those_of_differences() -> None:
    """In noise and epsilon, inside a program, at settings where the steps of the certificate have no derivative."""

    def answer(sigma: jax.Array, prob: jax.Array, steps: jax.Array, epsilon: jax.Array) -> jax.Array:
        return ja.delta(ja.PoissonSampled(ja.Gaussian(sigma), prob, steps), epsilon, method="exact")

    settings = [(1.0, 0.01, 1000.0, 2.0), (0.7, 1e-3, 1e5, 4.0), (3.0, 0.05, 200.0, 0.3), (1.0, 0.01, 1000.0, 0.0)]
    with jax.enable_x64(True):
        slopes = jax.jit(jax.vmap(jax.grad(answer, argnums=(0, 3))))(*map(jnp.array, zip(*settings, strict=True)))
    for at, *found in zip(settings, *slopes, strict=True):
        for place, slope in zip((0, 3), found, strict=True):
            step = 1e-4 * at[place]
            if step:
                below, above = (answer(*(x + k * step * (i == place) for i, x in enumerate(at))) for k in (-1, 1))
                np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-4)


def test_what_inverts() -> None:
    assert inverts(ja.Composed((ja.Gaussian(1.0), _poisson(1.0, 0.1, 3)), (1, 2)))
    assert not inverts(ja.PoissonSampled(ja.Laplace(1.0), sampling_prob=0.1, num_steps=3))
    assert not inverts(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=10))


def _gaussian_sum(period: float, num_nodes: int, epsilon: float = 2.0) -> tuple[float, ...]:
    """At noise multiplier 1 and order 4: the trapezoid sum, what is booked for errors and for aliases, and delta."""

    def fn(period: jax.Array, epsilon: jax.Array) -> tuple[jax.Array, ...]:
        order = jnp.full_like(period, 4.0)
        c = alias_orders(order)
        # log_delta such that the aliases ask for just this period
        line = make_line(
            order, epsilon, -period * 3.0 - _LOG_ALIAS, 0.0 * c, jnp.full_like(period, jnp.inf), num_nodes=num_nodes
        )
        line = line._replace(period=period, heights=2.0 * jnp.pi / period * jnp.arange(num_nodes, dtype=float)[:, None])
        line = line._replace(edges=num_nodes * 2.0 * jnp.pi / period * 1.25 ** jnp.arange(64, dtype=float)[:, None])
        moments = gaussian_line(line, jnp.ones_like(period))
        found = _trapezoid(line, _summands(line, moments), epsilon)
        shift = moments.log_modulus[0] + epsilon * (1.0 - order)
        ends = delta_ends(line, moments, epsilon)
        scale = jnp.exp(shift)
        aliases = jnp.exp(_aliases(line, moments, epsilon))
        return found.value * scale, found.error * scale, aliases, jnp.exp(ends.lower), jnp.exp(ends.upper)

    with mp.workdps(40):
        half = mp.mpf(1) / 2
        truth = float(mp.ncdf(half - epsilon) - mp.exp(epsilon) * mp.ncdf(-half - epsilon))
    return (*(float(x) for x in Kernel(fn)(period, epsilon)), truth)


def test_the_bound_on_aliases_is_rounded_up_and_no_more_at_any_order() -> None:
    rng = np.random.default_rng(3)
    num = 300
    order = 1.0 + 10.0 ** rng.uniform(-12.0, 3.0, num)
    falls = 10.0 ** rng.uniform(0.0, 2.3, num)
    line = Line(order, falls / (order - 1.0), *(np.zeros((1, num)),) * 3, 1.0 + 2.0 * (order - 1.0)[None])
    epsilon = 10.0 ** rng.uniform(-3.0, 2.0, num)
    log_alias = ((line.alias_orders - 1.0) * epsilon + rng.normal(0.0, 30.0, num))[0]
    moments = LineMoments(*(np.zeros((1, num)),) * 3, log_alias[None], np.zeros((1, num)))
    found = _aliases(line, moments, epsilon)
    with mp.workdps(60):

        def geometric(fall: mp.mpf) -> mp.mpf:
            return -fall - mp.log1p(-mp.exp(-fall))

        for a, period, c, e, m, value in zip(
            order, line.period, line.alias_orders[0], epsilon, log_alias, found, strict=True
        ):
            a, period, c, e, m = (mp.mpf(float(x)) for x in (a, period, c, e, m))
            right = m - (c - 1) * e + c * mp.log(1 - 1 / c) - mp.log(c - 1) + geometric((c - a) * period)
            truth = mp.log(mp.exp(geometric((a - 1) * period)) + mp.exp(right))
            size = 1 + abs(m) + (c - 1) * e + mp.log(c) + (c - a) * period
            assert truth <= float(value) <= truth + size / 2**46


def test_each_booked_error_is_needed() -> None:
    """Without its allowance for aliases, or for what lies beyond the last node, the bracket would miss delta."""
    value, above, aliases, lower, upper, truth = _gaussian_sum(period=3.0, num_nodes=64)
    assert value - above > truth * (1 + 1e-6)  # the aliases are all above: a lower end without them would be too large
    assert value - above - aliases <= truth
    assert lower <= truth <= upper
    value, above, aliases, lower, upper, truth = _gaussian_sum(period=30.0, num_nodes=9)
    assert abs(value - truth) > 1e-3 * truth  # cut off: without the tail both ends would be wrong
    assert abs(value - truth) <= above
    assert lower <= truth <= upper
    value, above, aliases, lower, upper, truth = _gaussian_sum(period=30.0, num_nodes=128)
    assert lower <= truth <= upper <= lower * (1 + 1e-10)
