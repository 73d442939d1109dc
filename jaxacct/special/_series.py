"""Power series with non-negative coefficients, kept as logarithms (coefficients first, lanes last)."""

import jax
import jax.numpy as jnp

from jaxacct.special._logspace import log_sum_exp


def log_series_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Log coefficients [N, L] of the product of the series `a` and `b` [N, L], truncated to the same length N."""
    size = a.shape[0]
    # reversed b behind -inf: the slice that starts at size - 1 - n holds b_n, b_{n-1}, .., b_0, -inf, ..
    tail = jnp.concatenate([b[::-1], jnp.full_like(b, -jnp.inf)])

    def coefficient(n: jax.Array) -> jax.Array:
        return log_sum_exp(a + jax.lax.dynamic_slice_in_dim(tail, size - 1 - n, size))

    return jax.lax.map(coefficient, jnp.arange(size, dtype=jnp.int32))


def log_series_power(a: jax.Array, exponent: jax.Array, *, num_bits: int) -> jax.Array:
    """Log coefficients [N, L] of the series `a` [N, L] to the whole power `exponent` [L] < 2**num_bits (static).

    Binary powering: sums of positive products only, so no digit is ever cancelled. Relative error of a
    coefficient <= about 2 N num_bits ulp, plus one ulp of the largest logarithm for each product.
    """
    one = jnp.where(jnp.arange(a.shape[0])[:, None] == 0, 0.0, -jnp.inf) + jnp.zeros_like(a)

    def step(
        state: tuple[jax.Array, jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], None]:
        result, square, rest = state
        odd = rest - 2.0 * jnp.floor(0.5 * rest) == 1.0
        result = jnp.where(odd, log_series_product(result, square), result)
        return (result, log_series_product(square, square), jnp.floor(0.5 * rest)), None

    (result, _, _), _ = jax.lax.scan(step, (one, a, exponent), None, length=num_bits)
    return result
