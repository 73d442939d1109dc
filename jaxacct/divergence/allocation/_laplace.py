"""Moments of real order of X = (1/t) sum Y_i, Gaussian pair, by a certified trapezoid in a logarithm.

E_Q[X^-p], p > 0, is the moment of order a = 1 + p of the *add* direction of 1-out-of-t random allocation
(Q^t against P-bar); E_Q[X^a], 1 < a < 2, the remove direction below the integer orders.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.special import log1mexp, log1p, log_normal_tail, log_sum_exp, logexpm1, map_rows, softplus, up

# They steer speed and tightness: what they leave out is bounded and added. The rounding that is booked does not depend
# on _NUM_Z, but is stated for it in `_log_laplace_difference`.
_NUM_Z = 512  # nodes in the Gaussian variable z
_Z_TAIL = 9.5  # standard deviations to which the window in z reaches, at least
_LOG_Z_TAIL = math.log(0.5 * math.erfc(_Z_TAIL / math.sqrt(2.0)))  # log of the normal mass beyond, on one side
_V_MIN = -25.0  # the grid in v = log s begins here, or further left


def laplace_rdp(
    noise_multiplier: jax.Array, num_steps: jax.Array, *, exponents: Sequence[float], num_nodes: int
) -> jax.Array:
    """Renyi divergences [P, L], rounded up, one row for each exponent p.

    For p > 0 it is log E_Q[X^-p] / p, of order 1 + p in the add direction; for -2 < p < -1 it is
    log E_Q[X^-p] / (-p - 1), of order -p in the remove direction. `noise_multiplier` [L] is sigma, `num_steps` [L] is
    t; the P `exponents` and `num_nodes` (N) are static. With W = Y - 1, u = s/t,
    phi(s) = E e^{-sX} and B(s) = t log1p(E[e^{-uW} - 1 + uW]) (RA-X2):

        E X^-p - 1 = (1/Gamma(p)) int_0^inf s^(p-1) e^-s expm1(B(s)) ds,    s = e^v,

    by the trapezoid in v with N nodes of step h, and B by the trapezoid in z. Every error is added on the safe side:

    * v-grid. Poisson summation of s^p e^{-sx} at each x: relative error of x^-p at most
      2.1 |Gamma(p + iy)/Gamma(p)| <= 2.1 exp(-y atan(y/p) + (p/2) log1p(y^2/p^2)), y = 2 pi/h
      (p + 2 in place of p when p < 0), hence that times (E X^-p + 1) in all.
    * left of the grid: phi(s) - e^-s <= s^2 Var(X)/2, summed as a geometric series.
    * right of the grid: X is at least the geometric mean G of the Y_i, lognormal; see `_right_end`.
    * z-grid and window: see `_laplace_exponent`.

    Where a bound on an error is not tight the result is a valid but looser bound, at worst inf.
    """
    p = jnp.asarray(exponents, jnp.float64)[:, None]
    log_gamma = jnp.asarray([math.lgamma(x) for x in exponents], jnp.float64)[:, None]
    sigma, t = noise_multiplier, num_steps
    log_variance = logexpm1(1.0 / (sigma * sigma)) - jnp.log(t)

    v_max, right = _right_end(max(exponents), p, log_gamma, sigma, t)
    # Near order 2 the sum decays like s^(p + 2) only, and s^2 Var(X)/2 is sharp only once s Y is small at the Y that
    # make up the variance, about e^{3/(2 sigma^2)}.
    reach = 1.5 / (sigma * sigma) if min(exponents) < 0 else jnp.zeros_like(sigma)
    v_min = _V_MIN - jnp.minimum(reach, 40.0)
    h = (v_max - v_min) / (num_nodes - 1)
    v = v_min + h * jnp.arange(num_nodes, dtype=jnp.float64)[:, None]
    # E X^-p is settled where every z is about -p/(sigma t)
    tilt = jnp.minimum(max(0.0, *exponents) / (sigma * t), 20.0)
    log_difference = _log_laplace_difference(v, sigma, t, tilt)
    return bracketed_rdp(exponents, v_min, h, log_difference, log_variance, right)


def bracketed_rdp(
    exponents: Sequence[float],
    v_min: jax.Array,
    h: jax.Array,
    log_difference: jax.Array,
    log_variance: jax.Array,
    right: jax.Array,
) -> jax.Array:
    """Renyi divergences [P, L], rounded up, from the sums over v of e^(p v) times a difference: see `laplace_rdp`.

    Args:
      exponents: static, the P exponents p.
      v_min, h: [L], the grid v_min + h i, i = 0..N - 1.
      log_difference: [N, L], upper bounds on log(phi(s) - e^-s) on it, s = e^v.
      log_variance: [L], log Var X.
      right: [P, L], log of a bound on the part of each sum beyond the grid.
    """
    p = jnp.asarray(exponents, jnp.float64)[:, None]
    log_gamma = jnp.asarray([math.lgamma(x) for x in exponents], jnp.float64)[:, None]
    v = v_min + h * jnp.arange(log_difference.shape[0], dtype=jnp.float64)[:, None]

    log_sum = map_rows(lambda e, lg: log_sum_exp(e * v + log_difference) - lg, p[:, 0], log_gamma[:, 0]) + jnp.log(h)

    left = (p + 2.0) * (v_min - h) + log_variance - jnp.log(2.0) - log_gamma + jnp.log(h) - log1mexp(-(p + 2.0) * h)
    y = 2.0 * jnp.pi / h
    effective = jnp.where(p > 0, p, p + 2.0)
    log_grid = jnp.log(2.1) - y * jnp.arctan(y / effective) + 0.5 * effective * log1p((y / effective) ** 2)
    excess = log_sum_exp(jnp.stack([log_sum, left, right]))
    # relative to the true moment, which the bracket bounds once the relative error is below 1/8
    grid = log_grid + jnp.log(2.3) + softplus(excess)
    bound = jnp.where(log_grid < -3.0, jnp.logaddexp(excess, grid), jnp.inf)
    order = np.asarray([x if x > 0 else -x - 1.0 for x in exponents])  # order - 1
    return up(softplus(bound) / jnp.asarray(order, jnp.float64)[:, None], 128)


def _right_end(
    p_max: float, p: jax.Array, log_gamma: jax.Array, sigma: jax.Array, t: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The end v_max [L] of the grid, and log of a bound [P, L] on the part of each sum beyond it.

    For s >= S: s^p e^{-sx} <= e^{-Sx/2} s^p e^{-sx/2}, so what lies beyond S is at most
    1.1 E[(X/2)^-p e^{-SX/2}], decreasing in X; X >= G = exp(m + tau z), m = -1/(2 sigma^2),
    tau = 1/(sigma sqrt t), z standard normal. Split at z0: below it the tilted normal tail
    E[G^-p; z < z0] = e^{-pm + p^2 tau^2/2} Phi(z0 + p tau), above it the exponential at G(z0).
    For p < 0: s^p <= S^p leaves e^{-Sx} h S^p / (1 - e^{p h}), and x >= G(z0) but for a probability Phi(z0).
    """
    m, tau = -0.5 * 1.0 / (sigma * sigma), 1.0 / (sigma * jnp.sqrt(t))
    growth = -p_max * m + 0.5 * (p_max * tau) ** 2
    budget = 45.0 + growth + p_max * math.log(2.0)
    z0 = -p_max * tau - jnp.sqrt(2.0 * budget)
    log_s = jnp.log(2.0 * budget) - m - tau * z0
    scale = -p * m + 0.5 * (p * tau) ** 2 + p * math.log(2.0) + 0.1
    exponential = -0.5 * jnp.exp(log_s + m + tau * z0)
    positive = scale + jnp.logaddexp(log_normal_tail(-(z0 + p * tau)), exponential)
    # |p| >= 1: the sum over nodes beyond S of h s^p is at most S^p (h + 1/|p|) <= 2 S^p for h <= 1
    negative = p * log_s - log_gamma + math.log(2.0) + jnp.logaddexp(log_normal_tail(-z0), 2.0 * exponential)
    return log_s, jnp.where(p > 0, positive, negative)


