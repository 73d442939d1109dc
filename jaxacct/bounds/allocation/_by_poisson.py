"""Tails of the posterior rate of random allocation, for `truncated_delta` and `truncated_epsilon`.

Feldman and Shenfeld 2025, Theorem 4.1 and Corollary 4.5, and a sharper tail of ours (spec X6). With W_j the
likelihood ratio of step j under Q, the rate of 1-out-of-n exceeds eta when the martingale S_i = sum_{j <= i} (1 - W_j)
exceeds n - 1/eta at some i < n. Under the distribution with the record it does so n eta times less often.
"""

import enum
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct._validate import check_delta, check_epsilon, check_positive
from jaxacct.bounds.allocation._posterior_rate import Tail
from jaxacct.bounds.bases import law, spread
from jaxacct.bounds.bases._base import pld_of_law
from jaxacct.bounds.poisson._profile import Steps, concrete_base, poisson_pld, runs_of
from jaxacct.curves._from_profile import profile_of
from jaxacct.divergence.lattice._ratio import Side
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.special import down, up

_LAW_STEP = 2.0**-11
_LAW_TAIL = 1e-30
_NUM_THETAS, _NUM_REFINED = 300, 20
_LOCAL_EPSILONS = tuple(float(x) for x in np.geomspace(1e-4, 100.0, 400))


class Width(enum.Enum):
    """What Theorem 4.1 takes half the width of [e^-eps0, e^eps0] to be, and its price for delta0."""

    COSH = "as printed"
    SINH = "as proved"


def truncation_rate(num_steps: int, local_epsilon: float, tail_mass: float, width: Width) -> float:
    """The rate eta of Theorem 4.1, rounded up:

        gamma = min(1, c(eps0) sqrt((2/t) log(1/delta'))),    eta = min(1, 1/(t (1 - gamma))).

    The theorem prints c = cosh; its proof gives c = sinh, smaller: likelihood ratios lie within [e^-eps0, e^eps0],
    2 sinh(eps0) wide (spec T2). Both valid. From c sqrt(..) >= 1 - 1/t on eta is 1.

    >>> from jaxacct.bounds.allocation._by_poisson import Width, truncation_rate
    >>> [round(truncation_rate(1000, 0.1, 1e-10, width), 6) for width in Width]
    [0.001275, 0.001022]
    """
    check_positive("local_epsilon", local_epsilon)
    check_delta("tail_mass", tail_mass)
    half = _log_half_width(local_epsilon, width) + 0.5 * math.log(-2.0 * math.log(tail_mass) / num_steps)
    gamma = up(math.exp(min(half, 0.0)), 32)
    return min(1.0, up(1.0 / (num_steps * (1.0 - gamma)), 8)) if gamma < 1.0 else 1.0


def _log_half_width(local_epsilon: Any, width: Width) -> Any:
    """log cosh or log sinh, without overflow."""
    tail = np.exp(-2.0 * local_epsilon)
    inner = np.log1p(tail) if width is Width.COSH else np.log(-np.expm1(-2.0 * local_epsilon))
    return local_epsilon + inner - math.log(2.0)


def _law_step(base: Any) -> float:
    return _LAW_STEP * max(1.0, math.sqrt(math.log1p(spread(base))))


class _Law(NamedTuple):
    """A mean-preserving spread of W under Q, with `zero` more mass at 0; P holds `infinite` where Q holds nothing."""

    w: np.ndarray
    masses: np.ndarray
    zero: float
    infinite: float


@functools.lru_cache(maxsize=16)
def _law(base: Any) -> _Law:
    made = law(base, 1.0, _law_step(base), Side.UPPER, _LAW_TAIL)
    remove, add = (pld_of_law(made, direction) for direction in (Direction.REMOVE, Direction.ADD))
    return _Law(np.exp(-add.losses), add.masses, add.infinite_mass, remove.infinite_mass)


@functools.lru_cache(maxsize=16)
def _local_delta(base: Any) -> np.ndarray:
    """delta0 at each of `_LOCAL_EPSILONS`, the larger of both directions."""
    made = law(base, 1.0, _law_step(base), Side.UPPER, _LAW_TAIL)
    eps = np.asarray(_LOCAL_EPSILONS)
    return np.maximum(*(profile_of(pld_of_law(made, direction))(eps) for direction in Direction))


def azuma_tail(base: Any, direction: Direction, *, width: Width = Width.SINH) -> Tail:
    """The tail of Theorem 4.1 for an (eps0, delta0)-DP step, least over eps0:

        COSH, as printed:  n delta0 + delta',             delta' = exp(-n gamma^2 / (2 cosh(eps0)^2)),
        SINH, as proved:   c (1 + n eta) delta0 + delta', delta' = exp(-n gamma^2 / (2 sinh(eps0)^2)),

    gamma = 1 - 1/(n eta), c = 1 (remove) or e^epsilon (add). Where the theorem pays delta0 in each of n steps: cap
    dP/dQ to [e^-eps0, e^eps0], which moves at most delta0 of P. A run of 1-out-of-n uses P once, and n steps of
    Poisson sampling use it n eta times on average; the tail itself is one of Q, untouched.
    """
    log_c, delta0 = 2.0 * _log_half_width(np.asarray(_LOCAL_EPSILONS), width), _local_delta(base)

    def tail(num_steps: int, rate: float, epsilon: float) -> float:
        gamma = 1.0 - 1.0 / (num_steps * rate) - 2.0**-50
        if gamma <= 0.0:
            return 0.0
        scale = math.log(num_steps)
        if width is Width.SINH:
            scale = math.log1p(num_steps * rate) + (epsilon if direction is Direction.ADD else 0.0)
        log_tail = -down(0.5 * num_steps * gamma * gamma * np.exp(-log_c), 32)
        return min(
            0.0,
            float(np.min(np.logaddexp(scale + np.log(np.maximum(delta0, 1e-300)), log_tail)))
            + 2.0**-48 * (1.0 + abs(scale)),
        )

    return tail


