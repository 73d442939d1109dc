"""BOUND, from above: the closed forms of "Hiding Among the Clones" for other decompositions than the clones pair's.

Feldman, McMillan & Talwar 2021 (CL-S3, CL-S9, CL-S10, CL-S11): parameters of `closed_form_epsilon`, which is common
to all of them.
"""

from __future__ import annotations

from jaxacct._jax import jax, jnp
from jaxacct.bounds.theorems import ClonesParameters, pure_parameters
from jaxacct.special import expm1


def clone_only_parameters(clone_prob: jax.Array) -> ClonesParameters:
    """The closed form's parameters [L] for clones of probability p, whatever the candidate reports (Lemma A.1)."""
    one = jnp.ones_like(clone_prob)
    return ClonesParameters(clone_prob, one, jnp.inf * one)


def three_component_parameters(component_prob: jax.Array, weight: jax.Array) -> ClonesParameters:
    """The closed form's parameters [L] for randomizers split as in Theorem 4.1, p Q_1(x_0) + p Q_1(x_1) + p Q_0 + ..

    Two of the three parts are clones. The theorem's form, (epsilon, q delta) with
    epsilon = log(1 + q (4 sqrt(2 log(4/delta)/(p n)) + 4/(p n))), is the common one at clone probability 2p, weight q.
    """
    return ClonesParameters(2.0 * component_prob, weight, jnp.inf * jnp.ones_like(weight))


def rederived_parameters(local_epsilon: jax.Array) -> ClonesParameters:
    """The closed form's parameters [L] for pure randomizers by way of Theorem 4.1 (CL-S11), p = e^-epsilon / 3.

    Never better than `pure_parameters`.
    """
    pure = pure_parameters(local_epsilon)
    return pure._replace(clone_prob=2.0 / 3.0 * pure.clone_prob)


def k_ary_parameters(local_epsilon: jax.Array, num_categories: jax.Array) -> ClonesParameters:
    """The closed form's parameters [L] for k-ary randomized response (Corollary 4.2; CL-S10).

    p = k / ((k+1)(E+k-1)), q = (E-1)/(E+k-1), E = e^epsilon. The corollary's condition,
    epsilon <= log(n / (16 log(2/delta))), does not imply the one of Theorem 4.1 unless E >= k + 1, and at n = 1000,
    k = 300, epsilon = 1.46, delta = 1e-6 its pair has 108 delta: it is not offered. The condition on p n is checked
    instead.
    """
    k = num_categories
    growth = expm1(local_epsilon)
    parameters = three_component_parameters(k / ((k + 1.0) * (growth + k)), growth / (growth + k))
    return parameters._replace(local_epsilon=local_epsilon)
