"""BOUND: the least Renyi divergence that a hockey-stick divergence implies, and the optimal conversion of one order.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", Lemma 1, which states the former as an
upper bound: it is a lower one.
"""

from numpy.typing import ArrayLike

from jaxacct._precision import Kernel
from jaxacct.papers._asking import (
    Floats,
    Real,
    inner_probability,
    log_of,
    non_negative,
    plain,
    positive,
    probability,
)
from jaxacct.papers.check_ins import _conversion as lanes

_least = Kernel(lanes.least_rdp)
_optimal = Kernel(lanes.optimal_epsilon)


def _order(value: ArrayLike) -> Real:
    order = positive("order", value)
    if (order <= 1.0).any():
        raise ValueError(f"order={value!r} must be > 1")
    return order


def least_rdp(order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """The least D_a(P || Q) among all pairs with D_{e^eps}(P || Q) = delta, Lemma 1 read the right way round (CI-S1).

        eps + log(M)/(a-1),   M = min_r r^a (r - delta)^(1-a) + (1-r)^a (e^eps - r + delta)^(1-a).

    Lower bound, attained by two-point laws; 0 at delta = 0. Real order a > 1; each term rounded down by 2^-44.

    Args:
      order: a > 1.
      epsilon: eps >= 0.
      delta: in [0, 1).

    Returns:
      float, or float64 of the arguments' common shape; nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.least_rdp(2.0, 0.5, 0.01), 6)
    0.026008
    """
    at = probability("delta", delta)
    if (at >= 1.0).any():
        raise ValueError(f"delta={delta!r} must be < 1")
    return plain(_least(_order(order), non_negative("epsilon", epsilon), at))


def optimal_epsilon(order: ArrayLike, rdp: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon at `delta` from a Renyi divergence at one order, the least that it implies (CI-S1, inverted).

    The least epsilon >= 0 with `least_rdp` at least rdp. Upper bound, in the direction of the divergence, rounded up;
    never above the closed conversion (CI-S3). Real order > 1.

    Args:
      order: a > 1.
      rdp: D_a >= 0, nats.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.optimal_epsilon(2.0, 0.1, 1e-5), 4)
    7.8748
    """
    return plain(_optimal(_order(order), non_negative("rdp", rdp), log_of(inner_probability("delta", delta))))
