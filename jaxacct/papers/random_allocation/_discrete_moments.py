"""NOT A BOUND: moments of likelihood ratios on a finite set, on the host, for Theorem 4.8 (RA-S12)."""

import numpy as np


def discrete_log_moments(p: np.ndarray, q: np.ndarray, max_order: int) -> np.ndarray:
    """log E_q[(p/q)^c] for c = 0..max_order, float64 [max_order + 1], on the host.

    Args:
      p, q: float64 [n], probabilities. Where q is 0 and p is not, moments above the first are inf.
      max_order: int >= 1.
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    seen = (p > 0) | (q > 0)
    p, q = p[seen], q[seen]
    orders = np.arange(max_order + 1.0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = orders * np.log(p) + (1.0 - orders) * np.log(q)
    # 0^0 = 1: order 0 leaves q, order 1 leaves p
    with np.errstate(divide="ignore"):
        terms[0], terms[1] = np.log(q), np.log(p)
        terms[2:, p == 0] = -np.inf
        top = terms.max(axis=1, keepdims=True)
        finite = np.where(np.isfinite(top), top, 0.0)
        return np.log(np.exp(terms - finite).sum(axis=1)) + finite[:, 0]
