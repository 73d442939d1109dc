"""Real expectations of one step's likelihood ratio: transforms on the real axis, masses, bounds on decay.

Positive functions of the real Y are summed over every other node of the rule: on the real axis its error is bounded by
strips of width `top` on both sides, on the contour by a narrower one. Throughout, Q and 1 - Q are the weights of a
`Cut`.

Shapes: [L] lanes; [L, Z] nodes of the rule; [L, K] points of the real axis.
"""

import functools

import numpy as np

from jaxacct.divergence.allocation._grid import TABLE_ERROR, Real, largest_beyond
from jaxacct.divergence.allocation._rule import NOTHING, Cut, Rule, one_rule, profile_shape
from jaxacct.special import ULP, rows_times

_ROUGHLY, _CLOSELY = 7, 12  # contours on which the decay is guessed, and bounded: they affect tightness only


def high_mass(of: Rule, cut: Cut) -> tuple[Real, Real, Real]:
    """Three arrays [L]: E[1 - Q], E[W (1 - Q)], and a bound on the relative error of both."""
    r = cut.bounds(of, of.top, np.zeros_like(of.sigma))[1]
    high = cut.high + NOTHING
    rounding = of.density * (of.density_error + 4.0 * ULP) * high
    strip, left = 4.0 * of.strip(of.top, 0.0) * of.density * r, high[:, :1] * of.left
    mass, mean = (of.density * high).sum(1), (of.density * of.w * high).sum(1)
    # `NOTHING` is in both, and E|W| <= 2
    mass_error = (rounding + strip).sum(1) + 4.0 * (of.right[0] + left)[:, 0] + 2.0 * NOTHING
    mean_error = ((rounding + strip) * (1.0 + of.y)).sum(1) + 4.0 * (of.right[1] + left)[:, 0] + 4.0 * NOTHING
    summing = ULP * (of.y.shape[1] + 8.0)  # of terms >= 0, and of W = Y - 1
    mass_error = mass_error + summing * mass
    mean_error = mean_error + summing * (of.density * high * (1.0 + of.y)).sum(1)
    return mass, mean, TABLE_ERROR + np.maximum(mass_error / mass, mean_error / np.abs(mean))


def rough_transform(of: Rule, cut: Cut | None, u: Real) -> tuple[Real, Real, Real]:
    """Approximate log E[e^{-uY} Q] [L, K], mean and variance of W so weighted; Q = 1 without `cut`. Not certified."""
    y, w, density = of.real()
    logs = -u[:, :, None] * y[:, None]
    if cut is not None:
        logs = np.minimum(logs + (cut.log_sum[:, ::2] - cut.rate * y)[:, None], 700.0)
    weight = np.exp(logs)
    total, first, second = (np.einsum("lkz,lz->lk", weight, density * x) for x in (1.0, w, w * w))
    total = np.maximum(total, 1e-300)
    mean = first / total
    return np.log(total), mean, np.maximum(second / total - mean * mean, 1e-30)


