"""One epoch of 1-out-of-t random allocation on lanes: both ends of delta and epsilon from one vertical line.

X is the average of t likelihood ratios, as in `jaxacct.divergence.allocation._profile`. The trapezoid rule of
`jaxacct.divergence.allocation._lines` on a line Re z = c > 0 gives E(x - (X-1))_+ and shifted copies of it, all of
them positive: an upper bound as it stands, whatever c, the step and x are, and less E(x - (X-1)) = x it is one of
E(X-1-x)_+. What a fixed number of nodes does not reach is damped: with X' = X + tau g, g standard normal and
independent, E(x - (X'-1))_+ is at least E(x - (X-1))_+ by convexity, exceeds it by at most tau^2 times the density of
X', and its transform falls like e^{-tau^2 y^2/2} whatever the law of X is.

Shapes: [L] lanes, of either direction; [L, Z] nodes of the rule in the Gaussian variable; [L, N] nodes of the line.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct._types import Ends
from jaxacct.divergence.allocation._lane_rule import (
    INNER,
    Rule,
    centred_transform,
    complex_log1p,
    exp,
    log_decay,
    log_transform,
    rule,
    size_of,
)
from jaxacct.special import ULP, expm1, log1p

# The rest steers tightness: every end is certified whatever they are.
_DIGITS = 10.0  # in log: copies and what lies beyond the last node are kept this far below delta
_WIDER = np.array([1.0, 1.5, 2.5, 4.0, 7.0, 12.0])  # periods tried, less x, in units of x
_FAR = np.array([1.3, 1.7, 2.5, 4.0, 8.0])  # over c: where transforms bound the copies
_NUM_SADDLES = 56  # points of the real axis among which that of the add direction is chosen
_NUM_NEWTON = 9  # steps of Newton's method towards epsilon, the same number for every lane
# Distances from the root at which ends are tried, relative.
_MOVES = (0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)


class Sum(NamedTuple):
    """The line's trapezoid sum, ready for any x: its terms are e^{log_scale} e^{(c + iy) x} terms."""

    centre: Any  # [L], c
    step: Any  # [L], h
    terms: Any  # complex [L, N]
    log_scale: Any  # [L], as all below
    error: Any  # sums over the nodes: |term| times its relative error
    size: Any  # |term|
    size_z: Any  # |z term|
    error_2: Any  # |z^2 term| times its relative error
    size_2: Any  # |z^2 term|
    log_tail: Any  # log of a bound on what lies beyond the last node, at x = 0
    square: Any  # tau^2
    far: Any  # [L, J]: real points beyond c
    far_logs: Any  # [L, J]: at least log E e^{-z (X'-1)} there
    spread: Any  # at least E|X' - 1|


class Value(NamedTuple):
    """E(x - (X'-1))_+ and copies [L], its derivative in x, and bounds."""

    value: Any
    slope: Any
    error: Any  # |value - that of the whole sum| is at most this
    excess: Any  # at least the copies and what tau adds


def _normal_excess(a: Any) -> Any:
    """E(g - a)_+, about."""
    return jnp.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi) - 0.5 * a * jax.scipy.special.erfc(a / math.sqrt(2.0))


class _Plan(NamedTuple):
    """Where a line may be: c, the period, x and log of the sum's value there, all [L]."""

    centre: Any
    period: Any
    x: Any
    log_value: Any


def _rough_remove(of: Rule, steps: Any, log_x: Any) -> tuple[Any, Any]:
    """About log delta [L] at x: one large ratio beside a Gaussian bulk; and the bulk's standard deviation."""
    s, x = of.s, jnp.exp(log_x)

    def ndtr(z: Any) -> Any:
        return 0.5 * jax.scipy.special.erfc(-z / math.sqrt(2.0))

    y = 1.0 + steps * x
    d = (0.5 * s * s - jnp.log(y)) / s
    jump = jnp.maximum(ndtr(d) - y * ndtr(d - s), 0.0)
    b = jnp.log(jnp.maximum(1.0 + 0.5 * steps * x, 1.0001))
    second = jnp.exp(jnp.minimum(s * s, 600.0)) * ndtr(b / s - 1.5 * s) - 2.0 * ndtr(b / s - 0.5 * s)
    bulk = jnp.sqrt(jnp.maximum(second + ndtr(b / s + 0.5 * s), 1e-3 * s * s) / steps)
    return jnp.log(jump + bulk * jnp.maximum(_normal_excess(x / bulk), 0.0) + 1e-300), bulk


