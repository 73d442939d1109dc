"""The Gaussian mechanism, alone or with its amplification thrown away.

Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8;
Mironov 2017, "Renyi differential privacy", Proposition 7.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct.composition import compose_gaussian_mu
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta, gaussian_rdp
from jaxacct.mechanisms import Composed, PoissonSampled, RandomAllocation

_TINY = 2.2250738585072014e-308  # smaller numbers are flushed to 0


def unamplified_mu(mechanism: Any) -> jax.Array:
    """mu [L] of the Gaussian N(mu, 1) against N(0, 1) that dominates when every use of a record is public.

    Each of a record's uses costs 1/sigma^2; revealing which steps used it is a post-processing
    that can only help the adversary. Exact for `Gaussian` and compositions of it.
    """
    if isinstance(mechanism, RandomAllocation):
        uses = mechanism.num_selected * mechanism.num_epochs
        return compose_gaussian_mu([(unamplified_mu(mechanism.mechanism), uses)])
    if isinstance(mechanism, PoissonSampled):
        return compose_gaussian_mu([(unamplified_mu(mechanism.mechanism), mechanism.num_steps)])
    if isinstance(mechanism, Composed):
        parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
        return compose_gaussian_mu([(unamplified_mu(m), count) for m, count in parts])
    return jnp.maximum((1.0 + 2.0**-52) / mechanism.noise_multiplier, _TINY)


def unamplified_log_delta(mechanism: Any, epsilon: jax.Array) -> jax.Array:
    """log delta [L], both directions (Theorem 8): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    return gaussian_log_delta(epsilon, unamplified_mu(mechanism))


def unamplified_epsilon(mechanism: Any, log_delta: jax.Array) -> jax.Array:
    """epsilon [L], both directions: the inverse of `unamplified_log_delta`."""
    return gaussian_epsilon(log_delta, unamplified_mu(mechanism))


def unamplified_rdp(mechanism: Any, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions (Proposition 7): alpha mu^2 / 2."""
    return gaussian_rdp(jnp.asarray(orders, jnp.float64)[:, None], unamplified_mu(mechanism))
