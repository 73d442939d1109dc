"""Quantiles of the normal distribution, with bounds on their errors."""

from __future__ import annotations

import math

from jaxacct._jax import jax
from jaxacct.special._logspace import log1mexp
from jaxacct.special._namespace import fori_loop, xp
from jaxacct.special._normal import log_normal_tail, mills_ratio
from jaxacct.special._rounding import ULP

_LOG_HALF = math.log(0.5)
# The hazard rate h = 1/Mills' ratio is the slope of -log(1 - Phi). It rises, and is at least max(z, h(-0.15)) > max(z,
# 0.7) at z >= -0.15. So a quantile whose log tail is off by r < 0.1 is itself off by r/0.7 < 0.15, hence by less than
# r / max(z - 0.15, 0.7).
_LARGEST_RESIDUAL, _BACK, _LEAST_SLOPE = 0.1, 0.15, 0.7


def normal_upper_quantile(log_p: jax.Array, slack: jax.Array | float = 0.0) -> tuple[jax.Array, jax.Array]:
    """Floats z with P[N > z] = exp(log_p), and a bound on the error of each, of the shape of `log_p`.

    By Newton's method. The bound is computed from the tail at z, whatever the iteration did: it is inf where the
    iteration did not converge, and at log_p = -inf and 0. Elsewhere it is about 33 ULP max(1, |z|).

    Args:
      log_p: at most 0.
      slack: a bound on the error of `log_p` itself.
    """
    far = log_p < _LOG_HALF
    # the smaller of the two tails: P[N > z], or P[N > -z] = 1 - p, whose logarithm is off by slack p / (1 - p)
    other = xp.minimum(log1mexp(xp.minimum(log_p, 0.0)), _LOG_HALF)
    log_tail = xp.where(far, log_p, other)
    off = xp.where(far, slack, 19.0 * ULP * (1.0 + xp.abs(other)) + 1.1 * slack * xp.exp(log_p - other))
    size = -2.0 * log_tail
    start = xp.sqrt(xp.maximum(size - xp.log(1.0 + 2.0 * math.pi * size), 0.01))

    def step(_: jax.Array, z: jax.Array) -> jax.Array:
        return xp.maximum(z + (log_normal_tail(z) - log_tail) * mills_ratio(z), 0.0)

    z = fori_loop(0, 8, step, start)
    # the tail's exponential errs by 32 (1 + z^2) ULP, hence its logarithm by 33; the sums here by less than four more
    residual = xp.abs(log_normal_tail(z) - log_tail) + off + 37.0 * ULP * (1.0 + z * z)
    error = residual / xp.maximum(z - _BACK, _LEAST_SLOPE) * (1.0 + 8.0 * ULP)
    return xp.where(far, z, -z), xp.where(residual < _LARGEST_RESIDUAL, error, xp.inf)
