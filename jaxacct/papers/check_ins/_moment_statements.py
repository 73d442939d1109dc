"""BOUND, from above: Renyi divergences of check-ins and of samples by ternary moments, whole orders.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Theorems 2 and 4 and Lemma 2.
Replace-one adjacency, both directions. (a - 1) R_a is convex in a, so that `girgis.at_real_orders` extends a curve to
real orders.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.conversion import delta_from_log
from jaxacct.divergence.kernels import BlockLayout, binomial_blocks
from jaxacct.papers._asking import (
    Floats,
    Real,
    counts,
    curve,
    non_negative,
    orders_of,
    plain,
    positive,
    probability,
    whole,
)
from jaxacct.papers.check_ins import _distributed as sums
from jaxacct.papers.check_ins import _renyi as lanes
from jaxacct.papers.check_ins._distributed import TernaryMoment

# Blocks of the number of reports: single counts from 1 on, blocks of a geometric grid, and at most so many blocks
# around the mean. With fewer blocks the bound is certified too, only looser.
_NUM_SINGLES, _NUM_GEOMETRIC, _MOST_CENTRAL = 1024, 16, 2**17


def _rows(rdp: tuple[jax.Array, ...], highest: jax.Array, *, sharper: bool) -> lanes.BaseMoments:
    """The moments of a base with Renyi divergences R_2, .., R_A."""
    filler = jnp.zeros_like(rdp[0])
    return lanes.base_from_rdp(jnp.stack([filler, filler, *rdp]), highest, sharper=sharper)


@Kernel
def _ternary(rdp: jax.Array, highest: jax.Array, *, order: int, sharper: bool) -> jax.Array:
    return lanes.log_ternary_moments(jnp.tile(rdp, (order + 1, 1)), highest, sharper=sharper)[order]


@Kernel
def _subset(rate: jax.Array, highest: jax.Array, *rdp: jax.Array, capped: bool, sharper: bool) -> jax.Array:
    return lanes.subset_rdp(rate, _rows(rdp, highest, sharper=sharper), capped=capped)


@Kernel
def _constant(n: jax.Array, prob: jax.Array, highest: jax.Array, *rdp: jax.Array, sharper: bool) -> jax.Array:
    return lanes.constant_base_rdp(n, prob, _rows(rdp, highest, sharper=sharper))


def _mixed(
    n: jax.Array, prob: jax.Array, highest: jax.Array, *rdp: jax.Array, layout: BlockLayout, capped: bool, sharper: bool
) -> jax.Array:
    def base(num_reports: jax.Array) -> lanes.BaseMoments:
        each = tuple(jnp.broadcast_to(r, num_reports.shape) for r in rdp)
        return _rows(each, jnp.broadcast_to(highest, num_reports.shape), sharper=sharper)

    return lanes.mixture_rdp(n, binomial_blocks(n, prob, layout), base, capped=capped)


_mixture = Kernel(_mixed, lane_bytes=2**26)
_distributed = Kernel(sums.distributed_rdp, lane_bytes=2**26)
_fewer = Kernel(lambda n, prob, *, fewest: delta_from_log(sums.low_participation_log_prob(n, prob, fewest=fewest)))
_response = Kernel(lambda local, *, orders: lanes.response_rdp(local, jnp.asarray(orders, jnp.float64)[:, None]))


def _layout(num_users: Real, prob: Real) -> BlockLayout:
    """Blocks of single counts to 12 standard deviations, of several where one exceeds 1600; only a few sizes occur."""
    scale = float(np.max(np.sqrt(num_users * prob * (1.0 - prob)))) + 1.0
    size = math.ceil(2.0 * math.asinh(40.0 / 3.0) * scale * math.hypot(3.0, 12.0))
    return BlockLayout(_NUM_SINGLES, _NUM_GEOMETRIC, 1 << (min(max(size, 2**11), _MOST_CENTRAL) - 1).bit_length())


def _highest(value: ArrayLike | None) -> Real:
    return np.asarray(math.inf) if value is None else non_negative("highest", value)


def _base(rdp: ArrayLike) -> Real:
    base = curve("rdp", rdp)
    if base.ndim != 1:
        raise ValueError(f"rdp of shape {base.shape} must be one-dimensional: orders 2, 3, ..")
    return base


def response_rdp(local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of binary randomized response, the largest of all pure ones (CI-S22, GI-X3, CH-S19).

        log((e^(a eps0) + e^((1-a) eps0))/(1 + e^eps0)) / (a - 1).

    Upper bound on one report, and on any shuffle of reports; real orders a > 1, rounded up.

    Args:
      local_epsilon: eps0 >= 0.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(float(check_ins.response_rdp(2.0, orders=[2])[0]), 5)
    1.87555
    """
    return plain(_response(non_negative("local_epsilon", local_epsilon), orders=orders_of(orders)))


