"""The Gaussian mechanism, alone or with its amplification thrown away.

Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy", Theorem 8;
Mironov 2017, "Renyi differential privacy", Proposition 7.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._method import BOTH, Cost, ProfileMethod, RenyiMethod, never
from jaxacct.bounds import _inversion as inversion
from jaxacct.bounds._distribution import loss_distribution, of_one_release
from jaxacct.bounds._orders import mixed
from jaxacct.bounds._parts import flattened
from jaxacct.bounds.bases import BASES, spread
from jaxacct.composition import compose_gaussian_mu
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta, gaussian_rdp
from jaxacct.mechanisms import Gaussian

_TINY = 2.2250738585072014e-308  # the smallest normal double: smaller numbers are flushed to 0
_LEAST_NOISE = 1e-100  # of a guess: a smaller mu has a smaller floor, and its square is to be a double
_THEOREM = "Balle & Wang 2018, Theorem 8"


def gaussian_mu(release: Gaussian) -> jax.Array:
    """mu [L] of the Gaussian N(mu, 1) against N(0, 1) that dominates one release: 1/sigma, rounded up."""
    return jnp.maximum((1.0 + 2.0**-52) / release.noise_multiplier, _TINY)


def unamplified_mu(release: Gaussian, uses: Any) -> jax.Array:
    """mu [L] of the Gaussian that dominates `uses` uses of a record whose steps are public: sqrt(uses)/sigma.

    Revealing which steps used a record is a post-processing that can only help the adversary.
    """
    return compose_gaussian_mu([(gaussian_mu(release), uses)])


def unamplified_log_delta(release: Gaussian, uses: Any, epsilon: jax.Array) -> jax.Array:
    """log delta [L], both directions, of `uses` uses of a record whose steps are public (Theorem 8); upper bound."""
    return gaussian_log_delta(epsilon, unamplified_mu(release, uses))


def unamplified_epsilon(release: Gaussian, uses: Any, log_delta: jax.Array) -> jax.Array:
    """epsilon [L], both directions: the inverse of `unamplified_log_delta`."""
    return gaussian_epsilon(log_delta, unamplified_mu(release, uses))


def unamplified_rdp(release: Gaussian, uses: Any, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L], both directions, of `uses` uses (Proposition 7): alpha mu^2 / 2."""
    return gaussian_rdp(jnp.asarray(orders, jnp.float64)[:, None], unamplified_mu(release, uses))


def is_gaussian(mechanism: Any) -> bool:
    """Whether every part releases Gaussian noise in which every record takes part: again a Gaussian mechanism."""
    return all(part.signature() == (Gaussian,) for part, _ in flattened(mechanism))


def composed_mu(mechanism: Any) -> jax.Array:
    """mu [L] of Gaussian releases, composed: exact. For mechanisms that `is_gaussian` accepts."""
    if mechanism.signature() == (Gaussian,):
        return gaussian_mu(mechanism)
    return compose_gaussian_mu([(composed_mu(part), count) for part, count in mechanism.parts()])


def _log_delta(mechanism: Any, epsilon: jax.Array) -> jax.Array:
    """log delta [L] (Theorem 8): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    return gaussian_log_delta(epsilon, composed_mu(mechanism))


def _epsilon(mechanism: Any, log_delta: jax.Array) -> jax.Array:
    """epsilon [L]: the inverse of the profile."""
    return gaussian_epsilon(log_delta, composed_mu(mechanism))


def _rdp(mechanism: Any, *, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] (Proposition 7): alpha mu^2 / 2."""
    return gaussian_rdp(jnp.asarray(orders, jnp.float64)[:, None], composed_mu(mechanism))


def unamplified(uses: Callable[[Any], Any]) -> ProfileMethod:
    """The method "no amplification" of a scheme over Gaussian steps in which a record takes part `uses` times.

    log delta [L] and epsilon [L], both directions, upper bounds: Theorem 8 with mu = sqrt(uses)/sigma.
    """

    def floor(mechanism: Any, log_delta: np.ndarray) -> np.ndarray:
        # P[L > eps] >= delta with L ~ N(mu^2/2, mu^2), and the normal tail exceeds e^{-z^2/2 - z - 1}
        sigma = np.maximum(np.asarray(mechanism.mechanism.noise_multiplier, float), _LEAST_NOISE)
        least_mu = np.sqrt(np.asarray(uses(mechanism), float)) / sigma
        z = np.sqrt(np.maximum(-2.0 * log_delta - 1.0, 0.0)) - 1.0
        return 0.5 * least_mu**2 + least_mu * (z - 1.5)

    return ProfileMethod(
        name="no amplification",
        theorem=_THEOREM,
        directions=BOTH,
        cost=Cost.MICROSECONDS,
        cold=Cost.SECONDS,
        log_delta=lambda mechanism, epsilon: unamplified_log_delta(mechanism.mechanism, uses(mechanism), epsilon),
        epsilon=lambda mechanism, log_delta: unamplified_epsilon(mechanism.mechanism, uses(mechanism), log_delta),
        floor=floor,
    )


EXACT = ProfileMethod(
    name="exact",
    theorem=_THEOREM,
    directions=BOTH,
    cost=Cost.MICROSECONDS,
    cold=Cost.SECONDS,
    applies=is_gaussian,
    is_exact=True,
    log_delta=_log_delta,
    epsilon=_epsilon,
)
BOTH_ENDS = inversion.beside_closed_form(applies=is_gaussian)
_RDP = RenyiMethod(
    name="rdp",
    theorem="Mironov 2017, Proposition 7",
    directions=BOTH,
    cost=Cost.MICROSECONDS,
    cold=Cost.SECONDS,
    helps=never,  # the closed form is exact
    rdp=_rdp,
    grids=tuple(mixed(top) for top in (64, 256, 1024, 2048)),
)
DISTRIBUTION = of_one_release(BASES[Gaussian], _THEOREM, spread)

METHODS = {(Gaussian,): (EXACT, _RDP, BOTH_ENDS, loss_distribution(DISTRIBUTION))}
