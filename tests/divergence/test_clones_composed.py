"""Composed clones pairs on the host: moments, their errors and decay, and the ends, against sums in high precision."""

import math

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.divergence.clones import _composed as composed
from jaxacct.divergence.clones._composed import composed_ends
from jaxacct.divergence.clones._moments import ClonesMoments
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon, window_for
from jaxacct.divergence.clones._turned_sums import _by_bins, _one_by_one, turned_sums
from jaxacct.special import ULP
from jaxacct.special._fair_coins import small_tails

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
        row = math.comb(n - 1, m - 1) * mp.mpf(p) ** (m - 1) * (1 - mp.mpf(p)) ** (n - m)
        if row < 1e-24:
            continue
        for a in range(m + 1):
            w, x = row * mp.ldexp(math.comb(m, a), -m), mp.mpf(2 * a - m) / m
            if w > 1e-24:
                found.append((w * (1 + c * x), w * (1 - c * x)))
    return found


@pytest.mark.more
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
        pairs = [(x, mp.log(x / y)) for x, y in _outcomes(n, p, local)]
        for k in (0, 3, 4):
            s = mp.mpc(order, heights[k])
            truth = mp.fsum(x * mp.exp((s - 1) * loss) for x, loss in pairs) - 1
            assert abs(truth - mp.mpc(real[k], imag[k])) < error


def test_coarse_lattices_book_what_they_miss():
    """A lattice made for few digits errs by more than rounding, and says so: against every outcome of its window."""
    n, p, local, order, height = 700, math.exp(-0.5), 0.5, 5.0, 30.0
    with np.errstate(all="ignore"):
        coarse = ClonesMoments(float(n), p, local, -9.0)
        wide = coarse._made(order, height)
        rows = wide.window.low + np.arange(wide.window.high - wide.window.low + 1.0)
        loss, weight = coarse._all(rows, coarse._log_rows(rows), wide.window)
        every = wide._replace(loss=loss, weight=weight)
        heights = np.array([0.0, height])
        truth, found = (np.array(coarse.excess(at, order, heights)) for at in (every, wide))
        error = coarse.error(wide, order, height)
    missed = float(np.abs(truth - found).max())
    assert 1e-8 < missed < error


def test_a_release_may_be_as_large_as_it_likes():
    """Two rounds of hardly any clones: three losses, the largest of which is the strike. No more is lost there."""
    pair, choice = (2.0, 0.05, 1.0), None
    with np.errstate(all="ignore"):
        of = composed._moments(pair, 2.0, -3.0)
        choice = composed._chosen(of, 2.0, 1.0, -3.0)
        run = composed._run(of, 2.0, choice, composed._nodes(of, 2.0, choice))
        for v in (1e-3, 1e-2, 0.1):
            smoothed = composed._with_releases(run, v)
            losses = np.array([0.0, 0.5, 1.0, 2.0])
            truth = [float(_composed_delta(2, 0.05, 1.0, 2, x)) for x in losses]
            lower = composed._lower_delta(smoothed, losses)
            upper = np.exp(composed.delta_ends(smoothed.line, smoothed.fine, losses).upper)
            assert np.all(lower <= np.array(truth) * (1.0 + 1e-9))
            assert np.all(upper >= np.array(truth))
            assert upper[3] > 1e-3


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


@pytest.mark.parametrize(("rounds", "order"), [(3.0, 600.0), (2.0, 120.0)])
def test_the_decay_is_relative_to_a_large_moment(rounds, order):
    """At high orders the moment is large, and what the sums miss is small beside it."""
    n, local = 8000.0, 0.7
    with np.errstate(all="ignore"):
        of = ClonesMoments(n, math.exp(-local), local, -46.0)
        at = of.lattice(order, 1000.0)
        assert of.moment(at, order) > (2.0 if order < 200.0 else 1e4)
        end = of.turns(at, order, 16.0)
        heights = np.linspace(0.0, 900.0, 40)
        decay = of.decay(at, order, heights, end)
        fine = of.lattice(order, 901.0)
        real, imag = of.excess(fine, order, heights)
    size = np.log(np.hypot(1.0 + real, imag) / (1.0 + real[0]))
    assert decay[-1] < -10.0
    assert np.all(decay >= np.minimum(size, -15.0) - 1e-9)


