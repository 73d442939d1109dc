"""BOUND, from below, on Renyi divergences of shuffled check-ins: one differing record, with the mixture as P.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Theorem 3 and Corollary 1; CI-S14,
CI-S15, CI-S21. All other users hold x_0. With W the likelihood ratio of a report on x_1 against one on x_0, and
b ~ Bern(q), the likelihood ratio of what is seen is 1 + (1/n) sum_i b_i (W_i - 1), i = 1..n, whose moments need no sum
over the number of reports. The divergence is exact for this pair and direction, and hence the least that any Renyi
accountant could certify; it says nothing about epsilon itself.

Every sum has positive terms and increases in each of them. Each logarithm is moved down by the rounding error of its
own operations, so every number is a lower bound (docs/numerics/clones.md, "One report among equal ones").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel, KernelByStructure, is_traced
from jaxacct._types import Ends
from jaxacct.bounds.theorems import setting_of
from jaxacct.mechanisms import CheckIn, GaussianReports
from jaxacct.papers._asking import (
    Bracket,
    Floats,
    counts,
    mechanism_of,
    non_negative,
    orders_of,
    plain,
    positive,
    probability,
    users_and_reports,
    whole,
)
from jaxacct.special import (
    ULP,
    down,
    expm1,
    finite_size,
    log1mexp,
    log_binomial_table,
    log_down,
    log_factorial_table,
    log_series_power,
    log_sum_outward,
    log_up,
    logexpm1,
    softplus,
    up,
)

_LEAST_PROB = 1e-300  # of a report; below it nothing is claimed


def gaussian_log_moments(gap: jax.Array, *, max_order: int, upward: bool = False) -> jax.Array:
    """log E (W - 1)^j [A + 1, L] for j = 0..A, -inf at j = 1: Gaussians `gap` standard deviations apart.

    Rounded down, or up if `upward` (static). With s = gap^2 and u = e^s - 1, they obey a recurrence of positive terms,
    whereas the alternating sum over the moments e^(s j (j-1)/2) would lose every digit:

        m_0 = 1, m_1 = 0,   m_{k+1} = (e^(k s) - 1) m_k + sum_{j<k} C(k,j) u^(k-j) e^(j s) m_j,

    which is run on m_k e^(-s k (k-1)/2) = E (W - 1)^k / E W^k, whose logarithms and their rounding errors are smaller:

        .. = (1 - e^(-k s)) .. + sum_{j<k} C(k,j) u^(k-j) e^(-s (k (k+1) - j (j+1))/2) ..
    """
    s = (up if upward else down)(gap * gap, 4)
    log_u = (log_up if upward else log_down)(logexpm1(s), 10.0)
    size = max_order + 1
    j = jnp.arange(size, dtype=jnp.int32).astype(jnp.float64)[:, None]
    log_binomial = jnp.asarray(log_binomial_table(max_order), jnp.float64)

    def step(moments: jax.Array, k: jax.Array) -> tuple[jax.Array, None]:
        order = k.astype(jnp.float64)
        chosen = jax.lax.dynamic_index_in_dim(log_binomial, k, keepdims=False)[:, None]
        chosen, power = jnp.where(j < order, chosen, 0.0), (order - j) * log_u
        tilt = 0.5 * (order * (order + 1.0) - j * (j + 1.0)) * s
        last = log1mexp(-jnp.maximum(order, 1.0) * s)
        terms = jnp.where(j < order, chosen + power - tilt, last)
        sizes = jax.lax.stop_gradient(jnp.where(j < order, chosen + finite_size(power) + tilt, finite_size(last)))
        error = (1.0 if upward else -1.0) * ULP * (12.0 + 8.0 * sizes + 2.0 * finite_size(moments))
        useful = (j <= order) & (order > 0) & (moments > -jnp.inf)
        value = log_sum_outward(jnp.where(useful, terms + moments + error, -jnp.inf), order + 1.0, upward=upward)
        return jax.lax.dynamic_update_slice_in_dim(moments, value[None], k + 1, 0), None

    start = jnp.where(j == 0, 0.0, -jnp.inf) + 0.0 * s
    moments, _ = jax.lax.scan(step, start, jnp.arange(max_order, dtype=jnp.int32))
    tilt = 0.5 * j * (j - 1.0) * s
    error = ULP * (4.0 + 4.0 * (tilt + finite_size(moments)))
    return moments + tilt + (error if upward else -error)


def response_log_moments(local_epsilon: jax.Array, *, max_order: int) -> jax.Array:
    """log E (W - 1)^j [A + 1, L] for j = 0..A: binary randomized response, the largest of all pure randomizers.

    E (W-1)^j = (E - 1)^j / (1 + E) (1 + (-1)^j E^(1-j)),   E = e^local_epsilon.

    Rounded down.
    """
    j = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    odd = j - 2.0 * jnp.floor(0.5 * j) == 1.0
    power = (1.0 - j) * local_epsilon
    sign_part = jnp.where(odd, _log1mexp_or_zero(power), softplus(power))
    each, rest = logexpm1(local_epsilon), softplus(local_epsilon)
    error = ULP * (
        16.0 + j * (9.0 + 9.0 * finite_size(each)) + 12.0 * finite_size(rest) + 12.0 * finite_size(sign_part)
    )
    moments = j * each - rest + sign_part - error
    return jnp.where(j == 0, 0.0, jnp.where(j == 1, -jnp.inf, moments))


def _log1mexp_or_zero(x: jax.Array) -> jax.Array:
    safe = jnp.where(x < 0, x, -1.0)
    return jnp.where(x < 0, jnp.log(-expm1(safe)), -jnp.inf)


def pair_log_sums(log_moments: jax.Array, num_users: jax.Array, prob: jax.Array) -> jax.Array:
    """log of E Y^r / r! [A + 1, L], r = 0..A, for Y = (1/n) sum b_i (W_i - 1), from log E (W-1)^j [A + 1, L].

    Rounded down.

    With f_j = q E(W-1)^j / (j! n^j), these are the coefficients of f^n:

        y_r = sum_{j=2..r} ((n+1) j / r - 1) f_j y_{r-j},

    with positive terms for r <= 2 n + 2; for fewer users by binary powering, where all terms are positive.
    """
    max_order = log_moments.shape[0] - 1
    j = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    # x is scaled by A/e: the logarithms, and so their rounding errors, are of size A, not A log A
    log_x = math.log(max(max_order, 3)) - 1.0
    factorials = jnp.asarray(log_factorial_table(max_order), jnp.float64)[:, None]
    log_q, log_n = jnp.log(jnp.maximum(prob, _LEAST_PROB)), j * jnp.log(num_users)
    sizes = 0.5 * finite_size(log_moments) + finite_size(log_q) + log_n + j * log_x + factorials
    series = log_moments + log_q - log_n + (j * log_x - factorials) - ULP * (4.0 + 8.0 * sizes)
    series = jnp.where(j > 1, series, -jnp.inf)

    def recurrence() -> jax.Array:
        def step(tail: jax.Array, r: jax.Array) -> tuple[jax.Array, jax.Array]:
            # tail[A + 1 - k] = log y_{k-1}: the slice from A + 1 - r on holds y_r, y_{r-1}, .., y_0
            order = r.astype(jnp.float64)
            factor = ((num_users + 1.0) * j - order) / order  # of whole numbers: nothing is rounded before the quotient
            log_factor = jnp.log(jnp.where(factor > 0, factor, 1.0))
            behind = jax.lax.dynamic_slice_in_dim(tail, max_order - r, max_order + 1)
            useful = (factor > 0) & (j > 1) & (behind > -jnp.inf)
            error = ULP * (8.0 + 8.0 * finite_size(log_factor) + 4.0 * (finite_size(series) + finite_size(behind)))
            each = jnp.where(useful, series + log_factor + behind - error, -jnp.inf)
            value = log_sum_outward(each, order, upward=False)
            return jax.lax.dynamic_update_slice_in_dim(tail, value[None], max_order - r, 0), value

        tail = jnp.full((2 * max_order + 1, num_users.shape[0]), -jnp.inf).at[max_order].set(0.0)
        _, values = jax.lax.scan(step, tail, jnp.arange(1, max_order + 1, dtype=jnp.int32))
        return jnp.concatenate([jnp.zeros_like(num_users)[None], values])

    few = 2.0 * num_users + 2.0 < max_order
    most = max(1, max_order // 2)

    def powering() -> jax.Array:
        whole = jnp.where(j == 0, 0.0, series)
        power = log_series_power(whole, jnp.where(few, num_users, 1.0), num_bits=most.bit_length(), sign=-1)
        return jnp.where(few, power, recurrence())

    found = jax.lax.cond(jnp.any(few), powering, recurrence)
    return found - log_x * j - ULP * (4.0 + 4.0 * (finite_size(found) + log_x * j))


def pair_log_excess(log_sums: jax.Array, rate: jax.Array) -> jax.Array:
    """log(E (1 + rate Y)^a - 1) [A - 1, L] for a = 2..A, from `pair_log_sums`, rounded down."""
    max_order = log_sums.shape[0] - 1
    j = jnp.arange(max_order + 1, dtype=jnp.int32).astype(jnp.float64)[:, None]
    log_rates = j * jnp.log(rate)
    scaled = jnp.where(
        j > 1, log_sums + log_rates - ULP * (8.0 * finite_size(log_rates) + 4.0 * finite_size(log_sums)), -jnp.inf
    )
    # of a!/(a-r)! as C(a, r) r!: no difference of logarithms
    falling = log_binomial_table(max_order) + log_factorial_table(max_order)
    falling = falling - ULP * (8.0 + 8.0 * np.where(falling > 0, falling, 0.0))
    return jax.lax.map(
        lambda row: log_sum_outward(
            jnp.where(scaled > -jnp.inf, row[:, None] + scaled, -jnp.inf), max_order + 1.0, upward=False
        ),
        jnp.asarray(falling[2:], jnp.float64),
    )


def _rdp_from_below(log_excess: jax.Array, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] at real orders > 1, rounded down: that of the whole order below each, 0 below 2."""
    top = log_excess.shape[0] + 1
    whole = jnp.arange(1, top, dtype=jnp.int32).astype(jnp.float64)[:, None]
    values = down(softplus(log_excess) / whole, 12)
    values = jnp.concatenate([jnp.zeros_like(values[:1]), jnp.where(values >= 0, values, 0.0)])
    at = np.minimum(np.floor(np.asarray(orders, np.float64)), top).astype(np.int32) - 1
    return jnp.take(values, jnp.asarray(at, jnp.int32), axis=0)


