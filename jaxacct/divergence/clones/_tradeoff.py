"""The trade-off function of the clones pair, and a Gaussian trade-off function below it.

The trade-off function T(a) is the least type II error of a test at type I error a. It is convex, piecewise linear, its
own inverse, and the envelope of lines given by the divergence: ``T(a) = max_eps 1 - delta(eps) - e^eps a``. So every
epsilon at which delta is bounded from above gives a certified lower bound of T.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.divergence.clones._profile import MAX_EPSILON, clones_delta, lane_bytes
from jaxacct.special import ULP, log1mexp, logexpm1, normal_upper_quantile, up
from jaxacct.special._namespace import fori_loop, stop_gradient, xp

_NUM_HALVINGS = 56  # of the interval of epsilons; fewer are certified too, only looser
# Absolute rounding error of a line's height, which is subtracted: part of the certificate. Where the height is
# positive, delta and e^eps a, or the factor of e^-eps, add up to 1 at most; each exponential errs by 4 ULP of itself, a
# product by one, differences from 1 by one each, and so does the subtraction of this number: 8 ULP.
_ROUNDING = 10.0 * ULP
_BATCH = 64  # intervals of epsilon that are halved in one round of `clones_gdp`
_MAX_PASSES = 60  # rounds of `clones_gdp`; fewer are certified too, only looser


class _Search(NamedTuple):
    """The state [L] of a search for the best line: an interval of epsilon, whether T is mirrored, the best so far."""

    low: jax.Array
    high: jax.Array
    mirrored: jax.Array
    best_epsilon: jax.Array
    best: jax.Array


def clones_tradeoff(
    type_one_error: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    """Lower bounds on type II errors T(a) [L] at type I errors a, for tests of P against Q or Q against P: they agree.

    They hold for every protocol that the pair dominates (Feldman, McMillan & Talwar 2021, Theorem 3.2), replace-one
    adjacency, and are within 4e-12 of T where `clones_delta` sums every count. They are in [0, 1], and 0 outside
    0 <= a <= 1. Arguments as for `clones_delta`. (Chen et al. 2024, "Renyi Differential Privacy in the Shuffle Model:
    Enhanced Amplification Bounds", Theorem 1, is about this function; the formulas printed there are for another pair.)

    The slope of T at a is -e^eps with Q[L > eps] = a; beyond its fixed point T is mirrored, slope -e^{-eps} with
    P[L > eps] = 1 - a. Either epsilon is found by bisection, and the best of all lines met gives the answer.
    """
    fixed = stop_gradient((type_one_error, num_reports, clone_prob, local_epsilon))

    def line(eps: jax.Array, mirrored: jax.Array, args: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        """The line's height at a, and whether its touching point lies on the near side of a."""
        error, *params = args
        at = clones_delta(eps, *params, window=window)
        delta = xp.exp(at.log_delta.upper)
        log_p = xp.logaddexp(at.log_delta.upper, eps + at.log_tail)
        height = xp.where(mirrored, xp.exp(-eps) * ((1.0 - error) - delta), 1.0 - delta - xp.exp(eps) * error)
        target = xp.log(xp.where(mirrored, 1.0 - error, error))
        return height, xp.where(mirrored, log_p, at.log_tail) > target

    def step(i: jax.Array, state: _Search) -> _Search:
        middle = xp.where(i == 0, 0.0, 0.5 * (state.low + state.high))
        height, beyond = line(middle, state.mirrored, fixed)
        # at eps = 0: T(a) >= height = 1 - delta(0) - a, with equality around the fixed point
        mirrored = xp.where(i == 0, fixed[0] > height, state.mirrored)
        better = height > state.best
        return _Search(
            low=xp.where(beyond & (i > 0), middle, state.low),
            high=xp.where(beyond | (i == 0), state.high, middle),
            mirrored=mirrored,
            best_epsilon=xp.where(better, middle, state.best_epsilon),
            best=xp.where(better, height, state.best),
        )

    zero = xp.zeros_like(fixed[0])
    last = fori_loop(
        0, _NUM_HALVINGS, step, _Search(zero, xp.minimum(fixed[3], MAX_EPSILON), zero > 0, zero, zero - 1.0)
    )
    # once more, for the derivatives: those of the best line
    height, _ = line(last.best_epsilon, last.mirrored, (type_one_error, num_reports, clone_prob, local_epsilon))
    valid = (type_one_error >= 0) & (type_one_error <= 1) & (height > _ROUNDING)
    return xp.where(valid, height - _ROUNDING, 0.0)


def _vertex_mu(epsilon: jax.Array, log_delta: jax.Array, step: jax.Array, log_delta_next: jax.Array) -> jax.Array:
    """The mu, of the arguments' shape, of the Gaussian trade-off function through the point where two lines cross.

    The lines are those of `epsilon` and `epsilon + step`. They cross at ``a = (delta - delta') / (e^eps' - e^eps)``,
    1 - b = delta + e^eps a; its mu is z(a) - z(1 - b).
    """
    log_difference = log1mexp(jnp.minimum(log_delta_next - log_delta, 0.0))
    log_rise = logexpm1(step)
    log_a = log_delta + log_difference - epsilon - log_rise
    log_power = jnp.minimum(jnp.logaddexp(log_delta, epsilon + log_a), 0.0)
    # log1mexp errs by 19 ULP of 1 + its size, twice; its argument by an ULP, which matters as little as 1 + step; three
    # sums by an ULP of their summands
    sizes = jnp.abs(log_delta) + jnp.abs(log_difference) + epsilon + jnp.abs(log_rise) + step
    return _mu(log_a, log_power, 64.0 * ULP * (1.0 + sizes))


def _mu(log_a: jax.Array, log_power: jax.Array, slack: jax.Array | float) -> jax.Array:
    """z(a) - z(1 - b) from log a, which errs by `slack`, and log(1 - b), rounded up; 0 for an uninformative point."""
    flat = ~(log_power > log_a)  # no information there: also for a = 0
    z, error = normal_upper_quantile(log_a, slack)
    # log(1 - b) errs by no more than log a, and by 16 ULP of its summands
    other, other_error = normal_upper_quantile(log_power, 2.0 * slack)
    mu = up(jnp.maximum(z - other + error + other_error, 0.0), 8)
    return jnp.where(flat, 0.0, jnp.where(jnp.isnan(mu), jnp.inf, mu))


_VERTEX_MU = Kernel(_vertex_mu, lane_bytes=2**12)
_POINT_MU = Kernel(lambda log_a, log_power: _mu(log_a, log_power, 0.0), lane_bytes=2**12)
_DELTA = Kernel(clones_delta, lane_bytes=lane_bytes)


def clones_gdp(
    num_reports: float,
    clone_prob: float,
    local_epsilon: float,
    *,
    window: int,
    delta_floor: float = 0.0,
    tolerance: float = 1e-6,
) -> float:
    """A float, the least mu found for which the pair is mu-GDP, rounded up: T >= G_mu there (concrete numbers only).

    It is an upper bound, for replace-one adjacency. The lines of finitely many epsilons bound T from below, and G_mu,
    which is convex, can exceed them only where two neighbours cross. The intervals with the largest mu are halved until
    the largest is within `tolerance` (relative) of the mu of a vertex of T itself, or 60 rounds have passed. The
    largest mu is often attained at an astronomically small delta, so that `window` should fit the pair. The result is
    +inf if local_epsilon > 500, unless a floor ends the comparison before.

    With `delta_floor` > 0 only delta(eps) >= delta_floor is compared: then T >= G_mu - delta_floor.

    Args:
      num_reports, clone_prob, local_epsilon: floats, as for `clones_delta`.
      window: static, as for `clones_delta`.
      delta_floor: in [0, 1].
      tolerance: relative; it affects only how tight mu is.
    """
    if local_epsilon == 0.0:
        return 0.0
    params = num_reports, clone_prob, local_epsilon
    log_floor = math.log(delta_floor) if delta_floor > 0 else -math.inf
    edges = np.linspace(0.0, min(local_epsilon, MAX_EPSILON), 2 * _BATCH + 1)
    delta = _DELTA(edges, *params, window=window)
    log_upper, log_tail = np.array(delta.log_delta.upper), np.array(delta.log_tail)
    if log_upper[-1] > log_floor:
        return math.inf
    best = math.inf
    for _ in range(_MAX_PASSES):
        reached = np.append(True, log_upper[:-1] > log_floor)  # the first point at the floor is the last that counts
        upper = np.where(reached[1:], _VERTEX_MU(edges[:-1], log_upper[:-1], np.diff(edges), log_upper[1:]), 0.0)
        at_points = _POINT_MU(log_tail, np.minimum(np.logaddexp(log_upper, edges + log_tail), 0.0))
        best = min(best, float(np.max(upper)))
        split = np.argsort(-upper)[:_BATCH]
        split = split[upper[split] > np.max(at_points, initial=0.0, where=reached) * (1.0 + tolerance)]
        middles = 0.5 * (edges[split] + edges[split + 1])
        split = split[(middles > edges[split]) & (middles < edges[split + 1])]
        if split.size == 0:
            break
        middles = 0.5 * (edges[split] + edges[split + 1])
        padded = np.concatenate([middles, np.full(_BATCH - middles.size, middles[0])])
        delta = _DELTA(padded, *params, window=window)
        order = np.argsort(np.concatenate([edges, middles]), kind="stable")
        edges = np.concatenate([edges, middles])[order]
        log_upper = np.concatenate([log_upper, delta.log_delta.upper[: middles.size]])[order]
        log_tail = np.concatenate([log_tail, delta.log_tail[: middles.size]])[order]
    return best
