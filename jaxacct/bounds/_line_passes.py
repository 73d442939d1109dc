"""Certified ends for steps without allocation, whose losses may be nearly atoms: several long lines are compared.

Shapes: [L] lanes, one question each.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Query
from jaxacct._types import Ends
from jaxacct.bounds._line_answers import solved
from jaxacct.bounds._line_choice import Choice
from jaxacct.bounds._line_questions import Questions
from jaxacct.bounds._line_steps import Steps
from jaxacct.bounds._one_moment import from_moments
from jaxacct.divergence import _contour
from jaxacct.divergence.allocation._grid import Real
from jaxacct.special import with_few_bits

# All of these steer cost and tightness only: every end is certified whatever they are.
_LONGER = np.array([[1.0, 1.15, 1.4], [1.7, 2.2, 3.5]])  # lengths tried together, in units of the guess
# nodes on a line: a line that needs more than the first number is cut to the second, and its ends are wider
_BUDGET, _CUT = 1_000_000, 16_000
_NODE_BITS = 20  # significant bits of the node spacing: so few that every node is an exact double
_HOPELESS = 1e3  # an upper end beyond this many times 1 + the epsilon expected is useless
_PASSES = 3  # lines tried: for later ones it is better known where the answer is
_GOAL = 1e-6  # relative width at which no other line is tried; or the width asked for, if that is less
_SAME = 1e-3  # relative: a next line for a point this close to the last one would be the same
_LANES = 16  # lanes whose lines are chosen together
_NODES = 2**12  # nodes of lines that are summed together
_FEW, _PER_OCTAVE = 64, 1.5  # lines with fewer nodes count as equally long; above, kinds of lengths per octave


class _Line(NamedTuple):
    """The lines of questions [L], the fall beyond their ends, and whether there is a line."""

    choice: Choice
    fall: Real  # upper bound on log |M(a + iy) / M(a)| beyond the last node
    usable: Any


def _chosen(of: Questions, part: Steps, query: Query, near: Real | None) -> tuple[_Line, Real]:
    """The lines, chosen for the answers `near` if these are known; and upper ends [L] where one moment gives them.

    The lines are as long as the certified decay requires.
    """
    falls = part.falls
    scale = np.where(falls > 0.0, falls, 1.0) ** -0.5
    orders = _contour.candidate_orders(scale, part.largest_order)
    logs = part.guess(orders)
    known = (near, np.log(of.target)) if query is Query.EPSILON else (of.target, None if near is None else np.log(near))
    choice = _contour.choose_lines(orders, logs, part.modulus, scale, *known)
    upper, usable = np.full(len(scale), query.worst), choice.usable & (falls > 0.0)  # elsewhere they underflowed
    too_high = choice.highest > part.highest
    if np.any(usable & too_high):
        at = np.flatnonzero(usable & too_high)
        power = choice.renyi_order[at, None] - 1.0
        single = part.at(at)
        single.take(1.0 + power, np.zeros(len(at)))
        upper[at] = from_moments(single.moments(1.0 + power), power, query, of.target[at])
    usable = usable & ~too_high
    if not usable.any():
        nothing = np.zeros(len(scale))
        line = Choice(choice.order, nothing, nothing.astype(int), choice.order[:, None], nothing, nothing)
        return _Line(line, nothing, usable), upper
    step = with_few_bits(2.0 * math.pi / choice.period, _NODE_BITS)
    part.take(np.stack([choice.order, choice.alias_order], axis=1), choice.height * _LONGER[0, -1])
    height, fall, todo = choice.height.copy(), np.zeros(len(scale)), np.flatnonzero(usable)
    for factors in _LONGER:
        if todo.size == 0:
            break
        tried = choice.height[todo, None] * factors
        found = part.at(todo).fall(tried)
        wanted = (choice.log_delta + _contour.LOG_TAIL - choice.log_size)[todo, None]
        short = found - np.log(tried) < wanted
        at = np.where(short.any(1), short.argmax(1), len(factors) - 1)[:, None]
        height[todo], fall[todo] = (np.take_along_axis(x, at, 1)[:, 0] for x in (tried, found))
        todo = todo[~short.any(1)]
    cut = np.flatnonzero(usable & (height > step * _BUDGET))
    if cut.size:
        height[cut] = _CUT * step[cut]
        fall[cut] = part.at(cut).fall(height[cut, None])[:, 0]
    count = np.where(usable, np.maximum(np.ceil(height / step), 4.0), 1.0).astype(int)
    line = Choice(choice.order, step, count, choice.alias_order[:, None], choice.epsilon, choice.log_delta)
    return _Line(line, fall, usable), upper


def _by_lines(of: Questions, query: Query, near: Real | None) -> tuple[Ends[Real], Any]:
    """Ends [L] by one line each; and where a line was found, bool [L]."""
    num = len(of.target)
    lower, upper = np.zeros(num), np.full(num, query.worst)
    blocks, lines = _alike(of), list[Any]()
    for lanes in blocks:
        some = of.at(lanes)
        whole = Steps(some)
        line, upper[lanes] = _chosen(some, whole, query, None if near is None else near[lanes])
        lines.append((*line.choice, line.fall, line.usable))
    back = np.argsort(np.concatenate(blocks))
    *columns, fall, usable = (
        lines[0] if len(blocks) == 1 else [np.concatenate(x)[back] for x in zip(*lines, strict=True)]
    )
    choice = Choice(*columns)
    for lanes in _together(choice.num_nodes, choice.order / _least_noise(of), np.flatnonzero(usable)):
        own, some = Choice(*(x[lanes] for x in choice)), of.at(lanes)
        part = whole.at(lanes) if len(blocks) == 1 else Steps(some)
        if len(blocks) > 1:
            part.prepare(own)
        moments = part.on(own, np.arange(len(lanes)), fall[lanes])
        low, high = solved(own, moments, query, some.target, np.zeros(len(lanes)))
        if query is Query.EPSILON:
            high = np.where(high > _HOPELESS * (1.0 + own.epsilon), np.inf, high)
        lower[lanes], upper[lanes] = low, np.minimum(high, upper[lanes])
    return Ends(lower, upper), usable


def _alike(of: Questions) -> list[Any]:
    """Blocks of lanes with quadrature rules of similar lengths."""
    num = len(of.target)
    if num <= _LANES:
        return [np.arange(num)]
    return np.array_split(np.lexsort((_least_noise(of), of.adds)), -(-num // _LANES))


def _least_noise(of: Questions) -> Real:
    """The least noise multiplier [L] of the sampled steps; inf where there are none."""
    least = np.full(len(of.target), np.inf)
    for every in (of.sampled, of.laplace):
        np.minimum.at(least, every.lane, every.noise_multiplier)
    return least


def _together(nodes: Any, rules: Real, lanes: Any) -> Iterator[Any]:
    """Blocks of lanes with similar numbers of nodes, sorted so that the lengths of their rules are similar too."""
    kinds = np.ceil(_PER_OCTAVE * np.log2(np.maximum(nodes[lanes], _FEW) / _FEW))
    order = np.lexsort((rules[lanes], kinds))
    lanes, kinds, start = lanes[order], kinds[order], 0
    while start < len(lanes):
        alike = int(np.searchsorted(kinds, kinds[start], side="right")) - start
        most = max(1, int(_NODES / (_FEW * 2.0 ** (kinds[start] / _PER_OCTAVE))))
        stop = start + min(alike, most, _LANES)
        yield lanes[start:stop]
        start = stop


def ends_of_steps(of: Questions, query: Query, width: float) -> Ends[Real]:
    """Certified ends [L] for questions without rounds of allocation; at worst (0, worst).

    Where a line would go beyond the heights at which moments can be computed, a single moment gives the upper end, and
    the lower end is 0.
    Several lines are tried, until the relative distance of the ends is at most `width` and 1e-6.
    """
    num, width = len(of.target), min(width, _GOAL)
    lower, upper = np.zeros(num), np.full(num, query.worst)
    with np.errstate(all="ignore"):
        todo, near = np.arange(num), None
        for _ in range(_PASSES):
            if todo.size == 0:
                break
            found, usable = _by_lines(of.at(todo), query, near)
            lower[todo] = low = np.maximum(lower[todo], found.lower)
            upper[todo] = high = np.minimum(upper[todo], found.upper)
            wide = usable & (high - low > width * low) & (high > low)
            nearer = np.where((low == 0.0) | np.isinf(high), high, 0.5 * (low + high))
            if near is not None:
                wide &= ~(np.abs(nearer - near) <= _SAME * np.abs(near))
            wide &= np.isfinite(nearer)
            todo, near = todo[wide], nearer[wide]
    return Ends(np.minimum(lower, upper), upper)
