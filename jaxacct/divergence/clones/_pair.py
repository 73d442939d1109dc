"""The clones pair, and its hockey-stick divergence as a sum over every count in a window.

    C ~ Bin(n - 1, p),  A | C ~ Bin(C, 1/2),  D ~ Bern(e/(1 + e)),  e = exp(local_epsilon),
    P = (A + D, C - A + 1 - D),  Q = (A + 1 - D, C - A + D)

(V. Feldman, A. McMillan, K. Talwar, "Hiding Among the Clones", Theorem 3.2; local_epsilon = inf: Lemma 3.3's pair).
With m = C + 1, a ~ Bin(m, 1/2) and x = (2a - m)/m, dP/dQ = (1 + s x)/(1 - s x), s = tanh(local_epsilon/2). The pair is
symmetric, so both directions of every divergence agree.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxacct._jax import jax
from jaxacct.special import ULP, log1mexp, softplus
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf
from jaxacct.special._fair_coins import SMALL_TOSSES, fair_rate, log_fair_pmf, small_tail_ratios, tail_ratios
from jaxacct.special._namespace import cond, stop_gradient, xp


class ClonesPair(NamedTuple):
    """The pair at one threshold epsilon >= 0, float64 [L]: the numbers from which every computation of delta starts.

    The divergence is E[(2/m) (a A - (m - a) B)_+], with A = P[D = 1] - e^eps P[D = 0] and B = e^eps P[D = 1] -
    P[D = 0]. An outcome contributes if x > u = (B - A)/(A + B). Sums are kept as multiples of e^log_unit, so that none
    underflows: these are "the pair's units".
    """

    num_reports: jax.Array
    clone_prob: jax.Array
    possible: jax.Array  # whether the divergence is positive: epsilon < local_epsilon, arguments in their ranges
    zero: jax.Array  # whether it is 0: epsilon >= local_epsilon; neither: an argument out of range, or NaN
    threshold: jax.Array  # u = tanh(eps/2) / s, in [0, 1)
    half_gap: jax.Array  # (1 - u) / 2, to its own relative accuracy
    log_scale: jax.Array  # log(A + B) = log((1 + e^eps) s)
    log_first: jax.Array  # log A, the divergence without any clone
    contrast: jax.Array  # s
    one_minus_contrast: jax.Array  # 1 - s, to its own relative accuracy
    tilted_prob: jax.Array  # of a clone, under the law with density e^{-I C}
    untilted_rest: jax.Array  # its complement
    log_unit: jax.Array  # log E e^{-I (C + 1)}, constant under differentiation

    @property
    def log_chernoff(self) -> jax.Array:
        """Upper bounds [L] on log delta: E[(x - u)_+ | m] <= (1 - u) e^{-m I}, I = I(u) the rate of a mean of signs."""
        return xp.log(2.0) + self.log_first + self.log_unit


def clones_pair(
    epsilon: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array
) -> ClonesPair:
    """The pair [L] at `epsilon` >= 0; every number is finite, also in lanes where the divergence is 0."""
    valid = (clone_prob >= 0) & (clone_prob <= 1) & (num_reports >= 1) & (num_reports < xp.inf)
    possible = valid & (epsilon < local_epsilon)
    eps, local = xp.where(possible, epsilon, 0.0), xp.where(possible, local_epsilon, 1.0)
    n, p = xp.where(possible, num_reports, 1.0), xp.where(possible, clone_prob, 1.0)
    contrast = xp.tanh(0.5 * local)
    threshold = xp.tanh(0.5 * eps) / contrast
    log_sum = softplus(eps)
    half_gap = xp.expm1(eps - local) / xp.expm1(-local) * xp.exp(-log_sum)
    rate = fair_rate(threshold, 2.0 * half_gap)
    log_tilt = xp.log1p(p * xp.expm1(-rate))
    return ClonesPair(
        num_reports=n,
        clone_prob=p,
        possible=possible,
        zero=valid & (epsilon >= local_epsilon),
        threshold=threshold,
        half_gap=half_gap,
        log_scale=log_sum + xp.log(contrast),
        log_first=log1mexp(eps - local) - xp.log1p(xp.exp(-local)),
        contrast=contrast,
        one_minus_contrast=2.0 * xp.exp(-softplus(local)),
        tilted_prob=p * xp.exp(-rate - log_tilt),
        untilted_rest=(1.0 - p) * xp.exp(-log_tilt),
        log_unit=stop_gradient((n - 1.0) * log_tilt - rate),
    )


class CountWindow(NamedTuple):
    """Values of m = C + 1 with their log probabilities: 1..255 first, then `size` consecutive ones from `first`."""

    useful: jax.Array  # a scalar: whether any lane's window is worth summing; if not, there are no weights
    first: jax.Array  # [L]
    counts: jax.Array  # [255 + size, L]
    log_weights: jax.Array  # [255 + size, L]


def count_window(pair: ClonesPair, size: int) -> CountWindow:
    """A window of counts [255 + size, L]: `size` (static) values of m about the mean of C under the law e^{-I C}.

    These counts dominate the divergence. A window that misses much of it is summed only where the contour integral
    (`_smooth`) does not apply, which is at a small variance.
    """
    n, p = pair.num_reports, pair.clone_prob
    centre = 1.0 + (n - 1.0) * pair.tilted_prob
    first = xp.clip(xp.floor(centre - 0.5 * size), 1.0, xp.maximum(n - size + 1.0, 1.0))
    first = stop_gradient(first)
    # int32 first: int64 indices break under vmap in a float32 program
    index = xp.arange(1, SMALL_TOSSES + size, dtype=xp.int32).astype(xp.float64)[:, None]
    small = index < SMALL_TOSSES
    counts = xp.where(small, index, first + (index - SMALL_TOSSES))
    variance = n * pair.tilted_prob * 4.0 * pair.half_gap * (1.0 - pair.half_gap)
    useful = xp.any((outside(pair, first, size) < 1e-3) | (variance < 1000.0))

    def log_weights(counts: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
        return xp.where(twice, -xp.inf, log_binomial_pmf(counts - 1.0, n - 1.0, p, 1.0 - p))

    twice = ~small & (counts < SMALL_TOSSES)
    weights = cond(useful, log_weights, lambda counts, *_: xp.full_like(counts, -xp.inf), counts, n, p)
    return CountWindow(useful, first, xp.where(twice, float(SMALL_TOSSES), counts), weights)


class WindowSum(NamedTuple):
    """The divergence from a window of counts, a bound on the rest, and Q[loss > epsilon]: [L], in the pair's units."""

    delta: jax.Array  # times e^(log_unit + log_scale)
    missing: jax.Array  # a bound on the rest, times e^(log_unit + log_scale)
    tail: jax.Array  # times e^log_unit
    blur: jax.Array  # error by the rounding of thresholds and the sum's additions, times e^(log_unit + log_scale)


