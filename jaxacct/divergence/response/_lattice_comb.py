"""Sums over all integers from every h-th of them: how wide h may be, and what that costs.

For counts k ~ Bin(n, p) and a function G that is a positive mixture of products ``k (k-1) .. (k-j+1) z^k``, z in
[z0, 1], j <= J, the sum over every h-th count is off by its aliases, E[G e^(iwk)] at w = 2 pi l/h, 0 < l < h:

    |h sum_m P(mh + c) G(mh + c) - E G| <= sum_l (1 - 4 v' sin(pi l/h)^2)^((n-J)/2) E G <= 3 e^(-2 v sin(pi/h)^2) E G,

since the mixture's parts have moments n..(n-j+1) (pz)^j e^(iwj) (1 - p + p z e^(iw))^(n-j). Here v = (n - J) v', and v'
is the least P(1 - P) for the tilted probabilities P = pz/(1 - p + pz). The bound is exact about all counts, those far
in the tails included: nothing is asked of G beyond the integers.

What the mixtures are truncated at, and the windows of counts, leave parts below e^-100.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

EXPONENT = 100.0
_SHORTEST = 6.0  # below, sin(pi/h) is far enough from pi/h to matter


def stride(xp: Any, variance: Any) -> Any:
    """The largest h whose aliases are below 3 e^-90 for v = `variance`; 1, every integer, where it would be below 6."""
    wide = xp.floor(xp.sqrt(0.19 * variance))
    return xp.where(wide >= _SHORTEST, wide, 1.0)


def log_aliases(variance: Array, step: Array) -> Array:
    """log(3 e^(-2 v sin(pi/h)^2)), -inf where h = 1."""
    angle = jnp.sin(jnp.pi / jnp.maximum(step, 2.0))
    return jnp.where(step > 1.0, jnp.log(3.0) - 2.0 * variance * angle * angle, -jnp.inf)


def gamma_reach(shape: Any, xp: Any = jnp) -> Any:
    """z with P[Gamma(shape) > z] <= e^-100: z = a + y, where y^2/(2(a + y)) = 100 bounds Chernoff's exponent."""
    return shape + EXPONENT + xp.sqrt(EXPONENT * EXPONENT + 2.0 * EXPONENT * shape)


def right_reach(mean: Any, exponent: Any, xp: Any = jnp) -> Any:
    """d with P[Bin >= mean + d] <= e^-exponent, by Bernstein: d^2 = 2 exponent (mean + d/3)."""
    third = exponent / 3.0
    return third + xp.sqrt(third * third + 2.0 * exponent * mean)


def left_reach(mean: Any, exponent: Any, xp: Any = jnp) -> Any:
    """d with P[Bin <= mean - d] <= e^-exponent: d^2 = 2 mean exponent."""
    return xp.sqrt(2.0 * mean * exponent)
