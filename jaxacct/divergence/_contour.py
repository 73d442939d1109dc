"""The contour integral for one question, on the host: where to put the line, how long to make it, and the ends.

The integral of `jaxacct.divergence._inversion` does not depend on the line Re s = a, its cost does: the nodes are
2 pi / T apart, T such that the aliases vanish, and reach to where |M(a + ib)| has fallen. Where few steps matter (rare
participation) the saddle point of the integrand is not the best place. So lines are compared by the number of nodes
that they need, roughly and without a certificate; then everything is bounded on the one that was chosen.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxacct._types import Ends
from jaxacct.divergence._inversion import Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.special import with_few_bits

Real = np.ndarray[Any, np.dtype[np.float64]]

# All of these steer cost and tightness only: every end is certified whatever they are.
_NUM_ORDERS, _NUM_LINES = 48, 12  # orders whose moments are looked at, and lines that are compared
_ORDERS = (1e-2, 1e2)  # range of the orders less 1, in units of 1 over the standard deviation of the composed loss
_HEIGHTS = 9.0 * 2.0 ** np.arange(-3.0, 12.0)  # heights looked at, in the same units
_LOG_ALIAS = -25.0  # log of the largest alias aimed at, as a share of delta
_LOG_TAIL = -17.0  # log of what may lie beyond the last node, as a share of delta
_LOG_STEP = -37.0  # log of what the rules behind a moment may leave out, for all rounds together
_LONGER = np.array([0.5, 0.65, 0.8, 1.0, 1.25, 1.6, 2.2, 3.5])  # lengths tried, in units of the guess
_LOG_CONDITION = 15.0  # log of |integrand| / delta above which rounding begins to show
# nodes on a line: one that wants more than the first number is cut to the second, and its ends are wider
_BUDGET, _CUT = 1_000_000, 12_000
_NODE_BITS = 20  # the distance of the nodes has so few bits that every node is an exact double
_HOPELESS = 1e3  # an upper end beyond so many times 1 + the epsilon expected is no answer
_PASSES = 3  # lines tried: a later one knows better where the answer is
_GOAL = 1e-6  # relative width at which no other line is tried; or the width asked for, if that is less


class Round(Protocol):
    """What a contour has to know of a run's independent round, in one direction. Only `on_line` and `decay` certify."""

    @property
    def variance(self) -> float:
        """About the variance of its loss."""

    @property
    def largest_order(self) -> float:
        """About the largest order at which its moment is of use."""

    @property
    def highest(self) -> float:
        """About the height up to which its moments can be had; inf for any."""

    def rough(self, orders: Real) -> Real:
        """About log M [A] at real `orders` [A] > 1."""

    def rough_modulus(self, orders: Real, heights: Real) -> Real:
        """About log |M(a + ib)| [A, H] at `orders` [A] and `heights` [H]."""

    def decay(self, order: float, heights: Real, log_tolerance: float) -> Real:
        """Upper bounds [K] on log |M(a + iy) / M(a)| for all y >= `heights` [K]."""

    def on_line(self, line: Line, log_tolerance: float) -> LineMoments:
        """Its moments [N, 1] on a line of one lane, certified."""


Rounds = Sequence[tuple[Round, float]]  # each with how often it is run


class _Choice(NamedTuple):
    """A line: its order a, its period T, an order above a that bounds the aliases, and about where it may end.

    With it about where the answer is: epsilon and log delta, and log |integrand| on the real axis there.
    """

    order: float
    period: float
    alias_order: float
    height: float
    epsilon: float
    log_delta: float
    log_size: float
    renyi_order: float  # about the order whose moment alone says most


def _sum(parts: Any) -> Any:
    return sum(parts, np.zeros(()))


