"""BOUND: closed two-sided bounds on the clones pair's Renyi divergences, and what is built on the pair.

Chen et al. 2024, "Renyi Differential Privacy in the Shuffle Model: Enhanced Amplification Bounds". Replace-one
adjacency; the pair is symmetric, so that each statement holds in both directions.
"""

from typing import Any

from numpy.typing import ArrayLike

from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.divergence.kernels import clones_window
from jaxacct.papers._asking import Floats, Real, counts, non_negative, orders_of, plain, positive, probability
from jaxacct.papers.chen import _bounds as lanes

_masses = Kernel(lambda *args: tuple(lanes.pair_masses(*args)))
_moments = Kernel(lambda *args, orders: tuple(lanes.moment_sandwich_rdp(*args, orders=orders)))
_cosh = Kernel(
    lambda *args, orders, window: tuple(lanes.cosh_sandwich_rdp(*args, orders=orders, window=window)), lane_bytes=2**24
)
_epoch = Kernel(lambda *args, orders: tuple(lanes.block_epoch_rdp(*args, orders=orders)), lane_bytes=2**20)
_slope = Kernel(lanes.local_epsilon_for_slope, lane_bytes=2**20)
_laplace = Kernel(lanes.laplace_rdp)


def _pair(num_reports: ArrayLike, clone_prob: ArrayLike, local_epsilon: ArrayLike) -> tuple[Real, Real, Real]:
    return (
        counts("num_reports", num_reports),
        probability("clone_prob", clone_prob),
        non_negative("local_epsilon", local_epsilon),
    )


def _bracket(ends: Any) -> Ends[Floats]:
    return Ends(*(plain(end) for end in ends))


def pair_masses(
    on_first: ArrayLike, on_second: ArrayLike, num_reports: ArrayLike, clone_prob: ArrayLike, local_epsilon: ArrayLike
) -> tuple[Floats, Floats]:
    """Probabilities P(a, b) and Q(a, b) of one outcome of the clones pair, exactly (Lemma A.2 completed; CH-S2).

        w (1 + s (a-b)/m) and w (1 - s (a-b)/m),   w = P[Bin(n-1, p) = m-1] P[Bin(m, 1/2) = a],
        m = a + b >= 1,  s = tanh(local_epsilon/2).

    Neither an upper nor a lower bound: to 1e-14, relative. 0 outside the support.

    Args:
      on_first, on_second: a and b, whole numbers >= 0.
      num_reports: n, whole number >= 1.
      clone_prob: p in [0, 1].
      local_epsilon: >= 0.

    Returns:
      (P, Q), each a float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> [round(mass, 6) for mass in chen.pair_masses(2, 1, num_reports=4, clone_prob=0.5, local_epsilon=1.0)]
    [0.162287, 0.118963]
    """
    a, b = non_negative("on_first", on_first), non_negative("on_second", on_second)
    return tuple(plain(x) for x in _masses(a, b, *_pair(num_reports, clone_prob, local_epsilon)))


def moment_sandwich_rdp(
    num_reports: ArrayLike, clone_prob: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike
) -> Ends[Floats]:
    """Lower and upper bounds [A] on the clones pair's Renyi divergences in closed form (CL-S14, "closed forms").

        log(1 + max(2 a M s^2 E[1/m], (1 - p/2)^(n-1) X)) / M   and   log(1 + E[1/m] X) / M,

    a the order, M = a - 1, s = tanh(local_epsilon/2), X = e^(M D) - 1 of one report alone, E[1/m] = (1-(1-p)^n)/(n p).
    Real orders > 1, both directions, rounded outward by 2^-40. The upper end bounds the shuffled protocol.

    Args:
      num_reports: n, whole number >= 1.
      clone_prob: p in [0, 1].
      local_epsilon: >= 0.
      orders: real [A], each > 1.

    Returns:
      Ends of float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> ends = chen.moment_sandwich_rdp(10_000, 0.1353352832366127, 2.0, orders=[4])
    >>> round(float(ends.lower[0]), 6), round(float(ends.upper[0]), 6)
    (0.003411, 0.077519)
    """
    return _bracket(_moments(*_pair(num_reports, clone_prob, local_epsilon), orders=orders_of(orders)))


