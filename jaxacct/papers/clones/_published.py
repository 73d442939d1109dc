"""NOT A BOUND: tails of the pair's loss, earlier curves recalled, and calibration of frequency estimation.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", section 5, section 7 and Figure 2. Each function says
whether it is a bound of a paper at hand, one that is only recalled (its statement was not checked against its source),
or an estimate; none may be relied on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jax, jnp
from jaxacct._precision import Kernel
from jaxacct.divergence.kernels import WIDEST_WINDOW, clones_delta, clones_lane_bytes, clones_window
from jaxacct.papers._asking import (
    Floats,
    counts,
    inner_probability,
    log_of,
    non_negative,
    plain,
    positive,
    probability,
    shuffle_of,
)
from jaxacct.special import expm1, log1p, sinh, xp


class TailMasses(NamedTuple):
    """Logarithms [L] of P[loss > epsilon] and Q[loss > epsilon]."""

    log_p: jax.Array
    log_q: jax.Array


def clones_tails(
    epsilon: jax.Array, num_reports: jax.Array, clone_prob: jax.Array, local_epsilon: jax.Array, *, window: int
) -> TailMasses:
    """Tails [L] of the privacy loss of the clones pair, not bounds; arguments as for `clones_delta`.

    They are accurate to 1e-11 if every count is summed and no loss equals epsilon, and to about 1e-3 if they come from
    the contour, which smooths the steps of the tail.
    """
    at = clones_delta(epsilon, num_reports, clone_prob, local_epsilon, window=window)
    return TailMasses(jnp.logaddexp(at.log_delta.upper, epsilon + at.log_tail), at.log_tail)


def balle_blanket_delta_lanes(epsilon: jax.Array, num_reports: jax.Array, local_epsilon: jax.Array) -> jax.Array:
    """`balle_blanket_delta` [L] with h = e^(eps - 2 eps0): recalled, from its authors' code, in closed form."""
    g, h = jnp.exp(-local_epsilon), jnp.exp(epsilon - 2.0 * local_epsilon)
    b = jnp.exp(local_epsilon) * (1.0 - h)
    c = jnp.exp(local_epsilon) * (jnp.exp(2.0 * epsilon) + 1.0) - 2.0 * g * h
    valid = (epsilon > 0) & (epsilon < local_epsilon)
    b, c = jnp.where(valid, b, 1.0), jnp.where(valid, c, 1.0)
    z = jnp.where(valid, expm1(epsilon), 1.0) * b / c
    k = c / (b * b) * ((1.0 + z) * log1p(z) - z)
    difference = jnp.exp(num_reports * log1p(g * expm1(-k))) - jnp.exp(num_reports * log1p(-g))
    delta = b / (g * num_reports * log1p(z)) * difference
    return jnp.where(valid, jnp.clip(delta, 0.0, 1.0), jnp.where(epsilon >= local_epsilon, 0.0, 1.0))


def cheu_binary_epsilon_lanes(num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array) -> jax.Array:
    """`cheu_binary_epsilon` [L], recalled."""
    blanket = 2.0 * num_reports / (jnp.exp(local_epsilon) + 1.0)
    four = jnp.log(4.0) - log_delta
    valid = blanket >= 14.0 * four
    y = jnp.where(valid, blanket - jnp.sqrt(2.0 * blanket * (jnp.log(2.0) - log_delta)), 1.0)
    return jnp.where(valid, jnp.sqrt(32.0 * four / y) * (1.0 - y / num_reports), jnp.inf)


def balle_adaptive_epsilon_lanes(num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array) -> jax.Array:
    """`balle_adaptive_epsilon` [L], recalled."""
    excess = jnp.exp(1.5 * local_epsilon) * expm1(local_epsilon)
    return 0.5 * excess * excess / num_reports + excess * jnp.sqrt(-2.0 * log_delta / num_reports)