def log_ternary_moment(rdp: ArrayLike, *, order: int, highest: ArrayLike | None = None, sharper: bool = True) -> Floats:
    """log of a bound on sup E_R |(P - Q)/R|^j for three neighbours, from one Renyi divergence, Lemma 2 (CI-S4).

        zeta(2)^2 <= min{4 (e^rho(2) - 1), e^rho(2) min{2, (e^h - 1)^2}},
        zeta(j)^j <= e^((j-1) rho(j)) min{2, (e^h - 1)^j},   j >= 3,

    with h the divergence of infinite order; the paper prints e^(h-1) for e^h - 1. Upper bound; `sharper` adds a bound
    of ours, 2 (1 - e^-h)^j e^((j-1) rho(j)).

    Args:
      rdp: rho(j) >= 0, nats.
      order: j, whole number >= 2.
      highest: h >= 0; None if it is unknown or infinite.
      sharper: whether to use our bound too.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> [round(check_ins.log_ternary_moment(0.5, order=8, highest=1.0, sharper=s), 4) for s in (False, True)]
    [4.1931, 0.5237]
    """
    j = whole("order", order, least=2)
    return plain(_ternary(non_negative("rdp", rdp), _highest(highest), order=j, sharper=bool(sharper)))


def subset_rdp(
    rdp: ArrayLike,
    rate: ArrayLike,
    *,
    highest: ArrayLike | None = None,
    capped: bool = True,
    sharper: bool = True,
) -> Floats:
    """Renyi divergences of a mechanism run on a uniform subset of m of n records, whole orders 2..A (CI-S10).

        e^((a-1) R_a) <= 1 + sum_{j=2..a} C(a,j) rate^j zeta(j)^j;   `capped`: and <= 1 + rate (e^((a-1) rho(a)) - 1).

    Upper bound, with zeta from `log_ternary_moment` and rate = m/n; the cap follows from joint convexity.

    Args:
      rdp: float [A - 1], rho(2), .., rho(A), nats, of the mechanism on m records.
      rate: m/n in (0, 1].
      highest: the mechanism's divergence of infinite order, >= 0; None if it is unknown.
      capped: whether to use the cap.
      sharper: as in `log_ternary_moment`.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> gaussian = [0.5 * order for order in (2, 3, 4)]
    >>> [round(float(r), 6) for r in check_ins.subset_rdp(gaussian, 0.1)]
    [0.052939, 0.092521, 0.149841]
    """
    base, at = _base(rdp), positive("rate", probability("rate", rate))
    return plain(_subset(at, _highest(highest), *base, capped=bool(capped), sharper=bool(sharper)))


