"""delta(epsilon) of a composition from the complex moments of its rounds, by one contour integral, certified.

P and Q are the outputs of the whole composition on two neighbouring datasets, the delta bounded is that of P against
Q, and M(s) = E_Q[(dP/dQ)^s] is the product of its rounds' moments. For a > 1 (RA-X4),

    delta(eps) = (1/2 pi i) int_{Re s = a} M(s) e^{eps (1 - s)} / (s (s - 1)) ds.

The only discretisation error of the trapezoid rule with step h = 2 pi / T is aliasing (Poisson summation): the infinite
sum is *exactly*

    sum_j e^{(a - 1) j T} delta(eps + j T),    j over all integers,

every term of which is non-negative. The term j = 0 is delta(eps); the others are the aliases, each with an elementary
bound. So the sum is an upper bound on delta(eps), and the sum less the bounds on the aliases is a lower bound. Two
errors remain: truncation, that is, the nodes left out beyond the last one, which is bounded by the decay of |M|; and
rounding. Renyi accounting is the saddle-point bound on this integral.

All of this is computed by NumPy on the host.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._types import Ends
from jaxacct.special import ULP, cos_and_sin, log_one_minus_inverse, rows_times, turn

# All of these affect speed and tightness only: every end is certified whatever their values.
ALIAS_FACTORS = (1.1, 1.25, 1.5, 2.0)  # (c - 1) / (a - 1): orders c whose moments bound the aliases j > 0
_MOST_NEWTON = 60  # largest number of Newton steps towards epsilon
_STANDS_STILL = 1e-13  # relative: a smaller step ends Newton's method
_MISSED = 0.01  # a residual below this share of the bound on the sum's error ends it too
_LONG = 2048  # number of nodes of a single line above which the nodes' phase factors are products of a few
_SLACKS = (1.0, 1e2, 1e4, 1e6)  # distances from Newton's root, over its estimated error, at which an end is tried

Real = np.ndarray[Any, np.dtype[np.float64]]


class Line(NamedTuple):
    """The contour: the vertical line Re s = `order` of each of L lanes, its N nodes, and where M is bounded."""

    order: Real  # [L], a > 1
    period: Real  # [L], T, in units of epsilon
    heights: Real  # [N, L]: the nodes are s = order + i heights, 2 pi / period apart, the first on the real axis
    used: Any  # bool [N, L]: the nodes that enter the sum
    edges: Real  # [K, L]: heights between which the decay of M is bounded; the first is the first node left out
    alias_orders: Real  # [J, L]: real orders c > a at which log M is wanted, to bound the aliases


class LineMoments(NamedTuple):
    """What is known of log M(s) on a `Line`. For independent rounds the entries of a kind add up."""

    log_modulus: Real  # [N, L]: log |M| at the nodes
    phase: Real  # [N, L]: the argument of M at the nodes, radians, not reduced to (-pi, pi]
    error: Real  # [N, L]: the relative error of M at the nodes is at most expm1(error)
    log_alias: Real  # [J, L]: upper bounds on log M at the alias orders
    log_decay: Real  # [K, L]: upper bounds on log |M(a + ib) / M(a)|, b from an edge to the next, or beyond the last


class _Sum(NamedTuple):
    """A trapezoid sum, its slope in epsilon and its error, [L] each: see `_trapezoid`."""

    value: Real
    slope: Real
    error: Real


class _Summands(NamedTuple):
    """The part of the trapezoid sum that does not depend on epsilon, divided by M(a), which keeps summands near 1."""

    log_scale: Real  # [L], log M(a)
    phase: Real  # [N, L]
    real: Real  # [N, L]: M(s) / (s (s - 1)) without the phase of M, times the step over pi
    imag: Real  # [N, L]
    error: Real  # [L]: bound on the error of the sum by rounding, by the moments' errors and by the nodes left out
    error_rate: Real  # [L]: the part of this bound that grows with epsilon, per unit of epsilon
    table: Any  # None, or real + i imag times the phase factor of M, at the nodes of one long lane row by row [R, C]


def _summands(line: Line, moments: LineMoments) -> _Summands:
    a, b = line.order, line.heights
    size = np.exp(moments.log_modulus - moments.log_modulus[0]) * np.where(b == 0, 0.5, 1.0)
    size = np.where(line.used, size, 0.0) * (2.0 / line.period)
    # 1 / (s (s - 1)) = (a - ib)(a - 1 - ib) / (|s|^2 |s - 1|^2)
    weight = size / ((a * a + b * b) * ((a - 1.0) ** 2 + b * b))
    real, imag = weight * (a * (a - 1.0) - b * b), -weight * b * (2.0 * a - 1.0)
    modulus = np.hypot(real, imag)
    # some 30 ULP of a term, and the error of pairwise summation
    rounding = 2.0**-50 * (16.0 + np.abs(moments.phase) + np.abs(moments.log_modulus))
    table = None
    if b.shape[1] == 1 and b.shape[0] > _LONG:
        columns = math.isqrt(b.shape[0])
        filled = np.zeros(-(-b.shape[0] // columns) * columns, np.complex128)
        filled[: b.shape[0]] = ((real + 1j * imag) * turn(moments.phase))[:, 0]
        table = filled.reshape(-1, columns)
        rounding = rounding + ULP * (64.0 + 2.0 * columns)  # two more turns, and sums of rows in any order
    spread = np.where(line.used, np.expm1(np.minimum(moments.error, 300.0)) + rounding, 0.0)
    error = np.sum(modulus * spread, axis=0)
    # beyond the last node: |M| is at most the largest bound of the decay table, |1 / (s (s - 1))| at most 1 / b^2, and
    # the sum of 1/k^2 from N on is below 1/(N - 1/2)
    first = line.edges[0] - np.pi / line.period
    error = error + np.exp(np.max(moments.log_decay, axis=0)) / (np.pi * first)
    rate = 2.0**-50 * np.sum(modulus * b, axis=0)
    return _Summands(moments.log_modulus[0], moments.phase, real, imag, error, rate, table)


def _added_up(terms: Any) -> Any:
    """The sum [L] of `terms` [N, L]; NumPy sums pairwise only along the contiguous axis."""
    total: Real = np.ascontiguousarray(terms.T).sum(axis=-1)
    return total


def _trapezoid(line: Line, of: _Summands, epsilon: Real) -> _Sum:
    """The sum, its derivative in epsilon, and a bound on its distance from the exact sum, aliases included.

    Each is [L] and divided by e^shift (`_shift`).
    """
    if of.table is not None:
        value, slope = _by_table(line, of.table, epsilon)
        return _Sum(value, slope, of.error + np.abs(epsilon) * of.error_rate)
    angle = of.phase - epsilon * line.heights
    cos, sin = cos_and_sin(angle)
    term = of.real * cos - of.imag * sin
    # times 1 - s for the slope: (1 - a) - ib
    other = of.real * sin + of.imag * cos
    value = _added_up(term)
    slope = (1.0 - line.order) * value + np.sum(line.heights * other, axis=0)
    return _Sum(value, slope, of.error + np.abs(epsilon) * of.error_rate)


def _by_table(line: Line, table: Any, epsilon: Any) -> tuple[Any, Any]:
    """The sum and its derivative at each of `epsilon` [P], for one lane.

    The phase factor of a node is that of its row times that of its column.
    """
    step = line.heights[1, 0]
    rows, columns = (np.arange(n) for n in table.shape)
    by_column, by_row = (turn(-np.multiply.outer(epsilon, step * n)) for n in (columns, table.shape[1] * rows))
    sums, weighted = (
        np.stack([rows_times(table, x * weight) for x in by_column]) * by_row for weight in (1.0, step * columns)
    )
    value = sums.sum(-1).real
    heights = step * table.shape[1] * rows
    # times 1 - s for the slope: (1 - a) - ib
    return value, (1.0 - line.order) * value + (weighted + heights * sums).sum(-1).imag


def _shift(line: Line, of: _Summands, epsilon: Real) -> Real:
    """log M(a) + eps (1 - a), [L]: the logarithm of the size of the summands."""
    return of.log_scale + epsilon * (1.0 - line.order)


def _slack(line: Line, of: _Summands, epsilon: Real) -> Real:
    """Bound [L] on the rounding error of the shift, whose terms may far exceed it, and of a logarithm near it."""
    return 2.0**-48 * (1.0 + np.abs(of.log_scale) + np.abs(epsilon) * (line.order - 1.0))


def _aliases(line: Line, moments: LineMoments, epsilon: Real) -> Real:
    """log of a bound on sum over j != 0 of e^{(a-1) j T} delta(eps + j T), [L].

    For j < 0 delta <= 1. For j > 0 delta(e) <= e^{log M(c) - (c-1) e} (1 - 1/c)^(c-1) / c at any order c > 1, and the
    sum over j converges for c > a; the least bound over the alias orders is taken. The rounding error of a term, sums
    included, is at most 27 ULP of 1 or of its own size; 32 are added.
    """
    a, c = line.order, line.alias_orders
    constant = (c - 1.0) * log_one_minus_inverse(c) - np.log(c)
    bound = moments.log_alias - (c - 1.0) * epsilon + constant
    sizes = 1.0 + np.abs(moments.log_alias) + (c - 1.0) * np.abs(epsilon) + np.log(c)
    right = np.min(bound + 2.0**-48 * sizes + _log_geometric((c - a) * line.period), axis=0)
    return np.logaddexp(2.0**-48 + _log_geometric((a - 1.0) * line.period), right)


def _log_geometric(fall: Real) -> Real:
    """log of the sum of e^(-j fall) over j >= 1, rounded up by 2^-48 of its two terms' sizes."""
    rest = -np.log(-np.expm1(-fall))
    return rest - fall + 2.0**-48 * (fall + rest)


