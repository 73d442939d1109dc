"""Rounds of a composition on one vertical line of moments: Gaussian steps and runs of random allocation.

What `jaxacct.bounds._one_line` puts together. Each kind says what it can do by a `Part`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence._inversion import ALIAS_FACTORS, Line, LineMoments
from jaxacct.divergence.allocation._clipped_moments import (
    ClippedMoments,
    Clipping,
    clipped_guess,
    clipping,
    lengthened,
    log_moment_guess,
    markov,
    plan,
)
from jaxacct.divergence.allocation._grid import Real, grid
from jaxacct.divergence.allocation._moment_contour import (
    AllocationMoments,
    added_guess,
    added_moments,
    integer_log_moments,
)
from jaxacct.divergence.allocation._ray_moments import MOST_NODES, POWERS, RayMoments
from jaxacct.divergence.gaussian._line import GaussianStep
from jaxacct.divergence.gaussian._sampled_step import SampledStep

# Of moments on rays, below each of `POWERS`: steers running time and tightness.
_MOST_ORDERS = tuple(0.9 * j for j in POWERS)
_MOST_ORDER = _MOST_ORDERS[-1]
_STEP_DIGITS = 37.0  # in log: what the rule behind a sampled step's moment may leave out, for all of them
_HEAVY = 7.0  # of 1000 random rounds below it one in a hundred had a line of clipped ratios
_NEARER, _LOOSE = 6.0, 1e4  # small heights get a ray of their own where the loss at one for all would be large


class Round(NamedTuple):
    """A run of 1-out-of-`num_steps`, run `count` times."""

    noise_multiplier: float
    num_steps: float
    times: float


def is_heavy(noise_multiplier: Any, num_steps: Any, times: Any) -> Any:
    """Where the tails of rounds are so heavy that a line of clipped ratios would be too long, bool: steering only."""
    return noise_multiplier**2 * np.log(num_steps * np.sqrt(times)) < _HEAVY


class Contour(NamedTuple):
    """The nodes of the line for one question."""

    order: float
    step: float
    num_nodes: int

    @property
    def height(self) -> float:
        return self.step * self.num_nodes

    def line(self) -> Line:
        """`Line` of one lane."""
        heights = self.step * np.arange(self.num_nodes)[:, None]
        order = np.array([self.order])
        edges = self.height * 1.25 ** np.arange(4)[:, None]
        alias_orders = 1.0 + np.asarray(ALIAS_FACTORS)[:, None] * (order - 1.0)
        arrays: Any = (order, np.array([2.0 * math.pi / self.step]), heights, heights >= 0, edges, alias_orders)
        return Line(*arrays)


def _padded(
    line: Line, found: tuple[Real, Real, Real], alias: Real, log_fall: Callable[[float], float], height: float
) -> LineMoments:
    """`LineMoments` of one lane.

    Args:
      found: log |M|, its phase and relative error at the nodes.
      alias: at least log M at the alias orders.
      log_fall: of a height, at least log |M/M(a)| there and beyond.
      height: beyond the last node.
    """
    logs, phase, relative = found
    most = np.full_like(logs, np.inf)
    for k in np.flatnonzero(~(relative < 0.3)):
        most[k] = logs[0] + relative[0] + min(log_fall(float(np.asarray(line.heights)[k, 0])), 0.0)
    decay = min(log_fall(height), 0.0)
    with np.errstate(all="ignore"):
        # where little is known, M and another of no larger modulus than it can have differ by at most twice that
        lost = ~(relative < 0.3)
        logs = np.where(lost, np.fmin(logs + np.log1p(relative), most), logs)
        error = np.where(lost, math.log(3.0), -np.log1p(-np.minimum(relative, 0.5)))
        error = np.where(np.isfinite(logs) & np.isfinite(phase), error, np.inf)
    logs, phase = (np.where(np.isfinite(error), x, 0.0) for x in (logs, phase))
    logs, phase, error = (x[:, None] for x in (logs, phase, error))
    of: Any = (logs, phase, error, np.asarray(alias)[:, None], np.full((len(line.edges), 1), decay))
    return LineMoments(*of)


class Part(Protocol):
    """Rounds of a composition whose moments are had together."""

    @property
    def counts(self) -> list[float]:
        """How often each round is run."""

    @property
    def falls(self) -> float:
        """log |M| of all rounds together falls by about this times b^2/2, or more."""

    @property
    def dropped(self) -> float:
        """At least what delta lacks by what was taken away from the rounds."""

    def guess(self, orders: Real) -> Real:
        """About log of the moments [A] of all rounds together; inf where they cannot be had."""

    def prepare(self, order: float, height: float) -> bool:
        """Makes the tables for moments near one order, imaginary parts to `height`; False where it would take long."""

    def real(self, orders: Real) -> Real:
        """log of the moments [A] of all rounds together at real orders near the one prepared for; inf if unknown."""

    def on(self, contour: Contour, line: Line) -> list[LineMoments]:
        """`LineMoments` of each round on the contour."""


class Clipped:
    """The rounds of one noise multiplier, remove direction, without their largest ratios.

    Args:
      rounds: of one noise multiplier.
      mass: the probability that may be taken away, over all of them.
    """

    def __init__(self, rounds: Sequence[Round], mass: float):
        self.rounds, self.counts = rounds, [of.times for of in rounds]
        uses = sum(self.counts)
        self._at = [clipping(of.noise_multiplier, of.num_steps, mass / uses) for of in rounds]
        self.dropped = sum(of.times * at.dropped for of, at in zip(rounds, self._at, strict=True))
        self._tables: list[ClippedMoments] = []

    @property
    def falls(self) -> float:
        return sum(of.times * at.falls for of, at in zip(self.rounds, self._at, strict=True))

    def guess(self, orders: Real) -> Real:
        each = (of.times * clipped_guess(at, orders) for of, at in zip(self.rounds, self._at, strict=True))
        return sum(each, np.zeros_like(orders))

    def prepare(self, order: float, height: float) -> bool:
        line = plan(self._at[0], order, height)
        for at in self._at:
            line = None if line is None else lengthened(at, order, line)
        if line is None or not math.isfinite(line.period):
            return False
        num, self._tables = 0, []
        for at in self._at:
            self._tables.append(ClippedMoments(at, order, height, line, num))
            num = self._tables[-1].num_nodes
        return True

    def real(self, orders: Real) -> Real:
        total = np.zeros_like(orders)
        for of, table, at in zip(self.rounds, self._tables, self._at, strict=True):
            total += of.times * _least_logs(table, at, orders)
        return total

    def on(self, contour: Contour, line: Line) -> list[LineMoments]:
        out = []
        for table, at in zip(self._tables, self._at, strict=True):
            found = table(contour.order, contour.step, contour.num_nodes)
            alias = _least_logs(table, at, np.asarray(line.alias_orders)[:, 0])
            least = float(found[0][0]) - 2.0 * float(found[2][0])
            fall = functools.partial(table.log_decay, contour.order, log_moment=least)
            out.append(_padded(line, found, np.maximum(alias, 0.0), fall, contour.height))
        return out


def _least_logs(table: ClippedMoments, at: Clipping, orders: Real) -> Real:
    """At least log M [A] at real orders: far from the order of the table by Markov's inequality."""
    return np.minimum(table.real(orders), markov(orders, at).min(1))


