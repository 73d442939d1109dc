"""BOUND, from above, on special pairs, in which all other clients hold one value (Girgis et al. 2021, section 7).

A special pair has m clients with one value against m - 1 of them and one with another value. The likelihood ratio of
the two histograms is 1 + X/m, where X is a sum of m independent terms of mean 0 (`moment_bound_log_excess`). Here are
bounds on the moments of X, and the worst moments by a power series. E = e^local_epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax
from jaxacct._precision import Kernel
from jaxacct.divergence.kernels import exponential_log_moment, log_scaled_gamma, log_sinh, moment_bound_log_excess
from jaxacct.papers._asking import (
    Floats,
    counts,
    log_of,
    non_negative,
    orders_of,
    plain,
    positive,
    probability,
    whole,
    whole_orders,
)
from jaxacct.special import (
    ULP,
    finite_size,
    fori_loop,
    log1mexp,
    log1p,
    log_binomial_table,
    log_factorial_table,
    log_series_power,
    log_sum_outward,
    logexpm1,
    map_rows,
    rows_from,
    sinh,
    softplus,
    up,
    with_rows,
    xp,
)


def largest_chi_square_lanes(local_epsilon: jax.Array) -> jax.Array:
    """`largest_chi_square` [L], rounded up."""
    half = sinh(0.5 * local_epsilon)
    return up(4.0 * half * half, 32)


def log_moment_bound(num_clients: jax.Array, local_epsilon: jax.Array, *, index: int) -> jax.Array:
    """Upper bounds [L] on log E|X|^i, i >= 3, rounded up: log(i Gamma(i/2) (2 m sinh(eps)^2)^(i/2)) (Lemma 6)."""
    log_m, log_s = xp.log(num_clients), log_sinh(local_epsilon)
    constant, sizes = log_scaled_gamma(index)
    found = constant + 0.5 * index * (math.log(2.0) + log_m + 2.0 * log_s)
    each = 24.0 + 4.0 * finite_size(log_m) + 12.0 * (finite_size(log_s) + finite_size(local_epsilon))
    error = 8.0 + 8.0 * sizes + index * each
    return found + ULP * (error + 2.0 * finite_size(found))


def _log_coefficients(
    num_clients: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    top: int,
    num_bits: int | None,
) -> tuple[jax.Array, jax.Array]:
    """(log(E X^k / (k! m^k r^k)) [top + 1, L], log r), rounded up: r^2 = E X^2 / (2 m^2) keeps the logarithms small.

    E X^k = k! b_k, sum b_k t^k = (sum a_j t^j)^m, a_0 = 1, a_1 = 0, a_j = s p (E-1)^j (1 + (-1)^j E^(1-j))/j! >= 0:

        k b_k = sum_{i=2..k} (i (m + 1) - k) a_i b_{k-i},

    with positive terms while k <= m. For larger k its terms cancel (it loses all digits at m = 10, k = 256), and binary
    powering by `num_bits` bits takes its place.
    """
    j = xp.arange(top + 1, dtype=xp.int32).astype(xp.float64)[:, None]
    even = xp.arange(top + 1, dtype=xp.int32)[:, None] % 2 == 0
    decay = -xp.maximum(j - 1.0, 1.0) * local_epsilon
    sign = xp.where(even, log1p(xp.exp(decay)), log1mexp(decay))
    log_s, rest, each = xp.log(sampling_prob), softplus(local_epsilon), logexpm1(local_epsilon)
    factorial = xp.asarray(log_factorial_table(top), xp.float64)[:, None]
    log_a = log_s - rest + j * each + sign - factorial
    log_m = xp.log(num_clients)
    log_r = 0.5 * (log_a[2] - log_m)
    error = 16.0 + 15.0 * (finite_size(log_s) + finite_size(rest) + finite_size(sign)) + 8.0 * factorial
    error = error + j * (9.0 + 11.0 * finite_size(each) + 9.0 * finite_size(log_m) + 4.0 * finite_size(log_r))
    scaled = log_a - j * (log_m + log_r) + ULP * error
    scaled = xp.where(j >= 2.0, scaled, xp.where(j == 0.0, 0.0, -xp.inf))
    if num_bits is not None:
        return log_series_power(scaled, num_clients, num_bits=num_bits, sign=1), log_r

    def step(k: jax.Array, reversed_b: jax.Array) -> jax.Array:
        earlier = rows_from(reversed_b, top - k, top + 1)  # b_k, b_{k-1}, .., -inf below b_0
        order = k.astype(xp.float64)
        weight = (j * (num_clients + 1.0) - order) / order  # of whole numbers: rounded in the quotient only
        useful = (j >= 2.0) & (weight > 0) & (earlier > -xp.inf)
        log_weight = xp.log(xp.where(useful, weight, 1.0))
        error = ULP * (8.0 + 8.0 * finite_size(log_weight) + 4.0 * (finite_size(scaled) + finite_size(earlier)))
        terms = xp.where(useful, scaled + log_weight + earlier + error, -xp.inf)
        value = log_sum_outward(terms, order, upward=True)
        return with_rows(reversed_b, top - k, value)

    start = xp.where(xp.arange(2 * top + 1, dtype=xp.int32)[:, None] == top, 0.0, -xp.inf)
    reversed_b = fori_loop(2, top + 1, step, start + xp.zeros_like(num_clients))
    value = reversed_b[: top + 1][::-1]
    return xp.where(num_clients >= top, value, xp.where(j == 1.0, -xp.inf, xp.inf)), log_r


def log_moments(
    num_clients: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    top: int,
    num_bits: int | None = None,
) -> jax.Array:
    """log E X^k [top + 1, L], k = 0..top, of the worst randomizer, to 1e-11; inf for m < top without `num_bits`."""
    value, log_r = _log_coefficients(num_clients, local_epsilon, sampling_prob, top=top, num_bits=num_bits)
    index = xp.arange(top + 1, dtype=xp.int32).astype(xp.float64)[:, None]
    factorial = xp.asarray(log_factorial_table(top), xp.float64)[:, None]
    return value + index * (xp.log(num_clients) + log_r) + factorial


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

    with all orders from one series. Without `num_bits` the series is found by its recurrence, for m at least the
    largest order (inf below); with `num_bits`, by binary powering, for any m < 2^num_bits. Every sum has positive terms
    and increases in each of them: each logarithm is moved up by the rounding error of its own operations, and all are
    upper bounds.

    Args:
      num_clients: m, float64 [L].
      local_epsilon: float64 [L], > 0 (-inf at 0).
      sampling_prob: s, in (0, 1], float64 [L].
      orders, num_bits: static.
    """
    top = max(orders)
    local = xp.where(local_epsilon > 0, local_epsilon, 1.0)
    value, log_r = _log_coefficients(num_clients, local, sampling_prob, top=top, num_bits=num_bits)
    index = xp.arange(top + 1, dtype=xp.int32).astype(xp.float64)[:, None]
    terms = value + index * log_r + ULP * 4.0 * (finite_size(value) + index * finite_size(log_r))
    terms = xp.where(index >= 2.0, terms, -xp.inf)
    # of a!/(a-i)! as C(a, i) i!: no difference of logarithms
    falling = (log_binomial_table(top) + log_factorial_table(top))[list(orders)]
    falling = falling + ULP * (8.0 + 8.0 * np.where(falling > 0, falling, 0.0))

    def row(weight: jax.Array) -> jax.Array:
        return log_sum_outward(weight[:, None] + terms, top + 1.0, upward=True)

    excess = map_rows(row, falling, lanes=terms)
    known = xp.isfinite(value[-1]) if num_bits is None else xp.isfinite(log_r)
    return xp.where(local_epsilon > 0, xp.where(known, excess, xp.inf), -xp.inf)


