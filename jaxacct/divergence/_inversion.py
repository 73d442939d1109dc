"""delta(epsilon) of a composition from the complex moments of its rounds, by one contour integral, certified.

With M(s) = E_Q[(dP/dQ)^s] of the whole composition and a > 1 (RA-X4),

    delta(eps) = (1/2 pi i) int_{Re s = a} M(s) e^{eps (1 - s)} / (s (s - 1)) ds.

The trapezoid rule with step h = 2 pi / T commits no other error than aliases (Poisson summation): the sum is
*exactly*

    sum_j e^{(a - 1) j T} delta(eps + j T),    j over all integers,

every term of which is non-negative and has an elementary bound. So the sum lies above delta, and a lower bound is the
sum less those. What remains is what lies beyond the last node, at most |M| there, and rounding. Renyi accounting is the
saddle-point bound on this integral.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxacct._types import Ends

_GROWTH = 1.25  # between the edges of the decay table
_NUM_EDGES = 64
ALIAS_FACTORS = (1.1, 1.25, 1.5, 2.0)  # of a - 1: orders whose Renyi moments bound the aliases on the right
_LOG_ALIAS = -27.0  # what an alias may come to, over delta
_NUM_NEWTON = 14
_SLACKS = (1.0, 1e2, 1e4, 1e6)  # of the estimated error of epsilon, tried in turn


class Line(NamedTuple):
    """The contour: Re s = `order` [L], nodes order + i `heights` [N, L], 2 pi / `period` [L] apart; those `used` count.

    `edges` [K, L] are heights from the first beyond the last node on; `alias_orders` [J, L] real orders.
    """

    order: jax.Array
    period: jax.Array
    heights: jax.Array
    used: jax.Array
    edges: jax.Array
    alias_orders: jax.Array


class LineMoments(NamedTuple):
    """log M(s) on a `Line`.

    `log_modulus` and `phase` [N, L] of M at the nodes, |relative error of M| <= expm1(`error`) [N, L].
    `log_alias` [J, L], at least log M at the alias orders. `log_decay` [K, L], at least log |M(a + ib) / M(a)|
    for b between an edge and the next, and beyond the last one.
    """

    log_modulus: jax.Array
    phase: jax.Array
    error: jax.Array
    log_alias: jax.Array
    log_decay: jax.Array


def alias_orders(order: jax.Array) -> jax.Array:
    """[J, L], above `order`."""
    return 1.0 + jnp.asarray(ALIAS_FACTORS, jnp.float64)[:, None] * (order - 1.0)


def make_line(
    order: jax.Array,
    epsilon: jax.Array,
    log_delta: jax.Array,
    log_alias: jax.Array,
    highest: jax.Array,
    *,
    num_nodes: int,
) -> Line:
    """The line through `order` > 1 whose nodes are as far apart as the aliases allow, none above `highest`.

    `epsilon`, `log_delta` and `log_alias` (log M at the alias orders) need only be about right.
    """
    c = alias_orders(order)
    left = (-log_delta - _LOG_ALIAS) / (order - 1.0)
    right = (log_alias - (c - 1.0) * epsilon - jnp.log(c - 1.0) - log_delta - _LOG_ALIAS) / (c - order)
    period = jnp.maximum(left, jnp.min(jnp.where(jnp.isnan(right), jnp.inf, right), axis=0))
    period = jnp.where(jnp.isfinite(period), period, 1.0)
    step = 2.0 * jnp.pi / period
    heights = step * jnp.arange(num_nodes, dtype=jnp.float64)[:, None]
    growth = _GROWTH ** jnp.arange(_NUM_EDGES, dtype=jnp.float64)[:, None]
    num_used = jnp.clip(jnp.floor(highest / step) + 1.0, 1.0, num_nodes)
    return Line(order, period, heights, heights < (num_used - 0.5) * step, num_used * step * growth, c)


class _Sum(NamedTuple):
    value: jax.Array
    slope: jax.Array
    below: jax.Array
    above: jax.Array


def _trapezoid(line: Line, moments: LineMoments, epsilon: jax.Array) -> _Sum:
    """The sum, its derivative in epsilon, and how far delta may lie below and above it; all over e^shift [L].

    shift = log M(a) + eps (1 - a) keeps what is summed near 1.
    """
    a, b = line.order, line.heights
    angle = moments.phase - epsilon * b
    size = jnp.exp(moments.log_modulus - moments.log_modulus[0]) * jnp.where(b == 0, 0.5, 1.0)
    size = jnp.where(line.used, size, 0.0)
    # 1 / (s (s - 1)) = (a - ib)(a - 1 - ib) / (|s|^2 |s - 1|^2)
    weight = size / ((a * a + b * b) * ((a - 1.0) ** 2 + b * b))
    real, imag = a * (a - 1.0) - b * b, -b * (2.0 * a - 1.0)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    term = weight * (real * cos - imag * sin)
    # times 1 - s for the slope: (1 - a) - ib
    other = weight * (real * sin + imag * cos)
    slope = (1.0 - a) * term + b * other
    scale = 2.0 / line.period
    modulus = weight * jnp.hypot(real, imag)
    rounding = 2.0**-50 * (16.0 + jnp.abs(moments.phase) + jnp.abs(epsilon) * b + jnp.abs(moments.log_modulus))
    spread = jnp.where(line.used, jnp.expm1(jnp.minimum(moments.error, 300.0)) + rounding, 0.0)
    error = scale * jnp.sum(modulus * spread, axis=0)
    # beyond the last node: |M| decays, and the sum of 1/k^2 from N on is below 1/(N - 1/2)
    first = line.edges[0] - jnp.pi / line.period
    error = error + jnp.exp(jnp.max(moments.log_decay, axis=0)) * scale * line.period / (2.0 * jnp.pi * first)
    return _Sum(scale * jnp.sum(term, axis=0), scale * jnp.sum(slope, axis=0), error, error)


def _aliases(line: Line, moments: LineMoments, epsilon: jax.Array) -> jax.Array:
    """log of a bound on sum over j != 0 of e^{(a-1) j T} delta(eps + j T), [L].

    On the left delta <= 1. On the right delta(e) <= e^{log M(c) - (c-1) e} (1 - 1/c)^c / (c - 1), any c > a.
    """
    a, period = line.order, line.period
    left = -(a - 1.0) * period
    c = line.alias_orders
    ratio = -(c - a) * period
    bound = moments.log_alias - (c - 1.0) * epsilon + c * jnp.log1p(-1.0 / c) - jnp.log(c - 1.0) + ratio
    right = jnp.min(bound - jnp.log(-jnp.expm1(ratio)), axis=0)
    return jnp.logaddexp(left - jnp.log(-jnp.expm1(left)), right) + 1e-9


def delta_ends(line: Line, moments: LineMoments, epsilon: jax.Array) -> Ends[jax.Array]:
    """log delta at `epsilon` [L], bracketed; (-inf, 0) at worst."""
    found = _trapezoid(line, moments, epsilon)
    shift = moments.log_modulus[0] + epsilon * (1.0 - line.order)
    slack = 2.0**-48 * (1.0 + jnp.abs(shift))
    above = jnp.maximum(found.value, 0.0) + found.above
    aliases = jnp.exp(jnp.minimum(_aliases(line, moments, epsilon) - shift, 700.0))
    below = found.value - found.below - aliases
    upper = jnp.where(above < jnp.inf, jnp.log(above) + shift + slack, 0.0)
    lower = jnp.where(below > 0, jnp.log(jnp.where(below > 0, below, 1.0)) + shift - slack, -jnp.inf)
    ok = ~jnp.isnan(upper) & ~jnp.isnan(lower)
    return Ends(jnp.where(ok, jnp.minimum(lower, 0.0), -jnp.inf), jnp.where(ok, jnp.minimum(upper, 0.0), 0.0))


def delta_centre(line: Line, moments: LineMoments, epsilon: jax.Array) -> jax.Array:
    """log delta by the sum itself, without its error bounds: to be differentiated."""
    found = _trapezoid(line, moments, epsilon)
    positive = found.value > 0
    shift = moments.log_modulus[0] + epsilon * (1.0 - line.order)
    return jnp.where(positive, jnp.log(jnp.where(positive, found.value, 1.0)) + shift, -jnp.inf)


def epsilon_ends(line: Line, moments: LineMoments, log_delta: jax.Array, start: jax.Array) -> Ends[jax.Array]:
    """The epsilon at which delta is exp(`log_delta`) [L], bracketed; (0, inf) at worst.

    Newton's method on log delta from `start`, then steps outward until the bracket of delta confirms each end.
    """

    def newton(_: int, state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        low, high, epsilon = state
        found = _trapezoid(line, moments, epsilon)
        shift = moments.log_modulus[0] + epsilon * (1.0 - line.order)
        usable = (found.value > 0) & (found.slope < 0)
        residual = jnp.log(jnp.where(usable, found.value, 1.0)) + shift - log_delta
        too_far = ~usable | (residual < 0)
        low, high = jnp.where(too_far, low, epsilon), jnp.where(too_far, epsilon, high)
        moved = epsilon - residual * found.value / jnp.where(usable, found.slope, -1.0)
        # at the root itself rounding may point out of the bracket
        inside = usable & (moved >= low * (1.0 - 2.0**-40)) & (moved <= high * (1.0 + 2.0**-40))
        return low, high, jnp.where(inside, jnp.clip(moved, low, high), 0.5 * (low + high))

    root = jax.lax.fori_loop(0, _NUM_NEWTON, newton, (jnp.zeros_like(start), start, start))[2]
    found = _trapezoid(line, moments, root)
    shift = moments.log_modulus[0] + root * (1.0 - line.order)
    aliases = jnp.exp(jnp.minimum(_aliases(line, moments, root) - shift, 700.0))
    error = (found.above + aliases) / jnp.maximum(-found.slope, 1e-300)
    error = error + 2.0**-46 * (1.0 + jnp.abs(shift)) * found.value / jnp.maximum(-found.slope, 1e-300)
    error = 1.1 * error + 2.0**-50 * root
    slacks = jnp.asarray(_SLACKS, jnp.float64)[:, None]
    outer = jnp.concatenate([jnp.zeros_like(root)[None], root + slacks * error])
    inner = jnp.maximum(root - slacks * error, 0.0)
    tried = jax.lax.map(lambda e: delta_ends(line, moments, e), jnp.concatenate([outer, inner]))
    fits = tried.upper[: outer.shape[0]] <= log_delta
    holds = tried.lower[outer.shape[0] :] >= log_delta
    upper = jnp.min(jnp.where(fits, outer, jnp.inf), axis=0)
    return Ends(jnp.max(jnp.where(holds, inner, 0.0), axis=0), upper)
