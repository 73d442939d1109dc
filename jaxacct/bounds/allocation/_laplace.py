"""Renyi divergences of randomly allocated Laplace steps, for traced programs.

Feldman & Shenfeld 2025, Theorem 4.8 and Lemma 3.2, with the moments of Mironov 2017, Proposition 6. Add/remove
adjacency; on the host the loss distribution is tighter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._jax import Tracer, jax, jnp
from jaxacct._method import NO_POINT, Cost, RenyiMethod, Role, orders_bytes
from jaxacct._types import Direction
from jaxacct.bounds._limits import with_limits
from jaxacct.bounds._orders import WHOLE
from jaxacct.bounds._split import split_statics
from jaxacct.bounds.allocation._renyi import uses
from jaxacct.bounds.laplace import top_of
from jaxacct.composition import allocation_groups, compose_rdp
from jaxacct.divergence._two_sided import laplace_rdp
from jaxacct.divergence.allocation._powers import general_rdp
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import at_real_orders

_MOST_BITS = 40  # most bits of a number of steps; assumed where that is traced


def _groups(mechanism: RandomAllocation, uneven: bool) -> Any:
    return allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)


def _unamplified(mechanism: RandomAllocation, orders: Sequence[float]) -> jax.Array:
    """Divergences if the steps that a record joins are public: those of as many unsampled releases."""
    column = jnp.asarray(orders, jnp.float64)[:, None]
    return compose_rdp([(laplace_rdp(column, top_of(mechanism.mechanism)), uses(mechanism))])


def _largest(mechanism: RandomAllocation, **statics: Any) -> jax.Array:
    """The divergence of order inf [L], rounded up, both directions: 1/b for each use, as all steps may be extreme."""
    del statics
    return compose_rdp([(top_of(mechanism.mechanism)[None], uses(mechanism))])[0]


def laplace_remove_rdp(
    mechanism: RandomAllocation, *, orders: Sequence[float], uneven: bool, num_bits: int
) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up; for 1-out-of-t (1/(a-1)) log E_Q[((1/t) sum Y_i)^a].

    Feldman & Shenfeld 2025, Theorem 4.8 and Lemma 3.2: at whole orders a power of a power series of the moments, else
    the chord between them. Never above the unamplified uses. `num_bits` is how many bits the number of steps has.
    """
    known = range(2, max(2, math.ceil(max(orders))) + 1)
    x = top_of(mechanism.mechanism)
    column = jnp.asarray(known, jnp.float64)[:, None]
    moments = jnp.concatenate([jnp.zeros((2, x.shape[0])), (column - 1.0) * laplace_rdp(column, x)])
    whole = compose_rdp(
        (general_rdp(moments, group.num_steps, num_bits=num_bits), group.num_runs)
        for group in _groups(mechanism, uneven)
    )
    return jnp.minimum(at_real_orders(whole, known, orders), _unamplified(mechanism, orders))


def laplace_add_rdp(mechanism: RandomAllocation, *, orders: Sequence[float], uneven: bool, num_bits: int) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up.

    For each run of 1-out-of-n, the divergence of order a is at most that of order 1 + (a-1)/n of one release. The
    arithmetic mean of likelihood ratios is at least the geometric mean, as in Feldman & Shenfeld 2025, Theorem 4.9:
    E_Q[(mean Y)^-(a-1)] <= E_Q[Y^-c]^n, c = (a-1)/n, and E_Q[Y^-c] = E_Q[Y^(1+c)], since Laplace noise is its own
    mirror image.
    """
    del num_bits
    a, x = jnp.asarray(orders, jnp.float64)[:, None], top_of(mechanism.mechanism)

    def order(num_steps: jax.Array) -> jax.Array:
        """1 + (a-1)/n, rounded up: divergences do not fall with the order."""
        return 1.0 + jnp.maximum((a - 1.0) / num_steps * (1.0 + 2.0**-40), 2.0**-30) + 2.0**-50

    groups = _groups(mechanism, uneven)
    return compose_rdp((laplace_rdp(order(group.num_steps), x), group.num_runs) for group in groups)


def _statics(mechanism: RandomAllocation) -> dict[str, Any]:
    is_known = not isinstance(mechanism.num_steps, Tracer)
    num_bits = int(np.max(mechanism.num_steps)).bit_length() if is_known else _MOST_BITS
    return {**split_statics(mechanism), "num_bits": min(num_bits, _MOST_BITS)}


def _bytes(*, uneven: bool, num_bits: int, orders: Sequence[float] = ()) -> int:
    del uneven, num_bits
    return orders_bytes(orders=orders) + 64 * len(orders) ** 2


def _method(name: str, theorem: str, direction: Direction, rdp: Any) -> RenyiMethod:
    return RenyiMethod(
        name=name,
        theorem=theorem,
        directions=(direction,),
        cost=Cost.MILLISECONDS,
        role=Role.IN_PROGRAMS,
        rdp=with_limits(rdp, near_one=1.0 + 2.0**-30, largest=_largest),
        grids=(WHOLE[64], WHOLE[256]),
        statics=_statics,
        lane_bytes=_bytes,
        numpy=NO_POINT,
    )


LAPLACE = (
    _method(
        "direct",
        "Feldman & Shenfeld 2025, Theorem 4.8, with Mironov 2017, Proposition 6",
        Direction.REMOVE,
        laplace_remove_rdp,
    ),
    _method(
        "geometric mean",
        "Feldman & Shenfeld 2025, Theorem 4.9, with Mironov 2017, Proposition 6",
        Direction.ADD,
        laplace_add_rdp,
    ),
)
