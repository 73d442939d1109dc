"""The likelihood ratio of Poisson-sampled steps, taken together as one release that another scheme allocates.

A record joins each of the steps that it is allocated to with probability q: the ratio of these steps is the product of
their ratios 1 - q + q Y (Zhu, Dong & Wang 2022, Theorem 11). One step has bounds from both sides, several from above.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._types import Direction
from jaxacct.bounds.bases import _known
from jaxacct.bounds.bases._base import Base, law_of, pld_of_law, sampled, spread_of
from jaxacct.curves._convolution import compose_plds
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.mechanisms import PoissonSampled
from jaxacct.special import up

_MOST_EXPONENT = 700.0  # largest x, nats, of which e^x is taken


BaseOf = Callable[[Any], Base]


def _law(base_of: BaseOf, run: PoissonSampled, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The law of the product of the steps' ratios, by their composed privacy loss where there are several."""
    one = law_of(base_of(run.mechanism), run.mechanism, float(run.sampling_prob), step, side, tail)
    if int(run.num_steps) == 1:
        return sampled(one, sampling_prob)
    if side is not Side.UPPER:
        raise ValueError(f"mechanism={run!r}: several steps as one release are bounded from above only")
    whole = compose_plds([(pld_of_law(one, Direction.REMOVE), int(run.num_steps))])
    return _known.BASE.law(whole, sampling_prob, step, side, tail)


def _largest_loss(base_of: BaseOf, run: PoissonSampled) -> float:
    """An epsilon for which the run is purely epsilon-DP, rounded up: T log(1 + q (e^L - 1)); inf where L is.

    T steps, each joined with probability q, of a release whose largest loss is L.
    """
    steps = float(run.num_steps)
    whole, prob = base_of(run.mechanism).largest_loss(run.mechanism), float(run.sampling_prob)
    if whole > _MOST_EXPONENT:
        return up(whole * steps, 32)
    return up(up(math.log1p(prob * math.expm1(whole)), 32) * steps, 32)


def _spread(base_of: BaseOf, run: PoissonSampled) -> float:
    """Var(dP/dQ) of the product: (1 + q^2 Var(Y))^T - 1, its exponent held below the end of the doubles."""
    one = math.log1p(float(run.sampling_prob) ** 2 * spread_of(base_of(run.mechanism), run.mechanism))
    return float(np.expm1(min(int(run.num_steps) * one, _MOST_EXPONENT)))


def base_over(base_of: BaseOf) -> Base:
    """A `Base` (frozen class) for Poisson-sampled steps of any release, of which `base_of` gives the `Base`."""
    return Base(
        law=functools.partial(_law, base_of),
        largest_loss=functools.partial(_largest_loss, base_of),
        spread=functools.partial(_spread, base_of),
        is_from_above=lambda run: int(run.num_steps) > 1 or base_of(run.mechanism).is_from_above(run.mechanism),
        is_envelope=lambda run: base_of(run.mechanism).is_envelope(run.mechanism),
    )
