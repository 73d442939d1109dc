"""Renyi divergences and closed forms of random allocation.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation". Add/remove adjacency, Gaussian noise of
multiplier sigma, t steps, k selected, E fresh epochs. Lemma 3.2 turns k-out-of-t into compositions of 1-out-of-n
(`jaxacct.composition.allocation_groups`). Y_i is the likelihood ratio of step i, and Q the law without the record.
Shapes: A Renyi orders, L lanes. ``uneven`` is static: False promises that k divides t, which halves the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxacct._jax import jax
from jaxacct._method import orders_bytes
from jaxacct.bounds.gaussian import unamplified_rdp
from jaxacct.composition import allocation_groups, compose_gaussian_mu, compose_rdp
from jaxacct.divergence.allocation._fractional import fractional_rdp
from jaxacct.divergence.allocation._laplace import laplace_rdp
from jaxacct.divergence.allocation._powers import gaussian_log_excess, rdp_from_log_excess
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta
from jaxacct.mechanisms import RandomAllocation
from jaxacct.special import at_real_orders, up
from jaxacct.special._namespace import with_rows, xp

# Exponents up to each of these share a grid in log s, of as many nodes as below.
_LAST_OF_GRID, _NODES_OF_GRID = (8.0, 64.0), (256, 384, 768)


def uses(mechanism: RandomAllocation) -> Any:
    """A number or array [L]: how many times a record takes part, k in each of E epochs."""
    return mechanism.num_selected * mechanism.num_epochs


def lane_bytes(*, uneven: bool, orders: Sequence[float] = ()) -> int:
    """int: working memory of one lane, bytes; the same for uneven groups, which are worked on one after the other."""
    del uneven
    return orders_bytes(orders=orders)


def direct_remove_rdp(mechanism: RandomAllocation, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up: of 1-out-of-t

        R_a = (1/(a-1)) log E_Q[((1/t) sum Y_i)^a].

    Feldman & Shenfeld 2025, Theorem 4.8, Corollary 4.10 and Lemma 3.2. At integer orders, 1-out-of-t, exact up to
    rounding, 1e-13 at small orders and below 1e-10 to 256, by a power of a power series (RA-X1) where the paper sums
    over integer partitions.
    At other orders the chord of (a-1) R_a, convex in a, between integers: an upper bound (`at_real_orders`). Never
    above the unamplified Gaussian's. Any sigma > 0, 1 <= k <= t.
    """
    top = max(2, math.ceil(max(orders)))
    sigma = mechanism.mechanism.noise_multiplier
    groups = allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)
    rdps = [rdp_from_log_excess(gaussian_log_excess(sigma, g.num_steps, max_order=top)) for g in groups]
    whole = compose_rdp((rdp, g.num_runs) for rdp, g in zip(rdps, groups, strict=True))
    curve = at_real_orders(whole, range(2, top + 1), orders)
    return xp.minimum(curve, unamplified_rdp(mechanism.mechanism, uses(mechanism), orders=orders))


def fractional_remove_rdp(mechanism: RandomAllocation, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up, at the orders that Theorem 4.8 leaves out.

    Feldman & Shenfeld 2025, Theorem 3.1 (RA-X2), by the Laplace transform of the average likelihood ratio, every error
    added: orders in (1, 2) for any sigma, those in (2, 16) where sigma >= 0.25 (looser below, never above the chord of
    the integer orders); inf at other orders.
    """
    a = np.asarray(orders, np.float64)
    low, high = np.flatnonzero((a > 1.0) & (a < 2.0)), np.flatnonzero((a > 2.0) & (a < 16.0) & (a != np.floor(a)))
    curve = xp.full((len(a), mechanism.num_steps.shape[0]), xp.inf)
    if low.size:
        curve = with_rows(curve, low, _laplace_rdp(mechanism, tuple((-a[low]).tolist()), uneven=uneven))
    if high.size:
        groups = allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)
        sigma, between = mechanism.mechanism.noise_multiplier, a[high].tolist()
        parts = [(fractional_rdp(sigma, g.num_steps, orders=between), g.num_runs) for g in groups]
        curve = with_rows(curve, high, compose_rdp(parts))
    if not low.size and not high.size:
        return curve
    return xp.where(
        xp.isfinite(curve),
        xp.minimum(curve, unamplified_rdp(mechanism.mechanism, uses(mechanism), orders=orders)),
        curve,
    )


def laplace_add_rdp(mechanism: RandomAllocation, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, at any real order: of 1-out-of-t

        R_a = (1/(a-1)) log E_Q[((1/t) sum Y_i)^-(a-1)].

    Feldman & Shenfeld 2025, Theorem 3.1 (RA-X2): exact up to certified errors, and never above the closed form of
    Corollary 4.10 as a Renyi curve, (1/(2 sigma^2)) (1 + (a-1)/t).
    """
    exact = _laplace_rdp(mechanism, tuple(float(a) - 1.0 for a in orders), uneven=uneven)
    return xp.minimum(exact, closed_form_add_rdp(mechanism, orders=orders, uneven=uneven))


def _laplace_rdp(mechanism: RandomAllocation, exponents: tuple[float, ...], *, uneven: bool) -> jax.Array:
    sigma = mechanism.mechanism.noise_multiplier
    groups = allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)
    parts = [(_on_grids(sigma, g.num_steps, exponents), g.num_runs) for g in groups]
    return compose_rdp(parts)


