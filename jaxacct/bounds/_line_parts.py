"""The complex moments of the parts of a composition, along one line for each of many questions.

Each kind of part (runs of random allocation in either direction, Gaussian and Poisson-sampled steps) implements `Part`;
`jaxacct.bounds._many_lines` puts the parts together.

Shapes: [L] lanes, one question each; [F] families of rounds, [R] rounds (`_line_questions.Rounds`); [A]
orders; [B] nodes of a line.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxacct._types import Direction
from jaxacct.bounds._line_answers import padded, summed, together
from jaxacct.bounds._line_choice import Choice, interpolated
from jaxacct.bounds._line_questions import Rounds
from jaxacct.divergence._inversion import LineMoments
from jaxacct.divergence.allocation import _added_lanes as added
from jaxacct.divergence.allocation import _added_plans as plans
from jaxacct.divergence.allocation import _clipped_lanes as clipped
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._powers import integer_log_moments
from jaxacct.divergence.allocation._ray_moments import MOST_NODES, POWERS, RayMoments, log_moment_guess
from jaxacct.divergence.allocation._rule import CLIPPED, WHOLE, rule

# Largest orders of moments on rays, below each of `POWERS`: they steer running time and tightness.
_MOST_ORDERS = tuple(0.9 * j for j in POWERS)
MOST_ORDER = _MOST_ORDERS[-1]
_NEARER, _LOOSE = 6.0, 1e4  # small heights get a ray of their own where one ray for all would be too imprecise
_MOST_SHORT, _MOST_LONG = 600, 2**14  # most nodes of the line: for rounds with lines of their own, and for others


class Part(Protocol):
    """Some rounds of each question, whose moments are computed together."""

    most_nodes: int  # of the line
    families: Any  # indices of the questions' families that it holds: [F'], whole

    @property
    def falls(self) -> Real:
        """At height b, log |M| of all rounds of a lane together has fallen by about this [L] times b^2/2, or more."""

    @property
    def dropped(self) -> Real:
        """[L]: an upper bound on what is missing from delta because mass was removed from the rounds."""

    def seen(self, choice: Choice) -> Real:
        """Approximately the value of `falls` [L] at which the fall over whole lines equals that of the moments."""

    def guess(self, orders: Real) -> Real:
        """Approximate log moments [L, A] of all rounds of a lane at `orders` [L, A]; inf where they are unavailable."""

    def real(self, orders: Real) -> Real:
        """As `guess`, near the orders prepared for; from the moments themselves where guesses are bad."""

    def prepare(self, choice: Choice) -> tuple[Any, Any]:
        """Plans moments on the chosen lines; returns for which families they work, bool [F'], and node numbers [L]."""

    def on(self, choice: Choice, some: Any) -> LineMoments:
        """`LineMoments` [.., S] of all rounds of each of `some` lanes [S], on their lines `choice` [S]."""


class _Some(NamedTuple):
    """Rounds of some lanes: their indices, and the place of the lane of each among those lanes."""

    families: Any  # whole
    rounds: Any  # whole
    lane: Any  # [R]
    family: Any  # [R], the place of its family among `families`


def _some(rounds: Rounds, some: Any) -> _Some:
    place = np.full(rounds.num, -1)
    place[some] = np.arange(len(some))
    own = place[rounds.lane]
    mine = np.flatnonzero(own[rounds.family] >= 0)
    number = np.cumsum(own >= 0) - 1
    return _Some(np.flatnonzero(own >= 0), mine, own[rounds.family[mine]], number[rounds.family[mine]])


def _heights(choice: Choice, lane: Any) -> Real:
    """The heights [R, B + 1] of the nodes of rounds, and last that of the first node left out."""
    heights = choice.step[lane, None] * np.append(np.arange(int(choice.num_nodes.max())), 0.0)
    heights[:, -1] = (choice.step * choice.num_nodes)[lane]
    return heights


def _largest(rounds: Rounds, of: Any) -> Any:
    """The maximum [L] of whole numbers `of` [F] over the families of each lane."""
    out = np.zeros(rounds.num, int)
    np.maximum.at(out, rounds.lane, of)
    return out


class Clipped:
    """Rounds of allocation, remove direction, without their largest likelihood ratios.

    Args:
      rounds: the rounds of the questions held here.
      families: the indices of their families.
      mass: [F], the probability that may be removed.
      size: number of quadrature nodes.
    """

    most_nodes = _MOST_SHORT

    def __init__(self, rounds: Rounds, families: Any, mass: Real, size: int):
        self.families, self._rounds, self._mean = families, rounds, rounds.mean
        of = rule(rounds.noise_multiplier, size, CLIPPED)
        self._at = clipped.clipping(of, rounds.family, rounds.steps, rounds.times, mass)
        self._steer = clipped.saddles(self._at, self._mean)
        self.dropped = rounds.total(self._at.dropped)

    @property
    def falls(self) -> Real:
        rounds = self._rounds
        return rounds.total(rounds.uses / (self._mean * (rounds.noise_multiplier**2 + self._at.cut.rate[:, 0])))

    def seen(self, choice: Choice) -> Real:
        return self.falls

    def _guess(self, orders: Real) -> Real:
        return clipped.guesses(self._at, self._mean, self._steer, orders)

    def guess(self, orders: Real) -> Real:
        rounds = self._rounds
        return rounds.total(rounds.uses[:, None] * self._guess(orders[rounds.lane]))

    real = guess

    def prepare(self, choice: Choice) -> tuple[Any, Any]:
        at, rounds = self._at, self._rounds
        order = choice.order[rounds.lane]
        tilt, width, curve = clipped.saddle_of(at, self._mean, self._steer, order)
        log_moment = self._guess(order[:, None])[:, 0]
        self._known = clipped.bounds(at, rounds.family, rounds.steps, self._mean, tilt, width)
        heights = (choice.step * choice.num_nodes)[rounds.lane]
        of = (log_moment[rounds.family], curve[rounds.family])
        self._line = clipped.lines(at, rounds.family, self._known, order, heights, *of)
        num = self._line.num_nodes
        return (num > 0) & np.isfinite(log_moment), _largest(rounds, num)

    def on(self, choice: Choice, some: Any) -> LineMoments:
        mine = _some(self._rounds, some)
        at, known = self._at.at(mine.families), self._known.at(mine.rounds)
        line, order = clipped.Lines(*(x[mine.families] for x in self._line)), choice.order[mine.lane]
        count, heights = int(choice.num_nodes.max()), _heights(choice, mine.lane)
        table = clipped.LineSums(at, mine.family, known, line, int(line.num_nodes.max()))
        found = table(order, choice.step[mine.lane], count, choice.aliases[mine.lane])
        least = found.logs[:, 0] - 2.0 * found.relative[:, 0]
        fall = clipped.log_fall(at, mine.family, known, order, heights, least)
        return together(padded(found, fall[:, :-1], fall[:, -1]), mine.lane, self._rounds.times[mine.rounds], len(some))


def _joined(columns: list[tuple[Real, Real, Real, Real]], fall: Real) -> tuple[Real, ...]:
    """`padded` for moments on rays, round by round; lines of different lengths are padded to the longest."""
    count = fall.shape[1] - 1
    logs, phase, relative = (np.stack([np.pad(x[k], (0, count - len(x[k]))) for x in columns]) for k in range(3))
    return padded((logs, phase, relative, np.stack([x[3] for x in columns])), fall[:, :-1], fall[:, -1])


class _OnRay:
    """The moments of one whole round: remove direction, orders to `MOST_ORDER`; or add direction, any order.

    A ray for large heights is less precise at small ones, by a factor of about height^(j - order): small heights may
    have a second ray.
    """

    def __init__(self, far: RayMoments, near: RayMoments | None, most: float, direction: Direction):
        self._far, self._near, self._most, self._sign = far, near, most, direction

    def __call__(self, order: float, step: float, count: int, aliases: Real) -> tuple[Real, Real, Real, Real]:
        """log |M|, its phase, its relative error [B], and an upper bound on log M [A] at the orders `aliases`."""
        if self._sign is Direction.ADD:
            logs, phase, relative = self._far(1.0 - order, step, count)
            return logs, -phase, relative, np.maximum(self._far.real(1.0 - aliases), 0.0)
        found = self._far(order, step, count)
        if self._near is not None:
            short = min(int(self._near.height / step) + 1, count)
            near = self._near(order, step, short)
            better = near[2] < found[2][:short]
            for old, new in zip(found, near, strict=True):
                old[:short] = np.where(better, new, old[:short])
        return (*found, self.least(aliases))

    def least(self, orders: Real) -> Real:
        """An upper bound on log M [A] at real orders: beyond the rays by chords between whole orders (it is convex)."""
        of = self._far
        whole = integer_log_moments(of.noise_multiplier, of.num_steps)
        chord = np.interp(orders, np.arange(1.0, len(whole) + 1.0), whole, right=math.inf) * (1.0 + 2.0**-48)
        own = np.where(orders <= self._most, of.real(np.minimum(orders, self._most)), np.inf)
        return np.maximum(np.minimum(own, chord), 0.0)


def _removed_on_rays(noise: float, steps: Real, times: Real, order: float, height: float) -> list[_OnRay]:
    """The moments of the rounds of a family, remove direction, on one ray; none where the ray would be too long."""
    # moments of orders above it are needed too, to bound aliases
    index = int(np.searchsorted(_MOST_ORDERS, 1.0 + 1.02 * (order - 1.0)))
    if index == len(POWERS):
        return []
    most = min(max(2.0 * order - 1.0, order), _MOST_ORDERS[index])
    power, near = POWERS[index], height / _NEARER

    def rays(height: float) -> dict[float, RayMoments]:
        ray, found = None, {}
        for t in sorted(steps, reverse=True):
            found[t] = RayMoments(noise, t, power, height, (0.5 * (1.0 + order), most), ray)
            ray = found[t].ray
            if ray.num_nodes > MOST_NODES:
                return {}
        return found

    far = rays(height)
    close = rays(near) if far and near ** (power - order) * float(times.sum()) > _LOOSE else {}
    return [_OnRay(far[t], close.get(t), most, Direction.REMOVE) for t in steps] if far else []


def _added_on_rays(noise: float, steps: Real, order: float, height: float) -> list[_OnRay]:
    """The same as `_removed_on_rays`, in the add direction."""
    p, out = order - 1.0, []
    for t in steps:
        table = RayMoments(noise, t, 0, height, (-1.6 * p, -0.4 * p))
        if table.ray.num_nodes > MOST_NODES:
            return []
        out.append(_OnRay(table, None, math.inf, Direction.ADD))
    return out


def _on_rays(tables: dict[int, _OnRay], rounds: Rounds, mine: _Some, choice: Choice) -> LineMoments:
    """`LineMoments` of rounds, each computed by sums of its own."""
    heights = _heights(choice, mine.lane)
    aliases = choice.aliases
    columns = []
    for r, lane in zip(mine.rounds, mine.lane, strict=True):
        order, step, num = float(choice.order[lane]), float(choice.step[lane]), int(choice.num_nodes[lane])
        columns.append(tables[int(r)](order, step, num, aliases[lane]))
    square = (rounds.noise_multiplier**2)[rounds.family[mine.rounds]] * rounds.steps[mine.rounds]
    fall = -0.5 * heights**2 / square[:, None] * (1.0 - 2.0**-48)
    return together(_joined(columns, fall), mine.lane, rounds.times[mine.rounds], len(choice.order))


class Rays:
    """Whole rounds of allocation, remove direction.

    Args:
      rounds: the rounds of the questions held here.
      families: the indices of their families.
    """

    most_nodes = _MOST_LONG

    def __init__(self, rounds: Rounds, families: Any):
        self.families, self._rounds = families, rounds
        self._tables: dict[int, _OnRay] = {}
        self.dropped = np.zeros(rounds.num)

    @property
    def falls(self) -> Real:
        rounds = self._rounds
        return rounds.total(rounds.uses / (rounds.mean * rounds.noise_multiplier**2))

    def seen(self, choice: Choice) -> Real:
        return self.falls

    def guess(self, orders: Real) -> Real:
        rounds, within = self._rounds, np.minimum(orders, MOST_ORDER)
        every = zip(rounds.noise_multiplier, rounds.mean, rounds.uses, rounds.lane, strict=True)
        found = [uses * log_moment_guess(noise, t, within[lane]) for noise, t, uses, lane in every]
        return np.where(orders <= MOST_ORDER, rounds.total(np.array(found)), np.inf)

    def real(self, orders: Real) -> Real:
        rounds, total = self._rounds, np.zeros_like(orders)
        for r, table in self._tables.items():
            lane = rounds.lane[rounds.family[r]]
            total[lane] += rounds.times[r] * table.least(orders[lane])
        return total

    def prepare(self, choice: Choice) -> tuple[Any, Any]:
        rounds, served = self._rounds, np.ones(len(self._rounds.lane), bool)
        for f, lane in enumerate(rounds.lane):
            mine = np.flatnonzero(rounds.family == f)
            order, height = float(choice.order[lane]), float(choice.step[lane] * choice.num_nodes[lane])
            noise = float(rounds.noise_multiplier[f])
            found = _removed_on_rays(noise, rounds.steps[mine], rounds.times[mine], order, height)
            served[f] = bool(found)
            self._tables.update(zip(mine.tolist(), found, strict=False))
        return served, np.ones(rounds.num, int)

    def on(self, choice: Choice, some: Any) -> LineMoments:
        return _on_rays(self._tables, self._rounds, _some(self._rounds, some), choice)


class Added:
    """Rounds of allocation, add direction: from samples of their profiles, or on rays where samples would be too many.

    Args:
      rounds: the rounds of the questions.
      scale: [L], approximate standard deviation of the composed loss.
      size: number of quadrature nodes.
    """

    most_nodes = _MOST_LONG

    def __init__(self, rounds: Rounds, scale: Real, size: int):
        self.families, self._rounds, self._mean = np.arange(len(rounds.lane)), rounds, rounds.mean
        self._of = rule(rounds.noise_multiplier, size, WHOLE)
        self._steer = plans.saddles(self._of, self._mean, scale[rounds.lane])
        self.dropped = np.zeros(rounds.num)

    @property
    def falls(self) -> Real:
        rounds = self._rounds
        return rounds.total(rounds.uses / (self._mean * rounds.noise_multiplier**2))

    def seen(self, choice: Choice) -> Real:
        return self.falls

    def guess(self, orders: Real) -> Real:
        rounds = self._rounds
        found = interpolated(orders[rounds.lane], self._steer.orders, self._steer.logs)
        return rounds.total(rounds.uses[:, None] * found)

    real = guess

    def prepare(self, choice: Choice) -> tuple[Any, Any]:
        rounds = self._rounds
        order, height = choice.order[rounds.lane], (choice.step * choice.num_nodes)[rounds.lane]
        self._known = plans.guide(self._of, rounds.family, rounds.steps, self._mean, order)
        self._plan = plans.plan(self._of, rounds.family, self._known, order, height)
        self._by_samples = (self._plan.num_nodes > 0) & (choice.num_nodes[rounds.lane] <= _MOST_SHORT)
        served, self._tables = self._by_samples.copy(), dict[int, _OnRay]()
        for f in np.flatnonzero(~served & np.isfinite(order) & (choice.num_nodes[rounds.lane] <= _MOST_LONG)):
            mine = np.flatnonzero(rounds.family == f)
            found = _added_on_rays(
                float(rounds.noise_multiplier[f]), rounds.steps[mine], float(order[f]), float(height[f])
            )
            served[f] = bool(found)
            self._tables.update(zip(mine.tolist(), found, strict=False))
        return served, _largest(rounds, np.where(self._by_samples, self._plan.own + self._plan.other, _MOST_LONG))

    def on(self, choice: Choice, some: Any) -> LineMoments:
        rounds, mine = self._rounds, _some(self._rounds, some)
        by_samples = self._by_samples[mine.families]
        ray = ~by_samples[mine.family]
        found = []
        if ray.any():
            found.append(
                _on_rays(self._tables, rounds, mine._replace(rounds=mine.rounds[ray], lane=mine.lane[ray]), choice)
            )
        far = self._plan.centre > 1.0  # a table holds one kind of lines (`plain_line`)
        for kind in (by_samples & far[mine.families], by_samples & ~far[mine.families]):
            if not kind.any():
                continue
            number, which, of_kind = np.cumsum(kind) - 1, mine.families[kind], kind[mine.family]
            own, lane, r = number[mine.family[of_kind]], mine.lane[of_kind], mine.rounds[of_kind]
            table = added.ProfileSamples(
                self._of.at(which), own, self._known.at(r), plans.SamplePlan(*(x[which] for x in self._plan))
            )
            order, count = choice.order[lane], int(choice.num_nodes.max())
            moments = table(order, choice.step[lane], count, choice.aliases[lane])
            decay = table.decay((choice.step * choice.num_nodes)[lane, None])
            found.append(together((*moments, decay), lane, rounds.times[r], len(some)))
        return summed(found)
