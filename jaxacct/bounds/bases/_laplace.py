"""The likelihood ratio of one Laplace release, sampled or not, on a lattice."""

import math

import numpy as np

from jaxacct.bounds.bases._base import Base, check_fits, sampled
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms, from_masses, merged
from jaxacct.mechanisms import Laplace
from jaxacct.special import up

_LEAST_NOISE = 2.0**-40  # smaller scales count as this where the atom is placed: it is beyond every grid anyway


def _law(release: Laplace, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """Loss (|x| - |x - 1|)/b: atoms at -1/b (x <= 0) and 1/b (x >= 1), a density between."""
    del tail  # nothing is cut off
    noise_multiplier = float(release.noise_multiplier)
    top = 1.0 / noise_multiplier
    check_fits(f"noise_multiplier={noise_multiplier}", -top, top, step)
    first, last = math.floor(-top / step) - 1, math.ceil(top / step) + 1
    edges = np.clip(step * np.arange(first, last + 1), -top, top)
    # between the atoms x = (b l + 1)/2, with Q(x > .) = e^{-x/b}/2 and P(x < .) = e^{(x-1)/b}/2
    q_above, p_below = 0.5 * np.exp(-(edges + top) / 2.0), 0.5 * np.exp((edges - top) / 2.0)
    law = from_masses(-np.diff(q_above), np.diff(p_below), first * step, step, side)
    q_atoms = np.array([0.5, 0.5 * math.exp(-top)])
    atoms = from_atoms(np.array([-top, top]), q_atoms, 0.0, 0.0, step, side)
    return sampled(merged(law, atoms), sampling_prob)


def _largest_loss(release: Laplace) -> float:
    """1/b, rounded up; inf where it is no double."""
    scale = float(release.noise_multiplier)
    return up(1.0 / scale, 32) if scale > 1e-300 else math.inf


def _atom(release: Laplace) -> float:
    """1/b: the loss that half of P has, and half of Q its negative."""
    return 1.0 / max(float(release.noise_multiplier), _LEAST_NOISE)


BASE = Base(law=_law, largest_loss=_largest_loss, atom=_atom, is_symmetric=True)
