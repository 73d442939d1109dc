"""Random allocation as Poisson sampling with a posterior rate, and what capping that rate costs.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", Section 4.1, Lemma 4.3 and Appendix B. This
module has two bounds of our own on the probability that the rate exceeds a cap: Doob's inequality (RA-X6), and Markov's
with an untied threshold (RA-X7). With W_j the likelihood ratio of step j under Q, the rate of 1-out-of-n exceeds eta
when the martingale S_i = sum_{j <= i} (1 - W_j) exceeds n - 1/eta at some i < n, that is, when the loss of the outputs
so far is above log(n eta). Under the distribution with the record this is n eta times less likely.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct._validate import check_delta, check_epsilon
from jaxacct.bounds.allocation._decomposition import decomposition_profile
from jaxacct.bounds.bases import law, spread
from jaxacct.bounds.bases._base import pld_of_law
from jaxacct.bounds.poisson._profile import PoissonSteps, concrete_base, runs_of
from jaxacct.bounds.poisson._sharp import poisson_delta, poisson_epsilon
from jaxacct.composition import Group
from jaxacct.curves import Pld
from jaxacct.curves._from_profile import profile_of
from jaxacct.divergence.lattice._ratio import Side
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import bisect, down, up

# Any rate, exponent or threshold gives a valid bound: these affect tightness and running time only.
_LARGEST_RATE = 0.999  # at which a step is Poisson-sampled: larger rates gain nothing
_NUM_BISECTIONS = 24  # halvings of log(n eta - 1) in the search of a rate eta
_NUM_RATES = 8  # rates tried for one delta
_MAX_CAPS = 6  # how many times the largest epsilon is raised before the answer is inf
_LAW_STEP = 2.0**-11  # nats between the losses of a step's law, where their spread is small
_LAW_TAIL = 1e-30  # mass that discretising a step may move to 0 and to infinity
_NUM_THETAS = 300  # exponents theta of Doob's inequality tried, from 1e-7 to 500
_INNER_EXCESS = 0.05  # rate of the inner decomposition, times n
_NUM_THRESHOLDS = 256  # thresholds of Markov's inequality tried

# From n, a rate and an epsilon: log of an upper bound on the probability that the posterior rate of 1-out-of-n ever
# exceeds the rate, for use at epsilons up to the given one. `TailBound` makes it from a step's release and a direction.
Tail = Callable[[int, float, float], float]
TailBound = Callable[[Any, Direction], Tail]


def _schedule(runs: tuple[Group[int], ...], excess: float) -> tuple[PoissonSteps, ...]:
    """Poisson sampling at `excess` / n over the steps of runs of 1-out-of-n; a run of one step is not sampled."""
    return tuple(
        PoissonSteps(1.0 if r.num_steps == 1 else min(_LARGEST_RATE, excess / r.num_steps), r.num_steps * r.num_runs)
        for r in runs
    )


def _largest_excess(runs: tuple[Group[int], ...]) -> float:
    return _LARGEST_RATE * min((r.num_steps for r in runs if r.num_steps > 1), default=1.0)


def _log_total(tail: Tail, runs: tuple[Group[int], ...], excess: float, epsilon: float) -> float:
    """log of the tails of all runs, added up."""
    logs = [
        math.log(r.num_runs) + tail(r.num_steps, step.sampling_prob, epsilon)
        for r, step in zip(runs, _schedule(runs, excess), strict=True)
        if r.num_steps > 1
    ]
    return float(np.logaddexp.reduce(logs)) if logs else -math.inf


def _excess_for(tail: Tail, runs: tuple[Group[int], ...], log_mass: float, epsilon: float) -> float | None:
    """The least n eta (to a few digits) at which the tails add up to at most exp(log_mass); None if there is none."""
    if all(r.num_steps == 1 for r in runs):
        return 1.0

    def fits(log_excess: float) -> bool:
        return _log_total(tail, runs, 1.0 + math.exp(log_excess), epsilon) <= log_mass

    high = math.log(max(_largest_excess(runs) - 1.0, 1e-9))
    if not fits(high):
        return None
    return 1.0 + math.exp(bisect(fits, high, math.log(1e-9), num_steps=_NUM_BISECTIONS))


def truncated_delta(
    mechanism: RandomAllocation, epsilon: float, direction: Direction, *, tail_bound: TailBound
) -> float:
    """float: delta at `epsilon`, upper bound in one direction, by capping the posterior rate at eta:

        delta_A(eps) <= delta_{Poisson, eta over n m steps}(eps) + m beta(eta).

    Feldman & Shenfeld 2025, Lemmas 4.3 and 3.2 (RA-S6). beta(eta) is the probability that the rate of one run of
    1-out-of-n ever exceeds eta, under the first distribution of the pair, and m = k E runs. Add/remove adjacency,
    epsilon >= 0. eta is chosen here; any value is valid. The answer is 1 where no rate below 1 makes beta small.

    Args:
      mechanism: its fields are concrete scalars.
      tail_bound: the bound on beta, e.g. `doob_tail`.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._posterior_rate import doob_tail, truncated_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000)
    >>> truncated_delta(run, 0.1, ja.Direction.REMOVE, tail_bound=doob_tail) < 1e-6
    True
    """
    check_epsilon("epsilon", epsilon)
    runs, base = runs_of(mechanism), concrete_base(mechanism)
    tail, epsilon = tail_bound(base, direction), float(epsilon)

    def poisson(excess: float) -> float:
        return poisson_delta(base, _schedule(runs, excess), direction, epsilon)

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
    """float: epsilon at `delta`, upper bound in one direction: the inverse of `truncated_delta`.

    The least over a few ways to split delta between its two terms; inf where none of them works.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._posterior_rate import doob_tail, truncated_epsilon
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000)
    >>> round(truncated_epsilon(run, 1e-6, ja.Direction.REMOVE, tail_bound=doob_tail), 2)
    0.07
    """
    check_delta("delta", delta)
    runs, base = runs_of(mechanism), concrete_base(mechanism)
    tail = tail_bound(base, direction)

    def at_share(share: float, cap: float) -> float:
        excess = _excess_for(tail, runs, math.log(share) + math.log(delta), cap)
        if excess is None:
            return math.inf
        left = down(delta, 8) - _sum_up(0.0, _log_total(tail, runs, excess, cap))
        return poisson_epsilon(base, _schedule(runs, excess), direction, left) if left > 0.0 else math.inf

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
    return min(1.0, up(delta + tail, 4))


def _step_losses(base: Any) -> tuple[Pld, Pld]:
    """Loss distributions of one step of `base` in the directions REMOVE and ADD, upper bounds, from one law."""
    step = _LAW_STEP * max(1.0, math.sqrt(math.log1p(spread(base))))  # coarser where the losses' spread is large
    made = law(base, 1.0, step, Side.UPPER, _LAW_TAIL)
    return pld_of_law(made, Direction.REMOVE), pld_of_law(made, Direction.ADD)


def step_deltas(base: Any, epsilons: NDArray[Any]) -> NDArray[Any]:
    """Upper bounds [E] on delta of one step of `base` at `epsilons` [E] >= 0, the larger of both directions."""
    remove, add = (profile_of(losses)(epsilons) for losses in _step_losses(base))
    return np.maximum(remove, add)


class _Law(NamedTuple):
    """A mean-preserving spread of W under Q, with `zero` more mass at 0; P has mass `infinite` where Q has none."""

    w: NDArray[Any]
    masses: NDArray[Any]
    zero: float
    infinite: float


@functools.lru_cache(maxsize=16)
def _law(base: Any) -> _Law:
    """The law of W, the likelihood ratio of one step of `base`, rounded for an upper bound."""
    remove, add = _step_losses(base)
    return _Law(np.exp(-add.losses), add.masses, add.infinite_mass, remove.infinite_mass)


def doob_log_moment(base: Any, theta: float) -> float:
    """float: log E_Q e^{theta (1 - W)}, upper bound, of one step of `base`.

    e^{theta (1 - W)} is convex in W, so that a mean-preserving spread makes its mean larger. With x = theta (1 - W),
    E e^x = 1 + E x + E (e^x - 1 - x), and E x = theta E (1 - W) is theta times the mass that P has where Q has none.
    """
    law = _law(base)
    x = theta * (1.0 - law.w)
    convex = float(law.masses @ (np.expm1(x) - x)) + law.zero * (math.expm1(theta) - theta)
    rounding = 2.0**-46 * (float(law.masses @ np.abs(x)) + law.zero * theta) + 2.0**-52 * (64 + x.shape[0]) * convex
    return up(math.log1p(convex + theta * law.infinite + rounding), 8)


@functools.lru_cache(maxsize=16)
def doob_log_moments(base: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The thetas tried [N] and `doob_log_moment` at each of them [N]."""
    thetas = np.geomspace(1e-7, 500.0, _NUM_THETAS)
    return thetas, np.asarray([doob_log_moment(base, float(theta)) for theta in thetas])


