"""The exact profile of one epoch of 1-out-of-t random allocation, finished or not, both directions, certified.

Feldman & Shenfeld 2025, Theorem 3.1 and Lemma F.1: the Gaussian mechanism's worst case at every step is attained.
After the first n of t steps the likelihood ratio is X = 1 + (1/t) sum_{i<=n} (Y_i - 1). Add/remove adjacency. It runs
on the host; see `jaxacct.divergence.allocation._profile`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, always, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._moments import many_brackets
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.mechanisms import PartialAllocation, RandomAllocation
from jaxacct.special import LEAST_NORMAL, up


def is_single_round(mechanism: RandomAllocation) -> bool:
    """bool: whether `mechanism` is one epoch in which each record joins one step; False if the counts are traced."""
    counts = (mechanism.num_selected, mechanism.num_epochs)
    return not is_traced(counts) and all(bool(np.all(np.equal(count, 1))) for count in counts)


@functools.lru_cache(maxsize=64)
def _profile(noise_multiplier: float, num_steps: int, steps_done: int, direction: Direction) -> AllocationProfile:
    return AllocationProfile(noise_multiplier, num_steps, direction, steps_done=steps_done)


def _largest_loss(num_steps: int, steps_done: int) -> float:
    """The largest loss in the add direction, rounded up: -log(1 - n/t), since X is at least 1 - n/t."""
    left = num_steps - steps_done  # exact, as 1 - n/t is not
    return up(math.log1p(steps_done / left), 32) if left > 0 else math.inf


def _left_tail(noise_multiplier: float, num_steps: int, steps_done: int, epsilon: float) -> float:
    """Upper bound on delta, add direction: e^eps (gap) P[X < e^-eps], gap = e^-eps - (1 - n/t).

    X - (1 - n/t) is n/t times an average, never below its geometric mean, which is lognormal.
    """
    share, most = steps_done / num_steps, _largest_loss(num_steps, steps_done)
    gap = share + math.expm1(-epsilon) + 2.0**-50 * share
    if gap <= 0.0 or epsilon >= most:
        return 0.0 if epsilon >= most else math.exp(epsilon) * 2.0**-49 * share
    z = (math.log(gap / share) + 0.5 / noise_multiplier / noise_multiplier) * noise_multiplier * math.sqrt(steps_done)
    below = 0.5 * math.erfc(-z / math.sqrt(2.0)) * (1.0 + 2.0**-40 * (1.0 + z * z))
    return min(1.0, up(math.exp(epsilon) * gap * below, 32))


def _ends(mechanism: Any, steps_done: int, query: Query, target: float, direction: Direction) -> Ends[float]:
    sigma, steps = float(mechanism.mechanism.noise_multiplier), int(mechanism.num_steps)
    profile = _profile(sigma, steps, steps_done, direction)
    is_add = direction is Direction.ADD
    if query is Query.EPSILON:
        found = profile.epsilon(target)
        lower, upper = float(found.lower), float(found.upper)
        upper = min(upper, _largest_loss(steps, steps_done)) if is_add else upper
    else:
        at = profile.delta(np.array([target]))
        lower, upper = float(at.lower[0]), float(at.upper[0])
        upper = min(upper, _left_tail(sigma, steps, steps_done, target)) if is_add else upper
        upper = max(upper, LEAST_NORMAL)
    return Ends(min(lower, upper), upper)


def _bracket(
    mechanism: Any, steps_done: int, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    try:
        found: dict[Direction, Ends[float]] = {}
        with np.errstate(all="ignore"):  # what overflows fails closed
            for d, known in at.known.items():
                below = max((ends.lower for ends in found.values()), default=0.0)
                is_enough = known.upper <= below
                found[d] = known if is_enough else _ends(mechanism, steps_done, query, target, d)
        return found
    except OverflowError:
        return dict.fromkeys(at.known, Ends(0.0, query.worst))


def _whole(mechanism: RandomAllocation, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends of one whole epoch, in each direction."""
    return _bracket(mechanism, int(mechanism.num_steps), query, target, at)


def _unfinished(
    mechanism: PartialAllocation, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The ends of an unfinished epoch, in each direction; add: epsilon is at most -log(1 - n/t)."""
    return _bracket(mechanism, int(mechanism.steps_done), query, target, at)


def _exact(bracket: Any, applies: Any, many: Any = None, role: Role = Role.NARROW) -> BracketMethod:
    return BracketMethod(
        engine=Engine.CONTOUR,
        name="exact",
        theorem="Feldman & Shenfeld 2025, Theorem 3.1",
        directions=BOTH,
        ends=frozenset({Bound.UPPER, Bound.LOWER}),
        cost=Cost.MILLISECONDS,
        applies=applies,
        bracket=bracket,
        below=itself,
        role=role,
        many=many,
    )


EXACT = _exact(_whole, is_single_round, functools.partial(many_brackets, is_single=True), Role.QUICK)
PARTIAL_EXACT = _exact(_unfinished, always)
