"""Renyi divergences of releases with few outputs, Poisson-sampled or not: sums over the outputs.

Zhu, Dong & Wang 2022, Theorem 11: the pair of a sampled step is (1-q) Q + q P against Q, where P and Q are the pair of
the release itself, so that the moments are those of 1 - q + q Y under Q, with Y = dP/dQ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax, jnp
from jaxacct._method import NO_POINT, orders_bytes
from jaxacct.bounds._by_ratio import by_direction
from jaxacct.bounds.bases._discrete import log_ratios
from jaxacct.composition import compose_rdp
from jaxacct.divergence._ratio_moments import MOST_LOG, RatioPoints, ratio_largest, ratio_rdp
from jaxacct.mechanisms import DiscretePair, PoissonSampled
from jaxacct.special import up

_MOST_OUTPUTS = 2**12  # of a pair: the error bound of their sum holds up to this number


def _pair_of(mechanism: Any) -> DiscretePair:
    return mechanism if mechanism.signature() == (DiscretePair,) else mechanism.mechanism


def _numbers(pair: DiscretePair) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """P and Q at the outputs where Q > 0, log(P/Q) there, and P at the other outputs."""
    p, q = np.asarray(pair.p), np.asarray(pair.q)
    here = q > 0.0
    log_y = np.full(int(here.sum()), -np.inf)
    log_y[p[here] > 0.0] = log_ratios(p[here & (p > 0.0)], q[here & (p > 0.0)])
    return p[here], q[here], log_y, p[~here]


def _is_listed(mechanism: Any) -> bool:
    """Whether there are few enough outputs, and their log ratios are within range."""
    pair = _pair_of(mechanism)
    log_y = _numbers(pair)[2]
    finite = log_y[np.isfinite(log_y)]
    return len(pair.p) <= _MOST_OUTPUTS and float(np.abs(finite).max(initial=0.0)) <= MOST_LOG


def _points(mechanism: Any) -> tuple[RatioPoints, tuple[float, float], bool]:
    """The law of Y, the defects of its sums, and whether P has an output that Q does not have."""
    p, q, log_y, alone = _numbers(_pair_of(mechanism))
    log_weights, log_values = (jnp.asarray(v[:, None], jnp.float64) for v in (np.log(q), log_y))
    defects = (abs(math.fsum([*q, -1.0])), abs(math.fsum([*p, *(-q)])))
    return RatioPoints(log_weights, log_values), (up(defects[0], 4), up(defects[1], 4)), bool(np.any(alone > 0.0))


def _sampling_of(mechanism: Any) -> tuple[jax.Array, jax.Array]:
    """The sampling probability and the number of steps, [L]."""
    if mechanism.signature() == (DiscretePair,):
        return jnp.ones((1,), jnp.float64), jnp.ones((1,), jnp.float64)
    return mechanism.sampling_prob, mechanism.num_steps


def listed_rdp(mechanism: DiscretePair | PoissonSampled, *, orders: Sequence[float], add: bool, size: int) -> jax.Array:
    """Renyi divergences [A, L], one direction, rounded up, of a release with few outputs: sums over them.

    Real orders >= 1; of T steps sampled with probability q where `mechanism` says so. `size` is the number of outputs.
    """
    del size
    points, defects, has_more = _points(mechanism)
    q, num_steps = _sampling_of(mechanism)
    found = ratio_rdp(points, q, orders=orders, add=add, defects=defects)
    found = jnp.where((q > 0) & has_more & (not add), jnp.inf, found)
    return compose_rdp([(found, num_steps)])


def _listed_largest(mechanism: Any, *, add: bool, size: int) -> jax.Array:
    del size
    points, _, has_more = _points(mechanism)
    q, num_steps = _sampling_of(mechanism)
    found = jnp.where((q > 0) & has_more & (not add), jnp.inf, ratio_largest(points, q, add=add))
    return compose_rdp([(found[None], num_steps)])[0]


def _bytes(*, orders: Sequence[float] = (), size: int) -> int:
    return orders_bytes(orders=orders) + 512 * size


LISTED = by_direction(
    listed_rdp,
    _listed_largest,
    theorem="the definition, over the outputs; Zhu, Dong & Wang 2022, Theorem 11",
    applies=_is_listed,
    statics=lambda mechanism: {"size": len(_pair_of(mechanism).p)},
    lane_bytes=_bytes,
    numpy=NO_POINT,
    regime="up to 4096 outputs",
)
