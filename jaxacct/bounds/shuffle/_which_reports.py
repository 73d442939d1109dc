"""Which pure reports replace Gaussian ones: the local epsilon at which the answer is the least, on the host.

A report of local epsilon l costs more delta the smaller l is, and hides less the larger it is (`_approximate`); every l
is certified, so that what is here steers tightness and time only. First a guess, by the Gaussian limit of the clones
pair, over many l at once; then a search near it by certified answers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxacct.divergence.gaussian._pair import gaussian_log_delta, rough_gaussian_epsilon
from jaxacct.special import softplus

Real = np.ndarray[Any, np.dtype[np.float64]]

# Local epsilons that are guessed about, over twice the inverse of the noise multiplier: how many standard deviations of
# the noise a report is cut at. From where nearly all of it is cut to where what is cut is no double.
_DEVIATIONS = np.geomspace(0.05, 40.0, 300)
_LARGEST = 30.0  # local epsilon beyond which reports hide nothing
_MOVES = 8  # of five points at most, with one width
_FIVE = np.arange(-2.0, 3.0)
_WIDTHS = (0.1, 0.02, 0.004)  # between local epsilons, of their logarithms, one after the other
_PASSES = 5  # for the delta that replacing leaves, which depends on epsilon


class GaussianRun(NamedTuple):
    """Floats: users, probability that one reports, noise multiplier, and rounds."""

    num_users: float
    prob: float
    noise_multiplier: float
    rounds: float


class Guess(NamedTuple):
    """Local epsilons, and about the answers at them, each [G]; inf where replacing costs too much."""

    local_epsilon: Real
    answer: Real

    @property
    def best(self) -> tuple[float, float]:
        """(local epsilon, about its answer) of the least."""
        i = int(np.argmin(self.answer))
        return float(self.local_epsilon[i]), float(self.answer[i])


def _local_epsilons(run: GaussianRun) -> Real:
    every = 2.0 / run.noise_multiplier * _DEVIATIONS
    return np.minimum(every, _LARGEST)


def _pure_and_cost(run: GaussianRun, local: Real) -> tuple[Real, Real]:
    """(mu of all rounds of pure reports in the Gaussian limit, log K), each [G]."""
    mean = max(run.num_users * run.prob, 1.0)
    clones = mean * np.exp(-local)
    one_over = -np.expm1(-clones) / np.maximum(clones, 1e-300)
    mu = 2.0 * run.prob * np.tanh(0.5 * local) * np.sqrt(one_over * run.rounds)
    single: Any = gaussian_log_delta(_lanes(0.5 * local), _lanes(np.full_like(local, 1.0 / run.noise_multiplier)))
    return mu, single + np.log(max(run.num_users * run.prob, 1e-300) * run.rounds)


def _pure_log_delta(run: GaussianRun, local: Real, mu: Real, epsilon: float) -> Real:
    at: Any = np.full_like(local, epsilon)
    lanes: Any = mu
    most = run.rounds * np.log1p(run.prob * np.expm1(local))
    return np.where(most <= epsilon, -np.inf, gaussian_log_delta(at, lanes))


def _lanes(x: Real) -> Any:
    return x


def guess_epsilon(run: GaussianRun, log_delta: float) -> Guess:
    """About the epsilons at `log_delta`, by local epsilon."""
    with np.errstate(all="ignore"):
        local = _local_epsilons(run)
        mu, log_cost = _pure_and_cost(run, local)
        most = run.rounds * np.log1p(run.prob * np.expm1(local))
        left = np.full_like(local, log_delta)
        epsilon = np.zeros_like(local)
        for _ in range(_PASSES):
            rough: Any = rough_gaussian_epsilon(_lanes(left), _lanes(mu))
            epsilon = np.minimum(np.where(np.isnan(rough), most, rough), most)
            share: Any = softplus(_lanes(epsilon)) + log_cost - log_delta
            left = np.where(share < 0.0, log_delta + np.log1p(-np.exp(np.minimum(share, 0.0))), np.nan)
            epsilon = np.where(np.isnan(left), np.inf, epsilon)
            left = np.where(np.isnan(left), log_delta, left)
        return Guess(local, epsilon)


def guess_log_delta(run: GaussianRun, epsilon: float) -> Guess:
    """About the log deltas at `epsilon`, by local epsilon; inf where delta is 1."""
    with np.errstate(all="ignore"):
        local = _local_epsilons(run)
        mu, log_cost = _pure_and_cost(run, local)
        total = np.logaddexp(_pure_log_delta(run, local, mu, epsilon), np.logaddexp(0.0, epsilon) + log_cost)
        return Guess(local, np.where(total < 0.0, total, np.inf))


# From local epsilons [G] and one epsilon to (log delta, its slope in epsilon), each [G].
Total = Callable[[Real, float], tuple[Real, Real]]


def total_of(run: GaussianRun) -> Total:
    """What is guessed about log delta, the cost of replacing included."""

    def total(local: Real, epsilon: float) -> tuple[Real, Real]:
        with np.errstate(all="ignore"):
            mu, log_cost = _pure_and_cost(run, local)
            log_pure = _pure_log_delta(run, local, mu, epsilon)
            value = np.logaddexp(log_pure, np.logaddexp(0.0, epsilon) + log_cost)
            x = epsilon / mu + 0.5 * mu
            log_tail = -0.5 * x * x - np.log(1.25 * (x + np.sqrt(x * x + 3.0)))
            return value, np.exp(epsilon + log_cost - value) - np.exp(np.minimum(epsilon + log_tail - value, 700.0))

    return total


def near_least_epsilon(total: Total, guess: tuple[float, float], log_delta: float) -> tuple[float, float]:
    """(local epsilon, epsilon) about where `total` first reaches `log_delta`, from a guess of both.

    Where it is the least at the epsilon so far, and Newton's step for epsilon there, in turn.
    """
    local, epsilon = guess
    for width in _WIDTHS:
        local = least_by_parabola(lambda x, at=epsilon: total(x, at)[0], local, (width,))
        value, slope = (float(v[0]) for v in total(np.array([local]), epsilon))
        if slope < 0.0:
            epsilon = max(epsilon - (value - log_delta) / slope, 0.0)
    return local, epsilon


def near_least_log_delta(total: Total, local: float, epsilon: float) -> float:
    """The local epsilon near `local` about where `total` is the least at `epsilon`."""
    return least_by_parabola(lambda x: total(x, epsilon)[0], local, _WIDTHS)


def least_by_parabola(value: Callable[[Real], Real], at: float, widths: tuple[float, ...]) -> float:
    """About where `value`, of many x at once, [G] to [G], is the least near `at` > 0, in log x.

    At five x a width apart, moved until the least of them is inside, and then by the parabola through three; with one
    width after the other.
    """
    for width in widths:
        for _ in range(_MOVES):
            x = at * np.exp(width * _FIVE)
            found = value(x)
            found = np.where(np.isnan(found), np.inf, found)
            i = int(np.argmin(found))
            at = float(x[i])
            if 0 < i < 4:
                left, middle, right = (float(v) for v in found[i - 1 : i + 2])
                curvature = left - 2.0 * middle + right
                if np.isfinite(curvature) and curvature > 0.0:
                    at *= float(np.exp(0.5 * width * (left - right) / curvature))
                break
            if not np.isfinite(found[i]):
                break
    return at
