"""The law of an epoch of random allocation: the average X of t likelihood ratios, each a law of points.

X's profile is had on a grid, from a few vertical lines of its Laplace transform phi(z) = E e^{-z (X - 1)}: with
Re z = c > 0 the trapezoid rule gives E(x - X)_+, with c < 0 E(X - x)_+, and positive, convex copies of them: upper
bounds as they stand, whose second differences are masses. What a fixed number of nodes does not reach is damped by one
more independent normal variable, whose variance costs tightness only. Above its mean X is known with few digits where
one large ratio may decide: a line that serves x up to x1 takes ratios up to t x1 only; a larger one lifts X beyond x1
whatever the others are, so that what it adds is linear in x and exact. docs/numerics.md, "Laws".

Shapes: [B] points of one ratio; [J] lines; [N] nodes of a line; [P] grid points of a line; one lane at a time.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence.law._law import Law
from jaxacct.special import ULP, expm1, log1p

NUM_LOW, NUM_HIGH = 5, 7  # lines below and above the mean
POINTS = 84  # of each line's grid: with all lines 1008 points
_ROWS, _COLUMNS = 32, 16  # of the nodes of a line
_NODES = _ROWS * _COLUMNS
_SKIP = 4  # gaps between one line's grid and the next one's, whose dampings differ
_SMALL = 0.1  # |x| below which e^-x - 1 + x is summed as a series, whose length is sized for this
# What follows steers tightness.
_TAIL_DIGITS = 14.0  # and the latter so much further: it errs masses by 4 over a gap
_DIGITS = 12.0  # in log: copies and what lies beyond the last node are kept this far below what is wanted
_NUM_TILTS = 64  # points of the real axis that say how far down X reaches
_HALVINGS = 24
_TILTS = np.geomspace(1.5, 90.0, 48)  # distances of the lines from 0 that are compared, over a length
_LOG_CONDITION = 20.0  # log of a line's summands over its sum above which rounding begins to show
_OCTAVES = 16  # of heights at which the decay of a ratio's transform is looked at
_THIN = 2  # of the points one in so many steers


class Average(NamedTuple):
    """X: what a ratio less 1 may be, its masses, and of how many ratios X is the average."""

    excess: Any  # [B], y - 1
    mass: Any  # [B]
    blur: Any  # [B], by which y - 1 errs, relative to y
    steps: Any  # t


def _excess_of(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Real and imaginary part of e^-z - 1 + z at z = x + iy known to 8 ULP, and a bound on the rounding error."""
    size, modulus = jnp.abs(x) + jnp.abs(y), jnp.exp(jnp.minimum(-x, 700.0))
    cos, sin = jnp.cos(y), jnp.sin(y)
    small = size < _SMALL
    u, v = jnp.where(small, x, 0.0), jnp.where(small, y, 0.0)
    a, b = jnp.ones_like(u), jnp.zeros_like(u)
    for n in range(11, 2, -1):
        a, b = 1.0 - (u * a - v * b) * (1.0 / n), -(u * b + v * a) * (1.0 / n)
    c, d = 0.5 * (u * u - v * v), u * v
    real = jnp.where(small, c * a - d * b, modulus * cos - 1.0 + x)
    imag = jnp.where(small, c * b + d * a, y - modulus * sin)
    error = jnp.where(small, 40.0 * size * size, modulus * (12.0 + 15.0 * size) + 2.0 + 10.0 * size)
    return real, imag, ULP * error


class _Rungs(NamedTuple):
    """e = e^{-uW} - 1 and f = e + uW of some nodes u, and bounds on their errors; sizes are |Re| + |Im|."""

    e: Any
    f: Any
    e_error: Any
    f_error: Any