def delta_ends(line: Line, moments: LineMoments, epsilon: Real) -> Ends[Real]:
    """`Ends` [L]: certified lower and upper bounds on log delta at `epsilon` [L]; (-inf, 0) where there are none."""
    return _delta_ends(line, moments, _summands(line, moments), epsilon)


def _delta_ends(line: Line, moments: LineMoments, of: _Summands, epsilon: Real) -> Ends[Real]:
    found, shift = _trapezoid(line, of, epsilon), _shift(line, of, epsilon)
    slack = _slack(line, of, epsilon)
    above = np.maximum(found.value, 0.0) + found.error
    aliases = np.exp(np.minimum(_aliases(line, moments, epsilon) - shift, 700.0))
    below = found.value - found.error - aliases
    upper = np.where(above < np.inf, np.log(above) + shift + slack, 0.0)
    lower = np.where(below > 0, np.log(np.where(below > 0, below, 1.0)) + shift - slack, -np.inf)
    ok = ~np.isnan(upper) & ~np.isnan(lower)
    return Ends(np.where(ok, np.minimum(lower, 0.0), -np.inf), np.where(ok, np.minimum(upper, 0.0), 0.0))


def epsilon_ends(line: Line, moments: LineMoments, log_delta: Real, start: Real) -> Ends[Real]:
    """`Ends` [L]: certified bounds on the least epsilon >= 0 with delta(epsilon) <= exp(`log_delta`) [L].

    Newton's method on log delta from `start` [L] finds a root, which certifies nothing. Then `delta_ends` is evaluated
    at several distances on either side of the root, and at 0. The upper end is the least point at which the upper bound
    on delta is at most the target, inf if there is none; the lower end is the largest point at which the lower bound on
    delta is at least the target, 0 if there is none.
    """
    of = _summands(line, moments)

    def newton(_: int, state: tuple[Real, Real, Real]) -> tuple[Real, Real, Real]:
        low, high, epsilon = state
        found = _trapezoid(line, of, epsilon)
        usable = (found.value > 0) & (found.slope < 0)
        residual = np.log(np.where(usable, found.value, 1.0)) + _shift(line, of, epsilon) - log_delta
        too_far = ~usable | (residual < 0)
        low, high = np.where(too_far, low, epsilon), np.where(too_far, epsilon, high)
        moved = epsilon - residual * found.value / np.where(usable, found.slope, -1.0)
        # at the root itself rounding may point out of the bracket
        inside = usable & (moved >= low * (1.0 - 2.0**-40)) & (moved <= high * (1.0 + 2.0**-40))
        moved = np.where(inside, np.clip(moved, low, high), 0.5 * (low + high))
        # the iteration stops where a point no longer moves
        missing = np.abs(np.expm1(-residual)) * found.value
        moved = np.where(usable & (missing <= _MISSED * found.error), epsilon, moved)
        return low, high, moved

    # the start may lie below the root
    root = _last_of_newton(newton, (np.zeros_like(start), 8.0 * start + 64.0 / (line.order - 1.0), start))
    found, shift = _trapezoid(line, of, root), _shift(line, of, root)
    aliases = np.exp(np.minimum(_aliases(line, moments, root) - shift, 700.0))
    errors = found.error + 4.0 * _slack(line, of, root) * found.value
    # aliases only raise the sum
    above, below = (1.1 * e / np.maximum(-found.slope, 1e-300) + 2.0**-50 * root for e in (errors, errors + aliases))
    slacks = np.asarray(_SLACKS, np.float64)[:, None]
    outer = np.concatenate([np.zeros_like(root)[None], root + slacks * above])
    inner = np.maximum(root - slacks * below, 0.0)

    def ends(epsilon: Real) -> Ends[Real]:
        return _delta_ends(line, moments, of, epsilon)

    if root.shape[0] > 1:
        return _first_that_hold(ends, outer, inner, log_delta)
    tried = np.concatenate([outer, inner])
    # the one lane of a single question broadcasts with all points
    log_ends = Ends(*(x[:, None] for x in ends(tried[:, 0])))
    fits = log_ends.upper[: outer.shape[0]] <= log_delta
    holds = log_ends.lower[outer.shape[0] :] >= log_delta
    upper = np.min(np.where(fits, outer, np.inf), axis=0)
    return Ends(np.max(np.where(holds, inner, 0.0), axis=0), upper)


