"""BOUND, from above, on several rounds that are each (epsilon, delta)-DP, in closed form (CL-S15, route A; GI-S20).

Kairouz, Oh & Viswanath 2015, "The composition theorem for differential privacy", Theorem 3.4;
`optimal_log_delta` has the optimal composition.
"""

from __future__ import annotations

from jaxacct._jax import jax, jnp
from jaxacct.special import log1mexp, log_up, tanh, up

_ULPS = 128  # the certificate's rounding, in ulp; some 40 occur at most: functions of 4 each, and products


def simple_epsilon(step_epsilon: jax.Array, count: jax.Array, log_slack: jax.Array) -> jax.Array:
    """Epsilon [L] of `count` pure steps with delta `slack`, rounded up: Kairouz, Oh & Viswanath 2015, Theorem 3.4.

    Upper bound: the least of T e, of T e tanh(e/2) + e sqrt(2 T log(1/slack)), and of the same with
    log(e_ + e sqrt(T)/slack), e_ = 2.718..: never below `optimal_epsilon`.
    """
    whole = count * step_epsilon
    drift = whole * tanh(0.5 * step_epsilon)
    positive = jnp.where(step_epsilon > 0, step_epsilon, 1.0)
    mixed = jnp.logaddexp(1.0, jnp.log(positive) + 0.5 * jnp.log(count) - log_slack)
    spread = jnp.minimum(mixed, jnp.where(log_slack <= 0, -log_slack, jnp.inf))
    advanced = drift + step_epsilon * jnp.sqrt(2.0 * count * spread)
    return up(jnp.minimum(whole, jnp.where(step_epsilon > 0, advanced, 0.0)), _ULPS)


def log_delta_with_slack(step_log_delta: jax.Array, count: jax.Array, log_slack: jax.Array) -> jax.Array:
    """Log delta [L] of `count` approximate steps, rounded up: log(1 - (1 - delta_1)^count (1 - slack))."""
    kept = count * log1mexp(jnp.minimum(step_log_delta, 0.0)) + log1mexp(jnp.minimum(log_slack, 0.0))
    # `kept` by 22 ULP of itself, which log1mexp hands on at most as they are, and 5 of its own
    return jnp.minimum(log_up(log1mexp(jnp.minimum(kept, 0.0)), 30.0), 0.0)