def _columns(orders: tuple[float, ...]) -> jax.Array:
    return xp.asarray(orders, xp.float64)[:, None]


def _theorem5(m: jax.Array, local: jax.Array, log_chi: jax.Array, *, orders: tuple[int, ...], own: bool) -> jax.Array:
    excess = moment_bound_log_excess(m, local, orders=orders, log_chi_square=log_chi if own else None)
    return up(softplus(excess) / (_columns(orders) - 1.0), 12)


def _theorem6(m: jax.Array, local: jax.Array, *, orders: tuple[float, ...], sharp: bool) -> jax.Array:
    log_moment = exponential_log_moment(m, local, _columns(orders), sharp=sharp)
    return up(log_moment / (_columns(orders) - 1.0), 4)


def _exact(m: jax.Array, local: jax.Array, s: jax.Array, *, orders: tuple[int, ...], num_bits: int) -> jax.Array:
    excess = special_pair_log_excess(m, local, s, orders=orders, num_bits=num_bits)
    return up(softplus(excess) / (_columns(orders) - 1.0), 12)


_by_moments = Kernel(_theorem5, lane_bytes=2**18, on_host=True)
_by_exponential = Kernel(_theorem6, on_host=True)
_by_series = Kernel(_exact, lane_bytes=2**20, on_host=True)
_chi_square = Kernel(largest_chi_square_lanes, on_host=True)
_tail = Kernel(log_moment_bound, on_host=True)
_log_moments = Kernel(log_moments, lane_bytes=2**18, on_host=True)


def theorem5_rdp(
    num_clients: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, chi_square: ArrayLike | None = None
) -> Floats:
    """Renyi divergences [A] of a special pair of m clients by Theorem 5 (GI-S13), or equation (36) (GI-S17).

        log(1 + C(a,2) chi2/m + sum_{i=3..a} C(a,i) i Gamma(i/2) (2 sinh(eps)^2/m)^(i/2)) / (a - 1),

    an upper bound for any eps-LDP randomizer with chi2 = 4 sinh(eps/2)^2, and for one randomizer with its own
    chi-square distance. Whole orders a >= 2; exact at order 2 for binary randomized response.

    Args:
      num_clients: m, whole number >= 1.
      local_epsilon: eps > 0.
      orders: whole [A], each >= 2.
      chi_square: sum_j p'_j^2/p_j - 1 > 0 of the randomizer; None for the largest.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(r), 6) for r in girgis.theorem5_rdp(100, 1.0, orders=[2, 4])]
    [0.010803, 0.036895]
    """
    own = chi_square is not None
    log_chi = log_of(positive("chi_square", chi_square)) if chi_square is not None else np.zeros(())
    m, local = counts("num_clients", num_clients), positive("local_epsilon", local_epsilon)
    return plain(_by_moments(m, local, log_chi, orders=whole_orders(orders), own=own))


