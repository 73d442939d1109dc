"""The likelihood ratio of one Gaussian step, sampled or not, on a lattice."""

import dataclasses
import math

import numpy as np

from jaxacct.bounds.bases._base import MAX_LOSS, Base, check_fits, too_far, unbounded
from jaxacct.bounds.bases._normal import SURE_Z, reach_for
from jaxacct.divergence.lattice._continuous_cells import gaussian_cells
from jaxacct.divergence.lattice._ratio import DEPTH, RatioLaw, Side, from_cells, trimmed
from jaxacct.mechanisms import Gaussian
from jaxacct.special import ULP, rows_times

_NUM_SHIFTS = 8  # shifted lattices tried for a lower bound of a sampled step: the tightest is kept
_NEAR = 2**10  # cells to either side of R = 1 by which they are compared
_CELLS = 2.0**-46  # relative, of a cell's masses under Q and under P, for a width of 1 in z: measured below a third
_LEAST_NOISE = 1e-9  # noise multipliers below it count as this in a spread, which decides resolutions only


def _law(release: Gaussian, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one step: cells of the lattice, their masses split between their ends."""
    noise_multiplier = float(release.noise_multiplier)
    mu = 1.0 / noise_multiplier
    if sampling_prob == 1.0 and 0.5 * mu * mu > MAX_LOSS + 2.0 * step:  # half of the law lies below that
        raise too_far(release)
    z_range, outside = reach_for(tail)
    reach = z_range * mu
    low = (
        math.log1p(sampling_prob * math.expm1(-reach - 0.5 * mu * mu))
        if sampling_prob < 1.0
        else -reach - 0.5 * mu * mu
    )
    # a cell's share under Q that underflows takes at most 2^-1022 Y under P with it, Y <= e^{z mu - mu^2/2}, a double
    # whatever mu is: up to `SURE_Z` at most e^648
    outside = max(outside, 2.0**-1000 * math.exp(SURE_Z * min(mu, SURE_Z) - 0.5 * min(mu, SURE_Z) ** 2))
    # beyond, whole cells do, or Y itself overflows; or their losses, at most log Y, are larger than may be held
    sure_z = min(SURE_Z, (MAX_LOSS - 2.0 * step) / mu + 0.5 * mu)
    beyond = sampling_prob * 0.5 * math.erfc((sure_z - mu) / math.sqrt(2.0)) * (1.0 + 2.0**-40)
    top = reach + 0.5 * mu * mu  # Y there; P itself is centred mu^2 higher than Q
    # cells beyond what may be held are left out below, and accounted for
    high = min(top + math.log(sampling_prob + (1.0 - sampling_prob) * math.exp(-top)), MAX_LOSS)
    check_fits(f"noise_multiplier={noise_multiplier}", low, high, step)
    first = math.floor(low / step) - 1  # so that the outer cells hold only what lies outside
    size = max(8, math.ceil(high / step) - first + 3)
    padded = 1 << (size - 1).bit_length()
    size = padded if (first + padded) * step < MAX_LOSS else size

    # differences of normal tails: relative errors of 128 ULP by a cell's width in z; sampled, they are added as such
    error = _CELLS * mu / step
    additions, blur = (error / ULP, _CELLS + error) if sampling_prob == 1.0 else (0.0, None)

    def on_lattice(begin: float, size: int, depth: int = DEPTH) -> RatioLaw:
        held = (begin + 1.0 + np.arange(size)) * step <= MAX_LOSS
        low_mass, high_mass = (
            np.where(held, mass, 0.0) for mass in gaussian_cells(mu, sampling_prob, begin, step, size=size)
        )
        if side is Side.UPPER:
            law = from_cells(low_mass, high_mass, begin * step, step, side, additions=additions, blur=blur)
            return dataclasses.replace(law, zero_mass=outside, infinite_mass=min(1.0, outside + beyond))
        ends = np.zeros_like(low_mass)  # the outer cells reach further than their ends: left out
        ends[1:-1] = 1.0
        inner = low_mass * ends, high_mass * ends
        return from_cells(*inner, begin * step, step, side, depth=depth, additions=additions, blur=blur)

    if side is Side.UPPER or sampling_prob == 1.0:
        return trimmed(on_lattice(first, size), 1.0, tail)
    # Most of a sampled step's law may lie within a few cells: then one lattice loses much less than another.
    sign = 1.0 if side is Side.LOWER_REMOVE else -1.0
    near = max(first, -_NEAR)

    def mean(shift: float) -> float:
        law = on_lattice(near + shift, min(first + size, _NEAR) - near, depth=0)
        return sign * float(rows_times(law.masses, np.expm1(law.log_values)))

    best = max((-k / _NUM_SHIFTS for k in range(_NUM_SHIFTS)), key=mean)
    return trimmed(on_lattice(first + best, size), 1.0, tail)


def _spread(release: Gaussian) -> float:
    """Var(dP/dQ) = e^(1/sigma^2) - 1, with the exponent capped so that it does not overflow."""
    return math.expm1(min(max(float(release.noise_multiplier), _LEAST_NOISE) ** -2.0, 700.0))


BASE = Base(law=_law, largest_loss=unbounded, spread=_spread, is_symmetric=True)
