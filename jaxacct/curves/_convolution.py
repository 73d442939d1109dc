"""Composition of privacy loss distributions by FFT, certified."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound, TooFineError
from jaxacct._work import count_transforms
from jaxacct.curves._pld import Pld, check_alike
from jaxacct.curves._regridding import MAX_POINTS, on_grid
from jaxacct.special import ULP, log_or_minus_inf, rows_times

# The composed masses are computed under several exponential tilts, each accurate around the losses where delta is about
# one of these numbers; at each point the best result is kept.
ALL_DELTAS = (1e-3, 1e-6, 1e-9, 1e-12, 1e-16, 1e-20)
_MOST_REACH = 1e150  # nats: products of such losses with tilts are doubles
_LOG_TAIL = math.log(1e-20)  # log of the mass that may wrap around, which is added to the error bound

_NUM_HALVINGS, _MOST_HALVINGS = 5, 40  # halvings of the bracket of a tilt
_STEEP = 4.0  # multiple of log delta beyond which a tilt is too steep to be sharp at this delta
_SPREADS, _LEAST_VARIANCE = (-7, 43), 1e-24  # the powers of two that are tried, and the least variance that guides
_SHARE_OF_TOP = 0.7  # share of the log of the mass at the largest loss: steers tightness only


class _LogMoments:
    """K(a) = sum_i count_i log sum_j p_ij e^(a l_ij), over the finite masses; and its derivative."""

    def __init__(self, parts: Sequence[tuple[Pld, int]]):
        self._parts = [(pld.losses[m], np.log(pld.masses[m]), count) for pld, count in parts for m in [pld.masses > 0]]

    def both(self, a: float) -> tuple[float, float]:
        """K(a) and K'(a), the mean of the composed loss under the tilt."""
        value = slope = 0.0
        for losses, log_p, count in self._parts:
            x = log_p + a * losses
            top = float(x.max())
            weights = np.exp(x - top)
            total = float(weights.sum())
            value += count * (top + math.log(total))
            slope += count * float(rows_times(weights, losses)) / total
        return value, slope

    def __call__(self, a: float) -> float:
        return self.both(a)[0]

    def variance(self, a: float) -> float:
        """K''(a), the variance of the composed loss under the tilt, to within rounding."""
        value = 0.0
        for losses, log_p, count in self._parts:
            x = log_p + a * losses
            weights = np.exp(x - float(x.max()))
            weights /= float(weights.sum())
            value += count * float(rows_times(weights, np.square(losses - float(rows_times(weights, losses)))))
        return value

    def log_top(self) -> float:
        """The logarithm of the mass at the largest composed loss: what K(a) - a K'(a) falls to as a grows."""
        return sum(count * float(log_p[-1]) for _, log_p, count in self._parts)


def _log_sum_exp(x: NDArray[Any]) -> float:
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum()))


def _tilts(moments: _LogMoments, deltas: Sequence[float]) -> list[float]:
    """The tilts a >= 0 at which the Chernoff exponent K(a) - a K'(a) is about log of each of the decreasing deltas."""

    def exponent(a: float) -> float:
        value, slope = moments.both(a)
        return value - a * slope

    tilts: list[float] = []
    low, high = 0.0, 1.0
    # a tilt under which little but the largest loss is left is sharp nowhere else
    least = _SHARE_OF_TOP * moments.log_top()
    for delta in deltas:
        target = max(math.log(delta), least)
        if target >= 0.0:
            tilts.append(0.0)
            continue
        while exponent(high) > target and high < 1e12:
            low, high = high, 2.0 * high
        top = high
        for step in range(_MOST_HALVINGS):
            # a tilt right to a few per cent does as well, unless rare losses take over within that range
            if step >= _NUM_HALVINGS and exponent(top) >= _STEEP * target:
                break
            middle = math.sqrt(low * top) if low > 0 else 0.5 * top
            if exponent(middle) > target:
                low = middle
            else:
                top = middle
        else:
            top = low
        tilts.append(top)
    return tilts


def _chernoff_end(moments: _LogMoments, tilt: float, sign: float, log_tail: float) -> float:
    """A loss beyond which (on the side of `sign`) the tilted composed law holds at most exp(log_tail).

    Any spread gives a valid loss. As K is convex, the loss falls as the spread grows up to the best one, then rises.
    For a normal law the best one is sqrt(2 |log_tail| / K''): the walk over powers of two begins there.
    """
    base = moments(tilt)

    def loss(power: int) -> float:
        spread = math.ldexp(1.0, power)
        found = (moments(tilt + sign * spread) - base - log_tail) / spread
        return math.inf if math.isnan(found) else found

    least, most = _SPREADS
    variance = moments.variance(tilt)
    scale = math.sqrt(-2.0 * log_tail / variance) if _LEAST_VARIANCE < variance < math.inf else 1.0
    power = min(max(math.frexp(scale)[1], least), most)
    best = loss(power)
    while power < most and (further := loss(power + 1)) < best:
        best, power = further, power + 1
    while power > least and ((further := loss(power - 1)) < best or best == math.inf):
        best, power = further, power - 1
    return sign * best


