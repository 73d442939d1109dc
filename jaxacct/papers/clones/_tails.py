"""NOT A BOUND: how probable it is that the privacy loss of the clones pair exceeds epsilon, to some digits (CL-S2)."""

from __future__ import annotations

from typing import NamedTuple

from jaxacct._jax import jax, jnp
from jaxacct.divergence.kernels import clones_delta


class TailMasses(NamedTuple):
    """Logarithms [L] of P[loss > epsilon] and Q[loss > epsilon]."""

    log_p: jax.Array
    log_q: jax.Array


def clones_tails(
    epsilon: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> TailMasses:
    """Tails [L] of the privacy loss of the clones pair, no bounds; arguments as for `clones_delta`.

    To 1e-11 where every count is summed and no loss equals epsilon; from the contour, which smooths the steps of the
    tail, to about 1e-3.
    """
    at = clones_delta(epsilon, num_reports, clone_prob, local_epsilon, window=window)
    return TailMasses(jnp.logaddexp(at.log_delta.upper, epsilon + at.log_tail), at.log_tail)
