"""BOUND, from both sides, on the profile of true k-out-of-t allocation with Gaussian noise in two to four steps.

The likelihood ratio is X = e_k(Y_1, .., Y_t) / C(t, k), e_k the elementary symmetric polynomial (Feldman & Shenfeld
2025, Theorem 3.1). It is linear in each Y_i, so that

    remove: delta = E_Q (X - e^eps)_+,        add: delta = e^eps E_Q (e^-eps - X)_+

are expectations of functions convex in each Y_i. The lognormal law of Y_i is cut into cells. By Jensen's inequality,
spreading each cell's mass to its ends, mean kept, gives an upper bound, and moving it to the cell's mean a lower one;
they differ by the square of the cells' width. One of the t integrals is in closed form. The effect of rounding is
derived in docs/numerics/allocation.md, "Two to four steps by cells". Add/remove adjacency. The bounds check the
reduction to one step at a time.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax, jnp
from jaxacct._precision import HostProgram
from jaxacct._types import Direction, Ends
from jaxacct.bounds.theorems import concrete_base
from jaxacct.mechanisms import Gaussian, RandomAllocation
from jaxacct.papers._asking import direction_of, non_negative, number, run_of
from jaxacct.special import ULP, log_normal_tail

_MAX_STEPS = 4  # steps of an allocation; for more the lattice would be too coarse
_NUM_POINTS = 2**21  # points of the product of lattices: time against width
_MAX_CELLS = 4096  # cells of the lattice of one step: time against width
_REACH = 9.0  # standard deviations that the lattice covers on either side; what lies beyond is bounded
_LEAST_NOISE = 0.25  # noise multiplier; below, Y leaves the range in which absolute errors stay small

Real = NDArray[np.float64]


class _Law(NamedTuple):
    """A discrete law that stands for that of Y, and what is known of its rounding."""

    values: Real
    masses: Real
    mass_error: float  # upper bound on the error of the mass beyond any point
    mean_error: float  # the same for its part of the mean, and for points that are not quite a cell's ends
    beyond: float  # upper bound on the part of the mean beyond the last point


def has_few_steps(mechanism: RandomAllocation) -> bool:
    """Whether `mechanism` is one epoch of Gaussian allocation in 2 to 4 steps."""
    if mechanism.signature() != (RandomAllocation, Gaussian):
        return False
    return bool(mechanism.num_epochs == 1 and 2 <= mechanism.num_steps <= _MAX_STEPS)


def few_steps_delta(mechanism: RandomAllocation, epsilon: float, direction: Direction) -> Ends[float]:
    """delta of true k-out-of-t allocation in two to four steps, bracketed: ours (RA-S3, RA-S4).

        remove: E_Q (X - e^eps)_+,   add: e^eps E_Q (e^-eps - X)_+,   X = e_k(Y_1, .., Y_t) / C(t, k),

    with upper and lower bounds by spreading each Y to the ends of cells, and by contracting it to their means. The
    width relative to delta is some 3e-6 for two steps, 4e-5 for three, 1e-2 for four. The result is (0, 1) unless
    `mechanism` is one epoch of Gaussian noise with a multiplier of at least 0.25 in 2 to 4 steps.

    Args:
      mechanism: RandomAllocation with concrete scalar fields.
      epsilon: >= 0.
      direction: of add/remove adjacency.

    Returns:
      Ends of floats, delta.

    Raises:
      ValueError: if an argument is out of range.

    >>> import jaxacct as ja
    >>> from jaxacct.papers import random_allocation
    >>> run = ja.RandomAllocation(ja.Gaussian(1.0), num_steps=3, num_selected=2)
    >>> ends = random_allocation.few_steps_delta(run, 0.5, ja.Direction.REMOVE)
    >>> round(ends.lower, 4), round(ends.upper, 4)
    (0.3157, 0.3157)
    """
    epsilon = float(non_negative("epsilon", number("epsilon", epsilon)))
    run_of(mechanism)
    direction = direction_of(direction)
    base = concrete_base(mechanism)
    if not (has_few_steps(mechanism) and base.noise_multiplier >= _LEAST_NOISE):
        return Ends(0.0, 1.0)
    t, k = int(mechanism.num_steps), int(mechanism.num_selected)
    sigma = float(base.noise_multiplier)
    size = min(_MAX_CELLS, int(_NUM_POINTS ** (1.0 / (t - 1))))
    remove = direction is Direction.REMOVE
    laws = [_lattice(sigma, size, spread) for spread in (False, True)]
    if any(law is None for law in laws):
        return Ends(0.0, 1.0)
    factor = 1.0 if remove else math.exp(epsilon)
    level = math.exp(epsilon if remove else -epsilon)
    found = [_mean(law, t, k, level, 1.0 / sigma, remove=remove) for law in laws if law is not None]
    slack = [_rounding(law, t, level, 1.0 / sigma, x) for law, x in zip(laws, found, strict=True) if law is not None]
    # what the spread law leaves out beyond the last point: X grows with slope k/t there, in each of t steps
    left_out = k * laws[1].beyond if remove and laws[1] is not None else 0.0
    return Ends(max(0.0, factor * (found[0] - slack[0])), min(1.0, factor * (found[1] + slack[1]) + left_out))


def _rounding(law: _Law, steps: int, level: float, s: float, found: float) -> float:
    """An upper bound on the error of `found`: the law in each of t - 1 steps, the last step, products and sums."""
    in_law = 4.0 * (1.0 + level) * law.mass_error + 4.0 * law.mean_error
    last = ULP * (1.0 + level) * (72.0 + s)
    return 1.01 * ((steps - 1.0) * in_law + last) + ULP * (len(law.values) + 32.0) * abs(found)


@functools.lru_cache(maxsize=16)
def _lattice(sigma: float, size: int, spread: bool) -> _Law | None:
    """The law of Y spread to the cells' ends (and 0), or contracted to their means; None if ends are not distinct."""
    s = 1.0 / sigma
    g = np.linspace(-_REACH, _REACH + s, size)
    y = np.exp(s * g - 0.5 * s * s)
    if not np.all(np.diff(y) > 0):
        return None
    # from the nearer tail; the tail is known to 32 (1 + x^2) ULP, the argument g - s to ULP (|x| + s)
    x = np.abs(g - s)
    q, p = np.exp(log_normal_tail(np.abs(g))), np.exp(log_normal_tail(x))
    mass, mean = _between(q, g), _between(p, g - s)
    mass_error = float((q * (34.0 + 34.0 * g * g)).max() + 8.0) * ULP
    tail_error = p * (34.0 + 34.0 * x * x + (1.0 + x) * (x + s)) * ULP
    if not spread:
        value = np.clip(mean / mass, y[:-1], y[1:])
        moved = np.abs(value * mass - mean).sum() + 8.0 * ULP
        return _Law(value, mass, mass_error, float(tail_error.max() + moved), 0.0)
    right = np.clip((mean - y[:-1] * mass) / np.diff(y), 0.0, mass)
    first = min(p[0] / y[0], q[0])
    weights = np.zeros(size + 1)
    weights[0] = q[0] - first + q[-1]
    weights[1] = first
    weights[1:-1] += mass - right
    weights[2:] += right
    moved = np.abs(y[:-1] * (mass - right) + y[1:] * right - mean).sum() + abs(y[0] * first - p[0])
    # a product of the sum above, and how far the points are from the ends of their cells
    ends = float((y[1:] * mass * (12.0 + 3.0 * np.abs(s * g[1:]) + 2.0 * s * s)).sum()) * ULP
    mean_error = float(tail_error.max() + moved + ends + 8.0 * ULP)
    return _Law(np.concatenate([[0.0], y]), weights, mass_error, mean_error, float(p[-1] + tail_error[-1]))


