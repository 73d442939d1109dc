"""Upper bounds for check-ins with any reports, by how likely a user takes part, and by what all their reports reveal.

With q the probability of a report, (1 - q)^T is that of sending none in T rounds. The outputs on both data sets are
mixtures with a common part of that mass, so that their total variation is at most what is left. In each round a user
sends one report or none. With l and d the local epsilon and delta of a report, T rounds are (T l, T d)-private: basic
composition. Replace-one adjacency.
"""

from __future__ import annotations

from jaxacct._jax import jax
from jaxacct.bounds._clones_pair import pair_of
from jaxacct.mechanisms import CheckIn
from jaxacct.special import log1p, up
from jaxacct.special._namespace import xp

_LEAST = 2.0**-1021  # what the probability of a report counts as at least: below it is no normal double, and XLA's is 0


def taking_part_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] at `epsilon` [L] >= 0, rounded up, upper bound: 1 - (1 - q)^T, and T d from epsilon = T l on."""
    share = up(mechanism.check_in_prob * (1.0 - mechanism.dropout_prob) * xp.ones_like(epsilon), 4)
    rest = log1p(-xp.clip(share, _LEAST, 1.0))
    some = up(-xp.expm1(up(mechanism.num_epochs * rest, 32)), 16)
    total_epsilon, log_total_delta = _composed(mechanism, epsilon)
    return xp.minimum(_log_up(some), xp.where(epsilon >= total_epsilon, log_total_delta, 0.0))


def taking_part_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L], rounded up, upper bound: 0 if `log_delta` [L] covers taking part, T l if it covers T d, else inf.

    By total variation as `taking_part_log_delta`; Dwork & Roth 2014, Theorem 3.16.
    """
    covers = taking_part_log_delta(mechanism, xp.zeros_like(log_delta)) <= log_delta
    total_epsilon, log_total_delta = _composed(mechanism, log_delta)
    return xp.where(covers, 0.0, xp.where(log_total_delta <= log_delta, total_epsilon, xp.inf))


def _composed(mechanism: CheckIn, lanes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(T l, log(T d)), each [L] and rounded up, of a user's reports in all rounds; (inf, 0) where they have no l."""
    randomizer = mechanism.mechanism
    local_delta = getattr(randomizer, "local_delta", 0.0 if randomizer.is_pure else None)
    if local_delta is None:
        return xp.full_like(lanes, xp.inf), xp.zeros_like(lanes)
    rounds = mechanism.num_epochs * xp.ones_like(lanes)
    return up(rounds * pair_of(randomizer)[1], 4), _log_up(up(rounds * local_delta, 4))


def _log_up(x: jax.Array) -> jax.Array:
    """The logarithm of `x` >= 0, rounded up, at most 0."""
    log_x = xp.log(xp.where(x > 0, x, 1.0))
    return xp.where(x > 0, xp.minimum(log_x + 2.0**-48 * (1.0 + xp.abs(log_x)), 0.0), -xp.inf)
