"""The exact profiles of mechanisms with few outputs: true k-out-of-t random allocation, sampling, composition.

Feldman & Shenfeld 2025, Theorem 3.1: the laws of a sequence of outputs depend only on how many times each output
occurred, which is called its *type* here. Where output y occurred n_y times, j_y of them in the record's k steps,

    P-bar(n) = t!/prod n_y! / C(t, k) sum_{j: sum j_y = k} prod_y C(n_y, j_y) P(y)^j_y Q(y)^(n_y - j_y),

a product of polynomials over the outputs, without a reduction to one step at a time. Independent runs multiply; equal
runs are grouped by types of their own. Add/remove adjacency, both directions.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._precision import is_traced
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds._renyi_of_outputs import LISTED
from jaxacct.bounds.bases import BASES, base_of, spread
from jaxacct.bounds.bases._few_outputs import TYPES, Types, num_outputs, rounding
from jaxacct.mechanisms import DiscretePair, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import (
    LEAST_NORMAL,
    binomial_window,
    bisect,
    down,
    first_doubling,
    log_binomial_weights,
    log_factorial_table,
    up,
)

_MOST_NUMBERS = 2**24  # float64 numbers held at once, 128 MiB: if more are needed, the method does not apply
_MOST_TYPES = 2**20  # types held at once: if there are more, the method does not apply
_MAX_EPSILON = 2.0**40  # nats: no larger epsilon is tried
_NUM_HALVINGS = 60  # halvings of the bracket of an epsilon, which keeps its safe end
_LONG = 2**16  # runs with two outputs ("letters"): of more, only the types in a window are listed
_LONGEST = 10**10  # number of runs up to which the window of counts is proved to be wide enough
_LOG_TAIL = 700.0  # minus the log of the mass that a window leaves out at either end; certified together with _OUTSIDE
_OUTSIDE = 1e-303  # 2 e^-_LOG_TAIL, with the record and without, rounded up: the certificate rests on it
_ULPS = 2**13  # units of 2^-53 by which a sum of up to 2^20 terms is rounded outwards


def has_types(mechanism: Mechanism) -> bool:
    """bool: whether `mechanism` is made of discrete pairs, allocated, sampled or composed, with few enough types."""
    return not is_traced(mechanism) and _num_types(mechanism) <= _MOST_TYPES


def _num_types(mechanism: Mechanism) -> float:
    """The number of types to hold; inf for other mechanisms and for arrays of them."""
    if mechanism.signature() in _COUNTS:
        return _COUNTS[mechanism.signature()](mechanism)
    if all(part is mechanism for part, _ in mechanism.parts()):
        return math.inf
    return math.prod(_num_repeated(part, count) for part, count in mechanism.parts())


def _num_repeated(part: Any, count: Any) -> float:
    if part.signature() == (DiscretePair,) and len(part.p) == 2 and _is_long(count):
        return _window_size(int(count), part.p, part.q)
    return _num_multisets(_num_types(part), count)


def _num_of_sampled(mechanism: PoissonSampled) -> float:
    letters = len(mechanism.mechanism.p)
    if np.ndim(mechanism.sampling_prob) > 0:
        return math.inf
    if letters == 2 and _is_long(mechanism.num_steps):
        return _window_size(int(mechanism.num_steps), *_sampled(mechanism))
    return _num_multisets(letters, mechanism.num_steps)


def _num_of_allocated(mechanism: RandomAllocation) -> float:
    if np.ndim(mechanism.num_selected) > 0:
        return math.inf
    letters = len(mechanism.mechanism.p)
    if letters == 2 and _is_long(mechanism.num_steps) and int(mechanism.num_selected) == 1:
        if min(mechanism.mechanism.q) == 0.0:
            return math.inf
        return _num_multisets(_window_size(int(mechanism.num_steps), mechanism.mechanism.q), mechanism.num_epochs)
    single = _num_multisets(letters, mechanism.num_steps)
    held = single * (int(mechanism.num_selected) + 1) * letters
    return _num_multisets(single, mechanism.num_epochs) if held <= _MOST_NUMBERS else math.inf


def _num_multisets(letters: float, count: Any) -> float:
    """The number of ways in which `count` outputs fall on `letters` values; inf for too many."""
    if np.ndim(count) > 0 or min(letters - 1, count) > 20 or letters * count > _MOST_NUMBERS:  # over 2^20 types
        return math.inf
    number = math.comb(int(count) + int(letters) - 1, int(letters) - 1)
    return number if count == 1 or number * letters <= _MOST_NUMBERS else math.inf


def _is_long(count: Any) -> bool:
    """Whether only a window of the types of `count` equal runs with two letters is listed."""
    return np.ndim(count) == 0 and count > _LONG


def _window(count: int, *laws: Any) -> NDArray[np.float64]:
    """Counts [N] of the first of two letters in `count` runs that hold all but e^-700 or so of each of the laws."""
    return np.unique(np.concatenate([binomial_window(count, law[0], law[1], _LOG_TAIL) for law in laws]))


def _window_size(count: int, *laws: Any) -> float:
    """The number of counts in `_window`; inf where there are more runs than its margin is meant for."""
    return float(len(_window(count, *laws))) if count <= _LONGEST else math.inf


def _log_weights(count: int, law: Any, counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Log binomial weights [N] of a law of two letters, and their error; -inf for a letter that never occurs."""
    if min(law[0], law[1]) > 0.0:
        return log_binomial_weights(count, law[0], law[1], counts)
    certain = count * math.log(max(law[0], law[1]))
    return np.where(counts == (count if law[0] > 0.0 else 0), certain, -np.inf), 2.0**-50 * (1.0 + abs(certain))