def log_cut_transform(of: Rule, cut: Cut, u: Real) -> Real:
    """Upper bounds on log E[e^{uW} Q] [L, K] at `u` [L, K], 0 <= u < rate; inf where it overflows.

    The rule has nodes two steps apart, and on the contours of +-top the modulus of e^{uY} Q is at most
    e^{-(rate - u) cos(top) Y} sum_{j<m} (rate Y)^j/j!, as in `Cut.bounds`, of which twice the mean by the same nodes is
    taken. Left of the window 0 <= e^-x - 1 + x <= x <= u for x = -u W > 0.

    Rounding of the terms E - 1 + x, E = Q e^-x: Q errs by `TABLE_ERROR`, its logarithm by 4 ULP of its two parts, x by
    11 (W by 10), their difference by one and the exponential by 4; a term by 2 ULP of its summands; weights by
    `density_error` and one more, the sum of Z/2 terms by Z/2 + 4.
    """
    y, w, density = (x[:, None, :] for x in of.real())
    x = -u[:, :, None] * w
    inner = np.cos(of.top)
    strip = 4.0 * of.strip(of.top, 0.0, 2)  # both sides, and means by the nodes, doubled
    own = (ULP * (0.5 * of.y.shape[1] + 8.0) + of.density_error[:, None, ::2]) * density
    log_sum, size = cut.log_sum[:, None, ::2], np.abs(x)
    log_low = log_sum - cut.rate[:, :, None] * y
    weight = np.exp(log_low - x)
    # the terms' errors, and on the contours of +-top the modulus, each in one sum
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
    """Upper bounds on log E[e^{-uW}] [L, K] at real `u` [L, K] >= 0.

    Where u <= 1 the terms e^-x - 1 + x >= 0 with x = uW are summed, else e^{-uY}. The rule has nodes 2 steps apart, and
    on the contours of +-top |e^{-uY}| <= e^{-u cos(top) Y} <= 1; left of the window e^-x - 1 + x <= x <= u, right of it
    the terms are at most x + 1.
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
        far = far + 2.0 * of.outside(cos * outer) * (1.0 + 2.0 * strip)
        far = u + np.log(far)
    return np.where(is_near, np.log1p(near), far) + transform_rounding(of, u)


def transform_rounding(of: Rule, u: Real) -> Real:
    """Bound [L, K] on how far rounding lowers `log_transform`: ULP (200 + 1/sigma^2 + Z/2 + 10 u), valid in two cases.

    u <= 1: with x = u W >= -1, e^-x - 1 + x >= 0 errs by ULP (19 |x| + 14), since W is known to 10 ULP of itself, and
    E |x| <= 2: 52 ULP. A weight errs by ULP (16 + g^2), in the mean by (16 + s^2) e at most, since E g^2 Y = 1 + s^2,
    s = 1/sigma, and E e^-x <= e; the sum of Z/2 terms >= 0 by ULP Z/2 of itself. The logarithm divides by
    1 + E[..] >= 1.

    u > 1: tilting by e^{-uY} lowers E Y = 1 and leaves E[g^2; g > 0] <= 1/2, and g > -13 in the window: exponents err
    by 8 ULP u in the mean, weights by 16 + 170 ULP, the sum by Z/2, u and the logarithm (at least -u) by an ulp.
    """
    return ULP * (200.0 + of.sigma**-2 + 0.5 * of.y.shape[1] + 10.0 * u)


def log_decay(
    of: Rule, cut: Cut | None, centre: Real, heights: Real, *, of_high: bool = False, is_rough: bool = False
) -> Real:
    """Upper bounds [L, K] on log |E[e^{-uW} Q]|, u = centre + iy, for all y >= `heights` [L, K]; Q is 1 without `cut`.

    If `is_rough`, the result is an approximation and no bound. On the contour of eta, with
    a = Re(u e^{-i eta}) = centre cos(eta) + y sin(eta), which increases in y,

        |E[e^{-uY} Q]| <= e^{(eta sigma)^2/2} E[e^{-a Y - rate cos(eta) Y} sum_{j<m} (rate Y)^j/j!].

    The bound is taken at the height itself, and the least over several eta is kept. With `of_high` 1 - Q replaces Q: it
    is at most e^{(1 - cos eta) rate Y} (1 - Q)(rate Y) on that contour, for a >= (1 - cos eta) rate.

    The rule's own error is that of nodes two steps apart, with twice the mean by these nodes on the contours of +-top.
    Y errs by 12 ULP, the weight's logarithm, from a table, by `TABLE_ERROR` and 5 of itself, each product and
    difference by one.
    """
    sigma, centre = of.sigma, centre[:, None]
    least = np.minimum(0.5 * heights / sigma**2, 0.5)[:, :, None]
    eta = least * (1.45 / least) ** np.linspace(0.0, 1.0, _ROUGHLY if is_rough else _CLOSELY)
    y, _, density = of.real()
    log_weight, rate = np.zeros_like(y), np.zeros_like(sigma)
    if cut is not None:
        log_weight, rate = np.log(cut.high[:, ::2] + NOTHING) if of_high else cut.log_sum[:, ::2], cut.rate

    def arguments(eta: Real) -> Real:
        more = np.cos(eta) - 1.0 if of_high else np.cos(eta)
        return centre[:, :, None] * np.cos(eta) + heights[:, :, None] * np.sin(eta) + rate[:, :, None] * more

    def outside(arg: Real) -> Real:
        """Upper bound on the part outside the window [L, K], on contours with these arguments."""
        if cut is None:
            return 2.0 * of.outside(arg)
        if of_high:
            left = 2.0 * (cut.high[:, :1] + NOTHING) * of.left
            return 2.0 * (left + np.exp(-arg * of.y[:, -1:]) * of.right[0])
        return 2.0 * (of.left + largest_beyond(rate * of.y[:, -1:], cut.log_sum[:, -1:], arg / rate) * of.right[0])

    every = arguments(eta)
    flat, arg = (x.reshape(len(x), -1) for x in (eta, every))
    terms = np.exp(np.clip(log_weight[:, None] - arg[:, :, None] * y[:, None], -700.0, 700.0))
    size = np.einsum("lkz,lz->lk", terms, density)
    logs = 0.5 * (flat * sigma) ** 2 + np.log(size if is_rough else size + outside(arg))
    logs = np.where(arg >= 0.0, logs, np.inf).reshape(eta.shape)
    if is_rough:
        return centre + logs.min(-1)
    best = logs.argmin(-1)[:, :, None]
    eta, arg = (np.take_along_axis(x, best, -1)[:, :, 0] for x in (eta, every))
    inner = np.cos(of.top)[:, :, None]
    linear = arg[:, :, None] * y[:, None]
    value = np.exp(np.clip(log_weight[:, None] - linear, -700.0, 700.0))
    grown = (rate * (1.0 - np.cos(of.top)) * y)[:, None] if of_high else 0.0
    edge = np.exp(np.clip(log_weight[:, None] + grown - inner * linear, -700.0, 700.0))
    own = TABLE_ERROR + of.density_error.max(1, keepdims=True) + ULP * (0.5 * of.y.shape[1] + 16.0)
    mean = np.einsum("lkz,lz->lk", value, density)
    exponents = 16.0 * arg * np.einsum("lkz,lz->lk", value, density * y)
    exponents = exponents + 8.0 * np.einsum("lkz,lz->lk", value, density * np.abs(log_weight))
    size = mean * (1.0 + own) + ULP * exponents
    size = size + 4.0 * of.strip(of.top, 0.0, 2) * np.einsum("lkz,lz->lk", edge, density)
    size = size + outside(arg)
    parts = 0.5 * (eta * sigma) ** 2, np.log(size)
    found = centre + parts[0] + parts[1] + 8.0 * ULP * (1.0 + np.abs(centre) + parts[0] + np.abs(parts[1]))
    return np.where(arg >= 0.0, found, np.inf)


def log_high_decay(of: Rule, cut: Cut, centre: Real, heights: Real) -> Real:
    """Upper bounds [L, K] on log |E[e^{-uW} (1 - Q)]|, as `log_decay`, by one or the other bound r of `Cut.bounds`.

    The lesser of both must not be taken node by node: it is not analytic, and its trapezoid rule has no error bound.
    """
    near = log_decay(of, cut, centre, heights, of_high=True)
    whole, low = (log_decay(of, x, centre, heights) for x in (None, cut))
    return np.minimum(near, np.logaddexp(whole, low) + 2.0**-48 * (1.0 + np.abs(whole)))


@functools.lru_cache(maxsize=64)
def _decay_table(sigma: float) -> tuple[Real, Real]:
    """log of 49 heights, and the least `log_decay` up to each, at u = i height, without cutoff.

    At large heights the contours tried are rotated too far for a large noise multiplier; earlier bounds still hold.
    """
    heights = np.geomspace(1e-8, 1e8, 49)
    found = log_decay(one_rule(sigma, profile_shape(sigma)), None, np.zeros(1), heights[None])[0]
    return np.log(heights), np.minimum.accumulate(found)


def height_of_decay(sigma: float, log_level: Real) -> Real:
    """Float array, shape of `log_level` < 0: heights y at which |E e^{-iyY}| has roughly fallen to e^log_level."""
    log_heights, logs = _decay_table(sigma)
    return np.exp(np.interp(np.log(-log_level), np.log(np.maximum(-logs, 1e-300)), log_heights))
