"""BOUND, from above, on random allocation by Poisson sampling at a capped rate, and on the chance of exceeding the cap.

Feldman & Shenfeld 2025, Theorem 4.1 (RA-S7) and Corollary 4.5 (RA-S9), and a sharper tail of ours (RA-X6); and
Corollary 4.7 (RA-S11), on Poisson sampling with a cap on the number of steps in which a record takes part.
The module of `truncated_delta` has the scheme, Lemma 4.3, and the notation.
"""

import enum
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._types import Direction
from jaxacct._validate import check_count, check_delta, check_epsilon, check_positive
from jaxacct.bounds.theorems import (
    PoissonSteps,
    Tail,
    TailBound,
    concrete_base,
    doob_exponent,
    doob_log_moment,
    doob_log_moments,
    poisson_pld,
    runs_of,
    step_deltas,
    truncated_delta,
    truncated_epsilon,
)
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation
from jaxacct.papers._asking import direction_of, mechanism_of, positive, probability, run_of, whole
from jaxacct.special import down, log_up, up

_NUM_REFINED = 20  # steps of golden section for theta: any theta is certified

# Values of eps0, in nats, that are tried: any is certified, the least tail is taken.
_LOCAL_EPSILONS = tuple(float(x) for x in np.geomspace(1e-4, 100.0, 400))


class Width(enum.Enum):
    """What Theorem 4.1 uses for half the width of [e^-eps0, e^eps0], and its cost for delta0 (RA-S7, RA-T2).

    >>> from jaxacct.papers import random_allocation
    >>> random_allocation.Width.SINH.value
    'as proved'
    """

    COSH = "as printed"
    SINH = "as proved"


def truncation_rate(num_steps: int, local_epsilon: float, tail_mass: float, width: Width) -> float:
    """The rate eta at which Theorem 4.1 caps the posterior rate, rounded up (RA-S7):

        gamma = min(1, c(eps0) sqrt((2/t) log(1/delta'))),    eta = min(1, 1/(t (1 - gamma))).

    Any rate is valid; the bound on delta is `truncated_poisson_delta`. The theorem has c = cosh as printed; its proof
    gives c = sinh, which is smaller: likelihood ratios lie within [e^-eps0, e^eps0], which is 2 sinh(eps0) wide
    (RA-T2). eta is 1 if c sqrt(..) >= 1 - 1/t.

    Args:
      num_steps: t, whole number >= 1.
      local_epsilon: eps0 > 0, of one step.
      tail_mass: delta' in (0, 1).
      width: which c.

    Returns:
      float in [1/t, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import random_allocation
    >>> [round(random_allocation.truncation_rate(1000, 0.1, 1e-10, width), 6) for width in random_allocation.Width]
    [0.001275, 0.001022]
    """
    num_steps = whole("num_steps", num_steps)
    if not isinstance(width, Width):
        raise ValueError(f"width={width!r} must be a Width")
    check_positive("local_epsilon", local_epsilon)
    check_delta("tail_mass", tail_mass)
    half = _log_half_width(local_epsilon, width) + 0.5 * math.log(-2.0 * math.log(tail_mass) / num_steps)
    gamma = up(math.exp(min(half, 0.0)), 32)
    return min(1.0, up(1.0 / (num_steps * (1.0 - gamma)), 8)) if gamma < 1.0 else 1.0


def _log_half_width(local_epsilon: Any, width: Width) -> Any:
    """log cosh or log sinh of eps0, of its shape, without overflow, rounded up."""
    tail = np.exp(-2.0 * local_epsilon)
    inner = np.log1p(tail) if width is Width.COSH else np.log(-np.expm1(-2.0 * local_epsilon))
    # inner by 5 ULP and 4 of itself, at most eps0 + 0.7 more than the answer; two sums
    return log_up(local_epsilon + inner - math.log(2.0), 12.0 + 8.0 * local_epsilon)


@functools.lru_cache(maxsize=16)
def _local_delta(base: Any) -> NDArray[Any]:
    """delta0 at each of `_LOCAL_EPSILONS`, the larger of both directions."""
    return step_deltas(base, np.asarray(_LOCAL_EPSILONS))


