"""NOT A BOUND: a split proposed for Theorem 1, and how the paper samples clients (Girgis et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax
from jaxacct._precision import Kernel
from jaxacct.papers._asking import Floats, counts, curve, plain, positive, probability, whole_orders
from jaxacct.special import log1p, log_binomial_table, log_sum_exp, map_rows, softplus, xp


def published_sampled_rdp_lanes(
    rdp: jax.Array, sampling_prob: jax.Array, *, orders: Sequence[int], general: bool = True
) -> jax.Array:
    """`published_sampled_rdp` [A, L], not a bound, from R_2, .., R_a [a - 1, L], a the largest of `orders` (static)."""
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


def remark3_split_lanes(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """`remark3_split` [L]."""
    growth = 2.0 * local_epsilon * xp.exp(local_epsilon)
    return xp.sqrt(growth / (xp.sqrt(num_reports) * xp.log(num_reports)))


_split = Kernel(remark3_split_lanes, on_host=True)
_sampled = Kernel(
    lambda s, *rdp, orders, general: published_sampled_rdp_lanes(xp.stack(rdp), s, orders=orders, general=general),
    on_host=True,
)


def remark3_split(num_reports: ArrayLike, local_epsilon: ArrayLike) -> Floats:
    """Remark 3's split for Theorem 1, a number and not a bound: sqrt(2 eps E/(sqrt(n) log n)) (GI-S6).

    It is valid as a split only if it is below 1, and poor for orders above sqrt(n)/log n.

    Args:
      num_reports: n, whole number >= 2.
      local_epsilon: eps > 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> split = girgis.remark3_split(10**6, 0.5)
    >>> [f"{girgis.theorem1_rdp(10**6, 0.5, orders=[17], split=x)[0]:.4g}" for x in (0.5, split)]
    ['7.427e-06', '3.714e-06']
    """
    n = counts("num_reports", num_reports, least=2)
    return plain(_split(n, positive("local_epsilon", local_epsilon)))


def published_sampled_rdp(
    rdp: ArrayLike, sampling_prob: ArrayLike, *, orders: ArrayLike, general: bool = True
) -> Floats:
    """Renyi divergences [A] of sampled clients as the paper has them, an estimate and not a bound (GI-S19).

        log((1-s)^(a-1) (a s - s + 1) + C(a,2) s^2 (1-s)^(a-2) e^(R_2)
            + c sum_{l=3..a} C(a,l) (1-s)^(a-l) s^l e^((l-1) R_l)) / (a - 1),    c = 3, or 1 if not `general`:

    This is Zhu & Wang 2019, Theorem 6, which needs add/remove adjacency, whereas a shuffle has replace-one; and R is
    the curve of the expected number of participants. A certified bound is `sampled_rdp`.

    Args:
      rdp: float [B], R_2, .., R_{B+1} of the shuffle, nats.
      sampling_prob: s in [0, 1].
      orders: whole [A], each in [2, B + 1].
      general: whether c = 3.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> curve = girgis.theorem1_rdp(1000, 1.0, orders=range(2, 9))
    >>> round(float(girgis.published_sampled_rdp(curve, 0.1, orders=[8])[0]), 4)
    0.011
    """
    base, at = curve("rdp", rdp), whole_orders(orders)
    if base.ndim != 1 or max(at) > len(base) + 1:
        raise ValueError(f"orders={max(at)} must be <= {len(base) + 1}, the last order of rdp")
    s = probability("sampling_prob", sampling_prob)
    return plain(_sampled(s, *base[: max(at) - 1], orders=at, general=bool(general)))
