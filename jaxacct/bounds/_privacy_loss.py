"""Privacy loss distributions of mechanisms, from the law of their likelihood ratios.

Exact reductions (Feldman and Shenfeld 2025, Theorem 3.1 and Lemma 3.2; Poisson sampling by definition), discretised
with certified rounding: Meiser and Mohammadi 2018, Koskela et al. 2020, in the second-order, mean-preserving form of
`jaxacct.divergence.lattice._ratio`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._types import Bound, Direction, TooFineError
from jaxacct.bounds.shuffle._law import shuffled_pld, shuffled_scale
from jaxacct.composition import allocation_groups
from jaxacct.curves import Pld
from jaxacct.divergence.lattice._continuous_cells import gaussian_cells
from jaxacct.divergence.lattice._prefix import partial_average, scheduled_average
from jaxacct.divergence.lattice._ratio import (
    DEPTH,
    RatioLaw,
    Side,
    averages,
    from_atoms,
    from_cells,
    from_masses,
    merged,
    trimmed,
)
from jaxacct.mechanisms import (
    Composed,
    ContinuousPair,
    DiscretePair,
    Gaussian,
    Laplace,
    PartialAllocation,
    PoissonSampled,
    RandomAllocation,
    ScheduledAllocation,
    Shuffled,
)

_MAX_CELLS = 2**23
_MAX_LOSS = 600.0  # e^loss and the masses beside it are doubles
_Z_RANGE = 10.0  # of the Gaussian variable
_OUTSIDE = 1e-23  # > Phi(-10), what lies outside under Q or under P: booked at 0 and at infinity
_COARSENING = 0.5
_NUM_SHIFTS = 8
_SMALLEST = 1e-250  # smaller masses are near the end of the doubles: booked outside (upper) or dropped (lower)


def side_of(bound: Bound, direction: Direction) -> Side:
    """The rounding that a bound in a direction needs."""
    if bound is Bound.UPPER:
        return Side.UPPER
    return Side.LOWER_REMOVE if direction is Direction.REMOVE else Side.LOWER_ADD


def _check_fits(mechanism: str, low: float, high: float, step: float) -> None:
    """Raises TooFineError unless a grid of `step` from the loss `low` to `high` can be held."""
    size = (high - low) / step
    if not size <= _MAX_CELLS:
        raise TooFineError(
            f"{mechanism}: a step of {step:.3g} between losses of {low:.3g} and {high:.3g} asks for {size:.2g} cells, "
            f"more than {_MAX_CELLS}: ask for a lower resolution, or for the Renyi bound (no precision)"
        )


def _gaussian_law(noise_multiplier: float, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    mu = 1.0 / noise_multiplier
    # Phi(-z) <= e^{-z^2/2}/2: what lies outside is below the tail that may be cut off anyway
    z_range = max(_Z_RANGE, math.sqrt(-2.0 * math.log(tail))) if tail > 0 else _Z_RANGE
    outside = max(min(_OUTSIDE, tail), _SMALLEST) if tail > 0 else _OUTSIDE
    reach = z_range * mu
    low = (
        math.log1p(sampling_prob * math.expm1(-reach - 0.5 * mu * mu))
        if sampling_prob < 1.0
        else -reach - 0.5 * mu * mu
    )
    # a mass under Q that underflows takes its mass under P with it
    outside = max(outside, 2.0**-1000 * math.exp(min(reach + 0.5 * mu * mu, _MAX_LOSS)))
    top = reach + 0.5 * mu * mu  # Y there; P itself is centred mu^2 higher than Q
    high = top + math.log(sampling_prob + (1.0 - sampling_prob) * math.exp(-top))
    _check_fits(f"noise_multiplier={noise_multiplier}", low, high, step)
    first = math.floor(low / step) - 1  # so that the outer cells hold only what lies outside
    size = max(8, math.ceil(high / step) - first + 3)
    padded = 1 << (size - 1).bit_length()
    size = padded if (first + padded) * step < _MAX_LOSS else size

    def on_lattice(shift: float, depth: int = DEPTH) -> RatioLaw:
        low_mass, high_mass = gaussian_cells(mu, sampling_prob, first + shift, step, size=size)
        if side is Side.UPPER:
            law = from_cells(low_mass, high_mass, (first + shift) * step, step, side)
            return dataclasses.replace(law, zero_mass=outside, infinite_mass=outside)
        ends = np.zeros_like(low_mass)  # the outer cells reach further than their ends: left out
        ends[1:-1] = 1.0
        return from_cells(low_mass * ends, high_mass * ends, (first + shift) * step, step, side, depth=depth)

    if side is Side.UPPER or sampling_prob == 1.0:
        return trimmed(on_lattice(0.0), 1.0, tail)
    # Most of a sampled step's law may lie within a few cells: then one lattice loses much less than another.
    sign = 1.0 if side is Side.LOWER_REMOVE else -1.0

    def mean(shift: float) -> float:
        law = on_lattice(shift, depth=0)
        return sign * float(law.masses @ np.expm1(law.log_values))

    best = max((-k / _NUM_SHIFTS for k in range(_NUM_SHIFTS)), key=mean)
    return trimmed(on_lattice(best), 1.0, tail)


def _laplace_law(noise_multiplier: float, step: float, side: Side) -> RatioLaw:
    """Loss (|x| - |x - 1|)/b: atoms at -1/b (x <= 0) and 1/b (x >= 1), a density between."""
    top = 1.0 / noise_multiplier
    _check_fits(f"noise_multiplier={noise_multiplier}", -top, top, step)
    first, last = math.floor(-top / step) - 1, math.ceil(top / step) + 1
    edges = np.clip(step * np.arange(first, last + 1), -top, top)
    # between the atoms x = (b l + 1)/2, with Q(x > .) = e^{-x/b}/2 and P(x < .) = e^{(x-1)/b}/2
    q_above, p_below = 0.5 * np.exp(-(edges + top) / 2.0), 0.5 * np.exp((edges - top) / 2.0)
    law = from_masses(-np.diff(q_above), np.diff(p_below), first * step, step, side)
    q_atoms = np.array([0.5, 0.5 * math.exp(-top)])
    atoms = from_atoms(np.array([-top, top]), q_atoms, 0.0, 0.0, step, side)
    return merged(law, atoms)


def _discrete_law(pair: DiscretePair, step: float, side: Side) -> RatioLaw:
    p, q = np.asarray(pair.p), np.asarray(pair.q)
    both = (p > 0) & (q > 0)
    log_values = np.log(p[both]) - np.log(q[both])
    _check_fits("mechanism=DiscretePair", log_values.min(initial=0.0), log_values.max(initial=0.0), step)
    return from_atoms(log_values, q[both], float(q[p == 0].sum()), float(p[q == 0].sum()), step, side)


def _interval_masses(cdf: np.ndarray, sf: np.ndarray, accuracy: float) -> tuple[np.ndarray, np.ndarray]:
    """Mass between neighbouring points, from the smaller tail, and a bound on its error."""
    left = cdf[1:] <= 0.5
    masses = np.where(left, np.diff(cdf), -np.diff(sf))
    error = (accuracy + 2.0**-52) * np.where(left, cdf[1:] + cdf[:-1], sf[1:] + sf[:-1])
    return np.maximum(masses, 0.0), error


def _continuous_law(pair: ContinuousPair, step: float, side: Side) -> RatioLaw:
    _check_fits(f"lowest={pair.lowest}", pair.lowest, pair.highest, step)
    first, last = math.floor(pair.lowest / step), math.ceil(pair.highest / step)
    edges = step * np.arange(first, last + 1)
    (p, p_error), (q, q_error) = (
        _interval_masses(np.asarray(cdf(edges), np.float64), np.asarray(sf(edges), np.float64), pair.accuracy)
        for cdf, sf in ((pair.cdf_p, pair.sf_p), (pair.cdf_q, pair.sf_q))
    )
    left = np.exp(edges[:-1])
    high = np.clip((p / left - q) / math.expm1(step), 0.0, q)
    error = (p_error / left + q_error) / math.expm1(step)
    if side is not Side.UPPER:  # what lies outside is dropped, and so is what the functions may err by
        low_mass, high_mass = np.maximum(q - high - error, 0.0), np.maximum(high - error, 0.0)
        return from_cells(low_mass, high_mass, first * step, step, side)
    law = from_cells(q - high + error, high + error, first * step, step, side)
    grow = 1.0 + pair.accuracy
    (below_p, above_p), (below_q, above_q) = (
        (float(cdf(edges[:1])[0]) * grow, float(sf(edges[-1:])[0]) * grow)
        for cdf, sf in ((pair.cdf_p, pair.sf_p), (pair.cdf_q, pair.sf_q))
    )
    masses = law.masses.copy()
    masses[0] += below_p / float(left[0])  # the left tail, split between 0 and the first point
    return dataclasses.replace(law, masses=masses, zero_mass=below_q + above_q, infinite_mass=above_p)


def _law_of_pld(pld: Pld, step: float, side: Side) -> RatioLaw:
    wanted = Bound.UPPER if side is Side.UPPER else Bound.LOWER
    if pld.direction is not Direction.REMOVE or pld.bound is not wanted:
        raise ValueError(f"mechanism: a base Pld must be the {wanted.value} of the remove direction")
    if side is Side.LOWER_ADD:
        raise ValueError("mechanism: a base Pld bounds the add direction from above only; give its discrete pair")
    p, infinite, zero = pld.masses, pld.infinite_mass, 0.0
    if side is Side.UPPER:
        # masses rounded up add to more than 1: the excess leaves at the lowest losses, which keeps the profile above
        # (it is linear there, and convex curves from 1 lie below their chords)
        excess = float(p.sum()) + infinite - 1.0
        p = p - np.clip(excess - (np.cumsum(p) - p), 0.0, p)
        infinite += max(0.0, -excess)
    masses = p * np.exp(-pld.losses)
    if side is Side.UPPER:
        zero = max(0.0, 1.0 - float(masses.sum())) + 2.0**-44  # the difference carries its rounding
    return from_atoms(pld.losses, masses, zero, infinite, step, side)


def _sampled(law: RatioLaw, sampling_prob: float) -> RatioLaw:
    """The law of 1 - q + q Y: Poisson sampling with probability q."""
    log_values = np.log1p(sampling_prob * np.expm1(law.log_values))
    masses = law.masses
    if law.zero_mass > 0:
        log_values, masses = np.append(log_values, math.log1p(-sampling_prob)), np.append(masses, law.zero_mass)
    return from_atoms(log_values, masses, 0.0, sampling_prob * law.infinite_mass, law.step, law.side)


def _base_law(base: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    """The ratio of one step of `base`, Poisson-sampled with probability `sampling_prob` (1: not sampled)."""
    with np.errstate(over="ignore", invalid="ignore"):
        law = _unchecked_law(base, sampling_prob, step, side, tail)
    if law.log_values[-1] > _MAX_LOSS or law.log_values[0] < -_MAX_LOSS:
        raise TooFineError(f"mechanism={base!r}: losses beyond {_MAX_LOSS:g} are out of reach of a loss distribution")
    return law


def _unchecked_law(base: Any, sampling_prob: float, step: float, side: Side, tail: float) -> RatioLaw:
    if isinstance(base, Gaussian):
        return _gaussian_law(float(base.noise_multiplier), sampling_prob, step, side, tail)
    if isinstance(base, Laplace):
        law = _laplace_law(float(base.noise_multiplier), step, side)
    elif isinstance(base, DiscretePair):
        law = _discrete_law(base, step, side)
    elif isinstance(base, ContinuousPair):
        law = _continuous_law(base, step, side)
    elif isinstance(base, Pld):
        law = _law_of_pld(base, step, side)
    else:
        raise ValueError(f"mechanism={base!r} has no privacy loss distribution here")
    return law if sampling_prob == 1.0 else _sampled(law, sampling_prob)


def _spread(base: Any) -> float:
    """Var(dP/dQ) of one step, finite part: its squared scale as seen by sampling and averaging."""
    if isinstance(base, Gaussian):
        return math.expm1(min(max(float(base.noise_multiplier), 1e-9) ** -2.0, 700.0))
    law = _base_law(base, 1.0, 1e-3, Side.UPPER, 0.0)
    return float(law.masses @ np.expm1(law.log_values) ** 2) + law.zero_mass


def _parts(mechanism: Any, step: float, side: Side, tail: float) -> list[tuple[RatioLaw, int]]:
    """Independent ratios, and how often each is multiplied in: their product is the mechanism's ratio."""
    if isinstance(mechanism, PoissonSampled):
        law = _base_law(mechanism.mechanism, float(mechanism.sampling_prob), step, side, tail)
        return [(law, int(mechanism.num_steps))]
    if isinstance(mechanism, RandomAllocation):
        steps, selected, epochs = (int(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))

        def base(coarse: float) -> RatioLaw:
            return _base_law(mechanism.mechanism, 1.0, coarse, side, tail)

        smaller, larger = allocation_groups(steps, selected, epochs, uneven=True)
        laws = averages(base, smaller.num_steps, step, tail, coarsening=_COARSENING, both=larger.num_runs > 0)
        return list(zip(laws, (smaller.num_runs, larger.num_runs), strict=True))
    if isinstance(mechanism, PartialAllocation):
        base_law = functools.partial(_single_law, mechanism.mechanism, side, tail)
        steps, done = int(mechanism.num_steps), int(mechanism.steps_done)
        return [(partial_average(base_law, steps, done, step, tail, coarsening=_COARSENING), 1)]
    if isinstance(mechanism, ScheduledAllocation):
        phases = [
            (functools.partial(_single_law, Gaussian(float(noise)), side, tail), int(count))
            for noise, count in zip(mechanism.noise_multipliers, mechanism.num_steps, strict=True)
        ]
        return [(scheduled_average(phases, step, tail, coarsening=_COARSENING), int(mechanism.num_epochs))]
    return [(_base_law(mechanism, 1.0, step, side, tail), 1)]


