"""The mu of Gaussian differential privacy, from certified points of the profile."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel, Rounding
from jaxacct._validate import checked_number
from jaxacct.accounting import rdp
from jaxacct.measures._measure import Measure
from jaxacct.mechanisms._base import Mechanism
from jaxacct.membership import certified_profile, gaussian_errors, gdp, has_gdp
from jaxacct.special import LEAST_NORMAL, ULP, normal_upper_quantile, up

_LANES = 576  # corners are padded to this many, so that their program is compiled once
_LARGEST = 500.0  # nats: for larger losses only the mu of pure privacy is given, exponentials leaving the doubles
_LEAST_SLACK = 1e-12  # below it the points of the profile cannot be told from their rounding errors


def _distance(caught: jax.Array, level: jax.Array) -> jax.Array:
    """Phi^-1(caught) - Phi^-1(level), rounded up: the least mu at which a Gaussian test of that level catches it."""
    log_caught, log_level = jnp.log(caught), jnp.log(level)
    low, low_off = normal_upper_quantile(log_caught, 4.0 * ULP * jnp.abs(log_caught))
    high, high_off = normal_upper_quantile(log_level, 4.0 * ULP * jnp.abs(log_level))
    mu = high - low + high_off + low_off
    mu = mu + 4.0 * ULP * (jnp.abs(high) + jnp.abs(low) + high_off + low_off)
    return jnp.where(caught <= level, 0.0, jnp.where((level > 0) & (caught < 1), jnp.maximum(mu, 0.0), jnp.inf))


_DISTANCE = Kernel(_distance, Rounding.UP)


def _of_pure(epsilon: float) -> float:
    """The mu of pure epsilon-DP, rounded up: G_mu, which is convex, meets the corner of randomized response from below.

    That is where both errors are 1 / (1 + e^eps), so that mu = 2 Phi^-1(1 - 1 / (1 + e^eps)).
    """
    log_error: Any = np.float64(-(epsilon + math.log1p(math.exp(-epsilon))))
    quantile, off = normal_upper_quantile(log_error, 8.0 * ULP * (1.0 + epsilon))
    return up(2.0 * (float(quantile) + float(off)), 4)


def _lower_hull(x: NDArray[Any], y: NDArray[Any]) -> list[int]:
    """Indices of the points below which no chord between others lies: points that rounding has lifted are left out."""
    kept: list[int] = []
    for i in range(x.size):
        while len(kept) > 1:
            before, last = kept[-2], kept[-1]
            if (y[last] - y[before]) * (x[i] - x[last]) < (y[i] - y[last]) * (x[last] - x[before]):
                break
            kept.pop()
        kept.append(i)
    return kept


def corners(epsilons: NDArray[Any], deltas: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs (false positive rate, true positive rate) such that no test is above the chords between them.

    delta is convex in e^epsilon, so that between two of `epsilons`, which increase from 0, it is below the chord
    through upper bounds there: the line p - e^epsilon q of a test with these rates. p is rounded up, so that the line
    is above both ends whatever q was rounded to. Beyond the last one delta is at most the last one: the pair (0, p).
    """
    deltas = np.minimum.accumulate(deltas)
    kept = _lower_hull(np.exp(epsilons), deltas)
    epsilons, deltas = epsilons[kept], deltas[kept]
    growth = np.exp(epsilons)
    level = np.maximum(deltas[:-1] - deltas[1:], 0.0) / np.maximum(np.diff(np.expm1(epsilons)), LEAST_NORMAL)
    above = np.maximum(deltas[:-1] + growth[:-1] * level, deltas[1:] + growth[1:] * level)
    # an exponential (4 ULP, with that of its argument), a product and a sum of positive terms
    caught = np.minimum(above * (1.0 + 2.0**-49), 1.0)
    return np.append(level, 0.0), np.append(caught, deltas[-1])