def _on_grids(sigma: jax.Array, num_steps: jax.Array, exponents: tuple[float, ...]) -> jax.Array:
    """`laplace_rdp` [P, L], exponents that are far apart on different grids in log s.

    A grid must resolve Gamma(p + iy), so that its step shrinks like 1/sqrt(p), and reaches to about p/(sigma^2 t).
    """
    p = np.asarray(exponents)
    of, curve = np.searchsorted(_LAST_OF_GRID, p), xp.zeros((len(p), sigma.shape[0]))
    rows = [np.flatnonzero(of == i) for i in np.unique(of)]
    nodes = [_NODES_OF_GRID[i] for i in np.unique(of)]
    for at, found in zip(
        rows, laplace_rdp(sigma, num_steps, exponents=[p[at].tolist() for at in rows], num_nodes=nodes), strict=True
    ):
        curve = with_rows(curve, at, found)
    return curve


def closed_form_add_rdp(mechanism: RandomAllocation, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, from the geometric mean: of each run of 1-out-of-n

        R_a <= (1/(2 sigma^2)) (1 + (a-1)/n).

    Feldman & Shenfeld 2025, Theorem 4.9. Upper bound; exact at n = 1. Any order a > 1.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    sigma = mechanism.mechanism.noise_multiplier
    groups = allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)
    single = 0.5 / (sigma * sigma)
    # five roundings: a square, two quotients, a sum, a product
    return compose_rdp((up(single * (1.0 + (a - 1.0) / g.num_steps), 8), g.num_runs) for g in groups)


def _closed_form_pair(mechanism: RandomAllocation, *, uneven: bool) -> tuple[jax.Array, jax.Array]:
    """mu [L] and shift [L] of the Gaussian pair in `closed_form_add_log_delta`, both rounded up.

    Each of m groups of n steps gives N(1/(sigma sqrt n), 1) and a shift (1 - 1/n)/(2 sigma^2); both grow with m.
    (The released code leaves the shift at one group: below the truth, RA-P5.)
    """
    sigma = mechanism.mechanism.noise_multiplier
    groups = allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)
    # three roundings in mu; five in the shift, whose difference loses no more than one (n = 1 gives 0)
    mu = compose_gaussian_mu((up(1.0 / (sigma * xp.sqrt(g.num_steps)), 8), g.num_runs) for g in groups)
    shift = compose_rdp(((0.5 * (1.0 - 1.0 / g.num_steps) / (sigma * sigma))[None], g.num_runs) for g in groups)
    return mu, up(shift[0], 8)


def closed_form_add_log_delta(mechanism: RandomAllocation, epsilon: jax.Array, *, uneven: bool = True) -> jax.Array:
    """log delta [L] at `epsilon` [L], add direction, upper bound: that of N(mu, 1) at epsilon - shift.

    Feldman & Shenfeld 2025, Theorem 4.9 with its two slips corrected, and Corollary 4.10 (RA-S14, RA-T3): the
    arithmetic mean of likelihood ratios is at least the geometric one. Any real epsilon; exact at t = 1; useless below
    the shift.
    """
    mu, shift = _closed_form_pair(mechanism, uneven=uneven)
    return gaussian_log_delta(epsilon - shift, mu)


def closed_form_add_epsilon(mechanism: RandomAllocation, log_delta: jax.Array, *, uneven: bool = True) -> jax.Array:
    """epsilon [L] at `log_delta` [L], add direction, upper bound: that of N(mu, 1), plus the shift.

    The inverse of `closed_form_add_log_delta`.
    """
    mu, shift = _closed_form_pair(mechanism, uneven=uneven)
    return up(gaussian_epsilon(log_delta, mu) + shift, 8)  # the sum
