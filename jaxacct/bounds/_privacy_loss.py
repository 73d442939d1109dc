"""Privacy loss distributions of mechanisms, from the law of their likelihood ratios.

Exact reductions (Feldman and Shenfeld 2025, Theorem 3.1 and Lemma 3.2; Poisson sampling by definition), discretised
with certified rounding: Meiser and Mohammadi 2018, Koskela et al. 2020, in the second-order, mean-preserving form of
`jaxacct.divergence._ratio_lattice`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._types import Bound, Direction
from jaxacct.curves import Pld
from jaxacct.divergence._continuous_cells import gaussian_cells
from jaxacct.divergence._ratio_lattice import DEPTH, RatioLaw, Side, averages, from_cells, trimmed
from jaxacct.mechanisms import Composed, Gaussian, PoissonSampled, RandomAllocation

_Z_RANGE = 10.0  # of the Gaussian variable; Phi(-10) = 8e-24 is spread to 0 and infinity
_COARSENING = 0.5
_NUM_SHIFTS = 8


def side_of(bound: Bound, direction: Direction) -> Side:
    """The rounding that a bound in a direction needs."""
    if bound is Bound.UPPER:
        return Side.UPPER
    return Side.LOWER_REMOVE if direction is Direction.REMOVE else Side.LOWER_ADD


def _base_law(noise_multiplier: float, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    mu = 1.0 / noise_multiplier
    reach = _Z_RANGE * mu
    low = (
        math.log1p(sampling_prob * math.expm1(-reach - 0.5 * mu * mu))
        if sampling_prob < 1.0
        else -reach - 0.5 * mu * mu
    )
    top = reach + 0.5 * mu * mu  # Y there; P itself is centred mu^2 higher than Q
    high = top + math.log(sampling_prob + (1.0 - sampling_prob) * math.exp(-top))
    first = math.floor(low / step)
    size = max(8, math.ceil(high / step) - first + 2)
    size = 1 << (size - 1).bit_length()

    def on_lattice(shift: float, depth: int = DEPTH) -> RatioLaw:
        low_mass, high_mass = gaussian_cells(mu, sampling_prob, first + shift, step, size=size)
        return from_cells(low_mass, high_mass, (first + shift) * step, step, side, depth=depth)

    if side is Side.UPPER or sampling_prob == 1.0:
        return trimmed(on_lattice(0.0), 1.0, tail)
    # Most of a sampled step's law may lie within a few cells: then one lattice loses much less than another.
    sign = 1.0 if side is Side.LOWER_REMOVE else -1.0

    def mean(shift: float) -> float:
        law = on_lattice(shift, depth=0)
        return sign * float(law.masses @ np.expm1(law.log_values))

    best = max((-k / _NUM_SHIFTS for k in range(_NUM_SHIFTS)), key=mean)
    return trimmed(on_lattice(best), 1.0, tail)


def _parts(mechanism: Any, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
    """Independent ratios, and how often each is multiplied in: their product is the mechanism's ratio."""
    if isinstance(mechanism, Gaussian):
        return [(_base_law(float(mechanism.noise_multiplier), 1.0, step, side, tail), 1)]
    if isinstance(mechanism, PoissonSampled):
        sigma, q = float(mechanism.mechanism.noise_multiplier), float(mechanism.sampling_prob)
        return [(_base_law(sigma, q, step, side, tail), int(mechanism.num_steps))]
    if isinstance(mechanism, RandomAllocation):
        sigma = float(mechanism.mechanism.noise_multiplier)
        steps, selected, epochs = (int(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))

        def base(coarse: float) -> RatioLaw:
            return _base_law(sigma, 1.0, coarse, side, tail)

        size, larger = divmod(steps, selected)
        small, large = averages(base, size, step, tail, coarsening=_COARSENING, both=larger > 0)
        return [(small, (selected - larger) * epochs), (large, larger * epochs)]
    if isinstance(mechanism, Composed):
        return [
            (law, times * int(count))
            for part, count in zip(mechanism.mechanisms, mechanism.counts, strict=True)
            for law, times in _parts(part, step, side, tail)
        ]
    raise ValueError(f"mechanism={mechanism!r} has no privacy loss distribution here")


def pld_of_law(law: RatioLaw, direction: Direction) -> Pld:
    """The law of log Y under P (remove), or of -log Y under Q (add)."""
    upper = law.side is Side.UPPER
    bound = Bound.UPPER if upper else Bound.LOWER
    if direction is Direction.ADD:
        infinite = law.zero_mass if upper else 0.0
        return Pld(-float(law.log_values[-1]), law.step, law.masses[::-1], infinite, bound, direction)
    exponents = law.log_values
    rounding = 2.0**-50 * (4.0 + np.abs(exponents))
    masses = law.masses * np.exp(exponents + (rounding if upper else -rounding))
    return Pld(law.offset, law.step, masses, law.infinite_mass, bound, direction)


def parts_of(mechanism: Any, step: float, bound: Bound, tail: float) -> Callable[[Direction], list[tuple[Pld, int]]]:
    """A function from direction to the privacy loss distributions to compose, each with its count.

    An upper bound's laws serve both directions and are made once.
    """
    laws: dict[Side, list[tuple[RatioLaw, int]]] = {}

    def of(direction: Direction) -> list[tuple[Pld, int]]:
        side = side_of(bound, direction)
        if side not in laws:
            laws[side] = _parts(mechanism, step, side, tail)
        return [(pld_of_law(law, direction), count) for law, count in laws[side] if count > 0]

    return of


def width_constant(mechanism: Any) -> float:
    """Roughly c^2 times the relative width of epsilon at c points for one standard deviation, measured."""
    if isinstance(mechanism, Composed):
        return max(width_constant(part) for part in mechanism.mechanisms)
    return 4.0 if isinstance(mechanism, RandomAllocation) else 0.3


def loss_scale(mechanism: Any) -> tuple[float, int]:
    """(sum of count times squared scale of the loss, sum of counts) over the parts: what a step is measured against."""
    if isinstance(mechanism, Gaussian):
        return float(mechanism.noise_multiplier) ** -2.0, 1
    if isinstance(mechanism, PoissonSampled):
        steps, q = int(mechanism.num_steps), float(mechanism.sampling_prob)
        spread = math.expm1(min(float(mechanism.mechanism.noise_multiplier) ** -2.0, 700.0))
        return steps * math.log1p(q * q * spread), steps
    if isinstance(mechanism, RandomAllocation):
        count = int(mechanism.num_selected) * int(mechanism.num_epochs)
        size = int(mechanism.num_steps) // int(mechanism.num_selected)
        spread = math.expm1(min(float(mechanism.mechanism.noise_multiplier) ** -2.0, 700.0))
        return count * math.log1p(spread / size), count
    if isinstance(mechanism, Composed):
        scales = [(loss_scale(part), int(c)) for part, c in zip(mechanism.mechanisms, mechanism.counts, strict=True)]
        return sum(c * s for (s, _), c in scales), sum(c * n for (_, n), c in scales)
    raise ValueError(f"mechanism={mechanism!r} has no privacy loss distribution here")
