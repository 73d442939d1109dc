"""BOUND, from above and below, on delta of the clones pair and of pairs with three kinds of clones, every term summed.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", Theorem 4.1, Corollary 4.2, Appendices B and F. Replace-one
adjacency, both directions equal. The upper end bounds the shuffled protocol, the lower one the pair only. Counts are
taken in blocks: the divergence given C clones does not rise with C, so that the last count of a block bounds it from
below and the first from above. `ComponentPair` has the formula of the pairs with clones of a third kind.
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
from jaxacct.divergence.kernels import (
    ComponentPair,
    ProfileEnds,
    clones_delta,
    component_windows,
    cut_at,
    enclosure,
    k_ary_blanket_pair,
    mass_outside,
    prepare,
    window_start,
)
from jaxacct.papers._asking import Bracket, Floats, counts, non_negative, number, plain, positive, probability, whole
from jaxacct.special import (
    expm1,
    log1p,
    log_binomial_pmf,
    log_down,
    log_sum_exp,
    log_sum_outward,
    log_up,
    pmf_rounding,
    up,
)

_WINDOW = 128  # counts of `clones_delta`, of which only one is needed: the number of clones is certain here
_BATCH = 256  # blocks that are computed together; it affects only memory


def block_delta(
    epsilon: jax.Array,
    num_reports: jax.Array,
    clone_prob: jax.Array,
    local_epsilon: jax.Array,
    *,
    width: int,
    num_blocks: int,
) -> ProfileEnds:
    """Lower and upper ends [L] of log D_{e^epsilon} of the clones pair; `log_tail` is that of the upper end.

    The two sums of `blocks_delta`, rounded outward: each probability by the error of Loader's form and each sum by its
    own, on top of certified ends of `clones_delta`. (-inf, 0) where `num_blocks` blocks do not hold every count.

    Args:
      epsilon: >= 0, [L].
      num_reports, clone_prob, local_epsilon: as for `clones_delta`.
      width: static, S >= 1.
      num_blocks: static, at least num_reports / width.
    """
    last = num_reports - 1.0

    def block(start: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        counts = start + jnp.arange(width, dtype=jnp.int32).astype(jnp.float64)[:, None]
        inside = counts <= last
        logs = log_binomial_pmf(jnp.where(inside, counts, 0.0), last, clone_prob, 1.0 - clone_prob)
        error = pmf_rounding(jax.lax.stop_gradient(jnp.where(logs > -jnp.inf, logs, 0.0)))
        least, most = (
            log_sum_outward(jnp.where(inside, logs + sign * error, -jnp.inf), float(width), upward=sign > 0)
            for sign in (-1.0, 1.0)
        )
        # at the first count, then at the last: side by side, so that only one program is compiled
        clones = jnp.concatenate([jnp.minimum(start, last), jnp.minimum(start + (width - 1.0), last)])
        budget, local = (jnp.concatenate([x, x]) for x in (epsilon, local_epsilon))
        ends = clones_delta(budget, clones + 1.0, jnp.ones_like(clones), local, window=_WINDOW)
        num, log_delta = epsilon.shape[0], ends.log_delta
        return least + log_delta.lower[num:], most + log_delta.upper[:num], most + ends.log_tail[:num]

    starts = width * jnp.arange(num_blocks, dtype=jnp.int32).astype(jnp.float64)
    lower, upper, tail = jax.lax.map(block, starts, batch_size=min(_BATCH, num_blocks))
    # a term of two parts <= 0 errs by an ULP of itself, whose mean is at most that of the sum and log n
    lower = log_down(log_sum_outward(lower, float(num_blocks), upward=False), math.log(num_blocks) + 1.0)
    upper = log_up(log_sum_outward(upper, float(num_blocks), upward=True), math.log(num_blocks) + 1.0)
    held = num_reports <= width * num_blocks
    log_delta = Ends(
        jnp.where(held, lower, -jnp.inf),
        jnp.where(held, jnp.minimum(upper, 0.0), 0.0),
    )
    return ProfileEnds(log_delta, log_sum_exp(tail))


def amplification_limit_lanes(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """`amplification_limit` [L]."""
    return -(num_reports - 1.0) * log1p(-0.5 * jnp.exp(-local_epsilon))


def clones_log_delta_floor(epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Lower bounds [L] on log delta of the clones pair, rounded down: delta_RR(epsilon) (1 - e^-local_epsilon/2)^(n-1).

    They hold for the pair only (CL-S18): they are the report alone, delta_RR = (E - e^epsilon)/(E + 1), in the case
    that all its clones agree with it. They are equalities for tanh(epsilon/2) >= (1 - 2/n) tanh(local_epsilon/2).
    """
    gap = local_epsilon - epsilon
    some = jnp.where(gap > 0, gap, 1.0)
    single = jnp.log(-expm1(-some)) - log1p(jnp.exp(-local_epsilon))
    limit = amplification_limit_lanes(num_reports, local_epsilon)
    # the logarithms err by 6 and 8 ULP and 4 of themselves, the limit by 10 of itself
    return jnp.where(gap > 0, log_down(single - up(limit, 12), 18.0), -jnp.inf)


