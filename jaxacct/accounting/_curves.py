"""Curves of a mechanism: Renyi divergences and privacy loss distributions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jaxacct import _trees
from jaxacct._jax import jax
from jaxacct._precision import KernelByStructure, Rounding, float64_kernel
from jaxacct._types import Bound, Direction, NeighboringRelation
from jaxacct._validate import (
    check_at_most,
    check_count,
    check_delta,
    check_orders,
    check_positive,
    checked_array,
    checked_choice,
    checked_number,
    is_checkable,
)
from jaxacct.answering._lanes import in_domain, may_lose
from jaxacct.answering._question import check_mechanism, check_scalars, directions_of
from jaxacct.bounds import check_has_analysis
from jaxacct.bounds._distribution import PLAIN_TAIL, plds
from jaxacct.bounds.composed import (
    RenyiPlan,
    distribution_of,
    has_lanes,
    least_rdp,
    renyi_bytes,
    renyi_plan,
    together,
)
from jaxacct.composition import allocation_groups, compose_rdp
from jaxacct.curves import Pld, RdpCurve
from jaxacct.curves._convolution import ALL_DELTAS
from jaxacct.divergence.allocation._powers import general_rdp
from jaxacct.mechanisms._adjacent import in_relation
from jaxacct.mechanisms._base import Mechanism
from jaxacct.special import LEAST_NORMAL
from jaxacct.special._namespace import xp


def _worst_rdp(mechanism: Mechanism, *, orders: tuple[float, ...], parts: tuple[RenyiPlan, ...]) -> jax.Array:
    """The least Renyi divergences by the plan of each direction, and of these the larger ones, [A, L]."""
    whole = functools.reduce(xp.maximum, [least_rdp(plan, mechanism, orders=orders) for plan in parts])
    whole = xp.where(may_lose(mechanism), xp.maximum(whole, LEAST_NORMAL), whole)
    return xp.where(in_domain(mechanism) & ~xp.isnan(whole), whole, xp.inf)


_RDP = KernelByStructure(_worst_rdp, Rounding.UP, lane_bytes=renyi_bytes, on_host=together)


def rdp(
    mechanism: Mechanism,
    orders: Any,
    *,
    direction: Direction | str | None = None,
    neighboring_relation: NeighboringRelation | str | None = None,
) -> RdpCurve:
    """Certified upper bounds on the Renyi divergences of `mechanism` at `orders`, in the worse of both directions.

    Args:
      mechanism: a mechanism; array fields broadcast.
      orders: concrete float array [A], each >= 1. Order 1 is the Kullback-Leibler divergence, taken at an order near 1
        where no formula is known; order inf is the largest loss, inf if none is known. Static: another set of orders
        compiles another program.
      direction: to bound one direction only; None for the worse of both.
      neighboring_relation: as for `jaxacct.epsilon`. For a replaced record the divergences are those of twice
        the sensitivity where that is the dominating pair (Gaussian, Laplace and discrete noise, composed), else those
        of a removal and then an addition, by the weak triangle inequality (Mironov 2017, Proposition 11).

    Returns:
      An `RdpCurve` with values of shape batch + [A], in nats.

    Raises:
      ValueError: if an argument is out of range, or the mechanism has no analysis.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(noise_multiplier=1.0), num_steps=100)
    >>> [round(float(v), 6) for v in ja.rdp(run, [2, 32]).values]
    [0.017037, 11.39483]
    """
    wanted = check_orders("orders", orders, with_limits=True)
    mechanism = in_relation(mechanism, neighboring_relation)
    check_mechanism(mechanism)
    directions = directions_of(mechanism, direction)
    check_has_analysis(mechanism)
    plans = tuple(renyi_plan(mechanism, d) for d in directions)
    if not any(plans) and not has_lanes(mechanism):
        raise ValueError(
            f"mechanism={mechanism!r} is analysed by its loss distribution, not by Renyi divergences: "
            "ask for its epsilon, delta, pld or compare instead"
        )
    values = _RDP(mechanism, orders=tuple(wanted.tolist()), parts=plans)
    theorem = "; ".join(dict.fromkeys(method.source(mechanism) for plan in plans for method, *_ in plan))
    only = None if direction is None else directions[0]
    return RdpCurve(wanted, values, Bound.UPPER, mechanism.relation, theorem, only)


@float64_kernel(rounding=Rounding.UP, on_host=True)
def _moments_kernel(
    num_steps: Any, num_selected: Any, num_epochs: Any, *log_moments: Any, uneven: bool, num_bits: int
) -> Any:
    groups = allocation_groups(num_steps, num_selected, num_epochs, uneven=uneven)
    moments = xp.stack(log_moments)
    return compose_rdp((general_rdp(moments, g.num_steps, num_bits=num_bits), g.num_runs) for g in groups)


def allocation_rdp(log_moments: Any, num_steps: Any, num_selected: Any = 1, num_epochs: Any = 1) -> RdpCurve:
    """The Renyi curve of random allocation of *any* base mechanism, from the moments of its dominating pair (P, Q).

    It is an upper bound for the remove direction only, at orders 2..A (Feldman and Shenfeld 2025, Theorem 4.8 and Lemma
    3.2):

        R_a = (1/(a-1)) log( a!/t^a [x^a] (sum_c m_c/c! x^c)^t ),    m_c = E_Q[(dP/dQ)^c],

    It is exact for num_selected = 1 up to an absolute rounding slack of about 1e-12 on (a-1) R_a.

    Args:
      log_moments: float array [A + 1], log m_c for c = 0..A; entries 0 and 1 are 0, inf where a moment is infinite.
      num_steps: whole number in [1, 2^40], t.
      num_selected: whole number in [1, num_steps].
      num_epochs: whole number >= 1.

    Returns:
      An `RdpCurve` at the orders 2 to A, values of shape batch + [A - 1], in nats; add or remove adjacency.

    Raises:
      ValueError: if an argument is out of range.

    >>> import numpy as np, jaxacct as ja
    >>> c = np.arange(9)
    >>> gaussian = c * (c - 1) / 2                      # log moments of the Gaussian pair at noise multiplier 1
    >>> round(float(ja.allocation_rdp(gaussian, num_steps=100).values[0]), 6)
    0.017037
    """
    moments = checked_array("log_moments", log_moments).astype(np.float64)
    if moments.ndim != 1 or moments.shape[0] < 3 or np.isnan(moments).any() or np.abs(moments[:2]).max() > 1e-9:
        raise ValueError(f"log_moments={log_moments!r} must be [A + 1] numbers, A >= 2, the first two of them 0")
    for name, value in (("num_steps", num_steps), ("num_selected", num_selected), ("num_epochs", num_epochs)):
        if not is_checkable(value):
            raise ValueError(f"{name}={value!r} must be a number or an array of numbers, concrete")
    check_count("num_steps", num_steps, largest=2**40)
    check_count("num_selected", num_selected)
    check_at_most("num_selected", num_selected, "num_steps", num_steps)
    check_count("num_epochs", num_epochs)
    uneven = bool(np.any(np.mod(num_steps, num_selected) != 0))
    num_bits = int(np.max(num_steps)).bit_length()
    values = _moments_kernel(num_steps, num_selected, num_epochs, *moments, uneven=uneven, num_bits=num_bits)
    orders = np.arange(2.0, moments.shape[0])
    theorem = "Feldman & Shenfeld 2025, Theorem 4.8, remove direction"
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    return RdpCurve(orders, values, Bound.UPPER, relation, theorem, Direction.REMOVE)


def pld(
    mechanism: Mechanism,
    *,
    direction: Direction | str = Direction.REMOVE,
    bound: Bound | str = Bound.UPPER,
    resolution: float = 24.0,
    tail: float = PLAIN_TAIL,
    neighboring_relation: NeighboringRelation | str | None = None,
) -> Pld:
    """The privacy loss distribution of `mechanism` in one direction, certified on one side.

    An upper bound dominates the mechanism at every epsilon, also under further composition. A lower bound is dominated
    by what was analysed (for random allocation with num_selected > 1 that is the reduction of Feldman & Shenfeld 2025,
    Lemma 3.2; for the sparse vector technique and choices by a score it is the worst pair of each epsilon, which may
    lie above the mechanism). The discretisation error of both falls with the square of the step of the grid.

    Args:
      mechanism: a mechanism with concrete scalar fields for which the support matrix names a loss distribution: any
        that has a dominating pair, among them sampled, allocated and shuffled ones and compositions.
      direction: REMOVE or ADD, or "remove" or "add".
      bound: UPPER or LOWER, or "upper" or "lower".
      resolution: grid points per standard deviation of the privacy loss of a part, > 0.
      tail: mass in (0, 1) that a discretisation step may truncate at either end, on the safe side.
      neighboring_relation: as for `jaxacct.epsilon`.

    Returns:
      A `Pld`, whose `bound` and `direction` are those asked for.

    Raises:
      ValueError: if an argument is out of range or traced, the mechanism has no loss distribution here, or a lower
        one is asked for where only a dominating one is known: shuffled batches, truncated batches, batches of a fixed
        size under replace-one or zero-out, and several rounds of noisy reports.
      TooFineError: (a ValueError) if the grid would have too many points to hold.

    >>> import jaxacct as ja
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=100)
    >>> loss = ja.pld(run)
    >>> round(loss.epsilon(1e-6), 2)
    0.86
    """
    mechanism = in_relation(mechanism, neighboring_relation)
    check_scalars(mechanism)
    # as Python numbers: sums and exponentials of narrower ones are narrower, and of narrow integers wrap around
    mechanism = _trees.map_leaves(lambda leaf: np.asarray(leaf).item(), mechanism)
    checked_number("resolution", resolution)
    check_positive("resolution", resolution)
    checked_number("tail", tail)
    check_delta("tail", tail)
    end: Bound = checked_choice("bound", bound, Bound.UPPER, Bound.LOWER)
    side: Direction = checked_choice("direction", direction, *Direction)
    check_has_analysis(mechanism)
    distribution = distribution_of(mechanism)
    if distribution is None:
        raise ValueError(f"mechanism={mechanism!r} has no privacy loss distribution here")
    of = plds(distribution, mechanism, float(resolution), end, float(tail), (1.0, *ALL_DELTAS))
    return of(side)
