"""The outcomes of the clones pair that are summed for its Renyi divergence, and bounds on the others' contribution.

An outcome is (m, b): m = C + 1 relevant reports, b of them with the second label, a = m - b with the first. Under the
mean law W of the pair, m - 1 ~ Bin(n - 1, p) and b | m ~ Bin(m, 1/2). The summands are W psi, where with M = order - 1

    phi = (1+u)^order (1-u)^-M,  u = s (a-b)/m,  s = tanh(local_epsilon/2),    psi = (phi(u) + phi(-u))/2 - 1.

The outcomes left out contribute, with S = E phi = e^(M D):

* m > m_hi: at most E psi P[m > m_hi], since E[psi | m] decreases in m (a convex function of a mean of m signs).
* a and b both below a_lo: at most S P[a < a_lo]. W is totally positive in (a, -b), hence these are associated, and phi
  increases in both.
* b < b_lo where m <= m_hi: in slices, P[b < top] 2 phi at the end (bottom, m_hi).
* m < m_lo: the two cases before if m_lo <= a_lo + b_lo; else at most P[m < m_lo] 2 e^(M local_epsilon).

Where the counts are large, sums take every `step`-th m, or b. For a function f on a line with
|f(x + i y)| <= e^(k y^2 / 2) f(x) such a sum equals that over the integers up to 2 / sinh(2 pi^2 / (step^2 k)) of
itself and a multiple of f at the ends (the trapezoid rule's contour integral; the sum over the integers is step = 1).
Here 1 / |Gamma(1+x+iy)| <= e^(y^2 / (2x+1)) / Gamma(1+x), and of phi:

* along b, the mean of phi(u) and phi(-u) is sqrt(1-u^2) cosh((2M+1) atanh u): k = 1/a + 1/b + (1/a^2 + 1/b^2)/2;
* along m, phi = U^order V^-M / m with U = (1+s) a + (1-s) b and V = (1-s) a + (1+s) b, so that
  k = 1/a + 1/(n-m) + (1 + 8 s M/(1+s)^2) / a^2.

Only the last term depends on the order. For orders below 2 all errors carry a factor M (Schwarz's lemma).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxacct._jax import jax
from jaxacct.special import log1p, softplus, tanh
from jaxacct.special._binomial import binomial_rate, log_binomial_pmf
from jaxacct.special._fair_coins import log_fair_pmf
from jaxacct.special._namespace import stop_gradient, xp

_DIGITS = 40.0  # natural logarithms: windows and steps are chosen for errors of e^-40 of the smallest divergence
_NUM_SLICES = 96  # slices in which the outcomes below the grid are bounded: more let the grid start a little later
_LEAST_STRIDED = 16.0  # counts from which on only every `step`-th is summed; the resulting errors are bounded


class OutcomeGrid(NamedTuple):
    """The outcomes to sum: rows m = `first_row` + i `row_step`, and in each row some values of b.

    These are b = `lowest` + j or, where `strided`, b = m/2 - `step` (j + 1/2).
    """

    first_row: jax.Array
    row_step: jax.Array
    num_rows: jax.Array
    lowest: jax.Array
    step: jax.Array
    strided: jax.Array
    log_relative_error: jax.Array  # of the sum, as a multiple of min(1, M) S
    log_missing: jax.Array  # b below `lowest`: an upper bound at the highest order, as a multiple of min(1, M)

    def num_columns(self, row: jax.Array) -> jax.Array:
        """The number of values of b in each row m."""
        strided = xp.floor((0.5 * row - self.lowest) / self.step + 1.0)
        return xp.maximum(xp.where(self.strided, strided, xp.ceil(0.5 * row) - self.lowest), 0.0)


def _deviation(digits: jax.Array, variance: jax.Array) -> jax.Array:
    """A t with P[X - E X >= t] <= e^-digits for a sum X of independent variables in [0, 1]: Bernstein's inequality."""
    return digits / 3.0 + xp.sqrt(digits * digits / 9.0 + 2.0 * digits * variance)


