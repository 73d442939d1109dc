"""The likelihood ratio of one release of a sampled record that is replaced by another, on a lattice.

The pair of `jaxacct.bounds.adjacent`: P = sum_i p_i N(c_i, s^2) against its mirror image Q = sum_i p_i N(-c_i, s^2), or
Laplace noise in the place of Gaussian noise. Y = dP/dQ grows with x, and Y(-x) = 1 / Y(x).
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import TooFineError
from jaxacct.bounds.bases._base import check_fits
from jaxacct.bounds.bases._laplace import points_between
from jaxacct.bounds.bases._mixture import log_ratio, mixture_of
from jaxacct.bounds.bases._normal import SURE_Z, reach_for
from jaxacct.divergence.lattice._continuous_cells import normal_cell_masses
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms, from_masses, merged
from jaxacct.mechanisms import MixtureOfGaussians
from jaxacct.special import bisect_lanes, up

_NUM_HALVINGS = 64  # of a bracket of x
_MOST_TERMS = 2**31  # numbers in all the sums over shifts and cells: more, and the law is refused


def mirrored_mixture(
    release: MixtureOfGaussians, sampling_prob: float, step: float, side: Side, tail: float
) -> RatioLaw:
    """The law (`RatioLaw`) of P against Q: cells of x between lattice points of Y, masses from distribution functions.

    Shifts that are rarer than what lies outside are treated as revealed: masses at 0 and at infinity.
    """
    mu, shares = mixture_of(release, sampling_prob)
    z_range, outside = reach_for(tail)
    kept = np.cumsum(shares[::-1])[::-1] > outside
    told, mu, shares = float(shares[~kept].sum()), mu[kept], shares[kept]
    last_z = float(mu[-1]) + z_range
    if last_z > SURE_Z:
        raise TooFineError(f"mechanism={release!r}: shifts of {mu[-1]:.3g} standard deviations underflow in float64")
    high = float(_log_mirrored(np.array([last_z]), mu, shares)[0])
    check_fits("mechanism=MixtureOfGaussians", -high, high, step)
    last = math.ceil(high / step)
    inner = step * np.arange(1 - last, last)
    is_sampled = mu.size == 2 and mu[0] == 0.0
    points, blur = _sampled_points(inner, mu[1], shares) if is_sampled else _points(inner, last_z, mu, shares)
    z = np.concatenate([[-last_z], np.clip(points, -last_z, last_z), [last_z]])
    p, q = (
        sum(share * normal_cell_masses(z - sign * shift) for shift, share in zip(mu, shares, strict=True))
        for sign in (1.0, -1.0)
    )
    law = from_masses(np.asarray(q), np.asarray(p), -last * step, step, side)
    law = dataclasses.replace(law, blur=law.blur + blur)
    if side is not Side.UPPER:
        return law
    return dataclasses.replace(law, zero_mass=up(outside + told, 16), infinite_mass=up(outside + told, 16))


def _log_mirrored(z: NDArray[Any], mu: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    return log_ratio(z, mu, shares) - log_ratio(-z, mu, shares)


def _sampled_points(losses: NDArray[Any], mu: float, shares: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """z [N] where Y is e^l, for shifts 0 and `mu`, and how far log Y is from l there.

    With c = q/(1-q) e^(-mu^2/2) the ratio is (1 + c e^(mu z)) / (1 + c e^(-mu z)), a quadratic in e^(mu z):
    mu z = l/2 + asinh(sinh(l/2) / c). Its rounding, 16 units of 2^-53 of 1 + |mu z|, moves log Y by the sum of both
    posterior shares times as much, w(z) + w(-z), w = c e^(mu z) / (1 + c e^(mu z)).
    """
    log_c = math.log(shares[1]) - math.log(shares[0]) - 0.5 * mu * mu
    c = math.exp(log_c)
    with np.errstate(over="ignore"):
        place = 0.5 * losses + np.arcsinh(np.sinh(0.5 * losses) / c)
        shares_there = sum(1.0 / (1.0 + np.exp(-(log_c + sign * place))) for sign in (1.0, -1.0))
    error = 2.0**-49 * (1.0 + abs(log_c) + np.abs(place)) * shares_there
    return place / mu, float(error.max(initial=0.0))


def _points(losses: NDArray[Any], last_z: float, mu: NDArray[Any], shares: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """z [N] where Y is e^l, by halving, and how far log Y is from l there: found, and the rounding of its sums."""
    if losses.size * mu.size * _NUM_HALVINGS > _MOST_TERMS:
        raise TooFineError(f"{mu.size} shifts on {losses.size} cells are too many")
    below = bisect_lanes(
        lambda z: _log_mirrored(z, mu, shares) < losses,
        np.full(losses.shape, -last_z),
        last_z,
        num_steps=_NUM_HALVINGS,
    )
    off = float(np.abs(_log_mirrored(below, mu, shares) - losses).max(initial=0.0))
    largest = 1.0 + float(mu[-1]) * (last_z + float(mu[-1])) - math.log(float(shares.min()))
    return below, off + 2.0**-49 * (4.0 + mu.size) * largest


def spread(release: MixtureOfGaussians, sampling_prob: float) -> float:
    """float: approximately the variance of dP/dQ, 4 sum_ij p_i p_j sinh(mu_i mu_j). It decides resolutions only."""
    mu, shares = mixture_of(release, sampling_prob)
    return 4.0 * float(shares @ np.sinh(np.minimum(np.outer(mu, mu), 300.0)) @ shares)


LEAST_SCALE = 1.0 / 16.0
"""Of Laplace noise: below it the masses of cells carry more rounding error than laws account for."""


def laplace_loss(scale: float, sampling_prob: float) -> float:
    """float: the largest log of dP/dQ, an atom at x >= 1, as -this is one at x <= -1; not rounded."""
    top = 1.0 / scale
    return math.log1p(sampling_prob * math.expm1(top)) - math.log1p(sampling_prob * math.expm1(-top))


def mirrored_laplace(scale: float, sampling_prob: float, step: float, side: Side) -> RatioLaw:
    """The law (`RatioLaw`) of (1-q) Lap(0, b) + q Lap(1, b) against (1-q) Lap(0, b) + q Lap(-1, b).

    For x in [0, 1] the ratio is (1 - q + q e^((2x - 1)/b)) / (1 - q + q e^(-1/b)), which is e^l at

        2 x / b = log(1 + e^(1/b) (1 - q + q e^(-1/b)) (e^l - 1) / q).
    """
    top, q = 1.0 / scale, sampling_prob
    loss = laplace_loss(scale, q)
    check_fits(f"noise_multiplier={scale}", -loss, loss, step)
    origin = -loss if side is Side.LOWER_ADD else loss  # the atom that decides the direction is on the lattice
    first, inner = points_between(-loss, loss, origin, step)
    rest = 1.0 + q * math.expm1(-top)
    half = 0.5 * np.log1p(math.exp(top) * rest * np.expm1(np.abs(inner)) / q)  # |x| / b
    x = np.concatenate([[-top], np.copysign(np.clip(half, 0.0, top), inner), [top]])
    p_cells, q_cells = (1.0 - q) * _laplace_cells(x, 0.0), (1.0 - q) * _laplace_cells(x, 0.0)
    p_cells, q_cells = p_cells + q * _laplace_cells(x, top), q_cells + q * _laplace_cells(x, -top)
    law = from_masses(q_cells, p_cells, origin + first * step, step, side)
    low, high = 0.5 * (1.0 - q) * math.exp(-top) + 0.5 * q, 0.5 * math.exp(-top) * (1.0 - q + q * math.exp(-top))
    return merged(law, from_atoms(np.array([-loss, loss]), np.array([low, high]), 0.0, 0.0, step, side, origin=origin))


def _laplace_cells(x: NDArray[Any], centre: float) -> NDArray[Any]:
    """Masses [N - 1] between neighbours of x [N], in units of the scale, of unit Laplace noise about `centre`.

    Cells on either side of the centre by one exponential, the one that holds it by two.
    """
    left, right = x[:-1] - centre, x[1:] - centre
    width = -np.expm1(-(x[1:] - x[:-1]))
    outside = 0.5 * np.exp(-np.maximum(left, -right)) * width
    inside = -0.5 * (np.expm1(-np.abs(left)) + np.expm1(-np.abs(right)))
    return np.where((left < 0.0) & (right > 0.0), inside, outside)
