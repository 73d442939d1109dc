"""Upper bounds for random allocation, from Poisson sampling conditioned on at least one participation.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", Theorem 4.6, Corollary 4.7 and Appendix D.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct._validate import check_delta, check_epsilon
from jaxacct.bounds.allocation._law import DISTRIBUTION
from jaxacct.bounds.discrete import has_types, types_delta
from jaxacct.bounds.poisson._profile import PoissonSteps, concrete_base, poisson_pld, runs_of
from jaxacct.bounds.poisson._sharp import poisson_delta, poisson_epsilon
from jaxacct.composition import Group
from jaxacct.curves import Pld
from jaxacct.curves._convolution import compose_plds
from jaxacct.curves._from_profile import Profile, dominating_pld, profile_of
from jaxacct.mechanisms import PoissonSampled, RandomAllocation
from jaxacct.special import down, up

# Apart from `_ULPS`, every number here affects tightness and running time only.
# Rates times t: the bound falls with the rate, until the grid's rounding error, magnified t^2/rate times, takes over.
# With fewer steps than the last number the first two are tried, else all four.
_EXCESSES, _ALL_EXCESSES, _MANY_STEPS = (0.02, 0.1), (0.02, 0.1, 0.3, 1.0), 30_000
_COMPOSED_EXCESS = 0.02  # the rate times t where several runs are composed
_RESOLUTION = 24.0  # grid points of a composed part for one standard deviation of its loss
_MAX_POINTS = 2**15  # most points at which a profile is read
_NEGLIGIBLE = 1e-28  # once delta is this small, a profile is read no further
_MAX_CAPS = 6  # how many times the epsilon at which the factor is taken is raised before the answer is inf
_SETTLED = 1e-6  # a smaller relative fall of epsilon from one such epsilon to the next is not worth another
_MAX_EPSILON = 650.0  # nats: delta at a larger epsilon is no larger than here
_ULPS = 32  # units of 2^-53; at most 16 roundings at a time: two functions of 4 each, and products


def _participation(num_steps: int, sampling_prob: float) -> float:
    """1/gamma = 1 - (1 - lambda)^t, the probability of at least one participation, rounded down."""
    return down(-math.expm1(num_steps * math.log1p(-sampling_prob)), _ULPS) if sampling_prob < 1.0 else 1.0


def _inner_epsilon(epsilons: Any, participation: float, direction: Direction) -> Any:
    """eps' [..] at which Theorem 4.6 evaluates the Poisson profile, rounded down (see `decomposition_delta`).

    In the add direction the rounding error of 1 - (1 - e^-eps)/gamma is covered by the margin by which `participation`
    is rounded down, where it is below 1.
    """
    if participation == 1.0:
        return epsilons
    if direction is Direction.REMOVE:
        return down(np.log1p(np.expm1(epsilons) * participation), _ULPS)
    return down(-np.log1p(np.expm1(-epsilons) * participation), _ULPS)


def _outer_epsilon(epsilon: float, participation: float, direction: Direction) -> float:
    """The epsilon at which Theorem 4.6 uses `epsilon` of the Poisson profile, rounded up: inverts `_inner_epsilon`."""
    if epsilon >= _MAX_EPSILON:
        return math.inf
    if direction is Direction.REMOVE:
        return up(math.log1p(up(math.expm1(epsilon) / participation, _ULPS)), _ULPS)
    some = up(-math.expm1(-epsilon) / participation, _ULPS)
    return up(-math.log1p(-some), _ULPS) if some < 1.0 else math.inf


def _factor(epsilons: Any, participation: float, direction: Direction) -> Any:
    """The factor [..] by which Theorem 4.6 multiplies the Poisson profile, rounded up (see `decomposition_delta`)."""
    if direction is Direction.REMOVE:
        return up(1.0 / participation, _ULPS)
    return up(1.0 + up(np.exp(epsilons) * (1.0 / participation - 1.0), _ULPS), _ULPS)


def decomposition_delta(
    mechanism: RandomAllocation, epsilon: float, direction: Direction, *, sampling_prob: float | None = None
) -> float:
    """float: delta at `epsilon`, upper bound in one direction, from the profile of Poisson sampling at a rate lambda.

    Feldman & Shenfeld 2025, Theorem 4.6 (RA-S10, RA-X5). With 1/gamma = 1 - (1 - lambda)^t, for 1-out-of-t and one
    epoch:

        remove:  gamma delta_P(eps'),                      eps' = log(1 + (e^eps - 1)/gamma),
        add:     (1 + e^eps (gamma - 1)) delta_P(eps'),    eps' = -log(1 - (1 - e^-eps)/gamma).

    Poisson sampling is a binomial mixture of j-out-of-t; given j >= 1 it dominates 1-out-of-t. The paper takes
    lambda = 1/t; any rate in (0, 1] is valid and the bound is exact in the limit lambda -> 0. For k > 1 or several
    epochs, profiles of 1-out-of-n are turned into loss distributions and composed (`decomposition_pld`).
    Valid for any release with a loss distribution and for epsilon >= 0.

    Args:
      mechanism: its fields are concrete scalars.
      sampling_prob: lambda; None chooses a small one.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._decomposition import decomposition_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> round(decomposition_delta(run, 0.5, ja.Direction.REMOVE, sampling_prob=0.01), 5)  # as in the paper
    0.0015
    >>> round(decomposition_delta(run, 0.5, ja.Direction.REMOVE), 6)  # exact: 4.409e-5
    4.8e-05
    """
    check_epsilon("epsilon", epsilon)
    runs, base, eps = runs_of(mechanism), concrete_base(mechanism), min(float(epsilon), _MAX_EPSILON)
    if not _is_single(runs):
        return decomposition_pld(mechanism, direction, sampling_prob=sampling_prob).delta(eps)
    steps = runs[0].num_steps

    def at_rate(rate: float) -> float:
        share = _participation(steps, rate)
        inner = float(_inner_epsilon(eps, share, direction))
        sampled = PoissonSampled(base, rate, steps)
        if has_types(sampled):
            poisson = types_delta(sampled, inner, direction, upper=True)
        else:
            poisson = poisson_delta(base, (PoissonSteps(rate, steps),), direction, inner)
        return min(1.0, up(float(_factor(eps, share, direction)) * poisson, _ULPS))

    return _least(at_rate, steps, sampling_prob)


def decomposition_epsilon(
    mechanism: RandomAllocation, delta: float, direction: Direction, *, sampling_prob: float | None = None
) -> float:
    """float: epsilon at `delta`, upper bound in one direction: the inverse of `decomposition_delta`, or inf.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._decomposition import decomposition_epsilon
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> round(decomposition_epsilon(run, 1e-6, ja.Direction.REMOVE), 2)  # exact: 0.857
    0.87
    """
    check_delta("delta", delta)
    runs, base = runs_of(mechanism), concrete_base(mechanism)
    if not _is_single(runs):
        return decomposition_pld(mechanism, direction, sampling_prob=sampling_prob).epsilon(delta)
    steps = runs[0].num_steps

    def at_rate(rate: float) -> float:
        share = _participation(steps, rate)

        def at_factor(factor: float) -> float:
            inner = poisson_epsilon(base, (PoissonSteps(rate, steps),), direction, down(delta / factor, _ULPS))
            return _outer_epsilon(inner, share, direction)

        if direction is Direction.REMOVE:
            return at_factor(float(_factor(0.0, share, direction)))
        # The factor rises with epsilon. If it is taken at an epsilon no smaller than the result, the result is a bound,
        # and the factor may next be taken at that result.
        cap = 1.0
        for _ in range(_MAX_CAPS):
            found = at_factor(float(_factor(cap, share, direction)))
            if found <= cap:
                while found < cap * (1.0 - _SETTLED):
                    cap, found = found, at_factor(float(_factor(found, share, direction)))
                return min(cap, found)
            cap = 1.01 * found
            if cap > _MAX_EPSILON:
                break
        return math.inf

    return _least(at_rate, steps, sampling_prob)


def _is_single(runs: tuple[Group[int], ...]) -> bool:
    """Whether there is only one run of 1-out-of-t, which needs no composition."""
    return len(runs) == 1 and runs[0].num_runs == 1


def _least(at_rate: Callable[[float], float], num_steps: int, sampling_prob: float | None) -> float:
    """The bound at a given rate, or the least over some rates: it is valid at each."""
    if sampling_prob is not None:
        return at_rate(float(sampling_prob))
    excesses = _EXCESSES if num_steps < _MANY_STEPS else _ALL_EXCESSES
    return min(at_rate(excess / num_steps) for excess in excesses)


@functools.lru_cache(maxsize=4)
def decomposition_profile(base: Any, num_steps: int, sampling_prob: float, direction: Direction) -> Profile:
    """A function from epsilons [E] >= 0 to upper bounds [E] on delta of 1-out-of-`num_steps`, in one direction.

    Feldman & Shenfeld 2025, Theorem 4.6, from one loss distribution of Poisson sampling.
    """
    poisson = profile_of(poisson_pld(base, (PoissonSteps(sampling_prob, num_steps),), direction))
    share = _participation(num_steps, sampling_prob)

    def profile(epsilons: NDArray[Any]) -> NDArray[Any]:
        inner = _inner_epsilon(epsilons, share, direction)
        return np.minimum(up(_factor(epsilons, share, direction) * poisson(inner), _ULPS), 1.0)

    return profile


def decomposition_pld(mechanism: RandomAllocation, direction: Direction, *, sampling_prob: float | None = None) -> Pld:
    """A `Pld` that dominates `mechanism`, in one direction: each run of 1-out-of-n by Theorem 4.6, then composed.

    Feldman & Shenfeld 2025, Theorem 4.6 and Lemma 3.2 (RA-X9): an upper bound over k E runs. Add/remove adjacency.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._decomposition import decomposition_pld
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100, num_epochs=10)
    >>> round(decomposition_pld(run, ja.Direction.REMOVE).delta(1.0), 4)  # exact: 0.0020015
    0.0022
    """
    runs, base = runs_of(mechanism), concrete_base(mechanism)
    scale, count = DISTRIBUTION.scale(mechanism)
    step = math.sqrt(scale / count) / _RESOLUTION
    theorem = "Feldman & Shenfeld 2025, Theorem 4.6 and Lemma 3.2"
    parts = []
    for steps, times in runs:
        rate = _COMPOSED_EXCESS / steps if sampling_prob is None else float(sampling_prob)
        remove, add = (
            _on_grid(decomposition_profile(base, steps, rate, d), step) for d in (Direction.REMOVE, Direction.ADD)
        )
        parts.append((dominating_pld(step, remove, add, direction, theorem=theorem), times))
    return compose_plds(parts)


def _on_grid(profile: Profile, step: float) -> NDArray[Any]:
    """`profile` at 0, step, 2 step, ... up to where it no longer falls."""
    deltas = np.minimum.accumulate(profile(step * np.arange(min(_MAX_POINTS, int(_MAX_EPSILON / step)))))
    settled = np.flatnonzero(deltas <= max(_NEGLIGIBLE, 1.01 * float(deltas[-1])))
    return deltas[: int(settled[0]) + 1]
