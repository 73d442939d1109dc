"""Real expectations of one step's likelihood ratio: transforms on the real axis, masses, bounds on decay.

Positive functions of the real Y are summed over every other node of the grid: on the real axis the rule has strips of
width eta_top on both sides, on the grid's own contour a narrower one. Throughout, Q and 1 - Q are the weights of a
`Cutoff`.
"""

import functools
import math
from typing import Any

import numpy as np

from jaxacct.divergence.allocation._grid import (
    TABLE_ERROR,
    Cutoff,
    Grid,
    Real,
    grid,
    largest_beyond,
)
from jaxacct.special import ULP, rows_times

_EVERY_OTHER, _EVERY_FOURTH = slice(None, None, 2), slice(None, None, 4)
_NUM_ANGLES = 12  # contours on which decay is bounded: they steer tightness


def real_rule(of: Grid) -> tuple[Real, Real, Real]:
    """Three float64 arrays [N/2]: Y, W and the weights of the rule for real expectations."""
    return of.y[_EVERY_OTHER], of.w[_EVERY_OTHER], 2.0 * of.density[_EVERY_OTHER]


def transform_rounding(of: Grid, u: Real) -> Real:
    """Float array of the shape of `u`: what rounding may lower `log_transform` by, with N nodes in g.

    ULP (200 + 1/sigma^2 + N/2 + 10 u), from two cases.

    u <= 1: with x = u W >= -1, e^-x - 1 + x >= 0 errs by ULP (19 |x| + 14), W being known to 10 ULP of itself, and
    E |x| <= 2: 52 ULP. A weight errs by ULP (16 + g^2), in the mean by (16 + s^2) e at most, for E g^2 Y = 1 + s^2 and
    E e^-x <= e; the sum of N/2 terms >= 0 by ULP N/2 of itself. The logarithm divides by 1 + E[..] >= 1.

    u > 1: tilting by e^{-uY} lowers E Y = 1 and leaves E[g^2; g > 0] <= 1/2, and g > -11 in the window: exponents err
    by 8 ULP u in the mean, weights by 16 + 122 ULP, the sum by N/2, u and the logarithm (at least -u) by an ulp.
    """
    return ULP * (200.0 + of.s * of.s + 0.5 * len(of.y) + 10.0 * u)


def log_transform(of: Grid, u: Real) -> Real:
    """At least log E[e^{-uW}], float array of the shape of `u` (real, >= 0).

    What lies outside the window is added, and what rounding may have taken.
    """
    y, w, density = real_rule(of)
    out, is_far, beyond = np.empty(np.shape(u)), u > 1.0, of.left + of.right()
    x = u[~is_far][:, None] * w
    out[~is_far] = np.log1p(rows_times(np.exp(-x) - 1.0 + x, density)) + 8.0 * beyond
    far = u[is_far]
    out[is_far] = far + np.log(rows_times(np.exp(-far[:, None] * y), density) + 2.0 * beyond)
    return out + transform_rounding(of, u)


def log_cut_transform(of: Grid, cut: Cutoff, u: Real) -> Real:
    """log E[e^{-uW} Q(rate Y)] [U] at `u` [U] with -rate < u <= 0.

    At least that: what lies beyond the window is added, and what the rule and rounding may have taken; inf where it
    overflows.

    The rule: nodes 2k apart, and on the contours of +-eta_top the modulus of e^{-uY} Q is at most
    e^{-(rate + u) cos(eta_top) Y} sum_{j<m} (rate Y)^j/j!, as in `Cutoff.bounds`; twice its mean by the same nodes.
    Left of the window 0 <= e^-x - 1 + x <= x <= -u for x = u W > 0.

    Rounding of the terms E - 1 + x, E = Q e^-x, x = u W: Q errs by `TABLE_ERROR`, its logarithm by 4 ULP, x by 11 (W by
    10), their difference by one and the exponential by 4, so that E does by 4 + 5 |log Q| + 12 |x| ULP of itself, and
    the term by 2 ULP of what it adds; weights by `density_error` and one more, the sum of N/2 by N/2 + 4.
    """
    y, w, density = real_rule(of)
    low, x = cut.low[_EVERY_OTHER], u[:, None] * w
    # the strips of both sides, and means by the nodes, doubled
    turn, strip = math.cos(of.eta_top), 4.0 * of.strip(of.eta_top, 0.0, 2)
    own = ULP * (0.5 * len(of.y) + 8.0) + of.density_error[_EVERY_OTHER]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        log_low = np.log(low)
        weight = np.where(low > 0, np.exp(log_low - x), 0.0)
        value = rows_times(weight - 1.0 + x, density)
        size = np.where(low > 0, 6.0 + 5.0 * np.abs(log_low) + 12.0 * np.abs(x), 0.0)
        error = rows_times(weight * (TABLE_ERROR + ULP * size) + ULP * (2.0 + 12.0 * np.abs(x)), density)
        error = error + rows_times(weight + 1.0 + np.abs(x), density * own)
        modulus = np.exp(log_low + (cut.rate * (1.0 - turn)) * y - (u * turn)[:, None] * y)
        value = value + error + strip * rows_times(modulus + 1.0 - u[:, None] * (1.0 + y), density)
        value = value - 2.0 * u * of.left
        value = value + 2.0 * of.right() * largest_beyond(cut.rate * of.y[-1], cut.log_sum[-1], 1.0 + u / cut.rate)
        found = np.log1p(np.where(np.isfinite(value), np.maximum(value, -0.999), np.inf))
        return found + 8.0 * ULP * np.abs(found)


