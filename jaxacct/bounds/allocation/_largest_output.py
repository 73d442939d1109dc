"""A lower bound on the privacy loss of random allocation from one test: was any output large?

Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024, "Balls-and-bins sampling for DP-SGD",
as Feldman & Shenfeld 2025 compare with it (Figure 2).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._precision import float64_kernel
from jaxacct._types import Direction
from jaxacct._validate import check_delta, check_epsilon
from jaxacct.bounds.poisson._profile import concrete_base, runs_of
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.special import bisect, down, first_doubling, log_normal_tail

# Any threshold C gives a valid bound: these affect tightness and running time only.
_NUM_THRESHOLDS = 512  # thresholds tried at a time
_NUM_ZOOMS = 4  # rounds, each between the neighbours of the best threshold of the round before
_LOWEST, _HIGHEST = -6.0, 38.0  # thresholds over sigma; 1/sigma is added to the larger
_NUM_BISECTIONS = 60  # halvings of a bracket of epsilon, which keep its safe end
_MAX_EPSILON = 700.0  # nats: at larger epsilons the answer is 0

_log_tail = float64_kernel(lane_bytes=2**10, on_host=_NUM_THRESHOLDS * 6)(log_normal_tail)


def largest_output_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """float: delta at `epsilon`, lower bound in one direction, from the events {max_i y_i >= C} and their complements:

        remove:  sup_C P(max >= C) - e^eps Q(max >= C),    add:  sup_C Q(max < C) - e^eps P(max < C),
        Q(max < C) = Phi(C/sigma)^N,    P(max < C) = Phi((C-1)/sigma)^{kE} Phi(C/sigma)^{N - kE},    N = tE.

    Chua et al. 2024, Balls-and-Bins Sampling for DP-SGD (RA-S20). Any event gives a lower bound, for each epsilon >= 0,
    1 <= k <= t and E (the maximum over all epochs; the paper has k = E = 1). Gaussian noise; 0 for other releases.
    Nearly exact where one output gives the record away, loose for large sigma. Rounded down: both probabilities come
    from sums of log Phi, and their errors and those of the thresholds are taken off.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._largest_output import largest_output_delta
    >>> run = ja.RandomAllocation(ja.Gaussian(0.5), num_steps=10_000)
    >>> round(largest_output_delta(run, 3.0, ja.Direction.REMOVE) * 1e8, 3)  # exact: 5.11573e-8
    5.115
    """
    check_epsilon("epsilon", epsilon)
    run = _run_of(mechanism)
    return 0.0 if run is None else delta_of(run, epsilon, direction)


def delta_of(run: "Outputs", epsilon: float, direction: Direction) -> float:
    """float: delta at `epsilon`, lower bound in one direction, of `Outputs`: see `largest_output_delta`."""
    if epsilon > _MAX_EPSILON:
        return 0.0
    low, high, best = _LOWEST, _HIGHEST + run.mu, 0.0
    for _ in range(_NUM_ZOOMS):
        tests = tests_of(run, low, high)
        gain = tests.gain(epsilon, direction)
        at = int(np.argmax(gain))
        best = max(best, float(gain[at]))
        low, high = tests.around(at)
    return down(best, 8)


class Outputs(NamedTuple):
    """Outputs of which some hold the record, each normal with standard deviation 1.

    Attributes:
      mu: the mean of an output that holds the record, when the record is there; > 0.
      total: the number of outputs; those that do not hold the record have mean 0.
      used: the number of outputs that hold the record.
      before: the mean of an output that would hold the record, when the record is not there; in [0, mu).
    """

    mu: float
    total: int
    used: int
    before: float = 0.0


class _Tests(NamedTuple):
    """The events {max_i y_i < C} of `total` outputs, C = sigma z: log Q and log P of them, and their relative error."""

    total: int
    z: NDArray[Any]
    log_q: NDArray[Any]
    log_p: NDArray[Any]
    error: NDArray[Any]

    def gain(self, epsilon: float, direction: Direction) -> NDArray[Any]:
        """A lower bound on delta at `epsilon` from each test."""
        if direction is Direction.REMOVE:
            factor = float(np.exp(epsilon)) * (1.0 + 2.0**-50 * (2.0 + epsilon))
            # a tail that underflows may be 2^-1022 short, for each of the outputs
            lost = factor * self.total * 2.0**-1021
            gain = -np.expm1(self.log_p) * (1.0 - self.error) - lost
            return gain + factor * np.expm1(self.log_q) * (1.0 + self.error)
        # P alone may underflow where e^eps P does not; what a double loses below 2^-1022 is taken off
        kept = np.exp(self.log_q * (1.0 + self.error))
        exponent = self.log_p * (1.0 - self.error) + epsilon
        with np.errstate(over="ignore"):  # infinite: such a test shows nothing
            lost = np.exp(exponent) * (1.0 + 2.0**-50 * (2.0 + np.abs(self.log_p) + epsilon))
        return kept - lost - 2.0**-50 * (kept + lost) - 2.0**-1021

    def around(self, at: int) -> tuple[float, float]:
        """Thresholds between which the best one lies, if it is near the one with index `at`."""
        return float(self.z[max(at - 2, 0)]), float(self.z[min(at + 2, len(self.z) - 1)])


def _run_of(mechanism: RandomAllocation) -> Outputs | None:
    """The mechanism's `Outputs`; None if its release is not Gaussian. ValueError if its fields are not concrete."""
    runs_of(mechanism)
    base = concrete_base(mechanism)
    if base.signature() != (Gaussian,):
        return None
    epochs, used = int(mechanism.num_epochs), int(mechanism.num_selected) * int(mechanism.num_epochs)
    return Outputs(1.0 / base.noise_multiplier, int(mechanism.num_steps) * epochs, used)


