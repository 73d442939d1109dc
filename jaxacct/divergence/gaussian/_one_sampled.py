"""The profile of one Poisson-sampled Gaussian step on lanes, from that of the unsampled release, and its inverse.

With y >= 0 the unsampled release's loss at the threshold of the best test and H(y) = H_{e^y}(N(mu, 1) || N(0, 1)), the
formulas of `jaxacct.divergence._one_sampled_step` are

    remove:  epsilon = log(1 - q + q e^y),      delta = q H(y),
    add:     epsilon = -log(1 - q + q e^-y),    delta = q H(y) / (q + (1 - q) e^y).

At a given epsilon, y is log(1 + (e^epsilon - 1) / q) in the remove direction. In the add direction it is
epsilon - log(1 - r), with delta = q (1 - r) H and r = (e^epsilon - 1) (1 - q) / q; where r >= 1 delta is 0. In the
shapes below L is the number of lanes.
"""

from __future__ import annotations

from jaxacct._jax import jax
from jaxacct.divergence.gaussian._pair import (
    gaussian_epsilon,
    gaussian_log_delta_ends,
    gaussian_log_delta_slope,
    most_gaussian_epsilon,
)
from jaxacct.special import LEAST_NORMAL, down, log1p, log_up, softplus, solve_decreasing, up
from jaxacct.special._namespace import xp

_FAR = 600.0  # nats: e^y is computed up to here
_BLUR = 2.0**-48  # relative error of y; docs/numerics/contour.md


def _mu(noise_multiplier: jax.Array) -> jax.Array:
    """1/sigma [L], rounded up."""
    return xp.maximum((1.0 + 2.0**-51) / noise_multiplier, LEAST_NORMAL)


def _log_mixture(y: jax.Array, prob: jax.Array) -> jax.Array:
    """log(1 - p + p e^y) [L] for y >= 0, at least 0: within 10 ULP; above y = 600 within 2^-40 of itself."""
    near = y <= _FAR
    some = xp.where(prob > 0, prob, 1.0)
    far = softplus(xp.where(near, 0.0, y) + xp.log(some))
    return xp.where(near, log1p(prob * xp.expm1(xp.where(near, y, 0.0))), xp.where(prob > 0, far, 0.0))


def _to_remove(epsilon: jax.Array, prob: jax.Array) -> jax.Array:
    """y [L] of the remove direction: log(1 + (e^epsilon - 1) / q)."""
    near = epsilon < 1.0
    small = log1p(xp.expm1(xp.where(near, epsilon, 0.0)) / prob)
    large = xp.where(near, 1.0, epsilon)
    return xp.where(near, small, large - xp.log(prob) + log1p((prob - 1.0) * xp.exp(-large)))


def one_sampled_log_delta(epsilon: jax.Array, noise_multiplier: jax.Array, prob: jax.Array, *, add: bool) -> jax.Array:
    """log delta [L] at `epsilon` [L] >= 0, rounded up, one direction; see the module. Any 0 <= `prob` <= 1."""
    some = xp.where(prob > 0, prob, 1.0)
    log_share = xp.log(some)
    if add:
        spent = xp.expm1(xp.minimum(epsilon, _FAR)) * ((1.0 - some) / some)
        spent = down(spent, 16)
        possible = spent < 1.0
        log_left = log1p(-xp.where(possible, spent, 0.0))
        y, log_share = epsilon - log_left, log_share + log_left
    else:
        possible, y = prob > 0, _to_remove(epsilon, some)
    found = log_up(log_share + gaussian_log_delta_ends(y * (1.0 - _BLUR), _mu(noise_multiplier)).upper, 8)
    return xp.where((prob > 0) & possible, xp.minimum(found, 0.0), -xp.inf)


def _loss_to_add(log_share: jax.Array, noise_multiplier: jax.Array, prob: jax.Array) -> jax.Array:
    """The least y [L] found with H(y) / (q + (1 - q) e^y) at most exp(`log_share` [L])."""

    def excess(y: jax.Array, target: jax.Array, mu: jax.Array, prob: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, slope = gaussian_log_delta_slope(y, mu)
        mixture = _log_mixture(y, 1.0 - prob) * (1.0 - 2.0**-39)
        share = (1.0 - prob) * xp.exp(xp.minimum(y - mixture, _FAR))
        return log_up(value - mixture, 8) - target, slope - share

    mu = _mu(noise_multiplier)
    return solve_decreasing(excess, xp.zeros_like(mu), most_gaussian_epsilon(log_share, mu), log_share, mu, prob)


def _epsilon_to_add(y: jax.Array, prob: jax.Array) -> jax.Array:
    """-log(1 - q + q e^-y) [L] for y > 0, within 16 ULP: no logarithm of a number near 1 is taken."""
    change = prob * xp.expm1(-y)
    near = change > -0.5
    left = (1.0 - prob) + prob * xp.exp(-y)  # of 1, all but what is 1 - q or more may be no double
    known = ~near & (left > 1e-290)
    return xp.where(near, -log1p(xp.where(near, change, 0.0)), xp.where(known, -xp.log(xp.where(known, left, 1.0)), y))


def one_sampled_epsilon(log_delta: jax.Array, noise_multiplier: jax.Array, prob: jax.Array, *, add: bool) -> jax.Array:
    """epsilon [L] at `log_delta` [L], rounded up, one direction; see the module. Any 0 <= `prob` <= 1."""
    some = xp.where(prob > 0, prob, 1.0)
    log_prob = xp.log(some)
    log_share = log_delta - log_prob
    log_share = log_share - 2.0**-50 * (xp.abs(log_delta) + xp.abs(log_prob))
    y = _loss_to_add(log_share, noise_multiplier, some) if add else gaussian_epsilon(log_share, _mu(noise_multiplier))
    loses = (prob > 0) & (y > 0)
    safe = xp.where(loses & (y < xp.inf), y, 1.0)
    epsilon = up(_epsilon_to_add(safe, some), 32) if add else _log_mixture(safe, some)
    epsilon = epsilon if add else up(epsilon, 2**14)
    return xp.where(loses, xp.where(y < xp.inf, epsilon, xp.inf), 0.0)