def _raised(start: _Rungs, step: _Rungs, num: int) -> _Rungs:
    """`_Rungs` [num, B] of start + j step, j < num, of a step along the imaginary axis.

    e_{x+y} = e_x + e_y + e_x e_y and f_{x+y} = f_x + f_y + e_x e_y: nothing cancels where both are small. Since |1 +
    e_y| = 1 errors add up.
    """
    z, z_size = step.e, jax.lax.stop_gradient(_size(step.e))

    def rung(at: _Rungs, _: None) -> tuple[_Rungs, _Rungs]:
        size, joint = jax.lax.stop_gradient(_size(at.e)), at.e * z
        rounding = 4.0 * ULP * (size + 1.0) * z_size
        e_error = at.e_error + step.e_error * (1.0 + size) + rounding + 4.0 * ULP * size
        f_error = at.f_error + step.f_error + at.e_error * z_size + step.e_error * (size + at.e_error)
        f_error = f_error + rounding + 4.0 * ULP * jax.lax.stop_gradient(_size(at.f) + _size(step.f))
        return _Rungs(at.e + z + joint, at.f + step.f + joint, e_error, f_error), at

    found: _Rungs = jax.lax.scan(rung, start, None, length=num)[1]
    return found


def _size(z: Any) -> Any:
    """Between |z| and sqrt 2 |z|."""
    return jnp.abs(z.real) + jnp.abs(z.imag)


def transform(of: Average, mass: Any, centre: Any, step: Any) -> tuple[Any, Any]:
    """sum m (e^{-uW} - 1 + uW) [N], W = y - 1, at the N nodes u = centre + i k step, and bounds on its error.

    A node is the sum u = a + b of one of a few outer points and one of several inner ones: f_{a+b} = f_a + f_b + e_a
    e_b, and the last is a product of matrices. Its errors are summed by the Cauchy-Schwarz inequality.
    """
    w = of.excess
    real = jnp.stack([jnp.ones(()), jnp.zeros(()), jnp.zeros(())])[:, None] * centre
    imag = jnp.stack([jnp.zeros(()), jnp.ones(()), jnp.ones(()) * _COLUMNS])[:, None] * step
    x, y = w * real, w * imag
    f, g, f_error = _excess_of(x, y)
    e, f = jax.lax.complex(f - x, g - y), jax.lax.complex(f, g)
    alone_mass = mass
    w, mass, f_error, real, imag, x, y = jax.lax.stop_gradient((w, mass, f_error, real, imag, x, y))
    size_x, grown = jnp.abs(x) + jnp.abs(y), jnp.exp(jnp.minimum(-x, 700.0))
    # the point errs by `blur` of y, and u W by 8 ULP
    moved = of.blur * (jnp.abs(w) + 1.0) * (jnp.abs(real) + jnp.abs(imag)) + 8.0 * ULP * size_x
    f_error = f_error + moved * jnp.minimum(size_x * grown, grown + 1.0)
    found = _Rungs(e, f, f_error + 10.0 * ULP * size_x + moved * grown, f_error)
    centred, inner, outer = (_Rungs(*(part[i] for part in found)) for i in range(3))
    outer = _raised(centred, outer, _ROWS)
    inner = _raised(jax.tree.map(jnp.zeros_like, inner), inner, _COLUMNS)
    relative = ULP * (2.0 * w.shape[0] + 32.0)
    alone = tuple(rungs.f @ (alone_mass + 0j) for rungs in (outer, inner))
    outer_e, inner_e = outer.e, inner.e
    outer, inner = jax.lax.stop_gradient((outer, inner))
    alone_error = tuple((rungs.f_error + relative * _size(rungs.f)) @ mass for rungs in (outer, inner))
    norms = tuple(jnp.sqrt(_size(rungs.e) ** 2 @ mass) for rungs in (outer, inner))
    norm_errors = tuple(jnp.sqrt((rungs.e_error + relative * _size(rungs.e)) ** 2 @ mass) for rungs in (outer, inner))
    total = alone[0][:, None] + alone[1] + (outer_e * alone_mass) @ inner_e.T
    error = alone_error[0][:, None] + alone_error[1]
    error = error + norm_errors[0][:, None] * (norms[1] + norm_errors[1]) + norms[0][:, None] * norm_errors[1]
    return total.reshape(-1), jax.lax.stop_gradient(1.01 * error.reshape(-1))