def _single_law(base: Any, side: Side, tail: float, step: float) -> RatioLaw:
    return _base_law(base, 1.0, step, side, tail)


def pld_of_law(law: RatioLaw, direction: Direction) -> Pld:
    """The law of log Y under P (remove), or of -log Y under Q (add)."""
    upper = law.side is Side.UPPER
    bound = Bound.UPPER if upper else Bound.LOWER
    kept = law.masses if upper else np.where(law.masses > _SMALLEST, law.masses, 0.0)
    if direction is Direction.ADD:
        offset = -float(law.log_values[-1])
        return Pld(offset, law.step, kept[::-1], law.zero_mass, bound, direction)
    exponents = law.log_values
    rounding = 2.0**-50 * (4.0 + np.abs(exponents))
    masses = kept * np.exp(exponents + (rounding if upper else -rounding))
    return Pld(law.offset, law.step, masses, law.infinite_mass, bound, direction)


def parts_of(mechanism: Any, step: float, bound: Bound, tail: float) -> Callable[[Direction], list[tuple[Pld, int]]]:
    """A function from direction to the privacy loss distributions to compose, each with its count.

    An upper bound's laws serve both directions and are made once.
    """
    shuffles = [(part, count) for part, count in _leaves(mechanism) if isinstance(part, Shuffled)]
    others = [(part, count) for part, count in _leaves(mechanism) if not isinstance(part, Shuffled)]
    laws: dict[Side, list[tuple[RatioLaw, int]]] = {}

    def of(direction: Direction) -> list[tuple[Pld, int]]:
        side = side_of(bound, direction)
        if side not in laws:
            laws[side] = [(law, n * count) for part, count in others for law, n in _parts(part, step, side, tail)]
        rounds = [(shuffled_pld(part, step, bound), int(part.num_epochs) * count) for part, count in shuffles]
        return [*rounds, *((pld_of_law(law, direction), count) for law, count in laws[side] if count > 0)]

    return of


