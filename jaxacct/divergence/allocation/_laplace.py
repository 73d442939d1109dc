"""Moments of real order of X = (1/t) sum Y_i, Gaussian pair, by a trapezoid rule in log s, certified.

E_Q[X^-p], p > 0, is the moment of order a = 1 + p in the *add* direction of 1-out-of-t random allocation (Q^t against
P-bar); E_Q[X^a], 1 < a < 2, is that of the remove direction below the integer orders.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.allocation._phases import Phases
from jaxacct.special import log1mexp, log1p, log_normal_tail, log_sum_exp, logexpm1, map_rows, softplus, up
from jaxacct.special._namespace import row_map, stop_gradient, xp

# They affect speed and tightness: the truncation and discretisation errors are bounded and added. The bound on rounding
# does not depend on _NUM_Z, but `_log_laplace_difference` states it for this value.
_NUM_Z = 512  # nodes in the Gaussian variable z
_AT_ONCE = 32  # nodes in v that are processed together
_Z_TAIL = 9.5  # standard deviations to which the window in z extends, at least
_LOG_Z_TAIL = math.log(0.5 * math.erfc(_Z_TAIL / math.sqrt(2.0)))  # log of the normal mass beyond, on one side
_LOG_LEFT = 45.0  # the part left or right of the grid in v = log s is meant to be e^-45 of the moment less 1
_V_MIN = -25.0  # for p < 0 that grid begins here, or further left
_LEAST_V = -30.0  # for p > 0 it begins no further left than here
_MOST_LOG = 600.0  # largest log of u = s/t, so that u is a double; psi decreases, so that psi(e^600) is a bound beyond
# half widths of the strip in z, in units of sigma, among which the one with the least error is taken
_TURNS = 0.5 * math.pi * np.array([0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])


def laplace_rdp(phases: Phases, *, exponents: Sequence[Sequence[float]], num_nodes: Sequence[int]) -> list[jax.Array]:
    """Renyi divergences [P, L], rounded up, one row for each exponent p, for each group of exponents.

    For p > 0 it is log E_Q[X^-p] / p, of order 1 + p in the add direction; for -2 < p < -1 it is
    log E_Q[X^-p] / (-p - 1), of order -p in the remove direction. The groups of P `exponents` each and their
    `num_nodes` (N) are static. With W = Y - 1, u = s/t, phi(s) = E e^{-sX} and
    B(s) = sum_j n_j log1p(E[e^{-u W_j} - 1 + u W_j]) (RA-X2):

        E X^-p - 1 = (1/Gamma(p)) int_0^inf s^(p-1) e^-s expm1(B(s)) ds,    s = e^v,

    by the trapezoid rule in v with N nodes of step h; B is found by the trapezoid rule in z. Every error is added on
    the safe side:

    * v-grid. Poisson summation of s^p e^{-sx} at each x: relative error of x^-p at most 2.1 |Gamma(p + iy)/Gamma(p)| <=
      2.1 exp(-y atan(y/p) + (p/2) log1p(y^2/p^2)), y = 2 pi/h (p + 2 in place of p when p < 0), hence an error of that
      times (E X^-p + 1) in all.
    * left of the grid: phi(s) - e^-s is at most s^2 Var(X)/2, and s; either is summed as a geometric series.
    * right of the grid: X is at least the geometric mean G of the Y_i, lognormal; see `_right_end`.
    * z-grid and window: see `_log_laplace_difference`.

    Where a bound on an error is not tight, the result is a valid but looser bound, at worst inf.
    """
    t, noises = phases.num_steps, phases.noise_multipliers
    parts = [logexpm1(1.0 / (s * s)) + xp.log(n / t) for s, n in zip(noises, phases.counts, strict=True)]
    log_variance = log_sum_exp(xp.stack(parts)) - xp.log(t)
    least = functools.reduce(xp.minimum, noises)
    grids, ends = [], []
    for group, nodes in zip(exponents, num_nodes, strict=True):
        v_max, right = _right_end(max(group), *_columns(group), log_variance, phases.mean_noise, t)
        v_min = _left_end(group, log_variance, least)
        h = (v_max - v_min) / (nodes - 1)
        grids.append(v_min + h * xp.arange(nodes, dtype=xp.float64)[:, None])
        ends.append((v_min, h, right))
    # one loop over the nodes of all grids, so that the compiled program contains it once
    differences = _log_difference(xp.concatenate(grids), phases)
    rows = xp.split(differences, np.cumsum(num_nodes)[:-1].tolist())
    return [
        _bracketed_rdp(group, v_min, h, row, log_variance, right)
        for group, (v_min, h, right), row in zip(exponents, ends, rows, strict=True)
    ]


def _columns(exponents: Sequence[float]) -> tuple[jax.Array, jax.Array]:
    """The exponents p and log |Gamma(p)|, [P, 1]."""
    log_gamma = xp.asarray([math.lgamma(x) for x in exponents], xp.float64)[:, None]
    return xp.asarray(exponents, xp.float64)[:, None], log_gamma


def _left_end(exponents: Sequence[float], log_variance: jax.Array, least_noise: jax.Array) -> jax.Array:
    """The beginning v_min [L] of the grid in v, for noise multipliers of at least `least_noise` [L]: any is valid.

    Near order 2 (p = -2) the sum decays only like s^(p + 2), and s^2 Var(X)/2 is sharp only once s Y is small at the Y
    that make up the variance, about e^{3/(2 sigma^2)}. For p > 0 the part left of v_min is e^-45 of about p^2 Var X,
    where that is small, else of p.
    """
    p = min(exponents)
    if p < 0.0:
        return _V_MIN - xp.minimum(1.5 / (least_noise * least_noise), 40.0)
    by_variance, by_mean = ((math.lgamma(p + i) - _LOG_LEFT) / (p + i) for i in (2.0, 1.0))
    return xp.maximum(xp.where(log_variance < 0.0, by_variance, min(by_variance, by_mean)), _LEAST_V)


def _bracketed_rdp(
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
    p, log_gamma = _columns(exponents)
    v = v_min + h * xp.arange(log_difference.shape[0], dtype=xp.float64)[:, None]

    log_sum = map_rows(
        lambda e, lg: log_sum_exp(e * v + log_difference) - lg, p[:, 0], log_gamma[:, 0], lanes=v
    ) + xp.log(h)

    left = (p + 2.0) * (v_min - h) + log_variance - xp.log(2.0) - log_gamma + xp.log(h) - log1mexp(-(p + 2.0) * h)
    q = xp.maximum(p, 0.0) + 1.0
    by_mean = q * (v_min - h) - log_gamma + xp.log(h) - log1mexp(-q * h)
    left = xp.where(p > 0.0, xp.minimum(left, by_mean), left)
    y = 2.0 * xp.pi / h
    effective = xp.where(p > 0, p, p + 2.0)
    log_grid = xp.log(2.1) - y * xp.arctan(y / effective) + 0.5 * effective * log1p((y / effective) ** 2)
    excess = log_sum_exp(xp.stack([log_sum, left, right]))
    # relative to the true moment, which the bracket bounds once the relative error is below 1/8
    grid = log_grid + xp.log(2.3) + softplus(excess)
    bound = xp.where(log_grid < -3.0, xp.logaddexp(excess, grid), xp.inf)
    order = np.asarray([x if x > 0 else -x - 1.0 for x in exponents])  # order - 1
    return up(softplus(bound) / xp.asarray(order, xp.float64)[:, None], 128)


def _right_end(
    p_max: float, p: jax.Array, log_gamma: jax.Array, log_variance: jax.Array, sigma: jax.Array, t: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The end v_max [L] of the grid, and log of a bound [P, L] on the part of each sum beyond it.

    For s >= S: s^p e^{-sx} <= e^{-Sx/2} s^p e^{-sx/2}, so the part beyond S is at most 1.1 E[(X/2)^-p e^{-SX/2}],
    decreasing in X; X >= G = exp(m + tau z), m = -1/(2 sigma^2), tau = 1/(sigma sqrt t), z standard normal. The
    expectation is split at z0: below it is the tilted normal tail
    E[G^-p; z < z0] = e^{-pm + p^2 tau^2/2} Phi(z0 + p tau), above it the exponential at G(z0).
    E X^-p >= e^{p^2 tau^2/2} (Jensen's inequality after a shift of every z by -p tau/sqrt t), so that e^-45 of it, or
    of Var X where that is small, is left if SG/2 at z0 is 45 plus the excess of log(E[(G/2)^-p]) over that exponent.
    For p < 0: s^p <= S^p leaves e^{-Sx} h S^p / (1 - e^{p h}), and x >= G(z0) except with probability Phi(z0).
    """
    m, tau = -0.5 * 1.0 / (sigma * sigma), 1.0 / (sigma * xp.sqrt(t))
    top = max(p_max, 0.0)
    budget = _LOG_LEFT - xp.minimum(log_variance, 0.0) + top * (math.log(2.0) - m)
    z0 = -top * tau - xp.sqrt(2.0 * budget)
    log_s = xp.log(2.0 * budget) - m - tau * z0
    scale = -p * m + 0.5 * (p * tau) ** 2 + p * math.log(2.0) + 0.1
    exponential = -0.5 * xp.exp(log_s + m + tau * z0)
    positive = scale + xp.logaddexp(log_normal_tail(-(z0 + p * tau)), exponential)
    # |p| >= 1: the sum over nodes beyond S of h s^p is at most S^p (h + 1/|p|) <= 2 S^p for h <= 1
    negative = p * log_s - log_gamma + math.log(2.0) + xp.logaddexp(log_normal_tail(-z0), 2.0 * exponential)
    return log_s, xp.where(p > 0, positive, negative)