def doob_exponent(num_steps: int, rate: float, thetas: Any, log_moments: Any) -> Any:
    """log of Doob's bound at each theta [N], rounded up, on P_Q[max_{i < n} S_i >= n - 1/rate] (RA-X6).

    (n - 1) log E_Q e^{theta (1 - W)} - theta (n - 1/rate)
    """
    threshold = num_steps - 1.0 / rate - 2.0**-50 * num_steps
    rise, fall = (num_steps - 1.0) * log_moments, thetas * max(threshold, 0.0)
    return rise - fall + 2.0**-50 * (rise + fall)


def doob_tail(base: Any, direction: Direction) -> Tail:
    """A function (n, rate eta, epsilon) -> float: log of an upper bound on beta(eta), see `truncated_delta`.

    Doob's inequality (RA-X6): `doob_exponent` at the best of some thetas; in the remove direction, 1/(n eta) times
    that. `epsilon` is not used.
    """
    thetas, moments = doob_log_moments(base)

    def tail(num_steps: int, rate: float, epsilon: float) -> float:
        log_add = float(np.min(doob_exponent(num_steps, rate, thetas, moments)))
        if direction is Direction.REMOVE:
            log_add += 2.0**-48 - math.log(max(1.0, num_steps * rate))
        return min(0.0, log_add)

    return tail


