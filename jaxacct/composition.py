"""How answers combine: the one place where a divergence is multiplied by a count."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, cast

import numpy as np

from jaxacct._jax import Array, Tracer, jax, jnp
from jaxacct._precision import Rounding, float64_kernel
from jaxacct._types import Bound, Number
from jaxacct._validate import check_count, checked_array
from jaxacct.curves import Pld, RdpCurve
from jaxacct.curves._convolution import compose_plds
from jaxacct.special import up
from jaxacct.special._namespace import stop_gradient, xp

__all__ = ["compose"]


class Group(NamedTuple, Generic[Number]):
    """`num_runs` independent runs of 1-out-of-`num_steps` allocation: Python integers, or JAX arrays."""

    num_steps: Number
    num_runs: Number


def allocation_groups(
    num_steps: Number, num_selected: Number, num_epochs: Number, *, uneven: bool
) -> tuple[Group[Number], ...]:
    """The runs of 1-out-of-n allocation whose composition dominates `num_epochs` epochs of k-out-of-t allocation.

    A uniform k-subset is a random split of the steps into k groups, with one step from each (Feldman and Shenfeld,
    Lemma 3.2). The paper takes k groups of floor(t/k) steps; the groups need only add up to t, so r = t mod k of them
    have one step more, which is never worse (RA-S4).

    Args:
      num_steps, num_selected, num_epochs: t, k and the epochs; Python integers, or JAX arrays (traced or not).
      uneven: static; False promises that k divides t everywhere, which halves the work.

    >>> allocation_groups(11, 4, 3, uneven=True)
    (Group(num_steps=2, num_runs=3), Group(num_steps=3, num_runs=9))
    """
    t, k, epochs = (cast(Any, x) for x in (num_steps, num_selected, num_epochs))
    # the quotient of doubles below 2^40 never rounds up to a whole number
    size = jnp.floor(t / k) if isinstance(t, Array) else t // k
    larger = t - size * k
    if not uneven:
        return (Group(size, k * epochs),)
    return Group(size, (k - larger) * epochs), Group(size + 1, larger * epochs)


def compose_rdp(parts: Iterable[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """sum count * rdp over (rdp [A, L], count [L]), rounded up: Renyi divergences add under composition."""
    terms = [xp.where(count > 0, rdp, 0.0) * count for rdp, count in parts]
    total = sum(terms, np.zeros(()))
    return up(total, 2 * (len(terms) + 1))  # a product, and a sum for each further part


def compose_gaussian_mu(parts: Iterable[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """sqrt(sum count * mu^2), rounded up: Gaussian mechanisms compose to a Gaussian mechanism."""
    pairs = list(parts)
    largest = functools.reduce(lambda x, y: xp.maximum(x, y), (mu for mu, _ in pairs))
    scale = stop_gradient(xp.where((largest > 0) & (largest < xp.inf), largest, 1.0))  # squares underflow
    total = xp.zeros(())
    for mu, count in pairs:
        total = total + count * (mu / scale) * (mu / scale)
    return up(xp.sqrt(total) * scale, 2 * (len(pairs) + 8))


@float64_kernel(rounding=Rounding.UP, on_host=2**12)
def _weighted_sum(*values_and_counts: jax.Array) -> jax.Array:
    half = len(values_and_counts) // 2
    return compose_rdp(zip(values_and_counts[:half], values_and_counts[half:], strict=True))


def _convolved(parts: Sequence[Pld], times: Sequence[Any]) -> Pld:
    if any(np.ndim(count) or isinstance(count, Tracer) for count in times):
        wrong = times[0] if len(times) == 1 else times
        raise ValueError(f"counts={wrong!r} must be concrete whole numbers for privacy loss distributions")
    return compose_plds(list(zip(parts, (int(count) for count in times), strict=True)))


def _added(parts: Sequence[RdpCurve], times: Sequence[Any]) -> RdpCurve:
    first = parts[0]
    for part in parts:
        if part.bound is not Bound.UPPER:
            raise ValueError(f"curve.bound={part.bound.value!r} must be an upper bound")
        if not np.array_equal(part.orders, first.orders):
            raise ValueError("curves must share their orders; evaluate them at the same ones")
        if part.neighboring_relation is not first.neighboring_relation:
            raise ValueError("curves must share their neighboring_relation; convert first")
    directions = {part.direction for part in parts if part.direction is not None}
    if len(directions) > 1:
        raise ValueError("curves must hold in one direction, not some in one and some in the other")
    values = _weighted_sum(*(part.values for part in parts), *(np.expand_dims(c, -1) for c in times))
    theorems = dict.fromkeys(part.theorem for part in parts)
    return dataclasses.replace(
        first, values=values, theorem="; ".join(theorems), direction=directions.pop() if directions else None
    )


_COMPOSED: dict[type, Callable[[Any, Any], Any]] = {Pld: _convolved, RdpCurve: _added}


def compose(curves: Any, counts: Any = 1) -> Any:
    """The curve of adaptively running each of `curves` the number of times in `counts`.

    Renyi curves are added, which gives an upper bound. Privacy loss distributions are convolved by FFT on the finest of
    their grids, which gives an upper or lower bound like their own, with every rounding error accounted for.

    Args:
      curves: one `RdpCurve` or `Pld`, or several of one kind, with the same orders (for `Pld`, the same bound and
        direction) and the same adjacency.
      counts: whole number >= 1 for each (a scalar is shared by all).

    Returns:
      An `RdpCurve` or a `Pld`, as `curves` are, with the same bound, direction and adjacency.

    Raises:
      ValueError: if the curves differ in these, a Renyi curve is not an upper bound, or a count is out of range.

    >>> import jaxacct as ja
    >>> curve = ja.rdp(ja.Gaussian(2.0), orders=[2, 3])
    >>> [round(float(v), 6) for v in ja.compose(curve, counts=8).values]
    [2.0, 3.0]
    """
    parts = tuple(curves) if isinstance(curves, Iterable) else (curves,)
    for part in parts:
        if type(part) not in _COMPOSED or type(part) is not type(parts[0]):
            kinds = ", ".join(type(part).__name__ for part in parts)
            raise ValueError(f"curves must be RdpCurves or Plds, all of one kind, not {kinds}")
    if not parts:
        raise ValueError("curves=() must hold at least one curve")
    times = tuple(counts) if isinstance(counts, tuple | list) else (counts,) * len(parts)
    if len(times) != len(parts):
        raise ValueError(f"counts has {len(times)} entries; must be one for each of {len(parts)} curves")
    for count in times:
        if not isinstance(count, Tracer):
            checked_array("counts", count)
        check_count("counts", count)
    return _COMPOSED[type(parts[0])](parts, times)
