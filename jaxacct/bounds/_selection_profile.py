"""The best of a random number of runs, from the privacy profile of one run.

Let K be the number of runs, f(x) = E[x^K]. An output has rank u if a run gives a better one with probability u. It is
the best of all with density f'(1 - u), and on neighbouring data its rank is at most T(u), the least over h >= 0 of
e^h u + delta(h). With r(u) the largest log of f'(1 - x) / f'(1 - T(x)) over the ranks x <= u,

    delta_best(epsilon) <= f'(0) delta(s(1)) + integral of f''(1 - u) delta(s(u)) + f'(1 - u) (1 - e^-w(u)) du,

where s(u) = epsilon - r(u) or, if that is less than some l >= 0, s(u) = l, which is w(u) more; and also
delta_best(epsilon) <= 1 - f(1 - delta(epsilon - r(1))). The integral is summed over cells of ranks. Both directions are
bounded at once: the profile of a run, delta(epsilon), is the larger of its two directions. Proofs are in
docs/numerics/selection.md; the idea is Koskela, Redberg & Wang's (2024, "Privacy profiles for private selection").
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Query, only_analysed
from jaxacct._patience import LONG, say_long, timed, with_slow_warning
from jaxacct._sharing import once, shared
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._number_of_runs import NumberOfRuns, regular_shape
from jaxacct.bounds._parts import is_scalar
from jaxacct.mechanisms import PrivateSelection
from jaxacct.special import crossing, down, up

THEOREM = "the privacy profile of one run, docs/numerics/selection.md; after Koskela, Redberg & Wang 2024"

# What follows steers tightness only.
_SHARE = 0.03  # of the work of one question that each question about a run may take
# the number of lines e^h u + delta(h) beside the first, and how many of them lie up to where delta(h) is the share
# _LINE of its value at the first
_NUM_LINES, _LINES = 7, 3.0
_LINE = 0.06
_NUM_CELLS = 9  # of ranks, by their r
_NEAR = 0.5  # log of delta(epsilon - r) of one over that of the next cell, where r is largest
_PROBE = 0.05  # from there to where the slope of log delta is measured
_STEPS = (1.1, 2.0, 4.0)  # times the distance that the slope suggests, to a point below the root
_REST = 2.0**-12  # of delta: ranks that may add no more than this are not distinguished
_NUM_QUESTIONS = 60  # about a run, roughly, for one answer: there is a warning where they take long
_MORE = (1.001, 1.1, 2.0, 8.0)  # than delta / mean, tried for lower ends


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


_Curve = Callable[[float], float]


class _Cell(NamedTuple):
    """A cell of ranks: f'(1 - u) and f(1 - u) - f(0) at its left end, and r at its right end, rounded up."""

    density: float
    beyond: float
    log_ratio: float


