"""Bounds for a record that is replaced by any other record, or by the empty one.

Any other record (`ReplaceOne`): the worst-case pair is used where it is known (`jaxacct.bounds._mirrored`); without
sampling it amounts to half the noise. Shuffled batches have theorems of their own. Elsewhere there are two upper
bounds: the record is removed and then the other one added, with any split of epsilon; or the record's steps are made
public, and the largest change is that of half the noise in these steps (joint convexity). The lower bounds use that,
where records add to a sum, the other record may contribute nothing.

The empty record (`ZeroOut`): where records take part independently, replacing a record by it amounts to removal.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Method, Query, Role, itself
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds import fixed_batches, group, parallel_poisson, shuffled_batches
from jaxacct.bounds._adjacent_on_lanes import DOUBLED, Asking, doubled, emptied_on_lanes, replaced_on_lanes
from jaxacct.bounds._by_laws import laws
from jaxacct.bounds._distribution import Distribution, Parts, check_from_above, loss_distribution, parts_by_laws
from jaxacct.bounds._mirrored import THEOREM, Mirrored, mirrored
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds._releases import has_law
from jaxacct.bounds._replaced_step import REPLACED_STEP
from jaxacct.bounds._stand_in import in_own_relation, of_stand_in
from jaxacct.bounds._two_steps import adds, in_two_steps, unamplified
from jaxacct.bounds.fixed_batches import FIXED, Adjacency, adjacency_of
from jaxacct.bounds.fixed_batches import bracket as bracket_fixed
from jaxacct.mechanisms import (
    Composed,
    FixedBatches,
    Group,
    ParallelPoisson,
    PoissonSampled,
    PrivateSelection,
    ReplaceOne,
    TruncatedPoisson,
    ZeroOut,
)
from jaxacct.mechanisms._base import Description, Mechanism, Release
from jaxacct.special import LEAST_NORMAL, up

_STEPS = "triangle inequality of hockey-stick divergences (Vadhan 2017, Lemma 2.2)"


# Pairs


def _fixed(mechanism: Any) -> Adjacency | None:
    """What is known of a run with batches of a fixed size, in the adjacency of `mechanism`."""
    return adjacency_of(mechanism.relation, mechanism.mechanism)


def _pair_of(mechanism: Any) -> Mirrored:
    fixed = _fixed(mechanism)
    found = mirrored(mechanism.mechanism) if fixed is None else fixed.pair
    assert found is not None
    return found


def _theorem(mechanism: Any) -> str:
    fixed = _fixed(mechanism)
    return THEOREM if fixed is None else fixed.theorem


_by_laws = parts_by_laws(lambda mechanism, step, side, tail: _pair_of(mechanism).laws(step, side, tail))


def _parts(mechanism: Any, step: float, bound: Bound, tail: float) -> Parts:
    if _is_fixed(mechanism):
        check_from_above(mechanism, bound)
    return _by_laws(mechanism, step, bound, tail)


def _largest(mechanism: Any) -> float:
    pair = _pair_of(mechanism)
    return up(pair.largest_loss * pair.num_steps, 4)


def _scale(mechanism: Any) -> tuple[float, int]:
    return _pair_of(mechanism).whole_scale()


# What stands for a replaced record


def _always_sampled(run: PoissonSampled) -> Mechanism | None:
    release = _stand_in(run.mechanism) if run.sampling_prob == 1.0 else None
    return None if release is None else Composed(release, int(run.num_steps))


def _composed(run: Composed) -> Mechanism | None:
    """The stand-ins of the parts if all have one; else each part in this adjacency, if all have pairs."""
    parts = run.parts()
    found = [_stand_in(part) for part, _ in parts]
    counts = tuple(int(count) for _, count in parts)
    if all(part is not None and part.relation is not ReplaceOne.relation for part in found):
        return Composed(tuple(found), counts)
    if all(_stand_in(part) is not None or _has_own(part) for part, _ in parts):
        return Composed(tuple(ReplaceOne(part) for part, _ in parts), counts)
    return None


def _has_own(part: Any) -> bool:
    """Whether `part` has known loss distributions of its own where a record is replaced."""
    return mirrored(part) is not None or _draws_fixed(part) or shuffled_batches.hides(ReplaceOne(part))


def _of_group(run: Group) -> Mechanism | None:
    one = group.stand_in(run)
    return None if one is None else ReplaceOne(one)


def _of_workers(run: ParallelPoisson) -> Mechanism | None:
    one = parallel_poisson.stand_in(run)
    return None if one is None else ReplaceOne(one)


_STAND_INS: dict[type, Callable[[Any], Mechanism | None]] = {
    **DOUBLED,
    PoissonSampled: _always_sampled,
    Composed: _composed,
    Group: _of_group,
    ParallelPoisson: _of_workers,
}


def _stand_in(run: Mechanism) -> Mechanism | None:
    make = _STAND_INS.get(type(run))
    return None if make is None else make(run)


_OF_FIXED_SIZE = frozenset({FixedBatches, TruncatedPoisson})


def _draws_fixed(run: Description) -> bool:
    """Whether its batches have a fixed size, or are cut to a maximum size."""
    return type(run) in _OF_FIXED_SIZE


def _holds_fixed(run: Description) -> bool:
    """Whether records take each other's places in it, so that an empty record differs from none."""
    return _draws_fixed(run) or any(map(_holds_fixed, run.wrapped()))


