"""Bounds for approximate randomizers from the clones pair of pure ones, and the delta that replacing reports costs.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", sections 2.3, 3.1, 5 and Appendix C (CL-S5, CL-S7, CL-S8,
CL-S12, CL-S13, CL-S19). Replace-one adjacency. The pair enters as a `Profile`, any valid upper bound on its divergence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxacct._jax import Array, jax
from jaxacct.divergence.clones._profile import ProfileEnds, clones_delta
from jaxacct.divergence.gaussian._pair import gaussian_log_delta
from jaxacct.special import log_up, softplus, solve_decreasing, up
from jaxacct.special._namespace import xp

# From (epsilon, num_reports, local_epsilon), each [L], to a bracket of the pair's log delta. Its upper end is used; the
# log tail, that of -d delta / d e^epsilon, only steers a search.
Profile = Callable[[Array, Array, Array], ProfileEnds]


def pure_profile(*, window: int) -> Profile:
    """A function: the profile of the clones pair of any pure randomizers, clone probability e^-local_epsilon.

    Feldman, McMillan & Talwar 2021, Theorem 3.2; `window` (static) is that of `clones_delta`.
    """

    def profile(epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> ProfileEnds:
        return clones_delta(epsilon, num_reports, xp.exp(-local_epsilon), local_epsilon, window=window)

    return profile


class LogGuarantee(NamedTuple):
    """The guarantee (epsilon, exp(log_delta)); each field is [L]."""

    epsilon: jax.Array
    log_delta: jax.Array


def log_replacement_cost(
    num_reports: jax.Array, local_epsilon: jax.Array, local_log_delta: jax.Array, num_epochs: jax.Array
) -> jax.Array:
    """Log K [L], rounded up: with (local_epsilon, local_delta)-DP randomizers delta grows by (1 + e^epsilon) K.

    Feldman, McMillan & Talwar 2021, Theorem 3.8 (CL-S7):

        K = T n (1 + e^-local_epsilon / 2) local_delta,

    the total variation at which pure randomizers replace all n reports of all T shuffles. It is added once, after the T
    pure shuffles were composed; it has no place in a Renyi divergence.

    Args:
      num_reports: n, [L].
      local_epsilon: [L].
      local_log_delta: log of local_delta, [L]; -inf for pure randomizers.
      num_epochs: T, [L].
    """
    each = local_log_delta + xp.log1p(0.5 * xp.exp(-local_epsilon))
    return log_up(xp.log(num_reports), 16) + log_up(xp.log(num_epochs), 16) + log_up(each, 16)


def log_gaussian_replacement_cost(
    num_reports: jax.Array, local_epsilon: jax.Array, clip_over_sigma: jax.Array, num_epochs: jax.Array
) -> jax.Array:
    """Log K [L], rounded up, for Gaussian reports that pure ones of `local_epsilon` replace.

    The reports are x + N(0, sigma^2 I), |x| <= clip; delta grows by (1 + e^epsilon) K:

        K = T n G(local_epsilon / 2, clip / sigma),   G(e, mu) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu).

    Each report is deletion (local_epsilon/2, G)-DP with respect to N(0, sigma^2 I). Clipping its density to within
    e^(+-local_epsilon/2) of that moves it by G (Feldman, McMillan & Talwar 2021, Lemma 3.7; CL-S8). K is less than
    `log_replacement_cost` at the same local epsilon, whose local delta is G(local_epsilon, 2 mu).

    Args:
      num_reports: n, [L].
      local_epsilon: that of the pure reports, [L].
      clip_over_sigma: [L]; the inverse of the noise multiplier.
      num_epochs: T, [L].
    """
    single = gaussian_log_delta(0.5 * local_epsilon, clip_over_sigma)
    return log_up(xp.log(num_reports), 16) + log_up(xp.log(num_epochs), 16) + log_up(single, 16)


def with_replacement_cost(guarantee: LogGuarantee, log_cost: jax.Array) -> LogGuarantee:
    """(epsilon, delta + (1 + e^epsilon) K) [L], rounded up, from the (epsilon, delta) of pure reports.

    Feldman, McMillan & Talwar 2021, Lemma C.1; `log_cost` is log K.
    """
    cost = up(softplus(guarantee.epsilon), 32) + log_up(log_cost, 16)
    total = log_up(xp.logaddexp(guarantee.log_delta, cost), 16)
    return LogGuarantee(guarantee.epsilon, xp.minimum(total, 0.0))


def total_log_delta(
    profile: Profile, num_reports: jax.Array, local_epsilon: jax.Array, log_cost: jax.Array, epsilon: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(log of pure delta + (1 + e^epsilon) K, rounded up; its derivative in epsilon, for searches), each [L].

    Arguments as for `total_epsilon`.
    """
    pure = profile(epsilon, num_reports, local_epsilon)
    value = with_replacement_cost(LogGuarantee(epsilon, pure.log_delta.upper), log_cost).log_delta
    value = xp.maximum(value, -1e4)
    return value, xp.exp(epsilon + log_cost - value) - xp.exp(xp.minimum(epsilon + pure.log_tail - value, 700.0))


def total_epsilon(
    profile: Profile,
    num_reports: jax.Array,
    local_epsilon: jax.Array,
    log_cost: jax.Array,
    log_delta: jax.Array,
) -> jax.Array:
    """The least epsilon [L] found at which pure delta + (1 + e^epsilon) K is at most exp(log_delta); inf if none is.

    Upper bound: the sum was evaluated at the answer. It is convex in e^epsilon and not monotone, so that it must meet
    the target on its decreasing branch; it is nowhere below 2 K. Searched in [0, local_epsilon].

    Args:
      profile: of the pure reports.
      num_reports, local_epsilon: arguments of `profile`, [L].
      log_cost: log K, [L].
      log_delta: log of the target delta, [L].
    """

    def total(
        epsilon: jax.Array, target: jax.Array, log_cost: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        value, slope = total_log_delta(profile, num_reports, local_epsilon, log_cost, epsilon)
        return value - target, slope

    def falling(epsilon: jax.Array, *params: jax.Array) -> tuple[jax.Array, jax.Array]:
        # beyond the minimum the root, if any, lies to the left, as it does from where the target is met
        value, slope = total(epsilon, *params)
        return xp.where(slope < 0, value, xp.minimum(value, 0.0)), slope

    params = (log_delta, log_cost, num_reports, local_epsilon)
    root = solve_decreasing(falling, xp.zeros_like(local_epsilon), local_epsilon, *params)
    at = xp.where(xp.isfinite(root), root, local_epsilon)
    return xp.where(total(at, *params)[0] <= 0, at, xp.inf)
