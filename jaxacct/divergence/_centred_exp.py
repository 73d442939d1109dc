"""e^-z - 1 + z at complex z, on lanes: the summand of a likelihood ratio's transform with its mean subtracted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxacct._jax import jnp
from jaxacct.special import ULP

_SMALL = 0.1  # |x| below which e^-x - 1 + x is summed as a series, whose length is sized for this


def centred_exp(x: Any, y: Any, turn: Callable[[Any], tuple[Any, Any]]) -> tuple[Any, Any, Any]:
    """Real and imaginary parts [..] of e^-z - 1 + z at z = x + iy, itself known to 8 ulp, and a bound on their error.

    Computed in real numbers, which XLA's CPU compiler vectorises. Nothing cancels where z is small.

    Args:
      turn: a function that returns cos y and sin y.
    """
    size, modulus = jnp.abs(x) + jnp.abs(y), jnp.exp(-x)
    cos, sin = turn(y)
    small = size < _SMALL
    u, v = jnp.where(small, x, 0.0), jnp.where(small, y, 0.0)
    a, b = jnp.ones_like(u), jnp.zeros_like(u)
    for n in range(11, 2, -1):
        a, b = 1.0 - (u * a - v * b) * (1.0 / n), -(u * b + v * a) * (1.0 / n)
    c, d = 0.5 * (u * u - v * v), u * v
    real = jnp.where(small, c * a - d * b, modulus * cos - 1.0 + x)
    imag = jnp.where(small, c * b + d * a, y - modulus * sin)
    error = jnp.where(small, 40.0 * size * size, modulus * (12.0 + 15.0 * size) + 2.0 + 10.0 * size)
    return real, imag, ULP * error
