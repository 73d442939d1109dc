"""Certified sums over the Gaussian variable: the transform of one step's likelihood ratio at complex arguments.

`jaxacct.divergence.allocation._lines` needs E[e^{-uW}], also with the ratio cut off smoothly, at equidistant u on a
vertical line. A node there is the sum u = a + b of one of a few outer points a and one of several inner points b, and
e^{-uW} the product of two factors: the sums over the grid become matrix products.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._precision import HostProgram
from jaxacct.divergence.allocation._grid import TABLE_ERROR, Complex, Cutoff, Grid, Real
from jaxacct.special import ULP

NODE_BLOCK = 512  # nodes u of one call of the compiled programs
_OUTER = 16  # of these, outer points a; the other factor of NODE_BLOCK are inner points b. Speed only
_NUM_BLOCKS = 32  # partial sums over the grid; `_dot_error` books the rounding that belongs to this number
_SMALL = 0.1  # |x| below which e^-x - 1 + x is summed as a series, whose length is sized for this
# Coefficients of fdlibm's polynomials for sine and cosine on [-pi/4, pi/4], highest power first.
_SINE = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
         -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)  # fmt: skip
_COSINE = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
           2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)  # fmt: skip


def _barrier(x: Any) -> Any:
    # without it what lies before is computed again in each use (XLA CPU, jaxlib 0.10.2)
    return jax.lax.optimization_barrier(x)  # type: ignore[no-untyped-call]


def _exp(z: Any) -> Any:
    """e^z for complex z, to two ulp for |Im z| to 1e6; XLA's takes five times as long (its sine is scalar on the CPU).

    A multiple n of pi/2 is subtracted from Im z in three parts, of which n times the first two is exact. The rest goes
    through the polynomials of fdlibm.
    """
    y = z.imag
    n = jnp.round(y * 0.6366197723675814)
    r = ((y - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21
    r = jnp.clip(r, -1.0, 1.0)  # beyond 1e6
    r2 = r * r
    sine, cosine = jnp.full_like(r, _SINE[0]), jnp.full_like(r, _COSINE[0])
    for a, b in zip(_SINE[1:], _COSINE[1:], strict=True):
        sine, cosine = sine * r2 + a, cosine * r2 + b
    sine, cosine = r + r * r2 * sine, 1.0 - 0.5 * r2 + r2 * r2 * cosine
    quadrant = n - 4.0 * jnp.floor(0.25 * n)
    odd = (quadrant == 1.0) | (quadrant == 3.0)
    turned = jnp.where(odd, cosine, sine), jnp.where(odd, sine, cosine)
    modulus = jnp.exp(z.real)
    imag = modulus * jnp.where(quadrant >= 2.0, -turned[0], turned[0])
    real = modulus * jnp.where((quadrant == 1.0) | (quadrant == 2.0), -turned[1], turned[1])
    return jax.lax.complex(real, imag)


def _size(z: Any) -> Any:
    """Between |z| and sqrt 2 |z|, and much faster than |z|."""
    return jnp.abs(z.real) + jnp.abs(z.imag)


def _excess(x: Any, shift: Any, factor: Any, high: Any) -> tuple[Any, Any]:
    """e^-x Q - 1 + x and a bound on its rounding error, where x and the shift are known to 8 ulp.

    Nothing cancels where x is small and Q near 1. Q is 1 - high where the shift is 0, e^-shift factor elsewhere.
    """
    value = _exp(-x - shift)
    size = _size(x)
    small = (size < _SMALL) & (shift == 0)
    xs = jnp.where(small, x, 0.0)
    series = jnp.ones_like(xs)
    for n in range(11, 2, -1):
        series = 1.0 - xs * (1.0 / n) * series
    near = 0.5 * xs * xs * series - value * high
    far = value * factor - 1.0 + x
    modulus = _size(value)
    weight = modulus * _size(factor)
    near_error = 40.0 * ULP * size * size
    far_error = ULP * (weight * (8.0 + 10.0 * (size + _size(shift))) + 2.0 + 10.0 * size)
    tables = jnp.where(shift == 0, modulus * _size(high), weight) * TABLE_ERROR
    return jnp.where(small, near, far), jnp.where(small, near_error, far_error) + tables


def _dot(a: Any, b: Any) -> Any:
    """The sum over the leading axis, a multiple of 32 long, of a[:, :, None] b[:, None, :]."""
    return jnp.sum(jnp.einsum("bga,bgc->bac", _blocks(a), _blocks(b)), 0)


def _block_sums(a: Any) -> Any:
    """The sum over the leading axis, with the rounding of `_dot`."""
    return jnp.sum(_barrier(jnp.sum(_blocks(a), 1)), 0)


def _blocks(a: Any) -> Any:
    """The leading axis cut into _NUM_BLOCKS: [blocks, length of one, columns]."""
    return a.reshape(_NUM_BLOCKS, -1, a.shape[-1])


def _dot_error(size: int) -> float:
    """The relative rounding error of `_dot` on complex numbers: of a sum of blocks' sums, each in any order."""
    return 2.0 * ULP * (size / _NUM_BLOCKS + _NUM_BLOCKS)