def _plan_remove(of: Rule, steps: Any, log_delta: Any, log_x: Any, num_nodes: int) -> _Plan:
    x = jnp.exp(log_x)
    here, bulk = _rough_remove(of, steps, log_x)
    there, _ = _rough_remove(of, steps, log_x + 0.01)
    length = 0.01 * x / jnp.maximum(here - there, 1e-6)  # over which delta falls by e
    wider = jnp.asarray(_WIDER, jnp.float64)
    period = (1.0 + wider) * x[:, None] + 8.0 * bulk[:, None]
    digits = jnp.maximum(jnp.log(period) - log_delta[:, None] + _DIGITS, 6.0)
    noise = jnp.exp(digits * x[:, None] / period - log_delta[:, None]) * period / digits * 3e-14
    top = 2.0 * jnp.pi * num_nodes / period
    turn = 2.0 * jnp.sin(0.5 * (top / steps[:, None])[:, None, :] * of.w[:, :, None]) ** 2
    decay = steps[:, None] * jnp.sum(of.density[:, :, None] * turn, axis=1)
    lack = jnp.maximum(digits * x[:, None] / period - log_delta[:, None] + _DIGITS - decay, 0.0)
    damped = lack / (top * top * length[:, None] * x[:, None])
    cost = noise * (length / x)[:, None] + damped + 1e-7 * wider
    at = cost <= jnp.min(cost, axis=1, keepdims=True)
    pick = at & (jnp.cumsum(at.astype(jnp.int32), axis=1) == 1)
    period, digits = (jnp.sum(jnp.where(pick, v, 0.0), axis=1) for v in (period, digits))
    return _Plan(digits / period, period, x, log_delta)


def _saddles(of: Rule, steps: Any) -> tuple[Any, ...]:
    """Of the add direction, [L, K]: points c, log E e^{-c (X-1)}, the x that they suit, log of the value there."""
    spread = jnp.minimum(jnp.sqrt(expm1(jnp.minimum(of.s * of.s, 600.0)) / steps), 2.0)
    low, high = jnp.log(0.3 / spread), jnp.log(jnp.maximum(60.0 / spread, 30.0 * steps))
    c = jnp.exp(low[:, None] + (high - low)[:, None] * jnp.linspace(0.0, 1.0, _NUM_SADDLES, dtype=jnp.float64))
    u = c / steps[:, None]
    weight = of.density[:, :, None] * jnp.exp(-u[:, None, :] * of.y[:, :, None])
    total = jnp.maximum(jnp.sum(weight, axis=1), 1e-250)
    mean = jnp.sum(weight * of.w[:, :, None], axis=1) / total
    variance = jnp.maximum(jnp.sum(weight * of.w[:, :, None] ** 2, axis=1) / total - mean * mean, 1e-30)
    logs = steps[:, None] * (u + jnp.log(total))
    x = mean + 2.0 / c
    value = c * x + logs - 2.0 * jnp.log(c) - 0.5 * jnp.log(2.0 * jnp.pi * (variance / steps[:, None] + 2.0 / (c * c)))
    return c, logs, x, jnp.where((x > -1.0) & jnp.isfinite(value), value, -jnp.inf), spread


def _plan_add(of: Rule, steps: Any, target: Any, *, is_delta: bool) -> _Plan:
    c, logs, x, value, spread = _saddles(of, steps)
    if is_delta:
        off = jnp.abs(value - log1p(jnp.maximum(x, -1.0 + 1e-12)) - target[:, None]) + jnp.where(x > 0, 1e3 * x, 0.0)
    else:
        off = jnp.abs(log1p(jnp.maximum(x, -1.0 + 1e-12)) + target[:, None])
    off = jnp.where(jnp.isfinite(value), off, jnp.inf)
    at = off <= jnp.min(off, axis=1, keepdims=True)
    pick = at & (jnp.cumsum(at.astype(jnp.int32), axis=1) == 1)
    centre, log_value, x_at = (jnp.sum(jnp.where(pick, v, 0.0), axis=1) for v in (c, value, x))
    x_at = jnp.clip(x_at, -1.0 + 2.0**-30, 0.0)
    floor = log_value - _DIGITS
    gap = c - 1.2 * centre[:, None]
    ahead = (logs + c * x_at[:, None] - jnp.log(c) - floor[:, None]) / jnp.where(gap > 0, c - centre[:, None], 1.0)
    ahead = jnp.min(jnp.where(gap > 0, ahead, jnp.inf), axis=1)
    period = (jnp.log(spread + 60.0 / centre) - floor) / centre
    return _Plan(centre, jnp.maximum(period, jnp.minimum(ahead, 1.0 + x_at)), x_at, log_value)


