"""BOUND, from above: approximate randomizers, sampling, purification, sufficient noise, and inverse problems.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", sections 2.3, 3.1 and 5, Appendix C. Replace-one
adjacency. The pair that enters is that of arbitrary pure randomizers, clone probability e^-local_epsilon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax
from jaxacct._precision import Kernel, float64_kernel
from jaxacct.bounds.theorems import Guarantee as _Lanes
from jaxacct.bounds.theorems import (
    log_gaussian_replacement_cost,
    log_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.conversion import delta_from_log
from jaxacct.divergence.kernels import clones_lane_bytes, clones_window
from jaxacct.papers._asking import (
    Floats,
    Guarantee,
    Real,
    counts,
    inner_probability,
    law,
    log_of,
    non_negative,
    number,
    plain,
    positive,
    probability,
)
from jaxacct.papers.clones import _reductions as lanes
from jaxacct.special import xp

_LARGEST_WINDOW = 2**19  # counts that are summed one by one at most; beyond, the contour's bracket is the answer


def _both(guarantee: _Lanes) -> tuple[jax.Array, jax.Array]:
    return guarantee.epsilon, delta_from_log(guarantee.log_delta)


_subsampled = Kernel(lambda epsilon, log_delta, q: _both(lanes.subsampled(_Lanes(epsilon, log_delta), q)), on_host=True)
_replaced = Kernel(
    lambda epsilon, log_delta: _both(lanes.replacement_from_deletion(_Lanes(epsilon, log_delta))), on_host=True
)
_sufficient = Kernel(lanes.sufficient_gaussian_noise, on_host=True)
_least = Kernel(lanes.gaussian_noise, on_host=True)


@float64_kernel(on_host=True)
def _total(
    epsilon: jax.Array, log_delta: jax.Array, n: jax.Array, local: jax.Array, log_local: jax.Array, rounds: jax.Array
) -> jax.Array:
    cost = log_replacement_cost(n, local, log_local, rounds)
    return delta_from_log(with_replacement_cost(_Lanes(epsilon, log_delta), cost).log_delta)


def _approximate(
    n: jax.Array, local: jax.Array, log_local: jax.Array, log_delta: jax.Array, *, window: int
) -> jax.Array:
    cost = log_replacement_cost(n, local, log_local, xp.ones_like(n))
    return total_epsilon(pure_profile(window=window), n, local, cost, log_delta)


def _purified(n: jax.Array, local: jax.Array, mu: jax.Array, log_delta: jax.Array, *, window: int) -> jax.Array:
    cost = log_gaussian_replacement_cost(n, local, mu, xp.ones_like(n))
    return total_epsilon(pure_profile(window=window), n, local, cost, log_delta)


def _largest_local(n: jax.Array, epsilon: jax.Array, log_delta: jax.Array, top: jax.Array, *, window: int) -> jax.Array:
    return lanes.largest_local_epsilon(pure_profile(window=window), n, epsilon, log_delta, top)


def _fewest(local: jax.Array, epsilon: jax.Array, log_delta: jax.Array, top: jax.Array, *, window: int) -> jax.Array:
    return lanes.fewest_reports(pure_profile(window=window), local, epsilon, log_delta, top)


_approximate_epsilon = Kernel(_approximate, lane_bytes=clones_lane_bytes, on_host=True)
_purified_epsilon = Kernel(_purified, lane_bytes=clones_lane_bytes, on_host=True)
_largest_local_epsilon = Kernel(_largest_local, lane_bytes=clones_lane_bytes)
_fewest_reports = Kernel(_fewest, lane_bytes=clones_lane_bytes, on_host=True)


def _window(num_reports: Real, local_epsilon: Real) -> int:
    return clones_window(num_reports, np.exp(-local_epsilon), max_window=_LARGEST_WINDOW)


def subsampled_guarantee(epsilon: ArrayLike, delta: ArrayLike, sampling_prob: ArrayLike) -> Guarantee:
    """(epsilon, delta) on a uniform m of n records: (log(1 + q (e^eps - 1)), q delta), q = m/n (CL-S5, CI-S6).

    Upper bound, replace-one adjacency, from advanced joint convexity (Lemma 2.3); exact as a statement on profiles.

    Args:
      epsilon: >= 0, of the mechanism on m records.
      delta: in [0, 1].
      sampling_prob: q = m/n in [0, 1].

    Returns:
      Guarantee of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> found = clones.subsampled_guarantee(1.0, 1e-6, 0.1)
    >>> round(found.epsilon, 6), round(found.delta, 12)
    (0.158565, 1e-07)
    """
    args = non_negative("epsilon", epsilon), log_of(probability("delta", delta))
    return Guarantee(*(plain(x) for x in _subsampled(*args, probability("sampling_prob", sampling_prob))))


def replacement_from_deletion(epsilon: ArrayLike, delta: ArrayLike) -> Guarantee:
    """Replace-one (epsilon, delta) of a deletion (epsilon, delta)-DP randomizer: (2 eps, (1 + e^eps) delta) (CL-S8).

    Upper bound, and attained. The paper's (2 eps, 2 delta), section 3.1, is false.

    Args:
      epsilon: >= 0, to the reference law.
      delta: in [0, 1].

    Returns:
      Guarantee of floats, or of float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> found = clones.replacement_from_deletion(0.5, 1e-6)
    >>> found.epsilon, round(found.delta, 10)
    (1.0, 2.6487e-06)
    """
    args = non_negative("epsilon", epsilon), log_of(probability("delta", delta))
    return Guarantee(*(plain(x) for x in _replaced(*args)))


def purified(probabilities: ArrayLike, reference: ArrayLike, epsilon: float) -> lanes.PurifiedLaw:
    """The law nearest to a report's among those within e^(+-epsilon) of a reference, Lemma 3.7 (CL-S8).

    Exact up to the last digits, its total variation rounded up: the larger of D_{e^eps}(r || rho)
    and e^-eps D_{e^eps}(rho || r). The purified randomizer is 2 epsilon-DP under replace-one adjacency.

    Args:
      probabilities, reference: float [n], r and rho, each of sum 1.
      epsilon: >= 0.

    Returns:
      (probabilities [n], total_variation).

    Raises:
      ValueError: if an argument is out of range, or the laws differ in length.

    >>> from jaxacct.papers import clones
    >>> found = clones.purified([0.7, 0.2, 0.1], [0.3, 0.3, 0.4], epsilon=0.5)
    >>> [round(float(p), 4) for p in found.probabilities], round(found.total_variation, 4)
    ([0.4946, 0.2166, 0.2888], 0.2054)
    """
    r, rho = law("probabilities", probabilities), law("reference", reference)
    if r.shape != rho.shape:
        raise ValueError(f"probabilities has {len(r)} values and reference {len(rho)}: they must be as many")
    return lanes.purified(r, rho, float(non_negative("epsilon", number("epsilon", epsilon))))


def approximate_delta(
    epsilon: ArrayLike,
    pure_delta: ArrayLike,
    num_reports: ArrayLike,
    local_epsilon: ArrayLike,
    local_delta: ArrayLike,
    *,
    num_epochs: ArrayLike = 1,
) -> Floats:
    """delta of shuffled (eps0, delta0)-DP reports from that of pure ones, Theorem 3.8 (CL-S7):

        delta + (e^eps + 1)(1 + e^-eps0/2) T n delta0.

    Upper bound, for any valid delta of the clones pair of eps0 at epsilon, composed over T epochs.

    Args:
      epsilon: >= 0.
      pure_delta: in [0, 1], of pure eps0-DP randomizers.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.
      local_delta: delta0 in [0, 1].
      num_epochs: T, whole number >= 1.

    Returns:
      float, or float64 of the arguments' common shape; at most 1.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> f"{clones.approximate_delta(0.1, 1e-6, 10_000, 2.0, 1e-12):.5g}"
    '1.0225e-06'
    """
    pure = non_negative("epsilon", epsilon), log_of(probability("pure_delta", pure_delta))
    local = non_negative("local_epsilon", local_epsilon), log_of(probability("local_delta", local_delta))
    return plain(_total(*pure, counts("num_reports", num_reports), *local, counts("num_epochs", num_epochs)))


def approximate_epsilon(
    num_reports: ArrayLike, local_epsilon: ArrayLike, local_delta: ArrayLike, delta: ArrayLike
) -> Floats:
    """epsilon of shuffled (eps0, delta0)-DP reports, Theorem 3.8 over the exact clones pair (CL-S7).

    Upper bound, one epoch: the least epsilon at which `approximate_delta` is at most delta; inf where there is none.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      local_delta: delta0 in [0, 1].
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.approximate_epsilon(10_000, 2.0, 1e-12, 1e-6), 4)
    0.1553
    """
    n, local = counts("num_reports", num_reports), positive("local_epsilon", local_epsilon)
    logs = log_of(probability("local_delta", local_delta)), log_of(inner_probability("delta", delta))
    return plain(_approximate_epsilon(n, local, *logs, window=_window(n, local)))


def purified_gaussian_epsilon(
    num_reports: ArrayLike, local_epsilon: ArrayLike, noise_multiplier: ArrayLike, delta: ArrayLike
) -> Floats:
    """epsilon of shuffled clipped reports with Gaussian noise, made pure at a given local epsilon (CL-S8, CL-S13).

    Each report, N(x, sigma^2 I) with |x| at most 1, is deletion (eps0/2, G)-DP, G = G(eps0/2, 1/sigma), and moves by G
    when it is purified (Lemma 3.7): delta grows by (e^eps + 1) n G. Upper bound, one epoch; inf where there is none.
    `jaxacct.epsilon` of `GaussianReports` takes the best local epsilon.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      noise_multiplier: sigma > 0, over the clip norm.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.purified_gaussian_epsilon(10_000, 5.0, 3.0, 1e-6), 4)
    1.152
    """
    n, local = counts("num_reports", num_reports), positive("local_epsilon", local_epsilon)
    mu, log_delta = 1.0 / positive("noise_multiplier", noise_multiplier), log_of(inner_probability("delta", delta))
    return plain(_purified_epsilon(n, local, mu, log_delta, window=_window(n, local)))


def sufficient_gaussian_noise(
    local_epsilon: ArrayLike, local_delta: ArrayLike, *, sensitivity: ArrayLike = 2.0
) -> Floats:
    """sigma that makes a step (eps0, delta0)-DP: sensitivity (1 + sqrt(2 log(1/delta0)))/eps0, Prop. 5.3 (CL-S13).

    Sufficient, not least, for eps0 <= 2 (1 + sqrt(2 log(1/delta0))); inf elsewhere. The paper takes sensitivity 1 for
    clip norm 1, where replacing a record has 2: its deltas are 126 times and more what it claims.

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

    Sufficient: checked at the answer, which is rounded up.

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

    Certified: the clones pair's delta from above is at most delta there; below the pair's own answer by rounding only.

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
    return plain(_largest_local_epsilon(n, at, log_of(inner_probability("delta", delta)), top, window=_window(n, at)))


def fewest_reports(
    local_epsilon: ArrayLike, epsilon: ArrayLike, delta: ArrayLike, *, highest: ArrayLike = 10**9
) -> Floats:
    """The least number of reports found in 1..highest whose shuffle is (epsilon, delta)-DP (CL-S19).

    Certified: the clones pair's delta from above is at most delta there, and does not rise with the number. inf where
    no number up to `highest` suffices.

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