def high_mass(of: Grid, cut: Cutoff) -> tuple[float, float, float]:
    """Three floats: E[1 - Q], E[W (1 - Q)], and a bound on the relative error of both."""
    r = cut.bounds(of, of.eta_top, 0.0)[1]
    rounding = of.density * (of.density_error + 4.0 * ULP) * cut.high
    strip, left = 4.0 * of.strip(of.eta_top, 0.0) * of.density * r, cut.high[0] * of.left
    mass, mean = float((of.density * cut.high).sum()), float((of.density * of.w * cut.high).sum())
    mass_error = float((rounding + strip).sum()) + 4.0 * (of.right() + left)
    mean_error = float(((rounding + strip) * (1.0 + of.y)).sum()) + 4.0 * (of.right(1.0) + left)
    summing = ULP * (len(of.y) + 8.0)  # of terms >= 0, and of W = Y - 1
    mass_error, mean_error = (
        mass_error + summing * mass,
        mean_error + summing * float((of.density * cut.high) @ (1.0 + of.y)),
    )
    return mass, mean, TABLE_ERROR + max(mass_error / mass, mean_error / mean)


def _angles(of: Grid, heights: Real) -> Real:
    """Contours eta [K, C], radians, to try for the bounds below at `heights` [K], from half height/sigma^2 on."""
    least = np.minimum(0.5 * heights / of.sigma**2, 0.5)[:, None]
    return least * (1.45 / least) ** np.linspace(0.0, 1.0, _NUM_ANGLES)


def log_decay(of: Grid, cut: Cutoff | None, centre: float, heights: Real) -> Real:
    """Upper bounds [K] on log |E[e^{-uW} Q]|, u = centre + iy, for all y >= height, for each of the `heights` [K].

    Without cutoff Q is 1. On the contour of eta,

        |E[e^{-uY} Q]| <= e^{(eta sigma)^2/2} E[e^{-a Y - rate cos(eta) Y} sum_{j<m} (rate Y)^j/j!],

    a = Re(u e^{-i eta}) = centre cos(eta) + y sin(eta), which increases in y. The bound is taken at the height, and of
    several eta the least is kept.
    """

    def size(eta: Real, mean: Any) -> Real:
        a = centre * np.cos(eta) + heights[:, None] * np.sin(eta)
        if cut is None:
            return mean(of, a) + 2.0 * (of.left + of.right())
        arg = a + cut.rate * np.cos(eta)
        beyond = largest_beyond(cut.rate * of.y[-1], cut.log_sum[-1], np.cos(eta) + a / cut.rate)
        return mean(of, arg, cut.log_sum[_EVERY_OTHER]) + 2.0 * (of.left + beyond * of.right())

    return _least_log(of, centre, _angles(of, heights), size)


def _about_mean(of: Grid, arg: Real, log_weight: Any = 0.0, grown: float = 0.0) -> Real:
    """About what `_mean_above` bounds, an array of the shape of `arg`: steering only, so every fourth of its nodes."""
    del grown
    y, _, density = (x[_EVERY_FOURTH] for x in real_rule(of))
    logs = log_weight[_EVERY_FOURTH] if np.ndim(log_weight) else log_weight
    return 4.0 * rows_times(np.exp(np.clip(logs - arg[..., None] * y, -700.0, 700.0)), density)


