"""BOUND, from above: epsilon in closed form for decompositions other than the clones pair's, and for several rounds.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones"; Kairouz, Oh & Viswanath 2015. Replace-one adjacency,
adaptive sequences of randomizers, both directions. If the condition of a closed form fails, the result is inf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.bounds.theorems import (
    ClonesParameters,
    closed_form_epsilon,
    composition_window,
    optimal_log_delta,
    pure_parameters,
)
from jaxacct.conversion import delta_from_log
from jaxacct.papers._asking import (
    Floats,
    counts,
    inner_probability,
    log_of,
    non_negative,
    plain,
    positive,
    probability,
    whole,
)
from jaxacct.special import expm1, log1mexp, log_up, tanh, up


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

    They are never better than `pure_parameters`.
    """
    pure = pure_parameters(local_epsilon)
    return pure._replace(clone_prob=2.0 / 3.0 * pure.clone_prob)


def k_ary_parameters(local_epsilon: jax.Array, num_categories: jax.Array) -> ClonesParameters:
    """The closed form's parameters [L] for k-ary randomized response (Corollary 4.2; CL-S10).

    p = k / ((k+1)(E+k-1)), q = (E-1)/(E+k-1), E = e^epsilon. The corollary's condition,
    epsilon <= log(n / (16 log(2/delta))), does not imply the one of Theorem 4.1 unless E >= k + 1, and at n = 1000,
    k = 300, epsilon = 1.46, delta = 1e-6 its pair has 108 delta, so it is not offered. The condition on p n is checked
    instead.
    """
    k = num_categories
    growth = expm1(local_epsilon)
    parameters = three_component_parameters(k / ((k + 1.0) * (growth + k)), growth / (growth + k))
    return parameters._replace(local_epsilon=local_epsilon)


_ULPS = 128  # allowed for rounding, in ulp; at most some 40 occur: functions of 4 each, and products


def simple_epsilon(step_epsilon: jax.Array, count: jax.Array, log_slack: jax.Array) -> jax.Array:
    """Epsilon [L] of `count` pure steps with delta `slack`, rounded up: Kairouz, Oh & Viswanath 2015, Theorem 3.4.

    Upper bound: the least of T e, of T e tanh(e/2) + e sqrt(2 T log(1/slack)), and of the same with
    log(e_ + e sqrt(T)/slack) for log(1/slack), e_ = 2.718... It is never below `optimal_epsilon`.
    """
    whole = count * step_epsilon
    drift = whole * tanh(0.5 * step_epsilon)
    positive = jnp.where(step_epsilon > 0, step_epsilon, 1.0)
    mixed = jnp.logaddexp(1.0, jnp.log(positive) + 0.5 * jnp.log(count) - log_slack)
    spread = jnp.minimum(mixed, jnp.where(log_slack <= 0, -log_slack, jnp.inf))
    advanced = drift + step_epsilon * jnp.sqrt(2.0 * count * spread)
    return up(jnp.minimum(whole, jnp.where(step_epsilon > 0, advanced, 0.0)), _ULPS)


def log_delta_with_slack(step_log_delta: jax.Array, count: jax.Array, log_slack: jax.Array) -> jax.Array:
    """Log delta [L] of `count` approximate steps, rounded up: log(1 - (1 - delta_1)^count (1 - slack))."""
    kept = count * log1mexp(jnp.minimum(step_log_delta, 0.0)) + log1mexp(jnp.minimum(log_slack, 0.0))
    # `kept` errs by 22 ULP of itself, which log1mexp does not enlarge, and log1mexp by 5 of its own
    return jnp.minimum(log_up(log1mexp(jnp.minimum(kept, 0.0)), 30.0), 0.0)


def _form(parameters: Callable[..., ClonesParameters]) -> Kernel:
    def epsilon(num_reports: jax.Array, log_delta: jax.Array, *args: jax.Array) -> jax.Array:
        return closed_form_epsilon(num_reports, parameters(*args), log_delta)

    return Kernel(epsilon)


_clone_only = _form(clone_only_parameters)
_three = _form(three_component_parameters)
_rederived = _form(rederived_parameters)
_k_ary = _form(k_ary_parameters)
_simple = Kernel(simple_epsilon)
_optimal = Kernel(optimal_log_delta)
_with_slack = Kernel(
    lambda log_delta, count, log_slack: delta_from_log(log_delta_with_slack(log_delta, count, log_slack))
)


def _ask(form: Kernel, num_reports: ArrayLike, delta: ArrayLike, *args: Any) -> Floats:
    return plain(form(counts("num_reports", num_reports), log_of(inner_probability("delta", delta)), *args))