# Upper bounds on the add profile of 1-out-of-n: from n and epsilons [E] to delta [E].
AddProfile = Callable[[int, NDArray[Any]], NDArray[Any]]


def decomposition_add_profile(base: Any) -> AddProfile:
    """A function from n and epsilons [E] to upper bounds [E] on delta of 1-out-of-n, add direction.

    Feldman & Shenfeld 2025, Theorem 4.6, at a small rate.
    """
    return lambda n, epsilons: decomposition_profile(base, n, _INNER_EXCESS / n, Direction.ADD)(epsilons)


def untied_tail(base: Any, direction: Direction, *, add_profile: AddProfile | None = None) -> Tail:
    """A function (n, rate eta, epsilon) -> float: log of an upper bound on beta(eta), see `truncated_delta`:

        inf_{0 <= a < log(n eta)} delta_add(a) / (1 - e^a / (n eta)).

    Markov's inequality, with the add profile of 1-out-of-n read where it is best (RA-X7); in the remove direction,
    1/(n eta) times that. `epsilon` is not used.
    """
    profile = decomposition_add_profile(base) if add_profile is None else add_profile

    def tail(num_steps: int, rate: float, epsilon: float) -> float:
        top = down(math.log(max(1.0, num_steps * rate)), 32)
        if top < 1e-12:
            return 0.0
        at = top * np.arange(_NUM_THRESHOLDS) / _NUM_THRESHOLDS
        deltas = np.maximum(profile(num_steps, at), 1e-300) / -np.expm1(at - top)
        log_tail = math.log(up(float(np.min(deltas)), 32)) - (top if direction is Direction.REMOVE else 0.0)
        return min(0.0, log_tail + 2.0**-45)

    return tail
