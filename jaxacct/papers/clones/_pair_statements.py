"""BOUND, from above and below, on delta of the clones pair and of pairs with three kinds of clones, every term summed.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones". Replace-one adjacency, both directions equal. The upper
end bounds the shuffled protocol, the lower one the pair only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.conversion import delta_from_log
from jaxacct.divergence.kernels import ComponentPair, component_windows, k_ary_blanket_pair
from jaxacct.papers._asking import (
    Bracket,
    Floats,
    counts,
    non_negative,
    number,
    plain,
    positive,
    probability,
    whole,
)
from jaxacct.papers.clones import _blocks as blocks
from jaxacct.papers.clones import _limits as limits
from jaxacct.papers.clones import _three_components as components


def _block_ends(*args: jax.Array, width: int, num_blocks: int) -> tuple[jax.Array, jax.Array]:
    ends = blocks.block_delta(*args, width=width, num_blocks=num_blocks)
    return jnp.exp(ends.log_delta.lower) * (1.0 - 2.0**-44), delta_from_log(ends.log_delta.upper)


_blocks = Kernel(_block_ends, lane_bytes=lambda *, width, num_blocks: 1024 * (width + 2048))
_limit = Kernel(limits.amplification_limit)
_floor = Kernel(lambda *args: jnp.exp(limits.clones_log_delta_floor(*args)) * (1.0 - 2.0**-44))


def blocks_delta(
    epsilon: ArrayLike, num_reports: int, local_epsilon: ArrayLike, *, width: int, clone_prob: ArrayLike | None = None
) -> Bracket:
    """delta of the clones pair at `epsilon`, bracketed by blocks of counts, Algorithms 4 to 6 (CL-S4).

        sum_t Pr[C in block t] h(last C)  <=  delta  <=  sum_t Pr[C in block t] h(first C),

    h(c) the divergence with c clones for certain; without the paper's early exits. Width 1 is the pair itself. Takes
    time in proportion to n: for up to some 10^4 reports.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      width: of a block, whole number >= 1.
      clone_prob: p in (0, 1); None for e^-eps0.

    Returns:
      Ends of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> ends = clones.blocks_delta(0.3, 2000, 2.0, width=50)
    >>> f"{ends.lower:.4g} {ends.upper:.4g}"
    '1.069e-05 3.452e-05'
    """
    n, size = whole("num_reports", num_reports), whole("width", width)
    local = positive("local_epsilon", local_epsilon)
    p = np.exp(-local) if clone_prob is None else positive("clone_prob", probability("clone_prob", clone_prob))
    args = non_negative("epsilon", epsilon), n, p, local
    return Ends(*(plain(end) for end in _blocks(*args, width=size, num_blocks=-(-n // size))))


_Pair = Callable[..., ComponentPair]


def _component_kernel(pair: _Pair) -> Kernel:
    def fn(epsilon: jax.Array, num_reports: jax.Array, *args: jax.Array, sizes: tuple[int, int, int]) -> Any:
        windows = dict(zip(("num_clones", "num_rest", "num_heads"), sizes, strict=True))
        return tuple(components.component_delta(epsilon, num_reports, pair(*args), **windows))

    return Kernel(fn, lane_bytes=2**22)


_three = _component_kernel(components.three_component_pair)
_k_ary = _component_kernel(components.k_ary_three_component_pair)
_blanket = _component_kernel(k_ary_blanket_pair)


def _summed(kernel: Kernel, epsilon: ArrayLike, n: int, clone_prob: float, rest_prob: float, *args: float) -> Bracket:
    needed = component_windows(float(n), clone_prob, rest_prob)
    sizes = max(512, needed[0]), max(512, needed[1]), max(512, needed[2])  # one program for most
    return Ends(*(plain(end) for end in kernel(non_negative("epsilon", epsilon), n, *args, sizes=sizes)))


def three_component_delta(epsilon: ArrayLike, num_reports: int, component_prob: float, weight: float) -> Bracket:
    """delta at `epsilon` of the pair of Theorem 4.1, bracketed (CL-S9).

    With N - 1 ~ Bin(n-1, 3p), (a, b, c) | N multinomial with thirds, m = a + b, x = (a - b)/m, t = tanh(eps/2):

        E 3 q (1 + e^eps) m/(2N) E[(x - t (1 + 2 (1-q) c/(q m)))_+ | m],

    every term summed: time in proportion to n^(1/2) twice. The upper end bounds the shuffled protocol.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      component_prob: p in (0, 1/3].
      weight: q in (0, 1].

    Returns:
      Ends of floats, or of float64 of epsilon's shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> ends = clones.three_component_delta(0.2, 1000, 0.1, 0.5)
    >>> f"{ends.lower:.4g} {ends.upper:.4g}"
    '5.938e-05 5.938e-05'
    """
    p, q = number("component_prob", component_prob), number("weight", weight)
    if not 0.0 < p <= 1.0 / 3.0:
        raise ValueError(f"component_prob={component_prob!r} must be in (0, 1/3]")
    if not 0.0 < q <= 1.0:
        raise ValueError(f"weight={weight!r} must be in (0, 1]")
    return _summed(_three, epsilon, whole("num_reports", num_reports), 2.0 * p, p, p, q)


def k_ary_three_component_delta(
    epsilon: ArrayLike, num_reports: int, local_epsilon: float, num_categories: int
) -> Bracket:
    """delta at `epsilon` of k-ary randomized response by the pair of Theorem 4.1, bracketed (Corollary 4.2; CL-S10).

    `three_component_delta` at p = k/((k+1)(E+k-1)), q = (E-1)/(E+k-1). The upper end bounds the shuffled protocol.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      num_categories: k, whole number >= 2.

    Returns:
      Ends of floats, or of float64 of epsilon's shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> [f"{f(0.2, 1000, 2.0, 10).upper:.4g}" for f in (clones.k_ary_three_component_delta, clones.k_ary_blanket_delta)]
    ['0.0001057', '5.226e-05']
    """
    local, k = float(positive("local_epsilon", local_epsilon)), float(whole("num_categories", num_categories, least=2))
    p = k / ((k + 1.0) * (math.expm1(local) + k))
    return _summed(_k_ary, epsilon, whole("num_reports", num_reports), 2.0 * p, p, local, k)


def k_ary_blanket_delta(epsilon: ArrayLike, num_reports: int, local_epsilon: float, num_categories: int) -> Bracket:
    """delta at `epsilon` of k-ary randomized response, its uniform part split over all values: ours (CL-S10).

    Below `k_ary_three_component_delta`; the double sum that `jaxacct.delta` has in one sum, looser by its mean. The
    upper end bounds the shuffled protocol.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      num_categories: k, whole number >= 2.

    Returns:
      Ends of floats, or of float64 of epsilon's shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> ends = clones.k_ary_blanket_delta(0.2, 1000, 2.0, 10)
    >>> f"{ends.lower:.4g} {ends.upper:.4g}"
    '5.226e-05 5.226e-05'
    """
    local, k = float(positive("local_epsilon", local_epsilon)), float(whole("num_categories", num_categories, least=2))
    single = 1.0 / (math.expm1(local) + k)
    n = whole("num_reports", num_reports)
    return _summed(_blanket, epsilon, n, 2.0 * single, (k - 2.0) * single, local, k)


def amplification_limit(num_reports: ArrayLike, local_epsilon: ArrayLike) -> Floats:
    """log(1/delta) beyond which the clones pair gives no amplification: -(n-1) log(1 - e^-eps0/2) (CL-S18).

    A threshold, not a bound: for smaller deltas epsilon is near local_epsilon. Randomized response itself stops at
    about twice that.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.amplification_limit(1000, 4.0), 3)
    9.191
    """
    return plain(_limit(counts("num_reports", num_reports), non_negative("local_epsilon", local_epsilon)))


def floor_delta(epsilon: ArrayLike, num_reports: ArrayLike, local_epsilon: ArrayLike) -> Floats:
    """delta that the clones pair has at least: (E - e^eps)/(E + 1) (1 - e^-eps0/2)^(n-1) (CL-S18).

    Lower bound on the pair, and so on the clones bound, not on the protocol; an equality where
    tanh(eps/2) >= (1 - 2/n) tanh(eps0/2). 0 for epsilon >= local_epsilon.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> f"{clones.floor_delta(3.9, 1000, 4.0):.4g}"
    '9.529e-06'
    """
    args = non_negative("epsilon", epsilon), counts("num_reports", num_reports)
    return plain(_floor(*args, non_negative("local_epsilon", local_epsilon)))
