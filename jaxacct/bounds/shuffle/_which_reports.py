"""The choice of the pure reports that replace Gaussian ones: the local epsilon with the least answer, on the host.

Pure reports of local epsilon l cost more delta the smaller l is (`_approximate`), and reveal more the larger it is.
Every l is certified, so this module affects tightness and time only. First comes a guess, by the Gaussian limit of the
clones pair, at many l at once; then a search near it, by the same guess or by certified values.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.gaussian._pair import gaussian_log_delta, rough_gaussian_epsilon
from jaxacct.mechanisms import CheckIn, Shuffled
from jaxacct.special import softplus

Real = np.ndarray[Any, np.dtype[np.float64]]
# From local epsilons [G] and one epsilon to (log delta, its slope in epsilon), each [G].
Total = Callable[[Real, float], tuple[Real, Real]]

# Local epsilons of the guess, in units of 2 / noise_multiplier: the number of standard deviations of the noise at which
# a report is cut. They range from where nearly all of it is cut off to where what is cut off underflows.
_DEVIATIONS = np.geomspace(0.05, 40.0, 300)
_LARGEST = 30.0  # local epsilon beyond which reports hide nothing
_PASSES = 5  # for the delta that replacing leaves, which depends on epsilon
_WIDTHS = (0.1, 0.02, 0.004, 0.0008)  # spacings of the logarithms of local epsilons, used in turn
_MOVES = 8  # most moves of the five points, with one width
_FIVE = np.arange(-2.0, 3.0)
# Where a guess was too small for its cost: factors by which it grows, in turn.
_RUNGS = (1.005, 1.01, 1.02, 1.04, 1.08, 1.15, 1.25, 1.4, 1.6, 2.0)
_STRETCHES, _HALVINGS = 6.0, 20  # the largest |logarithm| of the factor, and the number of halvings of its range


class GaussianRun(NamedTuple):
    """Floats: users, probability that one reports, noise multiplier, and rounds.

    Attributes:
      stretch: factor of the mu of pure reports in the Gaussian limit, which fits the guess to what was found.
    """

    num_users: float
    prob: float
    noise_multiplier: float
    rounds: float
    stretch: float = 1.0


_USERS: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    Shuffled: lambda mechanism: (mechanism.num_reports, 1.0),
    CheckIn: lambda mechanism: (mechanism.num_users, mechanism.check_in_prob * (1.0 - mechanism.dropout_prob)),
}


def run_of(mechanism: Shuffled | CheckIn) -> GaussianRun:
    """The floats that describe a concrete mechanism, whose fields are numbers or arrays of one."""
    users, prob = _USERS[type(mechanism)](mechanism)
    fields = users, prob, mechanism.mechanism.noise_multiplier, mechanism.num_epochs
    return GaussianRun(*(float(np.ravel(x)[0]) for x in fields))


class Guess(NamedTuple):
    """Local epsilons, and approximate answers at them, each [G]; inf where replacing costs too much."""

    local_epsilon: Real
    answer: Real

    @property
    def best(self) -> tuple[float, float]:
        """(local epsilon, approximate answer) where the answer is the least."""
        i = int(np.argmin(self.answer))
        return float(self.local_epsilon[i]), float(self.answer[i])


def _local_epsilons(run: GaussianRun) -> Real:
    return np.minimum(2.0 / run.noise_multiplier * _DEVIATIONS, _LARGEST)


def _limit(run: GaussianRun, local: Any) -> tuple[Any, Any]:
    """(mu of all rounds of pure reports in the Gaussian limit, log K), each [G]."""
    mean = max(run.num_users * run.prob, 1.0)
    clones = mean * np.exp(-local)
    one_over = -np.expm1(-clones) / np.maximum(clones, 1e-300)
    mu = 2.0 * run.stretch * run.prob * np.tanh(0.5 * local) * np.sqrt(one_over * run.rounds)
    noise: Any = np.full_like(local, 1.0 / run.noise_multiplier)
    single = gaussian_log_delta(0.5 * local, noise)
    return mu, single + np.log(max(run.num_users * run.prob, 1e-300) * run.rounds)


def guess_epsilon(run: GaussianRun, log_delta: float) -> Guess:
    """A `Guess` (arrays [G]) of epsilon at `log_delta` for each local epsilon; not certified."""
    with np.errstate(all="ignore"):
        local = _local_epsilons(run)
        (mu, log_cost), most = _limit(run, local), run.rounds * local
        left: Any = np.full_like(local, log_delta)
        epsilon: Any = np.zeros_like(local)
        for _ in range(_PASSES):
            rough = rough_gaussian_epsilon(left, mu)
            epsilon = np.minimum(np.where(np.isnan(rough), most, rough), most)
            share = softplus(epsilon) + log_cost - log_delta
            payable = share < 0.0
            left = np.where(payable, log_delta + np.log1p(-np.exp(np.minimum(share, 0.0))), log_delta)
            epsilon = np.where(payable, epsilon, np.inf)
        return Guess(local, epsilon)


def guess_log_delta(run: GaussianRun, epsilon: float) -> Guess:
    """A `Guess` (arrays [G]) of log delta at `epsilon` for each local epsilon, inf where delta is 1; not certified."""
    local = _local_epsilons(run)
    value, _ = total_of(run)(local, epsilon)
    return Guess(local, np.where(value < 0.0, value, np.inf))


def total_of(run: GaussianRun) -> Total:
    """The function [G] that guesses log delta, with the cost of replacing."""

    def total(local: Real, epsilon: float) -> tuple[Real, Real]:
        with np.errstate(all="ignore"):
            mu, log_cost = _limit(run, local)
            at: Any = np.full_like(local, epsilon)
            log_pure = np.where(run.rounds * local <= epsilon, -np.inf, gaussian_log_delta(at, mu))
            value = np.logaddexp(log_pure, np.logaddexp(0.0, epsilon) + log_cost)
            x = epsilon / mu + 0.5 * mu
            log_tail = -0.5 * x * x - np.log(1.25 * (x + np.sqrt(x * x + 3.0)))
            return value, np.exp(epsilon + log_cost - value) - np.exp(np.minimum(epsilon + log_tail - value, 700.0))

    return total


def stretched(run: GaussianRun, local: float, epsilon: float, log_pure: float) -> GaussianRun:
    """A tuple: `run` with the stretch that makes its guess of the log delta of pure reports equal to `log_pure`."""
    low, high = -_STRETCHES, _STRETCHES
    at: Any = np.array([epsilon])
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        with np.errstate(all="ignore"):
            mu, _ = _limit(run._replace(stretch=math.exp(middle)), np.array([local]))
            is_above = float(gaussian_log_delta(at, mu)[0]) > log_pure
        low, high = (low, middle) if is_above else (middle, high)
    return run._replace(stretch=math.exp(0.5 * (low + high)))


def near_least_epsilon(total: Total, guess: tuple[float, float], log_delta: float) -> tuple[float, float]:
    """(local epsilon, epsilon), floats near where `total` first reaches `log_delta`, from a guess of both.

    In turn: the local epsilon at which `total` is the least at the epsilon so far, and Newton's step for epsilon there.
    """
    local, epsilon = guess
    for width in _WIDTHS:
        local = _least(total, local, epsilon, width)
        value, slope = (float(v[0]) for v in total(np.array([local]), epsilon))
        if slope < 0.0:
            epsilon = max(epsilon - (value - log_delta) / slope, 0.0)
    return local, epsilon


def near_least_log_delta(total: Total, local: float, epsilon: float) -> float:
    """float: approximately the local epsilon near `local` at which `total` is the least at `epsilon`."""
    for width in _WIDTHS:
        local = _least(total, local, epsilon, width)
    return local


def _least(total: Total, local: float, epsilon: float, width: float) -> float:
    """Where `total` is the least: five points `width` apart move until it is inside, then a parabola through three."""
    for _ in range(_MOVES):
        at = np.minimum(local * np.exp(width * _FIVE), _LARGEST)
        value = total(at, epsilon)[0]
        value = np.where(np.isnan(value), np.inf, value)
        i = int(np.argmin(value))
        local = float(at[i])
        if 0 < i < len(_FIVE) - 1:
            left, middle, right = (float(v) for v in value[i - 1 : i + 2])
            curvature = left - 2.0 * middle + right
            bends = math.isfinite(curvature) and curvature > 0.0
            return local * math.exp(0.5 * width * (left - right) / curvature) if bends else local
    return local


def best_for_epsilon(run: GaussianRun, log_delta: float) -> float:
    """float: approximately the local epsilon at which epsilon is the least."""
    guess = guess_epsilon(run, log_delta).best
    return near_least_epsilon(total_of(run), guess, log_delta)[0] if math.isfinite(guess[1]) else guess[0]


def best_for_log_delta(run: GaussianRun, epsilon: float) -> float:
    """float: approximately the local epsilon at which delta is the least."""
    return near_least_log_delta(total_of(run), guess_log_delta(run, epsilon).best[0], epsilon)


def climbed(answer: Callable[[float], float], local: float) -> float:
    """The least of `answer`, a float, at local epsilons above `local`, until it rises; inf where none has one."""
    best = math.inf
    for rung in _RUNGS:
        if local * rung > _LARGEST or (found := answer(local * rung)) > best:
            break
        best = found
    return best
