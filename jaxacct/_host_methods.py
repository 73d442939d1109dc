"""The table of methods that the host drives: exact engines and the bounds of papers that need whole distributions.

Slower than those of `jaxacct._methods`, concrete scalars only. `compare` lists them, ``method=`` names them; the
intervals use the exact ones. A new one is a function in `bounds` and a line here.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._answering import DELTA, EPSILON, Query
from jaxacct._inverting import invert
from jaxacct._types import Bound, Direction, NeighboringRelation, TooFineError
from jaxacct.bounds.allocation._decomposition import decomposition_delta, decomposition_epsilon
from jaxacct.bounds.allocation._exact import is_single_round, single_round_delta, single_round_epsilon
from jaxacct.bounds.allocation._largest_output import largest_output_delta, largest_output_epsilon
from jaxacct.bounds.allocation._overlap import overlap_remove_rdp
from jaxacct.bounds.allocation._partial import is_partial_round, partial_round_delta, partial_round_epsilon
from jaxacct.bounds.allocation._posterior_rate import doob_tail, truncated_delta, truncated_epsilon, untied_tail
from jaxacct.bounds.discrete import has_types, types_delta, types_epsilon
from jaxacct.bounds.laplace import laplace_delta, laplace_epsilon
from jaxacct.bounds.poisson._exact import SIZES, inverts
from jaxacct.conversion import curve_delta, curve_epsilon
from jaxacct.curves import RdpCurve
from jaxacct.divergence._inversion import Ends
from jaxacct.mechanisms import Gaussian, Laplace, PartialAllocation, RandomAllocation

_FS = "Feldman & Shenfeld 2025"
_TIGHT = 1e-9
_TINY = float(np.finfo(np.float64).tiny)
_OVERLAP_ORDERS = np.unique(np.concatenate([2.0 + np.geomspace(0.01, 30.0, 40), np.arange(2, 65), [2.0, 96.0, 128.0]]))

_Function = Callable[[Any, float, Direction], float]


@dataclasses.dataclass(frozen=True)
class HostMethod:
    """One way to bound one mechanism in one direction, on the host.

    Attributes:
      name: short and stable, shown by `compare`, accepted by ``method=``.
      theorem: paper and theorem.
      epsilon, delta: ``(mechanism, delta or epsilon, direction) -> `` the bound.
      bound: UPPER or LOWER.
      directions: those that it bounds.
    """

    name: str
    theorem: str
    epsilon: _Function
    delta: _Function
    bound: Bound = Bound.UPPER
    directions: tuple[Direction, ...] = (Direction.REMOVE, Direction.ADD)

    def __call__(self, mechanism: Any, query: Query, target: float, direction: Direction) -> float:
        try:
            return (self.epsilon if query is EPSILON else self.delta)(mechanism, target, direction)
        except TooFineError:
            return query.worst if self.bound is Bound.UPPER else 0.0


def exact_ends(mechanism: Any, query: Query, target: float, direction: Direction, precision: float = _TIGHT) -> Ends:
    """Bracket of the answer without discretisation; (0, inf or 1) at worst. For mechanisms that `has_exact` accepts."""
    lower, upper = 0.0, query.worst
    if has_types(mechanism):
        of_types = types_delta if query is DELTA else types_epsilon
        return Ends(*(of_types(mechanism, target, direction, upper=upper) for upper in (False, True)))  # type: ignore[arg-type]
    if isinstance(mechanism, Laplace):
        return laplace_delta(mechanism, target) if query is DELTA else laplace_epsilon(mechanism, target)
    if is_single_round(mechanism) or is_partial_round(mechanism):
        answers: tuple[Any, Any] = (single_round_delta, single_round_epsilon)
        if not is_single_round(mechanism):
            answers = (partial_round_delta, partial_round_epsilon)
        try:
            with np.errstate(all="ignore"):  # what overflows fails closed
                ends = answers[0 if query is DELTA else 1](mechanism, target, direction)
        except OverflowError:
            return Ends(lower, upper)  # type: ignore[arg-type]
        # below the doubles, but not 0
        return Ends(ends.lower, max(float(ends.upper), _TINY)) if query is DELTA else ends  # type: ignore[arg-type]
    at = 0 if direction is Direction.REMOVE else 1
    for size in SIZES:
        ends = invert(mechanism, query, target, size)
        lower, upper = max(lower, float(ends.lower[at])), min(upper, float(ends.upper[at]))
        if upper - lower <= precision * lower:
            break
    return Ends(lower, upper)  # type: ignore[arg-type]


def has_exact(mechanism: Any) -> bool:
    """Whether `exact_ends` knows `mechanism`."""
    known = (inverts, is_single_round, is_partial_round, has_types)
    return isinstance(mechanism, Laplace) or any(knows(mechanism) for knows in known)


def _exact(bound: Bound, theorem: str) -> HostMethod:
    def end(query: Query, mechanism: Any, target: float, direction: Direction) -> float:
        ends = exact_ends(mechanism, query, target, direction)
        return float(ends.upper if bound is Bound.UPPER else ends.lower)

    name = "exact" if bound is Bound.UPPER else "exact, from below"
    return HostMethod(name, theorem, functools.partial(end, EPSILON), functools.partial(end, DELTA), bound)


@functools.lru_cache(maxsize=64)
def _overlap_curve(mechanism: RandomAllocation) -> RdpCurve:
    values = overlap_remove_rdp(mechanism, orders=_OVERLAP_ORDERS.tolist())
    return RdpCurve(_OVERLAP_ORDERS, values, Bound.UPPER, NeighboringRelation.ADD_OR_REMOVE_ONE, "Dong et al. 2025")


def _overlap_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    del direction
    return float(curve_epsilon(_overlap_curve(mechanism), delta))


def _overlap_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    del direction
    return float(curve_delta(_overlap_curve(mechanism), epsilon))


OVERLAP = HostMethod(
    "overlap",
    "Dong, Chen & Ozgur 2025, remove direction",
    _overlap_epsilon,
    _overlap_delta,
    directions=(Direction.REMOVE,),
)

_ALLOCATION = (
    HostMethod(
        "decomposition",
        f"{_FS}, Theorem 4.6, its rate optimised",
        decomposition_epsilon,
        decomposition_delta,
    ),
    HostMethod(
        "truncated Poisson",
        f"{_FS}, Lemma 4.3, the tail by Doob's inequality",
        functools.partial(truncated_epsilon, tail_bound=doob_tail),
        functools.partial(truncated_delta, tail_bound=doob_tail),
    ),
    HostMethod(
        "recursive",
        f"{_FS}, Theorem 4.2, its threshold untied",
        functools.partial(truncated_epsilon, tail_bound=untied_tail),
        functools.partial(truncated_delta, tail_bound=untied_tail),
    ),
    OVERLAP,
    HostMethod(
        "largest output",
        "Chua et al. 2024, Theorem 4.2, threshold events",
        largest_output_epsilon,
        largest_output_delta,
        Bound.LOWER,
    ),
)


def host_methods_for(mechanism: Any) -> tuple[HostMethod, ...]:
    """The host's methods for `mechanism`, the exact ones first; () for most."""
    exact: tuple[HostMethod, ...] = ()
    if has_exact(mechanism):
        allocated = isinstance(mechanism, RandomAllocation | PartialAllocation)
        by_types = "by definition, over the types of the outputs"
        closed = "Balle, Barthe & Gaboardi 2018, Theorem 3"
        by_moments = closed if isinstance(mechanism, Laplace) else "Zhu, Dong & Wang 2022, Theorem 11"
        theorem = f"{_FS}, Theorem 3.1" if allocated else by_types if has_types(mechanism) else by_moments
        exact = (_exact(Bound.UPPER, theorem), _exact(Bound.LOWER, theorem))
    if isinstance(mechanism, RandomAllocation) and isinstance(mechanism.mechanism, Gaussian):
        return (*exact, *_ALLOCATION)
    return () if isinstance(mechanism, Gaussian) else exact  # its closed form is a plain method


def named(mechanism: Any, name: str) -> HostMethod | None:
    """The host's method of that name, or None."""
    return next((m for m in host_methods_for(mechanism) if m.name == name), None)


def worst(method: HostMethod, mechanism: Any, query: Query, target: float, directions: tuple[Direction, ...]) -> float:
    """The larger over the directions that `method` bounds."""
    values = [method(mechanism, query, target, d) for d in directions if d in method.directions]
    if not values:
        raise ValueError(f"method={method.name!r} does not bound direction={directions[0].value}")
    return max(values) if not any(math.isnan(v) for v in values) else query.worst
