"""Feldman, McMillan and Talwar 2021, "Hiding Among the Clones": the closed forms (CL-S1, CL-S3, CL-S9, CL-S10, CL-S11).

Every one is the same statement. `num_reports` reports are shuffled; a foreign report is, with probability
`clone_prob` = p at least, a clone of one of the two candidate reports, each as likely; the differing record shows in
its own report with probability `weight` = w at most. Then the two laws are (epsilon, delta)-indistinguishable for

    epsilon = log(1 + w (8 sqrt(L / (p n)) + 8 / (p n))),   L = log(4 w / delta) <= p n / 16:

Lemma 3.3 and Lemma A.1 for w = 1, and for the weight advanced joint convexity (Lemma 2.3), as in Lemma 3.5, whose
proof ends with w delta. Upper bound, replace-one adjacency, adaptive sequences of randomizers.
The paper states p n >= 16 log(2/delta); its proof uses log(4/delta), and so do we.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

_ROUND_UP = 1.0 + 2.0**-46


class ClonesParameters(NamedTuple):
    """What the closed form asks of a randomizer, float64 lanes [L].

    Attributes:
      clone_prob: p in [0, 1].
      weight: w in [0, 1].
      local_epsilon: >= 0, never exceeded by the answer; inf where the candidate reports may have different supports.
    """

    clone_prob: jax.Array
    weight: jax.Array
    local_epsilon: jax.Array


def clone_only_parameters(clone_prob: jax.Array) -> ClonesParameters:
    """Clones of probability p, nothing known of the candidate reports (Lemma A.1)."""
    one = jnp.ones_like(clone_prob)
    return ClonesParameters(clone_prob, one, jnp.inf * one)


def pure_parameters(local_epsilon: jax.Array) -> ClonesParameters:
    """Any randomizers of pure local epsilon >= 0: p = e^-epsilon, w = tanh(epsilon/2) (Theorem 3.1, Lemma 3.5)."""
    return ClonesParameters(jnp.exp(-local_epsilon), jnp.tanh(0.5 * local_epsilon), local_epsilon)


def three_component_parameters(component_prob: jax.Array, weight: jax.Array) -> ClonesParameters:
    """Randomizers as Theorem 4.1 splits them, p Q_1(x_0) + p Q_1(x_1) + p Q_0 + ..: two of the three are clones.

    Its closed form, (epsilon, q delta) with epsilon = log(1 + q (4 sqrt(2 log(4/delta)/(p n)) + 4/(p n))), is the
    common one at clone probability 2p and weight q.
    """
    return ClonesParameters(2.0 * component_prob, weight, jnp.inf * jnp.ones_like(weight))


def rederived_parameters(local_epsilon: jax.Array) -> ClonesParameters:
    """Pure randomizers by way of Theorem 4.1 (CL-S11), p = e^-epsilon / 3: never better than `pure_parameters`."""
    pure = pure_parameters(local_epsilon)
    return pure._replace(clone_prob=2.0 / 3.0 * pure.clone_prob)


def k_ary_parameters(local_epsilon: jax.Array, num_categories: jax.Array) -> ClonesParameters:
    """k-ary randomized response (Corollary 4.2): p = k / ((k+1)(E+k-1)), q = (E-1)/(E+k-1), E = e^epsilon.

    The corollary's condition, epsilon <= log(n / (16 log(2/delta))), does not imply the one of Theorem 4.1 unless
    E >= k + 1, and at n = 1000, k = 300, epsilon = 1.46, delta = 1e-6 its pair has 108 delta: not offered. The
    condition on p n is checked instead.
    """
    k = num_categories
    growth = jnp.expm1(local_epsilon)
    parameters = three_component_parameters(k / ((k + 1.0) * (growth + k)), growth / (growth + k))
    return parameters._replace(local_epsilon=local_epsilon)


def _log_weight(weight: jax.Array) -> jax.Array:
    """log(4 w), kept finite at w = 0, where every delta is met."""
    return jnp.log(4.0 * jnp.where(weight > 0, weight, 1e-300))


def closed_form_epsilon(num_reports: jax.Array, parameters: ClonesParameters, log_delta: jax.Array) -> jax.Array:
    """epsilon [L] at `log_delta` <= 0, rounded up by 2^-46; inf where p n < 16 log(4 w / delta)."""
    clones = num_reports * parameters.clone_prob
    spread = jnp.maximum(_log_weight(parameters.weight) - log_delta, jnp.log(4.0))  # the total variation is at most w
    valid = (16.0 * spread * _ROUND_UP <= clones) & (log_delta <= 0)
    spread, clones = jnp.where(valid, spread, 1.0), jnp.where(valid, clones, 16.0)
    epsilon = jnp.log1p(parameters.weight * (8.0 * jnp.sqrt(spread / clones) + 8.0 / clones)) * _ROUND_UP
    return jnp.where(valid, jnp.minimum(epsilon, parameters.local_epsilon), jnp.inf)


def closed_form_log_delta(num_reports: jax.Array, parameters: ClonesParameters, epsilon: jax.Array) -> jax.Array:
    """log delta [L] at `epsilon` >= 0, the inverse of `closed_form_epsilon`, rounded up; 0 where it says nothing.

    L = p n ((e^epsilon - 1)/(8 w) - 1/(p n))^2, at most p n / 16;   delta = 4 w e^-L.
    """
    clones = num_reports * parameters.clone_prob
    weight = jnp.where(parameters.weight > 0, parameters.weight, 1e-300)
    clones = jnp.where(clones > 0, clones, 1e-300)
    gap = jnp.minimum(jnp.expm1(epsilon) / (8.0 * weight * _ROUND_UP) - _ROUND_UP / clones, 1.0)  # 1/4 is the limit
    spread = jnp.minimum(clones * gap * gap, clones / 16.0) / (_ROUND_UP * _ROUND_UP)
    valid = (gap > 0) & (spread >= jnp.log(4.0))
    log_delta = jnp.minimum(_log_weight(parameters.weight) - spread + 2.0**-46, 0.0)
    return jnp.where(epsilon >= parameters.local_epsilon, -jnp.inf, jnp.where(valid, log_delta, 0.0))
