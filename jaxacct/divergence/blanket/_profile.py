"""Upper bounds on the privacy profile of one round of shuffled reports, by the blanket that all reports share.

docs/papers/blanket.md, BL-1 and BL-2. With n users who each join independently with probability q,

    delta(epsilon) <= E(S)_+ / n + q E (mu_x - c mu_x')_+ (where nothing is common),    c = e^epsilon,

where S is the sum of n independent terms. A term is L with probability q gamma, that of a report from the blanket;
1 - c with probability 1 - q, that of not joining; and 0 otherwise.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.divergence.batches._positive_sum import positive_sum
from jaxacct.divergence.batches._powers import Atoms, AtomSteps
from jaxacct.divergence.batches._profile import falling_root
from jaxacct.special import LEAST_NORMAL, ULP, bisect

# These affect cost and tightness only.
_CUT = 1e-6  # share of delta that may be left out
_LEAST_CUT = 1e-160  # so that densities are normal doubles where they count (docs/numerics/clones.md)
_SHARES, _GAIN = (1.0, 0.3, 0.1), 0.5  # shares of the drift at which values are cut; share of delta this may cost
LARGEST = 250.0  # nats, of an epsilon
_NEAR = 1e-4  # of log delta, within which a root is near enough
_LITTLE = 1e-6  # standard deviations: a guess below it is 0
_HALVINGS = 40  # of the range of epsilon
_TRIED = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)  # epsilons tried where none is known to suffice
_LARGE = 0.1  # a delta above this may exceed that at smaller epsilons, where values of L are far apart
_SMALLER = (0.03125, 0.0625, 0.125, *_TRIED)  # epsilons that are tried then


class ReportLaw(Protocol):
    """The law of L of one report from the blanket, for two data of its sender."""

    def at(self, epsilon: float) -> StepLaw:
        """The law of L at `epsilon` >= 0."""


class Round(NamedTuple):
    """One round of reports.

    Attributes:
      law_for: a function of `cut` that returns the largest law of L in the convex order, of which about `cut` may be
        left out; None where none is known.
      num_users: n.
      prob: q, rounded up.
      beyond: the probability that the round is not of this kind.
    """

    law_for: Callable[[float], ReportLaw | None]
    num_users: float
    prob: float = 1.0
    beyond: float = 0.0

    def law(self, goal: float) -> ReportLaw | None:
        """The law of L, of which at most a small share of the delta `goal` is left out."""
        return self.law_for(max(_CUT * goal, _LEAST_CUT))


def round_delta(run: Round, epsilon: float, goal: float) -> float:
    """A float in (0, 1], an upper bound on delta at `epsilon` >= 0: a small share of `goal` is left out, and added."""
    law = run.law(goal) if epsilon < LARGEST else None
    return 1.0 if law is None else _delta(run, law, epsilon, goal)


def _delta(run: Round, law: ReportLaw, epsilon: float, goal: float) -> float:
    step, n, q = law.at(epsilon), run.num_users, run.prob
    value, mass, least = step.value, step.mass, step.least_mass
    if q < 1.0:
        idle = (1.0 - q) * (1.0 + 2.0 * ULP)  # q is rounded up: a smaller one is post-processing
        value = np.append(value, -math.expm1(epsilon) * (1.0 - 8.0 * ULP))
        mass = np.append(q * mass, idle) * (1.0 + 2.0 * ULP)
        least = min((q * least + (1.0 - q)) * (1.0 - 4.0 * ULP), 1.0)

    def mean_positive(most: float) -> float:
        steps = AtomSteps(Atoms(np.minimum(value, most), mass), least, n, 1.0, 1.0)
        return positive_sum(Atoms(np.zeros(1), np.ones(1)), steps, math.log(goal * n)) / n

    def beyond(most: float) -> float:
        return float((mass * np.maximum(value - most, 0.0)).sum()) * (1.0 + 2.0**-40)

    # (x + y)_+ <= x_+ + y_+: values are cut where that may be a gain, and the missing part is added
    found = min(mean_positive(math.inf), beyond(0.0))
    for share in _SHARES:
        most = share * n * math.expm1(epsilon)
        lost = beyond(most)
        if lost > _GAIN * found or found <= goal:
            break
        if 0.0 < most < float(value.max()):
            found = min(found, mean_positive(most) + lost)
    return min(1.0, max((found + q * step.cut + run.beyond) * (1.0 + 16.0 * ULP), LEAST_NORMAL))  # it may underflow


def round_delta_alone(run: Round, epsilon: float) -> float:
    """A float, `round_delta` without a given goal: the part left out is small relative to the answer.

    A large answer is capped at the values found at smaller epsilons.
    """
    found = _alone(run, epsilon)
    return min([found, *(_alone(run, e) for e in _SMALLER if e < epsilon and found > _LARGE)])


def _alone(run: Round, epsilon: float) -> float:
    """`round_delta` with a goal that is small relative to it."""
    goal = 1e-4
    while True:
        found = round_delta(run, epsilon, goal)
        if found > goal or goal < 1e-270:  # with itself as the goal it may be less
            return min(found, round_delta(run, epsilon, found)) if found > 0.0 else found
        goal = 1e-4 * max(found, 1e-280)


def alone_epsilon(law_for: Callable[[float], ReportLaw | None], goal: float) -> float:
    """A float, an epsilon at which one unshuffled report has a delta of at most `goal`; inf where none is known."""
    law = law_for(max(_CUT * goal, _LEAST_CUT))

    def holds(epsilon: float) -> bool:
        step = law.at(epsilon) if law is not None else StepLaw(np.ones(1), np.ones(1), 1.0, 1.0)
        return float((step.mass * np.maximum(step.value, 0.0)).sum()) * (1.0 + 2.0**-40) + step.cut <= goal

    return bisect(holds, LARGEST, 0.0, num_steps=_HALVINGS) if holds(LARGEST) else math.inf


def round_epsilon(run: Round, goal: float, high: float) -> float:
    """A float, an epsilon in [0, `high`] where `round_delta` is at most `goal`, near the least; `high` if none is.

    Args:
      high: an epsilon that is known to suffice; inf for none.
    """
    law = run.law(goal)
    if law is None:
        return high
    known: dict[float, float] = {}

    def profile(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = _delta(run, law, epsilon, goal) if epsilon < LARGEST else 1.0
        return known[epsilon]

    most = high
    if goal > _LARGE:
        most = next((e for e in _SMALLER if e < high and _alone(run, e) <= goal), high)
    elif not high < LARGEST:
        most = next((e for e in _TRIED if profile(e) <= goal), high)
    step = law.at(0.0)
    # to begin with; 0 where outputs have nothing in common
    spread = max(math.sqrt(run.prob * float((step.mass * np.square(step.value)).sum()) / run.num_users), 1e-300)
    return min(_root(profile, goal, spread, most), high) if most < LARGEST else high


def _root(profile: Callable[[float], float], goal: float, spread: float, most: float) -> float:
    """An epsilon in [0, `most`] where delta is at most `goal`.

    The search treats S/n as normal, at first with standard deviation `spread`, then with the one fitted to the deltas
    found.
    """
    start = min(_normal_epsilon(spread, goal), 0.5 * most)
    if start < _LITTLE * spread:
        start = 0.0
        if profile(start) <= goal:
            return start
    at_start = math.log(max(profile(start), 1e-300))
    least = math.log(spread) - 10.0
    log_spread = bisect(lambda x: x + _log_gain(start / math.exp(x)) >= at_start, 8.0, least, num_steps=40)
    guess = _normal_epsilon(math.exp(log_spread), goal * (1.0 - 0.5 * _NEAR))
    return falling_root(profile, goal, guess, most, start=start, near=_NEAR).upper


def _normal_epsilon(spread: float, goal: float) -> float:
    """Approximate epsilon >= 0 at which a normal law of standard deviation `spread` has E(x - epsilon)_+ = `goal`."""
    wanted = math.log(goal) - math.log(spread)
    return spread * bisect(lambda z: _log_gain(z) <= wanted, 60.0, 0.0, num_steps=50)


def _log_gain(z: float) -> float:
    """Approximate log E(x - z)_+ of a standard normal law, z >= 0."""
    density = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    if z > 6.0:
        return density - math.log(z * z + 3.0)
    return math.log(math.exp(density) - 0.5 * z * math.erfc(z * math.sqrt(0.5)))
