"""Upper bounds for Gaussian reports from what their order hides: one round of all users, or of those who check in.

The reports may have any dimension: they are batches of one record each (docs/papers/blanket.md, BL-5;
docs/papers/shuffled_batches.md, SB-6, SB-7).
"""

import math
from typing import Any

import numpy as np

from jaxacct._precision import is_traced
from jaxacct._types import Direction
from jaxacct.bounds._parts import is_scalar
from jaxacct.bounds.blanket._known import users_of
from jaxacct.divergence.batches._blanket import MOST_LOSS
from jaxacct.divergence.batches._profile import BatchEpoch, epoch_delta, epoch_delta_alone, epoch_epsilon
from jaxacct.divergence.blanket._hidden import hidden_law
from jaxacct.divergence.blanket._profile import Round, round_delta, round_delta_alone, round_epsilon
from jaxacct.mechanisms import CheckIn, Shuffled
from jaxacct.special import grown, up

_RARELY = 1e-3  # share of delta up to which all may join where the places of others are used: any value is valid
_ORDER: dict[type, str] = {
    Shuffled: "SB-6: a swap with one blank step, batches of one record (ours, docs/papers/shuffled_batches.md)",
    CheckIn: "BL-5: the places of users who do not join (ours, docs/papers/blanket.md)",
}


def hidden_round(mechanism: Any) -> Round:
    """One round (class `Round`) of check-ins of Gaussian reports, by what the places of others hide (BL-5)."""
    users, prob = users_of(mechanism)
    shift = _shift(mechanism)
    everybody = grown(1.0, users * math.log(prob), 2**14) if 0.0 < prob < 1.0 else prob
    return Round(lambda cut: hidden_law(shift, cut), users, prob, everybody)


def _shift(mechanism: Any) -> float:
    return up(1.0 / float(mechanism.mechanism.noise_multiplier), 2)


def _everybody(mechanism: Any, goal: float) -> BatchEpoch:
    """All users' reports, in random order: batches of one record. Dropping those who do not join is post-processing."""
    users, _ = users_of(mechanism)
    return BatchEpoch(_shift(mechanism), int(users), int(users), False, goal, replaces=True)


def _has_places(mechanism: Any, goal: float) -> bool:
    """Whether the bound is that by the places of users who do not join."""
    return hidden_round(mechanism).beyond <= _RARELY * goal


def order_delta(mechanism: Any, epsilon: float, goal: float) -> float:
    """float in [0, 1]: delta at `epsilon` >= 0 of one round of Gaussian reports of any dimension, upper bound."""
    if _has_places(mechanism, goal):
        return round_delta(hidden_round(mechanism), epsilon, goal)
    return epoch_delta(_everybody(mechanism, goal), epsilon, Direction.REMOVE)


def order_delta_alone(mechanism: Any, epsilon: float) -> float:
    """float: `order_delta`, with so little left out that it hardly matters beside the answer."""
    found = epoch_delta_alone(_everybody(mechanism, 1e-4), epsilon, Direction.REMOVE)
    run = hidden_round(mechanism)
    return min(found, round_delta_alone(run, epsilon)) if run.beyond < found else found


def order_epsilon(mechanism: Any, goal: float, high: float) -> float:
    """float: an epsilon where `order_delta` is at most `goal`; at most `high`, which is known to be enough."""
    run = hidden_round(mechanism)
    found = high
    if not _has_places(mechanism, goal):
        found = epoch_epsilon(_everybody(mechanism, goal), Direction.REMOVE, high)
    return round_epsilon(run, goal, found) if run.beyond < goal else found


def hides(mechanism: Any) -> bool:
    """bool: whether the order of Gaussian reports is known to hide something: noise enough to compute with."""
    return is_scalar(mechanism) and has_noise(mechanism)


def has_noise(mechanism: Any) -> bool:
    """bool: whether all points of a batch of Gaussian reports have noise enough to compute with; no, if traced."""
    noise = mechanism.mechanism.noise_multiplier
    return not is_traced(noise) and bool(np.all(np.asarray(noise) >= (1.0 + 2.0**-50) / MOST_LOSS))


def order_theorem(mechanism: Any) -> str:
    """A string: the theorem of the order, for `mechanism`."""
    return _ORDER[type(mechanism)]
