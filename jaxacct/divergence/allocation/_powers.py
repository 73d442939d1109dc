"""Moments of integer order of the average X = (1/t) sum Y_i of t independent likelihood ratios.

E_Q[X^a] is the moment of order a of 1-out-of-t random allocation in the remove direction: P-bar is the law with the
record in one step, chosen uniformly, Q^t is the law without it, and X is their likelihood ratio.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._phases import Phases, whole_epoch
from jaxacct.special import (
    LEAST_NORMAL,
    ULP,
    finite_size,
    log_factorial_table,
    log_series_power,
    log_sum_exp,
    logexpm1,
    softplus,
    up,
)
from jaxacct.special._namespace import cummax, is_jax, rows_from, stop_gradient, with_rows, xp

MAX_ORDER = 64  # largest order of the integer moments used in Markov's inequality


def tree_rounding(log_total: Any, n: Any) -> Any:
    """The amount [..] added for rounding to the logarithm of a sum of `n` terms >= 1, divided by n.

    See docs/numerics/allocation.md, "Whole orders of allocation", for these numbers and those of the functions below.
    """
    return ULP * (7.0 * log_total + n + 96.0)


def excess_rounding(log_total: Any, n: Any) -> Any:
    """The amount [..] added for rounding to log(E X^n - 1), where E X^n - 1 is a sum of `n` terms."""
    return ULP * (4.0 * finite_size(log_total) + n + 72.0)


def bracket_above(s2: Any, k: Any) -> Any:
    """log [k] = log((q^k - 1)/(q - 1)) [..], rounded up; q = e^s2, k >= 1."""
    log_v = logexpm1(xp.asarray(s2))
    bracket = logexpm1(k * s2) - log_v
    return bracket + ULP * stop_gradient(20.0 + 8.0 * bracket + 12.0 * xp.abs(log_v))


def power_above(log_v: Any, log_t: Any, k: Any) -> Any:
    """log (v/t)^(k-1) [..], rounded up by enough for the two sums in which it is used; k >= 1."""
    size = 10.0 + 11.0 * xp.abs(log_v) + 10.0 * xp.abs(log_t)
    return (k - 1.0) * (log_v - log_t + ULP * stop_gradient(size))


@functools.lru_cache(maxsize=16)
def log_factorial_parts(max_order: int) -> tuple[Real, Real]:
    """log n! for n = 0..A as two arrays [A + 1] to be added, so that differences keep their digits.

    It is the sum of the rounded log i, i = 2..n: the relative error of a difference is at most that of these, 4 ULP,
    plus 2.
    """
    exact, high, low = Fraction(0), [], []
    for n in range(max_order + 1):
        exact += Fraction(math.log(max(n, 1)))
        high.append(float(exact))
        low.append(float(exact - Fraction(high[-1])))
    return np.array(high), np.array(low)


def log_excess(phases: Phases, *, max_order: int) -> Any:
    """log(E_Q[X^a] - 1) [A - 1, L] for orders a = 2..A (`max_order`, static), Gaussian pairs, rounded up.

    With q_j = exp(1/sigma_j^2), Y = dP/dQ of a step of phase j is lognormal and E Y^n = q^(n(n-1)/2) counts the graphs
    on n labelled vertices by edges (weight q - 1 each), so its cumulants count the connected ones:
    (q - 1)^(n-1) J_n(q), J the tree-inversion (Mallows-Riordan) polynomial. Then
    j_n = J_n / (n-1)! obeys a recursion of positive terms,

        j_1 = 1,   j_{n+1} = (1/n) sum_{k=1..n} [k] j_k j_{n+1-k},   [k] = (q^k - 1)/(q - 1),

    in which nothing cancels at any sigma (RA-X1 in cumulants). With c_k = sum_j (n_j/t) ((q_j - 1)/t)^(k-1) j_k(q_j),
    M_n = E X^n, less 1, follows from the cumulants of X, which add over the steps, without a subtraction of the 1:

        M_n - 1 = (M_{n-1} - 1) + sum_{k=2..n} (n-1)!/(n-k)! c_k M_{n-k}

    (the series D = sum (M_n - 1) x^n / n! = e^x (G - 1), G that of X - 1, has D' = D + H G'/G, H that of X). Sums of
    positive terms throughout. For one phase of all steps this equals the integer-partition sum of Feldman & Shenfeld
    2025, Corollary 4.10, in O(A^2) operations for all orders and each phase. Each logarithm is rounded up by its error
    bound, so that all are upper bounds, by about A^2 ULP in the end. The two recursions run in one loop.
    """
    if not is_jax(*phases):
        num, lanes = (
            len(phases.counts),
            np.stack([*phases.noise_multipliers, *phases.counts, phases.num_steps], axis=-1),
        )
        each = (Phases(tuple(x[:num]), tuple(x[num:-1]), x[-1]) for x in lanes.tolist())
        return np.stack([host_log_excess(lane, max_order) for lane in each], axis=-1)
    size, t = max_order + 1, phases.num_steps
    s2 = jnp.stack([up(1.0 / (s * s), 4) for s in phases.noise_multipliers])  # [J, L]
    log_share = jnp.stack([_log_share(n / t) for n in phases.counts])
    k = jnp.arange(size + 1, dtype=jnp.float64)[:, None, None]
    log_bracket = jnp.where(k > 0, bracket_above(s2, jnp.maximum(k, 1.0)), -jnp.inf)
    log_power = jnp.where(k > 1, power_above(logexpm1(s2), jnp.log(t), k) + log_share, -jnp.inf)
    falling = falling_factorials(max_order)

    def step(state: Any, n: jax.Array) -> tuple[Any, jax.Array]:
        # log([k] j_k), log c_k; reversed behind -inf: entry A + 1 - k holds log j_k, or log M_{k-1}
        brackets, trees, cumulants, moments, d = state
        number = n.astype(jnp.float64)
        j = log_sum_exp(brackets + rows_from(trees, max_order - n, size))
        j = j - jnp.log(number) + tree_rounding(j, number)
        total = log_sum_exp(cumulants + rows_from(moments, max_order - n, size) + falling(n, size)[:, None])
        d = log_sum_exp(jnp.stack([total, d]))  # logaddexp has no gradient at -inf, -inf
        d = d + excess_rounding(d, number)
        row, power = (j + rows_from(x, n + 1, 1)[0] for x in (log_bracket, log_power))
        following = jnp.minimum(n + 1, max_order)  # the last one is not read
        brackets, cumulants = with_rows(brackets, following, row), with_rows(cumulants, following, _added(power))
        trees = with_rows(trees, max_order - n, j)
        moments = with_rows(moments, max_order - n, up(softplus(d), 16))
        return (brackets, trees, cumulants, moments, d), d

    start = (
        jnp.full((size, *s2.shape), -jnp.inf).at[1].set(0.0),
        jnp.full((2 * size, *s2.shape), -jnp.inf).at[max_order].set(0.0),
        jnp.full((size, *t.shape), -jnp.inf),
        jnp.full((2 * size, *t.shape), -jnp.inf).at[max_order].set(0.0),
        jnp.full(t.shape, -jnp.inf),
    )
    return jax.lax.scan(step, start, jnp.arange(1, max_order + 1, dtype=jnp.int32))[1][1:]


def _log_share(share: Any) -> Any:
    """Upper bound [..] on log(n/t), n/t <= 1; it covers the rounding of the quotient, a logarithm and three sums."""
    found = xp.log(share)
    return xp.minimum(found + ULP * (2.0 + 8.0 * finite_size(found)), 0.0)


def _added(logs: Any) -> Any:
    """The logarithm [..] of a sum over phases [J, ..], rounded up."""
    if len(logs) == 1:
        return logs[0]
    found = log_sum_exp(logs)
    return found + excess_rounding(found, float(len(logs)))


def falling_factorials(max_order: int) -> Callable[[Any, int], Any]:
    """The function of n and a size that returns log((n-1)!/(n-k)!), rounded up, for k = 0.. [size]; 0 where n < k."""
    high, low = log_factorial_parts(max_order)
    zeros = np.zeros(max_order + 2)
    # reversed before zeros: entry A - n + k is that of n - k; k = 0 is not used, and n < k not either
    behind = [jnp.asarray(np.concatenate([part[::-1], zeros]), jnp.float64) for part in (high, low)]

    def at(n: Any, size: int) -> Any:
        ahead = (jnp.take(part, max_order + 1 - n) for part in behind)
        parts = [a - rows_from(part, max_order - n, size) for a, part in zip(ahead, behind, strict=True)]
        return up(jnp.maximum(parts[0] + parts[1], 0.0), 8)

    return at


def _log_sum(terms: Real) -> float:
    peak = float(terms.max())
    return peak + math.log(float(np.exp(terms - peak).sum()))


@functools.lru_cache(maxsize=64)
def _host_trees(s2: float, max_order: int) -> Real:
    """log j_n of `log_excess`, n = 0..A [A + 1], rounded up; they depend only on the noise."""
    log_bracket = bracket_above(s2, np.arange(1.0, max_order + 1.0))
    j = np.zeros(max_order + 1)
    for n in range(1, max_order):  # j[k] from 1
        total = _log_sum(log_bracket[:n] + j[1 : n + 1] + j[n:0:-1])
        j[n + 1] = total - math.log(n) + tree_rounding(total, n)
    return j


@functools.lru_cache(maxsize=16)
def _host_falling(max_order: int) -> tuple[Real, ...]:
    """log((n-1)!/(n-k)!), k = 2..n, rounded up, for n = 2..A."""
    high, low = log_factorial_parts(max_order)
    every = range(2, max_order + 1)
    return tuple(up((high[n - 1] - high[n - 2 :: -1]) + (low[n - 1] - low[n - 2 :: -1]), 8) for n in every)


def host_log_excess(phases: Phases, max_order: int) -> Real:
    """`log_excess` [A - 1] for one lane of numbers on the host, by the same recursions in NumPy, uncompiled."""
    cumulants, k = [], np.arange(2.0, max_order + 1.0)
    for noise, count in zip(phases.noise_multipliers, phases.counts, strict=True):
        square = noise * noise
        if square < LEAST_NORMAL:  # its inverse is no double, or has lost digits
            return np.full(max_order - 1, np.inf)
        s2 = float(up(1.0 / square, 4))
        log_power = power_above(logexpm1(xp.asarray(s2)), math.log(phases.num_steps), k)
        cumulants.append(log_power + _log_share(count / phases.num_steps) + _host_trees(s2, max_order)[2:])
    weights = _added(np.stack(cumulants))
    d, m, terms = np.full(max_order + 1, -np.inf), np.zeros(max_order + 1), np.empty(max_order)  # m[k] from 0
    for n, falling in enumerate(_host_falling(max_order), 2):
        np.add(weights[: n - 1] + m[n - 2 :: -1], falling, out=terms[: n - 1])
        terms[n - 1] = d[n - 1]
        value = _log_sum(terms[:n])
        d[n] = value + ULP * (4.0 * abs(value) + n + 72.0)  # `excess_rounding`, without the overhead of arrays
        m[n] = up(np.logaddexp(0.0, d[n]), 16)
    return d[2:]


def rdp_from_log_excess(log_excess: jax.Array) -> jax.Array:
    """Renyi divergences [A - 1, L], rounded up, of orders a = 2..A: log E_Q[X^a] / (a - 1).

    `log_excess` [A - 1, L] is log(E_Q[X^a] - 1), rounded up, from the function `log_excess`.
    """
    max_order = log_excess.shape[0] + 1
    orders = xp.arange(2, max_order + 1, dtype=xp.float64)[:, None]
    return up(softplus(log_excess) / (orders - 1.0), 16)  # softplus 9, a quotient


def general_rdp(log_moments: jax.Array, num_steps: jax.Array, *, num_bits: int) -> jax.Array:
    """Renyi divergences [A - 1, L], rounded up, of orders a = 2..A of 1-out-of-t allocation for any base pair.

    From the logarithms `log_moments` [A + 1, L] of the base's moments m_c = E_Q[(dP/dQ)^c], c = 0..A:

        E_Q[X^a] = a!/t^a [x^a] (sum_c m_c/c! x^c)^t,

    the power of a power series in log space (RA-S12, RA-X1; it equals the integer-partition sum of Feldman & Shenfeld
    2025, Theorem 4.8). `num_steps` [L] is t, below 2^num_bits (static). All terms are positive, and every logarithm is
    rounded up by its error bound. The 1 is not split off, so the rounding error is absolute: that of (a - 1) R_a is
    some 2^-52 a num_bits times the logarithms involved. Infinite moments give infinite divergences.
    """
    max_order = log_moments.shape[0] - 1
    lf = xp.asarray(log_factorial_table(max_order), xp.float64)[:, None]
    # Scale x by t, which makes the coefficients of order one: then no logarithm grows like a log t.
    shift = xp.arange(max_order + 1, dtype=xp.float64)[:, None] * xp.log(num_steps)
    infinite = xp.isposinf(cummax(log_moments))
    series = xp.where(infinite, -xp.inf, log_moments - lf - shift)
    # 4 ULP of log t and of log a!, a product, two differences
    series = series + ULP * (7.0 * lf + 9.0 * stop_gradient(shift) + 2.0 * finite_size(series))
    power = log_series_power(series, num_steps, num_bits=num_bits, sign=1)
    orders = xp.arange(2, max_order + 1, dtype=xp.float64)[:, None]
    log_s = power[2:] + lf[2:]
    log_s = log_s + ULP * (4.0 * lf[2:] + 2.0 * finite_size(log_s))
    return up(xp.where(infinite[2:], xp.inf, xp.maximum(log_s, 0.0)) / (orders - 1.0), 4)


@functools.lru_cache(maxsize=64)
def integer_log_moments(noise_multiplier: float, num_steps: float) -> Real:
    """Upper bounds [A] on log M(a) of one epoch, remove direction, at the integer orders a = 1 .. A = MAX_ORDER."""
    found = host_log_excess(whole_epoch(noise_multiplier, num_steps), MAX_ORDER)
    return np.concatenate([[0.0], up(np.logaddexp(0.0, found), 8)])
