"""N(mu, 1) against N(0, 1): hockey-stick divergence, its inverse, Renyi divergence.

mu is the sensitivity over the standard deviation of the noise: 1 over the noise multiplier, times sqrt k after k steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxacct._jax import jax
from jaxacct._precision import float64_kernel
from jaxacct._types import Ends
from jaxacct.special import (
    LEAST_NORMAL,
    down,
    log1mexp,
    log_normal_density,
    mills_difference,
    mills_ratio,
    solve_decreasing,
    up,
)
from jaxacct.special._namespace import fori_loop, xp

_LEAST_STEP = 1e-200  # below it terms of the integral would underflow: there delta is linear in mu
_BACK = (1e-3, 1e-6, 1e-9, 1e-11)  # relative distances below an upper end at which a lower end is tried


def gaussian_log_delta(epsilon: jax.Array, mu: jax.Array) -> jax.Array:
    """log delta [L], rounded up: log H_{e^eps}(N(mu, 1) || N(0, 1)), any real `epsilon` [L], `mu` [L] > 0."""
    return gaussian_log_delta_ends(epsilon, mu).upper


def gaussian_log_delta_ends(epsilon: jax.Array, mu: jax.Array) -> Ends[jax.Array]:
    """Ends [L] of log delta = log H_{e^eps}(N(mu, 1) || N(0, 1)), any real `epsilon` [L], `mu` [L] > 0.

    With x = |eps|/mu - mu/2 and the Mills ratio m:  delta = phi(x) (m(x) - m(x + mu)), because
    e^eps phi(x + mu) = phi(x) (Balle & Wang 2018, Theorem 8, in a form that does not cancel).
    For x < 0, m(x) = (1 - phi(x) m(-x)) / phi(x). For mu < 1/2 the two ratios are nearly equal, and their difference is
    computed as an integral (`mills_difference`), for tiny mu at 1e-200 and then scaled (docs/numerics/rounding.md).
    Negative epsilon uses H_{1/k} = 1 - 1/k + H_k / k.

    The measured error for mu in [1e-6, 100] and delta >= 1e-300 is about 2e-13, relative, near x = 10, and grows like
    x^2, in accordance with the conditioning of the logarithm. The slack that is added covers it.
    """
    flipped = epsilon < 0
    eps = xp.minimum(xp.abs(epsilon), 1e150 * mu)  # x^2 is a double; delta falls with eps
    x = eps / mu - 0.5 * mu
    narrow = mu < 0.5
    ratios = mills_ratio(xp.stack([xp.abs(x), xp.abs(x + mu)]))
    density = log_normal_density(x)
    # delta / phi(x), or for x < 0 delta itself: 1 - phi(x) (m(-x) + m(x + mu)); mu >= 1/2 keeps it off 0
    left = (x < 0) & ~narrow
    inner = ratios[0] - ratios[1]
    outer = 1.0 - xp.exp(density) * (ratios[0] + ratios[1])
    step = xp.maximum(mu, _LEAST_STEP)
    thin = mills_difference(xp.where(narrow, x, 1.0), xp.where(narrow, step, 0.25))
    gap = xp.where(narrow, thin, xp.where(left, outer, inner))
    log_delta = xp.log(xp.maximum(gap, LEAST_NORMAL)) + xp.log(mu / step) + xp.where(left, 0.0, density)
    nonzero = flipped & (eps > 0)
    mirrored = xp.logaddexp(log1mexp(-xp.where(nonzero, eps, 1.0)), log_delta - eps)
    log_delta = xp.where(nonzero, mirrored, log_delta)
    slack = 2.0**-50 * (64.0 + xp.abs(x) * (xp.abs(x) + mu + eps / mu))
    # outside the range of doubles no lower bound is given
    lower = xp.where((gap > LEAST_NORMAL) & (xp.abs(epsilon) <= 1e150 * mu), log_delta - slack, -xp.inf)
    return Ends(lower, xp.minimum(log_delta + slack, 0.0))


def gaussian_epsilon(log_delta: jax.Array, mu: jax.Array) -> jax.Array:
    """epsilon [L], rounded up: the least epsilon >= 0 with log H_{e^eps} <= `log_delta` [L], for `mu` [L] > 0.

    It is never below the true value: `gaussian_log_delta`, an upper bound, was found to be at most `log_delta` at the
    number returned.
    """

    def excess(eps: jax.Array, target: jax.Array, mu: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, slope = gaussian_log_delta_slope(eps, mu)
        return value - target, slope

    return solve_decreasing(excess, xp.zeros_like(mu), most_gaussian_epsilon(log_delta, mu), log_delta, mu)


def gaussian_log_delta_slope(epsilon: jax.Array, mu: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`gaussian_log_delta` [L], and its approximate slope in `epsilon` [L] >= 0, which guides a search."""
    value = gaussian_log_delta(epsilon, mu)
    x = epsilon / mu + 0.5 * mu  # d delta / d eps = -e^eps (1 - Phi(x)); the tail is crude
    tail = log_normal_density(x) - xp.log(0.5 * (x + xp.sqrt(x * x + 3.0)))
    return value, -xp.exp(xp.minimum(epsilon + tail - value, 700.0))


