"""BOUND, from above: how much noise, how large a local epsilon, how many reports suffice.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", section 5 (CL-S13, CL-S19). Replace-one adjacency. Each
result is checked by the exact Gaussian profile, or by an upper bound on the profile of the clones pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax
from jaxacct._precision import Kernel
from jaxacct.bounds.theorems import Profile, pure_profile
from jaxacct.divergence.kernels import clones_lane_bytes, gaussian_log_delta
from jaxacct.papers._asking import Floats, counts, inner_probability, log_of, non_negative, plain, positive
from jaxacct.papers.clones._reductions import window_of
from jaxacct.special import bisect_lanes, solve_decreasing, up, xp

_ULPS = 32  # allowed for rounding; at most 16 ulp occur: two functions of 4 each, a square root, products
_NUM_HALVINGS = 54  # of a number of reports, to its last digit


def sufficient_gaussian_noise_lanes(
    local_epsilon: jax.Array, local_log_delta: jax.Array, sensitivity: jax.Array
) -> jax.Array:
    """`sufficient_gaussian_noise` [L], rounded up: by Chernoff P[loss > epsilon] is at most exp(-L), L = log(1/delta0).

    The paper takes sensitivity 1 for clip norm 1, where replace-one has 2: its true deltas are 126 (local_delta = 1e-6,
    local_epsilon = 1) to 2e8 times what is claimed.
    """
    spread = 1.0 + xp.sqrt(-2.0 * local_log_delta)
    valid = (local_epsilon > 0) & (local_epsilon <= 2.0 * spread * (1.0 - 2.0**-50))
    noise = sensitivity * spread / xp.where(valid, local_epsilon, 1.0)
    return xp.where(valid, up(noise, _ULPS), xp.inf)


def gaussian_noise(local_epsilon: jax.Array, local_log_delta: jax.Array, sensitivity: jax.Array) -> jax.Array:
    """The least sigma [L] found with G(local_epsilon, sensitivity / sigma) <= local_delta; checked, rounded up."""
    spread = xp.sqrt(-2.0 * local_log_delta)
    # Chernoff: mu^2/2 + mu spread <= epsilon suffices
    high = sensitivity * (xp.sqrt(spread * spread + 2.0 * local_epsilon) + spread) / (2.0 * local_epsilon)
    high = up(high, _ULPS)

    def excess(
        sigma: jax.Array, epsilon: jax.Array, target: jax.Array, sensitivity: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        mu = sensitivity / sigma
        return gaussian_log_delta(epsilon, mu) - target, -epsilon * epsilon / (mu * mu * sigma)

    return solve_decreasing(excess, 1e-3 * high, high, local_epsilon, local_log_delta, sensitivity)


def largest_local_epsilon_lanes(
    profile: Profile, num_reports: jax.Array, epsilon: jax.Array, log_delta: jax.Array, highest: jax.Array
) -> jax.Array:
    """`largest_local_epsilon` [L], found in [epsilon, highest], by any upper `profile` of the pair."""

    def excess(
        negated: jax.Array, target: jax.Array, num_reports: jax.Array, epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def value(negated: jax.Array) -> jax.Array:
            return xp.maximum(profile(epsilon, num_reports, -negated).log_delta.upper, -1e4) - target

        return jax.jvp(value, (negated,), (xp.ones_like(negated),))

    root = solve_decreasing(excess, -highest, -epsilon, log_delta, num_reports, epsilon)
    return xp.where(xp.isfinite(root), -root, 0.0)


def fewest_reports_lanes(
    profile: Profile, local_epsilon: jax.Array, epsilon: jax.Array, log_delta: jax.Array, highest: jax.Array
) -> jax.Array:
    """`fewest_reports` [L], found in 1..highest by bisection over whole numbers: delta does not rise with them."""

    def enough(num_reports: jax.Array) -> jax.Array:
        return profile(epsilon, num_reports, local_epsilon).log_delta.upper <= log_delta

    found = bisect_lanes(enough, highest + 1.0, xp.zeros_like(highest), num_steps=_NUM_HALVINGS, whole=True)
    return xp.where(found <= highest, found, xp.inf)


_sufficient = Kernel(sufficient_gaussian_noise_lanes, on_host=True)
_least = Kernel(gaussian_noise, on_host=True)


_largest_local_epsilon = Kernel(
    lambda *lanes, window: largest_local_epsilon_lanes(pure_profile(window=window), *lanes),
    lane_bytes=clones_lane_bytes,
)
_fewest_reports = Kernel(
    lambda *lanes, window: fewest_reports_lanes(pure_profile(window=window), *lanes),
    lane_bytes=clones_lane_bytes,
    on_host=True,
)


def sufficient_gaussian_noise(
    local_epsilon: ArrayLike, local_delta: ArrayLike, *, sensitivity: ArrayLike = 2.0
) -> Floats:
    """sigma that makes a step (eps0, delta0)-DP: sensitivity (1 + sqrt(2 log(1/delta0)))/eps0, Prop. 5.3 (CL-S13).

    It is sufficient, but not the least, for eps0 <= 2 (1 + sqrt(2 log(1/delta0))); inf elsewhere. The paper takes
    sensitivity 1 for clip norm 1, whereas replacing a record has sensitivity 2: the true deltas are at least 126 times
    what it claims.

    Args:
      local_epsilon: eps0 > 0.
      local_delta: delta0 in (0, 1).
      sensitivity: > 0, in units of the clip norm.

    Returns:
      float, or float64 of the arguments' common shape; in units of the clip norm.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.sufficient_gaussian_noise(1.0, 1e-6), 3), round(clones.least_gaussian_noise(1.0, 1e-6), 3)
    (12.513, 8.449)
    """
    args = positive("local_epsilon", local_epsilon), log_of(inner_probability("local_delta", local_delta))
    return plain(_sufficient(*args, positive("sensitivity", sensitivity)))


def least_gaussian_noise(local_epsilon: ArrayLike, local_delta: ArrayLike, *, sensitivity: ArrayLike = 2.0) -> Floats:
    """The least sigma that makes a step (eps0, delta0)-DP, from the exact Gaussian profile (CL-S13).

    It is sufficient: the profile is checked at the result, which is rounded up.

    Args:
      local_epsilon: eps0 > 0.
      local_delta: delta0 in (0, 1).
      sensitivity: > 0, in units of the clip norm.

    Returns:
      float, or float64 of the arguments' common shape; in units of the clip norm.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.least_gaussian_noise(1.0, 1e-6, sensitivity=1.0), 4)
    4.2247
    """
    args = positive("local_epsilon", local_epsilon), log_of(inner_probability("local_delta", local_delta))
    return plain(_least(*args, positive("sensitivity", sensitivity)))


def largest_local_epsilon(
    num_reports: ArrayLike, epsilon: ArrayLike, delta: ArrayLike, *, highest: ArrayLike | None = None
) -> Floats:
    """The largest local epsilon found in [epsilon, highest] whose shuffle is (epsilon, delta)-DP (CL-S19).

    It is certified: there an upper bound on the clones pair's delta is at most `delta`. The result is below the pair's
    own largest local epsilon by rounding only.

    Args:
      num_reports: n, whole number >= 1.
      epsilon: > 0.
      delta: in (0, 1).
      highest: > epsilon; None for epsilon + 10.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.largest_local_epsilon(10_000, 0.5, 1e-6), 4)
    3.7024
    """
    n, at = counts("num_reports", num_reports), positive("epsilon", epsilon)
    top = at + 10.0 if highest is None else positive("highest", highest)
    if np.any(top <= at):
        raise ValueError(f"highest={highest!r} must be > epsilon={epsilon!r}")
    return plain(_largest_local_epsilon(n, at, log_of(inner_probability("delta", delta)), top, window=window_of(n, at)))


def fewest_reports(
    local_epsilon: ArrayLike, epsilon: ArrayLike, delta: ArrayLike, *, highest: ArrayLike = 10**9
) -> Floats:
    """The least number of reports found in 1..highest whose shuffle is (epsilon, delta)-DP (CL-S19).

    It is certified: an upper bound on the clones pair's delta, which does not rise with the number of reports, is at
    most `delta` there. It is inf if no number up to `highest` suffices.

    Args:
      local_epsilon: eps0 > 0.
      epsilon: >= 0.
      delta: in (0, 1).
      highest: whole number >= 1.

    Returns:
      float, or float64 of the arguments' common shape; whole, or inf.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> clones.fewest_reports(2.0, 0.5, 1e-6)
    1167.0
    """
    local, at = positive("local_epsilon", local_epsilon), non_negative("epsilon", epsilon)
    args = local, at, log_of(inner_probability("delta", delta)), counts("highest", highest)
    return plain(_fewest_reports(*args, window=4096))
