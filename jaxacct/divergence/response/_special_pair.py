"""A special pair: m clients with one value against m - 1 of them and one with another (Girgis et al. 2021, section 7).

The likelihood ratio of the two histograms is 1 + X/m, X = xi_1 + .. + xi_m independent, E xi = 0, e^-eps - 1 <= xi <=
e^eps - 1 for any eps-LDP randomizer. Since (1 + X/m)^a is convex in each xi, the two-point law on the ends is worst:
binary randomized response, p = 1/(E + 1), E = e^eps (GI-X1). If a client reports with probability s only, xi is that
law with probability s and 0 otherwise; k-ary randomized response is s = (E + 1)/(E + k - 1).
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.special import (
    log1mexp,
    log_factorial_table,
    log_series_power,
    log_sum_exp,
    logexpm1,
    map_rows,
    softplus,
)


def log_sinh(x: jax.Array) -> jax.Array:
    """log sinh x for x > 0; -inf at 0."""
    return x + log1mexp(-2.0 * x) - math.log(2.0)


def largest_chi_square(local_epsilon: jax.Array) -> jax.Array:
    """sup sum_j p'_j^2/p_j - 1 = (E - 1)^2/E = 4 sinh(eps/2)^2 over all eps-LDP pairs [L] (Lemma 7), rounded up."""
    half = jnp.sinh(0.5 * local_epsilon)
    return 4.0 * half * half * (1.0 + 2.0**-48)


def single_log_excess(local_epsilon: jax.Array, power: jax.Array) -> jax.Array:
    """log((E^a + E^(1-a))/(E + 1) - 1) = log((E^a - 1)(1 - E^(1-a))/(E + 1)): one client, m = 1; M = a - 1 > 0.

    To 2^-48 + 2^-52 a eps; keeps its digits as M falls to 0.
    """
    growth = power * local_epsilon
    return growth + log1mexp(-growth) + log1mexp(-growth - local_epsilon) - softplus(-local_epsilon)


def single_log_cap(local_epsilon: jax.Array, order: jax.Array) -> jax.Array:
    """`single_log_excess` at the order a, rounded up."""
    return single_log_excess(local_epsilon, order - 1.0) + 2.0**-47 + 2.0**-51 * order * local_epsilon


