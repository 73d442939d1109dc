"""Laws of likelihood ratios on a lattice: their sums beside every pair of points, and what is too far for one."""

import functools
import itertools
import math

import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _work
from jaxacct._types import TooFineError
from jaxacct.bounds import bases
from jaxacct.bounds.bases import _gaussian
from jaxacct.bounds.bases._few_outputs import law_of_atoms
from jaxacct.divergence.lattice._ratio import Side, from_atoms
from jaxacct.divergence.lattice._sums import _groups, _sum_cells


@pytest.mark.parametrize(("size", "step"), [(40, 0.3), (150, 0.05), (120, 0.002)])
@pytest.mark.parametrize("same", [True, False])
def test_cells_of_a_sum_hold_every_pair(size, step, same):
    """Whether their distances are added one by one (close points) or together (far ones)."""
    rng = np.random.default_rng(0)
    p, q, shift = rng.random(size), rng.random(size), 0.0 if same else 0.4
    q = p if same else q
    low, high, first = _sum_cells(p, q, shift, step, same=same)
    x, y = step * np.arange(size), step * np.arange(size) + shift
    place = np.logaddexp(x[:, None], y[None, :]) / step - first
    cell = np.floor(place).astype(int)
    share = np.expm1((place - cell) * step) / math.expm1(step)
    weights, where = p[:, None] * q[None, :], cell.ravel()
    for found, part in ((low, 1.0 - share), (high, share)):
        expected = np.bincount(where, (weights * part).ravel(), minlength=low.size)
        # a point on the border of two cells may be in either, at the same place
        assert np.allclose(np.cumsum(found), np.cumsum(expected), rtol=1e-9, atol=1e-9 * weights.max())
    whole = np.exp(step * first) * (low + high * math.exp(step)) @ np.exp(step * np.arange(low.size))
    assert whole == pytest.approx((weights * (np.exp(x)[:, None] + np.exp(y)[None, :])).sum(), rel=1e-12)


@pytest.mark.parametrize(("shift", "step"), [(78.0, 1.3), (-146.0, 0.155), (-146.0, 0.0993), (-40.0, 0.0129)])
def test_points_that_are_far_apart_lose_no_pair(shift, step):
    """From 33 nats on e^-x is lost in 1 + e^-x: how far a sum is above its larger part is a whole number, nearly."""
    rng = np.random.default_rng(0)
    for size in (32, 1000):
        p, q = rng.random(size), rng.random(size)
        low, high, _ = _sum_cells(p, q, shift, step, same=False)
        assert (low + high).sum() == pytest.approx(p.sum() * q.sum(), rel=1e-13)


def test_one_step_with_hardly_any_noise_and_one_with_much():
    """Delta at epsilon 0 is the total variation, the same in both directions: all but 1 of a half."""
    run = ja.ScheduledAllocation((1000.0, 0.1), (1, 1))
    add, remove = (ja.pld(run, direction=direction).delta(0.0) for direction in ("add", "remove"))
    assert add == pytest.approx(remove, rel=1e-9)


def test_far_points_are_added_together():
    """Of ratios that spread over many nats most distances are in few runs; so the work says."""
    cells = np.floor(np.log1p(np.exp(-0.07 * np.arange(1500))) / 0.07).astype(int)
    single, runs = _groups(cells, range(1, 1500))
    assert len(single) < 40
    assert len(runs) < 10
    assert [*single, *(d for run in runs for d in range(run.start, run.stop))] == list(range(1, 1500))
    assert all(len(set(cells[run])) == 1 for run in runs)
    with _work.counted() as wide, _work.counted() as narrow:
        _work.count_sum(1500, 0.001, same=False)
    with _work.counted() as wide:
        _work.count_sum(1500, 0.07, same=False)
    assert wide.at(1.0) < 0.2 * narrow.at(1.0)


def test_losses_that_are_too_far_are_refused_before_cells_are_made(monkeypatch):
    """Some millions of them, where the noise is 1e-4."""
    monkeypatch.setattr(_gaussian, "gaussian_cells", lambda *at, **sizes: pytest.fail("cells are made"))
    with pytest.raises(TooFineError, match="out of reach"):
        bases.law(ja.Gaussian(8.9e-5), 1.0, 16.0, Side.UPPER, 1e-20)
    with pytest.raises(TooFineError, match="out of reach"):
        bases.law(ja.Laplace(1e-6), 1.0, 16.0, Side.UPPER, 1e-20)


