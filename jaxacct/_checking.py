"""Whether a question can be asked: checks of whole mechanisms at the public border."""

from typing import Any

import jax
import numpy as np

from jaxacct._precision import is_traced
from jaxacct.mechanisms._base import Description, Mechanism
from jaxacct.mechanisms._fields import UNKNOWN


def check_mechanism(mechanism: Any, name: str = "mechanism") -> None:
    """Raises ValueError unless `mechanism` is one and none of its numbers is left out.

    Its fields are looked at once more, since JAX rebuilds a mechanism around any numbers without a look at them.
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"{name}={mechanism!r} has no analysis here: it is no mechanism")
    _check_complete(mechanism)


def _check_complete(description: Description) -> None:
    description.check()
    for name, value in description.numbers():
        if value is None or value is UNKNOWN:
            raise ValueError(f"{name}={value!r} must be a number or a NumPy or JAX array of numbers")
    for part in description.wrapped():
        _check_complete(part)


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
