"""BOUND, from below: what no bound for all eps-LDP randomizers can beat, Renyi divergences of three shuffled ones.

Girgis et al. 2021, Theorem 3 and Corollary 2; GI-X4. Lower bounds on the worst shuffle of n eps-LDP reports,
replace-one adjacency. A lower Renyi curve converted to (epsilon, delta) bounds nothing in either direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxacct._jax import jax
from jaxacct.divergence.kernels import LARGEST, response_window
from jaxacct.papers.girgis._response import response_renyi
from jaxacct.papers.girgis._ternary_response import ternary_response_renyi, ternary_window
from jaxacct.special import down, log1p, sinh, xp


def response_lower_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], window: int, reverse: bool = False
) -> jax.Array:
    """Renyi divergences [A, L], rounded down, of shuffled binary randomized response: equation (11).

    Theorem 3 at real orders > 1; with `reverse` the other direction (GI-X4). The paper believes the former tight
    (Remark 7): the latter is above it for n >= 2, up to 18 times.
    """
    return response_renyi(num_reports, local_epsilon, orders=orders, window=window, reverse=reverse).lower


def simple_lower_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """Renyi divergences [A, L], rounded down: Corollary 2, equation (12), log(1 + C(a,2) (E-1)^2/(n E))/(a-1).

    Lower bound, integer orders a >= 2: the first term of Theorem 3's sum of non-negative ones, and all of it at order
    2.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    usable = (num_reports >= 1) & (local_epsilon > 0) & (local_epsilon <= LARGEST)
    half = sinh(0.5 * xp.where(usable, local_epsilon, 1.0))
    excess = 2.0 * a * (a - 1.0) * half * half / xp.where(usable, num_reports, 1.0)
    # two sinh of 6 ULP and four roundings; log1p 4, and a quotient
    return xp.where(usable, down(log1p(down(excess, 18)) / (a - 1.0), 8), 0.0)


def lower_statics(num_reports: Any, local_epsilon: Any, orders: Sequence[float]) -> dict[str, int]:
    """A dict of static sizes for `lower_rdp`, for concrete arrays of reports."""
    top = max(orders)
    return {
        "window": response_window(num_reports, local_epsilon, top),
        "reverse_window": response_window(num_reports, local_epsilon, 1.0 - top),
        "ternary": ternary_window(num_reports, local_epsilon, top),
    }


def lower_lane_bytes(*, orders: Sequence[float], window: int, reverse_window: int, ternary: int) -> int:
    """Bytes of one lane, an int, for `Kernel`."""
    return 64 * max(window, reverse_window, ternary * ternary)


def lower_rdp(
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    *,
    orders: Sequence[float],
    window: int,
    reverse_window: int,
    ternary: int,
) -> jax.Array:
    """Renyi divergences [A, L], rounded down: the largest of binary (both directions) and ternary response.

    Lower bound (GI-X4), real orders > 1; 0 outside num_reports >= 1, 0 < local_epsilon <= 300.

    Args:
      num_reports, local_epsilon: float64 [L].
      orders, window, reverse_window, ternary: static, the sizes from `lower_statics`.

    >>> from jaxacct._precision import Kernel
    >>> kernel, sizes = Kernel(lower_rdp, on_host=True), lower_statics(50, 3.0, (32.0,))
    >>> round(float(kernel(50, 3.0, orders=(32.0,), **sizes)[0]), 10)  # `mixture_rdp`: 2.9216334
    2.9216333039
    """
    binary = xp.maximum(
        response_lower_rdp(num_reports, local_epsilon, orders=orders, window=window),
        response_lower_rdp(num_reports, local_epsilon, orders=orders, window=reverse_window, reverse=True),
    )
    return xp.maximum(binary, ternary_response_renyi(num_reports, local_epsilon, orders=orders, window=ternary))