def clone_only_epsilon(num_reports: ArrayLike, clone_prob: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon of reports that are clones with probability p, whatever the two candidate reports, Lemma A.1 (CL-S3).

        log(1 + 8 sqrt(L/(p n)) + 8/(p n)),   L = log(4/delta) <= p n/16; inf elsewhere.

    Upper bound, both directions; for randomizers whose candidate reports may have different supports.

    Args:
      num_reports: n, whole number >= 1.
      clone_prob: p in (0, 1].
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.clone_only_epsilon(100_000, 0.1, 1e-6), 4)
    0.2721
    """
    p = positive("clone_prob", probability("clone_prob", clone_prob))
    return _ask(_clone_only, num_reports, delta, p)


def three_component_epsilon(
    num_reports: ArrayLike, component_prob: ArrayLike, weight: ArrayLike, delta: ArrayLike
) -> Floats:
    """epsilon of randomizers split in three, p Q_1(x_0) + p Q_1(x_1) + p Q_0 + .., Theorem 4.1 (CL-S9).

        log(1 + q (4 sqrt(2 log(4 q/delta)/(p n)) + 4/(p n))),   p n >= 8 log(4 q/delta); inf elsewhere.

    Upper bound, both directions. The paper's guarantee is (epsilon, q delta); here delta is what is guaranteed.

    Args:
      num_reports: n, whole number >= 1.
      component_prob: p in (0, 1/3].
      weight: q in [0, 1], of Q_1 in the candidates' own reports.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.three_component_epsilon(100_000, 0.05, 0.5, 1e-6), 4)
    0.1422
    """
    p, q = _component(component_prob), probability("weight", weight)
    return _ask(_three, num_reports, delta, p, q)


def _component(value: ArrayLike) -> Any:
    p = positive("component_prob", value)
    if (p > 1.0 / 3.0).any():
        raise ValueError(f"component_prob={value!r} must be <= 1/3")
    return p


def rederived_epsilon(num_reports: ArrayLike, local_epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon of pure randomizers by way of Theorem 4.1, p = e^-eps0/3 and q = tanh(eps0/2) (CL-S11).

    Upper bound, both directions, never better than Theorem 3.1 (`jaxacct.epsilon`, method "closed form"). It is at most
    local_epsilon, and inf if the condition of Theorem 4.1 fails.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.rederived_epsilon(100_000, 1.0, 1e-6), 4)
    0.086
    """
    return _ask(_rederived, num_reports, delta, non_negative("local_epsilon", local_epsilon))


def k_ary_epsilon(
    num_reports: ArrayLike, local_epsilon: ArrayLike, num_categories: ArrayLike, delta: ArrayLike
) -> Floats:
    """epsilon of k-ary randomized response in closed form, Corollary 4.2 with the condition it needs (CL-S10).

    This is `three_component_epsilon` at p = k/((k+1)(E+k-1)), q = (E-1)/(E+k-1), E = e^eps0. Upper bound, both
    directions, at most local_epsilon. The corollary's own condition is not sufficient unless E >= k + 1; here the
    result is inf if p n is too small.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.
      num_categories: k, whole number >= 2.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.k_ary_epsilon(100_000, 2.0, 10, 1e-6), 4)
    0.1062
    """
    local, k = non_negative("local_epsilon", local_epsilon), counts("num_categories", num_categories, least=2)
    return _ask(_k_ary, num_reports, delta, local, k)


def simple_composition_epsilon(step_epsilon: ArrayLike, num_steps: ArrayLike, slack: ArrayLike) -> Floats:
    """epsilon of T steps, each epsilon_1-DP, with delta `slack`, by a closed composition (CL-S15, GI-S20).

        min of T e, T e tanh(e/2) + e sqrt(2 T log(1/slack)), and the same with log(2.718.. + e sqrt(T)/slack).

    Kairouz, Oh & Viswanath 2015, Theorem 3.4. Upper bound, any adjacency; never below the optimal composition.

    Args:
      step_epsilon: e >= 0.
      num_steps: T, whole number >= 1.
      slack: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.simple_composition_epsilon(0.1, 100, 1e-6), 4)
    5.7561
    """
    epsilon, count = non_negative("step_epsilon", step_epsilon), counts("num_steps", num_steps)
    return plain(_simple(epsilon, count, log_of(inner_probability("slack", slack))))


def optimal_composition_delta(
    epsilon: ArrayLike, step_epsilon: ArrayLike, step_delta: ArrayLike, *, num_steps: int
) -> Floats:
    """delta at `epsilon` of T steps, each (epsilon_1, delta_1)-DP, by the optimal composition (CL-S15, GI-S20).

        1 - (1 - delta_1)^T (1 - slack),   slack = sum_l P[Bin(T, 1/(1 + e^e1)) = l] (1 - e^(eps - (T-2l) e1))_+.

    Kairouz, Oh & Viswanath 2015, Theorem 3.3. Upper bound, any adjacency: the least delta that follows from
    (epsilon_1, delta_1) for each step.

    Args:
      epsilon: >= 0.
      step_epsilon: epsilon_1 > 0.
      step_delta: delta_1 in [0, 1].
      num_steps: T, whole number >= 1.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> f"{clones.optimal_composition_delta(4.0, 0.1, 1e-9, num_steps=100):.4g}"
    '3.432e-05'
    """
    count = whole("num_steps", num_steps)
    at, step = non_negative("epsilon", epsilon), positive("step_epsilon", step_epsilon)
    slack = _optimal(at, step, count, window=composition_window(count))
    return plain(_with_slack(log_of(probability("step_delta", step_delta)), count, slack))
