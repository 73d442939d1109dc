"""k-out-of-t allocation as runs of 1-out-of-n: what is analysed, and what bounds it from below.

Feldman and Shenfeld 2025, Lemma 3.2 and Lemma D.2; the runs themselves are `jaxacct.composition.allocation_groups`.
"""

from typing import Any

import jax
import numpy as np

from jaxacct.mechanisms import RandomAllocation


def splits_unevenly(mechanism: RandomAllocation) -> bool:
    """Whether num_steps is not a multiple of num_selected somewhere (assumed where they are traced)."""
    if any(isinstance(x, jax.core.Tracer) for x in (mechanism.num_steps, mechanism.num_selected)):
        return not (isinstance(mechanism.num_selected, int) and mechanism.num_selected == 1)
    return bool(np.any(np.mod(mechanism.num_steps, mechanism.num_selected) != 0))


def split_statics(mechanism: RandomAllocation) -> dict[str, Any]:
    """Static argument of the Renyi kernels: without uneven groups half the work."""
    return {"uneven": splits_unevenly(mechanism)}


def selects_several(mechanism: RandomAllocation) -> bool:
    """Whether a record joins several steps but not all, at some point: Lemma 3.2 may lie above the mechanism."""
    selected = np.asarray(mechanism.num_selected)
    return bool(np.any((selected > 1) & (selected < np.asarray(mechanism.num_steps))))


def single_step(mechanism: RandomAllocation) -> RandomAllocation:
    """The mechanism with each record in one step where it was in several: it reveals less (Lemma D.2)."""
    if not selects_several(mechanism):
        return mechanism
    return RandomAllocation(mechanism.mechanism, mechanism.num_steps, 1, mechanism.num_epochs)
