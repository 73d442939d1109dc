"""The law of an epoch of random allocation: the average X of t likelihood ratios, each a law of points.

X's profile is computed on a grid, from a few vertical lines of its Laplace transform phi(z) = E e^{-z (X - 1)}: with
Re z = c > 0 the trapezoid rule gives E(x - X)_+, with c < 0 E(X - x)_+, plus positive, convex copies of them. These are
upper bounds as they stand, and their second differences are masses. The part beyond a fixed number of nodes is damped
by adding another independent normal variable, whose variance affects only tightness. Above its mean X is known to few
digits where a single large ratio may dominate. So a line for x up to x1 includes only ratios up to t x1; a larger one
lifts X beyond x1 whatever the others are, so that its contribution is linear in x and exact. See docs/numerics/laws.md.

Shapes: [B] points of one ratio; [J] lines; [N] nodes of a line; [P] grid points of a line; one lane at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.law._law import Law, value_at_minimum
from jaxacct.divergence.law._plan import NUM_HIGH, NUM_LOW, LinePlan, plan
from jaxacct.divergence.law._transform import COLUMNS, NODES, ROWS, Average, Decay, decay, fall, transform
from jaxacct.special import ULP, expm1, log1p, sinh, vector_cos_and_sin

POINTS = 84  # of each line's grid: 1008 points with all lines
_SKIP = 1  # gaps between one line's grid and the next one's
_NEAR = 8  # points at either end of a line's grid from which a chord may lead to the next one, whose damping differs
_TURNED = 64.0 + 4.0 * (ROWS + COLUMNS)  # error of a sum of terms times phase factors, in ULP of the sum of their sizes
_TAIL_DIGITS = 14.0  # in log: the part beyond the last node moves masses by 4 over a gap, so it is this much smaller


class _Piece(NamedTuple):
    """The results of one line: grid points, the profile there, rounded up, and the masses inside."""

    # [4, P]: x - 1; an upper bound on E(x - X)_+ below the mean, on E(X - x)_+ above it; one on the mass, except at the
    # ends; the slip, the largest error of a value that is independent of its neighbours
    rows: Any
    gap: Any
    large: Any  # upper bound on the expected number of large ratios


class _Sums(NamedTuple):
    """Sums over the ratios, which are divided for a line into large ones and kept ones."""

    lost: Any  # mass of large ratios
    lost_mean: Any  # E y of them
    lost_size: Any  # E (|W| + 1) of them
    drift: Any  # E W of the kept ratios
    around: Any  # E (|W| + 1) of them
    blurred: Any  # the same, times their errors
    more: Any  # total mass minus 1
    largest: Any  # the largest W that is kept


def _sums(of: Average, cut: Any) -> _Sums:
    """`_Sums` of a line whose ratios beyond `cut` are large.

    The sum of the masses minus 1 is correct up to the rounding of a number below 2^-38, for fewer than 2^12 masses and
    a sum below 2: multiples of 2^-50 are added without error, in any order.
    """
    m, w = of.mass, of.excess
    large = w > cut
    lost, kept, size = jnp.where(large, m, 0.0), jnp.where(large, 0.0, m), jnp.abs(w) + 1.0
    coarse = jnp.floor(m * 2.0**50) * 2.0**-50
    rows = [lost, lost * (w + 1.0), lost * size, kept * w, kept * size, kept * size * of.blur, coarse, m - coarse]
    found = jnp.sum(jnp.stack(rows), axis=1)
    more = (found[6] - 1.0) + found[7]
    return _Sums(found[0], found[1], found[2], found[3], found[4], found[5], more, jnp.max(jnp.where(large, -1.0, w)))


def _log_transform(of: Average, sums: _Sums, line: LinePlan) -> Any:
    """[3, N]: log |E e^{-uW}| at u = (c + iy)/t, its argument, its relative error as a logarithm; over kept ratios."""
    t, num = of.steps, len(of.mass)
    c, step = line.centre / t, 2.0 * jnp.pi / (line.period * t)
    y = step * np.arange(NODES, dtype=np.float64)
    kept = of._replace(mass=jnp.where(of.excess > line.cut, 0.0, of.mass))
    kept = kept._replace(excess=jnp.where(of.excess > line.cut, 0.0, of.excess))
    centred, of_centred = transform(kept, c, step)
    # E e^{-uW} is the total mass, minus u E W, plus the centred sum
    re, im = centred[0] - c * sums.drift + (sums.more - sums.lost), centred[1] - y * sums.drift
    error = (jnp.abs(c) + y) * (sums.blurred + ULP * 2.0 * num * sums.around)
    error = error + ULP * (2.0 * num + 16.0) * (sums.lost + 2.0**-38)
    square = 2.0 * re + re * re + im * im
    modulus = jnp.sqrt(jnp.maximum((1.0 + re) ** 2 + im * im, 1e-278))
    log_size = 0.5 * jnp.where(square > -0.5, log1p(jnp.maximum(square, -0.5)), 2.0 * jnp.log(modulus))
    error = error + of_centred + 16.0 * ULP * (jnp.abs(re) + jnp.abs(im) + jnp.where(modulus < 0.9, 1.0, 0.0))
    # where the error is large, any transform of the largest modulus will do
    lost = ~(error < 0.5 * modulus)
    relative = jnp.where(lost, 1.1, -log1p(-jnp.where(lost, 0.0, error / modulus)))
    angle = jnp.where(lost, 0.0, jnp.arctan2(im, 1.0 + re))
    return jnp.stack([jnp.where(lost, jnp.log(modulus + error), log_size), angle, relative])


def _damping(of: Average, sums: _Sums, fallen: Decay, line: LinePlan, log_centre: Any) -> Any:
    """[2]: the variance to add, and a bound on the log of the part then beyond the last node, of terms without e^{zx}.

    From the last node to an edge phi is known to have decayed; beyond that edge only the variance helps.
    """
    c, step = line.centre, 2.0 * jnp.pi / line.period
    top = step * NODES
    size = sums.lost_size * (1.0 + 2.0**-40)
    log_fall, edge = fall(fallen, of.steps, c, top, sums.largest, sums.lost, size)
    log_most, b = jnp.stack([jnp.minimum(log_fall, log_centre), log_centre]), jnp.stack([top, edge])
    x = jnp.where(c > 0, line.start, line.stop)
    digits = c * x + log_most - jnp.log(b) - line.wanted + _TAIL_DIGITS
    variance = 2.0 * jnp.max(jnp.maximum(digits, 0.0) / jnp.maximum(b * b - c * c, 1e-300))
    tails = log_most + 0.5 * variance * (c * c - b * b) * (1.0 - 2.0**-50) - jnp.log(jnp.pi * (b - 0.5 * step))
    return jnp.stack([variance, jnp.logaddexp(*tails) + 2.0**-40])


def _terms(of: Average, line: LinePlan, logs: Any, variance: Any) -> tuple[Any, Any]:
    """Terms of a line's sum at x = 1, over e^scale [4, N]: real and imaginary parts, sizes, error bounds; and scale."""
    t, c, h = of.steps, line.centre, 2.0 * jnp.pi / line.period
    y = h * np.arange(NODES, dtype=np.float64)
    log_size, angle, relative = logs
    log_phi = t * log_size + 0.5 * variance * (c * c - y * y)
    phase = t * angle + variance * c * y
    square = c * c + y * y
    scale = jnp.max(log_phi - jnp.log(square))
    rounding = 2.0 * ULP * NODES + 2.0**-50 * (24.0 + jnp.abs(phase) + jnp.abs(log_phi) + jnp.abs(scale))
    weight = jnp.where(y == 0, 0.5, 1.0) * (h / jnp.pi) / square
    size = jnp.exp(log_phi - scale) * weight
    # phi errs by at most e^power times its value; where that is large, the value may be no double
    power = 1.01 * t * relative
    near, far = expm1(jnp.minimum(power, 1.0)), jnp.exp(log_phi - scale + power) * weight
    wide = jnp.where(power <= 1.0, size * near, far) + size * rounding
    # 1 / z^2, over its size
    re, im, cos, sin = (c * c - y * y) / square, -2.0 * c * y / square, *vector_cos_and_sin(phase)
    return jnp.stack([size * (re * cos - im * sin), size * (re * sin + im * cos), size, wide]), scale


