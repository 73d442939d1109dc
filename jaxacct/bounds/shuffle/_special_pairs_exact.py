"""Shuffled reports through special pairs: Girgis et al. 2021, Theorem 4, with the pair's exact worst case inside.

For any eps-LDP randomizer, q = e^-eps, both directions, replace-one adjacency, real orders a > 1:

    exp((a-1) R_a) <= E_m[ E*_{m+1}(a) ],   m ~ Bin(n-1, q),   E*_M(a) = E_k (1 + x_k)^a,  k ~ Bin(M, 1/(E+1)):

m of the other reports are as if from the differing record's other value, and E*_M is the worst moment of M such reports
(GI-X1, GI-X2; `divergence.response`). Never above the paper's Theorems 1 and 2, whatever their split; to
leading order a (E-1)^2/(2n), half of Theorem 1.

The sum over m takes every h-th value (`_lattice_comb`): M^a E*_M is a positive combination of M (M-1) .. (M-j+1) z^M,
j <= K = ceil(a), and M^-a = int u^(a-1) e^(-uM) du / Gamma(a).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct.divergence.response._lattice_comb import (
    EXPONENT,
    gamma_reach,
    left_reach,
    log_aliases,
    right_reach,
    stride,
)
from jaxacct.divergence.response._renyi import LARGEST, response_log_excess, response_window
from jaxacct.divergence.response._special_pair import single_log_cap
from jaxacct.special import log1p, log_sum_exp, log_up, softplus, up
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf, pmf_rounding
from jaxacct.special._namespace import stop_gradient, xp

_MAX_NODES = 2**13  # most values of m that are summed; fewer are certified too, only looser


class MixtureLayout(NamedTuple):
    """Values of m, the least variance of the tilted laws, and the log of what the mixture's cut leaves; each [L]."""

    first: Any
    step: Any
    last: Any
    variance: Any
    log_cut: Any


def mixture_layout(n: Any, local_epsilon: Any, top: float, whole: bool) -> MixtureLayout:
    """The values of m summed for all orders up to `top`, and what the others may add, each [L]; NumPy or JAX arrays.

    `whole` (static): whether all orders are whole, so that nothing has to be cut.
    """
    q, rest = xp.exp(-local_epsilon), -xp.expm1(-local_epsilon)
    mean, rest_mean = (n - 1.0) * q, (n - 1.0) * rest
    margin = EXPONENT + top * local_epsilon  # E*_1 <= e^(a eps)
    below = xp.minimum(left_reach(mean, margin), right_reach(rest_mean, margin))
    above = xp.minimum(right_reach(mean, EXPONENT), left_reach(rest_mean, EXPONENT))
    first = xp.maximum(xp.floor(mean - below), 0.0)
    last = xp.minimum(xp.ceil(mean + above), n - 1.0)
    log_z = -gamma_reach(top) / (first + 1.0)
    log_cut = xp.zeros_like(n) - EXPONENT
    if not whole:
        # (S'/M)^-f = int t^(f-1) e^(-tS') dt / Gamma(f), S' = M (1 + X/M), cut at t0 >= 4 a / (e M): what is left has
        # E[(S'/M)^a e^(-t0 S')] <= E e^(-t0 S'/2) = phi(t0/2)^M
        cut = (4.0 * EXPONENT + 2.0 * top) / (first + 1.0)

        def log_phi(t: Any) -> Any:
            shift = (q * xp.expm1(-t * xp.exp(local_epsilon)) + xp.expm1(-t * q)) / (1.0 + q)
            return xp.log1p(xp.maximum(shift, -0.5))  # so far only for few reports, which are summed one by one

        log_cut = xp.maximum(log_cut, (first + 1.0) * log_phi(0.5 * cut))
        log_z = log_z + log_phi(cut)
        log_cut = xp.where(log_phi(cut) > np.log(0.5), log_cut, 0.0)
    tilted = q * xp.exp(xp.maximum(log_z, -700.0))
    least = xp.minimum(rest * tilted / ((rest + tilted) * (rest + tilted)), q * rest)
    variance = xp.maximum(n - 1.0 - np.ceil(top), 0.0) * least
    variance = xp.where(log_cut <= -0.9 * EXPONENT, variance, 0.0)
    return MixtureLayout(first, stride(variance), last, variance, log_cut)


def _is_whole(orders: Sequence[float]) -> bool:
    return all(float(a).is_integer() for a in orders)


def is_usable(num_reports: Any, local_epsilon: Any) -> Any:
    """A bool for each lane [L]: whether its arguments are within the range of the kernel."""
    return (num_reports >= 1) & (num_reports < xp.inf) & (local_epsilon > 0) & (local_epsilon <= LARGEST)


def mixture_statics(num_reports: Any, local_epsilon: Any, orders: Sequence[float]) -> dict[str, int]:
    """A dict of static sizes, `nodes` (values of m) and `window` (counts for each), for concrete arrays of reports.

    Smaller sizes are certified too, only looser.
    """
    n, local = (np.asarray(v, np.float64) for v in np.broadcast_arrays(num_reports, local_epsilon))
    usable = is_usable(n, local)
    n, local = np.where(usable, n, 1.0), np.where(usable, local, 1.0)
    at = mixture_layout(n, local, max(orders), _is_whole(orders))
    needed = min(float(np.max((at.last - at.first) / at.step)) + 2.0, _MAX_NODES)
    nodes = 1 << max(4, int(np.ceil(np.log2(needed))))
    m = np.minimum(at.first + at.step * np.arange(nodes).reshape(-1, *[1] * n.ndim), n - 1.0)
    return {"nodes": nodes, "window": response_window(m + 1.0, local, max(orders))}


