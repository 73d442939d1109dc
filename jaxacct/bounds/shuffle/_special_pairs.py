"""Girgis, Data, Diggavi, Suresh and Kairouz 2021, "On the Renyi Differential Privacy of the Shuffle Model".

Upper bounds on the Renyi divergence of one shuffle of n reports, each from the same eps-LDP randomizer; replace-one
adjacency, both directions. E = e^eps. None is below `mixture_rdp` (`_special_pairs_exact`), which is what to use: these are
the paper's own, as printed where they are true. Raw unless said otherwise: cap and repair them by `repaired`.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.response._special_pair import (
    exponential_log_moment,
    moment_bound_log_excess,
    single_log_cap,
)
from jaxacct.special import log_binomial_table, log_sum_exp, logexpm1, map_rows, softplus

_ROUND_UP = 1.0 + 2.0**-49
_NUM_HALVINGS = 40

# integer orders to [A, L]
IntegerRdp = Callable[[tuple[int, ...]], jax.Array]


def cap_rdp(local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """log((E^a + E^(1-a))/(E + 1))/(a - 1) [A, L], rounded up: the report unshuffled, real orders > 1 (GI-X3).

    That of binary randomized response, the worst of all; at most min(eps, a eps^2/2). Caps every bound here.
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    local = jnp.where(local_epsilon > 0, local_epsilon, 1.0)
    value = jnp.minimum(softplus(single_log_cap(local, a)) / (a - 1.0) * _ROUND_UP, local)
    return jnp.where(local_epsilon > 0, value, jnp.where(local_epsilon == 0, 0.0, jnp.inf))