def _read(of: Average, sums: _Sums, line: LinePlan, terms: Any, scale: Any, log_tail: Any) -> _Piece:
    """The profile and its second differences on a line's grid."""
    c, h, low = line.centre, 2.0 * jnp.pi / line.period, line.centre > 0
    gap = (line.stop - line.start) / (POINTS - 1 + _SKIP)
    x = line.start + gap * np.arange(POINTS, dtype=np.float64)
    y = h * np.arange(NODES, dtype=np.float64)
    # second difference of e^{zx} over the gap: (e^{z gap/2} - e^{-z gap/2})^2 / gap
    rise = sinh(0.5 * gap * c)
    cosh_square = 1.0 + rise * rise
    cos, sin = vector_cos_and_sin(0.5 * gap * y)
    size_hat = 4.0 * (rise * rise + sin * sin) / gap
    # sines that are not small err by 4 ULP of 1, and |sinh|^2 by 2 |sinh| times that
    hat_error = jnp.where(gap * y > 1.5, 32.0 * ULP * jnp.sqrt(size_hat * cosh_square / gap), 0.0)
    cos, sin = rise * cos, jnp.sqrt(cosh_square) * sin
    hat = 4.0 * (cos * cos - sin * sin) / gap, 8.0 * cos * sin / gap
    re, im, size, wide = terms
    both = jnp.stack([re, re * hat[0] - im * hat[1], im, re * hat[1] + im * hat[0]])
    outer, inner = (
        jnp.stack(vector_cos_and_sin(h * x * (k * np.arange(num, dtype=np.float64))[:, None]))
        for k, num in ((COLUMNS, ROWS), (1, COLUMNS))
    )
    # e^{zx} of the columns' heights, then of the rows'
    rows = (both.reshape(4 * ROWS, COLUMNS) @ inner.swapaxes(0, 1).reshape(COLUMNS, -1)).reshape(2, 2, ROWS, 2, POINTS)
    real, imag = rows[0, :, :, 0] - rows[1, :, :, 1], rows[0, :, :, 1] + rows[1, :, :, 0]
    found = jnp.sum(outer[0] * real - outer[1] * imag, axis=1)
    # a phase factor errs by some ULP and by its angle's error, sums over columns and rows by as many ULP as there are
    wide, turned = wide + ULP * _TURNED * size, 4.0 * ULP * size * y
    of_mass = wide * size_hat + hat_error * size
    *parts, total = jnp.sum(jnp.stack([wide, of_mass, turned, turned * size_hat, size]), axis=1)
    errors = jnp.stack(parts[:2])[:, None] + jnp.stack(parts[2:])[:, None] * jnp.abs(x)
    beyond = jnp.exp(c * x + log_tail) * (1.0 + 2.0**-40)
    grown = jnp.exp(c * x + scale) * (1.0 + 2.0**-46)
    value, mass = grown * (found + errors) + beyond * jnp.stack([jnp.ones_like(gap), 4.0 * cosh_square / gap])[:, None]
    exponents = jnp.abs(c * x) + jnp.abs(scale)
    slip = grown * (ULP * (_TURNED + 2.0 * exponents) * total + parts[2] * jnp.abs(x))
    # the contribution of a large ratio is linear in x, apart from the part that `_joined` adds
    some, mean, at_most = _with_large(of, sums)
    value = value + jnp.where(low, 0.0, jnp.maximum(mean - (1.0 + x) * some * (1.0 - 2.0**-40), 0.0))
    return _Piece(jnp.stack([x, value, mass, slip]), gap, at_most)


