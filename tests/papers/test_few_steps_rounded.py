"""Allocation in a few steps by cells: what is booked for rounding, against balls."""

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx

from jaxacct.papers.random_allocation import _few_steps as cells

SIGMAS = (0.25, 0.7, 3.0, 100.0)


def _tail(x):
    return (x / arb(2).sqrt()).erfc() / 2


def _ends(sigma, size):
    """Of the ends of cells: places, the mass of Y beyond each, and its part of the mean."""
    s = 1 / arb(sigma)
    g = [arb(float(x)) for x in np.linspace(-9.0, 9.0 + 1.0 / sigma, size)]
    return [(s * x - s * s / 2).exp() for x in g], [_tail(x) for x in g], [_tail(x - s) for x in g]


def _is_known(found, truth, error, most):
    """Whether `found`, a ball, is within `error` of `truth`, and that no more than `most`."""
    return abs(found - truth) <= arb(error) and error <= most


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_contracted_law_is_known_as_it_says(sigma):
    law = cells._lattice(sigma, 90, False)
    with ctx.workprec(200):
        _, mass, mean = _ends(sigma, 90)
        masses, values = ([arb(float(x)) for x in part] for part in (law.masses, law.values))
        for i in range(89):
            beyond = sum(masses[i:], arb(0))
            assert _is_known(beyond, mass[i] - mass[-1], law.mass_error, 1e-14)
            beyond = sum((m * v for m, v in zip(masses[i:], values[i:], strict=True)), arb(0))
            assert _is_known(beyond, mean[i] - mean[-1], law.mean_error, 1e-13)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_spread_law_is_above_but_for_what_it_says(sigma):
    """(Y - K)_+ for K between the points, where a spread law is nearest to the truth, and at them."""
    law = cells._lattice(sigma, 3000, True)
    with ctx.workprec(200):
        s = 1 / arb(sigma)
        for at in np.linspace(0.0, 3000.0, 23).astype(int):
            k = arb(float(law.values[at]))
            if k == 0:
                continue
            x = k.log() / s
            truth = _tail(x - s / 2) - k * _tail(x + s / 2)
            found = sum(
                (arb(float(m)) * (arb(float(v)) - k) for m, v in zip(law.masses[at:], law.values[at:], strict=True)),
                arb(0),
            )
            error = arb(law.mean_error) + k * arb(law.mass_error)
            assert found + error + arb(law.beyond) >= truth
        _, _, mean = _ends(sigma, 3000)
        total = sum((arb(float(m)) * arb(float(v)) for m, v in zip(law.masses, law.values, strict=True)), arb(0))
        assert _is_known(total, 1 - mean[-1], law.mean_error, 1e-13)
        assert law.beyond < 2e-19


@pytest.mark.parametrize("remove", [True, False])
def test_the_last_step_and_sums_are_known_as_they_say(remove):
    """Every sum over the values of a short law, in balls."""
    rng = np.random.default_rng(4)
    values, masses = np.sort(rng.lognormal(0.0, 0.1, 12)), rng.dirichlet(np.ones(12))
    law = cells._Law(values, masses / max(1.0, float(masses @ values)), 0.0, 0.0, 0.0)
    for (t, k), sigma, level in itertools.product(((2, 1), (3, 2), (4, 2)), (2.0, 50.0), (0.7, 1.0, 1.3)):
        found = cells._mean(law, t, k, level, 1.0 / sigma, remove=remove)
        error = cells._rounding(law, t, level, 1.0 / sigma, found)
        with ctx.workprec(120):
            s, truth = 1 / arb(sigma), arb(0)
            pairs = [(arb(float(v)), arb(float(m))) for v, m in zip(law.values, law.masses, strict=True)]
            for chosen in itertools.combinations_with_replacement(pairs, t - 1):
                polynomial, mass = [arb(1), *[arb(0)] * k], arb(1)
                for v, m in chosen:
                    polynomial = [p + (polynomial[i - 1] * v if i else 0) for i, p in enumerate(polynomial)]
                    mass = mass * m
                ways = math.factorial(t - 1)
                for pair in set(chosen):
                    ways //= math.factorial(chosen.count(pair))
                gap = arb(level) - polynomial[k] / math.comb(t, k)
                slope = polynomial[k - 1] / math.comb(t, k)
                if gap <= 0:
                    value = slope - gap if remove else arb(0)
                else:
                    x = (slope / gap).log() / s
                    sign = 1 if remove else -1
                    value = sign * (slope * _tail(-sign * (x + s / 2)) - gap * _tail(-sign * (x - s / 2)))
                truth = truth + ways * mass * value
            assert _is_known(arb(found), truth, error, 1e-13)
