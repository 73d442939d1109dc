"""BOUND, from above, on Renyi divergences of shuffled reports: the paper's forms that a sharper one of it replaces.

Girgis et al. 2021, Corollary 1 (GI-S3), Remark 2 (GI-S4), Remark 3 (GI-S6); `bounds.shuffle._special_pairs` has
Theorems 1 and 2. Replace-one adjacency, both directions; E = e^eps.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from jaxacct.bounds.shuffle._special_pairs import cap_rdp, fail_closed, mean_copies
from jaxacct.divergence.response._special_pair import moment_bound_log_excess
from jaxacct.special import softplus

_ROUND_UP = 1.0 + 2.0**-49
_NUM_HALVINGS = 40


# integer orders to [A, L]
IntegerRdp = Callable[[tuple[int, ...]], jax.Array]


def simple_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Corollary 1, equation (7) [A, L]: log(1 + C(a,2) 4 (E-1)^2/n)/(a-1), integer orders >= 2; else inf.

    Upper bound where a^4 E^5 < n/9. Its proof fails for small eps, where Theorem 1 exceeds it; wherever it
    was checked the statement holds, `mixture_rdp` being a quarter of it to leading order.
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    growth = jnp.expm1(local_epsilon)
    value = jnp.log1p(2.0 * a * (a - 1.0) * growth * growth / num_reports * _ROUND_UP) / (a - 1.0) * _ROUND_UP
    holds = 9.0 * a**4 * jnp.exp(5.0 * local_epsilon) * (1.0 + 2.0**-46) < num_reports
    return fail_closed(jnp.where(holds, value, jnp.inf), num_reports, local_epsilon)


def remark3_split(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Remark 3's split sqrt(2 eps E/(sqrt(n) log n)) [L]; valid only below 1, and poor for a > sqrt(n)/log n."""
    growth = 2.0 * local_epsilon * jnp.exp(local_epsilon)
    return jnp.sqrt(growth / (jnp.sqrt(num_reports) * jnp.log(num_reports)))


def best_split_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Theorem 1 [A, L] at the best integer split for each order (GI-S6): never above it, about half for large n.

        min over 0 <= j < mu = (n-1)/E of log(1 + excess(j + 1) + e^(a eps - (mu - j)^2/(2 mu)))/(a - 1):

    the first falls with j, the second rises. Found by halving on the sign of the difference: any j is certified,
    whether or not it is the best. Capped (n = 1 has no split).
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    mean = mean_copies(num_reports, local_epsilon)
    mean = jnp.where(mean > 0, mean, 1.0)

    def log_excess(j: jax.Array) -> jax.Array:
        gap = mean - j
        rate = 0.5 * gap * gap / mean - 2.0**-49 * (jnp.abs(gap) + gap * gap / mean)
        tail = jnp.where(gap > 0, a * local_epsilon * (1.0 + 2.0**-51) - rate, jnp.inf)
        return jnp.logaddexp(moment_bound_log_excess(j + 1.0, local_epsilon, orders=orders), tail) + 2.0**-50

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = jnp.floor(0.5 * (low + high))
        falls = log_excess(middle + 1.0) < log_excess(middle)
        return jnp.where(falls, middle + 1.0, low), jnp.where(falls, high, middle)

    top = jnp.broadcast_to(jnp.maximum(jnp.ceil(mean) - 1.0, 0.0), (len(orders), *mean.shape))
    best, _ = jax.lax.stop_gradient(jax.lax.fori_loop(0, _NUM_HALVINGS, halve, (jnp.zeros_like(top), top)))
    best = jnp.minimum(best, top)
    half = jnp.floor(0.5 * mean * (1.0 - 2.0**-49))
    excess = jnp.minimum(log_excess(best), log_excess(jnp.broadcast_to(half, best.shape)))
    value = jnp.minimum(softplus(excess) / (a - 1.0) * _ROUND_UP, cap_rdp(local_epsilon, orders=orders))
    return fail_closed(value, num_reports, local_epsilon)


def at_real_orders(integer_rdp: IntegerRdp, *, orders: Sequence[float]) -> jax.Array:
    """Equation (8) [A, L]: an upper bound at integer orders carried to real orders > 1 (Remark 2).

    (a - 1) R_a is convex in a, and 0 at 1: its chord between the neighbouring integers. Below 2 that is R_2. Not for
    lower bounds.
    """
    low = [max(math.floor(a), 2) for a in orders]
    high = [max(math.ceil(a), 2) for a in orders]
    needed = tuple(sorted({*low, *high}))
    rdp = integer_rdp(needed)
    rows = []
    for a, i, j in zip(orders, low, high, strict=True):
        at_i, at_j = rdp[needed.index(i)], rdp[needed.index(j)]
        weight = 0.0 if i == j else (j - a) * (i - 1) / (a - 1)
        rest = 1.0 if i == j else (a - i) * (j - 1) / (a - 1)
        rows.append((weight * at_i + rest * at_j) * _ROUND_UP)
    return jnp.stack(rows)
