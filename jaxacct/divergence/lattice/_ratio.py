"""Laws of likelihood ratios on a geometric lattice.

For a pair (P, Q) the law under Q of the ratio Y = dP/dQ (its distribution, given by masses) determines the profile:
with K = e^epsilon, delta is E(Y - K)_+ in the remove direction and E(1 - K Y)_+ in the add direction, both expectations
of convex functions. Hence

* a mean-preserving *spread* of Y dominates the pair in both directions at once (UPPER);
* a *contraction* of Y, which merges masses into their mean, then moved down, is dominated in the remove direction
  (LOWER_REMOVE); then moved up, in the add direction (LOWER_ADD).

Each holds for any number of independent ratios, averaged (`_sums`) or multiplied (composition). A lattice cell lies
between two neighbouring lattice points. Spreading a value to the two ends of its cell, or contracting a cell to its
mean, has an error of second order in the step, where rounding to one side has one of first order.
"""

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import TooFineError
from jaxacct.special import ULP, outward, product_outward, sum_outward

_MAX_SIZE = 2**25  # points of a law, 256 MiB per array


class Side(enum.Enum):
    """The side on which a law bounds delta: from above in both directions, or from below in one."""

    UPPER = "upper, both directions"
    LOWER_REMOVE = "lower, remove direction"
    LOWER_ADD = "lower, add direction"


@dataclasses.dataclass(frozen=True)
class RatioLaw:
    """The law under Q of a ratio Y: masses at N lattice points exp(offset + j step), at 0 and at infinity.

    Masses of an UPPER law are rounded up, those of a lower law down, including those at 0 and at infinity: with more
    (less) mass anywhere, every expectation here is larger (smaller).
    """

    offset: float  # log Y at the first point
    step: float  # in log
    masses: NDArray[Any]  # float64 [N], under Q
    zero_mass: float  # under Q, at Y = 0
    infinite_mass: float  # the mass of P where Q has none
    side: Side
    blur: float = 0.0  # how far, in log, the true values may lie from the points: rounding of logarithms

    @property
    def log_values(self) -> NDArray[Any]:
        """float64 [N]: log Y at the lattice points."""
        return self.offset + self.step * np.arange(self.masses.shape[0])

    @property
    def reach(self) -> float:
        """The largest |log Y| of a lattice point."""
        return max(abs(self.offset), abs(self.offset + self.step * (self.masses.shape[0] - 1)))


# Relative rounding error of a few hundred positive additions of masses, and of their parts.
_ROUNDING = 2.0**-46


# log of a ratio: larger ones are clipped to it where mass under P is formed, as e^710 overflows. With a normal mass
# under Q such a point still has more than 1e-4 under P, so that no tail of less than that is cut off beyond it.
LARGEST = 700.0

# Relative rounding of a tail's sum, and of its values exp(x) for |x| up to some 600. The certificate depends on it.
_TAIL_ROUNDING = 2.0**-42

# Relative to the largest |log Y| of a law: the error of a logarithm, or of a point of the lattice. A value no further
# from a point than that is taken to be on it.
BLUR = 2.0**-50

_FARTHEST = 12.0  # nats between cells that share a point: ratios of their distances err by that many ULP more
_AS_LITTLE = 2.0**-40  # share of what could be left over that makes no difference: tightness only
LUMPS = 8.0  # times the tail: more mass at 0 is the law's own, and is kept
DEPTH = 4  # rounds of merging over wider and wider cells, for lower laws: tightness only, any value >= 0 is valid


def from_cells(
    low: NDArray[Any],
    high: NDArray[Any],
    offset: float,
    step: float,
    side: Side,
    *,
    depth: int = DEPTH,
    additions: float = 0,
    blur: float | None = None,
) -> RatioLaw:
    """`RatioLaw` on N + 1 points, the ends of N cells, of which cell k holds the mass `low[k]` + `high[k]` inside.

    Cell k begins at exp(offset + k step). `low` [N] is the mass that a mean-preserving split of the cell sends to its
    left end, `high` [N] to its right end: that is the UPPER law. A lower law merges mass from both sides of a lattice
    point into that point instead, in `depth` more rounds; see `_contracted`. `additions` is the largest number of
    summands of a mass, where it is large. `blur` bounds, in log, the error of the cell's mean that the split keeps;
    where it is None that error is booked on the masses, as relative errors of 128 ULP / step.
    """
    rounding = _ROUNDING * (1.0 if blur is not None else 1.0 + 1.0 / step) + ULP * additions
    blur = blur or 0.0
    if side is Side.UPPER:
        masses = np.append(low, 0.0)
        masses[1:] += high
        return RatioLaw(offset, step, masses * (1.0 + rounding), 0.0, 0.0, side, blur)
    masses, _ = _contracted(low, high, step, side, depth=depth)
    return RatioLaw(offset, step, masses * max(0.0, 1.0 - rounding), 0.0, 0.0, side, blur)