def cosh_sandwich_rdp(
    num_reports: ArrayLike, clone_prob: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike
) -> Ends[Floats]:
    """Lower and upper bounds [A] on the clones pair's Renyi divergences by one sum over the clones (CH-S20).

        e^(M D) between E H(2 M s) and E H(M local_epsilon),   H(k) = cosh(k/m)^m (1 + s tanh(k/m)),

    M the order less one, s = tanh(local_epsilon/2), m - 1 ~ Bin(n - 1, p). Real orders > 1, both directions, rounded
    outward by 2^-40; the upper end is attained at n = 1 and bounds the shuffled protocol.

    Args:
      num_reports: n, whole number >= 1.
      clone_prob: p in [0, 1].
      local_epsilon: >= 0.
      orders: real [A], each > 1.

    Returns:
      Ends of float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> ends = chen.cosh_sandwich_rdp(10_000, 0.1353352832366127, 2.0, orders=[4])
    >>> round(float(ends.lower[0]), 6), round(float(ends.upper[0]), 6)
    (0.003428, 0.005557)
    """
    pair = _pair(num_reports, clone_prob, local_epsilon)
    window = clones_window(pair[0], pair[1], max_window=2**19)
    return _bracket(_cosh(*pair, orders=orders_of(orders), window=window))


def block_epoch_rdp(
    num_blocks: ArrayLike, block_size: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike
) -> Ends[Floats]:
    """Renyi divergences [A] of the pair that dominates one epoch of shuffled noisy SGD (Algorithm 1; CH-S15).

    The clones pair at clone probability e^(-block_size local_epsilon): the records are in `num_blocks` fixed blocks,
    processed in the order of a fresh permutation, a replaced record changes its block's step by at most local_epsilon,
    and all steps are public. The upper end is an upper bound for the epoch, both directions, and adds over epochs.
    Theorem 3 claims far less for blocks of more than one record, and is false there. Real orders > 1.

    Args:
      num_blocks: whole number >= 1.
      block_size: records of a block, whole number >= 1.
      local_epsilon: >= 0, of one record within its block.
      orders: real [A], each > 1.

    Returns:
      Ends of the pair's divergence, float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> [round(float(chen.block_epoch_rdp(100, size, 1.0, orders=[2]).upper[0]), 4) for size in (1, 600)]
    [0.0234, 0.7353]
    """
    blocks, size = counts("num_blocks", num_blocks), counts("block_size", block_size)
    return _bracket(_epoch(blocks, size, non_negative("local_epsilon", local_epsilon), orders=orders_of(orders)))


def local_epsilon_for_slope(
    num_reports: ArrayLike, num_epochs: ArrayLike, slope: ArrayLike, *, orders: ArrayLike, highest: ArrayLike = 20.0
) -> Floats:
    """The largest local epsilon found whose epochs stay within slope times order at all `orders` (CH-S16).

    num_epochs D_a <= slope a, D_a the clones pair's divergence from above at clone probability e^-local_epsilon. A
    lower bound on the largest that the pair admits, by halving in [0, highest].

    Args:
      num_reports: n, whole number >= 1.
      num_epochs: whole number >= 1.
      slope: > 0, nats for each unit of order.
      orders: real [A], each > 1; only these are met.
      highest: > 0, where the search ends.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> round(chen.local_epsilon_for_slope(60_000, 50, 0.008, orders=[2, 4, 8, 16]), 3)
    2.074
    """
    n, epochs = counts("num_reports", num_reports), counts("num_epochs", num_epochs)
    ends = positive("slope", slope), positive("highest", highest)
    return plain(_slope(n, epochs, *ends, orders=orders_of(orders)))


def laplace_rdp(local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of Laplace noise of scale sensitivity / local_epsilon, exactly (Proposition 3; CH-S14).

        log((a e^(M eps) + M e^(-a eps)) / (2a - 1)) / M,   a the order, M = a - 1.

    Upper bound, rounded up by 2^-46, of the report without shuffling, both directions, real orders > 1.

    Args:
      local_epsilon: eps >= 0; the report is eps-DP where the sensitivity is over all pairs of a user's inputs.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> [round(float(r), 6) for r in chen.laplace_rdp(1.0, orders=[2, 8])]
    [0.619124, 0.910199]
    """
    return plain(_laplace(non_negative("local_epsilon", local_epsilon), orders=orders_of(orders)))
