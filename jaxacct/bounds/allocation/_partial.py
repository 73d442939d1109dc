"""The exact profile of an unfinished epoch of 1-out-of-t random allocation, both directions, certified.

Feldman and Shenfeld 2025, Theorem 3.1, for the first n of t steps: after them X = 1 + (1/t) sum_{i<=n} (Y_i - 1).
Gaussian noise, add/remove adjacency. Host side; see `jaxacct.divergence.allocation._profile`.
"""

import functools
import math
from typing import Any

import numpy as np

from jaxacct._types import Direction, Ends
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.mechanisms import Gaussian
from jaxacct.mechanisms._partial_allocation import PartialAllocation
from jaxacct.special import up


def is_partial_round(mechanism: Any) -> bool:
    """Whether `mechanism` is an unfinished epoch of Gaussian steps."""
    return isinstance(mechanism, PartialAllocation) and isinstance(mechanism.mechanism, Gaussian)


@functools.lru_cache(maxsize=64)
def _profile(noise_multiplier: float, num_steps: int, steps_done: int, direction: Direction) -> AllocationProfile:
    return AllocationProfile(noise_multiplier, num_steps, direction, steps_done=steps_done)


def _of(mechanism: PartialAllocation, direction: Direction) -> AllocationProfile:
    sigma = float(mechanism.mechanism.noise_multiplier)
    return _profile(sigma, int(mechanism.num_steps), int(mechanism.steps_done), direction)


def _largest_loss(mechanism: PartialAllocation) -> float:
    """Of the add direction: X is at least 1 - n/t."""
    share = float(mechanism.steps_done) / float(mechanism.num_steps)
    return up(-math.log1p(-share), 32) if share < 1.0 else math.inf


def _left_tail(mechanism: PartialAllocation, epsilon: float) -> float:
    """Upper bound on delta, add direction: e^eps (gap) P[X < e^-eps], gap = e^-eps - (1 - n/t).

    X - (1 - n/t) is n/t times an average, never below its geometric mean, which is lognormal.
    """
    t, n = float(mechanism.num_steps), float(mechanism.steps_done)
    share, sigma = n / t, float(mechanism.mechanism.noise_multiplier)
    gap = share + math.expm1(-epsilon) + 2.0**-50 * share
    if gap <= 0.0 or epsilon >= _largest_loss(mechanism):
        return 0.0 if epsilon >= _largest_loss(mechanism) else math.exp(epsilon) * 2.0**-49 * share
    z = (math.log(gap / share) + 0.5 / sigma**2) * sigma * math.sqrt(n)
    below = 0.5 * math.erfc(-z / math.sqrt(2.0)) * (1.0 + 2.0**-40 * (1.0 + z * z))
    return min(1.0, up(math.exp(epsilon) * gap * below, 32))


def partial_round_delta(mechanism: PartialAllocation, epsilon: float, direction: Direction) -> Ends[float]:
    """Bracket of delta at `epsilon` >= 0; (0, 1) at worst. For mechanisms that `is_partial_round` accepts.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._partial import partial_round_delta
    >>> from jaxacct.mechanisms._partial_allocation import PartialAllocation
    >>> half = PartialAllocation(ja.Gaussian(1.0), num_steps=100, steps_done=50)
    >>> ends = partial_round_delta(half, 0.3, ja.Direction.REMOVE)
    >>> f"{ends.lower:.6e} {ends.upper:.6e}"
    '2.468984e-04 2.468984e-04'
    """
    found = _of(mechanism, direction).delta(np.array([epsilon]))
    lower, upper = float(found.lower[0]), float(found.upper[0])
    if direction is Direction.ADD:
        upper = min(upper, _left_tail(mechanism, epsilon))
    return Ends(min(lower, upper), upper)


def partial_round_epsilon(mechanism: PartialAllocation, delta: float, direction: Direction) -> Ends[float]:
    """Bracket of epsilon at `delta`; (0, inf) at worst, and for the add direction at most -log(1 - n/t).

    For mechanisms that `is_partial_round` accepts.
    """
    found = _of(mechanism, direction).epsilon(delta)
    lower, upper = float(found.lower), float(found.upper)
    if direction is Direction.ADD:
        upper = min(upper, _largest_loss(mechanism))
    return Ends(min(lower, upper), upper)
