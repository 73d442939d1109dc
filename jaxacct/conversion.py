"""Conversion of Renyi divergences to epsilon or delta, rounded to the safe side."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from jaxacct._jax import jax
from jaxacct._precision import FEW_LANES, Rounding, float64_kernel
from jaxacct._types import Bound
from jaxacct.curves import RdpCurve
from jaxacct.special import LEAST_NORMAL, log_one_minus_inverse
from jaxacct.special._namespace import xp

_ROUNDING = 2.0**-49  # no term errs by more than 12 ULP of its size, sums included; 16 are added


class Optimum(NamedTuple):
    """A converted value and the Renyi order that gave it."""

    value: jax.Array
    order: jax.Array


def _at_minimum(values: jax.Array, orders: jax.Array) -> Optimum:
    best = xp.min(values, axis=0)
    # not argmin: its lowering breaks inside a user's float32 program
    order = xp.min(xp.where(values == best, orders, xp.inf), axis=0)
    return Optimum(best, xp.where(xp.isfinite(best), order, xp.nan))


def epsilon_from_rdp(orders: jax.Array, rdp: jax.Array, log_delta: jax.Array) -> Optimum:
    """The least epsilon over the orders with delta at most exp(log_delta), rounded up and clipped at 0.

    epsilon <= R_a + log(1 - 1/a) - log(delta a)/(a - 1), an upper bound in the direction of the divergence, for any
    real a > 1 (Canonne, Kamath and Steinke 2020, Proposition 12; RA-S2).

    Args:
      orders: float64 [A, 1].  rdp: float64 [A, L], nats.  log_delta: float64 [L].
    """
    base, log_a = log_one_minus_inverse(orders), xp.log(orders)
    tail = (log_delta + log_a) / (orders - 1.0)
    rounding = _ROUNDING * (rdp + xp.abs(base) + (xp.abs(log_delta) + log_a) / (orders - 1.0))
    epsilon = xp.where(xp.isnan(rdp), xp.inf, rdp + base - tail + rounding)
    best = _at_minimum(epsilon, orders)
    vacuous = log_delta >= 0
    return Optimum(xp.where(vacuous, 0.0, xp.maximum(best.value, 0.0)), best.order)


def log_delta_from_rdp(orders: jax.Array, rdp: jax.Array, epsilon: jax.Array) -> Optimum:
    """The least log delta over the orders at `epsilon`, rounded up and clipped at 0.

    delta <= exp((a-1)(R_a - epsilon)) (1 - 1/a)^(a-1) / a, the inverse of `epsilon_from_rdp`.
    """
    excess, log_a = orders - 1.0, xp.log(orders)
    base = excess * log_one_minus_inverse(orders)  # in [-1, 0]
    rounding = _ROUNDING * (excess * (rdp + epsilon) + 1.0 + log_a)
    log_delta = excess * (rdp - epsilon) + base - log_a + rounding
    best = _at_minimum(xp.where(xp.isnan(log_delta), xp.inf, log_delta), orders)
    return Optimum(xp.clip(best.value, -1e308, 0.0), best.order)  # an overflow must not become a delta of 0


def delta_from_log(log_delta: jax.Array) -> jax.Array:
    """exp(log_delta) rounded up: in [2.2e-308, 1] even where the exponential underflows; 0 only for -inf."""
    delta = xp.exp(log_delta) * (1.0 + 2.0**-50 * (1.0 + xp.abs(xp.maximum(log_delta, -800.0))))
    return xp.where(xp.isneginf(log_delta), 0.0, xp.clip(delta, LEAST_NORMAL, 1.0))


def delta_from_log_down(log_delta: jax.Array) -> jax.Array:
    """exp(log_delta) rounded down, in [0, 1]."""
    delta = xp.exp(log_delta) * (1.0 - 2.0**-50 * (1.0 + xp.abs(xp.maximum(log_delta, -800.0))))
    return xp.clip(delta, 0.0, 1.0)


def _between(orders: tuple[float, ...], rdp: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array] | None:
    """The finite orders above 1 [A, 1] and the divergences at them [A, L]; None if there are no such orders."""
    known = [(a, row) for a, row in zip(orders, rdp, strict=True) if 1.0 < a < math.inf]
    if not known:
        return None
    return xp.asarray([a for a, _ in known], xp.float64)[:, None], xp.stack([row for _, row in known])


def _largest_loss(orders: tuple[float, ...], rdp: tuple[jax.Array, ...]) -> jax.Array:
    """The divergence at order inf, [L] or []; inf if that order is not among `orders`."""
    every = [xp.where(xp.isnan(row), xp.inf, row) for a, row in zip(orders, rdp, strict=True) if a == math.inf]
    return functools.reduce(xp.minimum, every, xp.asarray(xp.inf, xp.float64))


@float64_kernel(rounding=Rounding.UP, on_host=FEW_LANES)
def _curve_epsilon(delta: jax.Array, *rdp: jax.Array, orders: tuple[float, ...]) -> jax.Array:
    known, largest = _between(orders, rdp), _largest_loss(orders, rdp) + 0.0 * delta
    return largest if known is None else xp.minimum(largest, epsilon_from_rdp(*known, xp.log(delta)).value)


@float64_kernel(rounding=Rounding.UP, on_host=FEW_LANES)
def _curve_delta(epsilon: jax.Array, *rdp: jax.Array, orders: tuple[float, ...]) -> jax.Array:
    known = _between(orders, rdp)
    log_delta = xp.zeros_like(epsilon) if known is None else log_delta_from_rdp(*known, epsilon).value
    return xp.where(epsilon >= _largest_loss(orders, rdp), 0.0, delta_from_log(log_delta))


def _columns(curve: RdpCurve) -> list[Any]:
    if curve.bound is not Bound.UPPER:
        raise ValueError(f"curve.bound={curve.bound.value!r} must be an upper bound: only those convert")
    return [curve.values[..., i] for i in range(curve.orders.shape[0])]


def curve_epsilon(curve: RdpCurve, target_delta: Any) -> Any:
    """The least epsilon over the orders above 1, an upper bound; the curve's batch and `target_delta` broadcast."""
    return _curve_epsilon(target_delta, *_columns(curve), orders=tuple(curve.orders.tolist()))


def curve_delta(curve: RdpCurve, target_epsilon: Any) -> Any:
    """The least delta over the orders above 1, an upper bound; the curve's batch and `target_epsilon` broadcast."""
    return _curve_delta(target_epsilon, *_columns(curve), orders=tuple(curve.orders.tolist()))