class Plan(NamedTuple):
    """Where the lines are and which part of the profile they serve; [J] but for the last two."""

    start: Any  # x - 1 of the first grid point
    stop: Any  # and of the last
    centre: Any  # c
    period: Any
    cut: Any  # a ratio beyond it counts as a large one
    wanted: Any  # log of the error that the profile may have


def _plan(of: Average, tail: Any) -> Plan:
    """Steering only: `tail` is about what may be cut off on either side."""
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
    near = t * log1p(jnp.maximum(jnp.expm1(jnp.maximum(-(u / t)[:, None] * w, -700.0)) @ m / total, -1.0 + 1e-250))
    wanted = jnp.log(tail) + 1.0 + jnp.log(u)
    lowest = jnp.max((wanted - near) / u)
    lowest = jnp.max((wanted + jnp.log(jnp.clip(1.0 + lowest, 1e-12, 1.0)) - near) / u)
    lowest = jnp.clip(lowest, -1.0 + 1e-9, -1e-9)
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
        logs = jnp.expm1(jnp.minimum(exponents, 600.0)) @ kept - jnp.sum(jnp.where(w > cut, m, 0.0))
        logs = jnp.where(jnp.max(exponents, axis=1) < 600.0, t * log1p(jnp.maximum(logs, -1.0 + 1e-250)), jnp.inf)
        near, far = (
            jnp.where(sign > 0, start, stop),
            jnp.where(sign > 0, stop, start),
        )  # the profile is small, and large
        below = [jnp.min(logs + sign * v * x - 1.0 - jnp.log(v)) - 1.5 for x in (near, far)]
        above = [log_excess(jnp.maximum(x, 0.1 * bulk)) - 1.0 for x in (near, far)]
        # a line on both sides of the mean joins lines above it, where what counts is the excess
        small = jnp.where(sign > 0, jnp.minimum(below[0], jnp.where(far > 0, above[1], 0.0)), above[0])
        large = jnp.where(sign > 0, below[1], above[1])
        small, large = jnp.maximum(small, jnp.log(tail)), jnp.maximum(large, jnp.log(tail))
        behind = (_DIGITS - small + jnp.log(stop - start + bulk)) / v
        ahead = jnp.maximum(*(logs + sign * v * x - jnp.log(v) - f + _DIGITS for x, f in ((near, small), (far, large))))
        gap = v[None, :] - v[:, None]
        ahead = jnp.min(
            jnp.where(gap > 0.02 * v[:, None], ahead[None, :] / jnp.where(gap > 0, gap, 1.0), jnp.inf), axis=1
        )
        # all ratios are at least 0: below the mean copies from further than that vanish
        ahead = jnp.where(sign > 0, jnp.minimum(ahead, 1.02 * (1.0 + stop)), ahead)
        period = jnp.maximum(behind, ahead)
        condition = jnp.maximum(*(logs + sign * v * x - f for x, f in ((near, small), (far, large))))
        cost = jnp.log(period) + 0.5 * jnp.maximum(condition - _LOG_CONDITION, 0.0)
        best = jnp.argmin(jnp.where(jnp.isfinite(cost), cost, jnp.inf))
        return sign * v[best], period[best], small - _DIGITS

    centre, period, wanted = jax.lax.map(line, (sign, start, stop, cut))
    return Plan(*jax.lax.stop_gradient((start, stop, centre, period, cut, wanted)))


class Decay(NamedTuple):
    """|E e^{-iuW}| between heights u, for all the ratios: at most `size` from one height to the next, and what bounds
    how far it is from the same on another line."""

    heights: Any  # [D], increasing
    size: Any  # [D - 1]
    slope: Any  # [D - 1]: at least |E W e^{-iuW}|
    square: Any  # E W^2
    gap: Any  # about the square of the gap between points


