"""Means of correlated log-normal variables: chains, the steps of their grids, and bounds beside quadrature."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from support.bins import quadrature

import jaxacct as ja
from jaxacct.divergence.correlated import _sum
from jaxacct.divergence.correlated._chain import Chain, Move, grid, path_of, step
from jaxacct.divergence.correlated._factor import Factor, factor, option
from jaxacct.divergence.correlated._sum import SumLaw, law

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
CHAINS = [
    Chain(0.8, 0.5, 3, False),
    Chain(1.2, 0.3, 4, False),
    Chain(0.7, 0.6, 4, True),
    Chain(1.0, 0.9, 3, True),
    Chain(0.8, 0.5, 3, False, white=0.4),
    Chain(0.8, 0.5, 3, False, shared=0.3),
    Chain(0.5, 0.6, 4, True, white=0.4, shared=0.3),
    Chain(0.3, 0.3, 4, False, white=0.9, shared=0.1),
]


def covariance(chain):
    h = np.abs(np.subtract.outer(np.arange(chain.length), np.arange(chain.length)))
    shares = chain.ratio**h
    if chain.is_circle:
        shares = (shares + chain.ratio ** (chain.length - h)) / (1.0 + chain.ratio**chain.length)
    return chain.variance * shares + chain.shared + chain.white * np.eye(chain.length)


def more(chain):
    """By how much sums have to go beyond where they are asked, for what is shared."""
    return math.exp(4.0 * math.sqrt(chain.shared))


def bound(chain, epsilon, direction, fineness=7.0, num_sums=400):
    if direction is REMOVE:
        return law(chain, direction, math.exp(epsilon) * more(chain), fineness, num_sums).value(math.exp(epsilon))
    of = law(chain, direction, math.exp(-epsilon) * more(chain), fineness, num_sums)
    return math.exp(epsilon) * of.value(math.exp(-epsilon))


@pytest.mark.sample(3)
@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("chain", CHAINS)
def test_bounds_come_down_to_quadrature(chain, direction):
    for epsilon in (0.2, 1.0):
        truth = quadrature(covariance(chain), epsilon, direction)
        found = [bound(chain, epsilon, direction, *size) for size in ((3.0, 80), (6.0, 160), (10.0, 350))]
        assert found == sorted(found, reverse=True)
        assert truth * (1 - 1e-7) <= found[-1] <= truth * (1.03 if not chain.white else 1.04)


def test_one_run_answers_for_every_epsilon_on_its_side():
    for chain in (CHAINS[1], CHAINS[7]):
        _check_one_run(chain)


def _check_one_run(chain):
    removed = law(chain, REMOVE, math.e * more(chain), 10.0, 500)
    added = law(chain, ADD, more(chain), 10.0, 500)
    for epsilon in (0.1, 0.5, 0.9):
        for of, value, direction in (
            (removed, removed.value(math.exp(epsilon)), REMOVE),
            (added, math.exp(epsilon) * added.value(math.exp(-epsilon)), ADD),
        ):
            truth = quadrature(covariance(chain), epsilon, direction)
            assert truth * (1 - 1e-7) <= value <= truth * 1.05, of.direction


@pytest.mark.parametrize("chain", CHAINS)
def test_moves_make_the_covariances(chain):
    path = path_of(chain)
    own, rows = 0, []
    for move in path.moves:  # of Y, in independent innovations
        before = rows[-1] if rows else np.zeros(len(path.moves))
        row = move.slope * before
        row[len(rows)] += move.deviation
        rows.append(row)
    found = np.array(rows) @ np.array(rows).T
    if path.first is not None:
        shares = np.array(path.shares)
        found += path.first**2 * np.outer(shares, shares)
        own = 1
    alone = chain._replace(white=0.0, shared=0.0)
    np.testing.assert_allclose(found, covariance(alone)[own:, own:], rtol=1e-13)


def _hat(kind, nodes, k, y):
    """The share of node k in a point y of the grid."""
    x = [mpmath.exp(mpmath.mpf(v)) if kind is ADD else mpmath.mpf(v) for v in nodes]
    y = mpmath.exp(y) if kind is ADD else y
    if k and x[k - 1] <= y <= x[k]:
        return (y - x[k - 1]) / (x[k] - x[k - 1])
    return (x[k + 1] - y) / (x[k + 1] - x[k])


@pytest.mark.parametrize("direction", ja.Direction)
def test_weights_are_integrals_rounded_up(direction):
    nodes = np.linspace(-2.0, 3.0, 9)
    found = step(Move(0.7, 0.5), np.array([-1.9, 0.3]), nodes, direction)
    with mpmath.workdps(30):
        for i, mean in enumerate((0.7 * -1.9, 0.7 * 0.3)):

            def density(y, mean=mean):
                return mpmath.npdf(y, mean, 0.5)

            def cdf(y, mean=mean):
                return mpmath.ncdf((mpmath.mpf(y) - mean) / 0.5)

            for k in range(9):
                cells = [(a, b) for a, b in itertools.pairwise(nodes.tolist()) if nodes[k] in (a, b)]
                exact = sum(
                    mpmath.quad(lambda y, k=k: _hat(direction, nodes, k, y) * density(y), cell) for cell in cells
                )
                exact += cdf(nodes[0]) if k == 0 else 1 - cdf(nodes[-1]) if k == 8 else 0
                assert exact * (1 + mpmath.mpf(2) ** -36) <= found.weights[i, k] <= exact * (1 + 2.0**-34) + 1e-89
            exact = cdf(nodes[0])
            if direction is REMOVE:
                exact = mpmath.quad(lambda y: mpmath.exp(y) * density(y), [3.0, 5.0, 9.0])
            assert exact * (1 + mpmath.mpf(2) ** -36) <= found.charge[i] <= exact * (1 + 1e-9)


@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("chain", CHAINS[1:3])
def test_what_leaves_a_narrow_grid_is_charged(monkeypatch, chain, direction):
    """Nodes within one deviation or so: a bound all the same."""

    def narrow(chain, direction, fineness):
        del direction
        return math.sqrt(chain.variance) * np.linspace(-1.2, 1.2, int(2.4 * fineness) + 2)

    monkeypatch.setattr(_sum, "grid", narrow)
    for epsilon in (0.2, 1.0):
        truth = quadrature(covariance(chain), epsilon, direction)
        assert truth < bound(chain, epsilon, direction, 12.0, 300)


def test_roundings_of_sums_are_on_the_safe_side():
    one = SumLaw(4.0, np.array([0.0, 0.0, 1.0, 0.0]), 0.0, 0.0, 0.0, REMOVE)
    for of in (one, one._replace(direction=ADD)):  # S = 2 is 2 (1 + 2^-37) or 2 (1 - 2^-37), for all that is known
        assert of.value(2.0) >= 2.0 * 2.0**-37
    whole = one._replace(absorbed=0.25, excess=0.125, charge=0.5)
    assert whole.value(1.0) >= 1.0 + 0.125 + 0.25 * 3.0 + 0.5
    assert one._replace(direction=ADD).value(0.0) > 0.0


def test_grids_hold_all_but_little():
    chain = CHAINS[0]
    for direction, low in ((REMOVE, 5.4), (ADD, 8.5)):
        nodes = grid(chain, direction, 6.0)
        assert nodes[0] < -low * math.sqrt(0.8)
        assert nodes[-1] > 6.9 * math.sqrt(0.8)
        assert np.diff(nodes).max() <= math.sqrt(0.8) / 6.0 * (1 + 1e-12)


@pytest.mark.parametrize("white", [0.02, 0.6, 4.0])
def test_factors_are_spread_with_their_mean_kept(white):
    """Weights of the values of F beside integrals of 30 digits: hats linear in F, the top one taking all beyond."""
    found = factor(white, 2.0)
    values = [mpmath.mpf(v) for v in found.values]
    deviation = mpmath.sqrt(white)

    def place(value):
        return (mpmath.log(value) + mpmath.mpf(white) / 2) / deviation

    def mass(low, high):  # of F, between two values
        return mpmath.ncdf(place(high)) - (mpmath.ncdf(place(low)) if low else 0)

    def mean(low, high):
        return mpmath.ncdf(place(high) - deviation) - (mpmath.ncdf(place(low) - deviation) if low else 0)

    with mpmath.workdps(40):
        exact = [mpmath.mpf(0)] * len(values)
        for k, (low, high) in enumerate(itertools.pairwise(values)):
            upper = (mean(low, high) - low * mass(low, high)) / (high - low)
            exact[k + 1] += upper
            exact[k] += mass(low, high) - upper
        exact[-1] += 1 - mpmath.ncdf(place(values[-1]))
        beyond = 1 - mpmath.ncdf(place(values[-1]) - deviation)
    assert values[0] == 0
    assert found.weights @ found.values == pytest.approx(1.0, abs=1e-9)
    for got, truth in zip(found.weights, exact, strict=True):
        assert truth * (1 + mpmath.mpf(2) ** -37) <= got <= truth * (1 + 2.0**-32) + 1e-13
    assert beyond * (1 + mpmath.mpf(2) ** -37) <= found.beyond <= beyond * (1 + 1e-9) < 1e-15


@pytest.mark.parametrize("direction", ja.Direction)
def test_options_are_rounded_up(direction):
    for shared in (1e-6, 0.1, 3.0, 30.0):
        for s in (0.0, 1e-9, 0.3, 0.999, 1.0, 1.1, 40.0):
            (found,) = option(np.array([s]), 0.9, shared, direction)
            with mpmath.workdps(90):
                a, c = mpmath.mpf(shared), mpmath.mpf(0.9)
                if s == 0.0:
                    exact = mpmath.mpf(0) if direction is REMOVE else c
                else:
                    z = mpmath.log(mpmath.mpf(s) / c) / mpmath.sqrt(a)
                    up, down = z + mpmath.sqrt(a) / 2, z - mpmath.sqrt(a) / 2
                    removed = s * mpmath.ncdf(up) - c * mpmath.ncdf(down)
                    exact = removed if direction is REMOVE else removed - s + c
            first = s if direction is REMOVE else 0.9
            assert exact <= found + 1e-280
            assert found <= exact * (1 + 1e-9) + 1e-10 * first


@pytest.mark.parametrize("direction", ja.Direction)
def test_what_a_value_exceeds_is_charged(monkeypatch, direction):
    """Values of F up to one deviation or so: a bound all the same."""
    chain = CHAINS[4]

    def narrow(white, fineness):
        full = factor(white, fineness)
        kept = int(np.searchsorted(full.values, 1.5))
        weights, last = full.weights[:kept].copy(), full.values[kept - 1]
        weights[-1] += full.weights[kept:].sum()
        beyond = full.weights[kept:] @ (full.values[kept:] - last)
        return Factor(full.values[:kept], weights, float(beyond))

    monkeypatch.setattr(_sum, "factor", narrow)
    for epsilon in (0.2, 1.0):
        assert quadrature(covariance(chain), epsilon, direction) < bound(chain, epsilon, direction, 12.0, 300)


def test_small_increments_and_large_ones_move_the_same_mass():
    """What stays, what gets to the end, and how far beyond, row by row, beside the definition."""
    rng = np.random.default_rng(0)
    of, num = factor(0.5, 2.0), 12
    increment = np.array([0.001, 0.02, 0.3, 1.7, 5.0, 40.0])
    held = rng.uniform(size=(6, num))
    shift = _sum._Shift(increment, of, num)
    kept, total, further = np.zeros_like(held), np.zeros(6), np.zeros(6)
    for row, start in itertools.product(range(6), range(num)):
        for value, weight in zip(of.values, of.weights, strict=True):
            reach = start + value * increment[row]
            low = int(reach)
            for at, share in ((low, low + 1 - reach), (low + 1, reach - low)):
                mass = weight * share * held[row, start]
                if at < num:
                    kept[row, at] += mass
                else:
                    total[row] += mass
                    further[row] += mass * (at - num)
    np.testing.assert_allclose(shift.moved(held), kept, rtol=1e-9, atol=1e-12)
    got = shift.above(held)
    np.testing.assert_allclose(got[0], total, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(got[1], further, rtol=1e-9, atol=1e-13)
