"""Earlier bounds on shuffling, to be drawn beside ours: "Hiding Among the Clones", section 7 and Figure 2 (spec S20).

Not used for any answer. Each function says whether it is a bound of a paper at hand, one that is only recalled (its
statement was not checked against its source), or an estimate.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.special import log_binomial_table, log_sum_exp, softplus


def girgis_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Renyi divergences [A, L]: an upper bound, Girgis et al. 2021, Theorem 1. Integer orders >= 2; n >= 2.

        e^((a-1) R_a) - 1 = C(a,2) (E-1)^2/(m E) + sum_{i=3..a} C(a,i) i Gamma(i/2) ((E^2-1)^2/(2 E^2 m))^(i/2)
                            + e^(a eps - (n-1)/(8E)),    m = floor((n-1)/(2E)) + 1, E = e^eps.

    Rounded up by 2^-40 of the sum. The floor of m is rounded down where it is in doubt.
    """
    e = local_epsilon
    m = jnp.floor(0.5 * (num_reports - 1.0) * jnp.exp(-e) * (1.0 - 2.0**-46)) + 1.0
    # (E-1)^2/E = 4 sinh(eps/2)^2 and (E^2-1)/E = 2 sinh(eps)
    log_first = 2.0 * jnp.log(2.0 * jnp.sinh(0.5 * e)) - jnp.log(m)
    log_ratio = jnp.log(2.0) + 2.0 * jnp.log(jnp.sinh(e)) - jnp.log(m)
    top = max(orders)
    log_binomial = log_binomial_table(top)
    i = np.arange(3.0, top + 1.0)
    log_gamma = np.asarray([math.log(j) + math.lgamma(0.5 * j) for j in i])
    powers = 0.5 * jnp.asarray(i, jnp.float64)[:, None] * log_ratio

    def row(order: int) -> jax.Array:
        last = order * e - 0.125 * (num_reports - 1.0) * jnp.exp(-e)
        terms = jnp.stack([math.log(0.5 * order * (order - 1.0)) + log_first, last])
        if order > 2:
            weights = jnp.asarray((log_binomial[order, 3:] + log_gamma)[: order - 2], jnp.float64)[:, None]
            terms = jnp.concatenate([terms, weights + powers[: order - 2]])
        return softplus(log_sum_exp(terms) + 2.0**-40) / (order - 1.0) * (1.0 + 2.0**-50)

    return jnp.stack([row(int(order)) for order in orders])


def balle_blanket_delta(epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """delta [L]: recalled, Balle et al. 2019 ("Bennett, Generic", from its authors' code, in closed form), at most 1.

    With g = e^-eps0, h = e^(eps - 2 eps0), a = e^eps - 1, b = E (1 - h), c = E (e^(2 eps) + 1) - 2 g h and
    k = (c/b^2) phi(a b/c), phi(z) = (1+z) log(1+z) - z:

        delta = b / (g n log(1 + a b/c)) ((1 - g (1 - e^-k))^n - (1 - g)^n).
    """
    g, h = jnp.exp(-local_epsilon), jnp.exp(epsilon - 2.0 * local_epsilon)
    b = jnp.exp(local_epsilon) * (1.0 - h)
    c = jnp.exp(local_epsilon) * (jnp.exp(2.0 * epsilon) + 1.0) - 2.0 * g * h
    valid = (epsilon > 0) & (epsilon < local_epsilon)
    b, c = jnp.where(valid, b, 1.0), jnp.where(valid, c, 1.0)
    z = jnp.where(valid, jnp.expm1(epsilon), 1.0) * b / c
    k = c / (b * b) * ((1.0 + z) * jnp.log1p(z) - z)
    difference = jnp.exp(num_reports * jnp.log1p(g * jnp.expm1(-k))) - jnp.exp(num_reports * jnp.log1p(-g))
    delta = b / (g * num_reports * jnp.log1p(z)) * difference
    return jnp.where(valid, jnp.clip(delta, 0.0, 1.0), jnp.where(epsilon >= local_epsilon, 0.0, 1.0))


def cheu_binary_epsilon(num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array) -> jax.Array:
    """epsilon [L]: recalled, Cheu et al. 2019, binary randomized response; inf where 2n/(E+1) < 14 log(4/delta)."""
    blanket = 2.0 * num_reports / (jnp.exp(local_epsilon) + 1.0)
    four = jnp.log(4.0) - log_delta
    valid = blanket >= 14.0 * four
    y = jnp.where(valid, blanket - jnp.sqrt(2.0 * blanket * (jnp.log(2.0) - log_delta)), 1.0)
    return jnp.where(valid, jnp.sqrt(32.0 * four / y) * (1.0 - y / num_reports), jnp.inf)


def balle_adaptive_epsilon(num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array) -> jax.Array:
    """epsilon [L]: recalled, Balle et al. 2020: e^(3 e)(e^e - 1)^2/(2n) + e^(3e/2)(e^e - 1) sqrt(2 log(1/delta)/n)."""
    excess = jnp.exp(1.5 * local_epsilon) * jnp.expm1(local_epsilon)
    return 0.5 * excess * excess / num_reports + excess * jnp.sqrt(-2.0 * log_delta / num_reports)


def sampling_with_replacement_epsilon(
    num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array
) -> jax.Array:
    """epsilon [L]: an estimate, equation (13) with 1 for its unknown constant: n samples with replacement instead.

    sqrt(n log(1/delta)) e_1 + (E - 1) e_1, e_1 = log(1 + (E-1)/n).
    """
    growth = jnp.expm1(local_epsilon)
    single = jnp.log1p(growth / num_reports)
    return (jnp.sqrt(-num_reports * log_delta) + growth) * single
