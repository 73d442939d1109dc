"""Renyi divergences of Poisson-sampled Gaussian and Laplace steps.

Mironov, Talwar & Zhang 2019, "Renyi differential privacy of the sampled Gaussian mechanism". For Laplace steps Zhu,
Dong & Wang 2022, Theorem 11: a step's pair is (1-q) Q + q P against Q, where P and Q are the release's own, so that the
moments are those of 1 - q + q Y under Q, Y = dP/dQ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._method import NO_POINT, orders_bytes
from jaxacct.bounds._by_ratio import by_direction
from jaxacct.bounds.laplace import top_of
from jaxacct.composition import compose_rdp
from jaxacct.divergence._ratio_moments import MOST_LOG, laplace_points, ratio_rdp
from jaxacct.divergence._two_sided import laplace_log_excess
from jaxacct.divergence.gaussian._sampled import binomial_log_excess, sampled_gaussian_rdp
from jaxacct.divergence.gaussian._sampled_add import sampled_gaussian_add_rdp
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special import at_real_orders, expm1, log1p, softplus, up
from jaxacct.special._namespace import xp


def poisson_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up, of T Poisson-sampled Gaussian steps:

        R_a = T D_a((1-q) N(0, s^2) + q N(1, s^2) || N(0, s^2)).

    Mironov, Talwar & Zhang 2019, Section 3.3: exact at integer orders up to the rounding slack, certified at real ones.
    Theorems 4 and 5: this direction (remove) is the larger of the two, and one dimension is the worst. Add/remove
    adjacency; any s > 0, 0 <= q <= 1.
    """
    rdp = sampled_gaussian_rdp(mechanism.mechanism.noise_multiplier, mechanism.sampling_prob, orders=orders)
    return compose_rdp([(rdp, mechanism.num_steps)])


def poisson_add_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, of T Poisson-sampled Gaussian steps:

        R_a = T D_a(N(0, s^2) || (1-q) N(0, s^2) + q N(1, s^2)).

    Any real order, by quadrature with every error added; never above `poisson_rdp` (Mironov, Talwar & Zhang 2019,
    Theorem 5). Add/remove adjacency; any s > 0, 0 <= q <= 1.
    """
    sigma, q = mechanism.mechanism.noise_multiplier, mechanism.sampling_prob
    rdp = compose_rdp([(sampled_gaussian_add_rdp(sigma, q, orders=orders), mechanism.num_steps)])
    return xp.minimum(rdp, poisson_rdp(mechanism, orders=orders))


_NUM_NODES = 1025  # of the quadrature rule between the two atoms: it errs upward, by its step squared
_WHOLE_SLACK = 2.0**-48  # of the logarithms in the binomial sum, for each unit of the order


def _laplace_largest(mechanism: PoissonSampled, *, add: bool) -> jax.Array:
    """The divergence of order inf [L] of one step, rounded up: log(1 - q + q e^x), -log(1 - q + q e^-x)."""
    x, q = top_of(mechanism.mechanism), mechanism.sampling_prob
    if add:
        return up(-log1p(jnp.maximum(q * expm1(-x), -1.0 + 2.0**-53)), 64)
    near = x <= MOST_LOG
    return up(jnp.where(near, log1p(q * expm1(jnp.where(near, x, 1.0))), jnp.where(q > 0, x, 0.0)), 64)


def _laplace_at_nodes(mechanism: PoissonSampled, *, orders: Sequence[float], add: bool) -> jax.Array:
    """Divergences [A, L] of one step at real orders, by quadrature that errs upward; the largest loss at large x."""
    x, q = top_of(mechanism.mechanism), jnp.asarray(mechanism.sampling_prob)
    found = ratio_rdp(laplace_points(x, _NUM_NODES), q, orders=orders, add=add, defects=(0.0, 0.0))
    largest = _laplace_largest(mechanism, add=add)
    return jnp.where(x <= MOST_LOG, jnp.minimum(found, largest), largest)


def _whole_orders(mechanism: PoissonSampled, orders: Sequence[float]) -> jax.Array:
    """Divergences [A, L] of one step, remove direction: of whole orders, and on the chord between them."""
    x, q = top_of(mechanism.mechanism), mechanism.sampling_prob
    known = range(2, max(2, math.ceil(max(orders))) + 1)
    column = jnp.asarray(known, jnp.float64)[:, None]
    some = jnp.where(q > 0, q, 0.5)
    log_excess = binomial_log_excess(laplace_log_excess(column, x), some)
    log_excess = log_excess + _WHOLE_SLACK * column * (2.0 + x - jnp.log(some))
    whole = jnp.where(q > 0, up(softplus(log_excess), 64) / (column - 1.0), 0.0)
    largest = _laplace_largest(mechanism, add=False)
    return jnp.minimum(at_real_orders(whole, known, np.maximum(orders, 1.0 + 2.0**-40).tolist()), largest)


def laplace_rdp(mechanism: PoissonSampled, *, orders: Sequence[float], add: bool) -> jax.Array:
    """Renyi divergences [A, L], one direction, rounded up, of T Poisson-sampled Laplace steps; orders >= 1.

    A quadrature rule on the density of Y that errs upward (`jaxacct.divergence._ratio_moments.laplace_points`) gives
    the moments E_Q[(1 - q + q Y)^a], in the add direction E_Q[(1 - q + q Y)^-(a-1)]. In the remove direction whole
    orders use the binomial sum over the moments of Mironov 2017, Proposition 6, exact but for rounding, and others the
    lesser of the chord between whole orders and the rule.
    """
    if add:
        return compose_rdp([(_laplace_at_nodes(mechanism, orders=orders, add=True), mechanism.num_steps)])
    wanted = np.asarray(orders, np.float64)
    between = np.flatnonzero((wanted != np.floor(wanted)) | (wanted == 1.0))
    curve = _whole_orders(mechanism, orders)
    if between.size:
        found = _laplace_at_nodes(mechanism, orders=tuple(wanted[between].tolist()), add=False)
        curve = curve.at[between].min(found)
    return compose_rdp([(curve, mechanism.num_steps)])


SAMPLED_LAPLACE = by_direction(
    laplace_rdp,
    lambda run, *, add: compose_rdp([(_laplace_largest(run, add=add)[None], run.num_steps)])[0],
    theorem="Mironov 2017, Proposition 6; Zhu, Dong & Wang 2022, Theorem 11",
    lane_bytes=lambda **statics: 4 * orders_bytes(**statics),
    numpy=NO_POINT,
)