def three_component_pair(component_prob: jax.Array, weight: jax.Array) -> ComponentPair:
    """Theorem 4.1's tau_0 and tau_1, a pair [L]: component probability p in (0, 1/3], weight q in (0, 1]."""
    p = component_prob
    slope = 2.0 * (1.0 - weight) / weight
    other = jnp.where(p > 1.0 / 3.0, jnp.nan, 1.0 - 3.0 * p)
    return ComponentPair(2.0 * p, p, other, weight, slope, jnp.inf * jnp.ones_like(p))


def k_ary_three_component_pair(local_epsilon: jax.Array, num_categories: jax.Array) -> ComponentPair:
    """Theorem 4.1's pair [L] for k-ary randomized response, p = k/((k+1)(E+k-1)), q = (E-1)/(E+k-1) (Corollary 4.2)."""
    growth = expm1(local_epsilon)
    k = num_categories
    pair = three_component_pair(k / ((k + 1.0) * (growth + k)), growth / (growth + k))
    return pair._replace(slope=2.0 * k / growth)


def component_delta(
    epsilon: jax.Array,
    num_reports: jax.Array,
    pair: ComponentPair,
    *,
    num_clones: int,
    num_rest: int,
    num_heads: int,
) -> Ends[jax.Array]:
    """Lower and upper ends [L] of delta at `epsilon` >= 0 of a pair with three kinds of clones (CL-S9).

    Feldman, McMillan & Talwar 2021, Theorem 4.1. The double sum over m and c; two cumulative sums of one row of
    probabilities give all the tails over a that one m needs, so the work is num_clones (num_rest + num_heads). The ends
    differ by 2^-39 + 2^-47 sqrt(n), relatively, and by what the mass outside the windows could add. They are 0 and 1
    outside the domain.

    Args:
      epsilon, num_reports: float64 [L].
      pair: lanes [L].
      num_clones, num_rest, num_heads: static, from `component_windows`.
    """
    pre = prepare(epsilon, num_reports, pair)
    trials = pre.trials
    half = jnp.full_like(epsilon, 0.5)
    start = window_start(trials * pre.clone_prob, trials, num_clones)
    rest_index = jnp.arange(num_rest, dtype=jnp.int32).astype(jnp.float64)[:, None]
    head_index = jnp.arange(num_heads, dtype=jnp.int32).astype(jnp.float64)[:, None]

    def row(i: jax.Array) -> tuple[jax.Array, jax.Array]:
        clones = start + i.astype(jnp.float64)
        m, rest_trials = clones + 1.0, trials - clones
        inside = rest_trials >= 0
        rest_trials = jnp.maximum(rest_trials, 0.0)
        first_rest = window_start(rest_trials * pre.share, rest_trials, num_rest)
        rest = first_rest + rest_index
        mass = jnp.exp(log_binomial_pmf(rest, rest_trials, pre.share, pre.share_rest))
        cut = cut_at(pre, m, rest)  # from the least outcome up, since c increases
        heads = cut.first[0] + head_index
        pmf = jnp.exp(log_binomial_pmf(heads, m, half, half))
        tails = jnp.cumsum(pmf[::-1], axis=0)[::-1]  # P[a >= heads], of the window
        later = jnp.concatenate([jnp.cumsum(tails[::-1], axis=0)[::-1][1:], jnp.zeros_like(tails[:1])])
        place = (cut.first - cut.first[0]).astype(jnp.int32)
        known = place < num_heads
        place = jnp.minimum(place, num_heads - 1)
        tail, beyond = jnp.take_along_axis(tails, place, axis=0), jnp.take_along_axis(later, place, axis=0)
        # sum over a >= k of (a - cut) P[a] = (k - cut) P[a >= k] + sum over j > k of P[a >= j]
        low = jnp.where(known, jnp.maximum(cut.above - cut.rounding, 0.0) * tail + beyond, 0.0)
        missed = mass_outside(jnp.full_like(m, -1.0), heads[-1], m, half, half)
        above = jnp.maximum(cut.above + cut.rounding, 0.0)
        high = jnp.where(known, above * tail + beyond, 0.0) + 0.5 * m * missed
        lost = mass_outside(first_rest, rest[-1], rest_trials, pre.share, pre.share_rest)
        lower = jnp.sum(mass * low, axis=0) * 2.0 / m
        upper = jnp.minimum(jnp.sum(mass * high, axis=0) * 2.0 / m + lost * pre.half_gap, pre.half_gap)
        weight = jnp.where(inside, jnp.exp(log_binomial_pmf(clones, trials, pre.clone_prob, pre.not_clone)), 0.0)
        return weight * lower, weight * upper

    def step(i: jax.Array, total: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        lower, upper = row(i)
        return total[0] + lower, total[1] + upper

    zero = jnp.zeros_like(epsilon)
    lower, upper = jax.lax.fori_loop(0, num_clones, step, (zero, zero))
    ends = start, start + (num_clones - 1.0)
    upper = upper + pre.half_gap * mass_outside(*ends, trials, pre.clone_prob, pre.not_clone)
    return enclosure(pre, lower, upper)


def _block_ends(*args: jax.Array, width: int, num_blocks: int) -> tuple[jax.Array, jax.Array]:
    ends = block_delta(*args, width=width, num_blocks=num_blocks)
    return jnp.exp(ends.log_delta.lower) * (1.0 - 2.0**-44), delta_from_log(ends.log_delta.upper)


_blocks = Kernel(_block_ends, lane_bytes=lambda *, width, num_blocks: 1024 * (width + 2048))
_limit = Kernel(amplification_limit_lanes)
_floor = Kernel(lambda *args: jnp.exp(clones_log_delta_floor(*args)) * (1.0 - 2.0**-44))


def blocks_delta(
    epsilon: ArrayLike, num_reports: int, local_epsilon: ArrayLike, *, width: int, clone_prob: ArrayLike | None = None
) -> Bracket:
    """delta of the clones pair at `epsilon`, bracketed by blocks of counts, Algorithms 4 to 6 (CL-S4).

        sum_t Pr[C in block t] h(last C)  <=  delta  <=  sum_t Pr[C in block t] h(first C),

    where h(c) is the divergence with exactly c clones; the paper's early exits are left out. Width 1 gives the pair
    itself. The time is proportional to n, so the function is for up to some 10^4 reports.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      width: number of counts in a block, whole number >= 1.
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
        return tuple(component_delta(epsilon, num_reports, pair(*args), **windows))

    return Kernel(fn, lane_bytes=2**22)


_three = _component_kernel(three_component_pair)
_k_ary = _component_kernel(k_ary_three_component_pair)
_blanket = _component_kernel(k_ary_blanket_pair)


def _summed(kernel: Kernel, epsilon: ArrayLike, n: int, clone_prob: float, rest_prob: float, *args: float) -> Bracket:
    needed = component_windows(float(n), clone_prob, rest_prob)
    sizes = max(512, needed[0]), max(512, needed[1]), max(512, needed[2])  # one program for most
    return Ends(*(plain(end) for end in kernel(non_negative("epsilon", epsilon), n, *args, sizes=sizes)))


def three_component_delta(epsilon: ArrayLike, num_reports: int, component_prob: float, weight: float) -> Bracket:
    """delta at `epsilon` of the pair of Theorem 4.1, bracketed (CL-S9).

    With N - 1 ~ Bin(n-1, 3p), (a, b, c) | N multinomial with thirds, m = a + b, x = (a - b)/m, t = tanh(eps/2):

        E 3 q (1 + e^eps) m/(2N) E[(x - t (1 + 2 (1-q) c/(q m)))_+ | m],

    with every term summed, over two windows of width about n^(1/2). The upper end bounds the shuffled protocol.

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

    It is below `k_ary_three_component_delta`. This is the double sum; `jaxacct.delta` uses a single sum, at the mean of
    c, which is looser. The upper end bounds the shuffled protocol.

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

    This is a threshold, not a bound: for smaller deltas, epsilon is near local_epsilon. The amplification of randomized
    response itself ends at about twice that.

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
    """A lower bound on delta of the clones pair: (E - e^eps)/(E + 1) (1 - e^-eps0/2)^(n-1) (CL-S18).

    It is a lower bound on the delta of the pair, and so on the clones bound, but not on that of the protocol. It is an
    equality if tanh(eps/2) >= (1 - 2/n) tanh(eps0/2), and 0 for epsilon >= local_epsilon.

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
