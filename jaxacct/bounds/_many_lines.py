"""Many questions about compositions of allocation rounds at once: a line of complex moments for each, in NumPy.

The formulas are those of `jaxacct.bounds._one_line`, which answers what is left open here. A lane is a question: one
noise multiplier, rounds of one length or of two that follow on each other.

Shapes: [L] lanes; [R] rounds; [B] heights of the nodes of a line.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds._line_choice import ALIAS_ORDERS, Choice, best, choose
from jaxacct.bounds._line_parts import is_heavy
from jaxacct.bounds._one_moment import added_upper, is_likely_enough
from jaxacct.composition import allocation_groups
from jaxacct.divergence._inversion import Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.divergence.allocation import _added_lanes as added
from jaxacct.divergence.allocation import _added_plans as plans
from jaxacct.divergence.allocation import _clipped_lanes as clipped
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._host_rule import CLIPPED, WHOLE, Shape, num_nodes, rule
from jaxacct.special import LEAST_NORMAL, down, up

# These steer running time and tightness: what they leave out is bounded and added.
# What is tried one after the other: the share of delta that clipping the likelihood ratios is to take away, and how
# far the order is pulled towards 1, where the moments depend less on the largest ratios.
_TRIED = ((5e-9, 1.0), (5e-9, 0.65), (1e-6, 0.9))
_NARROW = 1e-6  # relative width of ends that are not improved on
_MOST_NODES = 600  # nodes of the line
_NOISE, _MOST_STEPS = (0.3, 20.0), 2.0**40  # rounds outside are left to others: their grids would be long
_WIDE = np.geomspace(0.03, 40.0, 36)  # orders a - 1 looked at first, over 1 by the deviation of the composed loss
_NEAR = np.geomspace(0.4, 2.6, 34)  # orders a - 1 among which the line is chosen, over that of a first guess
_PLANNED, _SUMMED = 2**15, 2**11  # nodes of rules in one block of lanes: planned, and summed over
_PER_OCTAVE = 1.5  # kinds of lengths of lines: those of one kind share a block


class Rounds(NamedTuple):
    """Questions [L]: `first_times` runs of 1-out-of-`steps`, and `second_times` of one step more."""

    noise_multiplier: Real
    steps: Real
    first_times: Real
    second_times: Real
    target: Real  # delta, or epsilon

    def at(self, lanes: Any) -> "Rounds":
        return Rounds(*(x[lanes] for x in self))

    def flat(self) -> tuple[Any, Real, Real]:
        """Of each round: its lane, its steps, how often it is run."""
        second = np.flatnonzero(self.second_times > 0)
        lane = np.concatenate([np.arange(len(self.steps)), second])
        steps = np.concatenate([self.steps, self.steps[second] + 1.0])
        return lane, steps, np.concatenate([self.first_times, self.second_times[second]])


def many_brackets(
    mechanism: Any, query: Query, target: Any, directions: Sequence[Direction], *, is_single: bool = False
) -> Mapping[Direction, Ends[Real]]:
    """Certified ends [P] in each direction, of epochs of k-out-of-t allocation with Gaussian noise, fields [P].

    The trivial ends where noise or lengths are out of range, or no line would do; with `is_single` where a record joins
    several steps or epochs, else where it joins one step of one epoch.
    """
    sigma, *counts = (
        np.asarray(x, np.float64)
        for x in (
            mechanism.mechanism.noise_multiplier,
            mechanism.num_steps,
            mechanism.num_selected,
            mechanism.num_epochs,
        )
    )
    (steps, first), (_, second) = allocation_groups(*counts, uneven=True)
    lanes = np.flatnonzero(
        ((first + second == 1.0) == is_single)
        & (steps >= 2)
        & (steps <= _MOST_STEPS)
        & (sigma >= _NOISE[0])
        & (sigma <= _NOISE[1])
    )
    rounds = Rounds(sigma, steps, first, second, np.asarray(target, np.float64)).at(lanes)
    found, below = {}, np.zeros(len(lanes))
    for d in directions:
        lower, upper = np.zeros(len(sigma)), np.full(len(sigma), query.worst)
        if lanes.size:
            ends = remove(rounds, query) if d is Direction.REMOVE else add(rounds, query, below)
            below = ends.lower
            lower[lanes], upper[lanes] = np.minimum(*ends), ends.upper
        found[d] = Ends(lower, upper if query is Query.EPSILON else np.maximum(upper, LEAST_NORMAL))
    return found


def solved(choice: Choice, moments: LineMoments, query: Query, target: Real, dropped: Real | float) -> Ends[Real]:
    """Ends [L] of epsilon or delta from the moments of all rounds together on the lines.

    `dropped` [L] is at least what delta lacks: the true one lies between what the moments give and that more.
    """
    numbers = np.arange(len(np.asarray(moments.phase)))[:, None]
    heights, used = choice.step * numbers, numbers < choice.num_nodes
    edges, period = (choice.step * choice.num_nodes)[None], 2.0 * math.pi / choice.step
    arrays: Any = (choice.order, period, heights, used, edges, _alias_orders(choice.order).T)
    line = Line(*arrays)
    if query is Query.DELTA:
        found: Any = delta_ends(line, moments, target)  # type: ignore[arg-type]
        upper = up(up(np.exp(found.upper), 8) + dropped, 4)
        return Ends(down(np.exp(found.lower), 8), np.minimum(upper, 1.0))
    size, excess = np.asarray(moments.log_modulus[0]), choice.order - 1.0

    def at(log_target: Real, start: Real) -> Any:
        return epsilon_ends(line, moments, log_target, start)  # type: ignore[arg-type]

    found = at(np.log(target), np.maximum((size - np.log(target)) / excess, 1e-300))
    if not np.any(dropped):
        return Ends(found.lower, found.upper)
    less = np.log(np.maximum(target * (1.0 - 2.0**-50) - dropped, 1e-300))
    start = np.where(np.isfinite(found.upper), found.upper, (size - less) / excess)
    return Ends(found.lower, at(less, np.maximum(start, 1e-300)).upper)


def _alias_orders(order: Real) -> Real:
    return 1.0 + ALIAS_ORDERS * (order[:, None] - 1.0)


def padded(found: Any, fall: Real, decay: Real, lane: Any, times: Real, num: int) -> LineMoments:
    """`LineMoments` [B, L] of all rounds of a lane together.

    Args:
      found: log |M|, its phase and relative error [R, B], and at least log M at the alias orders [R, A].
      fall: [R, B], at least log |M/M(a)| at each height and beyond.
      decay: [R], the same beyond the last node.
    """
    logs, phase, relative, alias = found
    most = logs[:, :1] + relative[:, :1] + np.minimum(fall, 0.0)
    lost = ~(relative < 0.3)
    # where little is known, M and another of no larger modulus than it can have differ by at most twice that
    logs = np.where(lost, np.fmin(logs + np.log1p(relative), most), logs)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    error = np.where(lost, math.log(3.0), -np.log1p(-np.minimum(relative, 0.5)))
    error = np.where(np.isfinite(logs) & np.isfinite(phase), error, np.inf)
    logs, phase = (np.where(np.isfinite(error), x, 0.0) for x in (logs, phase))
    logs = np.where(np.isfinite(error), logs, logs[:, :1])  # as large as it may be, beside the infinite error
    return _summed((logs, phase, error, alias, np.minimum(decay, 0.0)[:, None]), lane, times, num)


def _summed(rows: Any, lane: Any, times: Real, num: int) -> LineMoments:
    """`LineMoments` [.., L] of all rounds of a lane together, from those of the rounds [R, ..]."""

    def total(of: Real) -> Any:
        out = np.zeros((num, of.shape[1]))
        np.add.at(out, lane, times[:, None] * of)
        return out.T

    return LineMoments(*(total(x) for x in rows))


def _blocks(sizes: Any, budget: int) -> Iterator[Any]:
    """Blocks of lanes in the order of their sizes, so many that `budget` holds them at the largest size of a block."""
    order, start = np.argsort(sizes, kind="stable"), 0
    while start < len(order):
        stop = start + 1
        while (
            stop < len(order)
            and (stop + 1 - start) * (size := sizes[order[stop]]) <= budget
            and (size <= 1.25 * sizes[order[start]])
        ):
            stop += 1
        yield order[start:stop]
        start = stop


def _nodes(sigma: Real, shape: Shape) -> Any:
    """Nodes of the rules [L], few different numbers."""
    wanted = num_nodes(sigma, shape)
    coarse = 1 << np.maximum(np.floor(np.log2(wanted)).astype(int) - 3, 4)
    return coarse * -(-wanted // coarse)


def remove(rounds: Rounds, query: Query) -> Ends[Real]:
    """Certified ends [L] of the remove direction by clipped ratios; (0, worst) where no line would do."""
    lower, upper = np.zeros(len(rounds.steps)), np.full(len(rounds.steps), query.worst)
    uses = rounds.first_times + rounds.second_times
    todo = np.flatnonzero(~is_heavy(rounds.noise_multiplier, rounds.steps, uses))
    for tried in _TRIED if todo.size else ():
        found = _in_blocks(functools.partial(_remove, tried=tried), rounds.at(todo), query, CLIPPED)
        lower[todo], upper[todo] = np.maximum(lower[todo], found.lower), np.minimum(upper[todo], found.upper)
        with np.errstate(invalid="ignore"):
            todo = todo[~(upper[todo] - lower[todo] <= _NARROW * lower[todo])]
        if not todo.size:
            break
    return Ends(lower, upper)


def _in_blocks(one: Any, rounds: Rounds, query: Query, shape: Shape) -> Ends[Real]:
    """The ends [L] of ``one(rounds, query, nodes of the rule)`` for blocks of lanes, trivial ones for nan."""
    num = len(rounds.steps)
    lower, upper = np.zeros(num), np.full(num, query.worst)
    sizes = _nodes(rounds.noise_multiplier, shape)
    with np.errstate(all="ignore"):
        for lanes in _blocks(sizes, _PLANNED):
            lower[lanes], upper[lanes] = one(rounds.at(lanes), query, int(sizes[lanes].max()))
    good = np.isfinite(lower) & ~np.isnan(upper)
    return Ends(np.where(good, lower, 0.0), np.where(good, upper, query.worst))


def _remove(rounds: Rounds, query: Query, size: int, tried: tuple[float, float]) -> tuple[Real, Real]:
    share, pull = tried
    num, target = len(rounds.steps), rounds.target
    lane, steps, times = rounds.flat()
    uses = np.bincount(lane, times, num)
    mean = np.bincount(lane, times * steps, num) / uses
    of = rule(rounds.noise_multiplier, size, CLIPPED)
    delta = target
    if query is Query.DELTA:
        first = clipped.clipping(of, lane, steps, times, np.full(num, 1e-30))
        steer = clipped.saddles(first, mean)
        delta = np.exp(np.clip(best(query, target, steer.orders, uses[:, None] * steer.logs)[1] - 3.0, -600.0, 0.0))
    at = clipped.clipping(of, lane, steps, times, share * delta)
    steer = clipped.saddles(at, mean)
    every = np.arange(num)
    falls = uses / (mean * (rounds.noise_multiplier**2 + at.cut.rate[:, 0]))
    orders = 1.0 + _WIDE / np.sqrt(falls)[:, None]
    logs = clipped.guesses(at, mean, steer, orders)
    around = orders[every, best(query, target, orders, uses[:, None] * logs)[0]]
    orders = 1.0 + (around[:, None] - 1.0) * _NEAR
    logs = clipped.guesses(at, mean, steer, orders)
    index, choice = choose(query, target, orders, uses[:, None] * logs, falls, pull)
    tilt, width, curve = clipped.saddle_of(at, mean, steer, choice.order)
    known = clipped.bounds(at, lane, steps, mean, tilt, width)
    log_moment = logs[every, index]
    heights = choice.step * choice.num_nodes
    line = clipped.lines(at, lane, known, choice.order, heights, log_moment[lane], curve[lane])
    usable = (line.num_nodes > 0) & (choice.num_nodes <= _MOST_NODES) & np.isfinite(log_moment) & (at.dropped < delta)
    lower, upper = np.zeros(num), np.full(num, query.worst)
    for some in _like(line.num_nodes, choice.num_nodes, usable, max(1, _SUMMED // size)):
        found = _remove_on(rounds.at(some), query, at, known, line, choice, some, lane)
        lower[some], upper[some] = found
    return lower, upper


def _like(nodes: Any, others: Any, usable: Any, most: int) -> Iterator[Any]:
    """Blocks of at most so many usable lanes with about the same numbers of nodes, of two kinds."""
    lanes = np.flatnonzero(usable)
    kind = np.ceil(_PER_OCTAVE * np.log2(nodes[lanes]))
    lanes, kind = (x[order] for order in [np.lexsort((others[lanes], kind))] for x in (lanes, kind))
    start = 0
    for end in np.append(np.flatnonzero(np.diff(kind)) + 1, len(lanes)) if len(lanes) else ():
        for first in range(start, end, most):
            yield lanes[first : min(first + most, end)]
        start = end


def _of_some(lane: Any, some: Any, num: int) -> tuple[Any, Any]:
    """Of the lanes `some`: the numbers of their rounds, and the place of the lane of each among them."""
    place = np.full(num, -1)
    place[some] = np.arange(len(some))
    mine = np.flatnonzero(place[lane] >= 0)
    return mine, place[lane][mine]


def _remove_on(
    rounds: Rounds, query: Query, at: Any, known: Any, line: Any, choice: Choice, some: Any, lane: Any
) -> Ends[Real]:
    mine, own = _of_some(lane, some, len(at.dropped))
    times = np.where(mine < len(at.dropped), rounds.first_times[own], rounds.second_times[own])
    at = clipped.Clipping(at.of.at(some), at.cut.at(some), at.dropped[some])
    known, line, choice = known.at(mine), clipped.Lines(*(x[some] for x in line)), Choice(*(x[some] for x in choice))
    count, order = int(choice.num_nodes.max()), choice.order[own]
    table = clipped.Table(at, own, known, line, int(line.num_nodes.max()))
    moments = table(order, choice.step[own], count, _alias_orders(order))
    heights = choice.step[own, None] * np.append(np.arange(count), 0.0)
    heights[:, -1] = (choice.step * choice.num_nodes)[own]
    least = moments.logs[:, 0] - 2.0 * moments.relative[:, 0]
    fall = clipped.log_fall(at, own, known, order, heights, least)
    every = padded(moments, fall[:, :-1], fall[:, -1], own, times, len(some))
    return solved(choice, every, query, rounds.target, at.dropped)


def add(rounds: Rounds, query: Query, enough: Real | float = 0.0) -> Ends[Real]:
    """Certified ends [L] of the add direction, no closer than an upper end of `enough` [L].

    By samples of profiles; by one real moment where that will do, and where no line would.
    """
    lower, upper = np.zeros(len(rounds.steps)), np.full(len(rounds.steps), query.worst)
    lane, steps, times = rounds.flat()
    enough = enough + lower
    likely = is_likely_enough(rounds.noise_multiplier[lane], steps, times, lane, query, rounds.target, enough)
    upper[likely] = _by_one_moment(rounds.at(likely), query)
    todo = np.flatnonzero(upper > enough)
    found = _in_blocks(_add, rounds.at(todo), query, WHOLE)
    lower[todo], upper[todo] = found.lower, np.minimum(upper[todo], found.upper)
    todo = np.flatnonzero((upper >= query.worst) & ~likely)
    upper[todo] = _by_one_moment(rounds.at(todo), query)
    return Ends(lower, upper)


def _by_one_moment(rounds: Rounds, query: Query) -> Real:
    lane, steps, times = rounds.flat()
    return added_upper(rounds.noise_multiplier[lane], steps, times, lane, query, rounds.target)


def _add(rounds: Rounds, query: Query, size: int) -> tuple[Real, Real]:
    num = len(rounds.steps)
    lane, steps, times = rounds.flat()
    uses = np.bincount(lane, times, num)
    mean = np.bincount(lane, times * steps, num) / uses
    of = rule(rounds.noise_multiplier, size, WHOLE)
    falls = uses / (mean * rounds.noise_multiplier**2)
    saddles = plans.saddles(of, mean, np.sqrt(falls))
    index, choice = choose(
        query, rounds.target, saddles.orders, uses[:, None] * saddles.logs, falls, furthest=plans.TOP
    )
    known = plans.guide(of, lane, steps, mean, choice.order)
    at = plans.plan(of, lane, known, choice.order, choice.step * choice.num_nodes)
    usable = (at.num_nodes > 0) & (choice.num_nodes <= _MOST_NODES)
    usable = usable & np.isfinite(saddles.logs[np.arange(num), index])
    lower, upper = np.zeros(num), np.full(num, query.worst)
    for some in _like(at.num_nodes, at.own + at.other, usable, max(1, _SUMMED // size)):
        found = _add_on(rounds.at(some), query, of, known, at, choice, some, lane)
        lower[some], upper[some] = found
    return lower, upper


def _add_on(
    rounds: Rounds, query: Query, of: Any, known: Any, at: Any, choice: Choice, some: Any, lane: Any
) -> Ends[Real]:
    mine, own = _of_some(lane, some, len(choice.order))
    times = np.where(mine < len(choice.order), rounds.first_times[own], rounds.second_times[own])
    at, choice = plans.Plan(*(x[some] for x in at)), Choice(*(x[some] for x in choice))
    count, order = int(choice.num_nodes.max()), choice.order[own]
    table = added.Table(of.at(some), own, known.at(mine), at)
    moments = table(order, choice.step[own], count, _alias_orders(order))
    decay = table.decay((choice.step * choice.num_nodes)[own, None])
    every = _summed((*moments, decay), own, times, len(some))
    return solved(choice, every, query, rounds.target, 0.0)