def most_gaussian_epsilon(log_delta: jax.Array, mu: jax.Array) -> jax.Array:
    """Upper bound on epsilon [L] at `log_delta` [L]: Chernoff's for the loss N(mu^2/2, mu^2), plus 1 for rounding."""
    return 0.5 * mu * mu + mu * (xp.sqrt(-2.0 * xp.minimum(log_delta, 0.0)) + 1.0)


def gaussian_epsilon_from_below(log_delta: jax.Array, mu: jax.Array) -> jax.Array:
    """epsilon [L], rounded down: log H_{e^eps} at it is above `log_delta` [L], for `mu` [L] > 0; 0 if none is found."""
    above = gaussian_epsilon(log_delta, mu)
    return epsilon_from_below(above, lambda tried: gaussian_log_delta_ends(tried, mu).lower, log_delta)


def epsilon_from_below(above: jax.Array, lower: Callable[[jax.Array], jax.Array], log_delta: jax.Array) -> jax.Array:
    """epsilon [L] just below `above` [L] at which ``lower(epsilon)``, a lower bound on log delta, is above `log_delta`.

    0 where none is found.
    """
    found = xp.zeros_like(above)
    for back in _BACK:
        tried = above * (1.0 - back)
        found = xp.where(lower(tried) > log_delta, tried, found)
    return found


def rough_gaussian_epsilon(log_delta: jax.Array, mu: jax.Array) -> jax.Array:
    """Approximate epsilon [L] of N(mu, 1) against N(0, 1): delta ~ mu E[(N - a)_+], eps = mu (a + mu/2).

    It is no bound, but the starting point of a search.
    """
    level = xp.log(mu) - xp.maximum(log_delta, -1e6) - 0.92

    def deviate(_: jax.Array, a: jax.Array) -> jax.Array:
        # E[(N - a)_+] / phi(a) within 8 %
        return xp.sqrt(2.0 * xp.maximum(level - xp.log1p(a * (1.25 + 0.9 * a)), 0.0))

    return mu * (fori_loop(0, 4, deviate, xp.zeros_like(level)) + 0.5 * mu)


def gaussian_rdp(orders: jax.Array, mu: jax.Array) -> jax.Array:
    """Renyi divergences [A, L], rounded up, the same in both directions: `orders` mu^2 / 2 (RA-S1), orders [A, 1]."""
    return up(0.5 * orders * mu * mu, 8)  # three products


_gaussian_log_delta = float64_kernel(on_host=True)(gaussian_log_delta)


def gaussian_profile(log_threshold: float, mu: float, *, is_upper: bool) -> float:
    """float: H_k of the Gaussian pair at log k >= 0, rounded up or down.

    log k and mu may have relative errors of 2^-48, which are moved to the safe side. The kernel rounds up by 2^-50
    (64 + |x| (|x| + mu + log k / mu)), at least its own error: four times as much is subtracted for the lower end.
    """
    sign = -1.0 if is_upper else 1.0
    log_threshold, mu = log_threshold * (1.0 + sign * 2.0**-48), mu * (1.0 - sign * 2.0**-50)
    log_delta = float(_gaussian_log_delta(log_threshold, mu))
    if is_upper:
        return min(math.nextafter(up(math.exp(log_delta), 8), 1.0), 1.0)  # a subnormal number too
    x = abs(log_threshold / mu - 0.5 * mu)
    return down(math.exp(log_delta - 2.0**-48 * (64.0 + x * (x + mu + log_threshold / mu))), 8)