def _mean_copies(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    return (num_reports - 1.0) * jnp.exp(-local_epsilon)


def _split(
    num_reports: jax.Array, local_epsilon: jax.Array, orders: jax.Array, split: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """(clients in the special pair [L], log of the tail's term [A, L]) of a Chernoff split, to the safe side."""
    mean = _mean_copies(num_reports, local_epsilon)
    # a floor whose argument rounds up to an integer would make the bound false
    clients = jnp.floor((1.0 - split) * mean * (1.0 - 2.0**-49)) + 1.0
    rate = 0.5 * split * split * mean
    return clients, orders * local_epsilon * (1.0 + 2.0**-51) - rate * (1.0 - 2.0**-49)


def _fail_closed(value: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    return jnp.where((num_reports >= 1) & (local_epsilon >= 0) & ~jnp.isnan(value), value, jnp.inf)


def theorem1_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int], split: float | jax.Array = 0.5
) -> jax.Array:
    """Theorem 1, equation (6) [A, L]: upper bound, integer orders >= 2, any n >= 1, rounded up (2e-12 to order 256).

        log(1 + C(a,2) 4 sinh(eps/2)^2/m + sum_{i=3..a} C(a,i) i Gamma(i/2) (2 sinh(eps)^2/m)^(i/2)
                + e^(a eps - split^2 (n-1)/(2E))) / (a - 1),     m = floor((1 - split)(n-1)/E) + 1.

    The paper takes split = 1/2; any in (0, 1) is valid (Remark 3, GI-S6).
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    clients, tail = _split(num_reports, local_epsilon, a, split)
    excess = moment_bound_log_excess(clients, local_epsilon, orders=orders)
    value = softplus(jnp.logaddexp(excess, tail) + 2.0**-50) / (a - 1.0) * _ROUND_UP
    return _fail_closed(value, num_reports, local_epsilon)


def theorem2_rdp(
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    *,
    orders: Sequence[float],
    split: float | jax.Array = 0.5,
    sharp: bool = False,
) -> jax.Array:
    """Theorem 2, equation (9) [A, L]: upper bound, real orders > 1, rounded up.

        log(e^(a^2 (E-1)^2/m) + e^(a eps - split^2 (n-1)/(2E))) / (a - 1),     m = floor((1 - split)(n-1)/E) + 1.

    `sharp`: with (e^y - y)^m, y = a (E-1)/m, for the first power. Diverges as a falls to 1.
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    clients, tail = _split(num_reports, local_epsilon, a, split)
    moment = exponential_log_moment(clients, local_epsilon, a, sharp=sharp)
    # log(e^x + e^t) with its digits kept where both are small: log1p(e^x - 1 + e^t)
    excess = jnp.logaddexp(logexpm1(moment), tail) + 2.0**-49
    return _fail_closed(softplus(excess) / (a - 1.0) * _ROUND_UP, num_reports, local_epsilon)


def simple_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Corollary 1, equation (7) [A, L]: log(1 + C(a,2) 4 (E-1)^2/n)/(a-1), integer orders >= 2; else inf.

    Upper bound where a^4 E^5 < n/9. Its proof fails for small eps, where Theorem 1 exceeds it; wherever it
    was checked the statement holds, `mixture_rdp` being a quarter of it to leading order.
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    growth = jnp.expm1(local_epsilon)
    value = jnp.log1p(2.0 * a * (a - 1.0) * growth * growth / num_reports * _ROUND_UP) / (a - 1.0) * _ROUND_UP
    holds = 9.0 * a**4 * jnp.exp(5.0 * local_epsilon) * (1.0 + 2.0**-46) < num_reports
    return _fail_closed(jnp.where(holds, value, jnp.inf), num_reports, local_epsilon)


def earlier_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Erlingsson et al. 2019, equation (10) [A, L]: 2 a E^4 (E-1)^2/n, upper bound, real orders > 1. A baseline."""
    a = jnp.asarray(orders, jnp.float64)[:, None]
    growth = jnp.exp(2.0 * local_epsilon) * jnp.expm1(local_epsilon)
    value = 2.0 * a * growth * growth / num_reports * (1.0 + 2.0**-47 * (1.0 + local_epsilon))
    return _fail_closed(value, num_reports, local_epsilon)


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
    mean = _mean_copies(num_reports, local_epsilon)
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
    return _fail_closed(value, num_reports, local_epsilon)


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


def repaired(rdp: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """The least that a valid upper curve [A, L] implies: R_a does not fall with a, and is at most the cap (GI-X5).

    min over a' >= a of the bound at a', among `orders`; the paper's bounds do fall where their tail term rules.
    """
    order = np.argsort(np.asarray(orders, np.float64), kind="stable")
    rising = jax.lax.cummin(rdp[order], axis=0, reverse=True)[np.argsort(order, kind="stable")]
    return jnp.minimum(rising, cap_rdp(local_epsilon, orders=orders))


def paper_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """The least of Theorems 1 and 2 and of equation (10), repaired [A, L]: upper bound, integer orders >= 2.

    The paper holds Theorem 1 for the best of the three; it is not for small eps.
    """
    both = jnp.minimum(
        theorem1_rdp(num_reports, local_epsilon, orders=orders),
        theorem2_rdp(num_reports, local_epsilon, orders=orders, sharp=True),
    )
    least = jnp.minimum(both, earlier_rdp(num_reports, local_epsilon, orders=orders))
    return repaired(least, local_epsilon, orders=orders)


def published_sampled_rdp(
    rdp: jax.Array, sampling_prob: jax.Array, *, orders: Sequence[int], general: bool = True
) -> jax.Array:
    """How the paper samples clients (section 4, Figure 5): Zhu and Wang 2019, Theorem 6, at integer orders [A, L].

        log((1-s)^(a-1) (a s - s + 1) + C(a,2) s^2 (1-s)^(a-2) e^(R_2)
            + c sum_{l=3..a} C(a,l) (1-s)^(a-l) s^l e^((l-1) R_l)) / (a - 1),    c = 3, or 1 if not `general`.

    An estimate, not a bound: that theorem needs add/remove adjacency, a shuffle has replace-one, and the paper's curve
    R is that of the expected number of participants. Certified instead: `sampled_mixture_rdp`.

    Args:
      rdp: R_2, .., R_a for the largest of `orders`, float64 [a - 1, L].
      sampling_prob: s, float64 [L].
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
        weight = log_binomial[order, 2:][:, None] + index * jnp.log(s) + (order - index) * jnp.log1p(-s)
        return softplus(log_sum_exp(jnp.where(index <= order, weight + log_gain, -jnp.inf))) / (order - 1.0)

    value = map_rows(row, jnp.asarray(orders, jnp.int32))
    everyone = rdp[jnp.asarray(orders, jnp.int32) - 2]
    return jnp.where(
        usable, value, jnp.where(sampling_prob == 1, everyone, jnp.where(sampling_prob == 0, 0.0, jnp.inf))
    )
