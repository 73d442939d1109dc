"""Renyi divergences and closed forms of random allocation, also of noise schedules and unfinished epochs.

Feldman & Shenfeld 2025, "Privacy amplification by random allocation". Add/remove adjacency, Gaussian noise of
multiplier sigma, t steps, k selected, E fresh epochs. Lemma 3.2 turns k-out-of-t into compositions of 1-out-of-n
(`jaxacct.composition.allocation_groups`). Y_i is the likelihood ratio of step i, and Q the law without the record.
Theorem 3.1 also holds for steps that differ and for every prefix of the outputs: the likelihood ratio is the mean X of
t independent ratios Y_i, 1 for the steps not yet done.

Shapes: A Renyi orders, L lanes. ``uneven`` is static and concerns `RandomAllocation` only: False promises that k
divides t, which halves the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct._method import orders_bytes
from jaxacct.composition import allocation_groups, compose_gaussian_mu, compose_rdp
from jaxacct.divergence.allocation._fractional import fractional_rdp
from jaxacct.divergence.allocation._laplace import laplace_rdp
from jaxacct.divergence.allocation._phases import Phases, whole_epoch
from jaxacct.divergence.allocation._powers import log_excess, rdp_from_log_excess
from jaxacct.divergence.gaussian._pair import gaussian_epsilon, gaussian_log_delta, gaussian_rdp
from jaxacct.mechanisms import PartialAllocation, RandomAllocation, ScheduledAllocation
from jaxacct.special import ULP, at_real_orders, log_sum_exp, up
from jaxacct.special._namespace import with_rows, xp

# The last exponents of the grids in log s (the third grid has all larger ones), and how many nodes each grid has.
_LAST_OF_GRID, _NODES_OF_GRID = (8.0, 64.0), (256, 384, 768)
# The same where noise differs or steps are yet to come.
_NODES_OF_OTHERS = (512, 512, 1024)

Allocated = RandomAllocation | PartialAllocation | ScheduledAllocation
_Runs = list[tuple[Phases, Any]]  # epochs in which a record joins one step, and how many there are [L]


def _unfinished(mechanism: PartialAllocation) -> _Runs:
    t = mechanism.num_steps
    return [(Phases((mechanism.mechanism.noise_multiplier,), (mechanism.steps_done,), t), xp.ones_like(t))]


def _scheduled(mechanism: ScheduledAllocation) -> _Runs:
    total = sum(mechanism.num_steps[1:], start=mechanism.num_steps[0])
    return [(Phases(mechanism.noise_multipliers, mechanism.num_steps, total), mechanism.num_epochs)]


_OTHERS: dict[type, Callable[[Any], _Runs]] = {PartialAllocation: _unfinished, ScheduledAllocation: _scheduled}


def _runs(mechanism: Any, uneven: bool) -> _Runs:
    """The epochs, each record in one step, of a mechanism of lanes (float64 [L] fields)."""
    if type(mechanism) in _OTHERS:
        return _OTHERS[type(mechanism)](mechanism)
    groups = allocation_groups(mechanism.num_steps, mechanism.num_selected, mechanism.num_epochs, uneven=uneven)
    return [(whole_epoch(mechanism.mechanism.noise_multiplier, g.num_steps), g.num_runs) for g in groups]


def uses(mechanism: RandomAllocation) -> Any:
    """A number or array [L]: how many times a record takes part, k in each of E epochs."""
    return mechanism.num_selected * mechanism.num_epochs


def lane_bytes(*, uneven: bool = False, orders: Sequence[float] = ()) -> int:
    """int: working memory of one lane, bytes; the same for uneven groups, which are worked on one after the other."""
    del uneven
    return orders_bytes(orders=orders)


def _revealed_rdp(phases: Phases, orders: Sequence[float]) -> jax.Array:
    """Renyi divergences [A, L] where the record's step is public: log of the mean of e^{a (a - 1)/(2 sigma_i^2)}."""
    a = xp.asarray(orders, xp.float64)[:, None]
    if phases.is_whole:
        return gaussian_rdp(a, up(1.0 / phases.noise_multipliers[0], 4))
    done = sum(phases.counts[1:], start=phases.counts[0])
    parts = [
        0.5 * a * (a - 1.0) / (sigma * sigma) + xp.log(count / phases.num_steps)
        for sigma, count in zip(phases.noise_multipliers, phases.counts, strict=True)
    ]
    idle = xp.maximum(phases.num_steps - done, 0.0) / phases.num_steps
    some = idle > 0
    parts.append(xp.where(some, xp.log(xp.where(some, idle, 1.0)), -xp.inf) + 0.0 * a)
    terms = xp.stack(parts)
    largest = xp.max(terms, axis=0)
    return up(xp.maximum(log_sum_exp(terms) + 8.0 * ULP * (16.0 + largest), 0.0) / (a - 1.0), 8)  # the quotient


