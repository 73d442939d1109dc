"""Renyi divergences from a privacy profile, for all orders at once.

CI-S23: a profile bound delta(eps), eps >= 0, that holds in both directions gives, at any real order a > 1,

    e^((a-1) R_a) - 1 <= a (a-1) int_0^inf (e^((a-1) eps) + e^(-a eps)) delta(eps) d eps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct.special import log1mexp, log_sum_exp, log_up, logexpm1, map_rows, softplus, up
from jaxacct.special._namespace import is_jax, xp


def loss_nodes(scale: jax.Array, highest: jax.Array, num_nodes: int) -> jax.Array:
    """Epsilons [G, L] from 0 to `highest` [L], dense to a few `scale` [L], then geometric; `num_nodes` is static."""
    steps = xp.asarray(np.linspace(0.0, 1.0, num_nodes), xp.float64)[:, None]
    unit = xp.minimum(2.0 * scale, highest)
    nodes = xp.minimum(unit * xp.sinh(steps * xp.arcsinh(highest / unit)), highest)
    return xp.concatenate([nodes[:-1], highest[None]])


def rdp_from_profile(nodes: jax.Array, log_delta: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], upper bounds, from log delta at rising `nodes` [G, L], from 0 to where it is -inf.

    CI-S23: the module's integral. The profile is convex in t = e^eps and decreasing. Its chords therefore bound it, and
    for them the integral is the sum of positive terms

        sum_i (delta_i - delta_{i+1}) (psi_{i+1} - psi_i) / (t_{i+1} - t_i),   psi = t^a + t^(1-a) - t - 1.

    Real orders a > 1 (static). The rounding error of each term is added; inf where the last delta is not 0.
    """
    falling: Any = jax.lax.cummin if is_jax(log_delta) else np.minimum.accumulate
    log_delta = falling(log_delta, axis=0)
    size = nodes.shape[0]
    at, following = log_delta[:-1], log_delta[1:]
    some = at > -xp.inf
    at_safe = xp.where(some, at, 0.0)
    fall = xp.where(following > -xp.inf, xp.where(some, following, 0.0), -1e6) - at_safe
    fall = xp.minimum(fall, 0.0) - 2.0**-48 * (1.0 + xp.abs(at_safe))
    log_fall = xp.where(some, at_safe + log1mexp(fall) - fall * (fall > -1e-9), -xp.inf)
    width = nodes[1:] - nodes[:-1]
    wide = width > 0
    log_width = nodes[:-1] + logexpm1(xp.where(wide, width, 1.0))

    def row(order: jax.Array) -> jax.Array:
        def log_psi(eps: jax.Array) -> jax.Array:
            # 4 e^(eps/2) sinh(a eps/2) sinh((a-1) eps/2): nothing cancels
            return order * eps + log1mexp(-order * eps) + log1mexp((1.0 - order) * eps)

        upper = log_psi(nodes[1:])
        ratio = xp.where(nodes[:-1] > 0, log_psi(xp.where(nodes[:-1] > 0, nodes[:-1], 1.0)) - upper, -1e6)
        log_rise = upper + log1mexp(xp.where(wide, ratio, -1.0))
        slack = 2.0**-50 * size * (4.0 + xp.abs(upper) + order * nodes[1:])
        terms = xp.where(wide & some, log_fall + log_rise - log_width + slack, -xp.inf)
        return up(softplus(log_up(log_sum_exp(terms), 64.0 + size)) / (order - 1.0), 16)  # softplus 9, a quotient

    values = map_rows(row, xp.asarray(orders, xp.float64), lanes=log_delta)
    return xp.where(log_delta[-1] == -xp.inf, values, xp.inf)