def compose_plds(
    parts: Sequence[tuple[Pld, int]],
    deltas: Sequence[float] = (1.0, *ALL_DELTAS),
    *,
    tilts: Sequence[float] | None = None,
) -> Pld:
    """The privacy loss distribution of running each part the given number of times, on the finest grid of the parts.

    Every mass is certified. A bound on its rounding error is added to the result of the transform (for a lower bound,
    subtracted). With eta = 8 ulp log2(N) for a transform of length N and a_i the tilted masses, it is

        eta sum_i count_i |a_i|_2 + (5 ulp sum_i count_i + eta) |result|_2,

    and a bound on the mass that may wrap around, 1e-20 in all by Chernoff's bound on the tilted law, is added likewise.
    Mass to the right of the window is moved to infinity, mass to the left of it to the first point. Tilting by e^(a l)
    before and back after makes the error relative to the masses around the tilt's own losses: a delta of 1e-20 keeps
    its digits.

    Args:
      parts: the distributions and their counts.
      deltas: those at which the result should be sharp; it is valid everywhere.
      tilts: tilts a >= 0 instead, where they are known: the result is sharp at the losses that matter at order a + 1.

    Raises:
      ValueError: if the parts differ in bound, direction or adjacency.
    """
    check_alike((pld for pld, _ in parts), "compose")
    finest = min(pld.step for pld, _ in parts)
    parts = [(pld if pld.step == finest else on_grid(pld, finest), int(count)) for pld, count in parts if count > 0]
    first = parts[0][0]
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    upper, step = first.bound is Bound.UPPER, first.step
    # a single rounding, however many parts there are
    log_finite = math.fsum(count * math.log1p(-min(pld.infinite_mass, 1.0 - ULP)) for pld, count in parts)
    infinite = 0.0 - math.expm1(log_finite) * (1.0 + (2.0**-45 if upper else -(2.0**-45)))
    if not all((pld.masses > 0).any() for pld, _ in parts):  # a part without finite losses
        return dataclasses.replace(first, offset=0.0, masses=np.zeros(1), infinite_mass=1.0 if upper else infinite)
    moments = _LogMoments(parts)
    tilts = _tilts(moments, sorted(deltas, reverse=True)) if tilts is None else tilts
    steepest = max(tilts)
    window = _window(parts, moments, steepest)
    origin, start, end, full = window
    losses = origin + step * np.arange(start, start + window.size)
    # a loss is a sum, off by some ulp of its largest term: it may lie near 0 although the grids begin far away
    reach = sum(count * (abs(pld.offset) + step * (pld.masses.shape[0] - 1)) for pld, count in parts)
    if not reach <= _MOST_REACH:
        raise TooFineError(f"the composed losses reach to {reach:.2g} nats, beyond {_MOST_REACH:g}")
    masses = np.full(window.size, np.inf if upper else 0.0)
    count_transforms(window.size, len(tilts))
    for tilt in tilts:
        found = _under_tilt(parts, tilt, losses, start, reach, upper=upper)
        masses = np.minimum(masses, found) if upper else np.maximum(masses, found)
    masses, losses = masses[: end - start + 1], losses[: end - start + 1]
    if upper:
        if end < full:
            # at most e^_LOG_TAIL of the tilted law lies there; undoing the tilt gains at most what it does at `end`
            value = moments(steepest)
            exponent = value - steepest * (origin + step * end) + 2.0**-46 * (1.0 + abs(value) + steepest * reach)
            infinite += math.exp(min(0.0, exponent + _LOG_TAIL))
        if start > 0:
            masses[0] += math.exp(min(0.0, _LOG_TAIL + max(0.0, moments(0.0))))  # a mass of 1 or more says nothing
        masses = np.minimum(masses, 1.0)
    # the losses are shifted to the safe side by their rounding error
    shift = 2.0**-50 * reach * (1.0 if upper else -1.0)
    return dataclasses.replace(first, offset=float(losses[0]) + shift, masses=masses, infinite_mass=infinite)


class _Window(NamedTuple):
    """Which points of the composed grid are kept: `start` to `end` of 0 to `full`; point 0 is at the loss `origin`."""

    origin: float
    start: int
    end: int
    full: int

    @property
    def size(self) -> int:
        """The length of the transform: a power of two."""
        return 1 << max(4, (self.end - self.start).bit_length())


