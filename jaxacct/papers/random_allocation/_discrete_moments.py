"""BOUND, from above: allocation of any randomizer with few outputs, from moments of its likelihood ratio (RA-S12).

Feldman & Shenfeld 2025, "Privacy amplification by random allocation", Theorem 4.8. Add/remove adjacency.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.divergence.kernels import general_rdp
from jaxacct.papers._asking import Floats, law, plain, whole
from jaxacct.special import ULP, log_sum_outward


def discrete_log_moments(p: NDArray[Any], q: NDArray[Any], max_order: int) -> NDArray[Any]:
    """log E_q[(p/q)^c] for c = 0..max_order, rounded up and at least 0, float64 [max_order + 1], on the host.

    A term's logarithm c log p + (1 - c) log q cancels: it errs by 4 ULP of each logarithm, a product and the sum. By
    Jensen's inequality no such moment of two laws is below 1.

    Args:
      p, q: float64 [n], probabilities. Where q is 0 and p is not, moments above the first are inf.
      max_order: int >= 1.
    """
    seen = (p > 0) | (q > 0)
    p, q = p[seen, None], q[seen, None]
    orders = np.arange(max_order + 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_p = np.where(orders == 0.0, 0.0, orders * np.log(p))  # 0^0 = 1: order 0 leaves q, order 1 leaves p
        of_q = np.where(orders == 1.0, 0.0, (1.0 - orders) * np.log(q))
        terms = of_p + of_q
        raised = terms + 8.0 * ULP * (np.abs(of_p) + np.abs(of_q))
        terms = np.where(np.isfinite(terms), raised, terms)
        return np.maximum(log_sum_outward(terms, float(p.size), upward=True), 0.0)


@Kernel
def _general(num_steps: jax.Array, *log_moments: jax.Array, num_bits: int) -> jax.Array:
    return general_rdp(jnp.stack(log_moments), num_steps, num_bits=num_bits)


def discrete_remove_rdp(with_record: ArrayLike, without: ArrayLike, *, num_steps: int, max_order: int) -> Floats:
    """Renyi divergences of 1-out-of-t allocation of any randomizer with few outputs, Theorem 4.8 (RA-S12).

        E_Q X^a = a!/t^a [x^a] (sum_c m_c/c! x^c)^t,   m_c = E_Q (P/Q)^c,

    which equals the paper's sum over integer partitions. Remove direction, whole orders 2..A. Upper bound: the exact
    value and the rounding error of (a - 1) R_a, absolute, some 1e-14 a log(1/p) with p the least of the probabilities.

    Args:
      with_record, without: float [n], the laws P and Q of one step, each of sum 1.
      num_steps: t, whole number >= 1.
      max_order: A, whole number >= 2.

    Returns:
      float64 [A - 1], nats: orders 2, .., A; inf where an outcome is possible under P only.

    Raises:
      ValueError: if an argument is out of range, or the laws differ in length.

    >>> from jaxacct.papers import random_allocation
    >>> found = random_allocation.discrete_remove_rdp([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], num_steps=6, max_order=4)
    >>> [round(float(r), 6) for r in found]
    [0.099845, 0.142871, 0.181849]
    """
    p, q = law("with_record", with_record), law("without", without)
    if p.shape != q.shape:
        raise ValueError(f"with_record has {len(p)} values and without {len(q)}: they must have the same length")
    steps, top = whole("num_steps", num_steps), whole("max_order", max_order, least=2)
    return plain(_general(steps, *discrete_log_moments(p, q, top), num_bits=steps.bit_length()))
