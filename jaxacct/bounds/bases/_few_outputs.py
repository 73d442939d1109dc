"""Releases whose dominating pair has few outputs: the pair itself, and the law of its likelihood ratio.

Every probability is given by its logarithm, with bounds on the errors: sums over outputs are exact but for rounding.
"""

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import always
from jaxacct._types import TooFineError
from jaxacct.bounds.bases._base import Atoms, Base, check_fits, unbounded
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms, log_mixed_with_one
from jaxacct.mechanisms import (
    AboveThreshold,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    RandomizedResponse,
    Skellam,
)
from jaxacct.mechanisms._fields import number_fields
from jaxacct.special import SkellamMasses, down, product_outward, skellam_masses, skellam_reach, sum_outward, up

_NEAR = 10.0  # least number of standard deviations considered: e^-50 is below any rounding of a sum
_FAR = 38.0  # standard deviations: e^-(38^2 / 2) is below 1e-303
_OUTSIDE = 1e-303  # what lies beyond them, with the record or without; it carries the certificate
_NUM_GATHERINGS = 3  # the mean of what is near a place, then of what is near that mean, and so on
_RARE, _MOST_HALF = 0.5, 350.0  # a rare value's share of the largest weight, and the largest exponent of a weight
_LEAST_TAIL = 1e-250  # a smaller tail is not aimed at
_MOST_OUTPUTS = 2**23  # more are not listed
_COUNTED = 2**17  # up to so many outputs of discrete Gaussian noise are added up one by one
_LOG_LEAST = math.log(2.0**-1000)  # of a mass: a smaller one is counted at 0 or infinity (upper) or dropped (lower)


class Types(NamedTuple):
    """Log probabilities of each output (of several runs: each type) with the record and without it, and their errors.

    Attributes:
      log_p, log_q: float64 [N].
      error: the relative error of either probability.
      apart: the error of log_p - log_q, which is smaller where both are made with the same factor.
      outside: a bound on the probability of the types that are left out.
    """

    log_p: NDArray[np.float64]
    log_q: NDArray[np.float64]
    error: float
    apart: float
    outside: float = 0.0


def rounding(*logs: NDArray[np.float64]) -> float:
    """float: a bound on the relative error of e^x, for finite x [..] that are known to an ulp."""
    return 2.0**-51 * max(1.0, *(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in logs))


def _types(log_p: list[float] | NDArray[np.float64], log_q: list[float] | NDArray[np.float64]) -> Types:
    """From logarithms that err by four ulp of the largest of them."""
    p, q = np.asarray(log_p, np.float64), np.asarray(log_q, np.float64)
    error = 4.0 * rounding(p, q)
    return Types(p, q, error, 2.0 * error)


def _of_response(release: RandomizedResponse) -> Types:
    """(e^E, 1, k - 2) over e^E + k - 1 against (1, e^E, k - 2): answers that equal neither record are one output."""
    local, others = float(release.local_epsilon), float(release.num_categories) - 1.0
    top = -math.log1p(others * math.exp(-local))
    rest = [top - local + math.log(others - 1.0)] if others > 1.0 else []
    return _types([top, top - local, *rest], [top - local, top, *rest])


def _of_guarantee(release: EpsilonDelta) -> Types:
    """(D, (1-D) e^E / (1+e^E), (1-D) / (1+e^E), 0) against the same in reverse order."""
    local, delta = float(release.guaranteed_epsilon), float(release.guaranteed_delta)
    if delta == 0.0:
        top = -math.log1p(math.exp(-local))
        return _types([top, top - local], [top - local, top])
    log_delta = math.log(delta)
    log_rest = math.log1p(-delta) if delta < 1.0 else -math.inf
    top = log_rest - math.log1p(math.exp(-local))
    p = [log_delta, top, top - local, -math.inf]
    return _types(p, p[::-1])


