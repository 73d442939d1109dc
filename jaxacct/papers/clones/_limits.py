"""BOUND, from below, on the clones pair: where its amplification stops (CL-S18).

Feldman, McMillan & Talwar 2021, Appendix B.
"""

from __future__ import annotations

from jaxacct._jax import jax, jnp
from jaxacct.special import expm1, log1p, log_down, up


def amplification_limit(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """log(1/delta) [L] beyond which the clones bound gives no amplification: -(n-1) log(1 - e^-local_epsilon / 2).

    Feldman, McMillan & Talwar 2021, Appendix B (CL-S18). Randomized response itself stops at about
    n log(1 + e^-local_epsilon), twice that.
    """
    return -(num_reports - 1.0) * log1p(-0.5 * jnp.exp(-local_epsilon))


def clones_log_delta_floor(epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Log delta [L] that the clones pair has at least, rounded down: delta_RR(epsilon) (1 - e^-local_epsilon/2)^(n-1).

    Lower bound on the pair only (CL-S18): the report alone, delta_RR = (E - e^epsilon)/(E + 1), where all its clones
    agree with it. An equality for tanh(epsilon/2) >= (1 - 2/n) tanh(local_epsilon/2).
    """
    gap = local_epsilon - epsilon
    some = jnp.where(gap > 0, gap, 1.0)
    single = jnp.log(-expm1(-some)) - log1p(jnp.exp(-local_epsilon))
    limit = amplification_limit(num_reports, local_epsilon)
    # logarithms by 6 and 8 ULP and 4 of themselves, the limit by 10 of itself
    return jnp.where(gap > 0, log_down(single - up(limit, 12), 18.0), -jnp.inf)
