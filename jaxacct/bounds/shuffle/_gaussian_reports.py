"""Upper and lower bounds for shuffled Gaussian reports, on lanes; a lower bound for Laplace reports from their signs.

The upper bounds put pure reports in place of the Gaussian ones (Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected)
and Theorem 3.8), or leave the shuffle out. The lower bounds are for what any observer can compute from the reports:
their sum, or their signs. Replace-one adjacency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jax
from jaxacct.bounds._clones_pair import where_single
from jaxacct.bounds.shuffle._approximate import (
    LogGuarantee,
    log_gaussian_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.bounds.shuffle._one_purified_round import one_round_epsilon, one_round_log_delta
from jaxacct.composition import compose_gaussian_mu
from jaxacct.divergence.clones._profile import clones_delta
from jaxacct.divergence.gaussian._pair import (
    gaussian_epsilon,
    gaussian_epsilon_from_below,
    gaussian_log_delta,
    gaussian_log_delta_ends,
)
from jaxacct.divergence.response._binary import binary_response_epsilon, binary_response_log_delta
from jaxacct.mechanisms import GaussianReports, LaplaceReports, Shuffled
from jaxacct.special import ULP, down, expm1, log1p, log_normal_tail, map_rows, up
from jaxacct.special._namespace import is_jax, xp

# Local epsilons, in nats, of the pure reports that replace Gaussian ones, on lanes: any is certified, the least answer
# is taken.
_LOCAL_EPSILONS = tuple(np.geomspace(0.05, 12.0, 40).tolist())


def gaussian_upper_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, window: int, pure: bool) -> jax.Array:
    """Epsilon [L] of one round of Gaussian reports, rounded up: replaced by pure ones, then the clones pair.

    Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Upper bound, replace-one adjacency,
    the least over local epsilons (on lanes, over a grid of them); inf for several rounds.
    """
    del pure
    if not is_jax(*_trees.leaves(mechanism), log_delta):
        return _one_by_one(one_round_epsilon, mechanism, log_delta, xp.inf)
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
    if not is_jax(*_trees.leaves(mechanism), epsilon):
        return _one_by_one(one_round_log_delta, mechanism, epsilon, 0.0)
    n = xp.asarray(mechanism.num_reports, xp.float64)
    mu = 1.0 / mechanism.mechanism.noise_multiplier

    def row(local_epsilon: jax.Array) -> jax.Array:
        local = xp.broadcast_to(local_epsilon, n.shape)
        cost = log_gaussian_replacement_cost(n, local, mu, xp.ones_like(n))
        pair = clones_delta(epsilon, n, xp.exp(-local), local, window=window)
        return with_replacement_cost(LogGuarantee(epsilon, pair.log_delta.upper), cost).log_delta

    value = xp.min(map_rows(row, xp.asarray(_LOCAL_EPSILONS, xp.float64), lanes=n), axis=0)
    return where_single(mechanism, value, 0.0)


def _one_by_one(
    answer: Callable[[float, float, float], float], mechanism: Shuffled, target: Any, otherwise: float
) -> Any:
    """`answer` [L], on the host, from reports, noise multiplier and target; `otherwise` for several rounds."""
    fields = mechanism.num_reports, mechanism.mechanism.noise_multiplier, target, mechanism.num_epochs
    lanes = zip(*(np.ravel(x) for x in np.broadcast_arrays(*fields)), strict=True)
    return np.array([answer(float(n), float(s), float(x)) if t == 1 else otherwise for n, s, x, t in lanes])


def _gaussian_local_mu(mechanism: Shuffled) -> jax.Array:
    """The mu [L] of all rounds of one user's Gaussian reports, unshuffled: two records are 2 clipping norms apart."""
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


def sum_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] of the sums of the reports of each round, rounded down; no valid epsilon of the mechanism is lower.

    A user's two records are 2 clipping norms apart, and the sum of n reports has noise of noise_multiplier sqrt(n)
    norms in that direction: several rounds are one Gaussian mechanism, exactly. Lower bound, replace-one adjacency, any
    number of rounds; with one report per round the sum is the mechanism itself.
    """
    return gaussian_epsilon_from_below(log_delta, _sum_mu(mechanism))


def sum_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] of the sums of the reports of each round, rounded down; -inf where nothing is claimed.

    Lower bound, as `sum_lower_epsilon`.
    """
    return gaussian_log_delta_ends(epsilon, _sum_mu(mechanism)).lower


def _sum_mu(mechanism: Shuffled) -> jax.Array:
    n = xp.asarray(mechanism.num_reports, xp.float64)
    squared = 4.0 * mechanism.num_epochs / (mechanism.mechanism.noise_multiplier**2 * n)
    return down(xp.sqrt(squared), 8)


def signs_lower_epsilon(mechanism: Shuffled, log_delta: jax.Array, *, blocks: int) -> jax.Array:
    """Epsilon [L] of the signs of the reports of one round, rounded down; no valid epsilon of the mechanism is lower.

    Signs along the line between two records, 2 / noise_multiplier standard deviations apart, are binary randomized
    response: Feldman, McMillan & Talwar 2021, Appendix G (CL-S16). Lower bound, replace-one adjacency, from one round,
    however many there are. Above `sum_lower_epsilon` where noise multipliers are below about 0.8.
    """
    n = xp.asarray(mechanism.num_reports, xp.float64)
    local = sign_local_epsilon(mechanism.mechanism, n)
    return xp.where(local > 0, binary_response_epsilon(log_delta, n, local, window=blocks), 0.0)


def signs_lower_log_delta(mechanism: Shuffled, epsilon: jax.Array, *, blocks: int) -> jax.Array:
    """Log delta [L] of the signs of the reports of one round, rounded down; -inf where nothing is claimed.

    Lower bound, as `signs_lower_epsilon`.
    """
    n = xp.asarray(mechanism.num_reports, xp.float64)
    local = sign_local_epsilon(mechanism.mechanism, n)
    return xp.where(local > 0, binary_response_log_delta(epsilon, n, local, window=blocks), -xp.inf)


def sign_local_epsilon(randomizer: GaussianReports | LaplaceReports, lanes: jax.Array) -> jax.Array:
    """Local epsilons [L], as many as `lanes`, of the sign of a report as randomized response, rounded down."""
    return _SIGNS[type(randomizer)](randomizer, lanes)


def _sign_of_gaussian(randomizer: GaussianReports, lanes: jax.Array) -> jax.Array:
    """The two records are 2 / noise_multiplier standard deviations apart; a tail errs by 32 (1 + x^2) ULP."""
    half = 1.0 / randomizer.noise_multiplier * xp.ones_like(lanes)
    loss = log_normal_tail(-half) - log_normal_tail(half)
    return xp.maximum(down(loss, 4) - 66.0 * ULP * (1.0 + half * half), 0.0)


def _sign_of_laplace(randomizer: LaplaceReports, lanes: jax.Array) -> jax.Array:
    """With p = e^(-1/scale) / 2 that of the wrong sign, log (1 - p) / p = 1/scale + log(2 - e^(-1/scale))."""
    rate = 1.0 / randomizer.scale * xp.ones_like(lanes)
    return down(rate + log1p(-expm1(-rate)), 32)


_SIGNS: dict[type, Callable[[Any, jax.Array], jax.Array]] = {
    GaussianReports: _sign_of_gaussian,
    LaplaceReports: _sign_of_laplace,
}