def azuma_tail(base: Any, direction: Direction, *, width: Width = Width.SINH) -> Tail:
    """A function, the log of the tail of Theorem 4.1 for an (eps0, delta0)-DP step, the least over eps0:

        COSH, as printed:  n delta0 + delta',             delta' = exp(-n gamma^2 / (2 cosh(eps0)^2)),
        SINH, as proved:   c (1 + n eta) delta0 + delta', delta' = exp(-n gamma^2 / (2 sinh(eps0)^2)),

    gamma = 1 - 1/(n eta), c = 1 (remove) or e^epsilon (add). Feldman & Shenfeld 2025 (RA-S7). The theorem pays delta0
    in each of n steps. As proved it is paid for capping dP/dQ to [e^-eps0, e^eps0], which moves at most delta0 of P: a
    run of 1-out-of-n uses P once, and n steps of Poisson sampling use it n eta times on average; the tail itself is one
    of Q, untouched.
    """
    log_c, delta0 = 2.0 * _log_half_width(np.asarray(_LOCAL_EPSILONS), width), _local_delta(base)

    def tail(num_steps: int, rate: float, epsilon: float) -> float:
        gamma = 1.0 - 1.0 / (num_steps * rate) - 2.0**-50  # four roundings of at most 1
        if gamma <= 0.0:
            return 0.0
        scale = math.log(num_steps)
        if width is Width.SINH:
            scale = math.log1p(num_steps * rate) + (epsilon if direction is Direction.ADD else 0.0)
        log_tail = -down(0.5 * num_steps * gamma * gamma * np.exp(-log_c), 32)  # an exponential, and five products
        log_paid = log_up(log_up(scale, 4.0) + log_up(np.log(np.maximum(delta0, 1e-300)), 2.0), 2.0)
        return min(0.0, float(np.min(log_up(np.logaddexp(log_paid, log_tail), 16.0))))

    return tail


def doob_log_tail(base: Any, num_steps: int, rate: float) -> float:
    """log of a bound on Q(rate of 1-out-of-n ever exceeds `rate`), from Doob's inequality: ours (RA-X6).

        inf_{theta > 0}  -theta (n - 1/eta) + (n - 1) log E_Q e^{theta (1 - W)},

    W the likelihood ratio of one step. Upper bound, for any release with a privacy loss distribution; in the remove
    direction it is n eta times less. It needs no eps0 and no delta0, and is far below Theorem 4.1 for Gaussian noise.
    0 for rates up to 1/n. Some 1e-7 relative above the infimum (the law is a spread one).

    Args:
      base: what one step releases, such as `jaxacct.Gaussian`.
      num_steps: n, whole number >= 2.
      rate: eta in (0, 1].

    Returns:
      float <= 0.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> round(random_allocation.doob_log_tail(ja.Gaussian(1.0), 1000, 0.0013), 4)
    -22.1524
    """
    num_steps, rate = whole("num_steps", num_steps, least=2), float(positive("rate", probability("rate", rate)))
    thetas, moments = doob_log_moments(base)
    values = doob_exponent(num_steps, rate, thetas, moments)
    at = int(np.argmin(values))
    best = float(values[at])
    low, high = (math.log(float(thetas[i])) for i in (max(at - 1, 0), min(at + 1, len(thetas) - 1)))
    for _ in range(_NUM_REFINED):  # golden section on a convex function: any theta is valid
        a, b = high - 0.618 * (high - low), low + 0.618 * (high - low)
        at_a, at_b = (doob_exponent(num_steps, rate, math.exp(x), doob_log_moment(base, math.exp(x))) for x in (a, b))
        best = min(best, at_a, at_b)
        low, high = (low, b) if at_a < at_b else (a, high)
    return min(0.0, best)


def _tail(width: Width) -> TailBound:
    if not isinstance(width, Width):
        raise ValueError(f"width={width!r} must be a Width")
    return functools.partial(azuma_tail, width=width)


