"""What every mechanism and local randomizer is: fields with specifications, and the facts that its type declares.

A fact that a type does not declare does not exist: asking for it raises. There are no numerics here; a mechanism
describes what was run, never how its privacy is bounded.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator
from typing import Any, TypeVar, dataclass_transform

from jaxacct import _trees
from jaxacct._types import Direction, NeighboringRelation
from jaxacct._validate import check_at_most
from jaxacct.mechanisms._fields import (
    Privacy,
    base,
    base_fields,
    count,
    fixed,
    non_negative,
    number_fields,
    positive,
    probability,
    randomizer,
)
from jaxacct.mechanisms._naming import name_fields
from jaxacct.mechanisms._plain import plain, source_of
from jaxacct.mechanisms._sampling import Sampling
from jaxacct.mechanisms._schedules import Schedule, no_schedule, not_accumulated
from jaxacct.mechanisms._sizes import is_silent

Parts = tuple[tuple["Mechanism", Any], ...]  # (mechanism, how many times it was run)

# A description that another one holds. Its own type is part of the holder's signature, and code written for a signature
# reads the fields of that type, which no annotation of the field could name.
WrappedMechanism = Any  # a Mechanism
WrappedRandomizer = Any  # a Randomizer


class UndeclaredError(TypeError, AttributeError):
    """A fact was asked for that a type does not declare; `hasattr` is False for it."""


class _Undeclared:
    """Stands in a base class for a fact that each type declares for itself."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, thing: Any, owner: type) -> Any:
        if thing is None:
            return self
        raise undeclared(thing, self._name)


def undeclared(thing: Any, fact: str) -> UndeclaredError:
    """The error that says that the type of `thing` does not declare `fact`."""
    return UndeclaredError(f"{type(thing).__name__} does not declare its {fact!r}")


_to_declare: Any = _Undeclared  # of any type, for facts that subclasses declare


class Description:
    """What was run, or how one report is made, by its public parameters."""

    has_independent_records = False  # whether each record takes part in its steps independently of the others
    room = 0  # by how much at least a field must stay below its `most_field`

    def __post_init__(self) -> None:
        for name, spec in number_fields(type(self)).items():
            held = getattr(self, name)
            numbers = spec.as_numbers(held)
            if numbers is not held:
                object.__setattr__(self, name, numbers)
        if self.has_independent_records:
            for name in base_fields(type(self)):
                held = getattr(self, name)
                if isinstance(held, Mechanism):
                    object.__setattr__(self, name, held.as_one_release())
        self.check()

    def check(self) -> None:
        """Raises ValueError unless every field holds what it should; traced numbers and omitted ones pass."""
        kind = type(self)
        for name, wraps in base_fields(kind).items():
            wanted = Mechanism if wraps.kind == "mechanism" else Randomizer
            for part in wraps.values(getattr(self, name)):
                if not isinstance(part, wanted):
                    raise ValueError(f"{name}={part!r} {_in_place_of(part, wanted)}")
                if isinstance(part, Mechanism) and not wraps.is_any and part.relation is not _DRAWN:
                    own = f"has no analysis here: it is described for {part.relation.value!r}"
                    raise ValueError(f"{name}={part!r} {own} and must be for {_DRAWN.value!r}, as records are drawn")
        fields = number_fields(kind)
        limits = []
        for name, spec in fields.items():
            spec.check(name, getattr(self, name))
            if spec.most_field:
                limits.append((name, spec.most_field))
        for name, limit in limits:
            check_at_most(name, getattr(self, name), limit, getattr(self, limit))

    def in_domain(self) -> Any:
        """Whether the fields are in range, elementwise (for traced fields, which cannot raise)."""
        fields = number_fields(type(self))
        inside = [
            spec.domain.holds(value) for name, spec in fields.items() for value in spec.values(getattr(self, name))
        ]
        limits = [(name, spec.most_field) for name, spec in fields.items() if spec.most_field]
        inside += [getattr(self, name) + self.room <= getattr(self, limit) for name, limit in limits]
        return functools.reduce(operator.and_, inside, True)

    def wrapped(self) -> tuple[Description, ...]:
        """The mechanisms, or the randomizer, that it wraps; () for one that wraps nothing."""
        return tuple(
            part for name, spec in base_fields(type(self)).items() for part in spec.values(getattr(self, name))
        )

    def numbers(self) -> Iterator[tuple[str, Any]]:
        """(field, value) of all its own numbers, without those of what it wraps."""
        for name, spec in number_fields(type(self)).items():
            for value in spec.values(getattr(self, name)):
                yield name, value

    def rates(self) -> Iterator[Any]:
        """Its own numbers, except counts, that cost privacy as they grow: where all of them are 0, nothing is lost."""
        for name, spec in number_fields(type(self)).items():
            if spec.privacy is Privacy.FALLS and not spec.is_whole:
                yield from spec.values(getattr(self, name))

    def signature(self) -> tuple[type, ...]:
        """Its type, followed by the signature of what it wraps unless that may be of any type."""
        own: tuple[type, ...] = (type(self),)
        for name, spec in base_fields(type(self)).items():
            own += () if spec.is_any else getattr(self, name).signature()
        return own

    def parameters(self) -> dict[str, Any]:
        """The fields as plain values, ready for JSON."""
        return {"type": type(self).__name__, **{name: plain(value) for name, value in self._held()}}

    def source(self) -> str:
        """Python code that makes it again after ``import jaxacct as ja``; functions appear by their names only."""
        return f"ja.{type(self).__name__}({', '.join(f'{name}={source_of(x)}' for name, x in self._held())})"

    def _held(self) -> list[tuple[str, Any]]:
        """(field, value) of all fields that are shown."""
        fields: tuple[Any, ...] = dataclasses.fields(self)  # type: ignore[arg-type]
        return [(f.name, value) for f in fields if not is_silent(f, value := getattr(self, f.name))]

    def describe(self) -> str:
        """One line on what was run, or how a report is made."""
        raise undeclared(self, "describe")

    def loses_nothing(self) -> bool:
        """Whether outputs on neighbours have the same law, as where nothing is sampled; for concrete fields."""
        raise undeclared(self, "loses_nothing")


