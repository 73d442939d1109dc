"""BOUND, from below: Renyi divergence of shuffled ternary randomized response, all other records at the third value.

Values 1 against 2 among n - 1 threes (GI-X4). With b = 1/(E + 2), h ~ Multinomial(n; b, b, E b) and

    A = (E h1 + h2 + h3/E)/n,   B = (h1 + E h2 + h3/E)/n,   E A = E B = 1:

    E[A^a B^(1-a)] - 1 = E[B (r^a - 1 - a (r - 1))],   r - 1 = (A - B)/B = (E - 1)(h1 - h2)/(n B),

positive terms at every real a > 1, symmetric in the two values. Every d-th h1 and every d-th h2 are summed, as in
`_lattice_comb`: A^a B^(1-a) is a mixture of A^K e^(-tA - uB), K = ceil(a), whose two-dimensional aliases are below
((1 + 3 e^(-2 v sin(pi/d)^2))^2 - 1) of it, v = (n - K) P_3 min(P_1, P_2) at the least tilted probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.kernels import (
    EXPONENT,
    LARGEST,
    gamma_reach,
    left_reach,
    log_aliases,
    power_excess,
    right_reach,
    stride,
)
from jaxacct.special import (
    ULP,
    binomial_rate,
    down,
    is_jax,
    log1p,
    log_binomial_pmf,
    log_down,
    map_rows,
    pmf_rounding,
    softplus,
    stop_gradient,
    xp,
)

_OUTSIDE = 60.0  # nats: about e^-60 of the probability is cut off, which only lowers a lower bound
_MAX_WINDOW = 256  # nodes on each axis at most; fewer are certified too, only looser


class _Layout(NamedTuple):
    """Nodes of h1 and of h2, each [L]: first, step, least variance of the tilted laws, and how far they reach."""

    first: Any
    step: Any
    variance: Any
    reach: Any


def _layout(n: Any, local_epsilon: Any, top: float, window: float) -> _Layout:
    """The nodes for all orders up to `top`, at most `window` on each axis."""
    odds = xp.exp(-local_epsilon)
    single = odds / (1.0 + 2.0 * odds)
    mean = n * single
    tilt = xp.minimum(top * xp.expm1(local_epsilon) * xp.sqrt(2.0 * single / n), 25.0)
    below = left_reach(mean, _OUTSIDE)
    above = right_reach(mean, _OUTSIDE) + tilt * xp.sqrt(mean)
    first = xp.maximum(xp.floor(mean - below - tilt * xp.sqrt(mean)), 0.0)
    third = odds + (xp.exp(local_epsilon) + 1.0 - 2.0 * odds) * first / n  # A and B are at least this
    reach = (EXPONENT + gamma_reach(top - 1.0)) / third
    tilted = odds * xp.exp(-xp.minimum(reach * xp.exp(local_epsilon) / n, 700.0))
    rest = 1.0 / (1.0 + 2.0 * odds)
    variance = xp.maximum(n - np.ceil(top), 0.0) * rest * rest * tilted
    step = stride(variance)
    reach = xp.minimum(mean + above, n) - first
    # with too few nodes for all of it, the middle
    first = xp.maximum(first, xp.floor(first + 0.5 * (reach - step * window)))
    return _Layout(first, step, variance, reach)


def _usable(n: Any, local_epsilon: Any) -> Any:
    return (n >= 1) & (n < xp.inf) & (local_epsilon > 0) & (local_epsilon <= 0.5 * LARGEST)


def ternary_window(num_reports: Any, local_epsilon: Any, top: float) -> int:
    """A static int, a power of two, at most 256: nodes on each axis for orders to `top`, for concrete arrays."""
    n, local = (np.asarray(v, np.float64) for v in np.broadcast_arrays(num_reports, local_epsilon))
    usable = _usable(n, local)
    at = _layout(np.where(usable, n, 1.0), np.where(usable, local, 1.0), top, math.inf)
    needed = min(float(np.max(at.reach / at.step)) + 2.0, _MAX_WINDOW)
    return 1 << max(3, int(np.ceil(np.log2(needed))))


def _sum_by_rows(terms: jax.Array) -> jax.Array:
    """The sums [L] of terms [N, N, L], within 2 N ULP: the barrier keeps XLA from adding them all in a row."""
    rows = xp.sum(terms, axis=0)
    if is_jax(rows):
        rows = jax.lax.optimization_barrier(rows)  # type: ignore[no-untyped-call]
    return xp.sum(rows, axis=0)


def ternary_response_renyi(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], window: int
) -> jax.Array:
    """Renyi divergences [A, L], rounded down, of shuffled ternary randomized response: the module's formula (GI-X4).

    Lower bound, real orders > 1; 0 outside num_reports >= 1, 0 < local_epsilon <= 150. It is within 1e-11 if `window`
    suffices for all nodes; otherwise it is smaller, and still certified. To leading order it is a (E-1)^2/((E+2) n),
    above that of binary randomized response for E > 2.

    Args:
      num_reports, local_epsilon: float64 [L].
      orders, window: static, the latter from `ternary_window` at the largest order.
    """
    top = max(orders)
    usable = _usable(num_reports, local_epsilon)
    n, local = xp.where(usable, num_reports, 1.0), xp.where(usable, local_epsilon, 1.0)
    at = _Layout(*stop_gradient(_layout(n, local, top, float(window))))
    odds = xp.exp(-local)
    single, rest = odds / (1.0 + 2.0 * odds), (1.0 + odds) / (1.0 + 2.0 * odds)
    index = xp.arange(window, dtype=xp.int32).astype(xp.float64)
    h1 = (at.first + at.step * index[:, None])[:, None]
    h2 = (at.first + at.step * index[:, None])[None]
    inside = h1 + h2 <= n
    h1, h2 = xp.where(inside, h1, 0.0), xp.where(inside, h2, 0.0)
    first = log_binomial_pmf(h1, n, single, rest)
    second = log_binomial_pmf(h2, n - h1, odds / (1.0 + odds), 1.0 / (1.0 + odds))
    b = odds + ((1.0 - odds) * h1 + (xp.exp(local) - odds) * h2) / n
    ratio = (odds + ((1.0 - odds) * h2 + (xp.exp(local) - odds) * h1) / n) / b
    x = xp.where(ratio > 0.5, xp.expm1(local) * (h1 - h2) / (n * b), ratio - 1.0)
    log_ratio = xp.where(ratio > 0.5, log1p(xp.maximum(x, -0.9)), xp.log(ratio))
    # the last digits of both probabilities, and those of n - h1 times the second; B and three sums
    distance = xp.abs(h1 - n * single) + xp.abs(h2 - (n - h1) * odds / (1.0 + odds))
    error = pmf_rounding(first) + pmf_rounding(second) + 4.0 * ULP * (xp.abs(first) + xp.abs(second))
    error = stop_gradient(error + ULP * (64.0 + 16.0 * (distance + xp.log(at.step)) + 8.0 * xp.abs(xp.log(b))))
    log_mass = xp.where(inside, first + second + xp.log(b) + 2.0 * xp.log(at.step), -xp.inf)

    low, high = at.first - 1.0, at.first + at.step * window - 1.0
    # where A is the density the counts are those of n - 1 threes and the single report
    trials = xp.maximum(n - 1.0, 0.0)
    ends = xp.stack([low, high])
    beyond = xp.stack([low < trials * single, high > trials * single])
    possible = xp.stack([low >= 0, high <= trials])
    rate = binomial_rate(xp.clip(ends, 0.0, trials), trials, single, rest)
    outside = xp.sum(xp.where(possible, xp.where(beyond, xp.exp(-rate), 1.0), 0.0), axis=0)
    log_outside = xp.log(xp.maximum(2.0 * outside, 1e-300)) + 2.0 * xp.log(at.step) + 2.0**-20
    aliases = log_aliases(at.variance, at.step) + xp.log(3.0)

    def row(order: jax.Array) -> jax.Array:
        value, grown, value_error = power_excess(order, x, log_ratio)
        level = stop_gradient(xp.max(log_mass + grown, axis=(0, 1)))
        terms = xp.exp(log_mass + grown - level) * value
        total = _sum_by_rows(terms)
        # what x errs by moves (1+x)^a - 1 - a x as in docs/numerics/clones.md, "The best conversion of one order"
        by_ratio = ULP * (288.0 + 32.0 * order * xp.maximum(log_ratio, 0.0) + 8.0 * xp.abs(log_ratio))
        by_size = 4.0 * ULP * (xp.abs(xp.where(inside, log_mass, 0.0)) + grown)
        spread = _sum_by_rows(terms * (error + value_error + stop_gradient(by_ratio + by_size))) / total
        log_total = level + xp.log(total)
        spread = spread * (1.0 + 2.0**-20) + ULP * (2.0 * window + 64.0 + 8.0 * (xp.abs(level) + xp.abs(log_total)))
        comb = xp.logaddexp(aliases, xp.log(6.0) - EXPONENT) + xp.log(3.0 * order) + softplus(log_total + spread)
        log_error = xp.logaddexp(comb, log_outside + xp.log(order))
        missing = xp.where(at.step > 1.0, log_error - log_total + spread + 2.0**-20, -xp.inf)
        # from -0.1 on the last logarithm errs by 50 ULP at most
        log_excess = log_down(log_total - spread + log1p(-xp.exp(xp.minimum(missing, -0.1))), 64.0)
        log_excess = xp.where(usable & (total > 0) & (missing < -0.1), log_excess, -xp.inf)
        return down(softplus(log_excess) / (order - 1.0), 12)

    return map_rows(row, np.asarray(orders, np.float64), lanes=x)