def test_sums_in_bins_are_the_sums():
    """Against exact sums, within what is booked; losses in bins and one by one."""
    rng = np.random.default_rng(5)
    for num_losses, top, num in [(4000, 300.0, 30), (3000, 5.0, 7), (900, 2000.0, 50)]:
        loss = rng.uniform(0.0, 1.0, num_losses) ** 2
        real, imag = rng.uniform(0.0, 1.0, (2, num_losses))
        step = top / (num - 1)
        ways = [_one_by_one(loss, real, imag, step, num), turned_sums(loss, real, imag, step, num)]
        ways.append(_by_bins(loss, real, imag, step, num))
        for k in (1, num // 2, num - 1):
            with mp.workdps(30):
                angles = [mp.mpf(step) * k * mp.mpf(t) for t in loss]
                cosines = mp.fsum(mp.mpf(r) * (mp.cos(x) - 1) for r, x in zip(real, angles, strict=True))
                sines = mp.fsum(mp.mpf(r) * mp.sin(x) for r, x in zip(imag, angles, strict=True))
                for found in ways:
                    booked = 4.0 * ULP * (num_losses + 64.0 + top)
                    assert abs(found[0][k] - cosines) <= booked * real.sum()
                    assert abs(found[1][k] - sines) <= booked * imag.sum()


def test_sums_whose_transforms_may_round_too_much_are_taken_one_by_one():
    """Few losses in one bin, at many heights."""
    loss, weights = np.full(20, 0.3), np.ones(20)
    assert _by_bins(loss, weights, weights, 1.0, 2000) is None
    cosines, _ = turned_sums(loss, weights, weights, 1.0, 2000)
    assert cosines == pytest.approx(20.0 * (np.cos(0.3 * np.arange(2000.0)) - 1.0), abs=1e-10)


def _losses(n, local):
    """(Losses, probabilities of Q) of one round of the pair with p = e^-local, n < 256, in float64."""
    p, c = math.exp(-local), math.tanh(0.5 * local)
    log_fair = small_tails()[0].reshape(256, 256)
    losses, masses = [], []
    for m in range(1, n + 1):
        row = math.lgamma(n) - math.lgamma(m) - math.lgamma(n - m + 1) + (m - 1) * math.log(p)
        row += (n - m) * math.log1p(-p)
        x = (2.0 * np.arange(m + 1) - m) / m
        losses.append(np.log1p(c * x) - np.log1p(-c * x))
        masses.append(np.exp(row + log_fair[m, : m + 1]) * (1.0 - c * x))
    return np.concatenate(losses), np.concatenate(masses)


@pytest.mark.parametrize(
    ("n", "local", "delta"), [(30, 2.3, 3e-4), (60, 0.3, 1e-8), (200, 3.6, 1e-4), (180, 1.0, 1e-7)]
)
def test_two_rounds_of_few_clones_are_known_closely(n, local, delta):
    """Every pair of losses: the truth to rounding. No bound of the lattice's moments holds so few clones."""
    losses, masses = _losses(n, local)
    keep = masses > 1e-22
    losses, masses = losses[keep], masses[keep]

    def truth(epsilon):
        left = epsilon - losses
        order = np.argsort(losses)
        sorted_losses, q = losses[order], masses[order]
        p = q * np.exp(sorted_losses)
        at = np.searchsorted(sorted_losses, left, side="right")
        tails = [np.append(np.cumsum(w[::-1])[::-1], 0.0)[at] for w in (p, q)]
        return float((masses * (np.exp(losses) * tails[0] - math.exp(epsilon) * tails[1])).sum())

    found = composed_ends(float(n), math.exp(-local), local, 2.0, delta=delta)
    assert truth(found.upper) <= delta * (1.0 + 1e-9)
    assert truth(found.lower) >= delta * (1.0 - 1e-9)
    assert found.upper - found.lower <= 5e-4 * found.lower
    back = composed_ends(float(n), math.exp(-local), local, 2.0, epsilon=found.upper)
    assert back.lower <= truth(found.upper) * (1.0 + 1e-9)
    assert truth(found.upper) * (1.0 - 1e-9) <= back.upper <= back.lower * (1.0 + 1e-2)


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
        (2028, 0.864, 3, 4.5e-9, 1e-3),
        pytest.param(295, 0.281, 4, 4.9e-10, 1e-3, marks=pytest.mark.slow),
        pytest.param(1251, 7.31, 6866, 8.6e-8, 1e-3, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_rounds_are_narrow_and_inside_the_loss_distribution(n, local, rounds, delta, width):
    run = ja.Shuffled(ja.LocalRandomizer(local), n, rounds)
    found = ja.epsilon_interval(run, delta)
    assert found.upper - found.analysis_lower <= width * found.analysis_lower
    old = ja.epsilon(run, delta, method="loss distribution")
    assert found.analysis_lower <= old
    assert found.upper <= old * (1 + 0.01 * width)
    back = ja.delta_interval(run, found.upper)
    assert back.analysis_lower <= delta


@pytest.mark.more
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
