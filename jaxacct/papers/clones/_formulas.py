"""NOT A BOUND: tails of the pair's loss, earlier curves recalled, and calibration of frequency estimation.

Feldman, McMillan & Talwar 2021, "Hiding Among the Clones", section 5, section 7 and Figure 2. Each function says
whether it is a bound of a paper at hand, one that is only recalled (its statement was not checked against its source),
or an estimate; none may be relied on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxacct._jax import jnp
from jaxacct._precision import Kernel
from jaxacct.divergence.kernels import clones_lane_bytes, clones_window
from jaxacct.papers._asking import (
    Floats,
    Real,
    counts,
    inner_probability,
    log_of,
    non_negative,
    plain,
    positive,
    probability,
)
from jaxacct.papers.clones import _comparison as curves
from jaxacct.papers.clones import _reductions as lanes
from jaxacct.papers.clones._tails import clones_tails

_tails = Kernel(
    lambda *args, window: tuple(jnp.exp(x) for x in clones_tails(*args, window=window)), lane_bytes=clones_lane_bytes
)
_balle_blanket = Kernel(curves.balle_blanket_delta)
_cheu = Kernel(curves.cheu_binary_epsilon)
_balle_adaptive = Kernel(curves.balle_adaptive_epsilon)
_replacement = Kernel(curves.sampling_with_replacement_epsilon)
_error = Kernel(lanes.frequency_mean_squared_error)
_calibrated = Kernel(lanes.frequency_local_epsilon)


def _shuffle(num_reports: ArrayLike, local_epsilon: ArrayLike) -> tuple[Real, Real]:
    return counts("num_reports", num_reports), non_negative("local_epsilon", local_epsilon)


def tail_masses(
    epsilon: ArrayLike, num_reports: ArrayLike, local_epsilon: ArrayLike, *, clone_prob: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """P[loss > epsilon] and Q[loss > epsilon] of the clones pair, no bounds (CL-S2).

    The loss is 2 atanh(s x), s = tanh(eps0/2); delta = P - e^epsilon Q. To 1e-11 for up to some 10^9 reports where no
    loss equals epsilon.

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
    window = clones_window(n, p, max_window=2**19)
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
    return plain(_balle_blanket(non_negative("epsilon", epsilon), *_shuffle(num_reports, local_epsilon)))


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
    return plain(_cheu(*_shuffle(num_reports, local_epsilon), log_of(inner_probability("delta", delta))))


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
    return plain(_balle_adaptive(*_shuffle(num_reports, local_epsilon), log_of(inner_probability("delta", delta))))


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
    return plain(_replacement(*_shuffle(num_reports, local_epsilon), log_of(inner_probability("delta", delta))))


def frequency_mean_squared_error(num_reports: ArrayLike, local_epsilon: ArrayLike, num_categories: ArrayLike) -> Floats:
    """Mean squared error of local frequency estimation, an estimate: 1/n + 4 k E/(n (E-1)^2), Theorem 5.1 (CL-S12).

    What low-communication protocols attain for eps0 <= log k, with the quoted constant.

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

    0 where the theorem has none that is safe: its second branch is negative below 10 sqrt(L/n), and delta > 0.05 is
    refused. 5 to 200 times below what `largest_local_epsilon` finds.

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
