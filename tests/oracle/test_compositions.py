"""Compositions: Laplace releases by truncated exponentials, Gaussian ones beside a sampled one by one integral."""

import itertools
import math

from flint import acb, arb

import jaxacct as ja
from oracle.balls import cdf, laplace_delta
from oracle.judging import Profile, between, slices

_TIGHT = arb(2) ** -60


def laplace_many(scale, count, epsilon):
    """delta of `count` Laplace releases: a loss is -c or c (atoms), or spread between with density e^{-(l + c)/2} / 4.

    Under the law without the record the atoms weigh 1/2 and e^{-c} / 2, c = 1 / scale. Of i, j and k = count - i - j of
    the three kinds, what is spread has the density e^{-(y + k c)/2} / 4^k times that of a sum of k uniform variables
    on [-c, c] by volume, an alternating sum of (y - y_r)_+^{k-1}; each is integrated in closed form.
    """
    c = 1 / arb(scale)
    total = arb(0)
    for i in range(count + 1):
        for j in range(count + 1 - i):
            k = count - i - j
            ways = arb(math.comb(count, i) * math.comb(count - i, j))
            weight = ways * (arb(1) / 2) ** i * ((-c).exp() / 2) ** j / 4**k
            total += weight * _spread_excess(k, c, (j - i) * c, epsilon)
    return total


def _spread_excess(k, c, shift, epsilon):
    """The integral of (e^{y + shift} - e^epsilon)_+ e^{-(y + kc)/2} over k numbers in [-c, c], y their sum."""
    if k == 0:
        return (shift.exp() - epsilon.exp()).max(arb(0))
    lowest = epsilon - shift
    total = arb(0)
    for r in range(k + 1):
        start = (2 * r - k) * c
        begin = start.max(lowest)
        if not begin < k * c:
            continue
        up = _power_integral(k - 1, arb(1) / 2, start, begin, k * c) * shift.exp()
        down = _power_integral(k - 1, -arb(1) / 2, start, begin, k * c) * epsilon.exp()
        total += (-1) ** r * math.comb(k, r) * (up - down)
    return total * (-(k * c) / 2).exp() / math.factorial(k - 1)


def _power_integral(n, rate, start, low, high):
    """The integral of (y - start)^n e^{rate y} over [low, high], by its primitive."""

    def primitive(y):
        x, total, term = y - start, arb(0), arb(1)
        for m in range(n + 1):  # sum of (-1)^m n!/(n-m)! x^{n-m} / rate^{m+1}
            total += term * x ** (n - m) / rate ** (m + 1)
            term *= -(n - m)
        return total * (rate * y).exp()

    return primitive(high) - primitive(low)


def sampled_beside_gaussian(noise, mu, q, epsilon, remove):
    """delta of one Poisson-sampled release beside Gaussian ones of mean mu: an integral over the sampled output."""
    rate, mu, q, factor = 1 / arb(noise), arb(mu), arb(q), epsilon.exp()
    reach = arb(14) + rate

    def given(z):
        ratio = 1 - q + q * (z * rate - rate**2 / 2).exp()
        level = (factor / ratio if remove else 1 / (factor * ratio)).log()  # where the Gaussian loss decides
        first, second = _cdf(mu / 2 - level / mu), _cdf(-mu / 2 - level / mu)
        # E (ratio Y - K)_+, or E (1 - K ratio Y)_+
        gain = ratio * first - factor * second if remove else (1 - second) - factor * ratio * (1 - first)
        return gain * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()

    ends = itertools.pairwise([-reach, arb(0), rate, reach])
    inner = sum((acb.integral(lambda z, _: given(z), acb(a), acb(b), rel_tol=_TIGHT).real for a, b in ends), arb(0))
    outside = 2 * cdf(-arb(14))  # gains are below the ratio or 1, whose laws have no more than this beyond
    return inner + arb(0).union(2 * outside)


def _cdf(z):
    return (-z / arb(2).sqrt()).erfc() / 2


def cases(rng):
    if rng.random() < 0.5:
        count, scale = int(rng.integers(1, 9)), between(rng, 0.3, 200)
        mechanism = ja.Laplace(scale) if count == 1 else ja.Composed(ja.Laplace(scale), count)
        top = count / scale

        def delta(epsilon, direction):
            del direction
            return laplace_delta(scale, epsilon) if count == 1 else laplace_many(scale, count, epsilon).max(arb(0))

        target = top * rng.random() ** 2
    else:
        noise, count, other, q = between(rng, 0.4, 4), int(between(rng, 1, 50)), between(rng, 0.5, 30), rng.random()
        mechanism = ja.Composed((ja.PoissonSampled(ja.Gaussian(noise), q, num_steps=1), ja.Gaussian(other)), (1, count))
        mu = arb(count).sqrt() / arb(other)

        def delta(epsilon, direction):
            return sampled_beside_gaussian(noise, mu, q, epsilon, direction is ja.Direction.REMOVE)

        target = float(mu.mid()) * (float(mu.mid()) / 2 + 3 * rng.random()) + q / noise
    yield Profile(mechanism, delta, target_epsilon=target, least=1e-12)
    found = max(float(delta(arb(target), d).mid()) for d in ja.Direction)
    if 1e-10 < found < 0.9:
        yield Profile(mechanism, delta, target_delta=found, least=1e-12)


test_default, test_slow = slices(cases, seed=8, quick=8, deep=2000, bits=224)
