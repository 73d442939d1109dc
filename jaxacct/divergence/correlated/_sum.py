"""The mean of correlated log-normal variables: upper bounds on E (R - c)_+ and E (c - R)_+, by dynamic programming.

R = e^(Z - a/2) (1/L) sum_b F_b e^(X_b - u/2), X a Markov chain, the factors F_b and Z of `_factor`. The state is
(x_b, S), S the sum so far, and the recursion runs forward. Both the next x (`_chain`) and S are spread between the
nodes of a grid, in which the value of the remaining steps is convex: so the result is an upper bound on any grid. S is
on [0, most), in units of most / n. Mass that reaches most is taken out: without Z the value for REMOVE is linear there,
and the mean of the remaining steps is added; the value for ADD does not grow, and the remaining steps are left out.
With Z the same holds at each of its values, except for REMOVE where c e^(a/2 - Z) is above most: there E (S - c)_+ is
at most E (S - most)_+.

Floating point: all summands are positive, and weights are raised by 2^-35 (`_chain`, `_factor`), more than the rounding
error of sums of fewer than 2^17 terms in a step. The relative error of the increments is below `_SUMS`, and c is moved
by as much.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jaxacct._patience import with_slow_warning
from jaxacct._types import Direction
from jaxacct.divergence.correlated._chain import Chain, Path, Step, grid, path_of, step
from jaxacct.divergence.correlated._factor import Factor, factor, option
from jaxacct.special import rows_times, rows_times_rows

_SUMS = 2.0**-36  # relative error of S: from exponentials of up to 2^9 and the rounding of a chain's moves
_RESULT = 1.0 + 2.0**-30  # factor by which the sums of the result may be too small
_LEAST = 1e-280  # bound on all contributions below the normal doubles, in total
_STEP = 1.5  # the least number of nodes per standard deviation of one move: what Gauss's rule needs in a cell
_NOTHING = 1e-16  # share of the value up to which a first variable of a circle is charged in place of a walk
_OF_FACTORS = 0.35  # points per standard deviation of the variables' own parts, over nodes per one of the chain


class SumLaw(NamedTuple):
    """The law of R, with its value at any c in [0, `most`].

    Attributes:
      most: the largest c, and where S is taken out.
      mass: [n], of S at 0, most / n, ..
      absorbed: the mass that reached `most`; `excess`, for REMOVE, the mean of S beyond it and of the terms that
        follow.
      charge: the charge for paths that left the grid.
      direction: REMOVE or ADD.
      shared: the variance of Z.
    """

    most: float
    mass: NDArray[Any]
    absorbed: float
    excess: float
    charge: float
    direction: Direction
    shared: float = 0.0

    def absorbed_value(self, c: float) -> float:
        """The part of `value` that comes from the mass that reached `most`, taken to be at `most`."""
        return self.absorbed * float(option(np.array([self.most]), c, self.shared, self.direction)[0])

    def value(self, c: float) -> float:
        """An upper bound on E (R - c)_+ or E (c - R)_+."""
        sums = self.most / len(self.mass) * np.arange(len(self.mass) + 1)
        c = c * (1.0 - _SUMS if self.direction is Direction.REMOVE else 1.0 + _SUMS)
        values = option(sums, c, self.shared, self.direction)
        inside = float(self.mass @ values[:-1]) + self.absorbed * float(values[-1]) + self.excess
        return float((inside + self.charge) * _RESULT + _LEAST)


class _Walk:
    """One grid and its steps; equal steps are computed once."""

    def __init__(self, chain: Chain, direction: Direction, most: float, fineness: float, num_sums: int) -> None:
        self.chain, self.direction, self.most = chain, direction, most
        self.unit = most / num_sums
        self.path: Path = path_of(chain)
        least = min(move.deviation for move in self.path.moves)
        self.nodes = grid(chain, direction, max(fineness, _STEP * math.sqrt(chain.variance) / least))
        self.factor = factor(chain.white, _OF_FACTORS * fineness)
        steps: dict[Any, Step] = {}
        self.steps: list[Step] = []
        for number, move in enumerate(self.path.moves):
            start = self.nodes if number else np.zeros(1)
            if (move, bool(number)) not in steps:
                steps[move, bool(number)] = step(move, start, self.nodes, direction)
            self.steps.append(steps[move, bool(number)])
        self.sums = np.arange(num_sums)
        self.mass = np.zeros(num_sums)
        self.absorbed = self.excess = self.charge = 0.0

    def law(self) -> SumLaw:
        of = self.most, self.mass, self.absorbed, self.excess, self.charge
        return SumLaw(*of, self.direction, self.chain.shared)

    def increments(self, first: float) -> list[NDArray[Any]]:
        """The increments of S at each node, in units, for each move, given X_0 = `first`."""
        scale = 1.0 / (self.chain.length * self.unit)
        made: dict[float, NDArray[Any]] = {}
        for share in self.path.shares:
            if share not in made:
                made[share] = scale * np.exp(self.nodes + (share * first - 0.5 * self.chain.variance))
        return [made[share] for share in self.path.shares]

    def off_grid(self, charge: NDArray[Any], first: float) -> NDArray[Any]:
        """A step's charge in value: for REMOVE of all that remains, at most e^Y e^(X_0)_+; for ADD at most c."""
        return charge * (math.exp(max(first, 0.0)) if self.direction is Direction.REMOVE else self.most)

    def to_come(self, increments: list[NDArray[Any]], first: float) -> list[NDArray[Any]]:
        """The mean of the remaining terms after each move, in units, at each node; before the first move, [1]."""
        left = [np.zeros(len(self.nodes))]
        for one, increment in zip(reversed(self.steps), reversed(increments), strict=True):
            left.append(rows_times(one.weights, increment + left[-1]) + self.off_grid(one.charge, first) / self.unit)
        return left[::-1]

    def walk(self, weight: float, first: float, begun: float) -> None:
        """Add all paths with X_0 = `first`, from S = `begun` F, in units, or from 0."""
        num, removes = len(self.sums), self.direction is Direction.REMOVE
        increments = self.increments(first)
        left = self.to_come(increments, first) if removes else []
        whole = weight * (self.unit * (begun + float(left[0][0])) if removes else self.most)
        if whole < _NOTHING and self.path.first is not None:
            self.charge += whole
            return
        held = np.zeros((1, num))
        held[0, 0] = weight
        if begun > 0.0:
            held = self.shifted(_Shift(np.array([begun]), self.factor, num), held, left[0] if removes else None)
        shift: _Shift | None = None
        every = enumerate(zip(self.steps, increments, strict=True))
        for number, (one, increment) in with_slow_warning(every, "variables of a chain", len(self.steps)):
            self.charge += float(held.sum(axis=1) @ self.off_grid(one.charge, first))
            held = rows_times_rows(one.weights.T, held.T)
            if shift is None or shift.increment is not increment:
                shift = _Shift(increment, self.factor, num)
            held = self.shifted(shift, held, left[number + 1] if removes else None)
        self.mass += held.sum(axis=0)

    def shifted(self, shift: "_Shift", held: NDArray[Any], left: NDArray[Any] | None) -> NDArray[Any]:
        """The mass that stays below most; the rest is recorded, for REMOVE with the mean of the terms `left`."""
        total, further = shift.above(held)
        self.absorbed += float(total.sum())
        if left is not None:
            self.excess += self.unit * (float(further.sum()) + float(total @ left))
            lost = float(held.sum(axis=1) @ shift.increment) * self.unit
            self.charge += lost * self.factor.beyond
        return shift.moved(held)


