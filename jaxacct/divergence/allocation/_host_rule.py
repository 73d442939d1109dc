"""The likelihood ratio of one Gaussian step for many noise multipliers at once, on the host: certified transforms.

As `jaxacct.divergence.allocation._grid`, `jaxacct.divergence.allocation._transform` and
`jaxacct.divergence.allocation._real`, with a leading axis of lanes, and shorter grids: a rule of fewer nodes on a wider
strip. Errors are booked for a lane and not for a node where that costs little.

Shapes: [L] lanes; [L, Z] nodes of the rule; [L, N] nodes of a vertical line; [L, K] points of the real axis.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.allocation._grid import (
    SHARPNESS,
    TABLE_ERROR,
    Complex,
    Real,
    largest_beyond,
    log_ratio,
    partial_exponential,
    step_series,
    step_weights,
)
from jaxacct.special import ULP, log_normal_tail, rows_times, rows_times_rows, turn

# They steer speed and tightness only, but where it is said.
_LOW, _HIGH = -9.0, 9.2  # the window in g, standard deviations; the second is counted from 1/sigma
_TURN_OF_S = 3.2  # radians: Y is turned by at most this over sigma
_DIGITS = 36.0  # in log: what the rule is meant to leave out
_ROUND_TO = 16  # nodes of a rule are a multiple of it
INNER = 16  # nodes of a line that share an outer point
_LEAST_WEIGHT = 0.3  # w below which 1 - Q(w) counts as 0: it is below 1e-52
NOTHING = 1e-48  # at least what that leaves out of a mean
# In ulp: by which uW errs, and what is made of it by exponentials and circular functions. They carry the certificate.
_ARGUMENT, _FUNCTIONS = 24.0, 16.0
_LARGEST = 1e9  # w is clipped to this before a power of w is formed: beyond, its product with e^-w is 0 in doubles


class Rule(NamedTuple):
    """The trapezoid rule in g, and on a contour that turns Y by -eta, as `Grid`."""

    sigma: Real  # [L, 1]
    step: Real  # [L, 1]
    eta: Real  # [L, 1]
    top: Real  # [L, 1]: largest turn of a contour
    y: Real  # [L, Z], as all below
    w: Real
    density: Real
    density_error: Real  # relative, here and on the contour
    turned_y: Complex
    turned_w: Complex
    turned_density: Complex
    left: Real  # [L, 1]: P[g < first node]
    right: tuple[Real, Real, Real]  # [L, 1] each: P[g > last node] where g has the mean j/sigma, j = 0, 1, 2

    def strip(self, eta_end: Real | float, eta: Real | float, nodes: int = 1) -> Real:
        """As `Grid.strip`, [L, 1]; of every second node for `nodes` = 2."""
        decay = 2.0 * math.pi * np.abs(eta_end - eta) * self.sigma / (nodes * self.step)
        return np.exp(0.5 * (eta_end * self.sigma) ** 2 - decay) / -np.expm1(-decay)

    def real(self) -> tuple[Real, Real, Real]:
        """Three float arrays [L, Z/2]: Y, W and the weights of the rule for real expectations."""
        return self.y[:, ::2], self.w[:, ::2], 2.0 * self.density[:, ::2]

    def at(self, lanes: Any) -> "Rule":
        """`Rule` of some lanes."""
        parts: Any = (tuple(y[lanes] for y in x) if isinstance(x, tuple) else x[lanes] for x in self)
        return Rule(*parts)


class Shape(NamedTuple):
    """How wide a rule is: the largest turn of Y on a contour, radians; what is added to its end in g, over sigma."""

    turn: float
    further: float


WHOLE, CLIPPED = Shape(1.2, 0.0), Shape(0.95, 3.4)


def _angles(sigma: Real, shape: Shape) -> tuple[Real, Real]:
    top = np.minimum(shape.turn, _TURN_OF_S / sigma)
    return 0.5 * top, top


def num_nodes(sigma: Real, shape: Shape) -> np.ndarray[Any, Any]:
    """Whole numbers [L]: how many nodes of the rule noise multipliers `sigma` [L] want."""
    eta, top = _angles(sigma, shape)
    wanted = 2.0 * math.pi * eta * sigma / (_DIGITS + 0.5 * (top * sigma) ** 2)
    count = np.ceil((_HIGH + 1.0 / sigma + shape.further * sigma - _LOW) / wanted + 2.0)
    return (_ROUND_TO * np.ceil(np.maximum(count, 64.0) / _ROUND_TO)).astype(int)


def rule(noise_multipliers: Real, size: int, shape: Shape) -> Rule:
    """`Rule` (a class) of `size` nodes for noise multipliers [L]. Its step is a multiple of 2^-12: nodes are exact."""
    sigma = noise_multipliers[:, None]
    s = 1.0 / sigma
    eta, top = _angles(sigma, shape)
    step = np.floor((_HIGH + s + shape.further * sigma - _LOW) / (size - 2) * 2**12) / 2**12
    g = step * (np.floor(_LOW / step) + np.arange(float(size)))
    exponent, rest = log_ratio(sigma, g)
    y = np.exp(exponent)
    w = np.expm1(exponent) + y * rest
    y = y + y * rest
    square = g * g
    density = step / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * square)
    turned = eta * sigma
    cos, sin, half = np.cos(eta), np.sin(eta), np.sin(0.5 * eta)
    last = g[:, -1:]
    tails = [np.exp(log_normal_tail(x)) * (1.0 + 2.0**-40) for x in (-g[:, :1], last, last - s, last - 2.0 * s)]
    return Rule(
        sigma,
        step,
        eta,
        top,
        y,
        w,
        density,
        ULP * (32.0 + 4.0 * turned * (np.abs(g) + turned)),  # g and its square are exact
        y * (cos - 1j * sin),
        (w * cos - 2.0 * half * half) - 1j * (y * sin),
        (density * np.exp(0.5 * turned * turned)) * turn(turned * g),
        tails[0],
        (tails[1], tails[2], tails[3]),
    )


class Cut(NamedTuple):
    """The cutoffs Q(rate Y) of `Cutoff` on a `Rule`, [L, Z] where not said."""

    rate: Real  # [L, 1]
    low: Real
    high: Real
    log_sum: Real
    log_size: Real  # log |Q| on the contour
    phase: Real  # the argument of Q there
    error: Real  # of their exponential, relative

    def bounds(self, of: Rule, eta_end: Real | float, centre: Real) -> tuple[Real, Real]:
        """q and r of `Cutoff.bounds`."""
        w, cos = self.rate * of.y, np.cos(eta_end)
        q = np.exp(self.log_sum - (w + centre * of.y) * cos)
        r = np.minimum(np.exp((1.0 - cos) * w) * (self.high + NOTHING), 1.0 + np.exp(self.log_sum - w * cos))
        return q, r

    def beyond(self, of: Rule, eta_end: Real | float, centre: Real) -> Real:
        """[L, 1]: at least every q beyond the last node."""
        return largest_beyond(
            self.rate * of.y[:, -1:], self.log_sum[:, -1:], (1.0 + centre / self.rate) * np.cos(eta_end)
        )

    def at(self, lanes: Any) -> "Cut":
        """`Cut` of some lanes."""
        return Cut(*(x[lanes] for x in self))


def cuts(of: Rule, rates: Real) -> Cut:
    """`Cut` (a class) for a rate a lane [L]."""
    rate = rates[:, None]
    w = rate * of.y
    high, low, log_sum = np.zeros_like(w), np.ones_like(w), w.copy()
    log_size, phase, error = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    at = np.nonzero(w > _LEAST_WEIGHT)
    values = w[at]
    low[at], high[at] = step_weights(values)
    log_sum[at] = np.log(partial_exponential(np.minimum(values, _LARGEST)))
    shift = (rate * of.turned_y)[at]
    size = np.abs(shift)
    inner = size < SHARPNESS
    near, far = shift[inner], shift[~inner]
    far = far * np.minimum(1.0, _LARGEST / np.abs(far))
    series, factor = step_series(near), partial_exponential(far)
    logs, turns, relative = np.empty_like(values), np.empty_like(values), np.empty_like(values)
    logs[inner] = 0.5 * np.log1p(series.real * (series.real - 2.0) + series.imag**2)
    turns[inner] = -np.arctan2(series.imag, 1.0 - series.real)
    relative[inner] = 2.0 * TABLE_ERROR * np.abs(series) + 8.0 * ULP * (np.abs(logs[inner]) + np.abs(turns[inner]))
    log_factor, angle = np.log(np.abs(factor)), np.angle(factor)
    logs[~inner], turns[~inner] = log_factor - shift[~inner].real, angle - shift[~inner].imag
    relative[~inner] = TABLE_ERROR + ULP * (8.0 * (np.abs(log_factor) + 4.0) + 10.0 * size[~inner])
    log_size[at], phase[at], error[at] = logs, turns, relative
    return Cut(rate, low, high, log_sum, log_size, phase, error)


class _Factor(NamedTuple):
    """e = e^-x Q - 1 at x = uW for some u a lane, [L, U, Z], and the rule's sums, [L, U], with f = e + x."""

    e: Complex
    sum_f: Complex  # of f
    sum_error: Real  # what that errs by, at most
    norm: Real  # root of the sum of |e|^2
    norm_error: Real  # the same of what e errs by and of |e| times the errors of the weights