def _ranges(least: NDArray[np.int64], last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers `least[i]`, .., `last` for each i in turn: the index i of each, and the number."""
    lengths = last + 1 - least
    row = np.repeat(np.arange(len(least)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths - least)[row]


def _compositions(total: int, parts: int) -> NDArray[np.int64]:
    """Every way to write `total` as an ordered sum of `parts` whole numbers >= 0, [N, parts]."""
    sums = np.zeros((1, 1), np.int64)  # partial sums, from 0 on
    for _ in range(parts - 1):
        row, following = _ranges(sums[:, -1], total)
        sums = np.column_stack([sums[row], following])
    return np.diff(sums, axis=1, append=total)


def _multisets(letters: int, count: int) -> NDArray[np.int64]:
    """Every choice of `count` of the numbers 0, .., letters - 1 with repetition, each sorted, [N, count]."""
    chosen = np.arange(letters)[:, None]
    for _ in range(count - 1):
        row, following = _ranges(chosen[:, -1], letters - 1)
        chosen = np.column_stack([chosen[row], following])
    return chosen


@functools.lru_cache(maxsize=8)
def _types(mechanism: Mechanism) -> Types:
    """The types of `mechanism`: the product of the types of its parts."""
    if mechanism.signature() in _TYPES:
        return _TYPES[mechanism.signature()](mechanism)
    return functools.reduce(_product, (_repeated(_types(part), int(count)) for part, count in mechanism.parts()))


def _sampled(mechanism: PoissonSampled) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The laws of one sampled step, with the record and without it."""
    p, q = np.asarray(mechanism.mechanism.p), np.asarray(mechanism.mechanism.q)
    rate = float(mechanism.sampling_prob)
    return rate * p + (1.0 - rate) * q, q


def _of_pair(p: NDArray[np.float64], q: NDArray[np.float64]) -> Types:
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    error = 2.0**-50 + rounding(log_p, log_q)
    return Types(log_p, log_q, error, 2.0 * error)


def _product(a: Types, b: Types) -> Types:
    """The types of two independent runs: every pair of a type of each."""
    log_p, log_q = (np.add.outer(x, y).ravel() for x, y in ((a.log_p, b.log_p), (a.log_q, b.log_q)))
    slack = rounding(log_p, log_q)
    return Types(log_p, log_q, a.error + b.error + slack, a.apart + b.apart + 2.0 * slack, a.outside + b.outside)


def _repeated(types: Types, count: int) -> Types:
    """The types of `count` equal independent runs: the number of times that each type of one run occurred."""
    if count == 1:
        return types
    if len(types.log_p) == 2 and count > _LONG:
        p, q = np.exp(types.log_p), np.exp(types.log_q)
        chosen = _window(count, p, q)
        (log_p, p_error), (log_q, q_error) = (_log_weights(count, law, chosen) for law in (p, q))
        error = count * (types.error + rounding(types.log_p, types.log_q)) + max(p_error, q_error)
        return Types(log_p, log_q, error, 2.0 * error, count * types.outside + _OUTSIDE)
    letters = types.log_p.shape[0]
    log_factorial, size = log_factorial_table(count), min(letters, count)
    if count < letters:  # listing the letters that occur takes fewer numbers than a count of every letter
        which = _multisets(letters, count)
        again = np.ones(len(which))  # occurrences of the letter so far: their product is that of the factorials
        log_many = np.full(len(which), log_factorial[count])
        for before, here in itertools.pairwise(which.T):
            again = np.where(before == here, again + 1.0, 1.0)
            log_many -= np.log(again)
        log_p, log_q = (log_many + x[which].sum(axis=1) for x in (types.log_p, types.log_q))
    else:
        counts = _compositions(count, letters)
        log_many = log_factorial[count] - log_factorial[counts].sum(axis=1)
        log_p, log_q = (
            log_many + np.where(counts > 0, counts * np.where(counts > 0, x, 0.0), 0.0).sum(axis=1)
            for x in (types.log_p, types.log_q)
        )
    sums = (2.0 + size) * count * rounding(types.log_p, types.log_q)
    error = count * types.error + (2.0 + size) * log_factorial[-1] / 2.0**51 + sums
    apart = count * types.apart + 2.0 * sums + 2.0 * rounding(log_p, log_q)
    return Types(log_p, log_q, error, apart, count * types.outside)


def _allocated(mechanism: RandomAllocation) -> Types:
    """The types of one epoch of k-out-of-t allocation, by the formula at the top of this file."""
    t, k = int(mechanism.num_steps), int(mechanism.num_selected)
    pair: DiscretePair = mechanism.mechanism
    if len(pair.p) == 2 and k == 1 and t > _LONG:
        return _long_epoch(pair, t)
    counts = _compositions(t, len(pair.p))
    log_factorial = log_factorial_table(t)
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
    # rounding of sums of t logarithms, each some log t in size, and of logaddexps
    size = 1.0 + float(np.abs(log_factorial[-1])) + t * float(np.abs(np.nan_to_num(log_q, neginf=0.0)).max())
    error = 2.0**-50 * (size + 8.0 * k * counts.shape[1] + t)
    return Types(log_bar, log_base, error, 2.0 * error)


def _long_epoch(pair: DiscretePair, num_steps: int) -> Types:
    """The types of one epoch of two letters, the record in one of many steps: P-bar over Q is the average ratio."""
    chosen = _window(num_steps, pair.q)
    log_q, error = _log_weights(num_steps, pair.q, chosen)
    ratios = [p / q for p, q in zip(pair.p, pair.q, strict=True)]
    with np.errstate(divide="ignore"):
        log_p = log_q + np.log((chosen * ratios[0] + (num_steps - chosen) * ratios[1]) / num_steps)
    slack = rounding(log_p, log_q)
    return Types(log_p, log_q, error + 2.0**-49 + slack, 2.0**-49 + 2.0 * slack, max(1.0, *ratios) * _OUTSIDE)


# for each signature that has types, compositions aside: their number, and the types
_COUNTS: dict[tuple[type, ...], Callable[[Any], float]] = {
    **{(kind,): num_outputs for kind in TYPES},
    (DiscretePair,): lambda pair: len(pair.p),
    (PoissonSampled, DiscretePair): _num_of_sampled,
    (RandomAllocation, DiscretePair): _num_of_allocated,
}
_TYPES: dict[tuple[type, ...], Callable[[Any], Types]] = {
    **{(kind,): types for kind, types in TYPES.items()},
    (DiscretePair,): lambda pair: _of_pair(np.asarray(pair.p), np.asarray(pair.q)),
    (PoissonSampled, DiscretePair): lambda run: _repeated(_of_pair(*_sampled(run)), int(run.num_steps)),
    (RandomAllocation, DiscretePair): lambda run: _repeated(_allocated(run), int(run.num_epochs)),
}
# upper bound on the number of times a run uses the pair
_USES: dict[tuple[type, ...], Callable[[Any], float]] = {
    (PoissonSampled, DiscretePair): lambda run: float(run.num_steps),
    (RandomAllocation, DiscretePair): lambda run: float(run.num_selected) * float(run.num_epochs),
}


def _largest(mechanism: Any) -> float:
    """An epsilon at which `mechanism` is purely epsilon-DP: losses add, over the steps that a record takes part in."""
    if len(mechanism.signature()) == 1 and mechanism.signature() in _TYPES:
        return base_of(mechanism).largest_loss(mechanism)
    if mechanism.signature() in _USES:
        return up(_largest(mechanism.mechanism) * _USES[mechanism.signature()](mechanism), 4)
    return up(math.fsum(up(_largest(part) * count, 4) for part, count in mechanism.parts()), 4)


def types_delta(mechanism: Mechanism, epsilon: float, direction: Direction, *, upper: bool) -> float:
    """float: delta at `epsilon` >= 0, rounded up or down, in one direction; exact but for rounding.

    By definition, sum over the types of max(0, P - e^epsilon Q), each taken as P (1 - e^(epsilon - loss)), so that no
    exponential overflows. For mechanisms that `has_types` accepts.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.discrete import types_delta
    >>> run = ja.RandomAllocation(ja.DiscretePair((0.75, 0.25), (0.25, 0.75)), num_steps=6, num_selected=3)
    >>> round(types_delta(run, 0.22314355131421, ja.Direction.REMOVE, upper=True), 9)
    0.476196289
    """
    found = _types(mechanism)
    first, second = (found.log_p, found.log_q) if direction is Direction.REMOVE else (found.log_q, found.log_p)
    held = first > -np.inf
    first, second = first[held], second[held]
    # rounding of the two logarithms, of epsilon and of their differences
    sizes = np.abs(first) + np.where(second > -np.inf, np.abs(second), 0.0) + epsilon
    error = (found.apart + 2.0**-51 * sizes) * (1.0 if upper else -1.0)
    gap = np.maximum((first - second) - epsilon + error, 0.0)
    masses = np.exp(first)
    if upper:  # below the normal numbers the exponential has lost its digits
        masses = np.where(gap > 0.0, np.maximum(masses * (1.0 + 2.0 * found.error), LEAST_NORMAL), 0.0)
    else:
        masses = np.where(masses > 2.0 * LEAST_NORMAL, masses * max(0.0, 1.0 - 2.0 * found.error), 0.0)
    total = float((masses * -np.expm1(-gap)).sum())
    if upper:
        total += found.outside if found.outside > 0.0 and epsilon < _largest(mechanism) else 0.0
        return min(1.0, math.nextafter(up(total, _ULPS), 2.0)) if bool((gap > 0.0).any()) or total > 0.0 else 0.0
    return max(0.0, math.nextafter(down(total, _ULPS), -1.0))


def types_epsilon(mechanism: Mechanism, delta: float, direction: Direction, *, upper: bool) -> float:
    """float: epsilon at `delta`, rounded up or down, in one direction: the inverse of `types_delta`.

    By bisection that keeps the safe end. Where no epsilon up to 2^40 is enough, inf (rounded down: the last one tried).
    """

    def fits(epsilon: float) -> bool:
        return types_delta(mechanism, epsilon, direction, upper=upper) <= delta

    def above(epsilon: float) -> bool:
        return types_delta(mechanism, epsilon, direction, upper=upper) > delta

    if fits(0.0):
        return 0.0
    low, high = first_doubling(fits, limit=_MAX_EPSILON)
    if math.isinf(high):
        return high if upper else low
    ends = (fits, high, low) if upper else (above, low, high)
    return bisect(*ends, num_steps=_NUM_HALVINGS)


def _bracket(mechanism: Mechanism, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction: the same sum, rounded down and rounded up."""
    answer = types_delta if query is Query.DELTA else types_epsilon
    return {d: Ends(*(answer(mechanism, target, d, upper=upper) for upper in (False, True))) for d in at.known}


EXACT = BracketMethod(
    engine=Engine.FORMULA,
    name="exact",
    theorem="the definition, over the types of the outputs",
    directions=BOTH,
    ends=frozenset({Bound.UPPER, Bound.LOWER}),
    cost=Cost.MILLISECONDS,
    applies=has_types,
    bracket=_bracket,
    below=itself,
)
DISTRIBUTION = of_one_release(BASES[DiscretePair], "the pair's own loss distribution", spread)

METHODS = {(DiscretePair,): (EXACT, loss_distribution(DISTRIBUTION), *LISTED)}