def gaussian_pair_rdp_lanes(
    num_users: jax.Array, prob: jax.Array, gap: jax.Array, *, orders: Sequence[float], max_order: int = 256
) -> jax.Array:
    """`gaussian_pair_rdp` [A, L]; `orders` above `max_order` (both static) get its value, since R_a rises with a."""
    top = max(3, min(max_order, math.floor(max(orders))))
    sums = pair_log_sums(gaussian_log_moments(gap, max_order=top), num_users, prob)
    values = _rdp_from_below(pair_log_excess(sums, jnp.ones_like(gap)), orders)
    return jnp.where(prob >= _LEAST_PROB, values, 0.0)


def response_pair_rdp_lanes(
    num_users: jax.Array, prob: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], max_order: int = 256
) -> jax.Array:
    """`response_pair_rdp` [A, L], below any bound for all pure randomizers. See `gaussian_pair_rdp_lanes`."""
    top = max(3, min(max_order, math.floor(max(orders))))
    local = jnp.where(local_epsilon > 0, local_epsilon, 1.0)
    sums = pair_log_sums(response_log_moments(local, max_order=top), num_users, prob)
    values = _rdp_from_below(pair_log_excess(sums, jnp.ones_like(local)), orders)
    return jnp.where((prob >= _LEAST_PROB) & (local_epsilon > 0), values, 0.0)


