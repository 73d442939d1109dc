"""The terms of a threshold test for Gaussian steps: allocated, Poisson-sampled, or joined by every record.

With W_i = dP_1/dQ_1 of step i and 0 < c < 1, Y_i = 1 - c + c W_i is the likelihood ratio of a step that is sampled with
probability c. The sum of log Y_i over an epoch is symmetric in the steps; under k-out-of-t allocation exactly k of them
have the law P_1, no matter which, so that with M(s) = E_Q[Y^s] and

    M_P(s) = E_Q[W Y^s] = (M(s + 1) - (1 - c) M(s)) / c

the moments of the sum are M(s)^t without the record and M(s)^(t - k) M_P(s)^k with it.
"""

import functools
import operator
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Direction
from jaxacct.divergence._tail import Moments, Nodes, moments_of, of_epoch
from jaxacct.divergence.gaussian._excess import Complex, relative_polar
from jaxacct.divergence.gaussian._line import GaussianStep
from jaxacct.divergence.gaussian._sampled_step import PowerRule, SampledSteps

Real = np.ndarray[Any, np.dtype[np.float64]]


class AllocatedSteps(NamedTuple):
    """One epoch: the record is in `num_selected` of `num_steps` steps; `rate` is c. Fewer steps are selected than run.

    In the remove direction A is the law with the record, T is the sum of log Y_i, and M(x), M(x + 1) are needed; in the
    add direction A is that without it, T is minus the sum, and M(-x), M(-x - 1) are needed: `near` and `far` below.
    """

    noise_multiplier: float
    num_steps: float
    num_selected: float
    rate: float
    direction: Direction

    @property
    def _step(self) -> "SampledLoss":
        return SampledLoss(self.noise_multiplier, self.rate, self.direction)

    def _orders(self, order: Any) -> tuple[Any, Any]:
        """The orders of `near` and `far` in the convention of `SampledSteps`."""
        return (order, order + 1.0) if self.direction is Direction.REMOVE else (order + 1.0, order + 2.0)

    @property
    def variance(self) -> float:
        return self.num_steps * self._step.variance

    @property
    def largest_order(self) -> float:
        return self._step.largest_order - self._orders(0.0)[1]

    @property
    def has_atoms(self) -> bool:
        return False

    @property
    def log_uncertain(self) -> float:
        return 0.0

    def _composed(self, near: Any, far: Any, with_record: Any) -> tuple[Any, Any]:
        """log M of the epoch under A and under B, from the moments of its steps (`of_epoch`)."""
        epoch = self.num_steps, self.num_selected, self.direction
        return of_epoch(near, far, with_record, *epoch, times=operator.mul, plus=operator.add)

    def _excess_with_record(self, near: Any, far: Any) -> Any:
        """M_P - 1 from M - 1 at `near` and `far`."""
        low, high = (near, far) if self.direction is Direction.REMOVE else (far, near)
        return (high - (1.0 - self.rate) * low) / self.rate

    def rough(self, orders: Real) -> tuple[Real, Real]:
        near, far = (self._step.rough(x) for x in self._orders(orders))
        excess = self._excess_with_record(np.expm1(near), np.expm1(far))
        return self._composed(near, far, np.log1p(np.maximum(excess, -1.0)))

    def on_line(self, nodes: Nodes, log_tolerance: float) -> tuple[Moments, Moments]:
        found = self._moments(nodes, log_tolerance)
        near, far, with_record = (moments_of(*relative_polar(total, error)) for total, error in found)
        epoch = self.num_steps, self.num_selected, self.direction
        return of_epoch(near, far, with_record, *epoch, times=Moments.times, plus=Moments.plus)

    def _moments(self, nodes: Nodes, log_tolerance: float) -> list[tuple[Complex, Real]]:
        """M - 1 at `near` and `far` and M_P - 1, [N] each, with a bound on the error of each.

        The division by c magnifies the errors of M, which are no larger than a few units of 2^-52 of c |s| themselves.
        """
        tolerance = log_tolerance + float(np.log(self.rate / self.num_selected))
        every = [self._step.excess(x, nodes.step, nodes.num, tolerance) for x in self._orders(nodes.order)]
        (near, error_near), (far, error_far) = every
        blur = error_near + error_far + 2.0**-50 * (np.abs(near) + np.abs(far))
        return [*every, (self._excess_with_record(near, far), blur / self.rate)]

    def beyond(self, order: float, heights: Real, log_tolerance: float) -> tuple[Real, Real]:
        """Bounds [K] by the decay of M; |M_P| is at most that on the real axis, and at most its formula's bound."""
        tolerance = log_tolerance + float(np.log(self.rate / self.num_selected))
        found = [relative_polar(*x) for x in self._moments(Nodes(order, 0.0, 1, 0.0), log_tolerance)]
        near, far, with_record = (float(modulus[0] + np.log1p(error[0])) for modulus, _, error in found)
        falls = (self._step.decay(x, heights, tolerance) for x in self._orders(order))
        near_falls, far_falls = (top + fall for top, fall in zip((near, far), falls, strict=True))
        low, high = (near_falls, far_falls) if self.direction is Direction.REMOVE else (far_falls, near_falls)
        parts = high, low + np.log1p(-self.rate), np.log(self.rate)
        rounding = 2.0**-50 * (4.0 + np.abs(high) + np.abs(low) + np.abs(parts[2]))
        apart = np.logaddexp(*parts[:2]) - parts[2] + rounding
        return self._composed(near_falls, far_falls, np.minimum(with_record, apart))


