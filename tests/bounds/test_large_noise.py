"""Random allocation of Gaussian steps of large noise, against integrals of the product of its two factors."""

import functools
import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._types import Ends
from jaxacct.bounds.allocation import _large_noise as large

_METHOD = "large noise"


@pytest.fixture(autouse=True)
def _overflows_fail_closed():
    """As in the method itself."""
    with np.errstate(all="ignore"):
        yield


def _pair(epsilon, mu):
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def _delta(noise, epsilon, direction):
    """One of two steps: W = cosh(r / sigma^2) e^{-1/(4 sigma^2)}, r ~ N(0, sigma^2 / 2), and mu = 1/(sigma sqrt 2)."""
    sigma = mp.mpf(noise)
    mu = 1 / (sigma * mp.sqrt(2))

    def part(z):
        log_w = mp.log(mp.cosh(z / (sigma * mp.sqrt(2)))) - 1 / (4 * sigma**2)
        if direction is ja.Direction.REMOVE:
            given = mp.exp(log_w) * _pair(epsilon - log_w, mu)
        else:
            given = _pair(epsilon + log_w, mu)  # H_{1/(1/w)}: 1 - g w G, where u is -log G
        return given * mp.npdf(z)

    return 2 * mp.quad(part, [0, 2, 5, 14], maxdegree=5)


def _bracket(noise, num_steps, epsilon):
    mu = 1.0 / (noise * math.sqrt(num_steps))
    return large._delta(
        epsilon, Ends(mu * (1 - 1e-15), mu * (1 + 1e-15)), functools.partial(large._factor, noise, num_steps, 1.0, 1.0)
    )


@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize(("noise", "deviations"), [(100.0, 0.0), (100.0, 3.0), (1000.0, 5.0), (1e6, 2.0)])
def test_delta_of_one_of_two_steps(noise, deviations, direction):
    epsilon = deviations / (noise * math.sqrt(2.0))
    with mp.workdps(25):
        truth = _delta(noise, mp.mpf(epsilon), direction)
        lower, upper = _bracket(noise, 2.0, epsilon)
        assert lower <= truth <= upper <= truth * (1 + 3 * (1 + mp.mpf(deviations)) ** 2 / mp.mpf(noise) ** 2 + 1e-7)


@pytest.mark.parametrize(("noise", "num_steps"), [(100.0, 1000), (200.0, 1000), (1000.0, 10**6)])
def test_bracket_holds_the_exact_value(noise, num_steps):
    run = ja.RandomAllocation(ja.Gaussian(noise), num_steps)
    for delta in (1e-6, 1e-8):
        exact = ja.epsilon(run, delta, method="exact")
        assert exact * (1 - 1e-6) <= ja.epsilon(run, delta, method=_METHOD) <= exact * (1 + 2.0 / noise)
        at = max(exact, 0.1 / (noise * math.sqrt(num_steps)))
        assert ja.delta(run, at, method=_METHOD) >= ja.delta(run, at, method="exact") * (1 - 1e-6)


@pytest.mark.parametrize(("selected", "epochs"), [(1, 1), (1, 7), (3, 1), (30, 2), (999, 1), (1000, 3)])
@pytest.mark.parametrize("noise", [100.0, 1e4, 1e9])
def test_ends_are_close(noise, selected, epochs):
    found = ja.epsilon_interval(ja.RandomAllocation(ja.Gaussian(noise), 1000, selected, epochs), 1e-3 / noise)
    assert 0.0 < found.lower <= found.upper <= found.lower * 1.001
    alike = ja.epsilon(ja.Gaussian(noise / selected * math.sqrt(1000 / epochs)), 1e-3 / noise)
    assert found.lower >= alike * (1 - 1e-9)
    assert found.upper <= alike * (1 + 0.1 / noise + 1e-5)


def _factor(noise, num_steps, selected=1.0, epochs=1.0):
    return large._factor(noise, num_steps, selected, epochs, 1e-9)


@pytest.mark.parametrize("noise", [20.0, 100.0])
def test_variance_of_the_factor(noise):
    """Of k = 1: 1 + v = (e^l + t - 1)/t e^{-l/t}; of others by the law of the number of steps shared."""
    with mp.workdps(40):
        rate = 1 / mp.mpf(noise) ** 2
        for t, k in ((2, 1), (50, 1), (10, 4), (10, 9)):
            shared = [mp.binomial(k, j) * mp.binomial(t - k, k - j) / mp.binomial(t, k) for j in range(k + 1)]
            square = sum(p * mp.exp(j * rate) for j, p in enumerate(shared)) * mp.exp(-k * k * rate / t)
            for epochs in (1, 5):
                assert (
                    square**epochs - 1
                    <= _factor(noise, t, k, epochs).variance
                    <= (square**epochs - 1) * 1.1 * (t - 1) / (t - k)
                )


