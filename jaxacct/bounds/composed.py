"""Every method of `Composed`, by folding over its parts.

Compositions of Gaussian and Poisson-sampled rounds, of allocation, or of releases with few outputs have exact methods
of their own; everything else composes by adding Renyi divergences and by convolving loss distributions.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jaxacct._jax import Array, jax
from jaxacct._method import (
    BOTH,
    FRACTIONAL_TOP,
    MANY_TOGETHER,
    Bracketing,
    BracketMethod,
    Cost,
    LaneMethod,
    Method,
    Query,
    RenyiMethod,
    Role,
    always,
    itself,
    only_where,
    orders_bytes,
)
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends, NeighboringRelation
from jaxacct.bounds import (
    above_threshold,
    adjacent,
    allocation,
    check_in,
    correlated,
    discrete,
    gaussian,
    given,
    group,
    laplace,
    noise_on_counts,
    parallel_poisson,
    poisson,
    pure,
    sampled_runs,
    selection,
    shuffle,
    shuffled_batches,
)
from jaxacct.bounds._adjacent_on_lanes import Asking
from jaxacct.bounds._by_laws import laws, laws_of_reports
from jaxacct.bounds._composed_distribution import composed_distribution
from jaxacct.bounds._distribution import Distribution, DistributionMethod, loss_distribution
from jaxacct.bounds._equal_rounds import EQUAL_ROUNDS, whole_run
from jaxacct.bounds._host_line import LAPLACE, exact, is_of_gaussians
from jaxacct.bounds._known_laws import Known, known
from jaxacct.bounds._moments import moments
from jaxacct.bounds._orders import MIXED
from jaxacct.bounds._parts import flattened, is_scalar
from jaxacct.bounds._releases import LISTED, has_law, has_laws
from jaxacct.bounds._table import merged
from jaxacct.bounds.allocation._threshold_test import THRESHOLD_TEST, has_several_steps
from jaxacct.bounds.shuffle._pure_rounds import PURE_PARTS
from jaxacct.composition import compose_rdp
from jaxacct.mechanisms import Composed, EpsilonDelta
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special._namespace import xp

_SHARE_DOWN = 1.0 - 2.0**-50  # rounds a share of the target down: a quotient and a sum, fewer than four roundings
_SUM_UP = 1.0 + 2.0**-50  # rounds up a sum of products, which is exact but for one last rounding

_Kind = TypeVar("_Kind", bound=Method)

RenyiPlan = tuple[tuple[RenyiMethod, Callable[..., Array], tuple[tuple[str, Any], ...]], ...]
"""The Renyi methods to take the least of, each with its curve in one direction and its static arguments."""


def methods_of(mechanism: Mechanism, kind: type[_Kind], *, is_batch: bool = False) -> tuple[_Kind, ...]:
    """A tuple of the methods of a kind that cover `mechanism`, in declared order; () where its signature has none.

    For a batch (array fields) that includes every method on the host, even if it covers only some of the points: points
    are checked one by one. The same holds for traced fields: asked by name, such a method says what it needs.
    """
    every = [m for m in METHODS.get(mechanism.signature(), ()) if isinstance(m, kind)]
    has_brackets = any(isinstance(m, BracketMethod) for m in every)  # to look for tracers costs microseconds
    unasked = BracketMethod if is_batch or (has_brackets and is_traced(mechanism)) else ()
    return tuple(m for m in every if isinstance(m, unasked) or m.applies(mechanism))


def lanes_of(mechanism: Mechanism, kind: type[_Kind]) -> tuple[_Kind, ...]:
    """A tuple of the methods of a kind, on lanes, that cover `mechanism` whatever its numbers."""
    return tuple(m for m in methods_of(mechanism, kind) if m is not _KNOWN)


def has_quick(mechanism: Mechanism) -> bool:
    """bool: whether methods on lanes (of a composition, for each part) answer quick questions about it.

    Elsewhere no method is quicker than the one that answers all questions.
    """
    if mechanism.signature() == (Composed,):
        return all(has_quick(part) for part, _ in mechanism.parts())
    every = methods_of(mechanism, LaneMethod)
    return any(Bound.UPPER in m.ends and m.role_for(mechanism) in (Role.QUICK, Role.EXACT, Role.LAST) for m in every)


def has_best_in_programs(mechanism: Mechanism) -> bool:
    """bool: whether a method is the best one in programs, so that nothing is asked after it there."""
    return any(m.role_for(mechanism) is Role.BEST_IN_PROGRAMS for m in methods_of(mechanism, LaneMethod))


def distribution_of(mechanism: Mechanism) -> Distribution | None:
    """The declaration (`Distribution`) of the loss distributions of `mechanism`; None where there is none."""
    return next((m.distribution for m in methods_of(mechanism, DistributionMethod)), None)


def has_lanes(mechanism: Mechanism) -> bool:
    """bool: whether methods on lanes bound `mechanism` (of a composition, each part) from above, whatever its numbers.

    If so, traced programs can compute bounds on it.
    """
    if mechanism.signature() == (Composed,):
        return all(has_lanes(part) for part, _ in mechanism.parts())
    return any(Bound.UPPER in m.ends for m in lanes_of(mechanism, LaneMethod))


def known_of(mechanism: Mechanism) -> Known | None:
    """What is known (class `Known`) of the loss distributions of a mechanism; None where a number is traced."""
    return known(mechanism, distribution_of)


def answers_in_programs(mechanism: Mechanism) -> bool:
    """bool: whether traced programs bound `mechanism` from above, by methods on lanes or known loss distributions."""
    return has_lanes(mechanism) or _KNOWN in methods_of(mechanism, LaneMethod)


def unknown_numbers(mechanism: Mechanism) -> tuple[str, ...]:
    """A tuple of str: the traced numbers and arrays that keep their parts from having laws, as "Part.field"."""
    parts = [part for part, _ in flattened(mechanism) if not has_law(part)]
    found = [
        f"{type(part).__name__}{jax.tree_util.keystr(path)}"
        for part in parts
        for path, leaf in jax.tree_util.tree_flatten_with_path(part)[0]
        if not is_scalar(leaf)
    ]
    return tuple(dict.fromkeys(found))


# Renyi divergences


def renyi_plan(mechanism: Mechanism, direction: Direction) -> RenyiPlan:
    """A tuple of (Renyi method, its curve, its static arguments), of which to take the least in one direction.

    Hashable, so that a kernel can be compiled for it. Holds only the first Renyi method where all are `Role.BY_NAME`.
    """
    usable = [m for m in methods_of(mechanism, RenyiMethod) if direction in m.directions]
    usable = [m for m in usable if m.role_for(mechanism) is not Role.BY_NAME] or usable[:1]
    return tuple((m, m.curve(direction), tuple(sorted(m.statics(mechanism).items()))) for m in usable)


def least_rdp(plan: RenyiPlan, mechanism: Mechanism, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], upper bound: the least over the methods of `plan`; inf [A, 1] where there is none."""
    if not any(a < FRACTIONAL_TOP and (a == 1.0 or a != int(a)) for a in orders):
        plan = tuple(entry for entry in plan if math.isinf(entry[0].up_to_order))
    curves = [curve(mechanism, orders=orders, **dict(static)) for _, curve, static in plan]
    return functools.reduce(xp.minimum, curves, xp.full((len(orders), 1), xp.inf))


