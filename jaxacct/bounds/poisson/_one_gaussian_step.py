"""One Poisson-sampled Gaussian step in closed form, on lanes; of a traced number of steps too, where it is 1."""

from __future__ import annotations

import numpy as np

from jaxacct._jax import jax
from jaxacct._method import BOTH, FEW_TOGETHER, Cost, ProfileMethod, Role, only_where
from jaxacct._precision import is_traced
from jaxacct._types import Direction
from jaxacct.divergence.gaussian._one_sampled import one_sampled_epsilon, one_sampled_log_delta
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special._namespace import xp


def _is_counted(mechanism: PoissonSampled) -> bool:
    """Whether the number of steps is known: of traced ones, what serves the add direction alone would be compiled."""
    return not is_traced(mechanism.num_steps)


def _may_be_one(mechanism: PoissonSampled) -> bool:
    return is_traced(mechanism.num_steps) or bool(np.any(np.asarray(mechanism.num_steps) == 1))


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
        applies=_may_be_one,
        log_delta=log_delta,
        epsilon=epsilon,
        regime="one step",
        cost=Cost.MICROSECONDS,
        numpy=FEW_TOGETHER,
        role=only_where(_is_counted, Role.QUICK),
    )


# removal loses no less than addition (docs/numerics/contour.md, "One sampled step")
ONE_GAUSSIAN_STEP = (
    _method("one step", BOTH, add=False),
    _method("one step, added", (Direction.ADD,), add=True),
)
