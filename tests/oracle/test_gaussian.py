"""Gaussian releases, alone and composed: one normal law against another."""

from flint import arb

import jaxacct as ja
from oracle.balls import gaussian_delta
from oracle.judging import Profile, between, slices


def _mechanism(rng):
    """A mechanism, and the square of its mean over its noise, exact."""
    kind = rng.integers(3)
    noises = [between(rng, 1e-2, 1e3) for _ in range(1 + 2 * (kind == 2))]
    if kind == 0:
        return ja.Gaussian(noises[0]), 1 / arb(noises[0]) ** 2
    counts = tuple(int(between(rng, 1, 10 ** rng.uniform(0, 12))) for _ in noises)
    square = sum((count / arb(noise) ** 2 for count, noise in zip(counts, noises, strict=True)), arb(0))
    return ja.Composed(tuple(map(ja.Gaussian, noises)), counts), square


def cases(rng):
    mechanism, square = _mechanism(rng)
    mu = square.sqrt()

    def delta(epsilon, direction):
        del direction
        return gaussian_delta(mu, epsilon)

    size = float(mu)
    epsilon = max(0.0, size**2 / 2 + size * rng.uniform(-4, 10))
    yield Profile(mechanism, delta, target_epsilon=epsilon)
    yield Profile(mechanism, delta, target_delta=between(rng, 1e-14, 0.3))


test_default, test_slow = slices(cases, seed=1, quick=100)
