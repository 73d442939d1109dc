"""Feldman, McMillan & Talwar 2021, "Hiding Among the Clones": the closed forms (CL-S1, CL-S3, CL-S9, CL-S10, CL-S11).

They all make the same statement. `num_reports` = n reports are shuffled; any other user's report is, with probability
at least `clone_prob` = p, a clone of one of the two candidate reports, each equally likely; the differing record shows
in its own report with probability at most `weight` = w. Then the two laws are (epsilon, delta)-indistinguishable for

    epsilon = log(1 + w (8 sqrt(L / (p n)) + 8 / (p n))),   L = log(4 w / delta) <= p n / 16:

Lemma 3.3 and Lemma A.1 for w = 1. The weight comes from advanced joint convexity (Lemma 2.3), as in Lemma 3.5, whose
proof ends with w delta. Upper bound, replace-one adjacency, adaptive sequences of randomizers. The paper states
p n >= 16 log(2/delta); its proof uses log(4/delta), and so do we.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxacct._jax import jax
from jaxacct.special import down, up
from jaxacct.special._namespace import xp

_ULPS = 128  # the certificate's rounding, in ulp; some 20 occur at most: three functions of 4, quotients and products


class ClonesParameters(NamedTuple):
    """What the closed form needs to know of a randomizer, float64 lanes [L].

    Attributes:
      clone_prob: p in [0, 1].
      weight: w in [0, 1].
      local_epsilon: >= 0, never exceeded by the answer; inf where the candidate reports may have different supports.
    """

    clone_prob: jax.Array
    weight: jax.Array
    local_epsilon: jax.Array


def pure_parameters(local_epsilon: jax.Array) -> ClonesParameters:
    """The closed form's parameters [L] for any pure randomizers: p = e^-epsilon, w = tanh(epsilon/2), epsilon >= 0.

    Feldman, McMillan & Talwar 2021, Theorem 3.1 and Lemma 3.5.
    """
    return ClonesParameters(xp.exp(-local_epsilon), xp.tanh(0.5 * local_epsilon), local_epsilon)


def _log_weight(weight: jax.Array) -> jax.Array:
    """log(4 w) [L], kept finite at w = 0, where every delta is met."""
    return xp.log(4.0 * xp.where(weight > 0, weight, 1e-300))


def closed_form_epsilon(num_reports: jax.Array, parameters: ClonesParameters, log_delta: jax.Array) -> jax.Array:
    """Epsilon [L] at `log_delta` <= 0, the module's formula, rounded up; inf where p n < 16 log(4 w / delta).

    Upper bound, replace-one adjacency, both directions; at most the local epsilon. Relative rounding added: 2^-46.
    """
    clones = num_reports * parameters.clone_prob
    spread = xp.maximum(_log_weight(parameters.weight) - log_delta, xp.log(4.0))  # the total variation is at most w
    valid = (up(16.0 * spread, _ULPS) <= clones) & (log_delta <= 0)
    spread, clones = xp.where(valid, spread, 1.0), xp.where(valid, clones, 16.0)
    epsilon = up(xp.log1p(parameters.weight * (8.0 * xp.sqrt(spread / clones) + 8.0 / clones)), _ULPS)
    return xp.where(valid, xp.minimum(epsilon, parameters.local_epsilon), xp.inf)


def closed_form_log_delta(num_reports: jax.Array, parameters: ClonesParameters, epsilon: jax.Array) -> jax.Array:
    """Log delta [L] at `epsilon` >= 0, the inverse of `closed_form_epsilon`, rounded up; 0 where it gives no bound.

        L = p n ((e^epsilon - 1)/(8 w) - 1/(p n))^2, at most p n / 16;   delta = 4 w e^-L.

    Upper bound, replace-one adjacency, both directions; -inf from the local epsilon on.
    """
    clones = num_reports * parameters.clone_prob
    weight = xp.where(parameters.weight > 0, parameters.weight, 1e-300)
    clones = xp.where(clones > 0, clones, 1e-300)
    gap = xp.expm1(epsilon) / up(8.0 * weight, _ULPS) - up(1.0 / clones, _ULPS)
    gap = xp.minimum(gap, 1.0)  # 1/4 is the limit
    spread = down(xp.minimum(clones * gap * gap, clones / 16.0), 2 * _ULPS)
    valid = (gap > 0) & (spread >= xp.log(4.0))
    log_delta = xp.minimum(_log_weight(parameters.weight) - spread + 2.0**-46, 0.0)
    return xp.where(epsilon >= parameters.local_epsilon, -xp.inf, xp.where(valid, log_delta, 0.0))
