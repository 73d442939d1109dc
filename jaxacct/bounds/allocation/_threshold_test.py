"""A lower bound on the privacy loss of k-out-of-t allocation itself, from a test that treats all steps alike.

Feldman & Shenfeld 2025 analyse k-out-of-t by a composition that dominates it (Lemma 3.2). The test bounds the mechanism
itself from below, and closely: the sum over the steps of the losses of a Poisson-sampled step is compared with a
threshold. There may also be rounds that are Poisson-sampled or not sampled, each with its own loss. For Gaussian steps
the moments come from a contour integral; for every other release whose pair is known from below, finitely many values
of the likelihood ratio take the place of its law (`jaxacct.bounds.bases._points`).
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, itself, only_where
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct.bounds._parts import flattened
from jaxacct.bounds._split import selects_several
from jaxacct.bounds.bases import BASES, base_of
from jaxacct.bounds.bases._points import points_below
from jaxacct.curves import Pld
from jaxacct.divergence._point_steps import PointSteps
from jaxacct.divergence._threshold_guess import Term, Terms
from jaxacct.divergence._threshold_test import delta_below, epsilon_below
from jaxacct.divergence.gaussian._allocated_steps import AllocatedSteps, LossSteps, SampledLoss
from jaxacct.divergence.gaussian._line import GaussianStep
from jaxacct.mechanisms import AboveThreshold, Exponential, Gaussian, PermuteAndFlip, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._base import Mechanism

_NOISE = (0.05, 1e6)  # noise multipliers for which the test is tried
_ENVELOPES = (AboveThreshold, Exponential, PermuteAndFlip, Pld)  # known only through what dominates them
TESTED = tuple(base for base in BASES if base not in _ENVELOPES)
_OTHERS = [base for base in TESTED if base is not Gaussian]


def _of_gaussian(part: Gaussian, direction: Direction, tuning: float) -> tuple[Term, float]:
    del direction, tuning  # the pair is symmetric, and the loss is known
    _check_noise(part)
    return LossSteps(GaussianStep(float(part.noise_multiplier))), 1.0


def _of_sampled(part: PoissonSampled, direction: Direction, tuning: float) -> tuple[Term, float]:
    del tuning  # the loss of a step is known
    _check_noise(part.mechanism)
    sigma, prob = float(part.mechanism.noise_multiplier), float(part.sampling_prob)
    step = GaussianStep(sigma) if prob == 1.0 else SampledLoss(sigma, prob, direction)
    return LossSteps(step), float(part.num_steps) if prob > 0.0 else 0.0


def _of_allocated(part: RandomAllocation, direction: Direction, tuning: float) -> tuple[Term, float]:
    _check_noise(part.mechanism)
    sigma = float(part.mechanism.noise_multiplier)
    steps, selected, epochs = _counts(part)
    if selected == steps:
        return LossSteps(GaussianStep(sigma)), epochs * steps
    return AllocatedSteps(sigma, steps, selected, _rate(steps, selected, tuning), direction), epochs


def _counts(part: RandomAllocation) -> tuple[float, float, float]:
    return float(part.num_steps), float(part.num_selected), float(part.num_epochs)


def _rate(steps: float, selected: float, tuning: float) -> float:
    """c: `tuning` times k/t, about; always between 0 and 1."""
    share = selected / steps
    return tuning * share / (1.0 - share + tuning * share)


def _check_noise(release: Gaussian) -> None:
    if not _NOISE[0] <= float(release.noise_multiplier) <= _NOISE[1]:
        raise TooFineError(f"{release!r} is outside the noise multipliers of the threshold test")


def is_tried(mechanism: RandomAllocation) -> bool:
    """bool: whether the test is tried at every point: Gaussian noise within its range."""
    noise = np.asarray(cast(Gaussian, mechanism.mechanism).noise_multiplier)
    return bool(np.all((noise >= _NOISE[0]) & (noise <= _NOISE[1])))


def _points_of_release(part: Any, direction: Direction, tuning: float) -> tuple[Term, float]:
    del tuning  # the loss is known
    return PointSteps(points_below(part, 1.0, direction), 1.0, 1.0, 1.0, direction), 1.0


def _points_of_sampled(part: PoissonSampled, direction: Direction, tuning: float) -> tuple[Term, float]:
    del tuning  # the loss is known
    prob = float(part.sampling_prob)
    if prob == 0.0:
        return _points_of_release(part.mechanism, direction, 1.0)[0], 0.0
    return PointSteps(points_below(part.mechanism, prob, direction), 1.0, 1.0, 1.0, direction), float(part.num_steps)


def _points_of_allocated(part: RandomAllocation, direction: Direction, tuning: float) -> tuple[Term, float]:
    steps, selected, epochs = _counts(part)
    if base_of(part.mechanism).is_from_above(part.mechanism):
        raise TooFineError(f"{part.mechanism!r} is known from above only")
    points = points_below(part.mechanism, 1.0, direction)
    if selected == steps:
        return PointSteps(points, 1.0, 1.0, 1.0, direction), epochs * steps
    return PointSteps(points, steps, selected, _rate(steps, selected, tuning), direction), epochs


_TERMS: dict[tuple[type, ...], Callable[[Any, Direction, float], tuple[Term, float]]] = {
    (Gaussian,): _of_gaussian,
    (PoissonSampled, Gaussian): _of_sampled,
    (RandomAllocation, Gaussian): _of_allocated,
    **{(base,): _points_of_release for base in _OTHERS},
    **{(PoissonSampled, base): _points_of_sampled for base in _OTHERS},
    **{(RandomAllocation, base): _points_of_allocated for base in _OTHERS},
    **{(RandomAllocation, PoissonSampled, base): _points_of_allocated for base in TESTED},
}


def _terms(mechanism: Mechanism, direction: Direction, tuning: float) -> Terms:
    """The statistic of the test, with the same `tuning` for each allocation."""
    found: dict[Term, float] = {}
    for part, count in flattened(mechanism):
        term, times = _TERMS[part.signature()](part, direction, tuning)
        if times > 0.0 and count > 0:
            found[term] = found.get(term, 0.0) + times * float(count)
    return list(found.items())


def has_several_steps(mechanism: Any) -> bool:
    """bool: whether `mechanism` is concrete, all its rounds have a test, and some are k-out-of-t with 1 < k < t."""
    if is_traced(mechanism):
        return False
    parts = [part for part, _ in flattened(mechanism)]
    if not all(part.signature() in _TERMS for part in parts):
        return False
    several = [part for part in parts if part.signature()[0] is RandomAllocation and selects_several(cast(Any, part))]
    numbers = [x for part, count in flattened(mechanism) for x in (count, *(y for _, y in part.numbers()))]
    return bool(several) and all(np.ndim(x) == 0 for x in numbers)


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """A lower end in each direction, at worst 0."""
    below = epsilon_below if query is Query.EPSILON else delta_below
    found = dict.fromkeys(at.known, 0.0)
    for d in at.known:
        # of two directions only the larger end is of use
        try:
            one = below(functools.partial(_terms, mechanism, d), target, max(found.values()))
        except (OverflowError, TooFineError):
            continue
        found[d] = one if not math.isnan(one) else 0.0
    return {d: Ends(low, query.worst) for d, low in found.items()}


THRESHOLD_TEST = BracketMethod(
    engine=Engine.TEST,
    name="threshold test",
    theorem="any event bounds from below: here, whether a sum of losses is above a threshold",
    directions=BOTH,
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    role=only_where(selects_several, Role.SHARPER),
    bracket=_bracket,
    below=itself,
    regime="several steps a record",
)