def _mean_above(of: Grid, arg: Real, log_weight: Any = 0.0, grown: float = 0.0) -> Real:
    """At least E[e^{-arg Y + log_weight}] within the window, of the shape of `arg` >= 0, by the nodes of `real_rule`.

    The weight's modulus grows by e^{grown Y} at most on the contours of +-eta_top, which bound the rule's own error:
    nodes 2k apart, and twice the mean there by the same nodes. Y errs by 12 ULP, the weight's logarithm, of a table, by
    `TABLE_ERROR` and 5 of itself, each product and difference by one.
    """
    y, _, density = real_rule(of)
    turn, strip = math.cos(of.eta_top), 4.0 * of.strip(of.eta_top, 0.0, 2)
    linear = arg[..., None] * y
    value = np.exp(np.clip(log_weight - linear, -700.0, 700.0))
    edge = np.exp(np.clip(log_weight + grown * y - turn * linear, -700.0, 700.0))
    mean = rows_times(value, density)
    exponents = 16.0 * arg * rows_times(value, density * y) + 8.0 * rows_times(value, density * np.abs(log_weight))
    own = TABLE_ERROR + float(of.density_error.max()) + ULP * (0.5 * len(of.y) + 16.0)
    return mean * (1.0 + own) + ULP * exponents + strip * rows_times(edge, density)


def _least_log(of: Grid, centre: float, eta: Real, size: Any) -> Real:
    """log(e^{centre + (eta sigma)^2/2} size) [K], rounded up, on the best of the contours `eta` [K, C] of each height.

    `size`, of contours and of a way to find means, is certified on the contour that is chosen without certainty.
    """

    def logs(eta: Real, mean: Any) -> Real:
        parts = 0.5 * (eta * of.sigma) ** 2, np.log(size(eta, mean))
        return centre + parts[0] + parts[1] + 8.0 * ULP * (1.0 + abs(centre) + parts[0] + np.abs(parts[1]))

    best = logs(eta, _about_mean).argmin(axis=1)[:, None]
    return logs(np.take_along_axis(eta, best, axis=1), _mean_above)[:, 0]


def log_high_decay(of: Grid, cut: Cutoff, centre: float, heights: Real) -> Real:
    """Upper bounds [K] on log |E[e^{-uW} (1 - Q)]|, as `log_decay`, by either bound of r of `Cutoff.bounds`.

    Not by the lesser of both node by node, which is not analytic: a trapezoid rule of it has no bound on its error.
    """
    log_high, log_sum = np.log(np.maximum(cut.high, 1e-300))[_EVERY_OTHER], cut.log_sum[_EVERY_OTHER]
    grown, end = (1.0 - math.cos(of.eta_top)) * cut.rate, of.y[-1]

    def near(eta: Real, mean: Any) -> Real:
        arg = centre * np.cos(eta) + heights[:, None] * np.sin(eta) - (1.0 - np.cos(eta)) * cut.rate
        falls = np.maximum(arg, 0.0)
        rest = 2.0 * (2.0 * cut.high[0] * of.left + np.exp(-falls * end) * of.right())
        return np.where(arg >= 0.0, mean(of, falls, log_high, grown) + rest, np.inf)

    def far(eta: Real, mean: Any) -> Real:
        a = centre * np.cos(eta) + heights[:, None] * np.sin(eta)
        beyond = (1.0 + largest_beyond(cut.rate * end, cut.log_sum[-1], np.cos(eta))) * np.exp(-a * end)
        rest = 2.0 * (2.0 * of.left + beyond * of.right())
        return mean(of, a) + mean(of, a + cut.rate * np.cos(eta), log_sum) + rest

    eta = _angles(of, heights)
    return np.minimum(_least_log(of, centre, eta, near), _least_log(of, centre, eta, far))


@functools.lru_cache(maxsize=64)
def _decay_table(sigma: float) -> tuple[Real, Real]:
    """log of 49 heights, and the least `log_decay` up to there, at u = i height, without cutoff.

    Far out the contours that are tried turn too far for a large noise multiplier; what holds before holds there too.
    """
    heights = np.geomspace(1e-8, 1e8, 49)
    return np.log(heights), np.minimum.accumulate(log_decay(grid(sigma), None, 0.0, heights))


def height_of_decay(of: Grid, log_level: Real) -> Real:
    """Float array, shape of `log_level` < 0: heights y at which |E e^{-iyY}| has roughly fallen to e^log_level."""
    log_heights, logs = _decay_table(of.sigma)
    return np.exp(np.interp(np.log(-log_level), np.log(np.maximum(-logs, 1e-300)), log_heights))