def _with_large(of: Average, sums: _Sums) -> tuple[Any, Any, Any]:
    """P[some ratio is large], an upper bound on E[X; some ratio is large], and one on the expected number of those."""
    t = of.steps
    log_kept = log1p(-sums.lost)
    others = jnp.exp((t - 1.0) * log_kept)
    # masses may add to a little more than 1
    mean = (sums.lost_mean * others - expm1((t - 1.0) * log_kept)) * _swollen(of, sums)
    return -expm1(t * log_kept), mean, 1.01 * t * sums.lost


def _swollen(of: Average, sums: _Sums) -> Any:
    """Upper bound on the factor by which t total masses together, and their mean, may exceed 1."""
    return jnp.exp(jnp.minimum(of.steps * (jnp.maximum(sums.more, 0.0) + 2.0**-80), 600.0)) * (1.0 + 2.0**-40)


def allocated(bases: Law, steps: Any, log_share: Any) -> Law:
    """`Law` [V] of averages of `steps` [V] independent ratios, each of the law `bases` [V].

    All V are computed on the lines and with the damping of the first one, so that differences between them give
    derivatives. Where some ratio is 0, X is taken to be 0 if that has less mass than may be cut off: a rare small ratio
    far from all others would limit the lines, and the first points of `bases` have its mass as well.

    Args:
      log_share: approximate logarithm of the mass that may be cut off on either side.
    """
    cut = jnp.where(steps * bases.at_zero < jnp.exp(log_share), bases.at_zero, 0.0)
    excess = jnp.pad(expm1(bases.log_ratio), ((0, 0), (1, 0)), constant_values=-1.0)
    mass = jnp.concatenate([(bases.at_zero - cut)[:, None], bases.mass], axis=1)
    blur = jnp.pad(bases.blur + 8.0 * ULP, ((0, 0), (1, 0)))
    of = Average(excess, mass, blur, steps)
    first = jax.tree.map(lambda x: x[0], of)
    lines = plan(first, jnp.exp(log_share))
    fallen = decay(first, jnp.min(2.0 * jnp.pi * NODES / lines.period) / first.steps)

    def piece(line: LinePlan) -> _Piece:
        sums = jax.vmap(_sums, (0, None))(of, line.cut)
        logs = jax.vmap(_log_transform, (0, 0, None))(of, sums, line)
        log_centre = first.steps * (logs[0, 0, 0] + logs[0, 2, 0])
        variance, log_tail = _damping(first, jax.tree.map(lambda x: x[0], sums), fallen, line, log_centre)
        terms, scale = jax.vmap(_terms, (0, None, 0, None))(of, line, logs, variance)
        return jax.vmap(_read, (0, 0, None, 0, 0, None))(of, sums, line, terms, scale, log_tail)

    pieces = jax.lax.map(piece, lines)
    swollen = jax.vmap(lambda of: _swollen(of, _sums(of, jnp.inf)))(of)
    chords = _chords(jax.tree.map(lambda x: x[:, 0], pieces))
    law = jax.vmap(_joined, (1, 0, None))(pieces, bases.beyond * swollen, chords)
    lost = steps * cut * swollen * (1.0 + 2.0 * steps * cut)
    return law._replace(ends=law.ends + jnp.stack([lost, jnp.zeros_like(lost)], axis=1))


