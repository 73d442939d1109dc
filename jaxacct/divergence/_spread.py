"""A round's likelihood ratio moved apart to finitely many points, and the complex moments of what that makes.

R = dP/dQ is replaced by R' with E_Q f(R') >= E_Q f(R) for every f >= 0 that is (x - R)_+ or (R - x)_+ for some x: such
a pair loses no less privacy, and compositions of such pairs do not either (docs/numerics.md, "Ratios moved apart").
Moments of R' are sums over its points, one matrix product for all nodes of a line, whatever the law of R is. They need
not fall with the height: one more Gaussian release, whose loss is as small as the length of the line allows, makes
them fall, which costs tightness only.

Shapes: [L] lanes; [L, K] points; [A, L] orders; [N, L] nodes of a line.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxacct.divergence._inversion import Line, LineMoments
from jaxacct.special import ULP, log1p

_BITS = 10  # of the number of nodes of a line: its halves make a matrix product
NUM_NODES = 2**_BITS
_DIGITS = 10.0  # in log: what lies beyond the last node is kept this far below delta; steers tightness
_LOST = 0.5  # relative error of a moment beyond which only its size is used
_MOST = 690.0  # exponents of what is summed: beyond, nothing is known


class Spread(NamedTuple):
    """R' on K points."""

    log_ratio: Any  # [L, K], log R', finite
    mass: Any  # [L, K] >= 0, under Q
    blur: Any  # [L, K], by which log R' errs at most
    beyond: Any  # [L], mass of infinite loss, of the law that the direction starts from


def _weights(orders: Any, add: Any) -> Any:
    """w [..] with M(s) = E_Q[R^w]: s in the remove direction (P against Q), 1 - s in the add direction."""
    return jnp.where(add, 1.0 - orders, orders)


def _sizes(of: Spread, orders: Any, add: Any) -> tuple[Any, Any, Any]:
    """w [L, 1], w log R' [L, K], and the summands of M, for one real order a lane [L]."""
    w = _weights(orders, add)[:, None]
    exponents = w * of.log_ratio
    return w, exponents, of.mass * jnp.exp(jnp.minimum(exponents, _MOST))


def _fits(of: Spread, exponents: Any) -> Any:
    return jnp.all((exponents < _MOST) | (of.mass == 0.0), axis=1)


def log_moments(of: Spread, orders: Any, add: Any) -> Any:
    """At least log M [A, L] at real `orders` [A, L] >= 1; inf where it is too large."""

    def one(order: Any) -> Any:
        w, exponents, size = _sizes(of, order, add)
        errs = jnp.abs(w) * of.blur + ULP * (size.shape[1] + 16.0 + 4.0 * jnp.abs(exponents))
        errs = errs * jnp.exp(jnp.max(errs, axis=1, keepdims=True))  # |e^x - 1| <= |x| e^|x|
        total = jnp.sum(size * (1.0 + 1.01 * errs), axis=1)
        log_total = jnp.log(total)
        return jnp.where(_fits(of, exponents), log_total + 2.0**-50 * jnp.abs(log_total), jnp.inf)

    return jax.vmap(one)(orders)


def _products(cos: Any, sin: Any) -> tuple[Any, Any]:
    """cos and sin [L, 2^B, K] of all sums of B angles, of which `cos` and `sin` [L, B, K] are given."""
    first, second = jnp.ones_like(cos[:, :1]), jnp.zeros_like(cos[:, :1])
    for c, s in zip(jnp.split(cos, cos.shape[1], axis=1), jnp.split(sin, sin.shape[1], axis=1), strict=True):
        turned = first * c - second * s, first * s + second * c
        first, second = (jnp.concatenate(x, axis=1) for x in ((first, turned[0]), (second, turned[1])))
    return first, second


def spread_line(of: Spread, line: Line, add: Any) -> LineMoments:
    """`LineMoments` [N, L] of one round on a `line` of `NUM_NODES` nodes; nothing of aliases, no decay."""
    w, exponents, size = _sizes(of, line.order, add)
    angle = jnp.where(add, -line.heights[1], line.heights[1])[:, None] * of.log_ratio
    half = _BITS // 2
    turned = angle[:, None] * 2.0 ** jnp.arange(_BITS, dtype=jnp.float64)[:, None]
    cos, sin = jnp.cos(turned), jnp.sin(turned)
    fine, coarse = _products(cos[:, :half], sin[:, :half]), _products(cos[:, half:], sin[:, half:])
    left, right = jnp.concatenate(coarse, axis=1) * size[:, None], jnp.concatenate(fine, axis=1)
    every = jnp.einsum("lik,ljk->lij", left, right, precision=jax.lax.Precision.HIGHEST)
    rows, columns = 2 ** (_BITS - half), 2**half
    real = every[:, :rows, :columns] - every[:, rows:, columns:]
    imag = every[:, rows:, :columns] + every[:, :rows, columns:]
    real, imag = (x.reshape(len(w), -1).T for x in (real, imag))
    fixed = jnp.sum(size * (ULP * (2.0 * size.shape[1] + 160.0 + 4.0 * jnp.abs(exponents))), axis=1)
    blur = of.blur + 4.0 * ULP * jnp.abs(of.log_ratio)
    rate = jnp.abs(w[:, 0]) + line.heights
    moved = rate * jnp.sum(size * blur, axis=1) * jnp.exp(rate * jnp.max(blur, axis=1))  # |e^x - 1| <= |x| e^|x|
    error = 1.01 * (fixed + moved)
    modulus = jnp.hypot(real, imag)
    # where little is known, another M of the largest modulus does as well: they differ by less than twice that
    lost = ~(error < _LOST * modulus)
    modulus = jnp.maximum(jnp.where(lost, modulus + error, modulus), 1e-300)
    log_error = jnp.where(lost, 1.1, -log1p(-jnp.where(lost, 0.0, error / modulus)))
    phase = jnp.where(lost, 0.0, jnp.arctan2(imag, real))
    known = _fits(of, exponents) & jnp.isfinite(modulus)
    unknown = jnp.full_like(line.alias_orders, jnp.inf)
    return LineMoments(
        jnp.log(modulus), phase, jnp.where(known, log_error, jnp.inf), unknown, jnp.zeros_like(line.edges)
    )


def damped(line: Line, moments: LineMoments, epsilon: Any, log_delta: Any) -> LineMoments:
    """`LineMoments` [N, L]: the moments times those of one more Gaussian release, e^{tau^2 s (s - 1) / 2}.

    One more release reveals no less, so that an upper end stays one.

    `epsilon` and `log_delta` [L] are about what is asked: they steer tau, which costs tightness only.
    """
    a, b, c, end = line.order, line.heights, line.alias_orders, line.edges[0]
    size = moments.log_modulus[0] + epsilon * (1.0 - a) - log_delta
    lack = jnp.maximum(size - jnp.log(jnp.pi * end) + _DIGITS, 0.0)
    half = jax.lax.stop_gradient(lack / jnp.maximum(end * end - a * (a - 1.0), 1e-300))  # tau^2 / 2
    return LineMoments(
        moments.log_modulus + half * (a * (a - 1.0) - b * b),
        moments.phase + half * b * (2.0 * a - 1.0),
        moments.error + 2.0**-50 * (1.0 + 2.0 * half * (a * a + b * b)),
        moments.log_alias + half * c * (c - 1.0) * (1.0 + 2.0**-50),
        # beside M(a) as it was found
        moments.log_decay + moments.error[0] - half * end * end * (1.0 - 2.0**-50),
    )