@dataclasses.dataclass(frozen=True)
class GaussianDp(Measure):
    """The least mu found for which a mechanism is mu-GDP, up to a slack in both errors of a test: an upper bound.

        T(a) >= G_mu(a + slack) - slack  for every a,    G_mu(a) = Phi(Phi^-1(1 - a) - mu)

    (Dong, Roth and Su 2022, Definition 2.6; the slack is the distance of Gomez et al. 2025, Section 3, "regret").
    Without slack, mu depends on the largest losses, however rare: for sampled or allocated Gaussian noise it is the mu
    of the noise without sampling. So it is known without slack for Gaussian noise, composed or not, for shuffled
    reports of pure randomizers (`jaxacct.membership.gdp`), and where losses are bounded; elsewhere a slack has to be
    given.

    Args:
      slack: float in [0, 0.5): 0, or at least 1e-12.

    Raises:
      ValueError: if the slack is out of range; when called, if it is 0 and losses are not bounded.

    >>> import jaxacct as ja
    >>> from jaxacct import measures
    >>> run = ja.PoissonSampled(ja.Gaussian(1.0), sampling_prob=0.01, num_steps=1000)
    >>> round(measures.GaussianDp(slack=1e-5)(run), 3), round(measures.GaussianDp()(ja.Gaussian(1.0)), 9)
    (0.44, 1.0)
    """

    name: ClassVar[str] = "gdp"
    worst: ClassVar[float] = math.inf
    slack: float = 0.0

    def __post_init__(self) -> None:
        slack = checked_number("slack", self.slack)
        if slack != 0.0 and not _LEAST_SLACK <= slack < 0.5:
            raise ValueError(f"slack={self.slack!r} must be 0 or in [{_LEAST_SLACK:g}, 0.5)")
        object.__setattr__(self, "slack", slack)

    def of(self, mechanism: Mechanism) -> float:
        """The largest distance over the corners of the certified trade-off curve."""
        known = gdp(mechanism) if has_gdp(mechanism) else math.inf
        if self.slack == 0.0 and known < math.inf:
            return known
        if self.slack == 0.0:
            largest = self._largest_loss(mechanism)
            known = _of_pure(largest)
            if largest > _LARGEST:
                return known
        epsilons, deltas = certified_profile(mechanism, smallest=max(self.slack * 1e-2, 1e-14))
        if self.slack == 0.0:
            inside = epsilons < largest
            epsilons, deltas = np.append(epsilons[inside], largest), np.append(deltas[inside], 0.0)
        level, caught = corners(epsilons, deltas)
        more = (0, max(0, _LANES - level.size))
        level = np.pad((level + self.slack) * (1.0 - 2.0**-50), more, constant_values=1.0)
        caught = np.pad(np.maximum(caught - self.slack, 0.0) * (1.0 + 2.0**-50), more)
        return min(known, float(np.max(_DISTANCE(caught, np.where(caught > 0, level, 1.0)))))

    def _largest_loss(self, mechanism: Mechanism) -> float:
        """Epsilon at delta 0."""
        largest = float(rdp(mechanism, [math.inf]).values[0])
        if largest == math.inf:
            raise ValueError(
                f"slack=0 needs bounded losses, or Gaussian noise without sampling, which {mechanism!r} does not have: "
                "mu would be that of its rarest losses; give a slack, as by GaussianDp(slack=1e-6), or on "
                "the command line --measure gdp:1e-6"
            )
        return largest

    def words(self) -> str:
        """The words, with the slack if there is one."""
        return "mu of Gaussian DP" + (f" up to {self.slack:g}" if self.slack else "")

    def bounds_of_target(self) -> tuple[float, float]:
        """(0, inf)."""
        return 0.0, math.inf

    def least_errors(self, target: float, rates: NDArray[Any]) -> NDArray[Any]:
        """The Gaussian trade-off function with the slack."""
        return np.maximum(gaussian_errors(np.minimum(rates + self.slack, 1.0), target) - self.slack, 0.0)
