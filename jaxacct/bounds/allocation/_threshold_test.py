"""A lower bound on the privacy loss of k-out-of-t allocation itself, from a test that does not ask which steps.

Feldman & Shenfeld 2025 analyse k-out-of-t by a composition that dominates it (Lemma 3.2). What is computed here bounds
the mechanism from below, and is close to it: the sum over the steps of the losses of a Poisson-sampled step is compared
with a threshold. Beside allocation there may be Poisson-sampled and Gaussian rounds, each with its own loss.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Query
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._parts import flattened
from jaxacct.bounds.allocation._split import selects_several
from jaxacct.divergence._threshold_test import Term, Terms, delta_below, epsilon_below
from jaxacct.divergence.gaussian._allocated_steps import AllocatedSteps, LossSteps
from jaxacct.divergence.gaussian._line import GaussianStep
from jaxacct.divergence.gaussian._sampled_step import SampledStep
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._base import Mechanism

_NOISE = (0.05, 1e6)  # noise multipliers for which the test is tried


def _of_gaussian(part: Gaussian, direction: Direction, tuning: float) -> tuple[Term, float]:
    del direction, tuning  # the pair is symmetric, and the loss is known
    return LossSteps(GaussianStep(float(part.noise_multiplier))), 1.0


def _of_sampled(part: PoissonSampled, direction: Direction, tuning: float) -> tuple[Term, float]:
    del tuning  # the loss of a step is known
    sigma, prob = float(part.mechanism.noise_multiplier), float(part.sampling_prob)
    step = GaussianStep(sigma) if prob == 1.0 else SampledStep(sigma, prob, direction)
    return LossSteps(step), float(part.num_steps) if prob > 0.0 else 0.0


def _of_allocated(part: RandomAllocation, direction: Direction, tuning: float) -> tuple[Term, float]:
    sigma = float(part.mechanism.noise_multiplier)
    steps, selected, epochs = (float(x) for x in (part.num_steps, part.num_selected, part.num_epochs))
    if selected == steps:
        return LossSteps(GaussianStep(sigma)), epochs * steps
    share = selected / steps
    rate = tuning * share / (1.0 - share + tuning * share)
    return AllocatedSteps(sigma, steps, selected, rate, direction), epochs


_TERMS: dict[tuple[type, ...], Callable[[Any, Direction, float], tuple[Term, float]]] = {
    (Gaussian,): _of_gaussian,
    (PoissonSampled, Gaussian): _of_sampled,
    (RandomAllocation, Gaussian): _of_allocated,
}


def _terms(mechanism: Mechanism, direction: Direction, tuning: float) -> Terms:
    """The statistic: c = `tuning` times k/t for each allocation, about; always between 0 and 1."""
    found: dict[Term, float] = {}
    for part, count in flattened(mechanism):
        term, times = _TERMS[part.signature()](part, direction, tuning)
        if times > 0.0 and count > 0:
            found[term] = found.get(term, 0.0) + times * float(count)
    return list(found.items())


def _noise(part: Any) -> float:
    return float(getattr(part, "mechanism", part).noise_multiplier)


def has_several_steps(mechanism: Any) -> bool:
    """bool: whether `mechanism` is of Gaussian rounds, concrete, with k-out-of-t allocation among them, 1 < k < t."""
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
    noises = [_noise(part) for part, _ in flattened(mechanism)]
    if not all(_NOISE[0] <= sigma <= _NOISE[1] for sigma in noises):
        return dict.fromkeys(at.known, Ends(0.0, query.worst))
    below = epsilon_below if query is Query.EPSILON else delta_below

    def one(direction: Direction) -> float:
        try:
            found = below(lambda tuning: _terms(mechanism, direction, tuning), target)
        except OverflowError:
            return 0.0
        return found if math.isfinite(found) else 0.0

    return {d: Ends(one(d), query.worst) for d in at.known}


THRESHOLD_TEST = BracketMethod(
    name="threshold test",
    theorem="any event bounds from below: here, whether a sum of losses is above a threshold",
    directions=BOTH,
    ends=frozenset({Bound.LOWER}),
    cost=Cost.TENTHS,
    cold=Cost.TENTHS,
    helps=selects_several,
    sharpens_reduction=True,
    bracket=_bracket,
    reduction=lambda mechanism: False,
    regime="Gaussian noise, several steps a record",
)
