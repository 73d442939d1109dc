"""Certified ends for independent rounds without random allocation, from complex moments on the host.

The rounds are Gaussian and Laplace releases, Poisson-sampled or not, and compositions of them. Every question has a
contour of its own; one or many are computed at a time. See `jaxacct.bounds._line_passes`.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._line_passes import ends_of_steps
from jaxacct.bounds._line_questions import Questions, Sampled, no_rounds
from jaxacct.bounds._parts import flattened
from jaxacct.divergence._laplace_step import MOST_LOSS
from jaxacct.divergence._one_sampled_step import one_step_delta, one_step_epsilon
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.gaussian._pair import gaussian_profile
from jaxacct.mechanisms import Gaussian, Laplace, PoissonSampled
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import up

# range of noise multipliers that are handled here
_NOISE: dict[type, tuple[float, float]] = {Gaussian: (1e-3, 1e9), Laplace: (1.0 / MOST_LOSS, 1e5)}
_LARGE_DELTA, _CLOSE = 0.5, 1e-9  # ends of a delta above the first, further apart than the second, are left to others
_KINDS: dict[tuple[type, ...], type] = {
    **{(release,): release for release in _NOISE},
    **{(PoissonSampled, release): release for release in _NOISE},
}


class _Steps(NamedTuple):
    """Equal steps of a mechanism, with fields [P] or scalars: the release, and the number of times it is run."""

    release: type
    noise_multiplier: Any
    prob: Any
    times: Any


def _steps(mechanism: Mechanism) -> list[_Steps]:
    """The different steps of a mechanism of known kinds."""
    found: dict[Any, _Steps] = {}
    for part, count in flattened(mechanism):
        one: Any = part
        is_sampled, kind = len(part.signature()) > 1, _KINDS[part.signature()]
        release, prob, steps = (one.mechanism, one.sampling_prob, one.num_steps) if is_sampled else (one, 1.0, 1.0)
        noise, prob, times = (np.asarray(x, np.float64) for x in (release.noise_multiplier, prob, count))
        times = times * np.asarray(steps, np.float64)
        key = kind, noise.tobytes(), prob.tobytes()
        found[key] = _Steps(kind, noise, prob, times + (found[key].times if key in found else 0.0))
    return list(found.values())


def _has_kinds(mechanism: Mechanism) -> bool:
    return all(part.signature() in _KINDS for part, _ in flattened(mechanism))


def is_of_gaussians(mechanism: Mechanism) -> bool:
    """bool: whether `mechanism` consists of Gaussian releases, Poisson-sampled or not."""
    return all(_KINDS.get(part.signature()) is Gaussian for part, _ in flattened(mechanism))


def _in_reach(every: Sequence[_Steps]) -> Any:
    """Where noise is neither tiny nor huge, bool [P]."""
    ranges = ((*_NOISE[of.release], of.noise_multiplier) for of in every)
    return functools.reduce(np.logical_and, ((least <= noise) & (noise <= most) for least, most, noise in ranges), True)


def is_within_reach(mechanism: Mechanism, fewest: float = 0.0) -> bool:
    """bool: whether `host_ends` can handle `mechanism`, and it has at least `fewest` steps.

    Its fields must be concrete scalars, and its noise neither tiny nor huge.
    """
    if is_traced(mechanism) or not _has_kinds(mechanism):
        return False
    every = _steps(mechanism)
    is_batch = any(np.ndim(of.noise_multiplier) for of in every)
    return not is_batch and bool(_in_reach(every)) and bool(_num_steps(every) >= fewest)


def _has_laplace(mechanism: Mechanism) -> bool:
    """Whether some rounds have Laplace noise, and all rounds are of kinds known here."""
    return _has_kinds(mechanism) and not is_of_gaussians(mechanism)


def _num_steps(every: Sequence[_Steps]) -> Any:
    return sum(of.times for of in every)


def _largest_loss(every: Sequence[_Steps]) -> Any:
    """Epsilons [P] at which it is purely epsilon-DP, rounded up; inf if none is known. Losses add.

    1/b bounds the loss of a sampled step of Laplace noise too.
    """
    total: Any = 0.0
    for of in every:
        one = up(1.0 / of.noise_multiplier, 4) if of.release is Laplace else np.inf
        total = total + np.where(of.times > 0.0, np.maximum(of.times, 1.0) * one, 0.0)
    return up(total, 2 * len(every) + 8)


def _asked(every: Sequence[_Steps], adds: Any, target: Real) -> Questions:
    """The `Questions` of P lanes."""
    num = len(target)
    lanes, plain = np.arange(num), [np.zeros(num)]
    rows: dict[type, list[Any]] = {Gaussian: [], Laplace: []}
    for of in every:
        noise, prob, times = (np.broadcast_to(x, num) for x in of[1:])
        some = (prob > 0.0) & (times > 0.0)
        if of.release is Gaussian:
            whole = some & (prob == 1.0)
            plain.append(np.where(whole, times * noise**-2.0, 0.0))
            some = some & ~whole
        rows[of.release].append([x[some] for x in (lanes, noise, prob, times)])
    found = (
        Sampled(*(np.concatenate(x) for x in zip(*own, strict=True))) if own else Sampled.none()
        for own in rows.values()
    )
    variance = np.array([math.fsum(x) for x in np.transpose(plain)])  # rounded once, however many there are
    return Questions(target, adds, no_rounds(num), variance, *found)


def _ends(
    every: Sequence[_Steps], query: Query, target: Real, directions: Sequence[Direction], width: float
) -> dict[Direction, Ends[Real]]:
    """Ends [P] in each direction. Both directions are computed together, as lanes; equal ones only once."""
    num = len(target)
    asked = [Direction.REMOVE] if all(np.all((of.prob == 1.0) | (of.prob == 0.0)) for of in every) else directions
    adds = np.repeat([d is Direction.ADD for d in asked], num)
    beside = [_Steps(of.release, *(np.tile(np.broadcast_to(x, num), len(asked)) for x in of[1:])) for of in every]
    of = _asked(beside, adds, np.tile(target, len(asked)))
    rows = np.zeros((2, len(adds)))
    closed = _has_one_step(of)
    for lane in np.flatnonzero(closed):
        rows[:, lane] = _by_closed_form(of.at(np.array([lane])), query)
    todo = np.flatnonzero(~closed & ~(of.is_plain & (of.variance == 0.0)))  # others lose nothing
    if todo.size:
        rows[:, todo] = ends_of_steps(of.at(todo), query, width)
    most = _largest_loss(every) if query is Query.EPSILON else np.inf
    found = np.minimum(rows.reshape(2, len(asked), num), most)
    return {d: Ends(*found[:, min(k, len(asked) - 1)]) for k, d in enumerate(directions)}


def _has_one_step(of: Questions) -> Any:
    """Where there is nothing but one sampled Gaussian step, bool [L]."""
    count = np.bincount(of.sampled.lane, of.sampled.times, len(of.target))
    return (count == 1.0) & (of.variance == 0.0) & (np.bincount(of.laplace.lane, minlength=len(of.target)) == 0)


def _by_closed_form(of: Questions, query: Query) -> Ends[float]:
    answer = one_step_epsilon if query is Query.EPSILON else one_step_delta
    profile = functools.partial(gaussian_profile, mu=1.0 / float(of.sampled.noise_multiplier[0]))
    return answer(profile, float(of.sampled.prob[0]), of.direction, float(of.target[0]))


def host_ends(mechanism: Any, query: Query, target: float, direction: Direction, width: float) -> Ends[float]:
    """Ends of epsilon at a delta, or of delta at an epsilon, in one direction; at worst (0, inf), or (0, 1) for delta.

    Args:
      mechanism: rounds within reach (`is_within_reach`).
      width: the relative width that is aimed at: the distance of the ends over the upper end.
    """
    found = _ends(_steps(mechanism), query, np.array([target]), (direction,), width)[direction]
    return Ends(float(found.lower[0]), float(found.upper[0]))


def bracket_on_host(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction, no wider than those known."""
    found = _ends(_steps(mechanism), query, np.array([target]), tuple(at.known), at.width)
    return {
        d: Ends(max(known.lower, float(found[d].lower[0])), min(known.upper, float(found[d].upper[0])))
        for d, known in at.known.items()
    }


