"""Points of releases with few outputs, or with integer outputs: their own likelihood ratios, none of them moved.

Mass beyond the window of integers goes to 0 and to the first point, or to the last one and to infinity, as for
continuous noise (docs/numerics/laws.md). Neighbouring points are merged where a line is chosen, so each point is
repeated several times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxacct._jax import jnp
from jaxacct.divergence.law._law import BasePoints
from jaxacct.special import expm1

MOST_LOSS = 500.0  # largest loss of one release
_REACH = 9.0  # least number of standard deviations within the window of integers
_ROUNDED = 1.0 + 2.0**-40  # masses: exponents of at most 500 by 4 ULP of themselves, sums and quotients


def guarantee_base(epsilon: Any, delta: Any, num: int) -> BasePoints:
    """`BasePoints` (a class) of the pair that dominates every (epsilon, delta)-DP mechanism.

    Kairouz, Oh & Viswanath 2015, "The composition theorem for differential privacy", Theorem 3.3.
    """
    least = jnp.exp(-epsilon)
    mass = (1.0 - delta) * jnp.stack([jnp.ones_like(least), least]) / (1.0 + least)
    return _repeated(jnp.stack([-epsilon, epsilon]), mass, num)._replace(below=delta, beyond=delta)


def response_base(local_epsilon: Any, num_categories: Any, num: int) -> BasePoints:
    """`BasePoints` (a class) of k-ary randomized response: the two values that differ, and all others together."""
    least = jnp.exp(-local_epsilon)
    mass = jnp.stack([jnp.ones_like(least), (num_categories - 2.0) * least, least])
    log_ratio = jnp.stack([-local_epsilon, jnp.zeros_like(least), local_epsilon])
    return _repeated(log_ratio, mass / (1.0 + (num_categories - 1.0) * least), num)


def covers_discrete_gaussian(scale: Any, sensitivity: Any, num: int) -> Any:
    """bool: whether the window of `num` integers contains enough of the noise, with and without the record."""
    return 2.0 * _REACH * scale + 1.0 + sensitivity <= num


def discrete_gaussian_base(scale: Any, sensitivity: Any, num: int) -> BasePoints:
    """`BasePoints` (a class) of discrete Gaussian noise, at `num` integers around half the sensitivity."""
    first = jnp.floor(0.5 * (sensitivity - num))
    k = first + np.arange(num, dtype=np.float64)
    size = jnp.exp(-0.5 * (k / scale) ** 2)
    total = jnp.sum(size) / _ROUNDED  # the terms left out would make masses smaller
    last = first + (num - 1.0)

    def tail(distance: Any) -> Any:
        """Upper bound on the mass, on one side, of integers at that distance or further."""
        ratio = jnp.exp(-(distance + 0.5) / scale**2)
        return jnp.exp(-0.5 * (distance / scale) ** 2) / (1.0 - ratio) / total * _ROUNDED

    below, above, beyond = tail(1.0 - first), tail(last + 1.0), tail(last + 1.0 - sensitivity)
    at = np.arange(num)
    mass = size / total + jnp.where(at == 0, below, 0.0) + jnp.where(at == num - 1, above, 0.0)
    unit = sensitivity / scale**2
    return BasePoints((k - 0.5 * sensitivity) * unit, (jnp.abs(k) + sensitivity) * unit, mass, below, above, beyond)


def discrete_laplace_base(noise_parameter: Any, sensitivity: Any, num: int) -> BasePoints:
    """`BasePoints` (a class) of noise with masses proportional to e^(-a |k|), moved by the sensitivity D < `num`.

    All outputs k <= 0 have the loss -a D, and all k >= D the loss a D.
    """
    times = jnp.floor(num / (sensitivity + 1.0))
    k = jnp.floor(np.arange(num, dtype=np.float64) / times)
    fall = jnp.exp(-noise_parameter * k)
    is_end = (k == 0.0) | (k == sensitivity)
    mass = fall * jnp.where(is_end, 1.0, -expm1(-noise_parameter)) / (1.0 + jnp.exp(-noise_parameter))
    mass = jnp.where(k <= sensitivity, mass / times * _ROUNDED, 0.0)
    log_ratio = noise_parameter * (2.0 * jnp.minimum(k, sensitivity) - sensitivity)
    none = jnp.zeros_like(noise_parameter)
    return BasePoints(log_ratio, noise_parameter * sensitivity * jnp.ones(num), mass, none, none, none)


def _repeated(log_ratio: Any, mass: Any, num: int) -> BasePoints:
    """Points, each repeated `num` / K times with its share of the mass; any left over have none."""
    size = log_ratio.shape[0]
    times, rest = divmod(num, size)
    rows = jnp.repeat(jnp.stack([log_ratio, mass / times * _ROUNDED]), times, axis=1)
    exponent, masses = jnp.pad(rows, ((0, 0), (0, rest)))
    none = jnp.zeros_like(log_ratio[0])
    return BasePoints(exponent, jnp.abs(exponent), masses, none, none, none)