def _of_discrete_laplace(release: DiscreteLaplace) -> Types:
    """The noise around D against that around 0: the outputs up to 0 are one, and those from D on.

    The mass at x is (1 - r) / (1 + r) r^|x|, r = e^-a; that of all x <= 0 is 1 / (1 + r).
    """
    decay, shift = float(release.noise_parameter), int(release.sensitivity)
    log_tail = -math.log1p(math.exp(-decay))
    inner = np.arange(1.0, shift)
    log_one = math.log(-math.expm1(-decay)) + log_tail if decay > 0.0 else -math.inf
    log_q = np.concatenate([[log_tail], log_one - decay * inner, [log_tail - decay * shift]])
    return _types(log_q[::-1], log_q)


def _gaussian_outputs(release: DiscreteGaussian, deviations: float) -> Types:
    """The noise around D against that around 0, at the outputs within some standard deviations of either.

    The outputs left out have probability at most e^(-z^2 / 2) under either: the sum over x > R of e^(-x^2 / 2 s^2) is
    at most the integral from R on, and the sum over all x at least s sqrt(2 pi), by Poisson's summation formula.
    """
    scale, shift = float(release.scale), int(release.sensitivity)
    reach = math.ceil(deviations * scale)
    noise = np.arange(-reach, reach + 1.0)
    # an exponential errs by some ulp of its exponent, which is 1/2 on average over the sum, or less
    log_whole = math.log(math.fsum(np.exp(-0.5 * (noise / scale) ** 2).tolist()))
    outputs = np.arange(-reach, reach + shift + 1.0)
    log_q, log_p = (-0.5 * ((outputs - centre) / scale) ** 2 - log_whole for centre in (0.0, float(shift)))
    outside = _OUTSIDE if deviations >= _FAR else math.exp(-0.5 * deviations**2) * (1.0 + 2.0**-40)
    return _types(log_p, log_q)._replace(outside=outside)


def _num_gaussian_outputs(release: DiscreteGaussian) -> float:
    """How many outputs are added up one by one; inf for too many."""
    if float(release.scale) > _COUNTED:  # before it overflows
        return math.inf
    number = 2.0 * math.ceil(_FAR * float(release.scale)) + 1.0 + float(release.sensitivity)
    return number if number <= _COUNTED else math.inf


_LOG_FAR = 699.0  # 2 e^-699 is below `_OUTSIDE`, which carries the certificate
_MOST_SUMMED = 2**20  # outputs of Skellam noise, made one after the other


def _skellam_around(release: Skellam, log_tail: float) -> tuple[NDArray[np.float64], SkellamMasses, int]:
    """The outputs [N] but for e^-log_tail on either side of the noise around 0 and around D, the masses, and D."""
    shift, reach = int(release.sensitivity), skellam_reach(float(release.variance), log_tail)
    outputs = np.arange(-reach, reach + shift + 1)
    return np.abs(outputs), skellam_masses(float(release.variance), reach + shift), shift


def _skellam_outputs(release: Skellam, log_tail: float, outside: float) -> tuple[Types, NDArray[np.float64]]:
    """The noise around D against that around 0, and log P - log Q."""
    outputs, masses, shift = _skellam_around(release, log_tail)
    log_p, log_q = masses.log_masses[outputs[::-1]], masses.log_masses[outputs]
    apart = up(shift * masses.error_of_step, 8)  # a loss is a sum of so many falls
    error = up(masses.error - math.log1p(-outside), 8)  # what lies outside is not in the sum that normalises them
    return Types(log_p, log_q, error, apart, outside), log_p - log_q


def _num_skellam_outputs(release: Skellam) -> float:
    """How many outputs are added up one by one; inf for too many."""
    if not 1e-290 < float(release.variance) < float(_COUNTED) ** 2:  # before it overflows
        return math.inf
    number = 2.0 * skellam_reach(float(release.variance), _LOG_FAR) + 1.0 + float(release.sensitivity)
    return number if number <= _COUNTED else math.inf