def _is_rough(query: Query, ends: Ends[Any]) -> Any:
    """Where the ends of Laplace rounds are left to loss distributions, which are better at large deltas.

    Where delta is near 1, the terms of the sum are far larger than delta.
    """
    return (ends.upper > _LARGE_DELTA) & (ends.upper - ends.lower > _CLOSE) & (query is Query.DELTA)


def _bracket_laplace(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction."""
    found = bracket_on_host(mechanism, query, target, at)
    return {d: at.known[d] if _is_rough(query, e) else e for d, e in found.items()}


def _many(
    mechanism: Any,
    query: Query,
    target: Any,
    directions: Sequence[Direction],
    *,
    applies: Callable[[Any], bool],
    fewest: float,
) -> Mapping[Direction, Ends[Real]]:
    """Ends [P] of many points, trivial where fields are out of reach."""
    num = len(target)
    found = {d: Ends(np.zeros(num), np.full(num, query.worst)) for d in directions}
    every = _steps(mechanism) if applies(mechanism) else []
    lanes = np.flatnonzero(np.broadcast_to(_in_reach(every) & (_num_steps(every) >= fewest) & bool(every), num))
    if lanes.size == 0:
        return found
    some = [_Steps(of.release, *(np.broadcast_to(x, num)[lanes] for x in of[1:])) for of in every]
    asked = np.asarray(target, np.float64)[lanes]
    for d, ends in _ends(some, query, asked, directions, math.inf).items():
        known = ~_is_rough(query, ends) | is_of_gaussians(mechanism)
        found[d].lower[lanes] = np.where(known, ends.lower, 0.0)
        found[d].upper[lanes] = np.where(known, ends.upper, query.worst)
    return found


def _moment_inversion(name: str, applies: Callable[[Any], bool], fewest: float = 0.0, **options: Any) -> BracketMethod:
    """A method (class `BracketMethod`) for mechanisms within reach, `fewest` steps at least."""
    facts: dict[str, Any] = {
        "engine": Engine.CONTOUR,
        "name": name,
        "theorem": "Zhu, Dong & Wang 2022, Theorem 11",
        "directions": BOTH,
        "ends": frozenset({Bound.UPPER, Bound.LOWER}),
        "cost": Cost.MILLISECONDS,
        "applies": lambda mechanism: applies(mechanism) and is_within_reach(mechanism, fewest),
        "bracket": bracket_on_host,
        "many": functools.partial(_many, applies=applies, fewest=fewest),
        "has_one_engine": True,
        "below": itself,
    }
    return BracketMethod(**{**facts, **options})


def exact(applies: Callable[[Any], bool]) -> BracketMethod:
    """The method "exact" (class `BracketMethod`) of Gaussian rounds that `applies` admits, some of them sampled."""
    return _moment_inversion("exact", applies)


def beside_closed_form(applies: Callable[[Any], bool]) -> BracketMethod:
    """The method "moment inversion" (class `BracketMethod`), for mechanisms whose upper end has a closed form.

    One contour gives both ends. The method is asked after the closed form, where a lower end is wanted.
    """
    return _moment_inversion("moment inversion", applies)


EXACT = exact(is_of_gaussians)
LAPLACE = _moment_inversion("moment inversion", _has_laplace, fewest=2.0, bracket=_bracket_laplace)
