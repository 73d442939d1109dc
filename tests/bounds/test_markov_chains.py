"""Balls in bins by the inner products of a Markov chain: that it dominates, and what it gives."""

import math

import numpy as np
import pytest
from support.bins import SMALL, TABLE, gram, inverse_root, normalised, quadrature, samples

import jaxacct as ja
from jaxacct.bounds.correlated import covariances
from jaxacct.bounds.correlated._fits import _arcs, _circles, _fitted, chains
from jaxacct.bounds.correlated._overlaps import overlaps
from jaxacct.divergence.correlated._chain import Chain
from jaxacct.divergence.correlated._sum import law
from jaxacct.divergence.sampling import _bins as bins

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
NAME = "markov chain"
DEVIATIONS = 5.0  # of samples, by which a bound may be below their mean
# by another program at other grids; T5 takes ten seconds
FOUND = {"T1": 0.0391, "T3": 3.76e-5, "T4": 5.88e-7, "T6": 2.27e-5, "T5": 7.5e-6}


def _covariance(chain):
    """At each distance."""
    far = np.arange(chain.length)
    shares = chain.ratio**far
    if chain.is_circle:
        shares = (shares + chain.ratio ** (chain.length - far)) / (1.0 + chain.ratio**chain.length)
    return chain.variance * shares + chain.shared + chain.white * (far == 0)


def _layouts(t, beyond):
    """(stride, layout) of the circles and the arcs of t bins."""
    yield from ((t // layout.length, layout) for layout in _circles(t, beyond))
    yield from ((stride, layout) for stride in (1, 2, 3) for layout in _arcs(t, beyond, stride))


def test_chains_are_no_less_than_the_bins_that_are_kept():
    """All turns, of random strategies: bands, dense ones, whole and cut epochs."""
    rng = np.random.default_rng(7)
    kinds = set()
    for _ in range(60):
        t, k = int(rng.integers(3, 40)), int(rng.integers(1, 4))
        bands = int(rng.integers(2, 6)) if rng.random() < 0.6 else t * k
        coefficients = np.sort(rng.uniform(0.0, 1.0, bands))[::-1] * 0.9 ** np.arange(bands)
        coefficients[0] += rng.choice([0.0, 2.0])
        run = ja.BallsInBins(coefficients, 2.0, t, k)
        exact = gram(run) / run.noise_multiplier**2
        around = overlaps(run).around / run.noise_multiplier**2
        beyond = np.maximum.accumulate(around[::-1])[::-1]
        for stride, layout in _layouts(t, beyond):
            fit = _fitted(float(beyond[0]), layout)
            if fit is None:
                continue
            chain = fit.chain
            shares = _covariance(chain)
            kinds.add((chain.is_circle, chain.white > 0.0, chain.shared > 0.0))
            for turn in range(t):
                kept = [(turn + stride * i) % t for i in range(chain.length)]
                of = exact[np.ix_(kept, kept)]
                assert np.all(np.diag(of) <= shares[0])
                for h in range(1, chain.length):
                    assert of.diagonal(h).max() <= shares[h], (chain, h)
    assert len(kinds) == 8


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("name", SMALL)
def test_up_to_four_bins_by_quadrature(name, direction):
    run = SMALL[name]
    if not chains(overlaps(run), run.noise_multiplier**2):
        pytest.skip("two bins have no arc and no circle")
    truth = quadrature(gram(run) / run.noise_multiplier**2, 1.0, direction)
    found = ja.delta(run, 1.0, direction=direction, method=NAME)
    assert truth * (1 - 1e-7) <= found


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.more] * (n == "T5")) for n in FOUND])
def test_the_table(name):
    run, epsilon, _, groups = TABLE[name]
    found = ja.delta(run, epsilon, direction="remove", method=NAME)
    assert found == pytest.approx(FOUND[name], rel=0.02)
    assert found < groups


@pytest.mark.more
def test_the_second_row_of_the_table():
    """T2, the example of jax_privacy at noise 3.745: the arc of 7 bins, known apart by quadrature of its own."""
    for direction, known in ((REMOVE, 0.00951), (ADD, 0.00774)):
        c = math.exp(1.0 if direction is REMOVE else -1.0)
        found = law(Chain(10 / 3.745**2, 0.4941, 7, False), direction, c, 15.0, 400).value(c)
        found *= 1.0 if direction is REMOVE else math.e
        assert known * (1 - 1e-3) < found < known * 1.01
    run = ja.BallsInBins(normalised((1.0, 0.5, 0.25, 0.125)), 3.745, 10, 10)
    for direction, mean, error in ((REMOVE, 0.004406, 1.7e-5), (ADD, 0.003376, 6e-6)):
        found = ja.delta(run, 1.0, direction=direction, method=NAME)
        assert mean - DEVIATIONS * error < found < 1.5 * mean