_IS_LOW, _MEETS = np.arange(NUM_LOW + NUM_HIGH) < NUM_LOW, np.arange(NUM_LOW + NUM_HIGH - 1) == NUM_LOW - 1


def _profiles(of: _Piece) -> Any:
    """Upper bounds [J, P] on the profile, below the mean and above it."""
    # with a large ratio X lies below x only if all others together lie below the first grid point of all
    value = of.rows[:, 1]
    return value + jnp.where(_IS_LOW, 0.0, value[0, 0] * of.large)[:, None]


def _chords(of: _Piece) -> Any:
    """First and last point [2, J] that the law keeps of each line's grid; any choice is valid.

    Between two lines the shortest chord at which slopes rise is taken or, if there is none, the one at which they fall
    least.
    """
    x, value = of.rows[:, 0], _profiles(of)
    slopes = jnp.diff(value, axis=1) / of.gap[:, None]
    away = x[1:, None, :_NEAR] - x[:-1, -_NEAR:, None]  # [J - 1, NEAR, NEAR]
    # profiles above the mean are less by x - 1
    meets = _MEETS[:, None, None]
    across = (value[1:, None, :_NEAR] + jnp.where(meets, x[1:, None, :_NEAR], 0.0) - value[:-1, -_NEAR:, None]) / away
    before, after = slopes[:-1, -_NEAR:, None], slopes[1:, None, :_NEAR] + meets
    fall = jnp.maximum(jnp.maximum(before - across, across - after), 0.0) / (jnp.abs(after - before) + 1e-300)
    cost = (away / away[:, -1:, :1] + 1e3 * jnp.where(fall > 1e-6, 1.0 + fall, 0.0)).reshape(-1, _NEAR * _NEAR)
    first, last = np.tile(np.arange(_NEAR), _NEAR), POINTS - _NEAR + np.repeat(np.arange(_NEAR), _NEAR)
    chosen = jax.vmap(value_at_minimum, (0, None))(cost, np.stack([first, last]).astype(np.float64))  # [J - 1, 2]
    return jnp.stack([jnp.pad(chosen[:, 0], (1, 0)), jnp.append(chosen[:, 1], POINTS - 1.0)])