class SampledLoss(NamedTuple):
    """One Poisson-sampled step: `SampledSteps` with a single entry."""

    noise_multiplier: float
    sampling_prob: float
    direction: Direction

    @property
    def _steps(self) -> SampledSteps:
        every = (self.noise_multiplier, self.sampling_prob, self.direction is Direction.ADD)
        return SampledSteps(*(np.array([x]) for x in every))

    @property
    def variance(self) -> float:
        return float(self._steps.variance[0])

    @property
    def largest_order(self) -> float:
        return float(self._steps.largest_order[0])

    def rough(self, orders: Real) -> Real:
        return self._steps.rough(orders[None])[0]

    def excess(self, order: float, step: float, num: int, log_tolerance: float) -> tuple[Complex, Real]:
        of, rule = _ruled(self, order, log_tolerance)
        total, error = of.excess(rule, np.array([step]), num)
        return (total.conj() if self.direction is Direction.ADD else total)[0], error[0]

    def decay(self, order: float, heights: Real, log_tolerance: float) -> Real:
        of, rule = _ruled(self, order, log_tolerance)
        return of.decay(rule, of.real_moment(rule), heights[None])[0]


@functools.lru_cache(maxsize=16)
def _ruled(of: SampledLoss, order: float, log_tolerance: float) -> tuple[SampledSteps, PowerRule]:
    """The steps and their rule at an order, shared by moments on a line and by their decay."""
    steps = of._steps
    return steps, steps.rule(np.array([order]), np.array([log_tolerance]))


class LossSteps(NamedTuple):
    """A step whose term is its own loss: one that every record joins, or that each joins with some probability.

    For it E_P[e^{sT}] = E_Q[e^{(s + 1)T}], so that the moments under A at x and under B at x + 1 are the same: those of
    Renyi order x + 1.
    """

    step: SampledLoss | GaussianStep

    @property
    def variance(self) -> float:
        return self.step.variance

    @property
    def largest_order(self) -> float:
        return self.step.largest_order - 1.0

    @property
    def has_atoms(self) -> bool:
        return False

    @property
    def log_uncertain(self) -> float:
        return 0.0

    def rough(self, orders: Real) -> tuple[Real, Real]:
        found = self.step.rough(orders + 1.0)
        return found, found

    def on_line(self, nodes: Nodes, log_tolerance: float) -> tuple[Moments, Moments]:
        order = nodes.order + 1.0
        if isinstance(self.step, SampledLoss):
            found = moments_of(*relative_polar(*self.step.excess(order, nodes.step, nodes.num, log_tolerance)))
        else:
            modulus, phase, error = self.step.moments(order, nodes.step, nodes.num, log_tolerance)
            found = moments_of(modulus, phase, np.expm1(error))
        return found, found

    def beyond(self, order: float, heights: Real, log_tolerance: float) -> tuple[Real, Real]:
        on_axis = self.on_line(Nodes(order, 0.0, 1, 0.0), log_tolerance)[0]
        found = float(on_axis.log_modulus[0] + on_axis.error[0]) + self.step.decay(order + 1.0, heights, log_tolerance)
        return found, found
