"""The threshold test on steps whose likelihood ratio has finitely many values, against enumeration of every outcome."""

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct._types import Direction
from jaxacct.bounds.bases import _points, law
from jaxacct.bounds.bases._points import points_below
from jaxacct.divergence._point_steps import Points, PointSteps
from jaxacct.divergence._tail import Nodes
from jaxacct.divergence._threshold_guess import Terms
from jaxacct.divergence._threshold_test import delta_below, epsilon_below
from jaxacct.divergence.lattice._ratio import Side


def _enumerated(
    ratios: np.ndarray, masses: np.ndarray, steps: int, selected: int, epsilon: float, direction: Direction
) -> float:
    """E_Q (L - e^eps)_+ or E_Q (1 - e^eps L)_+ over all outcomes of `steps` steps, L = e_k(W) / C(t, k)."""
    sums = [np.ones(1)] + [np.zeros(1) for _ in range(selected)]
    weight = np.ones(1)
    for _ in range(steps):
        new = [np.repeat(x, len(ratios)) for x in sums]
        for j in range(selected, 0, -1):
            new[j] = new[j] + (sums[j - 1][:, None] * ratios).ravel()
        sums, weight = new, (weight[:, None] * masses).ravel()
    ratio = sums[selected] / math.comb(steps, selected)
    gain = ratio - math.exp(epsilon) if direction is Direction.REMOVE else 1.0 - math.exp(epsilon) * ratio
    return float(weight @ np.maximum(gain, 0.0))


def _test(points: Points, steps: int, selected: int, direction: Direction, tuning: float) -> Terms:
    share = selected / steps
    rate = tuning * share / (1.0 - share + tuning * share)
    return [(PointSteps(points, float(steps), float(selected), rate, direction), 1.0)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("seed", range(8))
def test_below_every_outcome_of_a_pair_and_near(seed: int, direction: Direction) -> None:
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(3, 9))
    selected = int(rng.integers(2, steps))
    p, q = (rng.dirichlet(np.full(3, 0.7)) for _ in range(2))
    if seed % 4 == 1:
        q = np.append(q[:2] / q[:2].sum(), 0.0)  # an output of the record alone
    elif seed % 4 == 2:
        p = np.append(p[:2] / p[:2].sum(), 0.0)  # one that spares it
    pair = ja.DiscretePair(tuple(p), tuple(q))
    epsilon = float(rng.uniform(0.1, 2.0))
    there = q > 0.0
    truth = _enumerated(p[there] / q[there], q[there], steps, selected, epsilon, direction)
    if direction is Direction.REMOVE:
        truth += -math.expm1(selected * math.log1p(-float(p[~there].sum())))
    points = points_below(pair, 1.0, direction)
    found = delta_below(lambda tuning: _test(points, steps, selected, direction, tuning), epsilon)
    assert 0.75 * truth < found <= truth * (1.0 + 1e-12)
    back = epsilon_below(lambda tuning: _test(points, steps, selected, direction, tuning), truth * (1.0 + 1e-12))
    assert back <= epsilon


@pytest.mark.sample(2)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("release", [ja.Laplace(0.7), ja.Laplace(2.0), ja.DiscreteGaussian(1.0, 1), ja.Gaussian(1.2)])
def test_below_true_allocation_of_other_noise(release: Any, direction: Direction) -> None:
    """The truth lies below the enumeration with a ratio that is spread to the points of a lattice, and near it."""
    steps, selected, epsilon = 3, 2, 0.7
    spread = law(release, 1.0, 0.1, Side.UPPER, 1e-9)
    ratios = np.append(np.exp(spread.log_values), 0.0)
    masses = np.append(spread.masses, spread.zero_mass)
    above = _enumerated(ratios, masses, steps, selected, epsilon, direction) + 2.0 * spread.infinite_mass
    points = points_below(release, 1.0, direction)
    found = delta_below(lambda tuning: _test(points, steps, selected, direction, tuning), epsilon)
    assert 0.8 * above < found <= above


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("most", [5, 8, 16])
def test_neighbours_among_evenly_spaced_losses_are_taken_together_on_the_safe_side(
    most: int, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, steps, selected, epsilon = ja.DiscreteGaussian(1.0, 1), 3, 2, 0.7
    every = points_below(release, 1.0, direction)
    truth = _enumerated(np.exp(every.log_ratios), every.masses, steps, selected, epsilon, direction)
    monkeypatch.setattr(_points, "_MOST", most)
    few = points_below.__wrapped__(release, 1.0, direction)
    assert len(few.masses) <= most + 1 < len(every.masses)
    found = delta_below(lambda tuning: _test(few, steps, selected, direction, tuning), epsilon)
    assert 0.0 < found <= truth * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("noise", "narrow"), [(ja.DiscreteGaussian(100.0), 5e-4), (ja.DiscreteLaplace(0.01, 2000), 0.15)], ids=str
)
def test_thousands_of_evenly_spaced_losses_are_few_points(noise: Any, narrow: float) -> None:
    for direction in Direction:
        assert len(points_below(noise, 1.0, direction).masses) <= 1025
    found = ja.epsilon_interval(ja.RandomAllocation(noise, 40, 10), 1e-6)
    assert found.upper <= found.lower * (1.0 + narrow)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("rate", [1.0, 0.4, 1e-3])
