"""The likelihood ratio of one Laplace release, sampled or not, on a lattice."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import always
from jaxacct.bounds.bases._base import MAX_LOSS, Atoms, Base, check_fits, too_far
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms, from_masses, log_mixed_with_one, merged
from jaxacct.mechanisms import Laplace, PermuteAndFlip
from jaxacct.special import down, up

_LEAST_NOISE = 2.0**-40  # smaller scales count as this where the atom is placed: it is beyond every grid anyway
_LEAST_EPSILON, _MOST_NOISE = 1e-150, 1e150  # permute-and-flip of an epsilon below the first counts as that noise
_ON_POINT = 1e-9  # of a step: an atom this near a point counts as on it where cells are counted; tightness only


def _ends(release: Laplace, sampling_prob: float) -> tuple[float, float]:
    """The least and the largest log of 1 - q + q Y: an atom each."""
    top = 1.0 / max(float(release.noise_multiplier), _LEAST_NOISE)
    low, high = log_mixed_with_one(np.array([-top, top]), sampling_prob, 1.0 - sampling_prob)
    return float(low), float(high)


def _atoms(release: Laplace, sampling_prob: float) -> Atoms:
    low, high = _ends(release, sampling_prob)
    return Atoms(range=high - low)


def points_between(low: float, high: float, origin: float, step: float) -> tuple[int, NDArray[Any]]:
    """(index j of the last point at or below `low`, points [N] from there to `high`) of the lattice origin + j step.

    A point within a share of `step` of either end counts as that end.
    """
    first, last = math.floor((low - origin) / step + _ON_POINT), math.ceil((high - origin) / step - _ON_POINT)
    return first, origin + step * np.arange(first + 1, last)


def _law(release: Laplace, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The loss l = (|x| - |x - 1|)/b has atoms at -1/b (x <= 0) and 1/b (x >= 1), a density between.

    Cells of 1 - q + q e^l itself, whose masses under P and Q are differences of exponentials: no law of l is moved.
    """
    del tail  # nothing is cut off
    noise_multiplier = float(release.noise_multiplier)
    top = 1.0 / noise_multiplier
    low, high = _ends(release, sampling_prob)
    if max(-low, high) > MAX_LOSS + step:  # both atoms stay
        raise too_far(release)
    check_fits(f"noise_multiplier={noise_multiplier}", low, high, step)
    # the atom that decides the direction is on the lattice, both are where the step divides their distance
    origin = low if side is Side.LOWER_ADD else high
    first, inner = points_between(low, high, origin, step)
    losses = inner if sampling_prob == 1.0 else np.log1p(np.maximum(np.expm1(inner) / sampling_prob, -1.0))
    edges = np.concatenate([[-top], np.clip(losses, -top, top), [top]])
    # between the atoms x = (b l + 1)/2, with Q(x > .) = e^{-x/b}/2 and P(x < .) = e^{(x-1)/b}/2
    q_between = 0.5 * np.exp(-(edges[:-1] + top) / 2.0) * -np.expm1(-0.5 * np.diff(edges))
    p_between = 0.5 * np.exp((edges[1:] - top) / 2.0) * -np.expm1(-0.5 * np.diff(edges))
    p_between = (1.0 - sampling_prob) * q_between + sampling_prob * p_between
    law = from_masses(q_between, p_between, origin + first * step, step, side)
    q_atoms = np.array([0.5, 0.5 * math.exp(-top)])
    atoms = from_atoms(np.array([low, high]), q_atoms, 0.0, 0.0, step, side, origin=origin)
    return merged(law, atoms)


def _largest_loss(release: Laplace) -> float:
    """1/b, rounded up; inf where it is no double."""
    scale = float(release.noise_multiplier)
    return up(1.0 / scale, 32) if scale > 1e-300 else math.inf


def of_choice(release: PermuteAndFlip) -> Laplace:
    """A mechanism of class `Laplace` that dominates permute-and-flip: of scale 1/E, rounded down."""
    epsilon = float(release.choice_epsilon)
    return Laplace(down(1.0 / epsilon, 4)) if epsilon > _LEAST_EPSILON else Laplace(_MOST_NOISE)


BASE = Base(law=_law, largest_loss=_largest_loss, atoms=_atoms, is_light=True, is_symmetric=True)
PERMUTE_AND_FLIP = Base(
    law=lambda release, *at: _law(of_choice(release), *at),
    largest_loss=lambda release: up(float(release.choice_epsilon), 4),
    atoms=lambda release, sampling_prob: _atoms(of_choice(release), sampling_prob),
    is_envelope=always,
    is_light=True,
    is_symmetric=True,
)
