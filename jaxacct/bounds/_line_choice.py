"""The choice of the line along which the complex moments of a composition are integrated, for many questions at once.

Nothing here needs to be certified: any line gives valid ends.

Shapes: [L] lanes; [K] orders whose moments are known; [A] orders that are asked for.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxacct._method import Query
from jaxacct.divergence._inversion import ALIAS_FACTORS
from jaxacct.divergence.allocation._grid import Real

# These steer running time and tightness: what they leave out is bounded and added.
_SPARED = 0.5  # in log: to save nodes the line may lie where the integrand is larger by this much
_FALL = 30.0  # the line is followed until the rest is e^-30 of delta
_ALIASES = 26.0  # alias copies of delta on the left are e^-26 of it
ALIAS_ORDERS = np.asarray(ALIAS_FACTORS)


class Choice(NamedTuple):
    """The lines of lanes [L]: order a, spacing and number of the nodes, and orders whose moments bound the aliases."""

    order: Real
    step: Real
    num_nodes: Any  # whole
    aliases: Real  # [L, A]
    epsilon: Real  # of the answers, approximately
    log_delta: Real


def best(query: Query, target: Real, orders: Real, logs: Real) -> tuple[Any, Real]:
    """The index [L] of the order whose moment gives about the least bound, and that bound [L], approximately."""
    constant = np.log(orders) + 2.0
    if query is Query.EPSILON:
        found = (logs - np.log(target)[:, None] - constant) / (orders - 1.0)
    else:
        found = logs - (orders - 1.0) * target[:, None] - constant
    found = np.where(np.isfinite(found) & (orders > 1.0), found, np.inf)
    at = found.argmin(1)
    value = found[np.arange(len(at)), at]
    if query is Query.DELTA:  # the larger the order, the fewer nodes
        near = found <= value[:, None] + _SPARED
        at = found.shape[1] - 1 - near[:, ::-1].argmax(1)
    return at, value


def choose(
    query: Query,
    target: Real,
    orders: Real,
    logs: Real,
    falls: Real,
    pull: float = 1.0,
    furthest: float = math.inf,
    order: Real | None = None,
    share: float = 1.0,
) -> tuple[Any, Choice]:
    """The index of the order to take from `orders` [L, K], increasing, and the `Choice`.

    log |M| falls by about `falls` [L] b^2/2. Unless `order` is given, the order's distance from 1 is about that of the
    best one times `pull`. Moments that bound aliases are available up to `furthest` times that distance. Aliases are
    kept small for `share` times a guessed epsilon.
    """
    at, value = best(query, target, orders, logs)
    every = np.arange(len(at))
    if order is not None or pull < 1.0:
        wanted = 1.0 + pull * (orders[every, at] - 1.0) if order is None else order
        at = np.abs(orders - wanted[:, None]).argmin(1)
    a, log_moment = orders[every, at], logs[every, at]
    # near the real axis log |M| falls by the curvature of log M
    near = np.clip(at, 1, orders.shape[1] - 2)
    x, y = (z[every[:, None], near[:, None] + [-1, 0, 1]] for z in (orders, logs))
    slopes = np.diff(y, axis=1) / np.diff(x, axis=1)
    curvature = 2.0 * (slopes[:, 1] - slopes[:, 0]) / (x[:, 2] - x[:, 0])
    falls = np.where(curvature > 0.0, np.minimum(falls, curvature), falls)
    if query is Query.EPSILON:
        epsilon, log_delta = np.maximum(value, 0.0), np.log(target)
    else:
        epsilon, log_delta = target, np.minimum(value, 0.0)
    excess = a - 1.0
    left = (_ALIASES - log_delta) / excess
    near = epsilon * (share if query is Query.EPSILON else 1.0)
    c = 1.0 + ALIAS_ORDERS[furthest >= ALIAS_ORDERS] * excess[:, None]
    right = interpolated(c, orders, logs) - (c - 1.0) * near[:, None] - np.log(c - 1.0)
    right = (right + (_ALIASES - log_delta)[:, None]) / (c - a[:, None])
    period = np.maximum(left, np.minimum(np.where(np.isnan(right), np.inf, right).min(1), 20.0 * left))
    needed = np.maximum(_FALL + np.maximum(log_moment - excess * epsilon - log_delta, 0.0), _FALL)
    count = np.sqrt(2.0 * needed / falls) * period / (2.0 * math.pi) + 2.0
    count = np.where(np.isfinite(count), np.minimum(np.ceil(count), 1e6), 1e6)
    aliases = 1.0 + ALIAS_ORDERS * excess[:, None]
    return at, Choice(a, 2.0 * math.pi / period, count.astype(int), aliases, epsilon, log_delta)


def interpolated(at: Real, orders: Real, logs: Real) -> Real:
    """Approximate log M at orders `at` [L, A], interpolated from `orders` and `logs` [L, K]; inf beyond the last."""
    above = (orders[:, None, :] < at[:, :, None]).sum(2)
    j = np.clip(above, 1, orders.shape[1] - 1)
    x0, x1, y0, y1 = (np.take_along_axis(x, i, 1) for x in (np.log(orders - 1.0), np.log(logs)) for i in (j - 1, j))
    share = (np.log(at - 1.0) - x0) / np.where(x1 > x0, x1 - x0, 1.0)
    return np.where(above < orders.shape[1], np.exp(y0 + share * (y1 - y0)), np.inf)
