"""Privacy loss distributions on a uniform grid."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import check_delta, check_positive, checked_array, checked_choice, checked_number
from jaxacct.mechanisms._base import Mechanism, Parts
from jaxacct.mechanisms._words import ADAPTIVE
from jaxacct.special import bisect_whole

_ROUNDING = 2.0**-44  # relative rounding error of a sum of non-negative terms over a grid


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no truth value: == is identity
class Pld(Mechanism):
    """A privacy loss distribution: `masses[j]` at the loss offset + j step, and `infinite_mass` at +infinity.

    An upper bound dominates the mechanism in its direction at every epsilon, and so do its compositions; a lower
    bound is dominated by it. Masses are already rounded to the safe side. Losses are in nats.

    Attributes:
      offset, step: the grid of losses.
      masses: float64 [N], probabilities under the first distribution of the pair.
      infinite_mass: the probability of outputs that the second distribution does not cover.
      bound: UPPER or LOWER.
      direction: REMOVE or ADD.
      neighboring_relation: the adjacency.
      theorem: the theorem that it comes from.

    >>> import jaxacct as ja
    >>> pld = ja.pld(ja.Gaussian(1.0))
    >>> round(pld.delta(1.0), 4), round(pld.epsilon(0.12693673750664), 2)
    (0.1269, 1.0)
    """

    scheme = "privacy loss distribution"
    released = "what the privacy loss distribution was made for"
    reduction = None
    takes_all = True

    offset: float
    step: float
    masses: NDArray[Any]
    infinite_mass: float
    bound: Bound
    direction: Direction
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    theorem: str = ""

    def __post_init__(self) -> None:
        for field in ("step", "offset", "infinite_mass"):  # as doubles: narrower numbers would narrow what they meet
            object.__setattr__(self, field, checked_number(field, getattr(self, field)))
        check_positive("step", self.step)
        if not math.isfinite(self.offset):
            raise ValueError(f"offset={self.offset} must be finite")
        if not 0 <= self.infinite_mass < math.inf:
            raise ValueError(f"infinite_mass={self.infinite_mass} must be >= 0")
        masses = checked_array("masses", self.masses).astype(np.float64, copy=False)
        object.__setattr__(self, "masses", masses)
        if masses.ndim != 1 or masses.size == 0 or not np.all((masses >= 0) & (masses < math.inf)):
            raise ValueError(f"masses={masses!r} must be a one-dimensional array of finite numbers >= 0")
        object.__setattr__(self, "bound", checked_choice("bound", self.bound, Bound.UPPER, Bound.LOWER))
        object.__setattr__(self, "direction", checked_choice("direction", self.direction, *Direction))

    def __repr__(self) -> str:
        grid = f"offset={self.offset:g}, step={self.step:g}, masses=<{np.size(self.masses)} numbers>"
        end = f"infinite_mass={self.infinite_mass:g}, bound={self.bound}, direction={self.direction}"
        return f"Pld({grid}, {end})"

    def source(self) -> str:
        """One line about it, since its masses are too many to print."""
        return repr(self)

    @property
    def relation(self) -> NeighboringRelation:  # type: ignore[override]
        """The adjacency that the distribution was made for."""
        return self.neighboring_relation

    def describe(self) -> str:
        origin = f", by {self.theorem}" if self.theorem else ""
        return f"a privacy loss distribution of {self.masses.size} losses{origin}"

    def assumptions(self) -> tuple[str, ...]:
        return (f"the stated privacy loss distribution bounds the privacy loss of each step; {ADAPTIVE}",)

    def loses_nothing(self) -> bool:
        """False: the mechanism may lose anything up to this bound."""
        return False

    def releases(self, number: int) -> tuple[Parts, ...]:
        return (((self, number),),)

    @property
    def losses(self) -> NDArray[Any]:
        """The losses of the grid, float64 [N], in nats."""
        return self.offset + self.step * np.arange(self.masses.shape[0])

    def delta(self, epsilon: float) -> float:
        """delta at `epsilon`, any number > -inf, rounded to the safe side.

        The sum over losses l > epsilon of (1 - e^(epsilon - l)) p(l), plus the mass at infinity.
        """
        epsilon = checked_number("epsilon", epsilon)
        if epsilon == -math.inf:
            raise ValueError("epsilon=-inf must be > -inf")
        place = (epsilon - self.offset) / self.step
        if place >= self.masses.shape[0]:
            return float(min(1.0, self.infinite_mass))
        first = max(0, int(place))
        gap = np.minimum(epsilon - (self.offset + self.step * np.arange(first, self.masses.shape[0])), 0.0)
        # NumPy adds in pairs: an error of some 40 ulp at any length; one after the other, each term may add one
        total = float((self.masses[first:] * -np.expm1(gap)).sum()) + self.infinite_mass
        slack = _ROUNDING * total + self._shift(epsilon) * float(self.masses[first:].sum())
        return float(min(1.0, total + slack) if self.bound is Bound.UPPER else max(0.0, total - slack))

    def _shift(self, epsilon: float) -> float:
        """The error of differences of `epsilon` and the grid's losses: a few ulp of the largest."""
        return 2.0**-50 * (abs(epsilon) + abs(self.offset) + self.step * (self.masses.shape[0] - 1))

    def epsilon(self, delta: float) -> float:
        """The least epsilon >= 0 at which `self.delta` is at most `delta` in (0, 1), rounded to the safe side."""
        delta = checked_number("delta", delta)
        check_delta("delta", delta)
        upper = self.bound is Bound.UPPER
        if upper and self.infinite_mass * (1.0 + 2.0 * _ROUNDING) >= delta:
            return float("inf")
        if self.delta(0.0) <= delta:
            return 0.0
        # the cell that holds the answer, by bisection over the grid that starts where plain cumulative sums put it
        low, high = max(-1, int(-self.offset / self.step)), self.masses.shape[0]
        for cell in self._rough_cells(delta):
            if low < cell < high:
                if self.delta(self.offset + self.step * cell) <= delta:
                    high = cell
                else:
                    low = cell
        high = bisect_whole(lambda cell: self.delta(self.offset + self.step * cell) <= delta, high, low)
        low = max(low, high - 1)
        base = self.offset + self.step * low
        # inside it delta = S - e^(eps - base) T, and what `self.delta` adds or takes away for rounding, a little more
        above = self.masses[low + 1 :]
        slack = 1.25 * (_ROUNDING * delta + self._shift(base) * float(self.masses[max(low, 0) :].sum()))
        s = float(above.sum()) + self.infinite_mass + (slack if upper else -slack)
        t = float((above * np.exp(-self.step * np.arange(1.0, above.shape[0] + 1.0))).sum())
        inside = float(np.log((s - delta) / t)) if s > delta and t > 0 else self.step
        guess = base + min(max(inside, 0.0), self.step)
        for k in range(40):  # step to the safe side of the rounding of both
            nudge = (abs(guess) + self.step) * 2.0 ** (k - 50)
            answer = max(guess + nudge if upper else guess - nudge, 0.0)
            settled = self.delta(answer) <= delta if upper else self.delta(answer) >= delta or answer == 0.0
            if settled:
                return answer
        return float("inf") if upper else 0.0

    def _rough_cells(self, delta: float) -> tuple[int, int]:
        """Grid points just below and just above the answer, unless S - e^eps T cancels too much."""
        relative = np.exp(-self.step * np.arange(self.masses.shape[0]))
        s = np.cumsum(self.masses[::-1])[::-1]
        t = np.cumsum((self.masses * relative)[::-1])[::-1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            above = s - np.where(t > 0, t / relative, 0.0) + self.infinite_mass > delta
        last = int(np.flatnonzero(above)[-1]) if above.any() else -1
        return last - 2, last + 3


# a tree node without leaves: a traced program holds the numbers as constants
_trees.register(Pld, (), lambda pld: ((), pld), lambda pld, leaves: pld)


def check_plds(name: str, values: Iterable[Any]) -> None:
    """Raises ValueError unless all `values` are privacy loss distributions."""
    for value in values:
        if not isinstance(value, Pld):
            raise ValueError(f"{name} must be privacy loss distributions, not {type(value).__name__}")


def check_alike(plds: Iterable[Pld], purpose: str) -> None:
    """Raises ValueError unless all have one bound, direction and adjacency; `purpose`: what that is needed for."""
    if len({(pld.bound, pld.direction, pld.neighboring_relation) for pld in plds}) > 1:
        raise ValueError(f"privacy loss distributions must share bound, direction and adjacency to {purpose}")
