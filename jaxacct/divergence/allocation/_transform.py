"""Certified sums over the Gaussian variable: transforms of one step's likelihood ratio at complex arguments.

`jaxacct.divergence.allocation._lines` and the complex moments need E[e^{-uW}], with the ratio whole or cut off
smoothly, at equidistant u on vertical lines. Each such u is the sum u = a + b of one of a few outer points a and one of
several inner points b, so that e^{-uW} is the product of two factors, and the sums over the rule become matrix
products. Errors are bounded per lane rather than per node where that costs little tightness.

Shapes: [L] lanes; [L, Z] nodes of the rule; [L, N] nodes of a vertical line; [L, U] outer or inner points.
"""

from typing import NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import TABLE_ERROR, Complex, Real
from jaxacct.divergence.allocation._rule import NOTHING, Cut, Rule
from jaxacct.special import ULP, complex_exp, rows_times, rows_times_rows

INNER = 16  # nodes of a line that share an outer point: their number is a multiple of it
_LONG = 1024  # from this many nodes on, more of them share an outer point, to bound time and memory
# In ulp: the error of uW, and of exponentials and circular functions of it. The certificate depends on them.
_ARGUMENT, _FUNCTIONS = 24.0, 16.0


def _points(centre: Real, spacing: Real, num: int) -> tuple[Complex, Complex]:
    """Outer and inner points [L, U] whose sums are the nodes centre + i k spacing, k < `num`, in their order."""
    inner = 4 * INNER if num >= _LONG and num % (4 * INNER) == 0 else INNER
    step = 1j * spacing[:, None]
    return centre[:, None] + step * (inner * np.arange(num // inner)), step * np.arange(inner)


class _Factor(NamedTuple):
    """e = e^-x Q - 1 at x = uW for some u in each lane, [L, U, Z], and sums over the rule, [L, U], with f = e + x."""

    e: Complex
    sum_f: Complex  # of f
    sum_error: Real  # bound on its error
    norm: Real  # root of the sum of |e|^2
    norm_error: Real  # the same norm of the error of e, and of |e| times the errors of the weights


def _factor(of: Rule, cut: Cut | None, u: Complex, share: Real) -> _Factor:
    """`_Factor` for `u` [L, U], Re u >= 0 without `cut`, where Q is 1. In norms weights are times `share` [L, Z].

    With v + i p the exponent and T = tan(p/2), e is expm1(v) - e^v 2 T^2/(1+T^2) + i e^v 2 T/(1+T^2). Its error is that
    of v + i p, times e^v, plus a few units of |expm1 v| and e^v |p|, where |expm1 v| <= |e| + e^v |p|. With
    m = |v| + |p| that is (_ARGUMENT + 2 _FUNCTIONS) e^v m + _FUNCTIONS |e| units at most. Without cutoff
    e^v <= e^{Re u}, which is used where that is not large.
    """
    x = u[:, :, None] * of.turned_w[:, None, :]
    v, p = -x.real, -x.imag
    if cut is not None:
        v, p = v + cut.log_size[:, None], p + cut.phase[:, None]
    # where e^v is 0 the angle does not matter, and tangents of large numbers are slow
    less, t = np.expm1(np.minimum(v, 700.0)), np.tan(0.5 * (p * (v > -700.0)))
    lost = np.where(v.max(2) > 700.0, np.inf, 0.0)  # where it overflows there is no bound
    whole = less + 1.0
    turned = 2.0 * t / (1.0 + t * t) * whole
    e = np.empty_like(x)
    e.real, e.imag = less - t * turned, turned
    x += e
    weight = np.abs(of.turned_density.real) + np.abs(of.turned_density.imag)
    column, size_w = weight[:, None], np.abs(of.turned_w.real) + np.abs(of.turned_w.imag)
    size_u, num = np.abs(u.real) + np.abs(u.imag), of.y.shape[1]
    relative = of.density_error + 4.0 * ULP * (num + 8.0)
    shared = (weight * share)[:, None]
    square = e.real * e.real + e.imag * e.imag
    norm = np.sqrt(rows_times(square, shared))
    modulus = rows_times(np.sqrt(square), column)
    small = rows_times(np.abs(x.real) + np.abs(x.imag), (relative * weight)[:, None])
    loose = wide = 0.0 * modulus
    if cut is None and u.real.max() <= 1.0:
        moved = np.exp(np.maximum(u.real, 0.0)) * size_u
        mean, deviation = (weight * size_w).sum(1), np.sqrt((shared[:, 0] * size_w * size_w).sum(1))
        first, second = moved * mean[:, None], moved * deviation[:, None]
    else:
        moved = whole * (np.abs(v) + np.abs(p) + size_u[:, :, None] * size_w[:, None])
        first, second = rows_times(moved, column), np.sqrt(rows_times(moved * moved, shared))
    if cut is not None:
        moved = whole * cut.error[:, None]
        loose, wide = rows_times(moved, column), np.sqrt(rows_times(moved * moved, shared))
    own = (_ARGUMENT + 2.0 * _FUNCTIONS) * ULP
    linear = (_ARGUMENT + 4.0) * ULP * size_u * (weight * size_w).sum(1)[:, None]
    error = own * first + loose + (_FUNCTIONS + 4.0) * ULP * modulus + linear + small + NOTHING + lost
    spread = own * second + wide + (_FUNCTIONS * ULP + relative.max(1, keepdims=True)) * norm
    return _Factor(e, rows_times(x, of.turned_density[:, None]), error, norm, spread)


def transform(of: Rule, cut: Cut | None, centre: Real, spacing: Real, num: int) -> tuple[Complex, Real]:
    """E[e^{-uW} Q] - 1 [L, N] at u = centre + i k spacing, k < N = `num`; and bounds [L, N] on its absolute error.

    `centre` and `spacing` are [L]: without cutoff centre >= 0, with it -rate < centre <= 0. Writing a and b for aW and
    bW, and with f = e + x for each factor,

        e^{-(a+b)} Q - 1 + a + b = f_a + f_b + e_a e_b,

    in which nothing cancels where a and b are small; the errors of the product are summed by the Cauchy-Schwarz
    inequality.
    """
    outer, inner = _points(centre, spacing, num)
    # where Q e^{-uW} is large the nodes have smaller weights in a, and correspondingly larger ones in b
    large = np.ones_like(of.y)
    if cut is not None:
        large = np.maximum(np.exp(np.minimum(cut.log_size - (centre[:, None] * of.turned_w.real), 600.0)), 1.0)
    a, b = _factor(of, cut, outer, 1.0 / large), _factor(of, None, inner, large)
    left = a.e * of.turned_density[:, None, :]
    joint = rows_times_rows(left, b.e)
    total = a.sum_f[:, :, None] + b.sum_f[:, None, :] + joint
    error = a.sum_error[:, :, None] + b.sum_error[:, None, :]
    error = error + a.norm_error[:, :, None] * (b.norm + b.norm_error)[:, None, :]
    error = error + a.norm[:, :, None] * b.norm_error[:, None, :]
    shape = (len(centre), -1)
    return total.reshape(shape), 1.01 * error.reshape(shape) + _missed(of, cut, centre, spacing, num)


def _missed(of: Rule, cut: Cut | None, centre: Real, spacing: Real, num: int) -> Real:
    """Bounds on the errors of the rule and its window in `transform` [L, N].

    On the contour of eta' the integrand e^{-uW} Q - 1 + uW is, without cutoff, at most each of

        (|u|^2/2) (1 + Y)^2 e^{Re u},    e^{Re u} + 1 + |u| (1 + Y);

    with it, |e^{-uW} Q - 1 + uW| <= |e^{-x} - 1 + x| |Q| + |1 - Q| (1 + |x|), x = uW, is at most

        (|u|^2/2) (1 + Y)^2 q + r (1 + |u| (1 + Y)),   q and r of `Cut.bounds`.

    Their expectations are computed by the same rule, and doubled.
    """
    centre = centre[:, None]
    size, growth = np.hypot(centre, spacing[:, None] * np.arange(num)), np.exp(np.maximum(centre, 0.0))
    variance, tilt = np.exp(of.sigma**-2), np.exp(0.5 * (of.eta * of.sigma) ** 2)
    right0, right1, right2 = of.right
    if cut is None:
        crude = np.minimum(0.5 * size**2 * (variance + 3.0), 1.0 + growth + 2.0 * size)
        strips = of.strip(0.0, of.eta) + of.strip(of.top, of.eta)
        beyond = np.minimum(2.0 * growth * size**2 * variance * right2, (1.0 + growth) * right0 + 2.0 * size * right1)
        return strips * growth * crude + 2.0 * tilt * (beyond + 2.0 * growth * size**2 * of.left)
    bound = np.zeros_like(size)
    for end in (np.zeros_like(of.top), of.top):
        q, r = cut.bounds(of, end, centre)
        square = (of.density * (1.0 + of.y) ** 2 * q).sum(1, keepdims=True)
        square = square + 4.0 * cut.beyond(of, end, centre) * variance * right2
        first = (of.density * r).sum(1, keepdims=True)
        second = (of.density * (1.0 + of.y) * r).sum(1, keepdims=True)
        bound = bound + 2.0 * of.strip(end, of.eta) * (0.5 * size**2 * square + first + size * second)
    right = (cut.beyond(of, of.eta, centre) + 1.0 + size) * right0 + size * right1
    left = 4.0 * of.left * (size**2 + (1.0 + 2.0 * size) * (cut.high[:, :1] + NOTHING))
    return bound + 2.0 * tilt * (right + left)


def weighted_transform(of: Rule, cut: Cut | None, centre: Real, spacing: Real, num: int) -> tuple[Complex, Real]:
    """E[e^{-uW} (1 - Q)], or without cutoff E[e^{-uY}], [L, N] as in `transform`, centre >= 0; and error bounds.

    On the contour of eta' the integrand is at most e^{Re u} r (see `Cut.bounds`), or e^{-Re u cos(eta') Y}.
    """
    outer, inner = _points(centre, spacing, num)
    column, tilt = centre[:, None], np.exp(0.5 * (of.eta * of.sigma) ** 2)
    relative = of.density_error + 4.0 * ULP * (of.y.shape[1] + 8.0)
    ends = np.zeros_like(of.top), of.top
    if cut is None:
        v, weight, growth = of.turned_y, of.turned_density, np.ones_like(column)
        sizes = [(of.density * np.exp(-column * np.cos(e) * of.y)).sum(1, keepdims=True) for e in ends]
        window = of.outside(column * np.cos(of.eta))
    else:
        v, weight, growth = of.turned_w, of.turned_density * cut.turned_high, np.exp(column)
        relative = relative + TABLE_ERROR
        sizes = [(of.density * cut.bounds(of, e, np.zeros_like(column))[1]).sum(1, keepdims=True) for e in ends]
        window = (2.0 + cut.beyond(of, of.eta, np.zeros_like(column))) * of.right[0]
        window = window + 2.0 * cut.high[:, :1] * of.left + NOTHING
    x, y = (u[:, :, None] * v[:, None] for u in (outer, inner))
    a, b = complex_exp(-x) * weight[:, None], complex_exp(-y)
    size, other = np.abs(a), np.abs(b)
    loss, slip = (_ARGUMENT + 24.0 + (_ARGUMENT + 24.0) * np.abs(z) for z in (x, y))
    pairs = np.concatenate([size * (ULP * loss + relative[:, None]), size], axis=2)
    error = rows_times_rows(pairs, np.concatenate([other, ULP * slip * other], axis=2))
    shape = (len(centre), -1)
    bound = 2.0 * sum(of.strip(e, of.eta) * mean for e, mean in zip(ends, sizes, strict=True)) + 2.0 * tilt * window
    return rows_times_rows(a, b).reshape(shape), 1.01 * error.reshape(shape) + growth * bound