def choose_line(rounds: Rounds, epsilon: float | None, log_delta: float | None) -> _Choice | None:
    """The line that should need the fewest nodes, near the point that is known; None if no order is of use."""
    scale = 1.0 / math.sqrt(sum(count * of.variance for of, count in rounds))
    largest = min(of.largest_order for of, _ in rounds)
    low, high = (min(x * scale, largest) for x in _ORDERS)
    excess = np.geomspace(min(low, 0.01 * high), high, _NUM_ORDERS)
    orders = 1.0 + excess
    log_moments = _sum(count * of.rough(orders) for of, count in rounds)
    if epsilon is None:
        assert log_delta is not None
        bounds = (log_moments - log_delta - np.log(orders)) / excess + np.log1p(-1.0 / orders)
        at = int(np.nanargmin(bounds))
        epsilon = max(float(bounds[at]) - 2.0 / float(excess[at]), 0.05 * float(bounds[at]), 0.0)
    log_sizes = log_moments - excess * epsilon
    renyi_order = float(orders[int(np.nanargmin(log_sizes))])
    if log_delta is None:
        at = int(np.nanargmin(log_sizes))
        log_delta = min(float(log_sizes[at] - math.log(orders[at])) - 3.0, -1e-9)
    left = (-log_delta - _LOG_ALIAS) / excess
    right = log_moments - excess * epsilon - np.log(excess) - log_delta - _LOG_ALIAS
    right = right / (excess - excess[:, None])
    right = np.where(excess > 1.02 * excess[:, None], right, np.inf)
    aliases = right.argmin(1)
    period = np.maximum(left, right.min(1))
    usable = np.flatnonzero(np.isfinite(period) & (log_sizes < np.nanmin(log_sizes) + 12.0))
    if not usable.size:
        return None
    lines = usable[np.unique(np.linspace(0, usable.size - 1, _NUM_LINES).astype(int))]
    heights = _HEIGHTS * scale
    modulus = _sum(count * of.rough_modulus(orders[lines], heights) for of, count in rounds)
    largest_beyond = np.maximum.accumulate(modulus[:, ::-1], axis=1)[:, ::-1]
    falls = largest_beyond - (excess * epsilon)[lines, None] - np.log(heights) < log_delta + _LOG_TAIL
    height = np.where(falls.any(1), heights[falls.argmax(1)], 100.0 * heights[-1])
    nodes = height * period[lines] / (2.0 * math.pi)
    cost = np.log(nodes + 40.0) + 0.5 * np.maximum(log_sizes[lines] - log_delta - _LOG_CONDITION, 0.0)
    best = int(np.argmin(cost))
    at = int(lines[best])
    return _Choice(
        float(orders[at]),
        float(period[at]),
        float(orders[aliases[at]]),
        float(height[best]),
        float(epsilon),
        float(log_delta),
        float(log_sizes[at]),
        renyi_order,
    )


def _on_line(rounds: Rounds, choice: _Choice) -> tuple[Any, LineMoments]:
    """The line and the certified moments on it; as long as the certified decay wants it, or cut."""
    tolerance = _LOG_STEP - math.log1p(sum(count for _, count in rounds))
    step = with_few_bits(2.0 * math.pi / choice.period, _NODE_BITS)

    def falls(heights: Real) -> Real:
        return _sum(count * of.decay(choice.order, heights, tolerance) for of, count in rounds)

    heights = choice.height * _LONGER
    decay = falls(heights)
    short = choice.log_size + decay - np.log(heights) < choice.log_delta + _LOG_TAIL
    at = int(short.argmax()) if short.any() else len(heights) - 1
    if heights[at] > step * _BUDGET:
        heights, at = np.array([step * _CUT]), 0
        decay = falls(heights)
    num = max(math.ceil(float(heights[at]) / step), 4)
    nodes = step * np.arange(num)[:, None]
    order, period = np.array([choice.order]), np.array([2.0 * math.pi / step])
    columns: Any = (order, period, nodes, nodes >= 0, np.array([[step * num]]), np.array([[choice.alias_order]]))
    line = Line(*columns)
    parts = [(of.on_line(line, tolerance), count) for of, count in rounds]
    moments = (_sum(count * x[k] for x, count in parts) for k in range(len(LineMoments._fields)))
    return line, LineMoments(*moments)._replace(log_decay=decay[at].reshape(1, 1))