def _window(parts: Sequence[tuple[Pld, int]], moments: _LogMoments, steepest: float) -> _Window:
    """The window that holds all but e^_LOG_TAIL of the composed law, on the right even under the steepest tilt."""
    step = parts[0][0].step
    origin = sum(count * pld.offset for pld, count in parts)
    full = sum(count * (pld.masses.shape[0] - 1) for pld, count in parts)
    low = (_chernoff_end(moments, 0.0, -1.0, _LOG_TAIL) - origin) / step
    high = (_chernoff_end(moments, steepest, 1.0, _LOG_TAIL) - origin) / step
    # an end that is infinite, or no number, cuts nothing off
    start = math.floor(min(low, full)) if low > 0.0 else 0
    end = math.ceil(high) if high < full else full
    window = _Window(origin, start, end, full)
    if window.size > full:
        window = _Window(origin, 0, full, full)
    if window.size > MAX_POINTS:
        raise TooFineError(
            f"the composed loss spreads over {window.end - window.start:.2g} steps of {step:.3g}, more than "
            f"{MAX_POINTS}: ask for a lower resolution, or for the Renyi bound (leave precision out)"
        )
    return window


def _under_tilt(
    parts: Sequence[tuple[Pld, int]], tilt: float, losses: NDArray[Any], start: int, reach: float, *, upper: bool
) -> NDArray[Any]:
    """Composed masses, upper or lower, at `losses` (the grid from `start` on), by a transform of tilted masses.

    Args:
      reach: the largest size of a sum of losses, which bounds the rounding error of the exponents.
    """
    size = losses.shape[0]
    total = sum(count for _, count in parts)
    eta = 8.0 * ULP * math.log2(size)
    log_z = [_log_sum_exp(log_or_minus_inf(pld.masses) + tilt * pld.losses) for pld, _ in parts]
    spectrum = np.ones(size // 2 + 1, complex)
    norms = grown = rounding = 0.0
    for (pld, count), lz in zip(parts, log_z, strict=True):
        log_p = log_or_minus_inf(pld.masses)
        tilted = np.exp(log_p + tilt * pld.losses - lz)
        size_of = float(np.abs(log_p[np.isfinite(log_p)]).max()) + abs(lz) + tilt * float(np.abs(pld.losses).max())
        each = 2.0**-50 * (16.0 + size_of + pld.masses.shape[0] / size)  # relative, of a tilted mass on the circle
        rounding += count * each
        norms += count * _norm(tilted)
        grown += count * (each + eta * math.sqrt(size) * _norm(tilted))
        spectrum *= _power(np.fft.rfft(_wrapped(tilted, size)), count)
    result = np.roll(np.fft.irfft(spectrum, size), -(start % size))
    error = _fft_error(norms, grown, 5.0 * ULP * total + eta, _norm(result), eta) + 2.0 * math.exp(_LOG_TAIL)
    if not error < math.inf:  # nothing is known, whatever the scale
        return np.full(size, math.inf if upper else 0.0)
    log_scale = sum(count * lz for (_, count), lz in zip(parts, log_z, strict=True)) - tilt * losses
    # rounding of the exponent, and of the tilted masses
    grow = 2.0**-50 * (16.0 + np.abs(log_scale) + tilt * reach) + rounding
    with np.errstate(over="ignore", under="ignore"):
        scale = np.exp(np.minimum(log_scale + (grow if upper else -grow), 700.0))
        return np.maximum(result + error, 0.0) * scale if upper else np.maximum(result - error, 0.0) * scale


def _fft_error(norms: float, grown: float, drift: float, result: float, eta: float) -> float:
    """A bound on the error of an entry of a composed law, from both transforms and the products; inf if too large.

    A transform of N = 2^n numbers errs by eta = n (mu + gamma_4 (sqrt 2 + mu)) of its norm (Higham, Accuracy and
    Stability of Numerical Algorithms, Theorem 24.2), below 8 n ULP where the twiddle factors err by mu <= 2 ULP. No
    entry of a tilted law's transform exceeds 1; e^grown covers the product of all computed entries, which may.
    `drift` is eta plus the error of the products, 5 ULP for each factor (`_power`); of a `result` that carries these
    errors, drift / (1 - 2 drift) is what they have changed.
    """
    if not (drift < 0.25 and grown < 1.0):
        return math.inf
    return eta / (1.0 - eta) * norms * math.exp(grown) + drift / (1.0 - 2.0 * drift) * result


def _norm(x: NDArray[Any]) -> float:
    """The Euclidean norm, without NumPy's own function, which starts threads."""
    return math.sqrt(float(np.square(x).sum()))


def _wrapped(masses: NDArray[Any], size: int) -> NDArray[Any]:
    """`masses` folded onto a circle of `size` points."""
    if masses.shape[0] <= size:
        return np.concatenate([masses, np.zeros(size - masses.shape[0])])
    rows = -(-masses.shape[0] // size)
    return np.concatenate([masses, np.zeros(rows * size - masses.shape[0])]).reshape(rows, size).sum(axis=0)


def _power(x: NDArray[Any], exponent: int) -> NDArray[Any]:
    """x**exponent by squaring: at most 2 ulp sqrt(5) relative for each unit of the exponent."""
    result = np.ones_like(x)
    while exponent:
        if exponent & 1:
            result = result * x
        exponent >>= 1
        if exponent:
            x = x * x
    return result
