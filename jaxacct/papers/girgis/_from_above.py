"""BOUND, from above, on Renyi divergences of one shuffle of reports of an eps-LDP randomizer, as the paper states them.

Girgis et al. 2021, "On the Renyi Differential Privacy of the Shuffle Model". Replace-one adjacency, both directions.
No bound here is below that of `jaxacct.rdp`. E = e^local_epsilon throughout.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxacct import special
from jaxacct._jax import jax
from jaxacct._precision import Kernel, float64_kernel
from jaxacct.bounds.theorems import (
    cap_rdp,
    fail_closed,
    is_usable,
    mean_copies,
    mixture_layout,
    mixture_of,
    mixture_rdp,
    mixture_statics,
)
from jaxacct.bounds.theorems import earlier_rdp as _earlier_lanes
from jaxacct.bounds.theorems import theorem1_rdp as _theorem1_lanes
from jaxacct.bounds.theorems import theorem2_rdp as _theorem2_lanes
from jaxacct.divergence.kernels import moment_bound_log_excess
from jaxacct.papers._asking import (
    Floats,
    Real,
    curve,
    inner_probability,
    orders_of,
    plain,
    probability,
    shuffle_of,
    whole_orders,
)
from jaxacct.papers.girgis._pairs import special_pair_log_excess
from jaxacct.special import ULP, bisect_lanes, down, log1p, log_up, softplus, stop_gradient, up, xp

_ULPS = 16  # rounding, in ulp, of a divergence made from its logarithm: softplus or log1p, 9, and a quotient or two
_NUM_HALVINGS = 41  # for the best of up to 2^41 splits, all of them certified; it affects only tightness


def simple_rdp(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """`corollary1_rdp` [A, L], rounded up; `mixture_rdp` is a quarter of it to leading order."""
    a = xp.asarray(orders, xp.float64)[:, None]
    growth = xp.expm1(local_epsilon)
    moment = up(2.0 * a * (a - 1.0) * growth * growth / num_reports, _ULPS)  # two expm1, and four roundings
    value = up(log1p(moment) / (a - 1.0), _ULPS)
    # a power, products and an exponential by 10 ULP, and |5 eps| for its argument, at most 118
    holds = (up(9.0 * a**4 * xp.exp(5.0 * local_epsilon), 130) < num_reports) & (local_epsilon < 23.6)
    return fail_closed(xp.where(holds, value, xp.inf), num_reports, local_epsilon)


def best_split_rdp_lanes(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int]) -> jax.Array:
    """`best_split_rdp` [A, L], rounded up; n = 1 has no split and gets the cap.

    The first term falls with j and the second rises: the best j is found by bisection on the sign of the difference,
    and any j is certified.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    mean = mean_copies(num_reports, local_epsilon)
    mean = xp.where(mean > 0, mean, 1.0)

    def log_excess(j: jax.Array) -> jax.Array:
        gap = mean - j
        # 5 ULP of the mean move the rate by no more than so many of the gap; its own operations by 5 of itself
        rate = 0.5 * gap * gap / mean - 16.0 * ULP * (xp.abs(gap) + gap * gap / mean)
        tail = xp.where(gap > 0, up(a * local_epsilon, 4) - rate, xp.inf)
        return log_up(xp.logaddexp(moment_bound_log_excess(j + 1.0, local_epsilon, orders=orders), tail), 16)

    def rises(j: jax.Array) -> jax.Array:
        return log_excess(j + 1.0) >= log_excess(j)

    top = xp.broadcast_to(xp.maximum(xp.ceil(mean) - 1.0, 0.0), (len(orders), *mean.shape))
    best = bisect_lanes(rises, top, xp.full_like(top, -1.0), num_steps=_NUM_HALVINGS, whole=True)
    best = stop_gradient(best)
    half = xp.floor(down(0.5 * mean, _ULPS))
    excess = xp.minimum(log_excess(best), log_excess(xp.broadcast_to(half, best.shape)))
    value = xp.minimum(up(softplus(excess) / (a - 1.0), _ULPS), cap_rdp(local_epsilon, orders=orders))
    return fail_closed(value, num_reports, local_epsilon)


