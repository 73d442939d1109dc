"""Poisson-sampled steps inside traced programs: ratios moved apart to the ends of cells, and the contour on them."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jaxacct.divergence._spread import NUM_NODES, Spread, log_moments, spread_line
from jaxacct.divergence.gaussian._sampled_spread import sampled_spread

import jaxacct as ja
from jaxacct._method import Query
from jaxacct.bounds import _spread as composed
from jaxacct.divergence._inversion import delta_ends, make_line

# noise multiplier, sampling probability, steps, delta
SETTINGS = [(1.0, 0.01, 1000, 1e-6), (0.6, 2.5e-4, 20_000, 1e-6), (4.0, 0.1, 10_000, 1e-9), (2.3, 8e-4, 139, 1e-8)]
RNG = np.random.default_rng(5)


def run(noise, prob, steps):
    return ja.PoissonSampled(ja.Gaussian(noise), prob, steps)


@pytest.fixture(name="wide", params=[False, True], ids=["float32", "float64"])
def _wide(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(scope="module", name="programs")
def _programs():
    """Epsilon and delta of many settings, as a program answers them."""
    epsilon = jax.jit(jax.vmap(lambda s, q, t, d: ja.epsilon(run(s, q, t), d)))
    delta = jax.jit(jax.vmap(lambda s, q, t, e: ja.delta(run(s, q, t), e)))
    return epsilon, delta


def test_epsilon_and_delta_are_as_outside(wide, programs):
    columns = [np.array(x, np.float64) for x in zip(*SETTINGS, strict=True)]
    found = programs[0](*columns)
    truth = [ja.epsilon_interval(run(s, q, t), d) for s, q, t, d in SETTINGS]
    for value, ends in zip(found, truth, strict=True):
        assert ends.lower <= float(value) <= 1.004 * ends.upper
    at = np.array([ends.upper for ends in truth])
    for value, (s, q, t, _), e in zip(programs[1](*columns[:3], at), SETTINGS, at, strict=True):
        # a float32 epsilon is another one
        ends = ja.delta_interval(run(s, q, t), e if wide else float(np.float32(e)))
        assert ends.lower <= float(value) <= 1.06 * ends.upper


def test_random_settings_are_never_below(programs):
    with jax.enable_x64(True):
        noise, prob = np.exp(RNG.uniform(np.log(0.5), np.log(6.0), 24)), np.exp(RNG.uniform(np.log(1e-4), 0.0, 24))
        steps = np.rint(np.exp(RNG.uniform(np.log(2.0), np.log(1e5), 24)))
        delta = np.exp(RNG.uniform(np.log(1e-10), np.log(1e-4), 24))
        found = np.asarray(programs[0](noise, prob, steps, delta))
    ratios = []
    for value, s, q, t, d in zip(found, noise, prob, steps, delta, strict=True):
        ends = ja.epsilon_interval(run(s, q, int(t)), d)
        assert ends.analysis_lower <= value
        ratios.append(value / ends.upper)
    assert np.median(ratios) < 1.001
    assert np.quantile(ratios, 0.9) < 1.02


def test_derivatives_are_those_of_the_value():
    slope = jax.jit(jax.grad(lambda s, q, d: ja.epsilon(run(s, q, 1000.0), d), argnums=(0, 1, 2)))
    with jax.enable_x64(True):
        found = slope(1.0, 0.01, 1e-6)

    def exact(s, q, d):
        return ja.epsilon(run(s, q, 1000), d, precision=1e-9)

    for i, derivative in enumerate(found):
        at, step = [1.0, 0.01, 1e-6], [1e-4, 1e-6, 1e-10][i]
        ends = [exact(*(x + sign * step * (j == i) for j, x in enumerate(at))) for sign in (1.0, -1.0)]
        assert float(derivative) == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=2e-3)


@pytest.mark.parametrize(
    "setting", [(0.05, 0.01), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1), (1.0, math.nan), (-1.0, 0.1)]
)
def test_outside_its_range_nothing_is_known(setting):
    with jax.enable_x64(True):
        found = jax.jit(lambda s, q: ja.epsilon(run(s, q, 10), 1e-6, method="cells"))(*setting)
        assert float(found) == np.inf
        found = jax.jit(lambda s, q: ja.delta(run(s, q, 10), 0.1, method="cells"))(*setting)
        assert float(found) == 1.0


def spread_of(noise, prob, add, log_share=-40.0):
    with jax.enable_x64(True):
        found = sampled_spread(*(jnp.array([x]) for x in (noise, prob, log_share)), jnp.array([add]))
        return Spread(*(np.asarray(x)[0] for x in found))


@pytest.mark.parametrize(("noise", "prob"), [(1.0, 0.01), (0.3, 1e-3), (5.0, 0.9), (0.1, 0.3)])
def test_moved_apart_no_convex_mean_falls(noise, prob):
    """(R - x)_+ and (1 - x R)_+, in 40 digits, at points between the ends and at them."""
    mpmath.mp.dps = 40
    mu = 1 / mpmath.mpf(noise)
    for add in (False, True):
        of = spread_of(noise, prob, add)
        ratio, mass = ([mpmath.mpf(float(x)) for x in y] for y in (of.log_ratio, of.mass))
        ratio = [mpmath.exp(x) for x in ratio]
        assert 0 < float(sum(mass)) - 1 < 1e-12
        # what lies outside the window: at 0 and at the first end, at the last end and beyond
        last = (of.log_ratio[-1] + math.log1p((prob - 1.0) * math.exp(-of.log_ratio[-1])) - math.log(prob)) * noise
        last = last + 0.5 / noise
        assert min(mass[0], mass[1]) >= mpmath.ncdf(-8.5)
        assert mass[-1] >= mpmath.ncdf(-last) * (1 - mpmath.mpf(10) ** -9)
        if not add:
            assert of.beyond >= prob * mpmath.ncdf(mu - last) * (1 - mpmath.mpf(10) ** -9)
        for z in (-7.3, -2.0, -0.013, 0.5, float(mu), float(mu) + 3.1):
            y = mpmath.exp(mu * z - mu * mu / 2)
            x = 1 - prob + prob * y
            tails = mpmath.ncdf(-z), mpmath.ncdf(mu - z)  # of Q, and of the law with the record
            if add:
                truth = (1 - tails[0]) * (1 - (1 - prob) / x) - prob / x * (1 - tails[1])
                moved = sum(m * (1 - r / x) for m, r in zip(mass, ratio, strict=True) if r < x)
            else:
                truth = (1 - prob) * tails[0] + prob * tails[1] - x * tails[0]
                moved = sum(m * (r - x) for m, r in zip(mass, ratio, strict=True) if r > x) + float(of.beyond)
            assert truth * (1 - mpmath.mpf(10) ** -13) <= moved + mpmath.mpf(10) ** -30
            assert moved <= truth * 1.02 + mpmath.mpf(10) ** -16


@pytest.mark.parametrize("blurred", [1e-9, 0.05])
def test_moments_err_by_no_more_than_is_booked(blurred):
    """Of three points, summed in 40 digits, at random heights; logarithms that err, at either end of their blur."""
    mpmath.mp.dps = 40
    log_ratio, mass, blur = np.array([[-0.7, 0.1, 1.9]]), np.array([[0.3, 0.6, 0.1]]), np.full((1, 3), blurred)
    with jax.enable_x64(True):
        of = Spread(*(jnp.asarray(x) for x in (log_ratio, mass, blur)), jnp.zeros(1))
        for add in (False, True):
            order, one = jnp.array([2.6]), jnp.ones(1)
            line = make_line(order, one, -5.0 * one, jnp.ones((4, 1)), jnp.inf * one, num_nodes=NUM_NODES)
            found = spread_line(of, line, jnp.array([add]))
            real = log_moments(of, order[None], jnp.array([add]))[0, 0]
            for move in (-blurred, 0.0, blurred):
                logs = [mpmath.mpf(float(x)) + move for x in log_ratio[0]]
                for k in (0, 1, 37, 511, 1023):
                    s = mpmath.mpc(2.6, float(line.heights[k, 0]))
                    w = 1 - s if add else s
                    truth = sum(float(m) * mpmath.exp(w * x) for m, x in zip(mass[0], logs, strict=True))
                    value = mpmath.exp(float(found.log_modulus[k, 0])) * mpmath.expj(float(found.phase[k, 0]))
                    error = float(found.error[k, 0])
                    assert abs(value - truth) <= abs(value) * mpmath.expm1(error)
                    if k == 0:
                        assert mpmath.log(abs(truth)) <= float(real) <= mpmath.log(abs(truth)) + 12.0 * blurred


def test_a_gaussian_release_more_bounds_what_does_not_decay():
    """Ten rounds of a pair of two outputs, by enumeration: moments of two points never fall."""
    p, q, count = 0.55, 0.45, 10
    with jax.enable_x64(True):
        ratio = jnp.log(jnp.array([[p / q, (1 - p) / (1 - q)]]))
        of = Spread(ratio, jnp.array([[q, 1 - q]]), jnp.full((1, 2), 1e-15), jnp.zeros(1))
        rounds, add = [(of, jnp.full(1, float(count)))], jnp.array([False])
        for epsilon in (0.0, 0.31, 1.0, 1.7):
            found = composed._upper_log_delta(rounds, add, jnp.array([epsilon]))
            truth = 0.0
            for k in range(count + 1):
                one, two = (math.comb(count, k) * x**k * (1 - x) ** (count - k) for x in (p, q))
                truth += max(one - math.exp(epsilon) * two, 0.0)
            assert truth <= math.exp(float(found[0])) <= 1.02 * truth
            line, moments, _ = composed._prepared(rounds, add, Query.DELTA, jnp.array([epsilon]))
            assert float(moments.log_decay[0, 0]) < -4.0
            undamped = moments._replace(log_decay=jnp.zeros_like(moments.log_decay))
            assert float(delta_ends(line, undamped, jnp.array([epsilon])).upper[0]) > float(found[0]) + 1e-4


def test_mass_of_infinite_loss_is_part_of_delta():
    with jax.enable_x64(True):
        of = Spread(jnp.array([[0.0, 0.2]]), jnp.array([[0.5, 0.4]]), jnp.zeros((1, 2)), jnp.full(1, 1e-7))
        rounds, add = [(of, jnp.full(1, 20.0))], jnp.array([False])
        log_delta = composed._upper_log_delta(rounds, add, jnp.full(1, 50.0))
        assert 2e-6 <= math.exp(float(log_delta[0])) < 3e-6
        assert float(composed._upper_epsilon(rounds, add, jnp.log(jnp.full(1, 2.1e-6)))[0]) == np.inf
        assert float(composed._upper_epsilon(rounds, add, jnp.log(jnp.full(1, 1e-5)))[0]) < 4.01