def _by_one_moment(rounds: Rounds, order: float, epsilon: float | None, log_delta: float | None) -> float:
    """An upper bound on log delta or epsilon from the real moment at `order` a alone, as for aliases (`_inversion`).

    (1 - 1/a)^a / (a - 1) is (a - 1)^(a - 1) / a^a: of that form no logarithm is of a rounded difference from 1.
    """
    node: Any = np.zeros((1, 1))
    columns: Any = (np.array([2.0]), np.ones(1), node, node == 0.0, node + 1.0, node + order)
    moments = [(of.on_line(Line(*columns), _LOG_STEP), count) for of, count in rounds]
    log_moment = float(_sum(count * found.log_alias[0, 0] for found, count in moments))
    excess = order - 1.0
    terms = [log_moment, excess * math.log(excess), -order * math.log1p(excess)]
    if epsilon is not None:
        terms.append(-excess * epsilon)
    elif log_delta is not None:
        terms.append(-log_delta)
    found = math.fsum(terms) + 2.0**-48 * (1.0 + sum(map(abs, terms)))
    return min(0.0, found) if epsilon is not None else max(0.0, found) / excess


def bracket(
    rounds: Rounds, *, epsilon: float | None = None, log_delta: float | None = None, width: float
) -> Ends[float]:
    """Certified `Ends` of log delta at `epsilon`, or of epsilon at `log_delta`: one of the two is given.

    At worst (-inf, 0) and (0, inf). Where the line is higher than moments can be had, the upper end is by a single
    one, and nothing is said from below. Several lines are tried, until the ends are as close as `width` and 1e-6,
    relative to epsilon or to delta.
    """
    with np.errstate(all="ignore"):
        return _bracket(rounds, epsilon, log_delta, min(width, _GOAL))


def _lane(x: Any) -> Any:
    return np.array([x])


def _by_line(rounds: Rounds, choice: _Choice, epsilon: float | None, log_delta: float | None) -> Ends[float]:
    """Certified `Ends` by the moments on one line; an upper end far above where the line was chosen counts as none."""
    line, moments = _on_line(rounds, choice)
    found: Any
    if epsilon is not None:
        found = delta_ends(line, moments, _lane(epsilon))
    else:
        found = epsilon_ends(line, moments, _lane(log_delta), _lane(choice.epsilon))
    lower, upper = float(found.lower[0]), float(found.upper[0])
    if epsilon is None and upper > _HOPELESS * (1.0 + choice.epsilon):
        upper = math.inf
    return Ends(lower, upper)


def _bracket(rounds: Rounds, epsilon: float | None, log_delta: float | None, width: float) -> Ends[float]:
    asks_delta = epsilon is not None
    least, high = (-math.inf, 0.0) if asks_delta else (0.0, math.inf)
    low = least
    if not sum(count * of.variance for of, count in rounds) > 0.0:  # it has underflowed
        return Ends(low, high)
    highest = min(of.highest for of, _ in rounds)
    near: float | None = None  # about what is asked: the next line is chosen for it
    for _ in range(_PASSES):
        choice = choose_line(rounds, epsilon, near) if asks_delta else choose_line(rounds, near, log_delta)
        if choice is None:
            break
        if choice.height > highest:
            high = min(high, _by_one_moment(rounds, choice.renyi_order, epsilon, log_delta))
            break
        found = _by_line(rounds, choice, epsilon, log_delta)
        low, high = max(low, found.lower), min(high, found.upper)
        if high - low <= (width if asks_delta else width * low) or not high > low:
            break
        before, near = near, high if low == least or math.isinf(high) else 0.5 * (low + high)
        if math.isinf(near) or (before is not None and abs(near - before) <= 1e-3 * abs(before)):
            break
    return Ends(min(low, high), high)