def mixture_rdp(
    num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float], nodes: int, window: int
) -> jax.Array:
    """Renyi divergences [A, L] of one round of shuffled eps-LDP reports, nats, rounded up: the module's formula.

    Girgis et al. 2021, Theorem 4, with the exact worst special pair (GI-X1, GI-X2). Upper bound, replace-one adjacency,
    both directions, real orders > 1; at most the unshuffled report's. Rounding and truncation are added: 4e-13 relative
    while `nodes` and `window` suffice. inf outside num_reports >= 1, local_epsilon >= 0.

    Args:
      num_reports, local_epsilon: float64 [L].
      orders, nodes, window: static, the sizes from `mixture_statics`.

    >>> from jaxacct._precision import Kernel
    >>> sizes = mixture_statics(10**6, 0.5, (4.0,))
    >>> float(Kernel(mixture_rdp, on_host=True)(10**6, 0.5, orders=(4.0,), **sizes)[0]).__round__(13)
    8.416779e-07
    """

    def special(clients: jax.Array, local: jax.Array) -> jax.Array:
        return response_log_excess(clients, local, powers=orders, window=window).upper

    return mixture_of(special, num_reports, local_epsilon, orders=orders, nodes=nodes)


def mixture_of(
    special: Callable[[jax.Array, jax.Array], jax.Array],
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    *,
    orders: Sequence[float],
    nodes: int,
) -> jax.Array:
    """Renyi divergences [A, L], rounded up: the sum over m of what `special` gives, and what that sum may miss.

    Upper bound where `special` gives upper ends of log(E*_{m+1} - 1) [A, K] for clients and local epsilons [K];
    Girgis et al. 2021, Theorem 4.

    Args:
      special: from (clients [K], local epsilon [K]) to [A, K].
      num_reports, local_epsilon: float64 [L].
      orders, nodes: static, the latter from `mixture_statics`.
    """
    usable = is_usable(num_reports, local_epsilon)
    n, local = xp.where(usable, num_reports, 1.0), xp.where(usable, local_epsilon, 1.0)
    at = MixtureLayout(*stop_gradient(mixture_layout(n, local, max(orders), _is_whole(orders))))
    q, rest = xp.exp(-local), -xp.expm1(-local)
    index = xp.arange(nodes, dtype=xp.int32).astype(xp.float64)[:, None]
    m = at.first + at.step * index
    inside = m <= n - 1.0
    m = xp.minimum(m, n - 1.0)
    weight = log_binomial_pmf(m, n - 1.0, q, rest)
    # rounding of the pmf, and of q, in which the sum is smooth: d log E / d log q is at most the order
    spread = 2.0**-50 * (32.0 + max(orders)) + pmf_rounding(xp.where(inside, weight, 0.0))
    weight = xp.where(inside, weight + xp.log(at.step) + spread, -xp.inf)
    each = special(m.reshape(-1) + 1.0, xp.broadcast_to(local, m.shape).reshape(-1))
    each = each.reshape(len(orders), *m.shape)
    log_total = log_up(log_sum_exp(weight + each, axis=1), 64.0 + nodes)

    a = xp.asarray(orders, xp.float64)[:, None]
    cap = single_log_cap(local, a)
    end = xp.minimum(at.first + at.step * (nodes - 1.0), n - 1.0)
    log_left = _log_tail(at.first - 1.0, n - 1.0, q, rest, left=True)
    log_right = _log_tail(end + 1.0, n - 1.0, q, rest, left=False)
    beyond = xp.minimum(each[:, -1], cap)  # E* falls with m
    single = xp.logaddexp(log_left + cap, log_right + beyond)
    # every h-th m: the values outside count h times more, with E* itself; aliases of E* and of 1; the mixture's cuts
    log_moment = softplus(xp.minimum(log_total, cap))
    tails = xp.logaddexp(log_left + softplus(cap), log_right + softplus(beyond)) + log1p(at.step) + xp.log(2.0)
    comb = xp.logaddexp(log_aliases(at.variance, at.step), at.log_cut) + xp.log(4.0) + log_moment
    error = xp.where(at.step > 1.0, xp.logaddexp(tails, comb), single)
    value = up(softplus(xp.minimum(xp.logaddexp(log_total, error), cap)) / (a - 1.0), 16)  # softplus 9, a quotient
    none = (local_epsilon == 0) & (num_reports >= 1)
    huge = (local_epsilon > LARGEST) & (num_reports >= 1)
    value = xp.where(usable & ~xp.isnan(value), value, xp.where(huge, local_epsilon, xp.inf))
    return xp.where(none, 0.0, value)


def _log_tail(k: jax.Array, n: jax.Array, p: jax.Array, rest: jax.Array, *, left: bool) -> jax.Array:
    """Log of Chernoff's bound [L] on P[Bin(n, p) <= k] (`left`) or P[Bin(n, p) >= k]."""
    possible = (k >= 0) if left else (k <= n)
    at = xp.clip(k, 0.0, n)
    beyond = (at < n * p) if left else (at > n * p)
    return xp.where(possible, xp.where(beyond, -binomial_rate(at, n, p, rest) + 2.0**-30, 0.0), -xp.inf)
