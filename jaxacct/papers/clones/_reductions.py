"""BOUND, from above: subsampling, replace-one from deletion, approximate randomizers, and purified ones.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", sections 2.3 and 3.1, Appendix C (CL-S5, CL-S7, CL-S8).
Replace-one adjacency. The pair used is that of arbitrary pure randomizers, with clone probability e^-local_epsilon.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxacct._jax import jax
from jaxacct._precision import Kernel, float64_kernel
from jaxacct.bounds.theorems import (
    LogGuarantee,
    log_gaussian_replacement_cost,
    log_replacement_cost,
    pure_profile,
    total_epsilon,
    with_replacement_cost,
)
from jaxacct.conversion import delta_from_log
from jaxacct.divergence.kernels import WIDEST_WINDOW, clones_lane_bytes, clones_window
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
from jaxacct.special import bisect, log1p, log_up, softplus, up, xp

_ULPS = 32  # allowed for rounding; at most 16 ulp occur: two functions of 4 each, a square root, products
_NUM_HALVINGS = 54  # of a factor in [e^-epsilon, e^epsilon], to its last digits


def subsampled(guarantee: LogGuarantee, sampling_prob: jax.Array) -> LogGuarantee:
    """`subsampled_guarantee` [L], rounded up.

    With a' = 1 + q (a - 1), D_a'((1-q) P_0 + q P_1 || (1-q) P_0 + q Q_1) is q D_a(P_1 || (1 - a'/a) P_0 + (a'/a) Q_1).
    """
    # nothing is lost if nobody is drawn, whatever e^epsilon is
    growth = xp.where(sampling_prob > 0, xp.expm1(guarantee.epsilon), 0.0)
    epsilon = up(log1p(sampling_prob * growth), _ULPS)
    log_delta = log_up(guarantee.log_delta + log_up(xp.log(sampling_prob), 4.0), 2.0)
    return LogGuarantee(xp.minimum(epsilon, guarantee.epsilon), xp.minimum(log_delta, 0.0))


def replacement_from_deletion_lanes(guarantee: LogGuarantee) -> LogGuarantee:
    """`replacement_from_deletion` [L]. The paper's (2 epsilon, 2 delta), section 3.1, is false:

    for rho = (.01, .99), P = (.03, .97), P' = (0, 1), both (log 2, .01)-close to rho, D_4(P || P') = .03. The guarantee
    returned is attained there.
    """
    log_delta = log_up(guarantee.log_delta + up(softplus(guarantee.epsilon), 12), 2.0)
    return LogGuarantee(2.0 * guarantee.epsilon, xp.minimum(log_delta, 0.0))


class PurifiedLaw(NamedTuple):
    """Probabilities [n] within e^(+-epsilon) of the reference, and their total variation distance to the original."""

    probabilities: NDArray[Any]
    total_variation: float


def purified_lanes(probabilities: NDArray[Any], reference: NDArray[Any], epsilon: float) -> PurifiedLaw:
    """`purified`, on the host: clips to [e^-epsilon, e^epsilon] times the reference.

    It then moves the factor on the side that lost less towards 1, until both sides have lost the same. The total
    variation is the larger of D_{e^eps}(r || rho) and e^-eps D_{e^eps}(rho || r), rounded up.
    """
    r, rho = np.asarray(probabilities, np.float64), np.asarray(reference, np.float64)
    low, high = np.exp(-epsilon), np.exp(epsilon)

    def excess(factor: float) -> float:
        return float(np.maximum(r - factor * rho, 0.0).sum())

    def lack(factor: float) -> float:
        return float(np.maximum(factor * rho - r, 0.0).sum())

    total = max(excess(high), lack(low))
    if excess(high) > lack(low):
        low = bisect(lambda factor: lack(factor) >= total, 1.0, low, num_steps=_NUM_HALVINGS)
    else:
        high = bisect(lambda factor: excess(factor) >= total, 1.0, high, num_steps=_NUM_HALVINGS)
    return PurifiedLaw(np.clip(r, low * rho, high * rho), up(total, _ULPS))


def both(guarantee: LogGuarantee) -> tuple[jax.Array, jax.Array]:
    """(epsilon, delta) of a guarantee in logarithms."""
    return guarantee.epsilon, delta_from_log(guarantee.log_delta)


_subsampled = Kernel(lambda epsilon, log_delta, q: both(subsampled(LogGuarantee(epsilon, log_delta), q)), on_host=True)
_replaced = Kernel(
    lambda epsilon, log_delta: both(replacement_from_deletion_lanes(LogGuarantee(epsilon, log_delta))), on_host=True
)


@float64_kernel(on_host=True)
def _total(
    epsilon: jax.Array, log_delta: jax.Array, n: jax.Array, local: jax.Array, log_local: jax.Array, rounds: jax.Array
) -> jax.Array:
    cost = log_replacement_cost(n, local, log_local, rounds)
    return delta_from_log(with_replacement_cost(LogGuarantee(epsilon, log_delta), cost).log_delta)


def _approximate(
    n: jax.Array, local: jax.Array, log_local: jax.Array, log_delta: jax.Array, *, window: int
) -> jax.Array:
    cost = log_replacement_cost(n, local, log_local, xp.ones_like(n))
    return total_epsilon(pure_profile(window=window), n, local, cost, log_delta)


def _purified(n: jax.Array, local: jax.Array, mu: jax.Array, log_delta: jax.Array, *, window: int) -> jax.Array:
    cost = log_gaussian_replacement_cost(n, local, mu, xp.ones_like(n))
    return total_epsilon(pure_profile(window=window), n, local, cost, log_delta)


_approximate_epsilon = Kernel(_approximate, lane_bytes=clones_lane_bytes, on_host=True)
_purified_epsilon = Kernel(_purified, lane_bytes=clones_lane_bytes, on_host=True)


def window_of(num_reports: Real, local_epsilon: Real) -> int:
    """The static window of the clones pair of arbitrary pure randomizers."""
    return clones_window(num_reports, np.exp(-local_epsilon), max_window=WIDEST_WINDOW)


def subsampled_guarantee(epsilon: ArrayLike, delta: ArrayLike, sampling_prob: ArrayLike) -> Guarantee:
    """(epsilon, delta) on a uniform m of n records: (log(1 + q (e^eps - 1)), q delta), q = m/n (CL-S5, CI-S6).

    Upper bound, replace-one adjacency, from advanced joint convexity (Lemma 2.3); exact as a statement about profiles.

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


