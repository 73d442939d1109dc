"""Upper bounds for balls in bins with correlated noise: only some bins, far apart, are kept, and these are made alike.

Reveal how far the bins were turned around their circle: s of them remain, floor(t / s) apart, and the divergence is
at most the mean over the turns (joint convexity). Raise the inner products of any two of these to the largest rho, and
the squared norms to the largest d: divergences rise (Kahane 1986). What remains is a Gaussian release that all bins
share and 1-of-s allocation, of sensitivities sqrt(rho) and sqrt(d - rho).
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Query, Role
from jaxacct._patience import with_slow_warning
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import Distribution
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds._stand_in import of_stand_in
from jaxacct.bounds.correlated._overlaps import Overlaps, is_known, overlaps
from jaxacct.mechanisms import BallsInBins, Composed, Gaussian, RandomAllocation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import up

THEOREM = "CN-4: overlaps raised, the turn of the bins revealed (docs/papers/correlated.md; Kahane 1986)"

_DOWN = 1.0 - 2.0**-50  # of a quotient of the noise multiplier and a root
_NUM_TRIED = 6  # numbers of bins tried first, spread over all that may be best; then the neighbours of the best
_MOST_EXPONENT = 600.0  # of a second moment that only ranks


class BinSet(NamedTuple):
    """`bins` that are kept, and `shared`, the largest inner product of two of them, rounded up."""

    bins: int
    shared: float


def groups(found: Overlaps) -> tuple[BinSet, ...]:
    """A tuple of the sets of bins that may be best, from many bins to few: each has less overlap than those before."""
    t, around = len(found.largest), found.around
    beyond = np.maximum.accumulate(around[::-1])[::-1]  # at a distance of h or more
    kept: list[BinSet] = []
    apart = 0
    while apart < t and (not kept or kept[-1].shared > 0.0):
        bins = t // (apart + 1)
        apart = t // bins
        shared = min(float(beyond[apart]), float(found.largest[0])) if bins > 1 else 0.0
        if not kept or shared < kept[-1].shared:
            kept.append(BinSet(bins, shared))
    return tuple(kept)


def _released(noise: float, squared: float) -> Gaussian:
    """A Gaussian release whose squared sensitivity is `squared`."""
    return Gaussian(noise / math.sqrt(squared) * _DOWN)


def product(noise: float, own: float, group: BinSet) -> Mechanism:
    """A mechanism, whose class depends on the group: `group.bins` bins of squared norm `own` and one inner product."""
    if group.bins == 1:
        return _released(noise, own)
    apart = up(own - group.shared, 4)
    if apart <= 0.0:
        return _released(noise, own)
    alone = RandomAllocation(_released(noise, apart), group.bins)
    return alone if group.shared == 0.0 else Composed((_released(noise, group.shared), alone))


def stand_in(run: BallsInBins, group: BinSet) -> Mechanism:
    """A mechanism that loses no less than the run: of class `Gaussian`, `RandomAllocation`, or the two composed."""
    return product(float(run.noise_multiplier), float(overlaps(run).largest[0]), group)


def below(run: BallsInBins) -> Mechanism | None:
    """A mechanism that loses no more than the run: norms and overlaps lowered to the least; None if a bin is empty.

    With signs in C the gradients of a record's steps are taken orthogonal, so that bins do not overlap.
    """
    if not run.is_short or (found := overlaps(run)).least_own <= 0.0:
        return None
    noise, t = float(run.noise_multiplier) / _DOWN**3, int(run.num_batches)
    shared = min(found.least, found.least_own)
    apart = (found.least_own - shared) * _DOWN
    if t == 1 or apart <= 0.0:
        return Gaussian(noise / math.sqrt(found.least_own if t == 1 else shared))
    alone = RandomAllocation(Gaussian(noise / math.sqrt(apart)), t)
    return alone if shared == 0.0 else Composed((Gaussian(noise / math.sqrt(shared)), alone))


def _least(value: Callable[[BinSet], Ends[float]], every: tuple[BinSet, ...]) -> Ends[float]:
    """The least ends found: first at some of the groups, then from the best of them in steps that are halved."""
    met: dict[int, Ends[float]] = {}

    def at(number: int) -> float:
        if number not in met:
            met[number] = value(every[number])
        return met[number].upper

    tried = sorted({round(x) for x in np.linspace(0, len(every) - 1, min(_NUM_TRIED, len(every)))})
    for number in with_slow_warning(tried, "numbers of bins", len(tried)):
        at(number)
    best = min(met, key=at)
    step = max((b - a for a, b in itertools.pairwise(tried)), default=1) // 2
    while step:
        near = [x for x in (best - step, best + step) if 0 <= x < len(every)]
        best = min([best, *near], key=at)
        step //= 2
    return Ends(min(ends.lower for ends in met.values()), met[best].upper)


def _bracket(run: BallsInBins, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    if not run.is_short:
        return {d: Ends(0.0, query.worst) for d in at.known}
    every = groups(overlaps(run))
    share = 1.0 / min(len(every), 2 * _NUM_TRIED)

    def ends(group: BinSet, direction: Direction) -> Ends[float]:
        part = stand_in(run, group)
        return at.ask(part, query, target, at.width, wants_lower=at.wants_lower, direction=direction, share=share)

    return {d: _least(lambda group, d=d: ends(group, d), every) for d in at.known}  # type: ignore[misc]


def likely(run: BallsInBins) -> Mechanism:
    """The stand-in (class `Mechanism`) of least second moment: for loss distributions, made for all targets."""
    found, scale = overlaps(run), float(run.noise_multiplier) ** 2
    own = float(found.largest[0])

    def log_moment(group: BinSet) -> float:
        apart, shared = (min(x / scale, _MOST_EXPONENT) for x in (own - group.shared, group.shared))
        return shared + math.log1p(math.expm1(apart) / group.bins)

    return stand_in(run, min(groups(found), key=log_moment))


GROUPS = BracketMethod(
    name="groups",
    theorem=THEOREM,
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.TENTHS,
    role=Role.QUICK,
    applies=is_scalar,
    bracket=_bracket,
    below=below,
    regime="any strategy; of signs the absolute values",
)


def distribution(distribution_of: Callable[..., Distribution | None]) -> Distribution:
    """The `Distribution` (class) of one of the groups, for mechanisms that contain the run."""
    made = of_stand_in(distribution_of, lambda run: likely(run) if is_known(run) else None, THEOREM)
    return dataclasses.replace(made, below=below)
