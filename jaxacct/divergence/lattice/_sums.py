"""Laws of sums and averages of independent likelihood ratios on a geometric lattice, for random allocation.

A law of one side remains of that side under sums: see `jaxacct.divergence.lattice._ratio`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from jaxacct._types import TooFineError
from jaxacct._work import count_sum, expect_sums
from jaxacct.divergence.lattice._ratio import (
    BLUR,
    LARGEST,
    LUMPS,
    RatioLaw,
    Side,
    from_cells,
    merged,
    padded,
    set_aside,
    trimmed,
)
from jaxacct.special import LEAST_NORMAL, outward, product_outward, rows_times_rows, sum_outward

_COARSEST = 16.0  # the largest step, in log: wider cells gain nothing, and e^step would overflow in the end
_MOST_MASS = 100.0  # of a law: with more, it consists mostly of booked rounding errors
_TOGETHER = 32  # distances of points whose pairs are multiplied at a time: speed only
_LONGEST = 4096  # distances that are convolved at a time: libraries start threads for longer scalar products
_SEVERAL = 3  # distances with the same cell from which on they are convolved: speed only


def _sum_cells(
    p: NDArray[Any], q: NDArray[Any], shift: float, step: float, *, same: bool
) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Cells of X + Y, X = e^{step j} under p, Y = e^{step i + shift} under q, both [N], independent.

    Point j of p and point i = j - d of q, d >= 0, add up to e^{step j} (1 + e^{shift - step d}): for each d this is a
    fixed number of cells above j, at a fixed place in its cell. So 2N vector operations add all N^2 pairs, or N if
    `same`, that is, p is q and the shift is 0. Distances that rise by the same number of cells are one convolution.
    Returns low and high [2N + 8] of the cells, split as `from_cells` expects, and `first`, in cells: cell 0 starts at
    e^{step first}.
    """
    size, width = p.shape[0], math.expm1(step)
    count_sum(size, step, same=same)
    distance = np.arange(size)

    def positions(base: float, shift: float) -> tuple[NDArray[Any], NDArray[Any]]:
        rise = (base + np.log1p(np.exp(shift - step * distance))) / step
        # it falls by less than 1 from one distance to the next; that its floor falls by 2 is rounding at an integer
        cell = np.maximum.accumulate(np.floor(rise) + distance) - distance
        return cell, np.clip(np.expm1((rise - cell) * step) / width, 0.0, 1.0)

    # for the point of p being the larger one, and for that of q
    above, below = positions(0.0, shift), positions(shift, -shift)
    first = min(float(above[0][-1]), float(below[0][-1]))
    ends = np.zeros((2, 2 * size + 8))  # low, high

    def add(top: NDArray[Any], other: NDArray[Any], of: tuple[NDArray[Any], NDArray[Any]], distances: range) -> None:
        cells, shares = (of[0] - first).astype(int), np.stack([1.0 - of[1], of[1]])
        single, groups = _groups(cells, distances)
        nothing = np.zeros(_TOGETHER)
        tops, others = np.append(top, nothing), np.append(nothing, other)
        for start in single[::_TOGETHER]:
            count, length = min(_TOGETHER, single.stop - start), size - start
            of_these = slice(start, start + count)
            fewer = cells[start] - cells[of_these]  # to reach the same cell, the point of p is so many further on
            pairs = sliding_window_view(tops, length)[start + fewer]
            pairs *= sliding_window_view(others, length)[_TOGETHER + fewer - np.arange(count)]
            cell = int(cells[start]) + start
            ends[:, cell : cell + length] += rows_times_rows(shares[:, of_these], pairs.T)
        for group in groups:
            begin, length = group.start, size - group.start
            cell = int(cells[begin]) + begin
            for end, share in zip(ends, shares, strict=True):
                end[cell : cell + length] += top[begin:] * np.convolve(other[:length], share[group])[:length]

    add(p, q, above, range(1))
    add(2.0 * p if same else p, q, above, range(1, size))  # if they are the same, the pairs (i, j) and (j, i) at once
    if not same:
        add(q, p, below, range(1, size))
    return ends[0], ends[1], first


def _groups(cells: NDArray[Any], distances: range) -> tuple[range, list[slice]]:
    """The first of `distances`, and runs of the others whose `cells` [N], falling, are the same."""
    changes = np.flatnonzero(np.diff(cells[distances.start : distances.stop])) + 1
    begins = [distances.start, *(changes + distances.start).tolist()]
    ends = [*begins[1:], distances.stop]
    few = sum(1 for begin, end in zip(begins, ends, strict=True) if end - begin < _SEVERAL)
    several = zip(begins[few:], ends[few:], strict=True)
    runs = [slice(at, min(at + _LONGEST, end)) for begin, end in several for at in range(begin, end, _LONGEST)]
    return range(distances.start, runs[0].start if runs else distances.stop), runs


