"""BOUND, from above, on random allocation, with the chance that its rate exceeds a cap bounded by its own add profile.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", Theorem 4.2 (RA-S8). The rate of 1-out-of-n
exceeds eta if the privacy loss of the outputs so far is above log(n eta), and Markov's inequality bounds the
probability of that by the profile at a smaller loss.
"""

import math
from typing import Any

import numpy as np

from jaxacct._types import Direction
from jaxacct.bounds.theorems import AddProfile, Tail, decomposition_add_profile, truncated_delta, truncated_epsilon
from jaxacct.mechanisms import RandomAllocation
from jaxacct.papers._asking import direction_of, positive, run_of, whole
from jaxacct.special import log_down, log_up, up


def recursive_rate(num_steps: int, inner_epsilon: float) -> float:
    """The rate eta = e^{2 eps'} / t at which Theorem 4.2 caps the posterior rate, rounded up (RA-S8).

    Any rate is valid. The result is at most 1 (the theorem's text omits e^{2 eps'} <= t).

    Args:
      num_steps: t, whole number >= 1.
      inner_epsilon: eps' > 0.

    Returns:
      float in (0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import random_allocation
    >>> round(random_allocation.recursive_rate(1000, 0.5), 6)
    0.002718
    """
    num_steps, inner_epsilon = whole("num_steps", num_steps), float(positive("inner_epsilon", inner_epsilon))
    if inner_epsilon > 350.0:  # where e^{2 eps'} overflows it exceeds every number of steps
        return 1.0
    return min(1.0, up(math.exp(2.0 * inner_epsilon) / num_steps, 8))  # an exponential, and a quotient


def recursive_factor(inner_epsilon: float, direction: Direction) -> float:
    """The factor on the inner delta in Theorem 4.2: remove tau = 1/(e^eps' (e^eps' - 1)), add e^{2 eps'} tau (RA-S8).

    Rounded up. Upper bound on P(loss > 2 eps')/delta(eps'). The proof's factor of 2, from a two-sided lemma, is not
    needed (RA-T4): for one side P(loss > 2 eps') <= delta(eps')/(1 - e^-eps').

    Args:
      inner_epsilon: eps' > 0.
      direction: of add/remove adjacency.

    Returns:
      float > 0.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> [round(random_allocation.recursive_factor(0.5, direction), 6) for direction in ja.Direction]
    [0.934963, 2.541494]
    """
    inner_epsilon = float(positive("inner_epsilon", inner_epsilon))
    scale = -2.0 * inner_epsilon if direction is Direction.REMOVE else 0.0
    return up(math.exp(scale) / -math.expm1(-inner_epsilon), 12)  # 4 ULP and 5, and a quotient


def tied_tail(base: Any, direction: Direction, *, add_profile: AddProfile | None = None) -> Tail:
    """A function, the tail of Theorem 4.2; eps' = log(n eta)/2 is half the threshold and where the profile is read:

        remove:  tau delta_add(eps'),    add:  e^{2 eps'} tau delta_add(eps'),    tau = 1/(e^eps' (e^eps' - 1)).

    Feldman & Shenfeld 2025 (RA-S8).

    Args:
      base: what one step releases; it must have a privacy loss distribution.
      direction: direction of the tail. The inner profile is that of the add direction in either case.
      add_profile: an upper bound on the inner profile; None takes Theorem 4.6.
    """
    profile = decomposition_add_profile(base) if add_profile is None else add_profile

    def tail(num_steps: int, rate: float, epsilon: float) -> float:
        inner = 0.5 * log_down(math.log(max(1.0, num_steps * rate)), 4.0)
        if inner < 1e-12:
            return 0.0
        delta = float(profile(num_steps, np.asarray([inner]))[0])
        return min(0.0, float(log_up(math.log(max(delta, 1e-300) * recursive_factor(inner, direction)), 4.0)))

    return tail


def recursive_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """delta at `epsilon` by Poisson sampling at a capped rate, Theorem 4.2 (RA-S8):

        delta_A(eps) <= delta_{Poisson, eta}(eps) + c tau delta_add(eps'),   eta = e^{2 eps'}/n,

    with tau = 1/(e^eps' (e^eps' - 1)), c = 1 (remove) or e^{2 eps'} (add). eps' is chosen by this function, the inner
    add profile is by Theorem 4.6, and k E runs of 1-out-of-n are composed. Upper bound; 1 if no rate below 1 makes the
    tail small.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      epsilon: >= 0.
      direction: of add/remove adjacency.

    Returns:
      float, delta in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000)
    >>> f"{random_allocation.recursive_delta(run, 0.1, ja.Direction.REMOVE):.4g}"
    '6.203e-09'
    """
    run_of(mechanism)
    direction = direction_of(direction)
    return truncated_delta(mechanism, epsilon, direction, tail_bound=tied_tail)


def recursive_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    """epsilon at `delta` by Poisson sampling at a capped rate, Theorem 4.2; see `recursive_delta` (RA-S8).

    Upper bound, the least over a few ways to split delta; inf if none works.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      delta: in (0, 1).
      direction: of add/remove adjacency.

    Returns:
      float, epsilon.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(2.0), num_steps=1000)
    >>> round(random_allocation.recursive_epsilon(run, 1e-6, ja.Direction.REMOVE), 4)
    0.0732
    """
    run_of(mechanism)
    direction = direction_of(direction)
    return truncated_epsilon(mechanism, delta, direction, tail_bound=tied_tail)