def _centred_sums(
    u: Any, is_outer: Any, w: Any, density: Any, density_error: Any, shift: Any, factor: Any, high: Any
) -> tuple[Any, Any]:
    """E[e^{-uW} Q - 1 + uW] [outer, inner] at u = a + b, and a bound on its rounding error.

    `u` holds the outer points and then the inner ones, and `is_outer` is 1.0 or 0.0 accordingly. With a and b in place
    of aW and bW, e^{-(a+b)} Q - 1 + a + b = A + B + (A - a)(B - b) with A = e^-a Q - 1 + a and B = e^-b - 1 + b:
    nothing cancels, and all of it is one matrix product.
    """
    w, density, relative, shift, factor, high = (v[:, None] for v in (w, density, density_error, shift, factor, high))
    x = w * u
    f, f_error = _excess(x, shift * is_outer, 1.0 + (factor - 1.0) * is_outer, high * is_outer)
    x, f, f_error = _barrier((x, f, f_error))
    e, e_error = f - x, f_error + 10.0 * ULP * _size(x)
    relative = relative + _dot_error(w.shape[0])
    weight = _size(density)
    alone, alone_error = _block_sums(density * f), _block_sums(weight * (f_error + relative * _size(f)))
    left, right = density * e, e[:, _OUTER:]
    size, loss = weight * _size(e), weight * (e_error + relative * _size(e))
    joint_error = _dot(loss[:, :_OUTER], _size(right)) + _dot(size[:, :_OUTER], e_error[:, _OUTER:])
    total = alone[:_OUTER, None] + alone[_OUTER:] + _dot(left[:, :_OUTER], right)
    return total, alone_error[:_OUTER, None] + alone_error[_OUTER:] + joint_error


def _weighted_sums(u: Any, is_outer: Any, v: Any, weight: Any, weight_error: Any) -> tuple[Any, Any]:
    """The sum of weight e^{-uV} [outer, inner] at u = a + b, and a bound on its rounding error."""
    v, weight, relative = (x[:, None] for x in (v, weight, weight_error))
    x = v * u
    loss = (8.0 + 10.0 * _size(x)) * ULP + (relative + _dot_error(v.shape[0])) * is_outer
    value = _exp(-x)
    left, right = (weight * value)[:, :_OUTER], value[:, _OUTER:]
    left_size, right_size = _size(left), _size(right)
    error = _dot(left_size * loss[:, :_OUTER], right_size) + _dot(left_size, right_size * loss[:, _OUTER:])
    return _dot(left, right), error


_centred_program = HostProgram(_centred_sums)
_weighted_program = HostProgram(_weighted_sums)


