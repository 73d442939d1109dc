"""Estimates of balls in bins with correlated noise: bounded weights, their confidence, and what they are beside."""

import math

import numpy as np
import pytest
from support.bins import SMALL, TABLE, gram, quadrature

import jaxacct as ja
from jaxacct.bounds.correlated import covariances
from jaxacct.correlated import estimate_delta, estimate_noise
from jaxacct.divergence.sampling import _bins as bins

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
DEVIATIONS = 5.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["naive", "importance"])
@pytest.mark.parametrize("direction", ja.Direction)
def test_estimates_are_near_quadrature(direction, method):
    run = SMALL["two bands"]
    epsilons = np.array([0.5, 1.0, 2.0])
    found = estimate_delta(run, epsilons, num_samples=200_000, seed=1, direction=direction, method=method)
    for epsilon, mean, error, upper in zip(epsilons, *found[:3], strict=True):
        truth = quadrature(gram(run) / run.noise_multiplier**2, epsilon, direction)
        assert abs(mean - truth) <= DEVIATIONS * error
        assert truth < upper < 2.0 * truth


def test_weights_reach_where_plain_samples_do_not():
    """A delta of 2e-14 in the direction ADD: no plain sample sees it."""
    run, epsilon, _, _ = TABLE["T3"]
    plain, weighted = (
        estimate_delta(run, epsilon, num_samples=20_000, seed=0, direction=ADD, method=m)
        for m in ("naive", "importance")
    )
    assert plain.mean == 0.0
    assert plain.upper_confidence > 1e-4
    assert 0.0 < weighted.mean < weighted.upper_confidence < 1e-7
    assert weighted.mean <= ja.delta(run, epsilon, direction=ADD, method="markov chain")


@pytest.mark.parametrize("direction", ja.Direction)
def test_no_value_is_beyond_its_bound(direction):
    """The largest of many samples, each over its bound: near 1 and not above."""
    run = SMALL["two bands"]
    of = bins.covariance_root(gram(run) / run.noise_multiplier**2)
    largest = 0.0
    for seed in range(3000):
        one = bins.samples(of, np.array([0.3]), direction, 1, seed, is_plain=False)
        largest = max(largest, float(one.mean[0]))
    assert 0.2 < largest <= 1.0


def test_covariances_are_those_of_the_definition_rounded_up():
    rng = np.random.default_rng(2)
    for run in (
        *SMALL.values(),
        ja.BallsInBins(rng.uniform(size=13), 0.7, 5, 3, 14),
        ja.BallsInBins((1.0, -0.5), 2.0, 4, 1, 3),
    ):
        exact, found = gram(run) / run.noise_multiplier**2, covariances(run)
        assert np.all(found >= exact * (1 - 1e-15))
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-290)


def test_noise_is_an_estimate_below_the_certified_one():
    run, _, _, _ = TABLE["T1"]
    certified = ja.calibrate(run, "noise_multiplier", 1.0, 0.03, method="groups")
    found = estimate_noise(run, 1.0, 0.03, num_samples=100_000, seed=3, lowest=1.0, highest=certified, num_tried=6)
    assert found.noise_multiplier < certified
    assert found.delta.confidence == 1.0 - (1.0 - found.confidence) / 6  # the union over what was tried
    assert found.delta.bound is ja.Bound.ESTIMATE
    truth = quadrature(gram(run) / found.noise_multiplier**2, 1.0, REMOVE)
    assert truth <= 0.03
    with pytest.raises(ValueError, match="is not shown"):
        estimate_noise(run, 1.0, 1e-6, num_samples=1000, seed=3, lowest=0.5, highest=1.0)


def test_the_same_seed_gives_the_same_samples():
    run = SMALL["two bands"]
    found = [estimate_delta(run, 1.0, num_samples=1000, seed=seed).mean for seed in (5, 5, 6)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_samples": 0}, "num_samples=0"),
        ({"seed": -1}, "seed=-1"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"method": "conditional"}, "must be 'importance' or 'naive'"),
        ({"target_epsilon": -1.0}, "target_epsilon=-1.0"),
    ],
)
def test_bad_input_is_named(options, words):
    given = {"target_epsilon": 1.0, "num_samples": 10, "seed": 0} | options
    with pytest.raises(ValueError, match=words):
        estimate_delta(SMALL["two bands"], given.pop("target_epsilon"), **given)
    assert not math.isnan(estimate_delta(SMALL["two bands"], 0.0, num_samples=10, seed=0).mean)
