"""BOUND, from below, on Renyi divergences of the worst shuffle of n eps-LDP reports: of named mechanisms on named data.

Girgis et al. 2021, Theorem 3 and Corollary 2, and two sharper ones of ours. Replace-one adjacency. A lower bound on a
Renyi curve, converted to (epsilon, delta), bounds nothing in either direction. E = e^local_epsilon.
"""

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.divergence.kernels import response_window
from jaxacct.papers._asking import Floats, Real, counts, non_negative, orders_of, plain, whole_orders
from jaxacct.papers.girgis import _below as below
from jaxacct.papers.girgis._histogram import histogram_rdp as _histogram_ends
from jaxacct.papers.girgis._response import response_renyi
from jaxacct.papers.girgis._ternary_response import ternary_response_renyi, ternary_window

_response = Kernel(
    lambda *a, orders, window, reverse: tuple(response_renyi(*a, orders=orders, window=window, reverse=reverse)),
    on_host=True,
)
_simple = Kernel(below.simple_lower_rdp, on_host=True)
_ternary = Kernel(ternary_response_renyi, lane_bytes=lambda *, orders, window: 64 * window * window, on_host=True)
_largest = Kernel(below.lower_rdp, lane_bytes=below.lower_lane_bytes, on_host=True)


def _reports(num_reports: ArrayLike, local_epsilon: ArrayLike) -> tuple[Real, Real]:
    return counts("num_reports", num_reports), non_negative("local_epsilon", local_epsilon)


def response_rdp(
    num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, reverse: bool = False
) -> Ends[Floats]:
    """Renyi divergences [A] of shuffled binary randomized response on 1, 0, .., 0 and 0, .., 0 (GI-S8, GI-X4, CH-S12).

        log E_k[((k E + (n-k)/E)/n)^a] / (a - 1),   k ~ Bin(n, 1/(E+1)),

    Theorem 3, equation (11), at real orders a > 1, the data with the 1 first; with `reverse` the other direction, power
    1 - a, which is never the smaller. Bracketed; the lower end is a lower bound on the worst eps-LDP randomizer.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: 0 <= eps <= 300; beyond, the bracket is (0, inf).
      orders: real [A], each > 1.
      reverse: which direction.

    Returns:
      Ends of float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(girgis.response_rdp(10_000, 3.0, orders=[10], reverse=r).lower[0]), 5) for r in (False, True)]
    [0.00897, 0.00918]
    """
    n, local = _reports(num_reports, local_epsilon)
    at = orders_of(orders)
    window = max(128, response_window(n, local, 1.0 - max(at) if reverse else max(at)))  # one program for most
    return Ends(*(plain(end) for end in _response(n, local, orders=at, window=window, reverse=bool(reverse))))


def corollary2_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of Corollary 2, equation (12): log(1 + C(a,2) (E-1)^2/(n E))/(a-1) (GI-S9, CH-S12).

    Lower bound on the worst eps-LDP randomizer, whole orders a >= 2; the first term of Theorem 3, all of it at 2.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: whole [A], each >= 2.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(float(girgis.corollary2_rdp(10_000, 3.0, orders=[10])[0]), 5)
    0.00872
    """
    return plain(_simple(*_reports(num_reports, local_epsilon), orders=whole_orders(orders)))


def ternary_response_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of shuffled ternary randomized response on 1, 3, .., 3 and 2, 3, .., 3: ours (GI-X4).

        log E[A (A/B)^(a-1)] / (a - 1),   A = (E h1 + h2 + h3/E)/n,   B = (h1 + E h2 + h3/E)/n,

    h ~ Multinomial(n; b, b, E b), b = 1/(E + 2). Lower bound on the worst eps-LDP randomizer, real orders a > 1, both
    directions equal; to leading order a (E-1)^2/((E+2) n), above binary randomized response for E > 2.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: 0 <= eps <= 150; 0 is returned beyond.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats, rounded down.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(float(girgis.ternary_response_rdp(10_000, 3.0, orders=[10])[0]), 5)
    0.01651
    """
    n, local = _reports(num_reports, local_epsilon)
    at = orders_of(orders)
    return plain(_ternary(n, local, orders=at, window=ternary_window(n, local, max(at))))


def lower_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A], the largest of binary (both directions) and ternary randomized response (GI-X4).

    Lower bound on the worst eps-LDP randomizer, real orders > 1, rounded down.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0; 0 is returned above 300.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(float(girgis.lower_rdp(50, 3.0, orders=[32])[0]), 6)
    2.921633
    >>> round(float(girgis.theorem4_rdp(50, 3.0, orders=[32], special_pair=girgis.SpecialPair.EXACT)[0]), 6)
    2.921633
    """
    n, local = _reports(num_reports, local_epsilon)
    at = orders_of(orders)
    return plain(_largest(n, local, orders=at, **below.lower_statics(n, local, at)))


def histogram_rdp(first: ArrayLike, second: ArrayLike, *, orders: ArrayLike) -> Ends[Floats]:
    """Renyi divergences [A] between the histograms of two sets of reports, every histogram summed (GI-S1).

        log sum_h P(h)^a Q(h)^(1-a) / (a - 1),   F_i(h) = sum_j p_ij F_{i-1}(h - e_j),

    the exact value, bracketed, of one direction of one pair of data sets: from below, a lower bound for the mechanism.
    The rounding of (a - 1) D is absolute, so that small divergences lose digits. inf where an outcome is possible
    under the first only. Real orders a > 1.

    Args:
      first, second: float [n, B], the law of each of n reports on B values, under the two data sets.
      orders: real [A], each > 1.

    Returns:
      Ends of float64 [A], nats.

    Raises:
      ValueError: if an argument is out of range, or there are more than 2^22 histograms.

    >>> from jaxacct.papers import girgis
    >>> law = {0: [0.7, 0.3], 1: [0.3, 0.7]}
    >>> ends = girgis.histogram_rdp([law[1], law[0], law[0]], [law[0], law[0], law[0]], orders=[2])
    >>> round(float(ends.lower[0]), 6), round(float(ends.upper[0]), 6)
    (0.226313, 0.226313)
    """
    p, q = non_negative("first", first), non_negative("second", second)
    if p.ndim != 2 or p.shape != q.shape or not np.allclose([p.sum(axis=1), q.sum(axis=1)], 1.0, atol=1e-9):
        raise ValueError(f"first and second must be laws [n, B] of as many reports: shapes {p.shape} and {q.shape}")
    ends = _histogram_ends(p, q, orders=orders_of(orders))
    return Ends(*(np.asarray([np.float64(getattr(end, side)) for end in ends]) for side in ("lower", "upper")))
