"""NOT A BOUND: earlier bounds on shuffling, recalled, to be drawn beside ours (CL-S13, CL-S20).

"Hiding Among the Clones", section 7 and Figure 2. Not used for any answer. Each function says whether it is a bound of
a paper at hand, one that is only recalled (its statement was not checked against its source), or an estimate.
"""

from __future__ import annotations

from jaxacct._jax import jax, jnp
from jaxacct.special import expm1, log1p


def balle_blanket_delta(epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Delta [L], at most 1: recalled, Balle et al. 2019 ("Bennett, Generic", from its authors' code, in closed form).

    With g = e^-eps0, h = e^(eps - 2 eps0), a = e^eps - 1, b = E (1 - h), c = E (e^(2 eps) + 1) - 2 g h and
    k = (c/b^2) phi(a b/c), phi(z) = (1+z) log(1+z) - z:

        delta = b / (g n log(1 + a b/c)) ((1 - g (1 - e^-k))^n - (1 - g)^n).
    """
    g, h = jnp.exp(-local_epsilon), jnp.exp(epsilon - 2.0 * local_epsilon)
    b = jnp.exp(local_epsilon) * (1.0 - h)
    c = jnp.exp(local_epsilon) * (jnp.exp(2.0 * epsilon) + 1.0) - 2.0 * g * h
    valid = (epsilon > 0) & (epsilon < local_epsilon)
    b, c = jnp.where(valid, b, 1.0), jnp.where(valid, c, 1.0)
    z = jnp.where(valid, expm1(epsilon), 1.0) * b / c
    k = c / (b * b) * ((1.0 + z) * log1p(z) - z)
    difference = jnp.exp(num_reports * log1p(g * expm1(-k))) - jnp.exp(num_reports * log1p(-g))
    delta = b / (g * num_reports * log1p(z)) * difference
    return jnp.where(valid, jnp.clip(delta, 0.0, 1.0), jnp.where(epsilon >= local_epsilon, 0.0, 1.0))


def cheu_binary_epsilon(num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L]: recalled, Cheu et al. 2019, binary randomized response; inf where 2n/(E+1) < 14 log(4/delta)."""
    blanket = 2.0 * num_reports / (jnp.exp(local_epsilon) + 1.0)
    four = jnp.log(4.0) - log_delta
    valid = blanket >= 14.0 * four
    y = jnp.where(valid, blanket - jnp.sqrt(2.0 * blanket * (jnp.log(2.0) - log_delta)), 1.0)
    return jnp.where(valid, jnp.sqrt(32.0 * four / y) * (1.0 - y / num_reports), jnp.inf)


def balle_adaptive_epsilon(num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L]: recalled, Balle et al. 2020: e^(3 e)(e^e - 1)^2/(2n) + e^(3e/2)(e^e - 1) sqrt(2 log(1/delta)/n)."""
    excess = jnp.exp(1.5 * local_epsilon) * expm1(local_epsilon)
    return 0.5 * excess * excess / num_reports + excess * jnp.sqrt(-2.0 * log_delta / num_reports)


def sampling_with_replacement_epsilon(
    num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array
) -> jax.Array:
    """Epsilon [L] of n samples with replacement, an estimate: equation (13) with 1 for its unknown constant.

    sqrt(n log(1/delta)) e_1 + (E - 1) e_1, e_1 = log(1 + (E-1)/n).
    """
    growth = expm1(local_epsilon)
    single = log1p(growth / num_reports)
    return (jnp.sqrt(-num_reports * log_delta) + growth) * single
