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
from jaxacct.divergence.law._plan import NUM_HIGH, NUM_LOW, Plan, plan
from jaxacct.divergence.law._transform import COLUMNS, NODES, ROWS, Average, Decay, decay, fall, transform
from jaxacct.special import ULP, expm1, log1p, sinh

POINTS = 84  # of each line's grid: with all lines 1008 points
_SKIP = 4  # gaps between one line's grid and the next one's, whose dampings differ
_TAIL_DIGITS = 14.0  # in log: what lies beyond the last node errs masses by 4 over a gap, and is kept so much smaller


class _Piece(NamedTuple):
    """What one line gives: grid points x - 1, the profile there, rounded up, and the masses inside."""

    x: Any  # [P]
    value: Any  # [P], at least E(x - X)_+ below the mean, E(X - x)_+ above it
    mass: Any  # [P], at least; the first and the last are not those of the law
    gap: Any
    large: Any  # at least the expected number of large ratios


class _Terms(NamedTuple):
    """The terms of a line's sum at x = 1, over e^scale, and what they err by."""

    value: Any  # complex [N]
    size: Any  # [N]
    wide: Any  # [N], what each errs by
    scale: Any
    log_tail: Any  # at least the log of what lies beyond the last node, of terms without e^{zx}


def _steady(x: Any) -> Any:
    """`x`, not differentiated: errors, and what only steers."""
    return jax.lax.stop_gradient(x)


def _log_transform(of: Average, line: Plan, large: Any, y: Any) -> tuple[Any, Any, Any]:
    """log |E e^{-uW}|, its argument, its relative error as a logarithm [N], without what is large; u = (c + iy)/t."""
    c, t = line.centre / of.steps, of.steps
    kept = of._replace(excess=jnp.where(large, 0.0, of.excess), mass=jnp.where(large, 0.0, of.mass))
    # E e^{-uW} is the total mass, less u E W, and the centred sum
    total, drift, error = _total(of, large, jnp.abs(c) + y / t)
    centred, of_centred = transform(kept, c, (y[1] - y[0]) / t)
    moved = centred - jax.lax.complex(jnp.full_like(y, c), y / t) * drift + total
    re, im = moved.real, moved.imag
    square = 2.0 * re + re * re + im * im
    modulus = jnp.sqrt(jnp.maximum((1.0 + re) ** 2 + im * im, 1e-278))
    log_size = 0.5 * jnp.where(square > -0.5, log1p(jnp.maximum(square, -0.5)), 2.0 * jnp.log(modulus))
    error = error + of_centred + 16.0 * ULP * (jnp.abs(re) + jnp.abs(im) + jnp.where(modulus < 0.9, 1.0, 0.0))
    error, size = _steady((error, modulus))
    # where little is known, another transform of the largest modulus does as well
    lost = ~(error < 0.5 * size)
    relative = jnp.where(lost, 1.1, -log1p(-jnp.where(lost, 0.0, error / size)))
    angle = jnp.where(lost, 0.0, jnp.arctan2(im, 1.0 + re))
    return jnp.where(lost, jnp.log(size + error), log_size), angle, relative


def _damping(of: Average, fallen: Decay, line: Plan, large: Any, top: Any, log_centre: Any) -> tuple[Any, Any]:
    """The variance to add, and at least the log of what then lies beyond the last node, of terms without e^{zx}.

    From the last node to an edge phi is known to have fallen; beyond that edge only the variance helps.
    """
    c, half_step = line.centre, jnp.pi / line.period
    lost, largest = jnp.where(large, of.mass, 0.0), jnp.max(jnp.where(large, -1.0, of.excess))
    log_fall, edge = fall(
        fallen, of.steps, c, top, largest, jnp.sum(lost), jnp.sum(lost * (jnp.abs(of.excess) + 1.0)) * (1.0 + 2.0**-40)
    )
    parts = (jnp.minimum(log_fall, log_centre), top), (log_centre, edge)
    x = jnp.where(c > 0, line.start, line.stop)
    digits = (c * x + log_most - jnp.log(b) - line.wanted + _TAIL_DIGITS for log_most, b in parts)
    need = (jnp.maximum(d, 0.0) / jnp.maximum(b * b - c * c, 1e-300) for d, (_, b) in zip(digits, parts, strict=True))
    variance = 2.0 * jnp.maximum(*need)
    tails = (
        log_most + 0.5 * variance * (c * c - b * b) * (1.0 - 2.0**-50) - jnp.log(jnp.pi * (b - half_step))
        for log_most, b in parts
    )
    return _steady((variance, jnp.logaddexp(*tails) + 2.0**-40))


