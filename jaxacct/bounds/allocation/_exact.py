"""The exact profile of one epoch of 1-out-of-t random allocation, both directions, certified.

Feldman and Shenfeld 2025, Theorem 3.1 and Lemma F.1: the Gaussian mechanism's worst case at every step is attained.
Add/remove adjacency. Host side; see `jaxacct.divergence.allocation._profile`.
"""

import functools
from typing import Any

import numpy as np

from jaxacct._precision import is_traced
from jaxacct._types import Direction, Ends
from jaxacct.divergence.allocation._profile import AllocationProfile
from jaxacct.mechanisms import Gaussian, RandomAllocation


def is_single_round(mechanism: Any) -> bool:
    """Whether `mechanism` is one epoch of Gaussian steps of which each record joins one."""
    if not (isinstance(mechanism, RandomAllocation) and isinstance(mechanism.mechanism, Gaussian)):
        return False
    counts = (mechanism.num_selected, mechanism.num_epochs)
    return not is_traced(counts) and all(bool(np.all(np.equal(count, 1))) for count in counts)


@functools.lru_cache(maxsize=64)
def _profile(noise_multiplier: float, num_steps: int, direction: Direction) -> AllocationProfile:
    return AllocationProfile(noise_multiplier, num_steps, direction)


def _of(mechanism: RandomAllocation, direction: Direction) -> AllocationProfile:
    return _profile(float(mechanism.mechanism.noise_multiplier), int(mechanism.num_steps), direction)


def single_round_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> Ends[float]:
    """Bracket of epsilon at `delta`; (0, inf) at worst."""
    found = _of(mechanism, direction).epsilon(delta)
    return Ends(float(found.lower), float(found.upper))


def single_round_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> Ends[float]:
    """Bracket of delta at `epsilon`; (0, 1) at worst."""
    found = _of(mechanism, direction).delta(np.array([epsilon]))
    return Ends(float(found.lower[0]), float(found.upper[0]))