def truncated_poisson_delta(
    mechanism: RandomAllocation, epsilon: float, direction: Direction, *, width: Width = Width.SINH
) -> float:
    """delta at `epsilon` by Poisson sampling at a capped rate, Theorem 4.1 (RA-S7):

        delta_A(eps) <= delta_{Poisson, eta}(eps) + tail,   tail = n delta0 + delta' as printed,

    where the cap eta, eps0 and delta' are chosen by this function, and k E runs of 1-out-of-n are composed (Lemma 3.2).
    Upper bound. With `Width.SINH` the tail is c (1 + n eta) delta0 + delta', as the proof allows, c = 1 (remove) or
    e^eps (add). The result is 1 if no rate below 1 makes the tail small.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      epsilon: >= 0.
      direction: of add/remove adjacency.
      width: the printed constant, or the proved one.

    Returns:
      float, delta in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(10.0), num_steps=1000)
    >>> f"{random_allocation.truncated_poisson_delta(run, 0.02, ja.Direction.REMOVE):.4g}"
    '5.639e-11'
    """
    run_of(mechanism)
    direction = direction_of(direction)
    return truncated_delta(mechanism, epsilon, direction, tail_bound=_tail(width))


def truncated_poisson_epsilon(
    mechanism: RandomAllocation, delta: float, direction: Direction, *, width: Width = Width.SINH
) -> float:
    """epsilon at `delta` by Poisson sampling at a capped rate, Theorem 4.1; see `truncated_poisson_delta` (RA-S7).

    Upper bound, the least over a few ways to split delta; inf if none works.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      delta: in (0, 1).
      direction: of add/remove adjacency.
      width: the printed constant, or the proved one.

    Returns:
      float, epsilon.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(10.0), num_steps=1000)
    >>> round(random_allocation.truncated_poisson_epsilon(run, 1e-6, ja.Direction.REMOVE), 4)
    0.0109
    """
    run_of(mechanism)
    direction = direction_of(direction)
    return truncated_epsilon(mechanism, delta, direction, tail_bound=_tail(width))


def large_noise_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """delta at `epsilon` for large noise, Corollary 4.5 (RA-S9):

        delta_A(eps) <= delta_{Poisson, rate 2k/t over t steps}(eps) + 2 delta'

    for every delta' with sigma > 8 max(sqrt(log(t/delta')), sqrt(k/t) log(t/delta')), of which the least is taken; E
    epochs are composed. Upper bound, both directions, Gaussian noise, k dividing t. The result is 1 if sigma is too
    small for any delta' < 1/2.

    Args:
      mechanism: RandomAllocation with concrete scalar fields and Gaussian noise.
      epsilon: >= 0.
      direction: of add/remove adjacency.

    Returns:
      float, delta in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(50.0), num_steps=1000)
    >>> f"{random_allocation.large_noise_delta(run, 0.01, ja.Direction.REMOVE):.4g}"
    '2.17e-14'
    """
    run_of(mechanism)
    direction = direction_of(direction)
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
    poisson = poisson_pld(
        base, (PoissonSteps(min(1.0, 2.0 / steps), steps * num_runs),), direction, epsilon=float(epsilon)
    )
    return min(1.0, up(poisson.delta(float(epsilon)) + tail, 4))


def capped_poisson_delta(
    mechanism: PoissonSampled, epsilon: float, direction: Direction, *, max_participations: int
) -> float:
    """delta at `epsilon` of Poisson sampling with a cap on participations, Corollary 4.7 (RA-S11).

    A record drawn more than `max_participations` times takes part in only that many of those steps, uniformly chosen:

        sum_{j < k} Bin(j) A_{t,j} + P(Bin >= k) A_{t,k},

    whose profile is at most that of plain Poisson sampling, which is returned: the cap costs nothing. Upper bound, both
    directions.

    Args:
      mechanism: PoissonSampled with concrete scalar fields.
      epsilon: >= 0.
      direction: of add/remove adjacency.
      max_participations: k, whole number >= 1. Only checked: the bound holds for every k.

    Returns:
      float, delta in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=100)
    >>> round(random_allocation.capped_poisson_delta(run, 0.5, ja.Direction.REMOVE, max_participations=3), 5)
    0.00013
    """
    mechanism_of(mechanism, PoissonSampled)
    direction = direction_of(direction)
    check_epsilon("epsilon", epsilon)
    check_count("max_participations", max_participations)
    steps = (PoissonSteps(float(mechanism.sampling_prob), int(mechanism.num_steps)),)
    if mechanism.sampling_prob == 0:
        return 0.0
    return poisson_pld(concrete_base(mechanism), steps, direction, epsilon=float(epsilon)).delta(float(epsilon))
