"""Lower bounds for shuffled reports and check-ins: a test of a sum of scores, all other users with the opposite datum.

docs/papers/blanket.md, BL-8. Let p and q be the masses of a report's cells for the one datum and for the other, which
all others hold, and J_i the indicator that the i-th of n users joins. The likelihood ratio of the observation is

    1 + sum_i J_i (p / q - 1) / n,

so that the best test of the cells is whether sum_i J_i (p / q - 1) > n (e^epsilon - 1). Whatever scores near these are
used, a test of their sum is a test of the reports; a user who does not join scores 0. Its gain P - e^epsilon Q is
computed from the law of n - 1 scores, convolved with the signed measure p - e^epsilon q of one score.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import ULP, bisect, gauss_legendre, rows_times

MOST_USERS = 10**7  # beyond it, sums of scores are not known well enough
MOST_SHIFT = 4.0  # 1 / noise multiplier up to which densities are known closely enough
# These affect cost and tightness only.
_CELLS, _NODES = 384, 12  # of a report, and of Gauss's rule in one
_BEYOND = 8.5  # standard deviations of Gaussian noise that cells cover on either side
_FLUCTUATIONS = 8.0  # standard deviations of the sum, and of one score, at which scores are cut
_FINE, _SPAN = 0.1, 20.0  # rounding of a score, in its standard deviations; width of a window, in those of the sum
_POINTS = 17  # log2 of the most points of a window
_TILTS = np.exp(np.linspace(-3.0, 4.0, 40))  # tilts that bound the mass outside a window, over the standard deviation
# Relative error of a mass: a density errs by 2 u^2 ULP, |u| <= 17, and by u times the error, 2^-48, of the place of a
# node or an end of a cell; the rule's own error is below 1e-19, and weights err by 2^-46 (docs/numerics/clones.md).
_MASS_ERROR = 2.0**-41


class Cells(NamedTuple):
    """Masses [N] of the cells of a report for the one datum and for the other."""

    own: NDArray[np.float64]
    other: NDArray[np.float64]


@functools.lru_cache(maxsize=8)
def gaussian_cells(a: float) -> Cells:
    """NamedTuple: the cells of Gaussian reports, a = 1 / noise multiplier, at most `MOST_SHIFT`."""
    edges: Any = np.linspace(-_BEYOND, 2.0 * a + _BEYOND, _CELLS + 1)
    nodes, weights = gauss_legendre(_NODES)
    width = float(edges[1] - edges[0])
    at = edges[:-1, None] + width * 0.5 * (nodes + 1.0)
    other = rows_times(np.exp(-0.5 * at * at), weights * (0.5 * width / math.sqrt(2.0 * math.pi)))
    return Cells(other[::-1], other)


@functools.lru_cache(maxsize=8)
def laplace_cells(rate: float) -> Cells:
    """NamedTuple: the cells of Laplace reports, rate = 1 / scale; beyond the data there is one cell on either side."""
    w: Any = np.linspace(0.0, 2.0 * rate, _CELLS + 1)  # from the other datum
    inside = 0.5 * np.exp(-w[:-1]) * -math.expm1(-2.0 * rate / _CELLS)
    other = np.concatenate([[0.5], inside, [0.5 * math.exp(-2.0 * rate)]])
    return Cells(other[::-1], other)


class _Test(NamedTuple):
    """Scores [N + 1] and the limit for their sum to reach, integers; a tilt; the sum's deviation; log2 of points."""

    score: NDArray[np.int64]
    limit: int
    tilt: float
    deviation: float
    points: int


def _test(value: Any, mass: Any, users: float, limit: float) -> _Test:
    """Scores near a multiple of `value`, at a tilt under which their sum is about `limit`."""
    variance = users * float((mass * value * value).sum())
    for _ in range(8):  # without the rare values that alone decide
        most = limit + _FLUCTUATIONS * math.sqrt(variance)
        common = np.where(value < most, value, 0.0)
        variance = max(users * float((mass * common * common).sum()), 1e-9 * variance)
    value = np.minimum(value, most)

    def shares(tilt: float) -> Any:
        grown = mass * np.exp(tilt * value)
        return grown / grown.sum()

    high = 300.0 / float(value.max())
    tilt = bisect(
        lambda t: users * float((shares(t) * value).sum()) <= limit + 2.0 / t, 1e-9 * high, high, num_steps=50
    )
    share = shares(tilt)
    mean = float((share * value).sum())
    deviation = math.sqrt(users * float((share * np.square(value - mean)).sum()))
    reach = _SPAN * deviation + 2.0 * float(value.max())
    step = max(_FINE * deviation / math.sqrt(users), reach / 2**_POINTS)
    points = min(max(math.ceil(math.log2(reach / step)), 10), _POINTS)
    score = np.rint(value / step).astype(np.int64)
    rounded = users * float((share * (score - value / step)).sum())  # the mean error of sums by rounding
    return _Test(score, math.ceil(limit / step + rounded), tilt * step, deviation / step, points)


