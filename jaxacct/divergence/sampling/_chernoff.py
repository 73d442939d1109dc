"""An upper confidence bound on the expectation of bounded values from the mean of their samples."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct.special import bisect_lanes


def chernoff_upper_confidence(mean: Any, num_samples: int, error_prob: float, scale: Any = 1.0) -> NDArray[Any]:
    """Chernoff-KL bound on the expectation of values in [0, scale] from the mean of N independent ones (RA-S19).

    scale * max{p: N kl(mean/scale || p) <= log(1/error_prob)}, kl(q || p) = q log(q/p) + (1-q) log((1-q)/(1-p)):
    exceeded by the expectation with probability at most `error_prob` (Bernoulli values are extremal). It is found by
    bisection of p - q, whose upper end is returned: within 1e-9 relative, and from above.

    >>> from jaxacct.estimation import chernoff_upper_confidence
    >>> round(float(chernoff_upper_confidence(0.001, 500_000, 0.01)), 10)
    0.0011418502
    """
    scale = np.asarray(scale, np.float64)
    q = np.clip(
        np.divide(mean, scale, out=np.zeros(np.broadcast_shapes(np.shape(mean), scale.shape)), where=scale > 0), 0, 1
    )
    allowed = math.log(1.0 / error_prob) / num_samples
    most = np.minimum(math.sqrt(2.0 * allowed) * np.sqrt(q) + 2.0 * allowed, 1.0 - q)

    def outside(gap: NDArray[Any]) -> NDArray[Any]:
        kl = -np.where(q > 0, q * np.log1p(gap / q), 0.0) - np.where(q < 1, (1 - q) * np.log1p(-gap / (1 - q)), 0.0)
        return ~(kl <= allowed)

    with np.errstate(divide="ignore", invalid="ignore"):
        gap = bisect_lanes(outside, most, np.zeros_like(q), num_steps=120)
    return scale * np.minimum(q + gap, 1.0)
