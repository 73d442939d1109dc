"""Renyi divergences from the likelihood ratio 1 - q + q Y at finitely many points, which represent its whole law.

With x = q (Y - 1), E x = 0, and a power s (a, or 1 - a in the add direction), E[(1+x)^s] = 1 + E f, f(x) = (1+x)^s - 1
- s x >= 0. The points are the outputs of a release that has few of them, or the nodes of a quadrature rule whose value
is an upper bound for every convex f. Shapes: N points, L lanes, A Renyi orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.response._renyi import power_excess
from jaxacct.special import ULP, expm1, log1p, log_or_minus_inf, log_sum_exp, map_rows, softplus, up

_NEAR_ONE = 2.0**-26  # order less 1 from which the divergence of order 1 is read: f is convex in the power, and grows
MOST_LOG = 300.0  # largest log of a ratio that is considered: the ratio's square must be a double
_LARGE = 1e300  # cap on a divergence, which a bound by the largest loss replaces


class RatioPoints(NamedTuple):
    """The points of the law, each field [N, L]: logarithms of their weights under Q, and of Y."""

    log_weights: jax.Array
    log_ratios: jax.Array


def laplace_points(largest: jax.Array, num_nodes: int) -> RatioPoints:
    """`RatioPoints` of the law of Y = e^v under Q, for Laplace noise of largest loss x [L], by a rule that errs upward.

    Y has the atoms e^-x, of mass 1/2, and e^x, of mass e^-x / 2, and between them the density e^(-(v + x)/2) / 4 in v.
    The rule is the trapezoid rule in v: e^(-v/2) f(q (e^v - 1)) is convex in v for each convex f with f(0) = f'(0) = 0,
    since f is a mixture of (e^v - c)_+ and (c - e^v)_+, and the second derivative of e^(-v/2) (e^v - c) is a quarter of
    that function itself; so no chord lies below the integrand.
    """
    x = jnp.minimum(largest, MOST_LOG)
    at = (jnp.arange(1.0 - num_nodes, num_nodes, 2.0, dtype=jnp.float64) / (num_nodes - 1.0))[:, None]
    inner = -0.5 * (1.0 + at) * x + jnp.log(0.5 * jnp.maximum(x, 1e-300) / (num_nodes - 1))  # 1/4 of a step of 2x/(N-1)
    ends = jnp.abs(at) == 1.0
    atom = jnp.where(at < 0.0, 0.0, -x) - jnp.log(2.0)
    half = inner - jnp.log(2.0)
    return RatioPoints(jnp.where(ends, jnp.logaddexp(atom, half), inner), at * x)


def _mixed(points: RatioPoints, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """x = q (Y - 1), log(1 + x), and whether that is -inf, [N, L] each; -1000 replaces -inf."""
    log_y = jnp.maximum(points.log_ratios, -1e3)  # where P has no mass
    x = q * expm1(log_y)
    near = jnp.abs(x) < 0.5
    ratio = (1.0 - q) + q * jnp.exp(log_y)
    gone = (ratio <= 0.0) & (points.log_weights > -jnp.inf)
    log_far = jnp.log(jnp.where(near | (ratio <= 0.0), 1.0, ratio))
    log_ratio = jnp.where(near, log1p(jnp.where(near, x, 0.0)), jnp.where(ratio <= 0.0, -1e3, log_far))
    return x, log_ratio, gone


def ratio_largest(points: RatioPoints, sampling_prob: jax.Array, *, add: bool) -> jax.Array:
    """The divergence of order inf [L], rounded up: the largest log(1 + x), or if `add` the largest -log(1 + x).

    If `add`, it is inf where 1 + x is 0 at a point that has mass.
    """
    _, log_ratio, gone = _mixed(points, sampling_prob)
    largest = jnp.max(-log_ratio if add else log_ratio, axis=0)
    return jnp.where(add & jnp.any(gone, axis=0), jnp.inf, up(jnp.maximum(largest, 0.0), 64))


def ratio_rdp(
    points: RatioPoints, sampling_prob: jax.Array, *, orders: Sequence[float], add: bool, defects: tuple[float, float]
) -> jax.Array:
    """Renyi divergences [A, L], rounded up, at real orders >= 1, of one step sampled with probability q [L].

    They come from E_Q[(1+x)^a] (remove, `add` False) or E_Q[(1+x)^-(a-1)] (add). At order 1 the limits,
    E_Q[(1+x) log(1+x)] and -E_Q[log(1+x)], are bounded by the slope of the power up to 2^-26 beyond it, which is no
    less since powers are convex. inf where the numerator has mass at a point and the denominator has none.

    Args:
      defects: how far the sum of Q's probabilities is from 1, and that of P's from that of Q's, >= 0; both are added.
    """
    q = jnp.where(sampling_prob > 0, sampling_prob, 0.5)
    log_weights, (x, log_ratio, gone) = points.log_weights, _mixed(points, q)
    spread = jnp.max(jnp.abs(log_ratio), axis=0)
    lost = jnp.any(gone, axis=0)

    # Error of f from errors in x and log(1+x), over 1 + |s|: log1p's 5 ULP up to 160 times where f cancels; 12 ULP of
    # x, and 6 of log Y above 0, at most 2.6 times or, with x near -1, |log(1+x)| times.
    moved = 2.0**-43 + 2.0**-48 * spread + 16.0 * ULP * jnp.maximum(points.log_ratios, 0.0)

    def row(power: jax.Array, divisor: jax.Array, is_one: jax.Array) -> jax.Array:
        value, exponent, error = power_excess(power, x, log_ratio)
        error = error + (1.0 + jnp.abs(power)) * moved
        # a mass that vanishes keeps a finite derivative
        terms = jnp.log(jnp.maximum(value, 1e-300)) + exponent + log_weights + error
        log_excess = log_sum_exp(terms) + 2.0**-40
        first, second = defects
        lacks = jnp.where(is_one, second * q, first + jnp.abs(power) * second * q)
        several = softplus(jnp.logaddexp(log_excess, log_or_minus_inf(lacks))) / divisor
        one = jnp.exp(log_excess) / _NEAR_ONE + lacks
        found = up(jnp.where(is_one, one, several), 2**10)
        return jnp.where(add & lost, jnp.inf, jnp.minimum(found, _LARGE))

    a = np.asarray(orders, np.float64)
    ones = a == 1.0
    divisor = np.where(ones, _NEAR_ONE, a - 1.0)
    power = -divisor if add else 1.0 + divisor
    rows = map_rows(row, *(jnp.asarray(v) for v in (power, divisor, ones)))
    return jnp.where(sampling_prob > 0, rows, 0.0)