def _leaves(mechanism: Any) -> list[tuple[Any, int]]:
    if not isinstance(mechanism, Composed):
        return [(mechanism, 1)]
    return [
        (leaf, times * int(count))
        for part, count in zip(mechanism.mechanisms, mechanism.counts, strict=True)
        for leaf, times in _leaves(part)
    ]


def width_constant(mechanism: Any) -> float:
    """Roughly c^2 times the relative width of epsilon at c points for one standard deviation, measured."""
    if isinstance(mechanism, Composed):
        return max(width_constant(part) for part in mechanism.mechanisms)
    return 4.0 if isinstance(mechanism, RandomAllocation | PartialAllocation | ScheduledAllocation) else 0.5


def loss_scale(mechanism: Any) -> tuple[float, int]:
    """(sum of count times squared scale of the loss, sum of counts) over the parts: what a step is measured against."""
    if isinstance(mechanism, PoissonSampled):
        steps, q = int(mechanism.num_steps), float(mechanism.sampling_prob)
        return steps * math.log1p(q * q * _spread(mechanism.mechanism)), steps
    if isinstance(mechanism, RandomAllocation):
        steps, selected, epochs = (int(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
        smaller, larger = allocation_groups(steps, selected, epochs, uneven=True)
        count = smaller.num_runs + larger.num_runs
        return count * math.log1p(_spread(mechanism.mechanism) / smaller.num_steps), count
    if isinstance(mechanism, PartialAllocation):
        share = int(mechanism.steps_done) / int(mechanism.num_steps)
        return math.log1p(share * _spread(mechanism.mechanism) / int(mechanism.num_steps)), 1
    if isinstance(mechanism, ScheduledAllocation):
        parts = zip(mechanism.noise_multipliers, mechanism.num_steps, strict=True)
        spread = sum(int(count) * _spread(Gaussian(float(noise))) for noise, count in parts)
        epochs, length = int(mechanism.num_epochs), sum(int(count) for count in mechanism.num_steps)
        return epochs * math.log1p(spread / length**2), epochs
    if isinstance(mechanism, Shuffled):
        return shuffled_scale(mechanism)
    if isinstance(mechanism, Composed):
        scales = [(loss_scale(part), int(c)) for part, c in zip(mechanism.mechanisms, mechanism.counts, strict=True)]
        return sum(c * s for (s, _), c in scales), sum(c * n for (_, n), c in scales)
    return math.log1p(_spread(mechanism)), 1
