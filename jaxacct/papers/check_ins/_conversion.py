"""BOUND, from below: the least Renyi divergence among pairs with a given hockey-stick divergence, and its use.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Lemma 1, states that an (eps, delta)-DP
mechanism has at most the Renyi divergence below. It has at least that much (CI-S1): binary randomized response at eps
= 0.5 is (0.5, 0)-DP, for which the expression is 0, and has D_2 = 0.227. Read the right way round it is the best
conversion of one order.
"""

import jax
import jax.numpy as jnp

from jaxacct.divergence.response._renyi import power_excess
from jaxacct.special import down, log1p, logexpm1, softplus, solve_decreasing

_NUM_HALVINGS = 90  # of the interval of log((r - delta)/(1 - r)) that is searched
_LEAST_LOG = -690.0  # nats: the least log of that ratio, or of its inverse, that is tried: no underflow


def log_least_excess(order: jax.Array, epsilon: jax.Array, delta: jax.Array) -> jax.Array:
    """Log of the least E_Q[(P/Q)^a] - 1, broadcast, among all pairs with D_{e^eps}(P || Q) = delta; -inf at delta = 0.

    Attained by P = (r, 1-r), Q = ((r - delta) e^-eps, ..), r in (delta, 1) such that h(x) = h(y),

        h(t) = t^(a-1) (a - (a-1) t),   x = r/(r - delta) > 1,   y = (1-r)/(e^eps - r + delta) < 1,

    found by halving in log((r - delta)/(1 - r)), or r = 1 where a delta >= 1. The two atoms' terms are positive; each
    is rounded down by 2^-44, and e^y - 1 at r = 1 by 2^-48 (1 + y), y = (a-1) (eps - log(1 - delta)), which errs by
    seven roundings. Real a > 1, epsilon >= 0, 0 <= delta < 1.
    """
    a = order
    top = log1p(-delta)
    reach = jnp.expm1(epsilon) + delta

    def parts(u: jax.Array) -> tuple[jax.Array, jax.Array]:  # log(r - delta), and 1 - r to all its digits
        return top - softplus(-u), jnp.maximum(jnp.exp(top - softplus(u)), 1e-300)

    def log_h(w: jax.Array, log_t: jax.Array) -> jax.Array:  # at t = 1 + w; -inf where it is not positive
        inner = 1.0 - (a - 1.0) * w
        return jnp.where(inner > 0, (a - 1.0) * log_t + log1p(jnp.maximum(-(a - 1.0) * w, -1.0)), -jnp.inf)

    def halve(_: jax.Array, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        v, rest = parts(middle)
        # the objective rises in r where h(x) > h(y)
        x, y = delta * jnp.exp(-v), -reach / (reach + rest)  # less 1
        rises = log_h(x, log1p(x)) > log_h(y, jnp.log(rest) - jnp.log(reach + rest))
        return jnp.where(rises, low, middle), jnp.where(rises, middle, high)

    ends = jnp.full_like(a + top + epsilon, _LEAST_LOG), jnp.full_like(a + top + epsilon, -_LEAST_LOG)
    u = jax.lax.stop_gradient(jnp.mean(jnp.stack(jax.lax.fori_loop(0, _NUM_HALVINGS, halve, ends)), axis=0))
    v, rest = parts(u)
    excess = delta - jnp.exp(v) * jnp.expm1(-epsilon)  # P - Q at the first atom, Q - P at the second
    first, second = jnp.exp(v - epsilon), (reach + rest) * jnp.exp(-epsilon)
    above = jnp.log(first) + _log_power_excess(a, excess / first, log1p(excess / first))
    below = jnp.log(second) + _log_power_excess(a, -excess / second, jnp.log(rest) - jnp.log(second))
    exponent = (a - 1.0) * jnp.where(delta > 0, epsilon - top, 1.0)  # seven roundings, none cancelling: top <= 0
    at_one = logexpm1(exponent) - 2.0**-48 * (1.0 + exponent)
    value = jnp.where(a * delta >= 1.0, at_one, jnp.logaddexp(above, below))
    return jnp.where(delta > 0, value, -jnp.inf)


def _log_power_excess(power: jax.Array, x: jax.Array, log_ratio: jax.Array) -> jax.Array:
    """log((1+x)^a - 1 - a x), less its error, for log_ratio = log(1+x)."""
    value, high, error = power_excess(power, x, log_ratio)
    return jnp.log(jnp.maximum(value, 1e-300)) + high - error


def least_rdp(order: jax.Array, epsilon: jax.Array, delta: jax.Array) -> jax.Array:
    """The least D_a(P || Q), broadcast, among all pairs with D_{e^eps}(P || Q) = delta; see `log_least_excess`.

    epsilon + log(M)/(a-1),  M = min_r r^a (r - delta)^(1-a) + (1-r)^a (e^eps - r + delta)^(1-a).
    """
    return down(softplus(log_least_excess(order, epsilon, delta)) / (order - 1.0), 32)  # softplus 9, two roundings


def optimal_epsilon(order: jax.Array, rdp: jax.Array, log_delta: jax.Array) -> jax.Array:
    """The least epsilon [L] that an (a, rdp) Renyi guarantee of one order implies at delta < 1, rounded up; 0 at best.

    Upper bound, in the direction of the divergence: the least epsilon >= 0 with `least_rdp` >= rdp. Never above the
    closed conversion; at a = 2, rdp = 0.1, delta = 1e-5 it is 7.875 where that gives 10.227.
    """
    delta = jnp.exp(log_delta) * (1.0 - 2.0**-48)

    def lack(epsilon: jax.Array, order: jax.Array, rdp: jax.Array, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
        def value(epsilon: jax.Array) -> jax.Array:
            found = least_rdp(order, epsilon, delta)
            return rdp - found + 4e-14 * (1.0 + epsilon + jnp.abs(found))

        return jax.jvp(value, (epsilon,), (jnp.ones_like(epsilon),))

    high = rdp + (jnp.maximum(-log_delta, 0.0) + 1.0) / (order - 1.0) + 1.0
    usable = (delta > 0) & (order > 1) & jnp.isfinite(rdp)
    safe = jnp.where(usable, delta, 0.5)
    value = solve_decreasing(lack, jnp.zeros_like(high), high, order, jnp.where(usable, rdp, 1.0), safe)
    return jnp.where(log_delta >= 0, 0.0, jnp.where(usable, value, jnp.inf))