_NUMBERS: dict[type, Callable[[Any], float]] = {
    RandomizedResponse: lambda release: 2.0 if float(release.num_categories) == 2.0 else 3.0,
    EpsilonDelta: lambda release: 2.0 if float(release.guaranteed_delta) == 0.0 else 4.0,
    DiscreteLaplace: lambda release: float(release.sensitivity) + 1.0,
    DiscreteGaussian: _num_gaussian_outputs,
    Skellam: _num_skellam_outputs,
}
TYPES: dict[type, Callable[[Any], Types]] = {
    RandomizedResponse: _of_response,
    EpsilonDelta: _of_guarantee,
    DiscreteLaplace: _of_discrete_laplace,
    DiscreteGaussian: lambda release: _gaussian_outputs(release, _FAR),
    Skellam: lambda release: _skellam_outputs(release, _LOG_FAR, _OUTSIDE)[0],
}
"""The pair of each release."""


def _response_losses(release: RandomizedResponse) -> list[float]:
    local = float(release.local_epsilon)
    return [local, -local] if float(release.num_categories) == 2.0 else [local, -local, 0.0]


def _guarantee_losses(release: EpsilonDelta) -> list[float]:
    local = float(release.guaranteed_epsilon)
    return [local, -local] if float(release.guaranteed_delta) == 0.0 else [math.inf, local, -local, -math.inf]


def _laplace_losses(release: DiscreteLaplace) -> NDArray[np.float64]:
    shift = int(release.sensitivity)
    return float(release.noise_parameter) * (2.0 * np.arange(shift + 1.0) - shift)


def _gaussian_losses(release: DiscreteGaussian, deviations: float) -> NDArray[np.float64]:
    scale, shift = float(release.scale), int(release.sensitivity)
    reach = math.ceil(deviations * scale)
    return (np.arange(-reach, reach + shift + 1.0) - 0.5 * shift) * (shift / scale / scale)


_LOSSES: dict[type, Callable[[Any], Any]] = {
    RandomizedResponse: _response_losses,
    EpsilonDelta: _guarantee_losses,
    DiscreteLaplace: _laplace_losses,
}
"""log P - log Q of the outputs of a pair, formed without a difference of logarithms."""


def num_outputs(release: Any) -> float:
    """float: how many outputs the pair of a release of `TYPES` lists; inf for too many, and for arrays of releases."""
    if any(np.ndim(value) for _, value in release.numbers()):
        return math.inf
    return _NUMBERS[type(release)](release)


def law_of_atoms(
    name: str,
    log_values: NDArray[np.float64],
    masses: NDArray[np.float64],
    zero: float,
    infinite: float,
    step: float,
    side: Side,
) -> RatioLaw:
    """The law (`RatioLaw`) of finitely many finite values [N] of the log of a ratio, and masses at 0 and infinity.

    The value that decides the direction is on the lattice; so is its opposite if the step divides their distance. If
    that value is rare, in a law from below, the likeliest are gathered in a point, from which all others take mass.
    `name` is the name of the release in error messages.
    """
    check_fits(name, log_values.min(initial=0.0), log_values.max(initial=0.0), step)
    origin = 0.0
    if log_values.size:
        deciding = int(np.argmin(log_values) if side is Side.LOWER_ADD else np.argmax(log_values))
        weights = masses * np.exp(np.minimum(0.5 * log_values, _MOST_HALF))  # under both, their geometric mean
        likeliest = int(np.argmax(weights))
        origin = float(log_values[deciding])
        if side is not Side.UPPER and weights[deciding] < _RARE * weights[likeliest]:
            log_values, masses = _gathered(log_values, masses, float(log_values[likeliest]), step, side)
            origin = float(log_values[-1])
    return from_atoms(log_values, masses, zero, infinite, step, side, origin=origin)


