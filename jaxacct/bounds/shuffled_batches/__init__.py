"""Bounds for batches cut from a shuffled list of the records.

The upper bounds use what a secret order hides, by theorems of our own (docs/papers/shuffled_batches.md); others hold,
without amplification, where the orders are known: given them, neighbours differ in one batch of each epoch, by a
contribution of norm at most 1, and the hockey-stick divergence is jointly convex. The lower bounds are from tests on
explicit data.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxacct._jax import jax
from jaxacct._method import Role, only_where
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._limits import in_closed_form, with_limits
from jaxacct.bounds.gaussian import unamplified, unamplified_rdp
from jaxacct.bounds.shuffled_batches._replaced import REPLACED, explicit
from jaxacct.bounds.shuffled_batches._scores import SCORES
from jaxacct.bounds.shuffled_batches._tests import LARGEST
from jaxacct.bounds.shuffled_batches._upper import DISTRIBUTION, SHUFFLE, has_several_epochs, hides, is_shuffled
from jaxacct.mechanisms import Gaussian, PartialShuffledBatches, ShuffledBatches


def _rdp(mechanism: ShuffledBatches | PartialShuffledBatches, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up: a E / (2 sigma^2)."""
    return unamplified_rdp(mechanism.mechanism, getattr(mechanism, "num_epochs", 1.0), orders=orders)


_RENYI = in_closed_form("Mironov 2017, Proposition 7", with_limits(_rdp), role=Role.BY_NAME)  # the closed form is exact
_COMPOSED = loss_distribution(DISTRIBUTION, only_where(has_several_epochs, Role.NARROW))

__all__ = ["METHODS", "REPLACED", "explicit", "hides", "is_shuffled"]

METHODS = {
    (ShuffledBatches, Gaussian): (SHUFFLE, SCORES, LARGEST, unamplified(lambda run: run.num_epochs), _RENYI, _COMPOSED),
    (PartialShuffledBatches, Gaussian): (SHUFFLE, SCORES, unamplified(lambda run: 1.0), _RENYI, _COMPOSED),
}