def _rdp(mechanism: Composed, *, orders: Sequence[float], parts: tuple[RenyiPlan, ...]) -> jax.Array:
    """Renyi divergences [A, L], upper bound: the sum over the parts of count times the least over their methods.

    Mironov 2017, Proposition 1.
    """
    return compose_rdp(
        (least_rdp(plan, part, orders=orders), count)
        for plan, (part, count) in zip(parts, mechanism.parts(), strict=True)
    )


def renyi_bytes(*, parts: tuple[RenyiPlan, ...], orders: Sequence[float] = ()) -> int:
    """int: working memory of one lane, in bytes: that of the widest part, since parts are computed one at a time."""
    every = [m.lane_bytes(orders=orders, **dict(static)) for plan in parts for m, _, static in plan]
    return max(every, default=orders_bytes(orders=orders))


def together(*, parts: tuple[RenyiPlan, ...], **orders: Any) -> int:
    """int: how many points every method of every plan takes together as NumPy arrays, at these `orders`."""
    every = [m.together({**dict(static), **orders}) for plan in parts for m, _, static in plan]
    return min(every, default=MANY_TOGETHER)


def is_of_reports(mechanism: Mechanism) -> bool:
    """bool: whether its parts are shuffled reports and check-ins, whose adjacency is replace-one."""
    return mechanism.relation is NeighboringRelation.REPLACE_ONE