def _log_difference(v: jax.Array, phases: Phases) -> jax.Array:
    """Upper bounds [N, L] on log(E e^{-sX} - e^{-s}) at s = e^v, `v` [N, L].

    It is found from each phase's own d_j = log(psi_j^{n_j} - e^{-u n_j}) as the lesser of two bounds: one by the sum of
    the B_j = log1p(e^{d_j + u n_j}), in which nothing cancels, and, for s too large for that, one by the sum of the n_j
    log psi_j.
    """
    t = phases.num_steps
    if phases.is_whole:
        return _log_laplace_difference(v, phases.noise_multipliers[0], t)
    s = xp.exp(v)
    near, log_phi, done = xp.zeros_like(v), xp.zeros_like(v), xp.zeros_like(t)
    for sigma, count in zip(phases.noise_multipliers, phases.counts, strict=True):
        d = _log_laplace_difference(v + xp.log(count / t), sigma, count)
        part = s * (count / t)
        near = near + softplus(d + part + 2.0**-50 * (16.0 + part))
        log_phi = log_phi + log_sum_exp(xp.stack([d, -part]))
        done = done + count
    log_phi = log_phi - s * (
        xp.maximum(t - done, 0.0) / t
    )  # of counts: of shares that add up to less than 1 some is left
    log_phi = log_phi + 2.0**-50 * (64.0 + 8.0 * xp.abs(log_phi))
    gap = s + log_phi + 2.0**-50 * (16.0 + 2.0 * s)
    far = log_phi + log1mexp(-xp.maximum(gap, 2.0**-60))
    return xp.minimum(far, logexpm1(near) - s + 2.0**-50 * (64.0 + 8.0 * near + s))


