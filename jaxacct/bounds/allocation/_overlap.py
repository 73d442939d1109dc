"""Renyi divergences of k-out-of-t random allocation: Dong, Chen & Ozgur 2025, as Feldman & Shenfeld 2025 state them.

The remove direction only. The expression that circulates for the add direction is no upper bound: at sigma = 1,
t = 100, order 3 it gives 0.02223 where the exact divergence is 0.02479 (RA-P6).
"""

import bisect
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Bound, Direction
from jaxacct.bounds.poisson._profile import concrete_base, runs_of
from jaxacct.conversion import curve_delta, curve_epsilon
from jaxacct.curves import RdpCurve
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.special import up

# Renyi orders at which epsilon and delta are read; any order is valid
_ORDERS = np.unique(np.concatenate([2.0 + np.geomspace(0.01, 30.0, 40), np.arange(2, 65), [2.0, 96.0, 128.0]]))
_MOST_OVERLAPS = 2.0**24  # terms of a sum: with more the arrays would take gigabytes, and nothing is claimed
_LEAST_TERM = 2.0**-150  # times the largest: smaller terms are not summed, but counted as so much
_MOST_PRECISION = 1e300  # 1/sigma^2; products with orders and numbers of steps are doubles


def overlap_remove_rdp(mechanism: RandomAllocation, *, orders: Sequence[float]) -> NDArray[Any]:
    """Renyi divergences [A], remove direction, rounded up:

        R_a <= E log E exp(a J / (2 sigma^2)).

    Dong, Chen & Ozgur 2025 (RA-S21). J is the overlap of two independent k-subsets of t steps, hypergeometric, and the
    first E is the number of epochs; there is no reduction to 1-out-of-n. Exact at a = 2. Gaussian noise, any
    1 <= k <= t, real a >= 2; inf below 2, where it is invalid, for other releases, and for more than 2^24 terms. The
    cost is O(k), and about O(sqrt k) per order.

    The weights C(k, j) C(t-k, k-j) are products of their ratios, by compensated sums of logarithms, and where J is
    mostly 0 the positive terms of E (e^{cJ} - 1) are summed. The ratios decrease: the terms rise to one peak and fall,
    and those below 2^-150 of the largest, on either side, are not summed: each is counted as that much. All rounding
    errors are added: 1e-13 relative at k = 1, about 1e-16 k for k steps.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._overlap import overlap_remove_rdp
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> [round(float(r), 9) for r in overlap_remove_rdp(run, orders=[1.5, 2, 8])]
    [inf, 0.017036863, 0.429169591]
    """
    runs_of(mechanism)  # concrete, or an error
    base = concrete_base(mechanism)
    steps, selected, epochs = (int(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
    overlapping = min(selected, steps - selected)  # numbers of steps that two subsets may share, less one
    precision = 1.0 / base.noise_multiplier / base.noise_multiplier if base.signature() == (Gaussian,) else math.inf
    if not precision < _MOST_PRECISION or overlapping > _MOST_OVERLAPS:
        return np.full(len(orders), np.inf)
    first = max(0, 2 * selected - steps)  # two subsets of more than half overlap at least so much
    j = np.arange(first, selected, dtype=np.float64)
    ratios = 2.0 * np.log(selected - j) - np.log(j + 1.0) - np.log(steps - 2.0 * selected + j + 1.0)
    log_weights = np.concatenate([[0.0], _accurate_cumsum(ratios)])
    log_weights -= log_weights.max()
    # never by the weights themselves: those that are 0 as doubles may have the largest terms
    log_weights -= math.log(float(np.exp(log_weights).sum()))
    # of a weight: its logarithm, the ratios' own errors, and the sum
    error = 2.0**-51 * (
        8.0 + 2.0 * float(np.abs(log_weights).max()) + 4.0 * selected + 2.0 * float(np.abs(ratios).sum())
    )
    law = _Overlaps(first, log_weights, ratios, error)
    values = [law.log_mean_exp(0.5 * float(a) * precision) for a in orders]
    rdp = [epochs * v if a >= 2.0 else np.inf for a, v in zip(orders, values, strict=True)]
    return up(np.asarray(rdp), 8)  # a product


class _Overlaps(NamedTuple):
    """The law of J: from `first` on, weights with relative errors up to `error`, and logarithms of their ratios."""

    first: int
    log_weights: NDArray[Any]
    ratios: NDArray[Any]
    error: float

    def log_mean_exp(self, scale: float) -> float:
        """log E e^{scale J} for scale >= 0, rounded up."""
        if not scale * (self.first + self.log_weights.shape[0]) < math.inf:
            return math.inf
        kept = self._terms(scale)
        log_weights, x = self.log_weights[kept], scale * np.arange(self.first + kept.start, self.first + kept.stop)
        top = float((log_weights + x).max())
        size = 2.0**-51 * (8.0 + x.shape[0])
        left_out = (self.log_weights.shape[0] - x.shape[0]) * _LEAST_TERM * (1.0 + 4.0 * self.error)  # of the largest
        if top < 0.0 and float(x.max()) < 600.0:
            excess = float(np.exp(log_weights) @ np.expm1(x)) * (1.0 + 2.0 * self.error + size)
            return up(math.log1p(excess + left_out), 8)  # log1p 4, a sum, a product
        total = float(np.exp(log_weights + x - top).sum()) + left_out
        return top + math.log(total) + 2.0 * self.error + size + 2.0**-50 * float(x.max())

    def _terms(self, scale: float) -> slice:
        """The terms of at least `_LEAST_TERM` times the largest, and some more."""

        def term(j: int) -> float:
            return float(self.log_weights[j]) + scale * j

        peak = int(np.searchsorted(-self.ratios, scale))
        level, indices = term(peak) + math.log(_LEAST_TERM), range(self.log_weights.shape[0])
        start = bisect.bisect_left(indices, level, hi=peak, key=term)
        return slice(start, bisect.bisect_right(indices, -level, lo=peak, key=lambda j: -term(j)))


def _accurate_cumsum(x: NDArray[Any]) -> NDArray[Any]:
    """Cumulative sums, with the rounding errors of the plain ones, which are known exactly, added back."""
    plain = np.cumsum(x)
    before = np.concatenate([[0.0], plain[:-1]])
    part = plain - before
    lost = (before - (plain - part)) + (x - part)
    return plain + np.cumsum(lost)


@functools.lru_cache(maxsize=64)
def _curve(mechanism: RandomAllocation) -> RdpCurve:
    values = overlap_remove_rdp(mechanism, orders=_ORDERS.tolist())
    return RdpCurve(_ORDERS, values, Bound.UPPER, mechanism.relation, "Dong et al. 2025", Direction.REMOVE)


def overlap_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    """float: epsilon at `delta`, upper bound, remove direction: the least over Renyi orders of `overlap_remove_rdp`.

    Dong, Chen & Ozgur 2025 (RA-S21). `direction` is ignored: the method is declared for this one only.
    """
    del direction
    return float(curve_epsilon(_curve(mechanism), delta))


def overlap_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """float: delta at `epsilon`, upper bound, remove direction: the least over Renyi orders of `overlap_remove_rdp`.

    Dong, Chen & Ozgur 2025 (RA-S21). `direction` is ignored: the method is declared for this one only.
    """
    del direction
    return float(curve_delta(_curve(mechanism), epsilon))
