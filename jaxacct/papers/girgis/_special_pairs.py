"""BOUND, from above, on moments of a special pair, and the worst ones by a power series.

Girgis et al. 2021, section 7, Lemmas 6 and 7 (GI-S15, GI-S16, GI-S17, GI-X1). The likelihood ratio of the two
histograms is 1 + X/m, as in `divergence.response._special_pair`.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxacct.divergence.response._special_pair import log_sinh
from jaxacct.special import (
    log1mexp,
    log1p,
    log_factorial_table,
    log_series_power,
    log_sum_exp,
    logexpm1,
    map_rows,
    sinh,
    softplus,
    up,
)


def largest_chi_square(local_epsilon: jax.Array) -> jax.Array:
    """The largest chi-square distance [L] of two eps-LDP reports, rounded up: (E - 1)^2/E = 4 sinh(eps/2)^2 (Lemma 7).

    This is sup sum_j p'_j^2/p_j - 1 over all eps-LDP pairs.
    """
    half = sinh(0.5 * local_epsilon)
    return up(4.0 * half * half, 32)


def log_moment_bound(num_clients: jax.Array, local_epsilon: jax.Array, *, index: int) -> jax.Array:
    """Upper bounds [L] on log E|X|^i, i >= 3, rounded up: log(i Gamma(i/2) (2 m sinh(eps)^2)^(i/2)) (Lemma 6)."""
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
    sign = jnp.where(even, log1p(jnp.exp(decay)), log1mexp(decay))
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
    """log E X^k [top + 1, L], k = 0..top, of the worst randomizer, to 1e-12; inf for m < top without `num_bits`."""
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
    """Upper bounds [A, L] on log(E (1 + X/m)^a - 1), the worst randomizer's own, rounded up; integer orders a >= 2.

        sum_{i=2..a} a!/(a-i)! E X^i / (i! m^i),

    all orders from one series. Without `num_bits` it is found by its recurrence, for m at least the largest order (inf
    below); with it by binary powering, for any m < 2^num_bits. The error added to the i-th term is
    2^-52 (i + 8) (i + 16 + ..).

    Args:
      num_clients: m, float64 [L].
      local_epsilon: float64 [L], > 0 (-inf at 0).
      sampling_prob: s, in (0, 1], float64 [L].
      orders, num_bits: static.
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
