"""Random allocation's statements: exact overlaps and tails of the posterior rate are never below the truth."""

import itertools
import math

import pytest
from flint import arb, ctx, fmpz

import jaxacct as ja
from jaxacct.papers import random_allocation
from jaxacct.papers.random_allocation import _recursive as recursive
from jaxacct.papers.random_allocation import _truncated_poisson as truncated
from jaxacct.papers.random_allocation._truncated_poisson import Width


def _choose(n, m):
    return arb(fmpz(math.comb(n, m))) if 0 <= m <= n else arb(0)


def _pairs(t, k, q):
    """E q^J - 1, J the overlap of two subsets."""
    return sum((_choose(k, j) * _choose(t - k, k - j) * (q**j - 1) for j in range(1, k + 1)), arb(0)) / _choose(t, k)


def _triples(t, k, q):
    """E q^(J_12 + J_13 + J_23) - 1: a of the j common steps, b of the others of one of the first two."""
    total = arb(0)
    for j, a, b in itertools.product(range(k + 1), repeat=3):
        ways = _choose(k, j) * _choose(t - k, k - j) * _choose(j, a) * _choose(2 * (k - j), b)
        total += ways * _choose(t - 2 * k + j, k - a - b) * (q ** (j + 2 * a + b) - 1)
    return total / _choose(t, k) ** 2


def _quadruples(t, k, q):
    """The same of four subsets, by the polynomial of all ways of one step after the other."""
    power = {(0,) * 4: arb(1)}
    for _ in range(t):
        grown = {}
        for at, value in power.items():
            for step in itertools.product((0, 1), repeat=4):
                to = tuple(x + y for x, y in zip(at, step, strict=True))
                if max(to) <= k:
                    grown[to] = grown.get(to, arb(0)) + value * q ** (sum(step) * (sum(step) - 1) // 2)
        power = grown
    return power[(k,) * 4] / _choose(t, k) ** 4 - 1


@pytest.mark.parametrize(
    ("order", "t", "k", "sigma"),
    [
        *((2, 5, 2, 1.0), (2, 1000, 200, 3.0), (2, 10**9, 3, 100.0), (2, 300, 256, 0.3), (3, 40, 17, 2.0)),
        *((3, 10**6, 6, 0.2), (3, 10, 9, 50.0), (4, 9, 2, 1.0), (4, 30, 1, 0.2), (4, 6, 1, 1000.0)),
        *((4, 9, 4, 0.15), (4, 6, 2, 0.1), (4, 40, 1, 0.03)),  # counts beside each other that no double holds
    ],
)
def test_overlaps_are_rounded_up(order, t, k, sigma):
    run = ja.RandomAllocation(ja.Gaussian(sigma), num_steps=t, num_selected=k)
    value = arb(random_allocation.exact_overlap_rdp(run, order=order))
    with ctx.workprec(2000):
        q = (1 / arb(sigma) ** 2).exp()
        excess = {2: _pairs, 3: _triples, 4: _quadruples}[order](t, k, q)
        truth = (1 + excess).log() / (order - 1)
        error = arb(1e-10) * truth if order < 4 else arb(1e-14) * t * (30 + 12 / sigma**2)
        assert truth <= value <= truth + error


@pytest.mark.parametrize("direction", list(ja.Direction))
def test_a_tied_tail_is_rounded_up(direction):
    """Read where log(n eta) is next to nothing, and where the profile is the least number."""
    for n, rate, delta in ((1000, 0.0010001, 1e-3), (7, 0.9, 1e-300), (10**6, 1e-6 * (1 + 1e-9), 0.3)):
        seen = []

        def profile(num_steps, epsilon, seen=seen, delta=delta):
            seen.append(float(epsilon[0]))
            return [delta]

        value = arb(recursive.tied_tail(ja.Gaussian(1.0), direction, add_profile=profile)(n, rate, 0.0))
        with ctx.workprec(200):
            inner = (arb(n) * arb(rate)).log() / 2
            assert inner * (1 - arb(1e-6)) <= arb(seen[0]) <= inner
            at = arb(seen[0])
            factor = 1 / (at.exp() * (at.exp() - 1)) * (1 if direction is ja.Direction.REMOVE else (2 * at).exp())
            truth = (arb(delta) * factor).log()
            assert truth.min(arb(0)) <= value <= truth.min(arb(0)) + arb(1e-12)


@pytest.mark.parametrize("width", list(Width))
def test_half_widths_are_rounded_up(width):
    with ctx.workprec(300):
        for local in (1e-12, 1e-4, 0.3, 1.0, 100.0):
            e = arb(local)
            truth = (e.sinh() if width is Width.SINH else e.cosh()).log()
            assert truth <= arb(float(truncated._log_half_width(local, width))) <= truth + arb(1e-12)
