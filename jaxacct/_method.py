"""What a method is: one way to bound one kind of mechanism, as a record of facts. Three kinds, one interface.

The words *lane*, *host*, *quick*, *exact*, *reduction* and *direction* are defined in `jaxacct.answering`. Shapes here
and in `jaxacct.bounds`: L is the number of lanes, A that of Renyi orders.
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
from jaxacct._types import Bound, Direction, Ends, Progress
from jaxacct.mechanisms._base import Mechanism

# the directions of a method that bounds add-or-remove adjacency as a whole
BOTH = (Direction.REMOVE, Direction.ADD)


class Query(enum.Enum):
    """What is asked: epsilon at a delta, or delta at an epsilon.

    Attributes:
      value: "epsilon" or "delta".
      given: the name of what is held fixed, the target.
      worst: the upper bound that always holds.
      width: relative width of the certified bracket behind an answer, where nothing else was asked for.
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


def always(mechanism: Mechanism) -> bool:
    """Every mechanism of the signature."""
    del mechanism
    return True


def never(mechanism: Mechanism) -> bool:
    """No mechanism."""
    del mechanism
    return False


def itself(mechanism: Mechanism) -> Mechanism:
    """The mechanism: what is analysed is no other, or its own worst pair."""
    return mechanism


def only_analysed(mechanism: Mechanism) -> None:
    """No mechanism: what is analysed may lose more, and nothing is known that loses no more."""
    del mechanism


def no_statics(mechanism: Mechanism) -> dict[str, Any]:
    """A kernel whose shapes do not depend on the mechanism."""
    del mechanism
    return {}


def orders_bytes(*, orders: Sequence[float] = (), **statics: Any) -> int:
    """Working memory of one lane of a Renyi kernel, bytes: the Laplace kernel holds 512 nodes for each of 32 rows."""
    if statics:
        raise TypeError(f"the memory of a lane is not known for the static arguments {sorted(statics)}")
    return max(2**18, 80 * len(orders))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lanes:
    """How a kernel is called on lanes.

    Attributes:
      statics: ``(mechanism) -> `` its static arguments, such as window sizes; hashable.
      bytes: ``(**statics) -> `` working memory of one lane, in bytes; must know every static argument.
      on_host: whether it takes NumPy arrays too, by which one concrete question is then answered, or that many points
        of a batch together; or ``(**statics) -> `` that.
      one_by_one: how many points of a batch NumPy answers one after another, sooner than a program could be compiled.
    """

    statics: Callable[[Any], dict[str, Any]] = no_statics
    bytes: Callable[..., int] = orders_bytes
    on_host: bool | int | Callable[..., bool] = True
    one_by_one: float = FEW_LANES

    def takes_numpy(self, statics: dict[str, Any]) -> bool:
        """Whether it takes NumPy arrays, with these static arguments."""
        return bool(self.on_host(**statics) if callable(self.on_host) else self.on_host)