def scored_delta(cells: Cells, users: float, prob: float, epsilon: float) -> float:
    """A float in [0, 1], a lower bound on delta at `epsilon` >= 0 of `users` who each join with probability `prob`."""
    if not epsilon < math.log(float((cells.own / cells.other).max())):
        return 0.0  # no cell is that informative
    gain = math.exp(epsilon)
    one = np.append(prob * cells.own, 1.0 - prob)
    mass = np.append(prob * cells.other, 1.0 - prob)
    value = np.append(cells.own / cells.other - 1.0, 0.0)
    test = _test(value, mass, users, users * math.expm1(epsilon))
    exponent = test.tilt * test.score
    grown = np.exp(exponent)
    total = float((mass * grown).sum())
    signed, both = (one - gain * mass) * grown / total, (one + gain * mass) * grown / total
    mass = mass * grown / total
    size, others = 2**test.points, users - 1.0
    # masses, tilts and sums
    error = users * (_MASS_ERROR + ULP * (32.0 + 4.0 * float(np.abs(exponent).max()) + 8.0 * abs(math.log(total))))
    log_scale = users * math.log(total) - test.tilt * test.limit
    if not (error < 0.01 and log_scale < 600.0):
        return 0.0
    start = test.limit - size // 2
    outside = _outside(test, mass, both, others, start, start + size)
    spectrum, off = _spectrum(test.score, mass, size)
    law, lost = _convolved(test.score, spectrum, off, signed, others, size)
    plain, plain_lost = _convolved(test.score, spectrum, off, both, others, size)
    x = np.arange(test.limit, start + size)
    weight = np.exp(-test.tilt * (x - test.limit))  # at most 1, also outside the window
    norm = math.sqrt(float(np.square(weight).sum()))
    gained, known = float((law[x % size] * weight).sum()), float((np.abs(plain[x % size]) * weight).sum())
    known += norm * plain_lost + outside
    gained = gained - norm * lost - outside - known * (2.0 * error + (size + 64.0) * ULP)
    return max(0.0, min(1.0, gained * math.exp(log_scale) * (1.0 - 2.0 * error)))


def _outside(test: _Test, mass: Any, one: Any, others: float, start: int, end: int) -> float:
    """An upper bound on the tilted masses of sums below `start` or from `end` on, by Markov's inequality."""
    total = 0.0
    for sign, edge in ((1.0, end), (-1.0, start - 1)):
        tilts = sign * _TILTS / test.deviation
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.exp(np.multiply.outer(tilts, test.score))
            log = others * np.log((grown * mass).sum(1)) + np.log((grown * one).sum(1)) - tilts * edge
        total += math.exp(min(float(np.where(np.isnan(log), np.inf, log).min()), 700.0))
    return total * (1.0 + 2.0**-10)


def _spectrum(score: Any, mass: Any, size: int) -> tuple[Any, float]:
    """The transform of masses on a circle, and an upper bound on the error of any entry."""
    folded = np.bincount(score % size, mass, size)
    # eta of the norm, for any entry (Higham 2002, Theorem 24.2); masses that are folded
    error = 8.0 * ULP * math.log2(size) * math.sqrt(size * float(np.square(folded).sum()))
    return np.fft.rfft(folded), error + len(mass) * ULP * float(np.abs(mass).sum())


def _convolved(score: Any, spectrum: Any, off: float, one: Any, others: float, size: int) -> tuple[Any, float]:
    """The law on a circle [size] of the sum of `others` scores and one of the measure `one`, and its error's 2-norm."""
    last, last_off = _spectrum(score, one, size)
    last_off += len(one) * ULP * float(np.abs(one).sum())
    modulus = np.abs(spectrum)
    with np.errstate(divide="ignore", under="ignore"):
        near = np.minimum(modulus + off, 1.0 + off)
        most = np.exp(others * np.log(near))
        power = np.exp(others * np.log(modulus)) * np.exp(1j * (others * np.angle(spectrum)))
        slack = most * np.minimum(
            others * ((off + 8.0 * ULP) / near + 8.0 * ULP * (math.pi + np.abs(np.log(near)))), 2.0
        )
    slack = slack * (np.abs(last) + last_off) + most * last_off
    law = np.fft.irfft(power * last, size)
    error = math.sqrt(2.0 * float(np.square(slack).sum()) / size) * (1.0 + 2.0**-20)
    return law, error + 8.0 * ULP * math.log2(size) * math.sqrt(float(np.square(law).sum()))
