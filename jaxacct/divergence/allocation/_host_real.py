"""Real expectations of one step's likelihood ratio for many noise multipliers at once: transforms, masses, decay.

As `jaxacct.divergence.allocation._real`, on the rules of `jaxacct.divergence.allocation._host_rule`.

Shapes: [L] lanes; [L, Z] nodes of the rule; [L, K] points of the real axis.
"""

from typing import Any

import numpy as np

from jaxacct.divergence.allocation._grid import TABLE_ERROR, Real, largest_beyond
from jaxacct.divergence.allocation._host_rule import NOTHING, Cut, Rule
from jaxacct.special import ULP, rows_times

_NUM_ANGLES = 7  # contours on which the decay is bounded: they steer tightness


def high_mass(of: Rule, cut: Cut) -> tuple[Real, Real, Real]:
    """Three arrays [L]: E[1 - Q], E[W (1 - Q)], and a bound on the relative error of both, as `_real.high_mass`."""
    r = cut.bounds(of, of.top, np.zeros_like(of.sigma))[1]
    high = cut.high + NOTHING
    rounding = of.density * (of.density_error + 4.0 * ULP) * high
    strip, left = 4.0 * of.strip(of.top, 0.0) * of.density * r, high[:, :1] * of.left
    mass, mean = (of.density * high).sum(1), (of.density * of.w * high).sum(1)
    mass_error = (rounding + strip).sum(1) + 4.0 * (of.right[0] + left)[:, 0]
    mean_error = ((rounding + strip) * (1.0 + of.y)).sum(1) + 4.0 * (of.right[1] + left)[:, 0]
    summing = ULP * (of.y.shape[1] + 8.0)  # of terms >= 0, and of W = Y - 1
    mass_error = mass_error + summing * mass
    mean_error = mean_error + summing * (of.density * high * (1.0 + of.y)).sum(1)
    return mass, mean, TABLE_ERROR + np.maximum(mass_error / mass, mean_error / np.abs(mean))


def rough_cut_transform(of: Rule, cut: Cut, u: Real) -> tuple[Real, Real, Real]:
    """About log E[e^{uW} Q] [L, K] at `u` [L, K] >= 0, and the mean and variance of W so weighted: steering only."""
    y, w, density = of.real()
    log_low = cut.log_sum[:, ::2] - cut.rate * y
    weight = np.exp(np.minimum(u[:, :, None] * w[:, None, :] + log_low[:, None], 700.0))
    total, first, second = (np.einsum("lkz,lz->lk", weight, density * x) for x in (1.0, w, w * w))
    mean = first / total
    return np.log(total), mean, np.maximum(second / total - mean * mean, 0.0)


def log_cut_transform(of: Rule, cut: Cut, u: Real) -> Real:
    """At least log E[e^{uW} Q] [L, K] at `u` [L, K], 0 <= u < rate: as `_real.log_cut_transform`, with -u for u."""
    y, w, density = (x[:, None, :] for x in of.real())
    x = -u[:, :, None] * w
    inner = np.cos(of.top)
    strip = 4.0 * of.strip(of.top, 0.0, 2)  # both sides, and means by the nodes, doubled
    own = (ULP * (0.5 * of.y.shape[1] + 8.0) + of.density_error[:, None, ::2]) * density
    log_sum, size = cut.log_sum[:, None, ::2], np.abs(x)
    log_low = log_sum - cut.rate[:, :, None] * y
    weight = np.exp(log_low - x)
    # what the terms err by, and on the contours of +-top the modulus, each in one sum
    slip = weight * (TABLE_ERROR + ULP * (6.0 + 8.0 * log_sum - 8.0 * log_low + 12.0 * size)) + ULP * (
        2.0 + 12.0 * size
    )
    modulus = np.exp(log_low + (cut.rate * (1.0 - inner))[:, :, None] * y + (u * inner)[:, :, None] * y)
    value = rows_times(weight - 1.0 + x + slip, density) + rows_times(weight + 1.0 + size, own)
    value = value + strip * rows_times(modulus + 1.0 + u[:, :, None] * (1.0 + y), density)
    value = value + 2.0 * u * of.left
    value = value + 2.0 * of.right[0] * largest_beyond(cut.rate * of.y[:, -1:], log_sum[:, 0, -1:], 1.0 - u / cut.rate)
    found = np.log1p(np.where(np.isfinite(value), np.maximum(value, -0.999), np.inf))
    return found + 8.0 * ULP * np.abs(found)


