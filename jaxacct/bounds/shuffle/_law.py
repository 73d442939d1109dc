"""The privacy loss distribution of shuffled reports, from the profile of the clones pair.

Feldman, McMillan & Talwar 2021, Theorem 3.2: the pair dominates a round, adaptively composed (CL-S15, route C).
Replace-one adjacency; the pair is symmetric, so both directions are equal.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._method import never, only_analysed
from jaxacct._precision import Rounding, float64_kernel
from jaxacct._types import Bound, Direction, Ends, NeighboringRelation, TooFineError
from jaxacct.bounds._clones_pair import concrete_pair, has_pair
from jaxacct.bounds._distribution import Distribution, Parts
from jaxacct.bounds.bases._base import MAX_LOSS, unbounded
from jaxacct.conversion import delta_from_log, delta_from_log_down
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import dominating_pld
from jaxacct.curves._from_profile_below import dominated_pld
from jaxacct.divergence.clones._profile import clones_delta, clones_epsilon, window_for
from jaxacct.mechanisms import Shuffled

_LOG_END = -60.0  # log delta at which the grid of losses stops, or at MAX_LOSS: what is left is an infinite loss
_MAX_POINTS = 2**16  # losses on a grid; a step that needs more is refused: memory and time
_HOST_POINTS = 2**11  # up to so many losses NumPy is quicker than a compilation: .3 ms each, 2 for many reports
_THEOREM = "Feldman, McMillan & Talwar 2021, Theorem 3.2"


def _lane_bytes(*, window: int) -> int:
    return 400 * window


@float64_kernel(rounding=Rounding.NEAREST, lane_bytes=_lane_bytes, on_host=_HOST_POINTS)
def _delta_ends(
    epsilon: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> tuple[jax.Array, jax.Array]:
    found = clones_delta(epsilon, num_reports, clone_prob, local_epsilon, window=window)
    return delta_from_log_down(found.log_delta.lower), delta_from_log(found.log_delta.upper)


@float64_kernel(rounding=Rounding.UP, lane_bytes=_lane_bytes, on_host=True)
def _last_loss(
    log_delta: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> jax.Array:
    return clones_epsilon(log_delta, num_reports, clone_prob, local_epsilon, window=window).upper


def shuffled_scale(mechanism: Shuffled) -> tuple[float, int]:
    """(count times squared scale of one round's loss, count), a float and an int; 4 s^2 E[1/m] in the Gaussian limit.

    Not a bound: it decides how fine a grid of losses should be.
    """
    n, p, local = concrete_pair(mechanism)
    some = -math.expm1(n * math.log1p(-p)) if p < 1.0 else 1.0
    mean_inverse = some / (n * p) if n * p > 0.0 else 1.0
    rounds = int(mechanism.num_epochs)
    return rounds * 4.0 * math.tanh(0.5 * min(local, 1e3)) ** 2 * mean_inverse, rounds


@functools.lru_cache(maxsize=8)
def _profile(n: float, clone_prob: float, local: float, step: float) -> Ends[NDArray[Any]]:
    window = window_for(n, clone_prob)
    last = float(_last_loss(_LOG_END, n, clone_prob, local, window=window))
    size = math.ceil(min(last, local, MAX_LOSS) / step) + 3
    if size > _MAX_POINTS:
        raise TooFineError(
            f"a step of {step:.3g} up to a loss of {last:.3g} needs {size} points: ask for less precision"
        )
    grid = step * np.arange(size)
    lower, upper = _delta_ends(grid, n, clone_prob, local, window=window)
    # the local epsilon is on the grid, but for rounding, and next to nothing there would end the profile
    return Ends(np.where(grid >= local * (1.0 - 2.0**-48), 0.0, lower), np.asarray(upper))


def shuffled_pld(mechanism: Shuffled, step: float, bound: Bound) -> Pld:
    """One round's privacy loss distribution, a Pld on a grid of `step` nats: dominating, or for LOWER dominated.

    Feldman, McMillan & Talwar 2021, Theorem 3.2, replace-one adjacency. Its error falls with the square of the step.
    """
    profile = _profile(*concrete_pair(mechanism), step)
    if bound is Bound.LOWER:
        found = dominated_pld(step, profile, profile, Direction.REMOVE, theorem=_THEOREM)
    else:
        found = dominating_pld(step, profile.upper, profile.upper, Direction.REMOVE, theorem=_THEOREM)
    return dataclasses.replace(found, neighboring_relation=NeighboringRelation.REPLACE_ONE)


def _parts(mechanism: Shuffled, step: float, bound: Bound, tail: float) -> Parts:
    del tail  # nothing is cut off
    return lambda direction: [(shuffled_pld(mechanism, step, bound), int(mechanism.num_epochs))]


def _largest_of_one(mechanism: Shuffled) -> float:
    """The largest loss of a round, an atom; 0 where there is none."""
    local = concrete_pair(mechanism)[2]
    return local if math.isfinite(local) else 0.0


DISTRIBUTION = Distribution(
    theorem=_THEOREM,
    parts=_parts,
    scale=shuffled_scale,
    largest_loss=unbounded,
    below=only_analysed,
    width_constant=lambda mechanism: 0.5,
    is_from_above=never,
    exists=has_pair,
    divided=_largest_of_one,
)
