"""Exact profiles of compositions of allocation, Poisson-sampled and Gaussian rounds.

The pair of each round is the worst case of Feldman & Shenfeld 2025, Theorem 3.1 (allocation, Gaussian noise), or of
Zhu, Dong & Wang 2022, Theorem 11. k-out-of-t is analysed as a composition of runs of 1-out-of-n (Lemma 3.2), over
groups of floor(t/k) and ceil(t/k) steps: an upper bound for the mechanism, exact for the composition. Complex moments
multiply, and one contour integral gives delta (`jaxacct.divergence._inversion`). Add/remove adjacency.

All ends are certified. Each question has a line made for it (`jaxacct.bounds._many_lines`), whose ends are loose but
never wrong where the composed loss is nearly an atom or heavy-tailed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, Role, itself
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._line_questions import Questions, Sampled, epochs, question
from jaxacct.bounds._many_lines import ends, is_lost, reaches
from jaxacct.bounds._parts import flattened
from jaxacct.composition import allocation_groups
from jaxacct.divergence.allocation._grid import Real
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation
from jaxacct.special import LEAST_NORMAL

# These steer running time and tightness: what they leave out is bounded and added.
_NARROW = 1e-6  # relative width of ends that are good enough
_WIDEST = 1e-3  # relative width from which the next methods do as well, if there are no rounds of allocation
_FIXED_ORDERS = {Direction.REMOVE: 1.0, Direction.ADD: 1.05}  # least orders of the next methods; 1 for any
_LEAST_NOISE = 1e-100  # smaller noise multipliers count as this where moments are guessed, so that squares are finite


class _Round(NamedTuple):
    """A run of 1-out-of-`num_steps` (1: a Gaussian step), or a step sampled with `sampling_prob` < 1."""

    noise_multiplier: float
    num_steps: float
    sampling_prob: float

    @property
    def variance(self) -> float:
        """log(1 + variance of the likelihood ratio): about the variance of the loss where that is small."""
        ratio = math.expm1(min(max(self.noise_multiplier, _LEAST_NOISE) ** -2.0, 700.0))
        return math.log1p(self.sampling_prob**2 * ratio / self.num_steps)

    @property
    def decay(self) -> float:
        """The decay for which log |M(a + ib)/M(a)| is at most -decay b^2/2; approximately so for a sampled step."""
        if self.sampling_prob < 1.0:
            return self.variance
        return max(self.noise_multiplier, _LEAST_NOISE) ** -2.0 / self.num_steps


def _poisson_rounds(mechanism: PoissonSampled) -> list[tuple[_Round, float]]:
    sigma, q = float(mechanism.mechanism.noise_multiplier), float(mechanism.sampling_prob)
    return [(_Round(sigma, 1.0, q), float(mechanism.num_steps))]


def _allocation_rounds(mechanism: RandomAllocation) -> list[tuple[_Round, float]]:
    fields = (np.float64(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
    sigma = float(mechanism.mechanism.noise_multiplier)
    groups = allocation_groups(*fields, uneven=True)
    return [(_Round(sigma, float(group.num_steps), 1.0), float(group.num_runs)) for group in groups]


_ROUNDS: dict[tuple[type, ...], Callable[[Any], list[tuple[_Round, float]]]] = {
    (Gaussian,): lambda mechanism: [(_Round(float(mechanism.noise_multiplier), 1.0, 1.0), 1.0)],
    (PoissonSampled, Gaussian): _poisson_rounds,
    (RandomAllocation, Gaussian): _allocation_rounds,
}


def composes(mechanism: Any) -> bool:
    """bool: whether every part of `mechanism` consists of such rounds; its fields must be scalars."""
    return all(part.signature() in _ROUNDS for part, _ in flattened(mechanism))


def _rounds(mechanism: Any) -> dict[_Round, float]:
    """The different rounds of `mechanism`, each with the number of times it is run."""
    found: dict[_Round, float] = {}
    for part, count in flattened(mechanism):
        for of, times in _ROUNDS[part.signature()](part):
            if times > 0 and of.sampling_prob > 0:
                found[of] = found.get(of, 0.0) + float(count) * times
    return found


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each requested direction, no wider than those known."""
    rounds = _rounds(mechanism)
    plain = [(of.noise_multiplier, of.num_steps, n) for of, n in rounds.items() if of.sampling_prob == 1.0]
    sampled = [(of.noise_multiplier, of.sampling_prob, n) for of, n in rounds.items() if of.sampling_prob < 1.0]
    allocates = any(steps > 1 for _, steps, _ in plain)
    is_known = sum(n * of.decay for of, n in rounds.items()) > 0.0
    is_known = is_known and bool(reaches(question(plain, [], Direction.REMOVE, target))[0])
    if not (is_known and (allocates or at.width < _WIDEST)):
        return dict(at.known)  # other methods are as good, or there is nothing to compute
    found: dict[Direction, Ends[float]] = {}
    for d, known in at.known.items():
        below = max((ends.lower for ends in found.values()), default=0.0)
        if known.upper - known.lower <= _NARROW * known.lower or known.upper <= below:
            found[d] = known
            continue
        asked = question(plain, sampled, d, target)
        if query is Query.DELTA and is_lost(asked, 1.0 if sampled else _FIXED_ORDERS[d]):
            found[d] = known  # the next methods do as well
            continue
        one = Ends(*(float(x[0]) for x in ends(asked, query, below)))
        low, high = max(known.lower, one.lower), min(known.upper, one.upper)
        found[d] = Ends(low, high if query is Query.EPSILON else max(high, LEAST_NORMAL))
    return found


