"""Specifications of fields: range, words, effect on privacy; and the fields of nested descriptions, found by name.

A field's specification is written once, where the field is declared, and read wherever the field is used: when a
mechanism is made, by calibration, by sweeps, on axes and on the command line.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxacct import _trees
from jaxacct._jax import Array, Tracer, jnp
from jaxacct._validate import (
    check_count,
    check_epsilon,
    check_exact,
    check_positive,
    check_probability,
    checked_array,
    is_count,
    is_exact,
    uncut,
)

_LARGEST_COUNT = 2.0**53  # every whole number up to this is a double
_NUMBERS = (numbers.Real, np.ndarray, np.generic, Array)
_PLAIN = (int, float)


def _whole(held: Any) -> Any:
    """`held`, a whole number of NumPy or JAX as one of Python, whose products do not wrap around."""
    if type(held) in _PLAIN or isinstance(held, Tracer) or not isinstance(held, np.generic | np.ndarray | Array):
        return held
    return int(held) if held.ndim == 0 and np.issubdtype(held.dtype, np.integer) else uncut(held)


Part = Any  # a description, or a tuple of them; their classes are built on this module


class _Unknown:
    """Stands for a field whose value does not matter: a leaf (unlike None) that is in every range."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        del copy
        return np.ones((), dtype)

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


class Privacy(enum.Enum):
    """Whether privacy grows or falls as a field grows."""

    GROWS = "a larger value is more private"
    FALLS = "a larger value is less private"


class Domain(NamedTuple):
    """The numbers that a field may hold.

    `check` raises ValueError for a concrete value outside, given the field's name; `holds` says elementwise whether a
    value is inside, for traced fields, which cannot raise.
    """

    check: Callable[[str, Any], None]
    holds: Callable[[Any], Any]


def _real(checked: Callable[[str, Any], None], holds: Callable[[Any], Any]) -> Domain:
    """Numbers that `checked` and `holds` allow, and that compiled programs do not take for 0."""

    def check(name: str, value: Any) -> None:
        checked(name, value)
        check_exact(name, value)

    return Domain(check, lambda value: holds(value) & is_exact(value))


_POSITIVE = _real(check_positive, lambda value: (value > 0) & (value < math.inf))
_NON_NEGATIVE = _real(check_epsilon, lambda value: (value >= 0) & (value < math.inf))
_PROBABILITY = _real(check_probability, lambda value: (value >= 0) & (value <= 1))
_COUNT = Domain(check_count, is_count)


def _from(least: float, checked: Callable[[str, Any], None], holds: Callable[[Any], Any]) -> Domain:
    """Numbers that `checked` and `holds` allow, from `least` on."""

    def check(name: str, value: Any) -> None:
        checked(name, value)
        if np.any(checked_array(name, value) < least):
            raise ValueError(f"{name}={value} must be >= {least:g}")

    return Domain(check, lambda value: holds(value) & (value >= least))


