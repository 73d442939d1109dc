"""Girgis, Data, Diggavi, Suresh and Kairouz 2021, "On the Renyi Differential Privacy of the Shuffle Model".

Upper bounds on the Renyi divergence of one shuffle of n reports, each from the same eps-LDP randomizer; replace-one
adjacency, both directions. E = e^eps. None is below `mixture_rdp` (`_special_pairs_exact`), which is what to use:
these are the paper's own, as printed where they are true. Raw unless said otherwise: cap and repair them by `repaired`.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.response._special_pair import (
    exponential_log_moment,
    moment_bound_log_excess,
    single_log_cap,
)
from jaxacct.special import down, logexpm1, softplus, up

_ULPS = 16  # of a divergence made from its logarithm: softplus or log1p, 9, and a quotient or two


def cap_rdp(local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """log((E^a + E^(1-a))/(E + 1))/(a - 1) [A, L], rounded up: the report unshuffled, real orders > 1 (GI-X3).

    That of binary randomized response, the worst of all; at most min(eps, a eps^2/2). Caps every bound here.
    """
    a = jnp.asarray(orders, jnp.float64)[:, None]
    local = jnp.where(local_epsilon > 0, local_epsilon, 1.0)
    value = jnp.minimum(up(softplus(single_log_cap(local, a)) / (a - 1.0), _ULPS), local)
    return jnp.where(local_epsilon > 0, value, jnp.where(local_epsilon == 0, 0.0, jnp.inf))


def mean_copies(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    return (num_reports - 1.0) * jnp.exp(-local_epsilon)


def _split(
    num_reports: jax.Array, local_epsilon: jax.Array, orders: jax.Array, split: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """(clients in the special pair [L], log of the tail's term [A, L]) of a Chernoff split, to the safe side."""
    mean = mean_copies(num_reports, local_epsilon)
    # a floor whose argument rounds up to an integer would make the bound false
    clients = jnp.floor(down((1.0 - split) * mean, _ULPS)) + 1.0
    rate = 0.5 * split * split * mean
    return clients, up(orders * local_epsilon, 4) - down(rate, _ULPS)


def fail_closed(value: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
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
    value = up(softplus(jnp.logaddexp(excess, tail) + 2.0**-50) / (a - 1.0), _ULPS)
    return fail_closed(value, num_reports, local_epsilon)


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
    return fail_closed(up(softplus(excess) / (a - 1.0), _ULPS), num_reports, local_epsilon)


def earlier_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Erlingsson et al. 2019, equation (10) [A, L]: 2 a E^4 (E-1)^2/n, upper bound, real orders > 1. A baseline."""
    a = jnp.asarray(orders, jnp.float64)[:, None]
    growth = jnp.exp(2.0 * local_epsilon) * jnp.expm1(local_epsilon)
    value = 2.0 * a * growth * growth / num_reports * (1.0 + 2.0**-47 * (1.0 + local_epsilon))
    return fail_closed(value, num_reports, local_epsilon)


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
