"""Two-sided certified answers: by moment inversion where it is sharp, else by refined privacy loss distributions."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxacct._answering import DELTA, EPSILON, Query, ask, decide
from jaxacct._checking import check_scalars
from jaxacct._host_methods import OVERLAP, exact_ends, has_exact, host_methods_for, worst
from jaxacct._methods import has_methods, methods_for, relation_of
from jaxacct._pld_composition import ALL_DELTAS, compose_plds
from jaxacct._shuffle_methods import PAIR_FROM_BELOW
from jaxacct._types import Bound, Direction, TooFineError
from jaxacct._validate import check_delta, check_epsilon, check_positive, checked_number
from jaxacct.bounds._allocation_contour import ComposedProfile, composes
from jaxacct.bounds._largest_loss import largest_loss
from jaxacct.bounds._privacy_loss import loss_scale, parts_of, width_constant
from jaxacct.bounds._shuffled_distribution import has_pair
from jaxacct.curves import Pld
from jaxacct.mechanisms import (
    CheckIn,
    Composed,
    DiscretePair,
    FiniteRandomizer,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    LocalRandomizer,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
    Shuffled,
)

# Cells for one standard deviation of a part's loss: where refinement starts, and where it gives up.
_FIRST_RESOLUTION = 4.0
_LAST_RESOLUTION = 768.0
_MEMORY_LIMIT = 2**31
_FIRST_STAGE = (0.1, 0.01)  # precision of delta, and of epsilon, that is reached before a finer one is tried
_MAX_IDLE = 3  # rounds in a row
_FINE = 1e-3  # a smaller width is met sooner by moments than by a grid
_FINEST, _COARSEST = 2.0**-40, 16.0  # steps between losses: beyond them rounding, or overflow, is all there is
_TAIL = 1e-7  # of delta, for what a discretisation step may cut off at either end


class Interval(NamedTuple):
    """A certified interval.

    `lower` and `upper` bound the mechanism's own value. `analysis_lower` bounds from below the value of what was
    analysed; it differs from `lower` only where the analysis is a reduction (random allocation of several steps,
    shuffling), whose value may lie above the mechanism's. The precision asked for is met by `upper` against
    `analysis_lower`. For a class of local randomizers `lower` is that of one of them.

    >>> import jaxacct as ja
    >>> found = ja.epsilon_interval(ja.Gaussian(1.0), target_delta=1e-6)
    >>> 4.886554 <= found.lower <= found.upper <= 4.886555, found.lower == found.analysis_lower
    (True, True)
    """

    lower: Any
    upper: Any
    analysis_lower: Any


class PrecisionWarning(UserWarning):
    """The interval holds, but is wider than the precision that was asked for.

    >>> import warnings, jaxacct as ja
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     wide = ja.epsilon_interval(ja.Composed(ja.Laplace(1.0), 5), target_delta=1e-3, precision=1e-12)
    >>> caught[-1].category.__name__
    'PrecisionWarning'
    """


def _atom(mechanism: Any) -> float:
    """A loss that has mass by itself and should be on the grid, or 0: the largest of a Laplace release."""
    if isinstance(mechanism, Laplace):
        return 1.0 / max(float(mechanism.noise_multiplier), _FINEST)
    if isinstance(mechanism, PoissonSampled):
        return math.log1p(float(mechanism.sampling_prob) * math.expm1(min(_atom(mechanism.mechanism), 700.0)))
    return max(map(_atom, mechanism.mechanisms), default=0.0) if isinstance(mechanism, Composed) else 0.0


def _plds(
    mechanism: Any, resolution: float, bound: Bound, tail: float, deltas: Sequence[float]
) -> Callable[[Direction], Pld]:
    theorem = distribution_theorem(mechanism)
    if _loses_nothing(mechanism):
        relation = relation_of(mechanism)
        return lambda direction: Pld(0.0, 2.0**-4, np.ones(1), 0.0, bound, direction, relation, theorem)
    scale, count = loss_scale(mechanism)
    step = min(math.sqrt(scale / count) / resolution, _COARSEST)
    if (atom := _atom(mechanism)) > step:  # on the grid it is kept as it is
        step = atom / math.ceil(atom / step)
    if step < _FINEST:
        raise TooFineError(f"mechanism={mechanism!r} at resolution={resolution:g} asks for losses {step:.3g} apart")
    of = parts_of(mechanism, step, bound, tail)
    return lambda direction: dataclasses.replace(compose_plds(of(direction), deltas), theorem=theorem)


def pld(
    mechanism: Any,
    *,
    direction: Direction = Direction.REMOVE,
    bound: Bound = Bound.UPPER,
    resolution: float = 24.0,
    tail: float = 1e-22,
) -> Pld:
    """The privacy loss distribution of `mechanism` in one direction, certified on one side.

    Upper: dominates it at every epsilon, also under further composition. Lower: is dominated by what was analysed (for
    random allocation with num_selected > 1 that is the reduction of Lemma 3.2, which may lie above the mechanism).
    Both err by the square of the step.

    Args:
      mechanism: `Gaussian`, `PoissonSampled`, `RandomAllocation`, or `Composed` of them, with scalar fields.
      direction: REMOVE or ADD.
      bound: UPPER or LOWER.
      resolution: grid points for one standard deviation of a part's loss, > 0.
      tail: mass in (0, 1) that a discretisation step may cut off at either end, on the safe side.

    Raises:
      ValueError: if an argument is out of range or traced, or the mechanism has no loss distribution here.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> loss = ja.pld(run)
    >>> round(loss.epsilon(1e-6), 2)
    0.86
    """
    check_scalars(mechanism)
    checked_number("resolution", resolution)
    check_positive("resolution", resolution)
    checked_number("tail", tail)
    check_delta("tail", tail)
    if bound is Bound.ESTIMATE or not isinstance(bound, Bound):
        raise ValueError(f"bound={bound!r} must be Bound.UPPER or Bound.LOWER")
    if not isinstance(direction, Direction):
        raise ValueError(f"direction={direction!r} must be Direction.REMOVE or Direction.ADD")
    return _plds(mechanism, float(resolution), bound, float(tail), (1.0, *ALL_DELTAS))(direction)


Progress = Callable[[int, float], None]


def epsilon_interval(
    mechanism: Any, target_delta: float, *, precision: float | None = None, progress: Progress | None = None
) -> Interval:
    """A certified interval around the epsilon of `mechanism` at `target_delta`; the worse of both directions.

    Args:
      mechanism: `Gaussian`, `PoissonSampled`, `RandomAllocation`, or `Composed` of them; scalar fields, concrete.
      target_delta: float in (0, 1).
      precision: the relative width to reach, > 0, 1 % where None: upper - analysis_lower <= precision * analysis_lower.
      progress: called with (round, relative width) after each refinement.

    Returns:
      An `Interval`. A `PrecisionWarning` says so if the width was not reached.

    Raises:
      ValueError: if an argument is out of range or traced.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=1000)
    >>> interval = ja.epsilon_interval(run, target_delta=1e-6)
    >>> 0.17172868 <= interval.lower <= interval.upper <= 0.17172869
    True
    """
    check_delta("target_delta", target_delta)
    check_scalars(mechanism, target_delta)
    width = 0.01 if precision is None else precision
    checked_number("precision", width)
    return interval_of(mechanism, EPSILON, float(target_delta), width, progress)


def delta_interval(
    mechanism: Any, target_epsilon: float, *, precision: float | None = None, progress: Progress | None = None
) -> Interval:
    """A certified interval around the delta of `mechanism` at `target_epsilon`; the worse of both directions.

    Arguments and errors as for `epsilon_interval`; `precision` is the relative width of delta, 10 % where None.

    >>> import jaxacct as ja
    >>> interval = ja.delta_interval(ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100), target_epsilon=0.5)
    >>> interval.lower <= 4.40890803386304e-5 <= interval.upper <= (1 + 1e-9) * interval.lower
    True
    """
    check_epsilon("target_epsilon", target_epsilon)
    check_scalars(mechanism, target_epsilon)
    width = 0.1 if precision is None else precision
    checked_number("precision", width)
    return interval_of(mechanism, DELTA, float(target_epsilon), width, progress)


def interval_of(
    mechanism: Any,
    query: Query,
    target: float,
    precision: float,
    progress: Progress | None = None,
    directions: Sequence[Direction] = tuple(Direction),
) -> Interval:
    """The interval of epsilon (or delta) at `target`, the larger over `directions`."""
    check_positive("precision", precision)
    if isinstance(mechanism, Shuffled | CheckIn):
        found = _by_methods(mechanism, query, target)
        if int(mechanism.num_epochs) == 1 or not has_distribution(mechanism):
            return found
        start = {Direction.REMOVE: found.upper}, {Direction.REMOVE: found.analysis_lower}
        finer = refined(mechanism, query, target, precision, progress, *start)
        return Interval(min(found.lower, finer.upper), finer.upper, finer.analysis_lower)
    if isinstance(mechanism, Composed) and holds_reports(mechanism):
        return _of_composed_reports(mechanism, query, target, precision, progress)
    upper, lower = dict.fromkeys(directions, query.worst), dict.fromkeys(directions, 0.0)
    if has_exact(mechanism):
        for d in directions:
            ends = exact_ends(mechanism, query, target, d, precision)
            lower[d], upper[d] = float(ends.lower), float(ends.upper)
        high, low = max(upper.values()), max(lower.values())
        if high - low <= precision * low:
            return Interval(low, high, low)
    found = Interval(0.0, math.inf, 0.0)
    # grids are chosen as if there were no moments: those of less precision are among them
    moments = dict(upper), dict(lower)
    if precision < _FINE and composes(mechanism):
        found = _by_moments(mechanism, query, target, *moments)
    if math.isinf(found.upper) or found.upper - found.analysis_lower > precision * found.analysis_lower:
        finer = refined(mechanism, query, target, precision, progress, upper, lower)
        high = min(found.upper, finer.upper)
        low, analysed = max(found.lower, finer.lower), max(found.analysis_lower, finer.analysis_lower)
        found = Interval(min(low, high), high, min(analysed, high))
    upper = {d: min(value, moments[0][d]) for d, value in upper.items()}
    if not isinstance(mechanism, RandomAllocation):
        return found
    # what does without the reduction
    low, high = found.lower, found.upper
    for method in host_methods_for(mechanism) if _is_reduction(mechanism) else ():
        if method.bound is Bound.LOWER:
            low = max(low, worst(method, mechanism, query, target, tuple(directions)))
    if _is_reduction(mechanism) and Direction.REMOVE in directions:
        overlap = worst(OVERLAP, mechanism, query, target, (Direction.REMOVE,))
        high = min(high, max(min(upper[Direction.REMOVE], overlap), upper.get(Direction.ADD, 0.0)))
    return Interval(min(low, high), high, min(found.analysis_lower, high))


def _loses_nothing(mechanism: Any) -> bool:
    """Whether the two neighbours cannot differ: nothing sampled, or one law on both sides."""
    if isinstance(mechanism, Composed):
        return all(_loses_nothing(part) for part in mechanism.mechanisms)
    if isinstance(mechanism, PoissonSampled):
        return bool(mechanism.sampling_prob == 0) or _loses_nothing(mechanism.mechanism)
    if isinstance(mechanism, RandomAllocation | PartialAllocation | Shuffled):
        return _loses_nothing(mechanism.mechanism)
    if isinstance(mechanism, LocalRandomizer | KaryRandomizedResponse | FiniteRandomizer):
        return mechanism.local_epsilon == 0 and getattr(mechanism, "local_delta", 0.0) == 0
    return isinstance(mechanism, DiscretePair) and mechanism.p == mechanism.q


def is_from_above(mechanism: Any) -> bool:
    """Whether some part is a `Pld`: known from above only, and on its own grid."""
    return any(isinstance(leaf, Pld) for leaf in jax.tree.leaves(mechanism))


def holds_reports(mechanism: Any) -> bool:
    """Whether some part is analysed by a pair that dominates it, which bounds it from above only."""
    if isinstance(mechanism, Composed):
        return any(holds_reports(part) for part in mechanism.mechanisms)
    return isinstance(mechanism, Shuffled | CheckIn)


def _of_composed_reports(
    mechanism: Composed, query: Query, target: float, precision: float, progress: Progress | None
) -> Interval:
    upper = float(decide(mechanism, query, target, (Direction.REMOVE,), None, is_final=False).value)
    if upper >= query.worst:
        upper = _part_by_part(mechanism, query, target, precision)
    lower = _largest_part(mechanism, query, target)
    if not has_distribution(mechanism):
        return Interval(min(lower, upper), upper, min(lower, upper))
    finer = refined(mechanism, query, target, precision, progress, {Direction.REMOVE: upper}, {Direction.REMOVE: 0.0})
    return Interval(min(lower, finer.upper), finer.upper, finer.analysis_lower)


def _part_by_part(mechanism: Composed, query: Query, target: float, precision: float) -> float:
    """From above, by basic composition: the runs share the target equally, their answers add up.

    For parts without Renyi divergences, as approximate randomizers.
    """
    share = target / sum(mechanism.counts) * (1.0 - 2.0**-50)
    parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
    total = math.fsum(count * interval_of(part, query, share, precision).upper for part, count in parts)
    return min(total * (1.0 + 2.0**-50), query.worst)


def _largest_part(mechanism: Any, query: Query, target: float) -> float:
    """From below: a composition reveals no less than any of its parts."""
    if isinstance(mechanism, Composed):
        return max(_largest_part(part, query, target) for part in mechanism.mechanisms)
    return float(_by_methods(mechanism, query, target).lower)


def _by_moments(
    mechanism: Any, query: Query, target: float, upper: dict[Direction, float], lower: dict[Direction, float]
) -> Interval:
    """The interval by the complex moments of each round; narrows `upper` and `lower` of what was analysed."""
    for d in upper:
        profile = ComposedProfile([mechanism], [1.0], d)
        ends = profile.epsilon(target) if query is EPSILON else profile.delta(target)
        upper[d] = min(upper[d], float(np.min(ends.upper)))
        lower[d] = max(lower[d], float(np.max(ends.lower)))
    high, low = max(upper.values()), max(lower.values())
    if not _is_reduction(mechanism):
        return Interval(low, high, low)
    single = _single(mechanism)
    under = max(float(exact_ends(single, query, target, d).lower) for d in upper) if has_exact(single) else 0.0
    return Interval(min(under, high), high, low)


def has_distribution(mechanism: Any) -> bool:
    """Whether a privacy loss distribution of `mechanism` can be made here."""
    if isinstance(mechanism, Composed):
        return all(has_distribution(part) for part in mechanism.mechanisms)
    return not isinstance(mechanism, CheckIn) and (not isinstance(mechanism, Shuffled) or has_pair(mechanism))


def _by_methods(mechanism: Any, query: Query, target: float) -> Interval:
    """The interval of a mechanism whose methods bound it from both sides."""
    upper = float(decide(mechanism, query, target, (Direction.REMOVE,), None).value)
    below = [m for m in methods_for(mechanism) if m.bound is Bound.LOWER]
    lower = max((float(ask(m, mechanism, query, target).value) for m in below), default=0.0)
    paired = isinstance(mechanism, Shuffled) and has_pair(mechanism)
    pair = float(ask(PAIR_FROM_BELOW, mechanism, query, target).value) if paired else 0.0
    return Interval(min(lower, upper), upper, min(max(lower, pair), upper))


def refined(
    mechanism: Any,
    query: Query,
    target: float,
    precision: float,
    progress: Progress | None,
    upper: dict[Direction, float],
    lower: dict[Direction, float],
) -> Interval:
    """The interval by privacy loss distributions, from a first bracket in each direction.

    A fine precision is reached in stages, each a tenth of the one before, from the one that is meant by None: the
    grids do not depend on the precision, but for when it is enough. So none finds less than a coarser one.
    """
    directions = tuple(upper)
    if is_from_above(mechanism):
        read, _ = reader(query, target)
        high = max(min(value, read(pld(mechanism, direction=d))) for d, value in upper.items())
        return Interval(0.0, high, 0.0)
    most = largest_loss(mechanism)
    if _loses_nothing(mechanism) or (query is DELTA and target >= most):
        return Interval(0.0, 0.0, 0.0)
    if query is EPSILON:
        upper.update({d: min(value, most) for d, value in upper.items()})
    known = has_methods(mechanism)
    try:
        has_grid = loss_scale(mechanism)[0] > 0.0  # it may underflow
    except TooFineError:
        if not known and max(upper.values()) >= query.worst:
            raise
        has_grid = False
    if not has_grid:
        quick = float(decide(mechanism, query, target, directions, None).value) if known else query.worst
        high, low = min(max(upper.values()), quick), max(lower.values())
        return Interval(0.0 if _is_reduction(mechanism) else min(low, high), high, min(low, high))
    read, deltas = reader(query, target)
    # a coarse look tells which direction counts; then the resolution that the precision is likely to need
    constant = width_constant(mechanism)
    stage = max(precision, _FIRST_STAGE[query is EPSILON])
    goal = math.sqrt(constant / stage)
    resolution, rounds = min(_FIRST_RESOLUTION, goal), 0
    tail = _TAIL * min(deltas) / max(1, loss_scale(mechanism)[1])
    width, idle = math.inf, 0
    while True:
        fits = _tightened(mechanism, resolution, tail, read, deltas, upper, lower)
        rounds += 1
        high, low = max(upper.values()), max(lower.values())
        before, width = width, (high - low) / low if low > 0 else (0.0 if high <= low else math.inf)
        # without gain: below what the tails let a grid resolve (delta of 1e-20 or so), or at its rounding
        idle = idle + 1 if width > 0.8 * before or math.isinf(width) else 0
        if progress is not None:
            progress(rounds, width)
        if width <= precision:
            break
        begins = rounds == 1
        while width <= stage:
            stage, begins = 0.1 * stage, True
        # the error falls with the square of the resolution
        goal = math.sqrt(constant / stage)
        grow = 2.0 if not math.isfinite(width) else min(4.0, max(1.5, 1.1 * math.sqrt(width / stage)))
        finer = goal if begins and goal > resolution else resolution * grow
        if resolution < 0.75 * _LAST_RESOLUTION:  # else the last one would add little
            finer = min(finer, _LAST_RESOLUTION)
        # the coarse look itself may be too coarse for losses near the end of the doubles
        too_fine = (
            (not fits and rounds > 1) or finer > _LAST_RESOLUTION or _needed_bytes(mechanism, finer) > _MEMORY_LIMIT
        )
        if idle >= _MAX_IDLE or too_fine:
            if has_methods(mechanism):
                high = min(high, float(decide(mechanism, query, target, directions, None, is_final=False).value))
            message = f"relative width {width:.3g} instead of {precision:g}: the interval holds, but is wider"
            warnings.warn(message, PrecisionWarning, stacklevel=4)
            break
        resolution = finer
    if not _is_reduction(mechanism):
        return Interval(low, high, low)
    single = dict.fromkeys(directions, 0.0)
    _tightened(_single(mechanism), resolution, tail, read, deltas, {}, single)
    return Interval(min(max(single.values()), high), high, min(low, high))


def _tightened(
    mechanism: Any,
    resolution: float,
    tail: float,
    read: Callable[[Pld], float],
    deltas: Sequence[float],
    upper: dict[Direction, float],
    lower: dict[Direction, float],
) -> bool:
    """Narrows `upper` and `lower` by what distributions of a resolution say; False if they would be too large to hold.

    Directions that can no longer be the worse one are left as they are.
    """
    try:
        above = _plds(mechanism, resolution, Bound.UPPER, tail, deltas) if upper else None
        below = _plds(mechanism, resolution, Bound.LOWER, tail, deltas)
        for d in lower:
            if upper.get(d, math.inf) > max(lower.values()):
                if above is not None:
                    upper[d] = min(upper[d], read(above(d)))
                lower[d] = max(lower[d], read(below(d)))
    except TooFineError:
        return False
    return True


def reader(query: Query, target: float) -> tuple[Callable[[Pld], float], tuple[float, ...]]:
    """How a distribution answers, and the deltas around which it is to be sharp."""
    if query is EPSILON:
        return lambda loss: loss.epsilon(target), (target,)
    return lambda loss: loss.delta(target), (1.0, *ALL_DELTAS)


def distribution_theorem(mechanism: Any) -> str:
    """By which theorem the analysed distributions dominate `mechanism`."""
    if isinstance(mechanism, Composed):
        return "; ".join(dict.fromkeys(distribution_theorem(part) for part in mechanism.mechanisms))
    if isinstance(mechanism, RandomAllocation | PartialAllocation | ScheduledAllocation):
        return "Feldman & Shenfeld 2025, Theorem 3.1 and Lemma 3.2"
    if isinstance(mechanism, Shuffled):
        return "Feldman, McMillan & Talwar 2021, Theorem 3.2"
    if isinstance(mechanism, CheckIn):
        return "Feldman, McMillan & Talwar 2021, Theorems 3.2 and 3.8, Lemma 2.3 over the visible number"
    if isinstance(mechanism, PoissonSampled):
        return "Zhu, Dong & Wang 2022, Theorem 11"
    if isinstance(mechanism, Gaussian):
        return "Balle & Wang 2018, Theorem 8"
    return getattr(mechanism, "theorem", "") or "the pair's own loss distribution"


def _needed_bytes(mechanism: Any, resolution: float) -> float:
    """What a refinement would hold at once, roughly: a score of arrays over the composition's window."""
    scale, count = loss_scale(mechanism)
    window = 40.0 * max(math.sqrt(scale), scale) + 30.0
    return 200.0 * window / math.sqrt(scale / count) * resolution


def _is_reduction(mechanism: Any) -> bool:
    if isinstance(mechanism, Composed):
        return any(_is_reduction(part) for part in mechanism.mechanisms)
    return isinstance(mechanism, RandomAllocation) and 1 < mechanism.num_selected < mechanism.num_steps


def _single(mechanism: Any) -> Any:
    """The mechanism with each record in one step where it was in several: it reveals less (Lemma D.2)."""
    if isinstance(mechanism, Composed):
        return Composed(tuple(_single(part) for part in mechanism.mechanisms), mechanism.counts)
    if _is_reduction(mechanism):
        return RandomAllocation(mechanism.mechanism, mechanism.num_steps, 1, mechanism.num_epochs)
    return mechanism
