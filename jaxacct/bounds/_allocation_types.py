"""The exact profile of true k-out-of-t random allocation of a mechanism with few outputs, one epoch.

Feldman and Shenfeld 2025, Theorem 3.1: the laws of the outputs depend on how often each output occurred only. With
n_y of them and j_y of those from the record's k steps,

    P-bar(n) = t!/prod n_y! / C(t, k) sum_{j: sum j_y = k} prod_y C(n_y, j_y) P(y)^j_y Q(y)^(n_y - j_y),

a polynomial product over the outputs, and no reduction to one step at a time. Add/remove adjacency, both directions.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct.mechanisms import DiscretePair, RandomAllocation

_MOST_NUMBERS = 2**24


class Types(NamedTuple):
    """log probability of each type under P-bar and under Q^t, and the relative error of either."""

    log_p: NDArray[np.float64]
    log_q: NDArray[np.float64]
    error: float


def has_types(mechanism: Any) -> bool:
    """Whether `mechanism` is one epoch of allocation of a discrete pair with few enough types."""
    if not (isinstance(mechanism, RandomAllocation) and isinstance(mechanism.mechanism, DiscretePair)):
        return False
    if mechanism.num_epochs != 1:
        return False
    t, letters = int(mechanism.num_steps), len(mechanism.mechanism.p)
    return math.comb(t + letters - 1, letters - 1) * (int(mechanism.num_selected) + 1) * letters <= _MOST_NUMBERS


def _compositions(total: int, parts: int) -> NDArray[np.int64]:
    """Every way to write `total` as an ordered sum of `parts` whole numbers >= 0, [N, parts]."""
    if parts == 1:
        return np.array([[total]])
    rows = [np.insert(_compositions(total - first, parts - 1), 0, first, axis=1) for first in range(total + 1)]
    return np.concatenate(rows)


@functools.lru_cache(maxsize=8)
def _types(mechanism: RandomAllocation) -> Types:
    t, k = int(mechanism.num_steps), int(mechanism.num_selected)
    pair: DiscretePair = mechanism.mechanism
    counts = _compositions(t, len(pair.p))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, t + 1.0)))])
    log_many = log_factorial[t] - log_factorial[counts].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(np.asarray(pair.p)), np.log(np.asarray(pair.q))
        product = np.full((counts.shape[0], k + 1), -np.inf)
        product[:, 0] = 0.0
        q_total = np.zeros(counts.shape[0])
        for y in range(counts.shape[1]):
            n = counts[:, y]
            q_total += np.where(n > 0, n * log_q[y], 0.0)
            grown = np.full_like(product, -np.inf)
            for j in range(min(k, int(n.max())) + 1):
                rest = n - j
                inside = rest >= 0
                binomial = log_factorial[n] - log_factorial[j] - log_factorial[np.maximum(rest, 0)]
                own = (j * log_p[y] if j else 0.0) + np.where(rest > 0, rest * log_q[y], 0.0)
                term = np.where(inside, binomial + own, -np.inf)
                grown[:, j:] = np.logaddexp(grown[:, j:], product[:, : k + 1 - j] + term[:, None])
            product = grown
        log_choose = log_factorial[t] - log_factorial[k] - log_factorial[t - k]
        log_bar = log_many - log_choose + product[:, k]
        log_base = log_many + q_total
    # sums of t logarithms, each of some log t, and logaddexps
    size = 1.0 + float(np.abs(log_factorial[-1])) + t * float(np.abs(np.nan_to_num(log_q, neginf=0.0)).max())
    return Types(log_bar, log_base, 2.0**-50 * (size + 8.0 * k * counts.shape[1] + t))


def types_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction, *, upper: bool) -> float:
    """delta at `epsilon` >= 0, rounded up or down; for mechanisms that `has_types` accepts.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds._allocation_types import types_delta
    >>> run = ja.RandomAllocation(ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), num_steps=6, num_selected=3)
    >>> round(types_delta(run, 0.22314355131421, ja.Direction.REMOVE, upper=True), 9)
    0.476196289
    """
    found = _types(mechanism)
    first, second = (found.log_p, found.log_q) if direction is Direction.REMOVE else (found.log_q, found.log_p)
    a, b = np.exp(first), np.exp(second + epsilon)
    slack = found.error * (a + b) * (1.0 if upper else -1.0)
    total = float(np.maximum(a - b + slack, 0.0).sum())
    return min(1.0, total * (1.0 + 2.0**-40)) if upper else max(0.0, total * (1.0 - 2.0**-40))


def types_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction, *, upper: bool) -> float:
    """epsilon at `delta`, rounded up or down: bisection that keeps the safe end; inf where no epsilon suffices."""
    low, high = 0.0, 1.0
    if types_delta(mechanism, 0.0, direction, upper=upper) <= delta:
        return 0.0
    while types_delta(mechanism, high, direction, upper=upper) > delta:
        low, high = high, 2.0 * high
        if high > 700.0:
            return math.inf if upper else low
    for _ in range(60):
        middle = 0.5 * (low + high)
        if types_delta(mechanism, middle, direction, upper=upper) > delta:
            low = middle
        else:
            high = middle
    return high if upper else low
