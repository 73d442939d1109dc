"""Certified sums over the Gaussian variable: the transform of one step's likelihood ratio at complex arguments.

`jaxacct.divergence.allocation._lines` needs E[e^{-uW}], also with the ratio cut off smoothly, at equidistant u on a
vertical line. A node there is the sum u = a + b of one of a few outer points a and one of several inner points b, and
e^{-uW} the product of two factors: the sums over the grid become matrix products. The factors themselves are products
of two, so that few exponentials are taken. NumPy: nothing is compiled.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import TABLE_ERROR, Complex, Cutoff, Grid, Real
from jaxacct.special import ULP, rows_times, rows_times_rows

NODE_BLOCK = 128  # nodes on a line are a multiple of it
_OUTER = 32  # outer points a at a time: bounds memory
_PIECE = 32  # nodes of the grid in one product of matrices, or a 32nd of them if that is more
_STACK = 16  # pieces multiplied at a time: bounds memory
_SMALL = 0.1  # |x| below which e^-x - 1 + x is summed as a series, whose length is sized for this


def _size(z: Complex) -> Real:
    """Between |z| and sqrt 2 |z|."""
    return np.abs(z.real) + np.abs(z.imag)


class _Excess(NamedTuple):
    """e = e^-x Q - 1 and E f, f = e^-x Q - 1 + x, for one u a row, x = uW; bounds on what they err by."""

    e: Complex  # [U, N]
    e_error: Real  # [U, N]
    mean: Complex  # [U], E f
    mean_error: Real  # [U]

    def all_means(self, other: "_Excess", of: Grid) -> tuple[Complex, Real]:
        """E f [U, V] of every sum of an argument here and one of `other`, the latter without Q, and what it errs by.

        f_{x+y} = f_x + f_y + e_x e_y: nothing cancels where x and y are small, and the last is a product of matrices.
        """
        size, other_size = _size(of.rotated_density) * _size(self.e), _size(other.e)
        weight, relative = _size(of.rotated_density), _summing(of)
        pairs = np.concatenate([weight * self.e_error + relative * size, size], axis=1)
        others = np.concatenate([other_size + other.e_error, other.e_error + relative * other_size], axis=1)
        error = self.mean_error[:, None] + other.mean_error + rows_times_rows(pairs, others)
        return self.mean[:, None] + other.mean + dot(self.e * of.rotated_density, other.e), error

    def times(self, other: "_Excess", of: Grid) -> "_Excess":
        """That of every sum of an argument here and one of `other`, the latter without Q: U V rows.

        e_{x+y} = e_x + e_y + e_x e_y; `_size` of a product is at most that of its factors, and errs by 2 ULP of it.
        """
        mean, mean_error = self.all_means(other, of)
        e, e_error, size = self.e[:, None], self.e_error[:, None], _size(self.e)[:, None]
        other_size = _size(other.e)
        joint = size * (other.e_error + 6.0 * ULP * other_size) + e_error * (other_size + other.e_error)
        error = (e_error + 3.0 * ULP * size) + (other.e_error + 3.0 * ULP * other_size) + joint
        rows = (-1, len(of.g))
        return _Excess(
            ((e + other.e) + e * other.e).reshape(rows), error.reshape(rows), mean.ravel(), mean_error.ravel()
        )


def _summing(of: Grid) -> Real:
    """[N]: what the weights of a sum over the grid's nodes err by, and the sum, relative."""
    return of.density_error + dot_error(len(of.g)) + 8.0 * ULP


def _excess(of: Grid, u: Complex, cut: Cutoff | None = None) -> _Excess:
    """`_Excess` at x = uW for `u` [U]; Q is 1 without `cut`.

    Q is 1 - high where the cutoff's shift is 0, e^-shift factor elsewhere; x and the shift are known to 8 units.
    """
    x = u[:, None] * of.rotated_w
    size = _size(x)
    small = size < _SMALL
    value = np.exp(-x if cut is None else -x - cut.rotated_shift)
    modulus = _size(value)
    far, weight, exponent, tables = value, modulus, size, np.zeros_like(size)
    if cut is not None:
        small = small & (cut.rotated_shift == 0)
        far, weight = value * cut.rotated_factor, modulus * _size(cut.rotated_factor)
        exponent = size + _size(cut.rotated_shift)
        tables = np.where(cut.rotated_shift == 0, modulus * _size(cut.rotated_high), weight) * TABLE_ERROR
    far = far - 1.0 + x
    error = ULP * (weight * (8.0 + 10.0 * exponent) + 2.0 + 10.0 * size)
    xs = x[small]
    series = np.ones_like(xs)
    for n in range(11, 2, -1):
        series = 1.0 - xs * (1.0 / n) * series
    near = 0.5 * xs * xs * series
    if cut is not None:
        near = near - value[small] * np.broadcast_to(cut.rotated_high, x.shape)[small]
    far[small], error[small] = near, 40.0 * ULP * size[small] ** 2
    error = error + tables
    lost = rows_times(error + _summing(of) * _size(far), _size(of.rotated_density))
    return _Excess(far - x, error + 10.0 * ULP * size, dot(far, of.rotated_density[None])[:, 0], lost)


