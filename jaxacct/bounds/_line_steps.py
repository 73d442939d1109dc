"""The complex moments of Gaussian and Laplace steps, Poisson-sampled or not, along one line for each of many questions.

Shapes: [L] lanes, one question each; [R] different steps of one kind (`_line_questions.Sampled`); [A] orders;
[H] heights; [B] nodes of a line.
"""

from typing import Any

import numpy as np

from jaxacct.bounds._line_answers import added_up, at_nodes, roundings
from jaxacct.bounds._line_choice import Choice
from jaxacct.bounds._line_questions import Questions
from jaxacct.divergence._inversion import LineMoments
from jaxacct.divergence._laplace_step import LaplaceSteps
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.gaussian._sampled_step import SampledSteps
from jaxacct.special import down, up

_DIGITS = 37.0  # minus the log of what the rules behind all steps' moments may leave out: any value is valid
_MOST_LONG = 2**14  # most nodes of a line shared with rounds of allocation


class _Kind:
    """The steps of one kind."""

    def __init__(self, steps: Any, lane: Any, times: Real, num: int):
        self.steps, self.lane, self.times, self._num = steps, lane, times, num
        self.rule: Any = None
        self.moments: Any = None

    def total(self, of: Any) -> Any:
        """The sum [L, ..] of `of` [R, ..] over the steps of each lane, each multiplied by its number of runs."""
        return added_up(of, self.lane, self.times, self._num)

    def least(self, of: Real) -> Real:
        """The least [L] of `of` [R] over the steps of each lane; inf where a lane has no such steps."""
        out = np.full(self._num, np.inf)
        np.minimum.at(out, self.lane, of)
        return out

    def at(self, lanes: Any) -> "_Kind":
        """The steps of some lanes, with their rules."""
        place = np.full(self._num, -1)
        place[lanes] = np.arange(len(lanes))
        own = place[self.lane]
        kept = np.flatnonzero(own >= 0)
        some = _Kind(self.steps.at(kept), own[kept], self.times[kept], len(lanes))
        if self.rule is not None:
            some.rule, some.moments = self.rule.at(kept), self.moments[kept]
        return some


