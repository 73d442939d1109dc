"""What an observer of a few shuffled reports of a finite randomizer can tell, by enumeration of all outputs."""

import itertools
import math
from collections import defaultdict


def seen(rows, data, prob=1.0):
    """The law of the sorted reports of users with `data`, each of whom joins with probability `prob`."""
    law = {(): 1.0}
    for x in data:
        grown = defaultdict(float)
        for known, p in law.items():
            grown[known] += p * (1.0 - prob)
            for output, r in enumerate(rows[x]):
                grown[tuple(sorted((*known, output)))] += p * prob * r
        law = grown
    return law


def divergence(first, second, epsilon):
    """sum (P - e^epsilon Q)_+."""
    return math.fsum(max(p - math.exp(epsilon) * second.get(key, 0.0), 0.0) for key, p in first.items())


def true_delta(rows, num_users, epsilon, prob=1.0):
    """The largest divergence over the data of all users and what replaces that of one of them."""
    found = 0.0
    inputs = range(len(rows))
    for others in itertools.combinations_with_replacement(inputs, num_users - 1):
        laws = [seen(rows, (x, *others), prob) for x in inputs]
        found = max(found, *(divergence(p, q, epsilon) for p, q in itertools.permutations(laws, 2)))
    return found