def sampling_with_replacement_epsilon_lanes(
    num_reports: jax.Array, local_epsilon: jax.Array, log_delta: jax.Array
) -> jax.Array:
    """`sampling_with_replacement_epsilon` [L], an estimate."""
    growth = expm1(local_epsilon)
    single = log1p(growth / num_reports)
    return (jnp.sqrt(-num_reports * log_delta) + growth) * single


def frequency_mean_squared_error_lanes(
    num_reports: jax.Array, local_epsilon: jax.Array, num_categories: jax.Array
) -> jax.Array:
    """`frequency_mean_squared_error` [L], an estimate."""
    # E / (E-1)^2 = 1 / (4 sinh(eps/2)^2)
    half = sinh(0.5 * local_epsilon)
    return (1.0 + num_categories / (half * half)) / num_reports


def frequency_local_epsilon_lanes(epsilon: jax.Array, num_reports: jax.Array, log_delta: jax.Array) -> jax.Array:
    """`frequency_local_epsilon` [L]; above delta = 0.05 Theorem 3.1 need not confirm it."""
    ratio = epsilon * xp.sqrt(num_reports / xp.where(log_delta < 0, -log_delta, 1.0))
    first, second = ratio / 16.0, 2.0 * xp.log(xp.where(ratio > 0, ratio, 1.0) / 10.0)
    local = xp.where(ratio <= 1.0, first, xp.where(epsilon < 1.0, xp.maximum(second, 0.0), 0.0))
    return xp.where((log_delta <= xp.log(0.05)) & (epsilon > 0), local, 0.0)


_tails = Kernel(
    lambda *args, window: tuple(jnp.exp(x) for x in clones_tails(*args, window=window)), lane_bytes=clones_lane_bytes
)
_balle_blanket = Kernel(balle_blanket_delta_lanes)
_cheu = Kernel(cheu_binary_epsilon_lanes)
_balle_adaptive = Kernel(balle_adaptive_epsilon_lanes)
_replacement = Kernel(sampling_with_replacement_epsilon_lanes)
_error = Kernel(frequency_mean_squared_error_lanes)
_calibrated = Kernel(frequency_local_epsilon_lanes)