class Selection:
    """One selection: the profile of a run and the law of their number.

    Args:
      mechanism: the selection.
      run_delta: ``(epsilon >= 0) -> `` delta of one run, in its worse direction, rounded up.
      run_epsilon: ``(delta in (0, 1)) -> `` epsilon of one run, in its worse direction, rounded up.
    """

    def __init__(self, mechanism: PrivateSelection, run_delta: _Curve, run_epsilon: _Curve) -> None:
        self.law = NumberOfRuns(float(mechanism.mean_runs), regular_shape(mechanism.shape))
        self._run_delta, self._run_epsilon = run_delta, run_epsilon
        self.profile = functools.cache(self._profile)

    def _profile(self, epsilon: float) -> float:
        """delta(epsilon) of one run, rounded up, for any real epsilon.

        At epsilon = -a < 0, the positive part of P - e^-a Q is 1 - e^-a + e^-a delta(a), with delta that of Q and P.
        """
        if epsilon >= 0.0:
            return self._run_delta(epsilon)
        back = self.profile(-epsilon) if math.isfinite(epsilon) else 1.0
        return min(up(-math.expm1(epsilon) + math.exp(epsilon) * back, 16), 1.0)

    def run_epsilon(self, delta: float) -> float:
        """epsilon(delta) of one run, rounded up."""
        return self._run_epsilon(delta) if 0.0 < delta < 1.0 else math.inf

    @functools.cached_property
    def lines(self) -> list[tuple[float, float]]:
        """Some (h, delta(h)), the first of which gives the least r(1)."""
        total = self.profile(0.0)
        first = (0.0, total) if self.law.is_poisson else self._line_of_most(total, float(self.law.odds.lower))
        step = (self.run_epsilon(first[1] * _LINE) - first[0]) / _LINES
        others = (first[0] + k * step for k in range(1, _NUM_LINES + 1)) if 0.0 < step < math.inf else ()
        return [first, *((h, self.profile(h)) for h in others)]

    def _line_of_most(self, total: float, odds: float) -> tuple[float, float]:
        """The h of ``delta(h) = (e^h - 1) odds``, at which f'(1 - x) / f'(1 - T(x)) is largest; and delta(h)."""
        if not odds > 0.0 < total:
            return 0.0, total

        def excess(h: float) -> float:
            return math.inf if h == 0.0 else _log(self.profile(h)) - math.log(odds) - math.log(math.expm1(h))

        high = up(math.log1p(total / odds), 16)  # delta(h) is at most `total`
        low = math.log1p(self.profile(high) / odds)  # and, below it, at least this
        h = crossing(excess, min(low, high), high)
        return h, self.profile(h)

    def log_ratio(self, rank: float) -> float:
        """r(rank), rounded up."""
        return min(self.law.log_ratio(rank, *line) for line in self.lines)

    def cells(self, epsilon: float, delta: float) -> list[_Cell]:
        """Cells of ranks from 0 to 1, for answers near `epsilon` and `delta`."""
        last = self.law.rank_at(min(_REST * delta / self.law.mean, 0.5))
        most = self.log_ratio(last)
        if not 0.0 < most < math.inf:
            return [self._cell(0.0, 1.0)]
        slope = self._slope(epsilon - most)
        steps = np.geomspace(min(_NEAR / slope if slope > 0.0 else most, most) / _NUM_CELLS, most, _NUM_CELLS)
        below = (max(self.law.rank_below(ratio, *line) for line in self.lines) for ratio in most - steps[::-1])
        ranks = sorted({*(rank for rank in below if 0.0 < rank < last), last, 1.0})
        return list(itertools.starmap(self._cell, itertools.pairwise([0.0, *ranks])))

    def _cell(self, left: float, right: float) -> _Cell:
        return _Cell(self.law.density(left).upper, self.law.beyond(left), self.log_ratio(right))

    def _slope(self, epsilon: float) -> float:
        """Approximately the slope of -log delta of one run; 0 where it is not known."""
        here, there = (_log(self._shifted(epsilon, -by)) for by in (0.0, _PROBE))
        return (here - there) / _PROBE if math.isfinite(here - there) else 0.0

    def _shifted(self, epsilon: float, by: float) -> float:
        return self.profile(float(np.nextafter(epsilon - by, -math.inf)))

    def log_delta(self, epsilon: float, cells: Sequence[_Cell]) -> float:
        """The log of delta at `epsilon` by the cells, rounded up."""
        least = min(self._sum(epsilon, cells, below) for below in (0.0, *(h for h, _ in self.lines)))
        # every rank with the largest ratio; where that is above epsilon, the sum with this shift is no larger
        whole = self.law.at_least_one(self._shifted(epsilon, cells[-1].log_ratio))
        return _log(up(min(least, whole, 1.0), 256))

    def _sum(self, epsilon: float, cells: Sequence[_Cell], below: float) -> float:
        """``sum (a_j - a_(j+1)) delta_j``, by parts from the last cell; no delta_j is at an epsilon below `below`."""
        total, shifts = 0.0, [float(np.nextafter(epsilon - cell.log_ratio, -math.inf)) for cell in cells]
        certain = [up(-math.expm1(min(shift - below, 0.0)), 16) for shift in shifts]
        here = self.profile(max(shifts[-1], below))
        last = len(cells) - 1
        while last > 0 and cells[0].density * here > _REST * total:
            before = min(self.profile(max(shifts[last - 1], below)), here)
            total += cells[last].density * (here - before) + cells[last].beyond * (certain[last] - certain[last - 1])
            here, last = before, last - 1
        return total + cells[0].density * here + cells[0].beyond * certain[last]

    def delta(self, epsilon: float) -> float:
        """Delta, rounded up."""
        cells = self.cells(epsilon, self.law.at_least_one(self.profile(epsilon)))
        return min(up(math.exp(self.log_delta(epsilon, cells)), 1024), 1.0)

    def epsilon(self, delta: float) -> float:
        """Epsilon, rounded up."""
        high = up(self.run_epsilon(self.law.share_of_one(delta)) + self.log_ratio(1.0), 8)
        if not math.isfinite(high):
            return math.inf
        cells = self.cells(high, delta)

        def excess(epsilon: float) -> float:
            return self.log_delta(epsilon, cells) - math.log(delta) + 2.0**-40

        gain, slope = -excess(high), self._slope(high - self.log_ratio(1.0))
        if not gain >= 0.0:
            return high
        steps = (more * gain / slope for more in _STEPS) if slope > 0.0 else ()
        low = next((high - step for step in steps if step < high and excess(high - step) > 0.0), 0.0)
        return crossing(excess, low, high)

    def _least_density(self, epsilon: float) -> float:
        """f'(1 - P(S)), rounded down, S the outputs of losses above `epsilon`: (1 - 1/e) P(S) <= delta(epsilon - 1)."""
        most = up(self.profile(epsilon - 1.0) / -math.expm1(-1.0), 16)
        return self.law.density(min(most, 1.0)).lower

    def least_delta(self, epsilon: float, below: _Curve) -> float:
        """Delta, rounded down, if outputs with larger losses are better; `below` is a lower bound on a run's delta."""
        density = self._least_density(epsilon)
        if not density > 0.0:
            return 0.0
        return down(density * below(up(epsilon + math.log(self.law.mean / density), 16)), 8)

    def least_epsilon(self, delta: float, below: _Curve) -> float:
        """Epsilon, rounded down, if outputs with larger losses are better; `below` is a lower bound on a run's."""
        for more in _MORE:
            target = up(more * delta / self.law.mean, 8)
            if target >= 1.0:
                return 0.0
            found = below(target)
            density = self._least_density(found)
            if density * target >= delta * (1.0 + 2.0**-40):
                return max(down(found, 8) - up(math.log(self.law.mean / density), 16), 0.0)
        return 0.0