def moment_mixture_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[int], nodes: int
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: Girgis et al. 2021, Theorem 4, with Theorem 5 inside (GI-S12).

    Upper bound, integer orders; looser than `mixture_rdp`, which has the exact special pair.
    """

    def special(clients: jax.Array, local: jax.Array) -> jax.Array:
        return moment_bound_log_excess(clients, local, orders=orders)

    return mixture_of(special, num_reports, local_epsilon, orders=orders, nodes=nodes)


def sampled_mixture_rdp(
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    sampling_prob: jax.Array,
    *,
    orders: Sequence[int],
    nodes: int,
    num_bits: int | None,
) -> jax.Array:
    """`sampled_rdp` [A, L], rounded up; `nodes` and `num_bits` are static, from `sampled_mixture_statics`.

    The number of participants may be public. Theorem 4 holds for a randomizer that may stay silent; in its special
    pairs xi is 0 with probability 1 - s, else as before.
    """
    usable = (sampling_prob > 0) & (sampling_prob <= 1)
    prob = xp.where(usable, sampling_prob, 1.0)

    def special(clients: jax.Array, local: jax.Array) -> jax.Array:
        each = xp.broadcast_to(prob, (nodes, *prob.shape)).reshape(-1)
        return special_pair_log_excess(clients, local, each, orders=orders, num_bits=num_bits)

    value = mixture_of(special, num_reports, local_epsilon, orders=orders, nodes=nodes)
    # a client that is not drawn sends nothing, so the cap of the unsampled report holds; s = 0 reveals nothing
    return xp.where(usable, value, xp.where(sampling_prob == 0, xp.minimum(value, 0.0), xp.inf))


def sampled_mixture_statics(num_reports: Any, local_epsilon: Any, orders: Sequence[int]) -> dict[str, Any]:
    """A dict of static sizes for `sampled_mixture_rdp`.

    `num_bits` is None unless a special pair has fewer clients than an order.
    """
    sizes = mixture_statics(num_reports, local_epsilon, orders)
    n, local = (np.asarray(v, np.float64) for v in np.broadcast_arrays(num_reports, local_epsilon))
    usable = is_usable(n, local)
    at = mixture_layout(np.where(usable, n, 1e18), np.where(usable, local, 1e-3), max(orders), True)
    bits = None if np.all(at.first + 1.0 >= max(orders)) else int(np.ceil(np.log2(np.max(n) + 1.0)))
    return {"nodes": sizes["nodes"], "num_bits": bits}


_theorem1 = Kernel(
    lambda *a, orders: _theorem1_lanes(*a[:2], orders=orders, split=a[2]), lane_bytes=2**18, on_host=True
)
_theorem2 = Kernel(
    lambda *a, orders, sharp: _theorem2_lanes(*a[:2], orders=orders, split=a[2], sharp=sharp), on_host=True
)
_earlier = Kernel(_earlier_lanes, on_host=True)
_corollary1 = Kernel(simple_rdp, on_host=True)
_best_split = Kernel(best_split_rdp_lanes, lane_bytes=2**20, on_host=True)
_exact = Kernel(mixture_rdp, lane_bytes=lambda *, orders, nodes, window: 64 * nodes * window, on_host=True)
_moments = Kernel(moment_mixture_rdp, lane_bytes=2**20, on_host=True)
_sampled = Kernel(sampled_mixture_rdp, lane_bytes=2**22, on_host=True)


class SpecialPair(enum.Enum):
    """What bounds the divergence of a special pair in Theorem 4 (GI-S12).

    >>> from jaxacct.papers import girgis
    >>> girgis.SpecialPair.MOMENTS.value
    'Theorem 5'
    """

    EXACT = "the worst of all eps-LDP randomizers, binary randomized response"
    MOMENTS = "Theorem 5"


def theorem1_rdp(
    num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike, split: ArrayLike = 0.5
) -> Floats:
    """Renyi divergences [A] of Theorem 1, equation (6), at any Chernoff split (GI-S2, GI-S6).

        log(1 + C(a,2) 4 sinh(eps/2)^2/m + sum_{i=3..a} C(a,i) i Gamma(i/2) (2 sinh(eps)^2/m)^(i/2)
                + e^(a eps - split^2 (n-1)/(2E))) / (a - 1),     m = floor((1 - split)(n-1)/E) + 1.

    Upper bound, whole orders a >= 2, any n; neither capped nor monotone in the order. Rounded up (by 2e-13 to order
    256).

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: whole [A], each >= 2.
      split: in (0, 1); the paper has 1/2.

    Returns:
      float64 [.., A], nats: the arguments' common shape, then the orders.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(float(girgis.theorem1_rdp(10_000, 3.0, orders=[10])[0]), 4)
    0.9625
    """
    at = inner_probability("split", split)
    return plain(_theorem1(*shuffle_of(num_reports, local_epsilon), at, orders=whole_orders(orders)))


def theorem2_rdp(
    num_reports: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    orders: ArrayLike,
    split: ArrayLike = 0.5,
    sharp: bool = False,
) -> Floats:
    """Renyi divergences [A] of Theorem 2, equation (9), at any Chernoff split (GI-S5, GI-S6, CH-S11).

        log(e^(a^2 (E-1)^2/m) + e^(a eps - split^2 (n-1)/(2E))) / (a - 1),     m = floor((1 - split)(n-1)/E) + 1.

    Upper bound, real orders a > 1, rounded up; it diverges as a falls to 1. Neither capped nor monotone in the order.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: real [A], each > 1.
      split: in (0, 1); the paper has 1/2.
      sharp: replace the first power by (e^y - y)^m, y = a (E-1)/m, from the previous line of the proof.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(girgis.theorem2_rdp(10_000, 1.0, orders=[4], sharp=s)[0]), 6) for s in (False, True)]
    [0.008558, 0.004284]
    """
    at = inner_probability("split", split)
    return plain(_theorem2(*shuffle_of(num_reports, local_epsilon), at, orders=orders_of(orders), sharp=bool(sharp)))


def corollary1_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of Corollary 1, equation (7): log(1 + C(a,2) 4 (E-1)^2/n)/(a-1) (GI-S3).

    Upper bound where a^4 E^5 < n/9, whole orders a >= 2; inf elsewhere. Its proof fails for small eps, where Theorem 1
    exceeds it; the statement holds wherever it was checked.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: whole [A], each >= 2.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [f"{r:.3g}" for r in girgis.corollary1_rdp(10_000, 0.1, orders=[2, 8])]
    ['4.42e-06', 'inf']
    """
    return plain(_corollary1(*shuffle_of(num_reports, local_epsilon), orders=whole_orders(orders)))


