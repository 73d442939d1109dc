"""Several equal rounds: a loss distribution of one round is made from upper bounds on its profile, and composed.

docs/papers/blanket.md, BL-6: rounds compose as epochs of shuffled batches do (SB-2). Both directions of a round have
the same profile, the largest over ordered pairs of data.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._method import always, only_analysed
from jaxacct._types import Bound, Direction, TooFineError
from jaxacct.bounds._distribution import Distribution, Parts, check_from_above
from jaxacct.bounds._stand_in import in_own_relation
from jaxacct.bounds.bases._base import unbounded
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import MAX_EPSILON, dominating_pld
from jaxacct.divergence.batches._profile import Knots, knots

_ROUGH = 1e-12  # the delta at which the scale of the loss is measured
_LEAST = 1e-150  # least delta of a tail
_MOST_DEVIATIONS = 4096.0  # of a loss, over which its tail may reach on a grid
_MOST_POINTS = 2**22  # of a grid
_SCALE = 2.5  # for a normal loss, delta at epsilon 0 is .4 of its deviation


def rounds_from_profile(
    profile: Callable[[Any, float], Callable[[float], float]],
    largest: Callable[[Any, float], float],
    theorem: Callable[[Any], str],
    exists: Callable[[Any], bool],
    rounds_of: Callable[[Any], tuple[Any, int]] | None = None,
    finer: float = 1.0,
) -> Distribution:
    """The `Distribution` (a class) of mechanisms that consist of equal rounds; it bounds them from above only.

    Args:
      profile: ``(one round, goal) -> `` a function from epsilon >= 0 to an upper bound on the round's delta; deltas
        below `goal` are of no use.
      largest: ``(one round, delta) -> `` an epsilon at which the round's delta is at most `delta`.
      theorem, exists: as for `Distribution`.
      rounds_of: ``(mechanism) -> `` one round, and their number; by default the field `num_epochs` is that number.
      finer: how many times finer grids and knots are than for a loss whose deviation is what delta at epsilon 0 says.
    """
    one_of = _rounds_of if rounds_of is None else rounds_of

    @functools.lru_cache(maxsize=32)
    def known(mechanism: Any, goal: float) -> Knots:
        return knots(profile(mechanism, goal), goal, largest(mechanism, goal), finer)

    @functools.lru_cache(maxsize=64)
    def deviation(mechanism: Any) -> float:
        """Approximately the standard deviation of one round's loss; more where its tail is that long."""
        delta, high = profile(mechanism, _ROUGH), min(largest(mechanism, _ROUGH), MAX_EPSILON)
        found = _SCALE * delta(0.0)
        end = 8.0 * found
        while end < high and delta(end) > _ROUGH:
            end = 2.0 * end
        return max(found, min(end, high) / _MOST_DEVIATIONS)

    def pld(mechanism: Any, step: float, tail: float, direction: Direction) -> Pld:
        goal = max(10.0 ** math.floor(math.log10(tail)), _LEAST)  # so that neighbouring questions share what is known
        one, _ = one_of(mechanism)
        if not largest(one, goal) + step < MAX_EPSILON:  # it says nothing
            return Pld(0.0, step, np.zeros(1), 1.0, Bound.UPPER, direction, mechanism.relation, theorem(mechanism))
        of = known(one, goal)
        if float(of.epsilon[-1]) > step * _MOST_POINTS:
            raise TooFineError(f"mechanism={mechanism!r}: too many steps of {step:.3g} up to {of.epsilon[-1]:.3g}")
        deltas = of.on_grid(step)
        return dominating_pld(step, deltas, deltas, direction, theorem=theorem(mechanism))

    def parts(mechanism: Any, step: float, bound: Bound, tail: float) -> Parts:
        check_from_above(mechanism, bound)
        if mechanism.loses_nothing():
            return lambda direction: []
        return lambda direction: [(pld(mechanism, step, tail, direction), one_of(mechanism)[1])]

    def scale(mechanism: Any) -> tuple[float, int]:
        one, rounds = one_of(mechanism)
        return rounds * (deviation(one) / finer) ** 2, rounds

    return Distribution(
        theorem=theorem,
        parts=in_own_relation(parts),
        scale=scale,
        largest_loss=unbounded,
        below=only_analysed,
        width_constant=lambda mechanism: 0.5,
        is_from_above=always,
        exists=exists,
    )


def _rounds_of(mechanism: Any) -> tuple[Any, int]:
    """One round, with Python floats for fields: rounds of one kind share what is computed; and their number."""
    return _trees.map_leaves(float, dataclasses.replace(mechanism, num_epochs=1)), int(mechanism.num_epochs)