def purified(probabilities: ArrayLike, reference: ArrayLike, epsilon: float) -> PurifiedLaw:
    """The law nearest to a report's among those within e^(+-epsilon) of a reference, Lemma 3.7 (CL-S8).

    The law is exact up to the last digits. Its total variation distance to the report's law is rounded up: it is the
    larger of D_{e^eps}(r || rho) and e^-eps D_{e^eps}(rho || r). The purified randomizer is 2 epsilon-DP under
    replace-one adjacency.

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
        raise ValueError(f"probabilities has {len(r)} values and reference {len(rho)}: they must have the same length")
    return purified_lanes(r, rho, float(non_negative("epsilon", number("epsilon", epsilon))))


def approximate_delta(
    epsilon: ArrayLike,
    pure_delta: ArrayLike,
    num_reports: ArrayLike,
    local_epsilon: ArrayLike,
    local_delta: ArrayLike,
    *,
    num_epochs: ArrayLike = 1,
) -> Floats:
    """delta of shuffled (eps0, delta0)-DP reports from that of pure reports, Theorem 3.8 (CL-S7):

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

    Upper bound, one epoch: the least epsilon at which `approximate_delta` is at most delta; inf if there is none.

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
    return plain(_approximate_epsilon(n, local, *logs, window=window_of(n, local)))


def purified_gaussian_epsilon(
    num_reports: ArrayLike, local_epsilon: ArrayLike, noise_multiplier: ArrayLike, delta: ArrayLike
) -> Floats:
    """epsilon of shuffled clipped reports with Gaussian noise, made pure at a given local epsilon (CL-S8, CL-S13).

    Each report, N(x, sigma^2 I) with |x| at most 1, is deletion (eps0/2, G)-DP, G = G(eps0/2, 1/sigma), and its law
    moves by G when it is purified (Lemma 3.7): delta grows by (e^eps + 1) n G. Upper bound, one epoch; inf if there is
    none. `jaxacct.epsilon` of `GaussianReports` takes the best local epsilon.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      noise_multiplier: sigma > 0, standard deviation of the noise divided by the clip norm.
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
    return plain(_purified_epsilon(n, local, mu, log_delta, window=window_of(n, local)))
