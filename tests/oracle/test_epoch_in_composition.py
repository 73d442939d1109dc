"""An epoch of allocation in one of two steps beside Gaussian releases, delta to 1e-13: one integral."""

from flint import acb, arb

import jaxacct as ja
from oracle.balls import cdf
from oracle.judging import Profile, between, slices

_TIGHT, _TINY, _REACH = arb(2) ** -40, arb(10) ** -24, 13


def _cdf(z):
    return (-z / arb(2).sqrt()).erfc() / 2


def epoch_and_gaussian(noise, square, epsilon, remove):
    """delta of X e^{M}: X = e^{z r - r^2} cosh(d r), r = 1 / (sqrt 2 sigma); M ~ N(-s / 2, s) the other releases' loss.

    Given d the product is cosh(d r) e^{-r^2 / 2} times the exponential of a normal variable of variance v = r^2 + s and
    mean -v / 2: the formula of Black and Scholes. Both z and d are standard normal: a sum and a difference.
    """
    r = 1 / (arb(2).sqrt() * arb(noise))
    spread = (r**2 + square).sqrt()
    level = epsilon if remove else -epsilon
    tiny = _TINY * (level - epsilon).exp()

    def given(d):
        size = (d * r).cosh() * (-(r**2) / 2).exp()
        far = (size.log() - level) / spread + spread / 2
        if remove:  # E (size e^G - e^level)_+
            gain = size * _cdf(far) - level.exp() * _cdf(far - spread)
        else:  # E (e^level - size e^G)_+
            gain = level.exp() * _cdf(spread - far) - size * _cdf(-far)
        return gain * (-d * d / 2).exp() / (2 * arb.pi()).sqrt()

    reach = acb(_REACH) + r
    found = 2 * acb.integral(lambda d, _: given(d), acb(0), reach, rel_tol=_TIGHT, abs_tol=tiny).real
    if remove:  # E cosh(d r) e^{-r^2 / 2} beyond: two tilted laws, each turned by r
        return found + arb(0).union(2 * cdf(-arb(_REACH)))
    return epsilon.exp() * found + arb(0).union(2 * cdf(-arb(_REACH)))


def cases(rng):
    noise, other, count = between(rng, 0.3, 5), between(rng, 0.5, 20), int(between(rng, 1, 100))
    epoch = ja.RandomAllocation(ja.Gaussian(noise), 2)
    mechanism = ja.Composed((epoch, ja.Gaussian(other)), (1, count))
    square = arb(count) / arb(other) ** 2

    def delta(epsilon, direction):
        return epoch_and_gaussian(noise, square, epsilon, direction is ja.Direction.REMOVE)

    target = between(rng, 1e-13, 1e-2)
    yield Profile(mechanism, delta, target_delta=target, least=1e-15)
    yield Profile(mechanism, delta, target_epsilon=ja.epsilon(mechanism, target) * rng.uniform(0.5, 1), least=1e-15)


test_default, test_slow = slices(cases, seed=10, quick=6, deep=2000, bits=192)
