"""Pairs with two outputs over up to 10^8 rounds: types in a window, against sums in 60 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.bounds import discrete
from jaxacct.bounds.discrete import types_delta
from jaxacct.special import binomial_window, log_binomial_weights

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
MOST = 400  # how often the rare output occurs at most, but for 1e-200 of the mass


def weights(num_steps, rare):
    """C(t, n) q^n (1 - q)^(t - n) for n up to MOST."""
    term = (1 - rare) ** num_steps
    for n in range(min(num_steps, MOST) + 1):
        yield term
        term = term * (num_steps - n) / (n + 1) * rare / (1 - rare)


def hockey_stick(num_steps, p, q, epsilon, direction):
    """Of one step of t, the rare output first."""
    total, e = mp.mpf(0), mp.exp(epsilon)
    for n, weight in enumerate(weights(num_steps, q)):
        ratio = (n * p / q + (num_steps - n) * (1 - p) / (1 - q)) / num_steps
        total += weight * max(0, ratio - e if direction is REMOVE else 1 - e * ratio)
    return total


@pytest.mark.parametrize("direction", list(ja.Direction))
@pytest.mark.parametrize("num_steps", [10**5, 3 * 10**6, 10**7, 10**8])
def test_allocation_of_rare_outputs(num_steps, direction):
    """Both ends, by types and by what is answered, where an output has no mass under P too."""
    rng = np.random.default_rng(num_steps % 97)
    for p in (1.0, float(rng.uniform(0.1, 0.9)), 0.0):
        q = float(rng.uniform(0.5, 5.0)) / num_steps
        q = 1.0 - (1.0 - q)  # so that both doubles add up to 1
        run = ja.RandomAllocation(ja.DiscretePair((p, 1.0 - p), (q, 1.0 - q)), num_steps)
        for epsilon in (0.0, 0.1, math.log(num_steps * q) + 1.0):
            epsilon = max(0.0, epsilon)
            lower, upper = (types_delta(run, epsilon, direction, upper=end) for end in (False, True))
            with mp.workdps(60):
                truth = hockey_stick(num_steps, mp.mpf(p), mp.mpf(q), mp.mpf(epsilon), direction)
                assert lower <= truth * (1 + mp.mpf(2) ** -53)  # 1 - p rounds
                assert truth * (1 - mp.mpf(2) ** -53) <= upper
            assert upper - lower <= 1e-8 * upper + 2e-12
            if lower > 1e-290:
                assert lower <= ja.delta_interval(run, epsilon).upper
    assert (
        types_delta(ja.RandomAllocation(ja.DiscretePair((0.5, 0.5), (0.3, 0.7)), 10**6), 0.52, ADD, upper=True) == 0.0
    )


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_windows_leave_out_nothing_that_counts(direction, monkeypatch):
    """The same runs with and without: compositions, sampled ones, epochs; probabilities of 0 among them."""
    even, sure = ja.DiscretePair((0.51, 0.49), (0.5, 0.5)), ja.DiscretePair((1.0, 0.0), (0.9995, 0.0005))
    runs = (
        ja.Composed(even, 3000),
        ja.Composed(sure, 3000),
        ja.PoissonSampled(even, 0.3, 2000),
        ja.RandomAllocation(even, 3000),
        ja.RandomAllocation(sure, 3000),
        ja.Composed((even, sure), (200, 100)),
    )
    for run in runs:
        for epsilon in (0.0, 0.3, 2.0):
            monkeypatch.setattr(discrete, "_LONG", 2**16)
            discrete._types.cache_clear()
            whole = [types_delta(run, epsilon, direction, upper=end) for end in (False, True)]
            monkeypatch.setattr(discrete, "_LONG", 50)
            discrete._types.cache_clear()
            assert discrete.has_types(run)
            lower, upper = (types_delta(run, epsilon, direction, upper=end) for end in (False, True))
            assert lower <= whole[1] * (1 + 1e-15)
            assert whole[0] <= upper * (1 + 1e-15)
            assert upper - lower <= 1e-8 * upper + 2e-12
    discrete._types.cache_clear()


@pytest.mark.parametrize(("num_trials", "first"), [(1, 0.4), (10, 0.3), (3 * 10**6, 6e-7), (10**8, 0.5), (10**8, 1e-8)])
def test_binomial_weights(num_trials, first):
    second = 1.0 - first
    counts = binomial_window(num_trials, first, second, 700.0)
    found, error = log_binomial_weights(num_trials, first, second, counts)
    rng = np.random.default_rng(1)
    with mp.workdps(40):
        for i in {0, len(counts) - 1, *(int(x) for x in rng.integers(0, len(counts), size=12))}:
            k, rest = int(counts[i]), num_trials - int(counts[i])
            truth = mp.loggamma(num_trials + 1) - mp.loggamma(k + 1) - mp.loggamma(rest + 1)
            truth += k * mp.log(mp.mpf(first)) + rest * mp.log(mp.mpf(second))
            assert abs(mp.mpf(float(found[i])) - truth) <= error
    assert error < 2e-9
    for k, edge in ((0, counts[0]), (-1, counts[-1])):
        assert edge in (0, num_trials) or found[k] < -700.0
