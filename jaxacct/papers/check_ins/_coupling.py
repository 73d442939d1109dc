"""BOUND, from above: check-ins over any profiles of shuffled reports, summed number by number, for few users.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", appendix D.1 with its first term
corrected (CI-S19), and the direct profile that is never above it (CI-S23). Upper bounds, replace-one adjacency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxacct._jax import Array, jax, jnp
from jaxacct.special import down, log1p, log_binomial_pmf, log_down, log_up, pmf_rounding, up, xp

# From (epsilon [n, L], any real; numbers of reports [n, L]) to upper bounds on delta, [n, L].
Profiles = Callable[[Array, Array], Array]


def _others(num_users: int, prob: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(k = 1..n, P[Bin(n - 1, q) = k - 1] rounded up), each [n, L]."""
    k = jnp.arange(1, num_users + 1, dtype=jnp.int32).astype(jnp.float64)[:, None] + 0.0 * prob
    log_others = log_binomial_pmf(k - 1.0, jnp.full_like(k, num_users - 1.0), prob, 1.0 - prob)
    log_others = jnp.where(log_others > -jnp.inf, log_up(log_others + pmf_rounding(log_others), 1.0), -jnp.inf)
    return k, up(jnp.exp(log_others), 6)


def _up_to(total: jax.Array, num_users: int) -> jax.Array:
    """A probability made of a sum of n terms >= 0 by at most n + 16 roundings, rounded up."""
    return jnp.minimum(up(total, 2 * (num_users // 2) + 20), 1.0)


def direct_inner(epsilon: Any, num_users: int, k: Any) -> Any:
    """log(1 + (n/k)(e^eps - 1)), broadcast, rounded down: where `direct_delta` reads the profile of k reports."""
    return down(log1p(down(num_users / k * xp.expm1(epsilon), 10)), 6)


def coupled_inner(inner: Any, prob: Any, num_users: int, k: Any) -> Any:
    """inner + log(q/(1-q) (n/k - 1)), broadcast, rounded down, k < n: where `coupled_delta` reads that of k reports."""
    return log_down(inner + log_down(xp.log(prob / (1.0 - prob) * ((num_users - k) / k)), 6.0), 2.0)


def direct_delta(epsilon: jax.Array, prob: jax.Array, profiles: Profiles, *, num_users: int) -> jax.Array:
    """Delta [L] of one round of check-ins over any profiles D_k, rounded up: the direct profile (CI-S23), eps >= 0.

    q sum_k P[Bin(n-1, q) = k-1] D_k(log(1 + (n/k)(e^eps - 1))).
    """
    k, others = _others(num_users, prob)
    return _up_to(prob * jnp.sum(others * profiles(direct_inner(epsilon, num_users, k), k), axis=0), num_users)


def coupled_epsilon(inner: jax.Array, prob: jax.Array) -> jax.Array:
    """Epsilon [L] at which `coupled_delta` holds, rounded up: log(1 + q (e^inner - 1))."""
    return up(log1p(prob * xp.expm1(inner)), 12)  # expm1 5, log1p 4, a product


def coupled_delta(inner: jax.Array, prob: jax.Array, profiles: Profiles, *, num_users: int) -> jax.Array:
    """Delta [L] at `coupled_epsilon`, rounded up, by coupling those with and without the user (CI-S19):

        q b sum_k o_k D_k(inner) + q (1-b) (sum_{k<n} o_k D_k(inner + log(q/(1-q) (n/k - 1))) + o_n),

    b = e^(eps - inner), o_k = P[Bin(n-1, q) = k-1]. The paper's first term, q b D(..) of a fixed number, is violated.
    The epsilons at which D_k is read may be negative. 0 < q < 1.
    """
    k, others = _others(num_users, prob)
    share, rest = prob + (1.0 - prob) * jnp.exp(-inner), (1.0 - prob) * -xp.expm1(-inner)  # 7 roundings each
    first = jnp.sum(others * profiles(inner + 0.0 * k, k), axis=0)
    at = coupled_inner(inner, prob, num_users, jnp.minimum(k, num_users - 0.5))
    moved = jnp.where(k < num_users, others * profiles(at, k), others)
    return _up_to(prob * (share * first + rest * jnp.sum(moved, axis=0)), num_users)