def _log_laplace_difference(v: jax.Array, sigma: jax.Array, t: jax.Array) -> jax.Array:
    """Upper bounds [N, L] on log(phi(s) - e^-s) at s = e^v, phi(s) = (E e^{-sY/t})^t.

    By the trapezoid rule in z with M nodes of step k; Y = exp(z/sigma - 1/(2 sigma^2)).

    * u = s/t <= 1: C = E[e^{-uW} - 1 + uW], a non-negative integrand, phi - e^-s = e^-s expm1(t log1p(C)). On
      |Im z| <= d <= pi sigma/2 Re(uW) >= -u, so the integrand is at most phi(z) e^{d^2/2} times e^u |uW|^2/2 or
      1 + e^u + |uW|, |W| <= Y + 1, E(Y+1)^2 = e^{1/sigma^2} + 3: the grid errs by at most 2.1 e^{d^2/2 - 2 pi d/k}
      times e^u (u^2/2) (e^{1/sigma^2} + 3) or 1 + e^u + 2u. The part outside the window, [-9.5, 9.5 + 2/sigma] at
      least, is at most (u^2/2) e^u Phi(-9.5) on the left, and (u^2/2) e^{1/sigma^2} Phi(-9.5) or u E[Y; beyond] on the
      right, all doubled for the sum.
    * u > 1: psi = E e^{-uY} itself, with the nodes shifted by -w sigma, w e^w = u/sigma^2. By Jensen's inequality
      psi >= e^-A, A = w^2 sigma^2/2 + u e^-w at any w. In the strip the modulus is e^{-ucY}, c = cos(d/sigma), at most
      1: the grid errs by at most r psi(cu), r = 2.1 e^{d^2/2 - 2 pi d/k}, hence by r; and since c Y(z) = Y(z - D),
      D = -sigma log c, psi(cu) <= e^{DM - D^2/2} psi(u) + Phi(D - M) at any M > D. The integrand is e^-f with
      f = z^2/2 + uY convex: beyond an end where it decreases the integral and the sum are at most e^-f/|f'|. Finally
      e^-s is subtracted, which matters only for small t (phi >= e^-s by Jensen).
    * rounding: a sum of M terms errs by 64 times 2^-50, relative, phi by t times that, and by 2^-50 of the exponents'
      sizes. With the integrand as a density f has a mean of at most 2A + 0.7 (log E e^{-bf} is convex in b), and errs
      by 2^-52 (6 + 2 |z|/sigma + 1/sigma^2 + |log u|) of its size; terms below e^-46 of the sum are negligible.
    """
    log_u = xp.minimum(v - xp.log(t), _MOST_LOG)
    shift = _log_shift(log_u, sigma)
    rule = _rule(sigma, t, shift[-1])
    half_z = 0.5 * rule.z * rule.z

    def node(rows: tuple[jax.Array, jax.Array]) -> jax.Array:
        log_u, shift = rows
        u = xp.exp(log_u)
        below = u <= 1.0
        us = xp.where(below, u, 1.0)
        x = us * rule.away
        fallen, centre = xp.exp(log_u - shift), -shift * sigma  # u e^-w, and the point to which z = 0 is moved
        # A - f = -z^2/2 - centre z + u e^-w (1 - Y(z)): one exponential is used for both cases
        value = xp.exp(xp.where(below, -x, -half_z - centre * rule.z + fallen * (1.0 - rule.ratio)))
        inner = _log_below(rule, us, x, value, below)
        return xp.where(below, inner, _log_above(rule, u, log_u, fallen, centre, value, below))

    return row_map(node, (log_u, shift), at_once=_AT_ONCE)