def _decay(of: Average, lowest: Any) -> Decay:
    """`Decay` from the height `lowest` on, in steps of 2^(1/8)."""
    w, m = of.excess, of.mass
    mean, square = jnp.sum(m * jnp.abs(w)) * (1.0 + 2.0**-40), jnp.sum(m * w * w) * (1.0 + 2.0**-40)
    u = jax.lax.stop_gradient(lowest) * 2.0 ** (np.arange(8 * _OCTAVES) / 8.0)
    turned = u[:8, None] * w
    turns = jax.lax.complex(jnp.cos(turned), jnp.sin(turned))
    found = jax.lax.scan(lambda z, _: (z * z, z @ (m + 0j)), turns, None, length=_OCTAVES)[1].reshape(-1)
    # a turn errs by what its point does and by some ULP of itself; each square doubles that
    error = (
        jnp.sum(m * (w + 1.0) * of.blur) * u + ULP * 2.0 ** (_OCTAVES + 4) + ULP * (2.0 * len(w) + 8.0 + 8.0 * u * mean)
    )
    size = jnp.hypot(found.real, found.imag) + error
    # E W is 0 but for rounding
    slope = jnp.minimum(u[1:] * square, mean) + ULP * (4.0 * len(w)) * (1.0 + mean)
    between = jnp.maximum(size[1:], size[:-1]) + 0.5 * (u[1:] - u[:-1]) * slope
    gap = jax.lax.stop_gradient(jnp.sum(m[1:] * jnp.minimum(jnp.diff(w), 1.0) ** 2))
    return Decay(u, between * (1.0 + 2.0**-40), slope, square, gap)


class Piece(NamedTuple):
    """What one line gives: grid points x - 1, the profile there, rounded up, and the masses inside."""

    x: Any  # [P]
    value: Any  # [P], at least E(x - X)_+ below the mean, E(X - x)_+ above it
    mass: Any  # [P], at least; the first and the last are not those of the law
    gap: Any
    large: Any  # at least the expected number of large ratios


