"""Both ends of the clones pair's Renyi divergence at real orders, with work that does not grow with the reports.

With M = order - 1 and, for an outcome (a, b) of the pair, loss t = log((a + e b) / (b + e a)), e = e^-local_epsilon:

    (order - 1) D = log(1 + E psi),   psi = 2 sinh((M + 1) t/2) sinh(M t/2) / cosh(t/2) >= 0,

the mean over the pair's mean law (Chen et al. 2024, "Renyi Differential Privacy in the Shuffle Model: Enhanced
Amplification Bounds", Theorem 1 and Corollary 1, about the pair of their Proposition 1; the formulas printed there are
for another pair). Every term is positive, so that nothing cancels. `_renyi_nodes` says which outcomes are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxacct._jax import jax
from jaxacct._types import Ends
from jaxacct.divergence.clones._renyi_nodes import OutcomeGrid, Outcomes, outcome_grid, outcomes
from jaxacct.divergence.response._special_pair import SINGLE_ULPS, single_log_excess
from jaxacct.special import ULP, log1mexp, log1p, log_up, softplus, up
from jaxacct.special._namespace import cummax, fori_loop, lane_map, reverse_cummin, stop_gradient, xp

_MAX_LOCAL_EPSILON = 500.0  # beyond, only the bounds of a single report are given
_ROWS, _COLUMNS = 8, 32  # counts m, and values of b, of one tile: the outcomes that are summed at a time
_LARGEST_GRID = 2.0**26  # outcomes; a pair that needs more gets the bounds of a single report
_MOST_TERMS = 2.0**28  # outcomes times orders, some three seconds: the same
_LEAST_POWER = 2.0**-60  # M at order 1: there psi / M equals that of the Kullback-Leibler divergence to the last digit


def clones_rdp(
    orders: Sequence[float], num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array
) -> Ends[jax.Array]:
    """Lower and upper ends [A, L], nats, of the clones pair's Renyi divergences, both directions; order 1 is KL.

    Feldman, McMillan & Talwar 2021, Theorem 3.2 (CL-S14): with clone_prob = e^{-local_epsilon} the upper end is an
    upper bound for n shuffled reports of any local_epsilon-DP randomizers, replace-one adjacency; the lower end is one
    for the pair only.

    The relative width is at most 1e-12 + 5e-14 (order - 1) local_epsilon, nearly all of it the rounding booked: values
    are within 3e-14 of references up to n = 1e8 and order 10,000. The upper end is never above the divergence of one
    report alone, which is the answer where local_epsilon > 500 or the grid would exceed 7e7 outcomes, or 3e8 outcomes
    times orders (approximately: e^-local_epsilon n and (order - 1) local_epsilon both beyond 1e5). Both ends are
    monotone in the order. Outside the domain they are 0 and inf.

    Args:
      orders: static, each >= 1, in any order.
      num_reports: n >= 1, [L].
      clone_prob: p in [0, 1], [L], taken as exact.
      local_epsilon: >= 0, [L].
    """
    powers = xp.asarray([max(a - 1.0, _LEAST_POWER) for a in orders], xp.float64)[:, None]
    known = (num_reports >= 1) & (num_reports < xp.inf) & (clone_prob >= 0) & (clone_prob <= 1) & (local_epsilon >= 0)
    positive = known & (local_epsilon > 0)
    local = xp.where(positive, local_epsilon, 1.0)
    # as `single_log_cap`, whose order would be 1 here
    single = softplus(log_up(single_log_excess(local, powers), SINGLE_ULPS))
    single = xp.minimum(up(single / powers, 16), local)  # softplus 9, a quotient
    summed = positive & (local <= _MAX_LOCAL_EPSILON)
    n, p, local = (
        xp.where(summed, x, 1.0) for x in (xp.floor(num_reports), clone_prob, xp.minimum(local, _MAX_LOCAL_EPSILON))
    )
    grid = outcome_grid(n, p, local, top_order=max(orders))
    size = grid.num_rows * grid.num_columns(grid.first_row + grid.row_step * grid.num_rows)
    summed = summed & (size <= min(_LARGEST_GRID, _MOST_TERMS / len(orders)))
    grid = grid._replace(num_rows=xp.where(summed, grid.num_rows, 0.0))
    # lane by lane: each takes only its own time, and the memory is that of a single one
    log_excess = lane_map(lambda lane: _log_excess(powers[:, 0], lane), _Lane(grid, n, p, local)).T
    # docs/numerics/clones.md, "Sums over clones": of the loss and of the weights, M times over, of 8 additions for each
    # tile
    sizes = 96.0 * (xp.abs(log_excess) + log1p(size)) + 120.0 * powers * local + size / _COLUMNS
    rounding = ULP * stop_gradient(1024.0 + sizes)
    log_error = xp.logaddexp(grid.log_relative_error + softplus(log_excess), grid.log_missing)
    log_error = log_error + xp.log(xp.minimum(powers, 1.0))
    upper = softplus(xp.logaddexp(log_excess + rounding, log_error)) / powers
    gap = xp.minimum(log_error - log_excess, -1e-9)
    lower = softplus(log_excess - rounding + log1mexp(gap)) / powers
    upper = xp.where(summed & (upper <= single), upper, xp.where(known, single, xp.inf))
    lower = xp.where(summed & (log_error < log_excess), xp.minimum(lower, upper), 0.0)
    bracket = _monotone(orders, Ends(lower, upper))
    degenerate = known & (local_epsilon == 0)
    return Ends(*(xp.where(degenerate, 0.0, end) for end in bracket))


def _monotone(orders: Sequence[float], bracket: Ends[jax.Array]) -> Ends[jax.Array]:
    """The bracket [A, L], each end tightened by the monotonicity of the divergence in the order."""
    rising = np.argsort(np.asarray(orders), kind="stable")
    back = np.argsort(rising, kind="stable")
    lower = cummax(bracket.lower[rising])[back]
    upper = reverse_cummin(bracket.upper[rising])[back]
    return Ends(lower, upper)


class _Lane(NamedTuple):
    """One pair and the outcomes to sum, each a scalar."""

    grid: OutcomeGrid
    num_reports: jax.Array
    clone_prob: jax.Array
    local_epsilon: jax.Array


class _Sums(NamedTuple):
    """Sums [A] of terms, as multiples of e^top, the largest exponent so far."""

    top: jax.Array
    total: jax.Array


def _log_excess(powers: jax.Array, lane: _Lane) -> jax.Array:
    """Log of E psi over the grid, [A], summed tile by tile; a large negative number where the grid is empty."""
    rows = xp.arange(_ROWS, dtype=xp.int32).astype(xp.float64)
    columns = xp.arange(_COLUMNS, dtype=xp.int32).astype(xp.float64)
    grid = lane.grid

    def add(at: Outcomes, sums: _Sums) -> _Sums:
        # outcomes last: XLA's CPU backend sums along the minor axis ten times faster than along the first
        growth = powers[:, None] * at.loss
        exponent = at.log_weight + growth
        top = stop_gradient(xp.maximum(sums.top, xp.max(exponent, axis=-1)))
        rise = -xp.expm1(-growth)
        terms = xp.exp(exponent - top[:, None]) * rise * (xp.exp(-at.loss) * rise - xp.expm1(-at.loss))
        return _Sums(top, sums.total * xp.exp(sums.top - top) + xp.sum(terms, axis=-1))

    # a tile's outcomes wait one turn in the loop's state: else XLA computes them again for each order
    def next_tile(row: jax.Array, column: jax.Array, state: tuple[Outcomes, _Sums]) -> tuple[Outcomes, _Sums]:
        at = outcomes(grid, row + rows, column + columns, lane.num_reports, lane.clone_prob, lane.local_epsilon)
        return at, add(*state)

    def next_rows(block: jax.Array, state: tuple[Outcomes, _Sums]) -> tuple[Outcomes, _Sums]:
        row = (block * _ROWS).astype(xp.float64)
        last = grid.first_row + grid.row_step * xp.minimum(row + (_ROWS - 1.0), grid.num_rows - 1.0)
        blocks = xp.ceil(grid.num_columns(last) / _COLUMNS).astype(xp.int32)
        return fori_loop(0, blocks, lambda k, state: next_tile(row, (k * _COLUMNS).astype(xp.float64), state), state)

    zero = 0.0 * lane.num_reports  # an array of the lane's kind (NumPy or JAX), which decides whose loops are used
    none = xp.zeros(_ROWS * _COLUMNS) + zero
    start = Outcomes(none - xp.inf, none), _Sums(xp.full_like(powers, -1e5) + zero, xp.zeros_like(powers) + zero)
    blocks = xp.ceil(grid.num_rows / _ROWS).astype(xp.int32)
    top, total = add(*fori_loop(0, blocks, next_rows, start))
    some = total > 0
    return xp.where(some, top + xp.log(xp.where(some, total, 1.0)), -1e5)
