"""An upper bound for Poisson-sampled steps of any release, from the probability (1 - q)^T that a record joins none.

The steps may also be allocated by another scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._method import A_FORMULA, BOTH, Bracketing, BracketMethod, Cost, ProfileMethod, Query
from jaxacct._types import Direction, Ends
from jaxacct.conversion import delta_from_log
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special import LEAST_NORMAL, log1p, up
from jaxacct.special._namespace import xp

_SLACK = 2.0**-48  # relative, of sums of logarithms: some ten roundings

Draws = Callable[[Any], tuple[Any, Any]]


def _of_steps(mechanism: PoissonSampled) -> tuple[Any, Any]:
    """(q, T) of Poisson-sampled steps."""
    return mechanism.sampling_prob, mechanism.num_steps


def participation_log_delta(mechanism: Any, epsilon: jax.Array, *, draws: Draws = _of_steps) -> jax.Array:
    """log delta [L] at `epsilon` [L], both directions, upper bound: delta(epsilon) <= 1 - (1 - q)^T.

    The outputs with and without the record are mixtures with a common part of mass (1 - q)^T, so that their total
    variation, and with it every hockey-stick divergence at epsilon >= 0, is at most the rest. Valid for any base.

    At q = 1 delta is at most 1, at q = 0 it is 0.

    Args:
      draws: ``(mechanism) -> (q, T)``: a record joins each of T steps by a draw of its own, with probability q.
    """
    q, num_draws = draws(mechanism)
    log_rest = log1p(-q)
    some = up(-xp.expm1(up(num_draws * log_rest, 32)), 16)
    log_some = xp.log(xp.where(some > 0, some, 1.0))
    log_delta = xp.where(some > 0, log_some + 2.0**-48 * (1.0 + xp.abs(log_some)), -xp.inf)
    return xp.broadcast_to(xp.minimum(log_delta, 0.0), epsilon.shape)


def _epsilon(mechanism: Any, log_delta: jax.Array, *, draws: Draws = _of_steps) -> jax.Array:
    """epsilon [L]: 0 where that much delta covers any participation at all, inf elsewhere."""
    covers = participation_log_delta(mechanism, log_delta, draws=draws) <= log_delta
    return xp.where(covers, 0.0, xp.inf)


def gaussian_log_delta(mechanism: PoissonSampled, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` [L] of a Gaussian base: the lesser of `participation_log_delta` and a chi-square one.

    By the Cauchy-Schwarz inequality the total variation is at most sqrt(chi^2)/2, in both directions, and for T steps

        chi^2 = (1 + q^2 (e^s - 1))^T - 1 <= y e^y,   y = T q^2 s e^{s/2 + s^2/24},   s = 1/sigma^2,

    as sinh x <= x e^{x^2/6}. It is close for many steps that hardly any record joins, where (1 - q)^T leaves much more
    and laws round as much in every step.
    """
    # fields are capped where the bound is 1 anyway, so that slopes stay numbers
    log_s = xp.minimum(-2.0 * xp.log(mechanism.mechanism.noise_multiplier), 10.0)
    s = xp.exp(log_s)
    parts = (
        xp.log(xp.maximum(mechanism.num_steps, LEAST_NORMAL)),
        2.0 * xp.log(xp.maximum(mechanism.sampling_prob, LEAST_NORMAL)),
        log_s,
        0.5 * s + s * s / 24.0,
    )
    log_y = xp.minimum(sum(parts) + _SLACK * (1.0 + sum(abs(part) for part in parts)), 1.0)
    log_half_root = 0.5 * (log_y + xp.exp(log_y)) * (1.0 + _SLACK) - math.log(2.0)
    found = log_half_root + _SLACK * (1.0 + abs(log_half_root))
    return xp.minimum(participation_log_delta(mechanism, epsilon), found)


def _gaussian_epsilon(mechanism: PoissonSampled, log_delta: Any) -> Any:
    return xp.where(gaussian_log_delta(mechanism, log_delta) <= log_delta, 0.0, xp.inf)


def _floor(mechanism: PoissonSampled, log_delta: NDArray[Any]) -> NDArray[Any]:
    fields = (mechanism.sampling_prob, mechanism.num_steps, mechanism.mechanism.noise_multiplier)
    shape = np.broadcast_shapes(np.shape(log_delta), *map(np.shape, fields))
    with np.errstate(all="ignore"):
        found: NDArray[Any] = _gaussian_epsilon(mechanism, np.broadcast_to(log_delta, shape))
    return found


def participation_on_host(draws: Draws, theorem: str) -> BracketMethod:
    """A method (class `BracketMethod`) with the same upper ends, one concrete point at a time; its lower ends are 0."""

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
        given: Any = np.array([target])
        with np.errstate(divide="ignore"):  # of q = 1
            if query is Query.EPSILON:
                most = _epsilon(mechanism, np.log(given), draws=draws)
            else:
                most = delta_from_log(participation_log_delta(mechanism, given, draws=draws))
        return dict.fromkeys(at.known, Ends(0.0, float(most[0])))

    facts = {**_FACTS, "theorem": theorem}
    return BracketMethod(**facts, bracket=bracket)


_FACTS: dict[str, Any] = {
    "name": "participation",
    "theorem": "total variation: with probability (1 - q)^T the record joins no step",
    "directions": BOTH,
    "cost": Cost.MICROSECONDS,
}
PARTICIPATION = ProfileMethod(
    **{**_FACTS, "theorem": f"{_FACTS['theorem']}; it is at most half the root of chi-square"},
    log_delta=gaussian_log_delta,
    epsilon=_gaussian_epsilon,
    floor=_floor,
    **A_FORMULA,
)
# for bases that no other method answers on lanes, where this alone would pass for a bound
PARTICIPATION_ON_HOST = participation_on_host(_of_steps, _FACTS["theorem"])
