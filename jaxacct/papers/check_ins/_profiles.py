"""BOUND, from above, on delta of check-ins from given profiles of k shuffled reports, summed over k, for few users.

Liew, Hasegawa & Takahashi 2022, "Privacy Amplification via Shuffled Check-Ins", appendix D.1 with its first term
corrected (CI-S19: as printed, with q b D(..) of a fixed number of reports, it fails), and the direct profile, which is
never above it (CI-S23).
Replace-one adjacency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from jaxacct._jax import Array, jax, jnp
from jaxacct._precision import HostProgram
from jaxacct.papers._asking import Floats, Real, inner_probability, non_negative, number, plain, probability, whole
from jaxacct.special import down, log1p, log_binomial_pmf, log_down, log_up, pmf_rounding, up, xp

# From (epsilon [n, L], any real; numbers of reports [n, L]) to upper bounds on delta, [n, L].
Profiles = Callable[[Array, Array], Array]


def _others(num_users: int, prob: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(k = 1..n, P[Bin(n - 1, q) = k - 1] rounded up), each [n, L]."""
    k = jnp.arange(1, num_users + 1, dtype=jnp.int32).astype(jnp.float64)[:, None] + 0.0 * prob
    log_others = log_binomial_pmf(k - 1.0, jnp.full_like(k, num_users - 1.0), prob, 1.0 - prob)
    log_others = jnp.where(log_others > -jnp.inf, log_up(log_others + pmf_rounding(log_others), 1.0), -jnp.inf)
    return k, up(jnp.exp(log_others), 6)


