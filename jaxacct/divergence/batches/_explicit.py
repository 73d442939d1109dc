"""Lower bounds for shuffled batches: data for which the likelihood ratio is known, and tests of a sum of scores.

Let every other record contribute -1 and the one in question 1, in one dimension. After subtraction of the part that all
batches have in common, the output of the batch with the record is N(2a, 1), or N(a, 1) if the record is the empty one,
and the others are N(0, 1), a = 1 / noise multiplier (docs/papers/shuffled_batches.md, SB-8). The likelihood ratio of
the outputs w_1 .. w_t is a ratio of sums,

    sum_i A(w_i) / sum_i B(w_i),    A = e^(2 a w - 2 a^2),    B = e^(a w - a^2 / 2),

so that the best test is whether sum (A - e^eps B) > 0. Here each output is replaced by an integer, its score, and the
law of the sum of scores under both hypotheses is computed by a transform. Whatever the scores are, a test of their sum
is a test of the outputs: its error probabilities are exact up to rounding, which is subtracted.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.special import LEAST_NORMAL, ULP, log_normal_tail

_MOST_SHIFT, _MOST_EPSILON = 8.0, 250.0  # beyond them, scores are not doubles, or little is gained
_CELLS = 384  # of an output
_BEYOND = 8.5  # standard deviations covered by the cells on either side; affects tightness only, like all that follows
_FINE = 0.15  # rounding of a score, as a share of the mean size of scores
_FINE_AT_TOP = 0.02  # the same, as a share of the largest score
_FLUCTUATIONS = 3.0  # standard deviations beyond which one score decides
_STEEPEST = 300.0  # natural logarithms by which one score is tilted at most
_FALL = 14.0  # cost of one score of the least size, in natural logarithms
_WORSE = 5.0  # natural logarithms by which a tilt may be worse than the best one
_SPAN = 8.0  # standard deviations of the sum of scores that a window covers at least
_POINTS = (10, 17)  # log2 of the least and of the largest number of points of a window
_OUTSIDE = 1e-6  # probability that may lie outside a window
_LETTERS = 64  # groups of scores by which epochs are distinguished
_RARE = 1e-9  # probability of the letters at both ends
_ORDERS = np.exp(np.linspace(-5.0, 2.5, 46))  # tilts that are tried, about that of a normal law
_TILTS = np.exp(np.linspace(-6.0, 3.0, 28))  # tilts that bound the probability outside the window, over the deviation
# Relative error of a cell's mass: it is a difference of tails, which err by 32 (1 + x^2) ULP with |x| <= 25, and at
# least a part of 29 of them: below 2^-38.
_MASS_ERROR = 2.0**-32


class Laws(NamedTuple):
    """The masses [N] of an output's cells, without a record, with the empty one and with the record; their middles."""

    none: NDArray[np.float64]
    empty: NDArray[np.float64]
    record: NDArray[np.float64]
    middle: NDArray[np.float64]


@functools.lru_cache(maxsize=32)
def laws(a: float) -> Laws:
    """NamedTuple: the laws of an output of shift a."""
    edges = np.linspace(-_BEYOND, 2.0 * a + _BEYOND, _CELLS - 1)
    low, high = np.append(-np.inf, edges), np.append(edges, np.inf)

    def masses(mean: float) -> NDArray[np.float64]:
        # each from the tail on its own side
        left, right = low - mean, high - mean
        is_left = right <= 0.0
        near, far = np.where(is_left, -right, left), np.where(is_left, -left, right)
        with np.errstate(invalid="ignore", divide="ignore"):
            tails = [np.exp(log_normal_tail(np.where(np.isinf(x), 0.0, x))) for x in (near, far)]
        return np.maximum(np.where(np.isneginf(near), 1.0, tails[0]) - np.where(np.isposinf(far), 0.0, tails[1]), 0.0)

    middle = np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])
    return Laws(masses(0.0), masses(a), masses(2.0 * a), middle)


