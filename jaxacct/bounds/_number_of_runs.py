"""The law of the number of runs of which the best is released: its mean and shape, and what follows for selection.

The number K is truncated negative binomial (Papernot & Steinke 2022, Definition 1): geometric for shape 1, logarithmic
for shape 0. Shape inf stands for Poisson's law, under which K may be 0. With f(x) = E[x^K] and c = gamma / (1 - gamma),

    f'(1 - u) = mean (1 + u / c)^-(1 + shape), for Poisson mean e^(-mean u);
    f(1 - u) = ((gamma + (1 - gamma) u)^-shape - 1) / (gamma^-shape - 1), for Poisson e^(-mean u);
    1 - f(1 - d) = (1 - (1 + d / c)^-shape) / (1 - gamma^shape), for Poisson 1 - e^(-mean d).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.special import bisect_lanes, down, up
from jaxacct.special._namespace import is_jax, stop_gradient, xp

_NUM_HALVINGS = 80  # halvings of a bracket of log(1 / gamma), which keep its safe end
_SHARE_DOWN = 1.0 - 2.0**-44  # rounds a mean number of runs down: expm1, quotients and products, some ten ulp each
_MEAN_BELOW = 1.0 - 2.0**-40  # of the mean, whose rate is below that of the mean, however both were rounded
_SMALLEST = 2.0**-900  # shapes nearer to 0 count as 0: their products with a rate might underflow
_SLACK = 2**15  # ulps: ten roundings of arguments of exponentials and powers, themselves up to 750 ulps each
_LEAST_DENSITY = 2.0**-1000  # no upper bound on a density is less: it might have underflowed


def _mean(rate: jax.Array, shape: float) -> jax.Array:
    """The mean number of runs [L] of the truncated negative binomial law with gamma = e^-rate, rounded down.

    shape (e^rate - 1) / (1 - e^(-shape rate)),   (e^rate - 1) / rate for shape 0
    """
    some = xp.where(rate > 0, rate, 1.0)
    below = some if shape == 0.0 else -xp.expm1(-shape * some) / shape
    return xp.where(rate > 0, xp.expm1(some) / below, 1.0) * _SHARE_DOWN


def log_inverse_gamma(mean_runs: jax.Array | NDArray[Any], shape: float) -> jax.Array:
    """log(1 / gamma) [L], rounded up, of the truncated negative binomial law of a mean >= 1 (Definition 1).

    The mean grows with the rate log(1 / gamma) and with the shape; a bracket of the rate is halved, its upper end kept.
    """
    # at shape 0 the mean is (e^rate - 1) / rate, above e^(rate / 2); at a shape below 0 its logarithm is at least
    # 1 + shape times that
    widest = (2.0 * xp.log(mean_runs) + 8.0) / (1.0 if shape >= 0.0 else 1.0 + shape)
    found = bisect_lanes(lambda rate: _mean(rate, shape) >= mean_runs, widest, 0.0 * widest, num_steps=_NUM_HALVINGS)
    found = stop_gradient(xp.where(_mean(found, shape) >= mean_runs, found, xp.inf))
    if not is_jax(mean_runs):
        return found
    # attach the derivative of the inverse of the mean
    some = xp.where(xp.isfinite(found), found, 1.0)
    slope = stop_gradient(jax.jvp(lambda rate: _mean(rate, shape), (some,), (xp.ones_like(some),))[1])
    return found + (mean_runs - stop_gradient(mean_runs)) / slope


def regular_shape(shape: float) -> float:
    """The shape, 0 where it is too small to compute with: the law is the same to all digits."""
    return 0.0 if abs(shape) < _SMALLEST else shape


@dataclasses.dataclass(frozen=True)
class NumberOfRuns:
    """One law: concrete numbers, on the host. What it returns is rounded towards larger losses."""

    mean: float
    shape: float

    @functools.cached_property
    def _rate(self) -> float:
        """log(1 / gamma), rounded up."""
        return float(log_inverse_gamma(np.array([self.mean]), self.shape)[0])

    @functools.cached_property
    def _rate_below(self) -> float:
        """log(1 / gamma), rounded down."""
        return float(log_inverse_gamma(np.array([self.mean * _MEAN_BELOW]), self.shape)[0])

    @functools.cached_property
    def odds(self) -> Ends[np.float64]:
        """gamma / (1 - gamma), rounded down and up; NumPy's numbers, which may be divided by 0."""
        low, high = (1.0 / np.expm1(np.float64(rate)) for rate in (self._rate, self._rate_below))
        return Ends(down(low, _SLACK), up(high, _SLACK))

    @property
    def is_poisson(self) -> bool:
        """Whether it is Poisson's law."""
        return math.isinf(self.shape)

    def density(self, rank: float) -> Ends[float]:
        """f'(1 - rank), rounded down and up."""
        if self.is_poisson:
            logs = [-self.mean * rank] * 2
        else:
            logs = [-(1.0 + self.shape) * math.log1p(rank / odds) if rank else 0.0 for odds in self.odds]
        low, high = (self.mean * math.exp(log) for log in logs)
        return Ends(down(low, _SLACK), up(max(high, _LEAST_DENSITY), _SLACK))

    def beyond(self, rank: float) -> float:
        """The probability that the best of at least one run has a rank above `rank`, rounded up: f(1 - rank) - f(0)."""
        if self.is_poisson:
            return up(-math.exp(-self.mean * rank) * math.expm1(-self.mean * (1.0 - rank)), _SLACK)
        # (e^(shape L) - 1) / (e^(shape rate) - 1), L = -log(gamma + (1 - gamma) rank)
        rate = self._rate_below
        within = float(-np.log1p(np.expm1(-np.float64(rate)) * (1.0 - rank)))
        if not within < rate < math.inf:
            return 1.0
        found = math.exp(max(self.shape, 0.0) * (within - rate))
        if self.shape:
            found *= math.expm1(-abs(self.shape) * within) / math.expm1(-abs(self.shape) * rate)
        else:
            found = within / rate
        return min(up(found, _SLACK), 1.0)

    def rank_at(self, share: float) -> float:
        """Approximately the rank at which the density is `share` of that at rank 0; at most 1."""
        log = -math.log(share) if share > 0.0 else math.inf
        if self.is_poisson:
            return min(log / self.mean, 1.0)
        return min(float(self.odds.upper * np.expm1(log / (1.0 + self.shape))), 1.0)

    def log_ratio(self, rank: float, epsilon: float, delta: float) -> float:
        """The largest log of f'(1 - x) / f'(1 - x'), x' <= e^epsilon x + delta, x <= `rank`; rounded up."""
        grown = np.expm1(np.float64(epsilon)) * rank + delta
        if self.is_poisson:
            return up(float(self.mean * grown), _SLACK)
        odds = self.odds.lower
        if not odds > 0.0:
            return math.inf
        most = max(np.float64(delta) / odds, grown / (odds + rank))  # between them the quotient rises or falls
        return up(float((1.0 + self.shape) * np.log1p(most)), _SLACK)

    def rank_below(self, log_ratio: float, epsilon: float, delta: float) -> float:
        """The inverse of `self.log_ratio`: approximately the largest rank, up to 1, at which it is `log_ratio`."""
        if self.is_poisson:
            room, slope = log_ratio / self.mean - delta, np.expm1(np.float64(epsilon))
        else:
            grown = np.expm1(np.float64(log_ratio / (1.0 + self.shape)))
            room, slope = float(grown * self.odds.lower) - delta, np.expm1(np.float64(epsilon)) - grown
        return 0.0 if not room > 0.0 else min(float(room / slope), 1.0) if slope > 0.0 else 1.0

    @property
    def _whole(self) -> float:
        """(1 - gamma^shape) / shape; at shape 0 its limit."""
        return -math.expm1(-self.shape * self._rate) / self.shape if self.shape else self._rate

    def at_least_one(self, delta: float) -> float:
        """1 - f(1 - delta), rounded up: the probability that some run does what one run does with probability delta."""
        if self.is_poisson:
            return min(up(-math.expm1(-self.mean * delta), _SLACK), 1.0)
        if not delta > 0.0 < self.odds.lower:
            return 1.0 if delta else 0.0
        log = math.log1p(delta / self.odds.lower)
        found = -math.expm1(-self.shape * log) / self.shape if self.shape else log
        return min(up(found / self._whole, _SLACK), 1.0)

    def share_of_one(self, delta: float) -> float:
        """The inverse of `at_least_one`, rounded down: the probability that is allowed for one run."""
        if self.is_poisson:
            return down(-math.log1p(-delta) / self.mean, _SLACK)
        part = down(delta * self._whole, _SLACK)
        log = -math.log1p(-self.shape * part) / self.shape if self.shape else part
        return min(down(float(self.odds.lower) * math.expm1(min(log, 700.0)), _SLACK), 1.0)
