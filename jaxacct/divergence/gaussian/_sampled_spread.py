"""The likelihood ratio of a Poisson-sampled Gaussian step, moved apart to the ends of cells of the output.

R = 1 - q + q Y, Y = e^(mu z - mu^2/2), mu = 1/sigma, z standard normal under Q. In a cell of z Y goes to its values at
the two ends, its mean kept, so that no mean of a convex function falls (Jensen). The share of the upper end is
(Y - Y_0) / (Y_1 - Y_0) = expm1(mu u) / expm1(mu k), u above the lower end and k the cell's width: the same function in
every cell, and none of it depends on q. All terms are positive.

Shapes: [L] lanes; [L, K] points.
"""

import math
from typing import Any

import jax.numpy as jnp

from jaxacct.divergence._spread import Spread
from jaxacct.special import ULP, expm1, gauss_legendre, log1p, log_normal_tail

_LOW = -8.5  # the window in z begins here
_BELOW = 0.5 * math.erfc(-_LOW / math.sqrt(2.0)) * (1.0 + 2.0**-40)
_NUM_ENDS = 512  # of cells: steers tightness
_NUM_GAUSS = 10  # nodes of Gauss's rule in a cell
LEAST_NOISE = 0.1  # noise multiplier; below, cells are too wide for that rule
_LEAST_LOG_SHARE = -150.0  # no window is longer than for this one
MOST_PROB = 1.0 - 2.0**-20  # sampling probability: beyond, log(1 - q) is too far away


def sampled_spread(noise_multiplier: Any, sampling_prob: Any, log_share: Any, add: Any) -> Spread:
    """`Spread` of one step, in the direction that `add` [L] says.

    For noise multipliers [L] of `LEAST_NOISE` and more, and probabilities [L] in (0, `MOST_PROB`]; `log_share` [L] is
    the logarithm of about the mass of infinite loss that may be left.
    """
    mu, q = (1.0 / noise_multiplier)[:, None], sampling_prob[:, None]
    high = mu + jnp.sqrt(-2.0 * jnp.clip(log_share, _LEAST_LOG_SHARE, -2.0))[:, None]
    width = (high - _LOW) / (_NUM_ENDS - 1)
    z = _LOW + width * jnp.arange(_NUM_ENDS, dtype=jnp.float64)
    nodes, weights = (jnp.asarray(x, jnp.float64) for x in gauss_legendre(_NUM_GAUSS))
    u = 0.5 * width * (1.0 + nodes)
    upper = expm1(mu * u) / expm1(mu * width)  # [L, nodes]
    weights = 0.5 * width / math.sqrt(2.0 * math.pi) * weights
    density = jnp.exp(-0.5 * (z[:, :-1, None] + u[:, None]) ** 2)
    to_upper, to_lower = (jnp.einsum("lkg,lg->lk", density, weights * share) for share in (upper, 1.0 - upper))
    # below the window Y goes to 0, for means that fall with it, and to the first end, for those that grow; above it to
    # the last end, and in the remove direction all its mass under P to an infinite loss
    tails = jnp.exp(log_normal_tail(jnp.concatenate([high, high - mu], axis=1))) * (1.0 + 2.0**-40)
    below, above, taken = jnp.full_like(mu, _BELOW), tails[:, :1], tails[:, 1:]
    middle = to_upper[:, :-1] + to_lower[:, 1:]
    mass = jnp.concatenate([below, below + to_lower[:, :1], middle, to_upper[:, -1:] + above], axis=1)
    ends = jnp.concatenate([z[:, :1], z], axis=1)
    mass = mass * (1.0 + 2.0**-45 + ULP * (64.0 + 8.0 * ends * ends))
    # R - 1 = q (Y - 1), and log R without cancellation in either
    exponent = mu * z - 0.5 * mu * mu
    excess = q * expm1(exponent)
    far = excess < -0.25
    near_log = log1p(jnp.where(far, 0.0, excess))
    log_ratio = jnp.where(far, jnp.log((1.0 - q) + q * jnp.exp(exponent)), near_log)
    log_ratio = jnp.concatenate([log1p(-q), log_ratio], axis=1)
    share = q * jnp.exp(exponent - log_ratio[:, 1:])  # that of the part that depends on z
    size = jnp.where(far, 2.0, jnp.abs(excess) * jnp.exp(-log_ratio[:, 1:]))
    moved = size + share * (1.0 + mu * jnp.abs(z) + mu * mu)
    blur = 8.0 * ULP * (jnp.abs(log_ratio) + jnp.concatenate([q, moved], axis=1))
    beyond = jnp.where(add, 0.0, ((1.0 - q) * above + q * taken)[:, 0] * (1.0 + 2.0**-50))
    return Spread(log_ratio, mass, blur, beyond)
