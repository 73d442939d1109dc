"""BOUND, from above: check-ins over any profiles of shuffled reports, summed number by number, for few users.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", appendix D.1 with its first term
corrected (CI-S19), and the direct profile that is never above it (CI-S23). Upper bounds, replace-one adjacency.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxacct.special import log1p, up
from jaxacct.special._binomial import log_binomial_pmf

_ULPS = 512  # rounding that is added to a sum over some hundred reports

# From (epsilon [n, L], any real; numbers of reports [n, L]) to upper bounds on delta, [n, L].
Profiles = Callable[[jax.Array, jax.Array], jax.Array]


def _others(num_users: int, prob: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(k = 1..n, P[Bin(n - 1, q) = k - 1]), each [n, L]."""
    k = jnp.arange(1, num_users + 1, dtype=jnp.int32).astype(jnp.float64)[:, None] + 0.0 * prob
    return k, jnp.exp(log_binomial_pmf(k - 1.0, jnp.full_like(k, num_users - 1.0), prob, 1.0 - prob))


def direct_delta(epsilon: jax.Array, prob: jax.Array, profiles: Profiles, *, num_users: int) -> jax.Array:
    """Delta [L] of one round of check-ins over any profiles D_k, rounded up: the direct profile (CI-S23), eps >= 0.

    q sum_k P[Bin(n-1, q) = k-1] D_k(log(1 + (n/k)(e^eps - 1))).
    """
    k, others = _others(num_users, prob)
    inner = log1p(num_users / k * jnp.expm1(epsilon))
    return jnp.minimum(up(prob * jnp.sum(others * profiles(inner, k), axis=0), _ULPS), 1.0)


def coupled_epsilon(inner: jax.Array, prob: jax.Array) -> jax.Array:
    """Epsilon [L] at which `coupled_delta` holds, rounded up: log(1 + q (e^inner - 1))."""
    return up(log1p(prob * jnp.expm1(inner)), _ULPS)


def coupled_delta(inner: jax.Array, prob: jax.Array, profiles: Profiles, *, num_users: int) -> jax.Array:
    """Delta [L] at `coupled_epsilon`, rounded up, by coupling those with and without the user (CI-S19):

        q b sum_k o_k D_k(inner) + q (1-b) (sum_{k<n} o_k D_k(inner + log(q/(1-q) (n/k - 1))) + o_n),

    b = e^(eps - inner), o_k = P[Bin(n-1, q) = k-1]. The paper's first term, q b D(..) of a fixed number, is violated.
    The epsilons at which D_k is read may be negative. 0 < q < 1.
    """
    k, others = _others(num_users, prob)
    share = prob + (1.0 - prob) * jnp.exp(-inner)
    first = jnp.sum(others * profiles(inner + 0.0 * k, k), axis=0)
    odds = prob / (1.0 - prob) * jnp.maximum(num_users / k - 1.0, 1e-300)
    moved = jnp.where(k < num_users, others * profiles(inner + jnp.log(odds), k), others)
    total = prob * (share * first + (1.0 - share) * jnp.sum(moved, axis=0))
    return jnp.minimum(up(total, _ULPS), 1.0)
