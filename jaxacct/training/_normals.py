"""Normal draws whose tails reach as far as the privacy guarantee needs.

The float32 normals of `jax.random` come from 23 bits each, and none is beyond 5.42. Suppose a record moves a coordinate
by 1/sigma. With the record, a value beyond 5.42 is seen with probability P(N > 5.42 - 1/sigma), 5e-6 for sigma = 1;
without it, such a value is never seen. This probability is then a part of delta at every epsilon.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

_WORD = 2.0**-32  # one over the number of words
_SMALL = 2**20  # entries up to which each device draws the whole array


def from_words(high: jax.Array, low: jax.Array, turn: jax.Array, dtype: Any) -> jax.Array:
    """Normals from three uint32 each: a radius of 64 bits, sqrt(-2 log u) up to 9.49, and the cosine of an angle.

    Box & Muller 1958. In float32 the error is a few units in the last place of the radius, in the tails too.
    """
    word, half = jnp.asarray(_WORD, dtype), jnp.asarray(0.5, dtype)
    u = (high.astype(dtype) + (low.astype(dtype) + half) * word) * word
    radius = jnp.sqrt(jnp.asarray(-2.0, dtype) * jnp.log(u))
    return radius * jnp.cos(turn.astype(dtype) * jnp.asarray(2.0 * math.pi * _WORD, dtype))


def _words(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Uniform uint32 words, the same whatever `_SMALL` is.

    They are drawn along a single axis, since XLA's compile time grows with the number of axes (on CPU, three draws take
    0.4 s with one axis and 0.9 s with four). If there are so many that each device should draw its own shard, they are
    drawn in their shape, which that needs.
    """
    size = math.prod(shape)
    if size > _SMALL:
        return jax.random.bits(key, shape, jnp.uint32)
    return jax.random.bits(key, (size,), jnp.uint32).reshape(shape)


def normals(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Independent standard normals."""
    high, low, turn = (_words(part, shape) for part in jax.random.split(key, 3))
    return from_words(high, low, turn, dtype)
