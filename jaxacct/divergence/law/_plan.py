"""Where the lines of an epoch's law are: steering only, every law is certified whatever they are.

Shapes: [B] points of one ratio; [J] lines; [V] distances of a line from 0 that are compared.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.law._law import where_least
from jaxacct.divergence.law._transform import Average
from jaxacct.special import expm1, log1p

NUM_LOW, NUM_HIGH = 5, 7  # lines below and above the mean
DIGITS = 12.0  # in log: copies and what lies beyond the last node are kept this far below what is wanted
_NUM_TILTS = 64  # points of the real axis that say how far down X reaches
_HALVINGS = 24  # of the interval in which the last grid point is sought
_THIN = 2  # so many points steer as one
_TILTS = np.geomspace(1.5, 90.0, 48)  # distances of the lines from 0 that are compared, over a length
_MOST = 300.0  # exponents of a line: their squares are doubles
_LOG_CONDITION = 20.0  # log of a line's summands over its sum above which rounding begins to show


class Plan(NamedTuple):
    """Where the lines are and which part of the profile they serve; [J] but for the last two."""

    start: Any  # x - 1 of the first grid point
    stop: Any  # and of the last
    centre: Any  # c
    period: Any
    cut: Any  # a ratio beyond it counts as a large one
    wanted: Any  # log of the error that the profile may have


def plan(of: Average, tail: Any) -> Plan:
    """`Plan` [J] of all lines; `tail` is about what may be cut off on either side. All of it only steers."""
    t, m = of.steps, jnp.sum(of.mass[1:].reshape(-1, _THIN), axis=1)
    w = jnp.sum((of.mass * of.excess)[1:].reshape(-1, _THIN), axis=1) / jnp.maximum(m, 1e-300)
    largest = of.excess[-1]

    def spread(x: Any) -> Any:
        """The standard deviation of X without ratios that alone lift it by x."""
        return jnp.sqrt(jnp.sum(m * jnp.where(w < t * x, w * w, 0.0)) / t)

    full = jnp.sqrt(jnp.sum(m * jnp.minimum(w * w, 1e200)) / t)
    bulk = jax.lax.fori_loop(0, 6, lambda _, s: spread(3.0 * s), full)

    def log_excess(x: Any) -> Any:
        """About log E(X - 1 - x)_+ : one large ratio beside a Gaussian bulk."""
        sd = jnp.maximum(spread(0.5 * x), 1e-3 * bulk)
        r = x / sd
        return jnp.log(
            jnp.sum(m * jnp.maximum(w - t * x, 0.0)) + sd * jnp.exp(-0.5 * r * r) * 0.4 / (1.0 + r * r) + 1e-300
        )

    def halve(_: int, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = 0.5 * (low + high)
        up = log_excess(jnp.exp(middle)) > jnp.log(tail)
        return jnp.where(up, middle, low), jnp.where(up, high, middle)

    first = jnp.log(0.5 * bulk), jnp.log(30.0 * full + (largest + 1.0) / t)
    top = 1.05 * jnp.exp(jax.lax.fori_loop(0, _HALVINGS, halve, first)[1])
    # E(y - X)_+ <= E e^{u (y - X) - 1} / u
    u = jnp.exp(jnp.log(0.3 / full) + jnp.log(1e6 * t * full / 0.3 + 3e3) * np.linspace(0.0, 1.0, _NUM_TILTS))
    total = jnp.sum(m)
    near = t * log1p(jnp.maximum(expm1(jnp.maximum(-(u / t)[:, None] * w, -700.0)) @ m / total, -1.0 + 1e-250))
    wanted = jnp.log(tail) + 1.0 + jnp.log(u)
    lowest = jnp.max((wanted - near) / u)
    lowest = jnp.max((wanted + jnp.log(jnp.clip(1.0 + lowest, 1e-12, 1.0)) - near) / u)
    # of few ratios X may be tiny: further down than this no line's exponents fit a double's square
    lowest = jnp.clip(lowest, -1.0 + jnp.maximum(1e-9, (0.006 / t) ** 1.54), -1e-9)
    log_low = log1p(lowest)
    # up to five deviations above the mean X has few large ratios: what is below is thin, which keeps periods short
    middle = jnp.minimum(5.0 * bulk, 0.5 * top)
    low = jnp.concatenate([expm1(log_low * np.array([1.0, 0.65, 0.36, 0.12])), jnp.stack([0.3 * middle, middle])])
    high = middle * jnp.exp(jnp.log(top / middle) * np.linspace(0.0, 1.0, NUM_HIGH + 1))
    start, stop = jnp.concatenate([low[:-1], high[:-1]]), jnp.concatenate([low[1:], high[1:]])
    cut = jnp.concatenate([jnp.full(NUM_LOW, jnp.inf), t * (stop[NUM_LOW:] - lowest) * (1.0 + 2.0**-40)])
    sign = np.where(np.arange(NUM_LOW + NUM_HIGH) < NUM_LOW, 1.0, -1.0)

    def line(row: Any) -> Any:
        """The centre, the period and the digits wanted of a line."""
        sign, start, stop, cut = row
        # as far as single ratios reach, or the bulk where that is further
        reach = jnp.where(
            sign > 0, jnp.minimum(4.0 * bulk - lowest, 1.0 + stop), jnp.minimum(cut, largest) / t + 4.0 * bulk
        )
        v = _TILTS / reach
        kept = jnp.where(w > cut, 0.0, m)
        exponents = -(sign * v / t)[:, None] * jnp.where(w > cut, 0.0, w)
        logs = expm1(jnp.minimum(exponents, _MOST)) @ kept - jnp.sum(jnp.where(w > cut, m, 0.0))
        logs = jnp.where(jnp.max(exponents, axis=1) < _MOST, t * log1p(jnp.maximum(logs, -1.0 + 1e-250)), jnp.inf)
        # where the profile is small, and where it is large
        near, far = jnp.where(sign > 0, start, stop), jnp.where(sign > 0, stop, start)
        below = [jnp.min(logs + sign * v * x - 1.0 - jnp.log(v)) - 1.5 for x in (near, far)]
        above = [log_excess(jnp.maximum(x, 0.1 * bulk)) - 1.0 for x in (near, far)]
        # a line on both sides of the mean joins lines above it, where what counts is the excess
        small = jnp.where(sign > 0, jnp.minimum(below[0], jnp.where(far > 0, above[1], 0.0)), above[0])
        large = jnp.where(sign > 0, below[1], above[1])
        small, large = jnp.maximum(small, jnp.log(tail)), jnp.maximum(large, jnp.log(tail))
        behind = (DIGITS - small + jnp.log(stop - start + bulk)) / v
        ahead = jnp.maximum(*(logs + sign * v * x - jnp.log(v) - f + DIGITS for x, f in ((near, small), (far, large))))
        gap = v[None, :] - v[:, None]
        ahead = jnp.min(
            jnp.where(gap > 0.02 * v[:, None], ahead[None, :] / jnp.where(gap > 0, gap, 1.0), jnp.inf), axis=1
        )
        # all ratios are at least 0: below the mean copies from further than that vanish
        ahead = jnp.where(sign > 0, jnp.minimum(ahead, 1.02 * (1.0 + stop)), ahead)
        period = jnp.maximum(behind, ahead)
        condition = jnp.maximum(*(logs + sign * v * x - f for x, f in ((near, small), (far, large))))
        cost = jnp.log(period) + 0.5 * jnp.maximum(condition - _LOG_CONDITION, 0.0)
        best, period = where_least(jnp.where(jnp.isfinite(cost), cost, jnp.inf), v, period)
        return sign * best, period, small - DIGITS

    centre, period, wanted = jax.lax.map(line, (sign, start, stop, cut))
    return Plan(*jax.lax.stop_gradient((start, stop, centre, period, cut, wanted)))
