"""Choice of the vertical line Re s = a on which a composition's contour integral is cheapest, for many questions.

The contour integral of `jaxacct.divergence._inversion` does not depend on the line, but its cost does: the nodes are
2 pi / T apart, where the period T makes the aliases negligible, and they extend to the height at which |M(a + ib)| has
decayed. If only a few steps matter (rare participation), the line through the saddle point of the integrand is not the
best one. So lines are compared by an estimate of the number of nodes that they need. The choice certifies nothing and
need not be accurate: any line gives valid ends.

Shapes: [L] questions; [K] orders whose moments are known; [C] lines compared; [H] heights.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Real = np.ndarray[Any, np.dtype[np.float64]]

_NUM_ORDERS, _NUM_LINES = 48, 12  # orders at which moments are evaluated, and lines that are compared
_ORDERS = (1e-2, 1e2)  # range of the orders less 1, in units of 1 over the standard deviation of the composed loss
_HEIGHTS = 9.0 * 2.0 ** np.arange(-3.0, 12.0)  # grid of heights, in the same units
_LOG_ALIAS = -25.0  # log of the largest alias aimed at, as a share of delta
LOG_TAIL = -17.0  # log of what may lie beyond the last node, as a share of delta
_SURELY = 5.0  # in log: margin below that at which the interpolation between two heights aims
_APART = 1.02  # least ratio of an order that bounds aliases to the line's order, both less 1
_WORST = 12.0  # in log: lines on which the integrand exceeds the least one by more than this are not compared
_LOG_CONDITION = 15.0  # log of |integrand| / delta above which rounding begins to show


class ChosenLines(NamedTuple):
    """The lines chosen for questions [L].

    Attributes:
      order, period: a and T.
      alias_order: an order above a that bounds the aliases.
      height, highest: approximate height of the last node, and the next height of the grid above that.
      epsilon, log_delta: approximate answers.
      log_size: log |integrand| on the real axis at the approximate answer.
      renyi_order: approximately the order whose moment alone gives the best bound.
      usable: whether any line is of use; if not, the other fields are meaningless.
    """

    order: Real
    period: Real
    alias_order: Real
    height: Real
    highest: Real
    epsilon: Real
    log_delta: Real
    log_size: Real
    renyi_order: Real
    usable: Any


def candidate_orders(scale: Real, largest: Real) -> Real:
    """Orders [L, K], increasing, in steps set by `scale` [L], 1 over the standard deviation of the composed loss.

    They are at most `largest` [L], up to rounding.
    """
    low, high = (np.minimum(x * scale, largest - 1.0)[:, None] for x in _ORDERS)
    low = np.minimum(low, 0.01 * high)
    return 1.0 + low * (high / low) ** np.linspace(0.0, 1.0, _NUM_ORDERS)


def choose_lines(
    orders: Real,
    logs: Real,
    modulus: Callable[[Real, Real], Real],
    scale: Real,
    epsilon: Real | None,
    log_delta: Real | None,
) -> ChosenLines:
    """The lines (class `ChosenLines`) that should need the fewest nodes, given approximate answers.

    Args:
      orders, logs: [L, K], orders and approximate log M there, inf where it is too large.
      modulus: approximate log |M(a + ib)| [L, C, H] at orders a [L, C] and heights b [L, H].
      scale: [L], 1 over the standard deviation of the composed loss.
      epsilon, log_delta: [L], the epsilons and deltas of the questions, as far as known; at least one of the two.
    """
    every, excess = np.arange(len(orders)), orders - 1.0
    if epsilon is None:
        assert log_delta is not None
        bounds = (logs - log_delta[:, None] - np.log(orders)) / excess + np.log1p(-1.0 / orders)
        at = _least(bounds)
        best = bounds[every, at]
        epsilon = np.maximum(np.maximum(best - 2.0 / excess[every, at], 0.05 * best), 0.0)
    log_sizes = logs - excess * epsilon[:, None]
    largest = _least(log_sizes)
    if log_delta is None:
        log_delta = np.minimum((log_sizes - np.log(orders))[every, largest] - 3.0, -1e-9)
    usable = log_sizes < log_sizes[every, largest][:, None] + _WORST
    first = usable.argmax(1)
    last = usable.shape[1] - 1 - usable[:, ::-1].argmax(1)
    lines = np.rint(first[:, None] + (last - first)[:, None] * np.linspace(0.0, 1.0, _NUM_LINES)).astype(int)
    rows = every[:, None]
    known, a, of = usable[rows, lines], excess[rows, lines], log_sizes[rows, lines]
    left = (-log_delta[:, None] - _LOG_ALIAS) / a
    further = excess[:, None, :] / a[:, :, None]
    right = (log_sizes - np.log(excess) - log_delta[:, None] - _LOG_ALIAS)[:, None, :]
    right = np.where(further > _APART, right / (a[:, :, None] * (further - 1.0)), np.inf)
    aliases = right.argmin(2)
    period = np.maximum(left, np.take_along_axis(right, aliases[:, :, None], 2)[:, :, 0])
    known = known & np.isfinite(period)
    heights = scale[:, None] * _HEIGHTS
    above = np.maximum.accumulate(modulus(1.0 + a, heights)[:, :, ::-1], axis=2)[:, :, ::-1]
    above = above - (a * epsilon[:, None])[:, :, None] - (np.log(heights) + (log_delta + LOG_TAIL)[:, None])[:, None, :]
    height, highest = _crossing(above, heights)
    nodes = height * period / (2.0 * math.pi)
    cost = np.log(nodes + 40.0) + 0.5 * np.maximum(of - log_delta[:, None] - _LOG_CONDITION, 0.0)
    best = np.where(known, cost, np.inf).argmin(1)
    at = lines[every, best]
    return ChosenLines(
        orders[every, at],
        period[every, best],
        orders[every, aliases[every, best]],
        height[every, best],
        highest[every, best],
        epsilon,
        log_delta,
        log_sizes[every, at],
        orders[every, largest],
        known[every, best],
    )


def _crossing(above: Real, heights: Real) -> tuple[Real, Real]:
    """The height at which `above` [L, C, H], decreasing in the `heights` [L, H], is 0, and the next one; [L, C] each.

    Between two heights `above` is interpolated linearly in the square of the height.
    """
    falls = above < 0.0
    after = falls.argmax(2)[:, :, None]
    squares = np.broadcast_to((heights * heights)[:, None, :], above.shape)
    high, low = (np.take_along_axis(squares, x, 2)[:, :, 0] for x in (after, np.maximum(after - 1, 0)))
    below, over = (np.take_along_axis(above, x, 2)[:, :, 0] for x in (after, np.maximum(after - 1, 0)))
    share = np.where(over > below, (over + _SURELY) / np.where(over > below, over - below, 1.0), 1.0)
    found = np.sqrt(low + np.clip(share, 0.0, 1.0) * (high - low))
    far, furthest = ~falls.any(2), 100.0 * heights[:, -1:]
    return np.where(far, furthest, found), np.where(far, furthest, np.sqrt(high))


def _least(of: Real) -> Any:
    """The indices [L] of the least entry of each row; nan counts as inf."""
    return np.where(np.isnan(of), np.inf, of).argmin(1)
