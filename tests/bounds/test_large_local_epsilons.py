"""Several rounds of reports that tell everything, or nearly so, against sums over what two users send."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja


def response_delta(local: float, num_rounds: int, epsilon: float) -> mp.mpf:
    """Of that many binary responses of the same user: k of them are true, with odds e^(local (2 k - rounds))."""
    with mp.workdps(60):
        true = 1 / (1 + mp.exp(-mp.mpf(local)))
        total = mp.mpf(0)
        for k in range(num_rounds + 1):
            mass = mp.binomial(num_rounds, k) * true**k * (1 - true) ** (num_rounds - k)
            total += mass * max(mp.mpf(0), 1 - mp.exp(epsilon - local * (2 * k - num_rounds)))
        return total


@pytest.mark.parametrize("local", [300.0, 354.0, 356.0, 500.0, 600.0])
def test_profiles_to_large_losses(local: float) -> None:
    """From 355 nats on the two ends of the grid were further apart than the exponent of a double."""
    profile = [float(response_delta(local, 1, loss)) for loss in range(math.ceil(local) + 3)]
    upper = np.minimum(np.array(profile) * (1.0 + 1e-15), 1.0)
    found = ja.dominating_pld(1.0, upper, upper, ja.Direction.REMOVE)
    for epsilon in (1.0, 0.5 * local, local - 1.0, local - 0.25):
        exact = response_delta(local, 1, epsilon)
        assert exact <= found.delta(epsilon) <= 1.0
    assert ja.compose(found, 2).delta(local + 1.0) >= response_delta(local, 2, local + 1.0)


@pytest.mark.parametrize("num_rounds", [1, *(pytest.param(n, marks=pytest.mark.more) for n in (2, 3))])
def test_an_output_that_one_input_never_gives(num_rounds: int) -> None:
    """Two users, of whom the other sends what the first might: enumeration, below the upper end and above the lower."""
    rows = ((0.5, 0.5), (0.0, 1.0))
    run = ja.Shuffled(ja.FiniteRandomizer(rows), 2, num_rounds)
    missed = 1.0  # by the best test of one pair of data that is wrong with probability 0.1
    for epsilon in (0.0, 0.5):
        exact = 0.0
        for other, (first, second) in itertools.product(rows, (rows, rows[::-1])):
            laws = [np.convolve(first, other), np.convolve(second, other)]
            p, q = (np.array([math.prod(x) for x in itertools.product(law, repeat=num_rounds)]) for law in laws)
            exact = max(exact, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
            slopes = np.append(0.0, p[q > 0] / q[q > 0])
            missed = min(missed, 1.0 - min(0.1 * c + np.maximum(p - c * q, 0.0).sum() for c in slopes))
        found = ja.delta_interval(run, epsilon)
        assert found.lower * (1.0 - 1e-12) <= exact <= found.upper
    assert ja.epsilon(run, 1e-6) == math.inf
    assert ja.pld(run).delta(100.0) == 1.0
    assert 0.0 <= ja.tradeoff(run, 0.1) <= missed
    assert all(e.value == math.inf for e in ja.compare(run, 1e-6) if e.bound is ja.Bound.UPPER)


def test_rounds_of_responses_that_are_nearly_always_true() -> None:
    run = ja.Shuffled(ja.LocalRandomizer(500.0), 1, 3)
    exact = response_delta(500.0, 3, 1400.0)
    assert exact <= ja.delta(run, 1400.0)
    assert ja.epsilon(run, 0.5) >= 1499.0
