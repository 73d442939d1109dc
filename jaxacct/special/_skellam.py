"""The Skellam law: the difference of two Poisson variables with the same mean, with bounds on errors."""

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.special._bisection import bisect_whole
from jaxacct.special._rounding import ULP, up

_ROUNDINGS = 4.0 * ULP  # of a quotient, a sum and a quotient, and terms of second order
_SPARE = 64  # least number of steps of the recurrence before the first ratio that is wanted
_FORGOTTEN = 30.0  # and as many more as reduce the error of its start by about e^-30


def skellam_reach(variance: float, log_tail: float) -> int:
    """The least R, or slightly more, with P(X > R) <= e^-log_tail for X of that variance, by Chernoff's bound.

    log E e^(s X) = v (cosh s - 1), so that log P(X >= R) <= v (cosh s - 1) - s R at sinh s = R / v.
    """

    def is_beyond(reach: int) -> bool:
        slope = reach / variance
        fall = slope * (slope / (1.0 + math.hypot(1.0, slope)))  # cosh s - 1
        exponent = reach * math.asinh(slope) - variance * fall
        return exponent * (1.0 - 2.0**-40) >= log_tail

    top = 1
    while not is_beyond(top):
        top *= 2
    return bisect_whole(is_beyond, top, 0)


def _falls(variance: float, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two arrays [number]: log(P(X = k) / P(X = k + 1)) > 0 for k = 0, 1, .., and their errors.

    P(X = k) = e^-v I_k(v), v the variance. With a = 2 (k + 1) / v, r_k = I_(k+1)(v) / I_k(v) = 1 / (a + r_(k+1)), the
    recurrence of Bessel functions, run downwards from 1 / (a + 1) <= r <= 1 / a. An error e of log r_(k+1) moves
    log(a + r_(k+1)) by at most e times the largest r / (a + r) in between, so by less than e; each step adds its
    roundings.
    """
    start = number + _SPARE + math.ceil(_FORGOTTEN * variance / max(number, 1.0))
    twice = 2.0 / variance
    a = twice * (start + 1.0)
    ratio, error = 1.0 / (a + 1.0), math.log1p(1.0 / a) * (1.0 + 2.0**-40) + _ROUNDINGS
    ratios, errors = np.empty(number), np.empty(number)
    for k in range(start - 1, -1, -1):
        a = twice * (k + 1.0)
        most = ratio * math.exp(min(error, 700.0))
        error = error * (most / (a + most)) * (1.0 + 2.0**-48) + _ROUNDINGS
        ratio = 1.0 / (a + ratio)
        if k < number:
            ratios[k], errors[k] = ratio, error
    falls = -np.log(ratios)
    return falls, up(errors + 4.0 * ULP * falls, 8)


class SkellamMasses(NamedTuple):
    """log P(X = k) [number + 1] for k = 0 .. number; error bounds for each, and for differences of neighbours."""

    log_masses: NDArray[np.float64]
    error: float
    error_of_step: float


@functools.lru_cache(maxsize=16)
def skellam_masses(variance: float, number: int) -> SkellamMasses:
    """The masses (`SkellamMasses`, a NamedTuple) of X of that variance; masses beyond `number` must be negligible.

    log(P(X = 0) / P(X = k)) is a sum of the falls, by compensated summation. Then the masses are divided by their sum,
    whose relative error is no more than that of a mass.
    """
    falls, errors = _falls(variance, number)
    sums, total, rest = np.empty(number + 1), 0.0, 0.0
    sums[0] = 0.0
    for k, fall in enumerate(falls.tolist()):
        grown = total + fall
        added = grown - total
        rest += (total - (grown - added)) + (fall - added)
        total = grown
        sums[k + 1] = total + rest
    masses = np.exp(-sums)
    whole = math.fsum([*masses.tolist(), *masses[1:].tolist()])
    rounding = 2.0**-48 * (1.0 + float(sums[-1]))
    error = up(2.0 * (float(errors.sum()) + rounding), 8)
    return SkellamMasses(-sums - math.log(whole), error, float(errors.max(initial=0.0)) + rounding)