@dataclasses.dataclass(frozen=True)
class FieldSpec:
    """The specification of a field that holds numbers.

    Attributes:
      domain: what it may hold.
      words: its name on an axis.
      help: what the command line says about it; empty if `words` are enough.
      symbol: the placeholder for its value on the command line.
      unit: the unit of its values, empty where they have none.
      privacy: whether privacy grows or falls as it grows; None where it cannot be calibrated.
      lowest, highest: the range that a calibration searches.
      start: where such a search begins.
      is_whole: whether it is a count.
      most_field: the field of the same mechanism that it may not exceed, if any.
      is_several: whether it holds a tuple, one number for each part or phase.
      also: another name by which the constructor accepts it and by which it is found; empty for none.
    """

    domain: Domain
    words: str
    help: str
    symbol: str
    unit: str = ""
    privacy: Privacy | None = None
    lowest: float = math.nan
    highest: float = math.nan
    start: float = math.nan
    is_whole: bool = False
    most_field: str = ""
    is_several: bool = False
    also: str = ""

    @property
    def label(self) -> str:
        """The label of an axis: the words, and the unit in brackets."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    @property
    def is_solvable(self) -> bool:
        """Whether it can be calibrated."""
        return self.privacy is not None

    @property
    def worst(self) -> float:
        """The least private end of the range that is searched."""
        return self.lowest if self.privacy is Privacy.GROWS else self.highest

    @property
    def best(self) -> float:
        """The most private end of the range that is searched."""
        return self.highest if self.privacy is Privacy.GROWS else self.lowest

    def values(self, held: Any) -> tuple[Any, ...]:
        """The numbers in what the field holds."""
        return held if self.is_several and isinstance(held, tuple) else (held,)

    def as_numbers(self, held: Any) -> Any:
        """`held`, with lists and objects that convert themselves to arrays (a pandas Series) as NumPy arrays."""
        held = tuple(map(_whole, held)) if self.is_several and isinstance(held, tuple) else _whole(held)
        if self.is_several or type(held) in _PLAIN or isinstance(held, (*_NUMBERS, str)) or held is UNKNOWN:
            return held
        if not (isinstance(held, list | tuple) or hasattr(held, "__array__")) or isinstance(held, Tracer):
            return held
        if any(isinstance(value, Tracer) for value in _trees.leaves(held)):
            return jnp.stack([jnp.asarray(value) for value in held])
        try:
            array = np.asarray(held)
        except ValueError:  # ragged rows
            return held
        return uncut(array) if array.dtype.kind in "iuf" else held

    def check(self, name: str, held: Any) -> None:
        """Raises ValueError unless the field holds numbers in range, traced ones, or placeholders."""
        if type(held) in _PLAIN:  # most are, and descriptions are made often
            self.domain.check(name, held)
            return
        for value in self.values(held):
            if value is None or value is UNKNOWN or isinstance(value, Tracer):
                continue
            if type(value) not in _PLAIN and not isinstance(value, _NUMBERS):
                raise ValueError(f"{name}={value!r} must be a number or an array of numbers")
            self.domain.check(name, value)


@dataclasses.dataclass(frozen=True)
class BaseSpec:
    """The specification of a field that holds wrapped descriptions.

    Attributes:
      kind: "mechanism" or "randomizer".
      is_several: whether it holds a tuple of them.
      is_any: whether its types are left out of the holder's signature.
    """

    kind: str
    is_several: bool = False
    is_any: bool = False

    def values(self, held: Any) -> tuple[Any, ...]:
        """The descriptions in what the field holds."""
        return held if self.is_several and isinstance(held, tuple) else (held,)


def _field(spec: FieldSpec | BaseSpec, default: Any = dataclasses.MISSING) -> Any:
    return dataclasses.field(default=default, metadata={"spec": spec})


def base(*, several: bool = False, of_any_type: bool = False) -> Any:
    """The field of the mechanism, or mechanisms, that this one runs."""
    return _field(BaseSpec("mechanism", several, of_any_type))


def randomizer() -> Any:
    """The field of the local randomizer that this mechanism's reports come from."""
    return _field(BaseSpec("randomizer"))


def fixed(*, default: Any = dataclasses.MISSING) -> Any:
    """A field that is part of a description's structure: not differentiated through, calibrated or swept."""
    return dataclasses.field(default=default, metadata={"static": True})


def count(
    words: str,
    symbol: str,
    *,
    help: str = "",
    privacy: Privacy | None = None,
    start: float = 100.0,
    highest: float = _LARGEST_COUNT,
    least: int = 1,
    most_field: str = "",
    several: bool = False,
    also: str = "",
    default: Any = dataclasses.MISSING,
) -> Any:
    """A field for a whole number >= `least`."""
    domain = _COUNT if least == 1 else _from(least, check_count, is_count)
    spec = FieldSpec(domain, words, help, symbol, "", privacy, least, highest, start, True, most_field, several, also)
    return _field(spec, default)