def _up_to(total: jax.Array, num_users: int) -> jax.Array:
    """A probability that is a sum of n terms >= 0, with at most n + 16 roundings, rounded up."""
    return jnp.minimum(up(total, 2 * (num_users // 2) + 20), 1.0)


def direct_inner(epsilon: Any, num_users: int, k: Any) -> Any:
    """log(1 + (n/k)(e^eps - 1)), broadcast, rounded down: where `direct_delta_lanes` reads the profile of k reports."""
    return down(log1p(down(num_users / k * xp.expm1(epsilon), 10)), 6)


def coupled_inner(inner: Any, prob: Any, num_users: int, k: Any) -> Any:
    """inner + log(q/(1-q) (n/k - 1)), broadcast, rounded down, k < n: where `coupled_delta` reads that of k reports."""
    return log_down(inner + log_down(xp.log(prob / (1.0 - prob) * ((num_users - k) / k)), 6.0), 2.0)


def direct_delta_lanes(epsilon: jax.Array, prob: jax.Array, profiles: Profiles, *, num_users: int) -> jax.Array:
    """`direct_delta` [L], rounded up."""
    k, others = _others(num_users, prob)
    return _up_to(prob * jnp.sum(others * profiles(direct_inner(epsilon, num_users, k), k), axis=0), num_users)


def coupled_epsilon_lanes(inner: jax.Array, prob: jax.Array) -> jax.Array:
    """`coupled_epsilon` [L], rounded up: log(1 + q (e^inner - 1))."""
    return up(log1p(prob * xp.expm1(inner)), 12)  # expm1 5, log1p 4, a product


def coupled_delta_lanes(inner: jax.Array, prob: jax.Array, profiles: Profiles, *, num_users: int) -> jax.Array:
    """`coupled_delta` [L] at `coupled_epsilon`, rounded up, 0 < q < 1; D_k may be read at negative epsilons."""
    k, others = _others(num_users, prob)
    share, rest = prob + (1.0 - prob) * jnp.exp(-inner), (1.0 - prob) * -xp.expm1(-inner)  # 7 roundings each
    first = jnp.sum(others * profiles(inner + 0.0 * k, k), axis=0)
    at = coupled_inner(inner, prob, num_users, jnp.minimum(k, num_users - 0.5))
    moved = jnp.where(k < num_users, others * profiles(at, k), others)
    return _up_to(prob * (share * first + rest * jnp.sum(moved, axis=0)), num_users)


Profile: TypeAlias = Callable[[float, int], float]


def _coupled(inner: jax.Array, prob: jax.Array, first: jax.Array, moved: jax.Array, *, num_users: int) -> jax.Array:
    values = iter((first, moved))
    return coupled_delta_lanes(inner, prob, lambda *_: next(values), num_users=num_users)


_direct_program = HostProgram(
    lambda epsilon, prob, values, **static: direct_delta_lanes(epsilon, prob, lambda *_: values, **static)
)
_coupled_program = HostProgram(_coupled)
_epsilon_program = HostProgram(coupled_epsilon_lanes)


def _column(values: Iterator[float]) -> Real:
    column = np.asarray(list(values), np.float64)[:, None]
    if not np.all((column >= 0) & (column <= 1)):
        raise ValueError("profile must return numbers in [0, 1]")
    return column


def direct_delta(profile: Profile, epsilon: float, *, num_users: int, check_in_prob: float) -> Floats:
    """delta of one round of check-ins at `epsilon`, over profiles D_k of the shuffle of k reports (CI-S23).

        q sum_k P[Bin(n-1, q) = k-1] D_k(log(1 + (n/k)(e^eps - 1))).

    Upper bound if each D_k is an upper bound, both directions. `jaxacct.delta` of `CheckIn` evaluates it with the
    profiles of the clones pair, in blocks of k.

    Args:
      profile: D, a function from an epsilon >= 0 and a number of reports to delta.
      epsilon: >= 0.
      num_users: n, whole number >= 1; `profile` is called for 1..n reports.
      check_in_prob: q in [0, 1].

    Returns:
      float, at most 1.

    Raises:
      ValueError: if an argument is out of range.

    >>> import math
    >>> from jaxacct.papers import check_ins
    >>> def alone(epsilon, num_reports):  # local epsilon 1, without amplification
    ...     return max(0.0, (math.e - math.exp(epsilon)) / (math.e + 1.0))
    >>> round(check_ins.direct_delta(alone, 0.1, num_users=10, check_in_prob=0.3), 6)
    0.111149
    """
    n, prob = whole("num_users", num_users), float(probability("check_in_prob", number("check_in_prob", check_in_prob)))
    at = float(non_negative("epsilon", number("epsilon", epsilon)))
    values = _column(profile(float(direct_inner(np.float64(at), n, k)), k) for k in range(1, n + 1))
    return plain(_direct_program(np.asarray([at]), np.asarray([prob]), values, num_users=n)[0])


def coupled_epsilon(inner_epsilon: float, *, check_in_prob: float) -> Floats:
    """epsilon at which `coupled_delta` holds: log(1 + q (e^inner - 1)) (CI-S19).

    Args:
      inner_epsilon: >= 0.
      check_in_prob: q in (0, 1).

    Returns:
      float, rounded up.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import check_ins
    >>> round(check_ins.coupled_epsilon(0.5, check_in_prob=0.3), 6)
    0.177825
    """
    at = non_negative("inner_epsilon", number("inner_epsilon", inner_epsilon))
    return plain(_epsilon_program(at, inner_probability("check_in_prob", number("check_in_prob", check_in_prob))))


def coupled_delta(profile: Profile, inner_epsilon: float, *, num_users: int, check_in_prob: float) -> Floats:
    """delta of one round of check-ins at `coupled_epsilon`, by coupling rounds with and without the user (CI-S19).

        q b sum_k o_k D_k(inner) + q (1-b) (sum_{k<n} o_k D_k(inner + log(q/(1-q) (n/k - 1))) + o_n),

    b = e^(eps - inner), o_k = P[Bin(n-1, q) = k-1], D_k the profile of the shuffle of k reports. Upper bound if each
    D_k is an upper bound; never below `direct_delta`. The first term in the paper has the shuffle of no reports, with
    which the bound is false.

    Args:
      profile: D, a function from any real epsilon and a number of reports to delta; epsilons may be negative.
      inner_epsilon: >= 0.
      num_users: n, whole number >= 1.
      check_in_prob: q in (0, 1).

    Returns:
      float, at most 1.

    Raises:
      ValueError: if an argument is out of range.

    >>> import math
    >>> from jaxacct.papers import check_ins
    >>> def alone(epsilon, num_reports):  # local epsilon 1, without amplification
    ...     return max(0.0, 1.0 - math.exp(epsilon), (math.e - math.exp(epsilon)) / (math.e + 1.0))
    >>> round(check_ins.coupled_delta(alone, 0.3, num_users=10, check_in_prob=0.3), 6)
    0.112815
    """
    n, at = whole("num_users", num_users), float(non_negative("inner_epsilon", number("inner_epsilon", inner_epsilon)))
    prob = float(inner_probability("check_in_prob", number("check_in_prob", check_in_prob)))
    first = _column(profile(at, k) for k in range(1, n + 1))
    inner = [float(coupled_inner(np.float64(at), np.float64(prob), n, k)) for k in range(1, n)]
    moved = _column(iter([*(profile(x, k) for k, x in enumerate(inner, 1)), 0.0]))
    return plain(_coupled_program(np.asarray([at]), np.asarray([prob]), first, moved, num_users=n)[0])
