"""Fields of nested descriptions, found by name."""

import dataclasses
from typing import Any

import numpy as np


class _Unknown:
    """Stands for a field whose value does not matter: a leaf, as None would not be, and in every range."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return np.ones((), dtype)


UNKNOWN = _Unknown()


def _parts(thing: Any) -> list[tuple[str, Any, Any]]:
    """(name, key, value) of what `thing` holds: fields of a mechanism, entries of a tuple."""
    if hasattr(thing, "in_domain"):
        fields = (f for f in dataclasses.fields(thing) if not f.metadata.get("static"))
        return [(f.name, f.name, getattr(thing, f.name)) for f in fields]
    if isinstance(thing, tuple):  # one of a kind needs no number
        return [(str(i) if len(thing) > 1 else "", i, value) for i, value in enumerate(thing)]
    return []


def _paths(thing: Any, name: str = "", keys: tuple[Any, ...] = ()) -> list[tuple[str, tuple[Any, ...]]]:
    """(dotted name, keys) of every field that holds numbers."""
    found = []
    for part, key, value in _parts(thing):
        whole = ".".join(filter(None, (name, part)))
        here = (*keys, key)
        found += (
            _paths(value, whole, here) if hasattr(value, "in_domain") or isinstance(value, tuple) else [(whole, here)]
        )
    return found


def find_field(mechanism: Any, field: str) -> tuple[Any, ...]:
    """The keys that lead to the field called `field`, or whose dotted name ends so ("mechanisms.0.noise_multiplier").

    Raises:
      ValueError: if there is none, or more than one.
    """
    if not hasattr(mechanism, "in_domain"):
        raise ValueError(f"mechanism={mechanism!r} must be a mechanism")
    every = _paths(mechanism)
    found = [(name, keys) for name, keys in every if name == field or name.endswith(f".{field}")]
    if len(found) == 1:
        return found[0][1]
    names = [name for name, _ in found or every]
    problem = "is ambiguous in" if found else "is no field of"
    raise ValueError(f"field={field!r} {problem} mechanism={mechanism!r}; must be one of {names}")


def owner_of(mechanism: Any, keys: tuple[Any, ...]) -> tuple[Any, str]:
    """The mechanism that has the field, and the field's own name."""
    owner, name = mechanism, ""
    thing = mechanism
    for key in keys:
        if isinstance(key, str):
            owner, name = thing, key
        thing = thing[key] if isinstance(key, int) else getattr(thing, key)
    return owner, name


def with_fields(mechanism: Any, values: dict[tuple[Any, ...], Any]) -> Any:
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
