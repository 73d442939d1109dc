"""Privacy loss distributions handed to dp_accounting and read from it, on the safe side.

dp_accounting holds masses at whole multiples of an interval and a mass at infinity, one row for each direction (remove:
D(with || without)), as `jaxacct.Pld` does; only the grids differ.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution  # type: ignore[import-untyped]
from numpy.typing import NDArray

from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import check_positive
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import dominating_pld

_MASS_ROUNDING = 2.0**-40  # relative, of a share and of the sums over one grid point
_LOSS_ROUNDING = 2.0**-48  # relative to the largest loss: of ours, and of theirs as multiples of the interval
_SUM_ROUNDING = 2.0**-28  # relative, of their running sums of up to 2^24 masses
_NEGLIGIBLE = 1e-24  # what delta may still fall by beyond the last point read: kept at infinity
_MAX_EPSILON = 680.0  # nats: losses beyond it are booked at infinity


def _on_their_grid(pld: Pld, interval: float) -> dict[int, float]:
    """The masses of an upper bound at multiples of `interval`.

    A mass at a loss l between two grid points is split such that the mean of e^-l is kept. Since delta is convex in
    e^-l, no hockey-stick divergence falls, alone or composed. All losses are moved up by more than their rounding
    error.
    """
    reach = abs(pld.offset) + pld.step * pld.masses.shape[0]
    losses = pld.losses + _LOSS_ROUNDING * (reach + interval)
    cell = np.floor(losses / interval)
    share = np.clip(np.expm1(interval * cell - losses) / math.expm1(-interval), 0.0, 1.0)
    first = int(cell[0])
    at = cell.astype(np.int64) - first
    masses = np.bincount(at, pld.masses * (1.0 - share), minlength=int(at[-1]) + 2)
    masses += np.bincount(at + 1, pld.masses * share, minlength=int(at[-1]) + 2)
    kept = np.flatnonzero(masses)
    grown = masses[kept] * (1.0 + _MASS_ROUNDING)
    return dict(zip((kept + first).tolist(), grown.tolist(), strict=True))


def to_privacy_loss_distribution(*plds: Pld, value_discretization_interval: float = 1e-4) -> Any:
    """The same privacy losses as a pessimistic dp_accounting `PrivacyLossDistribution`.

    The result is an upper bound: it dominates each `Pld` in its direction at every epsilon, so what dp_accounting
    composes from it is an upper bound too, up to dp_accounting's own rounding (FFT, about 1e-16 absolute in delta). The
    error of moving to the grid is of the order of the squared ratio of the interval to the scale of the losses. A
    privacy profile can be handed over through `jaxacct.dominating_pld`.

    Args:
      plds: upper bounds for one mechanism, one for each direction, in any order. A single one is enough only if the
        adjacency makes both directions the same (replace one record).
      value_discretization_interval: the interval of the result, in nats, > 0. Accountants compose only distributions
        with equal intervals.

    Returns:
      A `PrivacyLossDistribution` of dp_accounting, pessimistic.

    Raises:
      ValueError: if a direction is missing or given twice, or a `Pld` is not an upper bound.

    >>> import jaxacct as ja
    >>> from jaxacct.interop import to_privacy_loss_distribution
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> theirs = to_privacy_loss_distribution(*(ja.pld(run, direction=d) for d in ja.Direction))
    >>> round(theirs.get_epsilon_for_delta(1e-6), 2)
    0.86
    >>> round(theirs.self_compose(4).get_epsilon_for_delta(1e-6), 2)
    1.31
    """
    check_positive("value_discretization_interval", value_discretization_interval)
    for pld in plds:
        if not isinstance(pld, Pld):
            raise ValueError(f"plds={pld!r} must be a Pld, as jaxacct.pld returns it")
        if pld.bound is not Bound.UPPER:
            raise ValueError(f"pld.bound={pld.bound.value!r} must be an upper bound: their estimate is pessimistic")
    by_direction = {pld.direction: pld for pld in plds}
    symmetric = [pld.neighboring_relation for pld in plds] == [NeighboringRelation.REPLACE_ONE]
    if not symmetric and (len(plds) != 2 or len(by_direction) != 2):
        given = ", ".join(pld.direction.value for pld in plds) or "none"
        raise ValueError(f"plds must hold one distribution for each direction, remove and add; given: {given}")
    remove, add = (by_direction.get(d, plds[0]) for d in (Direction.REMOVE, Direction.ADD))
    if remove.neighboring_relation is not add.neighboring_relation:
        raise ValueError("plds must share their neighboring_relation")
    masses = _on_their_grid(remove, value_discretization_interval)
    if symmetric:
        return PrivacyLossDistribution.create_from_rounded_probability(
            masses, remove.infinite_mass, value_discretization_interval
        )
    return PrivacyLossDistribution.create_from_rounded_probability(
        masses,
        remove.infinite_mass,
        value_discretization_interval,
        rounded_probability_mass_function_add=_on_their_grid(add, value_discretization_interval),
        infinity_mass_add=add.infinite_mass,
        symmetric=False,
    )


def _profile(distribution: Any, interval: float) -> NDArray[Any]:
    """Their delta at 0, interval, 2 interval, ..., rounded up, until it no longer falls.

    dp_accounting computes it as a difference of running sums, U = P[L > epsilon] less e^epsilon Q[L > epsilon], with an
    error that is a fraction of U. U is at most 1, and at most delta(epsilon - c) / (1 - e^-c) for every c.
    """
    infinite = float(distribution.get_delta_for_epsilon(math.inf))
    probe = np.concatenate([[0.0], np.geomspace(interval, _MAX_EPSILON, 300)])
    falling = np.asarray(distribution.get_delta_for_epsilon(probe)) > infinite * (1.0 + 1e-9) + _NEGLIGIBLE
    last = probe[min(int(np.flatnonzero(falling)[-1]) + 1, probe.shape[0] - 1)] if falling.any() else 0.0
    points = interval * np.arange(math.ceil(last / interval) + 1)
    deltas = np.clip(np.asarray(distribution.get_delta_for_epsilon(points)), infinite, 1.0)
    raised = deltas + _SUM_ROUNDING
    backs = [2**k for k in range(deltas.shape[0].bit_length()) if 2**k < deltas.shape[0]]
    for back in (*backs, *backs):
        tail = np.minimum(raised[:-back] / -math.expm1(-back * interval), 1.0)
        raised[back:] = np.minimum(raised[back:], deltas[back:] + _SUM_ROUNDING * tail)
    return np.minimum(raised, 1.0)


def from_privacy_loss_distribution(
    distribution: Any,
    *,
    direction: Direction = Direction.REMOVE,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    value_discretization_interval: float = 1e-4,
) -> Pld:
    """A `Pld` that dominates a pessimistic dp_accounting `PrivacyLossDistribution`, read through its public methods.

    The result is an upper bound. dp_accounting gives the larger delta of both directions, so that the result dominates
    both and can be used for either; if the two differ (sampling), its compositions are looser than those of
    dp_accounting. It is as sound as the masses in `distribution`: rounding errors inside dp_accounting's compositions
    are not undone. Losses beyond 680 are counted as infinite.

    Args:
      distribution: a distribution of dp_accounting, made with ``pessimistic_estimate=True``, the default.
      direction, neighboring_relation: the labels of the result; `distribution` does not state its adjacency.
      value_discretization_interval: the interval of `distribution`, in nats: reading it at its own grid points loses
        nothing. Any other interval is sound.

    Returns:
      A `Pld`, an upper bound in `direction`.

    Raises:
      ValueError: if `value_discretization_interval` is not positive.

    >>> import jaxacct as ja
    >>> from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    >>> from jaxacct.interop import from_privacy_loss_distribution
    >>> loss = from_privacy_loss_distribution(from_gaussian_mechanism(2.0))
    >>> round(loss.epsilon(1e-6), 3), round(ja.epsilon(ja.Gaussian(2.0), 1e-6), 3)
    (2.254, 2.254)
    >>> round(ja.compose(loss, 10).epsilon(1e-6), 3)
    8.306
    """
    check_positive("value_discretization_interval", value_discretization_interval)
    if not isinstance(distribution, PrivacyLossDistribution):
        raise ValueError(f"distribution={distribution!r} must be a PrivacyLossDistribution of dp_accounting")
    profile = _profile(distribution, float(value_discretization_interval))
    theorem = "dp_accounting's privacy loss distribution, the worse direction; Doroshenko et al. 2022"
    found = dominating_pld(float(value_discretization_interval), profile, profile, direction, theorem=theorem)
    return dataclasses.replace(found, neighboring_relation=neighboring_relation)
