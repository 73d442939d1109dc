"""Random allocation as Poisson sampling with a posterior rate, and what capping that rate costs.

Feldman and Shenfeld 2025, "Privacy amplification by random allocation", Section 4.1, Lemma 4.3 and Appendix B.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxacct._types import Direction
from jaxacct._validate import check_at_most, check_count, check_delta, check_epsilon
from jaxacct.bounds.poisson._profile import Runs, Steps, concrete_base, poisson_pld, runs_of
from jaxacct.curves import Pld
from jaxacct.mechanisms import RandomAllocation

_LARGEST_RATE = 0.999  # nothing to gain beyond
_NUM_BISECTIONS = 24
_NUM_RATES = 5
_MAX_CAPS = 6

# log of an upper bound on the probability that the posterior rate of 1-out-of-n ever exceeds a rate; what it is
# compared with may be an epsilon no larger than the last argument. Made from what a step releases and a direction.
Tail = Callable[[int, float, float], float]
TailBound = Callable[[Any, Direction], Tail]


def posterior_rate(num_steps: int, log_ratios: Sequence[float] | np.ndarray, *, num_selected: int = 1) -> float:
    """The probability that step i + 1 is one of a record's steps, given the outputs of the first i (Definition B.1).

    With e_m the elementary symmetric polynomials of the likelihood ratios e^l_1, .., e^l_i seen so far,

        sum_m e_m C(t-i-1, k-m-1) / sum_m e_m C(t-i, k-m),    for k = 1:  1 / (t - i + sum_j e^l_j).

    Random allocation is the scheme that uses the record with this probability in each step. Exact, to some 1e-13.

    Args:
      num_steps: t, steps in all.
      log_ratios: float [i], i < t, log dP/dQ of the outputs.
      num_selected: k.

    >>> from jaxacct.bounds.allocation._posterior_rate import posterior_rate
    >>> posterior_rate(5, [0.0, 0.0])
    0.2
    """
    check_count("num_steps", num_steps)
    check_count("num_selected", num_selected)
    check_at_most("num_selected", num_selected, "num_steps", num_steps)
    ratios = np.asarray(log_ratios, np.float64)
    left = num_steps - ratios.shape[0]
    check_at_most("num_seen", ratios.shape[0] + 1, "num_steps", num_steps)
    if num_selected == 1:
        top = max(0.0, float(ratios.max(initial=0.0)))
        return math.exp(-top) / (left * math.exp(-top) + float(np.exp(ratios - top).sum()))
    log_e = np.concatenate([[0.0], np.full(num_selected, -np.inf)])  # log e_m, m = 0..k
    for ratio in ratios:
        log_e[1:] = np.logaddexp(log_e[1:], log_e[:-1] + ratio)
    m = range(num_selected + 1)
    log_next = np.asarray([_log_choose(left - 1, num_selected - j - 1) for j in m]) + log_e
    log_all = np.asarray([_log_choose(left, num_selected - j) for j in m]) + log_e
    return float(np.exp(np.logaddexp.reduce(log_next) - np.logaddexp.reduce(log_all)))


def _log_choose(n: int, j: int) -> float:
    return math.log(math.comb(n, j)) if 0 <= j <= n else -math.inf


def _schedule(runs: tuple[Runs, ...], excess: float) -> tuple[Steps, ...]:
    """Poisson sampling at `excess` / n over the steps of runs of 1-out-of-n; a run of one step is not sampled."""
    return tuple(
        Steps(1.0 if r.num_steps == 1 else min(_LARGEST_RATE, excess / r.num_steps), r.num_steps * r.num_runs)
        for r in runs
    )


def _largest_excess(runs: tuple[Runs, ...]) -> float:
    return _LARGEST_RATE * min((r.num_steps for r in runs if r.num_steps > 1), default=1.0)


def _log_total(tail: Tail, runs: tuple[Runs, ...], excess: float, epsilon: float) -> float:
    """log of the tails of all runs, added up."""
    logs = [
        math.log(r.num_runs) + tail(r.num_steps, step.sampling_prob, epsilon)
        for r, step in zip(runs, _schedule(runs, excess), strict=True)
        if r.num_steps > 1
    ]
    return float(np.logaddexp.reduce(logs)) if logs else -math.inf


def _excess_for(tail: Tail, runs: tuple[Runs, ...], log_mass: float, epsilon: float) -> float | None:
    """The least n eta (to a few digits) at which the tails add up to at most exp(log_mass); None if there is none."""
    if all(r.num_steps == 1 for r in runs):
        return 1.0
    low, high = math.log(1e-9), math.log(max(_largest_excess(runs) - 1.0, 1e-9))
    if _log_total(tail, runs, 1.0 + math.exp(high), epsilon) > log_mass:
        return None
    for _ in range(_NUM_BISECTIONS):
        middle = 0.5 * (low + high)
        if _log_total(tail, runs, 1.0 + math.exp(middle), epsilon) > log_mass:
            low = middle
        else:
            high = middle
    return 1.0 + math.exp(high)


def truncated_delta(
    mechanism: RandomAllocation, epsilon: float, direction: Direction, *, tail_bound: TailBound
) -> float:
    """delta at `epsilon`, upper bound, by capping the posterior rate at eta (Lemmas 4.3 and 3.2; RA-S6):

        delta_A(eps) <= delta_{Poisson, eta over n m steps}(eps) + m beta(eta),

    beta(eta) the probability that the rate of one run of 1-out-of-n ever exceeds eta, under the first distribution of
    the pair, and m = k E runs. Add/remove adjacency, epsilon >= 0. eta is chosen here; any is valid. 1 where no
    rate below 1 makes beta small.

    Args:
      mechanism: concrete scalars.
      tail_bound: the bound on beta, e.g. `doob_tail`.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._by_poisson import doob_tail
    >>> from jaxacct.bounds.allocation._posterior_rate import truncated_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000)
    >>> truncated_delta(run, 0.1, ja.Direction.REMOVE, tail_bound=doob_tail) < 1e-6
    True
    """
    check_epsilon("epsilon", epsilon)
    runs, base = runs_of(mechanism), concrete_base(mechanism)
    tail, epsilon = tail_bound(base, direction), float(epsilon)

    def poisson(excess: float) -> float:
        return poisson_pld(base, _schedule(runs, excess), direction, epsilon=epsilon).delta(epsilon)

    # between a rate whose tail says nothing and one whose tail is negligible, towards where both terms agree
    low = _excess_for(tail, runs, math.log(0.5), epsilon)
    if low is None:
        return 1.0
    high = _excess_for(tail, runs, math.log(0.05 * max(poisson(1.0), 1e-300)), epsilon) or _largest_excess(runs)
    best, middle = 1.0, high
    for _ in range(_NUM_RATES):
        here, log_tail = poisson(middle), _log_total(tail, runs, middle, epsilon)
        best = min(best, _sum_up(here, log_tail))
        if log_tail > math.log(max(here, 1e-300)):
            low = middle
        else:
            high = middle
        if not low < high:
            break
        middle = 1.0 + math.sqrt((low - 1.0) * (high - 1.0))
    return best


def truncated_epsilon(
    mechanism: RandomAllocation, delta: float, direction: Direction, *, tail_bound: TailBound
) -> float:
    """epsilon at `delta`, the inverse of `truncated_delta`, over a few ways to split delta; inf where none works.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._by_poisson import doob_tail
    >>> from jaxacct.bounds.allocation._posterior_rate import truncated_epsilon
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000)
    >>> round(truncated_epsilon(run, 1e-6, ja.Direction.REMOVE, tail_bound=doob_tail), 2)
    0.07
    """
    check_delta("delta", delta)
    runs, base = runs_of(mechanism), concrete_base(mechanism)
    tail = tail_bound(base, direction)
    plds: dict[float, Pld] = {}

    def at_share(share: float, cap: float) -> float:
        excess = _excess_for(tail, runs, math.log(share * delta), cap)
        if excess is None:
            return math.inf
        if excess not in plds:
            plds[excess] = poisson_pld(base, _schedule(runs, excess), direction, delta=delta)
        left = delta * (1.0 - 2.0**-50) - _sum_up(0.0, _log_total(tail, runs, excess, cap))
        return plds[excess].epsilon(left) if left > 0.0 else math.inf

    def solve(share: float) -> float:
        cap = 1.0
        for _ in range(_MAX_CAPS):  # the tail is taken for an epsilon no smaller than the answer
            found = at_share(share, cap)
            if found <= cap or math.isinf(found):
                return found
            cap = found * 1.01
        return math.inf

    return min(solve(share) for share in (0.3, 0.03))


def _sum_up(delta: float, log_tail: float) -> float:
    """delta + exp(log_tail), rounded up."""
    tail = math.exp(min(log_tail, 0.0)) * (1.0 + 2.0**-50 * (2.0 + abs(log_tail))) if log_tail > -math.inf else 0.0
    return min(1.0, (delta + tail) * (1.0 + 2.0**-52))
