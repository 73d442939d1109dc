"""Renyi divergences of Poisson-sampled Laplace steps.

Zhu, Dong & Wang 2022, Theorem 11: a step's pair is (1-q) Q + q P against Q, P and Q the release's own, so that the
moments are those of 1 - q + q Y under Q, Y = dP/dQ.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._method import Cost, Lanes, RenyiMethod, always, orders_bytes
from jaxacct._types import Direction
from jaxacct.bounds._limits import with_limits
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds.laplace import top_of
from jaxacct.composition import compose_rdp
from jaxacct.divergence._ratio_moments import MOST_LOG, laplace_points, ratio_rdp
from jaxacct.divergence._two_sided import laplace_log_excess
from jaxacct.divergence.gaussian._sampled import binomial_log_excess
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special import at_real_orders, log1p, softplus, up

_NUM_NODES = 1025  # of the rule between the two atoms: it errs upward, by its step squared
_WHOLE_SLACK = 2.0**-48  # of the logarithms in the binomial sum, for each unit of the order

_Curve = Callable[..., jax.Array]


def _laplace_largest(mechanism: PoissonSampled, *, add: bool) -> jax.Array:
    """The divergence of order inf [L] of one step, rounded up: log(1 - q + q e^x), -log(1 - q + q e^-x)."""
    x, q = top_of(mechanism.mechanism), mechanism.sampling_prob
    if add:
        return up(-log1p(jnp.maximum(q * jnp.expm1(-x), -1.0 + 2.0**-53)), 64)
    near = x <= MOST_LOG
    return up(jnp.where(near, log1p(q * jnp.expm1(jnp.where(near, x, 1.0))), jnp.where(q > 0, x, 0.0)), 64)


def _laplace_at_nodes(mechanism: PoissonSampled, *, orders: Sequence[float], add: bool) -> jax.Array:
    """Divergences [A, L] of one step at real orders, by a rule that errs upward; the largest loss where x is large."""
    x, q = top_of(mechanism.mechanism), jnp.asarray(mechanism.sampling_prob)
    found = ratio_rdp(laplace_points(x, _NUM_NODES), q, orders=orders, add=add, defects=(0.0, 0.0))
    largest = _laplace_largest(mechanism, add=add)
    return jnp.where(x <= MOST_LOG, jnp.minimum(found, largest), largest)


def laplace_remove_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up, of T Poisson-sampled Laplace steps; orders >= 1.

    Whole orders by the binomial sum over the moments of Mironov 2017, Proposition 6, exact but for rounding; others
    the least of the chord between whole orders and of a rule on the density of Y that errs upward
    (`jaxacct.divergence._ratio_moments.laplace_points`).
    """
    x, q = top_of(mechanism.mechanism), mechanism.sampling_prob
    wanted = np.asarray(orders, np.float64)
    between = np.flatnonzero((wanted != np.floor(wanted)) | (wanted == 1.0))
    known = range(2, max(2, math.ceil(wanted.max())) + 1)
    column = jnp.asarray(known, jnp.float64)[:, None]
    some = jnp.where(q > 0, q, 0.5)
    log_excess = binomial_log_excess(laplace_log_excess(column, x), some)
    log_excess = log_excess + _WHOLE_SLACK * column * (2.0 + x - jnp.log(some))
    whole = jnp.where(q > 0, up(softplus(log_excess), 64) / (column - 1.0), 0.0)
    largest = _laplace_largest(mechanism, add=False)
    curve = jnp.minimum(at_real_orders(whole, known, np.maximum(wanted, 1.0 + 2.0**-40).tolist()), largest)
    if between.size:
        found = _laplace_at_nodes(mechanism, orders=tuple(wanted[between].tolist()), add=False)
        curve = curve.at[between].min(found)
    return compose_rdp([(curve, mechanism.num_steps)])


def laplace_add_rdp(mechanism: PoissonSampled, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, of T Poisson-sampled Laplace steps; real orders >= 1.

    E_Q[(1 - q + q Y)^-(a-1)] by the rule that errs upward, as in `laplace_remove_rdp`.
    """
    return compose_rdp([(_laplace_at_nodes(mechanism, orders=orders, add=True), mechanism.num_steps)])


def _laplace_largest_of_run(*, add: bool) -> _Curve:
    def of(mechanism: PoissonSampled) -> jax.Array:
        return compose_rdp([(_laplace_largest(mechanism, add=add)[None], mechanism.num_steps)])[0]

    return of


def _method(direction: Direction, rdp: _Curve) -> RenyiMethod:
    add = direction is Direction.ADD
    return RenyiMethod(
        name=f"rdp ({direction.value})",
        theorem="Mironov 2017, Proposition 6; Zhu, Dong & Wang 2022, Theorem 11",
        directions=(direction,),
        cost=Cost.MILLISECONDS,
        cold=Cost.SECONDS,
        only_traced=always,
        rdp=with_limits(rdp, largest=_laplace_largest_of_run(add=add)),
        least_order=1.0,
        grids=MIXED,
        lanes=Lanes(bytes=lambda **statics: 4 * orders_bytes(**statics), on_host=False),
    )


SAMPLED_LAPLACE = (_method(Direction.REMOVE, laplace_remove_rdp), _method(Direction.ADD, laplace_add_rdp))
