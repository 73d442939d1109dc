"""The Gaussian mechanism by itself, and bounds for sampling schemes that use no amplification.

Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8;
Mironov 2017, "Renyi differential privacy", Proposition 7. Shapes: L is the number of lanes (points of a batch), A the
number of Renyi orders. mu is the distance of the two Gaussians, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._method import A_FORMULA, BOTH, Cost, ProfileMethod, Role
from jaxacct.bounds._distribution import loss_distribution
from jaxacct.bounds._host_line import beside_closed_form
from jaxacct.bounds._limits import in_closed_form, with_limits
from jaxacct.bounds._one_release import of_one_release
from jaxacct.bounds._parts import flattened
from jaxacct.bounds.bases import BASES, spread
from jaxacct.composition import compose_gaussian_mu
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta, gaussian_rdp
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import LEAST_NORMAL
from jaxacct.special._namespace import xp

_LEAST_NOISE = 1e-100  # smaller noise multipliers count as this in a guess, so that the square of mu is finite
_THEOREM = "Balle & Wang 2018, Theorem 8"


def gaussian_mu(release: Gaussian) -> jax.Array:
    """mu [L] of the pair N(mu, 1), N(0, 1) of one release: 1/sigma, rounded up, both directions."""
    return xp.maximum((1.0 + 2.0**-52) / release.noise_multiplier, LEAST_NORMAL)


def unamplified_mu(release: Gaussian, uses: Any) -> jax.Array:
    """mu [L] of the Gaussian pair that dominates `uses` uses of a record: sqrt(uses)/sigma, rounded up.

    An upper bound for schemes that keep secret which steps used a record: here these steps are public. The output of
    such a scheme is a post-processing of this one (the steps are forgotten), and post-processing loses no privacy.
    """
    return compose_gaussian_mu([(gaussian_mu(release), uses)])


def unamplified_log_delta(release: Gaussian, uses: Any, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` [L], both directions, upper bound: `uses` uses of a record, its steps public.

    Balle & Wang 2018, Theorem 8, at the mu of `unamplified_mu`.
    """
    return gaussian_log_delta(epsilon, unamplified_mu(release, uses))


def unamplified_epsilon(release: Gaussian, uses: Any, log_delta: jax.Array) -> jax.Array:
    """epsilon [L] at `log_delta` [L], both directions, upper bound: the inverse of `unamplified_log_delta`."""
    return gaussian_epsilon(log_delta, unamplified_mu(release, uses))


def unamplified_rdp(release: Gaussian, uses: Any, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up, of `uses` uses of a record, its steps public:

        R_a = a mu^2 / 2.

    Mironov 2017, Proposition 7. Any order a > 1.
    """
    return gaussian_rdp(xp.asarray(orders, xp.float64)[:, None], unamplified_mu(release, uses))


def is_gaussian(mechanism: Mechanism) -> bool:
    """bool: whether every part is a plain Gaussian release, so that the composition is one too."""
    return all(part.signature() == (Gaussian,) for part, _ in flattened(mechanism))


def composed_mu(mechanism: Mechanism) -> jax.Array:
    """mu [L] of composed Gaussian releases: the root of the sum of 1/sigma_i^2, exact but for being rounded up.

    For mechanisms that `is_gaussian` accepts.
    """
    if mechanism.signature() == (Gaussian,):
        return gaussian_mu(cast(Gaussian, mechanism))
    return compose_gaussian_mu([(composed_mu(part), count) for part, count in mechanism.parts()])


def _log_delta(mechanism: Mechanism, epsilon: jax.Array) -> jax.Array:
    """log delta [L], both directions, rounded up: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).

    Balle & Wang 2018, Theorem 8.
    """
    return gaussian_log_delta(epsilon, composed_mu(mechanism))


def _epsilon(mechanism: Mechanism, log_delta: jax.Array) -> jax.Array:
    """epsilon [L], both directions, rounded up: the inverse of `_log_delta`."""
    return gaussian_epsilon(log_delta, composed_mu(mechanism))


def _rdp(mechanism: Mechanism, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, rounded up: a mu^2 / 2 (Mironov 2017, Proposition 7)."""
    return gaussian_rdp(xp.asarray(orders, xp.float64)[:, None], composed_mu(mechanism))


def unamplified(uses: Callable[[Any], Any]) -> ProfileMethod:
    """The method "no amplification" (class `ProfileMethod`) of a scheme over Gaussian steps.

    Its log delta [L] and epsilon [L] are upper bounds in both directions, by Balle & Wang 2018, Theorem 8, with
    mu = sqrt(uses)/sigma.

    Args:
      uses: ``(mechanism) -> `` how many times a record takes part.
    """

    def floor(mechanism: PoissonSampled | RandomAllocation, log_delta: NDArray[Any]) -> NDArray[Any]:
        # A guess, not a bound: the eps where P[L > eps] is delta, for the loss L ~ N(mu^2/2, mu^2), with the smaller
        # e^{-z^2/2 - z - 1} for the normal tail; less 1.5 standard deviations, since delta at eps is below P[L > eps].
        # For a small mu, delta is about mu times as much. If the guess is too high, the method is not asked: this costs
        # tightness only.
        sigma = np.maximum(np.asarray(mechanism.mechanism.noise_multiplier, float), _LEAST_NOISE)
        least_mu = np.sqrt(np.asarray(uses(mechanism), float)) / sigma
        log_tail = log_delta - np.log(np.minimum(least_mu, 1.0))
        z = np.sqrt(np.maximum(-2.0 * log_tail - 1.0, 0.0)) - 1.0
        with np.errstate(all="ignore"):  # for a delta near 1, by the other tail
            z = np.where(log_tail < -0.5, z, -np.sqrt(-2.0 * np.log(-np.expm1(np.minimum(log_tail, 0.0)))))
        return 0.5 * least_mu**2 + least_mu * (z - 1.5)

    return ProfileMethod(
        name="no amplification",
        theorem=_THEOREM,
        directions=BOTH,
        cost=Cost.MICROSECONDS,
        log_delta=lambda mechanism, epsilon: unamplified_log_delta(mechanism.mechanism, uses(mechanism), epsilon),
        epsilon=lambda mechanism, log_delta: unamplified_epsilon(mechanism.mechanism, uses(mechanism), log_delta),
        **A_FORMULA,
        floor=floor,
    )


EXACT = ProfileMethod(
    name="exact",
    theorem=_THEOREM,
    directions=BOTH,
    cost=Cost.MICROSECONDS,
    applies=is_gaussian,
    role=Role.EXACT,
    log_delta=_log_delta,
    **A_FORMULA,
    epsilon=_epsilon,
)
BOTH_ENDS = beside_closed_form(applies=is_gaussian)
_RDP = in_closed_form("Mironov 2017, Proposition 7", with_limits(_rdp), role=Role.BY_NAME)  # the closed form is exact
DISTRIBUTION = of_one_release(BASES[Gaussian], _THEOREM, spread)

METHODS = {(Gaussian,): (EXACT, BOTH_ENDS, _RDP, loss_distribution(DISTRIBUTION))}
