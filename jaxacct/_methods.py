"""The table of methods: which theorems apply to which mechanism.

A new bound is a function in `bounds` and a line here.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._method import BETWEEN, BOTH, LOW, SPARSE, WHOLE, Method, ignoring_split, mixed_orders
from jaxacct._shuffle_methods import SHUFFLE_METHODS
from jaxacct._types import Direction, NeighboringRelation
from jaxacct.bounds import gaussian
from jaxacct.bounds.allocation import _renyi as allocation
from jaxacct.bounds.allocation import _schedule as schedule
from jaxacct.bounds.poisson import _renyi as subsampled
from jaxacct.composition import compose_rdp
from jaxacct.curves import Pld
from jaxacct.mechanisms import (
    Composed,
    ContinuousPair,
    DiscretePair,
    Gaussian,
    Laplace,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
)
from jaxacct.mechanisms._base import Description, Mechanism


def _uses(mechanism: Any) -> Any:
    if isinstance(mechanism, RandomAllocation):
        return np.multiply(mechanism.num_selected, mechanism.num_epochs)
    return mechanism.num_steps


def _unamplified_floor(mechanism: Any, log_delta: np.ndarray) -> np.ndarray:
    # P[L > eps] >= delta with L ~ N(mu^2/2, mu^2), and the normal tail exceeds e^{-z^2/2 - z - 1}
    # (a smaller mu has a smaller floor; its square is to be a double)
    sigma = np.maximum(np.asarray(mechanism.mechanism.noise_multiplier, float), 1e-100)
    mu = np.sqrt(np.asarray(_uses(mechanism), float)) / sigma
    z = np.sqrt(np.maximum(-2.0 * log_delta - 1.0, 0.0)) - 1.0
    return 0.5 * mu**2 + mu * (z - 1.5)


def _closed_form_floor(mechanism: RandomAllocation, log_delta: np.ndarray) -> np.ndarray:
    uses = np.asarray(_uses(mechanism), float)
    size = np.floor(np.asarray(mechanism.num_steps, float) / np.asarray(mechanism.num_selected, float))
    sigma = np.clip(np.asarray(mechanism.mechanism.noise_multiplier, float), 1e-100, 1e100)
    return uses * (1.0 - 1.0 / size) / (2.0 * sigma**2) + 0.0 * log_delta


def _unamplified(floor: Any = _unamplified_floor, name: str = "no amplification") -> Method:
    return Method(
        name=name,
        theorem="Balle & Wang 2018, Theorem 8",
        directions=BOTH,
        log_delta=ignoring_split(gaussian.unamplified_log_delta),
        epsilon=ignoring_split(gaussian.unamplified_epsilon),
        floor=floor,
    )


def _composed_rdp(mechanism: Composed, direction: Direction, *, orders: Sequence[float], uneven: bool) -> jax.Array:
    parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
    return compose_rdp((best_rdp(m, direction, orders=orders, uneven=uneven), count) for m, count in parts)


def _composed_method(direction: Direction) -> Method:
    def rdp(mechanism: Composed, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
        return _composed_rdp(mechanism, direction, orders=orders, uneven=uneven)

    return Method(
        name=f"rdp ({direction.value})",
        theorem="Mironov 2017, Proposition 1 over each part's Renyi curve",
        directions=(direction,),
        rdp=rdp,
        grids=tuple(mixed_orders(top) for top in (64, 256, 1024)),
    )


_EXACT = _unamplified(floor=None, name="exact")
_RENYI_GAUSSIAN = Method(
    name="rdp",
    theorem="Mironov 2017, Proposition 7",
    directions=BOTH,
    rdp=ignoring_split(gaussian.unamplified_rdp),
    grids=tuple(mixed_orders(top) for top in (64, 256, 1024, 2048)),
)

_SCHEDULED = (
    Method(
        name="direct",
        theorem="Feldman & Shenfeld 2025, Theorem 3.1; Theorem 4.8, cumulants added over the steps",
        directions=(Direction.REMOVE,),
        rdp=ignoring_split(schedule.scheduled_remove_rdp),
        grids=tuple(WHOLE[top] for top in (64, 256, 1024)),
    ),
    Method(
        name="low orders",
        theorem="Feldman & Shenfeld 2025, Theorem 3.1, Renyi moments of order 1 to 2",
        directions=(Direction.REMOVE,),
        rdp=ignoring_split(schedule.scheduled_low_order_remove_rdp),
        grids=(LOW,),
        up_to_order=2.0,
    ),
    Method(
        name="geometric mean",
        theorem="Feldman & Shenfeld 2025, Theorem 4.9 (corrected) and Corollary 4.10",
        directions=(Direction.ADD,),
        log_delta=ignoring_split(schedule.scheduled_closed_form_add_log_delta),
        epsilon=ignoring_split(schedule.scheduled_closed_form_add_epsilon),
    ),
    Method(
        name="real orders",
        theorem="Feldman & Shenfeld 2025, Theorem 3.1, Renyi moments of real order",
        directions=(Direction.ADD,),
        rdp=ignoring_split(schedule.scheduled_add_rdp),
        grids=tuple(SPARSE[top] for top in (64, 256, 1024)),
    ),
    Method(
        name="no amplification",
        theorem="Balle & Wang 2018, Theorem 8",
        directions=BOTH,
        log_delta=ignoring_split(schedule.scheduled_unamplified_log_delta),
        epsilon=ignoring_split(schedule.scheduled_unamplified_epsilon),
    ),
)

_TABLE: dict[tuple[type, ...], tuple[Method, ...]] = {
    **SHUFFLE_METHODS,
    (Gaussian,): (_EXACT, _RENYI_GAUSSIAN),
    (PoissonSampled, Gaussian): (
        Method(
            name="rdp",
            theorem="Mironov, Talwar & Zhang 2019, Theorems 4 and 5",
            directions=BOTH,
            rdp=ignoring_split(subsampled.poisson_rdp),
            grids=tuple(mixed_orders(top) for top in (64, 256, 1024)),
        ),
        _unamplified(),
    ),
    (RandomAllocation, Gaussian): (
        Method(
            name="direct",
            theorem="Feldman & Shenfeld 2025, Theorem 4.8 and Corollary 4.10",
            directions=(Direction.REMOVE,),
            rdp=allocation.direct_remove_rdp,
            grids=tuple(WHOLE[top] for top in (64, 256, 1024, 2048)),
        ),
        Method(
            name="fractional orders",
            theorem="Feldman & Shenfeld 2025, Theorem 3.1, Renyi moments of fractional order",
            directions=(Direction.REMOVE,),
            rdp=allocation.fractional_remove_rdp,
            grids=(BETWEEN, LOW),  # inside a user's jit the second, half the program
            up_to_order=9.0,
        ),
        Method(
            name="geometric mean",
            theorem="Feldman & Shenfeld 2025, Theorem 4.9 (corrected) and Corollary 4.10",
            directions=(Direction.ADD,),
            log_delta=allocation.closed_form_add_log_delta,
            epsilon=allocation.closed_form_add_epsilon,
            floor=_closed_form_floor,
        ),
        Method(
            name="real orders",
            theorem="Feldman & Shenfeld 2025, Theorem 3.1, Renyi moments of real order",
            directions=(Direction.ADD,),
            rdp=allocation.laplace_add_rdp,
            grids=tuple(SPARSE[top] for top in (64, 256, 1024)),
        ),
        _unamplified(),
    ),
    (PartialAllocation, Gaussian): _SCHEDULED,
    (ScheduledAllocation,): _SCHEDULED,
}


_ONLY_DISTRIBUTION = (Laplace, ContinuousPair, DiscretePair, Pld)
_COMPOSED = tuple(_composed_method(direction) for direction in BOTH)


def signature(mechanism: Any) -> tuple[type, ...]:
    """The types of a mechanism and of what it wraps, the key of the table."""
    return mechanism.signature() if isinstance(mechanism, Description) else (type(mechanism),)


def has_methods(mechanism: Any) -> bool:
    """Whether `mechanism` has closed forms or Renyi divergences, not only a privacy loss distribution."""
    if isinstance(mechanism, Composed):
        return all(has_methods(part) for part in mechanism.mechanisms)
    return not isinstance(getattr(mechanism, "mechanism", mechanism), _ONLY_DISTRIBUTION)


def relation_of(mechanism: Any) -> NeighboringRelation:
    """The adjacency in which `mechanism` is described."""
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism={mechanism!r} has no analysis here: it is no mechanism")
    return mechanism.relation


def methods_for(mechanism: Any) -> tuple[Method, ...]:
    """Every method for `mechanism`, cheapest first; raises ValueError if there is none."""
    if isinstance(mechanism, Composed):
        for part in mechanism.mechanisms:
            methods_for(part)
        exact = all(isinstance(part, Gaussian) for part in mechanism.mechanisms)
        return (_EXACT,) if exact else _COMPOSED
    key = signature(mechanism)
    for name, value in vars(mechanism).items() if key in _TABLE else ():
        if value is None:
            raise ValueError(f"{name}=None must be a number or an array of numbers")
    if key not in _TABLE:
        if key and key[-1] in _ONLY_DISTRIBUTION:
            raise ValueError(
                f"mechanism={mechanism!r} has a loss distribution only: no Renyi divergences, nothing inside jit; "
                "ask for its epsilon, delta, pld or compare"
            )
        known = ", ".join("(".join(t.__name__ for t in k) + ")" * (len(k) - 1) for k in (*_TABLE, (Composed,)))
        raise ValueError(f"mechanism={mechanism!r} has no analysis here; must be one of {known}")
    return _TABLE[key]


def best_rdp(mechanism: Any, direction: Direction, *, orders: Sequence[float], uneven: bool) -> jax.Array:
    """The least of the methods' Renyi divergences in one direction, [A, L]."""
    if isinstance(mechanism, Composed):
        return _composed_rdp(mechanism, direction, orders=orders, uneven=uneven)
    usable = [m for m in methods_for(mechanism) if m.rdp is not None and direction in m.directions]
    usable = [m for m in usable if m.helps(mechanism)] or usable[:1]
    if not any(a < 16.0 and a != int(a) for a in orders):
        usable = [m for m in usable if math.isinf(m.up_to_order)]
    curves = [m.rdp(mechanism, orders=orders, uneven=uneven) for m in usable if m.rdp is not None]
    nowhere = jnp.full((len(orders), 1), jnp.inf)
    return functools.reduce(jnp.minimum, curves, nowhere)


def splits_unevenly(mechanism: Any) -> bool:
    """Whether some allocation has num_steps not a multiple of num_selected (assumed where they are traced)."""
    if isinstance(mechanism, Composed):
        return any(splits_unevenly(part) for part in mechanism.mechanisms)
    if not isinstance(mechanism, RandomAllocation):
        return False
    if any(isinstance(x, jax.core.Tracer) for x in (mechanism.num_steps, mechanism.num_selected)):
        return not (isinstance(mechanism.num_selected, int) and mechanism.num_selected == 1)
    return bool(np.any(np.mod(mechanism.num_steps, mechanism.num_selected) != 0))