def from_atoms(
    log_values: NDArray[Any],
    masses: NDArray[Any],
    zero_mass: float,
    infinite_mass: float,
    step: float,
    side: Side,
    *,
    origin: float = 0.0,
) -> RatioLaw:
    """`RatioLaw` on the points origin + j step of a ratio with mass `masses[i]` under Q at exp(log_values[i]), [M].

    `zero_mass` and `infinite_mass` are taken as they are: the caller rounds them to the safe side. The values may err
    by 2^-51 of the largest of them, in log.
    """
    kept = masses > 0
    log_values, masses = log_values[kept], masses[kept]
    if not masses.size:
        return RatioLaw(origin, step, np.zeros(1), zero_mass, infinite_mass, side)
    blur = BLUR * max(float(np.abs(log_values).max()), abs(origin))
    cell, share = _split(log_values, origin, step, side, blur)
    if not cell.max() - cell.min() <= _MAX_SIZE:
        raise TooFineError(f"losses spread over {np.ptp(cell):.2g} steps of {step:.3g}, more than {_MAX_SIZE}")
    first = int(cell.min())
    at = (cell - first).astype(int)
    low, high = (np.bincount(at, weights=masses * w, minlength=at.max() + 1) for w in (1.0 - share, share))
    law = from_cells(low, high, origin + first * step, step, side, additions=masses.size, blur=3.0 * blur)
    return dataclasses.replace(law, zero_mass=zero_mass, infinite_mass=infinite_mass)