def _one_line(of: Average, decay: Decay, plan: Plan) -> Piece:
    """One line: everything in `plan` is a number."""
    t, c = of.steps, plan.centre
    h = 2.0 * jnp.pi / plan.period
    low = c > 0
    large = of.excess > plan.cut
    mass = jnp.where(large, 0.0, of.mass)
    # E e^{-uW}, u = z/t, is the total mass, less u E W, and the centred sum
    y = h * jnp.arange(_NODES, dtype=jnp.float64)
    total, drift, error = _total(of, large, jnp.abs(c / t) + y / t)
    kept = of._replace(excess=jnp.where(large, 0.0, of.excess))
    centred, of_centred = transform(kept, mass, c / t, h / t)
    u = jax.lax.complex(jnp.full_like(y, c / t), y / t)
    moved = centred - u * drift + total  # E e^{-uW} - 1
    error = error + of_centred
    re, im = moved.real, moved.imag
    square = 2.0 * re + re * re + im * im
    modulus = jnp.sqrt(jnp.maximum((1.0 + re) ** 2 + im * im, 1e-278))
    log_size = 0.5 * jnp.where(square > -0.5, log1p(jnp.maximum(square, -0.5)), 2.0 * jnp.log(modulus))
    error = error + 16.0 * ULP * (jnp.abs(re) + jnp.abs(im) + jnp.where(modulus < 0.9, 1.0, 0.0))
    error = jax.lax.stop_gradient(error)
    lost = ~(error < 0.5 * modulus)
    log_size = jnp.where(lost, jnp.log(modulus + error), log_size)
    relative = jax.lax.stop_gradient(jnp.where(lost, 1.1, -log1p(-jnp.where(lost, 0.0, error / modulus))))
    angle = jnp.where(lost, 0.0, jnp.arctan2(im, 1.0 + re))
    lost_mass = jnp.sum(jnp.where(large, of.mass, 0.0))
    log_fall, edge = _fall(decay, t, c, h * _NODES, jnp.max(jnp.where(large, -1.0, of.excess)), lost_mass)
    top, log_centre = h * _NODES, t * (log_size[0] + relative[0])
    x_end = jnp.where(low, plan.start, plan.stop)
    need = tuple(
        jnp.maximum(c * x_end + log_most - jnp.log(b) - plan.wanted + _TAIL_DIGITS, 0.0)
        / jnp.maximum(b * b - c * c, 1e-300)
        for log_most, b in ((jnp.minimum(log_fall, log_centre), top), (log_centre, edge))
    )
    damping = jax.lax.stop_gradient(2.0 * jnp.maximum(*need))
    tails = tuple(
        log_most + 0.5 * damping * (c * c - b * b) * (1.0 - 2.0**-50) - jnp.log(jnp.pi * (b - 0.5 * h))
        for log_most, b in ((jnp.minimum(log_fall, log_centre), top), (log_centre, edge))
    )
    log_tail = jax.lax.stop_gradient(jnp.logaddexp(*tails) + 2.0**-40)
    log_phi = t * log_size + 0.5 * damping * (c * c - y * y)
    phase = t * angle + damping * c * y
    scale = jax.lax.stop_gradient(jnp.max(log_phi - jnp.log(c * c + y * y)))
    wide = jnp.expm1(jnp.minimum(1.01 * jax.lax.stop_gradient(t) * relative, 300.0))
    wide = (
        jax.lax.stop_gradient(wide)
        + 2.0**-50 * jax.lax.stop_gradient(24.0 + jnp.abs(phase) + jnp.abs(log_phi) + jnp.abs(scale))
        + 2.0 * ULP * _NODES
    )
    size = jnp.exp(log_phi - scale) * jnp.where(y == 0, 0.5, 1.0) * (h / jnp.pi) / (c * c + y * y)
    pole = jax.lax.complex(c * c - y * y, -2.0 * c * y) / (c * c + y * y)
    terms = size * pole * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
    return _read(of, plan, Terms(terms, size, wide, scale, log_tail), h, large)


def _fall(decay: Decay, t: Any, c: Any, top: Any, largest: Any, lost: Any) -> tuple[Any, Any]:
    """At least log |phi(c + iy)| for y from `top` to an edge, and that edge, no less than `top`.

    On the line c/t a ratio's transform differs from that on the imaginary axis by at most |c/t| |E W e^{-iuW}| and
    (c/t)^2 / 2 times the largest e^{-cW/t} E W^2; and by the mass of what is left out.
    """
    v, u = jnp.abs(c) / t, top / t
    most = jnp.exp(jnp.minimum(jnp.maximum(v, v * jnp.where(c < 0, largest, 0.0)), 690.0))
    beside = v * decay.slope + 0.5 * v * v * most * decay.square + lost
    # as far as the transform of so many points falls
    known = decay.heights[1:] * jnp.sqrt(decay.gap) < 1.0
    used = (decay.heights[1:] > u) & known
    size = jnp.max(jnp.where(used, decay.size + beside, 0.0))
    size = jnp.where(decay.heights[0] <= u * (1.0 + 1e-9), size, jnp.inf)
    edge = jnp.maximum(t * jnp.max(jnp.where(known, decay.heights[1:], 0.0)), top)
    return jnp.where(jnp.any(used), t * jnp.log(size) + 2.0**-40, -700.0), edge


def _total(of: Average, large: Any, size: Any) -> tuple[Any, Any, Any]:
    """Total mass less 1 and sum m W of the ratios that are not large; and what both, the latter times `size`, err by."""
    m = jnp.where(large, 0.0, of.mass)
    lost = jnp.sum(jnp.where(large, of.mass, 0.0))
    around = jnp.abs(of.excess) + 1.0
    blurred = jnp.sum(m * around * of.blur) + ULP * 2.0 * len(m) * jnp.sum(m * around)
    error = size * blurred + ULP * (2.0 * len(m) + 16.0) * (lost + 2.0**-38)
    return _more(of.mass) - lost, jnp.sum(m * of.excess), error