class _Shift:
    """The effect on mass [m, n] of adding F times an increment to S, one per row, spread between two places.

    Increments do not decrease with the row. Where all of F stays within one place of S, F is replaced by its mean.
    """

    def __init__(self, increment: NDArray[Any], of: Factor, num: int) -> None:
        self.increment, self.num, rows = increment, num, len(increment)
        # the first rows have one value of F, the mean or the only one there is
        self.single = int(np.searchsorted(increment, 1.0 / of.values[-1])) if len(of.values) > 1 else rows
        values, weights = np.append(of.values, 1.0), np.append(of.weights, 1.0)
        if self.single == rows:
            values, weights = values[-1:], weights[-1:]
        reach = increment * values[:, None]
        whole = np.floor(reach)
        self.weights = np.repeat(weights[:, None], rows, axis=1)
        self.weights[:-1, : self.single] = 0.0
        self.weights[-1, self.single :] = 0.0
        self.part = reach - whole
        self.end = np.maximum(num - whole, 0.0).astype(np.int64)  # the place from which on all mass reaches the end
        self.more = np.maximum(whole - num, 0.0) + self.part
        self.starts = (self.end + (2 * num + 1) * np.arange(rows)).T  # of the windows of `moved`
        self.shares = np.stack([self.weights * self.part, self.weights * (1.0 - self.part)]).T  # of the places in them
        self.staying = np.count_nonzero(self.end[:-1], axis=0)  # values of F with which some mass stays, the smallest

    def above(self, held: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """[m], the mass that reaches the end or goes beyond, and that mass times the distance beyond."""
        rows = np.arange(len(held))
        before = np.zeros((len(held), self.num + 1))  # the mass at the place before
        before[:, 1:] = held
        from_on = np.zeros_like(before)  # the mass at each place and beyond it
        from_on[:, -2::-1] = np.cumsum(held[:, ::-1], axis=1)
        after = np.zeros_like(before)  # the sum of that at all later places: mass times distance
        after[:, -2::-1] = np.cumsum(from_on[:, :0:-1], axis=1)
        total = from_on[rows, self.end] + self.part * before[rows, self.end]
        further = after[rows, self.end] + self.more * from_on[rows, self.end]
        return (self.weights * total).sum(axis=0), (self.weights * further).sum(axis=0)

    def moved(self, held: NDArray[Any]) -> NDArray[Any]:
        """The mass [m, n] after the shift, without the part that reaches the end."""
        padded = np.zeros((len(held), 2 * self.num + 1))
        padded[:, self.num + 1 :] = held
        windows = sliding_window_view(padded.ravel(), self.num + 1)
        found, single = np.zeros_like(held), self.single
        of_single = windows[self.starts[:single, -1]]
        found[:single] = of_single[:, :-1] * self.shares[:single, -1:, 0]
        found[:single] += of_single[:, 1:] * self.shares[:single, -1:, 1]
        for row in range(single, len(held)):  # one product for all values of F is faster than rows side by side
            count = self.staying[row]
            before, at = rows_times_rows(self.shares[row, :count].T, windows[self.starts[row, :count]].T)
            found[row] = before[:-1] + at[1:]
        return found


def law(chain: Chain, direction: Direction, most: float, fineness: float, num_sums: int) -> SumLaw:
    """A NamedTuple, the law of R for c up to `most`: `fineness` nodes per standard deviation, `num_sums` sums."""
    walk = _Walk(chain, direction, most, fineness, num_sums)
    if walk.path.first is None:
        walk.walk(1.0, 0.0, 0.0)
        return walk.law()
    first = walk.path.moves[0]._replace(deviation=walk.path.first)
    nodes = grid(chain, direction, 0.5 * fineness)
    start = step(first, np.zeros(1), nodes, direction)
    # off the grid of X_0 all of R is charged: its mean is at most e^(X_0)
    walk.charge += float(start.charge[0]) * (1.0 if direction is Direction.REMOVE else most)
    scale = 1.0 / (chain.length * walk.unit)
    weights = zip(start.weights[0].tolist(), nodes.tolist(), strict=True)
    for weight, x in with_slow_warning(weights, "values of the first variable", len(nodes)):
        walk.walk(weight, x, scale * math.exp(x - 0.5 * chain.variance))
    return walk.law()