class _Rule(NamedTuple):
    """The trapezoid rule in z of `_log_laplace_difference`: its nodes, and bounds that are the same for every s."""

    s: jax.Array  # [L], 1/sigma
    t: jax.Array  # [L]
    edges: jax.Array  # [2, L], the first and the last node
    z: jax.Array  # [M, L]
    ratio: jax.Array  # [M, L], Y
    away: jax.Array  # [M, L], W = Y - 1
    density: jax.Array  # [M, L], of z, times the step
    log_step: jax.Array  # [L], log(k/sqrt(2 pi))
    log_whole: jax.Array  # [L], log r in the widest strip in which the modulus is at most 1
    log_turned: jax.Array  # [D, L], log r in the strips of half widths `_TURNS`
    moved: jax.Array  # [D, L], D there


def _rule(sigma: jax.Array, t: jax.Array, largest_shift: jax.Array) -> _Rule:
    s = 1.0 / sigma
    low = -xp.sqrt(_Z_TAIL * _Z_TAIL + xp.minimum(largest_shift, 80.0))
    high = _Z_TAIL + 2.0 * s
    k = (high - low) / (_NUM_Z - 1)

    def log_strip(d: jax.Array) -> jax.Array:
        decay = 2.0 * xp.pi * d / k
        return xp.log(2.1) + 0.5 * d * d - decay - xp.log(-xp.expm1(-decay))

    log_whole = log_strip(xp.minimum(0.5 * xp.pi * sigma, 2.0 * xp.pi / k))
    turns = xp.asarray(_TURNS)[:, None]  # d/sigma
    z = low + k * xp.arange(_NUM_Z, dtype=xp.float64)[:, None]
    exponent = s * z - 0.5 * s * s
    density = k * xp.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    log_step = xp.log(k) - 0.5 * math.log(2.0 * math.pi)
    ratio, away, moved = xp.exp(exponent), xp.expm1(exponent), -sigma * xp.log(xp.cos(turns))
    edges = xp.stack([low, high])
    return _Rule(s, t, edges, z, ratio, away, density, log_step, log_whole, log_strip(turns * sigma), moved)


