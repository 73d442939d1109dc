"""Workers that sample independently: a record that W workers may draw is like a group of W records."""

from collections.abc import Callable
from typing import Any, cast

from jaxacct._method import BOTH, BracketMethod, Cost, Method, Role, itself
from jaxacct._types import Bound
from jaxacct.bounds import group
from jaxacct.bounds._distribution import Distribution, loss_distribution
from jaxacct.bounds._parts import by_another, is_scalar
from jaxacct.bounds._stand_in import of_stand_in
from jaxacct.mechanisms import Gaussian, Group, ParallelPoisson, PoissonSampled
from jaxacct.mechanisms._base import Mechanism

_THEOREM = "Choquette-Choo et al. 2024, Corollary 4.7: how many workers draw a record is binomial"


def _as_group(run: ParallelPoisson) -> Group:
    """One record for each worker: it adds a vector of norm at most 1 if its worker draws it."""
    return Group(PoissonSampled(run.mechanism, run.sampling_prob, run.num_steps), run.num_workers)


def stand_in(run: ParallelPoisson) -> Mechanism | None:
    """A mechanism whose single record loses exactly what a record of `run` does; None if there are too many workers."""
    return group.stand_in(_as_group(run))


def in_place_of(mechanism: Mechanism) -> Mechanism:
    """What is analysed in place of `mechanism`: its `stand_in`, or that of a group, if it is not None; else itself."""
    is_run = mechanism.signature() == (ParallelPoisson, Gaussian)
    run = group.in_place_of(_as_group(cast(ParallelPoisson, mechanism)) if is_run else mechanism)
    return mechanism if is_run and run.signature() == (Group,) else run


def tables(distribution_of: Callable[..., Distribution | None]) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods, from the function that gives the loss distributions of the stand-in for a run."""
    distribution = of_stand_in(distribution_of, lambda run: stand_in(run) if is_scalar(run) else None, _THEOREM)
    exact = BracketMethod(
        name="group",
        theorem=_THEOREM,
        directions=BOTH,
        ends=frozenset({Bound.UPPER, Bound.LOWER}),
        cost=Cost.TENTHS,
        applies=is_scalar,
        bracket=by_another(_as_group),
        below=itself,
        regime="exact up to 512 workers",
    )
    return {(ParallelPoisson, Gaussian): (exact, loss_distribution(distribution, Role.BY_NAME))}
