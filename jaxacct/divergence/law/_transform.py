"""The transform E e^{-uW} of a ratio of finitely many points, W its excess over 1: its values on lines, and its decay.

Shapes: [B] points; [N] nodes of a line; [D] heights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jnp
from jaxacct.divergence._centred_exp import centred_exp
from jaxacct.divergence.law._law import stacked, written
from jaxacct.special import ULP, vector_cos_and_sin

ROWS, COLUMNS = 32, 16  # of the nodes of a line
NODES = ROWS * COLUMNS
_MOST = 700.0  # exponents that a double holds
_OCTAVES = 16  # of heights at which the decay is bounded


class Average(NamedTuple):
    """X: the values of a ratio minus 1, their masses, and the number of ratios that X averages."""

    excess: Any  # [B], y - 1
    mass: Any  # [B]
    blur: Any  # [B], error of y - 1, relative to y
    steps: Any  # t


def _size(z: Any) -> Any:
    """Between |z| and sqrt 2 |z|."""
    return jnp.abs(z[0]) + jnp.abs(z[1])


def transform(of: Average, centre: Any, step: Any) -> tuple[Any, Any]:
    """sum m (e^{-uW} - 1 + uW) [2, N], W = y - 1, at the N nodes u = centre + i k step, and bounds [N] on its error.

    A node is the sum u = a + b of an outer point and an inner one. With e_u = e^{-uW} - 1 and f_u = e_u + uW

        f_{a+b} = f_a + f_b + e_a e_b,

    in which nothing cancels, and the sum of the last term is a product of matrices. Its errors are summed by the
    Cauchy-Schwarz inequality.
    """
    w, mass = of.excess, of.mass
    outer = np.arange(ROWS + COLUMNS) < ROWS
    real = jnp.where(outer, centre, 0.0)[:, None]
    imag = step * np.concatenate([COLUMNS * np.arange(ROWS), np.arange(COLUMNS)])[:, None]
    x, y = w * real, w * imag
    re, im, rounding = centred_exp(jnp.maximum(x, -_MOST), y, vector_cos_and_sin)
    f = written(stacked(re, im), step)
    e = f - jnp.stack([x, y])
    size, grown = jnp.abs(x) + jnp.abs(y), jnp.exp(jnp.minimum(-x, _MOST))
    # the point errs by `blur` of y, and u W by 8 ULP
    moved = of.blur * (jnp.abs(w) + 1.0) * (jnp.abs(real) + imag) + 8.0 * ULP * size
    f_error = rounding + moved * jnp.minimum(size * jnp.maximum(grown, 1.0), grown + 1.0)
    e_error = rounding + 10.0 * ULP * size + moved * grown
    relative = ULP * (2.0 * len(mass) + 32.0)  # sums of B terms in any order
    # beyond, exponentials are cut
    f_error = jnp.where(x > -_MOST, f_error, jnp.inf)
    e_size = _size(e)
    terms = [*f, f_error + relative * _size(f), e_size**2, (e_error + relative * e_size) ** 2]
    alone = stacked(*terms) @ mass  # [5, ROWS + COLUMNS]
    first, second = alone[:, :ROWS], alone[:, ROWS:]
    joint = (e[:, :ROWS] * mass).reshape(2 * ROWS, -1) @ e[:, ROWS:].reshape(2 * COLUMNS, -1).T
    real, imag = joint.reshape(2, ROWS, 2, COLUMNS).swapaxes(1, 2)
    value = first[:2, :, None] + second[:2, None] + jnp.stack([real[0] - imag[1], real[1] + imag[0]])
    (norm, wide), (other_norm, other_wide) = jnp.sqrt(first[3:, :, None]), jnp.sqrt(second[3:, None])
    error = first[2, :, None] + second[2] + wide * (other_norm + other_wide) + norm * other_wide
    return value.reshape(2, -1), 1.01 * error.reshape(-1)


class Decay(NamedTuple):
    """|E e^{-iuW}| between heights u, over all ratios: at most `size` from one height to the next, and the data for a
    bound on its distance from the same transform on another line."""

    heights: Any  # [D], increasing
    size: Any  # [D - 1]
    slope: Any  # [D - 1]: upper bound on |E W e^{-iuW}|
    square: Any  # E W^2
    gap: Any  # approximate square of the gap between points


def decay(of: Average, lowest: Any) -> Decay:
    """`Decay` [D] from the height `lowest` on, by factors of 2^(1/8)."""
    w, m = of.excess, of.mass
    mean, square, wide, gap, drift = jnp.sum(
        jnp.stack([m * jnp.abs(w), m * w * w, m * (w + 1.0) * of.blur, m * _gaps(w) ** 2, m * w]), axis=1
    )
    mean, square = (x * (1.0 + 2.0**-40) for x in (mean, square))
    u = lowest * 2.0 ** (np.arange(8 * _OCTAVES) / 8.0)
    re, im = jnp.stack(vector_cos_and_sin(jnp.minimum(u[:, None] * w, 1e300))) @ m
    error = wide * u + ULP * (2.0 * len(w) + 8.0 + 8.0 * u * mean)
    size = jnp.sqrt(re * re + im * im) + error
    # E W is 0 apart from the rounding up of masses and a mean at infinity
    slope = jnp.minimum(u[1:] * square + jnp.abs(drift), mean) + wide + ULP * (4.0 * len(w)) * (1.0 + mean)
    between = jnp.maximum(size[1:], size[:-1]) + 0.5 * (u[1:] - u[:-1]) * slope
    return Decay(u, between * (1.0 + 2.0**-40), slope, square, gap)


def _gaps(w: Any) -> Any:
    """The gap before each point, at most 1; 0 for the first point."""
    return jnp.minimum(w - jnp.concatenate([w[:1], w[:-1]]), 1.0)


def fall(of: Decay, t: Any, c: Any, top: Any, largest: Any, lost: Any, lost_size: Any) -> tuple[Any, Any]:
    """A tuple: an upper bound on log |phi(c + iy)| for y from `top` to an edge, and that edge, no less than `top`.

    On the line c/t a ratio's transform differs from that on the imaginary axis by at most |c/t| |E W e^{-iuW}| and
    (c/t)^2 / 2 times the largest e^{-cW/t} E W^2. Ratios that are left out, of mass `lost`, add this mass and |c/t|
    times `lost_size`, an upper bound on their E |W|; `largest` is the largest W that is kept.
    """
    v, u = jnp.abs(c) / t, top / t
    most = jnp.exp(jnp.minimum(jnp.maximum(v, v * jnp.where(c < 0, largest, 0.0)), 690.0))
    beside = v * (of.slope + lost_size) + 0.5 * v * v * most * of.square + lost
    # up to the height to which the transform of that many points decays
    heights = of.heights[1:]
    known = heights * jnp.sqrt(of.gap) < 1.0
    used = (heights > u) & known
    parts = [jnp.where(used, of.size + beside, 0.0), jnp.where(used, 1.0, 0.0), jnp.where(known, heights, 0.0)]
    size, is_used, highest = jnp.max(jnp.stack(parts), axis=1)
    size = jnp.where(of.heights[0] <= u * (1.0 + 1e-9), size, jnp.inf)
    return jnp.where(is_used > 0.0, t * jnp.log(size) + 2.0**-40, -700.0), jnp.maximum(t * highest, top)
