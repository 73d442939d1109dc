"""Shuffled binary randomized response for one question on the host, against its tails in high precision."""

import math

import mpmath as mp
import numpy as np
import pytest
from support.shuffle_oracles import binary_response_divergence

from jaxacct.divergence.response._binary import binary_response_epsilon, binary_response_log_delta
from jaxacct.divergence.response._single_counts import response_epsilon, response_log_delta


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def _settings(seed, draws):
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        n, local = float(round(np.exp(rng.uniform(0.0, np.log(1e5))))), float(np.exp(rng.uniform(-6.0, 3.0)))
        yield n, local, rng


def _truth(n, local, epsilon):
    return mp.log(max(binary_response_divergence(int(n), local, epsilon)))


def test_delta_is_just_below_the_truth():
    for n, local, rng in _settings(3, 24):
        epsilon = float(rng.choice([0.0, 0.1, 0.5, 0.99, 1.0 - 1e-9]) * local)
        truth, got = _truth(n, local, epsilon), response_log_delta(epsilon, n, local)
        # the two epsilons as floats: their difference, over which delta is
        assert -3e-12 * (1.0 + abs(truth)) - 1e-13 / (1.0 - epsilon / local) <= got - truth <= 0.0


def test_epsilon_is_just_below_the_truth():
    for n, local, rng in _settings(4, 24):
        log_delta = float(rng.uniform(-60.0, -2.0))
        found = response_epsilon(log_delta, n, local)
        if found == 0.0:
            assert _truth(n, local, 0.0) <= log_delta * (1.0 - 1e-11)
            continue
        assert _truth(n, local, found) >= log_delta
        above = found * (1.0 + 1e-9)
        assert above >= local or _truth(n, local, above) <= log_delta


def test_a_guess_far_off_is_mended():
    """Few ones are expected: the Gaussian limit says nothing about such counts."""
    for n, local in [(1e9, 17.0), (50.0, 6.0), (1e6, 12.5), (1.0, 3.0)]:
        for log_delta in (-3.0, -12.0, -300.0):
            found = response_epsilon(log_delta, n, local)
            if found > 0.0:
                assert _truth(n, local, found) >= log_delta
            beyond = found * (1.0 + 1e-7) + 1e-12
            assert beyond >= local or _truth(n, local, beyond) <= log_delta


def test_more_reports_than_are_counted_one_by_one():
    """Beyond some 10^11 reports blocks of counts take over, as in a batch: a little lower."""
    lanes = [np.array([x]) for x in (math.log(1e-8), 2e12, 0.7)]
    with np.errstate(all="ignore"):
        blocks = float(binary_response_epsilon(*lanes, window=2**15)[0])
        single = response_epsilon(math.log(1e-8), 1e11, 0.7)
        at = [np.array([single]), np.array([1e11]), lanes[2]]
        back = float(binary_response_log_delta(*at, window=2**15)[0])
    assert 0.0 < blocks < single
    assert back >= math.log(1e-8)


def test_many_at_once_are_below_the_truth_where_epsilon_nearly_meets_the_local_one():
    """All that is left of the difference between a count and the threshold may be rounding."""
    rng = np.random.default_rng(3)
    n, local = rng.integers(1, 40, 60).astype(float), np.exp(rng.uniform(-2.0, 2.5, 60))
    epsilon = local * (1.0 - 10.0 ** rng.uniform(-15.5, -10.0, 60))
    with np.errstate(all="ignore"):
        found = binary_response_log_delta(epsilon, n, local, window=64)
    close = [
        value - _truth(*at)
        for value, *at in zip(found.tolist(), n.tolist(), local.tolist(), epsilon.tolist(), strict=True)
    ]
    assert max(close) <= 0.0
    assert sum(x > -0.1 for x in close) > 15


def test_outside_its_domain():
    for epsilon, n, local in [(-0.1, 10, 1.0), (0.1, 0, 1.0), (1.0, 10, 1.0), (0.1, 10, 0.0), (0.1, 10, 800.0)]:
        assert response_log_delta(epsilon, n, local) == -math.inf
    assert response_log_delta(math.nan, 10, 1.0) == -math.inf
    assert response_log_delta(0.1, math.nan, 1.0) == -math.inf
    for log_delta, n, local in [(0.0, 10, 1.0), (-3.0, 0, 1.0), (-3.0, 10, 0.0), (math.nan, 10, 1.0)]:
        assert response_epsilon(log_delta, n, local) == 0.0
