"""BOUND, from above: the best of the published bounds on random allocation, "our methods combined" in its figures.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation"; RA-S16.
"""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax, jnp
from jaxacct._precision import KernelByStructure, Rounding
from jaxacct._types import Direction
from jaxacct._validate import check_delta, check_epsilon
from jaxacct.bounds.theorems import (
    closed_form_add_epsilon,
    closed_form_add_log_delta,
    decomposition_delta,
    decomposition_epsilon,
    direct_remove_rdp,
    truncated_delta,
    truncated_epsilon,
    unamplified_epsilon,
    unamplified_log_delta,
    uses,
)
from jaxacct.conversion import delta_from_log, epsilon_from_rdp, log_delta_from_rdp
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.papers._asking import direction_of, run_of
from jaxacct.papers.random_allocation._recursive import tied_tail
from jaxacct.papers.random_allocation._truncated_poisson import azuma_tail

_ORDERS = tuple(float(a) for a in range(2, 257))  # Renyi orders of Corollary 4.10: any is certified


def _delta(run: RandomAllocation, epsilon: jax.Array, *, remove: bool) -> jax.Array:
    local = unamplified_log_delta(run.mechanism, uses(run), epsilon)
    if remove:
        orders = jnp.asarray(_ORDERS, jnp.float64)[:, None]
        own = log_delta_from_rdp(orders, direct_remove_rdp(run, orders=_ORDERS), epsilon).value
    else:
        own = closed_form_add_log_delta(run, epsilon)
    return delta_from_log(jnp.minimum(local, own))


def _epsilon(run: RandomAllocation, delta: jax.Array, *, remove: bool) -> jax.Array:
    log_delta = jnp.log(delta)
    local = unamplified_epsilon(run.mechanism, uses(run), log_delta)
    if remove:
        orders = jnp.asarray(_ORDERS, jnp.float64)[:, None]
        own = epsilon_from_rdp(orders, direct_remove_rdp(run, orders=_ORDERS), log_delta).value
    else:
        own = closed_form_add_epsilon(run, log_delta)
    return jnp.minimum(local, own)


_closed_delta = KernelByStructure(_delta, Rounding.UP, lane_bytes=2**21)
_closed_epsilon = KernelByStructure(_epsilon, Rounding.UP, lane_bytes=2**21)


def _least(
    mechanism: RandomAllocation, target: float, direction: Direction, truncated: Any, decomposed: Any, closed: Any
) -> float:
    """The least of the bounds, by functions that all return delta or all return epsilon."""
    run_of(mechanism)
    direction = direction_of(direction)
    values = [truncated(mechanism, target, direction, tail_bound=tail) for tail in (azuma_tail, tied_tail)]
    # Theorem 4.6 as it stands: one step of one epoch
    if mechanism.num_selected == mechanism.num_epochs == 1 and mechanism.num_steps > 1:
        values.append(decomposed(mechanism, target, direction, sampling_prob=1.0 / float(mechanism.num_steps)))
    if mechanism.signature() == (RandomAllocation, Gaussian):
        values.append(float(closed(mechanism, target, remove=direction is Direction.REMOVE)))
    return min(values)


def combined_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """delta at `epsilon`, the least of the paper's upper bounds in one direction, "our methods combined" (RA-S16):

    without amplification; Theorem 4.1 (with sinh); Theorem 4.2; Theorem 4.6 at rate 1/t, if k = E = 1; Corollary 4.10,
    by Renyi divergences of order 2 to 256 (remove) or in closed form (add). Upper bound; the guarantee is the larger of
    the two directions, after each is bounded. Any k and E.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      epsilon: >= 0.
      direction: of add/remove adjacency.

    Returns:
      float, delta in [0, 1].

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> round(random_allocation.combined_delta(run, 0.5, ja.Direction.REMOVE), 4)
    0.0015
    """
    check_epsilon("epsilon", epsilon)
    return _least(mechanism, epsilon, direction, truncated_delta, decomposition_delta, _closed_delta)


def combined_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    """epsilon at `delta`, the least of the paper's upper bounds in one direction; see `combined_delta` (RA-S16).

    Upper bound.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      delta: in (0, 1).
      direction: of add/remove adjacency.

    Returns:
      float, epsilon; inf if the bounds give none.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> round(random_allocation.combined_epsilon(run, 1e-6, ja.Direction.REMOVE), 2)
    1.32
    """
    check_delta("delta", delta)
    return _least(mechanism, delta, direction, truncated_epsilon, decomposition_epsilon, _closed_epsilon)
