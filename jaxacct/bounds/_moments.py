"""Exact profiles of compositions of allocation, Poisson-sampled and Gaussian rounds, many counts and epsilons at once.

Each round's pair is the worst case of Feldman & Shenfeld 2025, Theorem 3.1 (allocation, Gaussian noise), or of Zhu,
Dong & Wang 2022, Theorem 11. k-out-of-t is composed of runs of 1-out-of-n by Lemma 3.2, groups of floor and
ceil(t/k): an upper bound on the mechanism, exact for what is analysed. Complex moments multiply, and one contour
integral gives delta (`jaxacct.divergence._inversion`). Add/remove adjacency.

Certified. A question is answered by one line made for it (`jaxacct.bounds._many_lines`); the table here, for many
counts and epsilons at once, is loose (never wrong) where the composed loss is nearly an atom or heavy-tailed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._method import BOTH, Bracketing, BracketMethod, Cost, Engine, Query, itself
from jaxacct._precision import HostProgram
from jaxacct._types import Bound, Direction, Ends
from jaxacct.bounds._line_questions import Questions, epochs, question
from jaxacct.bounds._many_lines import ends, is_lost, reaches
from jaxacct.bounds._parts import flattened
from jaxacct.composition import allocation_groups, compose_line_moments
from jaxacct.divergence._inversion import ALIAS_FACTORS, Line, LineMoments, delta_ends, epsilon_ends
from jaxacct.divergence.allocation._grid import Real
from jaxacct.divergence.allocation._moment_contour import MAX_SAMPLES, AllocationMoments, num_samples
from jaxacct.divergence.allocation._powers import MAX_ORDER, integer_log_moments
from jaxacct.divergence.gaussian._line import gaussian_line
from jaxacct.divergence.gaussian._sampled_decay import sampled_gaussian_decay
from jaxacct.divergence.gaussian._sampled_line import highest_node, sampled_gaussian_line
from jaxacct.mechanisms import Gaussian, PoissonSampled, RandomAllocation
from jaxacct.special import LEAST_NORMAL, down, up

# These steer running time and tightness: what they leave out is bounded and added.
_NUM_LINES = 24  # lines (Renyi orders a) prepared for one table of moments; each question takes the best of them
_NUM_EDGES = 64  # points beyond the last node at which the moments' fall is bounded, each 1.25 times further
_ALIASES = 34.0  # aliases on the left are e^-34 on the flattest line, and fall with the order as delta does
_FALL = 36.0  # the product of moments is followed to e^-36 of its largest
_MIN_NODES, _MAX_NODES = 512, 8192  # nodes on a line
_NUM_Z = (512, 1024, 2048, 4096)  # nodes of the quadrature behind a moment of a sampled step: the first that resolves
_NARROW = 1e-6  # relative width of ends that are not improved on
_WIDEST = 1e-3  # relative width of one line's ends beyond which the table of lines is asked as well
_LEAST_OF_TABLE = 1e-20  # delta below which parts of a search do not ask the table in the remove direction: see there
_FIXED_ORDERS = {Direction.REMOVE: 1.0, Direction.ADD: 1.05}  # least ones that methods after this one have, 1 for any
_LEAST_NOISE = 1e-100  # noise multipliers below it count as this where moments are guessed, so that squares are doubles
_BLOCK = 2**18  # nodes times questions in one call: bounds its memory


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
        """log |M(a + ib)/M(a)| is at most -decay b^2/2; about so for a sampled step."""
        if self.sampling_prob < 1.0:
            return self.variance
        return max(self.noise_multiplier, _LEAST_NOISE) ** -2.0 / self.num_steps


def _gaussian_rounds(mechanism: Gaussian) -> list[tuple[_Round, float]]:
    return [(_Round(float(mechanism.noise_multiplier), 1.0, 1.0), 1.0)]


def _poisson_rounds(mechanism: PoissonSampled) -> list[tuple[_Round, float]]:
    sigma, q = float(mechanism.mechanism.noise_multiplier), float(mechanism.sampling_prob)
    return [(_Round(sigma, 1.0, q), float(mechanism.num_steps))]


def _allocation_rounds(mechanism: RandomAllocation) -> list[tuple[_Round, float]]:
    fields = (np.float64(x) for x in (mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs))
    sigma = float(mechanism.mechanism.noise_multiplier)
    groups = allocation_groups(*fields, uneven=True)
    return [(_Round(sigma, float(group.num_steps), 1.0), float(group.num_runs)) for group in groups]


_ROUNDS: dict[tuple[type, ...], Callable[[Any], list[tuple[_Round, float]]]] = {
    (Gaussian,): _gaussian_rounds,
    (PoissonSampled, Gaussian): _poisson_rounds,
    (RandomAllocation, Gaussian): _allocation_rounds,
}


def composes(mechanism: Any) -> bool:
    """bool: whether `ComposedProfile` knows every part of `mechanism`; its fields must be scalars."""
    return all(part.signature() in _ROUNDS for part, _ in flattened(mechanism))


def _rounds(mechanism: Any) -> dict[_Round, float]:
    """The different rounds of `mechanism`, each with the number of times it is run."""
    found: dict[_Round, float] = {}
    for part, count in flattened(mechanism):
        for of, times in _ROUNDS[part.signature()](part):
            if times > 0 and of.sampling_prob > 0:
                found[of] = found.get(of, 0.0) + float(count) * times
    return found


def _composed(
    heights: Any, order: Any, period: Any, edges: Any, alias_orders: Any, counts: Any, *moments: Any
) -> tuple[Line, LineMoments]:
    heights = heights[:, None] + 0.0 * order
    line = Line(order, period, heights, heights >= 0, edges, alias_orders)
    parts = [LineMoments(*(x[i] for x in moments)) for i in range(counts.shape[0])]
    return line, compose_line_moments(zip(parts, counts, strict=True))


def _delta(epsilon: Any, *arrays: Any) -> tuple[Any, ...]:
    line, moments = _composed(*arrays)
    return tuple(delta_ends(line, moments, epsilon))


def _epsilon(log_delta: Any, start: Any, *arrays: Any) -> tuple[Any, ...]:
    line, moments = _composed(*arrays)
    return tuple(epsilon_ends(line, moments, log_delta, start))


_delta_program, _epsilon_program = HostProgram(_delta), HostProgram(_epsilon)


def _poisson(*arrays: Any, num_z: int) -> LineMoments:
    *line, sigma, q, add = arrays
    return sampled_gaussian_line(Line(*line), sigma, q, add > 0, num_z=num_z)


_poisson_program = HostProgram(_poisson)
_highest_program = HostProgram(lambda orders, sigma, add, *, num_z: highest_node(orders, sigma, add > 0, num_z=num_z))


def _sampled_on(of: _Round, line: Line, direction: Direction) -> LineMoments:
    """`LineMoments` of a Poisson-sampled step on a line whose lanes have their nodes at the same heights."""
    order = np.asarray(line.order)
    lanes = np.ones_like(order)
    sigma, add = of.noise_multiplier * lanes, float(direction is Direction.ADD) * lanes
    highest = float(np.max(line.heights))
    enough = (n for n in _NUM_Z if _highest_program(line.alias_orders, sigma, add, num_z=n).min() >= highest)
    num_z = next(enough, _NUM_Z[-1])
    found = _poisson_program(*line, sigma, of.sampling_prob * lanes, add, num_z=num_z)
    power = order if direction is Direction.REMOVE else 1.0 - order
    decay = sampled_gaussian_decay(of.noise_multiplier, of.sampling_prob, power, float(line.edges[0, 0]))
    least: Any = np.minimum(found.log_decay, decay)
    return LineMoments(*found)._replace(log_decay=least)


class ComposedProfile:
    """Brackets of delta [C, E] and epsilon [C] of compositions of `mechanisms`, one direction, many counts at once.

    The table of moments is made once; it depends on the counts only through their range.

    Args:
      mechanisms: `Gaussian`, `PoissonSampled` or `RandomAllocation` of it, or `Composed` of them; scalar fields.
      counts: [C, len(mechanisms)] (or [C] for one mechanism), how often each is run; no row all 0.
      direction: REMOVE or ADD.
      tolerance: relative error of the samples behind the moments of allocation.
    """

    def __init__(self, mechanisms: Sequence[Any], counts: Any, direction: Direction, *, tolerance: float = 1e-8):
        expanded = [_rounds(m) for m in mechanisms]
        self._rounds = list(dict.fromkeys(of for found in expanded for of in found))
        table = np.array([[found.get(of, 0.0) for of in self._rounds] for found in expanded])
        self._counts = np.asarray(counts, np.float64).reshape(-1, len(mechanisms)) @ table  # [C, rounds]
        self._direction = direction
        height = math.sqrt(2.0 * _FALL / float((self._counts @ [of.decay for of in self._rounds]).min()))
        exponents = self._line_exponents(height)
        period = _ALIASES / float(exponents[0])
        num = 1 << math.ceil(math.log2(max(height * period / (2.0 * math.pi), 1.0)))
        num = min(max(num, _MIN_NODES), _MAX_NODES)
        order = 1.0 + exponents
        heights = 2.0 * math.pi / period * np.arange(num)
        # from the last node on: the sum over k >= N of 1/k^2 is below 1/(N - 1)
        edges = heights[-1] * 1.25 ** np.arange(_NUM_EDGES)
        lanes, columns = np.ones(_NUM_LINES), heights[:, None] * np.ones(_NUM_LINES)
        alias_orders = 1.0 + np.asarray(ALIAS_FACTORS)[:, None] * exponents
        line: Any = (order, period * lanes, columns, columns >= 0, edges[:, None] * lanes, alias_orders)
        self._line = Line(*line)
        self._moments = [self._on_line(of, tolerance) for of in self._rounds]

    def _line_exponents(self, height: float) -> Real:
        """From what delta = 0.2 wants at the largest counts to what delta = 1e-13 wants at the smallest, or less.

        Less where the samples behind the moments would be too many: tilted further, they reach into the tail.
        """
        scales = np.sqrt(self._counts @ [of.variance for of in self._rounds])
        low, high = 0.3 / scales.max(), 12.0 / scales.min()
        sampled = [i for i, of in enumerate(self._rounds) if of.num_steps > 1]
        if self._direction is Direction.REMOVE and sampled:
            orders = np.arange(2.0, 0.5 * MAX_ORDER + 1.0)
            parts = [self._rounds[i] for i in sampled]
            logs = [integer_log_moments(of.noise_multiplier, of.num_steps)[1 : len(orders) + 1] for of in parts]
            best = ((self._counts[:, sampled] @ np.stack(logs) + 30.0) / (orders - 1.0)).argmin(1)
            high = min(high, max(float(orders[best].max()) - 1.0, 2.0))
            tried = np.geomspace(min(low, 0.5, 0.1 * high), high, 4 * _NUM_LINES)
            length = [num_samples(of.noise_multiplier, of.num_steps, tried, height) for of in parts]
            fits = tried[np.max(length, axis=0) <= MAX_SAMPLES]
            high = float(fits[-1]) if len(fits) else float(tried[0])
            low = min(low, 0.2 * high)
        return np.geomspace(low, high, _NUM_LINES)

    def _on_line(self, of: _Round, tolerance: float) -> LineMoments:
        line, lanes = self._line, np.ones(_NUM_LINES)
        if of.sampling_prob < 1.0:
            return _sampled_on(of, line, self._direction)
        if of.num_steps == 1:
            noise: Any = of.noise_multiplier * lanes
            return gaussian_line(line, noise)
        exponents, height = np.asarray(line.order) - 1.0, float(line.heights[-1, 0])
        table = AllocationMoments(of.noise_multiplier, of.num_steps, self._direction, exponents, height, tolerance)
        return table.on(line)

    def _choice(self, epsilon: Real) -> Any:
        """The line that should give the narrowest interval for each count and epsilon: [C, E]."""
        order, period = np.asarray(self._line.order)[:, None, None], float(self._line.period[0])
        size = np.stack([m.log_modulus[0] for m in self._moments], 1) @ self._counts.T
        error = np.stack([m.error[0] for m in self._moments], 1) @ self._counts.T
        above = np.stack([m.log_alias[-1] for m in self._moments], 1) @ self._counts.T
        size = size[..., None] - (order - 1.0) * epsilon
        # aliases by Markov's inequality at twice the exponent
        right = above[..., None] - 2.0 * (order - 1.0) * epsilon - (order - 1.0) * period
        rounding = size - np.log(order) + np.log(1e-14 + np.minimum(error, 1e300))[..., None]
        return np.nan_to_num(np.maximum(np.maximum(rounding, right), -(order - 1.0) * period), nan=np.inf).argmin(0)

    def _ask(self, program: HostProgram, lanes: Any, counts: Any, *targets: Real) -> tuple[Real, Real]:
        """The program for each question: a line, counts [Q, rounds], and further numbers."""
        block = max(16, _BLOCK // len(self._line.heights))
        size = min(block, 1 << math.ceil(math.log2(max(len(lanes), 2))))
        out = []
        for start in range(0, len(lanes), size):
            at = np.pad(
                np.arange(start, min(start + size, len(lanes))), (0, max(0, start + size - len(lanes))), mode="edge"
            )
            on = lanes[at]
            moments = [np.stack([m[k][:, on] for m in self._moments]) for k in range(len(LineMoments._fields))]
            line = self._line
            arrays = (line.heights[:, 0], line.order[on], line.period[on], line.edges[:, on], line.alias_orders[:, on])
            found = program(*(x[at] for x in targets), *arrays, counts[at].T, *moments)
            out.append([x[: len(lanes) - start] for x in found])
        lower, upper = (np.concatenate([part[k] for part in out]) for k in (0, 1))
        return lower, upper

    def delta(self, epsilon: Any) -> Ends[NDArray[Any]]:
        """Lower and upper ends [C, E] of delta at each `epsilon` >= 0, one-dimensional [E]."""
        epsilon = np.atleast_1d(np.asarray(epsilon, np.float64))
        with np.errstate(all="ignore"):
            lanes = self._choice(epsilon)
            counts = np.repeat(self._counts, len(epsilon), axis=0)
            low, high = self._ask(_delta_program, lanes.ravel(), counts, np.tile(epsilon, len(self._counts)))
            lower, upper = (np.exp(x).reshape(lanes.shape) for x in (low, high))
            return Ends(down(lower, 8), np.minimum(up(upper, 8), 1.0))

    def epsilon(self, delta: float) -> Ends[NDArray[Any]]:
        """Lower and upper ends [C] of epsilon at `delta`."""
        log_delta = np.full(len(self._counts), math.log(delta))
        with np.errstate(all="ignore"):
            order = np.asarray(self._line.order)[:, None]
            sound = np.all([np.isfinite(m.error[0]) for m in self._moments], axis=0)[:, None]
            size = np.stack([m.log_modulus[0] for m in self._moments], 1) @ self._counts.T
            size = np.where(sound, size, np.inf)
            start = np.maximum(((size - log_delta) / (order - 1.0)).min(0), 1e-300)
            lower, upper = np.zeros_like(start), np.full_like(start, np.inf)
            guess = start
            for _ in range(2):
                lanes = np.diagonal(self._choice(guess)).copy()
                low, high = self._ask(_epsilon_program, lanes, self._counts, log_delta, start)
                lower, upper = np.maximum(lower, low), np.minimum(upper, high)
                guess = np.where(np.isfinite(upper), 0.5 * (lower + np.where(np.isfinite(upper), upper, 0.0)), guess)
        ends: Any = (lower, upper)
        return Ends(*ends)


def _bracket(mechanism: Any, query: Query, target: float, at: Bracketing) -> Mapping[Direction, Ends[float]]:
    """The ends in each direction asked, no wider than those known."""
    rounds = _rounds(mechanism)
    plain = [(of.noise_multiplier, of.num_steps, n) for of, n in rounds.items() if of.sampling_prob == 1.0]
    sampled = [(of.noise_multiplier, of.sampling_prob, n) for of, n in rounds.items() if of.sampling_prob < 1.0]
    allocates = any(steps > 1 for _, steps, _ in plain)
    is_known = sum(n * of.decay for of, n in rounds.items()) > 0.0
    is_known = is_known and bool(reaches(question(plain, [], Direction.REMOVE, target))[0])
    if not (is_known and (allocates or at.width < _WIDEST)):
        return dict(at.known)  # the methods before and after are as good, or there is nothing to see
    found: dict[Direction, Ends[float]] = {}
    for d, known in at.known.items():
        below = max((ends.lower for ends in found.values()), default=0.0)
        if known.upper - known.lower <= _NARROW * known.lower or known.upper <= below:
            found[d] = known
            continue
        asked = question(plain, sampled, d, target)
        if query is Query.DELTA and is_lost(asked, 1.0 if sampled else _FIXED_ORDERS[d]):
            found[d] = known  # methods after this one know as much
            continue
        one = Ends(*(float(x[0]) for x in ends(asked, query, below)))
        low, high = max(known.lower, one.lower), min(known.upper, one.upper)
        # where a line of allocation says nothing from below, no line of the table says anything, at any epsilon
        is_blind = d is Direction.REMOVE and query is Query.EPSILON and not sampled and not one.lower > 0.0
        # nor does it at deltas far below those that its lines are made for, where one line says much
        is_far = d is Direction.REMOVE and query is Query.EPSILON and target < _LEAST_OF_TABLE and one.lower > 0.0
        is_enough = high <= below or high - low <= _WIDEST * low
        if not (is_enough or is_blind or (is_far and at.share < 1.0)):
            profile = ComposedProfile([mechanism], [1.0], d)
            table = profile.epsilon(target) if query is Query.EPSILON else profile.delta(target)
            low, high = max(low, float(np.max(table.lower))), min(high, float(np.min(table.upper)))
        found[d] = Ends(low, high if query is Query.EPSILON else max(high, LEAST_NORMAL))
    return found


def many_brackets(
    mechanism: Any, query: Query, target: Any, directions: Sequence[Direction], *, is_single: bool = False
) -> Mapping[Direction, Ends[Real]]:
    """Certified ends [P] in each direction, of epochs of k-out-of-t allocation with Gaussian noise, fields [P].

    The trivial ends where noise or lengths are out of range, or no line would do; with `is_single` where a record joins
    several steps or epochs, else where it joins one step of one epoch.
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
        of = Questions(asked, d, rounds, 0.0 * asked, ((),) * len(lanes))
        lower[lanes], upper[lanes] = ends(of, query, below, is_whole=not is_single)
        below = lower[lanes]
        found[d] = Ends(lower, upper if query is Query.EPSILON else np.maximum(upper, LEAST_NORMAL))
    return found


def moments(below: Callable[[Any], Any], *, is_quick: bool = True, many: Any = None) -> BracketMethod:
    """The method "complex moments" (class `BracketMethod`) of a scheme.

    Args:
      below: as for `BracketMethod`: the mechanism itself, unless some part is analysed by a reduction.
      is_quick: whether it costs less than the scheme's methods on lanes, so that quick questions ask it too.
      many: its brackets of many points at once, or None; see `BracketMethod`.
    """
    return BracketMethod(
        engine=Engine.CONTOUR,
        name="complex moments",
        theorem="Feldman & Shenfeld 2025, Theorem 3.1 and Lemma 3.2; Zhu, Dong & Wang 2022, Theorem 11",
        directions=BOTH,
        ends=frozenset({Bound.UPPER, Bound.LOWER}),
        cost=Cost.TENTHS,
        cold=Cost.TENTHS,
        applies=composes,
        bracket=_bracket,
        below=below,
        is_quick=is_quick,
        many=many,
    )


MOMENTS = moments(itself, is_quick=False)