class Rays:
    """The rounds of one noise multiplier, remove direction, whole; orders to `_MOST_ORDER`.

    Args:
      rounds: of one noise multiplier.
    """

    dropped = 0.0

    def __init__(self, rounds: Sequence[Round]):
        self.rounds, self.counts = rounds, [of.times for of in rounds]
        self._tables: list[RayMoments] = []
        self._near_tables: list[RayMoments] = []
        self._most = 0.0

    @property
    def falls(self) -> float:
        return sum(of.times / (of.noise_multiplier**2 * of.num_steps) for of in self.rounds)

    def guess(self, orders: Real) -> Real:
        of = grid(self.rounds[0].noise_multiplier, float(POWERS[-1]))
        within = np.minimum(orders, _MOST_ORDER)
        each = (r.times * log_moment_guess(of, 1.0, r.num_steps, within) for r in self.rounds)
        return np.where(orders <= _MOST_ORDER, sum(each, np.zeros_like(orders)), np.inf)

    def prepare(self, order: float, height: float) -> bool:
        # moments of orders above it are wanted too, against the copies
        index = int(np.searchsorted(_MOST_ORDERS, 1.0 + 1.02 * (order - 1.0)))
        if index == len(POWERS):
            return False
        self._most = min(max(2.0 * order - 1.0, order), _MOST_ORDERS[index])
        # a ray for large heights is less precise at small ones, by a factor of about height^(j - order)
        self._near = height / _NEARER
        is_loose = self._near ** (POWERS[index] - order) * sum(self.counts) > _LOOSE
        self._tables = self._rays(POWERS[index], height, order)
        self._near_tables = self._rays(POWERS[index], self._near, order) if is_loose and self._tables else []
        return bool(self._tables)

    def _rays(self, power: int, height: float, order: float) -> list[RayMoments]:
        """The tables of all rounds, on one ray; none of them where that would be long."""
        ray, tables, ends = None, {}, (0.5 * (1.0 + order), self._most)
        for of in sorted(self.rounds, key=lambda r: -r.num_steps):
            tables[of.num_steps] = RayMoments(of.noise_multiplier, of.num_steps, power, height, ends, ray)
            ray = tables[of.num_steps].ray
            if ray.num_nodes > MOST_NODES:
                return []
        return [tables[of.num_steps] for of in self.rounds]

    def real(self, orders: Real) -> Real:
        each = (of.times * self._least(of, table, orders) for of, table in zip(self.rounds, self._tables, strict=True))
        return sum(each, np.zeros_like(orders))

    def _least(self, of: Round, table: RayMoments, orders: Real) -> Real:
        """At least log M [A] at real orders: where rays do not reach by the chord between whole ones; it is convex."""
        whole = integer_log_moments(of.noise_multiplier, of.num_steps)
        chord = np.interp(orders, np.arange(1.0, len(whole) + 1.0), whole, right=math.inf) * (1.0 + 2.0**-48)
        own = np.where(orders <= self._most, table.real(np.minimum(orders, self._most)), np.inf)
        return np.maximum(np.minimum(own, chord), 0.0)

    def on(self, contour: Contour, line: Line) -> list[LineMoments]:
        out = []
        for i, (of, table) in enumerate(zip(self.rounds, self._tables, strict=True)):
            found = table(contour.order, contour.step, contour.num_nodes)
            if self._near_tables:
                count = min(int(self._near / contour.step) + 1, contour.num_nodes)
                near = self._near_tables[i](contour.order, contour.step, count)
                better = near[2] < found[2][:count]
                for old, new in zip(found, near, strict=True):
                    old[:count] = np.where(better, new, old[:count])
            alias = self._least(of, table, np.asarray(line.alias_orders)[:, 0])
            out.append(_padded(line, found, alias, table.log_decay, contour.height))
        return out


