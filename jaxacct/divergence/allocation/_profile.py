"""The privacy profile of 1-out-of-t random allocation with Gaussian noise, one epoch: exact, certified on both sides.

With X the average of t i.i.d. likelihood ratios under Q (Feldman & Shenfeld 2025, Theorem 3.1 and Lemma F.1),

    remove: delta = E(X - e^eps)_+,        add: delta = e^eps E(e^-eps - X)_+.

After n < t steps of the epoch the ratio is 1 + (1/t) sum_{j<=n} (Y_j - 1): the same sums with fewer terms, equal to
(n/t) delta_n(log(1 + (t/n)(e^eps - 1))) with delta_n the remove profile of 1-out-of-n, and likewise to
(1 - e^eps (1 - n/t)) delta_n(-log(1 - (t/n)(1 - e^-eps))), or 0 where this argument is not defined, for add.

The sums and the bounds on their errors are in `jaxacct.divergence.allocation._lines`; no error is estimated from the
computed numbers. Where a bound is not tight the interval is wide, at worst [0, 1] for delta and [0, inf] for epsilon.
"""

import math

import numpy as np

from jaxacct._types import Direction, Ends
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._lines import BoundedValue, Trapezoids
from jaxacct.divergence.allocation._plans import Remove, plan_add, plan_remove, prefix, saddles
from jaxacct.special import ULP, rows_times

# The range of noise multipliers covered; outside it the bounds are trivial. With less noise the grids would be long;
# with more, W differs from 0 by no more than rounding.
_LEAST_NOISE, _MOST_NOISE = 0.08, 1e3
_MOST_STEPS = 2.0**40  # steps of an epoch
# These affect speed and tightness only: every bound is certified whatever their values.
_MAX_PLANS = 4  # sets of lines planned for one epsilon
_MAX_NEWTON = 40  # Newton steps on one set of lines
_SETTLED = 3.0  # in log delta: lines planned this close to the root are as tight at the root, up to a small factor
_MOST_LOG = 709.7  # log of t e^epsilon, remove direction: beyond it t e^epsilon overflows, and the bounds are trivial


