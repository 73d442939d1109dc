"""The method "loss distribution": from a scheme's declaration, on finer and finer grids until the bracket is narrow."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, never
from jaxacct._patience import LONG, pieces, say_long, timed
from jaxacct._sharing import note, noted, once, shared
from jaxacct._types import Bound, Direction, Ends, TooFineError
from jaxacct._work import counted
from jaxacct.bounds._sizes import is_too_large, num_cells, num_points
from jaxacct.bounds.bases._base import MAX_LOSS, SMALLEST, pld_of_law, side_of
from jaxacct.curves import Pld
from jaxacct.curves._convolution import ALL_DELTAS, compose_plds
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.mechanisms._base import Mechanism

# These constants steer running time and tightness; every distribution is certified at any resolution. A resolution is
# the number of cells per standard deviation of a part's loss.
_FIRST_RESOLUTION = 4.0  # where refinement starts
_TOO_MANY_POINTS, _DEEP_POINTS = 2.0**20, 2.0**17  # by a first guess, in general and at deep deltas: about four seconds
_FIRST_POINTS = 2.0**16  # points where it starts, if there would be too many
_DEEP_RESOLUTION = 0.5  # where it starts at deep deltas, whose tails are long
_FINE_FIRST = 32.0  # where it starts at most, if laws cost next to nothing
_FEW_CELLS = 2.0**14  # cells of the composed law at that start: if it would have more, the start is coarser
_LAST_RESOLUTION = 768.0  # where it gives up
_READ_RESOLUTION = 24.0  # where nothing is refined: for distributions known only from above
_NEARBY = 3  # the delta at which a distribution is to be sharp is rounded to a power of 2^this
_COARSER, _LONG_LAW = 0.125, 2.0**21  # the share of the resolution that is tried first; too many points
_LAST_SHARE = 0.75  # below this share of the last resolution, the last one is tried before giving up
_MUCH_WORK = 2.4e9  # pairs of points in sums of laws, about four seconds: more is spent only for narrower widths
_WORTH_SAYING = 1.5e9  # about two and a half seconds: a warning is given where more are likely
_FEW_POINTS = 2**17  # points of the distributions made before: so many are never too many
_STAGE = 0.1  # relative width that a stage aims at, as a share of the stage before
_LOOSE, _LEAST_GROWTH = 10.0, 1.5  # times the width asked for: above it, a smaller step is made as time ends
_MAX_IDLE = 3  # refinements in a row without gain after which no more are tried, twice as many of small ones
_NO_GAIN = 0.99  # at deep deltas, one refinement that leaves more than this share of the width is the last
_GAIN = 0.8  # a refinement that leaves more than this share of the width counts as no gain
FINEST, _COARSEST = 2.0**-40, 16.0  # nats between losses: beyond them there is only rounding, or overflow
_TAIL = 1e-7  # mass that discretising a part may cut off at either end, as a share of delta over the number of parts
_DEEP = 1e-40  # delta below which grids resolve little, so that one look is enough
_SMALL_DELTAS = (1e-24, 1e-28, 1e-32, 1e-36, _DEEP)  # made sharp too, where a first look finds such a delta
_LITTLE = 1e-5  # nats, of a part's loss: below it a refinement that changes nothing is the last
_MUCH_LESS = 1e-6  # share of a delta below which one that is found was held up by the tails that were cut off for it
PLAIN_TAIL = 1e-22  # the same mass itself, where no delta is asked for

Parts = Callable[[Direction], list[tuple[Pld, int]]]


def none_divided(mechanism: Any) -> float:
    """The float 0: no loss is an atom."""
    del mechanism
    return 0.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Distribution:
    """The privacy loss distributions that a scheme is composed of. What is not declared here does not exist.

    Attributes:
      theorem: by which the distributions dominate the scheme; a function of the mechanism where it depends on parts.
      parts: ``(mechanism, step, bound, tail) -> direction -> [(distribution, count)]``.
      scale: ``(mechanism) -> `` (sum of count times squared scale of the loss, sum of counts) over the parts: what a
        step is measured against.
      largest_loss: ``(mechanism) -> `` an epsilon for which it is purely epsilon-DP, rounded up; inf if none is known.
      below: as for `Method`: the mechanism itself, unless the distributions dominate it without being its own.
      width_constant: ``(mechanism) -> `` c^2 times the relative width of epsilon at c points per standard deviation,
        measured.
      divided: ``(mechanism) -> `` the distance that a step should divide, so that the losses that are atoms are on the
        grid; 0 for none.
      is_light: ``(mechanism) -> `` whether its laws cost next to nothing to make, at any resolution.
      is_from_above: ``(mechanism) -> `` whether some part is known from above only, on its own grid.
      exists: ``(mechanism) -> `` whether the distributions can be made for these fields.
      is_symmetric: ``(mechanism) -> `` whether both directions have the same profile, so that one is enough.
      is_envelope: ``(mechanism) -> `` whether lower distributions bound only a pair that is the worst case at every
        epsilon at once; even where the bracket of that pair is narrow, other methods may find better bounds.
      is_given: the mechanism is itself a distribution.
    """

    theorem: str | Callable[[Any], str]
    parts: Callable[[Any, float, Bound, float], Parts]
    scale: Callable[[Any], tuple[float, int]]
    largest_loss: Callable[[Any], float]
    below: Callable[[Any], Any]
    width_constant: Callable[[Any], float]
    divided: Callable[[Any], float] = none_divided
    is_light: Callable[[Any], bool] = never
    is_from_above: Callable[[Any], bool]
    exists: Callable[[Any], bool]
    is_symmetric: Callable[[Any], bool] = never
    is_envelope: Callable[[Any], bool] = never
    is_given: bool = False

    def source(self, mechanism: Mechanism) -> str:
        """The theorem by which the distributions dominate `mechanism`."""
        return self.theorem if isinstance(self.theorem, str) else self.theorem(mechanism)


def parts_by_laws(laws: Callable[[Any, float, Side, float], list[tuple[RatioLaw, int]]]) -> Callable[..., Parts]:
    """A function for `Distribution.parts`, from one that gives the laws of likelihood ratios and their counts.

    The laws for an upper bound are made once, for both directions; shared ones are used again at other deltas.

    Args:
      laws: ``(mechanism, step, side, tail) -> [(law, count)]``.
    """

    def parts(mechanism: Mechanism, step: float, bound: Bound, tail: float) -> Parts:
        made: dict[Side, list[tuple[RatioLaw, int]]] = {}

        def of(direction: Direction) -> list[tuple[Pld, int]]:
            side = side_of(bound, direction)
            if side not in made:
                made[side] = once((laws, mechanism, step, side), tail, lambda: laws(mechanism, step, side, tail))
            return [(pld_of_law(law, direction), count) for law, count in made[side] if count > 0]

        return of

    return parts


def check_from_above(mechanism: Mechanism, bound: Bound) -> None:
    """None if `bound` is UPPER: a check for mechanisms of which only a dominating loss distribution is known.

    Raises:
      ValueError: if a lower bound is asked for.
    """
    if bound is Bound.LOWER:
        raise ValueError(
            f"bound='lower' must be 'upper': mechanism={mechanism!r} has only a dominating loss distribution"
        )


def step_for(distribution: Distribution, mechanism: Mechanism, resolution: float) -> float:
    """float: the step between losses, in nats, at `resolution` cells per standard deviation of a part's loss.

    Where the losses are atoms, the step divides their distance, so that they lie on the grid.

    Raises:
      TooFineError: if the step is below what doubles resolve, `FINEST`.
    """
    scale, count = distribution.scale(mechanism)
    step = min(math.sqrt(scale / count) / resolution, _COARSEST)
    if (whole := distribution.divided(mechanism)) > 2.0 * step:  # on the grid they are kept as they are
        pairs = math.ceil(0.5 * whole / step)  # of steps: cells merge in pairs where a bound is lower
        step = whole / (2 * pairs)
    if step < FINEST:
        raise TooFineError(f"mechanism={mechanism!r} at resolution={resolution:g} needs losses {step:.3g} apart")
    return step


def plds(
    distribution: Distribution,
    mechanism: Mechanism,
    resolution: float,
    bound: Bound,
    tail: float,
    deltas: Sequence[float],
) -> Callable[[Direction], Pld]:
    """A function ``direction -> Pld``: the composed distribution of `mechanism`, sharpest where delta is in `deltas`.

    Upper or lower, as `bound` says; certified everywhere, also away from `deltas`.
    """
    theorem, relation = distribution.source(mechanism), mechanism.relation  # raises where parts differ in it
    if mechanism.loses_nothing():
        return lambda direction: Pld(0.0, 2.0**-4, np.ones(1), 0.0, bound, direction, relation, theorem)
    step, sharp = step_for(distribution, mechanism, resolution), tuple(deltas)
    of = distribution.parts(mechanism, step, bound, tail)

    def composed(direction: Direction) -> Pld:
        key = distribution, mechanism, step, bound, sharp, direction
        return once(key, tail, lambda: dataclasses.replace(compose_plds(of(direction), sharp), theorem=theorem))

    return composed


def reader(query: Query, target: float) -> tuple[Callable[[Pld], float], tuple[float, ...]]:
    """A function from a `Pld` to the float that answers `query` at `target`, and the deltas where it is to be sharp."""
    if query is Query.EPSILON:  # being sharp nearby is as good, and the deltas of a search then share it
        return lambda loss: loss.epsilon(target), (2.0 ** (_NEARBY * round(math.log2(target) / _NEARBY)),)
    return lambda loss: loss.delta(target), (1.0, *ALL_DELTAS)


def loss_distribution(distribution: Distribution, role: Role | Callable[[Any], Role] = Role.NARROW) -> BracketMethod:
    """The method "loss distribution" of a scheme (class `DistributionMethod`), from the scheme's declaration.

    Args:
      role: as for `Method`.
    """
    return DistributionMethod(
        name="loss distribution",
        theorem=distribution.theorem,
        directions=BOTH,
        ends=frozenset({Bound.UPPER, Bound.LOWER}),
        cost=Cost.TENTHS,
        applies=distribution.exists,
        bracket=functools.partial(_refined, distribution),
        below=distribution.below,
        distribution=distribution,
        role=role,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DistributionMethod(BracketMethod):
    """A bracket that is read off privacy loss distributions, which `jaxacct.pld` also returns."""

    engine: Engine = Engine.DISTRIBUTIONS
    distribution: Distribution

    def is_one_sided(self, mechanism: Mechanism) -> bool:
        """Whether it has no lower end: a part is known from above only, or the lower end is that of an envelope."""
        return self.distribution.is_from_above(mechanism) or self.distribution.is_envelope(mechanism)

    def ends_for(self, mechanism: Mechanism) -> frozenset[Bound]:
        """UPPER alone where it is one-sided."""
        return frozenset({Bound.UPPER}) if self.is_one_sided(mechanism) else super().ends_for(mechanism)


def _refined(
    distribution: Distribution, mechanism: Mechanism, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction, by distributions of growing resolution; they start from the ends known already."""
    upper = {d: float(ends.upper) for d, ends in at.known.items()}
    lower = {d: float(ends.lower) for d, ends in at.known.items()}
    if mechanism.loses_nothing():
        return dict.fromkeys(upper, Ends(0.0, 0.0))
    read, deltas = reader(query, target)
    if distribution.is_from_above(mechanism):
        tail = PLAIN_TAIL
        if query is Query.EPSILON:
            tail = _TAIL * target / max(1, distribution.scale(mechanism)[1])
        most_points = _TOO_MANY_POINTS if min(deltas) > _DEEP else _DEEP_POINTS
        resolution = min(_READ_RESOLUTION, most_points / num_points(*distribution.scale(mechanism)))
        for share in (_COARSER, 1.0) if query is Query.DELTA else (1.0,):
            of = plds(distribution, mechanism, share * resolution, Bound.UPPER, tail, deltas)
            found = {d: of(d) for d in upper}
            values = {d: min(upper[d], read(loss)) for d, loss in found.items()}
            # long because of rare large losses, and deltas far below the one found, which is asked about below anyway
            is_long = max(loss.masses.shape[0] for loss in found.values()) > share * _LONG_LAW
            if share == 1.0 or (is_long and _DEEP < max(values.values()) < 1.0):
                upper = values
                break
        before = math.inf
        while query is Query.DELTA and _DEEP < (high := max(upper.values())) < min(1.0, _MUCH_LESS * before):
            before, tail = high, _TAIL * high / max(1, distribution.scale(mechanism)[1])  # as where epsilon is asked
            of = plds(distribution, mechanism, resolution, Bound.UPPER, tail, (high,))
            upper = {d: min(value, read(of(d))) for d, value in upper.items()}
        return {d: Ends(0.0, value) for d, value in upper.items()}
    most = distribution.largest_loss(mechanism)
    if query is Query.DELTA and target >= most:
        return dict.fromkeys(upper, Ends(0.0, 0.0))
    if query is Query.EPSILON:
        upper = {d: min(value, most) for d, value in upper.items()}
    try:
        scale, count = distribution.scale(mechanism)
        if query is Query.DELTA and target > MAX_LOSS * count:  # where only tails are left
            deltas = (*deltas, *_SMALL_DELTAS)
        if scale > 0.0:  # it may underflow
            tail = _TAIL * min(deltas) / max(1, count)
            _Refinement(distribution, mechanism, tail, read, deltas, upper, lower).narrow(query, at)
    except TooFineError:
        if not max(upper.values()) < query.worst:  # else the largest loss answers, or what is known already
            raise
    if distribution.is_envelope(mechanism):
        return {d: Ends(0.0, value) for d, value in upper.items()}
    return {d: Ends(min(lower[d], upper[d]), upper[d]) for d in upper}