def _one_line(of: Average, fallen: Decay, line: Plan) -> _Piece:
    """What a line gives."""
    t, c, h = of.steps, line.centre, 2.0 * jnp.pi / line.period
    y = h * jnp.arange(NODES, dtype=jnp.float64)
    large = of.excess > line.cut
    log_size, angle, relative = _log_transform(of, line, large, y)
    variance, log_tail = _damping(of, fallen, line, large, h * NODES, _steady(t * (log_size[0] + relative[0])))
    log_phi = t * log_size + 0.5 * variance * (c * c - y * y)
    phase = t * angle + variance * c * y
    square = c * c + y * y
    scale = _steady(jnp.max(log_phi - jnp.log(square)))
    rounding = 2.0 * ULP * NODES + 2.0**-50 * (24.0 + jnp.abs(phase) + jnp.abs(log_phi) + jnp.abs(scale))
    weight = jnp.where(y == 0, 0.5, 1.0) * (h / jnp.pi) / square
    size = jnp.exp(log_phi - scale) * weight
    # phi errs by at most e^power times what it is; where that is much, what it is may be no double
    power = 1.01 * t * relative
    near, far = expm1(jnp.minimum(power, 1.0)), jnp.exp(log_phi - scale + power) * weight
    wide = jnp.where(power <= 1.0, size * near, far) + size * rounding
    pole = jax.lax.complex(c * c - y * y, -2.0 * c * y) / square  # 1 / z^2, over its size
    terms = size * pole * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
    return _read(of, line, _Terms(terms, *_steady((size, wide, scale, log_tail))), large)


def _read(of: Average, line: Plan, terms: _Terms, large: Any) -> _Piece:
    c, h, low = line.centre, 2.0 * jnp.pi / line.period, line.centre > 0
    gap = (line.stop - line.start) / (POINTS - 1 + _SKIP)
    x = line.start + gap * jnp.arange(POINTS, dtype=jnp.float64)
    y = h * jnp.arange(NODES, dtype=jnp.float64)
    # second difference of e^{zx} over the gap: (e^{z gap/2} - e^{-z gap/2})^2 / gap
    a, b = 0.5 * gap * c, 0.5 * gap * y
    rise = sinh(a)
    cosh_square = 1.0 + rise * rise
    half = jax.lax.complex(rise * jnp.cos(b), jnp.sqrt(cosh_square) * jnp.sin(b))
    hat, size_hat = 4.0 * half * half / gap, 4.0 * (rise * rise + jnp.sin(b) ** 2) / gap
    turn = h * x * np.array([[COLUMNS], [1.0]])
    turn = jax.lax.complex(jnp.cos(turn), jnp.sin(turn))
    rungs = jax.lax.scan(lambda s, _: (s * turn, s), jnp.ones_like(turn), None, length=ROWS)[1]
    inner = jnp.stack([terms.value, terms.value * hat]).reshape(2 * ROWS, COLUMNS) @ rungs[:COLUMNS, 1]
    found = (rungs[:, 0] * inner.reshape(2, ROWS, POINTS)).real.sum(1)
    # a power of a turn errs by some ULP a factor and by its angle's, a sum of N terms by 2 N ULP
    fixed, turned = ULP * (512.0 + 4.0 * NODES), 4.0 * ULP * jnp.abs(x)
    error, hat_error = (
        jnp.sum(f * (terms.wide + fixed * terms.size)) + turned * jnp.sum(f * terms.size * y) for f in (1.0, size_hat)
    )
    beyond = jnp.exp(c * x + terms.log_tail) * (1.0 + 2.0**-40)
    grown = jnp.exp(c * x + terms.scale) * (1.0 + 2.0**-46)
    value = grown * (found[0] + error) + beyond
    mass = grown * (found[1] + hat_error) + beyond * 4.0 * cosh_square / gap
    # what a large ratio adds is linear in x but for what `_joined` adds
    some, mean, at_most = _with_large(of, large)
    value = value + jnp.where(low, 0.0, jnp.maximum(mean - (1.0 + x) * some * (1.0 - 2.0**-40), 0.0))
    return _Piece(x, value, mass, gap, at_most)


def _total(of: Average, large: Any, size: Any) -> tuple[Any, Any, Any]:
    """Total mass less 1 and sum m W of the ratios that are not large; and what they err by, the latter times `size`."""
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
    """`Law` of the average of `steps` independent ratios, each of the law `base`.

    `log_share` is the logarithm of about what may be cut off on either side.
    """
    excess = jnp.concatenate([-jnp.ones(1), expm1(base.log_ratio)])
    mass = jnp.concatenate([jnp.asarray(base.at_zero)[None], base.mass])
    blur = jnp.concatenate([jnp.zeros(1), base.blur + 8.0 * ULP])
    of = Average(excess, mass, blur, steps)
    lines = plan(of, jnp.exp(log_share))
    fallen = _steady(decay(of, jnp.min(2.0 * jnp.pi * NODES / lines.period) / steps))
    pieces = jax.lax.map(lambda line: _one_line(of, fallen, line), lines)
    return _joined(pieces, base.beyond * _swollen(of))


def _joined(of: _Piece, beyond: Any) -> Law:
    """The law whose profile is the chords of the pieces'.

    Below, profiles are E(x - X)_+; above, E(X - x)_+, whose slopes are less by 1. Where they meet, the former is taken.
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