def _sum(of: Rule, steps: Any, plan: _Plan, num_nodes: int) -> Sum:
    """`Sum` on the line of a plan, damped as far as `num_nodes` nodes want it."""
    centre, step = plan.centre, 2.0 * jnp.pi / plan.period
    top = num_nodes * step
    decay = log_decay(of, steps, centre, top)
    lack = centre * plan.x + decay - jnp.log(jnp.pi * top) - plan.log_value + _DIGITS
    square = jax.lax.stop_gradient(2.0 * jnp.maximum(lack, 0.0) / jnp.maximum(top * top - centre * centre, 1e-300))
    far = centre[:, None] * jnp.asarray(_FAR, jnp.float64)
    far_logs = log_transform(of, steps, jnp.concatenate([centre[:, None], far], axis=1))
    log_top = jnp.minimum(decay, far_logs[:, 0])  # decreasing in |y|
    log_tail = log_top + 0.5 * square * (centre * centre - top * top) - jnp.log(jnp.pi * (top - 0.5 * step))

    excess, error = centred_transform(of, centre / steps, step / steps, num_nodes)
    size = jnp.sqrt((1.0 + excess.real) ** 2 + excess.imag**2)
    error = error + 16.0 * ULP * (size_of(excess) + jnp.where(size < 0.9, size, 0.0))
    relative = expm1(jnp.minimum(1.01 * steps[:, None] * error / jnp.maximum(size, 1e-300), 600.0))
    y = step[:, None] * jnp.arange(num_nodes, dtype=jnp.float64)
    z = jax.lax.complex(jnp.broadcast_to(centre[:, None], y.shape), y)
    log_phi = steps[:, None] * complex_log1p(excess) + 0.5 * square[:, None] * z * z
    log_pole = 2.0 * jax.lax.complex(0.5 * jnp.log(centre[:, None] ** 2 + y * y), jnp.arctan2(y, centre[:, None]))
    log_terms = log_phi - log_pole + jnp.log(step / jnp.pi)[:, None]
    relative = relative + 2.0**-49 * (8.0 + size_of(log_phi) + size_of(log_pole))
    # where rounding has eaten Phi, the term and the true one are at most this
    log_most = log_terms.real + steps[:, None] * (jnp.log(size + error) - jnp.log(jnp.maximum(size, 1e-300))) + 1.0
    log_scale = jax.lax.stop_gradient(jnp.max(log_terms.real, axis=1))
    half = jnp.where(y == 0, 0.5, 1.0)
    terms = half * exp(log_terms - log_scale[:, None])
    modulus, length = size_of(terms), jnp.hypot(centre[:, None], y)
    lost = half * jnp.exp(jnp.minimum(log_most - log_scale[:, None], 600.0))
    wrong = jnp.where(error < 0.1 * size, jnp.minimum(modulus * relative, lost), lost)
    damping = jnp.sqrt(square)
    spread = jnp.minimum(jnp.sqrt(jnp.exp(jnp.minimum(of.s * of.s, 600.0)) / steps), 2.0)
    return Sum(
        centre,
        step,
        terms,
        log_scale,
        jnp.sum(wrong, axis=1),
        jnp.sum(modulus, axis=1),
        jnp.sum(modulus * length, axis=1),
        jnp.sum(length**2 * wrong, axis=1),
        jnp.sum(modulus * length**2, axis=1),
        log_tail,
        square,
        far,
        far_logs[:, 1:] + 0.5 * square[:, None] * far * far,
        spread + damping,
    )


