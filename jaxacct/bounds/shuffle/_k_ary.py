"""Shuffled k-ary randomized response: upper and lower bounds on lanes.

Feldman, McMillan & Talwar 2021, Theorem 4.1, extended to all values. Replace-one adjacency, one round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct._precision import is_traced
from jaxacct.bounds._clones_pair import TRACED_REPORTS, pair_lanes, where_single
from jaxacct.divergence.clones._multi_component import component_windows, k_ary_blanket_pair
from jaxacct.divergence.clones._multi_component_mean import (
    k_ary_elsewhere_pair,
    mean_component_delta,
    mean_component_epsilon,
    mean_component_epsilon_below,
)
from jaxacct.mechanisms import Shuffled
from jaxacct.special import log_or_minus_inf
from jaxacct.special._namespace import xp


def blanket_statics(mechanism: Shuffled) -> dict[str, Any]:
    """A dict with the static window over the number of clones."""
    if is_traced(mechanism):
        return {"num_clones": component_windows(TRACED_REPORTS, 0.5, 0.5)[0]}
    randomizer = mechanism.mechanism
    single = 1.0 / (np.exp(np.asarray(randomizer.local_epsilon)) + randomizer.num_categories - 1.0)
    pairs = np.broadcast(np.asarray(mechanism.num_reports, float), np.minimum(2.0 * single, 1.0))
    return {"num_clones": max(component_windows(float(n), float(p), 0.5)[0] for n, p in pairs)}


def blanket_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, num_clones: int) -> jax.Array:
    """Epsilon [L] of one round of k-ary randomized response, rounded up, by its privacy blanket split over all values.

    Feldman, McMillan & Talwar 2021, Theorem 4.1, extended to all values (CL-S10). Upper bound, replace-one adjacency;
    inf for several rounds.
    """
    n, _, local = pair_lanes(mechanism)
    pair = k_ary_blanket_pair(local, mechanism.mechanism.num_categories * xp.ones_like(n))
    value = mean_component_epsilon(log_delta, n, pair, local, num_clones=num_clones)
    return where_single(mechanism, value, xp.inf)


def blanket_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, num_clones: int) -> jax.Array:
    """Log delta [L] of one round of k-ary randomized response, rounded up, by its privacy blanket.

    Upper bound, as `blanket_upper_epsilon`; 0 for several rounds.
    """
    n, _, local = pair_lanes(mechanism)
    pair = k_ary_blanket_pair(local, mechanism.mechanism.num_categories * xp.ones_like(n))
    upper = mean_component_delta(epsilon, n, pair, num_clones=num_clones).upper
    return where_single(mechanism, log_or_minus_inf(upper), 0.0)


def elsewhere_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, num_clones: int) -> jax.Array:
    """Log delta [L] of k-ary randomized response where no other record holds the two values, rounded down (CL-S10).

    Lower bound on the mechanism from one round, however many there are; replace-one adjacency, k >= 3; -inf for k = 2.
    """
    n, _, local = pair_lanes(mechanism)
    k = mechanism.mechanism.num_categories * xp.ones_like(n)
    pair = k_ary_elsewhere_pair(local, xp.maximum(k, 3.0))
    lower = mean_component_delta(epsilon, n, pair, num_clones=num_clones).lower
    return xp.where(k >= 3.0, log_or_minus_inf(lower), -xp.inf)


def elsewhere_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, num_clones: int) -> jax.Array:
    """Epsilon [L] at which the delta of `elsewhere_lower_log_delta` is still no less than exp(log_delta).

    Lower bound on every valid epsilon at that delta (CL-S10); 0 if none is found, and for k = 2.
    """
    n, _, local = pair_lanes(mechanism)
    k = mechanism.mechanism.num_categories * xp.ones_like(n)
    pair = k_ary_elsewhere_pair(local, xp.maximum(k, 3.0))
    found = mean_component_epsilon_below(log_delta, n, pair, local, num_clones=num_clones)
    return xp.where(k >= 3.0, found, 0.0)
