"""The average X = (1/t) sum Y_i of t independent likelihood ratios, to integer powers.

E_Q[X^a] is the moment behind the remove direction of 1-out-of-t random allocation: P-bar is the
law with the record in one uniform step, Q^t the law without it, X their likelihood ratio.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.special import log_factorial_table, log_series_power, log_sum_exp, logexpm1, map_rows, softplus

# Relative error of log E_Q[X^a], every order to A: measured at most 5e-13 max(1, A/256) against
# mpmath for sigma in [.05, 100], t in [1, 1e12]. The slack is four times that.
RELATIVE_SLACK = 2e-12


def relative_slack(max_order: int) -> float:
    """Relative amount that covers the rounding of `gaussian_log_excess` at orders to `max_order`."""
    return RELATIVE_SLACK * max(1.0, max_order / 256)


def gaussian_tree_series(noise_multiplier: jax.Array, *, max_order: int) -> jax.Array:
    """log j_n, n = 0..A, [A + 1, L]: scaled cumulants of Y = dP/dQ for the Gaussian pair.

    With q = exp(1/sigma^2), Y is lognormal and E Y^n = q^(n(n-1)/2) counts the graphs on n labelled
    vertices by edges (weight q - 1 each), so its cumulants count the connected ones:
    kappa_n = (q-1)^(n-1) J_n(q), J the tree-inversion (Mallows-Riordan) polynomial. Then
    j_n = J_n / (n-1)! obeys a recursion of positive terms,

        j_1 = 1,   j_{n+1} = (1/n) sum_{k=1..n} [k] j_k j_{n+1-k},   [k] = (q^k - 1)/(q - 1),

    which cancels nothing at any sigma (spec X1 in cumulants; algorithms part A).
    """
    size, lanes = max_order + 1, noise_multiplier.shape[0]
    s2 = 1.0 / (noise_multiplier * noise_multiplier)
    k = jnp.arange(size, dtype=jnp.float64)[:, None]
    log_bracket = jnp.where(k > 0, logexpm1(jnp.maximum(k, 1.0) * s2) - logexpm1(s2), -jnp.inf)

    def step(state: tuple[jax.Array, jax.Array], n: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        weighted, tail = state  # log([k] j_k), and log j reversed: tail[A - k] = log j_k, -inf elsewhere
        shifted = jax.lax.dynamic_slice_in_dim(tail, max_order - n - 1, size)
        new = log_sum_exp(weighted + shifted) - jnp.log(n.astype(jnp.float64))
        bracket = jax.lax.dynamic_slice_in_dim(log_bracket, n + 1, 1)
        weighted = jax.lax.dynamic_update_slice_in_dim(weighted, new[None] + bracket, n + 1, 0)
        tail = jax.lax.dynamic_update_slice_in_dim(tail, new[None], max_order - n - 1, 0)
        return (weighted, tail), None

    weighted = jnp.full((size, lanes), -jnp.inf).at[1].set(0.0)
    tail = jnp.full((2 * size, lanes), -jnp.inf).at[max_order - 1].set(0.0)
    (_, tail), _ = jax.lax.scan(step, (weighted, tail), jnp.arange(1, max_order))
    return tail[max_order::-1]


def gaussian_log_excess(
    tree_series: jax.Array, noise_multiplier: jax.Array, num_steps: jax.Array, *, max_order: int
) -> jax.Array:
    """log(E_Q[X^a] - 1) for a = 2..A, [A - 1, L], Gaussian pair, every t >= 1.

    With r = (q - 1)/t, central moments G_n = E(X-1)^n / n! follow from the cumulants of X by

        G_0 = 1, G_1 = 0,  G_n = (1/n) sum_{k=2..n} r^(k-1) j_k G_{n-k},
        E X^a - 1 = sum_{j=2..a} a!/(a-j)! G_j.

    Sums of positive terms throughout: equals the integer-partition sum of Feldman and Shenfeld,
    Corollary 4.10, in O(A^2) for all orders, without forming and subtracting the 1.
    """
    size, lanes = max_order + 1, noise_multiplier.shape[0]
    log_r = logexpm1(1.0 / (noise_multiplier * noise_multiplier)) - jnp.log(num_steps)
    k = jnp.arange(size, dtype=jnp.float64)[:, None]
    weights = jnp.where(k >= 2, (k - 1.0) * log_r + tree_series, -jnp.inf)

    def step(tail: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        shifted = jax.lax.dynamic_slice_in_dim(tail, max_order - n, size)
        new = log_sum_exp(weights + shifted) - jnp.log(n.astype(jnp.float64))
        return jax.lax.dynamic_update_slice_in_dim(tail, new[None], max_order - n, 0), new

    tail = jnp.full((2 * size, lanes), -jnp.inf).at[max_order].set(0.0)
    _, moments = jax.lax.scan(step, tail, jnp.arange(2, size))

    lf = log_factorial_table(max_order)
    a, j = np.arange(2, size)[:, None], np.arange(2, size)[None, :]
    falling = jnp.asarray(np.where(j <= a, lf[a] - lf[np.maximum(a - j, 0)], -np.inf), jnp.float64)
    return map_rows(lambda row: log_sum_exp(row[:, None] + moments), falling)


def rdp_from_log_excess(log_excess: jax.Array) -> jax.Array:
    """Upper bound on the Renyi divergences of orders 2..A from log(E_Q[X^a] - 1): log1p(.)/(a - 1), rounded up."""
    max_order = log_excess.shape[0] + 1
    orders = jnp.arange(2, max_order + 1, dtype=jnp.float64)[:, None]
    return softplus(log_excess) / (orders - 1.0) * (1.0 + relative_slack(max_order))


def general_rdp(log_moments: jax.Array, num_steps: jax.Array, *, num_bits: int) -> jax.Array:
    """Renyi divergences of orders 2..A of 1-out-of-t allocation for any base pair, [A - 1, L], rounded up.

    From the base's own moments m_c = E_Q[(dP/dQ)^c], c = 0..A (`log_moments`, [A + 1, L]):

        E_Q[X^a] = a!/t^a [x^a] (sum_c m_c/c! x^c)^t,

    the power of a power series in log space (spec S12, X1: equals the integer-partition sum of
    Feldman and Shenfeld, Theorem 4.8). All terms are positive; the 1 is not split off, so the
    rounding is absolute: the slack added to (a - 1) R_a is about 1e-13 (A/64) + 1e-15 max |log m|.
    Infinite moments give infinite divergences.
    """
    max_order = log_moments.shape[0] - 1
    lf = jnp.asarray(log_factorial_table(max_order), jnp.float64)[:, None]
    # Shift x by t: coefficients of order one, so that no logarithm grows like a log t.
    shift = jnp.arange(max_order + 1, dtype=jnp.float64)[:, None] * jnp.log(num_steps)
    infinite = jnp.isposinf(jax.lax.cummax(log_moments, axis=0))
    series = jnp.where(infinite, -jnp.inf, log_moments - lf - shift)
    power = log_series_power(series, num_steps, num_bits=num_bits)
    orders = jnp.arange(2, max_order + 1, dtype=jnp.float64)[:, None]
    log_s = power[2:] + lf[2:]
    largest = jnp.max(jnp.where(infinite, 0.0, jnp.abs(series)), axis=0)
    slack = 2.0**-52 * (num_bits + 2) * (4.0 * orders + 2.0 * largest)
    return jnp.where(infinite[2:], jnp.inf, jnp.maximum(log_s, 0.0) + slack) / (orders - 1.0)
