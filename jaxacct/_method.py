"""What a method is: one way to bound one kind of mechanism, as a record of facts. There are three kinds of method.

The words *ask*, *lane*, *host*, *quick*, *exact*, *reduction* and *direction* are defined in `jaxacct.answering`. In
the shapes here and in `jaxacct.bounds`, L is the number of lanes, A that of Renyi orders.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._precision import FEW_LANES
from jaxacct._precision._ways import Running
from jaxacct._types import Bound, Direction, Ends, Progress
from jaxacct.mechanisms._base import Mechanism

# the probability, over its samples, that one ESTIMATE is less than the truth; over the 1,000 of a search it is 1e-9
FAILURE = 1e-12
# Renyi order: orders above it are whole wherever a method of fractional orders is tried
FRACTIONAL_TOP = 16.0
# the directions of a method that bounds add-or-remove adjacency as a whole
BOTH = (Direction.REMOVE, Direction.ADD)


class Query(enum.Enum):
    """What is asked: epsilon at a delta, or delta at an epsilon.

    Attributes:
      value: "epsilon" or "delta".
      given: the name of what is held fixed, the target.
      worst: the upper bound that always holds.
      width: relative width of the certified bracket behind an answer, unless another was asked for.
    """

    EPSILON = "epsilon"
    DELTA = "delta"

    @property
    def worst(self) -> float:
        return math.inf if self is Query.EPSILON else 1.0

    @property
    def width(self) -> float:
        return 1e-3 if self is Query.EPSILON else 1e-2

    @property
    def given(self) -> str:
        return "target_delta" if self is Query.EPSILON else "target_epsilon"

    def allowed(self, target: Any) -> Any:
        """Whether a target is in its range, elementwise."""
        if self is Query.EPSILON:
            return (target > 0) & (target < 1)
        return (target >= 0) & (target < np.inf)


class Cost(enum.IntEnum):
    """About how long one point takes."""

    MICROSECONDS = 0  # below a millisecond
    MILLISECONDS = 1  # to 50 milliseconds
    TENTHS = 2  # to half a second
    SECONDS = 3  # beyond


class Engine(enum.Enum):
    """What does the work of a method; the value is what `jaxacct.accounting.plan` calls it."""

    FORMULA = "a closed form, or a sum or integral"
    CONTOUR = "complex moments on a contour"
    LAWS = "laws inside jit"
    DISTRIBUTIONS = "loss distributions"
    RENYI = "Renyi divergences"
    TEST = "the errors of a test"
    OTHERS = "the answers about a simpler scheme, or about parts"


class Role(enum.Enum):
    """When a method is asked about what it covers. One that gives only a lower end is asked only where that is wanted.

    Attributes:
      QUICK: by every question, as long as the bracket is wide; the default of methods on lanes.
      NARROW: by questions that want a narrow bracket, not by quick ones; the default of brackets.
      SHARPER: as NARROW, but even where the bracket is narrow: it may be sharper than the reduction behind the bracket.
      EXACT: as QUICK; its upper end is the mechanism's own value up to rounding, so no upper bound is needed after it.
      LAST: by every question, where no other method has found a finite bound.
      IN_PROGRAMS: inside traced code only: for concrete numbers brackets are sharper, at no higher cost.
      BEST_IN_PROGRAMS: likewise, and in programs methods after it that take longer than microseconds are left out.
      BY_NAME: by its name only: another method is never worse.
    """

    QUICK = enum.auto()
    NARROW = enum.auto()
    SHARPER = enum.auto()
    EXACT = enum.auto()
    LAST = enum.auto()
    IN_PROGRAMS = enum.auto()
    BEST_IN_PROGRAMS = enum.auto()
    BY_NAME = enum.auto()


def only_where(
    holds: Callable[[Any], bool], role: Role, *, otherwise: Role = Role.BY_NAME
) -> Callable[[Mechanism], Role]:
    """A value for `Method.role` that depends on the mechanism."""
    return lambda mechanism: role if holds(mechanism) else otherwise


def always(mechanism: Mechanism) -> bool:
    """Every mechanism of the signature."""
    del mechanism
    return True


def never(mechanism: Mechanism) -> bool:
    """No mechanism."""
    del mechanism
    return False


def itself(mechanism: Mechanism) -> Mechanism:
    """The mechanism: it is what is analysed, or its own worst pair is."""
    return mechanism


def only_analysed(mechanism: Mechanism) -> None:
    """None: what is analysed may lose more, and no mechanism is known that loses no more."""
    del mechanism


def no_statics(mechanism: Mechanism) -> dict[str, Any]:
    """No static arguments: the kernel's shapes do not depend on the mechanism."""
    del mechanism
    return {}


