"""Users with several records: the law of how many are drawn, and what its mixtures lose, beside sums over all coins."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import jaxacct as ja

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
TOL_RULE = 1e-9  # absolute, of deltas by a rule on a fine grid


def _by_all_coins(num_records, prob, most):
    """The law of how many records are kept, by every outcome of the coins."""
    law = np.zeros(min(most, num_records) + 1)
    for coins in itertools.product((0, 1), repeat=num_records):
        heads = sum(coins)
        law[min(heads, most)] += prob**heads * (1 - prob) ** (num_records - heads)
    return law


def _densities(noise, law, z):
    """Of a step's output with the user and without, at z."""
    without = stats.norm.pdf(z, scale=noise)
    return sum(share * stats.norm.pdf(z, loc=n, scale=noise) for n, share in enumerate(law)), without


def _delta(noise, law, epsilon, steps, direction):
    """By the definition, over the outputs of one or two steps whose user adds as much as may be."""
    z = np.linspace(-14 * noise, 14 * noise + len(law), 4001 if steps == 2 else 400_001)
    p, q = _densities(noise, law, z)
    if direction is ADD:
        p, q = q, p
    for _ in range(steps - 1):
        p, q = np.multiply.outer(p, p), np.multiply.outer(q, q)
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (z[1] - z[0]) ** steps


@pytest.mark.sample(5)
@pytest.mark.parametrize("direction", [REMOVE, ADD])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    ("noise", "num_records", "prob", "most"), [(1.0, 5, 0.1, 5), (0.8, 6, 0.3, 2), (2.0, 4, 0.5, 1), (1.5, 1, 0.2, 3)]
)
def test_deltas_are_those_of_the_user_that_adds_most(noise, num_records, prob, most, steps, direction):
    step = ja.MixtureOfGaussians.of_user(noise, num_records=num_records, sampling_prob=prob, most_records=most)
    law = _by_all_coins(num_records, prob, most)
    np.testing.assert_allclose(step.probabilities, law, rtol=1e-12)
    run = ja.Composed(step, steps)
    upper, lower = (ja.pld(run, direction=direction, bound=b) for b in (ja.Bound.UPPER, ja.Bound.LOWER))
    for epsilon in (0.0, 0.3, 1.2):
        exact = _delta(noise, law, epsilon, steps, direction)
        error = 1e-5 if steps == 2 else 1e-6  # kinks of the integrand, on the grid
        assert lower.delta(epsilon) <= exact * (1 + error) + TOL_RULE
        assert exact * (1 - error) - TOL_RULE <= upper.delta(epsilon)


@pytest.mark.parametrize("size", [2, 5])
def test_without_a_cap_it_is_a_group(size):
    step = ja.MixtureOfGaussians.of_user(1.3, num_records=size, sampling_prob=0.05)
    group = ja.Group(ja.PoissonSampled(ja.Gaussian(1.3), 0.05, 30), size)
    assert ja.epsilon_interval(ja.Composed(step, 30), 1e-6) == ja.epsilon_interval(group, 1e-6)


def test_one_record_is_a_sampled_record():
    step = ja.MixtureOfGaussians.of_user(1.0, num_records=1, sampling_prob=0.1)
    plain = ja.PoissonSampled(ja.Gaussian(1.0), 0.1, num_steps=1)
    assert ja.epsilon(step, 1e-6) == pytest.approx(ja.epsilon(plain, 1e-6), rel=1e-3)


def test_users_that_are_drawn_first():
    """Zero more often: the law of the mixture is mixed with nothing."""
    noise, user, record = 1.2, 0.3, 0.4
    step = ja.MixtureOfGaussians.of_user(noise, num_records=3, sampling_prob=record)
    drawn = ja.PoissonSampled(step, sampling_prob=user, num_steps=1)
    law = user * _by_all_coins(3, record, 3)
    law[0] += 1.0 - user
    for direction in (REMOVE, ADD):
        exact = _delta(noise, law, 0.4, 1, direction)
        upper, lower = (ja.pld(drawn, direction=direction, bound=b) for b in (ja.Bound.UPPER, ja.Bound.LOWER))
        assert lower.delta(0.4) <= exact * (1 + 1e-6) + TOL_RULE
        assert exact * (1 - 1e-6) - TOL_RULE <= upper.delta(0.4)


def test_fewer_records_and_lower_caps_lose_less():
    def epsilon(num_records, most):
        step = ja.MixtureOfGaussians.of_user(2.0, num_records=num_records, sampling_prob=0.1, most_records=most)
        return ja.epsilon(ja.Composed(step, 20), 1e-6)

    by_records = [epsilon(m, None) for m in (1, 2, 4, 8)]
    by_cap = [epsilon(8, most) for most in (1, 2, 4, 8)]
    assert by_records == sorted(by_records)
    assert by_cap == sorted(by_cap)
    assert by_cap[-1] == by_records[-1]


def test_nobody_and_everybody():
    nobody = ja.MixtureOfGaussians.of_user(1.0, num_records=5, sampling_prob=0.0)
    assert ja.epsilon(nobody, 1e-6) == 0.0
    everybody = ja.MixtureOfGaussians.of_user(5.0, num_records=5, sampling_prob=1.0)
    assert ja.epsilon(everybody, 1e-6) == pytest.approx(ja.epsilon(ja.Gaussian(1.0), 1e-6), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"num_records": 0, "sampling_prob": 0.1}, "num_records"),
        ({"num_records": 513, "sampling_prob": 0.1}, "num_records"),
        ({"num_records": 5, "sampling_prob": 1.5}, "sampling_prob"),
        ({"num_records": 5, "sampling_prob": 0.1, "most_records": 0}, "most_records"),
    ],
)
def test_what_is_no_user_is_refused(options, name):
    with pytest.raises(ValueError, match=name):
        ja.MixtureOfGaussians.of_user(1.0, **options)
