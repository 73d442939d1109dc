"""Power series with non-negative coefficients, stored as logarithms (coefficients first, lanes last)."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.special._logspace import log_sum_exp
from jaxacct.special._namespace import is_jax, scan, stop_gradient, xp
from jaxacct.special._rounding import ULP


def log_series_product(a: Any, b: Any, *, sign: int = 0) -> Any:
    """Log coefficients [N, L] of the product of the series `a` and `b` [N, L], truncated to the same length N.

    `sign` (static): rounded up if 1, down if -1, by ULP (3 |log p| + n + 14 log(n + 1)) for coefficient p of order n.
    A coefficient sums n + 1 terms: n ULP, 4 for exponentials, 4 log(n + 1) for the logarithm. A term errs by an ULP of
    its logarithm l. The mean of |l|, weighted by the terms' shares, is at most |log p| + log(n + 1), as is the mean of
    log p - l; two more |log p| come from sums. At n = 0 a product of ones is exact.
    """
    if sign:
        found = log_series_product(a, b)
        n = np.arange(a.shape[0]).reshape(-1, *[1] * (a.ndim - 1))
        size = stop_gradient(xp.where(found > -xp.inf, xp.abs(found), 0.0))
        return found + sign * ULP * (3.0 * size + (n + 14.0 * np.log1p(n)))
    size = a.shape[0]
    if not is_jax(a, b):
        return np.stack([log_sum_exp(a[: n + 1] + b[n::-1]) for n in range(size)])
    # reversed b behind -inf: the slice that starts at size - 1 - n holds b_n, b_{n-1}, .., b_0, -inf, ..
    tail = jnp.concatenate([b[::-1], jnp.full_like(b, -jnp.inf)])

    def coefficient(n: jax.Array) -> jax.Array:
        return log_sum_exp(a + jax.lax.dynamic_slice_in_dim(tail, size - 1 - n, size))

    return jax.lax.map(coefficient, jnp.arange(size, dtype=jnp.int32))


def log_series_power(a: jax.Array, exponent: jax.Array, *, num_bits: int, sign: int = 0) -> jax.Array:
    """Log coefficients [N, L] of the series `a` [N, L] to the whole power `exponent` [L] < 2**num_bits (static).

    By binary powering: only positive products are summed, so nothing cancels. The relative error of a coefficient is at
    most about 2 N num_bits ulp, plus one ulp of the largest logarithm for each product. With `sign` 1 each product is
    rounded up, so that the result is an upper bound on the power of `a`; with -1 down.
    """
    one = xp.where(np.arange(a.shape[0])[:, None] == 0, 0.0, -np.inf) + xp.zeros_like(a)

    def step(state: tuple[jax.Array, jax.Array, jax.Array], _: Any) -> tuple[Any, Any]:
        result, square, rest = state
        odd = rest - 2.0 * xp.floor(0.5 * rest) == 1.0
        result = xp.where(odd, log_series_product(result, square, sign=sign), result)
        return (result, log_series_product(square, square, sign=sign), xp.floor(0.5 * rest)), ()

    (result, _, _), _ = scan(step, (one, a, exponent), np.arange(num_bits))
    return result
