"""A loss distribution of the best of a random number of runs, made from its profile, so that it can be composed.

The selection's profile follows from that of one run, which is read off the run's own loss distribution. A distribution
that has the profile of the selection dominates it, and compositions preserve dominance (Zhu, Dong & Wang 2022,
Theorem 10).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._sharing import apart
from jaxacct._types import Bound
from jaxacct.bounds._distribution import Distribution, plds
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds._rounds import rounds_from_profile
from jaxacct.bounds._selection_profile import THEOREM, Selection
from jaxacct.curves._convolution import ALL_DELTAS
from jaxacct.mechanisms import PrivateSelection

_RESOLUTION = 32.0  # cells per standard deviation of a loss of one run
_FINER = 4.0  # grids: delta at epsilon 0 is near 1 where the loss is not
_TAIL = 1e-6  # mass that discretising a run may cut off, as a share of a selection's delta over the mean number of runs

DistributionOf = Callable[[Any], Distribution | None]


def _selection(distribution_of: DistributionOf, mechanism: PrivateSelection, goal: float) -> Selection:
    """The selection, with the profile of a run from its loss distribution, for deltas down to `goal`."""
    run = mechanism.mechanism
    distribution, least = distribution_of(run), goal / float(mechanism.mean_runs)
    assert distribution is not None
    count = distribution.scale(run)[1]
    deltas = (1.0, *(delta for delta in ALL_DELTAS if delta > least), least)
    of = plds(distribution, run, _RESOLUTION, Bound.UPPER, _TAIL * least / max(count, 1), deltas)
    with apart():
        losses = [of(direction) for direction in run.directions]
    return Selection(
        mechanism,
        lambda epsilon: max(loss.delta(epsilon) for loss in losses),
        lambda delta: max(loss.epsilon(delta) for loss in losses),
    )


def distribution(distribution_of: DistributionOf) -> Distribution:
    """The `Distribution` (a class) of selections of runs that have one themselves, which `distribution_of` gives."""
    selected = functools.lru_cache(maxsize=8)(functools.partial(_selection, distribution_of))

    def profile(mechanism: PrivateSelection, goal: float) -> Callable[[float], float]:
        selection = selected(mechanism, goal)

        def delta(epsilon: float) -> float:
            with np.errstate(all="ignore"):
                return selection.delta(epsilon)

        return delta

    def largest(mechanism: PrivateSelection, goal: float) -> float:
        """An epsilon at which delta is at most `goal`; at the least delta there is, if runs may fail outright."""
        deltas = (10.0**k * goal for k in range(math.ceil(-math.log10(goal))))
        with np.errstate(all="ignore"):
            every = (selected(mechanism, goal).epsilon(delta) for delta in deltas)
            return next(filter(math.isfinite, every), math.inf)

    def exists(mechanism: PrivateSelection) -> bool:
        found = distribution_of(mechanism.mechanism)
        return is_scalar(mechanism) and found is not None and found.exists(mechanism.mechanism)

    return rounds_from_profile(
        profile,
        largest,
        lambda mechanism: THEOREM,
        exists,
        rounds_of=lambda mechanism: (mechanism, 1),
        finer=_FINER,
    )
