"""Upper bounds in traced programs, and Renyi divergences, for a record that is replaced by any other or an empty one.

If replacing a record amounts to another mechanism in closed form (its stand-in, which has half the noise), the profile
and the divergences are those of the stand-in. Otherwise, with P and Q the laws of the output with either record and N
that without both, the weak triangle inequality is used (Mironov 2017, Proposition 11, with exponents of 2):

    D_a(P || Q) <= (a - 1/2) / (a - 1) D_2a(P || N) + D_(2a-1)(N || Q).

Where records take part independently, replacing a record by the empty one amounts to removing it.
Shapes: L is the number of lanes, A that of Renyi orders.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxacct._jax import jax
from jaxacct._method import BOTH, NO_POINT, Cost, LaneMethod, ProfileMethod, RenyiMethod, Role
from jaxacct._types import Bound, Direction
from jaxacct.bounds._orders import MIXED
from jaxacct.mechanisms import Composed, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Skellam
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import up
from jaxacct.special._namespace import xp

_LEAST_ORDER = 1.5  # used for smaller orders too: below it the first factor grows faster than the divergence falls

_Run = Callable[[Any], Mechanism | None]

DOUBLED: dict[type, Callable[[Any], Mechanism]] = {
    Gaussian: lambda run: dataclasses.replace(run, noise_multiplier=0.5 * run.noise_multiplier),
    Laplace: lambda run: dataclasses.replace(run, noise_multiplier=0.5 * run.noise_multiplier),
    DiscreteLaplace: lambda run: dataclasses.replace(run, sensitivity=2 * run.sensitivity),
    DiscreteGaussian: lambda run: dataclasses.replace(run, sensitivity=2 * run.sensitivity),
    Skellam: lambda run: dataclasses.replace(run, sensitivity=2 * run.sensitivity),
}
"""For each type, the mechanism whose loss is that of replacing a record by any other: one of twice the sensitivity."""


def doubled(run: Any) -> Mechanism | None:
    """The mechanism of `DOUBLED` for a run or a composition, with any numbers (traced ones too); None for others."""
    if run.signature() != (Composed,):
        make = DOUBLED.get(type(run))
        return None if make is None else make(run)
    found = [doubled(part) for part in run.mechanisms]
    return None if any(part is None for part in found) else Composed(tuple(found), run.counts)


class Asking(NamedTuple):
    """The functions that find the methods of any mechanism, whatever its numbers, and its Renyi divergences."""

    lanes_of: Callable[..., tuple[Any, ...]]
    renyi_plan: Callable[..., Any]
    least_rdp: Callable[..., jax.Array]
    renyi_bytes: Callable[..., int]
    together: Callable[..., int]

    def plans(self, run: Mechanism) -> tuple[Any, ...]:
        """The Renyi plan of each direction of a run; empty where it has no Renyi divergences."""
        return tuple(self.renyi_plan(run, direction) for direction in run.directions)

    def worst(self, run: Mechanism, plans: tuple[Any, ...], orders: tuple[float, ...]) -> jax.Array:
        """The Renyi divergences [A, L], the larger over the directions."""
        return functools.reduce(xp.maximum, [self.least_rdp(plan, run, orders=orders) for plan in plans])


def _profiles(asking: Asking, run: Mechanism | None) -> tuple[ProfileMethod, ...]:
    """The upper profiles of both directions of a run, whatever its numbers."""
    found = () if run is None else asking.lanes_of(run, ProfileMethod)
    return tuple(m for m in found if Bound.UPPER in m.ends and set(m.directions) >= set(BOTH))


def _profile(asking: Asking, run_of: _Run, directions: tuple[Direction, ...], theorem: str) -> ProfileMethod:
    """The method that takes the least of the profiles of the stand-in for a mechanism."""

    def least(name: str) -> Callable[..., jax.Array]:
        def of(mechanism: Any, given: jax.Array) -> jax.Array:
            run = run_of(mechanism)
            every = [getattr(m, name)(run, given, **m.statics(run)) for m in _profiles(asking, run)]
            return functools.reduce(xp.minimum, every)

        return of

    return ProfileMethod(
        name="closed form",
        theorem=theorem,
        directions=directions,
        cost=Cost.MICROSECONDS,
        applies=lambda mechanism: bool(_profiles(asking, run_of(mechanism))),
        role=Role.IN_PROGRAMS,
        log_delta=least("log_delta"),
        epsilon=least("epsilon"),
        numpy=NO_POINT,
    )


def _renyi(asking: Asking, rdp: Any, run_of: _Run, directions: tuple[Direction, ...], theorem: str) -> RenyiMethod:
    def statics(mechanism: Any) -> dict[str, Any]:
        run = run_of(mechanism)
        return {"parts": () if run is None else asking.plans(run)}

    def applies(mechanism: Any) -> bool:
        parts = statics(mechanism)["parts"]
        return bool(parts) and all(parts)

    return RenyiMethod(
        name="rdp",
        theorem=theorem,
        directions=directions,
        cost=Cost.MILLISECONDS,
        applies=applies,
        role=Role.IN_PROGRAMS,
        rdp=rdp,
        grids=MIXED,
        statics=statics,
        lane_bytes=asking.renyi_bytes,
        numpy=asking.together,
    )


def replaced_on_lanes(asking: Asking) -> tuple[LaneMethod, ...]:
    """Methods (class `LaneMethod`) for a record that is replaced: upper bounds."""

    def run_of(mechanism: Any) -> Mechanism:
        found = doubled(mechanism.mechanism)
        return mechanism.mechanism if found is None else found

    def rdp(mechanism: Any, *, orders: Sequence[float], parts: tuple[Any, ...]) -> jax.Array:
        """Renyi divergences [A, L], rounded up, orders from 1 to inf."""
        run = run_of(mechanism)
        if run is not mechanism.mechanism:
            return asking.worst(run, parts, tuple(orders))
        read = [max(a, _LEAST_ORDER) for a in orders]
        removed, added = ([float(2.0 * a - less) for a in read] for less in (0.0, 1.0))
        both = asking.worst(run, parts, (*removed, *added))
        factor = [1.0 if math.isinf(a) else (a - 0.5) / (a - 1.0) for a in read]
        return up(xp.asarray(factor, xp.float64)[:, None] * both[: len(read)] + both[len(read) :], 8)

    theorem = "Mironov 2017, Proposition 11, through neither record; noise of half the size where that is the pair"
    return (
        _profile(asking, lambda mechanism: doubled(mechanism.mechanism), (Direction.REMOVE,), "sensitivities double"),
        _renyi(asking, rdp, run_of, (Direction.REMOVE,), theorem),
    )


def emptied_on_lanes(asking: Asking, alone: _Run) -> tuple[LaneMethod, ...]:
    """Methods (class `LaneMethod`) for a record that is replaced by the empty one: upper bounds."""

    def rdp(mechanism: Any, *, orders: Sequence[float], parts: tuple[Any, ...]) -> jax.Array:
        """Renyi divergences [A, L], rounded up, orders from 1 to inf: those of the larger direction."""
        run = alone(mechanism)
        assert run is not None
        return asking.worst(run, parts, tuple(orders))

    theorem = "an empty record is none: records take part independently"
    return _profile(asking, alone, BOTH, theorem), _renyi(asking, rdp, alone, BOTH, theorem)
