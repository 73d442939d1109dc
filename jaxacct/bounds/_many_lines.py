"""Certified ends for compositions of allocation rounds, Gaussian and sampled steps: many questions, one line for each.

Complex moments multiply under composition, and one contour integral gives delta (`jaxacct.divergence._inversion`). A
single question is a batch of one. This module alone decides what is tried next for the questions that are still open.

Shapes: [L] lanes, one question each; [F] families of rounds (`jaxacct.bounds._line_questions`).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds._line_answers import solved, summed
from jaxacct.bounds._line_choice import Choice, best, choose, interpolated
from jaxacct.bounds._line_parts import MOST_ORDER, Added, Clipped, Part, Rays
from jaxacct.bounds._line_questions import Questions
from jaxacct.bounds._line_steps import steps_of
from jaxacct.bounds._one_moment import added_upper, is_likely_enough
from jaxacct.divergence.allocation import _added_plans as plans
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._rule import CLIPPED, WHOLE, num_nodes


# These steer running time and tightness: what they leave out is bounded and added.
class _Tried(NamedTuple):
    """A way to answer questions in the remove direction."""

    by_ray: bool | None  # whether all moments are by rays; None: as the tails and earlier failures suggest
    share: float  # of delta, which clipping of the likelihood ratios may remove
    pull: float  # how far the order is pulled towards 1, where the moments depend less on the largest ratios
    ray_pull: float  # the same where some moments are on rays
    anew: bool  # whether questions that rays have not answered are tried on rays again


_TRIED = (
    _Tried(None, 1e-8, 0.65, 0.85, True),
    _Tried(None, 1e-8, 1.0, 0.85, False),
    _Tried(True, 1e-8, 0.85, 0.85, False),
    _Tried(False, 1e-6, 0.4, 0.4, True),
    _Tried(True, 1e-8, 0.7, 0.7, True),
    _Tried(True, 1e-8, 0.45, 0.45, True),
)
_ADDED_PULL = 1.0  # `pull` in the add direction
_NEAR_COPIES = {Direction.REMOVE: 0.5, Direction.ADD: 1.0}  # with heavy tails guesses are up to three times too large
_NARROW, _NARROW_CLIPPED = 9e-4, 1.5e-6  # relative width of ends that are good enough; where rays may do better
_NOISE, _MOST_STEPS = (0.2, 1e3), 2.0**40  # rounds outside are left to other methods: their grids would be long
_LEAST_NOISE = 2e-3  # below it the rule of a real moment would have many millions of nodes
# Tails are heavy below _HEAVY, and rays are tried first: they were as fast, and sharper. If the standard deviation of
# the loss is below about _SMALL, the orders wanted are beyond those of rays, and tails count as heavy below _HEAVIER.
_HEAVY, _HEAVIER = 10.0, 7.0
_SMALL = 0.02
_WIDE, _NUM_WIDE = (0.03, 40.0), 36  # orders a - 1 tried first, times the standard deviation of the composed loss
_LEAST_ON_RAYS = 0.005  # the least a - 1 tried first where rays are used
_NEAR = np.geomspace(0.4, 2.6, 34)  # orders a - 1 among which the line is chosen, as multiples of a first guess
# every so many of those orders is read off moments on rays, which are remade for lines higher by the factor _HIGHER
_KNOWN, _HIGHER = 4, 1.1
_LOOKS, _SHORT_OF = 4, 0.7  # times a line is made longer, and below which share of the fall that it was made for
_TINY = 1e-30  # mass that clipping removes where delta is only guessed
_LOST = -720.0  # log of a delta that underflows: guesses are right to a few nats
_PLANNED, _SUMMED = 2**15, 2**11  # quadrature nodes in one block of lanes: for planning, and for summing
_PER_OCTAVE = 1.5  # kinds of line lengths per octave: lines of one kind share a block


def reaches(of: Questions) -> Any:
    """Where lines are tried, bool [L]: where all noise multipliers and lengths are in range."""
    rounds, out = of.rounds, np.ones(len(of.target), bool)
    noise = rounds.noise_multiplier
    out[rounds.lane[~((noise >= _NOISE[0]) & (noise <= _NOISE[1]))]] = False
    out[rounds.lane[rounds.family[rounds.steps > _MOST_STEPS]]] = False
    return out


def _is_heavy(of: Questions) -> Any:
    """bool [F]: whether the tails of families are so heavy that a line of clipped ratios would be long or loose."""
    rounds = of.rounds
    falls = rounds.total(rounds.uses / (rounds.mean * rounds.noise_multiplier**2))
    most = np.where(np.sqrt(falls + of.variance)[rounds.lane] < _SMALL, _HEAVIER, _HEAVY)
    return rounds.noise_multiplier**2 * np.log(rounds.mean * np.sqrt(rounds.uses)) < most


def _blocks(sizes: Any, budget: int) -> Iterator[Any]:
    """Blocks of lanes sorted by size, such that lanes times the largest size of a block stay within `budget`."""
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


def _nodes(of: Questions) -> Any:
    """Numbers of quadrature nodes [L], with few different values."""
    shape, out = CLIPPED if of.direction is Direction.REMOVE else WHOLE, np.full(len(of.target), 16)
    wanted = num_nodes(of.rounds.noise_multiplier, shape)
    coarse = 1 << np.maximum(np.floor(np.log2(wanted)).astype(int) - 3, 4)
    np.maximum.at(out, of.rounds.lane, coarse * -(-wanted // coarse))
    return out


def _like(nodes: Any, others: Any, usable: Any, most: int) -> Iterator[Any]:
    """Blocks of at most `most` usable lanes with similar numbers `nodes`, sorted by `others` too."""
    lanes = np.flatnonzero(usable)
    kind = np.ceil(_PER_OCTAVE * np.log2(nodes[lanes]))
    lanes, kind = (x[order] for order in [np.lexsort((others[lanes], kind))] for x in (lanes, kind))
    start = 0
    for end in np.append(np.flatnonzero(np.diff(kind)) + 1, len(lanes)) if len(lanes) else ():
        for first in range(start, end, most):
            yield lanes[first : min(first + most, end)]
        start = end


def _wide(parts: list[Part], falls: Real) -> Real:
    """The orders [L, A] that are tried first."""
    low, high = (x / np.sqrt(falls)[:, None] for x in _WIDE)
    if any(isinstance(part, Rays) for part in parts):
        low, high = np.minimum(low, _LEAST_ON_RAYS), np.minimum(high, MOST_ORDER - 1.0)
    return 1.0 + low * (high / low) ** np.linspace(0.0, 1.0, _NUM_WIDE)


def _guessed(parts: list[Part], query: Query, target: Real, falls: Real) -> tuple[Real, Real]:
    """Approximately the best order [L], and the epsilon or log delta there."""
    orders = _wide(parts, falls)
    at, value = best(query, target, orders, _total(part.guess(orders) for part in parts))
    return orders[np.arange(len(at)), at], value


def _total(of: Any) -> Real:
    total: Real = sum(of)
    return total


def _removed(of: Questions, size: int, by_ray: Any, mass: Real | float) -> list[Part]:
    """The rounds of allocation, remove direction: some families whole (`by_ray`), the others clipped by `mass` [F]."""
    parts: list[Part] = []
    if by_ray.any():
        parts.append(Rays(of.rounds.where(by_ray), np.flatnonzero(by_ray)))
    if not by_ray.all():
        masses = (mass + np.zeros(len(by_ray)))[~by_ray]
        parts.append(Clipped(of.rounds.where(~by_ray), np.flatnonzero(~by_ray), masses, size))
    return parts


def _parts(of: Questions, query: Query, size: int, share: float, by_ray: Any) -> tuple[list[Part], Real]:
    """The parts of the questions, and an approximate delta [L]."""
    others: list[Part] = [*steps_of(of)]
    rounds = of.rounds
    if of.direction is Direction.ADD:
        if len(rounds.lane):
            falls = rounds.total(rounds.uses / (rounds.mean * rounds.noise_multiplier**2))
            others.append(Added(rounds, np.sqrt(falls + _total(x.falls for x in others)), size))
        return others, np.ones(len(of.target))
    delta = of.target
    if query is Query.DELTA and not by_ray.all():
        parts = others + _removed(of, size, by_ray, _TINY)
        log_delta = _guessed(parts, query, of.target, _total(x.falls for x in parts))[1]
        delta = np.exp(np.clip(log_delta - 3.0, -600.0, 0.0))
    mass = share * delta / np.maximum(np.bincount(rounds.lane, minlength=rounds.num), 1)
    return others + _removed(of, size, by_ray, mass[rounds.lane]), delta if query is Query.DELTA else of.target


def _answered(of: Questions, query: Query, size: int, share: float, pull: float, by_ray: Any) -> tuple[Real, Real, Any]:
    """Ends [L] by one line each, trivial where it would be too long; and which families failed, bool [F]."""
    num, target = len(of.target), of.target
    parts, delta = _parts(of, query, size, share, by_ray)
    falls, dropped = (_total(x) for x in ((p.falls for p in parts), (p.dropped for p in parts)))
    around = _guessed(parts, query, target, falls)[0]
    orders = 1.0 + (around[:, None] - 1.0) * _NEAR
    logs = _total(part.guess(orders) for part in parts)
    furthest, near = plans.TOP if of.direction is Direction.ADD else np.inf, _NEAR_COPIES[of.direction]
    most = min(part.most_nodes for part in parts)
    index, choice = choose(query, target, orders, logs, falls, pull, furthest, share=near)
    for _ in range(_LOOKS):  # where moments fall by less than near the real axis, lines must be longer
        seen = _total(part.seen(choice) for part in parts)
        lanes = (seen < _SHORT_OF * falls) & (choice.num_nodes < most)
        if not lanes.any():
            break
        falls = np.where(lanes, seen, falls)
        index, longer = choose(query, target, orders, logs, falls, pull, furthest, share=near)
        count = np.where(lanes, np.minimum(longer.num_nodes, most), choice.num_nodes)
        choice = longer._replace(num_nodes=count)
    usable: Any = (choice.num_nodes <= most) & np.isfinite(logs[np.arange(num), index]) & (dropped < delta)
    failed, sizes = np.zeros(len(of.rounds.lane), bool), np.ones(num, int)
    failed[~usable[of.rounds.lane]] = True

    def prepare(choice: Choice) -> None:
        for part in parts:
            served, own = part.prepare(choice)
            failed[part.families[~served]] = True
            np.maximum(sizes, own, out=sizes)

    prepare(choice)
    if by_ray.any():  # guesses are poor where tails are heavy
        known = interpolated(
            orders, orders[:, ::_KNOWN], np.maximum(sum(part.real(orders[:, ::_KNOWN]) for part in parts), 1e-12)
        )
        first, choice = choice, choose(query, target, orders, known, falls, order=choice.order, share=near)[1]
        if np.any(choice.step * choice.num_nodes > _HIGHER * first.step * first.num_nodes):
            prepare(choice)
    usable[of.rounds.lane[failed]] = False
    lower, upper = np.zeros(num), np.full(num, query.worst)
    many = 1 if by_ray.any() else max(1, _SUMMED // size)
    for lanes in _like(sizes, choice.num_nodes, usable, many):
        own = Choice(*(x[lanes] for x in choice))
        moments = summed([part.on(own, lanes) for part in parts])
        lower[lanes], upper[lanes] = solved(own, moments, query, target[lanes], dropped[lanes])
    good = np.isfinite(lower) & ~np.isnan(upper)
    return np.where(good, lower, 0.0), np.where(good, upper, query.worst), failed


def _try(of: Questions, query: Query, share: float, pull: float, by_ray: Any) -> tuple[Real, Real, Any]:
    """`_answered`, block by block."""
    num = len(of.target)
    lower, upper, failed = np.zeros(num), np.full(num, query.worst), np.zeros(len(of.rounds.lane), bool)
    sizes = _nodes(of)
    with np.errstate(all="ignore"):
        for lanes in _blocks(sizes, _PLANNED):
            lanes = np.sort(lanes)
            mine = np.isin(of.rounds.lane, lanes)
            found = _answered(of.at(lanes), query, int(sizes[lanes].max()), share, pull, by_ray[mine])
            lower[lanes], upper[lanes], failed[mine] = found
    return lower, upper, failed


def is_lost(of: Questions, order: float) -> bool:
    """bool: whether delta at the epsilon of one question seems to underflow, with a best order of at least `order`."""
    size = int(_nodes(of).max())
    with np.errstate(all="ignore"):
        parts, _ = _parts(of, Query.EPSILON, size, _TINY, np.zeros(len(of.rounds.lane), bool))
        if not parts:
            return False
        at, log_delta = _guessed(parts, Query.DELTA, of.target, _total(x.falls for x in parts))
    return bool(log_delta[0] < _LOST and at[0] >= order)


def remove(of: Questions, query: Query, *, is_whole: bool = True) -> Ends[Real]:
    """Certified ends [L] of the remove direction; (0, worst) where no line works.

    If `is_whole` is false, only lines of clipped ratios are tried, which take milliseconds.
    """
    num, rounds = len(of.target), of.rounds
    lower, upper = np.zeros(num), np.full(num, query.worst)
    likely, todo, on_rays = _is_heavy(of), np.ones(num, bool), np.zeros(num, bool)
    has_rounds = np.bincount(rounds.lane, minlength=num) > 0
    for tried in _TRIED:
        by_ray = likely if tried.by_ray is None else np.full(len(likely), tried.by_ray)
        has_rays, clips = (np.bincount(rounds.lane, kind, num) > 0 for kind in (by_ray, ~by_ray))
        asked = todo & ~(on_rays & ~clips & (not tried.anew))
        for some, pull in ((asked & ~has_rays, tried.pull), (asked & has_rays & is_whole, tried.ray_pull)):
            lanes = np.flatnonzero(some)
            if lanes.size == 0:
                continue
            mine = np.isin(rounds.lane, lanes)
            low, high, failed = _try(of.at(lanes), query, tried.share, pull, by_ray[mine])
            lower[lanes], upper[lanes] = np.maximum(lower[lanes], low), np.minimum(upper[lanes], high)
            likely[mine] = by_ray[mine] ^ failed
        on_rays |= asked & ~clips
        narrow = np.where(clips & (tried.by_ray is None), _NARROW_CLIPPED, _NARROW)
        with np.errstate(invalid="ignore"):
            todo &= has_rounds & ~(upper - lower <= narrow * lower)
        if not todo.any():
            break
    return Ends(lower, upper)


def add(of: Questions, query: Query, enough: Real | float = 0.0) -> Ends[Real]:
    """Certified ends [L] of the add direction; an upper end of `enough` [L] is not improved any further.

    One real moment is used where that is likely to be enough, and where no line works.
    """
    num = len(of.target)
    lower, upper = np.zeros(num), np.full(num, query.worst)
    enough = enough + lower
    lane, noise, steps, times = of.plain()
    is_plain = of.is_plain & (np.bincount(lane, noise < _LEAST_NOISE, num) == 0.0)
    likely = is_plain & is_likely_enough(noise, steps, times, lane, query, of.target, enough)

    def by_one_moment(lanes: Any) -> None:
        place = np.full(num, -1)
        place[lanes] = np.arange(len(lanes))
        mine = place[lane] >= 0
        if lanes.size:
            with np.errstate(all="ignore"):
                found = added_upper(noise[mine], steps[mine], times[mine], place[lane[mine]], query, of.target[lanes])
            upper[lanes] = np.fmin(found, query.worst)

    by_one_moment(np.flatnonzero(likely))
    todo = np.flatnonzero(upper > enough)
    if todo.size:
        some = of.at(todo)
        low, high, _ = _try(some, query, 0.0, _ADDED_PULL, np.zeros(len(some.rounds.lane), bool))
        lower[todo], upper[todo] = low, np.minimum(upper[todo], high)
    by_one_moment(np.flatnonzero((upper >= query.worst) & ~likely & is_plain))
    return Ends(np.minimum(lower, upper), upper)


def ends(of: Questions, query: Query, enough: Real | float = 0.0, *, is_whole: bool = True) -> Ends[Real]:
    """Certified ends [L] of epsilon or delta: see `remove` and `add`."""
    lower, upper = np.zeros(len(of.target)), np.full(len(of.target), query.worst)
    lanes = np.flatnonzero(reaches(of))
    if lanes.size:
        some, least = of.at(lanes), (enough + lower)[lanes]
        is_remove = of.direction is Direction.REMOVE
        found = remove(some, query, is_whole=is_whole) if is_remove else add(some, query, least)
        lower[lanes], upper[lanes] = np.minimum(*found), found.upper
    return Ends(lower, upper)
