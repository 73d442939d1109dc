"""Sums of clipped records: no record adds more than the clipping norm, with rounding counted."""

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

_BLOCK = 2**14  # squares that are added up at once, in any order: a relative error of less than so many roundings
_ROUNDING = 2.0**-24  # relative rounding error of a float32
_OTHERS = 32.0  # roundings of quotients, products and roots, which some devices do by a few units in the last place
_LEAST_SCALE = 2.0**-100  # the least number that a record's entries are divided by
_LARGEST = 2.0**120  # entry of a record: one with a larger one counts as zero
_LARGEST_RATIO = 2.0**80  # of an entry to the norm that it is clipped to, likewise


class ClippedSum(NamedTuple):
    """The sum of clipped records, and half the number of records within the norm minus half the number of others.

    Any record changes the sum by at most the clipping norm and `half_excess` by 1/2; a count of the records within the
    norm would change by up to 1.
    """

    total: list[jax.Array]
    half_excess: jax.Array  # float []: +1/2 for a record within the norm, -1/2 for one that was scaled, 0 for padding


def working_type(leaves: Sequence[Any]) -> Any:
    """float64 if any leaf is float64, else float32: in half precision, records would be lost in the sum."""
    return jnp.float64 if any(leaf.dtype == jnp.float64 for leaf in leaves) else jnp.float32


def _spread(values: jax.Array, like: jax.Array) -> jax.Array:
    """`values` [B] with as many axes as `like`, [B, ...]."""
    return values.reshape(values.shape + (1,) * (like.ndim - 1))


def _additions(shape: Sequence[int]) -> int:
    """A bound on the number of roundings that `_sum_of_squares` makes on the way to any sum."""
    total = 1  # of the square
    for size in shape:
        while size > 1:
            total += min(size, _BLOCK) - 1
            size = -(-size // _BLOCK)
    return total


def _sum_of_squares(leaf: jax.Array) -> jax.Array:
    """[B] of a leaf [B, ...], by blocks: one float32 sum of 2^24 squares may stop growing long before its end."""
    found = leaf * leaf
    while found.ndim > 1:
        size = found.shape[-1]
        if size > _BLOCK:
            blocks = -(-size // _BLOCK)
            padding = [(0, 0)] * (found.ndim - 1) + [(0, blocks * _BLOCK - size)]
            found = jnp.pad(found, padding).reshape(*found.shape[:-1], blocks, _BLOCK)
        # without the barrier XLA may merge sums of sums into one
        found = jax.lax.optimization_barrier(found.sum(-1))  # type: ignore[no-untyped-call]
    return found


def clipped_sum(leaves: Sequence[jax.Array], mask: jax.Array, l2_norm_clip: Any) -> ClippedSum:
    """The sum of the rows where `mask` is true, each clipped to `l2_norm_clip`: a `ClippedSum`.

    A record with a gradient that is not finite counts as zero, and so does one with an entry beyond 2^80 times the norm
    or 2^120. The norm of a record is computed after scaling by its largest entry, so that no square overflows or
    vanishes, and the bound to which norms are clipped is below `l2_norm_clip` by a margin for all rounding errors: half
    a unit of 2^-24 for each number of a sum; for an axis of 1024 entries, say, less than 1e-4 in all.

    Args:
      leaves: floats [B, ...] each; the same row of all leaves together is one record's gradient.
      mask: bool [B], true for records, false for padding.
      l2_norm_clip: float in [2^-64, 2^64], or float [].

    Returns:
      `ClippedSum`, in float32; in float64 if a leaf is float64.
    """
    kind = working_type(leaves)
    wide = [leaf.astype(kind) for leaf in leaves]
    entries = [tuple(range(1, leaf.ndim)) for leaf in leaves]
    tops = [jnp.abs(leaf).max(axes, initial=0.0) for leaf, axes in zip(wide, entries, strict=True)]
    scale = functools.reduce(jnp.maximum, tops, jnp.full(mask.shape, _LEAST_SCALE, kind))
    squares = (_sum_of_squares(leaf / _spread(scale, leaf)) for leaf in wide)
    norms = jnp.sqrt(functools.reduce(operator.add, squares, jnp.zeros(mask.shape, kind)))
    additions = max((_additions(leaf.shape[1:]) for leaf in leaves), default=0) + len(leaves)
    rounding = math.ceil(0.5 * additions + _OTHERS) * _ROUNDING  # a root halves the sum's relative error
    limit = jnp.asarray(l2_norm_clip, kind) * jnp.asarray(1.0 - rounding, kind)
    # no quotient below is subnormal: subnormal quotients cannot be trusted, nor can reciprocals of larger numbers
    most = jnp.minimum(limit * jnp.asarray(_LARGEST_RATIO, kind), jnp.asarray(_LARGEST, kind))
    rows = mask & (scale <= most) & jnp.isfinite(norms)
    within = norms <= limit / scale
    one, none = jnp.ones_like(norms), jnp.zeros_like(norms)
    weights = jnp.where(rows, jnp.where(within, one, limit / jnp.where(within, one, norms) / scale), none)

    def total(leaf: jax.Array) -> jax.Array:
        finite = jnp.where(_spread(rows, leaf), leaf, jnp.zeros_like(leaf))  # zero times nan is not zero
        return jnp.tensordot(weights, finite, 1, precision=jax.lax.Precision.HIGHEST)

    half = jnp.asarray(0.5, kind)
    halves = jnp.where(rows, jnp.where(within, half, -half), none)
    return ClippedSum(list(map(total, wide)), halves.sum(0))
