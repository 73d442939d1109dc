"""NOT A BOUND: how the paper samples the clients of a shuffle (GI-S19), for reproducing its Figure 5.

Girgis et al. 2021, section 4.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxacct.special import log1p, log_binomial_table, log_sum_exp, map_rows, softplus


def published_sampled_rdp(
    rdp: jax.Array, sampling_prob: jax.Array, *, orders: Sequence[int], general: bool = True
) -> jax.Array:
    """Estimates [A, L] of the Renyi divergences of sampled clients, no bounds: section 4 and Figure 5.

        log((1-s)^(a-1) (a s - s + 1) + C(a,2) s^2 (1-s)^(a-2) e^(R_2)
            + c sum_{l=3..a} C(a,l) (1-s)^(a-l) s^l e^((l-1) R_l)) / (a - 1),    c = 3, or 1 if not `general`.

    Zhu & Wang 2019, Theorem 6, at integer orders. That theorem needs add/remove adjacency, a shuffle has replace-one,
    and the paper's curve R is that of the expected number of participants. Certified instead: `sampled_mixture_rdp`.

    Args:
      rdp: R_2, .., R_a for the largest of `orders`, float64 [a - 1, L].
      sampling_prob: s, float64 [L].
      orders: static, integers.
      general: static, whether c = 3.
    """
    top = max(orders)
    usable = (sampling_prob > 0) & (sampling_prob < 1)
    s = jnp.where(usable, sampling_prob, 0.5)
    index = jnp.arange(2, top + 1, dtype=jnp.int32)[:, None]
    gain = (index - 1.0) * rdp[: top - 1]
    # 1 is the sum of the binomial weights: each part's excess over its own, without forming 1 + excess
    factor = jnp.where(index == 2, 1.0, 3.0 if general else 1.0)
    log_gain = gain + jnp.log(factor - 1.0 - jnp.expm1(-gain))
    log_binomial = jnp.asarray(log_binomial_table(top), jnp.float64)

    def row(order: jax.Array) -> jax.Array:
        weight = log_binomial[order, 2:][:, None] + index * jnp.log(s) + (order - index) * log1p(-s)
        return softplus(log_sum_exp(jnp.where(index <= order, weight + log_gain, -jnp.inf))) / (order - 1.0)

    value = map_rows(row, jnp.asarray(orders, jnp.int32))
    everyone = rdp[jnp.asarray(orders, jnp.int32) - 2]
    return jnp.where(
        usable, value, jnp.where(sampling_prob == 1, everyone, jnp.where(sampling_prob == 0, 0.0, jnp.inf))
    )
