"""The privacy loss distributions of random allocation: laws of averages of likelihood ratios.

Feldman & Shenfeld 2025, Theorem 3.1 (the pair of 1-out-of-t) and Lemma 3.2 (k-out-of-t as runs of 1-out-of-n).
"""

import dataclasses
import math

from jaxacct._method import always, itself, never
from jaxacct.bounds._distribution import Distribution, none_divided, parts_by_laws
from jaxacct.bounds._split import single_step
from jaxacct.bounds.bases import base_of, is_envelope, is_from_above, law_maker, spread
from jaxacct.bounds.bases._base import MAX_LOSS, unbounded
from jaxacct.divergence.lattice._prefix import partial_average, scheduled_average
from jaxacct.divergence.lattice._ratio import RatioLaw, Side
from jaxacct.divergence.lattice._sums import averages
from jaxacct.mechanisms import Gaussian, PartialAllocation, RandomAllocation, ScheduledAllocation
from jaxacct.special import up

# The law of an average of t ratios is built level by level, from n = 1, 2, 4, .. ratios. The level of n may have losses
# (t/n)^this times further apart, since its error is averaged away. Steers running time and tightness only.
_COARSENING = 0.5
_THEOREM = "Feldman & Shenfeld 2025, Theorem 3.1 and Lemma 3.2"


def _laws(mechanism: RandomAllocation, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
    steps, selected, epochs = (int(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
    base = law_maker(mechanism.mechanism, side, tail / steps**2)
    size, larger = divmod(steps, selected)
    small, large = averages(base, size, step, tail, coarsening=_COARSENING, both=larger > 0)
    return [(small, (selected - larger) * epochs), (large, larger * epochs)]


def _scale(mechanism: RandomAllocation) -> tuple[float, int]:
    count = int(mechanism.num_selected) * int(mechanism.num_epochs)
    size = int(mechanism.num_steps) // int(mechanism.num_selected)
    return count * math.log1p(spread(mechanism.mechanism) / size), count


def _divided(mechanism: RandomAllocation) -> float:
    """The distance that a step of the last level should divide; one of the first level is a power of two times that."""
    whole = base_of(mechanism.mechanism).atoms(mechanism.mechanism, 1.0).divided
    num_steps = int(mechanism.num_steps) // int(mechanism.num_selected)
    return whole / 2.0 ** int(_COARSENING * math.log2(num_steps))


def _largest_loss(mechanism: RandomAllocation) -> float:
    """k of t steps lose at most k L in an epoch, however they are drawn."""
    one = base_of(mechanism.mechanism).largest_loss(mechanism.mechanism)
    return up(one * float(mechanism.num_selected) * float(mechanism.num_epochs), 32)


DISTRIBUTION = Distribution(
    theorem=_THEOREM,
    parts=parts_by_laws(_laws),
    scale=_scale,
    largest_loss=_largest_loss,
    below=single_step,
    width_constant=lambda mechanism: 4.0,
    divided=_divided,
    is_from_above=is_from_above,
    is_envelope=is_envelope,
    exists=always,
)


def _partial_laws(mechanism: PartialAllocation, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
    steps, done = int(mechanism.num_steps), int(mechanism.steps_done)
    base = law_maker(mechanism.mechanism, side, tail / done**2)
    return [(partial_average(base, steps, done, step, tail, coarsening=_COARSENING), 1)]


def _partial_scale(mechanism: PartialAllocation) -> tuple[float, int]:
    share = int(mechanism.steps_done) / int(mechanism.num_steps)
    return math.log1p(share * spread(mechanism.mechanism) / int(mechanism.num_steps)), 1


def _partial_largest_loss(mechanism: PartialAllocation) -> float:
    """log(1 + (e^L - 1) s / t): s of t ratios are e^L at most, the others 1; the addition's loss is no larger."""
    one = base_of(mechanism.mechanism).largest_loss(mechanism.mechanism)
    if not one < MAX_LOSS:
        return one
    share = int(mechanism.steps_done) / int(mechanism.num_steps)
    return min(one, up(math.log1p(share * math.expm1(one)), 64))


PARTIAL_DISTRIBUTION = dataclasses.replace(
    DISTRIBUTION,
    parts=parts_by_laws(_partial_laws),
    scale=_partial_scale,
    largest_loss=_partial_largest_loss,
    below=itself,
    divided=none_divided,
)


def _scheduled_laws(mechanism: ScheduledAllocation, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
    total = sum(int(count) for count in mechanism.num_steps)
    phases = [
        (law_maker(Gaussian(float(noise)), side, tail / (total * int(count))), int(count))
        for noise, count in zip(mechanism.noise_multipliers, mechanism.num_steps, strict=True)
    ]
    return [(scheduled_average(phases, step, tail, coarsening=_COARSENING), int(mechanism.num_epochs))]


def _scheduled_scale(mechanism: ScheduledAllocation) -> tuple[float, int]:
    parts = zip(mechanism.noise_multipliers, mechanism.num_steps, strict=True)
    whole = sum(int(count) * spread(Gaussian(float(noise))) for noise, count in parts)
    epochs, length = int(mechanism.num_epochs), sum(int(count) for count in mechanism.num_steps)
    return epochs * math.log1p(whole / length**2), epochs


SCHEDULED_DISTRIBUTION = dataclasses.replace(
    PARTIAL_DISTRIBUTION,
    parts=parts_by_laws(_scheduled_laws),
    scale=_scheduled_scale,
    largest_loss=unbounded,
    is_from_above=never,
    is_envelope=never,
)
