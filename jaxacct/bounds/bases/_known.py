"""The likelihood ratio, on a lattice, of a release of which a dominating privacy loss distribution is given."""

import numpy as np

from jaxacct._method import always
from jaxacct._types import Bound, Direction
from jaxacct.bounds.bases._base import MAX_LOSS, Base, sampled, unbounded
from jaxacct.curves import Pld
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, from_atoms
from jaxacct.special import LEAST_NORMAL, up

_SUMS = 2.0**-44  # rounding of sums of masses and of a difference to 1
_LOWEST = -0.5 * MAX_LOSS  # nats: from it up e^-loss is a double


def _law(pld: Pld, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of one release, moved from its own grid to the lattice."""
    del tail  # nothing is cut off
    wanted = Bound.UPPER if side is Side.UPPER else Bound.LOWER
    if pld.direction is not Direction.REMOVE or pld.bound is not wanted:
        raise ValueError(f"mechanism={pld!r}: a base Pld must be the {wanted.value} of the remove direction")
    if side is Side.LOWER_ADD:
        raise ValueError(
            f"mechanism={pld!r}: a base Pld bounds the add direction from above only; give its discrete pair"
        )
    p, infinite, zero = pld.masses, pld.infinite_mass, 0.0
    losses = np.maximum(pld.losses, _LOWEST)  # as if the other distribution had less there, the rest alone
    if side is Side.UPPER:
        # masses rounded up add to more than 1: the excess leaves at the lowest losses, which keeps the profile above
        # (it is linear there, and convex curves from 1 lie below their chords)
        excess = float(p.sum()) + infinite - 1.0
        p = p - np.clip(excess - _SUMS - (np.cumsum(p) - p), 0.0, p)
        infinite += max(0.0, -excess)
    else:
        p = np.where(pld.losses < _LOWEST, 0.0, p)
    masses = p * np.exp(-losses)
    if side is Side.UPPER:
        # where the other distribution's mass is no normal double, or the loss beyond every law, it counts as none
        far = (p > 0.0) & ((losses > MAX_LOSS) | (masses < LEAST_NORMAL))
        infinite = up(infinite + float(p[far].sum()), 64)
        masses = np.where(far, 0.0, masses)
        zero = max(0.0, 1.0 - float(masses.sum())) + _SUMS  # the difference carries its rounding
    return sampled(from_atoms(losses, masses, zero, infinite, step, side, origin=pld.offset), sampling_prob)


BASE = Base(law=_law, largest_loss=unbounded, is_from_above=always)
