"""Brute force for small shuffles: laws of histograms, decompositions of randomizers, sums of mpmath.

A randomizer is an array of laws [inputs, outputs]; a law of histograms maps tuples of counts to probabilities.
"""

import itertools
import math
from collections import defaultdict

import mpmath as mp
import numpy as np


def histogram_law(laws):
    """Law of the counts of outputs when each law in `laws` (floats or fractions) draws one."""
    size = len(laws[0])
    total = {(0,) * size: 1}
    for law in laws:
        ahead = defaultdict(int)
        for counts, mass in total.items():
            for y, chance in enumerate(law):
                if chance:
                    ahead[(*counts[:y], counts[y] + 1, *counts[y + 1 :])] += mass * chance
        total = dict(ahead)
    return total


def mixture(parts):
    """The law sum of weight * law over (weight, law)."""
    total = defaultdict(int)
    for weight, law in parts:
        for outcome, mass in law.items():
            total[outcome] += weight * mass
    return dict(total)


def hockey_stick(p, q, factor):
    """sum of (p - factor q)_+ over dictionaries."""
    return sum(max(mass - factor * q.get(outcome, 0), 0) for outcome, mass in p.items())


def worst(p, q, factor):
    return max(hockey_stick(p, q, factor), hockey_stick(q, p, factor))


def random_randomizer(rng, inputs, outputs, spread):
    laws = rng.dirichlet(np.ones(outputs)) * np.exp(spread * rng.uniform(-0.5, 0.5, (inputs, outputs)))
    return laws / laws.sum(axis=1, keepdims=True)


def local_epsilon(randomizer):
    return float(np.log((randomizer[:, None] / randomizer[None]).max()))


def k_ary(k, growth):
    """k-ary randomized response with growth = e^eps - 1; exact for a Fraction."""
    single = 1 / (growth + k)
    return [[(growth + 1) * single if x == y else single for y in range(k)] for x in range(k)]


def response_parts(first, second, epsilon):
    """Q(0), Q(1) of the randomized-response simulation (Lemma 3.4): mixed with e/(e+1), they give the two laws."""
    e = math.exp(epsilon)
    return (e * first - second) / (e - 1), (e * second - first) / (e - 1)


def leftover(law, first, second, clone_prob):
    """LO of law = p/2 first + p/2 second + (1 - p) LO."""
    return (law - 0.5 * clone_prob * (first + second)) / (1 - clone_prob)


def simulated_law(randomizer, others, epsilon, bit):
    """The law of the shuffle of user 1 with input `bit` and of `others`, by Algorithms 1 and 3.

    Labels 0 and 1 draw from Q(0) and Q(1), label 2 from the leftover of an unused other user.
    """
    p, odds = math.exp(-epsilon), math.exp(epsilon)
    parts = response_parts(randomizer[0], randomizer[1], epsilon)
    pieces = []
    for own, labels in itertools.product((0, 1), itertools.product((0, 1, 2), repeat=len(others))):
        weight = (odds if own == bit else 1.0) / (odds + 1.0)
        weight *= math.prod(1.0 - p if label == 2 else 0.5 * p for label in labels)
        picked = list(itertools.combinations(others, labels.count(2)))
        for users in picked:
            laws = [parts[label] for label in (own, *labels) if label < 2]
            laws += [leftover(randomizer[x], randomizer[0], randomizer[1], p) for x in users]
            pieces.append((weight / len(picked), histogram_law(laws)))
    return mixture(pieces)


def inner_term(m, epsilon, local):
    """h_m of CL-S2, equal to the paper's inner term at c = m - 1, in mpmath."""
    s, t = mp.tanh(local / 2), mp.tanh(epsilon / 2)
    k = int(mp.floor(m * (1 + t / s) / 2)) + 1
    if k > m:
        return mp.mpf(0)
    pmf = mp.binomial(m, k) * mp.mpf(2) ** -m
    tail, term = mp.mpf(0), pmf
    for a in range(k, m + 1):
        tail += term
        term = term * (m - a) / (a + 1)
    return (1 + mp.exp(epsilon)) * s * k * pmf / m - mp.expm1(epsilon) * tail


def block_bound(n, epsilon, local, width, upper):
    """The paper's procedure (Appendix F) without its early exit: blocks [t S, t S + S) of C, its monotone ends."""
    p = mp.exp(-local)
    total, mass = mp.mpf(0), (1 - p) ** (n - 1)
    for start in range(0, n, width):
        block = mp.mpf(0)
        end = min(start + width, n)
        for c in range(start, end):
            block += mass
            mass = mass * (n - 1 - c) / (c + 1) * p / (1 - p)
        total += block * inner_term((start if upper else end - 1) + 1, epsilon, local)
    return total


def component_divergence(n, p, q, factor):
    """Theorem 4.1's pair by its definition: all counts of (A, B, C, rest), for fractions."""
    others = histogram_law([[p, p, p, 1 - 3 * p]] * (n - 1))
    laws = [defaultdict(int), defaultdict(int)]
    for (a, b, c, _), mass in others.items():
        laws[0][a + 1, b, c] += q * mass
        laws[1][a, b + 1, c] += q * mass
        for law in laws:
            law[a, b, c + 1] += (1 - q) * mass
    return hockey_stick(laws[0], laws[1], factor), hockey_stick(laws[1], laws[0], factor)


def binary_response_divergence(n, local, epsilon):
    """Both divergences of c^0 and c^1 (CL-S16) by their tails."""
    e, factor = mp.exp(mp.mpf(local)), mp.exp(mp.mpf(epsilon))
    r = 1 / (e + 1)

    def total(counts, term):
        counts = range(max(counts.start, 0), min(counts.stop, n + 1))
        if not counts:
            return mp.mpf(0)
        pmf = mp.binomial(n, counts.start) * r**counts.start * (1 - r) ** (n - counts.start)
        value = mp.mpf(0)
        for c in counts:
            value += pmf * term((e * c + (n - c) / e) / n)
            pmf = pmf * (n - c) / (c + 1) * r / (1 - r)
        return value

    reach = int(14 * math.sqrt(n * float(r * (1 - r))) + 60)
    first = int(mp.floor(n * (factor - 1 / e) / (e - 1 / e))) + 1
    last = int(mp.ceil(n * (1 / factor - 1 / e) / (e - 1 / e))) - 1
    up = total(range(first, first + reach), lambda ratio: ratio - factor)
    return up, total(range(last - reach, last + 1), lambda ratio: 1 - factor * ratio)
