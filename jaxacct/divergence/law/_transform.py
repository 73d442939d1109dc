"""The transform E e^{-uW} of a ratio of finitely many points, W its excess over 1: on lines, and how far it falls.

Shapes: [B] points; [N] nodes of a line; [D] heights.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct.divergence._centred_exp import centred_exp
from jaxacct.special import ULP

ROWS, COLUMNS = 32, 16  # of the nodes of a line
NODES = ROWS * COLUMNS
_MOST = 700.0  # exponents that a double holds
_OCTAVES = 16  # of heights at which the decay is looked at


class Average(NamedTuple):
    """X: what a ratio less 1 may be, its masses, and of how many ratios X is the average."""

    excess: Any  # [B], y - 1
    mass: Any  # [B]
    blur: Any  # [B], by which y - 1 errs, relative to y
    steps: Any  # t


def _turn(y: Any) -> tuple[Any, Any]:
    return jnp.cos(y), jnp.sin(y)


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
    step = step._replace(e_error=jnp.minimum(step.e_error, z_size + 2.0))
    # |1 + e| is the same for all j: no error is larger than that of 0 in its place
    most = jax.lax.stop_gradient(_size(start.e)) + start.e_error + 2.0

    def rung(at: _Rungs, _: None) -> tuple[_Rungs, _Rungs]:
        size, joint = jax.lax.stop_gradient(_size(at.e)), at.e * z
        rounding = 4.0 * ULP * (size + 1.0) * z_size
        e_error = at.e_error + step.e_error * (1.0 + size) + rounding + 4.0 * ULP * size
        e = at.e + z + joint
        e_error = jnp.minimum(e_error, jax.lax.stop_gradient(_size(e)) + most)
        f_error = at.f_error + step.f_error + at.e_error * z_size + step.e_error * (size + at.e_error)
        f_error = f_error + rounding + 4.0 * ULP * jax.lax.stop_gradient(_size(at.f) + _size(step.f))
        return _Rungs(e, at.f + step.f + joint, e_error, f_error), at

    found: _Rungs = jax.lax.scan(rung, start, None, length=num)[1]
    return found


def _size(z: Any) -> Any:
    """Between |z| and sqrt 2 |z|."""
    return jnp.abs(z.real) + jnp.abs(z.imag)


def transform(of: Average, centre: Any, step: Any) -> tuple[Any, Any]:
    """sum m (e^{-uW} - 1 + uW) [N], W = y - 1, at the N nodes u = centre + i k step, and bounds on its error.

    A node is the sum u = a + b of one of a few outer points and one of several inner ones: f_{a+b} = f_a + f_b + e_a
    e_b, and the last is a product of matrices. Its errors are summed by the Cauchy-Schwarz inequality.
    """
    w, mass = of.excess, of.mass
    one, none = jnp.ones_like(centre), jnp.zeros_like(centre)
    real, imag = jnp.stack([centre, none, none])[:, None], jnp.stack([none, one, COLUMNS * one])[:, None] * step
    x, y = w * real, w * imag
    f, g, f_error = centred_exp(jnp.maximum(x, -_MOST), y, _turn)
    centred, inner, outer = (_Rungs(*parts) for parts in zip(*_rungs(of, real, imag, x, y, f, g, f_error), strict=True))
    outer = _raised(centred, outer, ROWS)
    inner = _raised(jax.tree.map(jnp.zeros_like, inner), inner, COLUMNS)
    alone = tuple(rungs.f @ (mass + 0j) for rungs in (outer, inner))
    total = alone[0][:, None] + alone[1] + (outer.e * mass) @ inner.e.T
    error = _error(*jax.lax.stop_gradient((outer, inner, mass))).reshape(-1)
    # beyond, exponentials are cut
    return total.reshape(-1), jnp.where(jnp.min(jax.lax.stop_gradient(x)) > -_MOST, error, jnp.inf)


def _rungs(of: Average, real: Any, imag: Any, x: Any, y: Any, f: Any, g: Any, f_error: Any) -> tuple[Any, ...]:
    """The fields of `_Rungs` [3, B] from what `centred_exp` gives at x + iy = W (real + i imag)."""
    e, f = jax.lax.complex(f - x, g - y), jax.lax.complex(f, g)
    w, blur, f_error, real, imag, x, y = jax.lax.stop_gradient((of.excess, of.blur, f_error, real, imag, x, y))
    size_x, grown = jnp.abs(x) + jnp.abs(y), jnp.exp(jnp.minimum(-x, _MOST))
    # the point errs by `blur` of y, and u W by 8 ULP
    moved = blur * (jnp.abs(w) + 1.0) * (jnp.abs(real) + jnp.abs(imag)) + 8.0 * ULP * size_x
    f_error = f_error + moved * jnp.minimum(size_x * jnp.maximum(grown, 1.0), grown + 1.0)
    return e, f, f_error + 10.0 * ULP * size_x + moved * grown, f_error


def _error(outer: _Rungs, inner: _Rungs, mass: Any) -> Any:
    """What the sums of all nodes [ROWS, COLUMNS] err by; sums of B terms in any order."""
    relative = ULP * (2.0 * len(mass) + 32.0)
    alone = ((rungs.f_error + relative * _size(rungs.f)) @ mass for rungs in (outer, inner))
    norms = [jnp.sqrt(_size(rungs.e) ** 2 @ mass) for rungs in (outer, inner)]
    moved = [jnp.sqrt((rungs.e_error + relative * _size(rungs.e)) ** 2 @ mass) for rungs in (outer, inner)]
    first, second = alone
    joint = moved[0][:, None] * (norms[1] + moved[1]) + norms[0][:, None] * moved[1]
    return 1.01 * (first[:, None] + second + joint)


class Decay(NamedTuple):
    """|E e^{-iuW}| between heights u, for all the ratios: at most `size` from one height to the next, and what bounds
    how far it is from the same on another line."""

    heights: Any  # [D], increasing
    size: Any  # [D - 1]
    slope: Any  # [D - 1]: at least |E W e^{-iuW}|
    square: Any  # E W^2
    gap: Any  # about the square of the gap between points


def decay(of: Average, lowest: Any) -> Decay:
    """`Decay` [D] from the height `lowest` on, in steps of 2^(1/8)."""
    w, m = of.excess, of.mass
    mean, square = jnp.sum(m * jnp.abs(w)) * (1.0 + 2.0**-40), jnp.sum(m * w * w) * (1.0 + 2.0**-40)
    u = jax.lax.stop_gradient(lowest) * 2.0 ** (np.arange(8 * _OCTAVES) / 8.0)
    turns = jax.lax.complex(*_turn(u[:8, None] * w))
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


def fall(of: Decay, t: Any, c: Any, top: Any, largest: Any, lost: Any, lost_mean: Any) -> tuple[Any, Any]:
    """A tuple: at least log |phi(c + iy)| for y from `top` to an edge, and that edge, no less than `top`.

    On the line c/t a ratio's transform differs from that on the imaginary axis by at most |c/t| |E W e^{-iuW}| and
    (c/t)^2 / 2 times the largest e^{-cW/t} E W^2. Ratios that are left out, of mass `lost` and of `lost_mean`, add
    their mass, and |c/t| times their mean; `largest` is the largest W that is kept.
    """
    v, u = jnp.abs(c) / t, top / t
    most = jnp.exp(jnp.minimum(jnp.maximum(v, v * jnp.where(c < 0, largest, 0.0)), 690.0))
    beside = v * (of.slope + lost_mean) + 0.5 * v * v * most * of.square + lost
    # as far as the transform of so many points falls
    known = of.heights[1:] * jnp.sqrt(of.gap) < 1.0
    used = (of.heights[1:] > u) & known
    size = jnp.max(jnp.where(used, of.size + beside, 0.0))
    size = jnp.where(of.heights[0] <= u * (1.0 + 1e-9), size, jnp.inf)
    edge = jnp.maximum(t * jnp.max(jnp.where(known, of.heights[1:], 0.0)), top)
    return jnp.where(jnp.any(used), t * jnp.log(size) + 2.0**-40, -700.0), edge
