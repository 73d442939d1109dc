"""NOT A BOUND: limits for many reports, and closed forms of Chen et al. 2024 as printed.

"Renyi Differential Privacy in the Shuffle Model: Enhanced Amplification Bounds", Theorems 2 and 3, Corollary 2,
Table 1. Formulas called `published` are false as bounds; docs/papers/chen.md has the counterexamples.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.papers._asking import Floats, Real, counts, non_negative, orders_of, plain, positive, probability
from jaxacct.special import tanh

ORDER_LEVELS = {
    "Erlingsson et al. 2019": (1.0, 6.0),
    "Girgis et al. 2021": (1.0, 2.0),
    "Feldman et al. 2022": (64.0, 1.0),
    "Feldman et al. 2023": (64.0, 1.0),
    "Chen et al. 2024": (2.0, 1.0),
    "lower bound": (1.0, 1.0),
}


def laplace_scale_lanes(clip: jax.Array, local_epsilon: jax.Array, num_blocks: jax.Array) -> jax.Array:
    """`laplace_scale` [L]."""
    return 2.0 * clip / (local_epsilon * num_blocks)


def asymptotic_gdp(num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """Estimates of mu [L], not bounds: 2 s / sqrt(n p), the clones pair's limit as n grows (Theorem 2, corrected)."""
    return 2.0 * tanh(0.5 * local_epsilon) / jnp.sqrt(num_reports * clone_prob)


def asymptotic_rdp(
    num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]
) -> jax.Array:
    """Estimates [A, L] of Renyi divergences, not bounds: 2 order s^2 / (n p), the clones pair's limit as n grows."""
    return 0.5 * jnp.asarray(orders, jnp.float64)[:, None] * asymptotic_gdp(num_reports, clone_prob, local_epsilon) ** 2


