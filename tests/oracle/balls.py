"""Ball arithmetic that the families share: tails of the normal law, binomial weights, profiles in closed form."""

from flint import arb

import jaxacct as ja


def cdf(x):
    """The normal distribution function of a ball, to relative accuracy on both sides.

    It is taken at both ends: flint's own bound for inexact arguments is crude far out.
    """
    y = -arb(x) / arb(2).sqrt()
    return y.upper().erfc().union(y.lower().erfc()) / 2


def density(x):
    return (-(arb(x) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()


def gaussian_delta(mu, epsilon):
    """delta of N(mu, 1) against N(0, 1) at a ball epsilon of either sign."""
    mu, epsilon = arb(mu), arb(epsilon)
    return cdf(mu / 2 - epsilon / mu) - epsilon.exp() * cdf(-mu / 2 - epsilon / mu)


def sampled(profile, probability, epsilon, direction):
    """delta of one Poisson-sampled release, given `profile` of the release itself in either direction.

    E_Q[(1 - q + q R - K)_+] is q delta(log((K - 1 + q) / q)); in the add direction, with K the other way round,
    E_Q[(1 - K (1 - q + q R))_+] is K q E_Q[((1/K - 1 + q) / q - R)_+].
    """
    q, epsilon = arb(probability), arb(epsilon)
    if q.is_zero():
        return arb(0)
    if direction is ja.Direction.REMOVE:
        return q * profile((epsilon.expm1() / q).log1p(), ja.Direction.REMOVE)
    below = ((-epsilon).expm1() / q) + 1  # what R must be below of: 1/K >= 1 - q + q R
    if not below > 0:
        return arb(0)
    return q * epsilon.exp() * below * profile(-below.log(), ja.Direction.ADD)


def laplace_delta(scale, epsilon):
    """delta of Laplace(1, b) against Laplace(0, b), the same in both directions."""
    epsilon = arb(epsilon)
    return (1 - ((epsilon - 1 / arb(scale)) / 2).exp()).max(arb(0))


def binomial(n, k, p):
    """P[Bin(n, p) = k] for whole n, k and a ball p, by log-gamma: sharp at any n."""
    n, k, p = arb(n), arb(k), arb(p)
    ways = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
    return (ways + (k * p.log() if k > 0 else 0) + ((n - k) * (-p).log1p() if n > k else 0)).exp()