def _split(
    log_values: NDArray[Any], origin: float, step: float, side: Side, blur: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The cell [M] of the lattice origin + j step that holds each value, and the share [M] for its right end.

    A value within `blur` of a point is taken to be on it: at that end of a cell from which `side` does not move it.
    """
    place = (log_values - origin) / step
    whole = np.rint(place)
    on_point = np.abs(place - whole) * step <= blur
    end = 1.0 if side is Side.LOWER_ADD else 0.0
    cell = np.where(on_point, whole - end, np.floor(place))
    return cell, np.where(on_point, end, np.clip(np.expm1((place - cell) * step) / math.expm1(step), 0.0, 1.0))


def from_masses(q: NDArray[Any], p: NDArray[Any], offset: float, step: float, side: Side) -> RatioLaw:
    """`RatioLaw` on N + 1 points of a ratio whose cell k holds the mass q[k] under Q and p[k] under P, arrays [N].

    All of it lies inside the cell, which begins at exp(offset + k step).
    """
    left = np.exp(offset + step * np.arange(q.shape[0]))
    high = np.clip((p / left - q) / math.expm1(step), 0.0, q)
    return from_cells(q - high, high, offset, step, side)


def _matched(masses: NDArray[Any], ratios: NDArray[Any], stays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Merge masses across the points between consecutive cells, from the first cell on.

    The mass of cell k that was not taken by the point on its left is offered to the point on its right, which needs
    `ratios[k]` times as much from cell k + 1 to keep the mean; where it `stays` nothing is offered. Returns three
    arrays [N], for each cell: the mass taken by its left point, that given to its right point, and the remainder.
    """
    ratios = np.where(stays, 0.0, ratios)
    # one cell after another, in plain Python: thousands of cells take less time than compiling a program
    every, taken = masses.tolist(), 0.0
    all_taken = [taken]
    for mass, following, ratio in zip(every, every[1:], ratios.tolist(), strict=False):
        taken = (mass - taken) * ratio
        if taken > following:
            taken = following
        all_taken.append(taken)
    left = np.array(all_taken)
    offered, wanted = masses - left, np.append(left[1:], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        given = np.where(ratios > 0, np.minimum(wanted / ratios, offered), np.where(stays, 0.0, offered))
    return left, given, offered - given


def _in_pairs(
    alone: NDArray[Any], share: NDArray[Any], step: float, side: Side, *, depth: int
) -> tuple[NDArray[Any], float]:
    """`_contracted` of the masses `alone` [N], whose means lie at `share` of their cells, by pairs of cells.

    The result is masses [2 ceil(N/2) + 1] at the ends of the cells, 0 at every second one, and how far the mean moved.
    """
    count = alone.shape[0]
    pairs = np.append(alone, 0.0)[: count + count % 2].reshape(-1, 2)
    place = np.append(share, 0.0)[: count + count % 2].reshape(-1, 2) * math.expm1(step)
    place[:, 1] = math.expm1(step) + math.exp(step) * place[:, 1]  # mean over the pair's left end, less 1
    high = (pairs * place).sum(axis=1) / math.expm1(2 * step)
    low = np.maximum(pairs.sum(axis=1) - high, 0.0)
    coarse, bias = _contracted(low, high, 2 * step, side, depth=depth)
    whole = np.zeros(2 * coarse.shape[0] - 1)
    whole[::2] = coarse
    return whole, bias * math.exp(step * (2 * low.shape[0] - count))


def _partners(masses: NDArray[Any], step: float) -> NDArray[Any]:
    """The cells that contain mass, and those beside them where the next one is too far away; at least one."""
    held = np.flatnonzero(masses > 0)
    far = step * np.diff(held) > _FARTHEST
    beside = np.concatenate([held[:-1][far] + 1, held[1:][far] - 1])
    return np.union1d(held, beside) if held.size else np.zeros(1, int)


def _contracted(
    low: NDArray[Any], high: NDArray[Any], step: float, side: Side, *, depth: int
) -> tuple[NDArray[Any], float]:
    """Masses [N + 1] at the cells' ends of a contraction of the law of the cells' means, and how far the mean moved.

    The right end of a cell takes mass from this cell and from the next one that holds any, in the proportion that keeps
    the mean; in the other pass the left end does. Working from each tail towards the mode this recursion is stable.
    Where the two passes meet, and wherever a cell has no partner (a lump of mass), a remainder is left. It is treated
    in the same way on every second point, `depth` times; the final remainder moves to the end of its cell that is safe
    for `side`. The two passes meet in the cell that leaves the smallest remainder, and among several in the heaviest
    one: tails should take mass from heavier cells, which lose little by it. The distance that the mean moved is in
    units of the last point's value.
    """
    count, grow = low.shape[0], math.expm1(step)
    every_share = np.divide(high, low + high, out=np.full_like(low, 0.5), where=low + high > 0)
    # a remainder stays alone rather than take mass from far away: tightness only
    at = _partners(low + high, step) if depth == DEPTH else np.arange(count)
    mass, share = (low + high)[at], every_share[at]
    # in units of the point: distances below and above it of the means of the cells on its two sides
    empty = step * (np.diff(at) - 1)
    with np.errstate(over="ignore"):
        far_above = np.expm1(empty) * (1.0 + share[1:] * grow) + share[1:] * grow
    far_below = -np.expm1(-empty) - np.exp(-empty) * (1.0 - share[:-1]) * math.expm1(-step)
    up = np.append((1.0 - share[:-1]) * -math.expm1(-step) / np.maximum(far_above, 1e-300), 0.0)
    down = np.append((share[1:] * grow / np.maximum(far_below, 1e-300))[::-1], 0.0)
    removing = side is Side.LOWER_REMOVE
    safe = share == (0.0 if removing else 1.0)  # there already: it stays, unless a point beside it takes it
    taken, given, left = _matched(mass, up, safe)
    taken_r, given_r, left_r = (x[::-1] for x in _matched(mass[::-1], down, safe[::-1]))

    distance = (share if removing else (1.0 - share)) * grow * np.exp(step * (at - count))
    before = np.concatenate([[0.0], np.cumsum(left * distance)[:-1]])
    after = np.concatenate([np.cumsum((left_r * distance)[::-1])[::-1][1:], [0.0]])
    rest = mass - taken - taken_r
    cost = np.where(rest >= 0, before + after + np.maximum(rest, 0.0) * distance, np.inf)
    least = cost <= float(cost.min()) + _AS_LITTLE * float((mass * distance).sum())
    meet = int(np.argmax(np.where(least, mass, -1.0)))

    out = np.zeros(count + 1)
    out[at[:meet] + 1] += given[:meet] + taken[1 : meet + 1]
    out[at[meet + 1 :]] += given_r[meet + 1 :] + taken_r[meet:-1]
    lone = np.where(np.arange(at.shape[0]) < meet, left, left_r)
    lone[meet] = max(rest[meet], 0.0)
    bias = float((lone * distance).sum())
    out[at[safe] + (0 if removing else 1)] += lone[safe]
    lone[safe] = 0.0
    alone = np.zeros(count)
    alone[at] = lone
    if depth > 0 and bias > 0 and count > 4:
        coarse, coarse_bias = _in_pairs(alone, every_share, step, side, depth=depth - 1)
        if coarse_bias < bias:
            size = max(coarse.shape[0], count + 1)
            return padded(out, size) + padded(coarse, size), coarse_bias
    if removing:
        out[:-1] += alone
    else:
        out[1:] += alone
    return out, bias


def trimmed(law: RatioLaw, scale: float, tail: float) -> RatioLaw:
    """`RatioLaw` on the points that are left when the two tails of `law` are cut off to its safe side.

    The values of `law` are `scale` times ratios, as in a sum of `scale` ratios. A mass of about `tail` is cut off at
    either end: on the left under both Q and P, on the right under P. UPPER spreads the left tail to 0 and the first
    point kept, the right tail to 0 and infinity. LOWER_REMOVE moves the left tail to 0 and the right one to the last
    point kept. LOWER_ADD moves the left one to the first point kept and drops the right one, at hardly any loss in the
    add direction.
    """
    used = np.flatnonzero(law.masses)
    if not used.size:
        return law
    # points without mass may lie beyond the doubles, where a product is not a number
    law = dataclasses.replace(
        law, offset=law.offset + int(used[0]) * law.step, masses=law.masses[used[0] : used[-1] + 1]
    )
    q, log_values = law.masses, law.log_values - math.log(scale)
    p = q * np.exp(np.minimum(log_values, LARGEST))
    left = int(np.searchsorted(np.cumsum(np.maximum(q, p)), tail))
    right = q.shape[0] - int(np.searchsorted(np.cumsum(p[::-1]), tail))
    left, right = min(left, q.shape[0] - 1), max(right, left + 1)
    kept = q[left:right].copy()
    up = law.side is Side.UPPER
    grow = 1.0 + _TAIL_ROUNDING if up else 1.0 - _TAIL_ROUNDING
    lower_q, upper_q = (float(q[cut].sum()) * grow for cut in (slice(left), slice(right, None)))
    zero, infinite = law.zero_mass, law.infinite_mass
    if up:
        upper_p, moved = (
            float(p[right:].sum()) * grow,
            float((q[:left] * np.exp(log_values[:left] - log_values[left])).sum()),
        )
        kept[0] += moved * grow
        zero = sum_outward((zero, lower_q, -moved, upper_q), up=True)
        infinite = sum_outward((infinite, upper_p), up=True)
    elif law.side is Side.LOWER_REMOVE:
        zero = sum_outward((zero, lower_q), up=False)
        kept[-1] += upper_q
    else:
        kept[0] += lower_q
    offset = law.offset + left * law.step
    return dataclasses.replace(law, offset=offset, masses=kept, zero_mass=zero, infinite_mass=infinite)


def merged(a: RatioLaw, b: RatioLaw) -> RatioLaw:
    """`RatioLaw` (masses [N]) on the lattice of `a`, with the mass of both; `b` is moved there on its safe side.

    Raises:
      TooFineError: if that needs more points than should be kept in memory.
    """
    low_end, high_end = min(a.offset, b.offset - b.step), max(a.log_values[-1], b.log_values[-1] + b.step)
    before = math.ceil((a.offset - low_end) / a.step - 1e-9)
    size = before + max(a.masses.shape[0], math.ceil((high_end - a.offset) / a.step) + 2)
    if size > _MAX_SIZE:
        raise TooFineError(f"a lattice whose ratios are {a.step:.3g} apart takes {size} points, over {_MAX_SIZE}")
    masses = np.zeros(size)
    masses[before : before + a.masses.shape[0]] = a.masses
    offset = a.offset - before * a.step
    masses += _placed(b, offset, size)
    up = a.side is Side.UPPER
    zero = sum_outward((a.zero_mass, b.zero_mass), up=up)
    infinite = sum_outward((a.infinite_mass, b.infinite_mass), up=up)
    law = dataclasses.replace(a, offset=offset, masses=masses, zero_mass=zero, infinite_mass=infinite)
    return dataclasses.replace(law, blur=max(a.blur, b.blur) + 2.0 * BLUR * law.reach)


def padded(x: NDArray[Any], size: int) -> NDArray[Any]:
    """`x` followed by zeros, [size]."""
    return np.concatenate([x, np.zeros(size - x.shape[0])])


def _placed(law: RatioLaw, offset: float, size: int) -> NDArray[Any]:
    """The masses [size] of `law`, moved on its safe side to the lattice of the same step from `offset` on.

    That lattice has to cover the law. The rounding of the shares, which includes an ulp of the logarithms, and of the
    sums is booked on the masses.
    """
    cell, share = _split(law.log_values, offset, law.step, law.side, BLUR * max(law.reach, abs(offset)))
    if law.side is not Side.UPPER:
        share = np.where(share > 0.0, 1.0 if law.side is Side.LOWER_ADD else 0.0, 0.0)
    at = cell.astype(int)
    rounding = 2.0**-50 * (8.0 + law.reach + abs(offset)) + ULP * law.masses.size
    masses = law.masses * (1.0 + rounding if law.side is Side.UPPER else 1.0 - rounding)
    whole = np.bincount(at, masses * (1.0 - share), minlength=size)
    return whole + np.bincount(at + 1, masses * share, minlength=size)


def set_aside(zero: float, infinite: float, lumps: Sequence[tuple[float, float]], side: Side) -> tuple[float, float]:
    """Two floats: the masses at 0 and infinity with `lumps`, each a mass under Q and an upper bound on its mean ratio.

    UPPER spreads a lump to 0 and infinity, a lower law drops it.
    """
    if side is not Side.UPPER:
        return zero, infinite
    zero = sum_outward((zero, *(mass for mass, _ in lumps)), up=True)
    grow = 1.0 + _TAIL_ROUNDING
    return zero, sum_outward((infinite, *(mass * mean * grow for mass, mean in lumps)), up=True)


def log_mixed_with_one(log_values: NDArray[Any], share: float, rest: float) -> NDArray[Any]:
    """log(1 - q + q Y) [N] for log Y [N], -inf allowed; `share` is q and `rest` is 1 - q, of positive sum.

    Both may be rounded to nearest. A value far below 1 is computed as the sum of its two positive parts: as log1p of
    its distance from 1 it would have an error of an ulp of 1 instead of its own.
    """
    if share == 0.0 or rest == 0.0:
        return np.zeros_like(log_values) if share == 0.0 else np.asarray(log_values)
    high = log_values > LARGEST
    lacks = share * np.expm1(np.where(high, 0.0, log_values))
    mixed = np.log1p(lacks)
    low = lacks < -0.5
    mixed[low] = np.log(rest + share * np.exp(log_values[low]))
    mixed[high] = np.logaddexp(math.log(rest), log_values[high] + math.log(share))
    return mixed


def mixed_with_one(law: RatioLaw, share: float, rest: float, step: float, *, tail: float = 0.0) -> RatioLaw:
    """`RatioLaw` of 1 - q + q Y on the lattice of `step`, Y of law `law`; `share` is q and `rest` is 1 - q.

    Mass at 0 of the size of `tail` goes to the safe side, as in `sum_of`.
    """
    log_values, masses, up = law.log_values, law.masses, law.side is Side.UPPER
    zero, infinite = 0.0, product_outward(outward(share, up=up), law.infinite_mass, up=up)
    if law.zero_mass <= LUMPS * tail:
        zero, infinite = set_aside(zero, infinite, [(law.zero_mass, rest)], law.side)
    else:
        log_values, masses = np.append(log_values, -np.inf), np.append(masses, law.zero_mass)
    mixed = from_atoms(log_mixed_with_one(log_values, share, rest), masses, zero, infinite, step, law.side)
    return dataclasses.replace(mixed, blur=mixed.blur + law.blur)