def orders_bytes(*, orders: Sequence[float] = (), **statics: Any) -> int:
    """Working memory of one lane of a Renyi kernel, bytes: the Laplace kernel holds 512 nodes for each of 32 rows."""
    if statics:
        raise TypeError(f"the memory of a lane is not known for the static arguments {sorted(statics)}")
    return max(2**18, 80 * len(orders))


def formula_bytes(*, orders: Sequence[float] = ()) -> int:
    """Working memory of one lane of a closed formula, bytes: some dozens of numbers for each order."""
    return max(2**12, 2**8 * len(orders))


class Together(int):
    """How many points NumPy computes together, in less time than one by one and than compiling a program takes."""


# for a kernel that needs JAX; for most; for one with better algorithms in NumPy than a program; for a formula
NO_POINT, FEW_POINTS, ANY_NUMBER, MANY_TOGETHER = 0, FEW_LANES, math.inf, Together(2**14)
A_FORMULA: dict[str, Any] = {"numpy": MANY_TOGETHER, "lane_bytes": formula_bytes}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """What all three kinds share. Every field is data; what a method computes is in the fields of its kind.

    Methods are compared and hashed by identity: each stands once in the table.

    Attributes:
      name: short and stable: shown by `compare`, accepted by ``method=``, never compared with a literal.
      theorem: paper and theorem; a function of the mechanism where it depends on the parts.
      directions: the directions that it bounds. Where adjacency has one direction only, REMOVE stands for it.
      ends: UPPER, LOWER, or both; ESTIMATE for one that samples, which is asked by its name only.
      cost: of one concrete point, mostly by NumPy; a first answer takes as long, apart from imports.
      below: ``(mechanism) -> `` the mechanism whose lower ends bound `mechanism`. `itself`: the method's own lower ends
        do. Otherwise these are lower ends of a reduction, and another mechanism that reveals no more is asked; None
        where none is known (`only_analysed`). Required where there is a lower end.
      applies: ``(mechanism) -> `` whether the theorem covers its fields; otherwise the method does not exist for it.
      role: a `Role`, which says when it is asked; or ``(mechanism) -> `` a `Role`.
      misses_deltas: ``(mechanism) -> `` whether it tries splits or guesses, so that its deltas may miss what its
        epsilons find: where its delta is the answer, and its bracket is wide, the loop asks for epsilons too.
      engine: what does its work, as a plan shows it.
      regime: in words, what `applies` and the theorem's conditions say, for the support matrix.
    """

    name: str
    theorem: str | Callable[[Any], str]
    directions: tuple[Direction, ...]
    ends: frozenset[Bound] = frozenset({Bound.UPPER})
    cost: Cost
    below: Callable[[Any], Any] | None = None
    applies: Callable[[Any], bool] = always
    role: Role | Callable[[Any], Role] = Role.NARROW
    misses_deltas: Callable[[Any], bool] = never
    engine: Engine = Engine.OTHERS
    regime: str = ""

    def __post_init__(self) -> None:
        if Bound.LOWER in self.ends and self.below is None:
            raise TypeError(f"method {self.name!r} does not say what its lower end bounds")
        if Bound.ESTIMATE in self.ends and self.role is not Role.BY_NAME:
            raise TypeError(f"method {self.name!r} gives estimates: its role must be {Role.BY_NAME}")

    def source(self, mechanism: Mechanism) -> str:
        """The paper and theorem, for `mechanism`."""
        return self.theorem if isinstance(self.theorem, str) else self.theorem(mechanism)

    def role_for(self, mechanism: Mechanism) -> Role:
        """When it is asked about `mechanism`; for a batch, about some of its points."""
        return self.role if isinstance(self.role, Role) else self.role(mechanism)

    @property
    def is_listed(self) -> bool:
        """Whether `compare` shows it: it certifies an end of the mechanism's value, for concrete numbers too."""
        is_bound = Bound.ESTIMATE not in self.ends and (Bound.UPPER in self.ends or self.below is not only_analysed)
        return is_bound and self.engine is not Engine.LAWS and self.role is not Role.LAST

    def weaker(self, mechanism: Mechanism) -> Mechanism | None:
        """A mechanism whose lower ends bound `mechanism` from below, possibly itself; None if none is known."""
        return None if self.below is None else self.below(mechanism)

    def is_of_reduction(self, mechanism: Mechanism) -> bool:
        """Whether a lower end bounds only a mechanism or pair that dominates `mechanism`."""
        return self.below is None or self.below(mechanism) is not mechanism

    def ends_for(self, mechanism: Mechanism) -> frozenset[Bound]:
        """The ends that it gives for the value of `mechanism`: no lower end where `weaker` is None."""
        return self.ends if self.weaker(mechanism) is not None else self.ends - {Bound.LOWER}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LaneMethod(Method):
    """A method that runs on lanes, and inside a user's traced program.

    Attributes:
      statics: ``(mechanism) -> `` static arguments of its kernel, such as window sizes; hashable.
      lane_bytes: ``(**statics) -> `` working memory of one lane, in bytes; must know every static argument.
      numpy: how many concrete points NumPy answers, one after another or `Together`, sooner than a program could be
        compiled for them; or ``(**statics) -> `` how many `Together`, or whether the kernel takes NumPy arrays at all.
    """

    role: Role | Callable[[Any], Role] = Role.QUICK
    statics: Callable[[Any], dict[str, Any]] = no_statics
    lane_bytes: Callable[..., int] = orders_bytes
    numpy: float | Callable[..., int] = FEW_POINTS

    def together(self, statics: dict[str, Any]) -> int:
        """How many points its kernel takes together as NumPy arrays, with these static arguments."""
        if callable(self.numpy):
            return self.numpy(**statics)
        return self.numpy if isinstance(self.numpy, Together) else int(self.numpy > NO_POINT)

    @property
    def kernel_options(self) -> Running:
        """How its kernel is run on concrete lanes."""
        if callable(self.numpy) or isinstance(self.numpy, Together):
            return {"lane_bytes": self.lane_bytes, "on_host": self.numpy, "one_by_one": FEW_LANES}
        return {"lane_bytes": self.lane_bytes, "on_host": self.numpy > NO_POINT, "one_by_one": self.numpy}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RenyiMethod(LaneMethod):
    """A method by Renyi divergences, which gives upper bounds.

    Attributes:
      rdp: ``(mechanism of lanes, orders=, **statics) -> [A, L]``, for orders from 1 to inf; or one for each direction,
        where the divergences of ADD are smaller: then REMOVE answers for both.
      grids: grids of orders from small to large; the next is tried where the best order is the last.
    """

    engine: Engine = Engine.RENYI
    rdp: Callable[..., jax.Array] | Mapping[Direction, Callable[..., jax.Array]]
    grids: tuple[tuple[float, ...], ...]

    def curve(self, direction: Direction) -> Callable[..., jax.Array]:
        """The function of one direction's Renyi divergences."""
        return self.rdp if callable(self.rdp) else self.rdp[direction]

    @property
    def up_to_order(self) -> float:
        """It is asked while the best order so far is at most this: early ends leave larger orders to other methods."""
        top = self.grids[0][-1]
        return math.ceil(top) if top < FRACTIONAL_TOP else math.inf


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProfileMethod(LaneMethod):
    """A method by a privacy profile and its inverse, which gives an upper or a lower bound.

    Attributes:
      log_delta, epsilon: ``(mechanism of lanes, epsilon or log delta [L], **statics) -> [L]``.
      floor: ``(mechanism, log delta) -> `` a cheap guess, meant as a lower bound, at the epsilon that the method would
        give; where that is no gain the method is skipped, so that a guess that is too large costs tightness only.
    """

    engine: Engine = Engine.FORMULA
    log_delta: Callable[..., jax.Array]
    epsilon: Callable[..., jax.Array]
    floor: Callable[[Any, NDArray[Any]], NDArray[Any]] | None = None