def probability(
    words: str,
    symbol: str,
    *,
    help: str = "",
    privacy: Privacy | None = None,
    start: float = 0.01,
    lowest: float = 1e-15,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A field for a number in [0, 1]."""
    return _field(FieldSpec(_PROBABILITY, words, help, symbol, "", privacy, lowest, 1.0, start), default)


def positive(
    words: str,
    symbol: str,
    *,
    unit: str,
    help: str = "",
    privacy: Privacy | None = None,
    several: bool = False,
    least: float = 0.0,
    also: str = "",
    default: Any = dataclasses.MISSING,
) -> Any:
    """A field for a positive, finite amount of noise; or of something else that is at least `least`."""
    domain = _POSITIVE if least == 0.0 else _from(least, check_positive, lambda value: value < math.inf)
    low, start = max(least, 1e-4), max(1.0, 2.0 * least)
    spec = FieldSpec(domain, words, help, symbol, unit, privacy, low, 1e8, start, is_several=several, also=also)
    return _field(spec, default)


def non_negative(
    words: str,
    symbol: str,
    *,
    help: str = "",
    privacy: Privacy | None = None,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A field for a finite epsilon >= 0."""
    return _field(FieldSpec(_NON_NEGATIVE, words, help, symbol, "", privacy, 1e-9, 1e3, 1.0), default)


@functools.cache
def _fields_of(kind: Any) -> tuple[dict[str, FieldSpec], dict[str, BaseSpec]]:
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    specs = {field.name: field.metadata["spec"] for field in fields if "spec" in field.metadata}
    numbers_of = {name: spec for name, spec in specs.items() if isinstance(spec, FieldSpec)}
    return numbers_of, {name: spec for name, spec in specs.items() if isinstance(spec, BaseSpec)}


def number_fields(kind: Any) -> dict[str, FieldSpec]:
    """The fields of a type of description that hold numbers, by name."""
    return _fields_of(kind)[0]


def base_fields(kind: Any) -> dict[str, BaseSpec]:
    """The fields of a type of description that hold what it wraps, by name."""
    return _fields_of(kind)[1]


def _paths(thing: Part, name: str = "", keys: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(dotted name, keys) of every field that holds numbers, below a description."""
    held: tuple[tuple[str, FieldSpec | BaseSpec], ...]
    held = (*base_fields(type(thing)).items(), *number_fields(type(thing)).items())
    for part, spec in held:
        value = getattr(thing, part)
        is_tuple = spec.is_several and isinstance(value, tuple)
        for i, one in enumerate(spec.values(value)):
            number = str(i) if is_tuple and len(value) > 1 else ""  # a single one needs no number
            whole = ".".join(filter(None, (name, part, number)))
            here = (*keys, part, i) if is_tuple else (*keys, part)
            if isinstance(spec, FieldSpec):
                yield whole, here
                if spec.also:
                    yield ".".join(filter(None, (name, spec.also, number))), here
            else:
                yield from _paths(one, whole, here)


def find_field(mechanism: Part, field: str) -> tuple[Any, ...]:
    """The keys of the field named `field`, or whose dotted name ends with it ("mechanisms.0.noise_multiplier").

    Raises:
      ValueError: if there is none, or more than one.
    """
    if not hasattr(mechanism, "in_domain"):
        raise ValueError(f"mechanism={mechanism!r} must be a mechanism")
    every = list(_paths(mechanism))
    found = [(name, keys) for name, keys in every if name == field or name.endswith(f".{field}")]
    if len(found) == 1:
        return found[0][1]
    names = [name for name, _ in found or every]
    problem = "is ambiguous in" if found else "is not a field of"
    raise ValueError(f"field={field!r} {problem} mechanism={mechanism!r}; must be one of {names}")


def owner_of(mechanism: Part, keys: tuple[Any, ...]) -> tuple[Any, str]:
    """The mechanism that has the field, and the field's own name."""
    owner, name = mechanism, ""
    thing = mechanism
    for key in keys:
        if isinstance(key, str):
            owner, name = thing, key
        thing = thing[key] if isinstance(key, int) else getattr(thing, key)
    return owner, name


def number_paths(mechanism: Part) -> dict[tuple[Any, ...], FieldSpec]:
    """Keys of every field that holds numbers, below a mechanism, with its specification."""
    return {keys: spec_at(mechanism, keys) for _, keys in _paths(mechanism)}


def value_at(mechanism: Part, keys: tuple[Any, ...]) -> Any:
    """What the field at `keys` holds."""
    return functools.reduce(
        lambda thing, key: thing[key] if isinstance(key, int) else getattr(thing, key), keys, mechanism
    )


def spec_at(mechanism: Part, keys: tuple[Any, ...]) -> FieldSpec:
    """The specification of the field at `keys`, which `find_field` found."""
    owner, name = owner_of(mechanism, keys)
    return number_fields(type(owner))[name]


def with_fields(mechanism: Part, values: dict[tuple[Any, ...], Any]) -> Any:
    """`mechanism` with each value at its keys; checked when all of them are in place."""
    if () in values:
        return values[()]
    below: dict[Any, dict[tuple[Any, ...], Any]] = {}
    for keys, value in values.items():
        below.setdefault(keys[0], {})[keys[1:]] = value
    if isinstance(mechanism, tuple):
        return tuple(with_fields(part, below[i]) if i in below else part for i, part in enumerate(mechanism))
    changed = {key: with_fields(getattr(mechanism, key), inner) for key, inner in below.items()}
    return dataclasses.replace(mechanism, **changed)