def theorem6_rdp(num_clients: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, sharp: bool = False) -> Floats:
    """Renyi divergences [A] of a special pair of m clients by Theorem 6: a^2 (E-1)^2/(m (a-1)) (GI-S14).

    Upper bound for any eps-LDP randomizer, real orders a > 1.

    Args:
      num_clients: m, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: real [A], each > 1.
      sharp: m log(e^y - y)/(a-1), y = a (E-1)/m, from the previous line of the proof; never larger.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(girgis.theorem6_rdp(100, 1.0, orders=[2], sharp=sharp)[0]), 6) for sharp in (False, True)]
    [0.1181, 0.059714]
    """
    m, local = counts("num_clients", num_clients), non_negative("local_epsilon", local_epsilon)
    return plain(_by_exponential(m, local, orders=orders_of(orders), sharp=bool(sharp)))


def special_pair_rdp(
    num_clients: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, sampling_prob: ArrayLike = 1.0
) -> Floats:
    """Renyi divergences [A] of the worst special pair of m clients: ours, Theorems 5 and 6 exactly (GI-X1, GI-S17).

        log E_k[((k E + (m-k)/E)/m)^a] / (a - 1),   k ~ Bin(m, 1/(E+1)).

    Binary randomized response attains the supremum over all eps-LDP randomizers. Upper bound, rounded up, whole orders
    a >= 2. With `sampling_prob` s < 1, each client's term is 0 with probability 1 - s: at s = (E+1)/(E+k-1) that is
    k-ary randomized response, exactly.

    Args:
      num_clients: m, whole number >= 1.
      local_epsilon: eps > 0.
      orders: whole [A], each >= 2.
      sampling_prob: s in (0, 1].

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(r), 6) for r in girgis.special_pair_rdp(100, 1.0, orders=[2, 4])]
    [0.010803, 0.021303]
    """
    m, local = counts("num_clients", num_clients), positive("local_epsilon", local_epsilon)
    s = positive("sampling_prob", probability("sampling_prob", sampling_prob))
    bits = int(np.max(m)).bit_length()
    return plain(_by_series(m, local, s, orders=whole_orders(orders), num_bits=bits))


def largest_chi_square(local_epsilon: ArrayLike) -> Floats:
    """The largest chi-square distance of two reports, sup sum_j p'_j^2/p_j - 1 = 4 sinh(eps/2)^2, Lemma 7 (GI-S16).

    Upper bound over all eps-LDP randomizers, attained by binary randomized response; rounded up.

    Args:
      local_epsilon: eps >= 0.

    Returns:
      float, or float64 of the argument's shape.

    Raises:
      ValueError: if the argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(girgis.largest_chi_square(1.0), 6)
    1.086161
    """
    return plain(_chi_square(non_negative("local_epsilon", local_epsilon)))


def moment_bound(num_clients: ArrayLike, local_epsilon: ArrayLike, *, index: int) -> Floats:
    """Lemma 6's bound on E|X|^i: i Gamma(i/2) (2 m sinh(eps)^2)^(i/2), i >= 3 (GI-S15).

    Upper bound for any eps-LDP randomizer, rounded up; inf where it overflows.

    Args:
      num_clients: m, whole number >= 1.
      local_epsilon: eps > 0.
      index: i, whole number >= 3.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> f"{girgis.moment_bound(100, 1.0, index=4):.5g}"
    '3.0519e+05'
    """
    m, local = counts("num_clients", num_clients), positive("local_epsilon", local_epsilon)
    with np.errstate(over="ignore"):
        return plain(up(np.exp(_tail(m, local, index=whole("index", index, least=3))), 8))


def largest_moment(num_clients: ArrayLike, local_epsilon: ArrayLike, *, index: int) -> Floats:
    """The worst E X^i of a special pair, that of binary randomized response, by a power series (GI-S15, GI-S8).

    Neither an upper nor a lower bound: within 1e-12, relative, of the supremum over all eps-LDP randomizers.

    Args:
      num_clients: m, whole number >= 1.
      local_epsilon: eps > 0.
      index: i, whole number >= 2.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> f"{girgis.largest_moment(100, 1.0, index=4):.5g}"
    '35285'
    """
    m, local = counts("num_clients", num_clients), positive("local_epsilon", local_epsilon)
    top = whole("index", index, least=2)
    logs = _log_moments(m, local, np.ones(()), top=top, num_bits=int(np.max(m)).bit_length())
    with np.errstate(over="ignore"):
        return plain(np.exp(logs[..., top]))
