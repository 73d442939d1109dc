"""Groups of records: by a stand-in mechanism for the whole group, or one record after the other.

Ganesh 2024, "Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians mechanisms"; Vadhan
2017, "The complexity of differential privacy", Lemma 2.2.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, cast

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Method, Query, Role, itself
from jaxacct._patience import with_slow_warning
from jaxacct._sharing import shared
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import Distribution, loss_distribution
from jaxacct.bounds._parts import by_another, is_scalar
from jaxacct.bounds._stand_in import of_stand_in
from jaxacct.mechanisms import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Group,
    Laplace,
    MixtureOfGaussians,
    PoissonSampled,
    RandomAllocation,
    Skellam,
)
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import LEAST_NORMAL, binomial_masses, bisect, crossing, first_doubling, grown

_DOWN = 1.0 - 2.0**-50  # rounds a quotient of a noise multiplier down
_MOST_EPSILON = 2.0**10  # nats: no larger epsilon is tried one record after the other
_CLOSE = 1e-7  # relative distance of the ends around that epsilon
_NUM_DELTAS = 24  # about, of a search, and at most of a fixed point
_RUNG, _MOST_RUNGS = math.sqrt(2.0), 32  # ratio of the smaller epsilons that are tried, and their number
_RISE = 2.0  # where delta has risen by this factor towards smaller epsilons, no more of them are tried
_OVER = 1.0 + 2.0**-20  # factor on an epsilon that is approached from below
_FEW_HALVINGS = 8  # between two of the smaller epsilons
_SHARE = 0.0625  # share of the time for one question that each delta of a search may take
_LARGEST_MIXTURE = 512  # records of a group up to which the number sampled is listed


def _sampled(run: PoissonSampled, size: int) -> Mechanism | None:
    """The number of records drawn is binomial, and their sum has at most that norm: tight (Ganesh 2024)."""
    prob = float(run.sampling_prob)
    if run.signature() != (PoissonSampled, Gaussian):
        return None
    if prob == 1.0:
        return Composed(Gaussian(float(run.mechanism.noise_multiplier) / size * _DOWN), int(run.num_steps))
    if size > _LARGEST_MIXTURE:
        return None
    shifts = tuple(float(k) for k in range(size + 1))
    release = MixtureOfGaussians(float(run.mechanism.noise_multiplier), shifts, binomial_masses(size, prob))
    return Composed(release, int(run.num_steps))


def _composed(run: Composed, size: int) -> Mechanism | None:
    parts = [(_stand_in(part, size), count) for part, count in run.parts()]
    if any(part is None for part, _ in parts):
        return None
    return Composed(tuple(part for part, _ in parts), tuple(count for _, count in parts))


_STAND_INS: dict[type, Callable[[Any, int], Mechanism | None]] = {
    Gaussian: lambda run, size: Gaussian(float(run.noise_multiplier) / size * _DOWN),
    Laplace: lambda run, size: Laplace(float(run.noise_multiplier) / size * _DOWN),
    DiscreteLaplace: lambda run, size: dataclasses.replace(run, sensitivity=int(run.sensitivity) * size),
    DiscreteGaussian: lambda run, size: dataclasses.replace(run, sensitivity=int(run.sensitivity) * size),
    Skellam: lambda run, size: dataclasses.replace(run, sensitivity=int(run.sensitivity) * size),
    PoissonSampled: _sampled,
    Composed: _composed,
}


def _stand_in(run: Mechanism, size: int) -> Mechanism | None:
    make = _STAND_INS.get(type(run))
    return run if size == 1 else None if make is None else make(run, size)


def stand_in(mechanism: Group) -> Mechanism | None:
    """A mechanism whose single record loses exactly what the group loses; None where none is known."""
    return _stand_in(mechanism.mechanism, int(mechanism.size))


def in_place_of(mechanism: Mechanism) -> Mechanism:
    """The mechanism to analyse in place of `mechanism`: the `stand_in` of a group, if that is not None; else itself."""
    run = stand_in(cast(Group, mechanism)) if mechanism.signature() == (Group,) else None
    return mechanism if run is None else run


def _has_stand_in(mechanism: Group) -> bool:
    return is_scalar(mechanism) and stand_in(mechanism) is not None


def _unamplified(run: Any, size: int) -> Mechanism | None:
    """The run with all records of the group in the same, public, steps: no other choice of steps has a larger sum."""
    if run.signature() != (RandomAllocation, Gaussian):
        return None
    release = Gaussian(float(run.mechanism.noise_multiplier) / size * _DOWN)
    return Composed(release, int(run.num_selected) * int(run.num_epochs))


@shared()  # every step uses the record's loss distributions
def _one_after_the_other(
    mechanism: Group, query: Query, target: float, at: Bracketing
) -> Mapping[Direction, Ends[float]]:
    """Upper ends: delta of m records at m eps is at most that of one at eps, times (e^(m eps) - 1) / (e^eps - 1).

    Where one record's delta hardly falls, this bound grows with epsilon; a bound at a smaller epsilon is then used.
    """
    run, size = mechanism.mechanism, int(mechanism.size)
    whole = _unamplified(run, size)
    known = query.worst if whole is None else at.ask(whole, query, target, at.width, wants_lower=False).upper

    share = 1.0 if query is Query.DELTA else _SHARE
    deltas = with_slow_warning(itertools.repeat(None), "deltas of a search", _NUM_DELTAS)

    def of_one(epsilon: float) -> float:
        next(deltas)
        return at.ask(run, Query.DELTA, _share_down(epsilon, size), 1e-2, wants_lower=False, share=share).upper

    @functools.cache
    def delta(epsilon: float) -> float:
        return of_all(of_one(epsilon), epsilon)

    def excess(epsilon: float) -> float:
        height = math.log(max(delta(epsilon), LEAST_NORMAL)) - math.log(max(target, LEAST_NORMAL))
        return max(height, LEAST_NORMAL) if delta(epsilon) > target else min(height, 0.0)

    def of_all(one: float, epsilon: float) -> float:
        log_growth = epsilon - epsilon / size + math.log(size) if epsilon < 1e-6 else _log_growth(epsilon, size)
        return grown(one, log_growth, 2**13)

    if query is Query.DELTA:
        one = of_one(target)
        found = of_all(one, target)
        for epsilon in _smaller(target):
            if size * one >= min(
                found, 1.0
            ):  # at smaller epsilons one record's delta is no less, the factor at least m
                break
            one = of_one(epsilon)
            before, found = found, min(found, of_all(one, epsilon))
            if found == before < 1.0:
                break
        return dict.fromkeys(at.known, Ends(0.0, min(known, found)))

    def fixed_point() -> float:
        """The least epsilon, approached from below: m times that of one record, at the delta left by the last one."""
        epsilon = 0.0
        for _ in range(_NUM_DELTAS):
            most = target / size if epsilon == 0.0 else target * math.exp(-_log_growth(epsilon, size))
            one = at.ask(run, Query.EPSILON, max(most, LEAST_NORMAL), 1e-3, wants_lower=False, share=share).upper
            epsilon = max(epsilon, size * one)
            if not epsilon < _MOST_EPSILON or delta(epsilon * _OVER) <= target:
                break
        return epsilon * _OVER if epsilon < _MOST_EPSILON and delta(epsilon * _OVER) <= target else math.inf

    if delta(0.0) <= target:
        return dict.fromkeys(at.known, Ends(0.0, 0.0))
    low, high = first_doubling(lambda epsilon: delta(epsilon) <= target, limit=_MOST_EPSILON)
    if math.isinf(high):  # it may hold only at smaller epsilons, between those that were tried
        high = fixed_point()
    else:
        high = crossing(excess, low, high, close=_CLOSE)
        for epsilon in _smaller(high):
            value = delta(epsilon)
            if value > _RISE * target:
                break
            if value <= target:
                high = bisect(lambda x: delta(x) <= target, epsilon, epsilon / _RUNG, num_steps=_FEW_HALVINGS)
    return dict.fromkeys(at.known, Ends(0.0, min(known, high)))


def _smaller(epsilon: float) -> Iterator[float]:
    """Epsilons below `epsilon`, on a ladder that does not depend on it; then 0."""
    rung = math.ceil(math.log(epsilon, _RUNG)) - 1 if epsilon > 0.0 else -_MOST_RUNGS
    yield from (_RUNG**k for k in range(rung, max(rung - _MOST_RUNGS, -_MOST_RUNGS), -1))
    if epsilon > 0.0:
        yield 0.0


def _share_down(epsilon: float, size: int) -> float:
    """`epsilon` / `size`, rounded down where it is not exact."""
    share = epsilon / size
    return math.nextafter(share, 0.0) if Fraction(share) * size > Fraction(epsilon) else share


def _log_growth(epsilon: float, size: int) -> float:
    """log((e^eps - 1) / (e^(eps/m) - 1)): the log of the sum over the records of e^(i eps / m)."""
    one = epsilon / size
    return epsilon - one + math.log(-math.expm1(-epsilon)) - math.log(-math.expm1(-one))


def tables(distribution_of: Callable[..., Distribution | None]) -> dict[tuple[Any, ...], tuple[Method, ...]]:
    """A dict, the table of methods, from the function that gives the loss distributions of the stand-in for a group."""

    theorem = "Ganesh 2024, mixtures of Gaussians; sensitivities add up"
    distribution = of_stand_in(
        distribution_of, lambda mechanism: stand_in(mechanism) if _has_stand_in(mechanism) else None, theorem
    )
    both = frozenset({Bound.UPPER, Bound.LOWER})
    options: dict[str, Any] = {"directions": BOTH, "cost": Cost.TENTHS}
    exact = BracketMethod(
        name="group",
        theorem=theorem,
        ends=both,
        applies=_has_stand_in,
        bracket=by_another(stand_in),
        below=itself,
        regime="Gaussian (also Poisson-sampled), Laplace, discrete noise, composed",
        **options,
    )
    general = BracketMethod(
        name="one after the other",
        theorem="Vadhan 2017, Lemma 2.2",
        applies=lambda mechanism: is_scalar(mechanism) and stand_in(mechanism) is None,
        bracket=_one_after_the_other,
        regime="all others",
        **options,
    )
    return {(Group,): (exact, general, loss_distribution(distribution, Role.BY_NAME))}