def _on_line(program: HostProgram, centre: float, spacing: float, num_nodes: int, *tables: Any) -> tuple[Complex, Real]:
    """The program's value and error [num_nodes] at u = centre + i k spacing.

    It is called for NODE_BLOCK nodes at a time, so that one shape is compiled.
    """
    is_outer = np.repeat([1.0, 0.0], [_OUTER, NODE_BLOCK // _OUTER])
    inner = 1j * spacing * np.arange(NODE_BLOCK // _OUTER)
    outer = centre + 1j * (spacing * len(inner)) * np.arange(num_nodes // len(inner))
    starts = range(0, len(outer), _OUTER)
    parts = [program(np.concatenate([outer[i : i + _OUTER], inner]), is_outer, *tables) for i in starts]
    total, error = (np.concatenate([part[k].ravel() for part in parts]) for k in (0, 1))
    return total, error


def centred_transform(
    of: Grid, cut: Cutoff | None, centre: float, spacing: float, num_nodes: int
) -> tuple[Complex, Real]:
    """Complex [N]: E[e^{-uW} Q(rate Y)] - 1 at u = centre + i k spacing, k < N; and bounds [N] on its absolute error.

    Without cutoff Q is 1 and centre >= 0; with it -rate < centre <= 0. N is `num_nodes`, a multiple of NODE_BLOCK.
    Besides rounding, the error is that of the rule and of the window. On the contour of eta' the integrand
    e^{-uW} Q - 1 + uW is, without cutoff, at most either of

        (|u|^2/2) (1 + Y)^2 e^{Re u},    e^{Re u} + 1 + |u| (1 + Y);

    with it, |e^{-uW} Q - 1 + uW| <= |e^{-x} - 1 + x| |Q| + |1 - Q| (1 + |x|), x = uW, is at most

        (|u|^2/2) (1 + Y)^2 q + r (1 + |u| (1 + Y)),   q and r of `Cutoff.bounds`.

    Expectations of these are taken on the same grid, and doubled.
    """
    zero = np.zeros_like(of.rotated_y)
    tables = (zero, zero + 1.0, zero) if cut is None else (cut.rotated_shift, cut.rotated_factor, cut.rotated_high)
    args = (of.rotated_w, of.rotated_density, of.density_error)
    total, error = _on_line(_centred_program, centre, spacing, num_nodes, *args, *tables)
    size, growth = np.hypot(centre, spacing * np.arange(num_nodes)), math.exp(max(centre, 0.0))
    variance = math.exp(of.s**2)
    tilt = math.exp(0.5 * (of.eta * of.sigma) ** 2)
    if cut is None:
        crude = np.minimum(0.5 * size**2 * (variance + 3.0), 1.0 + growth + 2.0 * size)
        bound = (of.strip(0.0, of.eta) + of.strip(of.eta_top, of.eta)) * growth * crude
        return total, error + bound + 4.0 * tilt * growth * size**2 * (variance * of.right(2.0) + of.left)
    bound = np.zeros(num_nodes)
    for eta_end in (0.0, of.eta_top):
        q, r = cut.bounds(of, eta_end, centre)
        square = float(of.density @ ((1.0 + of.y) ** 2 * q))
        square += 4.0 * cut.beyond(of, eta_end, centre) * variance * of.right(2.0)
        first, second = float(of.density @ r), float(of.density @ ((1.0 + of.y) * r))
        bound += 2.0 * of.strip(eta_end, of.eta) * (0.5 * size**2 * square + first + size * second)
    right = (cut.beyond(of, of.eta, centre) + 1.0 + size) * of.right() + size * of.right(1.0)
    left = 4.0 * of.left * (size**2 + (1.0 + 2.0 * size) * cut.high[0])
    return total, error + bound + 2.0 * tilt * (right + left)


def weighted_transform(
    of: Grid, cut: Cutoff | None, centre: float, spacing: float, num_nodes: int
) -> tuple[Complex, Real]:
    """Complex [N]: E[e^{-uW} (1 - Q)(rate Y)], or without cutoff E[e^{-uY}]; and bounds [N] on its absolute error.

    At u = centre + i k spacing, k < N, centre >= 0; N is `num_nodes`, a multiple of NODE_BLOCK. On the contour of eta'
    the integrand is at most e^{Re u} r (see `Cutoff.bounds`), or e^{-Re u cos(eta') Y} without cutoff.
    """
    tilt = math.exp(0.5 * (of.eta * of.sigma) ** 2)
    ends = (0.0, of.eta_top)
    if cut is None:
        v, weight, growth, extra = of.rotated_y, of.rotated_density, 1.0, 0.0
        sizes = [float(of.density @ np.exp(-centre * math.cos(e) * of.y)) for e in ends]
        window = of.left + of.right()
    else:
        v, weight, growth, extra = of.rotated_w, of.rotated_density * cut.rotated_high, math.exp(centre), TABLE_ERROR
        sizes = [float(of.density @ cut.bounds(of, e, 0.0)[1]) for e in ends]
        window = (2.0 + cut.beyond(of, of.eta, 0.0)) * of.right() + 2.0 * cut.high[0] * of.left
    total, error = _on_line(_weighted_program, centre, spacing, num_nodes, v, weight, of.density_error + extra)
    bound = 2.0 * sum(of.strip(e, of.eta) * size for e, size in zip(ends, sizes, strict=True))
    return total, error + growth * (bound + 2.0 * tilt * window)
