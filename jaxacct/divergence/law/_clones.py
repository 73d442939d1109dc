"""The law of a round of shuffled reports: the clones pair (Feldman, McMillan & Talwar 2021, Theorem 3.2) by points.

With m - 1 ~ Bin(n - 1, p) and x the mean of m fair signs, the pair is W (1 + c x) against W (1 - c x), with W the law
of (m, x) and c = tanh(local_epsilon / 2). A law that dominates that of x in the convex order dominates the pair. Such a
law is found in two ways:

* the mean of fewer signs dominates that of more, so that m may be replaced by the first of the counts of a bin;
* the sum of m signs is dominated by a normal variable of variance m + log(m)/6 + pi/2 - 1, whose profile is convex in
  m, so that m may also be spread to both ends of a bin.

The first is used for few clones, the second for many. Chords of E(x - u)_+ on a grid of u are then the law's profile,
and their second differences its masses. docs/numerics/laws.md derives this.

Shapes: [B] bins of counts; [R] lattice points of the sum of m signs, from the middle outwards; [K] places u > 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.law._law import Law, value_at_minimum
from jaxacct.special import LEAST_NORMAL, ULP, expm1, log1p, mills_ratio, tanh
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf, pmf_rounding
from jaxacct.special._fair_coins import log_fair_pmf

MOST_REPORTS = 2.0**40  # a larger number is replaced by this one: leaving out clones only reveals more
MOST_LOCAL = 30.0  # local epsilon
_MOST_PROB = 1.0 - 2.0**-40  # clone probability: a larger one is likewise replaced by this
_BINS = 256  # of counts
_SIGNS = 288  # lattice points of sums of signs that are enumerated
_TOGETHER = 8  # bins in a group, to whose ends counts are spread where clones are many
_LARGEST = 30.0  # deviations: beyond them a normal profile is replaced by its value here
# The following affect tightness only.
_FEW = 3000.0  # mean number of clones up to which sums of signs are enumerated
_LOG_ABOVE = 26.0  # -log of the share of counts replaced by the largest one: with a larger share slopes err
_NUM_REACHES = 256  # places among which the last one is chosen


class ClonesGrid(NamedTuple):
    """The counts that form a bin, and the places of the law's points; any choice is valid."""

    low: Any  # the least number of clones that is considered
    width: Any  # counts of a bin
    gap: Any  # between places u
    is_cut: Any  # whether means of signs beyond the last place become infinite losses; else they are replaced by 1
    is_few: Any  # whether sums of signs are enumerated


class _Counts(NamedTuple):
    """The law of the number of clones, in bins; masses rounded up."""

    first: Any  # [B], the least m of each
    mass: Any  # [B]
    share: Any  # [B], sum of mass times (m - first) / width
    below: Any  # mass of fewer clones
    above: Any  # mass of more


def clones_grid(num_reports: Any, clone_prob: Any, log_share: Any, num: int) -> ClonesGrid:
    """`ClonesGrid` of a law of `num` points, whose mass of infinite loss may be about e^`log_share`."""
    n, p = _others(num_reports, clone_prob)
    mean, length = n * p, -log_share
    variance, lengths = mean * (1.0 - p), jnp.stack([length, jnp.full_like(length, _LOG_ABOVE)])
    below, above = lengths / 3.0 + jnp.sqrt(lengths * lengths / 9.0 + 2.0 * lengths * variance)
    low = jnp.maximum(jnp.floor(mean - below), 0.0)
    width = jnp.maximum(jnp.ceil((jnp.minimum(mean + above, n) + 1.0 - low) / _BINS), 1.0)
    # P[x >= u] <= E e^(-m u^2 / 2)
    u = jnp.exp(0.5 * jnp.log(1.0 + mean) * np.linspace(-1.0, 0.0, _NUM_REACHES))
    half = 0.5 * u * u
    fallen = half - n * log1p(p * expm1(-half))
    (least,) = value_at_minimum(jnp.where(fallen >= length, u, 1.0), u[None])
    is_cut = fallen[-1] >= length
    last = jnp.where(is_cut, least, 1.0 - 1.0 / num)
    # so few bits that all places, odd multiples of half a gap, are doubles
    gap = jnp.minimum(last, 1.0 - 1.0 / num) / (0.5 * num - 1.5)
    scale = jnp.exp2(jnp.ceil(jnp.log2(gap)) - 36.0)
    return ClonesGrid(low, width, jnp.floor(gap / scale) * scale, is_cut, mean <= _FEW)


