"""Poisson-sampled Gaussian steps inside traced programs: their ratio moved apart to points, then one contour."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxacct._method import BOTH, Cost, Lanes, ProfileMethod, always
from jaxacct._precision import is_traced
from jaxacct.bounds._spread import spread_epsilon, spread_log_delta
from jaxacct.divergence._spread import Spread
from jaxacct.divergence.gaussian._sampled_spread import LEAST_NOISE, MOST_PROB, sampled_spread
from jaxacct.mechanisms import PoissonSampled

_SPARED = 12.0  # log of delta over what all steps together may lose without bound


def _covered(mechanism: PoissonSampled) -> Any:
    noise, prob = mechanism.mechanism.noise_multiplier, mechanism.sampling_prob
    return (noise >= LEAST_NOISE) & (prob > 0.0) & (prob <= MOST_PROB)


def _may_be_several(mechanism: PoissonSampled) -> bool:
    """Whether there may be more than one step: one has its closed form."""
    return is_traced(mechanism.num_steps) or bool(np.any(np.asarray(mechanism.num_steps) != 1))


def _rounds(mechanism: PoissonSampled, log_delta: Any, add: Any) -> Sequence[tuple[Spread, Any]]:
    known = _covered(mechanism)
    noise = jnp.where(known, mechanism.mechanism.noise_multiplier, 1.0)
    prob = jnp.where(known, mechanism.sampling_prob, 0.5)
    log_share = jax.lax.stop_gradient(log_delta - jnp.log(mechanism.num_steps) - _SPARED)
    return ((sampled_spread(noise, prob, log_share, add), mechanism.num_steps),)


def _epsilon(mechanism: PoissonSampled, log_delta: Any) -> Any:
    return jnp.where(_covered(mechanism), spread_epsilon(_rounds, mechanism, log_delta), jnp.inf)


def _log_delta(mechanism: PoissonSampled, epsilon: Any) -> Any:
    return jnp.where(_covered(mechanism), spread_log_delta(_rounds, mechanism, epsilon), 0.0)


CELLS = ProfileMethod(
    name="cells",
    theorem="Zhu, Dong & Wang 2022, Theorem 11, of a dominating pair with finitely many losses",
    directions=BOTH,
    applies=_may_be_several,
    cost=Cost.MILLISECONDS,
    cold=Cost.SECONDS,
    log_delta=_log_delta,
    epsilon=_epsilon,
    only_traced=always,
    spares=("rdp",),
    is_listed=False,
    lanes=Lanes(bytes=lambda: 2**22, on_host=False),
)