def tail_masses(
    epsilon: ArrayLike, num_reports: ArrayLike, local_epsilon: ArrayLike, *, clone_prob: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """P[loss > epsilon] and Q[loss > epsilon] of the clones pair, not bounds (CL-S2).

    The loss is 2 atanh(s x), s = tanh(eps0/2); delta = P - e^epsilon Q. The tails are accurate to 1e-11 for up to some
    10^9 reports if no loss equals epsilon.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      clone_prob: p in (0, 1]; None for e^-eps0.

    Returns:
      (P, Q), each a float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> [f"{mass:.4g}" for mass in clones.tail_masses(0.2, 1000, 2.0)]
    ['0.07229', '0.05586']
    """
    n, local = counts("num_reports", num_reports), positive("local_epsilon", local_epsilon)
    p = np.exp(-local) if clone_prob is None else positive("clone_prob", probability("clone_prob", clone_prob))
    window = clones_window(n, p, max_window=WIDEST_WINDOW)
    p_tail, q_tail = _tails(non_negative("epsilon", epsilon), n, p, local, window=window)
    return plain(p_tail), plain(q_tail)


def balle_blanket_delta(epsilon: ArrayLike, num_reports: ArrayLike, local_epsilon: ArrayLike) -> Floats:
    """delta recalled from Balle et al. 2019 ("Bennett, Generic"), not relied on as a bound (CL-S20).

        b / (g n log(1 + a b/c)) ((1 - g (1 - e^-k))^n - (1 - g)^n), at most 1,

    g = e^-eps0, a = e^eps - 1, b = E (1 - e^(eps - 2 eps0)), c = E (e^(2 eps) + 1) - 2 g e^(eps - 2 eps0),
    k = (c/b^2) phi(a b/c), phi(z) = (1+z) log(1+z) - z.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> f"{clones.balle_blanket_delta(0.05, 1_000_000, 2.0):.4g}"
    '2.672e-08'
    """
    return plain(_balle_blanket(non_negative("epsilon", epsilon), *shuffle_of(num_reports, local_epsilon)))


def cheu_binary_epsilon(num_reports: ArrayLike, local_epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon recalled from Cheu et al. 2019, binary randomized response, not relied on as a bound (CL-S20).

        sqrt(32 log(4/delta)/y) (1 - y/n),   y = L - sqrt(2 L log(2/delta)),   L = 2n/(E+1) >= 14 log(4/delta);

    inf elsewhere.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.cheu_binary_epsilon(1_000_000, 2.0, 1e-6), 6)
    0.034713
    """
    return plain(_cheu(*shuffle_of(num_reports, local_epsilon), log_of(inner_probability("delta", delta))))


def balle_adaptive_epsilon(num_reports: ArrayLike, local_epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon recalled from Balle et al. 2020, not relied on as a bound (CL-S20).

        e^(3 eps0)(E-1)^2/(2n) + e^(3 eps0/2)(E-1) sqrt(2 log(1/delta)/n).

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.balle_adaptive_epsilon(1_000_000, 2.0, 1e-6), 4)
    0.6828
    """
    return plain(_balle_adaptive(*shuffle_of(num_reports, local_epsilon), log_of(inner_probability("delta", delta))))


def sampling_with_replacement_epsilon(num_reports: ArrayLike, local_epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """epsilon of n samples with replacement, an estimate: equation (13) with 1 for its unknown constant (CL-S13).

        sqrt(n log(1/delta)) e_1 + (E - 1) e_1,   e_1 = log(1 + (E-1)/n).

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 >= 0.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.sampling_with_replacement_epsilon(1_000_000, 2.0, 1e-6), 4)
    0.0238
    """
    return plain(_replacement(*shuffle_of(num_reports, local_epsilon), log_of(inner_probability("delta", delta))))


def frequency_mean_squared_error(num_reports: ArrayLike, local_epsilon: ArrayLike, num_categories: ArrayLike) -> Floats:
    """Mean squared error of local frequency estimation, an estimate: 1/n + 4 k E/(n (E-1)^2), Theorem 5.1 (CL-S12).

    This is what low-communication protocols attain for eps0 <= log k, with the quoted constant.

    Args:
      num_reports: n, whole number >= 1.
      local_epsilon: eps0 > 0.
      num_categories: k, whole number >= 2.

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.frequency_mean_squared_error(10_000, 2.0, 10), 6)
    0.000824
    """
    n, local = counts("num_reports", num_reports), positive("local_epsilon", local_epsilon)
    return plain(_error(n, local, counts("num_categories", num_categories, least=2)))


def frequency_local_epsilon(epsilon: ArrayLike, num_reports: ArrayLike, delta: ArrayLike) -> Floats:
    """The local epsilon of Theorem 5.2 for a central (epsilon, delta), for reproduction only (CL-S12).

        eps sqrt(n/L)/16 for eps <= sqrt(L/n), else log(eps^2 n/(100 L)) for eps < 1;   L = log(1/delta).

    The result is 0 if the theorem gives no safe value: its second branch is negative below 10 sqrt(L/n), and
    delta > 0.05 is not accepted. It is 5 to 200 times below what `largest_local_epsilon` finds.

    Args:
      epsilon: >= 0.
      num_reports: n, whole number >= 1.
      delta: in (0, 1).

    Returns:
      float, or float64 of the arguments' common shape.

    Raises:
      ValueError: if an argument is out of range.

    >>> from jaxacct.papers import clones
    >>> round(clones.frequency_local_epsilon(0.5, 1_000_000, 1e-6), 4)
    5.1983
    """
    args = non_negative("epsilon", epsilon), counts("num_reports", num_reports)
    return plain(_calibrated(*args, log_of(inner_probability("delta", delta))))
