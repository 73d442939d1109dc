"""The mean of correlated log-normal variables: E (R - c)_+ and E (c - R)_+ from above, by a forward programme.

R = (1/L) sum_b e^(X_b - u/2). The state is (x_b, S), S the sum so far. Both what x becomes (`_chain`) and S are spread
outward between the nodes of a grid, in which the value of what is to come is convex: so the result is an upper bound on
any grid. S stands on [0, most), in units of most / n. Above most, where the value of REMOVE is linear, it is taken out
exactly, with the mean of what is to come; ADD has no value there.

Floating point: all that is added is positive, and weights are raised by 2^-35 (`_chain`), which sums of fewer than 2^17
terms in a step do not use up. The increments err by less than `_SUMS`, relative, which moves c by so much.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.divergence.correlated._chain import Chain, Path, Step, grid, path_of, step

_SUMS = 2.0**-36  # of S, relative: exponentials of up to 2^9, variances of a chain as its moves are rounded
_RESULT = 1.0 + 2.0**-30  # what sums of the result may be short of
_LEAST = 1e-280  # what is below the normal doubles, in all
_STEP = 1.5  # nodes for a deviation of one move, at least: what Gauss's rule needs in a cell
_NOTHING = 1e-16  # of the value: first variables of a circle of so little are charged, not walked


class Law(NamedTuple):
    """What is known of R, to be asked for any c in [0, `most`].

    Attributes:
      most: the largest c.
      mass: [n], of S at 0, most / n, ..
      absorbed: the mass above `most`; `excess`, E (R - most) of it.
      charge: for what left the grid.
      direction: REMOVE or ADD.
    """

    most: float
    mass: NDArray[Any]
    absorbed: float
    excess: float
    charge: float
    direction: Direction

    def value(self, c: float) -> float:
        """E (R - c)_+ or E (c - R)_+, from above."""
        sums = self.most / len(self.mass) * np.arange(len(self.mass))
        if self.direction is Direction.REMOVE:
            c = c * (1.0 - _SUMS)
            inside = self.mass @ np.maximum(sums - c, 0.0)
            inside += self.excess + self.absorbed * max(self.most - c, 0.0)
        else:
            inside = self.mass @ np.maximum(c * (1.0 + _SUMS) - sums, 0.0)
        return float((inside + self.charge) * _RESULT + _LEAST)


class _Walk:
    """One grid and its steps; those of a line are one."""

    def __init__(self, chain: Chain, direction: Direction, most: float, fineness: float, num_sums: int) -> None:
        self.chain, self.direction, self.most = chain, direction, most
        self.unit = most / num_sums
        self.path: Path = path_of(chain)
        least = min(move.deviation for move in self.path.moves)
        self.nodes = grid(chain, direction, max(fineness, _STEP * math.sqrt(chain.variance) / least))
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

    def law(self) -> Law:
        return Law(self.most, self.mass, self.absorbed, self.excess, self.charge, self.direction)

    def increments(self, first: float) -> list[NDArray[Any]]:
        """Of S at each node, in units, for each move, where X_0 is `first`."""
        scale = 1.0 / (self.chain.length * self.unit)
        made: dict[float, NDArray[Any]] = {}
        for share in self.path.shares:
            if share not in made:
                made[share] = scale * np.exp(self.nodes + (share * first - 0.5 * self.chain.variance))
        return [made[share] for share in self.path.shares]

    def off_grid(self, charge: NDArray[Any], first: float) -> NDArray[Any]:
        """What a step's charge stands for: of REMOVE all that is to come, at most e^Y e^(X_0)_+; of ADD at most c."""
        return charge * (math.exp(max(first, 0.0)) if self.direction is Direction.REMOVE else self.most)

    def to_come(self, increments: list[NDArray[Any]], first: float) -> list[NDArray[Any]]:
        """E of what is to come after each move, in units, at each node; before the first move, [1]."""
        left = [np.zeros(len(self.nodes))]
        for one, increment in zip(reversed(self.steps), reversed(increments), strict=True):
            left.append(one.weights @ (increment + left[-1]) + self.off_grid(one.charge, first) / self.unit)
        return left[::-1]

    def walk(self, weight: float, first: float, begun: float) -> None:
        """Adds all paths from S = `begun`, in units, with X_0 = `first`."""
        num, removes = len(self.sums), self.direction is Direction.REMOVE
        increments = self.increments(first)
        left = self.to_come(increments, first) if removes else []
        if begun >= num:
            if removes:
                self.absorbed += weight
                self.excess += weight * self.unit * (begun - num + float(left[0][0]))
            return
        if removes and weight * self.unit * (begun + float(left[0][0])) < _NOTHING and self.path.first is not None:
            self.charge += weight * self.unit * (begun + float(left[0][0]))
            return
        if not removes and weight * self.most < _NOTHING:
            self.charge += weight * self.most
            return
        at = math.floor(begun)
        held = np.zeros((1, num))
        held[0, at] = weight * (1.0 - (begun - at))
        if at + 1 < num:
            held[0, at + 1] = weight * (begun - at)
        elif removes:
            self.absorbed += weight * (begun - at)
            self.excess += weight * (begun - at) * self.unit * float(left[0][0])
        shift: _Shift | None = None
        for number, (one, increment) in enumerate(zip(self.steps, increments, strict=True)):
            self.charge += float(held.sum(axis=1) @ self.off_grid(one.charge, first))
            held = one.weights.T @ held
            if shift is None or shift.increment is not increment:
                shift = _Shift(increment, num)
            if removes:
                total, further = shift.above(held)
                self.absorbed += float(total.sum())
                self.excess += self.unit * (further + float(total @ left[number + 1]))
            held = shift.moved(held)
        self.mass += held.sum(axis=0)


class _Shift:
    """What adding an increment to S does to mass [m, n], each row by its own, spread between two places."""

    def __init__(self, increment: NDArray[Any], num: int) -> None:
        rows, whole = len(increment), np.floor(increment)
        self.increment = increment
        part = (increment - whole)[:, None]
        reached = np.arange(num) + whole[:, None]  # the lower one of the two places
        over = reached >= num
        self.beyond = np.where(over, 1.0, np.where(reached == num - 1, part, 0.0))
        self.further = np.where(over, reached - num + part, 0.0)
        steps = np.minimum(whole, num).astype(np.int64)[:, None]
        # of n + 1 columns, the first of which is 0: what reaches the place before each as the lower one
        self.places = np.maximum(np.arange(num + 1) - steps, 0) + (num + 1) * np.arange(rows)[:, None]
        self.part, self.rest = part, 1.0 - part
        self.padded = np.zeros((rows, num + 1))

    def above(self, held: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """[m], the mass that gets to the end or beyond, and a float: how far beyond, times the mass, in all."""
        return np.einsum("ij,ij->i", self.beyond, held), float(np.vdot(self.further, held))

    def moved(self, held: NDArray[Any]) -> NDArray[Any]:
        """[m, n], without what gets to the end."""
        self.padded[:, 1:] = held
        moved = np.take(self.padded, self.places)
        found = self.rest * moved[:, 1:]
        found += self.part * moved[:, :-1]
        return found


def law(chain: Chain, direction: Direction, most: float, fineness: float, num_sums: int) -> Law:
    """A NamedTuple, the law of R for c up to `most`, on a grid of so many nodes for a deviation, and of S."""
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
    for weight, x in zip(start.weights[0].tolist(), nodes.tolist(), strict=True):
        walk.walk(weight, x, scale * math.exp(x - 0.5 * chain.variance))
    return walk.law()
