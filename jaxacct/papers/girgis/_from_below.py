"""BOUND, from below, on Renyi divergences of the worst shuffle of n eps-LDP reports, by given mechanisms on given data.

Girgis et al. 2021, Theorem 3 and Corollary 2, and two sharper bounds of ours; and every histogram of a finite
randomizer on known data, built one report after another on the host, for few values and reports. Replace-one adjacency.
A lower bound on a Renyi curve, converted to (epsilon, delta), is no bound in either direction. E = e^local_epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxacct._jax import jax
from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.divergence.kernels import LARGEST, response_log_excess, response_window
from jaxacct.papers._asking import Floats, non_negative, orders_of, plain, shuffle_of, whole_orders
from jaxacct.papers.girgis._ternary_response import ternary_response_renyi, ternary_window
from jaxacct.special import LEAST_NORMAL, ULP, down, log1p, sinh, softplus, up, xp

_TINY = 1e-140  # a local epsilon whose square is a double: smaller ones lose no more than it


def response_renyi(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], window: int, reverse: bool = False
) -> Ends[jax.Array]:
    """`response_rdp` [A, L]; (0, inf) outside num_reports >= 1, 0 <= local_epsilon <= 300.

    D_a(1 || 0), in the notation of `response_log_excess`, or with `reverse` D_a(0 || 1). `window` is from
    `response_window`, of the largest order a, or of 1 - a with `reverse`.
    """
    powers = tuple(1.0 - a if reverse else float(a) for a in orders)
    is_tiny = (local_epsilon > 0) & (local_epsilon < _TINY)
    logs = response_log_excess(num_reports, xp.where(is_tiny, _TINY, local_epsilon), powers=powers, window=window)
    scale = 1.0 / (xp.asarray(orders, xp.float64)[:, None] - 1.0)
    lower = xp.where(is_tiny, 0.0, down(softplus(logs.lower) * scale, 16))
    return Ends(lower, up(softplus(logs.upper) * scale, 16))


def response_lower_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], window: int, reverse: bool = False
) -> jax.Array:
    """The lower ends [A, L] of `response_renyi`.

    The paper believes the first direction to be tight (Remark 7), but the other is above it for n >= 2, up to 18 times.
    """
    return response_renyi(num_reports, local_epsilon, orders=orders, window=window, reverse=reverse).lower


def simple_lower_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """`corollary2_rdp` [A, L], rounded down."""
    a = xp.asarray(orders, xp.float64)[:, None]
    usable = (num_reports >= 1) & (local_epsilon > 0) & (local_epsilon <= LARGEST)
    half = sinh(0.5 * xp.where(usable, local_epsilon, 1.0))
    excess = 2.0 * a * (a - 1.0) * half * half / xp.where(usable, num_reports, 1.0)
    # two sinh of 6 ULP and four roundings; log1p 4, and a quotient
    return xp.where(usable, down(log1p(down(excess, 18)) / (a - 1.0), 8), 0.0)


def lower_statics(num_reports: Any, local_epsilon: Any, orders: Sequence[float]) -> dict[str, int]:
    """A dict of static sizes for `lower_rdp_lanes`, for concrete arrays of reports."""
    top = max(orders)
    return {
        "window": response_window(num_reports, local_epsilon, top),
        "reverse_window": response_window(num_reports, local_epsilon, 1.0 - top),
        "ternary": ternary_window(num_reports, local_epsilon, top),
    }


def lower_lane_bytes(*, orders: Sequence[float], window: int, reverse_window: int, ternary: int) -> int:
    """Bytes of one lane, an int, for `Kernel`."""
    return 64 * max(window, reverse_window, ternary * ternary)


def lower_rdp_lanes(
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    *,
    orders: Sequence[float],
    window: int,
    reverse_window: int,
    ternary: int,
) -> jax.Array:
    """`lower_rdp` [A, L], rounded down; `orders` and the sizes from `lower_statics` are static."""
    binary = xp.maximum(
        response_lower_rdp(num_reports, local_epsilon, orders=orders, window=window),
        response_lower_rdp(num_reports, local_epsilon, orders=orders, window=reverse_window, reverse=True),
    )
    return xp.maximum(binary, ternary_response_renyi(num_reports, local_epsilon, orders=orders, window=ternary))


MOST_CELLS = 2**22  # histograms of one law, 32 MiB; larger ones are refused


def histogram_law(reports: NDArray[Any]) -> NDArray[Any]:
    """Probabilities [n + 1, .., n + 1] of the counts of all values but the last, each to 2 n ulp relative unless tiny.

    Args:
      reports: float64 [n, B], the law of each report; or bool, which of its values are possible, for which counts are.

    Raises:
      ValueError: if there are more than 2^22 cells.
    """
    n, num_values = reports.shape
    if (n + 1) ** (num_values - 1) > MOST_CELLS:
        raise ValueError(f"reports: {n} on {num_values} values make more than {MOST_CELLS} histograms")
    law = np.zeros((n + 1,) * (num_values - 1), reports.dtype)
    law[(0,) * law.ndim] = 1.0
    for report in reports:
        grown = law * report[-1]
        for axis in range(law.ndim):
            upper, lower = ([slice(None)] * law.ndim for _ in range(2))
            upper[axis], lower[axis] = slice(1, None), slice(None, -1)
            grown[tuple(upper)] += report[axis] * law[tuple(lower)]
        law = grown
    return law


def histogram_rdp_lanes(
    first: NDArray[np.float64], second: NDArray[np.float64], *, orders: Sequence[float]
) -> list[Ends[float]]:
    """`histogram_rdp`, one bracket for each order, of the laws [n, B].

    The rounding error of (a - 1) D = log sum P^a Q^(1-a), about 2^-50 a (n B + |log r|), is allowed for on either side.
    """
    p, q = histogram_law(first).ravel(), histogram_law(second).ravel()
    # which histograms are possible, though their probability may be no normal double
    seen, known = histogram_law(first > 0).ravel(), histogram_law(second > 0).ravel()
    if np.any(seen & ~known):
        return [Ends(math.inf, math.inf)] * len(orders)
    usable = (p >= LEAST_NORMAL) & (q >= LEAST_NORMAL)
    # of the others: their probability under P, and the log of the largest P/Q of any histogram
    left_out = math.fsum(np.maximum(p[seen & ~usable], LEAST_NORMAL)) * (1.0 + ULP * 4.0 * first.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        steepest = float(np.log(np.where(first > 0, first / second, 0.0)).max(axis=1).sum())
    steepest += 2.0**-40 * (1.0 + abs(steepest))
    p, q = p[usable], q[usable]
    if not p.size:
        return [Ends(0.0, math.inf)] * len(orders)
    log_p, log_q = np.log(p), np.log(q)
    log_ratio, sizes = log_p - log_q, np.abs(log_p) + np.abs(log_q)
    found = []
    for order in orders:
        exponent = (order - 1.0) * log_ratio
        top = float(exponent.max())
        terms = p * np.exp(exponent - top)
        total = math.fsum(terms)
        value = top + math.log(total)
        # n steps of B products and sums in both laws, to powers of a in all; logarithms by 4 ULP, each by its share
        by_logs = 8.0 * (order - 1.0) * float(terms @ sizes) / total
        slack = ULP * (8.0 * order * first.size + 16.0 + by_logs + 8.0 * (abs(top) + abs(value)))
        high = value + slack
        if left_out > 0.0:
            high = float(np.logaddexp(high, math.log(left_out) + (order - 1.0) * steepest))
            high += 2.0**-45 * (1.0 + abs(high) + order * steepest)
        found.append(Ends(max(0.0, (value - slack) / (order - 1.0)), high / (order - 1.0)))
    return found


_response = Kernel(
    lambda *a, orders, window, reverse: tuple(response_renyi(*a, orders=orders, window=window, reverse=reverse)),
    on_host=True,
)
_simple = Kernel(simple_lower_rdp, on_host=True)
_ternary = Kernel(ternary_response_renyi, lane_bytes=lambda *, orders, window: 64 * window * window, on_host=True)
_largest = Kernel(lower_rdp_lanes, lane_bytes=lower_lane_bytes, on_host=True)


def response_rdp(
    num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, reverse: bool = False
) -> Ends[Floats]:
    """Renyi divergences [A] of shuffled binary randomized response on 1, 0, .., 0 and 0, .., 0 (GI-S8, GI-X4, CH-S12).

        log E_k[((k E + (n-k)/E)/n)^a] / (a - 1),   k ~ Bin(n, 1/(E+1)),

    This is Theorem 3, equation (11), at real orders a > 1, with the data that have the 1 first; with `reverse`, the
    other direction, power 1 - a, which is never the smaller. Bracketed; the lower end is a lower bound on the worst
    eps-LDP randomizer.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: 0 <= eps <= 300; above that the bracket is (0, inf).
      orders: real [A], each > 1.
      reverse: whether to take the other direction.

    Returns:
      Ends of float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(girgis.response_rdp(10_000, 3.0, orders=[10], reverse=r).lower[0]), 5) for r in (False, True)]
    [0.00897, 0.00918]
    """
    n, local = shuffle_of(num_reports, local_epsilon)
    at = orders_of(orders)
    window = max(128, response_window(n, local, 1.0 - max(at) if reverse else max(at)))  # one program for most
    return Ends(*(plain(end) for end in _response(n, local, orders=at, window=window, reverse=bool(reverse))))


def corollary2_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of Corollary 2, equation (12): log(1 + C(a,2) (E-1)^2/(n E))/(a-1) (GI-S9, CH-S12).

    Lower bound on the worst eps-LDP randomizer, whole orders a >= 2: the first term of Theorem 3, and all of it at
    order 2.

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
    return plain(_simple(*shuffle_of(num_reports, local_epsilon), orders=whole_orders(orders)))


def ternary_response_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of shuffled ternary randomized response on 1, 3, .., 3 and 2, 3, .., 3: ours (GI-X4).

        log E[A (A/B)^(a-1)] / (a - 1),   A = (E h1 + h2 + h3/E)/n,   B = (h1 + E h2 + h3/E)/n,

    h ~ Multinomial(n; b, b, E b), b = 1/(E + 2). Lower bound on the worst eps-LDP randomizer, real orders a > 1, both
    directions equal; to leading order a (E-1)^2/((E+2) n), above binary randomized response for E > 2.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: 0 <= eps <= 150; above that 0 is returned.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats, rounded down.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(float(girgis.ternary_response_rdp(10_000, 3.0, orders=[10])[0]), 5)
    0.01651
    """
    n, local = shuffle_of(num_reports, local_epsilon)
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
    n, local = shuffle_of(num_reports, local_epsilon)
    at = orders_of(orders)
    return plain(_largest(n, local, orders=at, **lower_statics(n, local, at)))


def histogram_rdp(first: ArrayLike, second: ArrayLike, *, orders: ArrayLike) -> Ends[Floats]:
    """Renyi divergences [A] between the histograms of two sets of reports, every histogram summed (GI-S1).

        log sum_h P(h)^a Q(h)^(1-a) / (a - 1),   F_i(h) = sum_j p_ij F_{i-1}(h - e_j),

    the exact value, bracketed, of one direction for one pair of data sets; its lower end is a lower bound for the
    mechanism. The rounding error of (a - 1) D is absolute, so that small divergences lose digits. The value is inf if
    an outcome is possible under the first data set only. Outcomes of probabilities below 2.2e-308 are left out of the
    lower end, and counted in the upper one with the largest ratio of any. Real orders a > 1.

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
    ends = histogram_rdp_lanes(p, q, orders=orders_of(orders))
    return Ends(*(np.asarray([np.float64(getattr(end, side)) for end in ends]) for side in ("lower", "upper")))
