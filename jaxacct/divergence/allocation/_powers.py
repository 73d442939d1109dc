"""The average X = (1/t) sum Y_i of t independent likelihood ratios, to integer powers.

E_Q[X^a] is the moment behind the remove direction of 1-out-of-t random allocation: P-bar is the
law with the record in one uniform step, Q^t the law without it, X their likelihood ratio.
"""

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.allocation._grid import Real
from jaxacct.special import log_factorial_table, log_series_power, log_sum_exp, logexpm1, softplus
from jaxacct.special._namespace import cummax, is_jax, xp

# Relative slack of log E_Q[X^a], every order to A <= 256. It carries the certificate. Measured against mpmath: errors
# to 2.5e-13 at A = 256, 1.5e-12 at 512 and 4.9e-12 at 1024, for sigma in [.05, 100] and t in [1, 1e12].
RELATIVE_SLACK = 4e-12

_NUM_STAGES = 2  # loops into which many lanes' recursion is cut: speed only, any value is valid


def relative_slack(max_order: int) -> float:
    """Float: the relative amount that covers the rounding of `gaussian_log_excess` at orders to `max_order`."""
    return RELATIVE_SLACK * max(1.0, max_order / 256)


def gaussian_log_excess(noise_multiplier: Any, num_steps: Any, *, max_order: int) -> Any:
    """log(E_Q[X^a] - 1) [A - 1, L] for orders a = 2..A, Gaussian pair; `relative_slack` covers its rounding error.

    `noise_multiplier` [L] is sigma, `num_steps` [L] is t >= 1, `max_order` (static) is A. With q = exp(1/sigma^2),
    Y = dP/dQ is lognormal and E Y^n = q^(n(n-1)/2) counts the graphs on n labelled vertices by edges (weight q - 1
    each), so its cumulants count the connected ones:
    kappa_n = (q-1)^(n-1) J_n(q), J the tree-inversion (Mallows-Riordan) polynomial. Then
    j_n = J_n / (n-1)! obeys a recursion of positive terms,

        j_1 = 1,   j_{n+1} = (1/n) sum_{k=1..n} [k] j_k j_{n+1-k},   [k] = (q^k - 1)/(q - 1),

    which cancels nothing at any sigma (RA-X1 in cumulants). With r = (q - 1)/t, the moments
    H_n = E X^n / n! = 1/n! + D_n follow from the cumulants of X without forming and subtracting the 1:

        D_0 = D_1 = 0,   D_n = (1/n) (D_{n-1} + sum_{k=2..n} r^(k-1) j_k H_{n-k}),   E X^a - 1 = a! D_a

    (the series D = e^x (G - 1), G that of X - 1, has D' = D + H G'/G). Sums of positive terms throughout: equals the
    integer-partition sum of Feldman & Shenfeld 2025, Corollary 4.10, in O(A^2) for all orders.
    The two recursions run in one loop, as two blocks of lanes, D one step behind j: half the loop's overhead.
    """
    if not is_jax(noise_multiplier, num_steps):
        each = zip(noise_multiplier, num_steps, strict=True)
        return np.stack([host_log_excess(float(sigma), float(t), max_order) for sigma, t in each], axis=-1)
    size, lanes = max_order + 1, noise_multiplier.shape[0]
    s2 = 1.0 / (noise_multiplier * noise_multiplier)
    k = jnp.arange(size + 1, dtype=jnp.float64)[:, None]
    log_v = logexpm1(s2)
    log_bracket = jnp.where(k > 0, logexpm1(jnp.maximum(k, 1.0) * s2) - log_v, -jnp.inf)
    # x scaled by A/e: logarithms of size A/e, not A log A, and their rounding with them
    log_x = math.log(max_order) - 1.0
    log_power = jnp.where(k > 1, (k - 1.0) * (log_v - jnp.log(num_steps)) + k * log_x, -jnp.inf)
    factor = jnp.concatenate([log_bracket, log_power], axis=1)
    log_scale = jnp.asarray(log_factorial_table(max_order) - log_x * np.arange(size), jnp.float64)

    def step(state: Any, n: jax.Array, *, used: int) -> tuple[Any, jax.Array]:
        weighted, tail, d = state  # log(factor_k j_k); reversed, tail[A + 1 - k] = log j_k and log H_{k-1}, else -inf
        total = log_sum_exp(weighted[:used] + jax.lax.dynamic_slice_in_dim(tail, max_order - n, used))
        log_n = jnp.log(n.astype(jnp.float64))
        j = total[:lanes] - log_n
        d = log_sum_exp(jnp.stack([total[lanes:], d + log_x])) - log_n  # logaddexp has no gradient at -inf, -inf
        h = log_sum_exp(jnp.stack([d, jnp.full(lanes, -log_scale[n])]))
        row = jnp.tile(j, 2)[None] + jax.lax.dynamic_slice_in_dim(factor, n + 1, 1)
        weighted = jax.lax.dynamic_update_slice_in_dim(weighted, row, n + 1, 0)
        tail = jax.lax.dynamic_update_slice_in_dim(tail, jnp.concatenate([j, h])[None], max_order - n, 0)
        return (weighted, tail, d), d

    weighted = jnp.full((size, 2 * lanes), -jnp.inf).at[1, :lanes].set(0.0)
    tail = jnp.full((2 * size, 2 * lanes), -jnp.inf).at[max_order].set(0.0)
    state, parts = (weighted, tail, jnp.full(lanes, -jnp.inf)), []
    # Sum n has n terms: many lanes run in stages of growing length, one lane in the smaller program.
    ends = [max_order * i // _NUM_STAGES for i in range(_NUM_STAGES + 1)] if lanes > 1 else [0, max_order]
    for start, end in itertools.pairwise(ends):
        state, part = jax.lax.scan(
            functools.partial(step, used=end + 1), state, jnp.arange(start + 1, end + 1, dtype=jnp.int32)
        )
        parts.append(part)
    return jnp.concatenate(parts)[1:] + log_scale[2:, None]


def host_log_excess(noise_multiplier: float, num_steps: float, max_order: int) -> Real:
    """`gaussian_log_excess` [A - 1] of one round on the host: the same recursions in NumPy, nothing compiled."""
    s2, k = noise_multiplier**-2.0, np.arange(1.0, max_order + 1.0)

    def log_expm1(x: Any) -> Any:
        return x + np.log(-np.expm1(-x))

    def log_sum(terms: Real) -> float:
        peak = terms.max()
        return float(peak + np.log(np.exp(terms - peak).sum()))

    log_v = log_expm1(s2)
    log_bracket, log_power = log_expm1(k * s2) - log_v, (k - 1.0) * (log_v - math.log(num_steps))
    j, d, h = np.zeros(max_order + 1), np.full(max_order + 1, -np.inf), np.zeros(max_order + 1)
    for n in range(1, max_order):  # j[k] from 1, h[k] from 0
        j[n + 1] = log_sum(log_bracket[:n] + j[1 : n + 1] + j[n:0:-1]) - math.log(n)
    weights = log_power[1:] + j[2:]
    for n in range(2, max_order + 1):
        rest = np.append(weights[: n - 1] + h[n - 2 :: -1], d[n - 1])
        d[n] = log_sum(rest) - math.log(n)
        h[n] = np.logaddexp(d[n], -math.lgamma(n + 1.0))
    return d[2:] + np.array([math.lgamma(n + 1.0) for n in range(2, max_order + 1)])


def rdp_from_log_excess(log_excess: jax.Array) -> jax.Array:
    """Renyi divergences [A - 1, L], rounded up, of orders a = 2..A: log E_Q[X^a] / (a - 1).

    `log_excess` [A - 1, L] is log(E_Q[X^a] - 1), from `gaussian_log_excess`.
    """
    max_order = log_excess.shape[0] + 1
    orders = xp.arange(2, max_order + 1, dtype=xp.float64)[:, None]
    return softplus(log_excess) / (orders - 1.0) * (1.0 + relative_slack(max_order))


def general_rdp(log_moments: jax.Array, num_steps: jax.Array, *, num_bits: int) -> jax.Array:
    """Renyi divergences [A - 1, L], rounded up, of orders a = 2..A of 1-out-of-t allocation for any base pair.

    From the logarithms `log_moments` [A + 1, L] of the base's moments m_c = E_Q[(dP/dQ)^c], c = 0..A:

        E_Q[X^a] = a!/t^a [x^a] (sum_c m_c/c! x^c)^t,

    the power of a power series in log space (RA-S12, RA-X1: equals the integer-partition sum of
    Feldman & Shenfeld 2025, Theorem 4.8). `num_steps` [L] is t, below 2^num_bits (static). All terms are positive. The
    1 is not split off, so the rounding is absolute: the slack added to (a - 1) R_a is
    2^-52 (num_bits + 2) (4 a + 2 max |log(m_c / (c! t^c))|).
    Infinite moments give infinite divergences.
    """
    max_order = log_moments.shape[0] - 1
    lf = xp.asarray(log_factorial_table(max_order), xp.float64)[:, None]
    # Shift x by t: coefficients of order one, so that no logarithm grows like a log t.
    shift = xp.arange(max_order + 1, dtype=xp.float64)[:, None] * xp.log(num_steps)
    infinite = xp.isposinf(cummax(log_moments))
    series = xp.where(infinite, -xp.inf, log_moments - lf - shift)
    power = log_series_power(series, num_steps, num_bits=num_bits)
    orders = xp.arange(2, max_order + 1, dtype=xp.float64)[:, None]
    log_s = power[2:] + lf[2:]
    largest = xp.max(xp.where(infinite, 0.0, xp.abs(series)), axis=0)
    slack = 2.0**-52 * (num_bits + 2) * (4.0 * orders + 2.0 * largest)
    return xp.where(infinite[2:], xp.inf, xp.maximum(log_s, 0.0) + slack) / (orders - 1.0)
