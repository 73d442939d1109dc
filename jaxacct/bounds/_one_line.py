"""One question about a composition by complex moments: the line where it is answered best, and moments on it alone.

`jaxacct.bounds._moments` has the rounds and the table for many questions at once.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Query
from jaxacct._types import Direction, Ends
from jaxacct.bounds._line_parts import Added, Clipped, Contour, Gaussians, Part, Rays, Round, is_heavy
from jaxacct.divergence._inversion import ALIAS_FACTORS, Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.divergence.allocation._grid import Real
from jaxacct.special import down, up

# These steer running time and tightness: what they leave out is bounded and added.
_ORDERS = 1.0 + np.geomspace(0.005, 1e6, 320)  # orders a among which the line is chosen
# What is tried one after the other: a share of delta that clipping the likelihood ratios may take away, or 0 for rays,
# and how far the order is pulled towards 1, where the moments depend less on the largest ratios.
_TRIED = ((1e-8, 1.0), (0.0, 0.7), (1e-8, 0.6), (1e-6, 0.4), (0.0, 0.85), (0.0, 0.45))
_SPARED = 2.0  # in log: for fewer nodes the line may lie where what is summed is larger by as much
_FALL = 30.0  # the moments are followed until the rest is e^-30 of delta
_ALIASES = 26.0  # copies of delta on the left are e^-26 of it
_MOST_NODES = 4096  # nodes of the line
_MOST_CLIPPED = 400  # and where rounds are clipped: beyond, rays are better
_NOISE, _MOST_STEPS = (0.2, 1e3), 2.0**40  # rounds outside are left to others: their grids would be long
_LOST = -720.0  # log of a delta that is no double: guesses are right to a few nats
_NARROW = 9e-4  # relative width of ends that are not improved on


_AROUND = np.array([0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0])  # a - 1 over the last one, where moments are taken


class _Choice(NamedTuple):
    """The order a at which the saddle point's bound is best, and about what is known there."""

    order: float
    epsilon: float
    log_delta: float


def _chosen(query: Query, target: float, orders: Real, logs: Real) -> _Choice:
    """`_Choice` from log M at real `orders` > 1; nan and inf are passed over."""
    # delta is about M(a) e^{-(a - 1) eps} / (a (a - 1) sqrt(2 pi V)), V the variance, (a - 1) sqrt V about 3
    constant = np.log(orders) + 2.0
    if query is Query.EPSILON:
        found = (logs - math.log(target) - constant) / (orders - 1.0)
    else:
        found = logs - (orders - 1.0) * target - constant
    found = np.where(np.isfinite(found), found, np.inf)
    at = int(found.argmin())
    value = float(found[at])
    if query is Query.DELTA:  # the larger the order, the fewer nodes
        at = int(np.flatnonzero(found <= value + _SPARED)[-1])
    if query is Query.EPSILON:
        return _Choice(float(orders[at]), max(value, 0.0), math.log(target))
    return _Choice(float(orders[at]), target, min(value, 0.0))


def _contour(chosen: _Choice, orders: Real, logs: Real, falls: float) -> Contour:
    """The contour through the order chosen, where log |M| falls by at least `falls` b^2/2."""
    a, epsilon, log_delta = chosen
    left = (_ALIASES - log_delta) / (a - 1.0)
    c = 1.0 + np.asarray(ALIAS_FACTORS) * (a - 1.0)
    above = np.where(c <= orders[-1], np.interp(c, orders, np.where(np.isfinite(logs), logs, 1e300)), np.inf)
    right = (above - (c - 1.0) * epsilon - np.log(c - 1.0) - log_delta + _ALIASES) / (c - a)
    period = max(left, min(float(right.min()), 20.0 * left))
    log_moment = float(np.interp(a, orders, logs))
    needed = max(_FALL + log_moment - (a - 1.0) * epsilon - log_delta, _FALL)
    count = math.sqrt(2.0 * needed / falls) * period / (2.0 * math.pi) + 2.0
    return Contour(a, 2.0 * math.pi / period, int(min(count, _MOST_NODES)) if count > 0 else _MOST_NODES)


