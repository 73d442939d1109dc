"""Check-ins from above, whatever is reported: how likely a user takes part, and what all reports of a pure user tell.

With q the probability of a report, (1 - q)^T is that of sending none in T rounds. The outputs on both data sets are
mixtures with a common part of that mass, so that their total variation is at most what is left. Replace-one adjacency.
"""

import jax

from jaxacct.bounds.shuffle._pair import pair_of
from jaxacct.mechanisms import CheckIn
from jaxacct.special import log1p, up
from jaxacct.special._namespace import xp

_LEAST = 2.0**-1021  # what the probability of a report counts as at least: below it is no normal double, and XLA's is 0


def taking_part_log_delta(mechanism: CheckIn, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] at `epsilon` [L] >= 0, rounded up, upper bound: delta(epsilon) <= 1 - (1 - q)^T."""
    share = up(mechanism.check_in_prob * (1.0 - mechanism.dropout_prob) * xp.ones_like(epsilon), 4)
    rest = log1p(-xp.clip(share, _LEAST, 1.0))
    some = up(-xp.expm1(up(mechanism.num_epochs * rest, 32)), 16)
    log_some = xp.log(some)
    return xp.minimum(log_some + 2.0**-48 * (1.0 + xp.abs(log_some)), 0.0)


def taking_part_epsilon(mechanism: CheckIn, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L], rounded up, upper bound: 0 where `log_delta` [L] covers taking part, else T l; inf if impure.

    By total variation as `taking_part_log_delta`; Dwork & Roth 2014, Theorem 3.16.
    """
    covers = taking_part_log_delta(mechanism, xp.zeros_like(log_delta)) <= log_delta
    return xp.where(covers, 0.0, _most(mechanism, log_delta))


def _most(mechanism: CheckIn, lanes: jax.Array) -> jax.Array:
    """An epsilon [L], rounded up, at which all rounds are purely private; inf if none is known."""
    if not mechanism.mechanism.is_pure:
        return xp.full_like(lanes, xp.inf)
    return up(mechanism.num_epochs * pair_of(mechanism.mechanism)[1] * xp.ones_like(lanes), 4)
