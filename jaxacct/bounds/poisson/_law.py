"""The privacy loss distribution of Poisson-sampled steps: the law of 1 - q + q Y, once for each step.

Zhu, Dong & Wang 2022, "Optimal accounting of differential privacy via characteristic function", Theorem 11.
"""

import math

from jaxacct._method import always, itself
from jaxacct.bounds._distribution import Distribution, parts_by_laws
from jaxacct.bounds.bases import base_of, is_envelope, is_from_above, law, spread
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.mechanisms import PoissonSampled


def _laws(mechanism: PoissonSampled, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
    sampled = law(mechanism.mechanism, float(mechanism.sampling_prob), step, side, tail)
    return [(sampled, int(mechanism.num_steps))]


def _scale(mechanism: PoissonSampled) -> tuple[float, int]:
    steps, q = int(mechanism.num_steps), float(mechanism.sampling_prob)
    return steps * math.log1p(q * q * spread(mechanism.mechanism)), steps


def _divided(mechanism: PoissonSampled) -> float:
    return base_of(mechanism.mechanism).atoms(mechanism.mechanism, float(mechanism.sampling_prob)).divided


DISTRIBUTION = Distribution(
    theorem="Zhu, Dong & Wang 2022, Theorem 11",
    parts=parts_by_laws(_laws),
    scale=_scale,
    largest_loss=lambda mechanism: base_of(mechanism).largest_loss(mechanism),
    below=itself,
    width_constant=lambda mechanism: 0.5,
    divided=_divided,
    is_light=lambda mechanism: base_of(mechanism.mechanism).is_light,
    is_from_above=is_from_above,
    is_envelope=is_envelope,
    exists=always,
)
