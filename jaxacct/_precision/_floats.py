"""float64 inside, the user's float type outside: the only place that handles x64, and how results are rounded."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import jax, jnp


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """float64, and dtypes promoted as kernels expect: float64 beside complex128, integers and booleans.

    Compiled, and without checks for NaN: a kernel's NaN is part of its answer, such as an order where there is none.
    """
    promotion = jax.numpy_dtype_promotion("standard")
    with jax.enable_x64(True), promotion, jax.debug_nans(False), jax.debug_infs(False), jax.disable_jit(False):
        yield


class Rounding(enum.Enum):
    """How a kernel's float64 result is rounded when the user's float type is narrower."""

    NEAREST = "nearest"
    UP = "up"
    DOWN = "down"


def widened(x: jax.Array) -> jax.Array:
    """`x` as float64, including the subnormal numbers of a narrower type, which XLA takes for 0."""
    wide = x.astype(jnp.float64)
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype == jnp.float64:
        return wide
    kind: Any = jnp.finfo(x.dtype)  # type: ignore[no-untyped-call]
    bits = jax.lax.bitcast_convert_type(x, f"int{kind.bits}")
    digits = bits & (2**kind.nmant - 1)  # of a number whose exponent is the least
    is_small = (bits & (2 ** (kind.bits - 1) - 1)) == digits
    small = jnp.where(bits < 0, -1.0, 1.0) * digits.astype(jnp.float64) * 2.0 ** (int(kind.minexp) - kind.nmant)
    return jnp.where(is_small, small, wide)


def narrowed(tree: Any, dtype: Any, rounding: Any) -> Any:
    """A tree of float64 as the user's float type, each output rounded in its direction."""
    if isinstance(rounding, tuple):
        return tuple(narrowed(y, dtype, r) for y, r in zip(tree, rounding, strict=True))

    def cast(y: jax.Array) -> jax.Array:
        narrow = y.astype(dtype)
        if narrow.dtype == y.dtype or rounding is Rounding.NEAREST:
            return narrow
        up = rounding is Rounding.UP
        unsafe = narrow.astype(y.dtype) < y if up else narrow.astype(y.dtype) > y
        rounded = jnp.where(unsafe, jnp.nextafter(narrow, jnp.asarray(jnp.inf if up else -jnp.inf, dtype)), narrow)
        # XLA flushes subnormals to 0: below the smallest normal number, step out to it
        tiny = float(np.finfo(dtype).tiny)
        outward = jnp.where((y > 0) if up else (y < 0), jnp.asarray(tiny if up else -tiny, dtype), jnp.zeros((), dtype))
        return jnp.where((y != 0) & (jnp.abs(y) < tiny), outward, rounded)

    return _trees.map_leaves(cast, tree)


def rounded_up(value: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A float64 answer, concrete, as an array of `dtype` that is not below it."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = value.astype(dtype)
        narrow = np.where(narrow < value, np.nextafter(narrow, np.asarray(np.inf, dtype)), narrow)
    tiny = np.finfo(dtype).tiny  # below it XLA has 0
    return np.where((value > 0.0) & (value < tiny), tiny, narrow).astype(dtype)


def narrowed_up(value: NDArray[Any]) -> jax.Array:
    """A float64 answer, concrete, as an array of the user's float type that is not below it."""
    return jnp.asarray(rounded_up(value, jnp.result_type(float)))
