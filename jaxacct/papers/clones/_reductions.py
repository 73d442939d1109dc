"""BOUND: what follows from the clones pair or leads to it; frequency estimation and its calibration are NOT A BOUND.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", sections 2.3, 3.1 and 5 (CL-S5, CL-S8, CL-S12, CL-S13,
CL-S19). Replace-one adjacency. The pair enters as a `Profile`, any valid upper bound on its divergence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxacct._jax import jax
from jaxacct.bounds.theorems import Guarantee, Profile
from jaxacct.divergence.kernels import gaussian_log_delta
from jaxacct.special import bisect, bisect_lanes, log1p, log_up, sinh, softplus, solve_decreasing, up, xp

_ULPS = 32  # the certificate's rounding; at most 16 ulp occur: two functions of 4 each, a square root, products
_NUM_HALVINGS = 54  # of a factor in [e^-epsilon, e^epsilon], to its last digits, or of a number of reports


def subsampled(guarantee: Guarantee, sampling_prob: jax.Array) -> Guarantee:
    """The guarantee [L], rounded up, of a mechanism run on a uniform m of n records: (log(1 + q (e^eps - 1)), q delta).

    Upper bound, replace-one adjacency, q = m/n, from advanced joint convexity (Feldman, McMillan & Talwar 2021, Lemma
    2.3): with a' = 1 + q (a - 1), D_a'((1-q) P_0 + q P_1 || (1-q) P_0 + q Q_1) is
    q D_a(P_1 || (1 - a'/a) P_0 + (a'/a) Q_1).
    """
    epsilon = up(log1p(sampling_prob * xp.expm1(guarantee.epsilon)), _ULPS)
    log_delta = log_up(guarantee.log_delta + log_up(xp.log(sampling_prob), 4.0), 2.0)
    return Guarantee(xp.minimum(epsilon, guarantee.epsilon), xp.minimum(log_delta, 0.0))


def replacement_from_deletion(guarantee: Guarantee) -> Guarantee:
    """The replace-one guarantee [L] of a deletion (epsilon, delta)-DP randomizer: (2 epsilon, (1 + e^epsilon) delta).

    Upper bound. The paper's (2 epsilon, 2 delta), section 3.1, is false: for rho = (.01, .99), P = (.03, .97),
    P' = (0, 1), both (log 2, .01)-close to rho, D_4(P || P') = .03. This one is attained there.
    """
    log_delta = log_up(guarantee.log_delta + up(softplus(guarantee.epsilon), 12), 2.0)
    return Guarantee(2.0 * guarantee.epsilon, xp.minimum(log_delta, 0.0))


class PurifiedLaw(NamedTuple):
    """Probabilities [n] within e^(+-epsilon) of the reference, and their total variation from the original."""

    probabilities: NDArray[Any]
    total_variation: float


def purified(probabilities: NDArray[Any], reference: NDArray[Any], epsilon: float) -> PurifiedLaw:
    """The law [n] nearest to `probabilities` among those within e^(+-epsilon) of `reference`, with its distance.

    Feldman, McMillan & Talwar 2021, Lemma 3.7 (CL-S8), on the host. Clip to [e^-epsilon, e^epsilon] times the
    reference, then move the one factor towards 1 whose side lost less, until both sides lost the same. The total
    variation is the larger of D_{e^eps}(r || rho) and e^-eps D_{e^eps}(rho || r), rounded up.

    Args:
      probabilities, reference: float64 [n], each of sum 1.
      epsilon: >= 0.
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


def sufficient_gaussian_noise(
    local_epsilon: jax.Array, local_log_delta: jax.Array, sensitivity: jax.Array
) -> jax.Array:
    """Standard deviations sigma [L] = sensitivity (1 + sqrt(2 L)) / local_epsilon, L = log(1/local_delta), rounded up.

    Feldman, McMillan & Talwar 2021, Proposition 5.3 (CL-S13). Makes a step (local_epsilon, local_delta)-DP, for
    local_epsilon <= 2 (1 + sqrt(2 L)) (Chernoff: P[loss > epsilon] is at most exp(-L)); inf elsewhere. The paper takes
    sensitivity 1 for clip norm 1, where replace-one has 2: its true deltas are 126 (local_delta = 1e-6,
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


def frequency_mean_squared_error(
    num_reports: jax.Array, local_epsilon: jax.Array, num_categories: jax.Array
) -> jax.Array:
    """Mean squared errors [L] of local frequency estimation, an estimate: 1/n + 4 k E / (n (E-1)^2) (Theorem 5.1).

    With the quoted constant: what low-communication protocols attain, for local_epsilon <= log k.
    """
    # E / (E-1)^2 = 1 / (4 sinh(eps/2)^2)
    half = sinh(0.5 * local_epsilon)
    return (1.0 + num_categories / (half * half)) / num_reports


def frequency_local_epsilon(epsilon: jax.Array, num_reports: jax.Array, log_delta: jax.Array) -> jax.Array:
    """Local epsilons [L] of Theorem 5.2 for a central (epsilon, delta); 0 where it has none that is safe.

    eps sqrt(n / L) / 16 for eps <= sqrt(L/n), L = log(1/delta); else log(eps^2 n / (100 L)) for eps < 1. The second is
    negative below 10 sqrt(L/n), where the paper's statement is void. For reproduction only: 5 to 200 times below what
    `largest_local_epsilon` finds. delta > 0.05 is refused, since there Theorem 3.1 need not confirm it.
    """
    ratio = epsilon * xp.sqrt(num_reports / xp.where(log_delta < 0, -log_delta, 1.0))
    first, second = ratio / 16.0, 2.0 * xp.log(xp.where(ratio > 0, ratio, 1.0) / 10.0)
    local = xp.where(ratio <= 1.0, first, xp.where(epsilon < 1.0, xp.maximum(second, 0.0), 0.0))
    return xp.where((log_delta <= xp.log(0.05)) & (epsilon > 0), local, 0.0)


def largest_local_epsilon(
    profile: Profile, num_reports: jax.Array, epsilon: jax.Array, log_delta: jax.Array, highest: jax.Array
) -> jax.Array:
    """The largest local epsilon [L] found in [epsilon, highest] whose shuffle is (epsilon, delta)-DP (CL-S19)."""

    def excess(
        negated: jax.Array, target: jax.Array, num_reports: jax.Array, epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def value(negated: jax.Array) -> jax.Array:
            return xp.maximum(profile(epsilon, num_reports, -negated).log_delta.upper, -1e4) - target

        return jax.jvp(value, (negated,), (xp.ones_like(negated),))

    root = solve_decreasing(excess, -highest, -epsilon, log_delta, num_reports, epsilon)
    return xp.where(xp.isfinite(root), -root, 0.0)


def fewest_reports(
    profile: Profile, local_epsilon: jax.Array, epsilon: jax.Array, log_delta: jax.Array, highest: jax.Array
) -> jax.Array:
    """The least number of reports [L] found in 1..highest whose shuffle is (epsilon, delta)-DP; inf if none is.

    By halving between whole numbers: delta does not increase with the number of reports (CL-S19).
    """

    def enough(num_reports: jax.Array) -> jax.Array:
        return profile(epsilon, num_reports, local_epsilon).log_delta.upper <= log_delta

    found = bisect_lanes(enough, highest + 1.0, xp.zeros_like(highest), num_steps=_NUM_HALVINGS, whole=True)
    return xp.where(found <= highest, found, xp.inf)
