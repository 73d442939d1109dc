"""Complex numbers near 1, stored as their difference from 1: exponentials, sums of their products, and logarithms."""

from typing import Any

import numpy as np

from jaxacct.special import rows_times, rows_times_rows

Real = np.ndarray[Any, np.dtype[np.float64]]
Complex = np.ndarray[Any, np.dtype[np.complex128]]


def expm1(real: Real, imag: Real) -> Complex:
    """Complex numbers [..], e^{real + i imag} - 1 with a relative error of some 5 units of 2^-51."""
    half = 0.5 * imag
    sin, grown = np.sin(half), np.expm1(real)
    twice = 2.0 * (1.0 + grown) * sin
    out = np.empty(sin.shape, np.complex128)
    out.real, out.imag = grown - twice * sin, twice * np.cos(half)
    return out


def table(u: Any, v: Any, weight: Any) -> Any:
    """sum over nodes of weight ((1 + u_i)(1 + v_j) - 1) [R, I J] for every row i of `u` [R, I, X] and j of `v`."""
    weight = weight[:, None, :]
    by_u, by_v = rows_times(u, weight), rows_times(v, weight)
    return (by_u[:, :, None] + by_v[:, None, :] + rows_times_rows(u, weight * v)).reshape(len(u), -1)


def polar(total: Complex, error: Real) -> tuple[Real, Real, Real]:
    """log |M|, arg M and the error of log M [..], for M = 1 + `total` with an error of at most `error`."""
    log_modulus, phase, relative = relative_polar(total, error)
    known = relative < 0.5
    return log_modulus, phase, np.where(known, -np.log1p(-np.where(known, relative, 0.0)), np.inf)


def relative_polar(total: Complex, error: Real) -> tuple[Real, Real, Real]:
    """log |M|, arg M and the relative error [..] of M = 1 + `total` with an error of at most `error`."""
    square = 2.0 * total.real + total.real**2 + total.imag**2  # |M|^2 - 1
    near = np.abs(square) < 0.25
    size = np.maximum(np.hypot(1.0 + total.real, total.imag), 1e-300)
    log_modulus = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(size))
    phase = np.arctan2(total.imag, 1.0 + total.real)
    relative = (error + 2.0**-51 * np.abs(total)) * np.exp(-log_modulus)
    relative = np.where(np.isnan(relative), np.inf, relative) + 2.0**-50 * (np.abs(log_modulus) + np.abs(phase))
    return log_modulus, phase, relative