def log_transform(of: Rule, u: Real) -> Real:
    """At least log E[e^{-uW}] [L, K] at real `u` [L, K] >= 0.

    Where u <= 1 the terms e^-x - 1 + x >= 0 are summed, x = uW, else e^{-uY}. The rule: nodes 2 steps apart, and on the
    contours of +-top |e^{-uY}| <= e^{-u cos(top) Y} <= 1; left of the window e^-x - 1 + x <= x <= u, right of it the
    terms are at most x + 1. Rounding as in `_real.transform_rounding`.
    """
    y, w, density = (x[:, None, :] for x in of.real())
    is_near = u <= 1.0
    strip, cos = of.strip(of.top, 0.0, 2), np.cos(of.top)
    inner, outer = np.minimum(u, 1.0), np.maximum(u, 1.0)
    x = inner[:, :, None] * w
    near = rows_times(np.exp(-x) - 1.0 + x, density) + 2.0 * inner * of.left
    near = near + 2.0 * of.right[0] + 2.0 * inner * of.right[1]
    variance = np.exp(of.sigma**-2)
    near = near + 2.0 * strip * np.minimum(0.5 * inner**2 * (variance + 3.0) * np.e, 1.0 + np.e + 2.0 * inner)
    far = np.zeros_like(u)
    if not is_near.all():
        exponent = outer[:, :, None] * y
        far = rows_times(np.exp(-exponent), density)
        far = far + 4.0 * strip * rows_times(np.exp(-cos[:, :, None] * exponent), density)
        far = far + 2.0 * (of.left + of.right[0]) * (1.0 + 2.0 * strip)
        far = u + np.log(far)
    rounding = ULP * (200.0 + of.sigma**-2 + 0.5 * of.y.shape[1] + 10.0 * u)
    return np.where(is_near, np.log1p(near), far) + rounding


def log_decay(of: Rule, cut: Cut | None, centre: Real, heights: Real, *, is_rough: bool = False) -> Real:
    """Upper bounds [L, K] on log |E[e^{-uW} Q]|, u = centre + iy, for all y >= `heights` [L, K]: as `_real.log_decay`.

    About that where `is_rough`: for steering.
    """
    sigma, centre = of.sigma, centre[:, None]
    least = np.minimum(0.5 * heights / sigma**2, 0.5)[:, :, None]
    eta = least * (1.45 / least) ** np.linspace(0.0, 1.0, _NUM_ANGLES)
    y, _, density = of.real()
    log_weight = np.zeros_like(y) if cut is None else cut.log_sum[:, ::2]

    def arguments(eta: Real) -> Real:
        a = centre[:, :, None] * np.cos(eta) + heights[:, :, None] * np.sin(eta)
        return a if cut is None else a + cut.rate[:, :, None] * np.cos(eta)

    def exponent(arg: Real) -> Real:
        return log_weight[:, None] - arg[:, :, None] * y[:, None]

    flat = eta.reshape(len(eta), -1)
    terms = np.exp(np.clip(exponent(arguments(eta).reshape(flat.shape)), -700.0, 700.0))
    logs = 0.5 * (flat * sigma) ** 2 + np.log(np.einsum("lkz,lz->lk", terms, density))
    logs = logs.reshape(eta.shape)
    if is_rough:
        return centre + logs.min(-1)
    best = logs.argmin(-1)[:, :, None]
    eta = np.take_along_axis(eta, best, -1)
    arg, eta = arguments(eta)[:, :, 0], eta[:, :, 0]
    inner = np.cos(of.top)[:, :, None]
    linear = arg[:, :, None] * y[:, None]
    value = np.exp(np.clip(log_weight[:, None] - linear, -700.0, 700.0))
    edge = np.exp(np.clip(log_weight[:, None] - inner * linear, -700.0, 700.0))
    own = TABLE_ERROR + of.density_error.max(1, keepdims=True) + ULP * (0.5 * of.y.shape[1] + 16.0)
    mean = np.einsum("lkz,lz->lk", value, density)
    exponents = 16.0 * arg * np.einsum("lkz,lz->lk", value, density * y)
    exponents = exponents + 8.0 * np.einsum("lkz,lz->lk", value, density * np.abs(log_weight))
    size = mean * (1.0 + own) + ULP * exponents
    size = size + 4.0 * of.strip(of.top, 0.0, 2) * np.einsum("lkz,lz->lk", edge, density)
    beyond: Any = 1.0
    if cut is not None:
        a = centre * np.cos(eta) + heights * np.sin(eta)
        beyond = largest_beyond(cut.rate * of.y[:, -1:], cut.log_sum[:, -1:], np.cos(eta) + a / cut.rate)
    size = size + 2.0 * (of.left + beyond * of.right[0])
    parts = 0.5 * (eta * sigma) ** 2, np.log(size)
    return centre + parts[0] + parts[1] + 8.0 * ULP * (1.0 + np.abs(centre) + parts[0] + np.abs(parts[1]))
