"""Privacy loss distributions moved to other grids, and mixtures of them, rounded to the safe side."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from jaxacct._types import Bound, TooFineError
from jaxacct._validate import checked_array
from jaxacct.curves._pld import Pld, check_alike, check_plds
from jaxacct.special import ULP, product_outward, sum_outward

_SLACK = 2.0**-40  # on each mass: a share has the errors of two expm1, 5 ULP each, of a quotient and of products
MAX_POINTS = 2**24  # of a grid, 128 MiB per array: more raise TooFineError


def _check_points(number: float, step: float) -> None:
    """Raises TooFineError if a grid would have too many points."""
    if not number <= MAX_POINTS:
        raise TooFineError(f"losses spread over {number:.2g} steps of {step:.3g}, more than {MAX_POINTS}")


def on_grid(pld: Pld, step: float, origin: float = 0.0) -> Pld:
    """`pld` on the grid of losses origin + j step, still a bound of the same kind.

    delta is convex in e^-loss. So a mass of an upper bound that lies between two points is split between them, keeping
    the mean of e^-loss (exact where the grids agree, an error of the square of the step elsewhere). A mass of a lower
    bound moves to the point below.
    """
    place = (pld.losses - origin) / step
    exact = np.abs(place - np.rint(place)) < 1e-9
    cell = np.where(exact, np.rint(place), np.floor(place))
    upper = pld.bound is Bound.UPPER
    if upper:
        share = np.where(exact, 0.0, np.clip(np.expm1(-(place - cell) * step) / math.expm1(-step), 0.0, 1.0))
        grow = 1.0 + _SLACK
    else:
        share, grow = np.zeros_like(place), 1.0 - _SLACK
    grow += (grow - 1.0) * 2.0**-12 * place.shape[0]  # additions into one cell, at most an ulp each
    _check_points(float(cell[-1] - cell[0]), step)
    first = int(cell[0])
    at = (cell - first).astype(int)
    masses = np.bincount(at, pld.masses * (1.0 - share), minlength=int(at[-1]) + 2)
    masses += np.bincount(at + 1, pld.masses * share, minlength=int(at[-1]) + 2)
    # for points taken to agree; a place errs by an ulp of the loss minus the origin, and by one of the quotient
    shift = 1e-9 * step + 4.0 * ULP * float(np.abs(pld.losses - origin).max())
    shift = shift if upper else -shift
    return dataclasses.replace(pld, offset=origin + first * step + shift, step=step, masses=masses * grow)


def refined(pld: Pld, factor: int) -> Pld:
    """`pld` on a grid `factor` times finer, with mass 0 at the new points."""
    if factor == 1:
        return pld
    masses = np.zeros((pld.masses.shape[0] - 1) * factor + 1)
    masses[::factor] = pld.masses
    return dataclasses.replace(pld, step=pld.step / factor, masses=masses)


def mixture(plds: Sequence[Pld], weights: Sequence[float]) -> Pld:
    """The privacy loss distribution of running one of several mechanisms, the i-th with probability `weights[i]`.

    The choice is public; a mechanism that keeps it secret loses no more. The result is an upper (lower) bound if its
    parts are, on the finest grid of the parts.

    Args:
      plds: distributions that share bound, direction and adjacency.
      weights: probabilities, summing to 1 within 1e-9.

    Returns:
      A `Pld`, with the bound, direction and adjacency of its parts.

    Raises:
      ValueError: if they are not probabilities, or the parts differ.

    >>> import jaxacct as ja
    >>> mixed = ja.mixture([ja.pld(ja.Gaussian(1.0)), ja.pld(ja.Gaussian(2.0))], [0.25, 0.75])
    >>> round(mixed.delta(1.0), 4)
    0.0369
    """
    parts: tuple[Pld, ...] = tuple(plds) if isinstance(plds, Iterable) else (plds,)
    shares = checked_array("weights", weights).astype(np.float64)
    check_plds("plds", parts)
    if shares.shape != (len(parts),) or not parts or not np.all(shares >= 0) or abs(shares.sum() - 1.0) > 1e-9:
        raise ValueError(f"weights={weights!r} must be probabilities, one for each of {len(parts)} distributions")
    check_alike(parts, "mix")
    first = parts[0]
    # weights that add up to less (more) than 1 would lose mass of an upper bound (add mass to a lower one)
    total, is_upper = math.fsum(shares), first.bound is Bound.UPPER
    if total < 1.0 if is_upper else total > 1.0:
        shares = shares / total * (1.0 + 2.0**-50 if is_upper else 1.0 - 2.0**-50)
    step = min(part.step for part in parts)
    _check_points((max(part.losses[-1] for part in parts) - min(part.offset for part in parts)) / step, step)
    moved = [on_grid(part, step, first.offset) for part in parts]
    starts = [round((part.offset - first.offset) / step) for part in moved]
    low = min(starts)
    size = max(start + part.masses.shape[0] for start, part in zip(starts, moved, strict=True)) - low
    masses = np.zeros(size)
    for start, part, share in zip(starts, moved, shares, strict=True):
        masses[start - low : start - low + part.masses.shape[0]] += share * part.masses
    weighed = (
        product_outward(share, part.infinite_mass, up=is_upper) for share, part in zip(shares, parts, strict=True)
    )
    infinite = sum_outward(weighed, up=is_upper)
    theorem = "; ".join(dict.fromkeys(part.theorem for part in parts))
    shifts = [part.offset - (first.offset + start * step) for start, part in zip(starts, moved, strict=True)]
    shift = max(shifts) if is_upper else min(shifts)
    return dataclasses.replace(
        first,
        offset=first.offset + low * step + shift,
        step=step,
        masses=masses,
        infinite_mass=infinite,
        theorem=theorem,
    )
