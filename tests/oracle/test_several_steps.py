"""Two Poisson-sampled steps, equal or of a schedule, by one integral; two epochs between sums over cells of one."""

import itertools

import numpy as np
from flint import acb, arb

import jaxacct as ja
from oracle.balls import cdf
from oracle.judging import Profile, between, slices
from oracle.test_epoch_in_composition import epoch_and_gaussian

_TIGHT, _REACH = arb(2) ** -50, 13
_FLAT = 12  # standard deviations from which on a profile is its asymptote, but for a tail


def _phi(z):
    return (-z / arb(2).sqrt()).erfc() / 2


def _density(z):
    return (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


def _ratio(z, rate, q):
    return 1 - q + q * (z * rate - rate**2 / 2).exp()


def _integral(f, ends, tolerance):
    pieces = [
        acb.integral(lambda z, _: f(z), acb(a), acb(b), rel_tol=tolerance).real
        for a, b in itertools.pairwise(ends)
        if a < b
    ]
    return sum(pieces, arb(0))


def two_sampled(steps, epsilon, remove):
    """delta of two steps (noise, q): given the output z of the first, the other's profile at what is left, closed.

    With R = 1 - q + q Y and c = (level - 1 + q) / q, E(R - level)_+ = q E(Y - c)_+, and 1 - level from c = 0 down;
    where c is so small that Y is hardly ever below, it is that but for at most q c P[Y < c].
    """
    (rate, q), (other, share) = ((1 / arb(noise), arb(q)) for noise, q in steps)
    factor = epsilon.exp()
    least = (-other * _FLAT).exp()
    turn = 1 - share + share * least  # the level where c is `least`
    at = (factor / turn if remove else 1 / (factor * turn)) - 1 + q  # q Y of the first where that is the other's level
    reach = float((arb(_REACH) + rate).upper())
    edge = -reach  # where the level is never above the turn
    if at > 0:
        edge = max(edge, min(reach, float(((at / q).log() / rate + rate / 2).mid())))

    def given(z):
        ratio = _ratio(z, rate, q)
        level = factor / ratio if remove else 1 / (factor * ratio)
        c = (level - 1 + share) / share
        x = c.log() / other
        if remove:
            return ratio * share * (_phi(other / 2 - x) - c * _phi(-other / 2 - x)) * _density(z)
        return factor * ratio * share * (c * _phi(x + other / 2) - _phi(x - other / 2)) * _density(z)

    ends = sorted({-reach, min(0.0, edge), min(float(rate.mid()), edge), edge})
    inner = _integral(given, ends, _TIGHT)
    slack = 2 * cdf(-arb(_REACH)) + 4 * share * least * factor * cdf(-arb(_FLAT) + other / 2)
    if remove:  # beyond the edge E(ratio R - K)_+ is ratio - K
        z = arb(edge)
        inner += (1 - q - factor) * cdf(-z) + q * cdf(rate - z)
    return inner + arb(0).union(2 * slack)


def two_epochs(noises, epsilon, remove):
    """delta of two epochs, each in one of two steps: X_i = e^{z r - r^2} cosh(d r), r = 1 / (sqrt 2 sigma).

    Given d of the first, it is s = cosh(d r) e^{-r^2/2} times a Gaussian release beside the second epoch, whose profile
    is convex in s: on a cell of d it is below its chord and, in the mean, above its value at the mean of s.
    """
    rate, other = 1 / (arb(2).sqrt() * arb(noises[0])), noises[1]
    tilt = (-(rate**2) / 2).exp()

    def at(size):  # E (s Z - e^epsilon)_+, or E (1 - e^epsilon s Z)_+
        shift = epsilon - size.log() if remove else epsilon + size.log()
        found = epoch_and_gaussian(other, rate**2, shift, remove)
        return size * found if remove else found

    edges = [arb(x) for x in [*np.linspace(0.0, 6.0, 49), *np.linspace(6.0, 15.0, 10)[1:]]]
    sizes = [(d * rate).cosh() * tilt for d in edges]
    values = [at(size) for size in sizes]
    below = above = arb(0)
    for a, b, first, last, low, high in zip(edges, edges[1:], sizes, sizes[1:], values, values[1:], strict=False):
        mass = 2 * (cdf(-a) - cdf(-b))
        mean = (cdf(rate - a) - cdf(rate - b) + cdf(-rate - a) - cdf(-rate - b)) / mass
        above += mass * (low + (high - low) * (mean - first) / (last - first))
        below += mass * at(mean)
    end = edges[-1]
    rest = cdf(rate - end) + cdf(-rate - end) if remove else 2 * cdf(-end)  # gains are at most s, or 1
    return below.union(above) + arb(0).union(rest)


def sampled(rng):
    steps = [(between(rng, 0.3, 8), min(0.999, between(rng, 1e-3, 1.2))) for _ in range(2)]
    equal = rng.random() < 0.5
    steps[1] = steps[0] if equal else steps[1]

    def delta(epsilon, direction):
        return two_sampled(steps, epsilon, direction is ja.Direction.REMOVE)

    first, second = (ja.PoissonSampled(ja.Gaussian(noise), q, num_steps=1) for noise, q in steps)
    both = ja.PoissonSampled(ja.Gaussian(steps[0][0]), steps[0][1], 2) if equal else ja.Composed((first, second))
    target = between(rng, 1e-9, 1e-2)
    epsilon = ja.epsilon(both, target)
    yield Profile(both, delta, target_epsilon=float(epsilon * rng.uniform(0.3, 1)), least=1e-10)


def epochs(rng):
    noises = [between(rng, 0.5, 4), between(rng, 0.5, 4)]
    equal = rng.random() < 0.5
    noises[1] = noises[0] if equal else noises[1]

    def delta(epsilon, direction):
        return two_epochs(noises, epsilon, direction is ja.Direction.REMOVE)

    first, second = (ja.RandomAllocation(ja.Gaussian(noise), 2) for noise in noises)
    both = ja.RandomAllocation(ja.Gaussian(noises[0]), 2, num_epochs=2) if equal else ja.Composed((first, second))
    epsilon = ja.epsilon(both, between(rng, 1e-6, 1e-2)) * rng.uniform(0.3, 1)
    yield Profile(both, delta, target_epsilon=float(epsilon), promised=False)


test_default, test_slow = slices(sampled, seed=15, quick=2, deep=500)
test_epochs, test_epochs_slow = slices(epochs, seed=16, quick=1, deep=100)
