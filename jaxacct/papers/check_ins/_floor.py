"""BOUND, from below, on Renyi divergences of shuffled check-ins: what no valid Renyi curve lies under."""

from __future__ import annotations

from collections.abc import Sequence

from jaxacct._jax import jax, jnp
from jaxacct.bounds.theorems import setting_of
from jaxacct.mechanisms import CheckIn, GaussianReports
from jaxacct.papers.check_ins._shuffled_gaussian import gaussian_pair_rdp, response_pair_rdp


def response_lower_rdp(mechanism: CheckIn, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of all rounds that no valid curve lies below, rounded down (CI-S21).

    Lower bound on the curve, real orders > 1, and no lower bound on epsilon at any delta.
    """
    n, prob, local = setting_of(mechanism)
    if mechanism.signature() == (CheckIn, GaussianReports):
        gap = 2.0 / mechanism.mechanism.noise_multiplier * jnp.ones_like(n)
        values = gaussian_pair_rdp(n, prob, gap * (1.0 - 2.0**-50), orders=orders)
    else:
        values = response_pair_rdp(n, prob, local, orders=orders)
    return values * (mechanism.num_epochs * (1.0 - 2.0**-50))