def _of_records(mechanism: Composed) -> bool:
    return has_lanes(mechanism) and not is_of_reports(mechanism) and not gaussian.is_gaussian(mechanism)


_IF_QUICK = only_where(has_quick, Role.QUICK, otherwise=Role.IN_PROGRAMS)


def _renyi(direction: Direction, applies: Any, role: Role | Callable[[Any], Role] = _IF_QUICK) -> RenyiMethod:
    return RenyiMethod(
        name=f"rdp ({direction.value})",
        theorem="Mironov 2017, Proposition 1 over each part's Renyi curve",
        directions=(direction,),
        cost=Cost.MILLISECONDS,
        applies=applies,
        rdp=_rdp,
        grids=MIXED,
        role=role,
        statics=lambda mechanism: {"parts": tuple(renyi_plan(part, direction) for part, _ in mechanism.parts())},
        lane_bytes=renyi_bytes,
        numpy=together,
    )


# Loss distributions


def _sharpest_of(mechanism: Mechanism) -> Distribution | None:
    """The last of the distributions known of `mechanism`: of reports whose blanket is known, that of the blanket."""
    return next((m.distribution for m in reversed(methods_of(mechanism, DistributionMethod))), None)


DISTRIBUTION = composed_distribution(distribution_of)


def _has_sharper(mechanism: Composed) -> bool:
    """Whether some part is known by another distribution, too."""
    return DISTRIBUTION.exists(mechanism) and any(
        distribution_of(part) is not _sharpest_of(part) for part, _ in flattened(mechanism)
    )


# the blanket of reports is mostly sharper than their clones pair, and known from above only
_SHARPEST = loss_distribution(composed_distribution(_sharpest_of), Role.SHARPER)
_BLANKETS = dataclasses.replace(_SHARPEST, name="blanket distribution", applies=_has_sharper)


# Part by part


