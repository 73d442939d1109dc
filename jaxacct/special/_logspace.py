"""Elementary functions in log space, free of cancellation and with finite derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxacct._jax import Array, jax
from jaxacct.special._namespace import is_jax, lane_map, stop_gradient, xp


def log1mexp(x: jax.Array) -> jax.Array:
    """log(1 - exp(x)) for x <= 0; -inf at 0, nan above.

    ``log(-expm1(x))`` near 0, where 1 - e^x cancels, ``log1p(-exp(x))`` where e^x is small. The switch is at -1.25,
    where e^x is 0.29: between -log 2 and -1.25 both are accurate. Relative error below 1e-15.
    """
    near = x > -1.25
    far = xp.log1p(-xp.exp(xp.where(near, -2.0, x)))
    return xp.where(near, xp.log(-xp.expm1(xp.where(near, x, -0.5))), far)


def logexpm1(x: jax.Array) -> jax.Array:
    """log(exp(x) - 1) for x >= 0, without overflow: x + log1mexp(-x); -inf at 0."""
    return x + log1mexp(-x)


def softplus(x: jax.Array) -> jax.Array:
    """log(1 + exp(x)), relative error below 1e-15 for x > -708 (it keeps e^x when x << 0; below that, 0)."""
    positive = x > 0
    return xp.where(positive, x, 0.0) + xp.log1p(xp.exp(xp.where(positive, -x, x)))


def log_one_minus_inverse(a: Any) -> Any:
    """log(1 - 1/a) for a > 1, within 7 ULP of itself however near 1: -log(1 + 1/(a - 1)) has no cancellation."""
    return -xp.log1p(1.0 / (a - 1.0))


def log_or_minus_inf(x: Any) -> Any:
    """log(x), -inf at 0 and below, nan of nan; of a JAX array (with finite derivatives) or of NumPy numbers."""
    if isinstance(x, Array):
        none = x <= 0
        return xp.where(none, -xp.inf, xp.log(xp.where(none, 1.0, x)))
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(x, 0.0))


def one_minus_exp(t: Any, fallen: Any) -> Any:
    """1 - e^-t for t >= 0, within 10 ULP; `fallen` is e^-t.

    NumPy's by expm1; XLA's takes longer than a series near 0 and a difference elsewhere.
    """
    if not is_jax(t):
        return -np.expm1(-t)
    near = xp.minimum(t, 0.35)
    series = xp.ones_like(near)
    for m in range(13, 1, -1):
        series = 1.0 - near / m * series
    return xp.where(t < 0.35, near * series, 1.0 - fallen)


def series_of_excess(power: Any, x: Any) -> Any:
    """((1+x)^a - 1 - a x) / (a (a-1)/2 x^2) by a series, for |a x| <= 0.05 and |x| <= 0.05; of the shape of `x`."""
    series = xp.ones_like(x)
    for m in range(13, 2, -1):  # 1 + (a-2)/3 x (1 + (a-3)/4 x (..)); in place, where NumPy's arrays are long
        series *= (power - m + 1.0) / m * x
        series += 1.0
    return series


def exp_or_inf(x: Any) -> Any:
    """e^x, and inf for x above 700: for upper bounds, which must not be cut off there. No derivative beyond."""
    return xp.exp(xp.where(x > 700.0, xp.inf, x))


def log_sum_exp(x: Any, axis: int = 0) -> Any:
    """log(sum(exp(x))) along `axis`, shifted by the maximum; -inf where all terms are -inf. NumPy or JAX arrays."""
    top = stop_gradient(xp.max(x, axis=axis, keepdims=True))
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.sum(xp.exp(x - top), axis=axis)
    empty = total == 0
    return xp.where(empty, -xp.inf, xp.log(xp.where(empty, 1.0, total)) + xp.squeeze(top, axis))


def map_rows(row: Callable[..., Any], *tables: Any, lanes: Any = None, at_once: int = 1) -> Any:
    """``row(*(t[i] for t in tables))`` [L] for each i, stacked: [R, L].

    For one lane all rows are computed at once, which is the smaller program; for many lanes row by row, which needs the
    memory of one row. `lanes`, if given, is an array [L] on which `row` depends: if it is a NumPy array, so is the
    answer. With NumPy and one lane, `at_once` rows (if more than one) then take the lane's place: `row` gets tables
    [.., R], which it must broadcast against its numbers of the lane.
    """
    if lanes is not None and not is_jax(lanes):
        if at_once == 1 or lanes.size > 1:
            return lane_map(lambda args: row(*args), tables)
        cuts = range(0, len(tables[0]), at_once)
        parts = [row(*(np.moveaxis(t[i : i + at_once], 0, -1) for t in tables)) for i in cuts]
        return np.concatenate(parts)[:, None]
    if jax.eval_shape(row, *(t[0] for t in tables)).shape[-1] == 1:
        return jax.vmap(row)(*tables)
    return jax.lax.map(lambda args: row(*args), tables)