class AllocationProfile:
    """delta(epsilon) in one direction, for one noise multiplier and length of epoch, as certified `Ends`.

    On the host, for concrete numbers.

    Args:
      noise_multiplier: float > 0; outside [0.08, 1e3] all bounds are trivial, near 0.08 some.
      num_steps: the number of steps t of the epoch; beyond 2^40 all bounds are trivial.
      direction: REMOVE or ADD.
      steps_done: the number of steps n <= t that have been taken; t by default.
    """

    def __init__(
        self,
        noise_multiplier: float,
        num_steps: float,
        direction: Direction,
        steps_done: float | None = None,
    ):
        done = num_steps if steps_done is None else steps_done
        self._valid = _LEAST_NOISE <= noise_multiplier <= _MOST_NOISE and 1 <= done <= num_steps <= _MOST_STEPS
        self._removes = direction is Direction.REMOVE
        self._last = _MOST_LOG - math.log(num_steps) if self._valid and self._removes else math.inf
        if self._valid:
            self._at = prefix(float(noise_multiplier), float(num_steps), float(done))
            with np.errstate(all="ignore"):
                self._guide = None if self._removes else saddles(self._at)
            self._valid = self._guide is None or len(self._guide.c) > 1

    def _planned(self, epsilon: float) -> Trapezoids | Remove:
        """Lines planned for one epsilon >= 0: their bounds hold anywhere and are meant to be tight near it."""
        with np.errstate(all="ignore"):  # what overflows fails closed
            if self._guide is None:
                return plan_remove(self._at, math.expm1(epsilon))
            return plan_add(self._at, self._guide, math.expm1(-epsilon))

    def _evaluated(self, lines: Trapezoids | Remove, epsilon: Real) -> BoundedValue:
        """delta, its derivative in epsilon, and its errors, at each epsilon [J]."""
        with np.errstate(all="ignore"):
            x = np.expm1(epsilon if self._removes else -epsilon)
            found = BoundedValue(*(y[0] for y in lines(x[None])))
            moved = 4.0 * ULP * np.abs(x * found.slope)  # x is rounded
            above, below = found.above + moved, found.below + moved
            if self._removes:
                return BoundedValue(found.value, found.slope * (1.0 + x), above, below)
            scale = np.exp(epsilon)
            rounding = 8.0 * ULP * scale * np.abs(found.value)
            wide = scale * (1.0 + 8.0 * ULP)
            slope = scale * found.value - found.slope
            return BoundedValue(scale * found.value, slope, wide * above + rounding, wide * below + rounding)

    def delta(self, epsilon: Real) -> Ends[Real]:
        """`Ends` [J]: certified bounds on delta at each `epsilon` [J] >= 0, by lines planned for each."""
        epsilon = np.asarray(epsilon, np.float64)
        value, error = np.full(epsilon.shape, 0.5), np.full(epsilon.shape, 0.5)
        for i in np.flatnonzero(self._valid & (epsilon < self._last)):
            found = self._evaluated(self._planned(float(epsilon[i])), epsilon[i : i + 1])
            width = max(found.above[0], found.below[0])
            if math.isfinite(found.value[0]) and width < error[i]:
                value[i], error[i] = found.value[0], width
        return Ends(np.clip(value - error, 0.0, 1.0), np.clip(value + error, 0.0, 1.0))

    def epsilon(self, delta: float) -> Ends[Real]:
        """`Ends` of two scalars: certified bounds on the least epsilon >= 0 with delta(epsilon) <= `delta`."""
        if not self._valid or not 0.0 < delta < 1.0:
            return Ends(np.zeros(()), np.asarray(0.0 if delta >= 1.0 else math.inf))
        guess = self._guess(delta)
        for _ in range(_MAX_PLANS):
            lines = self._planned(guess)
            root, slope, error = self._root(lines, guess, delta)
            moved, guess = abs(slope * (root - guess)) / delta, root
            if moved < _SETTLED and (root > 0.0 or moved == 0.0):
                break
        return self._confirmed(lines, root, 1.25 * error / max(-slope, 1e-300) + 4.0 * ULP * root, delta)

    def _guess(self, delta: float) -> float:
        """Approximate epsilon at `delta`, as a starting point only."""
        target = math.log(delta)
        if self._guide is not None:
            x = np.minimum(self._guide.x, 0.0)
            logs = self._guide.log_value - np.log1p(x)
            order = np.argsort(logs)
            return abs(float(np.log1p(np.interp(target, logs[order], x[order]))))
        # X - 1 as a Gaussian bulk plus a single large term
        at = self._at
        _, w, density = (x[0] for x in at.of.real())
        x = at.spread * np.geomspace(1e-3, max(40.0, float(w[-1]) / (at.t * at.spread)), 96)
        jump = at.n * rows_times(np.maximum(w / at.t - x[:, None], 0.0), density)
        bulk = np.array([at.spread * max(_normal_excess(float(a)), 0.0) for a in x / at.spread])
        logs = np.log(np.maximum(np.minimum(jump, at.spread) + bulk, 1e-300))
        return float(np.log1p(np.exp(np.interp(-target, -logs, np.log(x)))))

    def _root(self, lines: Trapezoids | Remove, start: float, delta: float) -> tuple[float, float, float]:
        """The epsilon >= 0 at which these lines give `delta`, by Newton's method on log delta; its slope and error."""
        x, slope, error = start, 0.0, math.inf
        for _ in range(_MAX_NEWTON):
            found = self._evaluated(lines, np.array([x]))
            value, slope, above, below = (float(y[0]) for y in found)
            error = max(above, below)
            if not (value > 0.0 and slope < 0.0 and math.isfinite(value)):
                return x, min(slope, 0.0), error
            step = value / slope * math.log(value / delta)
            new = max(0.0, x - max(-1.0, min(1.0, step)))
            x, moved = new, abs(new - x)
            if moved <= max(1e-18, 1e-9 * x):  # the remaining error is its square
                break
        return x, slope, error

    def _confirmed(self, lines: Trapezoids | Remove, root: float, step: float, delta: float) -> Ends[Real]:
        """Ends `step` or more from the root: at the lower one delta is certified >= `delta`, at the upper one <= it."""
        lower, upper = 0.0, math.inf
        tries, step = (12, step) if math.isfinite(step) else (1, 0.0)  # without a step: only the root
        for _ in range(tries):
            ends = np.maximum(np.array([root - step, root + step]), 0.0)
            found = self._evaluated(lines, ends)
            if ends[0] == 0.0 and found.value[0] + found.above[0] <= delta:
                return Ends(np.zeros(()), np.zeros(()))
            if lower == 0.0 and found.value[0] - found.below[0] >= delta:
                lower = float(ends[0])
            if math.isinf(upper) and found.value[1] + found.above[1] <= delta:
                upper = float(ends[1])
            if math.isfinite(upper) and (lower > 0.0 or ends[0] == 0.0):
                break
            step *= 2.0
        return Ends(np.asarray(lower), np.asarray(upper))


def _normal_excess(x: float) -> float:
    """E(g - x)_+, g standard normal."""
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) - 0.5 * x * math.erfc(x / math.sqrt(2.0))
