"""Laws, the form in which contours use a release: finitely many likelihood ratios with masses that dominate it.

A pair (P, Q) of a release's outputs on neighbouring data sets is described by the law of Y = dP/dQ under Q. A `Law` is
a measure m of points y > 0, a mass m0 at y = 0 and a mean b at infinity, such that for every x >= 0

    sum m (x - y)_+ + m0 x >= E_Q (x - Y)_+    and    sum m (y - x)_+ + b >= E_Q (Y - x)_+.

Such measures reveal no less than the release, in either direction, and the same holds for their compositions
(docs/numerics/laws.md). Masses need not add up to 1, so that every mass may be rounded up.

Shapes: [G] points of one law; one lane at a time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jnp
from jaxacct.special import ULP, expm1, gauss_legendre, log1p, log_normal_tail, sinh

LEAST_NOISE = 0.1  # noise multiplier; below, cells are too wide for Gauss's rule
MOST_PROB = 1.0 - 2.0**-20  # sampling probability: above it log(1 - q) is too far away, and q is replaced by 1
_LOW = -8.5  # the window in z begins here, or further left if less than the mass beyond may be left
_NUM_GAUSS = 12  # nodes of Gauss's rule in a cell: the bound on its error is derived for this number
_CENTRE = 0.6  # place in the window where cells may be narrowest: affects tightness where few large ratios dominate
_LEAST_LOG_SHARE = -150.0  # no window is longer than for this one


def value_at_minimum(cost: Any, values: Any) -> Any:
    """[V], from each row of `values` [V, N] the entry where `cost` [N] is least, found without an index.

    In 32-bit programs a 64-bit index would be truncated, with a warning.
    """
    return jnp.max(jnp.where(cost <= jnp.min(cost), values, -jnp.inf), axis=-1)


def written(x: Any, beside: Any) -> Any:
    """Array `x` [..], kept in memory: XLA recomputes cheap values wherever they are used, but never a quotient.

    Args:
      beside: a number that is not NaN, unknown to the compiler.
    """
    return x / jnp.where(beside == beside, 1.0, 2.0)


def stacked(*rows: Any) -> Any:
    """`rows` [..] as one array, each row written in turn.

    It is for rows that are costly to compute: XLA's CPU compiler does not vectorise the loops behind a concatenation.
    """
    out = jnp.zeros((len(rows), *rows[0].shape), rows[0].dtype)
    for k, row in enumerate(rows):
        out = out.at[k].set(row)
    return out


class Law(NamedTuple):
    """Points of a likelihood ratio, above its law in the convex order.

    Related values share one array, which one kernel writes: the cost of compiling grows with the number of kernels.
    """

    points: Any  # [3, G]: log y, finite; masses under Q, 0 or more; bounds on the error of log y
    ends: Any  # [2]: m0, mass at y = 0, an infinite loss in the add direction; b, mean at infinity, one in the other

    @property
    def log_ratio(self) -> Any:
        """[G], log y."""
        return self.points[..., 0, :]

    @property
    def mass(self) -> Any:
        """[G], under Q."""
        return self.points[..., 1, :]

    @property
    def blur(self) -> Any:
        """[G], bounds on the error of log y."""
        return self.points[..., 2, :]

    @property
    def at_zero(self) -> Any:
        """m0 [], mass at y = 0."""
        return self.ends[..., 0]

    @property
    def beyond(self) -> Any:
        """b [], the mean at infinity."""
        return self.ends[..., 1]


class BasePoints(NamedTuple):
    """Points of one release before sampling, all of whose errors are in `shift`."""

    exponent: Any  # [K], log y
    shift: Any  # [K]: the exponent errs by at most 4 ULP of it
    mass: Any  # [K]
    below: Any  # mass that goes to y = 0
    above: Any  # the part of the mass that represents ratios above the last point
    beyond: Any  # their mean


def reach_for(log_share: Any) -> Any:
    """The distance in standard deviations beyond which a normal law has about this share of its mass."""
    return jnp.sqrt(-2.0 * jnp.clip(log_share, _LEAST_LOG_SHARE, -2.0))


def gauss_in_cells(lower: Any, width: Any) -> tuple[Any, Any]:
    """Nodes u of Gauss's rule above the `lower` [C] ends of cells, and its weights times phi(lower + u): [C, 12].

    Args:
      width: of the cells, [C, 1] or a number.
    """
    nodes, weights = (jnp.asarray(x, jnp.float64) for x in gauss_legendre(_NUM_GAUSS))
    u = 0.5 * width * (1.0 + nodes)
    return u, 0.5 * width / math.sqrt(2.0 * math.pi) * weights * jnp.exp(-0.5 * (lower[:, None] + u) ** 2)


def gaussian_base(noise_multiplier: Any, log_share: Any, num: int, bend: float = 0.0) -> BasePoints:
    """`BasePoints` of one Gaussian step, at `num` ends of cells.

    In a cell of z the ratio goes to its values at the two ends, its mean kept (Jensen); the share of the upper end is
    expm1(mu u) / expm1(mu k), u above the lower end and k the cell's width.

    Args:
      noise_multiplier: `LEAST_NOISE` or more.
      log_share: approximate logarithm of the mass of infinite loss that may be left.
      bend: static; above 0 cells are up to cosh(bend) times narrower where ratios are large than far from there.
    """
    mu = 1.0 / noise_multiplier
    reach = reach_for(log_share)
    high, low = mu + reach, jnp.full_like(mu, _LOW) if bend else jnp.minimum(_LOW, -reach)
    z = _ends(_CENTRE * high, low, high, num, bend)
    width = jnp.diff(z)[:, None]
    u, density = gauss_in_cells(z[:-1], width)
    upper = expm1(mu * u) / expm1(mu * width)
    to_upper, to_lower = jnp.sum(jnp.stack([density * upper, density * (1.0 - upper)]), axis=2)
    mass = jnp.pad(to_lower, (0, 1)) + jnp.pad(to_upper, (1, 0))
    mass = mass * (1.0 + 2.0**-45 + ULP * (64.0 + 8.0 * z * z))
    above, taken, below = jnp.exp(log_normal_tail(jnp.stack([high, high - mu, -low]))) * (1.0 + 2.0**-40)
    # left of the window Y goes to 0, for expectations that decrease in Y, and to the first end, for those that increase
    at = np.arange(num)
    mass = mass + jnp.where(at == 0, below, 0.0) + jnp.where(at == num - 1, above, 0.0)
    return BasePoints(mu * z - 0.5 * mu * mu, mu * jnp.abs(z) + mu * mu, mass, below, above, taken)


def laplace_base(scale: Any, num: int) -> BasePoints:
    """`BasePoints` (a class) of a step of Laplace noise that moves by 1: log y from -1/scale to 1/scale.

    Between the ends v = log y, each of which has a mass of its own, Q has the density e^{-(v + x)/2} / 4, x = 1/scale,
    and P e^v times that: a cell's mass under both has a closed form, and the share of its upper end keeps the mean.
    """
    x = 1.0 / scale
    v = x * (2.0 * np.arange(num, dtype=np.float64) / (num - 1) - 1.0)
    gap = 2.0 * x / (num - 1)
    cell = 0.5 * jnp.exp(-0.5 * (v[:-1] + x)) * -expm1(-0.5 * gap)
    # under P a cell has e^{v + gap/2} times its mass under Q, so the share is expm1(gap/2) / expm1(gap)
    share = expm1(0.5 * gap) / expm1(gap)
    mass = jnp.pad(cell * (1.0 - share), (0, 1)) + jnp.pad(cell * share, (1, 0))
    at = np.arange(num)
    mass = mass + jnp.where(at == 0, 0.5, 0.0) + jnp.where(at == num - 1, 0.5 * jnp.exp(-x), 0.0)
    none = jnp.zeros_like(x)
    return BasePoints(v, 4.0 * (jnp.abs(v) + x), mass * (1.0 + 2.0**-45), none, none, none)


def _ends(centre: Any, low: Any, high: Any, num: int, bend: float) -> Any:
    """Ends of cells of the window, in equal steps or narrower near `centre`."""
    if not bend:
        return low + (high - low) / (num - 1) * np.arange(num, dtype=np.float64)
    half = jnp.maximum(centre - low, high - centre)
    first, last = jnp.arcsinh((jnp.stack([low, high]) - centre) / half * math.sinh(bend))
    share = np.arange(num, dtype=np.float64) / (num - 1)
    inner = centre + half / math.sinh(bend) * sinh(first + (last - first) * share)
    return jnp.where(share == 0.0, low, jnp.where(share == 1.0, high, inner))


def whole(of: BasePoints) -> Law:
    """`Law` of a release that every record joins."""
    return Law(jnp.stack([of.exponent, of.mass, 4.0 * ULP * of.shift]), jnp.stack([of.below, of.beyond]))


def sampled(of: BasePoints, sampling_prob: Any, log_share: Any = -math.inf) -> Law:
    """`Law`, with one point more than `of`, of a release that each record joins with `sampling_prob`: y -> 1 - q + q y.

    A probability above `MOST_PROB` is replaced by 1: a record that joins more often reveals no less.

    Args:
      log_share: approximate logarithm of the mass of infinite loss that may be left, for points whose first one has the
        mass at y = 0 as well. If that mass is less, it stays there: at 1 - q, with much noise far below all other
        points, it would limit the orders of lines.
    """
    is_whole = sampling_prob > MOST_PROB
    q = jnp.where(is_whole, 0.5, sampling_prob)
    # y - 1 = q (Y - 1), and log y without cancellation in either
    excess = q * expm1(of.exponent)
    far = excess < -0.25
    log_ratio = jnp.where(far, jnp.log((1.0 - q) + q * jnp.exp(of.exponent)), log1p(jnp.where(far, 0.0, excess)))
    share = q * jnp.exp(of.exponent - log_ratio)  # share of the part that depends on the output
    size = jnp.where(far, 2.0, jnp.abs(excess) * jnp.exp(-log_ratio))
    blur = 8.0 * ULP * (jnp.abs(log_ratio) + size + share * (1.0 + of.shift))
    log_ratio, blur = (jnp.where(is_whole, a, b) for a, b in ((of.exponent, log_ratio), (4.0 * ULP * of.shift, blur)))
    lowest = log1p(-q)
    stays = is_whole | (of.below < jnp.exp(log_share))
    first = jnp.stack([lowest, jnp.where(stays, 0.0, of.below), 8.0 * ULP * (jnp.abs(lowest) + q)])
    beyond = jnp.where(is_whole, of.beyond, ((1.0 - q) * of.above + q * of.beyond) * (1.0 + 2.0**-50))
    return Law(
        jnp.concatenate([first[:, None], jnp.stack([log_ratio, of.mass, blur])], axis=1),
        jnp.stack([jnp.where(stays, of.below, 0.0), beyond]),
    )
