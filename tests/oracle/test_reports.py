"""Rounds of shuffled reports are no more private than what their counts or their sum tell: answers from above."""

import math

from flint import arb

import jaxacct as ja
from oracle.balls import binomial, gaussian_delta
from oracle.counts import window
from oracle.judging import Value, between, slices


def told_by_counts(rounds, others, keep, turn, epsilon):
    """The larger delta of Bin(rounds, keep) and Bin(rounds, turn), each + Bin(rounds * others, turn), from below.

    Only counts whose masses are whole are looked at: leaving out others lowers delta.
    """
    trials = rounds * others
    low, high, _ = window(trials, turn, 40.0)
    crowd = [binomial(trials, c, turn) for c in range(low, high + 1)]
    laws = []
    for p in (keep, turn):
        own = [binomial(rounds, j, p) for j in range(rounds + 1)]
        law = [arb(0)] * (len(crowd) + rounds)
        for j, weight in enumerate(own):
            for c, mass in enumerate(crowd):
                law[c + j] += weight * mass
        laws.append(law)
    whole = slice(rounds if low else 0, len(crowd) if high < trials else None)
    first, second = (law[whole] for law in laws)
    factor = epsilon.exp()
    ways = ((first, second), (second, first))
    one, other = (sum(((a - factor * b).max(arb(0)) for a, b in zip(*way, strict=True)), arb(0)) for way in ways)
    return one.max(other)


def _above(mechanism, epsilon, truth):
    """delta of a mechanism at an epsilon is no less than `truth`."""
    return Value(f"delta of {mechanism!r} at {epsilon!r}", lambda: ja.delta(mechanism, epsilon), truth)


def cases(rng):
    rounds, local = int(rng.choice([1, 1, 2, 5])), between(rng, 0.05, 6)
    categories = int(rng.choice([2, 3, 10, 100]))
    turn = 1 / (arb(local).exp() + categories - 1)
    turned = between(rng, 0.2, 2000)
    n = max(2, int(turned / (rounds * float(turn.mid()))))
    epsilon = 3 * rng.random() * min(local, 1.0 / math.sqrt(turned) * math.sqrt(rounds))
    truth = told_by_counts(rounds, n - 1, arb(local).exp() * turn, turn, arb(epsilon))
    yield _above(ja.Shuffled(ja.KaryRandomizedResponse(local, categories), n, rounds), epsilon, truth)
    if categories == 2:
        yield _above(ja.Shuffled(ja.LocalRandomizer(local), n, rounds), epsilon, truth)
    users, joins = max(2, int(n / rng.uniform(0.05, 1))), rng.uniform(0.05, 1)
    check_in = ja.CheckIn(ja.KaryRandomizedResponse(local, categories), users, joins, rounds)
    if users * rounds * joins * float(turn.mid()) < 3000:
        rate = arb(joins) * turn
        keep = rate * arb(local).exp()
        yield _above(check_in, epsilon, told_by_counts(rounds, users - 1, keep, rate, arb(epsilon)))
    noise, reports = between(rng, 0.5, 20), int(between(rng, 1, 1e6))
    mu = 2 * (arb(rounds) / reports).sqrt() / arb(noise)
    epsilon = float(mu.mid()) * 3 * rng.random()
    yield _above(ja.Shuffled(ja.GaussianReports(noise), reports, rounds), epsilon, gaussian_delta(mu, epsilon))


test_default, test_slow = slices(cases, seed=9, quick=4, deep=2000, bits=128)