def sampled_gaussian_pair_rdp_lanes(
    num_users: jax.Array, num_reports: jax.Array, gap: jax.Array, *, orders: Sequence[float], max_order: int = 256
) -> jax.Array:
    """`sampled_gaussian_pair_rdp` [A, L]: the pair of m reports at rate m/n (CI-S18). See `gaussian_pair_rdp_lanes`."""
    top = max(3, min(max_order, math.floor(max(orders))))
    one = jnp.ones_like(gap)
    sums = pair_log_sums(gaussian_log_moments(gap, max_order=top), num_reports, one)
    return _rdp_from_below(pair_log_excess(sums, down(num_reports / num_users, 4)), orders)


def gaussian_pair_sandwich_lanes(
    num_users: jax.Array, gap: jax.Array, orders: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`gaussian_pair_sandwich` [A, L] at `orders` [A, 1], s = gap^2."""
    s = gap * gap
    whole = 0.5 * orders * s
    pairs = softplus(jnp.log(0.5 * orders * (orders - 1.0)) + logexpm1(s) - jnp.log(num_users)) / (orders - 1.0)
    return jnp.maximum(whole - jnp.log(num_users), pairs), whole


def response_lower_rdp(mechanism: CheckIn, *, orders: Sequence[float]) -> jax.Array:
    """Lower bounds [A, L] on any valid Renyi curve of all rounds, rounded down (CI-S21).

    Real orders > 1. They are not a lower bound on epsilon at any delta.
    """
    n, prob, local = setting_of(mechanism)
    if mechanism.signature() == (CheckIn, GaussianReports):
        gap = 2.0 / mechanism.mechanism.noise_multiplier * jnp.ones_like(n)
        values = gaussian_pair_rdp_lanes(n, prob, gap * (1.0 - 2.0**-50), orders=orders)
    else:
        values = response_pair_rdp_lanes(n, prob, local, orders=orders)
    return values * (mechanism.num_epochs * (1.0 - 2.0**-50))


_gaussian = Kernel(gaussian_pair_rdp_lanes, lane_bytes=lambda *, orders, max_order: 2**15 * max_order)
_response = Kernel(response_pair_rdp_lanes, lane_bytes=lambda *, orders, max_order: 2**15 * max_order)
_sampled = Kernel(sampled_gaussian_pair_rdp_lanes, lane_bytes=lambda *, orders, max_order: 2**15 * max_order)


_floor = KernelByStructure(response_lower_rdp, lane_bytes=2**23)
_sandwich = Kernel(
    lambda n, gap, *, orders: gaussian_pair_sandwich_lanes(n, gap, jnp.asarray(orders, jnp.float64)[:, None])
)


def gaussian_pair_rdp(
    num_users: ArrayLike, check_in_prob: ArrayLike, gap: ArrayLike, *, orders: ArrayLike, max_order: int = 256
) -> Floats:
    """Renyi divergences [A] of check-ins with Gaussian reports, one record against equal ones (CI-S14, CI-S21).

        log E[(1 + (1/n) sum_i b_i (W_i - 1))^a] / (a - 1),   W lognormal of variance gap^2, b ~ Bern(q),

    which for q = 1 is the shuffle Gaussian mechanism's pair, Theorem 3 with its direction corrected. Lower bound, exact
    at whole orders; another order gets the value of the whole order below it, and an order above `max_order` gets the
    value at `max_order`. Rounded down.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      gap: > 0, distance between the data over the noise's standard deviation: 2/noise_multiplier for clip norm 1.
      orders: real [A], each > 1.
      max_order: whole number >= 3, the highest order of the moments computed.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(float(check_ins.gaussian_pair_rdp(2, 1.0, 1.0, orders=[2])[0]), 9)
    0.620114507
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    top = whole("max_order", max_order, least=3)
    return plain(_gaussian(n, prob, positive("gap", gap), orders=orders_of(orders), max_order=top))


def response_pair_rdp(
    num_users: ArrayLike, check_in_prob: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, max_order: int = 256
) -> Floats:
    """Renyi divergences [A] of check-ins with binary randomized response, one 1 among zeros (CI-S21).

    This is like `gaussian_pair_rdp`, with E (W-1)^j = (E-1)^j (1 + (-1)^j E^(1-j))/(1 + E): a lower bound on any bound
    that holds for every pure randomizer.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      local_epsilon: eps0 >= 0.
      orders: real [A], each > 1.
      max_order: whole number >= 3, the highest order of the moments computed.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.response_pair_rdp(10_000, 0.01, 2.0, orders=[8])[0]:.5g}"
    '2.2121e-05'
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    local, top = non_negative("local_epsilon", local_epsilon), whole("max_order", max_order, least=3)
    return plain(_response(n, prob, local, orders=orders_of(orders), max_order=top))


def sampled_gaussian_pair_rdp(
    num_users: ArrayLike, num_reports: ArrayLike, gap: ArrayLike, *, orders: ArrayLike, max_order: int = 256
) -> Floats:
    """Renyi divergences [A] if exactly m of n users report, a uniform subset: ours, for Theorem 5 (CI-S18).

        log E[(1 + (m/n) Y)^a] / (a - 1),   Y = (1/m) sum_{i<=m} (W_i - 1),

    a lower bound, exact for the pair at whole orders. Rounded down.

    Args:
      num_users: n, whole number >= 1.
      num_reports: m, whole number in 1..n.
      gap: > 0, as in `gaussian_pair_rdp`.
      orders: real [A], each > 1.
      max_order: whole number >= 3, the highest order of the moments computed.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.sampled_gaussian_pair_rdp(10**9, 10**6, 0.5, orders=[64])[0]:.4g}"
    '9.089e-12'
    """
    n, m = users_and_reports(num_users, num_reports)
    top = whole("max_order", max_order, least=3)
    return plain(_sampled(n, m, positive("gap", gap), orders=orders_of(orders), max_order=top))


def gaussian_pair_sandwich(num_users: ArrayLike, gap: ArrayLike, *, orders: ArrayLike) -> Bracket:
    """Bounds [A] in closed form on `gaussian_pair_rdp` at probability 1, Corollary 1 and ours (CI-S15).

        max(a s/2 - log n, log(1 + C(a,2) (e^s - 1)/n)/(a-1))  <=  R_a  <=  a s/2,   s = gap^2.

    Bounds on the pair's divergence, the upper one attained at n = 1; accurate to some 1e-15, not rounded outward.

    Args:
      num_users: n, whole number >= 1.
      gap: > 0, as in `gaussian_pair_rdp`.
      orders: real [A], each > 1.

    Returns:
      Ends of float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> ends = check_ins.gaussian_pair_sandwich(100, 1.0, orders=[4])
    >>> round(float(ends.lower[0]), 5), float(ends.upper[0])
    (0.03271, 2.0)
    """
    n = counts("num_users", num_users)
    return Ends(*(plain(end) for end in _sandwich(n, positive("gap", gap), orders=orders_of(orders))))


def floor_rdp(mechanism: CheckIn, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of all rounds, a lower bound on any valid Renyi curve (CI-S21).

    This is `gaussian_pair_rdp` for Gaussian reports of clip norm 1, or `response_pair_rdp` for pure randomizers, times
    the number of rounds. It is not a lower bound on epsilon at any delta.

    Args:
      mechanism: CheckIn with concrete numbers.
      orders: real [A], each > 1.

    Returns:
      float64 [A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import check_ins
    >>> run = ja.CheckIn(ja.LocalRandomizer(2.0), num_users=10_000, check_in_prob=0.01, num_epochs=100)
    >>> f"{check_ins.floor_rdp(run, orders=[8])[0]:.4g}"
    '0.002212'
    """
    mechanism_of(mechanism, CheckIn)
    if is_traced(mechanism):
        raise ValueError(
            "mechanism must hold concrete numbers: a paper's statement cannot be evaluated inside jit or grad"
        )
    return plain(_floor(mechanism, orders=orders_of(orders)))