def earlier_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of Erlingsson et al. 2019, equation (10): 2 a E^4 (E-1)^2/n (GI-S7).

    Upper bound, real orders a > 1: a baseline. It is below Theorem 1 for some small local epsilons.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> f"{girgis.earlier_rdp(10_000, 0.1, orders=[2])[0]:.4g}"
    '6.6e-06'
    """
    return plain(_earlier(*shuffle_of(num_reports, local_epsilon), orders=orders_of(orders)))


def best_split_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] of Theorem 1 at the best whole split for each order (GI-S6).

        min over 0 <= j < mu = (n-1)/E of log(1 + excess(j + 1) + e^(a eps - (mu - j)^2/(2 mu)))/(a - 1).

    Upper bound, whole orders >= 2, never above Theorem 1 and about half of it for large n; capped by one report alone.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: whole [A], each >= 2.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> round(float(girgis.best_split_rdp(10_000, 3.0, orders=[10])[0]), 4)
    0.8611
    """
    return plain(_best_split(*shuffle_of(num_reports, local_epsilon), orders=whole_orders(orders)))


def at_real_orders(whole_rdp: ArrayLike, *, orders: ArrayLike) -> Real:
    """Renyi divergences [A] at real orders from an upper bound at whole ones, Remark 2, equation (8) (GI-S4, RA-S15).

    (a - 1) R_a is convex in a and 0 at 1, so it is below its chord between the neighbouring whole orders; below order 2
    that gives R_2. Upper bound in, upper bound out, in the same direction; not for lower bounds.

    Args:
      whole_rdp: float [B], R_2, R_3, .., R_{B+1}, nats.
      orders: real [A], each in (1, B + 1].

    Returns:
      float64 [A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(r), 3) for r in girgis.at_real_orders([0.2, 0.3], orders=[1.5, 2.5, 3])]
    [0.2, 0.267, 0.3]
    """
    rdp, at = curve("whole_rdp", whole_rdp), orders_of(orders)
    if rdp.ndim != 1 or max(at) > len(rdp) + 1:
        raise ValueError(f"orders={max(at)} must be <= {len(rdp) + 1}, the last order of whole_rdp")
    return np.asarray(_chords(*rdp, orders=at))


