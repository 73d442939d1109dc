"""Pairs of two outputs, composed, Poisson-sampled or allocated: sums over how often the first output came."""

import math

from flint import arb

import jaxacct as ja
from oracle.balls import binomial
from oracle.counts import window
from oracle.judging import Profile, between, slices


def _probability(rng, x):
    """A double near x whose complement is one too."""
    return min(1.0 - 2.0**-50, max(2.0**-50, round(x * 2.0**50) / 2.0**50))


def delta_of(n, first, recorded, ratio, epsilon, direction):
    """E (X - K)_+ or E (1 - K X)_+ of X = ratio(count), count ~ Bin(n, first), under the law without the record.

    What a window leaves out is at most its probability: in the add direction under that law, in the remove direction
    under the one with the record, `recorded`: the window of a Bin(n', p') + 0 or 1.
    """
    if direction is ja.Direction.REMOVE:
        low, high, outside = window(*recorded, 90.0)
        high = min(n, high + 1)
    else:
        low, high, outside = window(n, first, 90.0)
    factor, total = epsilon.exp(), arb(0)
    for count in range(low, high + 1):
        x = ratio(count)
        gain = x - factor if direction is ja.Direction.REMOVE else 1 - factor * x
        total += binomial(n, count, first) * gain.max(arb(0))
    return total + arb(0).union(outside)


def _ratio(kind, rng, p, q, n):
    """A mechanism of n steps, the law of the record's count, the ratio by how often the first output came.

    Of k > 1 steps of n, n is small: no window.
    """
    first, second = arb(p) / arb(q), (1 - arb(p)) / (1 - arb(q))
    pair = ja.DiscretePair((p, 1.0 - p), (q, 1.0 - q))
    if kind == 0:
        return ja.RandomAllocation(pair, n), (n - 1, arb(q)), lambda c: (c * first + (n - c) * second) / n
    if kind == 1:
        rate = _probability(rng, between(rng, 1e-4, 1))
        one, two = (1 - arb(rate) + arb(rate) * r for r in (first, second))
        return (
            ja.PoissonSampled(pair, rate, n),
            (n, arb(q) + arb(rate) * (arb(p) - arb(q))),
            lambda c: one**c * two ** (n - c),
        )
    if kind == 2:
        return ja.Composed(pair, n), (n, arb(p)), lambda c: first**c * second ** (n - c)
    k = int(rng.integers(1, n + 1))

    def chosen(c):
        ways = sum(
            math.comb(c, j) * math.comb(n - c, k - j) * first**j * second ** (k - j)
            for j in range(max(0, k - n + c), min(c, k) + 1)
        )
        return ways / arb(math.comb(n, k))

    return ja.RandomAllocation(pair, n, k), (n, arb(1) / 2), chosen


def cases(rng):
    kind = int(rng.integers(4))
    n = int(between(rng, 1, 15 if kind == 3 else 200 if rng.random() < 0.5 else 1e8 if kind == 0 else 5000))
    q = _probability(rng, rng.random() if n <= 200 else between(rng, 0.5, 80) / n)
    p = _probability(rng, rng.choice([rng.random(), q * between(rng, 0.2, 5)])) if n <= 200 else rng.random() * 0.999
    p = 1.0 if rng.random() < 0.1 else _probability(rng, p)
    mechanism, recorded, ratio = _ratio(kind, rng, p, q, n)

    def delta(epsilon, direction):
        return delta_of(n, arb(q), recorded, ratio, epsilon, direction)

    # ratios at two typical counts say where epsilon is
    at = float(ratio(min(n, int(n * q + rng.normal() * math.sqrt(n * q) + 1))).mid())
    target = abs(math.log(at)) if at > 0 else 1.0
    yield Profile(mechanism, delta, target_epsilon=target, promised=kind != 3, least=1e-25)
    found = max(float(delta(arb(target), d).mid()) for d in ja.Direction)
    if 1e-12 < found < 0.9:
        yield Profile(mechanism, delta, target_delta=found * (1 + 1e-3), promised=kind != 3, least=1e-25)


test_default, test_slow = slices(cases, seed=6, quick=15)
