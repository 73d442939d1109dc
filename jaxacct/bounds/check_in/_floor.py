"""Lower bounds for check-ins, on lanes: by binary randomized response, into which many reports can be turned.

By post-processing, a lower bound for binary randomized response then holds for the mechanism. Replace-one adjacency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._jax import Array, jax
from jaxacct._precision import is_traced
from jaxacct.bounds.check_in._by_randomizer import lane_by_lane
from jaxacct.bounds.shuffle._gaussian_reports import sign_local_epsilon
from jaxacct.divergence.check_in._response import response_floor_epsilon, response_floor_log_delta
from jaxacct.mechanisms import (
    FiniteRandomizer,
    GaussianReports,
    KaryRandomizedResponse,
    LaplaceReports,
    LocalRandomizer,
)
from jaxacct.mechanisms._check_in import CheckIn
from jaxacct.special import down
from jaxacct.special._namespace import xp

_Response = tuple[Array, Array]


def _response_of_finite(randomizer: FiniteRandomizer, prob: jax.Array) -> _Response:
    del randomizer
    return prob, xp.zeros_like(prob)


def _response_of_signs(randomizer: GaussianReports | LaplaceReports, prob: jax.Array) -> _Response:
    return prob, sign_local_epsilon(randomizer, prob)


def _response_of_k_ary(randomizer: KaryRandomizedResponse, prob: jax.Array) -> _Response:
    """Only two of the values: a user who sends any other value counts as not checked in."""
    local = randomizer.local_epsilon * xp.ones_like(prob)
    growth = xp.exp(xp.minimum(local, 700.0))
    shown = xp.minimum((growth + 1.0) / (growth + randomizer.num_categories - 1.0), 1.0)
    return down(prob * shown, 32), local


_RESPONSES: dict[type, Callable[[Any, jax.Array], _Response]] = {
    FiniteRandomizer: _response_of_finite,
    GaussianReports: _response_of_signs,
    KaryRandomizedResponse: _response_of_k_ary,
    LaplaceReports: _response_of_signs,
    LocalRandomizer: lambda randomizer, prob: (prob, randomizer.local_epsilon * xp.ones_like(prob)),
}


def setting_of(mechanism: CheckIn) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(n, q, local epsilon), each [L], of binary randomized response into which the mechanism's reports can be turned.

    Local epsilon 0, which claims nothing, for finite randomizers.
    """
    n = xp.asarray(mechanism.num_users, xp.float64)
    prob = mechanism.check_in_prob * (1.0 - mechanism.dropout_prob) * xp.ones_like(n)
    return n, *_RESPONSES[type(mechanism.mechanism)](mechanism.mechanism, prob)


def response_statics(mechanism: CheckIn) -> dict[str, Any]:
    """A dict with the static number of blocks, both of the number of reports and of ones."""
    if is_traced(mechanism.num_users, mechanism.check_in_prob):
        return {"blocks": 96}
    mean = float(np.max(np.multiply(mechanism.num_users, mechanism.check_in_prob), initial=1.0))
    return {"blocks": 64 if mean < 16 else 96}


def response_lower_epsilon(mechanism: CheckIn, log_delta: jax.Array, *, blocks: int) -> jax.Array:
    """Epsilon [L] of one round of binary randomized response on one record among equal ones, rounded down (CI-S21).

    Lower bound on the mechanism from one round, however many there are; replace-one adjacency: no valid epsilon at that
    delta is lower. The setting is that of Liew, Hasegawa & Takahashi 2022.
    """
    lanes = (*setting_of(mechanism), log_delta)
    return lane_by_lane(lambda a: response_floor_epsilon(a[3], *a[:3], window=blocks), lanes)


def response_lower_log_delta(mechanism: CheckIn, epsilon: jax.Array, *, blocks: int) -> jax.Array:
    """Log delta [L] of one round of binary randomized response on one record among equal ones, rounded down (CI-S21).

    Lower bound, as `response_lower_epsilon`; -inf where nothing is claimed.
    """
    lanes = (*setting_of(mechanism), epsilon)
    return lane_by_lane(lambda a: response_floor_log_delta(a[3], *a[:3], window=blocks), lanes)