@dataclasses.dataclass(frozen=True)
class _Refinement:
    """The ends known so far, which finer and finer distributions of one mechanism narrow in place.

    Attributes:
      distribution, mechanism, tail, deltas: as for `plds`.
      read: the question, as a function of a distribution.
      upper, lower: the ends in each direction.
    """

    distribution: Distribution
    mechanism: Mechanism
    tail: float
    read: Callable[[Pld], float]
    deltas: Sequence[float]
    upper: dict[Direction, float]
    lower: dict[Direction, float]

    def narrow(self, query: Query, at: Bracketing) -> None:
        """Narrows the ends until they are as close as `at` asks, or no resolution would gain more."""
        # A fine width is reached in stages, each a tenth of the one before, from ten times the default width on. The
        # sequence of grids does not depend on the width asked for, only where it ends; so asking for a finer width
        # never gives less. A coarse look shows which direction is the worse; then comes the resolution that the stage
        # is likely to need.
        constant, stage = self.distribution.width_constant(self.mechanism), max(at.width, query.width / _STAGE)
        goal = math.sqrt(constant / stage)
        resolution, rounds = min(_FIRST_RESOLUTION, goal), 0
        size, usual = self.distribution.scale(self.mechanism), resolution
        each = num_points(*size)  # at resolution 1
        if each * resolution > _TOO_MANY_POINTS:
            resolution = _FIRST_POINTS / each
        elif min(self.deltas) < _DEEP:
            resolution = min(resolution, _DEEP_RESOLUTION)
        if self.distribution.is_light(self.mechanism):
            cells = num_cells(*size, self.distribution.largest_loss(self.mechanism))
            resolution = max(resolution, min(_FINE_FIRST, _FEW_CELLS / cells))
        first, shared_by = resolution, (self.distribution, self.mechanism)
        resolution = noted(shared_by, first)  # a search starts where one of its questions ended, as most work is there
        width, high, idle, look = math.inf, math.inf, 0, self
        is_little = size[0] < _LITTLE**2 * size[1]
        spent, most, least = 0.0, _MUCH_WORK * at.share * max(1.0, query.width / at.width), min(self.deltas)
        while True:
            with counted() as work, shared():
                points, took = timed(functools.partial(look._tighten, resolution))
            spent += work.at(1.0) - work.again
            rounds += 1
            if points is not None:
                each = min(each, points / resolution)  # losses may spread less than their variance says
                note(shared_by, resolution)
            before, least_high = width, (1.0 - at.width) * high
            high, low = max(self.upper.values()), max(self.lower.values())
            width = (high - low) / low if low > 0 else (0.0 if high <= low else math.inf)
            # without gain: below what the tails let a grid resolve (delta of 1e-20 or so), or at its rounding
            idle = idle + 1 if (high > least_high if math.isinf(width) else width > _GAIN * before) else 0
            if math.isfinite(width) and width == before and (is_little or (points or 0) > _FEW_CELLS):
                return  # rounding is all there is
            if least < _DEEP and math.isfinite(width) and width > _NO_GAIN * before:
                return
            if at.progress is not None:
                at.progress(rounds, width)
            if width <= at.width:
                return
            if query is Query.DELTA and high < _DEEP:  # less rounding is booked on coarser grids
                if resolution > first:
                    look._tighten(first)
                return
            if query is Query.EPSILON and least < SMALLEST and rounds > 1 and resolution >= usual:
                return  # more mass than that is booked outside a law
            if query is Query.DELTA and high < least and rounds == 1:
                if points is not None and points <= _FEW_POINTS:
                    deltas = (*self.deltas, *_SMALL_DELTAS)
                    look = dataclasses.replace(self, deltas=deltas, tail=self.tail * _DEEP / least)
                    continue
                if math.isinf(width):
                    return
            is_small = points is not None and points <= _FEW_CELLS
            if idle >= (2 * _MAX_IDLE if is_small else _MAX_IDLE):  # a fine width gets the last resolution too
                wants_more = math.isfinite(width) and at.width < query.width and resolution < _LAST_RESOLUTION
                is_expensive = spent + work.at(_LAST_RESOLUTION / resolution) > most
                if not wants_more or is_expensive or is_too_large(each * _LAST_RESOLUTION):
                    return
                resolution = _LAST_RESOLUTION
                continue
            begins = rounds == 1
            while width <= stage:
                stage, begins = _STAGE * stage, True
            # the error falls with the square of the resolution
            goal = math.sqrt(constant / stage)
            grow = 2.0 if not math.isfinite(width) else min(4.0, max(1.5, 1.1 * math.sqrt(width / stage)))
            finer = goal if begins and goal > resolution else resolution * grow
            if resolution < usual:  # starting there might have been too much
                finer = min(finer, usual, (4.0 if spent + work.at(4.0) <= most else 2.0) * resolution)
            if resolution < _LAST_SHARE * _LAST_RESOLUTION:  # else the last one would add little
                finer = min(finer, _LAST_RESOLUTION)
            # the first look itself may be too coarse for losses near the end of the doubles
            if (points is None and rounds > 1) or finer > _LAST_RESOLUTION:
                return
            if spent + work.at(finer / resolution) > most and width > _LOOSE * at.width:
                finer = min(finer, resolution * work.growth(most - spent))  # what there is time for
                if finer < _LEAST_GROWTH * resolution:
                    return
            ahead = spent + work.at(finer / resolution)
            if ahead > most or is_too_large(each * finer):
                return
            needed = max(finer, resolution * math.sqrt(width / at.width)) if math.isfinite(width) else finer
            likely = min(spent + work.at(needed / resolution), most)  # for this one of several points
            is_long = took * finer > LONG * resolution  # whatever was counted
            if is_long or ahead > _MUCH_WORK * at.share or likely * pieces() > _WORTH_SAYING:
                say_long(f"a relative width of {at.width:g} needs sums of laws with {points or 0:.1g} points or more")
            resolution = finer

    def _tighten(self, resolution: float) -> int | None:
        """Narrows the ends by distributions of one resolution; returns the number of points of the largest of them.

        None if they would be too large to hold. Directions that can no longer be the worse one are left as they are.
        """
        distribution, mechanism, upper, lower = self.distribution, self.mechanism, self.upper, self.lower
        sizes: list[int] = []

        def value(loss: Pld) -> float:
            sizes.append(loss.masses.shape[0])
            return self.read(loss)

        try:
            above, below = (
                plds(distribution, mechanism, resolution, bound, self.tail, self.deltas)
                for bound in (Bound.UPPER, Bound.LOWER)
            )
            if distribution.is_symmetric(mechanism):
                high, low = value(above(Direction.REMOVE)), value(below(Direction.REMOVE))
                upper.update({d: min(known, high) for d, known in upper.items()})
                lower.update({d: max(known, low) for d, known in lower.items()})
                return max(sizes)
            for d in lower:
                if upper[d] > max(lower.values()):
                    upper[d] = min(upper[d], value(above(d)))
                    lower[d] = max(lower[d], value(below(d)))
        except TooFineError:
            return None
        return max(sizes, default=0)
