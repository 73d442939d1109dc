"""The data of bounds on shuffled reports: each randomizer's law, the number of users, and what one report reveals.

docs/papers/blanket.md, BL-1 to BL-4.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct.bounds._parts import is_scalar
from jaxacct.divergence.batches._blanket import MOST_LOSS
from jaxacct.divergence.blanket._antipodal import MOST_LAPLACE, gaussian_law, laplace_law
from jaxacct.divergence.blanket._ball import MOST_DIMENSIONS, ball_law
from jaxacct.divergence.blanket._density import DensityLaw, density_law
from jaxacct.divergence.blanket._finite import finite_law, k_ary_law
from jaxacct.divergence.blanket._profile import ReportLaw, Round, alone_epsilon
from jaxacct.divergence.gaussian._pair import gaussian_epsilon
from jaxacct.mechanisms import (
    CheckIn,
    DensityReports,
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LaplaceReports,
    Shuffled,
)
from jaxacct.special import up

_MANY = (2.0**34, 2.0**40)  # users beyond which rounding may matter: what holds for so many holds for more

LawFor = Callable[[float], ReportLaw | None]


def _gaussian_law(randomizer: GaussianReports) -> LawFor | None:
    shift, dimension = up(1.0 / float(randomizer.noise_multiplier), 2), randomizer.dimension
    if dimension is None or not (shift <= MOST_LOSS and dimension <= MOST_DIMENSIONS):
        return None
    if dimension == 1:
        return lambda cut: gaussian_law(shift, cut)
    return lambda cut: ball_law(shift, int(dimension), cut)


def _laplace_law(randomizer: LaplaceReports) -> LawFor | None:
    rate = up(1.0 / float(randomizer.scale), 2)
    if randomizer.dimension != 1 or not rate <= MOST_LAPLACE:
        return None
    return lambda cut: laplace_law(rate)


def density_law_of(randomizer: DensityReports, cut: float) -> DensityLaw | None:
    """The law of reports with noise of a given density; None where the noise is too little."""
    return density_law(randomizer.log_density, randomizer.accuracy, up(1.0 / float(randomizer.scale), 2), cut)


def _finite_law(randomizer: FiniteRandomizer) -> LawFor | None:
    found = _law_of(randomizer.probabilities)
    return None if found is None else lambda cut: found


@functools.lru_cache(maxsize=8)
def _law_of(probabilities: Any) -> ReportLaw | None:
    return finite_law(probabilities)


def _k_ary_law(randomizer: KaryRandomizedResponse) -> LawFor | None:
    found = k_ary_law(float(randomizer.local_epsilon), float(randomizer.num_categories))
    return None if found is None else lambda cut: found


_LAWS: dict[type, Callable[[Any], LawFor | None]] = {
    DensityReports: lambda randomizer: functools.partial(density_law_of, randomizer),
    FiniteRandomizer: _finite_law,
    GaussianReports: _gaussian_law,
    KaryRandomizedResponse: _k_ary_law,
    LaplaceReports: _laplace_law,
}
_FIELD: dict[type, str] = {Shuffled: "num_reports", CheckIn: "num_users"}
_USERS: dict[type, Callable[[Any], tuple[float, float]]] = {
    Shuffled: lambda run: (float(run.num_reports), 1.0),
    CheckIn: lambda run: (float(run.num_users), _joining(run)),
}


def _joining(run: CheckIn) -> float:
    """The probability of a report, rounded up."""
    return min(up(float(run.check_in_prob) * (1.0 - float(run.dropout_prob)), 6), 1.0)


def users_of(mechanism: Any) -> tuple[float, float]:
    """A tuple of floats: the number of users, and the probability with which each sends a report, rounded up."""
    return _USERS[type(mechanism)](mechanism)


def with_fewer(mechanism: Any) -> tuple[Any, ...]:
    """A tuple: `mechanism` and, if its users are very many, the same with fewer, whose bounds hold for more users."""
    fewer = [number for number in _MANY if number < users_of(mechanism)[0]]
    return mechanism, *(dataclasses.replace(mechanism, **{_FIELD[type(mechanism)]: number}) for number in fewer)


def blanket_round(mechanism: Any) -> Round | None:
    """One round (class `Round`) by what its reports have in common; None where nothing is known."""
    if not is_scalar(mechanism):
        return None
    law_for = _LAWS[type(mechanism.mechanism)](mechanism.mechanism)
    users, prob = users_of(mechanism)
    return Round(law_for, users, prob) if law_for is not None and prob > 0.0 else None


def has_blanket(mechanism: Any) -> bool:
    """bool: whether what its reports have in common is known, or nobody reports."""
    return (is_scalar(mechanism) and mechanism.loses_nothing()) or blanket_round(mechanism) is not None


# What single reports reveal: an epsilon that is known to be enough


def _gaussian_alone(randomizer: GaussianReports, delta: float) -> float:
    distance: Any = np.array([up(2.0 / float(randomizer.noise_multiplier), 4)])
    return float(gaussian_epsilon(np.log(np.array([delta * (1.0 - 2.0**-40)])), distance)[0])


def _pure_alone(randomizer: Any, delta: float) -> float:
    del delta
    return float(up(float(randomizer.local_epsilon), 8))


_ALONE: dict[type, Callable[[Any, float], float]] = {
    DensityReports: lambda reports, delta: alone_epsilon(functools.partial(density_law_of, reports), delta),
    FiniteRandomizer: _pure_alone,
    GaussianReports: _gaussian_alone,
    KaryRandomizedResponse: _pure_alone,
    LaplaceReports: _pure_alone,
}


def report_epsilon(mechanism: Any, delta: float) -> float:
    """A float: the epsilon at `delta` of a report that is not shuffled."""
    return _ALONE[type(mechanism.mechanism)](mechanism.mechanism, delta)