class Data(NamedTuple):
    """The outputs released in one epoch of these data.

    Attributes:
      shift: a, 1 / noise multiplier, rounded down.
      steps: how many batches were released.
      share: the probability that the record's batch is one of them, rounded down.
    """

    shift: float
    steps: int
    share: float


class _Scores(NamedTuple):
    """An integer for each cell; the limit for their sum to exceed; a tilt under which it does; its deviation then."""

    value: NDArray[np.int64]
    limit: int
    tilt: float
    deviation: float


def _scores(law: Laws, data: Data, epsilon: float, direction: Direction) -> _Scores | None:
    a, num_batches, w = data.shift, data.steps, law.middle
    record, empty = np.exp(2.0 * a * (w - a)), np.exp(a * (w - 0.5 * a))
    value = record - math.exp(epsilon) * empty if direction is Direction.REMOVE else empty - math.exp(epsilon) * record
    limit = num_batches * math.expm1(epsilon) * (1.0 - data.share) / data.share
    drift = limit + max(-num_batches * float((law.none * value).sum()), 0.0)
    variance, size = num_batches * float((law.none * value * value).sum()), np.abs(value)
    for _ in range(8):
        most = drift + _FLUCTUATIONS * math.sqrt(variance)
        common = np.where(size < 0.4 * most, size, 0.0)
        variance = max(num_batches * float((law.none * common * common).sum()), 1e-9 * variance)
    if not 0.0 < variance < math.inf:
        return None
    most = drift + _FLUCTUATIONS * math.sqrt(variance)
    value = np.clip(value, -most, most)
    orders = (drift + math.sqrt(drift * drift + 2.0 * variance)) / (2.0 * variance) * _ORDERS
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.exp(np.clip(np.multiply.outer(orders, value), -700.0, 700.0)) * law.none
        bound = num_batches * np.log(grown.sum(1)) - orders * limit - 2.0 * np.log(orders)
        bound = np.where(orders * float(value.max()) < _STEEPEST, bound, np.inf)
        mean = (grown * value).sum(1) / grown.sum(1)
        variances = (grown * np.square(value - mean[:, None])).sum(1) / grown.sum(1)
    # of tilts that are nearly the best, the one that spreads sums least
    at = int(np.nanargmin(np.where(bound <= np.nanmin(bound) + _WORSE, variances, np.inf)))
    order, deviation = float(orders[at]), math.sqrt(max(num_batches * float(variances[at]), 1e-300))
    value = np.maximum(value, -_FALL / order)
    fine = min(_FINE * float((law.none * np.abs(value)).sum()), _FINE_AT_TOP * max(float(value.max()), 0.0))
    step = max(fine, max(_SPAN * deviation, 4.5 * float(np.abs(value).max())) / 2 ** _POINTS[1])
    return _Scores(np.rint(value / step).astype(np.int64), round(limit / step), order * step, deviation / step)


class _Tails(NamedTuple):
    """log E e^(y S) over E e^(c S), for exponents y - c [K] to either side; S the sum of scores, c their tilt."""

    above: NDArray[np.float64]
    below: NDArray[np.float64]
    extra: NDArray[np.float64]

    def beyond(self, start: int, end: int) -> float:
        """An upper bound on the tilted probability that S is below `start` or at least `end`: Markov's inequality."""
        with np.errstate(over="ignore", invalid="ignore"):
            above, below = self.above - self.extra * end, self.below + self.extra * (start - 1)
        return sum(float(np.exp(np.minimum(np.nan_to_num(x, nan=0.0), 0.0)).min()) for x in (above, below))


