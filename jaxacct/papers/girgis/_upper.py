"""BOUND, from above, on Renyi divergences of shuffled reports: the paper's forms that a sharper one of it replaces.

Girgis et al. 2021, Corollary 1 (GI-S3), Remark 3 (GI-S6); `theorem1_rdp` and `theorem2_rdp` of
`jaxacct.bounds.theorems` have the other two. Replace-one adjacency, both directions; E = e^eps.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxacct._jax import jax
from jaxacct.bounds.theorems import cap_rdp, fail_closed, mean_copies
from jaxacct.divergence.kernels import moment_bound_log_excess
from jaxacct.special import ULP, bisect_lanes, down, log1p, log_up, softplus, stop_gradient, up, xp

_ULPS = 16  # rounding, in ulp, of a divergence made from its logarithm: softplus or log1p, 9, and a quotient or two
_NUM_HALVINGS = 41  # for the best of up to 2^41 splits, all of them certified; only tightness


def simple_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Renyi divergences [A, L], rounded up: Corollary 1, equation (7), log(1 + C(a,2) 4 (E-1)^2/n)/(a-1).

    Upper bound where a^4 E^5 < n/9, integer orders >= 2; inf elsewhere. Its proof fails for small eps, where Theorem 1
    exceeds it; wherever it was checked the statement holds, `mixture_rdp` being a quarter of it to leading order.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    growth = xp.expm1(local_epsilon)
    moment = up(2.0 * a * (a - 1.0) * growth * growth / num_reports, _ULPS)  # two expm1, and four roundings
    value = up(log1p(moment) / (a - 1.0), _ULPS)
    # a power, products and an exponential by 10 ULP, and |5 eps| for its argument, at most 118
    holds = (up(9.0 * a**4 * xp.exp(5.0 * local_epsilon), 130) < num_reports) & (local_epsilon < 23.6)
    return fail_closed(xp.where(holds, value, xp.inf), num_reports, local_epsilon)


def remark3_split(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Remark 3's split [L], sqrt(2 eps E/(sqrt(n) log n)); valid only below 1, and poor for a > sqrt(n)/log n."""
    growth = 2.0 * local_epsilon * xp.exp(local_epsilon)
    return xp.sqrt(growth / (xp.sqrt(num_reports) * xp.log(num_reports)))


def best_split_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Renyi divergences [A, L], rounded up: Theorem 1 at the best integer split for each order (GI-S6).

        min over 0 <= j < mu = (n-1)/E of log(1 + excess(j + 1) + e^(a eps - (mu - j)^2/(2 mu)))/(a - 1):

    the first term falls with j, the second rises. The best j is found by halving on the sign of the difference; any j
    is certified, whether or not it is the best. Never above Theorem 1, about half of it for large n; capped (n = 1 has
    no split).
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    mean = mean_copies(num_reports, local_epsilon)
    mean = xp.where(mean > 0, mean, 1.0)

    def log_excess(j: jax.Array) -> jax.Array:
        gap = mean - j
        # 5 ULP of the mean move the rate by no more than so many of the gap; its own operations by 5 of itself
        rate = 0.5 * gap * gap / mean - 16.0 * ULP * (xp.abs(gap) + gap * gap / mean)
        tail = xp.where(gap > 0, up(a * local_epsilon, 4) - rate, xp.inf)
        return log_up(xp.logaddexp(moment_bound_log_excess(j + 1.0, local_epsilon, orders=orders), tail), 16)

    def rises(j: jax.Array) -> jax.Array:
        return log_excess(j + 1.0) >= log_excess(j)

    top = xp.broadcast_to(xp.maximum(xp.ceil(mean) - 1.0, 0.0), (len(orders), *mean.shape))
    best = bisect_lanes(rises, top, xp.full_like(top, -1.0), num_steps=_NUM_HALVINGS, whole=True)
    best = stop_gradient(best)
    half = xp.floor(down(0.5 * mean, _ULPS))
    excess = xp.minimum(log_excess(best), log_excess(xp.broadcast_to(half, best.shape)))
    value = xp.minimum(up(softplus(excess) / (a - 1.0), _ULPS), cap_rdp(local_epsilon, orders=orders))
    return fail_closed(value, num_reports, local_epsilon)
