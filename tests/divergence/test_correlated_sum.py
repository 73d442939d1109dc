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
from jaxacct.divergence.correlated._sum import Law, law

REMOVE, ADD = ja.Direction.REMOVE, ja.Direction.ADD
CHAINS = [Chain(0.8, 0.5, 3, False), Chain(1.2, 0.3, 4, False), Chain(0.7, 0.6, 4, True), Chain(1.0, 0.9, 3, True)]


def covariance(chain):
    h = np.abs(np.subtract.outer(np.arange(chain.length), np.arange(chain.length)))
    shares = chain.ratio**h
    if chain.is_circle:
        shares = (shares + chain.ratio ** (chain.length - h)) / (1.0 + chain.ratio**chain.length)
    return chain.variance * shares


def bound(chain, epsilon, direction, fineness=7.0, num_sums=400):
    if direction is REMOVE:
        return law(chain, direction, math.exp(epsilon), fineness, num_sums).value(math.exp(epsilon))
    return math.exp(epsilon) * law(chain, direction, math.exp(-epsilon), fineness, num_sums).value(math.exp(-epsilon))


@pytest.mark.parametrize("direction", ja.Direction)
@pytest.mark.parametrize("chain", CHAINS)
def test_bounds_come_down_to_quadrature(chain, direction):
    for epsilon in (0.2, 1.0):
        truth = quadrature(covariance(chain), epsilon, direction)
        found = [bound(chain, epsilon, direction, *size) for size in ((3.0, 80), (6.0, 160), (10.0, 350))]
        assert found == sorted(found, reverse=True)
        assert truth * (1 - 1e-7) <= found[-1] <= truth * 1.03


def test_one_run_answers_for_every_epsilon_on_its_side():
    chain = CHAINS[1]
    removed, added = law(chain, REMOVE, math.e, 10.0, 500), law(chain, ADD, 1.0, 10.0, 500)
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
    np.testing.assert_allclose(found, covariance(chain)[own:, own:], rtol=1e-13)


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
    one = Law(4.0, np.array([0.0, 0.0, 1.0, 0.0]), 0.0, 0.0, 0.0, REMOVE)
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