def _added_up(mechanism: Composed, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """Upper ends by basic composition: every run gets an equal share of the target, and the answers add up.

    Or, if that is less: parts with a given (epsilon, delta) take exactly that, and the others share what is left.
    """
    given = [(part, count) for part, count in mechanism.parts() if part.signature() == (EpsilonDelta,)]
    others = [(part, count) for part, count in mechanism.parts() if part.signature() != (EpsilonDelta,)]
    found = _at_equal_shares(mechanism.parts(), query, target, at)
    if given and others:
        spent = [math.fsum(count * pair[i] for part, count in given for pair in [_pair_of(part)]) for i in (0, 1)]
        answered, asked = spent if query is Query.EPSILON else spent[::-1]
        left = math.nextafter(target - asked * _SUM_UP, 0.0)
        if left > 0.0:
            found = min(found, (answered + _at_equal_shares(others, query, left * _SHARE_DOWN, at)) * _SUM_UP)
    return dict.fromkeys(at.known, Ends(0.0, found))


def _pair_of(release: Any) -> tuple[float, float]:
    return float(release.guaranteed_epsilon), float(release.guaranteed_delta)


def _at_equal_shares(parts: Sequence[tuple[Mechanism, Any]], query: Query, target: float, at: Bracketing) -> float:
    """The sum of the answers about all runs, each at an equal share of the target, delta or epsilon.

    The share is rounded down by one more spacing of doubles, for subnormal shares: there a quotient and a product err
    by half a spacing each.
    """
    share = math.nextafter(target / sum(int(count) for _, count in parts) * _SHARE_DOWN, 0.0)
    if query is Query.EPSILON and share == 0.0:
        return query.worst
    every = [count * at.ask(part, query, share, at.width, wants_lower=False).upper for part, count in parts]
    return min(math.fsum(every) * _SUM_UP, query.worst)


def _largest_part(mechanism: Composed, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """Lower ends: a composition reveals no less than any of its parts."""
    every = [at.ask(part, query, target, math.inf, wants_lower=True).lower for part, _ in mechanism.parts()]
    return dict.fromkeys(at.known, Ends(max(every), query.worst))


_PART_BY_PART = BracketMethod(
    name="part by part",
    theorem="Dwork & Roth 2014, Theorem 3.16",
    directions=BOTH,
    cost=Cost.TENTHS,
    applies=has_lanes,
    role=Role.LAST,
    bracket=_added_up,
    misses_deltas=always,
)
_LARGEST_PART = BracketMethod(
    name="largest part",
    theorem="a composition reveals no less than any of its parts",
    directions=BOTH,
    ends=frozenset({Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=lambda mechanism: is_of_reports(mechanism) or above_threshold.is_composed_of_some(mechanism),
    role=Role.SHARPER,
    bracket=_largest_part,
    below=itself,
)


def _of_reports_on_lanes(mechanism: Composed) -> bool:
    """Whether its parts are reports that all have Renyi curves; reports given as loss distributions have none."""
    return is_of_reports(mechanism) and has_lanes(mechanism)


def _is_known(mechanism: Mechanism) -> bool:
    """Whether every part has a law, some of them only because their numbers are concrete."""
    parts = [part for part, _ in flattened(mechanism)]
    others = [part for part in parts if not has_law(part)]
    return bool(others) and all(known_of(part) is not None for part in others)


def _is_whole(mechanism: Composed) -> bool:
    """Whether all parts are one run, of which more is known, or some report is not pure."""
    return whole_run(mechanism) is not None or PURE_PARTS.applies(mechanism)


def _by_distributions(mechanism: Composed) -> Role:
    """For reports, a program for Renyi divergences takes longer and is less tight."""
    if _is_whole(mechanism):
        return Role.IN_PROGRAMS
    return Role.QUICK if is_of_reports(mechanism) else Role.NARROW


def _by_renyi_of_reports(mechanism: Composed) -> Role:
    is_known = is_scalar(mechanism) and (_is_whole(mechanism) or DISTRIBUTION.exists(mechanism))
    return Role.IN_PROGRAMS if is_known else _IF_QUICK(mechanism)


# for numbers that stay concrete while a program is traced; on lanes, where all numbers are arrays, it never applies
_KNOWN = laws(applies=_is_known, known_of=known_of)

# in the order in which they are asked, arranged by cost
_OF_COMPOSED: dict[tuple[Any, ...], tuple[Method, ...]] = {
    (Composed,): (
        EQUAL_ROUNDS,
        gaussian.EXACT,
        gaussian.BOTH_ENDS,
        discrete.EXACT,
        exact(lambda mechanism: is_of_gaussians(mechanism) and not gaussian.is_gaussian(mechanism)),
        LAPLACE,
        adjacent.TOGETHER,
        moments(DISTRIBUTION.below),
        dataclasses.replace(THRESHOLD_TEST, applies=has_several_steps, role=Role.SHARPER),
        *(_renyi(d, gaussian.is_gaussian, Role.BY_NAME) for d in BOTH),
        laws_of_reports(applies=lambda mechanism: has_laws(mechanism) and is_of_reports(mechanism)),
        PURE_PARTS,
        *(_renyi(d, _of_reports_on_lanes, _by_renyi_of_reports) for d in BOTH),
        _PART_BY_PART,
        _LARGEST_PART,
        loss_distribution(DISTRIBUTION, _by_distributions),
        _BLANKETS,
        laws(applies=lambda mechanism: has_laws(mechanism) and not is_of_reports(mechanism)),
        *(_renyi(d, _of_records) for d in BOTH),
    )
}

# The tables of the folders, a line for each, and what composes them.
_TABLES = merged(
    gaussian.METHODS,
    laplace.METHODS,
    pure.METHODS,
    above_threshold.METHODS,
    noise_on_counts.METHODS,
    discrete.METHODS,
    given.METHODS,
    poisson.METHODS,
    allocation.METHODS,
    shuffle.METHODS,
    shuffled_batches.METHODS,
    check_in.METHODS,
    _OF_COMPOSED,
    correlated.tables(distribution_of),
    group.tables(distribution_of),
    parallel_poisson.tables(distribution_of),
    sampled_runs.tables(distribution_of),
    adjacent.tables(distribution_of, Asking(lanes_of, renyi_plan, least_rdp, renyi_bytes, together)),
    selection.tables(renyi_plan, least_rdp, renyi_bytes, together, distribution_of),
)

# Every mechanism's methods. Other mechanisms with loss distributions get laws from them where numbers are concrete.
METHODS = {
    signature: (*methods, _KNOWN)
    if signature not in LISTED and any(isinstance(m, DistributionMethod) for m in methods)
    else methods
    for signature, methods in _TABLES.items()
}