def _joined(of: _Piece, beyond: Any, chords: Any) -> Law:
    """The law whose profile joins the pieces' profiles by chords, between the points that `_chords` keeps.

    Below the mean profiles are E(x - X)_+; above it E(X - x)_+, whose slopes are less by 1. Where they meet, the former
    is used.
    """
    x, value, mass, slip = of.rows[:, 0], _profiles(of), of.rows[:, 2], of.rows[:, 3]
    k, (start, stop) = np.arange(POINTS), chords[:, :, None]

    def at(point: Any) -> Any:
        """[3, J]: x, the profile, and its slip there."""
        return jnp.sum(jnp.where(k == point, jnp.stack([x, value, slip]), 0.0), axis=2)

    (x_first, first, slip_first), (x_last, last, slip_last) = at(start), at(stop)
    inner, outer = (at(start + 1.0)[1] - first) / of.gap, (last - at(stop - 1.0)[1]) / of.gap
    away = x_first[1:] - x_last[:-1]
    across = (first[1:] + jnp.where(_MEETS, x_first[1:], 0.0) - last[:-1]) / away
    at_zero = first[0] / (1.0 + x_first[0])
    left = inner + np.append(0.0, _MEETS) - jnp.concatenate([at_zero[None], across])
    right = jnp.pad(across, (0, 1)) - outer
    size = jnp.abs(value).max(1) / of.gap
    beside = jnp.maximum(jnp.pad(size[1:], (0, 1)), jnp.pad(size[:-1], (1, 0)))
    noise = 16.0 * ULP * (size + beside + np.append(0.0, _MEETS) + np.append(_MEETS, 0.0))
    # a value at an end that is too high by twice its slip makes the chords on both sides too flat, or too steep
    beside = jnp.stack([jnp.append(1.0 + x_first[:1], away), jnp.append(away, jnp.inf)])
    slack = 2.0 * jnp.stack([slip_first, slip_last]) * (1.0 / of.gap + 1.0 / beside)
    ends = (jnp.maximum(jnp.stack([left, right]), 0.0) + noise + slack)[:, :, None]
    mass = jnp.where((k > start) & (k < stop), jnp.maximum(mass, 0.0), 0.0)
    mass = jnp.where(k == start, ends[0], jnp.where(k == stop, ends[1], mass)).reshape(-1)
    x = x.reshape(-1)
    log_ratio = log1p(jnp.maximum(x, -1.0 + 1e-15))
    blur = 8.0 * ULP * (jnp.abs(log_ratio) + (1.0 + jnp.abs(x)) / (1.0 + x))
    return Law(jnp.stack([log_ratio, mass * (1.0 + 2.0**-45), blur]), jnp.stack([at_zero, last[-1] + beyond]))
