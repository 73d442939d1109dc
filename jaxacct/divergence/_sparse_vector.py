"""Renyi divergences of one answer "above" of the sparse vector technique, however many answers "below" precede it.

Given the threshold's noise, a comparison gives "above" with probability u under one data set and u' under the other.
That answer multiplies E[(P/Q)^a] by A = u^a u'^(1-a), and "below" multiplies it by B = (1-u)^a (1-u')^(1-a). An
adversary that chooses the queries attains at most the number K with A + B K <= K for every possible query
(docs/papers/above_threshold.md, AT-3), so that R_a = log K / (a - 1). Shapes: L is the number of lanes, A that of Renyi
orders.
"""

from __future__ import annotations

from typing import Any

from jaxacct.special import log1mexp, log1p, logexpm1, softplus
from jaxacct.special._namespace import xp

_CELLS = 64  # cells that cover the probability of the worst query, each with its own bound; affects tightness only
_SLACK = 2.0**-46  # times a and a bound on the logarithms: their rounding errors, some ten ulp each
_LEAST_LOSS = 2.0**-1000  # a smaller loss of one answer counts as this


def laplace_answer_rdp(orders: Any, loss: Any) -> Any:
    """Renyi divergences [A, L], rounded up, of one answer "above" with Laplace noise, `loss` [L] = s D / b at most.

    With y = 1 - u the probability of "below" and r = e^-loss, that of the worst query is in
    [max(r/2, (a-1)/(2a-1)), 1/2], where

        log A = a log(1 - y) + (a - 1) (log(4 y) + loss),   log B = a log y + (1 - a) log(1 - r / (4 y)),

    the first of which decreases in y and the second increases. In each cell f = log A - log(1 - B) is at most its value
    at the left end plus the cell's width times the largest slope, and at most its value for the larger A and the larger
    B. Orders a > 1.
    """
    a = xp.asarray(orders, xp.float64)[:, None, None]
    x = xp.maximum(loss, _LEAST_LOSS)[None, :, None]
    r = xp.exp(-x)
    first = xp.maximum(0.5 * r, (a - 1.0) / (2.0 * a - 1.0) + 0.0 * r)
    width = (0.5 - first) / _CELLS
    left = first + width * xp.arange(_CELLS, dtype=xp.float64)
    right = left + width
    low_a, low_b = _logs(a, x, r, left)
    _, high_b = _logs(a, x, r, right)
    by_ends = low_a - log1mexp(high_b)
    fall = (a - 1.0) / left - a / (1.0 - left)
    rise = a / left - (a - 1.0) * r / (right * (4.0 * right - r))
    slope = fall + xp.maximum(rise, 0.0) * xp.exp(high_b) / -xp.expm1(high_b)
    by_slope = low_a - log1mexp(low_b) + width * xp.maximum(slope, 0.0)
    log_most = xp.max(xp.minimum(by_ends, by_slope), axis=-1)
    a, x = a[..., 0], x[..., 0]
    found = log_most / (a - 1.0) + _SLACK * (1.0 + x) * (1.0 + a / (a - 1.0))
    return xp.clip(found, 0.0, loss)


def _logs(a: Any, x: Any, r: Any, y: Any) -> tuple[Any, Any]:
    """log A and log B of the query that is "below" with probability y in [r/2, 1/2]."""
    log_above = a * log1p(-y) + (a - 1.0) * (xp.log(4.0 * y) + x)
    return log_above, a * xp.log(y) - (a - 1.0) * log1p(-r / (4.0 * y))


def any_answer_rdp(orders: Any, each: Any, num_queries: Any) -> Any:
    """Renyi divergences [A, L], rounded up, of one answer "above" among at most `num_queries` [L], for any noise.

        R_a = log(1 + n (e^((a-1) r) - 1)) / (a - 1),

    where r = `each` [A, L] is the Renyi divergence of a query's noise, moved as far as a query may move. Orders a > 1.
    """
    a = xp.asarray(orders, xp.float64)[:, None]
    some = xp.where(each > 0, each, 1.0)
    log_more = xp.log(num_queries) + logexpm1((a - 1.0) * some)
    found = softplus(log_more + _SLACK * (1.0 + xp.abs(log_more))) / (a - 1.0) * (1.0 + _SLACK)
    return xp.where(each > 0, found, 0.0)