@pytest.mark.parametrize("noise", [20.0, 100.0])
def test_tail_of_the_factor(noise):
    """Of one of two steps; all of W - w, where outliers are counted besides."""
    factor, sigma = _factor(noise, 2.0), mp.mpf(noise)
    with mp.workdps(40):
        for x in (2.0 / noise**2, 8.0 / noise**2):
            reach = sigma * mp.sqrt(2) * mp.acosh((1 + mp.mpf(x)) * mp.exp(1 / (4 * sigma**2)))
            tilted = mp.ncdf(1 / (sigma * mp.sqrt(2)) - reach) + mp.ncdf(-1 / (sigma * mp.sqrt(2)) - reach)
            truth = tilted - 2 * (1 + mp.mpf(x)) * mp.ncdf(-reach)
            assert 0 < truth <= factor.above(np.array([x]))[0] + factor.outliers
            assert factor.above(np.array([x]))[0] <= 1e5 * truth


@pytest.mark.parametrize("num_steps", [3.0, 20.0, 200.0])
def test_tail_by_the_chi_square_law(num_steps):
    """E (V - w)_+ for V = exp(A (e^h X - (t - 1))), which is as large as W can be without outliers."""
    factor = _factor(100.0, num_steps)
    for deviations in (2.0, 6.0):
        x = deviations * math.sqrt(factor.variance)
        rate, half = factor.scale * factor.stretch, mp.mpf(factor.num) / 2
        least = (mp.log1p(x) + factor.scale * factor.excess) / rate

        def above(z, rate=rate, half=half, x=x):
            law = mp.exp((half - 1) * mp.log(z / 2) - z / 2) / (2 * mp.gamma(half))
            return (mp.exp(rate * z - factor.scale * factor.excess) - 1 - x) * law

        truth = mp.quad(above, [least, 2 * least, 4 * least, 16 * least])
        assert 0 < truth <= factor.above(np.array([x]))[0] <= 100 * truth


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("noise", [100.0, 3000.0])
def test_intervals_cover_the_integral(noise, is_far):
    """Of the lesser of Scarf's bound and the tail's, by cells a thousand times as small."""
    factor, mu = _factor(noise, 20.0), 1.0 / (noise * math.sqrt(20.0))
    epsilon, root = 4.0 * mu * is_far, math.sqrt(factor.variance)
    edges = np.concatenate([[1e-9 * root], np.geomspace(1e-6 * root, 0.999, 40_000)])
    low, high, x = edges[:-1], edges[1:], np.sqrt(edges[:-1] * edges[1:])
    tail = np.where(low > math.expm1(factor.scale * factor.excess), factor.above(x), np.inf)
    total = 0.0
    for sign in (1.0, -1.0):
        size = root * (1.0 + x * (sign > 0.0))
        u = epsilon - np.log1p(sign * x)
        density = np.exp(-0.5 * ((u - 0.5 * mu * mu) / mu) ** 2) / (mu * math.sqrt(2.0 * math.pi))
        height = np.fmin(0.5 * (np.hypot(x, size) - x), tail)
        total += float(np.sum(height * density * (high - low) / (1.0 + sign * x)))
    found = large._excess(epsilon, mu, factor) - factor.outliers
    assert total * (1 - 1e-3) <= found <= 1.3 * total + 1e-300


def test_every_step_selected_is_one_gaussian_release():
    run = ja.RandomAllocation(ja.Gaussian(200.0), 50, 50, 2)
    alike = ja.Gaussian(20.0)
    assert ja.epsilon(run, 1e-6, method=_METHOD) == pytest.approx(ja.epsilon(alike, 1e-6), rel=1e-9)
    assert large._excess(0.1, 0.05, _factor(200.0, 50.0, 50.0, 2.0)) == 0.0


def test_outliers_are_counted():
    factor = _factor(100.0, 1000.0)
    more = functools.partial(factor._replace, outliers=1e-3)
    assert large._excess(1e-3, 3e-4, more()) >= 1e-3


def test_it_says_nothing_of_less_noise():
    with pytest.raises(ValueError, match="method='large noise'"):
        ja.epsilon(ja.RandomAllocation(ja.Gaussian(99.0), 10), 1e-6, method=_METHOD)
