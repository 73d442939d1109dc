"""Lower bounds on delta and epsilon from the test "is a sum T of independent terms above a threshold?", certified.

RA-X10. Any event S gives a lower bound for the mechanism: delta(eps) >= A(S) - e^eps B(S), where A and B are the laws
of the output with and without the record (remove), or without and with it (add). Here S = {T > tau}; the laws of T
under A and B are known by their complex moments, from which `jaxacct.divergence._tail` bounds A(T > tau) from below and
B(T > tau) from above.

The statistic, the threshold and the contour are chosen by approximations; the bound that results is certified.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence._tail import Beyond, Moments, Nodes, log_beyond, tail_ends
from jaxacct.divergence._threshold_guess import Goal, GuessedEvent, Terms, deviation, guessed, rough_moments, wide_goal
from jaxacct.special import down, with_few_bits

Real = np.ndarray[Any, np.dtype[np.float64]]

# All of these affect cost and tightness only: every bound is certified whatever their values.
_TUNINGS = (1.0, 0.55, 1.6)  # tunings of the statistic tried first
_OTHERS = (0.2, 0.05)  # tunings tried where those give nothing
_MOST_TUNINGS = 8  # tunings tried in all: the later ones close in on the best
_LOG_CONDITION = 11.0  # log of M(x) e^{-x tau} over the tail above which rounding begins to show
_LOG_ALIAS = -15.0  # log of the largest alias aimed at, as a share of the tail
_LOG_TAIL = -14.0  # log of what may lie beyond the last node, as a share of the tail
_LOG_STEP = -34.0  # log of the error allowed for the rules behind the moments, for all terms together
_BLURS = (1e-4, 1e-3, 3e-3, 1e-2, 2e-2, 4e-2, 8e-2)  # blurs tried, times the order x
_BUDGET = 2048  # nodes on a line: a blur that needs more is passed over
_EDGES = 0.5 * 1.8 ** np.arange(0.0, 16.0)  # heights where the moments are bounded, times T's standard deviation
_NODE_BITS = 20  # the distance of the nodes has so few bits that every node is an exact double
_NARROW = 1.0  # reach of the search on a better line, as a share of the best threshold so far
_HOPELESS = 0.95  # a guessed gain below this share of the bound already known is passed over
_GOOD, _WORTH = 0.003, 3e-4  # relative: tolerated error of a guess, and the least improvement worth another tuning
_NUM_THRESHOLDS = (33, 13, 9)  # thresholds tried per pass, each pass between the neighbours of the best so far
_NEAR = 3.0  # in log: error of a plan's guesses above which the plan is made again
_MOST_PLANS = 3  # lines tried for one statistic


Tuned = Callable[[float], Terms]  # the terms of a statistic that has a tuning, best near 1


class _Plan(NamedTuple):
    """Where the line is put: its order x and period, and an order above x that bounds the aliases."""

    order: float
    period: float
    alias_order: float
    deviation: float  # approximate standard deviation of T


def _plan(terms: Terms, goal: Goal) -> _Plan | None:
    """The line with the least period among those on which rounding errors are harmless; None if there is none."""
    x, log_a, log_b = rough_moments(terms)
    if len(x) < 8:
        return None
    over_a, over_b = log_a - x * goal.threshold - goal.log_a, log_b - (x + 1.0) * goal.threshold - goal.log_b
    left = np.maximum((-goal.log_a - _LOG_ALIAS) / x, (-goal.log_b - _LOG_ALIAS) / (x + 1.0))
    far = x - x[:, None]
    right_a, right_b = (np.where(far > 0.03 * x[:, None], (y - _LOG_ALIAS) / far, np.inf) for y in (over_a, over_b))
    aliases = right_a.argmin(1)
    period = np.maximum(np.maximum(left, right_a.min(1)), right_b.min(1))
    condition = np.maximum(over_a, over_b)
    cost = np.log(period) + np.maximum(condition - max(_LOG_CONDITION, float(condition.min()) + 1.0), 0.0)
    best = int(cost.argmin())
    if not math.isfinite(float(cost[best])):
        return None
    order, alias_order = float(x[best]), float(x[aliases[best]])
    return _Plan(order, float(period[best]), alias_order, deviation(terms))


class _Line(NamedTuple):
    """The two lines, the moments on them, bounds on the part beyond their last nodes, and the alias bound under A."""

    nodes: tuple[Nodes, Nodes]
    moments: tuple[Moments, Moments]
    log_rest: tuple[float, float]
    alias_order: float
    log_alias: float

    def tails(self, thresholds: Real) -> tuple[Real, Real]:
        """Lower bounds on log A(T > tau) and upper bounds on log B(T > tau), at `thresholds`."""
        (a, b), (of_a, of_b) = self.nodes, self.moments
        low = tail_ends(a, of_a, self.log_rest[0], self.alias_order, self.log_alias, thresholds).lower
        # aliases only add to the sum: the upper bound needs no bound on them
        high = tail_ends(b, of_b, self.log_rest[1], 2.0 * b.order, math.inf, thresholds).upper
        return low, high


def _composed(terms: Terms, nodes: Nodes, log_tolerance: float) -> tuple[Moments, Moments]:
    """The moments of T under A and under B."""
    found = [(of.on_line(nodes, log_tolerance), count) for of, count in terms]
    first, second = (functools.reduce(Moments.plus, (x[i].times(n) for x, n in found)) for i in (0, 1))
    return first, second


def _line(terms: Terms, plan: _Plan, goal: Goal) -> _Line:
    """The moments on the two lines, up to the height beyond which they are negligible."""
    tolerance = _LOG_STEP - math.log1p(sum(count for _, count in terms))
    step = with_few_bits(2.0 * math.pi / plan.period, _NODE_BITS)
    edges = _EDGES / plan.deviation
    falls = [(of.beyond(plan.order, edges, tolerance), count) for of, count in terms]
    bounds = [sum((count * pair[i] for pair, count in falls), np.zeros_like(edges)) for i in (0, 1)]
    bounds = [
        x + 2.0**-48 * sum(count * (1.0 + np.abs(pair[i])) for pair, count in falls) for i, x in enumerate(bounds)
    ]
    wanted = (goal.log_a + plan.order * goal.threshold, goal.log_b + (plan.order + 1.0) * goal.threshold)
    relative = np.maximum(bounds[0] - wanted[0], bounds[1] - wanted[1])

    def shortest(blur: float) -> int:
        """The number of nodes up to the height where the moments, blurred, are small."""
        heights = np.append(edges, math.sqrt(2.0 * max(float(relative[0]) - _LOG_TAIL, 1.0)) / blur)
        fall = np.append(relative, -np.inf) - 0.5 * (blur * heights) ** 2
        return max(math.ceil(float(heights[fall < _LOG_TAIL].min()) / step), 4)

    blurs = [share / plan.order for share in _BLURS]
    blur = next((w for w in blurs if shortest(w) <= _BUDGET), blurs[-1])
    num = min(shortest(blur), _BUDGET)
    nodes = Nodes(plan.order, step, num, blur), Nodes(plan.order + 1.0, step, num, blur)
    rests = [log_beyond(of, Beyond(edges, x)) for of, x in zip(nodes, bounds, strict=True)]
    moments = _composed(terms, nodes[0], tolerance)
    alias, _ = _composed(terms, Nodes(plan.alias_order, 0.0, 1, blur), tolerance)
    log_alias = float(alias.log_modulus[0] + alias.error[0] + 2.0**-48 * alias.size[0])
    return _Line(nodes, moments, (rests[0], rests[1]), plan.alias_order, log_alias)


def _certain(tuned: Tuned) -> float:
    """The mass of A where B has none, rounded down; it is part of every event."""
    return -math.expm1(sum(count * of.log_uncertain for of, count in tuned(1.0))) * (1.0 - 2.0**-46)


def epsilon_below(tuned: Tuned, delta: float, floor: float = 0.0) -> float:
    """float: epsilon at `delta`, lower bound: log((A(S) - delta) / B(S)) for the best event S = {T > tau} found, or 0.

    At a smaller epsilon delta(epsilon) >= A(S) - e^epsilon B(S) is more than `delta`. The result is infinite if A has a
    mass of more than `delta` where B has none.
    """
    delta = delta - _certain(tuned)
    if delta <= 0.0:
        return math.inf

    def gains(low: Real, high: Real) -> Real:
        tail = np.exp(np.minimum(low, 0.0)) * (1.0 - 2.0**-50 * (2.0 + np.abs(low)))
        left = down(np.maximum(tail - delta, 0.0), 4)
        log_left = np.log(np.where(left > 0.0, left, 1.0))
        return np.where(left > 0.0, log_left - high - 2.0**-50 * (2.0 + np.abs(log_left) + np.abs(high)), 0.0)

    return _best(tuned, gains, math.log(delta), None, floor)


def delta_below(tuned: Tuned, epsilon: float, floor: float = 0.0) -> float:
    """float: delta at `epsilon`, lower bound: A(S) - e^epsilon B(S) for the best event S = {T > tau} found, or 0."""
    certain = _certain(tuned)

    def gains(low: Real, high: Real) -> Real:
        won = np.exp(np.minimum(low, 0.0)) * (1.0 - 2.0**-50 * (2.0 + np.abs(low)))
        lost = np.exp(np.minimum(epsilon + high, 600.0)) * (1.0 + 2.0**-50 * (2.0 + np.abs(high) + 2.0 * epsilon))
        return down(np.maximum(won - lost, 0.0), 4)

    return down(_best(tuned, gains, None, epsilon, floor - certain) + certain, 2)


def _scanned(terms: Terms, gains: Callable[[Real, Real], Real], goal: Goal) -> GuessedEvent:
    """The best of many thresholds on a pair of lines; on a new pair if the first was made for other thresholds."""
    best = GuessedEvent(0.0, goal)
    for _ in range(_MOST_PLANS):
        plan = _plan(terms, goal)
        if plan is None:
            break
        found, seen = _on_lines(_line(terms, plan, goal), gains, goal)
        if found >= best.gain:
            best = GuessedEvent(found, seen)
        if found <= 0.0:  # the tails may be smaller than guessed
            goal = goal._replace(threshold=0.7 * goal.threshold, log_a=1.8 * goal.log_a, log_b=1.8 * goal.log_b)
            continue
        before, goal = goal, seen
        moved = plan.order * (goal.threshold - before.threshold)
        if max(abs(moved), abs(goal.log_a - before.log_a), abs(goal.log_b - before.log_b)) < _NEAR:
            break
    return best


def _on_lines(line: _Line, gains: Callable[[Real, Real], Real], goal: Goal) -> tuple[float, Goal]:
    """The best gain over many thresholds, and where it is attained."""
    gain, best, centre, reach = 0.0, goal, goal.threshold, goal.reach
    for num in _NUM_THRESHOLDS:
        thresholds = np.linspace(centre - reach, centre + reach, num)
        low, high = line.tails(thresholds)
        found = np.nan_to_num(gains(low, high), nan=0.0, posinf=0.0, neginf=0.0)
        at = int(found.argmax())
        centre = float(thresholds[at])
        if found[at] > gain:
            gain = float(found[at])
            best = Goal(centre, float(low[at]), float(high[at]), _NARROW * abs(centre))
        if 0 < at < num - 1:
            reach *= 2.0 / (num - 1)
    return gain, best


def _best(
    tuned: Tuned,
    gains: Callable[[Real, Real], Real],
    log_delta: float | None,
    epsilon: float | None,
    floor: float,
) -> float:
    """The largest gain found. The tuning is chosen by guesses where these are good, elsewhere by certified gains."""
    with np.errstate(all="ignore"):
        if not deviation(tuned(1.0)) > 0.0:  # nothing is revealed
            return 0.0

        def roughly(tuning: float, _: Goal | None) -> GuessedEvent:
            return guessed(tuned(tuning), gains, log_delta, epsilon)

        def certified(tuning: float, goal: Goal | None) -> GuessedEvent:
            goal = goal or wide_goal(tuned(tuning), log_delta, epsilon)
            return GuessedEvent(0.0, None) if goal is None else _scanned(tuned(tuning), gains, goal)

        known: dict[float, GuessedEvent] = {}
        guess = GuessedEvent(0.0, None) if any(of.has_atoms for of, _ in tuned(1.0)) else roughly(1.0, None)
        if 0.0 < guess.gain < _HOPELESS * floor:
            return 0.0
        if guess.gain > 0.0:
            known[1.0] = certified(1.0, guess.goal)
            if _agree(guess, known[1.0]):
                guesses, best = _tuned({1.0: guess}, roughly)
                if guesses[best].gain <= (1.0 + _WORTH) * guess.gain:
                    return known[1.0].gain
                known[best] = certified(best, guesses[best].goal)
                if _agree(guesses[best], known[best]):
                    return max(one.gain for one in known.values())
        known, best = _tuned({at: one for at, one in known.items() if one.gain > 0.0}, certified)
        return known[best].gain


def _agree(guess: GuessedEvent, found: GuessedEvent) -> bool:
    """Whether a guess approximates what was found."""
    return abs(guess.gain - found.gain) <= _GOOD * found.gain


def _tuned(
    found: dict[float, GuessedEvent], look: Callable[[float, Goal | None], GuessedEvent]
) -> tuple[dict[float, GuessedEvent], float]:
    """`found` with what `look` finds at further tunings, near the goal of the best one so far; and the best tuning."""
    best: float | None = max(found, key=lambda at: found[at].gain, default=None)
    for _ in range(_MOST_TUNINGS - len(found)):
        tuning = _next({at: one.gain for at, one in found.items()})
        if tuning is None:
            break
        found[tuning] = look(tuning, None if best is None else found[best].goal)
        best = tuning if best is None or found[tuning].gain > found[best].gain else best
    assert best is not None
    return found, best


def _next(found: dict[float, float]) -> float | None:
    """The tuning to try next: from the list, then further out or the vertex of the parabola through the best three."""
    for tuning in _TUNINGS:
        if tuning not in found:
            return tuning
    if not any(found.values()):
        return next((tuning for tuning in _OTHERS if tuning not in found), None)
    every = sorted(found)
    at = max(range(len(every)), key=lambda i: found[every[i]])
    if at == 0 or at == len(every) - 1:
        return every[at] * (0.6 if at == 0 else 1.6)
    x = np.log(every[at - 1 : at + 2])
    y = np.array([found[tuning] for tuning in every[at - 1 : at + 2]])
    if y[1] <= 0.0 or (x[2] - x[0] < 0.25 or y[1] - min(y[0], y[2]) < 4e-4 * y[1]):
        return None
    rise, fall = (y[1] - y[0]) / (x[1] - x[0]), (y[1] - y[2]) / (x[2] - x[1])
    top = x[1] + 0.5 * (rise * (x[2] - x[1]) - fall * (x[1] - x[0])) / (rise + fall) if rise + fall > 0 else x[1]
    nearest = float(np.abs(top - x).min())
    if nearest < 0.05:  # halve the wider side instead
        left, right = x[1] - x[0], x[2] - x[1]
        top = x[1] - 0.4 * left if left > right else x[1] + 0.4 * right
    return float(np.exp(top))