def moment_bound_log_excess(
    num_clients: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int], log_chi_square: jax.Array | None = None
) -> jax.Array:
    """log of C(a,2) chi2/m + sum_{i=3..a} C(a,i) i Gamma(i/2) (2 sinh(eps)^2/m)^(i/2) [A, L], rounded up: Theorem 5.

    Bounds E(1 + X/m)^a - 1 for any eps-LDP randomizer, integer a >= 2, with chi2 = 4 sinh(eps/2)^2; with a randomizer's
    own chi-square distance (`log_chi_square`) for that randomizer: equation (36). `num_clients` [L] or [A, L].
    """
    top = max(orders)
    local = jnp.where(local_epsilon > 0, local_epsilon, 1.0)
    chi2 = 2.0 * (math.log(2.0) + log_sinh(0.5 * local)) if log_chi_square is None else log_chi_square
    log_ratio = math.log(2.0) + 2.0 * log_sinh(local)
    factorial = log_factorial_table(top)
    gamma = np.asarray([0.0, 0.0, 0.0] + [math.log(i) + math.lgamma(0.5 * i) for i in range(3, top + 1)])
    left = np.asarray(orders)[:, None] - np.arange(top + 1)
    weights = np.where(
        left >= 0, factorial[list(orders), None] - factorial[np.maximum(left, 0)] - factorial + gamma, -np.inf
    )
    weights[:, :2] = -np.inf
    index = jnp.arange(top + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    largest = 3.0 * factorial[list(orders)]

    def summed(weight: jax.Array, order: jax.Array, size: jax.Array, clients: jax.Array) -> jax.Array:
        log_m = jnp.log(clients)
        power = jnp.where(index == 2.0, chi2 - log_m, 0.5 * index * (log_ratio - log_m))
        error = 2.0**-46 + 2.0**-52 * (size + 0.5 * order * jnp.abs(log_ratio - log_m))
        return log_sum_exp(weight + power) + error

    clients = jnp.broadcast_to(num_clients, (len(orders), *local_epsilon.shape))
    weight, order, size = (jnp.asarray(v, jnp.float64) for v in (weights, orders, largest))
    if local_epsilon.shape[-1] == 1:  # the orders as lanes: the minor axis is what is vectorised
        value = summed(weight.T, order, size, clients[:, 0])[:, None]
    else:
        value = map_rows(lambda w, *rest: summed(w[:, None], *rest), weight, order, size, clients)
    return jnp.where(local_epsilon > 0, value, -jnp.inf)


def exponential_log_moment(
    num_clients: jax.Array, local_epsilon: jax.Array, orders: jax.Array, *, sharp: bool = False
) -> jax.Array:
    """a^2 (E - 1)^2/m [A, L], rounded up: bounds log E(1 + X/m)^a at real a >= 1 (Theorem 6).

    `sharp`: m log(e^y - y), y = a (E - 1)/m, the proof's line before; never larger. `orders` [A, 1].
    """
    growth = jnp.expm1(local_epsilon)
    y = orders * growth / num_clients
    if not sharp:
        return orders * growth * y * (1.0 + 2.0**-49)
    small = y < 0.5
    z = jnp.where(small, y, 0.5)
    series = jnp.ones_like(z)
    for k in range(18, 2, -1):  # e^y - 1 - y = y^2/2 (1 + y/3 (1 + y/4 (..)))
        series = 1.0 + z / k * series
    big = jnp.where(small, 1.0, y)
    value = jnp.where(small, jnp.log1p(0.5 * z * z * series), big + jnp.log1p(-big * jnp.exp(-big)))
    return num_clients * value * (1.0 + 2.0**-48)


def log_moment_bound(num_clients: jax.Array, local_epsilon: jax.Array, *, index: int) -> jax.Array:
    """log(i Gamma(i/2) (2 m sinh(eps)^2)^(i/2)) [L], i >= 3, rounded up: bounds E|X|^i (Lemma 6)."""
    log_variance = math.log(2.0) + jnp.log(num_clients) + 2.0 * log_sinh(local_epsilon)
    return math.log(index) + math.lgamma(0.5 * index) + 0.5 * index * log_variance + 2.0**-44


def _log_coefficients(
    num_clients: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    top: int,
    num_bits: int | None,
) -> tuple[jax.Array, jax.Array]:
    """(log(E X^k / (k! m^k r^k)) [top + 1, L], log r): r^2 = E X^2 / (2 m^2) keeps the logarithms small.

    E X^k = k! b_k, sum b_k t^k = (sum a_j t^j)^m, a_0 = 1, a_1 = 0, a_j = s p (E-1)^j (1 + (-1)^j E^(1-j))/j! >= 0:

        k b_k = sum_{i=2..k} (i (m + 1) - k) a_i b_{k-i},

    of positive terms while k <= m. Beyond, its terms cancel (it loses all digits at m = 10, k = 256): `num_bits` binary
    powering instead.
    """
    j = jnp.arange(top + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    even = jnp.arange(top + 1, dtype=jnp.int32)[:, None] % 2 == 0
    decay = -jnp.maximum(j - 1.0, 1.0) * local_epsilon
    sign = jnp.where(even, jnp.log1p(jnp.exp(decay)), log1mexp(decay))
    log_a = jnp.log(sampling_prob) - softplus(local_epsilon) + j * logexpm1(local_epsilon) + sign
    log_a = log_a - jnp.asarray(log_factorial_table(top), jnp.float64)[:, None]
    log_m = jnp.log(num_clients)
    log_r = 0.5 * (log_a[2] - log_m)
    scaled = jnp.where(j >= 2.0, log_a - j * (log_m + log_r), jnp.where(j == 0.0, 0.0, -jnp.inf))
    if num_bits is not None:
        return log_series_power(scaled, num_clients, num_bits=num_bits), log_r

    def step(k: jax.Array, reversed_b: jax.Array) -> jax.Array:
        earlier = jax.lax.dynamic_slice_in_dim(reversed_b, top - k, top + 1)  # b_k, b_{k-1}, .., -inf below b_0
        terms = jnp.where(j >= 2.0, scaled + earlier, -jnp.inf)
        level = jnp.max(terms, axis=0)
        level = jnp.where(jnp.isfinite(level), level, 0.0)
        weight = jnp.maximum(j * (num_clients + 1.0) / k - 1.0, 0.0)
        value = level + jnp.log(jnp.sum(jnp.exp(terms - level) * weight, axis=0))
        return jax.lax.dynamic_update_slice_in_dim(reversed_b, value[None], top - k, 0)

    start = jnp.where(jnp.arange(2 * top + 1, dtype=jnp.int32)[:, None] == top, 0.0, -jnp.inf)
    reversed_b = jax.lax.fori_loop(2, top + 1, step, start + jnp.zeros_like(num_clients))
    value = reversed_b[: top + 1][::-1]
    return jnp.where(num_clients >= top, value, jnp.where(j == 1.0, -jnp.inf, jnp.inf)), log_r


def log_moments(
    num_clients: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    top: int,
    num_bits: int | None = None,
) -> jax.Array:
    """log E X^k [top + 1, L], k = 0..top, of the worst randomizer; inf for m < top without `num_bits`. To 1e-12."""
    value, log_r = _log_coefficients(num_clients, local_epsilon, sampling_prob, top=top, num_bits=num_bits)
    index = jnp.arange(top + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    factorial = jnp.asarray(log_factorial_table(top), jnp.float64)[:, None]
    return value + index * (jnp.log(num_clients) + log_r) + factorial


def special_pair_log_excess(
    num_clients: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    orders: Sequence[int],
    num_bits: int | None = None,
) -> jax.Array:
    """log(E (1 + X/m)^a - 1) [A, L] of the worst randomizer, integer orders a >= 2, rounded up.

        sum_{i=2..a} a!/(a-i)! E X^i / (i! m^i),

    all orders from one series. Without `num_bits` by its recurrence, for m at least the largest order (inf below); with
    it by binary powering, for any m < 2^num_bits. Error booked: 2^-52 (i + 8) (i + 16 + ..) of the i-th term.

    Args:
      num_clients: m, float64 [L].  local_epsilon: float64 [L], > 0 (-inf at 0).  sampling_prob: s, in (0, 1].
    """
    top = max(orders)
    local = jnp.where(local_epsilon > 0, local_epsilon, 1.0)
    value, log_r = _log_coefficients(num_clients, local, sampling_prob, top=top, num_bits=num_bits)
    index = jnp.arange(top + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    finite = jnp.where(jnp.isfinite(value), jnp.abs(value), 0.0)
    chain = index + 8.0 + (0.0 if num_bits is None else 2.0 * num_bits)
    terms = jnp.where(index >= 2.0, value + index * log_r, -jnp.inf)
    terms = terms + 2.0**-52 * chain * (index + 16.0 + finite + jnp.abs(log_r))
    factorial = jnp.asarray(log_factorial_table(top), jnp.float64)

    def row(order: jax.Array) -> jax.Array:
        left = order - jnp.arange(top + 1, dtype=jnp.int32)
        weight = jnp.where(left >= 0, factorial[order] - factorial[jnp.maximum(left, 0)], -jnp.inf)
        return log_sum_exp(weight[:, None] + terms) + 2.0**-46 + 2.0**-51 * factorial[order]

    excess = map_rows(row, jnp.asarray(orders, jnp.int32))
    known = jnp.isfinite(value[-1]) if num_bits is None else jnp.isfinite(log_r)
    return jnp.where(local_epsilon > 0, jnp.where(known, excess, jnp.inf), -jnp.inf)
