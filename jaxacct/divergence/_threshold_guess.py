"""A guess of the best event of a threshold test, from moments at real orders, without any certificate.

`jaxacct.divergence._threshold_test` explains the test, and certifies a bound for the event chosen here.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxacct.divergence._tail import Moments, Nodes
from jaxacct.special._normal import mills_ratio

Real = np.ndarray[Any, np.dtype[np.float64]]

_NUM_ORDERS = 64  # orders x at which moments are evaluated
_ORDERS = (2e-2, 40.0)  # their range, in units of 1 over the standard deviation of T
_LOG_PREFACTOR = -2.5  # approximate log of the ratio of a tail to Chernoff's bound on it
_FIRST = 0.3  # the wide guess of the threshold, as a share of the one that Chernoff's bound gives
_LOG_ABOVE = 1.0  # approximate log of A(S) / delta at the best threshold
_WIDEST = 2.0  # least reach of the wide search, in standard deviations of T
_AROUND = np.linspace(0.4, 1.6, 25)  # orders tried for each tuning, over the best one in Chernoff's bound
_BETWEEN = 33  # thresholds tried between saddle points
_DEVIATIONS = 1.0  # error allowed for a guessed threshold, in standard deviations of T, tilted
_WIDE = 4.0  # reach of the wide search around the wide guess, as a share of that guess


class Term(Protocol):
    """A term of the statistic T, in one direction. In the add direction T is minus the sum of the logarithms.

    On a line Re s = x > 0 its moments E_A[e^{sT}] are needed, and on Re s = x + 1 its moments E_B[e^{sT}].
    """

    @property
    def variance(self) -> float:
        """Approximate variance of the term."""

    @property
    def largest_order(self) -> float:
        """Approximately the largest order x at which the moments are of use."""

    @property
    def has_atoms(self) -> bool:
        """Whether the term has finitely many values: then saddle points approximate its tails poorly."""

    @property
    def log_uncertain(self) -> float:
        """Upper bound on the log of A's mass where T is finite; elsewhere B has no mass."""

    def rough(self, orders: Real) -> tuple[Real, Real]:
        """Approximate log E_A[e^{xT}] and log E_B[e^{(x + 1)T}] [O] at `orders` [O]."""

    def on_line(self, nodes: Nodes, log_tolerance: float) -> tuple[Moments, Moments]:
        """`Moments` [N] under A at x + ib, and under B at x + 1 + ib."""

    def beyond(self, order: float, heights: Real, log_tolerance: float) -> tuple[Real, Real]:
        """Bounds [K] on log |E_A[e^{(x + iy)T}]| and log |E_B[e^{(x + 1 + iy)T}]|, each for all y >= its height."""


Terms = Sequence[tuple[Term, float]]  # each with its number of independent copies


class Goal(NamedTuple):
    """A guess of the best event: its threshold, log A(S) and log B(S), and the possible error of the threshold."""

    threshold: float
    log_a: float
    log_b: float
    reach: float


class GuessedEvent(NamedTuple):
    """A gain, and a guess of the event that has it."""

    gain: float
    goal: Goal | None


def rough_moments(terms: Terms) -> tuple[Real, Real, Real]:
    """Arrays [O]: orders x, and approximate log E_A[e^{xT}] and log E_B[e^{(x + 1)T}] at them, where known."""
    return _rough_moments(tuple(terms))


@functools.lru_cache(maxsize=16)
def _rough_moments(terms: tuple[tuple[Term, float], ...]) -> tuple[Real, Real, Real]:
    scale = 1.0 / deviation(terms)
    largest = min(of.largest_order for of, _ in terms)
    low, high = (min(x * scale, largest) for x in _ORDERS)
    x = np.geomspace(min(low, 0.01 * high), high, _NUM_ORDERS)
    log_a, log_b = _composed(terms, x)
    known = np.isfinite(log_a) & np.isfinite(log_b)
    return x[known], log_a[known], log_b[known]


def _composed(terms: Terms, orders: Real) -> tuple[Real, Real]:
    rough = [(of.rough(orders), count) for of, count in terms]
    log_a, log_b = (sum((count * pair[i] for pair, count in rough), np.zeros_like(orders)) for i in (0, 1))
    return log_a, log_b


def deviation(terms: Terms) -> float:
    """float: approximate standard deviation of T."""
    return math.sqrt(sum(count * of.variance for of, count in terms))