class Gaussians:
    """Gaussian steps, either direction."""

    dropped = 0.0

    def __init__(self, rounds: Sequence[Round]):
        self.falls = sum(of.times / of.noise_multiplier**2 for of in rounds)
        self._rounds, self.counts = rounds, [of.times for of in rounds]

    def guess(self, orders: Real) -> Real:
        return 0.5 * orders * (orders - 1.0) * self.falls

    def prepare(self, order: float, height: float) -> bool:
        del order, height
        return True

    real = guess

    def on(self, contour: Contour, line: Line) -> list[LineMoments]:
        del contour
        return [GaussianStep(of.noise_multiplier).on_line(line, 0.0) for of in self._rounds]


class Sampled:
    """Poisson-sampled Gaussian steps, one direction.

    Args:
      rounds: noise multiplier, sampling probability and number of each.
    """

    dropped = 0.0

    def __init__(self, rounds: Sequence[tuple[float, float, float]], direction: Direction):
        self._steps, self.counts = [SampledStep(sigma, q, direction) for sigma, q, _ in rounds], [n for *_, n in rounds]
        self.falls = sum(count * of.variance for of, count in zip(self._steps, self.counts, strict=True))

    def guess(self, orders: Real) -> Real:
        return sum(
            (n * of.rough(orders) for of, n in zip(self._steps, self.counts, strict=True)), np.zeros_like(orders)
        )

    real = guess

    def prepare(self, order: float, height: float) -> bool:
        del order, height
        return True

    def on(self, contour: Contour, line: Line) -> list[LineMoments]:
        tolerance, edges = -_STEP_DIGITS - math.log1p(sum(self.counts)), np.asarray(line.edges)[:, 0]
        out = []
        for of in self._steps:
            decay: Any = of.decay(contour.order, edges, tolerance)[:, None]
            out.append(of.on_line(line, tolerance)._replace(log_decay=decay))
        return out