def _log_laplace_difference(v: jax.Array, sigma: jax.Array, t: jax.Array, tilt: jax.Array) -> jax.Array:
    """Upper bounds [N, L] on log(phi(s) - e^-s) at s = e^v, phi(s) = (E e^{-sY/t})^t.

    Trapezoid in z, Y = exp(z/sigma - 1/(2 sigma^2)), M nodes of step k on [-9.5 - tilt, 9.5 + 2/sigma].

    * u = s/t <= 1: C = E[e^{-uW} - 1 + uW], a non-negative integrand, phi - e^-s = e^-s expm1(t log1p(C)).
      On |Im z| <= d <= pi sigma/2 the exponent keeps Re(uW) >= -u, so the integrand is at most
      phi(z) e^{d^2/2} e^u |uW|^2/2, |W| <= Y + 1, E(Y+1)^2 = e^{1/sigma^2} + 3: the grid errs by at most
      2.1 e^{d^2/2 - 2 pi d/k} e^u (u^2/2) (e^{1/sigma^2} + 3). The window loses at most
      (u^2/2) (e^u Phi(-9.5) + e^{1/sigma^2} Phi(-9.5)), doubled for the sum.
    * u > 1: psi = E e^{-uY} itself; |e^{-uY}| <= 1 in the strip, so 2.1 e^{d^2/2 - 2 pi d/k} + Phi(low), and
      2 Phi(-9.5) e^{-u} on the right, where Y > 1. Less e^-s, which counts while t is small (phi >= e^-s by Jensen).
    * rounding: a sum of M terms to 80 times 2^-50 relative, t times that in phi, and 2^-50 of the exponents' sizes.
    """
    s = 1.0 / sigma
    low, high = -_Z_TAIL - tilt, _Z_TAIL + 2.0 * s
    k = (high - low) / (_NUM_Z - 1)
    d = jnp.minimum(0.5 * jnp.pi * sigma, 2.0 * jnp.pi / k)
    decay = 2.0 * jnp.pi * d / k
    log_strip = jnp.log(2.1) + 0.5 * d * d - decay - jnp.log(-jnp.expm1(-decay))
    log_tail = math.log(2.0) + _LOG_Z_TAIL
    log_left_tail = log_normal_tail(-low)

    z = low + k * jnp.arange(_NUM_Z, dtype=jnp.float64)[:, None]
    exponent = s * z - 0.5 * s * s
    w, ratio = jnp.expm1(exponent), jnp.exp(exponent)
    density = k * jnp.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)

    def node(v_row: jax.Array) -> jax.Array:
        log_u = v_row - jnp.log(t)
        u = jnp.exp(log_u)
        below = u <= 1.0
        us = jnp.where(below, u, 1.0)
        x = us * w
        value = jnp.exp(-jnp.where(below, x, u * ratio))  # one exponential serves both
        small = jnp.abs(x) < 0.5
        xs = jnp.where(small, x, 0.0)
        series = jnp.ones_like(xs)
        for n in range(16, 2, -1):  # e^-x - 1 + x = x^2/2 (1 - x/3 (1 - x/4 (..)))
            series = 1.0 - xs * (1.0 / n) * series
        integrand = jnp.where(small | ~below, 0.5 * xs * xs * series, value - 1.0 + x)
        c = jnp.sum(density * integrand, axis=0)
        half_square = 0.5 * us * us
        c = c + half_square * jnp.exp(log_strip + us) * (jnp.exp(jnp.minimum(s * s, 700.0)) + 3.0)
        c = c + half_square * jnp.exp(log_tail) * (jnp.exp(us) + jnp.exp(jnp.minimum(s * s, 700.0)))
        b = t * log1p(c)
        total = us * t
        inner = logexpm1(b) - total + 2.0**-50 * (80.0 * (1.0 + b) + total)
        psi = jnp.sum(density * value, axis=0)
        right_tail = jnp.exp(log_tail - u)  # Y > 1 there
        psi = psi + right_tail + jnp.exp(log_strip) + jnp.exp(log_left_tail)
        log_phi = t * jnp.log(jnp.minimum(psi, 1.0))
        log_phi = log_phi + 2.0**-50 * (80.0 * t + 8.0 * jnp.abs(log_phi))
        outer = log_phi + log1mexp(jnp.minimum(-t * u - log_phi, -(2.0**-60)))
        return jnp.where(below, inner, outer)

    lanes = sigma.shape[0]
    return jax.lax.map(node, v, batch_size=max(1, 32 // lanes))