class Ask(Protocol):
    """The whole loop, for a part of a mechanism: the ends of one direction, or of the worse one."""

    def __call__(
        self,
        mechanism: Mechanism,
        query: Query,
        target: float,
        width: float,
        *,
        wants_lower: bool,
        direction: Direction | None = None,
        share: float = 1.0,
    ) -> Ends[float]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bracketing:
    """What a bracket method on the host may use besides its question.

    Attributes:
      width: relative width to reach, upper against lower.
      known: for each direction asked, the ends found so far for what is analysed.
      wants_lower: whether the lower end is wanted for itself, and not only to know the width.
      ask: the loop, for parts of the mechanism. Its `share` is the fraction of this question's work that a part may
        take: less than 1 where many are asked one after the other.
      progress: to call after each refinement, or None.
      share: of the work that one question may take, by default.
    """

    width: float
    known: Mapping[Direction, Ends[float]]
    wants_lower: bool
    ask: Ask
    progress: Progress | None = None
    share: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BracketMethod(Method):
    """A method by a certified bracket of the value, one concrete point at a time, on the host.

    Attributes:
      bracket: ``(mechanism, query, target, Bracketing) -> {direction: Ends}``, each at worst (0, inf or 1).
      many: ``(mechanism of arrays [P], query, targets [P], directions) -> {direction: Ends of arrays [P]}``, for many
        concrete points at once, each at worst (0, inf or 1); what is still open then is asked one by one. Or None.
      has_one_engine: whether `bracket` and `many` compute the same, so that a point is asked by `bracket` after `many`
        only where it stayed wider than the question wants, or than 1e-3, and by `many` after `bracket` where that has
        no answer.
    """

    bracket: Callable[[Any, Query, float, Bracketing], Mapping[Direction, Ends[float]]]
    many: Callable[[Any, Query, Any, Sequence[Direction]], Mapping[Direction, Ends[Any]]] | None = None
    has_one_engine: bool = False
