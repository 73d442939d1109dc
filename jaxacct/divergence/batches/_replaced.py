"""The law that all records of a shuffled list have in common, where the one in question is replaced by any other one.

docs/papers/shuffled_batches.md, SB-6 with opposite records, which are the worst of all pairs. With y = e^(a u - a^2/2),
y' = e^(-a u - a^2/2), the quantities to be bounded are expectations E e^-l G(e^l D) for convex functions G and

    D = y - c y',    l = a sqrt(u^2 + v^2 + z^2) + a^2 / 2,    u, v ~ N(0, 1), z as in `_blanket`.

As in `_blanket`, D is split between the ends of a cell of u with W = e^l held fixed, so that its mean is kept, and W
then on one ray. Over a cell y grows by alpha and y' falls by beta; the upper end gets the share theta s + (1 - theta)
s' of D, where s and s' are its shares of y and y', and theta = alpha / (alpha + c beta). This is a random choice, by an
independent coin, between two splits. Each has a table of masses that does not depend on c, and since l is even in u,
one is the mirror image of the other.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.divergence.batches._blanket import (
    FARTHEST,
    MASS_ERROR,
    MOST_LOSS,
    WIDTH,
    Rest,
    cells_of_projection,
    cells_of_rest,
    first_of_rest,
    on_rays,
    quantile,
    spread,
    tail_of_rest,
)
from jaxacct.divergence.batches._powers import Atoms
from jaxacct.special import ULP, log_normal_tail, rows_times

# These affect tightness only.
_FINE = 0.02  # width of a cell of |v|, which is rounded up to its far end
_FINER = 0.004  # width of a cell of z, which is rounded up where its tail is looked up
_AT_ONCE = 2**20  # entries that are looked up at once


class ReplacedLaw(NamedTuple):
    """Atoms of (W D, W) under e^-l dP, above the true measure in the convex order except for the part cut off.

    Attributes:
      shift: a.
      place: ends of the cells of u [K + 1], symmetric about 0.
      log_weight: log W [S].
      mass: under the split of y, of each cell's lower and upper end in turn [2 K, S]; each rounded up.
      least_mass: gamma, at most the sum of the masses at any epsilon.
      cut: an upper bound on the part left out of E (D)_+, a probability.
    """

    shift: float
    place: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    mass: NDArray[np.float64]
    least_mass: float
    cut: float

    def atoms(self, epsilon: float, direction: Direction) -> Atoms:
        """W D, rounded up, and its masses: the same in both directions."""
        del direction
        a, u = self.shift, self.place
        odds = np.repeat(np.exp(a * (u[:-1] + u[1:]) - epsilon), 2)[:, None]  # of theta
        mixed = (odds * self.mass + self.mass[::-1]) / (1.0 + odds) * (1.0 + MASS_ERROR)
        found = np.zeros((len(u), len(self.log_weight)))
        found[:-1] += mixed[0::2]
        found[1:] += mixed[1::2]
        ray, at = np.nonzero(found)
        # y - c y' = c y' (e^(2 a u - epsilon) - 1)
        less = np.exp(epsilon - a * u - 0.5 * a * a)
        gain = less * np.expm1(2.0 * a * u - epsilon)
        gain += 8.0 * ULP * (4.0 + a * np.abs(u) + epsilon + a * a) * (2.0 * less + np.abs(gain))
        value = np.exp(self.log_weight)[at] * gain[ray]
        return Atoms(value + 16.0 * ULP * (1.0 + np.abs(self.log_weight[at])) * np.abs(value), found[ray, at])


def replaced_law(a: float, num_batches: int, cut: float) -> ReplacedLaw | None:
    """`ReplacedLaw` of one of `num_batches` >= 2 batches; None where the noise or `cut` is too small to be certified.

    Args:
      a: 1 / noise multiplier.
      num_batches: t >= 2.
      cut: about how much may be left out of E (D)_+, a probability.
    """
    others = float(num_batches - 1)
    reach, last = quantile(0.25 * cut) + a, math.sqrt(2.0 * math.log(others / (0.25 * cut)))
    if not (a <= MOST_LOSS and max(reach, last) <= FARTHEST):
        return None
    rest = cells_of_rest(lambda x: _tail_in_plane(others, x), first_of_rest(others), last)
    return law_beside(a, reach, rest)


def law_beside(a: float, reach: float, rest: Rest) -> ReplacedLaw:
    """`ReplacedLaw` of l = a sqrt(u^2 + z^2) + a^2 / 2, u standard normal, up to `reach`, and `rest` the law of z."""
    cells = cells_of_projection(a, -reach, reach)
    u = cells.ends
    # D_+ <= y, and 0 below the first cell
    cut = float(rest.tail[-1] + np.exp(log_normal_tail(u[-1:] - a))[0] * (1.0 + 2.0**-36))
    first, found = on_rays(a, *spread(a, cells, rest), 2 * (len(u) - 1))
    mass = found * (1.0 + MASS_ERROR)
    of_cell = mass.sum(1).reshape(-1, 2).sum(1)
    least = float(np.minimum(of_cell, of_cell[::-1]).sum()) * (1.0 - 4.0 * MASS_ERROR)
    log_weight: Any = first + WIDTH * a * np.arange(mass.shape[1])
    return ReplacedLaw(a, u, log_weight, mass, least, cut)


def _tail_in_plane(others: float, x: Any) -> Any:
    """P(v^2 + z^2 > x^2) [N], rounded up: |v| is rounded up to the far ends of cells, and z up to those of finer ones.

    P(v^2 + z^2 > x^2) = E P(z > sqrt(x^2 - v^2)), which is 1 where |v| > x.
    """
    far = float(x[-1])
    ends = _FINE * np.arange(math.ceil(far / _FINE) + 2)
    beyond = 2.0 * np.exp(log_normal_tail(ends)) * (1.0 + 64.0 * ULP * (1.0 + ends * ends))
    shares = np.maximum(beyond[:-1] - beyond[1:], 0.0) + 128.0 * ULP * (1.0 + ends[1:] ** 2) * beyond[:-1]
    fine = _FINER * np.arange(math.ceil(far / _FINER) + 2)
    known = np.append(1.0, tail_of_rest(others, fine[1:]))
    found = np.full(len(x), beyond[-1])
    rows = max(1, _AT_ONCE // len(x))
    for start in range(0, len(shares), rows):
        part = slice(start, start + rows)
        left = np.maximum(np.square(x) * (1.0 - 16.0 * ULP) - np.square(ends[1:][part, None]), 0.0)
        place = (np.sqrt(left) * ((1.0 - 2.0**-40) / _FINER)).astype(np.int64)
        found += rows_times(known[place].T, shares[part])
    return found * (1.0 + 2.0**-40)
