"""P(T > tau) of a sum T of independent terms from its complex moments, by one contour integral, certified.

Let M(s) = E[e^{sT}] and x > 0. Then (the inversion of the Laplace transform of a distribution function)

    P(T > tau) = (1/2 pi i) int_{Re s = x} M(s) e^{-s tau} / s ds.

The only discretisation error of the trapezoid rule with step h = 2 pi / p is aliasing: the infinite sum is *exactly*

    sum_j e^{x j p} P(T > tau + j p),    j over all integers,

every term of which is non-negative. So the sum is an upper bound, and the sum less bounds on the aliases is a lower
bound. Two errors remain, as in `jaxacct.divergence._inversion`: the nodes left out beyond the last one, and rounding.

The factor 1/s decays slowly, and M need not decay at all if T has atoms. So T is blurred: w Z, with Z standard normal
and independent of everything, is added to it, which multiplies M by e^{w^2 s^2 / 2}. The event T + w Z > tau is a valid
test too, since a test may be randomized and draw Z itself.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction, Ends
from jaxacct.special import exp_or_inf, rows_times

Real = np.ndarray[Any, np.dtype[np.float64]]


class Nodes(NamedTuple):
    """The line Re s = `order` > 0 with nodes at the heights `step` n, n < `num`, and the blur w > 0."""

    order: float
    step: float
    num: int
    blur: float

    @property
    def heights(self) -> Real:
        """The heights [num], exact doubles where the step has few bits."""
        return self.step * np.arange(self.num, dtype=np.float64)


class Moments(NamedTuple):
    """log M on the nodes of a line [N], each entry a sum over independent terms.

    Attributes:
      log_modulus, phase: log |M| and the argument of M, radians, not reduced.
      error: |M / M as given - 1| <= e^error - 1, not counting the rounding of the sums.
      size: sum of the sizes of the terms that were added up in `log_modulus` and `phase`.
    """

    log_modulus: Real
    phase: Real
    error: Real
    size: Real

    def plus(self, other: "Moments") -> "Moments":
        """The moments of the sum of two independent terms."""
        return Moments(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count: float) -> "Moments":
        """The moments of the sum of `count` independent terms of this law."""
        return Moments(*(count * x for x in self))


def of_epoch(
    near: Any,
    far: Any,
    with_record: Any,
    num_steps: float,
    num_selected: float,
    direction: Direction,
    *,
    times: Callable[[Any, float], Any],
    plus: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """A tuple: log M of an epoch's statistic under A and under B, from the moments of its steps.

    The record is in `num_selected` of the `num_steps` steps. A step's moments are M at two neighbouring orders, `near`
    and `far`, and, as `with_record`, M_P at that one of them which belongs to the law with the record: A to remove, B
    to add. They are arrays or `Moments`, as `times` and `plus` expect.
    """
    is_remove = direction is Direction.REMOVE
    held, free = (near, far) if is_remove else (far, near)
    present = plus(times(held, num_steps - num_selected), times(with_record, num_selected))
    absent = times(free, num_steps)
    return (present, absent) if is_remove else (absent, present)


def moments_of(log_modulus: Real, phase: Real, relative: Real) -> Moments:
    """`Moments` [N] of one term, from the relative error of M, which may be above 1."""
    return Moments(log_modulus, phase, np.log1p(relative), np.abs(log_modulus) + np.abs(phase))


class Beyond(NamedTuple):
    """Bounds on M along a line: log |M(order + iy)| <= `log_bound` [K] for all y >= `edges` [K], both sorted."""

    edges: Real
    log_bound: Real


def log_beyond(nodes: Nodes, beyond: Beyond) -> float:
    """float: at least log((h/pi) sum_{n >= N} |M(s_n)| e^{w^2 (x^2 - b_n^2) / 2} / |s_n|), s_n = x + i b_n, b_n = h n.

    Between two edges lie at most (their distance)/h + 1 nodes, at each of which 1/|s| <= 1/edge. Beyond the last, e,
    the sum of e^{-w^2 b^2/2} / b is at most its first term and the integral, which is below e^{-w^2 e^2/2} / (w e)^2.
    """
    first = nodes.step * nodes.num
    known = beyond.edges <= first
    if not known.any():
        return math.inf
    further = beyond.edges[~known]
    edges = np.append(first, further)
    bounds = np.append(np.min(beyond.log_bound[known]), beyond.log_bound[~known])
    bounds = bounds + 0.5 * nodes.blur**2 * (nodes.order**2 - edges**2)
    shares = np.append(np.diff(edges) + nodes.step, nodes.step) / edges
    shares[-1] += (nodes.blur * edges[-1]) ** -2.0
    top = float(bounds.max())
    return top + math.log(float(np.sum(shares * np.exp(bounds - top))) / math.pi) + 1e-9 if top > -math.inf else top


def tail_ends(
    nodes: Nodes, moments: Moments, log_rest: float, alias_order: float, log_alias: float, thresholds: Real
) -> Ends[Real]:
    """`Ends` [K]: log of lower and upper bounds on P(T + w Z > tau) at `thresholds` [K]; at worst -inf and 0.

    Args:
      log_rest: the result of `log_beyond`.
      alias_order, log_alias: an order y > x and an upper bound on log M(y) without blur, inf for no lower bound. For
        every y > x the alias j > 0 is at most e^{x j p} M(y) e^{-y (tau + j p)}. Those of j < 0 are at most e^{x j p}.
    """
    x, b, w = nodes.order, nodes.heights, nodes.blur
    grown, turned = 0.5 * w * w * (x * x - b * b), w * w * x * b
    log_size = moments.log_modulus + grown - (moments.log_modulus[0] + grown[0])
    share = np.where(b == 0.0, 0.5, 1.0) * (nodes.step / math.pi) / (x * x + b * b)
    weight = np.exp(log_size) * share
    angle = moments.phase + turned - thresholds[:, None] * b
    value = rows_times(np.cos(angle), weight * x) + rows_times(np.sin(angle), weight * b)
    # rounding: the sums behind log |M| and its phase, the blur, the angle's own products, 1/s and the sums of N terms
    sizes = moments.size + 0.5 * w * w * (x * x + b * b) + turned
    blurred = moments.error + 2.0**-49 * sizes
    wrong = np.where(blurred < 1.0, np.exp(log_size) * np.expm1(blurred), np.exp(log_size + blurred))
    wrong = (wrong + 2.0**-50 * (16.0 + nodes.num) * np.exp(log_size)) * share * np.hypot(x, b)
    error = float(np.sum(wrong)) + 2.0**-50 * np.abs(thresholds) * float(np.sum(weight * np.hypot(x, b) * b))

    shift = moments.log_modulus[0] + grown[0] - x * thresholds
    slack = 2.0**-48 * (1.0 + sizes[0] + x * np.abs(thresholds))  # besides the error of M at the real axis itself
    error = error + exp_or_inf(log_rest - (moments.log_modulus[0] + grown[0]))
    # e^shift contains M(x) as computed, by which every term of the sum was divided: no error of M enters twice
    left = -x * (2.0 * math.pi / nodes.step)
    ratio = -(alias_order - x) * (2.0 * math.pi / nodes.step)
    right = log_alias + 0.5 * (w * alias_order) ** 2 - alias_order * thresholds + ratio
    right = right + 2.0**-48 * (np.abs(log_alias) + (w * alias_order) ** 2 + alias_order * np.abs(thresholds))
    aliases = np.logaddexp(left - math.log(-math.expm1(left)), right - math.log(-math.expm1(ratio))) + 1e-9
    above = np.maximum(value, 0.0) + error
    below = value - error - exp_or_inf(aliases - shift + slack)
    upper = np.where(above < np.inf, np.log(np.maximum(above, 1e-300)) + shift + slack, 0.0)
    lower = np.where(below > 0.0, np.log(np.where(below > 0.0, below, 1.0)) + shift - slack, -np.inf)
    known = ~np.isnan(upper) & ~np.isnan(lower)
    return Ends(np.where(known, np.minimum(lower, 0.0), -np.inf), np.where(known, np.minimum(upper, 0.0), 0.0))
