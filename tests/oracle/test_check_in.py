"""One round of shuffled check-ins: the mean over how many joined, by sums over that number and over the clones."""

from flint import arb

import jaxacct as ja
from oracle.balls import binomial
from oracle.counts import clones_delta, window
from oracle.judging import Profile, between, slices


def check_in_delta(n, q, p, scale, epsilon):
    """sum over k of P[Bin(n, q) = k] (k / n) D_k(log(1 + (n / k) (e^epsilon - 1)))."""
    first, last, outside = window(n, q, 50.0)
    total = arb(0)
    for k in range(max(1, first), last + 1):
        inner = clones_delta(k, p, scale, (epsilon.expm1() * n / k).log1p(), 50.0)
        total += binomial(n, k, q) * k / n * inner
    return total + arb(0).union(outside)


def cases(rng):
    joined, local = between(rng, 0.3, 8), between(rng, 0.05, 6)
    n = int(between(rng, max(2.0, joined), 30 if rng.random() < 0.5 else 1e9))
    q = min(1.0, joined / n)
    mechanism = ja.CheckIn(ja.LocalRandomizer(local), n, q)
    p, scale, rate = (-arb(local)).exp(), (arb(local) / 2).tanh(), arb(q)

    def delta(epsilon, direction):
        del direction
        return check_in_delta(n, rate, p, scale, epsilon)

    target = float((rate * arb(local).expm1() * float(between(rng, 1e-3, 1))).log1p().mid())
    yield Profile(mechanism, delta, target_epsilon=target, directions=(None,), below=False, least=1e-12)
    found = float(delta(arb(target), None).mid())
    if 1e-10 < found < 0.9:
        yield Profile(mechanism, delta, target_delta=found, directions=(None,), below=False, least=1e-12)


test_default, test_slow = slices(cases, seed=5, quick=10, deep=5000, bits=128)