def dot(a: Any, b: Any) -> Any:
    """Array [U, V]: the sums over N of `a` [U, N] times `b` [V, N], in pieces; `dot_error` has their rounding."""
    size = max(_PIECE, a.shape[1] // 32)
    if a.shape[1] % size:
        a, b = (np.pad(x, ((0, 0), (0, -x.shape[1] % size))) for x in (a, b))
    a, b = (x.reshape(len(x), -1, size).swapaxes(0, 1) for x in (a, b))
    stacks = (slice(i, i + _STACK) for i in range(0, len(a), _STACK))
    return sum(rows_times_rows(a[of], b[of]).sum(0) for of in stacks)


def dot_error(size: int) -> float:
    """Float: the relative rounding error of `dot` on complex numbers: of a sum of pieces' sums, each in any order."""
    piece = max(_PIECE, size // 32)
    return 2.0 * ULP * (piece + size // piece + 1.0)


def _points(num_nodes: int) -> tuple[int, int, int]:
    """Inner points, and the counts that they and `_OUTER` outer points are the products of: rows of exponentials."""
    inner = 16 if num_nodes <= 512 else 32 if num_nodes <= 4096 else 64
    return inner, 4 if inner < 64 else 8, 4


def _centred_sums(of: Grid, cut: Cutoff | None, centre: float, spacing: float, num_nodes: int) -> tuple[Complex, Real]:
    """E[e^{-uW} Q - 1 + uW] [num_nodes] at u = centre + i k spacing, and a bound on its rounding error."""
    inner, inner_rows, outer_rows = _points(num_nodes)
    fine = _excess(of, 1j * spacing * np.arange(inner_rows))
    b = _excess(of, 1j * spacing * inner_rows * np.arange(inner // inner_rows)).times(fine, of)
    step, found = spacing * inner, []
    fine = _excess(of, 1j * step * np.arange(outer_rows))
    for start in range(0, num_nodes // inner, _OUTER):
        count = min(_OUTER, num_nodes // inner - start)
        coarse = centre + 1j * step * (start + outer_rows * np.arange(-(-count // outer_rows)))
        a = _Excess(*(x[:count] for x in _excess(of, coarse, cut).times(fine, of)))
        found.append(a.all_means(b, of))
    total, error = (np.concatenate(x).ravel() for x in zip(*found, strict=True))
    return total, error * (1.0 + 2.0**-30)


def _weighted_sums(
    v: Complex, weight: Complex, weight_error: Real, centre: float, spacing: float, num_nodes: int
) -> tuple[Complex, Real]:
    """The sum of weight e^{-uV} [num_nodes] at u = centre + i k spacing, and a bound on its rounding error."""
    inner, inner_rows, outer_rows = _points(num_nodes)
    b, b_loss = _exponentials(1j * spacing * inner_rows * np.arange(inner // inner_rows), 1j * spacing, inner_rows, v)
    b_size, total, error, step = _size(b), [], [], spacing * inner
    relative = weight_error + dot_error(len(v)) + 4.0 * ULP
    for start in range(0, num_nodes // inner, _OUTER):
        count = min(_OUTER, num_nodes // inner - start)
        coarse = centre + 1j * step * (start + outer_rows * np.arange(-(-count // outer_rows)))
        a, a_loss = (x[:count] for x in _exponentials(coarse, 1j * step, outer_rows, v))
        a = a * weight
        a_size = _size(a)
        pairs = np.concatenate([a_size * (a_loss + relative), a_size], axis=1)
        error.append(rows_times_rows(pairs, np.concatenate([b_size, b_size * b_loss], axis=1)))
        total.append(dot(a, b))
    return np.concatenate(total).ravel(), np.concatenate(error).ravel() * (1.0 + 2.0**-30)


def _exponentials(coarse: Complex, step: complex, rows: int, v: Complex) -> tuple[Complex, Real]:
    """e^{-uV} [U rows, N] at u = coarse + k step, k < `rows`, and bounds on their relative errors."""
    x, y = coarse[:, None, None] * v, (step * np.arange(rows))[:, None] * v
    loss = (24.0 + 10.0 * (_size(x) + _size(y))) * ULP
    value = np.exp(-x) * np.exp(-y)
    return value.reshape(-1, len(v)), loss.reshape(-1, len(v))


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
    total, error = _centred_sums(of, cut, centre, spacing, num_nodes)
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
    total, error = _weighted_sums(v, weight, of.density_error + extra, centre, spacing, num_nodes)
    bound = 2.0 * sum(of.strip(e, of.eta) * size for e, size in zip(ends, sizes, strict=True))
    return total, error + growth * (bound + 2.0 * tilt * window)