def _gathered(log_values: Any, masses: Any, place: float, step: float, side: Side) -> tuple[Any, Any]:
    """The values [M] and their masses with those within a step of `place` merged into their mean, the last one.

    The mean errs by 2^-47 of a step, from the sums, and by the errors of the values; it is moved to the safe side by
    that much.
    """
    margin = 2.0**-46 * step + 2.0**-49 * float(np.abs(log_values).max())
    for _ in range(_NUM_GATHERINGS):
        distances = log_values - place
        near = np.abs(distances) <= step
        weights = masses[near] / masses[near].max()  # normal numbers, whatever the masses
        place += math.log1p(float((weights * np.expm1(distances[near])).sum() / weights.sum()))
    place += margin if side is Side.LOWER_ADD else -margin
    return np.append(log_values[~near], place), np.append(masses[~near], down(masses[near].sum(), 64))


def _law_of(types: Types, losses: Any, sampling_prob: float, step: float, side: Side) -> RatioLaw:
    """The law of 1 - q + q Y: an atom for each output of both; outputs of P alone are at infinity, of Q alone at 0.

    `losses` [N] are log P - log Q of the outputs, to some ulp of the largest of them.
    """
    above = side is Side.UPPER
    here = types.log_q > _LOG_LEAST
    masses, alone = np.exp(types.log_q[here]), np.exp(types.log_p[~here])
    log_values = log_mixed_with_one(np.asarray(losses)[here], sampling_prob, 1.0 - sampling_prob)
    there = log_values > -np.inf  # else P has none, and every record is sampled
    factor = 1.0 + types.error if above else 1.0 - types.error
    outside = [types.outside, _OUTSIDE * float((~here & (types.log_q > -np.inf)).any())] if above else []
    zero = sum_outward([*(masses[~there] * factor).tolist(), *outside], up=above)
    told = ~here & (above | (types.log_q == -np.inf))  # with next to no mass under Q: as if it had none
    infinite = sum_outward([*(alone[told[~here]] * factor).tolist(), *outside], up=above)
    infinite = product_outward(sampling_prob, infinite, up=above)
    return law_of_atoms("mechanism", log_values[there], masses[there] * factor, zero, infinite, step, side)