def _log_below(rule: _Rule, u: jax.Array, x: jax.Array, value: jax.Array, below: jax.Array) -> jax.Array:
    """Upper bound [L] on log(phi(s) - e^-s) where u <= 1 (`below`), from x = uW and `value` = e^-x at the nodes."""
    s, log_tail = rule.s, math.log(2.0) + _LOG_Z_TAIL
    variance = xp.exp(xp.minimum(s * s, 700.0))
    beyond = 2.0 * xp.exp(log_normal_tail(rule.edges[1] - s))  # of Y
    small = xp.abs(x) < 0.5
    xs = xp.where(small, x, 0.0)
    series = xp.ones_like(xs)
    for n in range(16, 2, -1):  # e^-x - 1 + x = x^2/2 (1 - x/3 (1 - x/4 (..)))
        series = 1.0 - xs * (1.0 / n) * series
    integrand = xp.where(small | ~below, 0.5 * xs * xs * series, value - 1.0 + x)
    c = xp.sum(rule.density * integrand, axis=0)
    half_square = 0.5 * u * u
    grown = xp.exp(u)
    square = half_square * grown * (variance + 3.0)
    c = c + xp.exp(rule.log_whole) * xp.minimum(square, 1.0 + grown + 2.0 * u)
    right = xp.minimum(half_square * variance * xp.exp(log_tail), u * beyond)
    c = c + half_square * grown * xp.exp(log_tail) + right
    b = rule.t * log1p(c)
    total = u * rule.t
    return logexpm1(b) - total + 2.0**-50 * (80.0 * (1.0 + b) + total)


def _log_above(
    rule: _Rule,
    u: jax.Array,
    log_u: jax.Array,
    fallen: jax.Array,
    centre: jax.Array,
    value: jax.Array,
    below: jax.Array,
) -> jax.Array:
    """Upper bound [L] on log(phi(s) - e^-s) where u > 1 (not `below`), from `value` = e^(A - f) at the nodes."""
    s, edges = rule.s, rule.edges
    floor = 0.5 * centre * centre + fallen  # A
    edge_ratio = xp.exp(s * edges - 0.5 * s * s)
    slopes = np.array([[-1.0], [1.0]]) * (edges + centre + s * fallen * edge_ratio)
    falls = ~below & (slopes > 0.0)
    ends = -0.5 * edges * edges - centre * edges + fallen * (1.0 - edge_ratio) - 0.5 * math.log(2.0 * math.pi)
    ends = xp.where(falls, ends - xp.log(xp.where(falls, slopes, 1.0)), xp.inf)
    log_sum = xp.log(xp.sum(xp.where(below, 1.0, value), axis=0)) + rule.log_step
    log_sum = log_sum_exp(xp.stack([log_sum, ends[0], ends[1]]))  # log of psi e^A
    reach = xp.sqrt(2.0 * floor + _Z_TAIL * _Z_TAIL)  # M
    log_relative = rule.log_turned + _log_growth(rule.moved, reach)
    log_rest = rule.log_turned + log_normal_tail(reach - rule.moved) + floor
    log_kept = xp.log(-xp.expm1(xp.minimum(log_relative, -1.0)))
    relative = xp.where(log_relative < -1.0, log_sum + softplus(log_rest - log_sum) - log_kept, xp.inf)
    whole = log_sum + softplus(rule.log_whole + floor - log_sum)
    log_phi = rule.t * xp.minimum(xp.minimum(xp.min(relative, axis=0), whole) - floor, 0.0)
    spread = (floor + 0.35) * (6.0 + 2.0 * s * reach + s * s + xp.abs(log_u))
    log_phi = log_phi + 2.0**-50 * ((64.0 + xp.maximum(16.0, spread)) * rule.t + 8.0 * xp.abs(log_phi))
    return log_phi + log1mexp(xp.minimum(-rule.t * u - log_phi, -(2.0**-60)))


def _log_growth(moved: Any, reach: Any) -> Any:
    """Log of a factor g with psi(c u) <= g psi(u) + Phi(D - M), where D is `moved`, -sigma log c, and M > D `reach`.

    psi(c u) = E e^{-u Y(z - D)} is the integral of e^{-uY(z)} under the density phi(z + D) = phi(z) e^{-Dz - D^2/2}.
    """
    return moved * (reach - 0.5 * moved)


def _log_shift(log_u: jax.Array, sigma: jax.Array) -> jax.Array:
    """w >= 0, [N, L], approximately the root of w e^w = u/sigma^2."""
    log_x = stop_gradient(log_u - 2.0 * xp.log(sigma))
    w = softplus(log_x)
    for _ in range(4):  # Newton's method for log w + w = log x
        w = xp.maximum(w * (1.0 + log_x - xp.log(w)) / (1.0 + w), 1e-300)
    return w
