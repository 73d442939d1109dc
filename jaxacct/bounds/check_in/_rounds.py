"""Several rounds of check-ins: the profile of one over the clones pair, turned into a loss distribution and composed.

Liew, Hasegawa & Takahashi 2022, by CI-S23 over the clones pair of Feldman, McMillan & Talwar 2021, as for one round;
the rounds compose by BL-6. Replace-one adjacency, upper bounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from jaxacct._method import Role
from jaxacct.bounds._clones_pair import is_pure
from jaxacct.bounds._parts import has_several_rounds, is_scalar
from jaxacct.bounds._rounds import rounds_from_profile
from jaxacct.bounds.check_in._by_randomizer import MOST_LOCAL, settings_of
from jaxacct.bounds.check_in._one_setting import log_delta_curve
from jaxacct.bounds.shuffle._pure_rounds import beside_pure_rounds
from jaxacct.mechanisms import CheckIn
from jaxacct.special import LEAST_NORMAL, up

VISIBLE = "Feldman, McMillan & Talwar 2021, Theorems 3.2 and 3.8, Lemma 2.3 over the visible number"
# These steer time only. A probability whose log delta is above the least by x at one epsilon is left out at the next
# `_WAIT` x, at most `_LONGEST`.
_WAIT, _LONGEST = 2.0, 6
_HALFWAY = 0.5  # of the local epsilon: where a first delta is taken


def _local_epsilon(mechanism: CheckIn) -> float:
    """The local epsilon of a report, at which a round's delta is 0."""
    return float(up(float(mechanism.mechanism.local_epsilon), 8))


@functools.lru_cache(maxsize=2)  # the scale of a loss and its profile are asked for in turn
def _curves(mechanism: CheckIn) -> list[Callable[[float], float]]:
    """Log delta of one round as functions of epsilon: at its probability of a report, and at larger ones."""
    curves = [log_delta_curve(at, at.local_epsilon) for at in settings_of(mechanism)]
    for of in curves:
        of(_HALFWAY * _local_epsilon(mechanism))  # what is made once is not taken for the time of one delta
    return curves


def _profile(mechanism: CheckIn, goal: float) -> Callable[[float], float]:
    """The least upper bound known on delta of one round: over its probability of a report, and larger ones."""
    del goal  # each delta is known as closely as it can be
    local = _local_epsilon(mechanism)
    curves = _curves(mechanism)
    waits, before = [0] * len(curves), math.inf

    def delta(epsilon: float) -> float:
        nonlocal before
        if epsilon >= local:
            return 0.0
        if epsilon < before:  # they are of use for rising epsilons
            waits[:] = [0] * len(curves)
        before = epsilon
        found = [of(epsilon) if wait == 0 else math.inf for of, wait in zip(curves, waits, strict=True)]
        least = min(found)
        for i, value in enumerate(found):
            if waits[i]:
                waits[i] -= 1
            elif value > least:  # which may be -inf
                waits[i] = int(min(_WAIT * (value - least), _LONGEST))
        return min(max(float(up(np.exp(least), 4)), LEAST_NORMAL), 1.0)  # not 0, as what no double is would be

    return delta


def composes_distributions(mechanism: CheckIn) -> bool:
    """bool: whether its rounds are composed by loss distributions: concrete numbers, of pure randomizers."""
    return is_scalar(mechanism) and is_pure(mechanism) and 0.0 < _local_epsilon(mechanism) <= MOST_LOCAL


def by_renyi(mechanism: CheckIn) -> Role:
    """The role (class `Role`) of composing Renyi divergences, whose bound is larger: used where nothing else is."""
    is_known = has_several_rounds(mechanism) and composes_distributions(mechanism)
    return Role.IN_PROGRAMS if is_known else beside_pure_rounds(mechanism)


DISTRIBUTION = rounds_from_profile(
    _profile,
    lambda mechanism, goal: _local_epsilon(mechanism),
    lambda mechanism: f"{VISIBLE}; composed by BL-6",
    composes_distributions,
)
