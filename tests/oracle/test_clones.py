"""One round of shuffled reports: the clones pair (Feldman, McMillan and Talwar 2020), by sums over its counts."""

import math

from flint import arb

import jaxacct as ja
from oracle.counts import clones_delta
from oracle.judging import Profile, between, slices


def cases(rng):
    if rng.random() < 0.7:
        n, local = int(between(rng, 2, 80)), between(rng, 0.01, 6)
    else:
        clones = between(rng, 1, 100)
        n = int(between(rng, 2 * clones, 1e9))
        local = math.log(n / clones)
    mechanism = ja.Shuffled(ja.LocalRandomizer(local), n)
    p, scale = (-arb(local)).exp(), (arb(local) / 2).tanh()

    def delta(epsilon, direction):
        del direction
        return clones_delta(n, p, scale, epsilon)

    target = local * rng.random()
    yield Profile(mechanism, delta, target_epsilon=target, directions=(None,), below=False, least=1e-20)
    found = float(delta(arb(target), None).mid())
    if 1e-14 < found < 0.9:
        yield Profile(mechanism, delta, target_delta=found, directions=(None,), below=False, least=1e-20)


test_default, test_slow = slices(cases, seed=4, quick=40)