def _first_that_hold(ends: Any, outer: Any, inner: Any, log_delta: Any) -> Ends[Any]:
    """The least of `outer` [.., L], increasing from 0, and the largest of `inner` that are certified; few are tried."""
    upper, lower = np.full(outer.shape[1], np.inf), np.zeros(outer.shape[1])
    for row in outer[1:]:
        upper = np.where((upper == np.inf) & (ends(row).upper <= log_delta), row, upper)
        if np.isfinite(upper).all():
            break
    for row in inner:
        lower = np.where((lower == 0.0) & (ends(row).lower >= log_delta), row, lower)
        if (lower > 0.0).all():
            return Ends(lower, upper)  # delta at 0 is no less than the target
    return Ends(lower, np.where(ends(outer[0]).upper <= log_delta, 0.0, upper))


def _last_of_newton(step: Any, state: Any) -> Any:
    """The last points of Newton's method, each stopped where it no longer moves."""
    is_done: Any = np.zeros(np.shape(state[2]), bool)
    for i in range(_MOST_NEWTON):
        before = state[2]
        state = tuple(np.where(is_done, old, new) for old, new in zip(state, step(i, state), strict=True))
        is_done = is_done | (np.abs(state[2] - before) <= _STANDS_STILL * before)
        if is_done.all():
            break
    return state[2]