def clones_law(local_epsilon: Any, clone_prob: Any, num_reports: Any, grid: ClonesGrid, num: int) -> Law:
    """`Law` of `num` points, even, of a round of `num_reports` shuffled reports, the same in both directions.

    Args:
      local_epsilon: above 0, at most `MOST_LOCAL`.
      clone_prob: in (0, 1].
      num_reports: 1 or more.
    """
    places = grid.gap * (np.arange(num // 2 - 1) + 0.5)
    counts = _counts(*_others(num_reports, clone_prob), grid)
    value = jax.lax.cond(grid.is_few, _of_signs, _of_normal, counts, grid, places)
    # the last chord ends at (1, 0): no mean of signs is beyond 1
    to_one = value[-1] / (1.0 - places[-1])
    slopes = jnp.append(-jnp.diff(value) / grid.gap, to_one)
    masses = jnp.concatenate([0.5 - slopes[:1], -jnp.diff(slopes)])
    masses = jnp.maximum(masses, 0.0) + 16.0 * ULP * jnp.concatenate([jnp.ones(1), slopes[:-1]])
    masses = jnp.append(masses, jnp.where(grid.is_cut, 0.0, to_one)) * (1.0 + 2.0**-48)
    # with fewer clones than are considered the mean may also be 1 or -1
    lost = (0.5 * counts.below + jnp.where(grid.is_cut, to_one, 0.0)) * (1.0 + 2.0**-48)
    places = jnp.append(places, jnp.where(grid.is_cut, jnp.minimum(places[-1] + grid.gap, 1.0), 1.0))
    c = tanh(0.5 * local_epsilon)
    rest = 2.0 / (1.0 + jnp.exp(local_epsilon))  # 1 - c
    less = (1.0 - places) + places * rest
    log_ratio = log1p(2.0 * c * places / less)
    blur = 32.0 * ULP * log_ratio
    # the ratio of a lost mean goes to 0 and to the first place, for expectations that decrease in it and for those that
    # increase, or to the last place and to infinity
    whole = lost * (1.0 + c) * (1.0 + 2.0**-48)
    at_ends = jnp.where(np.arange(len(places)) == len(places) - 1, jnp.stack([whole, whole])[:, None], 0.0)
    masses = masses * jnp.stack([1.0 + c * places, less]) * (1.0 + 2.0**-45) + at_ends
    low, high = (jnp.stack([sign * log_ratio, mass, blur]) for sign, mass in zip((-1.0, 1.0), masses, strict=True))
    return Law(jnp.concatenate([low[:, ::-1], high], axis=1), jnp.stack([whole, whole]))


def _others(num_reports: Any, clone_prob: Any) -> tuple[Any, Any]:
    """The number of other reports, and the probability that one is a clone, both clipped to the supported range."""
    return jnp.clip(num_reports, 1.0, MOST_REPORTS) - 1.0, jnp.clip(clone_prob, LEAST_NORMAL, _MOST_PROB)


def _counts(n: Any, p: Any, grid: ClonesGrid) -> _Counts:
    """`_Counts` of n other reports, by the ratios of successive probabilities."""
    first = grid.low + grid.width * np.arange(_BINS, dtype=np.float64)
    log_mass = log_binomial_pmf(first, n, p, 1.0 - p)
    mass = jnp.where(first <= n, jnp.exp(log_mass + pmf_rounding(jnp.maximum(log_mass, -1e4))), 0.0)
    odds = p / (1.0 - p)

    def add(i: Any, state: Any) -> Any:
        each, total, moment = state
        at = first + i
        return each * jnp.maximum(n - at, 0.0) / (at + 1.0) * odds, total + each, moment + i * each

    none = jnp.zeros(_BINS)
    width = grid.width.astype(jnp.int32)
    _, total, moment = jax.lax.fori_loop(0, width, lambda i, s: add(i.astype(jnp.float64), s), (mass, none, none))
    grown = 1.0 + 8.0 * ULP * (grid.width + 1.0)
    last = first[-1] + grid.width
    ends = jnp.stack([grid.low - 1.0, last])
    rate = binomial_rate(jnp.clip(ends, 0.0, n), n, p, 1.0 - p)
    is_beyond, is_possible = jnp.stack([ends[0] < n * p, ends[1] > n * p]), (ends >= 0.0) & (ends <= n)
    tails = jnp.where(is_possible, jnp.where(is_beyond, jnp.exp(-rate * (1.0 - 2.0**-44)), 1.0), 0.0)
    below, above = tails * (1.0 + 2.0**-50)
    return _Counts(first + 1.0, total * grown, moment * grown / grid.width, below, above)


def _of_signs(counts: _Counts, grid: ClonesGrid, places: Any) -> Any:
    """Upper bounds on E(x - u)_+ [K], each m taken as the first of its bin: sums of m signs are enumerated."""
    m = counts.first
    odd = m - 2.0 * jnp.floor(0.5 * m)
    middle = 0.5 * (m + odd)  # the number of positive signs at lattice point 0
    top = jnp.minimum(middle + (_SIGNS - 1.0), m)
    log_top = log_fair_pmf(top, m)
    log_top = log_top + pmf_rounding(log_top)
    # beyond the last lattice point masses decrease faster than a geometric sequence
    ratio = (m - top) / (top + 1.0)
    rest = ratio / (1.0 - ratio)
    end = jnp.exp(log_top)

    def inwards(state: Any, r: Any) -> tuple[Any, Any]:
        mass, tail, value = state  # of point r + 1; of it and all beyond; E(S - s)_+ there
        is_end, inside = middle + r == top, middle + r < top
        positive = middle + r
        now = jnp.where(is_end, end, mass * (positive + 1.0) / jnp.maximum(m - positive, 1.0))
        value = jnp.where(is_end, 2.0 * end * rest / (1.0 - ratio), value + 2.0 * tail)
        tail = jnp.where(is_end, end * (1.0 + rest), tail + now)
        kept = jnp.where(is_end | inside, jnp.stack([now, tail, value]), 0.0)
        return kept, kept[2]

    _, table = jax.lax.scan(inwards, jnp.zeros((3, len(m))), np.arange(_SIGNS - 1.0, -1.0, -1.0))
    table = table[::-1]
    # of odd m, point -1 is the sum -1: E(S + 1)_+ = 1 + E(S - 1)_+
    table = jnp.concatenate([1.0 + table[:1], table])
    mass = counts.mass.at[-1].add(counts.above)
    weight = mass / m * (1.0 + 2.0**-41)  # 8 ULP for each of the lattice points, and sums over bins
    # lower places have larger values: rounded down
    at = 0.5 * (m * places[:, None] - odd)
    at = jnp.maximum(at - 8.0 * ULP * (1.0 + at), -odd)
    whole = jnp.minimum(jnp.floor(at), _SIGNS - 2.0)
    part = jnp.minimum(at - whole, 1.0)
    index = (whole.astype(jnp.int32) + 1) * _BINS + np.arange(_BINS, dtype=np.int32)
    flat = table.reshape(-1)
    near = (1.0 - part) * jnp.take(flat, index, mode="clip") + part * jnp.take(flat, index + _BINS, mode="clip")
    return jnp.sum(weight * near, axis=1)


def _of_normal(counts: _Counts, grid: ClonesGrid, places: Any) -> Any:
    """Upper bounds on E(x - u)_+ [K], the mean of m signs taken as a normal variable, m spread to ends of groups."""
    first = counts.first[::_TOGETHER]
    # the mean of m signs has at most the variance (1 + excess) / m
    excess = (jnp.log(first[0]) / 6.0 + (0.5 * math.pi - 1.0)) / first[0]
    m = jnp.append(first, first[-1] + _TOGETHER * grid.width)
    mass = counts.mass.reshape(-1, _TOGETHER)
    upper = jnp.sum(counts.share.reshape(-1, _TOGETHER) + mass * np.arange(_TOGETHER), axis=1) / _TOGETHER
    total = jnp.sum(mass, axis=1)
    lower = jnp.maximum(total - upper, 0.0) + 2.0**-46 * total
    masses = jnp.append(lower, counts.above) + jnp.pad(upper, (1, 0))
    deviation = jnp.sqrt((1.0 + excess) / m) * (1.0 + 2.0**-48)
    z = jnp.minimum(places[:, None] / deviation, _LARGEST)
    square = z * z
    near = jnp.exp(-0.5 * square) * (1.0 - z * mills_ratio(z)) * (1.0 + ULP * (256.0 + 64.0 * square))
    scale = masses * deviation * (1.0 / math.sqrt(2.0 * math.pi) * (1.0 + 2.0**-44))
    return jnp.sum(scale * near, axis=1)
