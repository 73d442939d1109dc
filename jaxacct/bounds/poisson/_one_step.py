"""One Poisson-sampled step in closed form: Laplace releases, each direction by itself; Gaussian ones, also on lanes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jaxacct._jax import jax
from jaxacct._method import (
    A_FORMULA,
    BOTH,
    Bracketing,
    BracketMethod,
    Cost,
    Engine,
    ProfileMethod,
    Query,
    Role,
    itself,
    only_where,
)
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds.laplace import laplace_delta
from jaxacct.divergence._one_sampled_step import one_step_delta, one_step_epsilon
from jaxacct.divergence.gaussian._one_sampled import one_sampled_epsilon, one_sampled_log_delta
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special._namespace import xp


def _is_one_step(mechanism: PoissonSampled) -> bool:
    concrete = not is_traced(mechanism) and np.ndim(mechanism.num_steps) == 0
    return concrete and bool(mechanism.num_steps == 1)


def _bracket(mechanism: PoissonSampled, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction."""
    release, prob = mechanism.mechanism, float(mechanism.sampling_prob)
    if prob == 0.0:
        return dict.fromkeys(at.known, Ends(0.0, 0.0))

    def profile(log_threshold: float, *, is_upper: bool) -> float:
        safe = log_threshold * (1.0 - 2.0**-48 if is_upper else 1.0 + 2.0**-48)
        ends = laplace_delta(release, safe)
        return ends.upper if is_upper else ends.lower

    answer = one_step_delta if query is Query.DELTA else one_step_epsilon
    return {direction: answer(profile, prob, direction, target) for direction in at.known}


ONE_STEP = BracketMethod(
    engine=Engine.FORMULA,
    name="exact",
    theorem="Balle, Barthe & Gaboardi 2018, Theorems 2 and 3",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=_is_one_step,
    bracket=_bracket,
    below=itself,
    regime="one step",
)


def _is_counted(mechanism: PoissonSampled) -> bool:
    """Whether the number of steps is known: if traced, a method for the add direction alone would be compiled too."""
    return not is_traced(mechanism.num_steps)


def _point(mechanism: PoissonSampled, given: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(target, noise multiplier, probability), each [L]."""
    found = xp.broadcast_arrays(given, mechanism.mechanism.noise_multiplier, mechanism.sampling_prob)
    return found[0], found[1], found[2]


def _method(name: str, directions: tuple[Direction, ...], *, add: bool) -> ProfileMethod:
    """The method (class `ProfileMethod`) of one direction's pair."""

    def log_delta(mechanism: PoissonSampled, epsilon: jax.Array) -> jax.Array:
        found = one_sampled_log_delta(*_point(mechanism, epsilon), add=add)
        return xp.where(mechanism.num_steps == 1, found, 0.0)

    def epsilon(mechanism: PoissonSampled, log_delta: jax.Array) -> jax.Array:
        found = one_sampled_epsilon(*_point(mechanism, log_delta), add=add)
        return xp.where(mechanism.num_steps == 1, found, xp.inf)

    return ProfileMethod(
        name=name,
        theorem="Balle, Barthe & Gaboardi 2018, Theorem 2; Balle & Wang 2018, Theorem 8",
        directions=directions,
        applies=lambda run: is_traced(run.num_steps) or bool(np.any(np.asarray(run.num_steps) == 1)),
        log_delta=log_delta,
        epsilon=epsilon,
        regime="one step",
        cost=Cost.MICROSECONDS,
        **A_FORMULA,
        role=only_where(_is_counted, Role.QUICK),
    )


# removal loses no less than addition (docs/numerics/contour.md, "One sampled step")
ONE_GAUSSIAN_STEP = (
    _method("one step", BOTH, add=False),
    _method("one step, added", (Direction.ADD,), add=True),
)
