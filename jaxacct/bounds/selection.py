"""The best of a random number of runs: its table of methods, and its Renyi divergences from those of one run.

Papernot & Steinke 2022, "Hyperparameter tuning with Renyi differential privacy". Shapes: L is the number of lanes, A
that of Renyi orders. Both directions are bounded at once: the divergence of a run is the larger of its two directions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._jax import jax
from jaxacct._method import BOTH, Cost, Method, RenyiMethod, Role, only_where
from jaxacct.bounds._distribution import Distribution, loss_distribution
from jaxacct.bounds._number_of_runs import log_inverse_gamma, regular_shape
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds._selection_distribution import distribution
from jaxacct.bounds._selection_profile import PROFILE
from jaxacct.conversion import delta_from_log, log_delta_from_rdp
from jaxacct.mechanisms import PrivateSelection
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import log1p, map_rows, up
from jaxacct.special._namespace import reverse_cummin, xp

# Renyi orders whose divergences also bound those of smaller orders: they span all the grids, up to the largest order,
# so that one grid gives nearly the same answer as the next
_ABOVE = (*MIXED[0], *np.geomspace(MIXED[0][-1], MIXED[-1][-1], 61)[1:].round().tolist())


def _has_numbers(mechanism: PrivateSelection) -> bool:
    """Whether a run is described by numbers: a loss distribution, which is a leaf, has no Renyi divergences."""
    return not any(isinstance(leaf, Mechanism) for leaf in _trees.leaves(mechanism))


def _several(own: jax.Array, orders: jax.Array, also: NDArray[Any], mean_runs: jax.Array, shape: float) -> jax.Array:
    """Theorem 2: R'_a = R_a + (1 + shape) min_b ((1 - 1/b) R_b + log(1/gamma) / b) + log(mean) / (a - 1).

    b is a, 1, or one of the rows `also`.
    """
    rate = log_inverse_gamma(mean_runs, shape)
    every = (1.0 - 1.0 / orders) * own + rate / orders
    hidden = xp.minimum(every, xp.minimum(xp.min(every[also], axis=0), rate))
    return own + (1.0 + shape) * hidden + xp.log(mean_runs) / (orders - 1.0)


def _pure_delta(largest: jax.Array, epsilon: jax.Array) -> jax.Array:
    """delta [L], rounded up, at `epsilon` under pure `largest`-DP: (e^x - e^epsilon) / (1 + e^x), 0 from x on.

    Kairouz, Oh & Viswanath 2015, Theorem 2.4.
    """
    x = xp.where(xp.isfinite(largest), largest, 1.0)
    found = up(-xp.expm1(xp.minimum(epsilon - x, 0.0)) / (1.0 + xp.exp(-x)), 2**8)
    return xp.where(xp.isfinite(largest), found, 1.0)


def _poisson(
    own: jax.Array, orders: jax.Array, also: NDArray[Any], mean_runs: jax.Array, largest: jax.Array
) -> jax.Array:
    """Theorem 6: R'_a = R_a + mean delta(log(1 + 1/(a - 1))) + log(mean) / (a - 1), delta that of one run.

    delta is found from the divergences in the rows `also`, or from the one of order inf.
    """

    def delta(order: jax.Array) -> jax.Array:
        # at a smaller epsilon delta is no smaller
        epsilon = log1p(1.0 / (order - 1.0)) * (1.0 - 2.0**-48) * xp.ones_like(own[0])
        found = delta_from_log(log_delta_from_rdp(orders[also], own[also], epsilon).value)
        return xp.minimum(found, _pure_delta(largest, epsilon))

    return own + mean_runs * map_rows(delta, orders[:, 0], lanes=own) + xp.log(mean_runs) / (orders - 1.0)


def tables(
    renyi_plan: Callable[..., Any],
    least_rdp: Callable[..., jax.Array],
    renyi_bytes: Callable[..., int],
    together: Callable[..., int],
    distribution_of: Callable[..., Distribution | None],
) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods, from the functions that bound any kind of run."""

    def statics(mechanism: PrivateSelection) -> dict[str, Any]:
        run = mechanism.mechanism
        return {"parts": tuple(renyi_plan(run, direction) for direction in run.directions)}

    def rdp(mechanism: PrivateSelection, *, orders: Sequence[float], parts: Any) -> jax.Array:
        """Renyi divergences [A, L], orders from 1 to inf: non-decreasing in the order, which the theorem's need not be.

        Each order is improved by other ones: all those of the grid, if `orders` is a grid; else a fixed set of orders.
        """
        finite = tuple(sorted({*(a for a in orders if 1.0 < a < math.inf), *_ABOVE}))
        every = [least_rdp(plan, mechanism.mechanism, orders=(*finite, math.inf)) for plan in parts]
        a, runs = xp.asarray(finite, xp.float64)[:, None], xp.asarray(mechanism.mean_runs, xp.float64)
        own = functools.reduce(xp.maximum, every) + 0.0 * runs
        own, largest = own[:-1], own[-1]
        also = np.flatnonzero(np.isin(finite, finite if tuple(orders) in MIXED else _ABOVE))
        inside = xp.isfinite(own)
        known = xp.where(inside, own, 1e300)
        several = xp.broadcast_to(xp.maximum(runs, 1.0), own.shape[1:])
        if math.isinf(mechanism.shape):
            found, whole = _poisson(known, a, also, several, largest), xp.full_like(largest, xp.inf)
        else:
            shape = regular_shape(mechanism.shape)
            found, whole = _several(known, a, also, several, shape), (2.0 + shape) * largest  # Corollary 3
        found = xp.concatenate([xp.where(inside, found, xp.inf), whole[None]])
        found = xp.where(runs >= 1.0, up(found, 2**12), xp.inf)
        ends = np.append(also, len(finite))
        least = reverse_cummin(found[ends])[np.searchsorted(ends, np.arange(len(finite) + 1))]
        found = xp.minimum(found, least)
        return found[np.searchsorted(finite, np.asarray(orders))]

    renyi = RenyiMethod(
        name="rdp",
        theorem="Papernot & Steinke 2022, Theorems 2 and 6, Corollary 3",
        directions=BOTH,
        cost=Cost.MILLISECONDS,
        applies=_has_numbers,
        rdp=rdp,
        grids=MIXED,
        statics=statics,
        lane_bytes=renyi_bytes,
        numpy=together,
        role=only_where(lambda mechanism: math.isinf(mechanism.shape), Role.QUICK, otherwise=Role.LAST),
    )
    return {(PrivateSelection,): (PROFILE, loss_distribution(distribution(distribution_of), Role.BY_NAME), renyi)}
