"""A batch of descriptions in which one field is the unknown, and what a search for that field needs to know."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct import _trees
from jaxacct.calibration._search import SearchRange
from jaxacct.mechanisms._base import Mechanism
from jaxacct.mechanisms._fields import UNKNOWN, FieldSpec, number_fields, owner_of, spec_at, with_fields


def field_of(mechanism: Mechanism, keys: tuple[Any, ...]) -> FieldSpec:
    """The specification of the field at `keys`; raises ValueError if it cannot be calibrated."""
    spec = spec_at(mechanism, keys)
    if not spec.is_solvable:
        _, name = owner_of(mechanism, keys)
        raise ValueError(f"field={name!r} cannot be calibrated; must be one of {_solvable(mechanism)}")
    return spec


def _solvable(description: Any) -> list[str]:
    """The names of all fields in `description` that can be calibrated, sorted."""
    names = {name for name, spec in number_fields(type(description)).items() if spec.is_solvable}
    return sorted(names.union(*(_solvable(part) for part in description.wrapped())))


@dataclasses.dataclass(frozen=True)
class PointBatch:
    """Points flattened to lanes [L].

    Attributes:
      structure: that of the mechanism.
      leaves: the mechanism's numbers, [L] each, None where the unknown belongs.
      target_epsilon, target_delta: [L]; for a measure its target, and 1.
    """

    structure: Any
    leaves: tuple[Any, ...]
    target_epsilon: NDArray[Any]
    target_delta: NDArray[Any]

    def mechanism(self, values: Any, at: Any = slice(None)) -> Any:
        """The mechanism of the lanes `at`, `values` being the unknown of those lanes."""
        leaves = [values if x is None else x[at] for x in self.leaves]
        return _trees.unflatten(self.structure, leaves)

    def point(self, values: NDArray[Any], lane: int) -> Any:
        """The mechanism of one lane, in Python numbers."""
        numbers = [(values if x is None else x)[lane].item() for x in self.leaves]
        return _trees.unflatten(self.structure, numbers)


def flattened(mechanism: Mechanism, keys: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The leaves of `mechanism`, None in place of the field at `keys`, and its structure with that leaf."""
    leaves, structure = _trees.flatten(with_fields(mechanism, {keys: UNKNOWN}))
    return [None if leaf is UNKNOWN else leaf for leaf in leaves], structure


def batch_of(
    mechanism: Mechanism, keys: tuple[Any, ...], target_epsilon: Any, target_delta: Any
) -> tuple[PointBatch, tuple[int, ...]]:
    """The batch of the other fields and both targets, broadcast, and its shape."""
    leaves, structure = flattened(mechanism, keys)
    numbers = [x for x in leaves if x is not None]
    known = [np.asarray(x, np.float64) for x in (*numbers, target_epsilon, target_delta)]
    shape = np.broadcast_shapes(*(x.shape for x in known))
    flat = iter([np.broadcast_to(x, shape).reshape(-1) for x in known])
    lanes = tuple(None if x is None else next(flat) for x in leaves)
    return PointBatch(structure, lanes, next(flat), next(flat)), shape


def range_of(batch: PointBatch, keys: tuple[Any, ...]) -> tuple[SearchRange, NDArray[Any]]:
    """Where to search in each lane, within what the owner's other fields allow, and where to begin."""
    mechanism = batch.mechanism(UNKNOWN)
    field, (owner, name) = field_of(mechanism, keys), owner_of(mechanism, keys)
    ones = np.ones_like(batch.target_delta)
    worst, best = field.worst * ones, field.best * ones
    if field.most_field:
        worst = getattr(owner, field.most_field) * ones - owner.room
    for part, other in number_fields(type(owner)).items():
        if other.most_field == name:
            worst = np.maximum(worst, getattr(owner, part) + owner.room)
    return SearchRange(worst, best, field.is_whole), np.clip(
        field.start, np.minimum(worst, best), np.maximum(worst, best)
    )
