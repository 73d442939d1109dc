"""One Poisson-sampled Gaussian step, in closed form: its likelihood ratio is monotone, so the best test is a threshold.

With Y the likelihood ratio of the Gaussian pair, R = 1 - q + q Y that of the step, and H_k the hockey-stick divergence
of the Gaussian pair at k,

    remove:  E_Q[(R - e^eps)_+] = q H_k,     k = 1 + (e^eps - 1) / q,
    add:     E_Q[(1 - e^eps R)_+] = c H_k,   k = e^eps q / c,   c = 1 - e^eps (1 - q); 0 where c <= 0.

The first is Balle, Barthe & Gaboardi 2018, Theorem 2 ("advanced joint convexity") with equality.
"""

import math

from jaxacct._precision import float64_kernel
from jaxacct._types import Direction, Ends
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.divergence.gaussian._sampled_step import SampledStep
from jaxacct.special import bisect, down, first_doubling, product_outward, up

_gaussian_log_delta = float64_kernel()(gaussian_log_delta)
_MOST_EPSILON = 600.0  # nats: e^eps is formed up to here; beyond, nothing is said
_NUM_HALVINGS = 60  # of a bracket of epsilon, which keep its safe end


def _gaussian(log_threshold: float, mu: float, *, is_upper: bool) -> float:
    """H_k of the Gaussian pair at log k >= 0, rounded up or down.

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


def one_step_delta(step: SampledStep, epsilon: float) -> Ends[float]:
    """Two floats, the certified lower and upper end of delta of one `step` at `epsilon` >= 0; see the module.

    >>> from jaxacct import Direction
    >>> from jaxacct.divergence.gaussian._one_sampled_step import one_step_delta
    >>> from jaxacct.divergence.gaussian._sampled_step import SampledStep
    >>> round(one_step_delta(SampledStep(1.0, 0.2, Direction.ADD), 0.2).upper, 9)
    0.000201958
    """
    q, mu = step.sampling_prob, 1.0 / step.noise_multiplier
    if epsilon > _MOST_EPSILON:
        return Ends(0.0, 1.0)
    grown = math.expm1(epsilon)
    if step.direction is Direction.REMOVE:
        log_threshold = math.log1p(grown / q)
        return Ends(
            down(q * _gaussian(log_threshold, mu, is_upper=False), 8),
            product_outward(q, _gaussian(log_threshold, mu, is_upper=True), up=True),
        )
    # c, which increases delta, with the rounding of its two terms
    kept, error = q - grown * (1.0 - q), 2.0**-50 * (q + grown)
    ends = []
    for sign in (-1.0, 1.0):
        c = kept + sign * error
        if c <= 0.0:
            ends.append(0.0)
            continue
        log_threshold = max(math.log((1.0 + grown) * q / c), 0.0)
        ends.append(product_outward(c, _gaussian(log_threshold, mu, is_upper=sign > 0.0), up=sign > 0.0))
    return Ends(*ends)


def one_step_epsilon(step: SampledStep, delta: float) -> Ends[float]:
    """Two floats, the certified lower and upper end of epsilon at `delta` in (0, 1): `one_step_delta` bisected."""

    def fits(epsilon: float) -> bool:
        return one_step_delta(step, epsilon).upper <= delta

    def holds(epsilon: float) -> bool:
        return one_step_delta(step, epsilon).lower >= delta

    if fits(0.0):
        return Ends(0.0, 0.0)
    upper = first_doubling(fits, limit=_MOST_EPSILON).upper
    if math.isinf(upper):
        return Ends(0.0, math.inf)
    upper = bisect(fits, upper, 0.0, num_steps=_NUM_HALVINGS)
    return Ends(bisect(holds, 0.0, upper, num_steps=_NUM_HALVINGS), upper)
