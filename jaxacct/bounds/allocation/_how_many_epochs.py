"""The upper bound for k-out-of-t allocation that uses how many steps a record joined, for several epochs.

An epoch's likelihood ratio is L <= sum_j A_j Y_j (`_how_many`), A = sum_j A_j. Let the side with the record draw j with
probability A_j / A, let the other side draw j with any q_j of sum at most 1, and let both reveal j: that pair has the
ratio A_j Y_j / (A q_j), and hiding j again leaves sum_j A_j Y_j / A. So for E epochs

    delta(eps) <= A^E E_Q (prod_e sum_j (A_j / A) Y_j - e^{eps - E log A})_+ <= A^E delta_E(eps - E log A),

where delta_E is the profile of E runs of the pair that reveals j. With one epoch the best q_j recover `_how_many`.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from jaxacct._method import Query
from jaxacct._types import Direction
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds
from jaxacct.curves._regridding import on_grid
from jaxacct.special import LEAST_NORMAL, log_or_minus_inf, log_sum_exp, rows_times, up

Real = np.ndarray[Any, np.dtype[np.float64]]

_FINENESS = 200.0  # points of an epoch's grid for each standard deviation: any value is valid
# These carry the certificate.
_SPARE = 1e-9  # taken off log q_j, so that the q_j add up to less than 1
_ROUNDING = 2.0**-40  # relative, of a weight and of A^E
_LARGEST = 600.0  # e^x is a double for x up to this


class EpochPart(Protocol):
    """An upper bound on log A_j, and the composed law of log Y_j, remove direction, from above."""

    @property
    def log_weight(self) -> float:
        """An upper bound on log A_j."""

    @property
    def law(self) -> Pld:
        """The law of log Y_j."""


def _log_norms(parts: Sequence[EpochPart], order: float) -> Real:
    """Logarithms [J] of the norms (E_Q Y_j^a)^(1/a), approximately."""
    logs = []
    for part in parts:
        used = part.law.masses > 0.0
        logs.append(log_sum_exp(np.log(part.law.masses[used]) + (order - 1.0) * part.law.losses[used]))
    return np.array(logs) / order


def _shown(parts: Sequence[EpochPart], order: float) -> tuple[Pld, float]:
    """One epoch of the pair that reveals j, and log A, both from above; the q_j are nearly the best at `order`."""
    weights = np.array([part.log_weight for part in parts])
    log_a = float(log_sum_exp(weights)) + _SPARE
    wanted = weights + _log_norms(parts, order)
    shifts = weights - log_a - (wanted - log_sum_exp(wanted)) + _SPARE  # log A_j / (A q_j)
    step = min(part.law.step for part in parts)
    laws = [part.law if part.law.step == step else on_grid(part.law, step) for part in parts]
    # shifts are rounded up to the grid, which makes a q_j smaller
    origin = laws[0].offset
    places = [math.ceil((law.offset + shift - origin) / step) for law, shift in zip(laws, shifts, strict=True)]
    first = min(places)
    masses = np.zeros(max(at + len(law.masses) for at, law in zip(places, laws, strict=True)) - first)
    infinite = 0.0
    for at, law, weight in zip(places, laws, weights, strict=True):
        share = math.exp(weight - log_a) * (1.0 + _SPARE)
        masses[at - first : at - first + len(law.masses)] += share * law.masses
        infinite += share * law.infinite_mass
    rounded = {"masses": masses * (1.0 + _ROUNDING), "infinite_mass": up(infinite, 64)}
    first_law = laws[0]
    whole = Pld(origin + step * first, step, bound=first_law.bound, direction=Direction.REMOVE, **rounded)
    return whole, log_a


def deviation(x: Real, log_weights: Real) -> float:
    """float: the standard deviation of x [N] under weights [N]."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return math.sqrt(float(rows_times(weights, np.square(x - rows_times(weights, x)))))


def _coarser(law: Pld) -> Pld:
    """`law` on a grid with `_FINENESS` points for each standard deviation, if its own has more."""
    step = deviation(law.losses, log_or_minus_inf(law.masses)) / _FINENESS
    return on_grid(law, step) if step > law.step else law


def epochs_upper(parts: Sequence[EpochPart], epochs: int, order: float, query: Query, target: float) -> float:
    """float: epsilon at a delta, or delta at an epsilon, upper bound, remove direction; inf where nothing is known.

    `order` is the Renyi order for which the q_j are chosen.
    """
    shown, log_a = _shown(parts, order)
    shown = _coarser(shown)
    whole = epochs * log_a * (1.0 + _ROUNDING)
    if whole > _LARGEST:
        return math.inf
    if query is Query.EPSILON:
        least = target * math.exp(-whole) * (1.0 - _ROUNDING)
        if least < LEAST_NORMAL:
            return math.inf
        return up(compose_plds([(shown, epochs)], (1.0, least)).epsilon(least) + whole, 64)
    if target <= whole:
        return math.inf
    delta = compose_plds([(shown, epochs)]).delta((target - whole) * (1.0 - _ROUNDING))
    return delta * math.exp(whole) * (1.0 + _ROUNDING)
