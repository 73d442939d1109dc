"""Balls in bins by the inner products of a Markov chain: that it dominates, and what it gives."""

import math

import numpy as np
import pytest
from support.bins import SMALL, TABLE, gram, normalised, quadrature, samples

import jaxacct as ja
from jaxacct.bounds.correlated._markov import chains
from jaxacct.bounds.correlated._overlaps import overlaps

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
NAME = "markov chain"
DEVIATIONS = 5.0  # of samples, by which a bound may be below their mean
# by another program at other grids; T5 takes ten seconds
FOUND = {"T1": 0.0397, "T3": 3.83e-5, "T4": 1.91e-6, "T6": 2.34e-5, "T5": 3.38e-5}


def _covariance(chain):
    far = np.arange(chain.length)
    shares = chain.ratio**far
    if chain.is_circle:
        shares = (shares + chain.ratio ** (chain.length - far)) / (1.0 + chain.ratio**chain.length)
    return chain.variance * shares


def test_chains_are_no_less_than_the_bins_that_are_kept():
    """All turns, of random strategies: bands, dense ones, whole and cut epochs."""
    rng = np.random.default_rng(7)
    kinds = set()
    for _ in range(60):
        t, k = int(rng.integers(2, 40)), int(rng.integers(1, 4))
        bands = int(rng.integers(2, 6)) if rng.random() < 0.6 else t * k
        coefficients = np.sort(rng.uniform(0.0, 1.0, bands))[::-1] * 0.9 ** np.arange(bands)
        run = ja.BallsInBins(coefficients, 2.0, t, k)
        exact = gram(run) / run.noise_multiplier**2
        for chain in chains(overlaps(run), run.noise_multiplier**2):
            shares = _covariance(chain)
            kinds.add(chain.is_circle)
            reach = range(1, t // chain.length + 1)  # strides that leave so many bins
            strides = [s for s in reach if _fits(t, chain, s, exact)]
            assert strides, chain
            for turn in range(t):
                kept = [(turn + strides[-1] * i) % t for i in range(chain.length)]
                of = exact[np.ix_(kept, kept)]
                assert np.all(np.diag(of) <= shares[0])
                for h in range(1, chain.length):
                    assert of.diagonal(h).max() <= shares[h]
    assert kinds == {True, False}


def _fits(t, chain, stride, exact):
    """Whether the chain's bins are so far apart: all of the circle, or an arc whose ends do not touch."""
    if chain.is_circle:
        return t // stride == chain.length
    around = [max(exact[b, (b + h) % t] for b in range(t)) for h in range(t // 2 + 1)]
    free = next((h for h in range(1, t // 2 + 1) if max(around[h:]) == 0.0), None)
    return free is not None and (t - free) // stride + 1 == chain.length


@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("name", SMALL)
def test_up_to_four_bins_by_quadrature(name, direction):
    run = SMALL[name]
    if next(chains(overlaps(run), run.noise_multiplier**2), None) is None:
        pytest.skip("two bins have no arc and no circle")
    truth = quadrature(gram(run) / run.noise_multiplier**2, 1.0, direction)
    found = ja.delta(run, 1.0, direction=direction, method=NAME)
    assert truth * (1 - 1e-7) <= found


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.more] * (n == "T5")) for n in FOUND])
def test_the_table(name):
    run, epsilon, _, groups = TABLE[name]
    found = ja.delta(run, epsilon, direction="remove", method=NAME)
    assert found == pytest.approx(FOUND[name], rel=0.02)
    assert found < groups


@pytest.mark.more
@pytest.mark.parametrize("name", ["T1", "T3", "T4", "T6"])
def test_no_bound_is_below_a_million_samples(name):
    run, _, _, _ = TABLE[name]
    covariance = gram(run) / run.noise_multiplier**2
    for direction in ja.Direction:
        for epsilon, (mean, error) in zip((0.5, 1.5), samples(covariance, (0.5, 1.5), direction, 10**6), strict=True):
            found = ja.delta(run, epsilon, direction=direction, method=NAME)
            assert mean - DEVIATIONS * error <= found <= 2.0 * mean + DEVIATIONS * error + 1e-3


@pytest.mark.more
def test_the_example_of_jax_privacy():
    """Ten bins, ten cycles, four bands: the noise for epsilon 1 at delta 5e-3, 3.683 by samples."""
    run = ja.BallsInBins(normalised((1.0, 0.5, 0.25, 0.125)), None, 10, 10)
    noise = ja.calibrate(run, "noise_multiplier", 1.0, 5e-3)
    assert 3.683 < noise <= 3.85


def test_epsilon_and_delta_agree():
    run, _, _, _ = TABLE["T3"]
    found = ja.epsilon(run, 1e-5, method=NAME)
    assert found < ja.epsilon(run, 1e-5, method="groups")
    assert found == pytest.approx(ja.epsilon(run, 1e-5), rel=1e-3)
    assert ja.delta(run, found, method=NAME) == pytest.approx(1e-5, rel=0.05)
    assert ja.epsilon(run, 1e-5, direction=ADD, method=NAME) < found
    assert NAME in {entry.method for entry in ja.accounting.deciding(run, 1e-5)}


def test_where_bins_hardly_overlap_or_too_many_there_is_no_chain():
    for run in (
        ja.BallsInBins((1.0,), 1.0, 50, 2),
        ja.BallsInBins((1.0, 0.5), 0.1, 50, 2),  # too little noise
        ja.BallsInBins((1.0, 0.5), 1.0, 1, 2),
    ):
        assert list(chains(overlaps(run), run.noise_multiplier**2)) == []
        with pytest.raises(ValueError, match="must be one of"):
            ja.epsilon(run, 1e-5, method=NAME)
    far = ja.BallsInBins((1.0, 0.5), 2.0, 10**4, 2)
    assert not any(chain.length > 5000 for chain in chains(overlaps(far), 4.0))
    assert math.isinf(ja.epsilon(ja.BallsInBins((1.0, 0.5), 0.5, 10, 2), 1e-12, method=NAME))