def published_gdp_lanes(num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """`published_gdp` [L], not a bound; inf for n < 2."""
    valid = num_reports >= 2.0
    return jnp.where(
        valid, 2.0 * jnp.exp(0.5 * local_epsilon) / jnp.sqrt(jnp.where(valid, num_reports, 2.0) - 1.0), jnp.inf
    )


def published_rdp_lanes(num_reports: jax.Array, local_epsilon: jax.Array, *, orders: Sequence[float]) -> jax.Array:
    """`published_rdp` [A, L], not a bound; inf for n < 2.

    Shuffled binary randomized response exceeds it for every local epsilon above 2 sqrt 2 at large n and order
    n e^-local_epsilon / sqrt 2: its reverse divergence is at least local_epsilon - n log(1 + e^-local_epsilon) / M.
    """
    return 0.5 * jnp.asarray(orders, jnp.float64)[:, None] * published_gdp_lanes(num_reports, local_epsilon) ** 2


def published_local_epsilon_lanes(num_reports: jax.Array, num_epochs: jax.Array, slope: jax.Array) -> jax.Array:
    """`published_local_epsilon` [L]: `published_rdp` inverted; infeasible if negative."""
    return jnp.log(0.5 * slope * (num_reports - 1.0) / num_epochs)


def order_level_rdp_lanes(
    num_reports: jax.Array, local_epsilon: jax.Array, *, name: str, orders: Sequence[float]
) -> jax.Array:
    """`order_level_rdp` [A, L], for plots and not bounds."""
    constant, growth = ORDER_LEVELS[name]
    rise = constant * jnp.exp(growth * local_epsilon) / num_reports
    return jnp.asarray(orders, jnp.float64)[:, None] * rise


_limit_gdp = Kernel(asymptotic_gdp)
_limit_rdp = Kernel(asymptotic_rdp)
_printed_gdp = Kernel(published_gdp_lanes)
_printed_rdp = Kernel(published_rdp_lanes)
_printed_local = Kernel(published_local_epsilon_lanes)
_levels = Kernel(order_level_rdp_lanes)
_scale = Kernel(laplace_scale_lanes)


def limit_gdp(num_reports: ArrayLike, clone_prob: ArrayLike, local_epsilon: ArrayLike) -> Floats:
    """mu, an estimate and not a bound: 2 tanh(local_epsilon/2) / sqrt(n p), Theorem 2 corrected (CH-S8).

    This is the clones pair's Gaussian limit as the number of reports n grows. It is too small at finite n if
    e^local_epsilon log(1/delta) is not small compared with n. Replace-one adjacency; relative error 1e-15.

    Args:
      num_reports: n, whole number >= 1.
      clone_prob: p in (0, 1]; e^-local_epsilon for a randomizer about which nothing else is known.
      local_epsilon: >= 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> round(chen.limit_gdp(1000, 0.049787068, 3.0), 4)
    0.2566
    """
    n, p = counts("num_reports", num_reports), probability("clone_prob", clone_prob)
    return plain(_limit_gdp(n, positive("clone_prob", p), _local(local_epsilon)))


def limit_rdp(num_reports: ArrayLike, clone_prob: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A], estimates and not bounds: 2 order tanh(local_epsilon/2)^2 / (n p), corrected (CH-S9).

    This is the limit for many reports n that Corollary 2 should have. Replace-one adjacency.

    Args:
      num_reports: n, whole number >= 1.
      clone_prob: p in (0, 1].
      local_epsilon: >= 0.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats: the arguments' common shape, then the orders.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> [round(float(r), 6) for r in chen.limit_rdp(10_000, 0.1353352832366127, 2.0, orders=[2, 4])]
    [0.001714, 0.003429]
    """
    n, p = counts("num_reports", num_reports), probability("clone_prob", clone_prob)
    return plain(_limit_rdp(n, positive("clone_prob", p), _local(local_epsilon), orders=orders_of(orders)))


def published_gdp(num_reports: ArrayLike, local_epsilon: ArrayLike) -> Floats:
    """mu as printed, an estimate and not a bound: 2 e^(local_epsilon/2) / sqrt(n - 1), Theorem 2 (CH-S8).

    This is the limit of a pair other than the clones pair, with Renyi divergences that are infinite at every n.

    Args:
      num_reports: n, whole number >= 2.
      local_epsilon: >= 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> round(chen.published_gdp(1000, 3.0), 4)
    0.2836
    """
    return plain(_printed_gdp(counts("num_reports", num_reports, least=2), _local(local_epsilon)))


def published_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Renyi divergences [A] as printed, false as bounds: 2 e^local_epsilon order / (n - 1), Corollary 2 (CH-S9).

    Claimed for every order >= 2 and every local epsilon. Shuffled binary randomized response exceeds it (CH-S12), for
    instance at 1000 reports, local epsilon 6 and order 2: 3.557 against 1.615.

    Args:
      num_reports: n, whole number >= 2.
      local_epsilon: >= 0.
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen, girgis
    >>> round(float(chen.published_rdp(1000, 6.0, orders=[2])[0]), 3)
    1.615
    >>> round(float(girgis.response_rdp(1000, 6.0, orders=[2], reverse=True).lower[0]), 3)
    3.557
    """
    n = counts("num_reports", num_reports, least=2)
    return plain(_printed_rdp(n, _local(local_epsilon), orders=orders_of(orders)))


def published_local_epsilon(num_blocks: ArrayLike, num_epochs: ArrayLike, slope: ArrayLike) -> Floats:
    """The local epsilon of Figure 4, an estimate: log(slope (m - 1) / (2 T)), Theorem 3 inverted (CH-S16).

    It is negative, which is infeasible, for the paper's own 100 blocks, 50 epochs and slope 0.008.

    Args:
      num_blocks: m, whole number >= 2, units shuffled in an epoch.
      num_epochs: T, whole number >= 1.
      slope: rho > 0; the budget at every order is rho times that order.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> [round(float(x), 4) for x in chen.published_local_epsilon([100, 60_000], 50, 0.008)]
    [-4.8384, 1.5686]
    """
    m, epochs = counts("num_blocks", num_blocks, least=2), counts("num_epochs", num_epochs)
    return plain(_printed_local(m, epochs, positive("slope", slope)))


def laplace_scale(clip_norm: ArrayLike, local_epsilon: ArrayLike, num_blocks: ArrayLike) -> Floats:
    """The scale of Algorithm 1's Laplace noise, not a guarantee: 2 clip / (local_epsilon m) (CH-S14, CH-S15).

    With it, one clipped gradient in an average over m gradients is local_epsilon-DP, but not a block of several
    records.

    Args:
      clip_norm: > 0, in the l1 norm.
      local_epsilon: > 0.
      num_blocks: m, whole number >= 1.

    Returns:
      float, or float64 of the arguments' common shape; in units of `clip_norm`.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import chen
    >>> chen.laplace_scale(10.0, 2.0, 100)
    0.1
    """
    clip, local = positive("clip_norm", clip_norm), positive("local_epsilon", local_epsilon)
    return plain(_scale(clip, local, counts("num_blocks", num_blocks)))


def order_level_rdp(num_reports: ArrayLike, local_epsilon: ArrayLike, *, name: str, orders: ArrayLike) -> Floats:
    """Orders of growth [A] of Table 1, for plots and not bounds: c e^(g local_epsilon) order / n (CH-S13).

    The constant c is the table's if it prints one, else 1. The table does not say where each paper's bound holds.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: >= 0.
      name: a key of `ORDER_LEVELS`, such as "Girgis et al. 2021".
      orders: real [A], each > 1.

    Returns:
      float64 [.., A], nats.

    Raises:
      ValueError: if an argument is out of range, or the name is unknown.

    >>> from jaxacct.papers import chen
    >>> sorted(chen.ORDER_LEVELS)[0]
    'Chen et al. 2024'
    >>> round(float(chen.order_level_rdp(10_000, 2.0, name="Feldman et al. 2022", orders=[4])[0]), 4)
    0.1892
    """
    if name not in ORDER_LEVELS:
        raise ValueError(f"name={name!r} must be one of {', '.join(sorted(ORDER_LEVELS))}")
    return plain(
        _levels(counts("num_reports", num_reports), _local(local_epsilon), name=name, orders=orders_of(orders))
    )


def _local(value: ArrayLike) -> Real:
    return non_negative("local_epsilon", value)
