"""BOUND, from above: the best of the published bounds on random allocation, "our methods combined" in its figures.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation"; RA-S16.
"""

from __future__ import annotations

from typing import Any

from jaxacct._jax import jax, jnp
from jaxacct._precision import Rounding, float64_kernel
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


@float64_kernel(rounding=Rounding.UP, lane_bytes=2**21)
def _closed_delta(epsilon: jax.Array, *lanes: jax.Array, remove: bool) -> jax.Array:
    run = _of_lanes(*lanes)
    local = unamplified_log_delta(run.mechanism, uses(run), epsilon)
    if remove:
        orders = jnp.asarray(_ORDERS, jnp.float64)[:, None]
        own = log_delta_from_rdp(orders, direct_remove_rdp(run, orders=_ORDERS), epsilon).value
    else:
        own = closed_form_add_log_delta(run, epsilon)
    return delta_from_log(jnp.minimum(local, own))


@float64_kernel(rounding=Rounding.UP, lane_bytes=2**21)
def _closed_epsilon(delta: jax.Array, *lanes: jax.Array, remove: bool) -> jax.Array:
    run, log_delta = _of_lanes(*lanes), jnp.log(delta)
    local = unamplified_epsilon(run.mechanism, uses(run), log_delta)
    if remove:
        orders = jnp.asarray(_ORDERS, jnp.float64)[:, None]
        own = epsilon_from_rdp(orders, direct_remove_rdp(run, orders=_ORDERS), log_delta).value
    else:
        own = closed_form_add_epsilon(run, log_delta)
    return jnp.minimum(local, own)


def _of_lanes(sigma: jax.Array, num_steps: jax.Array, num_selected: jax.Array, num_epochs: jax.Array) -> Any:
    return RandomAllocation(Gaussian(sigma), num_steps, num_selected, num_epochs)


def _lanes(mechanism: RandomAllocation) -> tuple[Any, ...]:
    return mechanism.mechanism.noise_multiplier, mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs


def _paper_rate(mechanism: RandomAllocation) -> float | None:
    """1/t, a float, where Theorem 4.6 applies as it stands: one step of one epoch; else None."""
    single = mechanism.num_selected == mechanism.num_epochs == 1 and mechanism.num_steps > 1
    return 1.0 / float(mechanism.num_steps) if single else None


def combined_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> float:
    """delta at `epsilon`, the least of the paper's upper bounds in one direction, "our methods combined" (RA-S16):

    unamplified; Theorem 4.1 (with sinh); Theorem 4.2; Theorem 4.6 at rate 1/t, where k = E = 1; Corollary 4.10, by
    Renyi divergences of order 2 to 256 (remove) or in closed form (add). Upper bound; the guarantee is the larger of
    the two directions, each bounded first. Any k and E.

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
    run_of(mechanism)
    direction = direction_of(direction)
    tails = (azuma_tail, tied_tail)
    values = [truncated_delta(mechanism, epsilon, direction, tail_bound=tail) for tail in tails]
    if (rate := _paper_rate(mechanism)) is not None:
        values.append(decomposition_delta(mechanism, epsilon, direction, sampling_prob=rate))
    if mechanism.signature() == (RandomAllocation, Gaussian):
        values.append(float(_closed_delta(epsilon, *_lanes(mechanism), remove=direction is Direction.REMOVE)))
    return min(values)


def combined_epsilon(mechanism: RandomAllocation, delta: float, direction: Direction) -> float:
    """epsilon at `delta`, the least of the paper's upper bounds in one direction; see `combined_delta` (RA-S16).

    Upper bound.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      delta: in (0, 1).
      direction: of add/remove adjacency.

    Returns:
      float, epsilon; inf where the bound gives none.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> round(random_allocation.combined_epsilon(run, 1e-6, ja.Direction.REMOVE), 2)
    1.32
    """
    check_delta("delta", delta)
    run_of(mechanism)
    direction = direction_of(direction)
    tails = (azuma_tail, tied_tail)
    values = [truncated_epsilon(mechanism, delta, direction, tail_bound=tail) for tail in tails]
    if (rate := _paper_rate(mechanism)) is not None:
        values.append(decomposition_epsilon(mechanism, delta, direction, sampling_prob=rate))
    if mechanism.signature() == (RandomAllocation, Gaussian):
        values.append(float(_closed_epsilon(delta, *_lanes(mechanism), remove=direction is Direction.REMOVE)))
    return min(values)