def window_sum(pair: ClonesPair, window: CountWindow) -> WindowSum:
    """The divergence [L] from the counts in `window`, with an upper bound on the contribution of the other counts.

    The sum is ``sum_m w_m h_m, h_m = (A + B) (2/m) P[a = k] (f r0 + r1)``. Here k is the least count above m (1 + u)/2,
    f its distance from that, and r0 and r1 are the tail and the excess of Bin(m, 1/2) beyond k, over P[a = k]. All
    terms are positive. Likewise ``Q[L > eps] = sum_m w_m P[a = k] (r0 - s k/m)``.

    The rest: h_m <= 2 A e^{-m I}, so that the counts outside add up to at most 2 A E[e^{-I (C+1)}] P'[C outside], where
    P' is the binomial law tilted by e^{-I C}, and its mass outside is below Chernoff's bound. The bound is infinite
    where the window is not summed.
    """
    none = xp.zeros_like(window.first)
    nothing = WindowSum(none, xp.full_like(none, xp.inf), none, none)
    total: WindowSum = cond(window.useful, _summed, lambda *_: nothing, pair, window)
    return total


def _summed(pair: ClonesPair, window: CountWindow) -> WindowSum:
    m = window.counts
    # each way of computing k preserves the digits of the smaller part; a tie lost to rounding contributes nothing
    wide = pair.threshold < 0.5
    from_middle = xp.floor(0.5 * (m + pair.threshold * m)) + 1.0
    k = xp.where(wide, from_middle, m - xp.maximum(xp.ceil(m * pair.half_gap) - 1.0, 0.0))
    above = xp.where(wide, 0.5 * ((2.0 * k - m) - m * pair.threshold), m * pair.half_gap - (m - k))
    mass = xp.exp(window.log_weights + log_fair_pmf(k, m) - pair.log_unit)
    split = SMALL_TOSSES - 1
    far = tail_ratios(k[split:], m[split:])
    near = cond(
        xp.any(window.first < SMALL_TOSSES),
        small_tail_ratios,
        lambda k, m: (xp.ones_like(k), xp.zeros_like(k)),  # of counts that hold no mass
        k[:split],
        m[:split],
    )
    tail, excess = (xp.concatenate(parts) for parts in zip(near, far, strict=True))
    share = k / m
    missed = outside(pair, window.first, m.shape[0] - split)
    delta = 2.0 * xp.sum(mass * (above * tail + excess) / m, axis=0)
    # `above` by 13 ULP of m u / 2, as u is a quotient of two tanh, or by 18 and 9 log(1 + e^eps) of m half_gap
    log_sum = pair.log_scale - xp.log(pair.contrast)
    reach = xp.where(wide, 7.0 * pair.threshold, (18.0 + 9.0 * log_sum) * pair.half_gap)
    return WindowSum(
        delta=delta,
        missing=2.0 * pair.half_gap * missed,
        tail=xp.sum(mass * (tail - share + pair.one_minus_contrast * share), axis=0),
        blur=ULP * (2.0 * reach * xp.sum(mass * tail, axis=0) + m.shape[0] * delta),
    )


def outside(pair: ClonesPair, first: jax.Array, size: int) -> jax.Array:
    """Upper bounds [L], Chernoff's, on P[C + 1 outside [first, first + size)] for C ~ Bin(n - 1, tilted_prob)."""
    n = pair.num_reports - 1.0
    k = xp.stack([first - 2.0, first + (size - 1.0)])
    rate = binomial_rate(xp.clip(k, 0.0, n), n, pair.tilted_prob, pair.untilted_rest)
    beyond = xp.stack([k[0] < n * pair.tilted_prob, k[1] > n * pair.tilted_prob])
    inside = (k >= 0) & (k <= n)
    return stop_gradient(xp.sum(xp.where(inside, xp.where(beyond, xp.exp(-rate), 1.0), 0.0), axis=0))
