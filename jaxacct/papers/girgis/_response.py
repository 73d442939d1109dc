"""BOUND, from below and above, on the Renyi divergences of shuffled binary randomized response (GI-S8, GI-X4).

Girgis et al. 2021, Theorem 3, at real orders; `response_log_excess` has the sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.divergence.kernels import response_log_excess
from jaxacct.special import down, softplus, up, xp


def response_renyi(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], window: int, reverse: bool = False
) -> Ends[jax.Array]:
    """Lower and upper ends [A, L], nats, of Renyi divergences of shuffled binary randomized response, real orders > 1.

    Girgis et al. 2021, Theorem 3. D_a(1 || 0), in its notation, or with `reverse`
    D_a(0 || 1): never the smaller (GI-X4). Lower ends are 0, upper ends inf, outside num_reports >= 1,
    0 <= local_epsilon <= 300.

    Args:
      num_reports, local_epsilon: float64 [L].
      orders: static, each > 1.
      window: static, from `response_window`, of the largest order a, or of 1 - a with `reverse`.
      reverse: static, which direction.
    """
    powers = tuple(1.0 - a if reverse else float(a) for a in orders)
    logs = response_log_excess(num_reports, local_epsilon, powers=powers, window=window)
    scale = 1.0 / (xp.asarray(orders, xp.float64)[:, None] - 1.0)
    lower = down(softplus(logs.lower) * scale, 16)
    return Ends(lower, up(softplus(logs.upper) * scale, 16))
