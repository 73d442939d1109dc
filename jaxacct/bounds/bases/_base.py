"""What one release has to provide so that schemes can be built on it: the law of its likelihood ratio.

A *law* is the distribution of the likelihood ratio of a dominating pair, discretised on a geometric lattice with
certified rounding: Meiser & Mohammadi 2018, Koskela et al. 2020, in the second-order, mean-preserving form of
`jaxacct.divergence.lattice._ratio`. Losses, and the steps between them, are in nats.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import never
from jaxacct._types import Bound, Direction, TooFineError
from jaxacct._work import count_cells
from jaxacct.curves import Pld
from jaxacct.divergence.lattice._ratio import RatioLaw, Side, mixed_with_one
from jaxacct.special import rows_times

MAX_CELLS = 2**23  # of a lattice, about 200 MB
MAX_LOSS = 600.0  # nats: up to it e^loss and the masses beside it are doubles
SMALLEST = 1e-250  # smaller masses are close to underflow: counted at 0 or infinity (upper) or dropped (lower)
_SPREAD_STEP = 1e-3  # nats, of the lattice on which a spread is measured: it decides resolutions only


class Atoms(NamedTuple):
    """Where the atoms of log(1 - q + q Y) lie; the law puts them on a lattice whose step divides `divided`.

    Attributes:
      spacing: the distance between neighbours where all are known to be evenly spaced, else 0.
      range: the distance between the least and the largest; 0 where there are none, or infinitely many.
    """

    spacing: float = 0.0
    range: float = 0.0

    @property
    def divided(self) -> float:
        """The distance that the step should divide; 0 for none."""
        return self.spacing or self.range


def no_atoms(base: Any, sampling_prob: float) -> Atoms:
    """`Atoms` (class) of a release whose loss has none."""
    del base, sampling_prob
    return Atoms()


def unbounded(base: Any) -> float:
    """float: inf, for releases without a largest loss."""
    del base
    return math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    """What schemes that sample, allocate or repeat a release need to know of it.

    Attributes:
      law: ``(release, sampling_prob, step, side, tail) -> `` the law of 1 - q + q Y, Y the likelihood ratio.
      largest_loss: ``(release) -> `` an epsilon for which it is purely epsilon-DP, rounded up; inf if none is known.
      atoms: ``(release, sampling_prob) -> `` where the atoms of log(1 - q + q Y) lie.
      spread: ``(release) -> `` approximately Var(dP/dQ), its finite part.
      is_from_above: ``(release) -> `` whether only a distribution that dominates it is known, on its own grid.
      is_envelope: ``(release) -> `` whether its pair is the worst case at every epsilon at once, which no one release
        need attain: once composed or sampled, a lower bound on the pair says nothing about the release.
      is_symmetric: swapping P and Q gives the same law of the loss, so that both directions have one profile.
      is_light: its law costs next to nothing to make, at any resolution.
    """

    law: Callable[[Any, float, float, Side, float], RatioLaw]
    largest_loss: Callable[[Any], float]
    atoms: Callable[[Any, float], Atoms] = no_atoms
    spread: Callable[[Any], float] | None = None
    is_from_above: Callable[[Any], bool] = never
    is_envelope: Callable[[Any], bool] = never
    is_symmetric: bool = False
    is_light: bool = False


def side_of(bound: Bound, direction: Direction) -> Side:
    """The `Side`, a member of an enum, to which the law behind a bound in a direction must be rounded."""
    if bound is Bound.UPPER:
        return Side.UPPER
    return Side.LOWER_REMOVE if direction is Direction.REMOVE else Side.LOWER_ADD


def check_fits(mechanism: str, low: float, high: float, step: float) -> None:
    """None, if a grid of losses `step` apart from `low` to `high` (nats) can be held.

    Raises:
      TooFineError: if it would have more than `MAX_CELLS` cells.
    """
    size = (high - low) / step
    if not size <= MAX_CELLS:
        raise TooFineError(
            f"{mechanism}: a step of {step:.3g} between losses of {low:.3g} and {high:.3g} needs {size:.2g} cells, "
            f"more than {MAX_CELLS}: ask for a lower resolution, or for the Renyi bound (leave precision out)"
        )


def too_far(release: Any) -> TooFineError:
    """A `TooFineError` (class) for a release whose losses are larger than a lattice may hold."""
    return TooFineError(f"mechanism={release!r}: losses beyond {MAX_LOSS:g} are out of reach of a loss distribution")


def sampled(law: RatioLaw, sampling_prob: float) -> RatioLaw:
    """The law of 1 - q + q Y, from that of Y: Poisson sampling with probability q."""
    if sampling_prob == 1.0:
        return law
    return mixed_with_one(law, sampling_prob, 1.0 - sampling_prob, law.step)


def law_of(base: Base, release: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law (`RatioLaw`) of the likelihood ratio of one step of `release`, rounded to `side`.

    Args:
      sampling_prob: of Poisson sampling; 1 for none.
      step: between neighbouring losses, nats.
      side: which bound the law is for.
      tail: mass that may be taken off the grid at either end: for an upper bound it is counted at 0 and at infinity,
        for a lower bound it is dropped.

    Raises:
      TooFineError: if the grid would be too large, or reaches beyond `MAX_LOSS`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        law = base.law(release, sampling_prob, step, side, tail)
    if law.log_values[-1] > MAX_LOSS or law.log_values[0] < -MAX_LOSS:
        raise too_far(release)
    count_cells(law.masses.shape[0])
    return law


def spread_of(base: Base, release: Any) -> float:
    """float: approximately Var(dP/dQ) of one step, its finite part: the squared scale for sampling and averaging."""
    if base.spread is not None:
        return base.spread(release)
    law = law_of(base, release, 1.0, _SPREAD_STEP, Side.UPPER, 0.0)
    excess = np.expm1(law.log_values)
    return float(rows_times(law.masses * excess, excess)) + law.zero_mass  # its square alone may overflow


def pld_of_law(law: RatioLaw, direction: Direction) -> Pld:
    """The `Pld` of a law of Y = dP/dQ: log Y under P (remove), or -log Y under Q (add), an upper or a lower bound.

    The law's own `side` says which of the two bounds it is.
    """
    if not law.blur < MAX_LOSS:
        raise TooFineError(f"losses are known only to within {law.blur:.3g} nats: there is too little noise")
    upper = law.side is Side.UPPER
    bound = Bound.UPPER if upper else Bound.LOWER
    kept = law.masses if upper else np.where(law.masses > SMALLEST, law.masses, 0.0)
    # where the points are not known to the last digit, losses move to the safe side
    shift = (law.blur + 2.0**-51 * law.reach) * (1.0 if upper else -1.0)
    if direction is Direction.ADD:
        offset = -float(law.log_values[-1]) + shift
        return Pld(offset, law.step, kept[::-1], law.zero_mass, bound, direction)
    exponents = law.log_values
    rounding = law.blur + 2.0**-50 * (4.0 + np.abs(exponents))
    # in two halves, either of which is a double
    half = np.exp(0.5 * (exponents + (rounding if upper else -rounding)))
    masses = kept * half * half
    # tails that were cut off are there as the points have them under P
    infinite = law.infinite_mass * math.exp(law.blur) if upper else law.infinite_mass
    return Pld(law.offset + shift, law.step, masses, infinite, bound, direction)
