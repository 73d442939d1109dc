"""A batch of descriptions in which one field is asked for, and what a search for that field needs to know."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxacct.calibration._fields import UNKNOWN, owner_of, with_fields
from jaxacct.calibration._search import Range
from jaxacct.mechanisms import PoissonSampled


@dataclasses.dataclass(frozen=True)
class Field:
    """How privacy depends on a field.

    Attributes:
      worst, best: the ends of the range that is searched, from least to most private.
      start: where to begin.
      is_whole: whether it is a count.
    """

    worst: float
    best: float
    start: float
    is_whole: bool = False


_NOISE = Field(worst=1e-4, best=1e8, start=1.0)
_PROB = Field(worst=1.0, best=1e-15, start=0.01)
_RUNS = Field(worst=2.0**53, best=1.0, start=100.0, is_whole=True)
_CROWD = Field(worst=1.0, best=2.0**53, start=1e5, is_whole=True)
_HIDING = Field(worst=1.0, best=2.0**40, start=1000.0, is_whole=True)

_FIELDS = {
    "noise_multiplier": _NOISE,
    "noise_multipliers": _NOISE,
    "sampling_prob": _PROB,
    "check_in_prob": _PROB,
    "local_epsilon": Field(worst=1e3, best=1e-9, start=1.0),
    "local_delta": Field(worst=1.0, best=1e-100, start=1e-9),
    "num_epochs": _RUNS,
    "counts": _RUNS,
    "num_selected": _RUNS,
    "steps_done": _RUNS,
    "num_steps": _HIDING,  # of an allocation; Poisson-sampled steps are runs
    "num_reports": _CROWD,
    "num_users": _CROWD,
}


def field_of(mechanism: Any, keys: tuple[Any, ...]) -> Field:
    """What is known of the field at `keys`; raises ValueError where nothing is."""
    owner, name = owner_of(mechanism, keys)
    if name not in _FIELDS:
        raise ValueError(f"field={name!r} cannot be calibrated; must be one of {sorted(_FIELDS)}")
    return _RUNS if name == "num_steps" and isinstance(owner, PoissonSampled) else _FIELDS[name]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Points flattened to lanes [L].

    Attributes:
      structure: of the mechanism.
      leaves: the mechanism's numbers, [L] each, None where the unknown belongs.
      target_epsilon, target_delta: [L].
    """

    structure: Any
    leaves: tuple[Any, ...]
    target_epsilon: np.ndarray
    target_delta: np.ndarray

    def mechanism(self, values: Any, at: Any = slice(None)) -> Any:
        """The mechanism of the lanes `at`, `values` being the unknown of those lanes."""
        return jax.tree.unflatten(self.structure, [values if x is None else x[at] for x in self.leaves])

    def point(self, values: np.ndarray, lane: int) -> Any:
        """The mechanism of one lane, of Python numbers."""
        numbers = [(values if x is None else x)[lane].item() for x in self.leaves]
        return jax.tree.unflatten(self.structure, numbers)


def flattened(mechanism: Any, keys: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The leaves of `mechanism`, None in place of the field at `keys`, and its structure with that leaf."""
    leaves, structure = jax.tree.flatten(with_fields(mechanism, {keys: UNKNOWN}))
    return [None if leaf is UNKNOWN else leaf for leaf in leaves], structure


def batch_of(
    mechanism: Any, keys: tuple[Any, ...], target_epsilon: Any, target_delta: Any
) -> tuple[Batch, tuple[int, ...]]:
    """The batch of the other fields and both targets, broadcast, and its shape."""
    leaves, structure = flattened(mechanism, keys)
    known = [np.asarray(x, np.float64) for x in (*leaves, target_epsilon, target_delta) if x is not None]
    shape = np.broadcast_shapes(*(x.shape for x in known))
    flat = iter([np.broadcast_to(x, shape).reshape(-1) for x in known])
    lanes = tuple(None if x is None else next(flat) for x in leaves)
    return Batch(structure, lanes, next(flat), next(flat)), shape


def range_of(batch: Batch, keys: tuple[Any, ...]) -> tuple[Range, np.ndarray]:
    """Where to search in each lane, within what the owner's other fields allow, and where to begin."""
    mechanism = batch.mechanism(UNKNOWN)
    field, (owner, name) = field_of(mechanism, keys), owner_of(mechanism, keys)
    ones = np.ones_like(batch.target_delta)
    worst, best = field.worst * ones, field.best * ones
    if name in ("num_selected", "steps_done"):
        worst = owner.num_steps * ones
    for part in ("num_selected", "steps_done"):
        if name == "num_steps" and hasattr(owner, part):
            worst = np.maximum(worst, getattr(owner, part))
    return Range(worst, best, field.is_whole), np.clip(field.start, np.minimum(worst, best), np.maximum(worst, best))
