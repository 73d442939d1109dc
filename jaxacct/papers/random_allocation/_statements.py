"""BOUND, from above, on random allocation: Theorems 4.1, 4.2 and 4.8, each by itself.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation". Add/remove adjacency.
"""

from __future__ import annotations

import functools

from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct._types import Direction
from jaxacct.bounds.theorems import TailBound, truncated_delta, truncated_epsilon
from jaxacct.divergence.kernels import general_rdp
from jaxacct.mechanisms import RandomAllocation
from jaxacct.papers._asking import Floats, direction_of, law, plain, run_of, whole
from jaxacct.papers.random_allocation._discrete_moments import discrete_log_moments
from jaxacct.papers.random_allocation._recursive import tied_tail
from jaxacct.papers.random_allocation._truncated_poisson import Width, azuma_tail


@Kernel
def _general(num_steps: jax.Array, *log_moments: jax.Array, num_bits: int) -> jax.Array:
    return general_rdp(jnp.stack(log_moments), num_steps, num_bits=num_bits)


def _tail(width: Width) -> TailBound:
    if not isinstance(width, Width):
        raise ValueError(f"width={width!r} must be a Width")
    return functools.partial(azuma_tail, width=width)


def truncated_poisson_delta(
    mechanism: RandomAllocation, epsilon: float, direction: Direction, *, width: Width = Width.SINH
) -> float:
    """delta at `epsilon` by Poisson sampling at a capped rate, Theorem 4.1 (RA-S7):

        delta_A(eps) <= delta_{Poisson, eta}(eps) + tail,   tail = n delta0 + delta' as printed,

    the cap eta, eps0 and delta' chosen here, k E runs of 1-out-of-n composed (Lemma 3.2). Upper bound; with
    `Width.SINH` c (1 + n eta) delta0 + delta', as the proof allows, c = 1 (remove) or e^eps (add). 1 where no rate
    below 1 makes the tail small.

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

    Upper bound, over a few ways to split delta; inf where none works.

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


def recursive_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """delta at `epsilon` by Poisson sampling at a capped rate, Theorem 4.2 (RA-S8):

        delta_A(eps) <= delta_{Poisson, eta}(eps) + c tau delta_add(eps'),   eta = e^{2 eps'}/n,

    tau = 1/(e^eps' (e^eps' - 1)), c = 1 (remove) or e^{2 eps'} (add), eps' chosen here, the inner add profile by
    Theorem 4.6, k E runs of 1-out-of-n composed. Upper bound; 1 where no rate below 1 makes the tail small.

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

    Upper bound, over a few ways to split delta; inf where none works.

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


def discrete_remove_rdp(with_record: ArrayLike, without: ArrayLike, *, num_steps: int, max_order: int) -> Floats:
    """Renyi divergences of 1-out-of-t allocation of any randomizer with few outputs, Theorem 4.8 (RA-S12).

        E_Q X^a = a!/t^a [x^a] (sum_c m_c/c! x^c)^t,   m_c = E_Q (P/Q)^c,

    which equals the paper's sum over integer partitions. Remove direction, whole orders 2..A. Upper bound: exact, the
    rounding of (a - 1) R_a booked, which is absolute: some 1e-14 a log(1/p), p the least of the probabilities.

    Args:
      with_record, without: float [n], the laws P and Q of one step, each of sum 1.
      num_steps: t, whole number >= 1.
      max_order: A, whole number >= 2.

    Returns:
      float64 [A - 1], nats: orders 2, .., A; inf where P has what Q has not.

    Raises:
      ValueError: if an argument is out of range, or the laws differ in length.

    >>> from jaxacct.papers import random_allocation
    >>> found = random_allocation.discrete_remove_rdp([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], num_steps=6, max_order=4)
    >>> [round(float(r), 6) for r in found]
    [0.099845, 0.142871, 0.181849]
    """
    p, q = law("with_record", with_record), law("without", without)
    if p.shape != q.shape:
        raise ValueError(f"with_record has {len(p)} values and without {len(q)}: they must be as many")
    steps, top = whole("num_steps", num_steps), whole("max_order", max_order, least=2)
    return plain(_general(steps, *discrete_log_moments(p, q, top), num_bits=steps.bit_length()))