@pytest.mark.parametrize("side", Side)
def test_cells_beyond_what_is_held_are_not_made(side, monkeypatch):
    """Of sampled noise, of which 1 - q is within reach."""
    sizes, cells = [], _gaussian.gaussian_cells

    def made(*at, size):
        sizes.append(size)
        return cells(*at, size=size)

    monkeypatch.setattr(_gaussian, "gaussian_cells", made)
    law = bases.law(ja.Gaussian(2e-4), 0.3, 0.5, side, 1e-20)
    assert max(sizes) < 1300
    if side is Side.UPPER:
        assert law.infinite_mass >= 0.3


def _scattered(rng, num, spread):
    """Values whose logarithms lie up to `spread` apart, with masses of many sizes, and mean 1 or less."""
    logs = np.sort(rng.uniform(0.0, spread, num)) * rng.choice([1e-3, 0.1, 1.0])
    masses = rng.dirichlet(np.ones(num)) * np.exp(-rng.uniform(0.0, 3.0, num) * np.arange(num))
    masses /= masses.sum()
    logs -= math.log(float(masses @ np.exp(logs)))
    return logs, masses


@pytest.mark.parametrize("side", [Side.LOWER_REMOVE, Side.LOWER_ADD])
@pytest.mark.parametrize(
    "make", [from_atoms, functools.partial(law_of_atoms, "atoms")], ids=["on a lattice", "gathered"]
)
def test_a_lower_law_of_scattered_atoms_is_a_contraction(make, side):
    """Between atoms that are cells apart too, where one point takes from far away; some are too far for that."""
    rng = np.random.default_rng(3)
    for spread, num, step in itertools.product((2.0, 80.0), (2, 3, 7, 40), (0.003, 0.05, 0.4)):
        logs, masses = _scattered(rng, num, spread)
        law = make(logs, masses, 0.0, 0.0, step, side)
        points = law.offset + law.step * np.arange(law.masses.shape[0])
        assert law.masses.sum() <= 1.0 + 1e-15
        for at in np.concatenate([logs, rng.uniform(logs[0], logs[-1], 20)]):
            # the add direction loses (1 - e^at Y)+ under Q
            sign, scale = (1.0, at) if side is Side.LOWER_REMOVE else (-1.0, at)
            exact, found = (
                float(m @ np.maximum(sign * np.expm1(x - scale), 0.0))
                for x, m in ((logs, masses), (points, law.masses))
            )
            assert found <= exact * (1.0 + 1e-12) + 1e-15, (spread, num, step, at)


def test_rare_atoms_keep_their_mass_and_the_mean_where_a_likely_one_gives_some():
    """The likeliest values are gathered in a point of the lattice, and it is they that the others take from."""
    logs = np.array([-2e-4, -1e-4, 5e-4, 0.02, 0.6, 3.3])
    masses = np.array([0.13, 0.74, 0.13, 7e-4, 1e-7, 4e-13])
    logs -= math.log(float(masses @ np.exp(logs)) / masses.sum())
    for step in (1.7e-4, 3e-5):
        law = law_of_atoms("atoms", logs, masses, 0.0, 0.0, step, Side.LOWER_REMOVE)
        points = law.offset + law.step * np.arange(law.masses.shape[0])
        assert law.masses @ np.expm1(points) >= -1e-12
        for value, mass in zip(logs[3:], masses[3:], strict=True):
            assert law.masses[np.abs(points - value) <= step].sum() >= 0.98 * mass


def test_tails_take_from_heavier_cells():
    """Where several cells leave next to nothing over, the heaviest one is the last: no chain reaches the tail."""
    release, rate = ja.DiscreteGaussian(0.7511674150662778), 0.0013921189630343453
    for step in np.geomspace(1e-5, 1e-3, 25):
        law = bases.law(release, rate, step, Side.LOWER_REMOVE, 1e-14)
        points = law.offset + law.step * np.arange(law.masses.shape[0])
        for least, mass in ((0.05, 1.83e-4), (0.3, 3.697e-7), (1.0, 1.271e-10)):
            assert law.masses[points > least].sum() >= 0.99 * mass


def test_intervals_of_sampled_discrete_noise_are_narrow():
    """They were 4 % wide at any resolution: lower laws moved atoms that have no neighbour."""
    run = ja.PoissonSampled(ja.DiscreteGaussian(4.0), 0.01, 1000)
    found = ja.epsilon_interval(run, 1e-6)
    assert found.upper <= 1.001 * found.lower