@float64_kernel(on_host=True)
def _chords(*rdp: jax.Array, orders: tuple[float, ...]) -> jax.Array:
    return special.at_real_orders(xp.stack(rdp), range(2, len(rdp) + 2), orders)


def theorem4_rdp(
    num_reports: ArrayLike,
    local_epsilon: ArrayLike,
    *,
    orders: ArrayLike,
    special_pair: SpecialPair = SpecialPair.MOMENTS,
) -> Floats:
    """Renyi divergences [A] by Theorem 4, with a choice of bound on its special pairs (GI-S12, GI-X2).

        e^((a-1) R_a) <= E_m[1 + excess_{m+1}(a)],   m ~ Bin(n-1, 1/E),

    an upper bound, never above that of one report alone. `SpecialPair.MOMENTS` is by Theorem 5, at whole orders >= 2;
    `SpecialPair.EXACT` is by the exact worst pair, at real orders > 1, as in `jaxacct.rdp`.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps >= 0.
      orders: [A], each > 1, whole for `MOMENTS`.
      special_pair: what bounds the divergence of a special pair.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> [round(float(girgis.theorem4_rdp(10_000, 3.0, orders=[10], special_pair=s)[0]), 4) for s in girgis.SpecialPair]
    [0.153, 0.7364]
    """
    if not isinstance(special_pair, SpecialPair):
        raise ValueError(f"special_pair={special_pair!r} must be a SpecialPair")
    n, local = shuffle_of(num_reports, local_epsilon)
    if special_pair is SpecialPair.EXACT:
        real = orders_of(orders)
        return plain(_exact(n, local, orders=real, **mixture_statics(n, local, real)))
    at = whole_orders(orders)
    return plain(_moments(n, local, orders=at, nodes=mixture_statics(n, local, at)["nodes"]))


def sampled_rdp(
    num_reports: ArrayLike, local_epsilon: ArrayLike, sampling_prob: ArrayLike, *, orders: ArrayLike
) -> Floats:
    """Renyi divergences [A] if each client reports with probability s, by Theorem 4: ours, sound for GI-S19.

    Silence is one more message of a randomizer that is still eps-LDP; in its special pairs the likelihood ratio is 1
    with probability 1 - s. Upper bound if n is public and who took part is not, whole orders >= 2. To leading order it
    is s a (E-1)^2/(2n). At s = (E + 1)/(E + k - 1) it also bounds k-ary randomized response with every report sent.

    Args:
      num_reports: n, the number of clients, whole number >= 1.
      local_epsilon: eps >= 0.
      sampling_prob: s in [0, 1].
      orders: whole [A], each >= 2.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import girgis
    >>> f"{girgis.sampled_rdp(10_000, 1.0, 0.01, orders=[4])[0]:.4g}"
    '5.906e-06'
    """
    n, local = shuffle_of(num_reports, local_epsilon)
    s, at = probability("sampling_prob", sampling_prob), whole_orders(orders)
    return plain(_sampled(n, local, s, orders=at, **sampled_mixture_statics(n, local, at)))
