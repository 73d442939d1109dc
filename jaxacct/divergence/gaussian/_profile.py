"""The hockey-stick divergence of the Gaussian pair, rounded up or down."""

import math

from jaxacct._precision import float64_kernel
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.special import down, up

_gaussian_log_delta = float64_kernel(on_host=True)(gaussian_log_delta)


def gaussian_profile(log_threshold: float, mu: float, *, is_upper: bool) -> float:
    """float: H_k of the Gaussian pair at log k >= 0, rounded up or down.

    log k and mu may be off by 2^-48 relative, which is moved to the safe side. The kernel rounds up by
    2^-50 (64 + |x| (|x| + mu + log k / mu)), at least what it errs by: twice as much is taken off for the lower end.
    """
    sign = -1.0 if is_upper else 1.0
    log_threshold, mu = log_threshold * (1.0 + sign * 2.0**-48), mu * (1.0 - sign * 2.0**-50)
    log_delta = float(_gaussian_log_delta(log_threshold, mu))
    if is_upper:
        return min(math.nextafter(up(math.exp(log_delta), 8), 1.0), 1.0)  # a subnormal number too
    x = abs(log_threshold / mu - 0.5 * mu)
    return down(math.exp(log_delta - 2.0**-48 * (64.0 + x * (x + mu + log_threshold / mu))), 8)
