"""BOUND: two-sided closed-form bounds on the clones pair's Renyi divergences, and statements built on the pair.

Chen et al. 2024, "Renyi Differential Privacy in the Shuffle Model: Enhanced Amplification Bounds". The divergence of
the pair itself, an upper bound for every shuffled protocol of local_epsilon-DP randomizers, is `clones_rdp`.
Replace-one adjacency; the pair is symmetric, so each statement holds in both directions. Outside its domain an
upper bound is inf, a lower one 0. s = tanh(local_epsilon/2), M = order - 1, and m - 1 ~ Bin(n - 1, p) throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct._types import Ends
from jaxacct.divergence.kernels import SINGLE_ULPS, WIDEST_WINDOW, clones_rdp, clones_window, single_log_excess
from jaxacct.papers._asking import Floats, Real, counts, non_negative, orders_of, plain, positive, probability
from jaxacct.special import (
    ULP,
    binomial_rate,
    bisect_lanes,
    down,
    expm1,
    finite_size,
    log1mexp,
    log1p,
    log_binomial_pmf,
    log_down,
    log_sum_outward,
    log_up,
    logexpm1,
    map_rows,
    pmf_rounding,
    sinh,
    softplus,
    tanh,
    up,
)

_NUM_HALVINGS = 50  # of the interval of local epsilons that is searched; it affects only tightness


class PairMasses(NamedTuple):
    """Probabilities [L] of one outcome under the two laws."""

    first: jax.Array
    second: jax.Array


def pair_masses_lanes(
    on_first: jax.Array,
    on_second: jax.Array,
    num_reports: jax.Array,
    clone_prob: jax.Array,
    local_epsilon: jax.Array,
) -> PairMasses:
    """`pair_masses`, each [L]; 0 outside the support."""
    m = on_first + on_second
    half = jnp.full_like(m, 0.5)
    log_weight = log_binomial_pmf(m - 1.0, num_reports - 1.0, clone_prob, 1.0 - clone_prob)
    weight = 2.0 * jnp.exp(log_weight + log_binomial_pmf(on_first, m, half, half) - softplus(-local_epsilon))
    fade, safe = jnp.exp(-local_epsilon), jnp.where(m > 0, m, 1.0)
    return PairMasses(*(weight * (x + fade * y) / safe for x, y in ((on_first, on_second), (on_second, on_first))))


def _in_domain(num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    finite = (num_reports < jnp.inf) & (local_epsilon < jnp.inf)
    return finite & (num_reports >= 1) & (clone_prob >= 0) & (clone_prob <= 1) & (local_epsilon > 0)


def _enclosed(
    log_lower: jax.Array, log_upper: jax.Array, powers: jax.Array, known: jax.Array, local_epsilon: jax.Array
) -> Ends[jax.Array]:
    """Lower and upper ends [A, L] of D, from bounds on log(e^(M D) - 1); never above the D of one report alone."""
    single = single_log_excess(jnp.where(known, local_epsilon, 1.0), powers)
    lower = down(softplus(jnp.minimum(log_lower, log_down(single, SINGLE_ULPS))) / powers, 12)
    upper = up(softplus(jnp.minimum(log_upper, log_up(single, SINGLE_ULPS))) / powers, 12)
    free = local_epsilon == 0
    return Ends(jnp.where(known, lower, 0.0), jnp.where(known, upper, jnp.where(free, 0.0, jnp.inf)))


def moment_sandwich_rdp_lanes(
    num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]
) -> Ends[jax.Array]:
    """`moment_sandwich_rdp` [A, L], rounded outward (docs/numerics/clones.md, "Sandwiches of the clones pair").

    The lower bounds are the first term of the power series in s of e^(M D) - 1 = E psi(s x), x a mean of m signs, and
    the part of the outcomes in which every clone agrees with the report. The upper bound holds since the coefficients
    of psi(s x) in x^2 are positive, so that psi(s x) <= x^2 psi(s) = x^2 X.
    """
    known = _in_domain(num_reports, clone_prob, local_epsilon)
    n, p, local = (jnp.where(known, x, 1.0) for x in (num_reports, clone_prob, local_epsilon))
    powers = jnp.asarray([a - 1.0 for a in orders], jnp.float64)[:, None]
    some = p > 1e-300
    q = jnp.where(some, p, 1.0)
    log_some, log_mean = log1mexp(n * log1p(-q)), jnp.log(n * q)
    mean_error = jnp.where(some, ULP * (16.0 + 6.0 * (finite_size(log_some) + finite_size(log_mean))), 0.0)
    log_mean_inverse = jnp.where(some, log_some - log_mean, 0.0)
    log_order, log_contrast = jnp.log(2.0 * powers * (powers + 1.0)), 2.0 * jnp.log(tanh(0.5 * local))
    first_error = mean_error + ULP * (20.0 + 8.0 * (finite_size(log_order) + finite_size(log_contrast)))
    log_first = log_down(log_order + log_contrast + log_mean_inverse - first_error, 0.0)
    single = single_log_excess(local, powers)
    agreeing = log_down(log_down(single, SINGLE_ULPS) + (n - 1.0) * log1p(-0.5 * p) * (1.0 + 2.0**-50), 0.0)
    log_upper = log_up(log_up(single, SINGLE_ULPS) + jnp.minimum(log_mean_inverse + mean_error, 0.0), 0.0)
    return _enclosed(jnp.maximum(log_first, agreeing), log_upper, powers, known, local_epsilon)


def cosh_sandwich_rdp_lanes(
    num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], window: int
) -> Ends[jax.Array]:
    """`cosh_sandwich_rdp` [A, L], rounded outward as `moment_sandwich_rdp_lanes`.

    From 2 s x <= 2 atanh(s x) <= local_epsilon x on [0, 1], and E cosh(k x) = cosh(k/m)^m for x a mean of m signs. The
    sum is over the counts in `window` (static, from `clones_window`). Outside it H falls with m, and a Chernoff bound
    covers the mass; where the window is too small, the upper bound is loose.
    """
    known = _in_domain(num_reports, clone_prob, local_epsilon)
    n, p, local = (jnp.where(known, x, 1.0) for x in (num_reports, clone_prob, local_epsilon))
    tangent, mean = tanh(0.5 * local), (n - 1.0) * p
    first = jnp.clip(jnp.floor(1.0 + mean - 0.5 * window), 1.0, jnp.maximum(n - window + 1.0, 1.0))
    counts = first + jnp.arange(window, dtype=jnp.int32).astype(jnp.float64)[:, None]
    log_weights = log_binomial_pmf(counts - 1.0, n - 1.0, p, 1.0 - p)

    def log_tail(k: jax.Array, beyond: jax.Array) -> jax.Array:
        """log of a bound on P[C at k or further out]; k is outside the support where there is nothing."""
        rate = binomial_rate(jnp.clip(k, 0.0, n - 1.0), n - 1.0, p, 1.0 - p)
        return jnp.where((k >= 0) & (k <= n - 1.0), jnp.where(beyond, -down(rate, 88), 0.0), -jnp.inf)

    below = log_tail(first - 2.0, first - 2.0 < mean)
    above = log_tail(first + (window - 1.0), first + (window - 1.0) > mean)

    def log_growth(k: jax.Array, m: jax.Array, contrast: jax.Array, sign: float) -> jax.Array:
        """log(H(k) - 1), rounded up (`sign` 1) or down (-1)."""
        x = k / m
        near = x < 1.0
        log_cosh = jnp.where(
            near, log1p(2.0 * jnp.square(sinh(0.5 * jnp.where(near, x, 0.5)))), x + log1p(jnp.exp(-2.0 * x))
        )
        value = logexpm1(m * jnp.where(near, log_cosh, log_cosh - jnp.log(2.0)) + log1p(contrast * tanh(x)))
        return value + sign * ULP * (50.0 + 28.0 * finite_size(value))

    def added(log_weight: jax.Array, growth: jax.Array, sign: float) -> jax.Array:
        return log_weight + growth + sign * 2.0 * ULP * (finite_size(log_weight) + finite_size(growth))

    weight_error = jnp.where(log_weights > -jnp.inf, pmf_rounding(finite_size(log_weights)), 0.0)
    low, high = log_weights - weight_error, log_weights + weight_error
    least, most = down(tangent, 8), jnp.minimum(up(tangent, 8), 1.0)

    def row(power: jax.Array) -> jax.Array:
        terms = added(low, log_growth(down(2.0 * power * least, 4), counts, least, -1.0), -1.0)
        inner = log_sum_outward(terms, float(window), upward=False)
        k = up(power * local, 4)
        ends = (
            added(mass, log_growth(k, m, most, 1.0), 1.0)[None]
            for mass, m in ((below, jnp.ones_like(n)), (above, first + window))
        )
        terms = jnp.concatenate([added(high, log_growth(k, counts, most, 1.0), 1.0), *ends])
        return jnp.stack([inner, log_sum_outward(terms, window + 2.0, upward=True)])

    powers = jnp.asarray([a - 1.0 for a in orders], jnp.float64)[:, None]
    logs = map_rows(row, powers[:, 0])
    return _enclosed(logs[:, 0], logs[:, 1], powers, known, local_epsilon)


def block_epoch_rdp_lanes(
    num_blocks: jax.Array, block_size: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]
) -> Ends[jax.Array]:
    """`block_epoch_rdp` [A, L]: another block is a clone with probability e^(-block_size local_epsilon)."""
    return clones_rdp(orders, num_blocks, jnp.exp(-block_size * local_epsilon), local_epsilon)


def local_epsilon_for_slope_lanes(
    num_reports: jax.Array, num_epochs: jax.Array, slope: jax.Array, highest: jax.Array, *, orders: Sequence[float]
) -> jax.Array:
    """`local_epsilon_for_slope` [L], found in [0, highest] by bisection."""
    grid = jnp.asarray(orders, jnp.float64)[:, None]

    def fits(local: jax.Array) -> jax.Array:
        spent = num_epochs * clones_rdp(orders, num_reports, jnp.exp(-local), local).upper
        return jnp.all(up(spent, 8) <= slope * grid, axis=0)  # two products, spent and allowed

    found = bisect_lanes(fits, jnp.zeros_like(highest), up(highest, 8), num_steps=_NUM_HALVINGS)
    return jnp.minimum(found, highest)


def laplace_rdp_lanes(local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """`laplace_rdp` [A, L], rounded up."""
    powers = jnp.asarray([a - 1.0 for a in orders], jnp.float64)[:, None]
    a = powers + 1.0
    # a (e^x - 1 - x) + M (e^-y - 1 + y), x = M eps, y = a eps, over M: positive terms
    rise, fall = powers * local_epsilon, a * local_epsilon
    mean = (a * local_epsilon * _mean_rise(jnp.minimum(rise, 1.0)) + _excess(-fall)) / (2.0 * a - 1.0)
    near = rise < 1.0
    far = rise + jnp.log(a / (2.0 * a - 1.0)) + log1p(powers / a * jnp.exp(-rise - fall))
    scale = jnp.where(powers > 0, powers, 1.0)
    small = jnp.where(powers > 0, log1p(scale * jnp.where(near, mean, 0.0)) / scale, mean)
    value = up(jnp.where(near, small, far / scale), 128)
    return jnp.where(local_epsilon >= 0, jnp.minimum(value, local_epsilon), jnp.inf)


def _excess(x: jax.Array) -> jax.Array:
    """e^x - 1 - x, without cancellation."""
    near = jnp.abs(x) < 0.5
    y = jnp.where(near, x, 0.0)
    series = jnp.ones_like(x)
    for k in range(15, 2, -1):
        series = 1.0 + y / k * series
    return jnp.where(near, 0.5 * y * y * series, expm1(x) - x)


def _mean_rise(x: jax.Array) -> jax.Array:
    """(e^x - 1 - x) / x for 0 <= x, 0 at 0."""
    some = x > 1e-300
    return jnp.where(some, _excess(x) / jnp.where(some, x, 1.0), 0.0)


_masses = Kernel(lambda *args: tuple(pair_masses_lanes(*args)))
_moments = Kernel(lambda *args, orders: tuple(moment_sandwich_rdp_lanes(*args, orders=orders)))
_cosh = Kernel(
    lambda *args, orders, window: tuple(cosh_sandwich_rdp_lanes(*args, orders=orders, window=window)), lane_bytes=2**24
)
_epoch = Kernel(lambda *args, orders: tuple(block_epoch_rdp_lanes(*args, orders=orders)), lane_bytes=2**20)
_slope = Kernel(local_epsilon_for_slope_lanes, lane_bytes=2**20)
_laplace = Kernel(laplace_rdp_lanes)


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

    Neither an upper nor a lower bound: accurate to 1e-14, relative. 0 outside the support.

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
    window = clones_window(pair[0], pair[1], max_window=WIDEST_WINDOW)
    return _bracket(_cosh(*pair, orders=orders_of(orders), window=window))


def block_epoch_rdp(
    num_blocks: ArrayLike, block_size: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike
) -> Ends[Floats]:
    """Renyi divergences [A] of the pair that dominates one epoch of shuffled noisy SGD (Algorithm 1; CH-S15).

    This is the clones pair at clone probability e^(-block_size local_epsilon). The records are in `num_blocks` fixed
    blocks, which are processed in a freshly permuted order; a replaced record changes the step of its block by at most
    local_epsilon, and all steps are public. The upper end is an upper bound for the epoch, both directions, and adds up
    over epochs. Theorem 3 claims far less for blocks of more than one record, and is false there. Real orders > 1.

    Args:
      num_blocks: whole number >= 1.
      block_size: number of records in a block, whole number >= 1.
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

    The condition is num_epochs D_a <= slope a, with D_a an upper bound on the clones pair's divergence at clone
    probability e^-local_epsilon. The result, by bisection in [0, highest], is a lower bound on the largest that the
    pair admits.

    Args:
      num_reports: n, whole number >= 1.
      num_epochs: whole number >= 1.
      slope: > 0, nats per unit of order.
      orders: real [A], each > 1; the condition is checked at these only.
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

    Upper bound for the report without shuffling, rounded up by 2^-46, both directions, real orders > 1.

    Args:
      local_epsilon: eps >= 0; the report is eps-DP if the sensitivity is over all pairs of a user's inputs.
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
