"""Batches of a shuffled list: both ends against quadrature, closed forms and Monte Carlo."""

import math

import jax
import mpmath
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import training

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD


def two_batches(sigma, epsilon, direction):
    """The delta of the pair behind the lower end, two batches, by a trapezoid in the plane: its kink errs by 2e-6."""
    step = sigma / 96.0
    y = np.arange(-6.0 * sigma, 2.0 + 6.0 * sigma, step)
    density = {m: np.exp(-0.5 * ((y - m) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi)) for m in (0.0, 1.0, 2.0)}

    def law(mean):
        return 0.5 * (np.outer(density[mean], density[0.0]) + np.outer(density[0.0], density[mean]))

    first, second = (law(2.0), law(1.0)) if direction is REMOVE else (law(1.0), law(2.0))
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * step * step)


def lower(run, direction, *, target_epsilon):
    entries = ja.compare(run, target_epsilon=target_epsilon)
    (entry,) = (e for e in entries if e.bound is ja.Bound.LOWER and e.direction is direction)
    return entry.value


@pytest.mark.parametrize("sigma", [0.4, 0.8, 1.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_two_batches(sigma, epsilon, direction):
    true = two_batches(sigma, epsilon, direction)
    run = ja.ShuffledBatches(ja.Gaussian(sigma), 2)
    found = lower(run, direction, target_epsilon=epsilon)
    assert found <= true + 5e-6
    assert true <= ja.delta(run, epsilon, direction=direction) + 5e-6
    if direction is REMOVE and sigma < 1.0:
        assert found >= 0.5 * true  # a test by one threshold loses something


@pytest.mark.parametrize("epochs", [1, 2, 7, 40])
@pytest.mark.parametrize("sigma", [0.7, 2.0, 6.0])
def test_one_batch_is_the_gaussian_mechanism(sigma, epochs):
    run, true = ja.ShuffledBatches(ja.Gaussian(sigma), 1, epochs), ja.Composed(ja.Gaussian(sigma), epochs)
    for target in (1e-9, 1e-5, 0.01):
        found = ja.epsilon_interval(run, target)
        assert found.lower <= ja.epsilon(true, target) * (1.0 + 1e-12)
        assert found.upper == pytest.approx(ja.epsilon(true, target), rel=1e-9)


def coins_delta(sigma, steps, epochs, threshold, epsilon):
    """The delta of counting the epochs in which an output is above a threshold, remove, in 40 digits."""
    with mpmath.workdps(40):
        z, mu = mpmath.mpf(threshold), 1 / mpmath.mpf(sigma)
        p = 1 - mpmath.ncdf(z - 2 * mu) * mpmath.ncdf(z) ** (steps - 1)
        q = 1 - mpmath.ncdf(z - mu) * mpmath.ncdf(z) ** (steps - 1)
        total = mpmath.mpf(0)
        for n in range(epochs + 1):
            ways = mpmath.binomial(epochs, n)
            gain = p**n * (1 - p) ** (epochs - n) - mpmath.exp(epsilon) * q**n * (1 - q) ** (epochs - n)
            total += max(ways * gain, 0)
        return total


@pytest.mark.parametrize(("sigma", "steps", "epochs"), [(0.6, 50, 4), (1.0, 1000, 10), (2.5, 20, 60)])
@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_coins(sigma, steps, epochs, epsilon):
    """No more than the best threshold gives, and not much less."""
    run = ja.ShuffledBatches(ja.Gaussian(sigma), steps, epochs)
    found = lower(run, REMOVE, target_epsilon=epsilon)
    best = max(coins_delta(sigma, steps, epochs, z, epsilon) for z in np.linspace(0.5, 7.0, 131))
    assert found <= best * (1 + mpmath.mpf("1e-3"))  # of the thresholds between those tried here
    assert found >= 0.8 * best


def test_coins_are_rounded_down():
    """Each coin's bound against the same coin in 40 digits."""
    from jaxacct._method import Bracketing, Query
    from jaxacct._types import Ends
    from jaxacct.bounds.allocation._largest_output import tests_of
    from jaxacct.bounds.shuffled_batches import _coins, _of_coins, _run

    run, epochs = ja.ShuffledBatches(ja.Gaussian(0.9), 300), 25
    at = Bracketing(width=0.01, known={REMOVE: Ends(0.0, 1.0)}, wants_lower=True, ask=None)
    z = tests_of(_run(run, 1), -6.0, 38.0).z
    coins = _coins(run, REMOVE)
    assert coins
    for coin in coins:
        threshold = min(z, key=lambda x: abs(coins_delta(0.9, 300, 1, x, 0.0) - (coin.with_it[0] - coin.without[0])))
        for epsilon in (0.0, 0.5, 2.0):
            found = _of_coins(coin, epochs, Query.DELTA, epsilon, REMOVE, at)
            true = coins_delta(0.9, 300, epochs, float(threshold), epsilon)
            assert found <= true
            assert found == pytest.approx(float(true), rel=1e-9)


def test_monte_carlo():
    """The loss of the pair itself, sampled: the mean of (1 - e^(eps - loss))_+ is its delta, remove."""
    rng, sigma, steps, epsilon, num = np.random.default_rng(1), 0.8, 30, 1.0, 40_000
    y = rng.normal(0.0, sigma, (num, steps))
    y[:, 0] += 2.0
    logs = [np.logaddexp.reduce((m * y - 0.5 * m * m) / sigma**2, axis=1) for m in (2.0, 1.0)]
    gains = np.maximum(-np.expm1(epsilon - (logs[0] - logs[1])), 0.0)
    found = ja.delta_interval(ja.ShuffledBatches(ja.Gaussian(sigma), steps), epsilon)
    assert found.lower <= gains.mean() + 5.0 * gains.std() / math.sqrt(num)
    assert found.upper >= gains.mean() - 5.0 * gains.std() / math.sqrt(num)
    assert found.lower >= 0.5 * gains.mean()


def test_ends_are_in_order():
    rng = np.random.default_rng(0)
    for _ in range(60):
        noise, steps, epochs = np.exp(rng.uniform([-1.2, 0.0, 0.0], [2.0, 14.0, 6.0]))
        run = ja.ShuffledBatches(ja.Gaussian(noise), int(steps), int(epochs))
        found = ja.epsilon_interval(run, 10.0 ** rng.uniform(-12, -2))
        assert 0.0 <= found.lower <= found.upper < math.inf


def test_more_private_than_it_is_said_to_be():
    """The published pitfall: the certified lower end lies above what Poisson sampling is accounted for."""
    run = ja.ShuffledBatches(ja.Gaussian(1.0), 1000)
    found = ja.epsilon_interval(run, 1e-6)
    assert (round(found.lower, 2), round(found.upper, 2)) == (3.72, 4.89)
    assert ja.epsilon(run.poisson_at_same_rate(), 1e-6) < found.lower


@pytest.mark.parametrize(("records", "steps"), [(100, 10), (103, 10), (7, 7)])
def test_batches_are_an_order_cut(records, steps):
    data = training.batches(ja.ShuffledBatches(ja.Gaussian(1.0), steps, 2), records, jax.random.key(0))
    epochs = []
    for epoch in range(2):
        drawn = [np.asarray(i)[np.asarray(m)] for i, m in (data[epoch * steps + j] for j in range(steps))]
        assert sorted(np.concatenate(drawn)) == list(range(records))
        assert {len(batch) for batch in drawn} <= {records // steps, -(-records // steps)}
        epochs.append(np.concatenate(drawn).tolist())
    if records > 10:
        assert epochs[0] != epochs[1]


def test_a_step_spends_an_epoch():
    run = ja.ShuffledBatches(ja.Gaussian(2.0), 50, 3)
    for number, epochs in ((1, 1), (50, 1), (51, 2), (150, 3)):
        assert run.releases(number) == (((ja.ShuffledBatches(ja.Gaussian(2.0), 50, epochs), 1),),)


def test_where_no_coin_is_left_the_test_of_all_outputs_answers():
    """With little noise either side of a coin is 0 in doubles."""
    found = ja.delta_interval(ja.ShuffledBatches(ja.Gaussian(0.02), 10, 2), 1.0)
    assert 0.999 < found.lower <= found.upper <= 1.0
