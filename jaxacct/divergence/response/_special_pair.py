"""Special pairs: m clients with one value against m - 1 of them and one with another (Girgis et al. 2021, section 7).

The likelihood ratio of the two histograms is 1 + X/m, X = xi_1 + .. + xi_m independent, E xi = 0, e^-eps -
1 <= xi <= e^eps - 1 for any eps-LDP randomizer. Since (1 + X/m)^a is convex in each xi, the law on the two end points
is the worst: binary randomized response, p = 1/(E + 1), E = e^eps (GI-X1). If a client reports only with probability s,
xi has that law with probability s and is 0 otherwise; k-ary randomized response is s = (E + 1)/(E + k - 1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct.special import ULP, log1mexp, log1p, log_sum_outward, log_up, map_rows, softplus, up
from jaxacct.special._namespace import stop_gradient, xp

SINGLE_ULPS = 40.0  # of `single_log_excess`, beside 7 of itself


def log_sinh(x: jax.Array) -> jax.Array:
    """Floats log sinh x, of the shape of x, for x > 0; -inf at 0."""
    return x + log1mexp(-2.0 * x) - math.log(2.0)


def single_log_excess(local_epsilon: jax.Array, power: jax.Array) -> jax.Array:
    """Floats log(e^(M D) - 1), broadcast, D the Renyi divergence of one unshuffled report at order a = M + 1 > 1.

        log((E^a + E^(1-a))/(E + 1) - 1) = log((E^a - 1)(1 - E^(1-a))/(E + 1)):

    a special pair of one client, m = 1 (GI-X3). It errs by ULP (`SINGLE_ULPS` + 7 |itself|), so that `log_up` and
    `log_down` with that hold: two log1mexp by 5 + 4 |log| and two of their arguments, a softplus by 9 of at most log 2,
    an ULP of M eps and of three sums. It keeps its digits as M tends to 0.
    """
    growth = power * local_epsilon
    return growth + log1mexp(-growth) + log1mexp(-growth - local_epsilon) - softplus(-local_epsilon)


def single_log_cap(local_epsilon: jax.Array, order: jax.Array) -> jax.Array:
    """Floats log(e^((a-1) D) - 1), broadcast, of one unshuffled report, rounded up: `single_log_excess` at order a."""
    return log_up(single_log_excess(local_epsilon, order - 1.0), SINGLE_ULPS)


def moment_bound_log_excess(
    num_clients: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int], log_chi_square: jax.Array | None = None
) -> jax.Array:
    """Log of an upper bound on E(1 + X/m)^a - 1, [A, L], rounded up: Girgis et al. 2021, Theorem 5.

        C(a,2) chi2/m + sum_{i=3..a} C(a,i) i Gamma(i/2) (2 sinh(eps)^2/m)^(i/2),   chi2 = 4 sinh(eps/2)^2,

    for any eps-LDP randomizer, integer orders a >= 2. With a randomizer's own chi-square distance (`log_chi_square`) it
    is equation (36), which holds for that randomizer. Each term is raised by the errors of its logarithms and sums
    (docs/numerics/clones.md, "Girgis et al.'s bounds").

    Args:
      num_clients: m, [L] or [A, L].
      local_epsilon: eps, [L]; -inf is returned at 0.
      orders: static.
      log_chi_square: [L]; None for the largest, that of binary randomized response.
    """
    top = max(orders)
    local = xp.where(local_epsilon > 0, local_epsilon, 1.0)
    chi2 = 2.0 * (math.log(2.0) + log_sinh(0.5 * local)) if log_chi_square is None else log_chi_square
    log_s = log_sinh(local)
    log_ratio = math.log(2.0) + 2.0 * log_s
    weights, weight_sizes = _moment_weights(tuple(int(a) for a in orders))
    index = xp.arange(top + 1, dtype=xp.int32).astype(xp.float64)[:, None]

    def summed(weight: jax.Array, size: jax.Array, order: jax.Array, clients: jax.Array) -> jax.Array:
        log_m = xp.log(clients)
        power = xp.where(index == 2.0, chi2 - log_m, 0.5 * index * (log_ratio - log_m))
        by_two = 44.0 + 12.0 * xp.abs(chi2) + 8.0 * xp.abs(log_m)
        by_power = xp.where(index == 2.0, by_two, index * (18.0 + 12.0 * xp.abs(log_s) + 4.0 * xp.abs(log_m)))
        error = ULP * (8.0 + 10.0 * size + stop_gradient(by_power))
        return log_sum_outward(weight + power + error, order, upward=True)

    clients = xp.broadcast_to(num_clients, (len(orders), *local_epsilon.shape))
    weight, size, order = (xp.asarray(v, xp.float64) for v in (weights, weight_sizes, orders))
    if local_epsilon.shape[-1] == 1:  # one pair: orders take the place of lanes, since XLA vectorises the minor axis
        value = summed(weight.T, size.T, order, clients[:, 0])[:, None]
    else:
        value = map_rows(
            lambda w, s, *rest: summed(w[:, None], s[:, None], *rest), weight, size, order, clients, lanes=local
        )
    return xp.where(local_epsilon > 0, value, -xp.inf)


def log_scaled_gamma(index: int) -> tuple[float, float]:
    """Two floats: log(i Gamma(i/2)) for an integer i >= 1, and the size of its parts; it errs by 6 ULP of that, and 4.

    It is found from the logarithms of integers: 2 (i/2)! for even i, i!! sqrt(pi) / 2^((i-1)/2) for odd ones.
    """
    half = index // 2
    if index % 2 == 0:
        value = math.log(2 * math.factorial(half))
        return value, value
    whole, below = math.log(math.prod(range(index, 0, -2))), half * math.log(2.0)
    return whole - below + 0.5 * math.log(math.pi), whole + below


@functools.lru_cache(maxsize=8)
def _moment_weights(orders: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """log of C(a,i) i Gamma(i/2), of C(a,2) for i = 2, [A, top + 1], -inf elsewhere; and the sizes of their parts."""
    top = max(orders)
    weights, sizes = np.full((len(orders), top + 1), -np.inf), np.zeros((len(orders), top + 1))
    gammas = [(0.0, 0.0)] * 3 + [log_scaled_gamma(i) for i in range(3, top + 1)]
    for row, order in enumerate(orders):
        for i in range(2, order + 1):
            chosen, (gamma, parts) = math.log(math.comb(order, i)), gammas[i]
            weights[row, i], sizes[row, i] = chosen + gamma, chosen + parts
    return weights, sizes


def exponential_log_moment(
    num_clients: jax.Array, local_epsilon: jax.Array, orders: jax.Array, *, sharp: bool = False
) -> jax.Array:
    """Upper bounds [A, L] on log E(1 + X/m)^a, rounded up: a^2 (E - 1)^2/m, real orders a >= 1.

    Girgis et al. 2021, Theorem 6. With `sharp` (static) it is m log(e^y - y), y = a (E - 1)/m, which appears in the
    proof one line before and is never larger. `orders` is [A, 1].
    """
    growth = xp.expm1(local_epsilon)
    y = orders * growth / num_clients
    if not sharp:
        return up(orders * growth * y, 16)  # two expm1, and four roundings
    small = y < 0.5
    z = xp.where(small, y, 0.5)
    series = xp.ones_like(z)
    for k in range(18, 2, -1):  # e^y - 1 - y = y^2/2 (1 + y/3 (1 + y/4 (..)))
        series = 1.0 + z / k * series
    big = xp.where(small, 1.0, y)
    value = xp.where(small, log1p(0.5 * z * z * series), big + log1p(-xp.minimum(big, 800.0) * xp.exp(-big)))
    # largest at y = 1/2, where y + log1p(..) cancels to a quarter of y: 14 ULP by y's 7, 27 by the sum, one
    return up(num_clients * value, 48)