def _more(mass: Any) -> Any:
    """The sum of masses less 1, for fewer than 2^12 of them and a sum below 2, to the rounding of one below 2^-38.

    What is a multiple of 2^-50 is added without error, in any order.
    """
    coarse = jnp.floor(mass * 2.0**50) * 2.0**-50
    return (jnp.sum(coarse) - 1.0) + jnp.sum(mass - coarse)


class Terms(NamedTuple):
    """The terms of a line's sum at x = 1, over e^scale, and what they err by."""

    value: Any  # complex [N]
    size: Any  # [N]
    wide: Any  # [N], relative
    scale: Any
    log_tail: Any  # at least the log of what lies beyond the last node, of terms without e^{zx}


def _read(of: Average, plan: Plan, terms: Terms, h: Any, large: Any) -> Piece:
    c, low = plan.centre, plan.centre > 0
    gap = (plan.stop - plan.start) / (POINTS - 1 + _SKIP)
    x = plan.start + gap * jnp.arange(POINTS, dtype=jnp.float64)
    y = h * jnp.arange(_NODES, dtype=jnp.float64)
    z = jax.lax.complex(jnp.full_like(y, c), y)
    half = 0.5 * gap * z
    # second difference of e^{zx} over the gap: (e^{z gap/2} - e^{-z gap/2})^2 / gap
    sinh = jax.lax.complex(jnp.sinh(half.real) * jnp.cos(half.imag), jnp.cosh(half.real) * jnp.sin(half.imag))
    hat = 4.0 * sinh * sinh / gap
    size_hat = 4.0 * (jnp.sinh(half.real) ** 2 + jnp.sin(half.imag) ** 2) / gap
    first = h * x * np.array([[_COLUMNS], [1.0]])
    first = jax.lax.complex(jnp.cos(first), jnp.sin(first))
    rungs = jax.lax.scan(lambda s, _: (s * first, s), jnp.ones_like(first), None, length=_ROWS)[1]
    both = jnp.stack([terms.value, terms.value * hat]).reshape(2 * _ROWS, _COLUMNS) @ rungs[:_COLUMNS, 1]
    found = (rungs[:, 0] * both.reshape(2, _ROWS, POINTS)).real.sum(1)
    grown = jnp.exp(jnp.minimum(c * x + terms.scale, 650.0)) * (1.0 + 2.0**-46)
    # a power of a turn errs by some ULP a factor and by its angle's, a sum of N terms by 2 N ULP
    fixed, turned = ULP * (512.0 + 4.0 * _NODES), 4.0 * ULP * jnp.abs(x)
    sizes = terms.size, terms.size * size_hat
    error, hat_error = (jnp.sum(f * (terms.wide + fixed)) + turned * jnp.sum(f * y) for f in sizes)
    error, hat_error, still = jax.lax.stop_gradient((error, hat_error, grown))
    beyond = jnp.exp(jnp.minimum(c * x + terms.log_tail, 650.0)) * (1.0 + 2.0**-40)
    value = grown * found[0] + still * error + beyond
    mass = grown * found[1] + still * hat_error + beyond * 4.0 * jnp.cosh(0.5 * c * gap) ** 2 / gap
    # what a large ratio adds is linear in x but for what `_joined` adds
    some, mean, at_most = _with_large(of, large)
    value = value + jnp.where(low, 0.0, jnp.maximum(mean - (1.0 + x) * some * (1.0 - 2.0**-40), 0.0))
    return Piece(x, value, mass, gap, at_most)


