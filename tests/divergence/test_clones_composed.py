"""Composed clones pairs on the host: moments, their errors and decay, and the ends, against sums in high precision."""

import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.divergence.clones._composed import composed_ends
from jaxacct.divergence.clones._moments import ClonesMoments
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon, window_for

PAIRS = [
    # n, clone probability, local epsilon, order, height
    (12, 0.5, 2.0, 3.0, 1.5),
    (150, math.exp(-0.02), 0.02, 60.0, 200.0),
    (600, math.exp(-0.5), 0.5, 6.0, 40.0),
    (900, 0.9, 1.5, 4.0, 9.0),
]


def _outcomes(n, p, local):
    """(P, Q) of every outcome (m, a) of the pair, in 30 digits; those below 1e-24 are left out."""
    c, found = mp.tanh(mp.mpf(local) / 2), []
    for m in range(1, n + 1):
        row = mp.binomial(n - 1, m - 1) * mp.mpf(p) ** (m - 1) * (1 - mp.mpf(p)) ** (n - m)
        if row < 1e-24:
            continue
        for a in range(m + 1):
            w, x = row * mp.binomial(m, a) / mp.mpf(2) ** m, mp.mpf(2 * a - m) / m
            if w > 1e-24:
                found.append((w * (1 + c * x), w * (1 - c * x)))
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize(("n", "p", "local", "order", "height"), PAIRS)
def test_moments_are_within_their_error(n, p, local, order, height):
    with np.errstate(all="ignore"):
        of = ClonesMoments(float(n), p, local, -42.0)
        at = of.lattice(order, height)
        heights = height * np.arange(5) / 4
        real, imag = of.excess(at, order, heights)
        error = of.error(at, order, height) + at.dropped * 10.0
    assert error < 1e-11
    with mp.workdps(30):
        pairs = _outcomes(n, p, local)
        for k in (0, 3, 4):
            s = mp.mpc(order, heights[k])
            truth = sum(x * (x / y) ** (s - 1) for x, y in pairs) - 1
            assert abs(truth - mp.mpc(real[k], imag[k])) < error


def test_coarse_lattices_book_what_they_miss():
    """A lattice made for few digits errs by more than rounding, and says so."""
    n, p, local, order, height = 700, math.exp(-0.5), 0.5, 5.0, 30.0
    with np.errstate(all="ignore"):
        fine, coarse = (ClonesMoments(float(n), p, local, -digits) for digits in (45.0, 9.0))
        truth = np.array(fine.excess(fine.lattice(order, height), order, np.array([0.0, height])))
        wide = coarse._made(order, height)
        found = np.array(coarse.excess(wide, order, np.array([0.0, height])))
        error = coarse.error(wide, order, height)
    missed = float(np.abs(truth - found).max())
    assert 1e-9 < missed < error + 10.0 * wide.dropped


def test_the_decay_bounds_the_moments():
    n, p, local, order = 3000.0, math.exp(-1.0), 1.0, 5.0
    with np.errstate(all="ignore"):
        of = ClonesMoments(n, p, local, -42.0)
        at = of.lattice(order, 100.0)
        end = of.turns(at, order, 20.0)
        assert end > 500.0
        heights = np.linspace(0.0, 0.3 * end, 60)
        decay = of.decay(at, order, heights, end)
        real, imag = of.excess(of.lattice(order, float(heights[-1])), order, heights)
    size = np.log(np.hypot(1.0 + real, imag) / (1.0 + real[0]))
    assert np.all(decay[1:] >= np.minimum(size[1:], -12.0) - 1e-9)
    assert decay[-1] < -12.0


