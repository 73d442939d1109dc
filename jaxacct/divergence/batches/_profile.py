"""Upper bounds on the privacy profile of one epoch of a shuffled list that is cut into batches.

docs/papers/shuffled_batches.md, SB-6 and SB-7: a record against the empty one, or against any other one, in any
dimension and with adaptive steps.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._patience import tried
from jaxacct._types import Direction, Ends
from jaxacct.divergence.batches._blanket import MOST_LOSS, BlanketLaw, blanket_law
from jaxacct.divergence.batches._one_step import StepLaw, replaced_step_law, step_law
from jaxacct.divergence.batches._positive_sum import positive_sum
from jaxacct.divergence.batches._powers import Atoms, AtomSteps
from jaxacct.divergence.batches._replaced import ReplacedLaw, replaced_law
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.special import LEAST_NORMAL, ULP

# These affect cost and tightness only.
_CUT = 1e-6  # share of delta that may be left out
_LEAST_CUT = 1e-160  # so that products of two densities are normal doubles where they count (docs/numerics/batches.md)
_NEAR = 4e-3  # of log delta, within which a root is near enough
_WIDE = 1e-3  # of epsilon, within which a root that is near enough in delta has to lie too
_FIRST_GOAL = 1e-4  # a delta that is tried where none is given, then the same share of the one found
_CLOSE = 1e-4  # of epsilon: a bracket of this width ends a search
_MOST_STEPS = 24  # of a search
_KNOTS = 8.0  # knots per scale of the loss
_FIRST_KNOTS = 6.0 * _KNOTS  # after these, knots are placed by how fast delta falls
_FALL = 0.5  # natural logarithms between knots in the tail
_MOST_KNOTS = 400  # in all
_MOST_HALVINGS = 8  # of the largest epsilon, down to the one at which the time for one delta is measured
_LARGEST = 250.0  # nats, of an epsilon
_MOST_HALVES = 6  # of an epoch, each half of what is left
_LITTLE = 0.5  # gamma t below which hardly anything is gained
_ROUNDED = 8.0  # ulp for each step, times e^epsilon - 1: a delta up to that may consist of booked rounding errors
_PLACES = 4  # per octave of epsilons, where the least delta is sought
_REST = 4e-3  # share of delta up to which the remaining part is not evaluated


class BatchEpoch(NamedTuple):
    """One epoch, or the part of it that is done, and the question about it.

    Attributes:
      shift: 1 / noise multiplier, rounded up.
      num_batches: t >= 1, of the whole epoch.
      steps_done: s <= t, the number of batches that were released.
      has_hidden: whether some records are in no batch that is ever released: those of the batches to come, or left out.
      goal: approximate delta below which answers are of no use; the part left out is a small share of it.
      replaces: whether the record is replaced by any other one, not by the empty one; then both directions are one.
    """

    shift: float
    num_batches: int
    steps_done: int
    has_hidden: bool
    goal: float
    replaces: bool = False

    @property
    def cut(self) -> float:
        """The amount that may be left out."""
        return max(_CUT * self.goal, _LEAST_CUT)

    @property
    def distance(self) -> float:
        """The distance between the two outputs of a known batch, in standard deviations of the noise."""
        return 2.0 * self.shift if self.replaces else self.shift

    def step(self, epsilon: float, direction: Direction, cut: float) -> StepLaw:
        """The law of one step, of which about `cut` may be left out."""
        if self.replaces:
            return replaced_step_law(self.shift, epsilon, cut)
        return step_law(self.shift, epsilon, direction, cut)


@functools.lru_cache(maxsize=256)
def law_for(shift: float, num_batches: int, cut: float, *, replaces: bool) -> BlanketLaw | ReplacedLaw | None:
    """NamedTuple (or None): the law of one batch."""
    return (replaced_law if replaces else blanket_law)(shift, num_batches, cut)


def epoch_delta(epoch: BatchEpoch, epsilon: float, direction: Direction) -> float:
    """A float in (0, 1], an upper bound on delta at `epsilon` >= 0 of one epoch; never above that of a known batch."""
    at: Any = np.array([epsilon])
    distance: Any = np.array([epoch.distance])
    known = max(float(np.exp(gaussian_log_delta(at, distance))[0]) * (1.0 + 2.0**-40), LEAST_NORMAL)  # it may underflow
    if not (epsilon < _LARGEST and epoch.shift <= MOST_LOSS):
        return min(known, 1.0)
    found = _with_hidden(epoch, epsilon, direction) if epoch.has_hidden else _swapped(epoch, epsilon, direction, known)
    return min(1.0, known, max(found, LEAST_NORMAL))


def _with_hidden(epoch: BatchEpoch, epsilon: float, direction: Direction) -> float:
    """SB-7:  E((1 - s/t) (1 - c) + (L_1 + .. + L_s) / t)_+."""
    batches = float(epoch.num_batches)
    step = epoch.step(epsilon, direction, epoch.cut)
    to_come = -(batches - epoch.steps_done) * math.expm1(epsilon) * (1.0 - 8.0 * ULP)
    steps = AtomSteps(Atoms(step.value, step.mass), step.least_mass, float(epoch.steps_done), 1.0, 1.0)
    found = positive_sum(Atoms(np.array([to_come]), np.ones(1)), steps, math.log(epoch.goal * batches))
    return (found / batches + step.cut) * (1.0 + 8.0 * ULP)


def _swapped(epoch: BatchEpoch, epsilon: float, direction: Direction, known: float) -> float:
    """SB-6, down to half of the batches; it is applied again to the other half, as long as its share matters.

    delta_t <= sum over k < K of (1 - gamma)^k E(D + e^-l (L_1 + .. + L_(t - 1 - k)))_+ / t
               + (1 - gamma)^K (t - K) / t delta_(t - K).
    """
    total, share, batches = 0.0, 1.0, epoch.num_batches
    for _ in range(_MOST_HALVES):
        if batches < 2 or share * known <= _REST * max(total, epoch.goal):
            break
        law = law_for(epoch.shift, batches, epoch.cut, replaces=epoch.replaces)
        if law is None or law.least_mass * batches < _LITTLE:
            break
        halves = (batches + 1) // 2
        now = epoch._replace(num_batches=batches, goal=epoch.goal / share)
        total += share * _first_half(now, law, halves, epsilon, direction)
        share *= (batches - halves) / batches * math.exp(halves * math.log1p(-law.least_mass)) * (1.0 + 2.0**-40)
        batches -= halves
    return (total + share * known) * (1.0 + 2.0**-40)


def _first_half(
    epoch: BatchEpoch, law: BlanketLaw | ReplacedLaw, halves: int, epsilon: float, direction: Direction
) -> float:
    """An upper bound on the sum of SB-6 over k < `halves`."""
    batches, step = float(epoch.num_batches), epoch.step(epsilon, direction, law.cut)
    steps = AtomSteps(Atoms(step.value, step.mass), step.least_mass, batches - 1.0, float(halves), law.least_mass)
    found = positive_sum(law.atoms(epsilon, direction), steps, math.log(max(epoch.goal, 1e-300) * batches))
    return (found / batches + law.cut + step.cut) * (1.0 + 8.0 * ULP)


def epoch_delta_alone(epoch: BatchEpoch, epsilon: float, direction: Direction) -> float:
    """A float, `epoch_delta` without a given goal: the part left out is small relative to the answer."""
    found = _alone(epoch, epsilon, direction)
    if epoch.has_hidden and _may_be_rounding(epoch, epsilon, found):
        found = min(found, _least_place(epoch, epsilon, direction)[0])
    return found


def _may_be_rounding(epoch: BatchEpoch, epsilon: float, delta: float) -> bool:
    """Whether `delta` may consist of booked rounding errors, which grow with the number of steps and with epsilon."""
    return delta <= _ROUNDED * ULP * epoch.steps_done * math.expm1(min(epsilon, 100.0))


def _least_place(epoch: BatchEpoch, epsilon: float, direction: Direction) -> tuple[float, float]:
    """Approximately the least delta at smaller epsilons, where less is booked for rounding, and its epsilon.

    The computed delta falls with epsilon until the booked rounding errors grow. All searches use the same epsilons.
    """

    def place(k: int) -> float:
        return min(2.0 ** (k / _PLACES), epsilon)  # powers are rounded

    delta = functools.lru_cache(lambda k: _alone(epoch, place(k), direction))
    high = math.floor(_PLACES * math.log2(epsilon))
    low = high - 1
    while _may_be_rounding(epoch, place(low), delta(low)):
        low -= 4 * _PLACES
    while high - low > 1:
        middle = (low + high) // 2
        if delta(middle + 1) < delta(middle):
            low = middle
        else:
            high = middle
    return min((delta(k), place(k)) for k in (low, high))


def _alone(epoch: BatchEpoch, epsilon: float, direction: Direction) -> float:
    """`epoch_delta` with a goal that is small relative to it."""
    return _of_any_goal(epoch._replace(goal=_FIRST_GOAL), epsilon, direction)


@functools.lru_cache(maxsize=1024)  # searches for the least place ask the same epsilons again
def _of_any_goal(epoch: BatchEpoch, epsilon: float, direction: Direction) -> float:
    while True:
        found = epoch_delta(epoch, epsilon, direction)
        if found > epoch.goal or epoch.goal < 1e-270:
            return found
        epoch = epoch._replace(goal=_FIRST_GOAL * max(found, 1e-280))


def epoch_epsilon(epoch: BatchEpoch, direction: Direction, high: float) -> float:
    """A float, an epsilon in [0, `high`] where `epoch_delta` is at most the goal, near the least; `high` if none is.

    Args:
      high: an epsilon that is known to suffice.
    """
    # as if the loss were normal, with the variance of all steps
    step = epoch._replace(shift=min(epoch.shift, MOST_LOSS)).step(0.0, direction, epoch.cut)
    spread = math.sqrt(float((step.mass * np.square(step.value)).sum()) * epoch.steps_done) / epoch.num_batches
    guess = spread * (math.sqrt(max(-2.0 * math.log(epoch.goal), 1.0)) + 0.5 * spread)
    if epoch.has_hidden and _may_be_rounding(epoch, high, epoch.goal):
        least, place = _least_place(epoch, high, direction)
        high = place if least <= epoch.goal else high
    return falling_root(lambda e: epoch_delta(epoch, e, direction), epoch.goal, guess, high).upper


def falling_root(
    profile: Callable[[float], float],
    delta: float,
    guess: float,
    high: float,
    *,
    start: float = 0.0,
    near: float = _NEAR,
    from_below: bool = False,
) -> Ends[float]:
    """NamedTuple of floats in [0, `high`], a bracket of the epsilon at which `profile` falls to `delta`.

    At the first end the profile is above `delta`, unless the end is 0; at the second it is at most `delta`, unless the
    end is `high`. The search uses secants of the square root of -log profile, which is nearly straight in the tail,
    kept between the ends of a bracket; the first secant passes through `start` and `guess`. One end is close to the
    root, within `near` in log delta: the second, or the first if `from_below`. The profile itself decides to which end
    a point belongs: square roots and logarithms, which are rounded, only guide the search.
    """

    def height(value: float) -> float:
        return math.sqrt(max(-math.log(max(value, 1e-320)), 0.0))

    fall = -math.log(delta)
    wanted = math.sqrt(fall)
    value = profile(start)
    if value <= delta and start == 0.0:
        return Ends(0.0, 0.0)
    if value > delta and high <= start:  # that `high` suffices is known otherwise
        return Ends(0.0, high)
    low, high = (start, high) if value > delta else (0.0, start)
    before = (start, height(value))
    point = min(guess, 0.9 * high) if value <= delta or guess > start else 0.5 * (low + high)
    for _ in range(_MOST_STEPS):
        value = profile(point)
        now = (point, height(value))
        if value > delta:
            low = point
        else:
            high = point
        is_safe = (value > delta) == from_below
        slope = (now[1] - before[1]) / (now[0] - before[0])
        away = abs(now[1] ** 2 - wanted**2)
        if is_safe and away <= near:  # where delta hardly falls, epsilon may still be far
            near = min(near, 2.0 * max(slope, 0.0) * wanted * _WIDE * point)
        if high - low <= _CLOSE * high or (is_safe and away <= near):
            break
        aim = math.sqrt(max(fall + (-0.5 if from_below else 0.5) * near, 0.0))
        point = now[0] + (aim - now[1]) / slope if slope > 0.0 else 0.5 * (low + high)
        before, margin = now, 0.05 * (high - low)
        least = min(0.02 * margin, 0.05 * near * now[0])  # a step
        if not low + least < point < high - least:
            point = min(max(point, low + margin), high - margin)
    return Ends(low, high)


class Knots(NamedTuple):
    """Upper bounds on a profile [K] at some epsilons [K], from 0 on; the last is meant to be all that is left."""

    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]

    def on_grid(self, step: float) -> NDArray[np.float64]:
        """Bounds at multiples of `step` up to the last knot, on chords in e^epsilon, which lie above the profile."""
        if len(self.epsilon) == 1:
            return np.minimum(self.delta, 1.0)
        grid = step * np.arange(math.ceil(float(self.epsilon[-1]) / step) + 1)
        at = np.clip(np.searchsorted(self.epsilon, grid, side="right") - 1, 0, len(self.epsilon) - 2)
        left, right = self.epsilon[at], self.epsilon[at + 1]
        share = np.clip(np.expm1(grid - left) / np.expm1(right - left), 0.0, 1.0)
        # the rounding of 1 - s is compensated for; beyond the last knot the profile is at most its bound there
        chord = self.delta[at] * (1.0 - share) * (1.0 + 2.0**-40) + self.delta[at + 1] * share * (1.0 + 2.0**-40)
        slack = 2.0**-48 * self.delta[at]  # of the share itself
        return np.minimum(np.where(grid <= right, chord + slack, self.delta[-1]), 1.0)


def knots(profile: Callable[[float], float], goal: float, high: float, finer: float = 1.0) -> Knots:
    """NamedTuple: knots of a profile, so close that their chords add little to its loss, also composed.

    They end about where delta is `goal`.

    Args:
      profile: an upper bound on delta at any epsilon >= 0.
      high: the largest epsilon of a knot, where delta is meant to be at most `goal`.
      finer: how many times closer the first knots are than for a loss with the deviation indicated by delta at 0.
    """
    epsilons, deltas = [0.0], [profile(0.0)]
    closest = max(2.5 * deltas[0], 1e-9 * high) / (
        _KNOTS * finer
    )  # for a normal loss, delta at 0 is .4 of the deviation
    step = closest
    count = min(_MOST_KNOTS, int(_FIRST_KNOTS - math.log(goal) / _FALL))
    last = next((x for x in high * 0.5 ** np.arange(1.0, _MOST_HALVINGS) if profile(float(x)) > goal), 0.0)
    tried(lambda: profile(float(last)), "deltas", count)  # the last knots take the longest, those beyond them no time
    while deltas[-1] > goal and epsilons[-1] < high and len(deltas) < _MOST_KNOTS:
        epsilons.append(min(epsilons[-1] + step, high))
        deltas.append(min(deltas[-1], profile(epsilons[-1])))
        fall = math.log(deltas[-2] / max(deltas[-1], 1e-300)) / (epsilons[-1] - epsilons[-2])
        if epsilons[-1] > _FIRST_KNOTS * closest:
            step = max(closest, min(_FALL / max(fall, 1e-300), 1.5 * step))
    return Knots(np.array(epsilons), np.array(deltas))
