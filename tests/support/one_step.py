"""The privacy profile of one Poisson-sampled Gaussian step, by mpmath."""

import mpmath as mp

from jaxacct import Direction


def true_delta(sigma: float, q: float, epsilon: float, direction: Direction) -> mp.mpf:
    """delta of one sampled step: its likelihood ratio is monotone, so one threshold is the best test."""
    mu, q, grown = 1 / mp.mpf(sigma), mp.mpf(q), mp.exp(mp.mpf(epsilon))
    ratio = (grown - 1 + q) / q if direction is Direction.REMOVE else (1 / grown - 1 + q) / q
    if ratio <= 0:
        return mp.mpf(0)
    z = (mp.log(ratio) + mu * mu / 2) / mu
    sign = 1 if direction is Direction.REMOVE else -1
    under, over = mp.ncdf(-sign * z), mp.ncdf(sign * (mu - z))  # the test's mass under Q, and under the shifted law
    mixed = (1 - q) * under + q * over
    return mixed - grown * under if direction is Direction.REMOVE else under - grown * mixed