def _tails(none: Any, one: Any, scores: _Scores, num_batches: int) -> _Tails:
    value, extra, found = scores.value, _TILTS / max(scores.deviation, 1.0), []
    for tilts in (np.zeros(1), extra, -extra):
        exponent = np.multiply.outer(scores.tilt + tilts, value)
        with np.errstate(over="ignore", invalid="ignore"):
            # for far exponents every term may underflow: a bound on the loss is added
            logs = [np.log((np.exp(exponent) * masses).sum(1) + LEAST_NORMAL * masses.size) for masses in (none, one)]
            found.append((num_batches - 1.0) * logs[0] + logs[1])
    slack = (num_batches + 1.0) * 2.0**-40 + 2.0**-40 * abs(float(found[0][0]))
    return _Tails(found[1] - found[0] + slack, found[2] - found[0] + slack, extra)


class _Sums(NamedTuple):
    """A tilted law of the sum of scores on a circle [N], and an upper bound on the 2-norm of its error.

    The probability of a sum x is e^(log_scale - tilt x) times the entry, less the aliases whole circles away.
    """

    law: NDArray[np.float64]
    error: float
    log_scale: float


def _sums(none: Any, one: Any, scores: _Scores, num_batches: int, size: int) -> _Sums:
    """The sums of all batches but one with the masses `none` and one with `one`, on a circle of `size` points."""
    value, tilt = scores.value, scores.tilt
    grown = np.exp(tilt * value)
    spectra, totals, norms = [], [], []
    for masses in (none, one):
        total = float((masses * grown).sum())
        folded = np.bincount(value % size, masses * grown / total, size)
        spectra.append(np.fft.rfft(folded))
        totals.append(math.log(total))
        norms.append(math.sqrt(float(np.square(folded).sum())))
    others = num_batches - 1.0
    modulus = np.minimum(np.abs(spectra[0]), 1.0)
    eta = 8.0 * ULP * math.log2(size)
    with np.errstate(divide="ignore", under="ignore"):
        power = np.exp(others * np.log(modulus)) * np.exp(1j * (others * np.angle(spectra[0])))
        # the error of an entry of a transform is eta times the norm times sqrt(N); that of its logarithm is this over
        # its size
        off = eta * math.sqrt(size) * norms[0]
        near = np.minimum(modulus + off, 1.0)
        slack = np.minimum(others * (off + 8.0 * ULP) / near + 8.0 * ULP * others * math.pi, 2.0) * np.exp(
            np.maximum(others - 1.0, 0.0) * np.log(near)
        )
    slack = slack * np.abs(spectra[1]) + eta * math.sqrt(size) * norms[1]
    law = np.fft.irfft(power * spectra[1], size)
    error = math.sqrt(2.0 * float(np.square(slack).sum()) / size) * (1.0 + 2.0**-20)
    error += eta * math.sqrt(float(np.square(law).sum()))
    return _Sums(law, error, others * totals[0] + totals[1])