def _factor(of: Rule, cut: Cut | None, u: Complex, share: Real) -> _Factor:
    """`_Factor` for `u` [L, U], Re u >= 0 without `cut`; Q is 1 without it. In norms nodes weigh `share` [L, Z] times.

    With v + i p the exponent and T = tan(p/2), e is expm1(v) - e^v 2 T^2/(1+T^2) + i e^v 2 T/(1+T^2). It errs by what
    v + i p does, times e^v, and by a few units of |expm1 v| and e^v |p|, where |expm1 v| <= |e| + e^v |p|. With
    m = |v| + |p| that is (_ARGUMENT + 2 _FUNCTIONS) e^v m + _FUNCTIONS |e| units at most. Without cutoff
    e^v <= e^{Re u}.
    """
    x = u[:, :, None] * of.turned_w[:, None, :]
    v, p = -x.real, -x.imag
    if cut is not None:
        v, p = v + cut.log_size[:, None], p + cut.phase[:, None]
    # where e^v is nothing, the angle is of no account: tangents of large numbers are slow
    less, t = np.expm1(np.minimum(v, 700.0)), np.tan(0.5 * (p * (v > -700.0)))
    lost = np.where(v.max(2) > 700.0, np.inf, 0.0)  # what is no double says nothing
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
    if cut is None:
        growth = np.exp(np.maximum(u.real, 0.0))
        moved = growth * size_u
        mean, deviation = (weight * size_w).sum(1), np.sqrt((shared[:, 0] * size_w * size_w).sum(1))
        first, second = moved * mean[:, None], moved * deviation[:, None]
        loose = wide = 0.0 * first
    else:
        moved = whole * (np.abs(v) + np.abs(p) + size_u[:, :, None] * size_w[:, None])
        first, second = rows_times(moved, column), np.sqrt(rows_times(moved * moved, shared))
        moved = whole * cut.error[:, None]
        loose, wide = rows_times(moved, column), np.sqrt(rows_times(moved * moved, shared))
    own = (_ARGUMENT + 2.0 * _FUNCTIONS) * ULP
    linear = (_ARGUMENT + 4.0) * ULP * size_u * (weight * size_w).sum(1)[:, None]
    error = own * first + loose + (_FUNCTIONS + 4.0) * ULP * modulus + linear + small + NOTHING + lost
    spread = own * second + wide + (_FUNCTIONS * ULP + relative.max(1, keepdims=True)) * norm
    return _Factor(e, rows_times(x, of.turned_density[:, None]), error, norm, spread)


def transform(of: Rule, cut: Cut | None, centre: Real, spacing: Real, num: int) -> tuple[Complex, Real]:
    """E[e^{-uW} Q] - 1 [L, N] at u = centre + i k spacing, k < N = `num`; and bounds [L, N] on its absolute error.

    `centre` and `spacing` are [L]: without cutoff centre >= 0, with it -rate < centre <= 0. As
    `jaxacct.divergence.allocation._transform.centred_transform`: with a and b in place of aW and bW,

        e^{-(a+b)} Q - 1 + a + b = f_a + f_b + e_a e_b,

    the errors of the product summed by the Cauchy-Schwarz inequality.
    """
    outer = centre[:, None] + 1j * spacing[:, None] * (INNER * np.arange(num // INNER))
    inner = 1j * spacing[:, None] * np.arange(INNER)
    # where Q e^{-uW} is large the nodes weigh less in a, and as much more in b
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
    """What the rule and its window leave out of `transform` [L, N]: the bounds of `centred_transform`."""
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