def _refined(
    parts: Sequence[Part], query: Query, target: float, chosen: _Choice, pull: float
) -> tuple[_Choice, Real, Real]:
    """The choice made again, from the moments themselves; and orders and logarithms of moments around it."""
    for _ in range(3):
        around = 1.0 + (chosen.order - 1.0) * _AROUND
        logs = sum((part.real(around) for part in parts), np.zeros_like(around))
        fine = 1.0 + (chosen.order - 1.0) * np.geomspace(_AROUND[0], _AROUND[-1], 40)
        known = np.isfinite(logs) & (logs > 0)
        if not known.any():
            return chosen, fine, np.full_like(fine, np.inf)
        smooth = np.exp(np.interp(np.log(fine - 1.0), np.log(around - 1.0)[known], np.log(logs[known])))
        smooth = np.where(fine <= around[known].max() * (1.0 + 1e-9), smooth, np.inf)
        last, chosen = chosen, _chosen(query, target, fine, smooth)
        if pull < 1.0:  # the order stays
            return chosen._replace(order=last.order), fine, smooth
        if 0.6 < (chosen.order - 1.0) / (last.order - 1.0) < 1.6:
            break
    return chosen, fine, smooth


def _guessed(parts: Sequence[Part], query: Query, target: float) -> tuple[_Choice, Real, Real]:
    """The choice by guessed moments; and orders, close to each other where it matters, and logarithms of moments."""

    def guess(orders: Real) -> Real:
        return sum((part.guess(orders) for part in parts), np.zeros_like(orders))

    coarse, every = np.arange(0, len(_ORDERS), 6), np.full(len(_ORDERS), np.nan)
    every[coarse] = guess(_ORDERS[coarse])
    best = int(np.searchsorted(_ORDERS, _chosen(query, target, _ORDERS[coarse], every[coarse]).order))
    near = np.arange(max(best - 20, 0), min(best + 20, len(_ORDERS)))
    every[near] = guess(_ORDERS[near])
    known = ~np.isnan(every)
    orders, logs = _ORDERS[known], every[known]
    return _chosen(query, target, orders, logs), orders, logs


def _answered(parts: Sequence[Part], query: Query, target: float, pull: float = 1.0) -> Ends[float] | list[Part]:
    """Ends by one line; the parts for which it would be too long.

    Its order a is about the best one's distance from 1 times `pull`.
    """
    chosen, orders, logs = _guessed(parts, query, target)
    chosen = chosen._replace(order=1.0 + (chosen.order - 1.0) * pull)
    falls = sum(part.falls for part in parts)
    first = _contour(chosen, orders, logs, falls)
    if first.num_nodes > _MOST_CLIPPED and (failed := [part for part in parts if part.dropped > 0]):
        return failed
    if failed := [part for part in parts if not part.prepare(chosen.order, first.height)]:
        return failed
    again, orders, logs = _refined(parts, query, target, chosen, pull)
    contour = _contour(again, orders, logs, falls)
    is_near = contour.height <= 1.1 * first.height and 0.8 < (again.order - 1.0) / (chosen.order - 1.0) < 1.25
    if not is_near and (failed := [part for part in parts if not part.prepare(again.order, contour.height)]):
        return failed
    line = contour.line()
    counts = np.array([[count] for part in parts for count in part.counts])
    moments = [of for part in parts for of in part.on(contour, line)]
    return line_ends(line, moments, counts, query, target, sum(part.dropped for part in parts))


def reaches(rounds: Sequence[Round]) -> bool:
    """bool: whether lines are tried for these rounds: all noise multipliers and lengths in range."""
    return all(_NOISE[0] <= r.noise_multiplier <= _NOISE[1] and r.num_steps <= _MOST_STEPS for r in rounds)


