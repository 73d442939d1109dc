"""Girgis, Data, Diggavi, Suresh & Kairouz 2021, "On the Renyi Differential Privacy of the Shuffle Model".

Upper bounds on the Renyi divergence of one shuffle of n reports, each from the same eps-LDP randomizer; replace-one
adjacency, both directions. E = e^eps. These are the paper's own bounds, as printed where they are true. None is below
`mixture_rdp` (`_special_pairs_exact`), which is the one to use. Unless a docstring says otherwise a bound is neither
capped by the unshuffled report nor monotone in the order; `repaired` makes it both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.response._special_pair import (
    exponential_log_moment,
    moment_bound_log_excess,
    single_log_cap,
)
from jaxacct.special import down, log_up, logexpm1, softplus, up
from jaxacct.special._namespace import reverse_cummin, xp

_ULPS = 16  # rounding, in ulp, of a divergence made from its logarithm: softplus or log1p, 9, and a quotient or two


def cap_rdp(local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] of the report unshuffled, rounded up, real orders a > 1 (static): a cap on all bounds.

        log((E^a + E^(1-a))/(E + 1))/(a - 1),

    that of binary randomized response, the largest of all eps-LDP randomizers (GI-X3); at most min(eps, a eps^2/2).
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    local = xp.where(local_epsilon > 0, local_epsilon, 1.0)
    value = xp.minimum(up(softplus(single_log_cap(local, a)) / (a - 1.0), _ULPS), local)
    return xp.where(local_epsilon > 0, value, xp.where(local_epsilon == 0, 0.0, xp.inf))


def mean_copies(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """The mean number [L] of other reports that are as if sent for the differing record's other value, (n - 1)/E."""
    return (num_reports - 1.0) * xp.exp(-local_epsilon)


def _split(
    num_reports: jax.Array, local_epsilon: jax.Array, orders: jax.Array, split: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """(clients in the special pair [L], log of the tail's term [A, L]) of a Chernoff split, rounded to their safe
    sides.
    """
    mean = mean_copies(num_reports, local_epsilon)
    # a floor whose argument rounds up to an integer would make the bound false
    clients = xp.floor(down((1.0 - split) * mean, _ULPS)) + 1.0
    rate = 0.5 * split * split * mean
    return clients, up(orders * local_epsilon, 4) - down(rate, _ULPS)


def fail_closed(value: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """`value` [A, L] where num_reports >= 1 and local_epsilon >= 0; inf elsewhere and for NaN."""
    return xp.where((num_reports >= 1) & (local_epsilon >= 0) & ~xp.isnan(value), value, xp.inf)


def theorem1_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int], split: float | jax.Array = 0.5
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: Girgis et al. 2021, Theorem 1, equation (6) (GI-S2).

        log(1 + C(a,2) 4 sinh(eps/2)^2/m + sum_{i=3..a} C(a,i) i Gamma(i/2) (2 sinh(eps)^2/m)^(i/2)
                + e^(a eps - split^2 (n-1)/(2E))) / (a - 1),     m = floor((1 - split)(n-1)/E) + 1.

    Upper bound, integer orders a >= 2 (static), any n >= 1; rounding adds 2e-13 to order 256. The paper takes
    split = 1/2; any in (0, 1) is valid (Remark 3, GI-S6).
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    clients, tail = _split(num_reports, local_epsilon, a, split)
    excess = moment_bound_log_excess(clients, local_epsilon, orders=orders)
    value = up(softplus(log_up(xp.logaddexp(excess, tail), 16)) / (a - 1.0), _ULPS)
    return fail_closed(value, num_reports, local_epsilon)


def theorem2_rdp(
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    *,
    orders: Sequence[float],
    split: float | jax.Array = 0.5,
    sharp: bool = False,
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: Girgis et al. 2021, Theorem 2, equation (9) (GI-S5).

        log(e^(a^2 (E-1)^2/m) + e^(a eps - split^2 (n-1)/(2E))) / (a - 1),     m = floor((1 - split)(n-1)/E) + 1.

    Upper bound, real orders a > 1 (static); diverges as a falls to 1. `sharp` (static) takes (e^y - y)^m,
    y = a (E-1)/m, for the first power, which is never larger. Any split in (0, 1) is valid (GI-S6).
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    clients, tail = _split(num_reports, local_epsilon, a, split)
    moment = exponential_log_moment(clients, local_epsilon, a, sharp=sharp)
    # log(e^x + e^t) with its digits kept where both are small: log1p(e^x - 1 + e^t)
    excess = log_up(xp.logaddexp(log_up(logexpm1(moment), 16), tail), 16)
    return fail_closed(up(softplus(excess) / (a - 1.0), _ULPS), num_reports, local_epsilon)


def earlier_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], rounded up, of Erlingsson et al. 2019: 2 a E^4 (E-1)^2/n.

    As quoted in Girgis et al. 2021, equation (10). Upper bound, real orders a > 1 (static): a baseline (GI-S7).
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    growth = xp.exp(2.0 * local_epsilon) * xp.expm1(local_epsilon)
    value = 2.0 * a * growth * growth / num_reports * (1.0 + 2.0**-47 * (1.0 + local_epsilon))
    return fail_closed(value, num_reports, local_epsilon)


def repaired(rdp: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L]: the least upper bounds that valid ones, `rdp` [A, L] at `orders`, imply (GI-X5).

    R_a does not fall with a, so that the least bound at any a' >= a among `orders` holds at a; and it is at most
    `cap_rdp`. The paper's bounds do fall with the order where their tail term rules.
    """
    order = np.argsort(np.asarray(orders, np.float64), kind="stable")
    rising = reverse_cummin(rdp[order])[np.argsort(order, kind="stable")]
    return xp.minimum(rising, cap_rdp(local_epsilon, orders=orders))


def paper_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Renyi divergences [A, L], upper bounds: the least of Theorems 1 and 2 and of equation (10), repaired.

    Girgis et al. 2021, integer orders >= 2 (static). The paper calls Theorem 1 the best of the three; it is not for
    small eps.
    """
    both = xp.minimum(
        theorem1_rdp(num_reports, local_epsilon, orders=orders),
        theorem2_rdp(num_reports, local_epsilon, orders=orders, sharp=True),
    )
    least = xp.minimum(both, earlier_rdp(num_reports, local_epsilon, orders=orders))
    return repaired(least, local_epsilon, orders=orders)
