"""Exact profiles by moment inversion, behind the float64 boundary."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxacct._answering import DELTA, Query, in_domain
from jaxacct._precision import Kernel, Rounding
from jaxacct._types import Ends
from jaxacct.bounds.poisson._exact import SIZES, Size, inverted_epsilon, inverted_log_delta
from jaxacct.conversion import delta_from_log, delta_from_log_down


def _lane_bytes(*, size: Size) -> int:
    return 1024 * size.num_z


@functools.lru_cache(maxsize=64)
def _kernel(structure: Any, query: Query) -> Kernel:
    def ends(*lanes: jax.Array, size: Size) -> tuple[jax.Array, jax.Array]:
        mechanism, target = jax.tree.unflatten(structure, lanes[:-1]), lanes[-1]
        if query is DELTA:
            log_ends = inverted_log_delta(mechanism, target, size=size)
            lower, upper = delta_from_log_down(log_ends.lower), delta_from_log(log_ends.upper)
        else:
            lower, upper = inverted_epsilon(mechanism, jnp.log(target), size=size)
        ok = in_domain(mechanism) & query.allowed(target)
        lower = jnp.where(ok & ~jnp.isnan(lower), lower, 0.0)
        return lower, jnp.where(ok & ~jnp.isnan(upper), upper, query.worst)

    ends.__name__ = f"inverted_{query.name}"
    return Kernel(ends, (Rounding.DOWN, Rounding.UP), _lane_bytes)


def invert(mechanism: Any, query: Query, target: Any, size: Size = SIZES[0]) -> Ends[Any]:
    """Bracket of the answer, batch + [2]: remove, then add. For mechanisms that `inverts` accepts."""
    leaves, structure = jax.tree.flatten(mechanism)
    return Ends(*_kernel(structure, query)(*leaves, target, size=size))