def is_lost(rounds: Sequence[Round], others: Sequence[Part], epsilon: float, order: float) -> bool:
    """bool: whether delta at `epsilon` lies below the doubles by a guess, at an order of at least `order`."""
    parts: list[Part] = [*others, *(Clipped([of], 0.0) for of in rounds if of.num_steps > 1)]
    if single := [of for of in rounds if of.num_steps == 1]:
        parts.append(Gaussians(single))
    if not parts:
        return False
    guessed = _guessed(parts, Query.DELTA, epsilon)[0]
    return guessed.log_delta < _LOST and guessed.order >= order


def ends(
    rounds: Sequence[Round], others: Sequence[Part], direction: Direction, query: Query, target: float
) -> Ends[float]:
    """Certified ends of epsilon or delta, in one direction, of allocation rounds and `others` together."""
    whole: Ends[float] = Ends(0.0, query.worst)
    parts = list(others)
    if not rounds and not parts:
        return whole
    if single := [of for of in rounds if of.num_steps == 1]:
        parts.append(Gaussians(single))
    sampled = [of for of in rounds if of.num_steps > 1]
    if not reaches(sampled):
        return whole
    if direction is Direction.ADD:
        found = _answered([*parts, Added(sampled)] if sampled else parts, query, target)
        return found if isinstance(found, Ends) else whole
    families = [
        [of for of in sampled if of.noise_multiplier == noise] for noise in {of.noise_multiplier for of in sampled}
    ]
    delta = target
    if query is Query.DELTA:
        guessed = _guessed([*parts, *(Clipped(family, 1e-40) for family in families)], query, target)[0]
        delta = math.exp(max(guessed.log_delta - 3.0, -600.0))
    heavy = list(range(len(families)))  # those that clipping does not serve, or where what was found is still wide
    clips = not all(is_heavy(of.noise_multiplier, of.num_steps, of.times) for of in sampled) or not sampled
    for share, pull in _TRIED if clips else _TRIED[1:]:
        mass = (share or _TRIED[0][0]) * delta / max(len(families), 1)
        now: list[Part] = [
            Rays(family) if share == 0.0 and i in heavy else Clipped(family, mass) for i, family in enumerate(families)
        ]
        found = _answered([*parts, *now], query, target, pull)
        if isinstance(found, Ends):
            whole = Ends(max(whole.lower, found.lower), min(whole.upper, found.upper))
            if whole.upper - whole.lower <= _NARROW * whole.lower or not families:
                break
            heavy = list(range(len(families)))
        elif share > 0.0:
            heavy = [i for i, part in enumerate(now) if any(part is x for x in found)]
    return whole


def line_ends(
    line: Line, moments: Sequence[LineMoments], counts: Real, query: Query, target: float, dropped: float
) -> Ends[float]:
    """Ends of epsilon or delta from the moments of rounds on one line, `counts` [rounds, 1].

    `dropped` is at least what delta lacks: the true one lies between what the moments give and that more.
    """
    with np.errstate(all="ignore"):
        each = (zip(moments, counts[:, 0], strict=True) for _ in LineMoments._fields)
        kinds: Any = (sum(count * np.asarray(m[k]) for m, count in pairs) for k, pairs in enumerate(each))
        total = LineMoments(*kinds)
        if query is Query.DELTA:
            found: Any = delta_ends(line, total, np.array([target]))  # type: ignore[arg-type]
            upper = up(up(float(np.exp(found.upper[0])), 8) + dropped, 4)
            return Ends(down(float(np.exp(found.lower[0])), 8), min(float(upper), 1.0))
        size, excess = float(total.log_modulus[0, 0]), float(line.order[0]) - 1.0

        def solved(log_target: float, start: float) -> Any:
            return epsilon_ends(line, total, *(np.array([x]) for x in (log_target, start)))  # type: ignore[arg-type]

        found = solved(math.log(target), max((size - math.log(target)) / excess, 1e-300))
        lower, upper = float(found.lower[0]), float(found.upper[0])
        if dropped > 0.0:
            less = max(target * (1.0 - 2.0**-50) - dropped, 1e-300)
            start = upper if upper < math.inf else (size - math.log(less)) / excess
            upper = float(solved(math.log(less), max(start, 1e-300)).upper[0])
        return Ends(lower, upper)
