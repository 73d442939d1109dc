"""Shuffled Gaussian reports: upper bounds on lanes, purified and then shuffled, or without the shuffle.

Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8. Replace-one adjacency.
"""

import jax
import numpy as np

from jaxacct.bounds.shuffle._approximate import (
    Guarantee,
    log_gaussian_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.bounds.shuffle._pair import where_single
from jaxacct.composition import compose_gaussian_mu
from jaxacct.divergence.clones._profile import clones_delta
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta
from jaxacct.mechanisms import Shuffled
from jaxacct.special import map_rows, up
from jaxacct.special._namespace import xp

# Local epsilons, in nats, of the pure reports that replace Gaussian ones: any is certified, the least answer is taken.
_LOCAL_EPSILONS = tuple(np.geomspace(0.05, 12.0, 40).tolist())


def gaussian_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of one round of Gaussian reports, rounded up: replaced by pure ones, then the clones pair.

    Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Upper bound, replace-one adjacency,
    the least over a grid of local epsilons; inf for several rounds.
    """
    del pure
    n = xp.asarray(mechanism.num_reports, xp.float64)
    mu = 1.0 / mechanism.mechanism.noise_multiplier

    def row(local_epsilon: jax.Array) -> jax.Array:
        local = xp.broadcast_to(local_epsilon, n.shape)
        cost = log_gaussian_replacement_cost(n, local, mu, xp.ones_like(n))
        return total_epsilon(pure_profile(window=window), n, local, cost, log_delta)

    value = xp.min(map_rows(row, xp.asarray(_LOCAL_EPSILONS, xp.float64), lanes=n), axis=0)
    return where_single(mechanism, value, xp.inf)


def gaussian_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Log delta [L] of one round of Gaussian reports, rounded up: replaced by pure ones, then the clones pair.

    Upper bound, as `gaussian_upper_epsilon`; 0 for several rounds.
    """
    del pure
    n = xp.asarray(mechanism.num_reports, xp.float64)
    mu = 1.0 / mechanism.mechanism.noise_multiplier

    def row(local_epsilon: jax.Array) -> jax.Array:
        local = xp.broadcast_to(local_epsilon, n.shape)
        cost = log_gaussian_replacement_cost(n, local, mu, xp.ones_like(n))
        pair = clones_delta(epsilon, n, xp.exp(-local), local, window=window)
        return with_replacement_cost(Guarantee(epsilon, pair.log_delta.upper), cost).log_delta

    value = xp.min(map_rows(row, xp.asarray(_LOCAL_EPSILONS, xp.float64), lanes=n), axis=0)
    return where_single(mechanism, value, 0.0)


def _gaussian_local_mu(mechanism: Shuffled) -> jax.Array:
    """The mu [L] of all rounds of one user's Gaussian reports, unshuffled: two data are 2 clipping norms apart."""
    single = up(2.0 / mechanism.mechanism.noise_multiplier, 8)
    return compose_gaussian_mu([(single, mechanism.num_epochs)])


def gaussian_local_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of Gaussian reports without amplification, rounded up, any number of rounds.

    Balle & Wang 2018, Theorem 8. Upper bound, replace-one adjacency: composed exactly, the reports of one user are one
    Gaussian mechanism.
    """
    return gaussian_epsilon(log_delta, _gaussian_local_mu(mechanism))


def gaussian_local_upper_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of Gaussian reports without amplification, rounded up, any number of rounds.

    Balle & Wang 2018, Theorem 8. Upper bound, as `gaussian_local_upper_epsilon`.
    """
    return gaussian_log_delta(epsilon, _gaussian_local_mu(mechanism))