def sum_of(a: RatioLaw, b: RatioLaw, *, weight_a: float, weight_b: float, tail: float) -> RatioLaw:
    """`RatioLaw` (masses [N]) of A + B for independent A and B on lattices of the same step and of the same side.

    A and B are sums of ratios, `weight_a` and `weight_b` of them: `infinite_mass` is the average by these weights, as
    the record is in one of the steps at random.

    Where A is 0, A + B is B, far below the typical values of A + B: a lattice that extended down to it would have
    millions of points. So mass at 0 of the size of `tail`, which earlier tails left there, goes to the safe side
    (`set_aside`).
    """
    size = max(a.masses.shape[0], b.masses.shape[0])
    p, q = padded(a.masses, size), padded(b.masses, size)
    low, high, first = _sum_cells(p, q, b.offset - a.offset, a.step, same=a is b)
    used = np.flatnonzero(low + high)
    begin, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    offset = a.offset + (first + begin) * a.step
    reach = max(a.reach, b.reach, abs(offset), abs(offset + (end - begin) * a.step))
    blur = max(a.blur, b.blur) + BLUR * reach
    law = from_cells(low[begin:end], high[begin:end], offset, a.step, a.side, additions=2 * size, blur=blur)
    up = a.side is Side.UPPER
    zero = product_outward(a.zero_mass, b.zero_mass, up=up)
    infinite = a.infinite_mass
    if b.infinite_mass != infinite:
        parts = ((weight_a, a.infinite_mass), (weight_b, b.infinite_mass))
        total = sum_outward((product_outward(*part, up=up) for part in parts), up=up)
        infinite = outward(total / (weight_a + weight_b), up=up)
    lumps = ((a.zero_mass, weight_b, b), (b.zero_mass, weight_a, a))
    if a.zero_mass + b.zero_mass <= LUMPS * tail:
        zero, infinite = set_aside(zero, infinite, [(x, w / (weight_a + weight_b)) for x, w, _ in lumps], a.side)
    else:
        for still, _, moving in lumps:
            if still > 0:  # 0 + x = x
                law = merged(
                    law, dataclasses.replace(moving, masses=still * moving.masses, zero_mass=0.0, infinite_mass=0.0)
                )
    if up:  # bounds the products of masses that underflow, under Q and under P
        lost = size * size * LEAST_NORMAL
        zero = sum_outward((zero, lost), up=True)
        infinite = sum_outward((infinite, lost * 2.0 * math.exp(min(LARGEST, max(a.reach, b.reach)))), up=True)
    return dataclasses.replace(law, zero_mass=zero, infinite_mass=infinite)


def _trimmed_sum(a: tuple[RatioLaw, int], b: tuple[RatioLaw, int], tail: float) -> RatioLaw:
    """`RatioLaw` of A + B, each with its number of ratios, its tails cut off.

    Raises:
      TooFineError: if the law of a part consists of rounding errors.
    """
    (first, few), (second, more) = a, b
    if min(first.masses.sum(), second.masses.sum()) > _MOST_MASS:
        raise TooFineError(f"the allowance for rounding exceeds the law of {few} ratios, {first.step:.3g} apart")
    law = sum_of(first, second, weight_a=few, weight_b=more, tail=tail)
    return trimmed(law, float(few + more), tail)


def _refined(law: RatioLaw, factor: int) -> RatioLaw:
    """`RatioLaw`: the same law on a lattice `factor` times finer, whose new points have no mass."""
    if factor == 1:
        return law
    masses = np.zeros((law.masses.shape[0] - 1) * factor + 1)
    masses[::factor] = law.masses
    return dataclasses.replace(law, step=law.step / factor, masses=masses)


def averages(
    base: Callable[[float], RatioLaw], num_steps: int, step: float, tail: float, *, coarsening: float, both: bool
) -> tuple[RatioLaw, RatioLaw]:
    """Two `RatioLaw` (masses [N]), of the averages of t and of t + 1 independent ratios.

    They are found by doubling, from the sums of n and n + 1 terms to two of those of 2n, 2n + 1 and 2n + 2: about
    log2(t) levels of two sums each.

    Args:
      base: ``base(step)``, the law of one ratio on a lattice of that step, always of the same side, its own tails of
        the size of `tail` / t^2.
      num_steps: t.
      step: of the last level's lattice, in log.
      tail: mass that the last level may cut off at either end; earlier levels cut off less.
      coarsening: a level of n terms uses a step up to (t/n)^coarsening times larger, since its error is averaged out.
        This affects tightness and speed only.
      both: whether the law for t + 1 is needed; otherwise the second law must not be used.
    """
    bits = bin(num_steps)[3:]
    most = math.log2(max(1.0, _COARSEST / step))

    def factor(n: int) -> int:
        return 1 << max(0, int(min(coarsening * math.log2(num_steps / n), most)))

    current = factor(1)
    one = base(step * current)
    # a lump of mass near `tail` far from the rest would widen every later law: early levels are cut deeper
    start = tail / num_steps**2
    n, small = 1, trimmed(one, 1.0, start)
    if num_steps == 1 and not both:
        return small, small
    expect_sums(small.masses.shape[0], small.step, 2 * len(bits), step)
    large = _trimmed_sum((small, 1), (small, 1), start)
    for level, bit in enumerate(bits):
        last = level == len(bits) - 1 and not both
        expect_sums(max(small.masses.shape[0], large.masses.shape[0]), small.step, 2 * (len(bits) - level), step)
        ratio = current // factor(n)
        current = factor(n)
        small, large = _refined(small, ratio), _refined(large, ratio)
        few, more = (small, n), (large, n + 1)
        pairs = ((few, few), (few, more)) if bit == "0" else ((few, more), (more, more))
        n = 2 * n + int(bit)
        here = tail * (n / num_steps) ** 2
        small = _trimmed_sum(*pairs[0], here)
        large = small if last else _trimmed_sum(*pairs[1], here)
    return (
        dataclasses.replace(small, offset=small.offset - math.log(n), blur=small.blur + BLUR * math.log(n)),
        dataclasses.replace(large, offset=large.offset - math.log(n + 1), blur=large.blur + BLUR * math.log(n + 1)),
    )
