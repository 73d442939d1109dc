"""BOUND, from above: moments of likelihood ratios on a finite set, on the host, for Theorem 4.8 (RA-S12)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