def _apart(run: Any) -> Mechanism | None:
    """A composition that holds batches of fixed sizes, with `ZeroOut` around each part; None for others."""
    if run.signature() != (Composed,) or not _holds_fixed(run):
        return None
    return Composed(tuple(ZeroOut(part) for part, _ in run.parts()), run.counts)


def _is_fixed(mechanism: Any) -> bool:
    return is_scalar(mechanism) and (mechanism.relation, mechanism.mechanism.signature()) in FIXED


def _has_pair(mechanism: ReplaceOne) -> bool:
    return is_scalar(mechanism) and (_is_fixed(mechanism) or mirrored(mechanism.mechanism) is not None)


def _has_stand_in(mechanism: ReplaceOne) -> bool:
    return is_scalar(mechanism) and not _has_pair(mechanism) and _stand_in(mechanism.mechanism) is not None


def _has_neither(mechanism: ReplaceOne) -> bool:
    if not is_scalar(mechanism) or shuffled_batches.is_shuffled(mechanism):
        return False
    return not _has_pair(mechanism) and not _has_stand_in(mechanism)


def _by_stand_in(mechanism: ReplaceOne, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    run = _stand_in(mechanism.mechanism)
    assert run is not None
    found = at.ask(run, query, target, at.width, wants_lower=at.wants_lower)
    less = shuffled_batches.explicit(mechanism.mechanism) if run.relation is ReplaceOne.relation else None
    if at.wants_lower and less is not None:
        lower = at.ask(less, query, target, at.width, wants_lower=True).lower
        found = Ends(min(max(found.lower, lower), found.upper), found.upper)
    return dict.fromkeys(at.known, found)


# Removed, then added


def _through_none(
    mechanism: ReplaceOne, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """Upper ends by two steps, or by public steps; lower ends by a record that contributes nothing."""
    run = mechanism.mechanism
    if run.loses_nothing():
        return dict.fromkeys(at.known, Ends(0.0, 0.0))
    whole = unamplified(run)
    upper = query.worst if whole is None else at.ask(whole, query, target, at.width, wants_lower=False).upper
    if upper > LEAST_NORMAL:  # no bound above 0 is smaller
        upper = min(upper, in_two_steps(run, query, target, at))
    has_lower = at.wants_lower and adds(run)
    lower = at.ask(run, query, target, at.width, wants_lower=True).lower if has_lower else 0.0
    return dict.fromkeys(at.known, Ends(min(lower, upper), upper))


# Records that become empty


def _alone(mechanism: ZeroOut) -> Any:
    """The run to analyse if the record becomes empty; None where an empty record still takes a place."""
    run = mechanism.mechanism
    return _apart(run) if _holds_fixed(run) else run


def _without(mechanism: ZeroOut, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends of that run: of the worse direction if both directions are asked, else of the one asked."""
    direction = None if len(at.known) > 1 else next(iter(at.known))
    ends = at.ask(_alone(mechanism), query, target, at.width, wants_lower=at.wants_lower, direction=direction)
    return dict.fromkeys(at.known, ends)


# Compositions


def _all_together(mechanism: Composed, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """Runs in one adjacency are one run in it."""
    whole = together(mechanism)
    assert whole is not None
    return {d: at.ask(whole, query, target, at.width, wants_lower=at.wants_lower) for d in at.known}


def together(mechanism: Composed) -> Any:
    """A mechanism: the parts composed inside their adjacency; None unless all are `ReplaceOne` or all `ZeroOut`."""
    parts: Any = mechanism.parts()
    kinds: Any = {type(part) for part, _ in parts}
    if kinds not in ({ReplaceOne}, {ZeroOut}):
        return None
    return kinds.pop()(Composed(tuple(part.mechanism for part, _ in parts), mechanism.counts))


def _is_of_pairs(mechanism: Composed) -> bool:
    """Whether the stand-in of the whole is the composition of the parts' pairs."""
    whole = together(mechanism)
    if whole.relation is ZeroOut.relation:
        return _apart(whole.mechanism) is not None
    run = _stand_in(whole.mechanism)
    return run is not None and run.relation is ReplaceOne.relation


_OPTIONS: dict[str, Any] = {"directions": BOTH, "cost": Cost.TENTHS}
_ENDS = frozenset({Bound.UPPER, Bound.LOWER})

TOGETHER = BracketMethod(
    name="together",
    theorem="the parts as one run, in their adjacency",
    ends=_ENDS,
    applies=lambda mechanism: is_scalar(mechanism) and together(mechanism) is not None and not _is_of_pairs(mechanism),
    bracket=_all_together,
    below=itself,
    regime="of ReplaceOne or of ZeroOut",
    **_OPTIONS,
)


def _has_pair_or_is_empty(mechanism: Any) -> bool:
    return not mechanism.loses_nothing() and (
        _is_fixed(mechanism) if len(mechanism.directions) > 1 else _has_pair(mechanism)
    )


_PAIRS = Distribution(
    theorem=_theorem,
    parts=in_own_relation(_parts),
    scale=_scale,
    largest_loss=_largest,
    below=itself,
    width_constant=lambda mechanism: 0.5,
    divided=lambda mechanism: _pair_of(mechanism).divided,
    is_from_above=_is_fixed,
    exists=_has_pair_or_is_empty,
    is_symmetric=lambda mechanism: len(mechanism.directions) == 1,
)


def _of_stand_in(
    distribution_of: Callable[..., Distribution | None], make: Callable[[Any], Any], theorem: str
) -> Distribution:
    """The loss distributions of the stand-in for a mechanism with concrete numbers."""
    found = of_stand_in(distribution_of, lambda mechanism: make(mechanism) if is_scalar(mechanism) else None, theorem)
    return dataclasses.replace(found, parts=in_own_relation(found.parts))


def _may_end(mechanism: Mechanism) -> bool:
    """Whether deltas may drop to 0 abruptly: of one release, and of the best of several."""
    run: Any = mechanism
    return isinstance(run.mechanism if run.signature() == (PrivateSelection,) else run, Release)


def tables(
    distribution_of: Callable[..., Distribution | None], asking: Asking
) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods, from the functions that bound the stand-in for a run."""
    stand_ins = _of_stand_in(
        distribution_of,
        lambda mechanism: None if _has_pair(mechanism) else _stand_in(mechanism.mechanism),
        "sensitivities double; " + THEOREM,
    )

    same = _of_stand_in(distribution_of, _alone, "an empty record is none")
    replaced = BracketMethod(
        name="replaced",
        theorem="sensitivities double; " + THEOREM,
        ends=_ENDS,
        applies=_has_stand_in,
        bracket=_by_stand_in,
        below=itself,
        regime="Gaussian, Laplace and discrete noise, mixtures and groups of Gaussians, composed",
        **_OPTIONS,
    )
    removed = BracketMethod(
        name="removed, then added",
        theorem=_STEPS,
        ends=_ENDS,
        applies=_has_neither,
        bracket=_through_none,
        below=itself,
        misses_deltas=lambda mechanism: _may_end(mechanism.mechanism),
        regime="all others",
        **_OPTIONS,
    )
    fixed = BracketMethod(
        name="fixed batches",
        theorem="joint convexity: batches that are known; data that attain Poisson sampling",
        ends=_ENDS,
        applies=_is_fixed,
        bracket=lambda mechanism, *asked: bracket_fixed(mechanism.mechanism, mechanism.relation, *asked),
        below=itself,
        regime="FixedBatches and TruncatedPoisson",
        **_OPTIONS,
    )
    empty = BracketMethod(
        name="removed",
        theorem="an empty record is none: records take part independently",
        ends=_ENDS,
        bracket=_without,
        below=itself,
        applies=lambda mechanism: is_scalar(mechanism) and _alone(mechanism) is not None,
        regime="records that take part independently",
        **_OPTIONS,
    )
    return {
        **fixed_batches.tables(functools.partial(_of_stand_in, distribution_of)),
        (ReplaceOne,): (
            replaced,
            removed,
            fixed,
            REPLACED_STEP,
            *shuffled_batches.REPLACED,
            loss_distribution(_PAIRS),
            loss_distribution(stand_ins, Role.BY_NAME),
            laws(applies=lambda mechanism: has_law(mechanism) and doubled(mechanism.mechanism) is None),
            *replaced_on_lanes(asking),
        ),
        (ZeroOut,): (
            empty,
            fixed,
            loss_distribution(_PAIRS),
            loss_distribution(same, Role.BY_NAME),
            *emptied_on_lanes(asking, _alone),
        ),
    }
