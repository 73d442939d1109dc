"""NOT A BOUND: how the paper samples the clients of a shuffle (GI-S19), for reproducing its Figure 5.

Girgis et al. 2021, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxacct._jax import jax
from jaxacct.special import log1p, log_binomial_table, log_sum_exp, map_rows, softplus, xp


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
    s = xp.where(usable, sampling_prob, 0.5)
    index = np.arange(2.0, top + 1.0)[:, None]
    gain = (index - 1.0) * rdp[: top - 1]
    # 1 is the sum of the binomial weights: each part's excess over its own, without forming 1 + excess
    factor = xp.where(index == 2, 1.0, 3.0 if general else 1.0)
    log_gain = gain + xp.log(factor - 1.0 - xp.expm1(-gain))
    log_binomial = log_binomial_table(top)

    def row(chosen: jax.Array, order: jax.Array) -> jax.Array:
        weight = chosen[:, None] + index * xp.log(s) + (order - index) * log1p(-s)
        return softplus(log_sum_exp(xp.where(index <= order, weight + log_gain, -xp.inf))) / (order - 1.0)

    value = map_rows(row, log_binomial[list(orders), 2:], np.asarray(orders, np.float64), lanes=s)
    everyone = rdp[np.asarray(orders) - 2]
    return xp.where(usable, value, xp.where(sampling_prob == 1, everyone, xp.where(sampling_prob == 0, 0.0, xp.inf)))
