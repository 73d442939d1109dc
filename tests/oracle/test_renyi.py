"""Renyi divergences: allocation by powers of a series (whole orders) and of two steps; Poisson-sampled steps."""

import functools

from flint import acb, arb, arb_series, ctx

import jaxacct as ja
from oracle.judging import Value, between, slices

_WHOLE = tuple(float(order) for order in range(2, 33))
_REAL = (1.02, 1.5, 1.97, 2.5, 4.75, 12.3, 40.5)
_PROMISE, _BETWEEN = 1e-3, 1e-2  # at little noise chords and closed forms answer for orders in between


def allocated_moments(noise, steps):
    """log E X^a of whole orders a: a! / t^a times a coefficient of (sum_c e^{c (c - 1) / (2 sigma^2)} x^c / c!)^t."""
    size = int(_WHOLE[-1]) + 1
    ctx.cap = size + 1
    inverse = 1 / arb(noise) ** 2
    moments = [(c * (c - 1) * inverse / 2).exp() / (arb(c) + 1).gamma() for c in range(size)]
    power = (arb_series(moments, size).log() * steps).exp()
    return {a: ((arb(a) + 1).gamma() * power[int(a)] / arb(steps) ** int(a)).log() for a in _WHOLE}


def gaussian_mean(function, low, high):
    """E function(z) for a standard normal z, up to what lies outside [low, high]."""
    root = (2 * arb.pi()).sqrt()

    def density(z, _):
        return function(z) * (-z * z / 2).exp() / root

    middle = (low + high) / 2
    parts = [(low, middle), (middle, high)]
    return sum((acb.integral(density, acb(a), acb(b), rel_tol=arb(2) ** -60).real for a, b in parts), arb(0))


def two_steps_moment(noise, s):
    """log E X^s for t = 2 and any real s: X = e^{(z + z')/(2 sigma) - 1/(2 sigma^2)} cosh((z - z')/(2 sigma))."""
    rate, s = 1 / (arb(2).sqrt() * arb(noise)), arb(s)
    reach = arb(14) + abs(s) * rate
    middle = gaussian_mean(lambda d: (s * _log_cosh(d * rate)).exp(), -reach, reach)
    # cosh^s <= e^{s |x|} for s > 0, <= 1 otherwise
    grown = s.max(arb(0)) * rate
    outside = 2 * (grown**2 / 2).exp() * ((reach - grown) / arb(2).sqrt()).erfc() / 2
    return (s * rate) ** 2 / 2 - s * rate**2 + (middle + arb(0).union(outside)).log()


def _log_cosh(z):
    return z.cosh().log()


def sampled_moment(noise, q, s):
    """log E R^s, R = 1 - q + q e^{z / sigma - 1 / (2 sigma^2)}, z standard normal, any real s."""
    rate, q, s = 1 / arb(noise), arb(q), arb(s)
    reach = arb(14) + abs(s) * rate
    middle = gaussian_mean(lambda z: (s * (1 - q + q * (z * rate - rate**2 / 2).exp()).log()).exp(), -reach, reach)
    tail = (arb(14) / arb(2).sqrt()).erfc()
    if s < 0:  # R^s <= (1 - q)^s
        return (middle + arb(0).union((s * (-q).log1p()).exp() * tail)).log()
    grown = (s * (s - 1) * rate**2 / 2).exp().max(arb(1))  # R^s <= 2^s (1 + Y^s), and Y^s tilts the law by s rate
    return (middle + arb(0).union(arb(2) ** s * 2 * grown * tail)).log()


@functools.cache
def _asked(mechanism, orders, direction):
    return dict(zip(orders, ja.rdp(mechanism, list(orders), direction=direction).values, strict=True))


def _values(mechanism, orders, direction, log_moment, order):
    """The divergence of one order from above."""
    truth = log_moment / (arb(order) - 1)
    yield Value(
        f"rdp of {mechanism!r}, order {order}, {direction}",
        lambda: float(_asked(mechanism, orders, direction)[order]),
        truth,
        promise=(_PROMISE if order in _WHOLE else _BETWEEN) if truth > 1e-13 else None,
    )


def cases(rng):
    noise, remove = between(rng, 0.2, 30), ja.Direction.REMOVE
    steps = int(between(rng, 1, 10 ** rng.uniform(0, 12)))
    allocation = ja.RandomAllocation(ja.Gaussian(noise), steps)
    moments = allocated_moments(noise, steps)
    for order in rng.choice(_WHOLE, 4, replace=False):
        yield from _values(allocation, _WHOLE, remove, moments[float(order)], float(order))
    two = ja.RandomAllocation(ja.Gaussian(noise), 2)
    q = between(rng, 1e-8, 0.999)
    sampled = ja.PoissonSampled(ja.Gaussian(noise), q, num_steps=1)
    order = float(rng.choice(_REAL))
    for direction, exponent in ((remove, arb(order)), (ja.Direction.ADD, 1 - arb(order))):
        yield from _values(two, _REAL, direction, two_steps_moment(noise, exponent), order)
        yield from _values(sampled, _REAL, direction, sampled_moment(noise, q, exponent), order)


test_default, test_slow = slices(cases, seed=7, quick=8, deep=5000, bits=192)