def constant_base_rdp(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    rdp: ArrayLike,
    *,
    highest: ArrayLike | None = None,
    sharper: bool = True,
) -> Floats:
    """Renyi divergences of check-ins over one curve for every number of reports, by Stirling numbers (CI-S9).

    This is Theorem 2 without the cap, orders 2..A, for a mechanism on k reports that has the same curve for all k >= 1,
    as randomizers without amplification have: only E (K/n)^j is needed. Upper bound, any n.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      rdp: float [A - 1], rho(2), .., rho(A), nats.
      highest: the divergence of infinite order, >= 0; None if it is unknown.
      sharper: as in `log_ternary_moment`.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> base = check_ins.response_rdp(2.0, orders=[2, 3, 4])
    >>> f"{check_ins.constant_base_rdp(10**9, 0.01, base, highest=2.0)[2]:.4g}"
    '0.002029'
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    return plain(_constant(n, prob, _highest(highest), *_base(rdp), sharper=bool(sharper)))


def theorem2_rdp(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    rdp: ArrayLike,
    *,
    highest: ArrayLike | None = None,
    capped: bool = True,
    sharper: bool = True,
) -> Floats:
    """Renyi divergences of check-ins over one curve for every number of reports, Theorem 2 with its cap (CI-S9).

        e^((a-1) R_a) <= sum_k w_k A_k,   A_0 = 1,   w_k = P[Bin(n, q) = k],
        A_k <= 1 + sum_{j=2..a} C(a,j) (k/n)^j zeta(j)^j   and   A_k <= 1 + (k/n) (e^((a-1) rho(a)) - 1),

    summed over blocks of k, which are single counts up to a standard deviation of 1600. Upper bound, orders 2..A;
    without the cap it is `constant_base_rdp`. For sums of Gaussian reports, whose curve falls with k, use
    `distributed_rdp`.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      rdp: float [A - 1], rho(2), .., rho(A), nats.
      highest: the divergence of infinite order, >= 0; None if it is unknown.
      capped: whether to use the second bound on A_k too.
      sharper: as in `log_ternary_moment`.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> base = check_ins.response_rdp(2.0, orders=[2, 3, 4])
    >>> [f"{r:.4g}" for r in check_ins.theorem2_rdp(1000, 0.5, base, highest=2.0)]
    ['1.236', '1.39', '1.425']
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    static = {"layout": _layout(n, prob), "capped": bool(capped), "sharper": bool(sharper)}
    values = _mixture(n, prob, _highest(highest), *_base(rdp), **static)
    nobody = (prob == 0) + np.zeros(np.shape(values)[:-1])
    return plain(np.where(nobody[..., None] > 0, 0.0, values))


def distributed_rdp(
    num_users: ArrayLike,
    check_in_prob: ArrayLike,
    gap: ArrayLike,
    *,
    max_order: int,
    kind: TernaryMoment = TernaryMoment.SHARP,
    capped: bool = True,
    fewest: int = 0,
) -> Floats:
    """Renyi divergences of check-ins of which only the sum is seen, Theorem 4 corrected (CI-S17, CI-S24).

    This is Theorem 2 for Gaussian reports: the sum of k reports has noise of variance k sigma^2. Upper bound, orders
    2..A. The paper leaves out k = 0, and has `TernaryMoment.GENERIC` without the cap; the other two kinds are ours. The
    bound is not monotone in the probability: fewer reports mean less noise.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      gap: > 0, the distance between two data over the standard deviation of one report's noise: 2/noise_multiplier.
      max_order: A, whole number >= 2.
      kind: how the ternary moment is bounded.
      capped: whether joint convexity is used too.
      fewest: k_lo >= 0: the divergences are conditional on at least so many reports. The probability of fewer,
        `low_participation_prob`, must then be added to delta for each round, or the server must discard such rounds.

    Returns:
      float64 [.., A - 1], nats: orders 2, .., A.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> [f"{check_ins.distributed_rdp(1000, 0.1, 2.0, max_order=4, kind=k)[2]:.4g}" for k in check_ins.TernaryMoment]
    ['0.006354', '0.00342', '0.0008448']
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    if not isinstance(kind, TernaryMoment):
        raise ValueError(f"kind={kind!r} must be a TernaryMoment")
    static = {"max_order": whole("max_order", max_order, least=2), "fewest": whole("fewest", fewest, least=0)}
    layout = _layout(n, prob)
    return plain(_distributed(n, prob, positive("gap", gap), layout=layout, kind=kind, capped=bool(capped), **static))


def low_participation_prob(num_users: ArrayLike, check_in_prob: ArrayLike, *, fewest: int) -> Floats:
    """P[Bin(n, q) < k_lo], to be added to delta for each round of `distributed_rdp` with `fewest` (CI-S24).

    Upper bound, a sum of positive terms, rounded up.

    Args:
      num_users: n, whole number >= 1.
      check_in_prob: q in [0, 1].
      fewest: k_lo, whole number >= 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> f"{check_ins.low_participation_prob(60_000, 0.001, fewest=20):.6g}"
    '6.26256e-10'
    """
    n, prob = counts("num_users", num_users), probability("check_in_prob", check_in_prob)
    return plain(_fewer(n, prob, fewest=whole("fewest", fewest, least=0)))