def _between(tail: Real, x: Real) -> Real:
    """Normal mass of each cell, from the tails Phi(-|x|) at its ends."""
    left, right = tail[:-1], tail[1:]
    return np.where(x[1:] <= 0, right - left, np.where(x[:-1] >= 0, left - right, 1.0 - left - right))


def _mean(law: _Law, t: int, k: int, level: float, s: float, *, remove: bool) -> float:
    """E of the positive part, t - 1 of the Y_i under `law` and the last one lognormal."""
    values, masses = law.values, law.masses
    # polynomials e_0, .., e_k and masses of all but the last two steps
    rows, weights = np.zeros((1, k + 1)), np.ones(1)
    rows[0, 0] = 1.0
    for _ in range(t - 2):
        grown = np.repeat(rows, len(values), axis=0)
        y = np.tile(values, len(rows))
        grown[:, 1:] += y[:, None] * np.repeat(rows, len(values), axis=0)[:, :-1]
        rows, weights = grown, np.repeat(weights, len(values)) * np.tile(masses, len(weights))
    scaled = rows / math.comb(t, k)
    before = np.concatenate([np.zeros((len(rows), 2)), scaled], axis=1)  # e_{k-2} and e_{k-1} exist
    means = _row_means(*(before[:, k + 2 - i] for i in range(3)), values, masses, np.float64(level), s, remove=remove)
    return math.fsum(weights * means)


def _rows(high: Any, middle: Any, low: Any, values: Any, masses: Any, level: Any, s: Any, *, remove: bool) -> Any:
    """E (A + B Y - level)_+, or of its negative, for each row: A = e_k and B = e_{k-1} after the lattice's step."""

    def row(parts: tuple[Any, Any, Any]) -> Any:
        e_k, e_1, e_2 = parts
        gap, slope = level - (e_k + values * e_1), e_1 + values * e_2
        inside = (gap > 0) & (slope > 0)
        ratio = jnp.log(jnp.where(inside, slope / jnp.where(inside, gap, 1.0), 1.0)) / s
        up, down = (jnp.exp(log_normal_tail(-x if remove else x)) for x in (ratio + 0.5 * s, ratio - 0.5 * s))
        signed = slope * up - gap * down
        flat = jnp.where(gap > 0, 0.0, slope - gap) if remove else jnp.maximum(gap, 0.0)
        return jnp.sum(masses * jnp.where(inside, signed if remove else -signed, flat))

    return jax.lax.map(row, (high, middle, low), batch_size=16)


_row_means = HostProgram(_rows)