def _composed_delta(n, p, local, rounds, epsilon):
    """delta of few rounds in high precision: every combination of losses."""
    with mp.workdps(30):
        laws = {mp.mpf(1): mp.mpf(1)}
        single = _outcomes(n, p, local)
        for _ in range(rounds):
            following = {}
            for ratio, q in laws.items():
                for x, y in single:
                    key = mp.nstr(ratio * x / y, 18)
                    following[key] = following.get(key, mp.mpf(0)) + q * y
            laws = {mp.mpf(key): q for key, q in following.items()}
        return sum(q * max(ratio - mp.exp(epsilon), 0) for ratio, q in laws.items())


@pytest.mark.parametrize(("n", "p", "local", "rounds"), [(4, 0.6, 1.0, 3), (9, 0.4, 0.7, 2)])
def test_ends_hold_the_exact_delta(n, p, local, rounds):
    for epsilon in (0.1, 0.9 * rounds * local):
        truth = float(_composed_delta(n, p, local, rounds, epsilon))
        found = composed_ends(float(n), p, local, rounds, epsilon=epsilon)
        assert found.lower <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= found.upper


@pytest.mark.parametrize(("seed", "draws"), [(12, 4), pytest.param(7, 40, marks=pytest.mark.slow)])
def test_one_round_is_the_profile(seed, draws):
    """The same ends by another way, over the whole range of reports, from either side."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        n, local = float(round(np.exp(rng.uniform(np.log(300), np.log(1e9))))), float(np.exp(rng.uniform(-4, 1.5)))
        delta, p = float(10.0 ** rng.uniform(-10, -4)), math.exp(-local)
        with np.errstate(all="ignore"):
            lanes = [np.array([x]) for x in (math.log(delta), n, p, local)]
            known = clones_epsilon(*lanes, window=window_for(n, p))
        found = composed_ends(n, p, local, 1, delta=delta)
        assert found.lower <= known.upper[0]
        assert known.lower[0] <= found.upper


@pytest.mark.parametrize(
    ("n", "local", "rounds", "delta", "width"),
    [
        (10**6, 1.0, 10, 1e-6, 1e-4),
        (10**9, 0.5, 10_000, 1e-10, 1e-4),
        (10**5, 4.0, 100, 1e-8, 2e-3),
        (5000, 0.1, 1000, 1e-6, 1e-3),
    ],
)
def test_intervals_of_rounds_are_narrow_and_inside_the_loss_distribution(n, local, rounds, delta, width):
    run = ja.Shuffled(ja.LocalRandomizer(local), n, rounds)
    found = ja.epsilon_interval(run, delta)
    assert found.upper - found.analysis_lower <= width * found.analysis_lower
    old = ja.epsilon(run, delta, method="loss distribution")
    assert found.analysis_lower <= old
    assert found.upper <= old * (1 + 1e-9)
    back = ja.delta_interval(run, found.upper)
    assert back.analysis_lower <= delta


def test_numpy_and_compiled_programs_agree():
    """The same source by NumPy and by XLA: a few units in the last place of the logarithms."""
    from jaxacct._precision import Kernel

    delta, epsilon = Kernel(clones_delta), Kernel(clones_epsilon)
    rng = np.random.default_rng(3)
    for _ in range(8):
        n, local = float(round(np.exp(rng.uniform(np.log(100), np.log(1e9))))), float(np.exp(rng.uniform(-4, 2)))
        p, target = math.exp(-local), float(np.log(10.0) * rng.uniform(-10, -4))
        with np.errstate(all="ignore"):
            window = 1024
            lanes = [np.array([x]) for x in (target, n, p, local)]
            here, there = clones_epsilon(*lanes, window=window), epsilon(target, n, p, local, window=window)
            np.testing.assert_allclose(here.upper[0], there.upper, rtol=3e-10)
            np.testing.assert_allclose(here.lower[0], there.lower, rtol=3e-10)
            at = float(here.upper[0])
            lanes[0] = np.array([at])
            here, there = clones_delta(*lanes, window=window), delta(at, n, p, local, window=window)
            np.testing.assert_allclose(here.log_delta.upper[0], there.log_delta.upper, rtol=1e-12, atol=1e-12)
