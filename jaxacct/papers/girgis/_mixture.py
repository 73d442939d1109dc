"""BOUND, from above, on Renyi divergences of shuffled reports: Theorem 4 with other special pairs inside (GI-S12).

Girgis et al. 2021; `mixture_rdp` has the theorem with the exact worst pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct.bounds.theorems import is_usable, mixture_layout, mixture_of, mixture_statics
from jaxacct.divergence.kernels import moment_bound_log_excess
from jaxacct.papers.girgis._special_pairs import special_pair_log_excess
from jaxacct.special import xp


def moment_mixture_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int], nodes: int
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: Girgis et al. 2021, Theorem 4, with Theorem 5 inside (GI-S12).

    Upper bound, integer orders; looser than `mixture_rdp`, which has the exact special pair.
    """

    def special(clients: jax.Array, local: jax.Array) -> jax.Array:
        return moment_bound_log_excess(clients, local, orders=orders)

    return mixture_of(special, num_reports, local_epsilon, orders=orders, nodes=nodes)


def sampled_mixture_rdp(
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    orders: Sequence[int],
    nodes: int,
    num_bits: int | None,
) -> jax.Array:
    """Renyi divergences [A, L], rounded up, if each of n clients reports with probability s, independently.

    Upper bound, integer orders, replace-one adjacency (n is public; who took part is not, how many may be). To stay
    silent is one more message of a randomizer that is still eps-LDP: Girgis et al. 2021, Theorem 4, holds for it, and
    in its special pairs xi is 0 with probability 1 - s, else as before. To leading order s a (E-1)^2/(2n).

    The same for any randomizer whose special pairs are such: shuffled k-ary randomized response is at most this at
    s = (E + 1)/(E + k - 1), each report sent.

    Args:
      num_reports, local_epsilon: float64 [L].
      sampling_prob: s in (0, 1], float64 [L].
      orders: static.
      nodes, num_bits: static, from `sampled_mixture_statics`.
    """
    usable = (sampling_prob > 0) & (sampling_prob <= 1)
    prob = xp.where(usable, sampling_prob, 1.0)

    def special(clients: jax.Array, local: jax.Array) -> jax.Array:
        each = xp.broadcast_to(prob, (nodes, *prob.shape)).reshape(-1)
        return special_pair_log_excess(clients, local, each, orders=orders, num_bits=num_bits)

    value = mixture_of(special, num_reports, local_epsilon, orders=orders, nodes=nodes)
    # whoever is not drawn sends nothing, so that the cap of the unsampled report holds; s = 0 tells nothing
    return xp.where(usable, value, xp.where(sampling_prob == 0, xp.minimum(value, 0.0), xp.inf))


def sampled_mixture_statics(num_reports: Any, local_epsilon: Any, orders: Sequence[int]) -> dict[str, Any]:
    """A dict of static sizes for `sampled_mixture_rdp`.

    `num_bits` is None unless a special pair has fewer clients than an order.
    """
    sizes = mixture_statics(num_reports, local_epsilon, orders)
    n, local = (np.asarray(v, np.float64) for v in np.broadcast_arrays(num_reports, local_epsilon))
    usable = is_usable(n, local)
    at = mixture_layout(np.where(usable, n, 1e18), np.where(usable, local, 1e-3), max(orders), True)
    bits = None if np.all(at.first + 1.0 >= max(orders)) else int(np.ceil(np.log2(np.max(n) + 1.0)))
    return {"nodes": sizes["nodes"], "num_bits": bits}