def test_moments_err_by_no_more_than_is_booked(rate: float, direction: Direction) -> None:
    log_ratios = np.array([-2.0, -0.3, 0.1, 1.7, -np.inf])
    points = Points(log_ratios, np.array([0.2, 0.3, 0.25, 0.05, 0.1]), 0.0)
    of = PointSteps(points, 50.0, 3.0, rate, direction)
    order, step, num = 6.5, 0.5, 40
    found = of.on_line(Nodes(order, step, num, 0.1), -30.0)
    bounds = of.beyond(order, step * np.arange(1, num), -30.0)
    removes = direction is Direction.REMOVE
    finite = np.isfinite(log_ratios) | (rate < 1.0)
    with mp.workdps(30):
        terms = [mp.mpf(float(x)) for x in of._terms]  # the statistic is what its values are
        ratios = [mp.exp(mp.mpf(float(x))) if np.isfinite(x) else mp.mpf(0) for x in log_ratios[finite]]
        masses = [mp.mpf(float(x)) for x in points.masses[finite]]
        for n in (0, 1, num - 1):
            for i, (x, moments, bound) in enumerate(zip((order, order + 1.0), found, bounds, strict=True)):
                s = mp.mpc(x, step * n)
                without = mp.fsum(m * mp.exp(s * y) for m, y in zip(masses, terms, strict=True))
                record = mp.fsum(m * w * mp.exp(s * y) for m, w, y in zip(masses, ratios, terms, strict=True))
                held = 3 if removes == (i == 0) else 0
                truth = without ** (50 - held) * record**held
                given = mp.exp(mp.mpc(moments.log_modulus[n], moments.phase[n]))
                assert abs(truth / given - 1) <= mp.expm1(moments.error[n] + 1e-15 * float(moments.size[n]))
                if n:
                    assert np.all(mp.log(abs(truth)) <= bound[:n])
    assert found[0].error.max() < 1e-9


@pytest.mark.parametrize("direction", Direction)
def test_points_are_dominated_by_the_release(direction: Direction) -> None:
    """One step, selected from one: what the points say lies below the exact profile, and near it."""
    for release in (
        ja.Laplace(1.0),
        ja.DiscreteLaplace(0.7, 3),
        ja.DiscreteGaussian(3.0, 2),
        ja.Skellam(6.0, 2),
        ja.EpsilonDelta(1.0, 1e-3),
    ):
        points = points_below(release, 1.0, direction)
        for epsilon in (0.1, 0.6):
            exact = ja.delta(release, epsilon, direction=direction)
            finite = _enumerated(np.exp(points.log_ratios), points.masses, 1, 1, epsilon, direction)
            found = finite + (points.infinite if direction is Direction.REMOVE else 0.0)
            assert 0.99 * exact < found <= exact * (1.0 + 1e-12)


def test_every_subset_counts_the_same() -> None:
    """The enumeration's own likelihood ratio against the mean over all subsets."""
    ratios = np.array([0.3, 1.1, 2.5, 0.8])
    sums = [math.prod(ratios[list(subset)]) for subset in itertools.combinations(range(4), 2)]
    whole = np.poly(-ratios)  # coefficients are the elementary symmetric polynomials
    assert whole[2] / math.comb(4, 2) == pytest.approx(np.mean(sums), rel=1e-12)
