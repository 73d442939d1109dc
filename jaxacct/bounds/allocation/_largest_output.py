"""A lower bound on the privacy loss of random allocation from one test: was any output large?

Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024, "Balls-and-bins sampling for DP-SGD",
as Feldman & Shenfeld 2025 compare with it (Figure 2).
"""

import math

import numpy as np

from jaxacct._precision import float64_kernel
from jaxacct._types import Direction
from jaxacct._validate import check_delta, check_epsilon
from jaxacct.bounds.poisson._profile import concrete_base, runs_of
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.special import bisect, down, first_doubling, log_normal_tail

# Any threshold C gives a valid bound: these steer tightness and running time only.
_NUM_THRESHOLDS = 512  # thresholds tried at a time
_NUM_ZOOMS = 4  # times, each between the neighbours of the best threshold before
_LOWEST, _HIGHEST = -6.0, 38.0  # thresholds over sigma, before 1/sigma is added to the larger
_NUM_BISECTIONS = 60  # halvings of a bracket of epsilon, which keep its safe end
_MAX_EPSILON = 700.0  # nats: delta beyond is answered by 0

_log_tail = float64_kernel()(log_normal_tail)


def largest_output_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """float: delta at `epsilon`, lower bound in one direction, from the events {max_i y_i >= C} and their complements:

        remove:  sup_C P(max >= C) - e^eps Q(max >= C),    add:  sup_C Q(max < C) - e^eps P(max < C),
        Q(max < C) = Phi(C/sigma)^N,    P(max < C) = Phi((C-1)/sigma)^{kE} Phi(C/sigma)^{N - kE},    N = tE.

    Chua et al. 2024, Theorem 4.2 (RA-S20). Any event gives a lower bound, for each epsilon >= 0, 1 <= k <= t and E (the
    maximum over all epochs; exact in the paper for k = E = 1). Gaussian noise; 0 for other releases. Near exact where
    one output gives the record away, loose for large sigma. Rounded down: both probabilities from sums of log Phi,
    their errors and those of the thresholds taken off.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._largest_output import largest_output_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(0.5), num_steps=10_000)
    >>> round(largest_output_delta(run, 3.0, ja.Direction.REMOVE) * 1e8, 3)  # exact: 5.11573e-8
    5.115
    """
    check_epsilon("epsilon", epsilon)
    runs_of(mechanism)  # concrete, or an error
    base = concrete_base(mechanism)
    if base.signature() != (Gaussian,) or epsilon > _MAX_EPSILON:
        return 0.0
    epochs, used = int(mechanism.num_epochs), int(mechanism.num_selected) * int(mechanism.num_epochs)
    total = int(mechanism.num_steps) * epochs
    mu, factor = 1.0 / base.noise_multiplier, float(np.exp(epsilon)) * (1.0 + 2.0**-50 * (2.0 + epsilon))
    low, high, best = _LOWEST, _HIGHEST + mu, 0.0
    for _ in range(_NUM_ZOOMS):
        z = np.linspace(low, high, _NUM_THRESHOLDS)
        ends = np.stack([z, z - mu])
        tails = _log_tail(np.stack([-ends, ends]))  # log Phi, log (1 - Phi)
        log_phi = tails[0]
        # of a log Phi: the function, and the threshold's own rounding times the density's growth
        error = 2.0**-50 * (8.0 + (np.abs(z) + mu) ** 2)
        log_q = total * log_phi[0]
        log_p = used * log_phi[1] + (total - used) * log_phi[0]
        if direction is Direction.REMOVE:
            gain = -np.expm1(log_p) * (1.0 - error) + factor * np.expm1(log_q) * (1.0 + error)
        else:
            gain = np.exp(log_q * (1.0 + error)) - factor * np.exp(log_p * (1.0 - error))
            gain -= 2.0**-50 * (np.exp(log_q) + factor * np.exp(log_p))
        at = int(np.argmax(gain))
        best = max(best, float(gain[at]))
        low, high = float(z[max(at - 2, 0)]), float(z[min(at + 2, _NUM_THRESHOLDS - 1)])
    return down(best, 8)


def largest_output_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    """float: epsilon at `delta`, lower bound in one direction: one at which `largest_output_delta` is above `delta`.

    The largest found; no epsilon at which the mechanism's delta is more than `delta` can be enough.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._largest_output import largest_output_epsilon
    >>> run = ja.RandomAllocation(ja.Gaussian(0.75), num_steps=10_000)
    >>> round(largest_output_epsilon(run, 1e-10, ja.Direction.REMOVE), 2)
    0.6
    """
    check_delta("delta", delta)

    def above(epsilon: float) -> bool:
        return largest_output_delta(mechanism, epsilon, direction) > delta

    if not above(0.0):
        return 0.0
    low, high = first_doubling(lambda epsilon: not above(epsilon), limit=_MAX_EPSILON)
    return bisect(above, low, high, num_steps=_NUM_BISECTIONS) if high < math.inf else low
