"""Derivatives of log delta at an answer, from the laws of slightly different releases, on the line that gave it.

Each number on which a release's law depends is moved a little, and the differences of the moments are taken: one
program computes all laws, whereas automatic differentiation would give a program several times as large. The
derivatives are not certified.

Shapes: [R, V] laws of R releases: as they are, and with each of their numbers moved; [N] nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jax, jnp
from jaxacct.divergence.law._contour import LawLine, moments, of_moments, trapezoid, turns
from jaxacct.divergence.law._law import Law

_REACH = 0.35  # change of log delta over which the derivative in epsilon is taken, of a single release
MOVED = 2.0**-18  # relative change of a number: a slope's error is of this size by its own change, and less by rounding


def _over(difference: Any, gap: Any) -> Any:
    return jnp.where(gap > 0.0, difference / jnp.where(gap > 0.0, gap, 1.0), 0.0)


def rates(laws: Law, counts: Any, gaps: Any, line: LawLine, add: Any, epsilon: Any) -> tuple[Any, Any]:
    """A tuple of the derivative of log delta in epsilon, and [R, P + 1] those in each release's numbers and its count.

    Args:
      laws: [R, V], V = 1 + P.
      gaps: [R, P], how far each number is moved; 0 where it cannot be.
    """
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), laws)
    logs = jax.lax.map(lambda law: moments(law, 1.0 + line.excess, line.step, add)[:2], flat)
    logs = logs.reshape(*laws.points.shape[:2], 2, -1)  # [R, V, 2, N]: log |M| and its argument
    own = jnp.where(counts[:, None, None] > 0.0, counts[:, None, None] * logs[:, 0], 0.0)
    of = of_moments(jnp.concatenate([jnp.sum(own, axis=0), jnp.zeros_like(own[0, :1])]), line)
    cos, sin = turns(line, epsilon)
    re, im = of.terms
    re, im = re * cos - im * sin, re * sin + im * cos
    total = jnp.sum(re)
    usable = total > 0.0
    share = jnp.stack([re, -im]) / jnp.where(usable, total, 1.0)
    moved = logs[:, 1:] - logs[:, :1]  # [R, P, 2, N]
    # the argument moves by less than pi
    moved = moved.at[:, :, 1].add(-2.0 * jnp.pi * jnp.round(moved[:, :, 1] / (2.0 * jnp.pi)))
    by_number = _over(counts[:, None] * jnp.sum(moved * share, axis=(2, 3)), gaps)
    by_count = jnp.sum(logs[:, 0] * share, axis=(1, 2))
    b = line.step * np.arange(re.shape[0], dtype=np.float64)
    slope = jnp.sum(b * -share[1]) - line.excess
    # the slope of a single release jumps at its points, while over a longer distance log delta is nearly linear
    reach = _REACH / jnp.maximum(-slope, 1e-300)
    beside = jax.vmap(lambda e: trapezoid(of, e)[0])(epsilon + reach * np.array([1.0, -1.0]))
    mean_slope = jnp.diff(jnp.log(jnp.maximum(beside, 1e-300)))[0] / (-2.0 * reach) - line.excess
    slope = jnp.where((jnp.sum(counts) == 1.0) & jnp.all(beside > 0.0), mean_slope, slope)
    found = jnp.concatenate([by_number, by_count[:, None]], axis=1)
    return jnp.where(usable, slope, 0.0), jnp.where(usable, found, 0.0)
