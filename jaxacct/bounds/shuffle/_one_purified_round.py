"""One round of shuffled Gaussian reports, one concrete question on the host: the least bound over all local epsilons.

Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8): pure reports of any local epsilon l take
the place of Gaussian ones, and delta(epsilon) <= D_l(epsilon) + (1 + e^epsilon) K(l) for every l. First the l is sought
at which that sum is least near the answer, then the root of the sum at this l. The sum is evaluated at the answer,
which is therefore valid wherever the search ends.
"""

import math
from typing import Any

import numpy as np

from jaxacct.bounds.shuffle._approximate import (
    LogGuarantee,
    log_gaussian_replacement_cost,
    pure_profile,
    total_log_delta,
    with_replacement_cost,
)
from jaxacct.bounds.shuffle._which_reports import (
    GaussianRun,
    Real,
    climbed,
    guess_epsilon,
    guess_log_delta,
    near_least_epsilon,
    near_least_log_delta,
)
from jaxacct.divergence.clones._profile import window_for

_AIM = 2e-11  # in log delta: the root is sought this far below the target, and accepted up to five times as far below
_CLOSE = 1e-10  # relative width at which the bracket of a root is no longer narrowed
_STEPS = 40  # of the search for a root: where it ends, the least certified point so far is the answer
_STEEPER = 4.0  # a slope is assumed to grow by no more than this within the bracket of a root that may not exist
_ABOUT = np.array([0.998, 0.9995, 1.0, 1.0005, 1.002])  # factors of the local epsilon that are tried last, for delta
_NO_GAIN = 0.995  # from this guess on, over the least epsilon at which the pure delta is 0, the latter is the answer


class _Round:
    """One round: what is known of it at some local epsilons and epsilons, [G] and [G]."""

    def __init__(self, run: GaussianRun):
        self._run = run

    def _lanes(self, local: Real) -> tuple[Any, Any, Any]:
        """(num_reports, local epsilon, log cost), each [G]."""
        n: Any = np.full_like(local, self._run.num_users)
        mu: Any = np.full_like(local, 1.0 / self._run.noise_multiplier)
        at: Any = local
        return n, at, log_gaussian_replacement_cost(n, at, mu, np.ones_like(n))

    def log_delta(self, local: Real, epsilon: float) -> tuple[Real, Real]:
        """(log delta, rounded up, its slope in epsilon), each [G]."""
        at: Any = np.full_like(local, epsilon)
        profile = pure_profile(window=window_for(self._run.num_users, np.exp(-local)))
        found: Any = total_log_delta(profile, *self._lanes(local), at)
        return found

    def unamplified(self, local: Real, log_delta: float) -> float:
        """The least of `local` [G] that is an epsilon at `log_delta`, as the pure delta is 0 there; inf if none is."""
        _, epsilon, log_cost = self._lanes(local)
        pure: Any = np.full_like(local, -math.inf)
        cost = with_replacement_cost(LogGuarantee(epsilon, pure), log_cost).log_delta
        return float(np.min(np.where(np.asarray(cost) <= log_delta, local, math.inf)))

    def epsilon(self, local: float, start: float, log_delta: float, known: float) -> float:
        """The epsilon at `log_delta` of one local epsilon, rounded up; inf if none below `known` is found.

        Newton's steps inside a bracket: log delta falls and then may rise, so the root is sought where it falls.
        """
        at = np.array([local])
        low, high, best = 0.0, min(local, known), math.inf
        falling = rising = None  # (residual, slope) at the ends of the bracket, where they are known
        x = min(max(start, 0.0), high)
        for _ in range(_STEPS):
            value, slope = (float(v[0]) for v in self.log_delta(at, x))
            residual = value - log_delta
            if residual <= 0.0:
                best = min(best, x)
                if residual >= -5.0 * _AIM or x == 0.0:
                    break
            if residual > 0.0 and slope < 0.0:
                low, falling = x, (residual, slope)
            else:
                high, rising = x, (residual, slope)
            if high - low <= _CLOSE * high or (best == math.inf and _stays_above(falling, rising, high - low)):
                break
            ahead = x - (residual + _AIM) / slope if slope < 0.0 else math.nan
            x = ahead if low < ahead < high else 0.5 * (low + high)
        return best


def _stays_above(falling: tuple[float, float] | None, rising: tuple[float, float] | None, width: float) -> bool:
    """Whether a function is likely to have no root between a point where it falls and one `width` further on.

    Even with `_STEEPER` times the slope at either it would not come down to 0. The second point may be unknown.
    """
    if falling is None:
        return False
    (residual, slope), (other, back) = falling, rising or (math.inf, 0.0)
    reach = residual / -slope / _STEEPER  # how far it stays above 0 at least, from either end
    return reach + (other / back / _STEEPER if back > 0.0 else 0.0) >= width


def one_round_epsilon(num_reports: float, noise_multiplier: float, log_delta: float) -> float:
    """float: epsilon of one round, rounded up, the least found over the local epsilons of pure reports.

    Feldman, McMillan & Talwar 2021, Lemma 3.7 (corrected) and Theorem 3.8 (CL-S8). Upper bound, replace-one adjacency;
    inf where no local epsilon gives one.
    """
    run = GaussianRun(num_reports, 1.0, noise_multiplier, 1.0)
    guess = guess_epsilon(run, log_delta)
    if not log_delta < 0.0:
        return math.inf
    of = _Round(run)
    found = of.unamplified(guess.local_epsilon, log_delta)
    if not guess.best[1] < _NO_GAIN * found:
        return found
    local, epsilon = near_least_epsilon(of.log_delta, guess.best, log_delta)
    amplified = of.epsilon(local, epsilon, log_delta, found)
    if amplified == math.inf:
        amplified = climbed(lambda higher: of.epsilon(higher, epsilon, log_delta, found), guess.best[0])
    return min(found, amplified)


def one_round_log_delta(num_reports: float, noise_multiplier: float, epsilon: float) -> float:
    """float: log delta of one round, rounded up, the least found over the local epsilons of pure reports.

    Upper bound, as `one_round_epsilon`.
    """
    run = GaussianRun(num_reports, 1.0, noise_multiplier, 1.0)
    local, rough = guess_log_delta(run, epsilon).best
    if rough >= 0.0:
        return 0.0
    of = _Round(run)
    local = near_least_log_delta(of.log_delta, local, epsilon)
    return float(np.min(of.log_delta(local * _ABOUT, epsilon)[0]))