@pytest.mark.slow
def test_a_thousand_bins_beside_a_million_weighted_samples():
    """T5: weights bounded, so that small deltas are seen too."""
    run, epsilon, _, _ = TABLE["T5"]
    of = bins.covariance_root(covariances(run))
    for direction in ja.Direction:
        found = bins.samples(of, np.array([epsilon]), direction, 10**6, 1, is_plain=False)
        mean, error = float(found.mean[0] * found.scale[0]), float(found.error[0] * found.scale[0])
        assert mean - DEVIATIONS * error <= ja.delta(run, epsilon, direction=direction, method=NAME)


@pytest.mark.more
@pytest.mark.parametrize("name", ["blt", "dense"])
def test_dense_strategies_gain(name):
    """By white and shared parts: well below groups, and not below samples."""
    if name == "blt":
        run = ja.BallsInBins(normalised(np.concatenate([[1.0], 0.3 * 0.9 ** np.arange(99)])), 2.3, 25, 4)
    else:
        run = ja.BallsInBins(inverse_root(60), 4.0, 15, 4)
    (mean, error), *_ = samples(gram(run) / run.noise_multiplier**2, (1.5,), REMOVE, 200_000)
    found = ja.delta(run, 1.5, direction=REMOVE, method=NAME)
    assert mean - DEVIATIONS * error <= found < 0.9 * ja.delta(run, 1.5, direction=REMOVE, method="groups")


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


@pytest.mark.more
def test_epsilon_and_delta_agree():
    run, _, _, _ = TABLE["T3"]
    found = ja.epsilon(run, 1e-5, method=NAME)
    assert found < ja.epsilon(run, 1e-5, method="groups")
    assert found == pytest.approx(ja.epsilon(run, 1e-5), rel=1e-3)
    assert ja.delta(run, found, method=NAME) == pytest.approx(1e-5, rel=0.05)
    assert ja.epsilon(run, 1e-5, direction=ADD, method=NAME) < found
    assert NAME in {entry.method for entry in ja.accounting.deciding(run, 1e-5)}


def test_small_deltas_of_what_all_bins_share():
    """Sums much larger than e^-epsilon are known: the mass beyond them had a delta of 3.4e-6 here, where this is its
    epsilon.
    """
    run = ja.BallsInBins(inverse_root(24), 4.0, 6, 4)
    assert 9e-12 < ja.delta(run, 3.9204640167648668, method=NAME, direction=ADD) < 1.01e-11


def test_where_bins_hardly_overlap_or_too_many_there_is_no_chain():
    for run in (
        ja.BallsInBins((1.0,), 1.0, 50, 2),
        ja.BallsInBins((1.0, 0.5), 0.1, 50, 2),  # too little noise
        ja.BallsInBins((1.0, 0.5), 1.0, 1, 2),
    ):
        assert chains(overlaps(run), run.noise_multiplier**2) == ()
        with pytest.raises(ValueError, match="must be one of"):
            ja.epsilon(run, 1e-5, method=NAME)
    far = ja.BallsInBins((1.0, 0.5), 2.0, 10**5, 2)
    assert not any(chain.length > 2**14 for chain in chains(overlaps(far), 4.0))
    assert math.isinf(ja.epsilon(ja.BallsInBins((1.0, 0.5), 0.5, 10, 2), 1e-12, method=NAME))


def test_epsilons_near_zero_are_found():
    """Where delta at 0 is below the target nothing is lost, and just above it little is."""
    run = ja.BallsInBins((1.0, 0.4814792491092451, 0.20920912499158884), 6.45, 16)
    at_zero = ja.delta(run, 0.0, method=NAME)
    assert ja.epsilon(run, at_zero * 1.01, method=NAME) == 0.0
    assert 0.0 < ja.epsilon(run, ja.delta(run, 1e-4, method=NAME), method=NAME) <= 1.01e-4
