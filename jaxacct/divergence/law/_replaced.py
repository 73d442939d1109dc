"""The law of a Gaussian step, sampled or not, when one record replaces another: moved by mu against moved by -mu.

With z standard normal without either record, e(z) = e^{mu z - mu^2/2} and A(z) = 1 - q + q e(z),

    P has the density A(z) phi(z), Q the density A(-z) phi(z), and Y = A(z) / A(-z) grows with z:

this is the worst-case pair, in either order (`jaxacct.bounds._mirrored`).

Shapes: [G] points; one lane at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jnp
from jaxacct.divergence.law._law import MOST_PROB, BasePoints, Law, gauss_in_cells, reach_for, sampled
from jaxacct.special import ULP, expm1, log_normal_tail


def replaced(noise_multiplier: Any, sampling_prob: Any, log_share: Any, num: int) -> Law:
    """`Law` of one such step, the same in both directions.

    In a cell of z the ratio goes to its values at the two ends, its mean kept. At u above the lower end z0 of a cell of
    width k, P exceeds Q times that end's ratio by q phi(z) / A(-z0) times

        n(u) = e(z0) A(-z0) expm1(mu u) - A(z0) e(-z0) expm1(-mu u),

    a sum of positive terms, and the mass that goes to the upper end z1 is phi(z) A(-z1) n(u) / n(k).

    Args:
      noise_multiplier: `LEAST_NOISE` or more.
      log_share: approximate logarithm of the mass of infinite loss that may be left.
    """
    mu = 1.0 / noise_multiplier
    high = mu + reach_for(log_share)
    width = 2.0 * high / (num - 1)
    z = width * (np.arange(num, dtype=np.float64) - 0.5 * (num - 1))
    grown = mu * z - 0.5 * mu * mu
    none = jnp.zeros_like(mu)
    one = sampled(BasePoints(grown, mu * jnp.abs(z) + mu * mu, jnp.zeros_like(z), none, none, none), sampling_prob)
    log_a, blur = one.log_ratio[1:], one.blur[1:]
    q = jnp.where(sampling_prob > MOST_PROB, 1.0, sampling_prob)
    e, a = jnp.exp(grown), jnp.exp(log_a)
    less, b = e[::-1], a[::-1]

    def above(u: Any) -> Any:
        return (e[:-1] * b[:-1])[:, None] * expm1(mu * u) - (a[:-1] * less[:-1])[:, None] * expm1(-mu * u)

    u, density = gauss_in_cells(z[:-1], width)
    upper = density * b[1:, None] * above(u) / above(width * jnp.ones((1, 1)))
    whole = density * ((1.0 - q) + q * less[:-1, None] * jnp.exp(-mu * u))
    to_upper, to_lower = jnp.sum(jnp.stack([upper, jnp.maximum(whole - upper, 0.0)]), axis=2)
    mass = jnp.pad(to_lower, (0, 1)) + jnp.pad(to_upper, (1, 0))
    # exponentials err by 4 ULP of their exponents, the quotient by those of four of them
    size = jnp.abs(z) * (mu + jnp.abs(z)) + mu * mu
    mass = mass * (1.0 + 2.0**-45 + ULP * (64.0 + 32.0 * size))
    beside, far = jnp.exp(log_normal_tail(jnp.stack([high, high - mu]))) * (1.0 + 2.0**-40)
    beyond = ((1.0 - q) * beside + q * far) * (1.0 + 2.0**-50)
    at = np.arange(num)
    mass = mass + jnp.where(at == 0, beyond, 0.0) + jnp.where(at == num - 1, beside, 0.0)
    points = jnp.stack([log_a - log_a[::-1], mass, blur + blur[::-1] + 2.0 * ULP * jnp.abs(log_a)])
    return Law(points, jnp.stack([beyond, beyond]))
