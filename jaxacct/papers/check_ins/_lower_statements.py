"""BOUND, from below, on Renyi divergences of shuffled check-ins: one differing record, mixture first.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Theorem 3 and Corollary 1. Exact for
the pair and direction, hence the least that any Renyi accountant could certify; it says nothing of epsilon itself.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel, is_traced
from jaxacct._types import Ends
from jaxacct.mechanisms import CheckIn
from jaxacct.papers._asking import (
    Bracket,
    Floats,
    counts,
    mechanism_of,
    non_negative,
    orders_of,
    plain,
    positive,
    probability,
    users_and_reports,
    whole,
)
from jaxacct.papers.check_ins import _shuffled_gaussian as lanes
from jaxacct.papers.check_ins._floor import response_lower_rdp

_gaussian = Kernel(lanes.gaussian_pair_rdp, lane_bytes=lambda *, orders, max_order: 2**15 * max_order)
_response = Kernel(lanes.response_pair_rdp, lane_bytes=lambda *, orders, max_order: 2**15 * max_order)
_sampled = Kernel(lanes.sampled_gaussian_pair_rdp, lane_bytes=lambda *, orders, max_order: 2**15 * max_order)


def _floor_lanes(*leaves: jax.Array, treedef: Any, orders: tuple[float, ...]) -> jax.Array:
    return response_lower_rdp(jax.tree.unflatten(treedef, leaves), orders=orders)


_floor = Kernel(_floor_lanes, lane_bytes=2**23)
_sandwich = Kernel(
    lambda n, gap, *, orders: lanes.gaussian_pair_sandwich(n, gap, jnp.asarray(orders, jnp.float64)[:, None])
)


def gaussian_pair_rdp(
    num_users: ArrayLike, check_in_prob: ArrayLike, gap: ArrayLike, *, orders: ArrayLike, max_order: int = 256
) -> Floats:
    """Renyi divergences [A] of check-ins with Gaussian reports, one record against equal ones (CI-S14, CI-S21).

        log E[(1 + (1/n) sum_i b_i (W_i - 1))^a] / (a - 1),   W lognormal of variance gap^2, b ~ Bern(q),

    with q = 1 the shuffle Gaussian mechanism's pair, Theorem 3 with its direction corrected. Lower bound, exact at
    whole orders; at others the whole order below, beyond `max_order` that one. Rounded down.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      gap: > 0, distance of the data over the noise's standard deviation: 2/noise_multiplier for clip norm 1.
      orders: real [A], each > 1.
      max_order: whole number >= 3, up to which moments are computed.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(float(check_ins.gaussian_pair_rdp(2, 1.0, 1.0, orders=[2])[0]), 9)
    0.620114507
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    top = whole("max_order", max_order, least=3)
    return plain(_gaussian(n, prob, positive("gap", gap), orders=orders_of(orders), max_order=top))


def response_pair_rdp(
    num_users: ArrayLike, check_in_prob: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, max_order: int = 256
) -> Floats:
    """Renyi divergences [A] of check-ins with binary randomized response, one 1 among zeros (CI-S21).

    As `gaussian_pair_rdp` with E (W-1)^j = (E-1)^j (1 + (-1)^j E^(1-j))/(1 + E): lower bound that any bound for every
    pure randomizer is above.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      local_epsilon: eps0 >= 0.
      orders: real [A], each > 1.
      max_order: whole number >= 3, up to which moments are computed.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.response_pair_rdp(10_000, 0.01, 2.0, orders=[8])[0]:.5g}"
    '2.2121e-05'
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    local, top = non_negative("local_epsilon", local_epsilon), whole("max_order", max_order, least=3)
    return plain(_response(n, prob, local, orders=orders_of(orders), max_order=top))


def sampled_gaussian_pair_rdp(
    num_users: ArrayLike, num_reports: ArrayLike, gap: ArrayLike, *, orders: ArrayLike, max_order: int = 256
) -> Floats:
    """Renyi divergences [A] where exactly m of n users report, a uniform subset: ours, for Theorem 5 (CI-S18).

        log E[(1 + (m/n) Y)^a] / (a - 1),   Y = (1/m) sum_{i<=m} (W_i - 1),

    lower bound, exact for the pair at whole orders. Rounded down.

    Args:
      num_users: n, whole number >= 1.
      num_reports: m, whole number in 1..n.
      gap: > 0, as in `gaussian_pair_rdp`.
      orders: real [A], each > 1.
      max_order: whole number >= 3, up to which moments are computed.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.sampled_gaussian_pair_rdp(10**9, 10**6, 0.5, orders=[64])[0]:.4g}"
    '9.089e-12'
    """
    n, m = users_and_reports(num_users, num_reports)
    top = whole("max_order", max_order, least=3)
    return plain(_sampled(n, m, positive("gap", gap), orders=orders_of(orders), max_order=top))


def gaussian_pair_sandwich(num_users: ArrayLike, gap: ArrayLike, *, orders: ArrayLike) -> Bracket:
    """Bounds [A] in closed form on `gaussian_pair_rdp` at probability 1, Corollary 1 and ours (CI-S15).

        max(a s/2 - log n, log(1 + C(a,2) (e^s - 1)/n)/(a-1))  <=  R_a  <=  a s/2,   s = gap^2.

    Lower and upper bounds on the pair's divergence, the latter attained at n = 1; to some 1e-15, not rounded outward.

    Args:
      num_users: n, whole number >= 1.
      gap: > 0, as in `gaussian_pair_rdp`.
      orders: real [A], each > 1.

    Returns:
      Ends of float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> ends = check_ins.gaussian_pair_sandwich(100, 1.0, orders=[4])
    >>> round(float(ends.lower[0]), 5), float(ends.upper[0])
    (0.03271, 2.0)
    """
    n = counts("num_users", num_users)
    return Ends(*(plain(end) for end in _sandwich(n, positive("gap", gap), orders=orders_of(orders))))


def floor_rdp(mechanism: CheckIn, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of all rounds that no valid curve lies below (CI-S21).

    `gaussian_pair_rdp` for Gaussian reports of clip norm 1, `response_pair_rdp` for pure randomizers, times the rounds.
    Lower bound on the curve, and no lower bound on epsilon at any delta.

    Args:
      mechanism: CheckIn with concrete numbers.
      orders: real [A], each > 1.

    Returns:
      float64 [A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import check_ins
    >>> run = ja.CheckIn(ja.LocalRandomizer(2.0), num_users=10_000, check_in_prob=0.01, num_epochs=100)
    >>> f"{check_ins.floor_rdp(run, orders=[8])[0]:.4g}"
    '0.002212'
    """
    mechanism_of(mechanism, CheckIn)
    leaves, treedef = jax.tree.flatten(mechanism)
    if is_traced(leaves):
        raise ValueError(
            "mechanism must hold concrete numbers: a statement of a paper cannot be asked inside jit or grad"
        )
    return plain(_floor(*leaves, treedef=treedef, orders=orders_of(orders)))
