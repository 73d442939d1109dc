"""One question about independent rounds, by one contour on the host: the rounds whose complex moments are known there.

Gaussian and Laplace releases, Poisson-sampled or not, and compositions of them. See `jaxacct.divergence._contour`.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._parts import flattened
from jaxacct.divergence._contour import Round, bracket
from jaxacct.divergence._laplace_step import MOST_LOSS, LaplaceStep
from jaxacct.divergence._one_sampled_step import one_step_delta, one_step_epsilon
from jaxacct.divergence.gaussian._line import GaussianStep
from jaxacct.divergence.gaussian._pair import gaussian_profile
from jaxacct.divergence.gaussian._sampled_step import SampledStep
from jaxacct.mechanisms import Gaussian, Laplace, PoissonSampled
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import down, up

# noise multipliers that are looked at
_GAUSSIAN_NOISE, _LAPLACE_NOISE = (1e-3, 1e9), (1.0 / MOST_LOSS, 1e5)
_LARGE_DELTA, _CLOSE = 0.5, 1e-9  # ends of a delta beyond the first that are no closer than this are left to others


class _Kind(NamedTuple):
    """What is asked of one kind of round.

    Attributes:
      step: ``(round, direction) -> `` one step of it; None where that loses nothing.
      steps: ``(round) -> `` of how many steps it consists.
      noise: range of the release's noise multiplier.
      largest_loss: ``(noise multiplier) -> `` an epsilon at which a step is purely epsilon-DP, rounded up; or inf.
    """

    step: Callable[[Any, Direction], Round | None]
    steps: Callable[[Any], float]
    noise: tuple[float, float]
    largest_loss: Callable[[float], float]


def _gaussian_step(part: Gaussian, direction: Direction) -> Round:
    del direction
    return GaussianStep(float(part.noise_multiplier))


def _sampled_step(part: PoissonSampled, direction: Direction) -> Round | None:
    prob = float(part.sampling_prob)
    if prob == 0.0:
        return None
    if prob == 1.0:
        return _gaussian_step(part.mechanism, direction)
    return SampledStep(float(part.mechanism.noise_multiplier), prob, direction)


def _laplace_step(part: Laplace, direction: Direction) -> Round:
    del direction  # the pair is symmetric
    return LaplaceStep(1.0 / float(part.noise_multiplier), 1.0, Direction.REMOVE)


def _sampled_laplace_step(part: PoissonSampled, direction: Direction) -> Round | None:
    prob = float(part.sampling_prob)
    if prob == 0.0:
        return None
    if prob == 1.0:
        return _laplace_step(part.mechanism, direction)
    return LaplaceStep(1.0 / float(part.mechanism.noise_multiplier), prob, direction)


def _unbounded(noise_multiplier: float) -> float:
    del noise_multiplier
    return math.inf


def _largest_laplace_loss(noise_multiplier: float) -> float:
    """1/b, which bounds the loss of a sampled step too."""
    return up(1.0 / noise_multiplier, 4)


_KINDS: dict[tuple[type, ...], _Kind] = {
    (Gaussian,): _Kind(_gaussian_step, lambda part: 1.0, _GAUSSIAN_NOISE, _unbounded),
    (PoissonSampled, Gaussian): _Kind(_sampled_step, lambda part: float(part.num_steps), _GAUSSIAN_NOISE, _unbounded),
    (Laplace,): _Kind(_laplace_step, lambda part: 1.0, _LAPLACE_NOISE, _largest_laplace_loss),
    (PoissonSampled, Laplace): _Kind(
        _sampled_laplace_step, lambda part: float(part.num_steps), _LAPLACE_NOISE, _largest_laplace_loss
    ),
}


def _noise(part: Any) -> Any:
    """The noise multiplier of a release, or of the one that is sampled."""
    return getattr(part, "mechanism", part).noise_multiplier


def is_of_gaussians(mechanism: Mechanism) -> bool:
    """bool: whether `mechanism` consists of Gaussian releases, Poisson-sampled or not."""
    return all(part.signature() in _KINDS and Gaussian in part.signature() for part, _ in flattened(mechanism))


def is_within_reach(mechanism: Mechanism) -> bool:
    """bool: whether `host_ends` knows how to handle `mechanism`: scalar fields, and noise neither tiny nor huge."""
    return all(part.signature() in _KINDS and _has_reach(part) for part, _ in flattened(mechanism))


def _has_reach(part: Any) -> bool:
    least, most = _KINDS[part.signature()].noise
    return np.ndim(_noise(part)) == 0 and least <= float(_noise(part)) <= most


def _has_laplace(mechanism: Mechanism) -> bool:
    """Whether it is concrete and within reach, of more than one step, and some rounds are of Laplace noise."""
    if is_traced(mechanism) or not is_within_reach(mechanism):
        return False
    every = flattened(mechanism)
    steps = sum(_KINDS[part.signature()].steps(part) * float(count) for part, count in every)
    return steps > 1.0 and any(Laplace in part.signature() for part, _ in every)


def _largest_loss(mechanism: Mechanism) -> float:
    """An epsilon at which it is purely epsilon-DP, rounded up; inf if none is known. Losses add."""
    every = ((_KINDS[part.signature()], part, float(count)) for part, count in flattened(mechanism))
    each = (of.steps(part) * count * of.largest_loss(float(_noise(part))) for of, part, count in every if count > 0.0)
    return up(math.fsum(each), 8)


def _rounds(mechanism: Any, direction: Direction) -> tuple[tuple[Round, float], ...]:
    """The steps that lose something, each with how often it is run."""
    rounds: dict[Round, float] = {}
    for part, count in flattened(mechanism):
        of = _KINDS[part.signature()]
        step, times = of.step(part, direction), of.steps(part) * float(count)
        if step is not None and times > 0.0:
            rounds[step] = rounds.get(step, 0.0) + times
    return tuple(rounds.items())


def host_ends(mechanism: Any, query: Query, target: float, direction: Direction, width: float) -> Ends[float]:
    """Ends of epsilon at a delta, or of delta at an epsilon, in one direction; at worst (0, inf), or (0, 1) for delta.

    Args:
      mechanism: rounds within reach (`is_within_reach`).
      width: what is aimed at, of the ends' distance over the upper end.
    """
    return _ends(_rounds(mechanism, direction), _largest_loss(mechanism), query, target, width)


def bracket_on_host(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction asked, no wider than those known. Directions that are the same are asked once."""
    found: dict[Direction, Ends[float]] = {}
    most = _largest_loss(mechanism)
    once = functools.cache(lambda rounds: _ends(rounds, most, query, target, at.width))
    for direction, known in at.known.items():
        ends = once(_rounds(mechanism, direction))
        found[direction] = Ends(max(known.lower, ends.lower), min(known.upper, ends.upper))
    return found


