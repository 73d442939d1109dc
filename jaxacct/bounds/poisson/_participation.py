"""Poisson-sampled steps, allocated or not: with probability (1 - q)^T the record joins none, whatever they release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._method import BOTH, CLOSED_FORM, Bracketing, BracketMethod, Cost, ProfileMethod, Query, never
from jaxacct._types import Direction, Ends
from jaxacct.conversion import delta_from_log
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special import log1p, up
from jaxacct.special._namespace import xp

Draws = Callable[[Any], tuple[Any, Any]]


def _of_steps(mechanism: PoissonSampled) -> tuple[Any, Any]:
    """(q, T) of Poisson-sampled steps."""
    return mechanism.sampling_prob, mechanism.num_steps


def participation_log_delta(mechanism: Any, epsilon: jax.Array, *, draws: Draws = _of_steps) -> jax.Array:
    """log delta [L] at `epsilon` [L], both directions, upper bound: delta(epsilon) <= 1 - (1 - q)^T.

    The outputs with and without the record are mixtures with a common part of mass (1 - q)^T, so that their total
    variation, and with it every hockey-stick divergence at epsilon >= 0, is at most what is left. Any base.

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
    """epsilon [L]: 0 where that much delta covers every participation, inf elsewhere."""
    covers = participation_log_delta(mechanism, log_delta, draws=draws) <= log_delta
    return xp.where(covers, 0.0, xp.inf)


def _floor(mechanism: Any, log_delta: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(divide="ignore"):
        some = -np.expm1(np.asarray(mechanism.num_steps, float) * np.log1p(-np.asarray(mechanism.sampling_prob, float)))
    return np.where(np.log(np.maximum(some, 1e-300)) <= log_delta, 0.0, np.inf)


def participation_on_host(draws: Draws, theorem: str) -> BracketMethod:
    """A method (class `BracketMethod`) of the same upper ends, one concrete point at a time; 0 from below."""

    def bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
        given: Any = np.array([target])
        with np.errstate(divide="ignore"):  # of q = 1
            if query is Query.EPSILON:
                most = _epsilon(mechanism, np.log(given), draws=draws)
            else:
                most = delta_from_log(participation_log_delta(mechanism, given, draws=draws))
        return dict.fromkeys(at.known, Ends(0.0, float(most[0])))

    facts = {**_FACTS, "theorem": theorem, "cold": Cost.MICROSECONDS}
    return BracketMethod(**facts, bracket=bracket, reduction=never)


_FACTS: dict[str, Any] = {
    "name": "participation",
    "theorem": "total variation: with probability (1 - q)^T the record joins no step",
    "directions": BOTH,
    "cost": Cost.MICROSECONDS,
}
PARTICIPATION = ProfileMethod(
    **_FACTS,
    cold=Cost.SECONDS,
    log_delta=participation_log_delta,
    epsilon=_epsilon,
    floor=_floor,
    lanes=CLOSED_FORM,
)
# of a base that nothing else answers on lanes, where this alone would stand for a bound
PARTICIPATION_ON_HOST = participation_on_host(_of_steps, _FACTS["theorem"])