def outcome_grid(
    num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, top_order: float
) -> OutcomeGrid:
    """The outcomes to sum, scalars or [L], for all orders up to `top_order` (static); constant under differentiation.

    Its `log_relative_error` and `log_missing` bound the contribution of the other outcomes: they are part of the
    certificate.
    """
    n, p, local = stop_gradient((num_reports, clone_prob, local_epsilon))
    power = max(top_order, 2.0) - 1.0
    others, contrast = n - 1.0, tanh(0.5 * local)
    # E psi at order 2 is about 4 s^2 E[1/m] and at least a quarter of that for all others, over min(1, M)
    smallest = xp.maximum(contrast * contrast / (1.0 + others * p), 1e-60)
    digits = _DIGITS + log1p(1.0 / smallest) + 0.5 * log1p(others * p)
    mean, variance = others * p, others * p * (1.0 - p)
    high = xp.minimum(xp.ceil(1.0 + mean + _deviation(digits, variance)), n)

    def below(mean: jax.Array, variance: jax.Array, digits: jax.Array) -> jax.Array:
        # the exponent of a lower tail is also at least t^2 / (2 mean)
        least = mean - xp.minimum(_deviation(digits, variance), xp.sqrt(2.0 * digits * mean))
        return xp.maximum(xp.floor(least), 0.0)

    a_low = below(0.5 * mean, 0.5 * mean * (1.0 - 0.5 * p), digits)
    lowest, log_tail = _lowest(others, p, local, high, a_low, digits, power)
    far = 1.0 + below(mean, variance, digits + power * local)
    low = xp.clip(xp.maximum(a_low + lowest, far), 1.0, high)

    spare = 2.0 * math.pi * math.pi / (digits + 3.0)
    rest = n - high
    a_edge, rest_edge, b_edge = a_low - xp.sqrt(a_low), rest - xp.sqrt(rest), lowest - xp.sqrt(lowest)
    roomy = (a_low >= _LEAST_STRIDED) & (rest >= _LEAST_STRIDED)
    a_edge, rest_edge = xp.where(roomy, a_edge, 1.0), xp.where(roomy, rest_edge, 1.0)
    growth = 1.0 + 8.0 * contrast * power / xp.square(1.0 + contrast)
    bend = 1.0 / a_edge + 1.0 / rest_edge + growth / (a_edge * a_edge)
    row_step = xp.where(roomy, xp.maximum(xp.floor(xp.sqrt(spare / bend)), 1.0), 1.0)
    deep = lowest >= _LEAST_STRIDED
    b_edge = xp.where(deep, b_edge, 1.0)
    bend = 1.0 / b_edge + 0.5 / (b_edge * b_edge) + 2.0 / low + 2.0 / (low * low)
    step = xp.sqrt(spare / bend)
    strided = deep & (step > 1.5)
    step = xp.where(strided, step, 1.0)
    # the ends of strided rows: f there, which lies below b = `lowest`
    rate = binomial_rate(xp.minimum(lowest, others), others, 0.5 * p, 1.0 - 0.5 * p)
    log_end = xp.log(4.0 * step + 4.0) - rate + power * _log_ratio(high - b_edge, b_edge, local)
    return OutcomeGrid(
        first_row=low,
        row_step=row_step,
        num_rows=xp.ceil((high - low) / row_step) + 1.0,
        lowest=lowest,
        step=step,
        strided=strided,
        # inner and outer steps, of phi and of 1, times e^pi by Schwarz's lemma; two ends, 4/pi steps each, and one step
        log_relative_error=xp.log(300.0 + 8.0 * row_step) - digits,
        log_missing=xp.where(strided, xp.logaddexp(log_tail, log_end), log_tail),
    )


def _lowest(
    others: jax.Array,
    p: jax.Array,
    local: jax.Array,
    high: jax.Array,
    a_low: jax.Array,
    digits: jax.Array,
    power: float,
) -> tuple[jax.Array, jax.Array]:
    """(b_lo, log of the contribution of b < b_lo): the largest b_lo found for which that is below e^-digits, or 0.

    The outcomes below are bounded in slices, between candidates at geometric distances from the mean of b, with
    P[b < x] <= P[Bin(n - 1, p/2) < x].
    """
    mean = 0.5 * others * p
    index = xp.arange(_NUM_SLICES + 1, dtype=xp.int32).astype(xp.float64)[:, None] / _NUM_SLICES
    reach = xp.maximum(mean - a_low, 1.0)
    candidates = xp.maximum(xp.floor(mean - reach * xp.power(xp.maximum(mean / reach, 1.0), index)), 0.0)
    top, bottom = candidates, xp.concatenate([candidates[1:], xp.zeros_like(candidates[:1])])
    rate = binomial_rate(xp.minimum(top, others), others, 0.5 * p, 1.0 - 0.5 * p)
    # both labels, and 2 phi
    log_slice = math.log(4.0) - rate + power * _log_ratio(high - bottom, bottom, local)
    slices = xp.where(top > 0, xp.exp(xp.minimum(log_slice + digits, 600.0)), 0.0)
    tails = xp.flip(xp.cumsum(xp.flip(slices, 0), axis=0), 0)
    lowest = xp.max(xp.where(tails <= 1.0, top, 0.0), axis=0)
    tail = xp.max(xp.where(tails <= 1.0, tails, 0.0), axis=0)
    return lowest, xp.where(lowest > 0, xp.log(xp.maximum(tail, 1e-300)) - digits, -xp.inf)


def _log_ratio(a: jax.Array, b: jax.Array, local: jax.Array) -> jax.Array:
    """log((a + e b) / (b + e a)), e = exp(-local_epsilon), for a >= b: the privacy loss, and 2 atanh(u)."""
    return log1p(-xp.expm1(-local) * (a - b) / (b + xp.exp(-local) * a))


class Outcomes(NamedTuple):
    """Some outcomes [R * X]: the log of their weight, -inf outside the grid, and their loss.

    The weight is W over 1 + e^-loss, times 2 for both labels, times the steps.
    """

    log_weight: jax.Array
    loss: jax.Array


def outcomes(
    grid: OutcomeGrid,
    rows: jax.Array,
    columns: jax.Array,
    num_reports: jax.Array,
    clone_prob: jax.Array,
    local_epsilon: jax.Array,
) -> Outcomes:
    """The outcomes [R * X] of one pair at some rows [R] and columns [X], indices in float64; all else is scalar."""
    i, j = rows[:, None], columns[None, :]
    m = xp.minimum(grid.first_row + grid.row_step * i, num_reports)
    offset = grid.step * (j + 0.5)
    b = xp.where(grid.strided, 0.5 * m - offset, grid.lowest + j)
    inside = xp.where(grid.strided, offset <= 0.5 * m - grid.lowest + 0.5 * grid.step, 2.0 * b < m)
    inside = inside & (i < grid.num_rows) & (grid.first_row + grid.row_step * i <= num_reports)
    b = xp.where(inside, b, 0.0)
    a = m - b
    loss = _log_ratio(a, b, local_epsilon)
    log_row = log_binomial_pmf(m - 1.0, num_reports - 1.0, clone_prob, 1.0 - clone_prob)
    log_weight = log_row + log_fair_pmf(a, m) + xp.log(2.0 * grid.row_step * grid.step) - softplus(-loss)
    return Outcomes(xp.where(inside, log_weight, -xp.inf).reshape(-1), xp.where(inside, loss, 0.0).reshape(-1))