def wide_goal(terms: Terms, log_delta: float | None, epsilon: float | None) -> Goal | None:
    """`Goal` (a class) with a wide reach, from Chernoff's bounds on both tails, for use where saddle points fail."""
    x, log_a, _ = rough_moments(terms)
    if len(x) < 8:
        return None
    if log_delta is None:
        assert epsilon is not None
        log_delta = float((log_a - x * epsilon - np.log1p(x)).min()) + _LOG_PREFACTOR
    size = min(log_delta + _LOG_ABOVE, -0.1)
    most = float(((log_a - size + _LOG_PREFACTOR) / x).min())
    reach = max(_WIDE * _FIRST * most, _WIDEST * deviation(terms))
    if epsilon is None:
        return Goal(_FIRST * most, size, size - most, reach)
    return Goal(max(_FIRST * most, epsilon), size, size - epsilon, max(reach, epsilon))


def _near(terms: Terms, log_delta: float | None, epsilon: float | None) -> Real:
    """Orders x [O] around the order of the best event, by Chernoff's bound on A(T > tau)."""
    x, log_a, _ = rough_moments(terms)
    if not len(x):
        return np.zeros_like(_AROUND)
    if log_delta is None:
        assert epsilon is not None
        best = int((log_a - x * epsilon - np.log1p(x)).argmin())
    else:
        best = int(((log_a - min(log_delta + _LOG_ABOVE, -0.1)) / x).argmin())
    return float(x[best]) * _AROUND


class _Saddles(NamedTuple):
    """P(T > tau) by saddle points x, [O] each: tau, the variance of T tilted, and log P as a sum of two parts."""

    orders: Real
    thresholds: Real
    variances: Real
    exponents: Real  # log M(x) - x tau
    factors: Real  # log of the rest

    def log_tails(self, thresholds: Real) -> Real:
        """Approximate log P(T > tau) [K]: the first part by Taylor's theorem from the nearest saddle point."""
        middles = 0.5 * (self.thresholds[1:] + self.thresholds[:-1])
        at = np.searchsorted(middles, thresholds)
        far = thresholds - self.thresholds[at]
        exponents = self.exponents[at] - far * (self.orders[at] + 0.5 * far / self.variances[at])
        return np.minimum(exponents + np.interp(thresholds, self.thresholds, self.factors), 0.0)


def _saddles(orders: Real, logs: Real) -> _Saddles:
    """`_Saddles` from log M at equally spaced `orders` [O], by five-point derivatives; cut off where M explodes."""
    step, x, here = orders[1] - orders[0], orders[2:-2], logs[2:-2]
    far, near, after, further = logs[:-4], logs[1:-3], logs[3:-1], logs[4:]
    slopes = (far - further + 8.0 * (after - near)) / (12.0 * step)
    bends = (16.0 * (near + after) - far - further - 30.0 * here) / (12.0 * step * step)
    bad = ~(np.isfinite(bends) & (bends > 0.0) & (np.diff(slopes, prepend=-np.inf) > 0.0))
    num = int(bad.argmax()) if bad.any() else len(bad)
    x, slopes, bends, here = x[:num], slopes[:num], bends[:num], here[:num]
    factors = np.log(mills_ratio(x * np.sqrt(bends))) - 0.5 * math.log(2.0 * math.pi)
    return _Saddles(x, slopes, bends, here - x * slopes, factors)


def guessed(
    terms: Terms, gains: Callable[[Real, Real], Real], log_delta: float | None, epsilon: float | None
) -> GuessedEvent:
    """`GuessedEvent` (a class): an approximation, by saddle points on the real axis, of what a scan would find."""
    found = GuessedEvent(0.0, None)
    orders = _near(terms, log_delta, epsilon)
    log_a, log_b = _composed(terms, orders)
    a, b = _saddles(orders, log_a), _saddles(orders + 1.0, log_b)
    if min(len(a.orders), len(b.orders)) < 4:
        return found
    thresholds = a.thresholds
    for _ in range(2):
        low, high = a.log_tails(thresholds), b.log_tails(thresholds)
        gained = np.nan_to_num(gains(low, high), nan=0.0, posinf=0.0, neginf=0.0)
        i = int(gained.argmax())
        tau = float(thresholds[i])
        reach = _DEVIATIONS * math.sqrt(float(np.interp(tau, a.thresholds, a.variances)))
        found = GuessedEvent(float(gained[i]), Goal(tau, float(low[i]), float(high[i]), reach))
        thresholds = np.linspace(thresholds[max(i - 1, 0)], thresholds[min(i + 1, len(thresholds) - 1)], _BETWEEN)
    return found