def _at(of: Sum, x: Any) -> Value:
    """`Value` at `x` [L]."""
    num = of.terms.shape[1]
    outer = (x * of.step)[:, None] * (INNER * jnp.arange(num // INNER, dtype=jnp.float64))
    inner = (x * of.step)[:, None] * jnp.arange(INNER, dtype=jnp.float64)
    turn = exp(1j * outer)[:, :, None] * exp(1j * inner)[:, None, :]
    term = of.terms * turn.reshape(of.terms.shape)
    y = of.step[:, None] * jnp.arange(num, dtype=jnp.float64)
    scale = jnp.exp(jnp.minimum(of.centre * x + of.log_scale, 650.0))
    value, other = jnp.sum(term.real, axis=1), jnp.sum(y * term.imag, axis=1)
    square = of.centre * of.centre
    density = square * value - 2.0 * of.centre * other - jnp.sum(y * y * term.real, axis=1)
    rounding = ULP * (64.0 + 2.0 * num + 4.0 * (jnp.abs(of.log_scale) + jnp.abs(of.centre * x)))
    turning = 16.0 * ULP * jnp.abs(x)
    beyond = jnp.exp(jnp.minimum(of.centre * x + of.log_tail, 650.0))
    error = scale * (of.error + rounding * of.size + turning * of.size_z) + beyond
    # tau^2 times the density of X': its sum, its errors, and what lies beyond the last node
    top = num * of.step
    rest = beyond * top * (1.0 + (of.centre / top) ** 2) * 1.1 * (top * of.square + 1.0 / top)
    sharp = of.square * scale * (density + of.error_2 + (rounding + turning * top) * of.size_2) + rest
    excess = jnp.where(of.square > 0, jnp.maximum(sharp, 0.0), 0.0) + _copies(of, x)
    return Value(scale * value, scale * (of.centre * value - other), error, excess)


def _copies(of: Sum, x: Any) -> Any:
    """At least the sum of the shifted copies [L] in the trapezoid sum at `x`, as `Copies` of `_lines`."""
    period = 2.0 * jnp.pi / of.step
    log_q = -of.centre * period
    q = jnp.exp(log_q) * (1.0 + 1e-9)
    behind = q / (1.0 - q) * (jnp.maximum(x, 0.0) + of.spread) + period * q / (1.0 - q) ** 2
    gap = (of.far - of.centre[:, None]) * period[:, None]
    ahead = of.far_logs + of.far * x[:, None] - gap - jnp.log(of.far) - jnp.log(-expm1(-gap)) - 0.9
    ahead = jnp.min(jnp.exp(jnp.minimum(ahead, 650.0)), axis=1)
    bounded = (of.square == 0) & (x + 1.0 < period)
    return jnp.where(q < 0.9, behind + jnp.where(bounded, 0.0, ahead), jnp.inf)


def _delta(of: Sum, add: Any, x: Any) -> tuple[Any, Any, Any]:
    """The sum's delta [L] at `x`, and certified ends of the true one."""
    found = _at(of, x)
    value = jnp.where(add, found.value, found.value - x)
    error = found.error + 8.0 * ULP * (jnp.abs(x) + jnp.abs(found.value))
    scale = jnp.where(add, 1.0 / (1.0 + x), 1.0)
    lower = scale * (1.0 - 16.0 * ULP) * jnp.maximum(value - error - found.excess, 0.0)
    upper = scale * (1.0 + 16.0 * ULP) * (jnp.maximum(value, 0.0) + error)
    upper = jnp.where(jnp.isnan(upper), 1.0, jnp.minimum(upper, 1.0))
    return scale * value, jnp.where(jnp.isnan(lower), 0.0, lower), upper


def _loss(x: Any) -> Any:
    """|log(1 + x)|, to a few ulp."""
    near = jnp.abs(x) < 0.3
    return jnp.abs(jnp.where(near, log1p(jnp.where(near, x, 0.0)), jnp.log(jnp.where(near, 1.0, 1.0 + x))))


def epoch_delta(sigma: Any, steps: Any, add: Any, epsilon: Any, *, num_nodes: int, num_z: int) -> tuple[Any, Ends[Any]]:
    """The centre [L] and certified `Ends` [L] of delta at `epsilon` [L] >= 0, in the direction that `add` [L] says."""
    of = rule(sigma, num_z)
    frozen = jax.lax.stop_gradient(of)
    x = expm1(jnp.where(add, -epsilon, epsilon))
    log_x = jnp.log(jnp.maximum(jax.lax.stop_gradient(x), 1e-300))
    stopped, goal = jax.lax.stop_gradient((steps, epsilon))
    log_delta, _ = _rough_remove(frozen, stopped, log_x)
    log_delta = jnp.clip(log_delta, -32.0, -1e-3)
    remove = _plan_remove(frozen, stopped, log_delta, jnp.where(add, 0.0, jnp.maximum(log_x, -16.0)), num_nodes)
    plan = _pick(add, _plan_add(frozen, stopped, goal, is_delta=False), remove)
    return _finish_delta(_sum(of, steps, jax.lax.stop_gradient(plan), num_nodes), add, x)


def _finish_delta(of: Sum, add: Any, x: Any) -> tuple[Any, Ends[Any]]:
    centre, lower, upper = _delta(of, add, x)
    slack = 8.0 * ULP * jnp.abs(x) * jnp.where(add, 2.0 / (1.0 + x) ** 2, 1.0)  # x is rounded
    return centre, Ends(jnp.maximum(lower - slack, 0.0), jnp.minimum(upper + slack, 1.0))


def _pick(add: Any, one: _Plan, other: _Plan) -> _Plan:
    return _Plan(*(jnp.where(add, a, b) for a, b in zip(one, other, strict=True)))


def epoch_epsilon(sigma: Any, steps: Any, add: Any, log_delta: Any, *, num_nodes: int, num_z: int) -> Ends[Any]:
    """Certified `Ends` [L] of the least epsilon >= 0 with delta(epsilon) <= e^`log_delta` [L]; at worst (0, inf)."""
    of = rule(sigma, num_z)

    def halve(_: int, state: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = state
        middle = 0.5 * (low + high)
        above = _rough_remove(of, steps, middle)[0] > log_delta
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    low, high = jnp.full_like(sigma, -16.0), 60.0 + 0.0 * sigma
    log_x = jax.lax.fori_loop(0, 32, halve, (low, high))[0]
    remove = _plan_remove(of, steps, jnp.maximum(log_delta, -32.0), log_x, num_nodes)
    line = _sum(of, steps, _pick(add, _plan_add(of, steps, log_delta, is_delta=True), remove), num_nodes)
    start = jnp.where(add, _plan_add(of, steps, log_delta, is_delta=True).x, jnp.exp(log_x))
    return _solve(line, add, start, log_delta)


def _solve(of: Sum, add: Any, start: Any, log_delta: Any) -> Ends[Any]:
    target = jnp.exp(log_delta)
    sign = jnp.where(add, -1.0, 1.0)

    def newton(_: int, loss: Any) -> Any:
        x = expm1(sign * loss)
        found = _at(of, x)
        value = jnp.where(add, found.value, found.value - x) + found.error
        slope = jnp.where(add, found.slope, found.slope - 1.0) * sign * (1.0 + x)  # by the loss
        rate = jnp.where(add, 1.0, 0.0) + slope / jnp.where(value > 0, value, 1.0)
        residual = jnp.log(jnp.where(value > 0, value, 1.0)) + jnp.where(add, loss, 0.0) - log_delta
        moved = loss - residual / jnp.where(rate < 0, rate, -1.0)
        good = (value > 0) & (rate < 0)
        return jnp.clip(jnp.where(good, moved, 1.1 * loss), 0.5 * loss, 2.0 * loss)

    loss = jnp.maximum(_loss(start), 1e-12)
    loss = jax.lax.fori_loop(0, _NUM_NEWTON, newton, loss)

    def ends(move: Any) -> tuple[Any, Any]:
        outer, inner = expm1(sign * loss * (1.0 + move)), expm1(sign * loss * (1.0 - move))
        fits = _delta(of, add, outer)[2] <= target
        holds = _delta(of, add, inner)[1] >= target
        upper = jnp.where(fits, _loss(outer) * (1.0 + 16.0 * ULP), jnp.inf)
        return jnp.where(holds, _loss(inner) * (1.0 - 16.0 * ULP), 0.0), upper

    lower, upper = jax.lax.map(ends, jnp.asarray(_MOVES, jnp.float64))
    zero = _delta(of, add, jnp.zeros_like(loss))[2] <= target
    upper = jnp.where(zero, 0.0, jnp.min(upper, axis=0))
    return Ends(jnp.minimum(jnp.max(lower, axis=0), upper), upper)
