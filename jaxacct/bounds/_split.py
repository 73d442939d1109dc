"""k-out-of-t allocation as a composition of 1-out-of-n runs, which is analysed, and a run that bounds it from below.

Feldman & Shenfeld 2025, Lemma 3.2 and Lemma D.2; the runs themselves are `jaxacct.composition.allocation_groups`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import Tracer
from jaxacct.mechanisms import RandomAllocation


def splits_unevenly(mechanism: RandomAllocation) -> bool:
    """bool: whether num_steps is not a multiple of num_selected at some point; assumed True where they are traced."""
    steps, selected = mechanism.num_steps, mechanism.num_selected
    if type(selected) is int and (selected == 1 or type(steps) is int):  # array checks cost microseconds
        return selected != 1 and steps % selected != 0
    if any(isinstance(x, Tracer) for x in (steps, selected)):
        return True
    return bool(np.any(np.mod(steps, selected) != 0))


def split_statics(mechanism: RandomAllocation) -> dict[str, Any]:
    """A dict of the static arguments of the Renyi kernels: "uneven", False where one group size is enough."""
    return {"uneven": splits_unevenly(mechanism)}


def selects_several(mechanism: RandomAllocation) -> bool:
    """bool: whether a record joins several steps but not all, at some point; True where a tracer might.

    In that case the composition of Feldman & Shenfeld 2025, Lemma 3.2, may lie above the mechanism: it is a reduction.
    """
    steps, selected = mechanism.num_steps, mechanism.num_selected
    if any(isinstance(x, Tracer) for x in (steps, selected)):
        return isinstance(selected, Tracer) or bool(np.any(np.asarray(selected) > 1))
    return bool(np.any((np.asarray(selected) > 1) & (np.asarray(selected) < np.asarray(steps))))


def single_step(mechanism: RandomAllocation) -> RandomAllocation:
    """A `RandomAllocation` (the class) that reveals no more: each record joins one step where it joined several.

    Feldman & Shenfeld 2025, Lemma D.2.
    """
    if not selects_several(mechanism):
        return mechanism
    return RandomAllocation(mechanism.mechanism, mechanism.num_steps, 1, mechanism.num_epochs)
