"""Power series with non-negative coefficients, kept as logarithms (coefficients first, lanes last)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.special._logspace import log_sum_exp
from jaxacct.special._namespace import is_jax, scan, xp


def log_series_product(a: Any, b: Any) -> Any:
    """Log coefficients [N, L] of the product of the series `a` and `b` [N, L], truncated to the same length N."""
    size = a.shape[0]
    if not is_jax(a, b):
        return np.stack([log_sum_exp(a[: n + 1] + b[n::-1]) for n in range(size)])
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
    one = xp.where(np.arange(a.shape[0])[:, None] == 0, 0.0, -np.inf) + xp.zeros_like(a)

    def step(state: tuple[jax.Array, jax.Array, jax.Array], _: Any) -> tuple[Any, Any]:
        result, square, rest = state
        odd = rest - 2.0 * xp.floor(0.5 * rest) == 1.0
        result = xp.where(odd, log_series_product(result, square), result)
        return (result, log_series_product(square, square), xp.floor(0.5 * rest)), ()

    (result, _, _), _ = scan(step, (one, a, exponent), np.arange(num_bits))
    return result