def explicit_delta(data: Data, epsilon: float, direction: Direction) -> float:
    """A float in [0, 1], a lower bound on delta at `epsilon` >= 0 of one epoch of these data."""
    if not (data.shift < _MOST_SHIFT and epsilon < _MOST_EPSILON):
        return 0.0
    law = laws(data.shift)
    scores = _scores(law, data, epsilon, direction)
    if scores is None or not float(np.abs(scores.tilt * scores.value).max()) < 600.0:
        return 0.0
    ones = (law.record, law.empty) if direction is Direction.REMOVE else (law.empty, law.record)
    tails = [_tails(law.none, one, scores, data.steps) for one in (ones[0], law.none)]
    points = _POINTS[0]
    while True:
        start = scores.limit - 2 ** (points - 1)
        outside = sum(tail.beyond(start, start + 2**points) for tail in tails)
        if outside <= _OUTSIDE or points == _POINTS[1]:
            break
        points += 1
    p, q, other = (_sums(law.none, one, scores, data.steps, 2**points) for one in (*ones, law.none))
    x = start + np.arange(2**points)
    at = x % 2**points
    # relative errors: of the masses, of the scale, and of the exponential
    sizes = 1.0 + abs(p.log_scale) + abs(q.log_scale) + abs(other.log_scale)
    slack = data.steps * (_MASS_ERROR + 4.0 * ULP * sizes) + 2.0**-40
    exponents = epsilon + q.log_scale - p.log_scale, other.log_scale - p.log_scale
    if not (slack < 0.01 and max(exponents) < 600.0):
        return 0.0
    # with the record's batch among others:  share P + (1 - share) O  against  share Q + (1 - share) O
    odds = data.share * math.exp(exponents[0])
    rest = (1.0 - data.share) * math.exp(exponents[1]) * math.expm1(epsilon)
    against = (odds * q.law[at] + rest * other.law[at]) * (1.0 + 2.0 * slack)
    gain = data.share * p.law[at] * (1.0 - slack) - against
    weight = np.exp(-scores.tilt * np.maximum(x - scores.limit, 0))  # at most 1: errors weigh no more
    chosen = (gain > 0.0) & (x >= scores.limit)
    total = float((gain * weight)[chosen].sum())
    size = float(((data.share * p.law[at] + against) * weight)[chosen].sum())
    errors = p.error + odds * q.error + rest * other.error
    lost = math.sqrt(float(np.square(weight[chosen]).sum())) * errors + outside
    total = total - 2.0 * lost - (len(x) + 64.0) * ULP * size
    return max(0.0, min(1.0, total * math.exp(min(p.log_scale - scores.tilt * scores.limit, 700.0)) * (1.0 - 2.0**-30)))


class Letters(NamedTuple):
    """Measures [K] of one epoch's scores: with the record at most the true one, without it at least the true one."""

    with_it: NDArray[np.float64]
    without: NDArray[np.float64]


def letters(data: Data, epsilon: float, direction: Direction) -> Letters | None:
    """NamedTuple: letters by the scores of the test at `epsilon`, grouped by odds; None where they err too much."""
    if not (data.shift < _MOST_SHIFT and epsilon < _MOST_EPSILON):
        return None
    law = laws(data.shift)
    scores = _scores(law, data, epsilon, direction)
    if scores is None:
        return None
    reach = 12.0 * scores.deviation + float(np.abs(scores.value).max())
    points = min(max(math.ceil(math.log2(2.0 * reach)), _POINTS[0]), _POINTS[1])
    scores = scores._replace(tilt=0.0)
    ones = (law.record, law.empty) if direction is Direction.REMOVE else (law.empty, law.record)
    found = [_sums(law.none, one, scores, data.steps, 2**points) for one in (*ones, law.none)]
    slack = data.steps * (_MASS_ERROR + 8.0 * ULP) + 2.0**-40
    if not slack < 0.01:
        return None
    # any set of points of the circle is a test: no probability lies outside
    p, q = (data.share * x.law + (1.0 - data.share) * found[2].law for x in found[:2])
    p, q = np.maximum(p, 0.0), np.maximum(q, 0.0)
    odds = np.log((p + 1e-14) / (q + 1e-14))
    order = np.argsort(odds)
    tails = np.minimum(np.cumsum((p + q)[order]), np.cumsum((p + q)[order][::-1])[::-1])
    inside = odds[order][tails > _RARE]
    if len(inside) < 2:
        return None
    edges = np.linspace(inside[0], inside[-1], _LETTERS - 1)
    group = np.searchsorted(edges, odds)
    # in a sum over m points, an error is at most sqrt(m) times its 2-norm
    roots = np.sqrt(np.bincount(group, minlength=_LETTERS))
    sums: list[Any] = [np.bincount(group, x, _LETTERS) for x in (p, q)]
    lost = [roots * 2.0 * max(x.error, found[2].error) for x in found[:2]]
    return Letters(
        np.maximum(sums[0] * (1.0 - slack - 2.0**-30) - lost[0], 0.0),
        sums[1] * (1.0 + 2.0 * slack + 2.0**-30) + lost[1],
    )
