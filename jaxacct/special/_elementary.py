"""Elementary functions of JAX arrays, for those where XLA's own err by more than a few units in the last place.

XLA's errors, measured on its CPU backend (jaxlib 0.10.2) in relative units of 2^-53: log1p 240 between -0.4143 and
-0.36; expm1 6 below 1/2; sinh 7 there and 500 near 700, as cosh; tanh 7 near 20. `_namespace.xp` calls the functions
here instead, and NumPy's on NumPy arrays. The error stated for each holds if XLA's functions err by no more than is
booked for them; what expm1 and sinh make of the exponential is checked with the ground (docs/numerics/rounding.md).
"""

from __future__ import annotations

from jaxacct._jax import jax, jnp


def log1p(x: jax.Array) -> jax.Array:
    """log(1 + x), within 4 units.

    Below -1/4 it is the logarithm of 1 + x, a sum that is exact below -1/2 and elsewhere errs by 2^-54 at most. This
    moves a logarithm of size at least 0.28 by at most 2.4 units.
    """
    far = x < -0.25
    return jnp.where(far, jnp.log(jnp.where(far, 1.0 + x, 1.0)), jnp.log1p(jnp.where(far, 0.0, x)))


def expm1(x: jax.Array) -> jax.Array:
    """e^x - 1, within 5 units: for |x| < 1/2 by its series, which errs by 2.2; else from e^x, whose error grows.

    The series is x + r: r errs by 4 and is at most 0.28 of the sum in size; the sum adds one unit.
    """
    near = jnp.abs(x) < 0.5
    some = jnp.where(near, x, 0.0)
    series = jnp.ones_like(some)
    for n in range(16, 2, -1):  # 2 r / x^2 = 1 + x/3 (1 + x/4 (..))
        series = 1.0 + some * (1.0 / n) * series
    return jnp.where(near, some + 0.5 * (some * some) * series, jnp.exp(jnp.where(near, 1.0, x)) - 1.0)


def sinh(x: jax.Array) -> jax.Array:
    """sinh x, within 6 units; infinite beyond 709.78.

    Above 1 it is made from e^x itself, since x - log 2 would be rounded; up to 1 by its series x + r, where r errs by 7
    and is at most 0.15 of the sum.
    """
    size = jnp.abs(x)
    far = size > 1.0
    half = 0.5 * jnp.exp(jnp.where(far, size, 1.0))
    some = jnp.where(far, 0.0, x)
    square, series = some * some, jnp.ones_like(some)
    for n in range(9, 1, -1):  # 6 r / x^3 = 1 + x^2/20 (1 + x^2/42 (..))
        series = 1.0 + square * (1.0 / (2.0 * n * (2.0 * n + 1.0))) * series
    near = some + some * (square * (1.0 / 6.0)) * series
    return jnp.where(far, jnp.sign(x) * (half - 0.25 / half), near)


def tanh(x: jax.Array) -> jax.Array:
    """tanh x, within 5 units: above 1 from e^(-2x), which is small there."""
    size = jnp.abs(x)
    far = size > 1.0
    rest = jnp.exp(-2.0 * jnp.where(far, size, 1.0))
    return jnp.where(far, jnp.sign(x) * ((1.0 - rest) / (1.0 + rest)), jnp.tanh(jnp.where(far, 0.0, x)))