class Steps:
    """All steps of the questions."""

    most_nodes = _MOST_LONG

    def __init__(self, of: Questions):
        self.families, self.dropped = np.zeros(0, int), np.zeros(len(of.target))
        self._variance = of.variance
        gaussian, laplace, num = of.sampled, of.laplace, len(of.target)
        self._kinds: list[_Kind] = []
        if len(gaussian.lane):
            own: Any = SampledSteps(gaussian.noise_multiplier, gaussian.prob, of.adds[gaussian.lane])
            self._kinds.append(_Kind(own, gaussian.lane, gaussian.times, num))
        if len(laplace.lane):
            own = LaplaceSteps(1.0 / laplace.noise_multiplier, laplace.prob, of.adds[laplace.lane])
            self._kinds.append(_Kind(own, laplace.lane, laplace.times, num))
        self._kinds_of_lanes()

    def _kinds_of_lanes(self) -> None:
        count = np.zeros(len(self._variance))
        for kind in self._kinds:
            count = count + kind.total(np.ones(len(kind.lane)))
        self._tolerance = -_DIGITS - np.log1p(count)

    def at(self, lanes: Any) -> "Steps":
        """The steps of some lanes, as prepared so far."""
        if len(lanes) == len(self._variance) and np.all(lanes == np.arange(len(lanes))):
            return self
        some = object.__new__(Steps)
        some.families, some.dropped, some._variance = self.families, self.dropped[lanes], self._variance[lanes]
        some._kinds = [kind for kind in (kind.at(lanes) for kind in self._kinds) if len(kind.lane)]
        some._tolerance = self._tolerance[lanes]
        return some

    def _sum(self, first: Real, of: Any) -> Real:
        return sum((kind.total(of(kind)) for kind in self._kinds), first)

    def _least(self, of: Any) -> Real:
        every = np.full(len(self._variance), np.inf)
        for kind in self._kinds:
            every = np.minimum(every, kind.least(of(kind.steps)))
        return every

    # Estimates, by which lines are compared; nothing here is certified

    @property
    def falls(self) -> Real:
        """Approximate variance [L] of the loss of all steps of a lane together."""
        return self._sum(self._variance, lambda kind: kind.steps.variance)

    @property
    def largest_order(self) -> Real:
        """Approximately the largest order [L] at which the moments are of use."""
        return self._least(lambda steps: steps.largest_order)

    @property
    def highest(self) -> Real:
        """Approximately the height [L] up to which the moments can be computed; inf for any height."""
        return self._least(lambda steps: steps.highest)

    def guess(self, orders: Real) -> Real:
        """Approximate log moments [L, A] of all steps of a lane at `orders` [L, A]."""
        own = 0.5 * orders * (orders - 1.0) * self._variance[:, None]
        return self._sum(own, lambda kind: kind.steps.rough(orders[kind.lane]))

    real = guess

    def modulus(self, orders: Real, heights: Real) -> Real:
        """Approximate log |M(a + ib)| [L, A, H] at `orders` [L, A] and `heights` [L, H]."""
        half, a, b = 0.5 * self._variance[:, None, None], orders[:, :, None], heights[:, None, :]
        own = (a * (a - 1.0) - b * b) * half
        return self._sum(own, lambda kind: kind.steps.rough_modulus(orders[kind.lane], heights[kind.lane]))

    # Certified moments and bounds

    def take(self, orders: Real, heights: Real) -> None:
        """Prepares for lines at the first of `orders` [L, J], up to `heights` [L], and for moments at all `orders`."""
        for kind in self._kinds:
            each = np.repeat(np.arange(len(kind.lane)), orders.shape[1])
            steps, tolerance = kind.steps.at(each), self._tolerance[kind.lane[each]]
            rule = steps.rule(orders[kind.lane].ravel(), tolerance, heights[kind.lane[each]])
            kind.moments = steps.real_moment(rule).reshape(-1, orders.shape[1])
            kind.rule = rule.at(slice(None, None, orders.shape[1]))

    def _roundings(self) -> Any:
        """The error [L, 1] of sums over all steps of a lane, in ULP, plus two."""
        every = np.concatenate([np.arange(len(self._variance)), *(kind.lane for kind in self._kinds)])
        return roundings(every, len(self._variance))[:, None]

    def moments(self, orders: Real) -> Real:
        """An upper bound on log M [L, J] of all steps of a lane together, at the `orders` [L, J] given to `take`."""
        own = up(0.5 * orders * (orders - 1.0) * self._variance[:, None], 16)
        return up(self._sum(own, lambda kind: kind.moments), self._roundings())

    def fall(self, heights: Real) -> Real:
        """An upper bound on log |M(a + iy) / M(a)| [L, H] of all steps of a lane, y >= `heights` [L, H], increasing."""
        own = -down(0.5 * heights * heights * self._variance[:, None], 16)
        total = self._sum(own, lambda kind: kind.steps.decay(kind.rule, kind.moments[:, 0], heights[kind.lane]))
        return down(total, self._roundings())  # `total` is below 0

    def seen(self, choice: Choice) -> Real:
        """See `jaxacct.bounds._line_parts.Part`: from the certified fall, so that lines are as long as it needs."""
        self.prepare(choice)
        end = choice.step * choice.num_nodes
        return -2.0 * self.fall(end[:, None])[:, 0] / end**2

    def prepare(self, choice: Choice) -> tuple[Any, Any]:
        orders = np.concatenate([choice.order[:, None], choice.aliases], axis=1)
        self.take(orders, choice.step * choice.num_nodes)
        return np.ones(0, bool), choice.num_nodes

    def on(self, choice: Choice, some: Any, fall: Real | None = None) -> LineMoments:
        """`LineMoments` [.., S] of all steps of each of `some` lanes [S]; `fall` [S] is the fall beyond the nodes."""
        of = self.at(some)
        a, count = choice.order[:, None], int(choice.num_nodes.max())
        rows, lanes, times = list[Any](), list[Any](), list[Any]()
        if of._variance.any() or not of._kinds:
            half, b = 0.5 * of._variance[:, None], choice.step[:, None] * np.arange(count)
            # the variance is a sum that was rounded once, of terms that were rounded three times
            modulus, phase = (a * (a - 1.0) - b * b) * half, b * (2.0 * a - 1.0) * half
            rows.append((modulus, phase, 2.0**-49 * (np.abs(modulus) + np.abs(phase) + (a * a + b * b) * half)))
            lanes.append(np.arange(len(a)))
            times.append(np.ones(len(a)))
        ends = choice.step * choice.num_nodes
        for kind in of._kinds:
            rule = kind.steps.for_height(kind.rule, of._tolerance[kind.lane], ends[kind.lane])
            rows.append(kind.steps.moments(rule, choice.step[kind.lane], count))
            lanes.append(kind.lane)
            times.append(kind.times)
        nodes = at_nodes(
            [np.concatenate(x) for x in zip(*rows, strict=True)], np.concatenate(lanes), np.concatenate(times), len(a)
        )
        alias = of.moments(np.concatenate([choice.order[:, None], choice.aliases], axis=1))[:, 1:].T
        rest = of.fall(ends[:, None])[:, 0] if fall is None else fall
        columns: Any = (*(x.T for x in nodes), alias, rest[None])
        return LineMoments(*columns)


def steps_of(of: Questions) -> list[Steps]:
    """A list of the one part that the steps of the questions form; empty where they have none."""
    has_some = of.variance.any() or len(of.sampled.lane) or len(of.laplace.lane)
    return [Steps(of)] if has_some else []
