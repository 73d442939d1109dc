"""NOT A BOUND: limits for many reports, and the paper's closed forms as printed (CH-S8, CH-S9, CH-S13, CH-S15, CH-S16).

Chen et al. 2024, Theorems 2 and 3, Corollary 2, Table 1. The functions called `published` are false as bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxacct._jax import jax, jnp
from jaxacct.special import tanh

ORDER_LEVELS = {
    "Erlingsson et al. 2019": (1.0, 6.0),
    "Girgis et al. 2021": (1.0, 2.0),
    "Feldman et al. 2022": (64.0, 1.0),
    "Feldman et al. 2023": (64.0, 1.0),
    "Chen et al. 2024": (2.0, 1.0),
    "lower bound": (1.0, 1.0),
}
"""Table 1: (c, g) of c e^(g local_epsilon) order / n, by name. Orders of growth, no bounds: see `order_level_rdp`."""


def laplace_scale(clip: jax.Array, local_epsilon: jax.Array, num_blocks: jax.Array) -> jax.Array:
    """Scales [L] of Algorithm 1's Laplace noise: 2 clip / (local_epsilon num_blocks), for one clipped gradient."""
    return 2.0 * clip / (local_epsilon * num_blocks)


def asymptotic_gdp(num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Estimates of mu [L], no bounds: 2 s / sqrt(n p), the clones pair's limit as n grows (Theorem 2, corrected)."""
    return 2.0 * tanh(0.5 * local_epsilon) / jnp.sqrt(num_reports * clone_prob)


def asymptotic_rdp(
    num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]
) -> jax.Array:
    """Estimates [A, L] of Renyi divergences, no bounds: 2 order s^2 / (n p), the clones pair's limit as n grows."""
    return 0.5 * jnp.asarray(orders, jnp.float64)[:, None] * asymptotic_gdp(num_reports, clone_prob, local_epsilon) ** 2


def published_gdp(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Estimates of mu [L], no bounds: 2 e^(local_epsilon/2) / sqrt(n - 1), Theorem 2 as printed; inf for n < 2.

    The limit of another pair, whose Renyi divergences are infinite at every n.
    """
    valid = num_reports >= 2.0
    return jnp.where(
        valid, 2.0 * jnp.exp(0.5 * local_epsilon) / jnp.sqrt(jnp.where(valid, num_reports, 2.0) - 1.0), jnp.inf
    )


def published_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Estimates [A, L] of Renyi divergences, no bounds: 2 e^local_epsilon order / (n - 1), Corollary 2 as printed.

    inf for n < 2. Claimed for every order >= 2 and every local epsilon; shuffled binary randomized response exceeds it
    for every local epsilon above 2 sqrt 2 at large n and order n e^-local_epsilon / sqrt 2 (its reverse divergence is
    at least local_epsilon - n log(1 + e^-local_epsilon) / M). For small ones it is coth(local_epsilon/2)^2 too large.
    """
    return 0.5 * jnp.asarray(orders, jnp.float64)[:, None] * published_gdp(num_reports, local_epsilon) ** 2


def published_local_epsilon(num_reports: jax.Array, num_epochs: jax.Array, slope: jax.Array) -> jax.Array:
    """Estimates of a local epsilon [L]: log(slope (n - 1) / (2 num_epochs)), `published_rdp` inverted.

    Infeasible where negative.
    """
    return jnp.log(0.5 * slope * (num_reports - 1.0) / num_epochs)


def order_level_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, name: str, orders: Sequence[float]
) -> jax.Array:
    """Orders of growth [A, L] of Table 1, for drawing and no bounds: c e^(g local_epsilon) order / n of `ORDER_LEVELS`.

    Constants are the table's where it prints one, else 1; where each paper's bound holds is not stated.
    """
    constant, growth = ORDER_LEVELS[name]
    rise = constant * jnp.exp(growth * local_epsilon) / num_reports
    return jnp.asarray(orders, jnp.float64)[:, None] * rise
