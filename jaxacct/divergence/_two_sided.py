"""Renyi divergences of two-sided geometric noise, of mass proportional to e^(-d |x|), centred at D against 0.

This is discrete Laplace noise, and in the limit d to 0 Laplace noise. With x = d D, the largest loss, the likelihood
ratio Y has

    E_Q[Y^a] = 1 + B (e^((a-1) x) - 1) - A (1 - e^(-a x)),
    B = (1 - e^(-2 a d)) / ((1 - e^-((2a-1) d)) (1 + e^-d)),   A = 1 - B = e^-d (1 - e^(-2 (a-1) d)) / (..),

a geometric sum over the outputs; B = a / (2a - 1) for Laplace noise (Mironov 2017, Proposition 6). Both directions have
the same divergence, since a reflection swaps the distributions. Shapes: orders [A, 1], lanes [L].
"""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax
from jaxacct.special import log1p, logexpm1, sinh, up
from jaxacct.special._namespace import xp

# bounds the rounding errors of the terms of a difference and of the logarithms, some ten ulp each, relative to them
_SLACK = 2.0**-46


def laplace_rdp(orders: Any, largest: jax.Array) -> jax.Array:
    """Renyi divergences [A, L], rounded up, of Laplace noise whose largest loss is `largest` [L]; orders a > 1.

    log( a/(2a-1) e^((a-1) x) + (a-1)/(2a-1) e^(-a x) ) / (a - 1): Mironov 2017, Proposition 6.
    """
    a = xp.asarray(orders, xp.float64)
    return _rdp(a, largest, a / (2.0 * a - 1.0), (a - 1.0) / (2.0 * a - 1.0))


def laplace_kl(largest: jax.Array) -> jax.Array:
    """The divergence of order 1 [L], rounded up, of Laplace noise: x - 1 + e^-x; at most x^2 / 2."""
    return _least(largest + xp.expm1(-largest) + _SLACK * largest, 1.0, largest)


def laplace_log_excess(orders: Any, largest: jax.Array) -> jax.Array:
    """log(E_Q[Y^a] - 1) [A, L], rounded up, of Laplace noise."""
    log_moment = laplace_rdp(orders, largest) * (xp.asarray(orders, xp.float64) - 1.0)
    return logexpm1(xp.maximum(log_moment, 1e-300)) + _SLACK


def discrete_laplace_rdp(orders: Any, decay: jax.Array, largest: jax.Array) -> jax.Array:
    """Renyi divergences [A, L], rounded up, of discrete Laplace noise of decay d and largest loss d D; orders a > 1."""
    a = xp.asarray(orders, xp.float64)
    d = xp.maximum(decay, 1e-290)
    whole = -xp.expm1(-(2.0 * a - 1.0) * d) * (1.0 + xp.exp(-d))
    rising = -xp.expm1(-2.0 * a * d) / whole
    return _rdp(a, largest, rising, -xp.exp(-d) * xp.expm1(-2.0 * (a - 1.0) * d) / whole)


def discrete_laplace_kl(decay: jax.Array, largest: jax.Array) -> jax.Array:
    """The divergence of order 1 [L], rounded up, of discrete Laplace noise: x - (1 - e^-x) d / sinh d."""
    some = xp.where(decay > 1e-5, xp.minimum(decay, 700.0), 1.0)
    share = xp.where(decay > 1e-5, some / sinh(some), 1.0 - decay * decay / 6.0)  # below 1e-5 a series, from below
    return _least(largest + share * xp.expm1(-largest) + _SLACK * largest, 1.0, largest)


def _rdp(a: jax.Array, x: jax.Array, rising: jax.Array, falling: jax.Array) -> jax.Array:
    """The divergences from B = `rising` and A = `falling`: x + log(B + A e^(-(2a-1) x)) / (a - 1) if (a-1) x > 1."""
    near = (a - 1.0) * x <= 1.0
    y = xp.where(near, x, 0.5 / (a - 1.0))
    gain, loss = rising * xp.expm1((a - 1.0) * y), -falling * xp.expm1(-a * y)
    excess = xp.maximum(gain - loss, 0.0) + _SLACK * (gain + loss)
    small = log1p(excess) / (a - 1.0) * (1.0 + _SLACK)
    y = xp.where(near, 2.0 / (a - 1.0), x)
    large = y + xp.log(rising + falling * xp.exp(-(2.0 * a - 1.0) * y)) / (a - 1.0)
    large = large + _SLACK * (y + 1.0 / (a - 1.0))
    return _least(xp.where(near, small, large), a, x)


def _least(found: jax.Array, a: Any, x: jax.Array) -> jax.Array:
    """`found`, capped at the largest loss and at a x^2 / 2 (Bun & Steinke 2016, Proposition 1.4), sharp near 0."""
    return xp.minimum(xp.maximum(found, 0.0), xp.minimum(up(0.5 * a * x * x, 8), x))