def _ends(
    rounds: tuple[tuple[Round, float], ...], most: float, query: Query, target: float, width: float
) -> Ends[float]:
    """The ends of steps whose losses are `most` at most together."""
    if not rounds:
        return Ends(0.0, 0.0)
    (step, times), *others = rounds
    if times == 1.0 and not others and isinstance(step, SampledStep):
        answer = one_step_epsilon if query is Query.EPSILON else one_step_delta
        profile = functools.partial(gaussian_profile, mu=1.0 / step.noise_multiplier)
        return answer(profile, step.sampling_prob, step.direction, target)
    if query is Query.EPSILON:
        ends = bracket(rounds, log_delta=math.log(target), width=width)
        return Ends(min(ends.lower, most), min(ends.upper, most))
    ends = bracket(rounds, epsilon=target, width=width)
    return Ends(down(math.exp(ends.lower), 8), min(math.nextafter(up(math.exp(ends.upper), 8), 1.0), 1.0))


def _bracket_laplace(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction asked.

    Where delta is near 1 the terms that are added up are far larger than it is: loss distributions know it better.
    """
    found = bracket_on_host(mechanism, query, target, at)
    if query is Query.EPSILON:
        return found
    is_rough = {d: e.upper > _LARGE_DELTA and e.upper - e.lower > _CLOSE for d, e in found.items()}
    return {d: at.known[d] if is_rough[d] else e for d, e in found.items()}


def _moment_inversion(name: str, applies: Callable[[Any], bool], **options: Any) -> BracketMethod:
    """A method (class `BracketMethod`) of mechanisms within reach, asked by name to 1e-9."""
    facts: dict[str, Any] = {
        "engine": Engine.CONTOUR,
        "name": name,
        "theorem": "Zhu, Dong & Wang 2022, Theorem 11",
        "directions": BOTH,
        "ends": frozenset({Bound.UPPER, Bound.LOWER}),
        "cost": Cost.MILLISECONDS,
        "applies": lambda mechanism: applies(mechanism) and is_within_reach(mechanism),
        "bracket": bracket_on_host,
        "below": itself,
    }
    return BracketMethod(**{**facts, **options})


def exact(applies: Callable[[Any], bool]) -> BracketMethod:
    """The method "exact" (class `BracketMethod`) of Gaussian rounds that `applies` admits, some of them sampled."""
    return _moment_inversion("exact", applies)


def beside_closed_form(applies: Callable[[Any], bool]) -> BracketMethod:
    """The method "moment inversion" (class `BracketMethod`), for mechanisms whose upper end has a closed form.

    One contour gives both ends. It is asked where the lower one is wanted, after the closed form.
    """
    return _moment_inversion("moment inversion", applies)


EXACT = exact(is_of_gaussians)
LAPLACE = _moment_inversion("moment inversion", _has_laplace, bracket=_bracket_laplace)