class Mechanism(Description):
    """What was run on the data of many people.

    Facts that each type declares:
      relation: the adjacency in which it is described.
      scheme: its name in a legend.
      released: what the adversary sees, in words.
      reduction: in words, what is analysed in its place if that may lose more; None if the mechanism itself is
        analysed.
      describe, assumptions, loses_nothing, releases: see these methods.
    """

    relation: NeighboringRelation = _to_declare()
    scheme: str = _to_declare()
    released: str = _to_declare()
    reduction: str | None = _to_declare()

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of its adjacency: one if neighbours may be exchanged, else both."""
        if self.relation is NeighboringRelation.REPLACE_ONE:
            return (Direction.REMOVE,)
        return (Direction.REMOVE, Direction.ADD)

    @property
    def unit_of_privacy(self) -> str:
        """The unit of privacy in words: whose data are protected, and against what change."""
        return _UNITS[self.relation]

    def assumptions(self) -> tuple[str, ...]:
        """What must hold for the numbers about it to be true."""
        raise undeclared(self, "assumptions")

    def parts(self) -> Parts:
        """The mechanisms that it composes, each with the number of times that it is run; itself if it is only one."""
        return ((self, 1),)

    def as_one_release(self) -> Mechanism:
        """One release that reveals the same about whether a record takes part; itself if none is known."""
        return self

    def poisson_at_same_rate(self) -> Mechanism | None:
        """The Poisson-sampled run in which each record takes part as often on average, where there is one."""
        return None

    def participation(self) -> Participation:
        """How often a record takes part, in numbers that may be arrays or traced."""
        raise undeclared(self, "participation")

    def as_reports(self) -> str:
        """Python code for the local randomizer of one report with the same noise; empty if there is none."""
        return ""

    # What `training`, which draws batches and counts noise releases, needs:

    takes_all: bool = False  # whether it is one release in which every record takes part

    def sampling(self) -> Sampling:
        """How the records of each step are drawn, for concrete scalar fields."""
        raise ValueError(
            f"mechanism={self!r} does not say how the records of its steps are drawn; for a run of several phases draw "
            "the batches of each part by itself, each with its own key"
        )

    def sampling_in(self, num_steps: int) -> Sampling:
        """As `sampling`, for an epoch that consists of `num_steps` noise releases."""
        return self.sampling().cut(num_steps)

    def sampled_once(self) -> None:
        """Raises ValueError if the mechanism of each step samples records itself."""
        for part in self.wrapped():
            if not getattr(part, "takes_all", False):
                raise ValueError(
                    f"mechanism={self!r} samples twice: batches are drawn only for releases of all records"
                )

    def noise_schedule(self) -> Schedule:
        """The Gaussian noise of its releases in order, repeated from the beginning, for concrete scalar fields."""
        raise no_schedule(self)

    def accumulated(self, batches: int) -> Mechanism:
        """The run in which each noise release is of the sum of `batches` of its sampled batches; see `training`."""
        raise not_accumulated(self, batches)

    def releases(self, number: int) -> tuple[Parts, ...]:
        """Descriptions of its first `number` >= 1 noise releases, each valid by itself."""
        raise ValueError(
            f"mechanism={self!r} does not say how many noise releases it consists of: wrap it in "
            "training.Epoch(mechanism, num_steps=...); of a run of several phases give the parts, one for each phase"
        )

    @property
    def length_given(self) -> float | None:
        """The number of noise releases that a field states and `releases` replaces, if there is such a field."""
        return None

    @property
    def releases_per_epoch(self) -> int:
        """How many noise releases an epoch has, if the first costs as much as all; 1 if each has its own price."""
        return 1

    def partial_epoch_releases(self, epochs: int) -> int:
        """How many of the first releases after `epochs` whole epochs may cost less than another epoch."""
        del epochs
        return self.releases_per_epoch - 1

    def epochs(self, number: int) -> Parts:
        """`number` runs in sequence: the mechanism with that many epochs if it has epochs, else run that many times."""
        if "num_epochs" in number_fields(type(self)):
            return ((dataclasses.replace(self, num_epochs=number), 1),)  # type: ignore[type-var]
        return ((self, number),)


class Release(Mechanism):
    """One noise release, in which every record takes part."""

    takes_all = True

    def sampling(self) -> Sampling:
        raise ValueError(f"mechanism={self!r} is a release of the whole data: it has no batches to draw")

    def releases(self, number: int) -> tuple[Parts, ...]:
        return (((self, number),),)


class Randomizer(Description):
    """What one user does to a datum before it is sent.

    Facts that each type declares:
      local_epsilon, local_delta: it is (local_epsilon, local_delta)-DP between any two data of one user.
      is_pure: whether that is known to hold with local_delta 0.
      describe, loses_nothing: see these methods.
    """

    local_epsilon: Any = _to_declare()
    local_delta: Any = _to_declare()
    is_pure: bool = _to_declare()


@dataclasses.dataclass(frozen=True)
class Participation:
    """How often a record takes part in a run.

    Attributes:
      steps: noise releases in all.
      uses: the number of those in which a record takes part, on average.
      dispersion: the variance of that number over its mean.
    """

    steps: Any
    uses: Any
    dispersion: Any


def not_a_mechanism(thing: Any) -> str:
    """The end of an error message about `thing`, given in place of a mechanism; it follows its name and value."""
    return _in_place_of(thing, Mechanism)


def _in_place_of(thing: Any, wanted: type) -> str:
    """Why `thing` is not what is `wanted`, and what would be."""
    problem = f"has no analysis here: it is not a {_KINDS[wanted]}"
    if wanted is Mechanism and isinstance(thing, Randomizer):
        return f"{problem} but makes one report; must be wrapped, as in Shuffled(.., num_reports=..)"
    if isinstance(thing, type) and issubclass(thing, Description):
        return f"{problem} but a class; must be one of its objects, as {thing.__name__}(..)"
    if wanted is Mechanism and type(thing).__name__.endswith("DpEvent"):
        return f"{problem} but an event of dp_accounting; must be read by jaxacct.interop.from_dp_event"
    if wanted is Mechanism:
        return f"{problem}; must be one, for example Gaussian(noise_multiplier=1.0)"
    instead = thing.as_reports() if isinstance(thing, Mechanism) else ""
    return f"{problem}; must be {f'{instead}, or ' if instead else ''}one of {_RANDOMIZERS}"


_RANDOMIZERS = "LocalRandomizer, KaryRandomizedResponse, GaussianReports, LaplaceReports, "
_RANDOMIZERS += "DensityReports, FiniteRandomizer"
_KINDS: dict[type, str] = {Mechanism: "mechanism", Randomizer: "local randomizer"}
_FACTS: dict[type, tuple[str, ...]] = {
    Mechanism: ("relation", "scheme", "released", "reduction", "describe", "assumptions", "loses_nothing"),
    Randomizer: ("is_pure", "describe", "loses_nothing"),
}
_DRAWN = NeighboringRelation.ADD_OR_REMOVE_ONE  # adjacency of what runs on drawn records: the others are absent
_UNITS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record: everything that it contributes, present or absent",
    NeighboringRelation.REPLACE_ONE: "one user: their datum, replaced by any other; the number of users is public",
    NeighboringRelation.REPLACE_SPECIAL: "one record: replaced by the empty record",
}


_T = TypeVar("_T", bound=Description)


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(dataclasses.field, base, randomizer, fixed, count, probability, positive, non_negative),
)
def description(cls: type[_T]) -> type[_T]:
    """Makes `cls` a frozen dataclass and registers it with JAX as a pytree: its fields are leaves, fixed ones are not.

    Fields are checked where a description is made, by its constructor or `dataclasses.replace`. JAX rebuilds
    descriptions around other objects (tracers, placeholders, batches); then nothing is checked, and the constructor
    does not run.

    Raises:
      TypeError: if a field has no specification, or a fact is not declared.
    """
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(made)
    for field in fields:
        if "spec" not in field.metadata and not field.metadata.get("static"):
            raise TypeError(f"{cls.__name__}.{field.name} has no specification")
    kind = next(kind for kind in _FACTS if issubclass(cls, kind))
    missing = [fact for fact in _FACTS[kind] if getattr(cls, fact) is getattr(kind, fact)]
    if missing:
        raise TypeError(f"{cls.__name__} does not declare its {', '.join(missing)}")
    names = tuple(field.name for field in fields if "spec" in field.metadata)
    fixed_names = tuple(field.name for field in fields if "spec" not in field.metadata)

    def flatten(thing: Any) -> tuple[list[Any], tuple[Any, ...]]:
        held = vars(thing)
        return [held[name] for name in names], tuple([held[name] for name in fixed_names])

    def unflatten(fixed_values: tuple[Any, ...], leaves: Any) -> Any:
        thing = object.__new__(made)
        vars(thing).update(zip((*names, *fixed_names), (*leaves, *fixed_values), strict=True))
        return thing

    _trees.register(made, names, flatten, unflatten)
    name_fields(made)
    return made