def tests_of(run: Outputs, low: float, high: float) -> "_Tests":
    """NamedTuple: the tests at `_NUM_THRESHOLDS` thresholds from `low` to `high`, over sigma."""
    z = np.linspace(low, high, _NUM_THRESHOLDS)
    ends = np.stack([z, z - run.mu, z - run.before])
    log_phi = _log_tail(np.stack([-ends, ends]))[0]  # log Phi
    # the error of a log Phi: the function's, and the threshold's own rounding times the density's growth
    error = 2.0**-50 * (8.0 + (np.abs(z) + run.mu) ** 2)
    others = (run.total - run.used) * log_phi[0]
    log_q, log_p = run.used * log_phi[2] + others, run.used * log_phi[1] + others
    return _Tests(run.total, z, log_q, log_p, error)


def largest_output_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    """float: epsilon at `delta`, lower bound in one direction: one at which `largest_output_delta` is above `delta`.

    It is the largest found: an epsilon at which the mechanism's delta is more than `delta` is too small.

    >>> import jaxacct as ja
    >>> from jaxacct.bounds.allocation._largest_output import largest_output_epsilon
    >>> run = ja.RandomAllocation(ja.Gaussian(0.75), num_steps=10_000)
    >>> round(largest_output_epsilon(run, 1e-10, ja.Direction.REMOVE), 2)
    0.6
    """
    check_delta("delta", delta)
    run = _run_of(mechanism)
    return 0.0 if run is None else epsilon_of(run, delta, direction)


def epsilon_of(run: Outputs, delta: float, direction: Direction) -> float:
    """float: epsilon at `delta`, lower bound in one direction, of `Outputs`: see `largest_output_epsilon`."""
    low, high, best = _LOWEST, _HIGHEST + run.mu, 0.0
    for _ in range(_NUM_ZOOMS):  # at the same few tests for every epsilon, then at those around the best of them
        tests = tests_of(run, low, high)

        def above(epsilon: float, tests: _Tests = tests) -> bool:
            return down(float(tests.gain(epsilon, direction).max()), 8) > delta

        if not above(best):
            break
        _, end = first_doubling(lambda epsilon: not above(epsilon), limit=_MAX_EPSILON)
        best = bisect(above, best, min(max(end, best), _MAX_EPSILON), num_steps=_NUM_BISECTIONS)
        low, high = tests.around(int(np.argmax(tests.gain(best, direction))))
    return best