class _AddedRay:
    """One round in the add direction by a ray: where its losses spread over many scales."""

    def __init__(self, of: Round, order: float, height: float):
        p = order - 1.0
        self._table = RayMoments(of.noise_multiplier, of.num_steps, 0, height, (-1.6 * p, -0.4 * p))
        self.is_long = self._table.ray.num_nodes > MOST_NODES

    def real(self, orders: Real) -> Real:
        return self._table.real(1.0 - orders)

    def on(self, contour: Contour, line: Line) -> LineMoments:
        logs, phase, relative = self._table(1.0 - contour.order, contour.step, contour.num_nodes)
        alias = self.real(np.asarray(line.alias_orders)[:, 0])
        found = logs, -phase, relative
        return _padded(line, found, np.maximum(alias, 0.0), self._table.log_decay, contour.height)


class _AddedLine:
    """One round in the add direction by samples of its profiles."""

    def __init__(self, table: AllocationMoments):
        self._table = table

    def real(self, orders: Real) -> Real:
        return self._table.real(orders)

    def on(self, contour: Contour, line: Line) -> LineMoments:
        del contour
        return self._table.on(line)


class Added:
    """Allocation rounds, add direction."""

    dropped = 0.0

    def __init__(self, rounds: Sequence[Round]):
        self.rounds, self.counts = rounds, [of.times for of in rounds]
        self.falls = sum(of.times / (of.noise_multiplier**2 * of.num_steps) for of in rounds)
        self._tables: list[_AddedLine | _AddedRay] = []

    def guess(self, orders: Real) -> Real:
        each = (r.times * added_guess(r.noise_multiplier, r.num_steps, orders) for r in self.rounds)
        return sum(each, np.zeros_like(orders))

    def prepare(self, order: float, height: float) -> bool:
        self._tables = []
        for of in self.rounds:
            table = added_moments(of.noise_multiplier, of.num_steps, order, height)
            if table is not None:
                self._tables.append(_AddedLine(table))
                continue
            ray = _AddedRay(of, order, height)
            if ray.is_long:
                return False
            self._tables.append(ray)
        return True

    def real(self, orders: Real) -> Real:
        return sum((r.times * t.real(orders) for r, t in zip(self.rounds, self._tables, strict=True)), 0.0 * orders)

    def on(self, contour: Contour, line: Line) -> list[LineMoments]:
        return [table.on(contour, line) for table in self._tables]
