"""What one release reveals, as finitely many values of its likelihood ratio, for lower bounds that use no lattice."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._types import Bound, Direction, TooFineError
from jaxacct.bounds.bases import _discrete, base_of, law, spread
from jaxacct.bounds.bases._base import side_of
from jaxacct.bounds.bases._few_outputs import TYPES, Types, num_outputs
from jaxacct.divergence._point_steps import Points
from jaxacct.divergence.lattice._ratio import RatioLaw
from jaxacct.mechanisms import DiscretePair

# Any value of these is valid: they steer speed and tightness.
_MOST = 1024  # values of a ratio
_FEW, _FINE = 256, 2.0**-14  # up to so many are kept as they are, on a lattice with this share of their range as step
_CELLS = 384  # else the range is cut into so many cells
_PER_DEVIATION = 32.0  # or one standard deviation into so many, where the range is unbounded
_TAIL = 1e-18  # mass that may be dropped at either end

_LISTED: dict[type, Callable[[Any], Types]] = {**TYPES, DiscretePair: _discrete.listed}


def _num_listed(release: Any) -> float:
    """How many outputs are listed; inf where none are, or too many."""
    if type(release) not in _LISTED:
        return math.inf
    return num_outputs(release) if type(release) in TYPES else len(release.p)


def _of_law(law: RatioLaw, direction: Direction) -> Points:
    """The points of a law for a lower bound, its blur accounted for: values move down (remove) or up (add)."""
    kept = law.masses > 0.0
    slack = (law.blur + 2.0**-51 * law.reach) * (-1.0 if direction is Direction.REMOVE else 1.0)
    log_ratios, masses = law.log_values[kept] + slack, law.masses[kept]
    if law.zero_mass > 0.0:
        log_ratios, masses = np.append(log_ratios, -np.inf), np.append(masses, law.zero_mass)
    return Points(log_ratios, masses, law.infinite_mass)


def _of_types(types: Types, direction: Direction) -> Points:
    """The points of a pair whose outputs are listed: an output that both have by its own ratio."""
    there = types.log_q > -np.inf
    log_p, log_q = types.log_p[there], types.log_q[there]
    slack = (types.apart + 2.0**-50 * (np.abs(log_q) + 1.0)) * (-1.0 if direction is Direction.REMOVE else 1.0)
    masses = np.exp(log_q) * (1.0 - types.error - 2.0**-50)
    infinite = math.fsum(np.exp(types.log_p[~there])) * (1.0 - types.error - 2.0**-50)
    used = masses > 0.0
    return Points((log_p - log_q + slack)[used], masses[used], infinite)


@functools.lru_cache(maxsize=64)
def points_below(release: Any, sampling_prob: float, direction: Direction) -> Points:
    """`Points` (arrays [J]) of one step of `release`, sampled with `sampling_prob`, for a lower bound in `direction`.

    Raises:
      TooFineError: if its losses are out of reach.
    """
    if sampling_prob == 1.0 and _num_listed(release) <= _MOST:
        return _of_types(_LISTED[type(release)](release), direction)
    side = side_of(Bound.LOWER, direction)
    spacing, whole = base_of(release).atoms(release, sampling_prob)
    if spacing > 0.0:
        found = law(release, sampling_prob, spacing, side, _TAIL)
        if (together := math.ceil(np.count_nonzero(found.masses) / _MOST)) > 1:
            found = law(release, sampling_prob, spacing * together, side, _TAIL)
        return _of_law(found, direction)
    if whole > 0.0:
        fine = law(release, sampling_prob, whole * _FINE, side, _TAIL)
        if np.count_nonzero(fine.masses) <= _FEW:
            return _of_law(fine, direction)
        return _of_law(law(release, sampling_prob, whole / _CELLS, side, _TAIL), direction)
    deviation = math.sqrt(math.log1p(sampling_prob**2 * spread(release)))
    if not 0.0 < deviation < math.inf:
        raise TooFineError(f"{release!r}: its losses do not fit a lattice")
    step = deviation / _PER_DEVIATION
    found = law(release, sampling_prob, step, side, _TAIL)
    used = np.flatnonzero(found.masses)
    if len(used) > _MOST:
        found = law(release, sampling_prob, step * (len(used) / _MOST), side, _TAIL)
    return _of_law(found, direction)