def many_brackets(
    mechanism: Any, query: Query, target: Any, directions: Sequence[Direction], *, is_single: bool = False
) -> Mapping[Direction, Ends[Real]]:
    """Certified ends [P] in each direction, for epochs of k-out-of-t allocation with Gaussian noise, fields [P].

    The ends are trivial where noise or lengths are out of range, or no line works. They are also trivial where a record
    joins several steps or epochs if `is_single`, and where it joins one step of one epoch if not.
    """
    sigma, *counts = (
        np.asarray(x, np.float64)
        for x in (
            mechanism.mechanism.noise_multiplier,
            mechanism.num_steps,
            mechanism.num_selected,
            mechanism.num_epochs,
        )
    )
    (steps, first), (_, second) = allocation_groups(*counts, uneven=True)
    lanes = np.flatnonzero(((first + second == 1.0) == is_single) & (steps >= 2))
    rounds = epochs(*(x[lanes] for x in (sigma, steps, first, second)))
    asked = np.asarray(target, np.float64)[lanes]
    found, below = {}, np.zeros(len(lanes))
    for d in directions:
        lower, upper = np.zeros(len(sigma)), np.full(len(sigma), query.worst)
        of = Questions(
            asked, np.full(len(lanes), d is Direction.ADD), rounds, 0.0 * asked, Sampled.none(), Sampled.none()
        )
        lower[lanes], upper[lanes] = ends(of, query, below, is_whole=not is_single)
        below = lower[lanes]
        found[d] = Ends(lower, upper if query is Query.EPSILON else np.maximum(upper, LEAST_NORMAL))
    return found


def moments(below: Callable[[Any], Any], *, role: Role = Role.QUICK, many: Any = None) -> BracketMethod:
    """The method "complex moments" (class `BracketMethod`) of a scheme.

    Args:
      below: as for `BracketMethod`: the mechanism itself, unless some part is analysed by a reduction.
      role: as for `BracketMethod`; QUICK where it costs less than the scheme's methods on lanes.
      many: its brackets of many points at once, or None; see `BracketMethod`.
    """
    return BracketMethod(
        engine=Engine.CONTOUR,
        name="complex moments",
        theorem="Feldman & Shenfeld 2025, Theorem 3.1 and Lemma 3.2; Zhu, Dong & Wang 2022, Theorem 11",
        directions=BOTH,
        ends=frozenset({Bound.UPPER, Bound.LOWER}),
        cost=Cost.TENTHS,
        applies=composes,
        bracket=_bracket,
        below=below,
        role=role,
        many=many,
        has_one_engine=True,
    )


MOMENTS = moments(itself, role=Role.NARROW)