@shared()  # dozens of questions about one run
def _bracket(
    mechanism: PrivateSelection, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    run, found = mechanism.mechanism, {}
    known: set[Query] = set()
    questions = with_slow_warning(itertools.repeat(None), "questions about one run", _NUM_QUESTIONS, known_after=4)

    def ask(query: Query, target: float, **options: Any) -> Ends[float]:
        if len(known) == len(Query):  # the first of either kind makes what the others share: its time is no measure
            next(questions, None)
        found, took = timed(lambda: at.ask(run, query, target, query.width, share=_SHARE, **options))
        if query not in known and took > 0.5 * LONG:
            say_long(f"there are some {_NUM_QUESTIONS} questions about one run, the first took {took:.1g} seconds")
        known.add(query)
        return found

    def make() -> Selection:
        return Selection(
            mechanism,
            lambda epsilon: ask(Query.DELTA, epsilon, wants_lower=False).upper,
            lambda delta: ask(Query.EPSILON, delta, wants_lower=False).upper,
        )

    selection = once((Selection, mechanism, at.share), 1.0, make)
    above, least = (
        (selection.epsilon, selection.least_epsilon)
        if query is Query.EPSILON
        else (selection.delta, selection.least_delta)
    )
    with np.errstate(all="ignore"), contextlib.closing(questions):
        upper = above(target)
        for direction in at.known:
            named = direction if len(run.directions) > 1 else None
            below = functools.partial(ask, query, wants_lower=True, direction=named)
            lower = least(target, lambda x, below=below: below(x).lower) if at.wants_lower else 0.0  # type: ignore[misc]
            found[direction] = Ends(lower, upper)
    return found


PROFILE = BracketMethod(
    name="profile",
    theorem=THEOREM,
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.TENTHS,
    applies=is_scalar,
    bracket=_bracket,
    below=only_analysed,
    regime="any run; the lower end is that of the order in which the outputs of the largest losses are the best",
)
"""The method for every selection, from the profile of the runs among which it selects."""
