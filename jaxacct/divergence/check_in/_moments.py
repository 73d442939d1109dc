"""Renyi divergences from a privacy profile, every order at once.

CI-S23: a profile bound delta(eps), eps >= 0, that holds in both directions gives, at any real order a > 1,

    e^((a-1) R_a) - 1 <= a (a-1) int_0^inf (e^((a-1) eps) + e^(-a eps)) delta(eps) d eps.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.special import log1mexp, log_sum_exp, logexpm1, map_rows, softplus, up


def loss_nodes(scale: jax.Array, highest: jax.Array, num_nodes: int) -> jax.Array:
    """Epsilons [G, L] from 0 to `highest` [L], dense to a few `scale` [L], then geometric; `num_nodes` is static."""
    steps = jnp.asarray(np.linspace(0.0, 1.0, num_nodes), jnp.float64)[:, None]
    unit = jnp.minimum(2.0 * scale, highest)
    return jnp.minimum(unit * jnp.sinh(steps * jnp.arcsinh(highest / unit)), highest).at[-1].set(highest)


def rdp_from_profile(nodes: jax.Array, log_delta: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], upper bounds, from log delta at rising `nodes` [G, L], from 0 to where it is -inf.

    CI-S23: the module's integral. The profile is convex in t = e^eps and falls. Its chords therefore bound it, and for
    them the integral is the sum of positive terms

        sum_i (delta_i - delta_{i+1}) (psi_{i+1} - psi_i) / (t_{i+1} - t_i),   psi = t^a + t^(1-a) - t - 1.

    Real orders a > 1 (static). What the rounding of each term can do is added; inf where the last delta is not 0.
    """
    log_delta = jax.lax.cummin(log_delta, axis=0)
    size = nodes.shape[0]
    at, following = log_delta[:-1], log_delta[1:]
    some = at > -jnp.inf
    at_safe = jnp.where(some, at, 0.0)
    fall = jnp.where(following > -jnp.inf, jnp.where(some, following, 0.0), -1e6) - at_safe
    fall = jnp.minimum(fall, 0.0) - 2.0**-48 * (1.0 + jnp.abs(at_safe))
    log_fall = jnp.where(some, at_safe + log1mexp(fall) - fall * (fall > -1e-9), -jnp.inf)
    width = nodes[1:] - nodes[:-1]
    wide = width > 0
    log_width = nodes[:-1] + logexpm1(jnp.where(wide, width, 1.0))

    def row(order: jax.Array) -> jax.Array:
        def log_psi(eps: jax.Array) -> jax.Array:
            # 4 e^(eps/2) sinh(a eps/2) sinh((a-1) eps/2): nothing cancels
            return order * eps + log1mexp(-order * eps) + log1mexp((1.0 - order) * eps)

        upper = log_psi(nodes[1:])
        ratio = jnp.where(nodes[:-1] > 0, log_psi(jnp.where(nodes[:-1] > 0, nodes[:-1], 1.0)) - upper, -1e6)
        log_rise = upper + log1mexp(jnp.where(wide, ratio, -1.0))
        slack = 2.0**-50 * size * (4.0 + jnp.abs(upper) + order * nodes[1:])
        terms = jnp.where(wide & some, log_fall + log_rise - log_width + slack, -jnp.inf)
        return up(softplus(log_sum_exp(terms) + 2.0**-46) / (order - 1.0), 16)  # softplus 9, a quotient

    values = map_rows(row, jnp.asarray(orders, jnp.float64))
    return jnp.where(log_delta[-1] == -jnp.inf, values, jnp.inf)
