"""The largest privacy loss of a mechanism: from that epsilon on, delta is 0."""

import math
from typing import Any

import numpy as np

from jaxacct.mechanisms import Composed, DiscretePair, Laplace, PartialAllocation, PoissonSampled, RandomAllocation
from jaxacct.special import log_or_minus_inf, up

_ULPS = 32  # at most 16 roundings at a time: two functions of 4 each, and a few products


def largest_loss(mechanism: Any) -> float:
    """An epsilon at which `mechanism` is purely epsilon-DP, rounded up; inf where none is known.

    The worse of both directions. Losses add under composition; what a record joins with probability q loses at most
    log(1 + q (e^L - 1)) in a step; k of t steps at most k L in an epoch, however they are drawn.

    >>> import jaxacct as ja
    >>> round(largest_loss(ja.Composed(ja.Laplace(2.0), 3)), 12)
    1.5
    """
    if isinstance(mechanism, Laplace):
        scale = float(mechanism.noise_multiplier)
        return up(1.0 / scale, _ULPS) if scale > 1e-300 else math.inf
    if isinstance(mechanism, DiscretePair):
        p, q = np.asarray(mechanism.p), np.asarray(mechanism.q)
        some = (p > 0) | (q > 0)
        logs = log_or_minus_inf(np.stack([p[some], q[some]]))
        # each logarithm's rounding is of its own size, which the difference may be far below
        largest = (np.abs(logs[0] - logs[1]) + 2.0**-51 * np.abs(logs).sum(axis=0)).max(initial=0.0)
        return up(float(largest), _ULPS)
    if isinstance(mechanism, Composed):
        parts = zip(mechanism.mechanisms, mechanism.counts, strict=True)
        return up(math.fsum(_times(largest_loss(part), count) for part, count in parts), _ULPS)
    if isinstance(mechanism, PoissonSampled):
        whole, prob = largest_loss(mechanism.mechanism), float(mechanism.sampling_prob)
        if whole > 700.0:
            return _times(whole, mechanism.num_steps)
        return _times(up(math.log1p(prob * math.expm1(whole)), _ULPS), mechanism.num_steps)
    if isinstance(mechanism, RandomAllocation):
        return _times(largest_loss(mechanism.mechanism), float(mechanism.num_selected) * float(mechanism.num_epochs))
    return largest_loss(mechanism.mechanism) if isinstance(mechanism, PartialAllocation) else math.inf


def _times(loss: float, count: Any) -> float:
    return up(loss * float(count), _ULPS) if count else 0.0