def direct_remove_rdp(mechanism: Allocated, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up; for one step per record and epoch

        R_a = (1/(a-1)) log E_Q[((1/t) sum Y_i)^a].

    Feldman & Shenfeld 2025, Theorem 4.8, Corollary 4.10 and Lemma 3.2. At integer orders 1-out-of-t is exact up to
    rounding (1e-13 at small orders, below 1e-10 up to 256), by a power of a power series (RA-X1) where the paper sums
    over integer partitions; other schedules use Theorem 3.1, with cumulants added over the steps.
    At other orders the upper bound is the chord of (a-1) R_a, convex in a, between integers (`at_real_orders`). Never
    above the divergences where the record's steps are public. Any sigma > 0, 1 <= k <= t.
    """
    top = max(2, math.ceil(max(orders)))

    def curve(phases: Phases) -> jax.Array:
        at_whole = rdp_from_log_excess(log_excess(phases, max_order=top))
        return xp.minimum(at_real_orders(at_whole, range(2, top + 1), orders), _revealed_rdp(phases, orders))

    return compose_rdp((curve(phases), count) for phases, count in _runs(mechanism, uneven))


def fractional_remove_rdp(mechanism: Allocated, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], remove direction, rounded up, at the orders that Theorem 4.8 leaves out.

    Feldman & Shenfeld 2025, Theorem 3.1 (RA-X2), by the Laplace transform of the average likelihood ratio, with every
    error added: orders in (1, 2) for any sigma and, for whole epochs of equal noise, those in (2, 16) where
    sigma >= 0.25 (looser below, never above the chord of the integer orders); inf at other orders.
    """
    a = np.asarray(orders, np.float64)
    low, high = np.flatnonzero((a > 1.0) & (a < 2.0)), np.flatnonzero((a > 2.0) & (a < 16.0) & (a != np.floor(a)))

    def curve(phases: Phases) -> jax.Array:
        found = xp.full((len(a), phases.num_steps.shape[0]), xp.inf)
        if low.size:
            found = with_rows(found, low, _on_grids(mechanism, phases, -a[low]))
        if high.size and phases.is_whole:
            sigma, t = phases.noise_multipliers[0], phases.num_steps
            found = with_rows(found, high, fractional_rdp(sigma, t, orders=a[high].tolist()))
        return xp.where(xp.isfinite(found), xp.minimum(found, _revealed_rdp(phases, orders)), xp.inf)

    return compose_rdp((curve(phases), count) for phases, count in _runs(mechanism, uneven))


def laplace_add_rdp(mechanism: Allocated, *, orders: Sequence[float], uneven: bool = True) -> jax.Array:
    """Renyi divergences [A, L], add direction, rounded up, at any real order; for one step per record and epoch

        R_a = (1/(a-1)) log E_Q[((1/t) sum Y_i)^-(a-1)].

    Feldman & Shenfeld 2025, Theorem 3.1 (RA-X2): exact up to certified errors, and never above that of the geometric
    mean, by Theorem 4.9 and Corollary 4.10 as a Renyi curve, (b/2) (1 + (a-1)/t) with b the mean of 1/sigma_i^2 (0 for
    steps not done).
    """
    p = np.asarray(orders, np.float64) - 1.0

    def curve(phases: Phases) -> jax.Array:
        # besides the mean: a quotient, a sum, a product
        closed = up(0.5 * phases.mean_precision * (1.0 + xp.asarray(p)[:, None] / phases.num_steps), 8)
        return xp.minimum(_on_grids(mechanism, phases, p), closed)

    return compose_rdp((curve(phases), count) for phases, count in _runs(mechanism, uneven))


def _on_grids(mechanism: Allocated, phases: Phases, exponents: NDArray[Any]) -> jax.Array:
    """`laplace_rdp` [P, L]; for plain allocation, exponents that are far apart use different grids in log s.

    A grid must resolve Gamma(p + iy), so that its step shrinks like 1/sqrt(p), and reaches to about p/(sigma^2 t).
    """
    of, curve = np.searchsorted(_LAST_OF_GRID, exponents), xp.zeros((len(exponents), phases.num_steps.shape[0]))
    is_plain = type(mechanism) not in _OTHERS
    of = of if is_plain else np.full_like(of, of.max())
    rows = [np.flatnonzero(of == i) for i in np.unique(of)]
    nodes = [(_NODES_OF_GRID if is_plain else _NODES_OF_OTHERS)[i] for i in np.unique(of)]
    found = laplace_rdp(phases, exponents=[exponents[at].tolist() for at in rows], num_nodes=nodes)
    for at, part in zip(rows, found, strict=True):
        curve = with_rows(curve, at, part)
    return curve


def _closed_form_pair(mechanism: Allocated, uneven: bool) -> tuple[jax.Array, jax.Array]:
    """mu [L] and shift [L] of the Gaussian pair in `closed_form_add_log_delta`, both rounded up.

    Each of m groups of n steps gives N(1/(sigma sqrt n), 1) and a shift (1 - 1/n)/(2 sigma^2); both grow with m.
    (The released code leaves the shift at one group: below the truth, RA-P5.)
    """
    parts = [(phases.mean_noise, phases.num_steps, count) for phases, count in _runs(mechanism, uneven)]
    # three roundings in mu; five in the shift, whose difference loses no more than one (n = 1 gives 0)
    mu = compose_gaussian_mu((up(1.0 / (noise * xp.sqrt(n)), 8), count) for noise, n, count in parts)
    shift = compose_rdp(((0.5 * (1.0 - 1.0 / n) / (noise * noise))[None], count) for noise, n, count in parts)
    return mu, up(shift[0], 8)


def closed_form_add_log_delta(mechanism: Allocated, epsilon: jax.Array, *, uneven: bool = True) -> jax.Array:
    """log delta [L] at `epsilon` [L], add direction, upper bound: that of N(mu, 1) at epsilon - shift.

    Feldman & Shenfeld 2025, Theorem 4.9 with its two slips corrected, and Corollary 4.10 (RA-S14, RA-T3): the
    arithmetic mean of likelihood ratios is at least the geometric mean. If the noise differs between steps, the latter
    is lognormal too, as with equal noise of the mean precision 1/sigma^2. Any real epsilon; exact at t = 1; useless
    below the shift.
    """
    mu, shift = _closed_form_pair(mechanism, uneven)
    return gaussian_log_delta(epsilon - shift, mu)


def closed_form_add_epsilon(mechanism: Allocated, log_delta: jax.Array, *, uneven: bool = True) -> jax.Array:
    """epsilon [L] at `log_delta` [L], add direction, upper bound: that of N(mu, 1), plus the shift.

    The inverse of `closed_form_add_log_delta`.
    """
    mu, shift = _closed_form_pair(mechanism, uneven)
    return up(gaussian_epsilon(log_delta, mu) + shift, 8)  # the sum


def _revealed(mechanism: Allocated) -> tuple[jax.Array, jax.Array]:
    """log of the probability [L] that a record was used at all, and mu [L] of the least noise, composed over epochs.

    The probability is counted for one epoch only; for several the logarithm is 0.
    """
    [(phases, num_epochs)] = _runs(mechanism, uneven=False)
    done = sum(phases.counts[1:], start=phases.counts[0])
    worst = xp.min(xp.stack(phases.noise_multipliers), axis=0)
    log_share = xp.where(num_epochs == 1, xp.log(done / phases.num_steps) + 8.0 * ULP, 0.0)
    return xp.minimum(log_share, 0.0), compose_gaussian_mu([(up(1.0 / worst, 4), num_epochs)])


def revealed_log_delta(mechanism: Allocated, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` [L], both directions, upper bound: the record's step is public, its noise the least.

    Balle & Wang 2018, Theorem 8; after n of t steps of one epoch (n/t) delta_N(epsilon), by convexity. For epochs, one
    or more, of which a record joins one step each.
    """
    log_share, mu = _revealed(mechanism)
    return log_share + gaussian_log_delta(epsilon, mu)


def revealed_epsilon(mechanism: Allocated, log_delta: jax.Array) -> jax.Array:
    """epsilon [L] at `log_delta` [L], both directions, upper bound: `revealed_log_delta` inverted."""
    log_share, mu = _revealed(mechanism)
    target = log_delta - log_share
    return xp.where(target < 0, gaussian_epsilon(xp.minimum(target, -1e-12), mu), 0.0)