def _with_large(of: Average, large: Any) -> tuple[Any, Any, Any]:
    """P[some ratio is large], E[X; some ratio is large], at least, and a bound on the expected number of large ones."""
    m, t = jnp.where(large, of.mass, 0.0), of.steps
    lost, mean = jnp.sum(m), jnp.sum(m * (of.excess + 1.0))
    log_kept = log1p(-jnp.minimum(lost, 0.9))
    others = jnp.exp((t - 1.0) * log_kept)
    # masses may add to a little more than 1
    return -expm1(t * log_kept), (mean * others - expm1((t - 1.0) * log_kept)) * _swollen(of), 1.01 * t * lost


def _swollen(of: Average) -> Any:
    """At least what t masses of all together, and their mean, may be above 1."""
    more = jnp.maximum(_more(of.mass), 0.0) + 2.0**-80
    return jnp.exp(jnp.minimum(of.steps * more, 600.0)) * (1.0 + 2.0**-40)


def allocated(base: Law, steps: Any, log_share: Any) -> Law:
    """`Law` of the average of `steps` independent ratios, each of the law `base`, one of few points after another.

    `log_share` is the logarithm of about what may be cut off on either side.
    """
    excess = jnp.concatenate([-jnp.ones(1), expm1(base.log_ratio)])
    mass = jnp.concatenate([jnp.asarray(base.at_zero)[None], base.mass])
    blur = jnp.concatenate([jnp.zeros(1), base.blur + 8.0 * ULP])
    of = Average(excess, mass, blur, steps)
    plan = _plan(of, jnp.exp(log_share))
    heights = jnp.min(2.0 * jnp.pi * _NODES / plan.period) / steps
    decay = jax.lax.stop_gradient(_decay(of, heights))
    pieces = jax.lax.map(lambda row: _one_line(of, decay, row), plan)
    return _joined(pieces, base.beyond * _swollen(of))


def _joined(of: Piece, beyond: Any) -> Law:
    """The law whose profile is the chords of the pieces'.

    Below, profiles are E(x - X)_+; above, E(X - x)_+, whose slopes are less by 1. Where the two meet, the former is taken.
    """
    low, num = np.arange(NUM_LOW + NUM_HIGH) < NUM_LOW, NUM_LOW + NUM_HIGH
    # with a large ratio X lies below x only if all others together lie below the first grid point of all
    value = of.value + jnp.where(low, 0.0, of.value[0, 0] * of.large)[:, None]
    first, last, x_first, x_last = value[:, 0], value[:, -1], of.x[:, 0], of.x[:, -1]
    inner, outer = (value[:, 1] - first) / of.gap, (last - value[:, -2]) / of.gap
    meets = np.arange(num - 1) == NUM_LOW - 1
    across = (first[1:] + jnp.where(meets, x_first[1:], 0.0) - last[:-1]) / (x_first[1:] - x_last[:-1])
    at_zero = first[0] / (1.0 + x_first[0])
    left = inner + np.append(0.0, meets) - jnp.concatenate([at_zero[None], across])
    right = jnp.concatenate([across, jnp.zeros(1)]) - outer
    size = jnp.abs(value).max(1) / of.gap
    beside = (
        jnp.maximum(jnp.append(size[1:], 0.0), jnp.append(0.0, size[:-1]))
        + np.append(0.0, meets)
        + np.append(meets, 0.0)
    )
    noise = 16.0 * ULP * (size + beside)
    left, right = (jnp.maximum(x, 0.0) + noise for x in (left, right))
    mass = jnp.concatenate([left[:, None], jnp.maximum(of.mass[:, 1:-1], 0.0), right[:, None]], axis=1).reshape(-1)
    x = of.x.reshape(-1)
    log_ratio = log1p(jnp.maximum(x, -1.0 + 1e-15))
    blur = 8.0 * ULP * (jnp.abs(log_ratio) + (1.0 + jnp.abs(x)) / (1.0 + x))
    return Law(log_ratio, mass * (1.0 + 2.0**-45), blur, at_zero, last[-1] + beyond)
