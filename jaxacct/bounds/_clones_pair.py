"""The clones pair that dominates the shuffled reports of a randomizer, and its parameters on each lane.

Feldman, McMillan & Talwar 2021, Theorem 3.2. Replace-one adjacency; the pairs are symmetric, so there is one direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jax
from jaxacct._precision import is_traced
from jaxacct.divergence.clones._profile import TRACED_WINDOW, window_for
from jaxacct.mechanisms import (
    CheckIn,
    FiniteRandomizer,
    KaryRandomizedResponse,
    LaplaceReports,
    LocalRandomizer,
    Shuffled,
)
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import down, up
from jaxacct.special._namespace import xp

TRACED_REPORTS = 1e9  # number of reports that static windows are made for, where the number is traced


def _pair_of_laplace(randomizer: LaplaceReports) -> tuple[Any, Any]:
    local = up(randomizer.local_epsilon, 4)
    return down(xp.exp(-local), 8), local


_PAIRS: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    FiniteRandomizer: lambda r: (r.clone_prob, r.local_epsilon),
    KaryRandomizedResponse: lambda r: (down(2.0 / (xp.exp(r.local_epsilon) + 1.0), 8), r.local_epsilon),
    LaplaceReports: _pair_of_laplace,
    LocalRandomizer: lambda r: (down(xp.exp(-r.local_epsilon), 8), r.local_epsilon),
}
_PAIRED = frozenset((Shuffled, randomizer) for randomizer in _PAIRS)


def has_pair(mechanism: Mechanism) -> bool:
    """A bool: whether one clones pair dominates each round, as it does for shuffled reports of pure randomizers."""
    return mechanism.signature() in _PAIRED and is_pure(cast(Shuffled, mechanism))


def pair_of(randomizer: Any) -> tuple[Any, Any]:
    """(clone probability, local epsilon), each [L], of the clones pair that dominates reports of a pure randomizer.

    The probability is e^-local_epsilon for any randomizer (Theorem 3.2, CL-S2), and for one whose law is known the
    largest p with R(x) >= p (R(y) + R(z)) / 2; rounded down.
    """
    return _PAIRS[type(randomizer)](randomizer)


def concrete_pair(mechanism: Shuffled) -> tuple[float, float, float]:
    """(num_reports, clone_prob, local_epsilon), floats, of a mechanism with concrete scalar fields."""
    clone_prob, local_epsilon = pair_of(mechanism.mechanism)
    return float(mechanism.num_reports), float(clone_prob), float(local_epsilon)


def pair_lanes(mechanism: Shuffled) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(num_reports, clone_prob, local_epsilon), each float64 [L]."""
    clone_prob, local = pair_of(mechanism.mechanism)
    n = xp.asarray(mechanism.num_reports, xp.float64)
    return n, clone_prob * xp.ones_like(n), local * xp.ones_like(n)


def is_pure(mechanism: Shuffled | CheckIn) -> bool:
    """A bool: whether the mechanism's randomizer is known to be pure, its local delta concrete and 0."""
    delta = getattr(mechanism.mechanism, "local_delta", 0.0)
    return not is_traced(delta) and not np.any(np.asarray(delta) > 0)


def clones_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict of static arguments of the clones kernels: a window wide enough for every lane, and purity."""
    if is_traced(mechanism) or type(mechanism.mechanism) not in _PAIRS:
        return {"window": TRACED_WINDOW, "pure": is_pure(mechanism)}
    clone_prob, _ = pair_of(_trees.map_leaves(np.asarray, mechanism.mechanism))
    return {"window": window_for(mechanism.num_reports, clone_prob), "pure": is_pure(mechanism)}


def where_single(mechanism: Shuffled, value: jax.Array, otherwise: float) -> jax.Array:
    """`value` [L] where there is one round, else `otherwise`."""
    return xp.where(mechanism.num_epochs == 1, value, otherwise)