def _law(release: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one release whose pair is listed; nothing is cut off."""
    del tail
    if num_outputs(release) > _MOST_OUTPUTS:
        raise TooFineError(f"mechanism={release!r} has more than {_MOST_OUTPUTS} different outputs")
    return _law_of(TYPES[type(release)](release), _LOSSES[type(release)](release), sampling_prob, step, side)


def _law_of_gaussian(release: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of discrete Gaussian noise, as far out as `tail` requires."""
    aimed = max(tail, _LEAST_TAIL)
    deviations = max(_NEAR, math.sqrt(-2.0 * math.log(aimed)))
    number = 2.0 * deviations * float(release.scale) + float(release.sensitivity)
    if number > _MOST_OUTPUTS:
        raise TooFineError(f"mechanism={release!r} has some {number:.2g} different outputs: too many")
    losses = _gaussian_losses(release, deviations)
    return _law_of(_gaussian_outputs(release, deviations), losses, sampling_prob, step, side)


def _law_of_skellam(release: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of Skellam noise, as far out as `tail` requires; the error of a loss becomes a blur of its place."""
    aimed = min(max(tail, _LEAST_TAIL), 0.5)
    variance, log_tail = float(release.variance), math.log(2.0 / aimed)
    number = math.inf
    if 1e-290 < variance < float(_MOST_SUMMED) ** 2:
        number = 2.0 * skellam_reach(variance, log_tail) + float(release.sensitivity)
    if number > _MOST_SUMMED:
        raise TooFineError(f"mechanism={release!r} has some {number:.2g} different outputs: too many")
    types, losses = _skellam_outputs(release, log_tail, aimed)
    law = _law_of(types, losses, sampling_prob, step, side)
    return dataclasses.replace(law, blur=law.blur + types.apart)


def _atoms(release: Any, sampling_prob: float) -> Atoms:
    """Evenly spaced, if nothing is sampled."""
    losses = np.asarray(_LOSSES[type(release)](release))
    finite = losses[np.isfinite(losses)]
    if finite.size < 2:
        return Atoms()
    if sampling_prob == 1.0:
        return Atoms(float(np.ptp(finite)) / (finite.size - 1), float(np.ptp(finite)))
    return Atoms(range=float(np.ptp(log_mixed_with_one(finite, sampling_prob, 1.0 - sampling_prob))))


def _atoms_of_gaussian(release: DiscreteGaussian, sampling_prob: float) -> Atoms:
    shift, scale = float(release.sensitivity), float(release.scale)
    return Atoms(spacing=shift / scale / scale) if sampling_prob == 1.0 else Atoms()


def _largest_of_guarantee(release: EpsilonDelta) -> float:
    return up(float(release.guaranteed_epsilon), 4) if float(release.guaranteed_delta) == 0.0 else math.inf


def _spread_of_gaussian(release: DiscreteGaussian) -> float:
    """Approximately Var(dP/dQ): that of the continuous noise, its exponent capped so that it does not overflow."""
    return math.expm1(min((float(release.sensitivity) / max(float(release.scale), 1e-9)) ** 2, 700.0))


def _spread_of_skellam(release: Skellam) -> float:
    """Approximately Var(dP/dQ), to about nine standard deviations; where noise is wide, that of Gaussian noise."""
    variance, shift = float(release.variance), float(release.sensitivity)
    if not 1e-290 < variance < _COUNTED:
        return math.expm1(min(shift * (shift / max(variance, 1e-290)), 700.0))
    types = _skellam_outputs(release, 40.0, 0.0)[0]
    return float(np.exp(np.minimum(2.0 * types.log_p - types.log_q, 700.0)).sum()) - 1.0


def _guarantee_of(release: AboveThreshold) -> EpsilonDelta:
    """A mechanism of class `EpsilonDelta`: the pure guarantee of the sparse vector technique, rounded up."""
    return EpsilonDelta(min(_pure_epsilon(release), sys.float_info.max))


def _pure_epsilon(release: AboveThreshold) -> float:
    """Its pure epsilon, rounded up: of its fields as doubles, whatever type they are of."""
    fields: dict[str, Any] = {name: float(getattr(release, name)) for name in number_fields(type(release))}
    return up(float(dataclasses.replace(release, **fields).pure_epsilon), 4)


_OPTIONS: dict[str, Any] = {"is_symmetric": True, "is_light": True}
RESPONSE = Base(law=_law, largest_loss=lambda release: up(float(release.local_epsilon), 4), atoms=_atoms, **_OPTIONS)
GUARANTEE = Base(law=_law, largest_loss=_largest_of_guarantee, atoms=_atoms, **_OPTIONS)
DISCRETE_LAPLACE = Base(
    law=_law,
    largest_loss=lambda release: up(float(release.noise_parameter) * float(release.sensitivity), 4),
    atoms=_atoms,
    **_OPTIONS,
)
DISCRETE_GAUSSIAN = Base(
    law=_law_of_gaussian,
    largest_loss=unbounded,
    spread=_spread_of_gaussian,
    atoms=_atoms_of_gaussian,
    is_symmetric=True,
)
SKELLAM = Base(law=_law_of_skellam, largest_loss=unbounded, spread=_spread_of_skellam, is_symmetric=True)
ABOVE_THRESHOLD = Base(
    law=lambda release, *at: _law(_guarantee_of(release), *at),
    largest_loss=_pure_epsilon,
    atoms=lambda release, sampling_prob: _atoms(_guarantee_of(release), sampling_prob),
    is_envelope=always,
    **_OPTIONS,
)
