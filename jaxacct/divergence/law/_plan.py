"""Choice of the lines for an epoch's law. The law is certified whatever the lines are.

JAX's own elementary functions suffice here; certified code uses those of `jaxacct.special`, whose errors are known.

Shapes: [B] points of one ratio; [J] lines; [V] distances of a line from 0 that are compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.law._law import value_at_minimum
from jaxacct.divergence.law._transform import Average

NUM_LOW, NUM_HIGH = 5, 7  # lines below and above the mean
DIGITS = 10.0  # in log: copies and the part beyond the last node are kept this far below what is wanted
_NUM_TILTS = 64  # points of the real axis by which the lower end of X is found
_NUM_DISTANCES = 256  # distances from the mean at which the tail of X is estimated
_THIN = 2  # points that are merged into one
_TILTS = np.geomspace(1.5, 90.0, 48)  # distances of the lines from 0 that are compared, over a length
_MOST = 300.0  # exponents of a line: their squares are doubles
_LOG_CONDITION = 18.0  # log of a line's summands over its sum above which rounding begins to show


class LinePlan(NamedTuple):
    """The places of the lines and the parts of the profile for which they are used; [J]."""

    start: Any  # x - 1 of the first grid point
    stop: Any  # and of the last
    cut: Any  # a ratio beyond it counts as a large one
    centre: Any  # c
    period: Any
    wanted: Any  # log of the error allowed in the profile


def plan(of: Average, tail: Any) -> LinePlan:
    """`LinePlan` [J] of all lines; `tail` is the approximate mass that may be cut off on either side."""
    t, log_tail = of.steps, jnp.log(tail)
    parts = jnp.sum(jnp.stack([of.mass, of.mass * of.excess])[:, 1:].reshape(2, -1, _THIN), axis=2)
    points = jnp.stack([parts[0], parts[1] / jnp.maximum(parts[0], 1e-300)])
    bulk, full, top, excess = _far(points, t, of.excess[-1], log_tail)
    lowest, highest = _ends(points, t, full, log_tail)
    # where X ends, the variance that lines add moves it beyond
    least = jnp.min(jnp.where(points[0] > 0.0, points[1], jnp.inf))
    lowest = jnp.where(lowest < least + 0.1 * bulk, jnp.maximum(lowest - 0.06 * bulk, 0.5 * (lowest - 1.0)), lowest)
    # with few ratios X may be tiny: further down than this the squares of a line's exponents are not doubles
    lowest = jnp.maximum(lowest, -1.0 + jnp.maximum(1e-9, jnp.exp(1.54 * jnp.log(0.006 / t))))
    # several ratios that are large together, as in few steps with much noise, take X further than one alone; where a
    # single one does, Chernoff's bound is loose
    is_shared = (highest < 2.0 * top) | (of.excess[-1] < t * top)
    top = jnp.where(is_shared, jnp.maximum(highest, top), top)
    # up to five deviations above the mean X has few large ratios: what is below is thin, which keeps periods short
    middle = jnp.minimum(5.0 * bulk, 0.5 * top)
    low = jnp.expm1(jnp.log1p(lowest) * np.array([1.0, 0.65, 0.36, 0.12]))
    high = middle * jnp.exp(jnp.log(top / middle) * np.linspace(0.0, 1.0, NUM_HIGH + 1))
    x = jnp.concatenate([low, 0.3 * middle[None], high])
    start, stop, is_low = x[:-1], x[1:], np.arange(NUM_LOW + NUM_HIGH) < NUM_LOW
    cut = jnp.where(is_low, jnp.inf, t * (stop - lowest) * (1.0 + 2.0**-40))
    # where the profile is small, and where it is large
    ends = jnp.where(is_low, jnp.stack([start, stop]), jnp.stack([stop, start]))
    # as far as single ratios reach, or the bulk where that is further
    reach = jnp.where(
        is_low, jnp.minimum(4.0 * bulk - lowest, 1.0 + stop), jnp.minimum(cut, of.excess[-1]) / t + 4.0 * bulk
    )
    logs = _log_transforms(points, t, cut, _TILTS / reach[:, None], is_low)
    above = _read(excess, jnp.maximum(ends, 0.1 * bulk)) - 1.0
    return LinePlan(start, stop, cut, *_lines(logs, reach, ends, above, stop - start + bulk, log_tail))


def _far(points: Any, t: Any, largest: Any, log_tail: Any) -> tuple[Any, Any, Any, Any]:
    """The deviation of X without large ratios, and with them; the x beyond which only the tail lies; and a table [2, X]
    of log x and approximate log E(X - 1 - x)_+, from one large ratio and a Gaussian bulk."""
    m, w = points
    square = m * jnp.minimum(w * w, 1e200)
    full = jnp.sqrt(jnp.sum(square) / t)
    ends = jnp.log(jnp.stack([1e-2 * full, 30.0 * full + (largest + 1.0) / t]))
    log_x = ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, _NUM_DISTANCES)
    reached = t * jnp.exp(log_x)[:, None]
    # a ratio that contributes half of x counts as large
    within, alone = jnp.sum(
        jnp.stack([jnp.where(w < 0.5 * reached, square, 0.0), m * jnp.maximum(w - reached, 0.0)]), axis=2
    )
    sd = jnp.sqrt(within / t)
    # six deviations apart from what is left out
    bulk = jnp.max(jnp.where(jnp.exp(log_x) <= 6.0 * sd, sd, 1e-2 * full))
    sd = jnp.maximum(sd, 1e-3 * bulk)
    r = jnp.exp(log_x) / sd
    excess = jnp.log(alone + sd * jnp.exp(-0.5 * r * r) * 0.4 / (1.0 + r * r) + 1e-300)
    table = jnp.stack([log_x, excess])
    before, after = table[:, :-1], table[:, 1:]
    share = jnp.clip((before[1] - log_tail) / jnp.maximum(before[1] - after[1], 1e-9), 0.0, 1.0)
    crossed = jnp.where((after[1] <= log_tail) & (log_x[1:] > jnp.log(0.5 * bulk)), 0.0, jnp.inf)
    top = 1.05 * jnp.exp(jnp.min(before[0] + share * (after[0] - before[0]) + crossed, initial=1e3))
    return bulk, full, jnp.minimum(top, 1.05 * jnp.exp(ends[1])), table


def _read(table: Any, x: Any) -> Any:
    """The second row of `table`, interpolated at log x [..] in its first row."""
    log_x, values = table
    at = (jnp.log(x)[..., None] - log_x[0]) / (log_x[1] - log_x[0])
    near = jnp.clip(at, 0.0, _NUM_DISTANCES - 1.0) - np.arange(_NUM_DISTANCES)
    return jnp.sum(jnp.maximum(1.0 - jnp.abs(near), 0.0) * values, axis=-1)


def _ends(points: Any, t: Any, full: Any, log_tail: Any) -> tuple[Any, Any]:
    """The x - 1 below which, and the one beyond which, X lies with no more mass than the tail.

    E(y - X)_+ <= E e^{u (y - X) - 1} / u, and E(X - y)_+ likewise.
    """
    m, w = points
    log_u = jnp.log(0.3 / full) + jnp.log(1e6 * t * full / 0.3 + 3e3) * np.linspace(0.0, 1.0, _NUM_TILTS)
    u = jnp.exp(log_u)
    rates, furthest = u / t, jnp.stack([-jnp.ones_like(w[-1]), w[-1]])[:, None]
    exponents = np.array([-1.0, 1.0])[:, None, None] * rates[:, None] * w
    # masses add up to nearly 1
    logs = jnp.sum(m * jnp.expm1(jnp.clip(exponents, -700.0, 700.0)), axis=2)
    logs = t * jnp.log1p(jnp.maximum(logs, -1.0 + 1e-250)) - (log_tail + 1.0 + log_u)
    below, above = jnp.where(jnp.abs(rates * furthest) < 700.0, logs, jnp.inf)
    lowest = jnp.max(-below / u)
    lowest = jnp.max((jnp.log(jnp.clip(1.0 + lowest, 1e-12, 1.0)) - below) / u)
    highest = jnp.min(above / u)
    return jnp.clip(lowest, -1.0 + 1e-12, -1e-9), highest


def _log_transforms(points: Any, t: Any, cut: Any, v: Any, is_low: Any) -> Any:
    """[2, J, V]: log E e^{-v (X - 1)} below the mean, e^{v (X - 1)} above, without large ratios, or inf; and v."""
    m, w = points
    kept = w <= cut[:, None, None]
    rates = jnp.where(is_low, -1.0, 1.0)[:, None] * v / t
    exponents = rates[..., None] * jnp.where(kept, w, 0.0)
    sums = jnp.sum(jnp.where(kept, m * jnp.expm1(jnp.minimum(exponents, _MOST)), -m), axis=2)
    logs = t * jnp.log1p(jnp.maximum(sums, -1.0 + 1e-250))
    most = v / t * jnp.where(is_low, 1.0, jnp.minimum(cut, w[-1]))[:, None]
    return jnp.stack([jnp.where(most < _MOST, logs, jnp.inf), v])


def _lines(logs: Any, reach: Any, ends: Any, above: Any, length: Any, log_tail: Any) -> Any:
    """[3, J]: centres, periods, and the digits wanted."""
    logs, v = logs
    is_low = np.arange(len(reach)) < NUM_LOW
    sizes = logs + jnp.where(is_low, 1.0, -1.0)[:, None] * v * ends[..., None] - jnp.log(v)
    below = jnp.min(sizes, axis=2) - 2.5
    # a line on both sides of the mean joins lines above it, where the excess is what matters
    joined = jnp.minimum(below[0], jnp.where(ends[1] > 0, above[1], 0.0))
    wanted = jnp.where(is_low, jnp.stack([joined, below[1]]), above)
    wanted = jnp.maximum(wanted, log_tail)
    over = jnp.max(sizes - wanted[..., None], axis=0)
    behind = (DIGITS - wanted[0] + jnp.log(length))[:, None] / v
    gap = v[:, None, :] - v[:, :, None]
    far = gap > 0.02 * v[:, :, None]
    ahead = jnp.min(jnp.where(far, (over + DIGITS)[:, None, :] / jnp.where(far, gap, 1.0), jnp.inf), axis=2)
    # all ratios are at least 0: below the mean copies from further than that vanish
    ahead = jnp.where(is_low[:, None], jnp.minimum(ahead, 1.02 * (1.0 + ends[1])[:, None]), ahead)
    period = jnp.maximum(behind, ahead)
    cost = jnp.log(period) + 0.5 * jnp.maximum(over + jnp.log(v) - _LOG_CONDITION, 0.0)
    cost = jnp.where(jnp.isfinite(cost), cost, jnp.inf)
    best, period = jax.vmap(value_at_minimum, (0, 1), 1)(cost, jnp.stack([v, period]))
    return jnp.stack([jnp.where(is_low, best, -best), period, wanted[0] - DIGITS])