CLOSED_FORM = Lanes(on_host=FEW_LANES)
"""Of a formula that NumPy evaluates at some points together in about the time of one."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """What all three kinds share. Every field is data; what a method computes is in the fields of its kind.

    Methods are compared and hashed by identity: each stands once in the table.

    Attributes:
      name: short and stable: shown by `compare`, accepted by ``method=``, never compared with a literal.
      theorem: paper and theorem; a function of the mechanism where it depends on the parts.
      directions: the directions that it bounds. Where adjacency has one direction only, REMOVE stands for it.
      ends: UPPER, LOWER, or both; ESTIMATE of one that samples, which is asked by its name only.
      cost: of one point, once everything is compiled.
      cold: of one point in a fresh process, compilation included. Plans for concrete questions ask the cheap first.
      below: ``(mechanism) -> `` whose lower ends bound the mechanism. `itself`: the method's own do. Elsewhere they are
        those of a reduction, and another mechanism that reveals no more is asked; None where none is known
        (`only_analysed`). Must be said where there is a lower end.
      applies: ``(mechanism) -> `` whether the theorem covers its fields; elsewhere the method does not exist.
      helps: ``(mechanism) -> `` False where another method is never worse: listed by `compare`, not asked by `epsilon`.
      is_exact: the upper end is the mechanism's own value up to rounding: nothing can be tighter.
      sharpens_reduction: may be sharper than the reduction that the others analyse, so it is asked even where the
        reduction's value is known closely.
      misses_deltas: ``(mechanism) -> `` whether it tries splits or guesses so that its deltas may miss what its
        epsilons find: where its delta is the answer, and wide, the loop asks for epsilons too.
      is_listed: whether `compare` shows it.
      is_last_resort: asked only where no other method has found a finite bound; then by quick questions too.
      is_quick: of a bracket: quick questions ask it too, as it costs less than the methods on lanes that it spares.
      failure: the probability, over its samples, that one answer of an ESTIMATE is less than the truth.
      engine: what does its work, as a plan says it.
      regime: in words, what `applies` and the theorem's conditions say, for the support matrix.
    """

    name: str
    theorem: str | Callable[[Any], str]
    directions: tuple[Direction, ...]
    ends: frozenset[Bound] = frozenset({Bound.UPPER})
    cost: Cost
    cold: Cost
    below: Callable[[Any], Any] | None = None
    applies: Callable[[Any], bool] = always
    helps: Callable[[Any], bool] = always
    is_exact: bool = False
    sharpens_reduction: bool = False
    misses_deltas: Callable[[Any], bool] = never
    is_listed: bool = True
    is_last_resort: bool = False
    is_quick: bool = False
    failure: float = 0.0
    engine: Engine = Engine.OTHERS
    regime: str = ""

    def __post_init__(self) -> None:
        if Bound.LOWER in self.ends and self.below is None:
            raise TypeError(f"method {self.name!r} does not say what its lower end bounds")

    def source(self, mechanism: Mechanism) -> str:
        """The paper and theorem, for `mechanism`."""
        return self.theorem if isinstance(self.theorem, str) else self.theorem(mechanism)

    def weaker(self, mechanism: Mechanism) -> Mechanism | None:
        """Whose lower ends bound `mechanism` from below, be it that itself; None if no such is known."""
        return None if self.below is None else self.below(mechanism)

    def is_of_reduction(self, mechanism: Mechanism) -> bool:
        """Whether a lower end speaks only of a mechanism or pair that dominates `mechanism`."""
        return self.below is None or self.below(mechanism) is not mechanism

    def ends_for(self, mechanism: Mechanism) -> frozenset[Bound]:
        """The ends that it gives for the value of `mechanism`: no lower one of a reduction that nothing stands for."""
        return self.ends if self.weaker(mechanism) is not None else self.ends - {Bound.LOWER}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LaneMethod(Method):
    """A method that runs on lanes, and inside a user's traced program.

    Attributes:
      only_traced: ``(mechanism) -> `` whether it is asked inside traced code and by name only: of concrete numbers
        methods on the host know more, at no higher price.
      spares: names of the methods that traced code leaves out where this one is asked: they would have to be compiled,
        and are seldom sharper.
      needs_known: it is made of numbers that are concrete while a program is traced, and does not apply to lanes, where
        all are arrays.
    """

    lanes: Lanes = Lanes()
    only_traced: Callable[[Any], bool] = never
    spares: tuple[str, ...] = ()
    needs_known: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RenyiMethod(LaneMethod):
    """By Renyi divergences; upper bounds.

    Attributes:
      rdp: ``(mechanism of lanes, orders=, **statics) -> [A, L]``.
      grids: grids of orders from small to large; the next is tried where the best order is the last.
      up_to_order: asked only where the best order so far is at most this, or there is none.
      add_rdp: of a method of both directions, where the add direction has smaller Renyi divergences: they answer where
        that direction's curve is wanted; None for the same.
      least_order: where order 1 is wanted, the order that is looked at in its place; 1.0 for a method that takes the
        orders 1 and inf as well. Others say nothing of order inf.
    """

    engine: Engine = Engine.RENYI
    rdp: Callable[..., jax.Array]
    grids: tuple[tuple[float, ...], ...]
    up_to_order: float = math.inf
    add_rdp: Callable[..., jax.Array] | None = None
    least_order: float = 1.02

    def curve(self, direction: Direction) -> Callable[..., jax.Array]:
        """The function of one direction's Renyi divergences."""
        return self.add_rdp if direction is Direction.ADD and self.add_rdp is not None else self.rdp


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProfileMethod(LaneMethod):
    """By a privacy profile and its inverse; an upper or a lower bound.

    Attributes:
      log_delta, epsilon: ``(mechanism of lanes, epsilon or log delta [L], **statics) -> [L]``.
      floor: ``(mechanism, log delta) -> `` a cheap guess, meant to be from below, at the epsilon that it would give;
        where that is no gain the method is passed over, so a guess that is too large costs tightness only.
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
    """What a host's bracket method may use besides its question.

    Attributes:
      width: relative width to reach, upper against lower.
      known: for each direction asked, the ends found so far for what is analysed.
      wants_lower: whether the lower end is wanted for itself, and not only to know the width.
      ask: the loop, for parts of the mechanism. Its `share` of what may be spent here is what a part may spend: less
        than 1 where many are asked one after the other.
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
class TwoEndedMethod(Method):
    """A method that brackets the value.

    Attributes:
      named_width: relative width to reach where the method is asked by name; None: that of the question.
    """

    named_width: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BracketMethod(TwoEndedMethod):
    """By a certified bracket of the value, one concrete point at a time, on the host.

    Attributes:
      bracket: ``(mechanism, query, target, Bracketing) -> {direction: Ends}``, each at worst (0, inf or 1).
      many: ``(mechanism of arrays [P], query, targets [P], directions) -> {direction: Ends of arrays [P]}``, for many
        concrete points at once, each at worst (0, inf or 1); what is still open then is asked one by one. Or None.
    """

    bracket: Callable[[Any, Query, float, Bracketing], Mapping[Direction, Ends[float]]]
    many: Callable[[Any, Query, Any, Sequence[Direction]], Mapping[Direction, Ends[Any]]] | None = None
