"""Whether a question can be asked: checks of whole mechanisms at the public border."""

import dataclasses
import numbers
from typing import Any

import jax
import numpy as np

from jaxacct._precision import is_traced
from jaxacct.curves import Pld, RdpCurve
from jaxacct.mechanisms import Composed, ScheduledAllocation

_ONE_NUMBER = (numbers.Real, np.ndarray, np.generic, jax.Array)
_OF_SEVERAL = (Composed, ScheduledAllocation)  # whose fields are tuples


def check_mechanism(mechanism: Any, name: str = "mechanism") -> None:
    """Raises ValueError unless `mechanism` is one, filled with numbers and arrays of numbers.

    Constructors let other things pass: JAX rebuilds mechanisms around placeholders, and what is to be calibrated is
    left out.
    """
    if isinstance(mechanism, Pld):
        return
    if not dataclasses.is_dataclass(mechanism) or isinstance(mechanism, type | RdpCurve):
        raise ValueError(f"{name}={mechanism!r} has no analysis here: it is no mechanism")
    for field in dataclasses.fields(mechanism):
        if field.metadata.get("static"):
            continue
        value = getattr(mechanism, field.name)
        for one in value if isinstance(mechanism, _OF_SEVERAL) and isinstance(value, tuple) else (value,):
            if field.name in ("mechanism", "mechanisms"):
                check_mechanism(one, field.name)
            elif not isinstance(one, _ONE_NUMBER):
                raise ValueError(f"{field.name}={one!r} must be a number or a NumPy or JAX array of numbers")


def check_question(mechanism: Any, target_name: str, target: Any) -> None:
    """Raises ValueError unless `mechanism` can be asked about `target`: numbers, whose shapes broadcast."""
    check_mechanism(mechanism)
    shapes = [np.shape(x) for x in (*jax.tree.leaves(mechanism), target)]
    if not any(shapes):
        return
    try:
        np.broadcast_shapes(*shapes)
    except ValueError as error:
        message = f"mechanism={mechanism!r}: the shapes of its fields and of {target_name} must broadcast, not {shapes}"
        raise ValueError(message) from error


def check_scalars(mechanism: Any, *targets: Any) -> None:
    """Raises ValueError unless `mechanism` is one, and its fields and the targets are concrete single numbers."""
    check_mechanism(mechanism)
    leaves = (*jax.tree.leaves(mechanism), *targets)
    if is_traced(leaves):
        raise ValueError("privacy loss distributions need concrete numbers: they cannot run inside jit, vmap or grad")
    for leaf in leaves:
        if np.ndim(leaf):
            raise ValueError(f"mechanism={mechanism!r} and its targets must be scalars: call once for each point")