def _log_moment(base: Any, theta: float) -> float:
    """log E_Q e^{theta (1 - W)}, upper bound: a convex function of W, which a spread makes larger.

    E e^x = 1 + E x + E (e^x - 1 - x), and E x = theta E (1 - W) is the mass that P holds where Q holds nothing.
    """
    law = _law(base)
    x = theta * (1.0 - law.w)
    convex = float(law.masses @ (np.expm1(x) - x)) + law.zero * (math.expm1(theta) - theta)
    rounding = 2.0**-46 * (float(law.masses @ np.abs(x)) + law.zero * theta) + 2.0**-52 * (64 + x.shape[0]) * convex
    return up(math.log1p(convex + theta * law.infinite + rounding), 8)


@functools.lru_cache(maxsize=16)
def _log_moments(base: Any) -> tuple[np.ndarray, np.ndarray]:
    thetas = np.geomspace(1e-7, 500.0, _NUM_THETAS)
    return thetas, np.asarray([_log_moment(base, float(theta)) for theta in thetas])


def _exponent(num_steps: int, rate: float, thetas: Any, log_moments: Any) -> Any:
    """Doob's exponent at each theta, rounded up."""
    threshold = num_steps - 1.0 / rate - 2.0**-50 * num_steps
    rise, fall = (num_steps - 1.0) * log_moments, thetas * max(threshold, 0.0)
    return rise - fall + 2.0**-50 * (rise + fall)


def doob_log_tail(base: Any, num_steps: int, rate: float) -> float:
    """log of a bound on Q(rate of 1-out-of-n ever exceeds `rate`), from Doob's inequality for e^{theta S_i} (spec X6):

        inf_{theta > 0}  -theta (n - 1/eta) + (n - 1) log E_Q e^{theta (1 - W)}.

    No eps0 and no delta0: far below Theorem 4.1 for Gaussian noise. Upper bound, for any release with a privacy loss
    distribution; 0 for rates up to 1/n. Some 1e-7 relative above the infimum (the law is a spread one).
    """
    thetas, moments = _log_moments(base)
    values = _exponent(num_steps, rate, thetas, moments)
    at = int(np.argmin(values))
    best = float(values[at])
    low, high = (math.log(float(thetas[i])) for i in (max(at - 1, 0), min(at + 1, _NUM_THETAS - 1)))
    for _ in range(_NUM_REFINED):  # golden section on a convex function: any theta is valid
        a, b = high - 0.618 * (high - low), low + 0.618 * (high - low)
        at_a, at_b = (_exponent(num_steps, rate, math.exp(x), _log_moment(base, math.exp(x))) for x in (a, b))
        best = min(best, at_a, at_b)
        low, high = (low, b) if at_a < at_b else (a, high)
    return min(0.0, best)


def doob_tail(base: Any, direction: Direction) -> Tail:
    """`doob_log_tail` at the best of some thetas, and 1/(n eta) of it in the remove direction."""
    thetas, moments = _log_moments(base)

    def tail(num_steps: int, rate: float, epsilon: float) -> float:
        log_add = float(np.min(_exponent(num_steps, rate, thetas, moments)))
        if direction is Direction.REMOVE:
            log_add += 2.0**-48 - math.log(max(1.0, num_steps * rate))
        return min(0.0, log_add)

    return tail


def large_noise_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """delta at `epsilon`, upper bound, by Corollary 4.5:

        delta_A(eps) <= delta_{Poisson, rate 2k/t over t steps}(eps) + 2 delta'

    for every delta' with sigma > 8 max(sqrt(log(t/delta')), sqrt(k/t) log(t/delta')), here the least; E epochs compose.
    Gaussian noise, both directions, k dividing t. 1 where sigma is too small for any delta' < 1/2.
    """
    check_epsilon("epsilon", epsilon)
    ((steps, num_runs), *others) = runs_of(mechanism)
    base = concrete_base(mechanism)
    if others or base.signature() != (Gaussian,):
        return 1.0
    selected, epochs = int(mechanism.num_selected), int(mechanism.num_epochs)
    eighth = down(base.noise_multiplier / 8.0, 8)
    log_ratio = min(eighth**2, eighth * math.sqrt(steps))
    tail = up(2.0 * epochs * steps * selected * math.exp(-log_ratio), 32)
    if tail >= epochs or steps == 1:
        return 1.0
    poisson = poisson_pld(base, (Steps(min(1.0, 2.0 / steps), steps * num_runs),), direction, epsilon=float(epsilon))
    return min(1.0, up(poisson.delta(float(epsilon)) + tail, 4))
